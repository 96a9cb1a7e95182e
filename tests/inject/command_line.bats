# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The command line of shift-inject: what it refuses, and what a dry run says.

load inject

@test "bad usage: status 2, one line, nothing made" {
	while read -r words; do
		# shellcheck disable=SC2086
		run shift-inject $words
		expect_status 2 || { echo "$words"; false; }
		expect_line '^shift-inject: ' || { echo "$words"; false; }
	done <<-END
		lossy --nic lo
		loss
		loss --nic lo
		loss --rate 1%
		loss --nic lo --rate 200%
		loss --nic lo --rate 1
		loss --nic lo --rate 0%
		loss --nic lo --rate -1%
		loss --nic lo --rate 0x5%
		loss --nic lo --rate 1% --burst 0
		loss --nic lo --rate 1% --direction up
		loss --nic lo --rate 1% --peer 10.0.0
		loss --nic lo --rate 1% --qpn 0x1000000
		loss --nic lo --rate 1% extra
		loss --nic lo --rate 1% --period 2s
		loss --nic lo --rate 1% --for
		loss --nic lo --rate 1% --for soon
		loss --nic lo --rate 1% --for 0
		loss --nic lo:x --rate 1%
		flap --nic lo
		flap --nic lo --period 0
		flap --nic lo --period 5ms
		flap --nic lo --period -2s
		flap --nic lo --period 2s --duty 100%
		flap --nic lo --period 2s --jitter 120%
		flap --nic lo --period 2s --count 0
		drop-larger --nic lo
		drop-larger big --nic lo
		drop-larger 100000 --nic lo
		mtu --nic lo
		delay --nic lo
		delay --nic lo --time 2h
		delay --nic lo --time 5ms --jitter 10ms
		rate --nic lo --limit fast
		rate --nic lo --limit 1
		sigstop
		sigstop --pid x
		cpu-throttle --pid 1 --share 101%
		qp-error
		undo
		undo --all x
		undo --all --drop
		list x
	END
	[ ! -e "$SHIFT_INJECT_DIR" ]
}

@test "what there is not: status 3, one line" {
	for words in 'loss --nic mlx5_77 --rate 1%' 'down --nic ../lo' 'sigstop --pid 4194303' \
		'qp-error --qpn 17' 'undo loss-1'; do
		# shellcheck disable=SC2086
		SHIFT_RUN_DIR=$BATS_TEST_TMPDIR run shift-inject $words
		expect_status 3
		expect_line '^shift-inject: '
	done
}

@test "the NIC of the default route, and of the ssh session, is refused" {
	default_route() {
		ip addr add 192.0.2.1/24 dev v0
		ip route add default via 192.0.2.2
		shift-inject down --nic v0 --for 10ms && false || [ $? -eq 4 ]
		shift-inject down --nic v1 --for 100ms
		shift-inject down --nic v0 --for 100ms --yes-i-mean-it
		ip route del default
		shift-inject down --nic v0 --for 100ms
		export SSH_CONNECTION='192.0.2.9 40000 192.0.2.1 22'
		shift-inject down --nic v0 --for 10ms && false || [ $? -eq 4 ]
		shift-inject down --nic v0 --dry-run && false || [ $? -eq 4 ]
		# The way back to the client, by whatever address it came.
		export SSH_CONNECTION='192.0.2.9 40000 203.0.113.1 22'
		shift-inject down --nic v0 --for 10ms && false || [ $? -eq 4 ]
		shift-inject down --nic v1 --for 10ms
		ip addr add fe80::77/64 dev v0 nodad
		export SSH_CONNECTION='fe80::9%v0 40000 fe80::77%v0 22'
		shift-inject down --nic v0 --for 10ms && false || [ $? -eq 4 ]
		export SSH_CONNECTION='2001:db8::9 40000 fe80::77%v0 22'
		shift-inject down --nic v0 --for 10ms && false || [ $? -eq 4 ]
		shift-inject down --nic v1 --for 10ms
	}
	run -0 --separate-stderr in_netns default_route
	[ "$(grep -c 'carries' <<<"$stderr")" -eq 6 ]
}

@test "without CAP_NET_ADMIN: status 5, one line" {
	run setpriv --bounding-set -all --inh-caps -all --reuid 65534 --clear-groups \
		env SHIFT_INJECT_DIR=/tmp shift-inject blackhole --nic lo --yes-i-mean-it
	[ "$status" -ne 127 ] && [ "$status" -ne 1 ] || skip "setpriv: $output"
	expect_status 5
	expect_line 'CAP_NET_ADMIN'
}

@test "a NIC whose packets bypass the kernel: refused, with what works" {
	export SHIFT_INJECT_SYS=$BATS_TEST_TMPDIR/sys
	mkdir -p "$SHIFT_INJECT_SYS/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs" \
		"$SHIFT_INJECT_SYS/class/infiniband/mlx5_0/device"
	echo lo >"$SHIFT_INJECT_SYS/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0"
	for fault in blackhole 'loss --rate 1%' 'delay --time 5ms' 'pause --period 1s'; do
		# shellcheck disable=SC2086
		run shift-inject $fault --nic mlx5_0
		expect_status 4
		expect_line 'never meet the kernel.*what works: down, up, flap, congest, mtu, addr-move, unbind, pcie-downgrade$'
	done
	# Also by the name of its netdev, and while it has no GIDs.
	run shift-inject blackhole --nic lo
	expect_status 4
	rm "$SHIFT_INJECT_SYS/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0"
	mkdir -p "$SHIFT_INJECT_SYS/class/infiniband/mlx5_0/device/net/lo"
	run shift-inject blackhole --nic mlx5_0
	expect_status 4
	expect_line 'never meet the kernel'
	echo lo >"$SHIFT_INJECT_SYS/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0"
	rm -r "$SHIFT_INJECT_SYS/class/infiniband/mlx5_0/device"
	for fault in unbind pcie-downgrade; do
		run shift-inject $fault --nic mlx5_0
		expect_status 4
		expect_line 'mlx5_0 is no device on a PCI bus'
	done
}

@test "--peer: an IPv4 address written as one of IPv6 is one of IPv4" {
	peers() {
		shift-inject loss --rate 1% --nic v0 --dry-run --peer ::ffff:192.0.2.9
		shift-inject loss --rate 1% --nic v0 --dry-run --peer 2001:DB8::9
	}
	run in_netns peers
	expect_status 0
	expect_match 'from 192.0.2.9'
	expect_match 'from 2001:db8::9'
}

@test "a dry run shows what it would do, and does nothing" {
	dry() {
		state >before 2>&1 || true
		while read -r words; do
			shift-inject $words --dry-run --nic v0 | grep '^would: ' || exit
		done <<-END
			down
			flap --period 2s
			loss --rate 1%
			blackhole
			mtu 1400
			addr-move
			delay --time 5ms
			delay --time 5ms --peer 10.0.0.1
			pause --period 1s
		END
		state 2>&1 | diff before -
	}
	run in_netns dry
	expect_status 0
	expect_match 'would: set link v0 down'
	expect_match 'would: set link v0 up'
	expect_match 'would: add qdisc clsact to v0'
	expect_match 'would: add filter bpf "shift-inject:loss-[0-9]*" to v0 ingress: 1 % of packets, in'
}
