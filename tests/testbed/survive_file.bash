# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The hooks of a .bats file that uses survive.bash: one pair of guests for all its tests. Each test finds no fault, and no
# program of the test before.
# shellcheck shell=bash disable=SC2034,SC2154  # variables for, and of, survive.bash

load ../helper
load survive

setup_file() {
	cd "$BUILDDIR" || return
	survive_up "${KERNEL:-6.1}"
	out=$BATS_FILE_TMPDIR
	calibrate
	export rate
}

teardown_file() {
	survive_down
}

setup() {
	cd "$BUILDDIR" || return
	out=$BATS_TEST_TMPDIR
	shift_env=(SHIFT_LOST_ATOMIC=continue)
	client='' server=''
}

teardown() {
	kill_programs
	outlives_panic mend_all # a program that ended with its link down leaves packets that panic 6.1 now
}

# $stock_env: what goes into the program's environment.
stock_env=()
# Within 15 s of the fault the program has ended with an error, or stands still.
stock_errs_or_hangs() { # FAULT PROGRAM OPTIONS...
	local fault=$1
	shift
	unprotected
	prefix+=("${stock_env[@]}")
	"$starter" "$@" -n "$(count_for 30 "$@")" && carries a 0 && break_it "$fault" || return
	wait_until 15 over_or_still || {
		failed "$fault: stock verbs go on"
		return 1
	}
	kill_programs
}

over_or_still() {
	if ! running "$client"; then
		wait "$client" && return 1
		return 0
	fi
	still
}

# No fault: status 0, and standard output and error are as with stock verbs, but for numbers, lines of UCX's progress and shift-run's
# own.
same_as_stock() { # PROGRAM OPTIONS...
	local host what shift_env=("${shift_env[@]}" SHIFT_LOG_FILE=/tmp/same.log)
	duration=(-n "$(count_for 4 "$@")")
	for what in unprotected protected; do
		$what
		[ "$what" = protected ] || prefix+=("${stock_env[@]}")
		"$starter" "$@" "${duration[@]}" && finish || return
		[ "$client_status $server_status" = '0 0' ] || {
			failed "$what: $*"
			return 1
		}
		for host in a b; do
			shape_of <(sed '/^\[thread/d; /^shift-run: /d' "$out/$host.out" "$out/$host.err") >"$out/$host.$what"
		done
	done
	for host in a b; do
		diff "$out/$host."{unprotected,protected} || return
	done
}
