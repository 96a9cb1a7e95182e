# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Faults of packets: they compose, hit only the packets that they are for, and leave the queues of others alone.

load inject

# Runs a function that ends with 77 if the kernel lacks a qdisc that it needs, clsact for example.
packets_in_netns() { # FUNCTION
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

@test "faults of packets compose; of link and of queue there is one at a time" {
	overlap() {
		state() { tc qdisc show; tc filter show dev v0 ingress; }
		state >before
		shift-inject blackhole --nic v0 >one & one=$!
		wait_until 30 test -s one
		shift-inject loss --rate 1% --nic v0 >two & two=$!
		shift-inject down --nic v0 >three & three=$!
		wait_until 30 test -s two
		wait_until 30 test -s three
		shift-inject list
		shift-inject flap --period 1s --nic v0 && exit 1 || [ $? -eq 4 ]
		kill $one
		wait $one
		tc filter show dev v0 ingress | grep -q shift-inject:loss
		kill -9 $two
		kill $three
		wait $three
		same_as before || wait_until 30 same_as before
	}
	run in_netns overlap
	expect_status 0
	expect_match 'down-[0-9]* is active there, and excludes flap'
	expect_match 'blackhole-[0-9]* .* active .*0 of 0 packets hit|blackhole-[0-9]* .* active '
}

@test "two duplicates on one NIC: each packet comes three times, and no copy is copied" {
	twice() {
		tc qdisc add dev v1 clsact || exit 77
		# Packets that the kernel sends by itself would be counted too.
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
				wait_until 30 test -s said$i
			done
			before=$(cat /sys/class/net/v1/statistics/rx_packets)
			for i in 1 2 3 4 5; do echo >/dev/udp/192.0.2.2/9; done
			wait_until 30 sh -c "shift-inject list --json | jq -e '[.faults[].hit] == [5, 5]'"
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
		wait_until 30 test -s said
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
