# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# When a fault begins and ends, and the events that are printed.

load inject

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
		wait_until 30 listed
		shift-inject down --nic v0 --for 10ms
		shift-inject undo --all
		wait $pid
		[ ! -s said ]
		same_as before
		ip addr add 192.0.2.1/24 dev v0
		shift-inject down --nic v0 --after 4s >said & pid=$!
		wait_until 30 listed
		ip route add default via 192.0.2.2
		wait $pid && exit 1 || [ $? -eq 4 ]
		[ ! -s said ]
		[ ! -e "$SHIFT_INJECT_DIR"/down-$pid.json ]
	}
	run in_netns waiting
	expect_status 0
	expect_match 'carries this host.s default route'
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
		wait_until 30 test -s said
		kill -9 $(jq '.steps[0].pid' "$SHIFT_INJECT_DIR"/cpu-stress-$pid.json)
		wait $pid && exit 1 || [ $? -eq 1 ]
		jq -es '.[-1] | .event == "end" and .reason == "error" and .undone' said
		# A journal that cannot be undone, and that bars all other faults.
		rm said
		shift-inject down --nic v0 >said & pid=$!
		wait_until 30 test -s said
		journal=$SHIFT_INJECT_DIR/down-$pid.json
		kill_both $pid down
		jq '.steps += [{"kind": "magic"}]' "$journal" >stuck
		cat stuck >"$journal"
		shift-inject down --nic v1 --for 10ms >said && exit 1 || [ $? -eq 6 ]
		[ ! -s said ]
		shift-inject down --nic v1 --for 10ms --json >said && exit 1 || [ $? -eq 6 ]
		[ ! -s said ]
	}
	run in_netns said
	expect_status 0
}
