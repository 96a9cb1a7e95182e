# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Faults of an HCA on its PCI bus, on a tree of files like that of one.

load inject

# A tree of files like that of an HCA whose PCI Express port runs at 8 GT/s: $SHIFT_INJECT_SYS, $port/config.
fake_hca() {
	export SHIFT_INJECT_SYS=$BATS_TEST_TMPDIR/sys
	local bus=$SHIFT_INJECT_SYS/bus/pci
	port=$SHIFT_INJECT_SYS/devices/pci0000:00/0000:00:01.0
	hca=$port/0000:01:00.0
	local gids=$SHIFT_INJECT_SYS/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs
	mkdir -p "$bus/drivers/mlx5_core" "$hca/net/v0" "$gids"
	echo v0 >"$gids/0"
	ln -s "$bus" "$port/subsystem"
	ln -s "$bus" "$hca/subsystem"
	ln -s "$bus/drivers/mlx5_core" "$hca/driver"
	ln -s "$hca" "$SHIFT_INJECT_SYS/class/infiniband/mlx5_0/device"
	# A capability list (status 0x10) of one, PCI Express at 0x40; link status and control 2: 8 GT/s.
	head -c 256 /dev/zero >"$port/config"
	poke 6 10; poke 52 40; poke 64 10; poke 82 03; poke 112 03
}

# Bytes of the port's config, by their place.
poke() { # PLACE HEX
	printf '%b' "\x$2" | dd of="$port/config" bs=1 seek="$1" conv=notrunc status=none
}

peek() { # PLACE
	od -An -tx1 -j "$1" -N 1 "$port/config" | tr -d ' '
}

@test "pcie-downgrade: the port is told, and told otherwise; a link that does not slow down is no success" {
	slow() {
		fake_hca
		poke 82 01 # as a link would do
		shift-inject pcie-downgrade --nic mlx5_0 >said & pid=$!
		wait_until 30 test -s said
		[ "$(peek 112) $(peek 80)" = '01 20' ]
		kill -9 $pid
		given_back() { [ "$(peek 112)" = 03 ] && ! ls "$SHIFT_INJECT_DIR"/*.json 2>/dev/null; }
		wait_until 30 given_back
		poke 82 03
		status=0
		shift-inject pcie-downgrade --nic mlx5_0 2>errors || status=$?
		[ $status -eq 1 ] && grep -q 'its link does not slow down$' errors && given_back
		poke 6 00 # no capabilities
		shift-inject pcie-downgrade --nic mlx5_0 || [ $? -eq 4 ]
	}
	run in_netns slow
	expect_status 0
}

@test "unbind: refused where the driver's other interfaces or virtual functions would be gone" {
	unbinds() {
		fake_hca
		shift-inject unbind --nic mlx5_0 --dry-run >said
		grep -q 'would: write 0000:01:00.0 to .*/mlx5_core/unbind' said
		mkdir "$hca/net/eth7"
		shift-inject unbind --nic mlx5_0 2>errors || [ $? -eq 4 ]
		grep -q '0000:01:00.0 is eth7 too' errors
		rmdir "$hca/net/eth7"
		echo 2 >"$hca/sriov_numvfs"
		shift-inject unbind --nic mlx5_0 2>errors || [ $? -eq 4 ]
		grep -q 'has virtual functions' errors
		shift-inject unbind --nic v1 2>errors || [ $? -eq 4 ]
		grep -q 'v1 is no device on a PCI bus: unbind is not possible' errors
	}
	run in_netns unbinds
	expect_status 0
}
