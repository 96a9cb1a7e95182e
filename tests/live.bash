# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Processes that only look as if they had NICs (tests/stats/stats_live), and do what they are told. On top of driven.bash.
# shellcheck shell=bash

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
