# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The run directory on a host of several users: what others made there keeps nobody out, and is said at once.

load helper
load driven

setup() {
	cd "$BATS_TEST_TMPDIR"
	unset SHIFT_JOB SHIFT_KV SHIFT_RUN_DIR XDG_RUNTIME_DIR
	[ "$(id -u)" -eq 0 ] || skip "needs root, to be two users"
	OTHER=59872
	AS_OTHER="setpriv --reuid $OTHER --regid $OTHER --clear-groups --"
	# shellcheck disable=SC2086
	$AS_OTHER test -x "$BUILDDIR/tests/stats/stats_live" || skip "the build directory is closed to others"
	SHARED=$(mktemp -d /tmp/shift-rundir.XXXXXX)
	chmod 1777 "$SHARED"
	KV=http://127.0.0.1:1 # nobody listens there
	KVD=
}

teardown() {
	local pid
	[ -n "$KVD" ] && kill "$KVD" 2>/dev/null || true
	for pid in "${PID[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
	rm -rf "$SHARED" /tmp/shift-$OTHER /var/tmp/shift-$OTHER
}

live() { # NAME JOB
	# shellcheck disable=SC2086
	drive "$1" $AS_OTHER "$BUILDDIR/tests/stats/stats_live" "$2"
	wait_until 30 grep -q ready "$1.out"
}

@test "/tmp/shift-UID made by somebody else: everything is in /var/tmp, and is found there" {
	mkdir -m 755 /tmp/shift-$OTHER
	live p j1
	[ -e "/var/tmp/shift-$OTHER/j1/${PID[p]}.stats" ]
	# shellcheck disable=SC2086
	run -0 $AS_OTHER "$BUILDDIR/cmd/shift-ctl/shift-ctl" status --job j1
	expect_match "process ${PID[p]} stats_live"
	run -0 shift-ctl status --job j1
	expect_match "process ${PID[p]} stats_live, by user $OTHER"
	# shellcheck disable=SC2086
	$AS_OTHER "$BUILDDIR/kv/shift-kvd" --kv "$KV" --job j1 --grace 1s --foreground 3>&- &
	KVD=$!
	wait_until 30 test -S /var/tmp/shift-$OTHER/j1/kvd.sock
	rmdir /tmp/shift-$OTHER # whoever comes now still meets the others
	# shellcheck disable=SC2086
	run -0 $AS_OTHER "$BUILDDIR/kv/shift-kvd" status --job j1
	[ ! -e /tmp/shift-$OTHER ]
	hang_up p
}

@test "no directory of this user's own anywhere: one line says what to set" {
	mkdir -m 755 /tmp/shift-$OTHER /var/tmp/shift-$OTHER
	# shellcheck disable=SC2086
	run $AS_OTHER timeout 20 "$BUILDDIR/cmd/shift-run/shift-run" --job j1 --kv "$KV" --wait 1s -- true
	expect_status 125
	expect_line '^shift-run: no directory of this user.s own .*set SHIFT_RUN_DIR$'
	# shellcheck disable=SC2086
	run $AS_OTHER "$BUILDDIR/kv/shift-kvd" --kv "$KV" --job j1
	expect_line '^shift-kvd: no directory of this user.s own .*set SHIFT_RUN_DIR$'
	[ -z "$(ls /tmp/shift-$OTHER /var/tmp/shift-$OTHER | grep -v :)" ]
}

@test "a job of another user in a common run directory: one line, at once" {
	local begun=$SECONDS
	SHIFT_RUN_DIR=$SHARED shift-kvd --kv "$KV" --job j1 --grace 2s --foreground 3>&- &
	KVD=$!
	wait_until 30 test -S "$SHARED/j1/kvd.sock"
	# shellcheck disable=SC2086
	run $AS_OTHER env SHIFT_RUN_DIR="$SHARED" timeout 20 "$BUILDDIR/cmd/shift-run/shift-run" --job j1 \
		--kv "$KV" --wait 1s -- true
	expect_status 125
	expect_line "^shift-run: job j1 runs here already, as another user's; another --job or SHIFT_RUN_DIR is needed$"
	[ $((SECONDS - begun)) -lt 8 ]
}
