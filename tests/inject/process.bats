# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Faults of processes.

load inject

@test "sigstop: refused for a process that is stopped already" {
	sleep 60 3>&- &
	pid=$!
	kill -STOP $pid
	stopped() { grep -q 'State:.T' /proc/$pid/status; }
	wait_until 30 stopped
	run shift-inject sigstop --pid $pid --for 10ms
	stopped
	kill -9 $pid
	expect_status 4
	expect_line "process $pid is stopped already"
}

@test "cpu-stress: processes compute, and are gone with it, also with kill -9" {
	shift-inject cpu-stress --cpus 2 >"$BATS_TEST_TMPDIR/said" 3>&- &
	pid=$!
	wait_until 30 test -s "$BATS_TEST_TMPDIR/said"
	children=$(jq '.steps[].pid' "$SHIFT_INJECT_DIR/cpu-stress-$pid.json")
	[ "$(wc -w <<<"$children")" -eq 2 ]
	for child in $children; do kill -0 "$child"; done
	kill -9 $pid
	gone() {
		for child in $children; do ! kill -0 "$child" 2>/dev/null || return 1; done
	}
	wait_until 30 gone
	journal_gone() { ! ls "$SHIFT_INJECT_DIR"/*.json 2>/dev/null; }
	wait_until 30 journal_gone
}

@test "a launcher that ignores SIGCHLD: a process that has ended is seen all the same" {
	timeout --foreground 60 env --ignore-signal=CHLD shift-inject cpu-stress --cpus 1 >said 2>errors 3>&- &
	pid=$!
	wait_until 30 test -s said
	kill -9 "$(jq '.steps[].pid' "$SHIFT_INJECT_DIR"/cpu-stress-*.json)"
	status=0
	wait $pid || status=$?
	[ $status -eq 1 ]
	grep -q 'a process of it has ended' errors
}

@test "qp-error: said to the control sockets of protected processes" {
	export SHIFT_RUN_DIR=$BATS_TEST_TMPDIR/run
	mkfifo "$BATS_TEST_TMPDIR/in"
	"$BUILDDIR/tests/stats/stats_live" j <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" 3>&- &
	exec 9>"$BATS_TEST_TMPDIR/in"
	echo add 17 >&9
	wait_until 30 grep -q done "$BATS_TEST_TMPDIR/out"
	run shift-inject qp-error --qpn 17 --dry-run 9>&-
	expect_status 0
	expect_line 'would: say "qp-error 17" to .*/j/[0-9]*.sock'
	run shift-inject qp-error --qpn 17 9>&-
	expect_status 3
	expect_line '^shift-inject: not possible here$'
	exec 9>&-
	wait $!
}
