# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Processes that only look as if they had NICs (tests/stats/stats_live), and do what they are told. On top of driven.bash.
# shellcheck shell=bash disable=SC2164  # bats fails where cd does

live_setup() {
	cd "$BATS_TEST_TMPDIR"
	unset SHIFT_JOB SHIFT_KV
	export SHIFT_RUN_DIR=$PWD/run
	# What is started by shift-run has libshift.so before the sanitizer.
	export ASAN_OPTIONS=log_path=$PWD/sanitizer:verify_asan_link_order=0 UBSAN_OPTIONS=log_path=$PWD/sanitizer
}

live_teardown() { # PID...: processes to end, besides those that were driven
	local pid
	cd "$BATS_TEST_TMPDIR"
	for pid in "${PID[@]}" "$@"; do kill -CONT "$pid" && kill -9 "$pid"; done 2>/dev/null || true
	[ "${BATS_TEST_COMPLETED:-}" = 1 ] || tail -n 20 ./*.out told ./*.err etcd.log 2>/dev/null || true
	! cat sanitizer.* 2>/dev/null
}

live() { # NAME JOB [REPORT_DIR]; $WITHIN: words before it
	local name=$1
	shift
	# shellcheck disable=SC2086
	drive "$name" ${WITHIN:-} "$BUILDDIR/tests/stats/stats_live" "$@"
	wait_until 30 grep -q ready "$name.out"
}

order() { # NAME COMMAND...: it is told, and has done it
	local name=$1 before
	before=$(grep -c 'done' "$name.out" || true)
	tell "$@"
	wait_until 30 answered "$name" "$before"
}

answered() { # NAME BEFORE
	[ "$(grep -c 'done' "$1.out")" -gt "$2" ]
}
