# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Faults of the link, which take addresses, routes and neighbours with them: all of it comes back.

load inject

@test "faults of the link: undone after their time, INT, TERM, HUP, USR1 and KILL" {
	links() {
		all_faults <<-END
			down
			flap --period 10s --jitter
			mtu 1300
			addr-move
		END
	}
	run in_netns links
	expect_status 0
}

@test "faults of the link: routes without a carrier, alike, of a source address, and neighbours come back" {
	belongings() {
		in_namespace() { # duplicates of addresses are looked for, as hosts do
			for i in /proc/sys/net/ipv6/conf/*/accept_dad; do echo 1 >$i; done
			ip addr add 192.0.2.1/24 dev v0
			ip -6 addr add 2001:db8::1/64 dev v0 nodad
			ip -6 addr add 2001:db8::2/64 dev v0
			wait_until 30 calm
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
		wait_until 30 calm
		ip route show | grep -q linkdown
		comes_and_goes down --nic v0
		comes_and_goes addr-move --nic v0
	}
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
	run in_netns sources
	expect_status 0
}

@test "what cannot be brought back is said: nexthop objects are refused, a lost route is not undone" {
	lost() {
		ip addr add 192.0.2.1/24 dev v0
		ip route add 198.51.100.0/24 via 192.0.2.9
		shift-inject down --nic v0 >said & pid=$!
		wait_until 30 test -s said
		# The gateway cannot be reached from the addresses in the journal.
		journal=$SHIFT_INJECT_DIR/down-$pid.json
		kill_both $pid down
		ip addr del 192.0.2.1/24 dev v0
		ip addr add 198.51.100.7/24 dev v0
		jq '.steps[0].belongings |= .[1:]' "$journal" >without
		cat without >"$journal"
		shift-inject undo --all && exit 1 || [ $? -eq 6 ]
		[ -e "$journal" ]
		# Once it is given up, it excludes no other fault.
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
		wait_until 30 calm
		comes_and_goes mtu 1300 --nic v0
		comes_and_goes down --nic v0
		if ip link add link v0 name v0.5 type vlan id 5 2>/dev/null; then
			ip link add link v0 name v0.6 type vlan id 6
			echo 0 >/proc/sys/net/ipv6/conf/v0.5/accept_dad
			ip link set v0.5 up
			ip addr add 2001:db8:5::1/64 dev v0.5
			wait_until 30 calm
			comes_and_goes down --nic v0
			comes_and_goes mtu 1300 --nic v0
		fi
		shift-inject mtu 1300 --nic v0 >said & pid=$!
		wait_until 30 test -s said
		shift-inject down --nic m0 --for 10ms && exit 1 || [ $? -eq 4 ]
		shift-inject down --nic m0 --dry-run && exit 1 || [ $? -eq 4 ]
		shift-inject down --nic v1 --for 10ms
		kill $pid
		wait $pid
		rm said
		shift-inject down --nic m0 >said & pid=$!
		wait_until 30 test -s said
		shift-inject mtu 1300 --nic v0 --for 10ms && exit 1 || [ $? -eq 4 ]
		kill $pid
		wait $pid
	}
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
	run in_netns small
	[ "$status" -ne 77 ] || skip "no IPv6"
	expect_status 0
	expect_match '^shift-inject: mtu 1279: below 1280 IPv6 is taken off v0'
}

@test "another interface of the same name is not given the old one's things" {
	renewed() {
		ip addr add 192.0.2.1/24 dev v0
		shift-inject down --nic v0 >said & pid=$!
		wait_until 30 test -s said
		ip link del v0
		ip link add v0 type veth peer name v1
		kill $pid
		wait $pid
		ip -br addr show v0
		ip -br link show v0 | grep -q DOWN
		! ip addr show v0 | grep -q 192.0.2.1
	}
	run in_netns renewed
	expect_status 0
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

@test "addr-move: nobody waits for its --time, nor does SIGTERM" {
	away() {
		ip addr add 192.0.2.1/24 dev v0
		wait_until 30 calm
		state >before
		shift-inject addr-move --nic v0 --time 10s >said & pid=$!
		wait_until 30 test -s said
		! ip addr show dev v0 | grep -q 192.0.2.1
		start=$(date +%s%3N)
		shift-inject down --nic v1 --for 10ms
		kill $pid
		wait $pid
		[ $(($(date +%s%3N) - start)) -lt 5000 ]
		wait_until 30 same_as before
		rm said
		shift-inject addr-move --nic v0 --time 300ms --json >said & pid=$!
		back() { ip addr show dev v0 | grep -q 192.0.2.1; }
		wait_until 30 test -s said
		! back
		wait_until 30 back
		kill $pid
		wait $pid
		wait_until 30 same_as before
	}
	run in_netns away
	expect_status 0
}
