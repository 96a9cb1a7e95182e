# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shellcheck shell=sh
#
# Makes a booted guest a host of the testbed: names, addresses, soft-RoCE on every rail. Run by the
# agent; what it prints on "rail" lines is what shift-testbed knows of the host:
#   rail HOST INDEX NIC NETDEV ADDRESS GID_INDEX
#
# In: TB_LAYOUT pair|single, TB_HOST a|b, TB_NUMBER 1|2, TB_RAILS n, TB_MODULES a module tree.

# RoCE's largest path MTU, 4096, and its headers.
MTU=4200

# One process for many operations: each costs 30 ms under emulation.
ip_batch() { ip -batch -; }
rdma_batch() { rdma -b /dev/stdin; }

netdev_of_mac() { # MAC
	for dev in /sys/class/net/*; do
		read -r mac <"$dev/address"
		[ "$mac" != "$1" ] || { echo "${dev##*/}"; return; }
	done
	echo "no network interface with address $1" >&2
	return 1
}

# A duplicate address check would hold the link-local GID back for a second.
quick_ipv6() {
	for knob in /proc/sys/net/ipv6/conf/*/accept_dad /proc/sys/net/ipv6/conf/*/accept_ra; do
		echo 0 >"$knob"
	done
}

mount_modules() {
	dir=/lib/modules/$(uname -r)
	mkdir -p "$dir"
	mount --bind "/host$TB_MODULES/$(uname -r)" "$dir"
}

names() {
	echo "$1" >/proc/sys/kernel/hostname
	# Core files stay where the program ran, as without a testbed.
	echo core.%e.%p >/proc/sys/kernel/core_pattern
	{
		echo "127.0.0.1 localhost${2:+ $2}"
		# Only here: who asks which name this host has (torchrun) and tells others must not say "localhost".
		echo "10.0.255.1 a"
		echo "10.0.255.2 b"
	} >/etc/hosts
}

wait_active() { # NIC...
	for nic in "$@"; do
		tries=0
		while read -r state </sys/class/infiniband/"$nic"/ports/1/state && [ "${state#4}" = "$state" ]; do
			tries=$((tries + 1))
			[ $tries -lt 500 ] || { echo "$nic: port is $state after 5 s"; return 1; }
			sleep 0.01
		done
	done
}

pair() {
	mgmt=$(netdev_of_mac "52:54:00:00:ff:0$TB_NUMBER")
	names "$TB_HOST"
	r=0 links='' nics=''
	while [ $r -lt "$TB_RAILS" ]; do
		dev=$(netdev_of_mac "52:54:00:00:0$r:0$TB_NUMBER")
		[ "$dev" = "eth$((r + 1))" ] || { echo "rail $r is $dev, not eth$((r + 1))" >&2; exit 1; }
		links="$links
link set $dev mtu $MTU up
addr add 10.0.$((r + 1)).$TB_NUMBER/24 dev $dev"
		nics="$nics
link add mlx5_$r type rxe netdev $dev"
		r=$((r + 1))
	done
	printf '%s\n' "link set lo up" "link set $mgmt up" "addr add 10.0.255.$TB_NUMBER/24 dev $mgmt" \
		"$links" | ip_batch
	echo "$nics" | rdma_batch
	modprobe rdma_ucm
	r=0
	while [ $r -lt "$TB_RAILS" ]; do
		wait_active "mlx5_$r"
		echo "rail $TB_HOST $r mlx5_$r eth$((r + 1)) 10.0.$((r + 1)).$TB_NUMBER 1"
		r=$((r + 1))
	done
}

# Both hosts in one guest: rail r joins eth$((r+1)) of a and eth$((r+1+rails)) of b through a bridge, so
# that one side's cable can be pulled (its port of the bridge goes down) without touching the other's.
# With addresses of its own the kernel would route between the two inside; so GID 0 (fe80::) only, and
# no RDMA-CM: what asks for it is told at once that there is none.
single() {
	names single single
	echo "install rdma_ucm echo 'no RDMA-CM in layout single: use layout pair' >&2; false" \
		>/etc/modprobe.d/shift-testbed.conf
	r=0 links='' nics=''
	while [ $r -lt "$TB_RAILS" ]; do
		links="$links
link add sw$r mtu $MTU type bridge
link set sw$r up"
		for side in a b; do
			n=$r
			[ $side = a ] || n=$((r + TB_RAILS))
			links="$links
link add eth$((n + 1)) mtu $MTU type veth peer name sw$r$side mtu $MTU
link set sw$r$side master sw$r up
link set eth$((n + 1)) up"
			nics="$nics
link add mlx5_$n type rxe netdev eth$((n + 1))"
		done
		r=$((r + 1))
	done
	printf '%s\n' "link set lo up" "$links" | ip_batch
	echo "$nics" | rdma_batch
	r=0
	while [ $r -lt "$TB_RAILS" ]; do
		wait_active "mlx5_$r" "mlx5_$((r + TB_RAILS))"
		echo "rail a $r mlx5_$r eth$((r + 1)) - 0"
		echo "rail b $r mlx5_$((r + TB_RAILS)) eth$((r + 1 + TB_RAILS)) - 0"
		r=$((r + 1))
	done
}

quick_ipv6
mount_modules
case $TB_LAYOUT in
pair) pair ;;
single) single ;;
esac
