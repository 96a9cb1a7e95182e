# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The hooks of a .bats file that uses survive.bash: one pair of guests for all its tests. Each test finds no fault, and no
# program of the test before.
# shellcheck shell=bash disable=SC2034  # variables for survive.bash

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
