# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-inject on this machine: its command line, and faults in a network namespace of the test's own.

load helper

setup() {
	export SHIFT_INJECT_DIR=$BATS_TEST_TMPDIR/journals
	PATH=$BUILDDIR/cmd/shift-inject:$PATH
	unset SSH_CONNECTION
}

# Runs the rest of the test, which is the function of that name, where there is nothing but lo and a
# pair of interfaces, v0 and v1.
in_netns() { # FUNCTION
	unshare --net --mount true 2>/dev/null || skip "no network namespace without root"
	unshare --net --mount bash -c '
		set -eu
		mount -t sysfs sysfs /sys
		ip link add v0 type veth peer name v1
		for i in /proc/sys/net/ipv6/conf/*/accept_dad; do echo 0 >$i; done
		ip link set lo up; ip link set v0 up; ip link set v1 up
		trap "jobs -p | xargs -r kill -9" EXIT
		. "$SRCDIR/tests/wait.bash"
		eval "$1"
		wait_until 10 calm
		'"$1" bash "$(declare -f)" 3>&-
}

# What a fault may change, and must put back. Counters and ages aside.
state() {
	ip -d link show
	ip addr show | sed 's/valid_lft.*//'
	ip -4 route show table all
	ip -6 route show table all | sort # the kernel's own of several interfaces change places
	ip neigh show nud permanent
	ip neigh show proxy
	tc qdisc show
	for i in v0 v1; do
		tc filter show dev $i ingress
		tc filter show dev $i egress
	done
	ls "$SHIFT_INJECT_DIR"/*.json 2>/dev/null || true
}

# Links just set up take a moment.
calm() {
	! { ip link show; ip addr show; } | grep -qE 'NO-CARRIER|LOWERLAYERDOWN|tentative'
}

same_as() { # BEFORE: now, or soon (IPv6 addresses take a moment)
	state | diff "$1" - >"$1.diff"
}

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

@test "journals that others could write, or that may not be read: status 5" {
	mkdir "$SHIFT_INJECT_DIR"
	for mode in 777 770; do
		chmod $mode "$SHIFT_INJECT_DIR"
		run shift-inject cpu-stress --for 10ms
		expect_status 5
		expect_line 'not a directory of this user alone'
	done
	chmod 700 "$SHIFT_INJECT_DIR"
	for words in list 'undo --all'; do
		run setpriv --bounding-set -all --inh-caps -all --reuid 65534 --clear-groups \
			env SHIFT_INJECT_DIR=/proc/1/map_files shift-inject $words
		[ "$status" -ne 127 ] && [ "$status" -ne 1 ] || skip "setpriv: $output"
		expect_status 5
		expect_line 'run it as root'
	done
}

@test "journals in a relative directory, which the guard would not find: status 2, nothing made" {
	cd "$BATS_TEST_TMPDIR"
	for words in 'cpu-stress --for 10ms' list 'undo --all'; do
		# shellcheck disable=SC2086
		SHIFT_INJECT_DIR=journals run shift-inject $words
		expect_status 2
		expect_line 'SHIFT_INJECT_DIR=journals: not an absolute path'
	done
	[ ! -e journals ]
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
		wait_until 10 test -s said
		[ "$(peek 112) $(peek 80)" = '01 20' ]
		kill -9 $pid
		given_back() { [ "$(peek 112)" = 03 ] && ! ls "$SHIFT_INJECT_DIR"/*.json 2>/dev/null; }
		wait_until 10 given_back
		poke 82 03
		status=0
		shift-inject pcie-downgrade --nic mlx5_0 2>errors || status=$?
		[ $status -eq 1 ] && grep -q 'its link does not slow down$' errors && given_back
		poke 6 00 # no capabilities
		shift-inject pcie-downgrade --nic mlx5_0 || [ $? -eq 4 ]
	}
	cd "$BATS_TEST_TMPDIR"
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
	cd "$BATS_TEST_TMPDIR"
	run in_netns unbinds
	expect_status 0
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
	cd "$BATS_TEST_TMPDIR"
	run in_netns dry
	expect_status 0
	expect_match 'would: set link v0 down'
	expect_match 'would: set link v0 up'
	expect_match 'would: add qdisc clsact to v0'
	expect_match 'would: add filter bpf "shift-inject:loss-[0-9]*" to v0 ingress: 1 % of packets, in'
}

# Every fault that this machine's kernel has, ended in every way, leaves no trace.
all_faults() {
	ip addr add 192.0.2.1/24 dev v0
	ip addr add 2001:db8::1/64 dev v0
	ip route add 198.51.100.0/24 via 192.0.2.9
	ip -6 route add 2001:db8:2::/64 via 2001:db8::9
	wait_until 10 calm
	state >before
	while read -r words; do
		for end in 'for' INT TERM HUP USR1 KILL; do
			if [ $end = for ]; then
				shift-inject $words --nic v0 --for 60ms || exit
			else
				rm -f said
				shift-inject $words --nic v0 >said &
				wait_until 10 test -s said || exit
				state >during
				! cmp -s before during || { echo "$words: nothing is different"; exit 1; }
				kill -$end $!
				status=0
				wait $! || status=$?
				[ $status -eq $([ $end = KILL ] && echo 137 || echo 0) ] || exit
			fi
			wait_until 10 same_as before || { echo "$words, $end"; cat before.diff; exit 1; }
		done
	done
}

@test "faults of the link: undone after their time, INT, TERM, HUP, USR1 and KILL" {
	links() {
		all_faults <<-END
			down
			flap --period 10s --jitter
			mtu 1300
			addr-move
		END
	}
	cd "$BATS_TEST_TMPDIR"
	run in_netns links
	expect_status 0
}

# In a namespace: a fault of these words comes and goes, and all is as it was.
comes_and_goes() { # FAULT [ARGS...]
	state >before
	shift-inject "$@" --for 100ms || exit
	wait_until 10 same_as before || { cat before.diff; exit 1; }
}

@test "faults of the link: routes without a carrier, alike, of a source address, and neighbours come back" {
	belongings() {
		in_namespace() { # duplicates of addresses are looked for, as hosts do
			for i in /proc/sys/net/ipv6/conf/*/accept_dad; do echo 1 >$i; done
			ip addr add 192.0.2.1/24 dev v0
			ip -6 addr add 2001:db8::1/64 dev v0 nodad
			ip -6 addr add 2001:db8::2/64 dev v0
			wait_until 10 calm
			ip route add 198.51.100.0/24 via 192.0.2.9
			ip route append 198.51.100.0/24 via 192.0.2.10
			ip -6 route add 2001:db8:2::/64 via 2001:db8::9 src 2001:db8::2
			ip route add 203.0.113.0/24 nexthop via 192.0.2.9 nexthop via 192.0.2.10
			ip neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev v0 nud permanent
			ip neigh add 2001:db8::9 lladdr 02:00:00:00:00:09 dev v0 nud permanent
			ip neigh add proxy 192.0.2.77 dev v0
		}
		in_namespace
		comes_and_goes down --nic v0
		comes_and_goes flap --period 40ms --nic v0
		comes_and_goes addr-move --nic v0
		# And without a carrier, which routes say.
		ip link set v1 down
		calm() { ! ip addr show | grep -q tentative; }
		wait_until 10 calm
		ip route show | grep -q linkdown
		comes_and_goes down --nic v0
		comes_and_goes addr-move --nic v0
	}
	cd "$BATS_TEST_TMPDIR"
	run in_netns belongings
	expect_status 0
}

@test "addr-move: routes of other interfaces that have a moved address as their source stay" {
	sources() {
		ip addr add 192.0.2.1/24 dev v0
		ip addr add 198.51.100.1/24 dev v1
		ip route add 203.0.113.0/24 dev v1 src 192.0.2.1
		comes_and_goes addr-move --nic v0
	}
	cd "$BATS_TEST_TMPDIR"
	run in_netns sources
	expect_status 0
}

@test "what cannot be brought back is said: nexthop objects are refused, a lost route is not undone" {
	lost() {
		ip addr add 192.0.2.1/24 dev v0
		ip route add 198.51.100.0/24 via 192.0.2.9
		shift-inject down --nic v0 >said & pid=$!
		wait_until 10 test -s said
		# The gateway is not to be reached from what is in the journal.
		journal=$SHIFT_INJECT_DIR/down-$pid.json
		kill -9 $(jq .guard "$journal") $pid
		wait $pid || true
		ip addr del 192.0.2.1/24 dev v0
		ip addr add 198.51.100.7/24 dev v0
		jq '.steps[0].belongings |= .[1:]' "$journal" >without
		cat without >"$journal"
		shift-inject undo --all && exit 1 || [ $? -eq 6 ]
		[ -e "$journal" ]
		# Given up, it is in nobody's way.
		cp "$journal" kept
		shift-inject down --nic v0 --for 10ms && exit 1 || [ $? -eq 6 ]
		shift-inject undo --drop down-$pid && exit 1 || [ $? -eq 6 ]
		cmp kept "${journal%json}dropped"
		shift-inject list | grep 'no fault is active'
		shift-inject down --nic v0 --for 10ms
		cp kept "$journal"
		ip addr add 192.0.2.1/24 dev v0
		shift-inject undo --all
		ip route show | grep 'via 192.0.2.9'
		ip nexthop add id 7 via 192.0.2.9 dev v0 || exit 77
		shift-inject down --nic v0 --for 10ms && exit 1 || [ $? -eq 4 ]
		shift-inject mtu 1400 --nic v0 --for 10ms
		ip nexthop show | grep -q 'id 7'
	}
	cd "$BATS_TEST_TMPDIR"
	run in_netns lost
	[ "$status" -ne 77 ] || skip "this kernel has no nexthop objects"
	expect_status 0
	expect_match 'v0: a route did not come back: Nexthop has invalid gateway'
	expect_match 'down-[0-9]*: given up; its journal is now .*.dropped'
	expect_match 'v0 has nexthop objects'
}

@test "interfaces on the NIC come back too, and exclude faults of their own" {
	stacked() {
		ip link add m0 link v0 type macvlan || exit 77
		echo 0 >/proc/sys/net/ipv6/conf/m0/accept_dad
		ip link set m0 up
		ip addr add 192.0.2.1/24 dev m0
		wait_until 10 calm
		comes_and_goes mtu 1300 --nic v0
		comes_and_goes down --nic v0
		if ip link add link v0 name v0.5 type vlan id 5 2>/dev/null; then
			ip link add link v0 name v0.6 type vlan id 6
			echo 0 >/proc/sys/net/ipv6/conf/v0.5/accept_dad
			ip link set v0.5 up
			ip addr add 2001:db8:5::1/64 dev v0.5
			wait_until 10 calm
			comes_and_goes down --nic v0
			comes_and_goes mtu 1300 --nic v0
		fi
		shift-inject mtu 1300 --nic v0 >said & pid=$!
		wait_until 10 test -s said
		shift-inject down --nic m0 --for 10ms && exit 1 || [ $? -eq 4 ]
		shift-inject down --nic m0 --dry-run && exit 1 || [ $? -eq 4 ]
		shift-inject down --nic v1 --for 10ms
		kill $pid
		wait $pid
		rm said
		shift-inject down --nic m0 >said & pid=$!
		wait_until 10 test -s said
		shift-inject mtu 1300 --nic v0 --for 10ms && exit 1 || [ $? -eq 4 ]
		kill $pid
		wait $pid
	}
	cd "$BATS_TEST_TMPDIR"
	run in_netns stacked
	[ "$status" -ne 77 ] || skip "this kernel has no macvlan"
	expect_status 0
	[ "$(grep -c 'is active there, and excludes' <<<"$output")" -eq 3 ]
}

@test "mtu: not below what IPv6 needs, where there is IPv6" {
	small() {
		[ -e /proc/sys/net/ipv6/conf/v0 ] || exit 77
		state >before
		shift-inject mtu 1279 --nic v0 --for 10ms && exit 1 || [ $? -eq 4 ]
		shift-inject mtu 1280 --nic v0 --for 10ms
		same_as before
		ip link set v0 mtu 1000
		comes_and_goes mtu 900 --nic v0
	}
	cd "$BATS_TEST_TMPDIR"
	run in_netns small
	[ "$status" -ne 77 ] || skip "no IPv6"
	expect_status 0
	expect_match '^shift-inject: mtu 1279: below 1280 IPv6 is taken off v0'
}

@test "another interface of the same name is not given the old one's things" {
	renewed() {
		ip addr add 192.0.2.1/24 dev v0
		shift-inject down --nic v0 >said & pid=$!
		wait_until 10 test -s said
		ip link del v0
		ip link add v0 type veth peer name v1
		kill $pid
		wait $pid
		ip -br addr show v0
		ip -br link show v0 | grep -q DOWN
		! ip addr show v0 | grep -q 192.0.2.1
	}
	cd "$BATS_TEST_TMPDIR"
	run in_netns renewed
	expect_status 0
}

# What ends with 77 where the kernel lacks a queue that it needs, among others clsact.
packets_in_netns() { # FUNCTION
	cd "$BATS_TEST_TMPDIR" || return
	run in_netns "$1"
	[ "$status" -ne 77 ] || skip "this kernel lacks a qdisc"
	[[ $output != *'has this kernel'* ]] || skip "this kernel lacks cls_bpf"
	expect_status 0
}

@test "faults of packets: undone after their time, INT, TERM, HUP, USR1 and KILL" {
	packets() {
		tc qdisc add dev v1 clsact || exit 77
		all_faults <<-END
			blackhole
			loss --rate 10% --burst
			ack-drop --direction both --qpn 17
			drop-larger 1024 --peer 2001:db8::2
			corrupt --rate 1%
			duplicate --rate 50% --direction out
			ecn-mark --rate 100%
		END
	}
	packets_in_netns packets
}

@test "a flap goes down and up with its period, and comes back as it was" {
	flapping() {
		ip addr add 2001:db8::1/64 dev v0
		shift-inject flap --nic v0 --period 600ms --count 3 --duty 25% --json
		ip -br addr show v0
	}
	run in_netns flapping
	expect_status 0
	jq -es '[.[] | .event] == ["on", "begin", "off", "on", "off", "on", "off", "end"]' \
		<<<"$(grep '^{' <<<"$output")"
	# one down and up: 600 ms, 150 of them down; this machine may be busy
	grep '^{' <<<"$output" | jq -es '[.[] | select(.event == "on" or .event == "off") | .unix_s] |
		((.[4] - .[0]) | . > 0.7 and . < 3)'
	expect_match 'v0.*UP.*2001:db8::1/64'
	grep '^{' <<<"$output" | jq -es '.[-1] | .reason == "count" and .undone'
}

@test "faults of packets compose; of link and of queue there is one at a time" {
	overlap() {
		state() { tc qdisc show; tc filter show dev v0 ingress; }
		state >before
		shift-inject blackhole --nic v0 >one & one=$!
		wait_until 10 test -s one
		shift-inject loss --rate 1% --nic v0 >two & two=$!
		shift-inject down --nic v0 >three & three=$!
		wait_until 10 test -s two
		wait_until 10 test -s three
		shift-inject list
		shift-inject flap --period 1s --nic v0 && exit 1 || [ $? -eq 4 ]
		kill $one
		wait $one
		tc filter show dev v0 ingress | grep -q shift-inject:loss
		kill -9 $two
		kill $three
		wait $three
		same_as before || wait_until 10 same_as before
	}
	cd "$BATS_TEST_TMPDIR"
	run in_netns overlap
	expect_status 0
	expect_match 'down-[0-9]* is active there, and excludes flap'
	expect_match 'blackhole-[0-9]* .* active .*0 of 0 packets hit|blackhole-[0-9]* .* active '
}

@test "two duplicates on one NIC: each packet comes three times, and no copy is copied" {
	twice() {
		tc qdisc add dev v1 clsact || exit 77
		# What it sends by itself would be counted too.
		for i in v0 v1; do
			echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6
		done
		for direction in in out; do
			nic=$([ $direction = in ] && echo v1 || echo v0)
			ip addr replace 192.0.2.1/24 dev v0
			ip neigh replace 192.0.2.2 lladdr $(cat /sys/class/net/v1/address) dev v0
			rm -f said?
			for i in 1 2; do
				shift-inject duplicate --rate 100% --direction $direction --nic $nic --json >said$i &
				wait_until 10 test -s said$i
			done
			before=$(cat /sys/class/net/v1/statistics/rx_packets)
			for i in 1 2 3 4 5; do echo >/dev/udp/192.0.2.2/9; done
			wait_until 10 sh -c "shift-inject list --json | jq -e '[.faults[].hit] == [5, 5]'"
			jobs -p | xargs kill
			wait
			jq -e 'select(.event == "end") | .hit == 5' said1
			jq -e 'select(.event == "end") | .hit == 5' said2
			[ $direction = in ] ||
				[ $(($(cat /sys/class/net/v1/statistics/rx_packets) - before)) -eq 15 ]
		done
	}
	packets_in_netns twice
}

@test "qdiscs and filters of others stay" {
	others() {
		tc qdisc add dev v0 clsact || exit 77
		tc qdisc add dev v1 ingress
		tc filter add dev v0 ingress protocol ip u32 match ip protocol 6 0xff flowid 1:1 || exit 77
		tc qdisc add dev v0 root handle 5: tbf rate 1gbit burst 1mb latency 1s || exit 77
		state >before
		shift-inject blackhole --nic v0 --for 50ms
		same_as before
		for words in 'delay --time 1ms --nic v0' 'pause --period 1s --nic v0' 'blackhole --nic v1'; do
			shift-inject $words && exit 1 || [ $? -eq 4 ]
			same_as before
		done
	}
	cd "$BATS_TEST_TMPDIR"
	run in_netns others
	[ "$status" -ne 77 ] || skip "this kernel lacks u32 or tbf"
	expect_status 0
}

@test "an empty clsact of a user's stays: with many queues, and with a fault of another namespace" {
	empty_clsact() {
		ip link add w0 numtxqueues 300 type veth peer name w1
		tc qdisc add dev w0 root handle 1: mq || exit 77
		for i in v0 w0; do tc qdisc add dev $i clsact || exit 77; done
		unshare --net --mount sh -c 'mount -t sysfs sysfs /sys
			ip link add v0 type veth peer name v1
			exec shift-inject blackhole --nic v0' >said & pid=$!
		wait_until 10 test -s said
		jq -e --argjson number "$(cat /sys/class/net/v0/ifindex)" '.ifindex == $number' \
			"$SHIFT_INJECT_DIR/blackhole-$pid.json"
		for i in v0 w0; do
			shift-inject blackhole --nic $i --for 50ms
			tc qdisc show dev $i clsact | grep clsact
		done
		kill $pid
		wait $pid
	}
	packets_in_netns empty_clsact
}

@test "undo --all ends what is active, and what was left behind" {
	undoing() {
		state >before
		shift-inject down --nic v0 >one &
		shift-inject sigstop --pid $(sleep 60 >/dev/null & echo $!) >two & two=$!
		wait_until 10 test -s one
		wait_until 10 test -s two
		# Neither the process nor its guard is left to undo it.
		id=$(cut -d: -f1 two)
		stopped=$(jq .process "$SHIFT_INJECT_DIR/$id.json")
		kill -9 $(jq .guard "$SHIFT_INJECT_DIR/$id.json")
		kill -9 $two
		wait $two || true
		shift-inject list
		grep 'State:.T' /proc/$stopped/status
		shift-inject undo --all
		! grep 'State:.T' /proc/$stopped/status
		kill $stopped
		same_as before
		shift-inject undo --all
	}
	cd "$BATS_TEST_TMPDIR"
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns undoing
	expect_status 0
	expect_match 'sigstop-[0-9]* .*left behind'
	expect_match 'down-[0-9]*: undone'
}

@test "a journal from before a reboot is dropped" {
	rebooted() {
		shift-inject down --nic v0 >said & pid=$!
		wait_until 10 test -s said
		kill -9 $pid
		wait_until 10 sh -c "! ls $SHIFT_INJECT_DIR/*.json 2>/dev/null"
		shift-inject down --nic v0 >again & pid=$!
		wait_until 10 test -s again
		cp "$SHIFT_INJECT_DIR/down-$pid.json" old
		kill $pid
		wait $pid
		jq '.boot_id = "another" | .pid = 4194303 | .guard = 4194303' old >"$SHIFT_INJECT_DIR/down-$pid.json"
		ip link set v0 down
		shift-inject list
		shift-inject undo --all
		shift-inject list
		ip link show v0 | grep -q 'state DOWN'
	}
	cd "$BATS_TEST_TMPDIR"
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns rebooted
	expect_status 0
	expect_match 'gone with a reboot'
	expect_match 'no fault is active'
}

@test "a journal that cannot be read is said, with status 6, and left alone" {
	broken() {
		shift-inject "$@" && exit 1 || [ $? -eq 6 ]
	}
	unreadable() {
		broken=$SHIFT_INJECT_DIR/broken.json
		for content in '{"id": "../x' '{"id": "../x", "steps": []}' '{"id": "broken"}' ''; do
			echo "$content" >$broken
			broken list 2>&1 | grep -c "broken.json: not a journal"
			broken undo --all 2>&1 | grep -c "broken.json: not a journal"
			broken undo broken
			broken down --nic v0 --for 10ms >said
			[ ! -s said ]
			ip link show v0 | grep -q 'state UP'
			[ "$(cat $broken)" = "$content" ]
		done
		broken undo --drop broken
		shift-inject list
		# What can be read is shown, and undone.
		shift-inject down --nic v0 >said & pid=$!
		wait_until 10 test -s said
		mkdir $broken
		broken list | grep "^down-$pid .*active"
		broken undo --all | grep -x "down-$pid: undone"
		wait $pid
	}
	cd "$BATS_TEST_TMPDIR"
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns unreadable
	expect_status 0
}

# As if both were killed at once: the guard first, or it would undo.
kill_both() { # PID FAULT
	kill -9 "$(jq .guard "$SHIFT_INJECT_DIR/$2-$1.json")" "$1"
	wait "$1" || true
}

@test "a journal of more than 1 MiB is undone" {
	many_routes() {
		ip addr add 192.0.2.1/24 dev v0
		for i in {1..36}; do
			for j in {0..249}; do echo "route add 10.$i.$j.0/24 via 192.0.2.9"; done
		done | ip -batch -
		ip route show | sort >before
		shift-inject down --nic v0 >said & pid=$!
		wait_until 10 test -s said
		[ $(stat -c %s "$SHIFT_INJECT_DIR/down-$pid.json") -gt 1048576 ]
		kill -9 $pid
		wait $pid || true
		all() { ip route show | sort | cmp -s before - && ! ls "$SHIFT_INJECT_DIR"/*.json; }
		wait_until 30 all
	}
	cd "$BATS_TEST_TMPDIR"
	run in_netns many_routes
	expect_status 0
}

@test "undo: what is over by the time that the lock is free is not undone" {
	late() {
		shift-inject down --nic v0 >said & pid=$!
		wait_until 10 test -s said
		kill_both $pid down
		flock "$SHIFT_INJECT_DIR/lock" sh -c 'echo >locked; until test -e go; do sleep 0.05; done' &
		wait_until 10 test -s locked
		shift-inject undo --all >undone & undo=$!
		wait_until 10 grep -q -- "-> FLOCK .* $undo " /proc/locks
		# Somebody else has undone it, and the link is down for another reason.
		rm "$SHIFT_INJECT_DIR/down-$pid.json"
		touch go
		wait $undo
		grep -qx "down-$pid: undone" undone
		ip link show v0 | grep 'state DOWN'
	}
	cd "$BATS_TEST_TMPDIR"
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns late
	expect_status 0
}

@test "undo: each ID once, also if it is said twice; those that are not there by name" {
	shift-inject cpu-stress --cpus 1 >"$BATS_TEST_TMPDIR/said" 3>&- &
	pid=$!
	wait_until 10 test -s "$BATS_TEST_TMPDIR/said"
	run --separate-stderr shift-inject undo cpu-stress-$pid loss-1 cpu-stress-$pid
	expect_status 3
	[ "$output" = "cpu-stress-$pid: undone" ]
	[[ $stderr = *'no fault loss-1 is active'* ]]
}

# In a network namespace beside the test's, with the same names and numbers of interfaces.
beside() { # COMMAND...
	exec unshare --net --mount sh -c 'mount -t sysfs sysfs /sys
		ip link add v0 type veth peer name v1
		ip link set v0 up
		exec "$@"' sh "$@"
}

@test "faults of other network namespaces: one per process, and undo ends them" {
	namespaces() {
		sleep 60 >/dev/null & sleeper=$!
		(beside shift-inject sigstop --pid $sleeper) >one & one=$!
		(beside shift-inject down --nic v0) >two & two=$!
		wait_until 10 test -s one
		wait_until 10 test -s two
		shift-inject sigstop --pid $sleeper --for 10ms && exit 1 || [ $? -eq 4 ]
		shift-inject down --nic v0 --for 10ms
		shift-inject undo --all
		wait $one
		wait $two
		! grep 'State:.T' /proc/$sleeper/status
		# Left behind there: a process is the same here.
		(beside shift-inject sigstop --pid $sleeper) >three & three=$!
		wait_until 10 test -s three
		kill_both $three sigstop
		shift-inject undo --all
		! grep 'State:.T' /proc/$sleeper/status
	}
	cd "$BATS_TEST_TMPDIR"
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns namespaces
	expect_status 0
	expect_match 'sigstop-[0-9]* is active there, and excludes sigstop'
}

@test "a journal of a network namespace: undone there only, and dropped by its ID when that is gone" {
	gone() {
		mkfifo hold
		(beside sh -c 'shift-inject down --nic v0 >said & read -r word <hold') & holder=$!
		wait_until 10 test -s said
		id=$(cut -d: -f1 said)
		kill_both ${id#down-} down
		for words in --all $id; do
			shift-inject undo $words 2>errors && exit 1 || [ $? -eq 6 ]
			grep "$id is in another network namespace.*--net=/proc/.*/ns/net" errors
		done
		# Only a mount, or a descriptor, keeps it.
		touch name
		mount --bind /proc/$holder/ns/net name
		exec 9</proc/$holder/ns/net
		echo >hold
		wait $holder
		shift-inject undo $id && exit 1 || [ $? -eq 6 ]
		umount name
		shift-inject undo $id && exit 1 || [ $? -eq 6 ]
		exec 9<&-
		shift-inject undo --all 2>errors && exit 1 || [ $? -eq 6 ]
		grep "$id: its network namespace is gone; shift-inject undo $id drops it" errors
		# Its number is used again, by this one.
		if jq -e .netns_cookie "$SHIFT_INJECT_DIR/$id.json"; then
			jq ".netns = $(stat -Lc %i /proc/self/ns/net)" "$SHIFT_INJECT_DIR/$id.json" >new
			mv new "$SHIFT_INJECT_DIR/$id.json"
			shift-inject down --nic v0 --for 10ms
			shift-inject undo --all && exit 1 || [ $? -eq 6 ]
		fi
		shift-inject undo $id | grep -x "$id: dropped; .*gone.*"
		shift-inject undo --all
		ip link show v0 | grep 'state UP'
	}
	cd "$BATS_TEST_TMPDIR"
	mkdir -m 700 "$SHIFT_INJECT_DIR"
	run in_netns gone
	expect_status 0
}

@test "--after waits, --until-eof ends with standard input" {
	timing() {
		start=$(date +%s%3N)
		shift-inject down --nic v0 --after 300ms --for 100ms
		[ $(($(date +%s%3N) - start)) -ge 400 ]
		sleep 0.3 | shift-inject down --nic v0 --until-eof --json
	}
	run in_netns timing
	expect_status 0
	expect_match '"reason":"eof"'
}

@test "--after: it can be seen and ended by undo, excludes nothing, and looks again whether it may" {
	waiting() {
		state >before
		shift-inject down --nic v0 --after 60s >said & pid=$!
		listed() { shift-inject list | grep "down-$pid .*waiting"; }
		wait_until 10 listed
		shift-inject down --nic v0 --for 10ms
		shift-inject undo --all
		wait $pid
		[ ! -s said ]
		same_as before
		ip addr add 192.0.2.1/24 dev v0
		shift-inject down --nic v0 --after 1s >said & pid=$!
		wait_until 10 listed
		ip route add default via 192.0.2.2
		wait $pid && exit 1 || [ $? -eq 4 ]
		[ ! -s said ]
		[ ! -e "$SHIFT_INJECT_DIR"/down-$pid.json ]
	}
	cd "$BATS_TEST_TMPDIR"
	run in_netns waiting
	expect_status 0
	expect_match 'carries this host.s default route'
}

@test "addr-move: nobody waits for its --time, nor does SIGTERM" {
	away() {
		ip addr add 192.0.2.1/24 dev v0
		wait_until 10 calm
		state >before
		shift-inject addr-move --nic v0 --time 10s >said & pid=$!
		wait_until 10 test -s said
		! ip addr show dev v0 | grep -q 192.0.2.1
		start=$(date +%s%3N)
		shift-inject down --nic v1 --for 10ms
		kill $pid
		wait $pid
		[ $(($(date +%s%3N) - start)) -lt 5000 ]
		wait_until 10 same_as before
		rm said
		shift-inject addr-move --nic v0 --time 300ms --json >said & pid=$!
		back() { ip addr show dev v0 | grep -q 192.0.2.1; }
		wait_until 10 test -s said
		! back
		wait_until 10 back
		kill $pid
		wait $pid
		wait_until 10 same_as before
	}
	cd "$BATS_TEST_TMPDIR"
	run in_netns away
	expect_status 0
}

@test "--for begins when the fault does, not while it waits for others" {
	late() {
		mkdir -p "$SHIFT_INJECT_DIR"
		chmod 700 "$SHIFT_INJECT_DIR"
		flock "$SHIFT_INJECT_DIR/lock" sleep 1 &
		sleep 0.2
		shift-inject down --nic v0 --for 500ms --json
	}
	run in_netns late
	expect_status 0
	grep '^{' <<<"$output" | jq -es '(.[1].unix_s - .[0].unix_s) | . > 0.4'
}

@test "end is said if begin was: with reason error too, and not for what another left behind" {
	said() {
		shift-inject cpu-stress --cpus 1 --json >said & pid=$!
		wait_until 10 test -s said
		kill -9 $(jq '.steps[0].pid' "$SHIFT_INJECT_DIR"/cpu-stress-$pid.json)
		wait $pid && exit 1 || [ $? -eq 1 ]
		jq -es '.[-1] | .event == "end" and .reason == "error" and .undone' said
		# A journal that nobody can undo, nor goes on without.
		rm said
		shift-inject down --nic v0 >said & pid=$!
		wait_until 10 test -s said
		journal=$SHIFT_INJECT_DIR/down-$pid.json
		kill -9 $(jq .guard "$journal") $pid
		wait $pid || true
		jq '.steps += [{"kind": "magic"}]' "$journal" >stuck
		cat stuck >"$journal"
		shift-inject down --nic v1 --for 10ms >said && exit 1 || [ $? -eq 6 ]
		[ ! -s said ]
		shift-inject down --nic v1 --for 10ms --json >said && exit 1 || [ $? -eq 6 ]
		[ ! -s said ]
	}
	cd "$BATS_TEST_TMPDIR"
	run in_netns said
	expect_status 0
}

@test "sigstop: refused for a process that is stopped already" {
	sleep 60 3>&- &
	pid=$!
	kill -STOP $pid
	stopped() { grep -q 'State:.T' /proc/$pid/status; }
	wait_until 10 stopped
	run shift-inject sigstop --pid $pid --for 10ms
	stopped
	kill -9 $pid
	expect_status 4
	expect_line "process $pid is stopped already"
}

@test "cpu-stress: processes compute, and are gone with it, also with kill -9" {
	shift-inject cpu-stress --cpus 2 >"$BATS_TEST_TMPDIR/said" 3>&- &
	pid=$!
	wait_until 10 test -s "$BATS_TEST_TMPDIR/said"
	children=$(jq '.steps[].pid' "$SHIFT_INJECT_DIR/cpu-stress-$pid.json")
	[ "$(wc -w <<<"$children")" -eq 2 ]
	for child in $children; do kill -0 "$child"; done
	kill -9 $pid
	gone() {
		for child in $children; do ! kill -0 "$child" 2>/dev/null || return 1; done
	}
	wait_until 10 gone
	journal_gone() { ! ls "$SHIFT_INJECT_DIR"/*.json 2>/dev/null; }
	wait_until 10 journal_gone
}

@test "a launcher that ignores SIGCHLD: a process that has ended is seen all the same" {
	cd "$BATS_TEST_TMPDIR"
	timeout --foreground 60 env --ignore-signal=CHLD shift-inject cpu-stress --cpus 1 >said 2>errors 3>&- &
	pid=$!
	wait_until 10 test -s said
	kill -9 "$(jq '.steps[].pid' "$SHIFT_INJECT_DIR"/cpu-stress-*.json)"
	status=0
	wait $pid || status=$?
	[ $status -eq 1 ]
	grep -q 'a process of it has ended' errors
}

@test "a scenario with a mistake: status 2, file, line and field" {
	cd "$BATS_TEST_TMPDIR"
	wrong() { # LINE PATTERN CONTENT
		printf '%s\n' "$3" >x.json
		run shift-inject run x.json
		expect_status 2
		expect_line "^shift-inject: x.json:$1: .*$2"
	}
	event='{"at": "1s", "fault": "down", "nic": "lo", "for": "1s"}'
	wrong 2 'not JSON' '{"timeline":
		[}'
	wrong 1 'timeline. is needed' '{}'
	wrong 2 'nmae: not a field' '{"timeline": ['"$event"'],
		"nmae": "x"}'
	wrong 3 'timeline\[1\]: .at. is needed' '{"timeline": [
		'"$event"',
		{"fault": "down", "nic": "lo", "for": "1s"}]}'
	wrong 3 'timeline\[1\].at: before the one above' '{"timeline": [
		'"$event"',
		{"at": "0.5s", "fault": "down", "nic": "lo", "for": "1s"}]}'
	wrong 1 'timeline\[0\].fault: no such fault' '{"timeline": [{"at": "1s", "fault": "dwon"}]}'
	wrong 1 'timeline\[0\]: .for. is needed' '{"timeline": [{"at": "1s", "fault": "down", "nic": "lo"}]}'
	wrong 3 'timeline\[0\].rate: loss: --rate 200%' '{"timeline":
		[
		{"at": "1s", "fault": "loss", "nic": "lo", "for": "1s", "rate": "200%"}]}'
	# The line is that of the value.
	wrong 4 'timeline\[1\].rate: loss: --rate 0.0.1%' '{"timeline": [
		{"at": "1s", "fault": "mtu", "size": 1400, "nic": "lo", "for": "1s"},
		{"at": "1s", "fault": "loss", "nic": "lo",
		"rate": "0.0.1%",
		"for": "1s"}]}'
	wrong 3 'timeline\[0\].size: drop-larger 0: not a size' '{"timeline": [
		{"at": "1s", "fault": "drop-larger",
		"size": 0,
		"nic": "lo", "for": "1s"}]}'
	wrong 2 'timeline\[0\]: loss: --rate is needed' '{"timeline": [
		{"at": "1s", "fault": "loss",
		"nic": "lo", "for": "1s"}]}'
	# Options are not abbreviated, nor is what a scenario may not say.
	for field in dr unt hel rate; do
		wrong 2 "timeline\[0\].$field: not an option" '{"timeline": [{"at": "1s", "fault": "down", "nic": "lo", "for": "1s",
			"'$field'": true}]}'
	done
	wrong 2 'timeline\[0\].process: not an option' '{"timeline": [{"at": "1s", "fault": "down", "nic": "lo", "for": "1s",
		"process": "x"}]}'
	wrong 1 'timeline\[0\].dry-run: has no place' '{"timeline": [{"at": "1s", "fault": "down", "nic": "lo", "for": "1s", "dry-run": true}]}'
	for time in 1.2.3s . -1s 1e3 0x5s; do
		wrong 2 'timeline\[0\].at: not a time' '{"timeline":
			[{"at": "'$time'", "fault": "down", "nic": "lo", "for": "1s"}]}'
		wrong 2 'timeline\[0\].for: down: --for' '{"timeline":
			[{"at": "1s", "fault": "down", "nic": "lo", "for": "'$time'"}]}'
	done
	wrong 2 'nmae: not a field' $'\xef\xbb\xbf{"timeline": ['"$event"'],
		"nmae": "x"}'
	wrong 1 'timeline\[0\].host: not a name' '{"timeline": [{"at": "1s", "fault": "down", "nic": "lo", "for": "1s", "host": "-x"}]}'
	wrong 3 'expect\[1\]: none of' '{"timeline": ['"$event"'],
		"expect": ["no-error",
			"no-fun"]}'
	run shift-inject run nowhere.json
	expect_status 2
	expect_line 'nowhere.json: No such file'
}

@test "numbers of a scenario are as they were written" {
	cd "$BATS_TEST_TMPDIR"
	for number in 12345678901 9007199254740992 0; do
		echo '{"timeline": [{"at": "0.5", "fault": "up", "nic": "lo", "for": 0.25, "seed": '$number'}]}' >x.json
		run -0 shift-inject run --dry-run x.json
		expect_line "up --nic=lo --for=0.25 --seed=$number\$"
	done
}

@test "the scenarios that are shipped are right, and at least twelve" {
	n=0
	for file in "$SRCDIR"/faultinject/scenarios/*.json; do
		run -0 shift-inject run --dry-run "$file"
		expect_match 'expected: no-error'
		[ "$(jq -r .name "$file")" = "$(basename "$file" .json)" ]
		jq -e '.about and .without' "$file"
		n=$((n + 1))
	done
	[ $n -ge 12 ]
}

@test "random: the same seed, the same faults; what it prints can be run" {
	cd "$BATS_TEST_TMPDIR"
	shift-inject random --seed 7 --minutes 5 --print >one
	shift-inject random --seed 7 --minutes 5 --print >two
	shift-inject random --seed 8 --minutes 5 --print >three
	cmp one two
	! cmp -s one three
	shift-inject run --dry-run one
	[ "$(jq '.timeline | length' one)" -gt 20 ]
}

@test "a scenario on this host: faults in time, undone, status 0; 1 if one fails" {
	playing() {
		state() { ip -br link show | sort; ls "$SHIFT_INJECT_DIR"/*.json 2>/dev/null || true; }
		state >before
		echo '{"timeline": [{"at": "0s", "fault": "down", "nic": "v0", "for": "300ms"},
			{"at": "2s", "fault": "flap", "period": "100ms", "count": 2, "nic": "v0"}]}' >x.json
		shift-inject run x.json --json >result
		same_as before
		jq -e '.ok and ([.timeline[].status] == [0, 0])' result
		echo '{"timeline": [{"at": "0s", "fault": "down", "nic": "v0", "for": "60s"},
			{"at": "200ms", "fault": "down", "nic": "v0", "for": "60s"}]}' >x.json
		shift-inject run x.json && exit 1 || [ $? -eq 1 ]
		same_as before
		sed -i "s/, *$/]}/; 2d" x.json
		shift-inject run x.json & sleep 0.5
		kill $!
		wait $! && exit 1 || [ $? -eq 1 ]
		same_as before
	}
	cd "$BATS_TEST_TMPDIR"
	run in_netns playing
	expect_status 0
}

@test "a fault that is not over when the timeline says so holds up what comes behind it" {
	cd "$BATS_TEST_TMPDIR"
	sleep 60 3>&- &
	sleeper=$!
	stop='"fault": "sigstop", "pid": '$sleeper', "for": "200ms"}'
	echo '{"timeline": [{"at": "0s", '$stop', {"at": "200ms", '$stop', {"at": "400ms", '$stop']}' >x.json
	run -0 --separate-stderr shift-inject run x.json --json
	jq -e '.ok and ([.timeline[].status] == [0, 0, 0]) and .seconds > 0.6' <<<"$output"
	# Two that overlap on the timeline still exclude each other.
	sed -i 's/"400ms"/"300ms"/' x.json
	run -1 shift-inject run x.json
	kill -KILL $sleeper
	expect_match 'excludes sigstop'
}

@test "a host where shift-ctl fails is not one without protected processes" {
	cd "$BATS_TEST_TMPDIR"
	export SHIFT_RUN_DIR=$PWD/run SHIFT_TESTBED_DIR=$PWD/none
	mkdir bin
	# The host "broken" answers at no time, "late" at the beginning only.
	cat >bin/ssh <<-'END'
		#!/bin/sh
		while [ "$1" != -- ]; do shift; done
		case $2 in
		broken) exit 255 ;;
		late) [ ! -e was-asked ] || exit 255; touch was-asked ;;
		esac
		shift 2
		exec sh -c "$*"
	END
	chmod +x bin/ssh
	PATH=$PWD/bin:$PATH
	# One that is protected here makes all expectations hold.
	mkfifo in
	"$BUILDDIR/tests/stats/stats_live" j <in >out 3>&- &
	exec 9>in
	echo add 17 >&9
	wait_until 10 grep -q done out
	for words in 'broken beginning' 'late end'; do
		echo '{"hosts": ["one", "'"${words% *}"'"], "expect": ["no-error", "no-switch"],
			"timeline": [{"at": "0s", "fault": "cpu-stress", "cpus": 1, "for": "50ms"}]}' >x.json
		run --separate-stderr shift-inject run x.json --json 9>&-
		expect_status 1
		# shellcheck disable=SC2016
		jq -e --arg found "not known: shift-ctl failed on host ${words% *} at the ${words#* }" \
			'[.expect[] | .ok == false and .found == $found] | all' <<<"$output"
	done
	sed 's/"broken"\|"late"/"two"/' x.json >y.json
	run shift-inject run y.json 9>&-
	expect_status 0
	exec 9>&-
	wait $!
}

@test "--host over ssh: the same words there, undone when this end goes, also with kill -9" {
	mkdir "$BATS_TEST_TMPDIR/bin"
	# Joins its words for a shell, as ssh does.
	printf '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\necho "$2" >&2\nshift 2\nexec sh -c "$*"\n' \
		>"$BATS_TEST_TMPDIR/bin/ssh"
	chmod +x "$BATS_TEST_TMPDIR/bin/ssh"
	PATH=$BATS_TEST_TMPDIR/bin:$PATH
	there() {
		state >before
		for end in TERM KILL; do
			rm -f said
			shift-inject down --nic v0 --host "user@node" >said 2>errors & pid=$!
			wait_until 10 test -s said
			! same_as before
			kill -$end $pid
			status=0
			wait $pid || status=$?
			[ $status -eq $([ $end = KILL ] && echo 137 || echo 0) ]
			wait_until 10 same_as before
		done
		grep -qx user@node errors
		shift-inject down --host node --nic "v 0; true" && exit 1 || [ $? -eq 3 ]
		shift-inject down --nic v0 --host=node --for 100ms
		sleep 0.5 | timeout --foreground 20 shift-inject down --nic v0 --host=node --until-eof
		same_as before
		# Without it, our input is of no interest.
		status=0
		timeout --foreground 1 shift-inject down --nic v0 --host=node </dev/null || status=$?
		[ $status -eq 124 ] && wait_until 10 same_as before
	}
	cd "$BATS_TEST_TMPDIR"
	SHIFT_TESTBED_DIR=$BATS_TEST_TMPDIR/none run in_netns there
	expect_status 0
}

@test "qp-error: said to the control sockets of protected processes" {
	export SHIFT_RUN_DIR=$BATS_TEST_TMPDIR/run
	mkfifo "$BATS_TEST_TMPDIR/in"
	"$BUILDDIR/tests/stats/stats_live" j <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" 3>&- &
	exec 9>"$BATS_TEST_TMPDIR/in"
	echo add 17 >&9
	wait_until 10 grep -q done "$BATS_TEST_TMPDIR/out"
	run shift-inject qp-error --qpn 17 --dry-run 9>&-
	expect_status 0
	expect_line 'would: say "qp-error 17" to .*/j/[0-9]*.sock'
	run shift-inject qp-error --qpn 17 9>&-
	expect_status 3
	expect_line '^shift-inject: not possible here$'
	exec 9>&-
	wait $!
}
