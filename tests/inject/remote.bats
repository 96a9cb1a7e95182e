# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Faults of other hosts, by an ssh of the test's own.

load inject

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
			wait_until 30 test -s said
			! same_as before
			kill -$end $pid
			status=0
			wait $pid || status=$?
			[ $status -eq $([ $end = KILL ] && echo 137 || echo 0) ]
			wait_until 30 same_as before
		done
		grep -qx user@node errors
		shift-inject down --host node --nic "v 0; true" && exit 1 || [ $? -eq 3 ]
		shift-inject down --nic v0 --host=node --for 100ms
		sleep 0.5 | timeout --foreground 20 shift-inject down --nic v0 --host=node --until-eof
		same_as before
		# Without --until-eof our input does not matter.
		status=0
		timeout --foreground 1 shift-inject down --nic v0 --host=node </dev/null || status=$?
		[ $status -eq 124 ] && wait_until 30 same_as before
	}
	SHIFT_TESTBED_DIR=$BATS_TEST_TMPDIR/none run in_netns there
	expect_status 0
}
