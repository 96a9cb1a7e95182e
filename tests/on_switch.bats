# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# --on-switch of shift-kvd and shift-run, with processes that only look as if they had NICs (tests/stats/stats_live).

load helper
load driven
load live
load etcd

setup() {
	live_setup
	KVD=
}

teardown() {
	# shellcheck disable=SC2086
	live_teardown $KVD
}

kvd() { # OPTIONS...: for job j, in the foreground
	shift-kvd --kv http://127.0.0.1:1 --job j --foreground --grace 1h "$@" 2>kvd.err 3>&- &
	KVD=$!
	wait_until 10 kvd_answers
}

kvd_answers() {
	shift-kvd status --job j --json >/dev/null 2>&1
}

runs() { # how many there were, and how many failed
	shift-kvd status --job j --json | jq -r '.on_switch | "\(.runs) \(.failed) \(.last_status) \(.running_pid > 0) \(.waiting)"'
}

ran() { # WORDS of runs
	[ "$(runs)" = "$1" ]
}

@test "each switch runs the command, which is told what has happened" {
	kvd --on-switch 'env | grep ^SHIFT_SWITCH_ | sort >told.new; pwd >>told.new; mv told.new told'
	live p j
	order p add 0x11
	sleep 0.5
	[ ! -e told ]
	order p failover 0x11
	wait_until 10 test -e told
	[ "$(sed "s/=${PID[p]}\$/=PID/" told)" = "SHIFT_SWITCH_CAUSE=LINK_DOWN
SHIFT_SWITCH_COUNT=1
SHIFT_SWITCH_KIND=failover
SHIFT_SWITCH_NIC=mlx5_0
SHIFT_SWITCH_OUTCOME=committed
SHIFT_SWITCH_PEER=
SHIFT_SWITCH_PID=PID
SHIFT_SWITCH_QPN=17
SHIFT_SWITCH_TO=mlx5_1
$PWD" ]
	wait_until 10 ran '1 0 0 false false'
	rm told
	order p failback 0x11
	wait_until 10 grep -qx SHIFT_SWITCH_KIND=fail-back told
	run -0 shift-kvd status --job j
	expect_match '--on-switch env .*: run 2 times, 0 failed'
}

@test "the command has nothing of the daemon: no descriptors, no signals blocked, a broken pipe ends it" {
	kvd --on-switch '[ ! -e /proc/$$/fd/7 ] || echo 7 >>told; exec grep -E "^Sig(Blk|Ign)" /proc/self/status >>told' 7</dev/null
	live p j
	order p add 0x11
	order p failover 0x11
	wait_until 10 grep -q SigIgn told
	[ "$(wc -l <told)" -eq 2 ]
	while read -r _ mask; do
		[ $((0x$mask & 0x5001)) -eq 0 ] # HUP, PIPE, TERM; others may be ignored here, too
	done <told
}

@test "the daemon stays while the command runs" {
	live p j
	order p add 0x11
	kvd --grace 5s --on-switch 'echo begun >told; sleep 10; echo done >>told'
	order p failover 0x11
	wait_until 10 test -s told
	wait "$KVD"
	[ "$(xargs <told)" = 'begun done' ]
}

@test "one runs at a time; what comes meanwhile is one more run, told of the newest" {
	kvd --on-switch 'echo $SHIFT_SWITCH_COUNT $SHIFT_SWITCH_QPN $SHIFT_SWITCH_KIND >>told; until [ -e go ]; do sleep 0.05; done'
	live p j
	order p add 0x11
	order p add 0x12
	order p failover 0x11
	wait_until 10 test -e told
	order p failover 0x12
	order p failback 0x11
	order p failback 0x12
	wait_until 10 ran '1 0 null true true'
	touch go
	wait_until 10 ran '2 0 0 false false'
	[ "$(xargs <told)" = "1 17 failover 3 18 fail-back" ]
}

@test "many processes; one that dies at once; what was before the daemon is not told of" {
	local i
	live p j
	order p add 0x11
	order p failover 0x11
	kvd --on-switch 'echo $SHIFT_SWITCH_PID >>told; sleep 0.2'
	sleep 0.5
	[ ! -e told ]
	for i in q r s; do live $i j && order $i add 0x11; done
	for i in q r s; do order $i failover 0x11; done
	tell s crash
	wait_until 10 eval '[ "$(runs | cut -d" " -f5)" = false ] && [ "$(runs | cut -d" " -f4)" = false ]'
	[ -s told ] && [ "$(wc -l <told)" -le 3 ] && ! grep -qx "${PID[p]}" told
}

@test "a command that fails, or takes too long, is counted and said; it is ended with its children" {
	kvd --on-switch-limit 300ms --on-switch '[ "$SHIFT_SWITCH_KIND" = failover ] && exit 7; sleep 4327 & sleep 4327'
	live p j
	order p add 0x11
	order p failover 0x11
	wait_until 10 ran '1 1 7 false false'
	grep -q -- '--on-switch: the command failed with status 7' kvd.err
	order p failback 0x11
	wait_until 20 ran '2 2 143 false false'
	grep -q -- '--on-switch: the command took longer than 0.3 s, and was ended' kvd.err
	wait_until 10 sh -c '! pgrep -x -f "sleep 4327"'
}

goes_on() { # PID: it may be a zombie that nobody waits for
	grep -q '^State:[[:space:]][RSD]' "/proc/$1/status" 2>/dev/null
}

@test "what of a command goes on after SIGTERM gets SIGKILL, and until then no other runs" {
	cat >stubborn <<-'END'
		echo $$ >>told
		trap 'echo $$ >>termed' TERM
		while :; do sleep 0.1; done
	END
	kvd --on-switch-limit 300ms --on-switch 'sh stubborn; :'
	live p j
	order p add 0x11
	order p failover 0x11
	wait_until 10 test -s termed
	order p failback 0x11
	sleep 1.5
	[ "$(runs)" = '1 0 null true true' ] # that the shell above it has ended is no reason
	wait_until 20 eval '[ "$(wc -l <told)" -eq 2 ]'
	run ! goes_on "$(head -n 1 told)"
	wait_until 10 eval '[ "$(wc -l <termed)" -eq 2 ]'
	wait_until 20 eval '! goes_on "$(tail -n 1 told)"'
}

@test "more switches than the statistics keep: all are counted" {
	local i
	kvd --on-switch 'echo $SHIFT_SWITCH_COUNT $SHIFT_SWITCH_KIND >>told'
	live p j
	order p add 0x11
	kill -STOP "$KVD"
	for i in {1..150}; do
		tell p failover 0x11
		tell p failback 0x11
	done
	wait_until 60 eval '[ "$(grep -c done p.out)" -eq 301 ]'
	kill -CONT "$KVD"
	wait_until 10 test -s told
	[ "$(cat told)" = '300 fail-back' ]
}

@test "root: what another user writes runs nothing" {
	local other=54321
	[ "$(id -u)" -eq 0 ] || skip "needs root, to be two users"
	setpriv --reuid $other --regid $other --clear-groups test -x "$BUILDDIR/tests/stats/stats_live" ||
		skip "the build directory is closed to others"
	# Where root looks for the processes of other users.
	unshare -m bash -c '
		set -e
		mount -t tmpfs none /run
		mount -t tmpfs none /var/tmp
		install -d -m 0700 -o $1 -g $1 /var/tmp/shift-$1
		other="setpriv --reuid $1 --regid $1 --clear-groups -- env SHIFT_RUN_DIR=/var/tmp/shift-$1"
		unset SHIFT_RUN_DIR
		shift-kvd --kv http://127.0.0.1:1 --job j --on-switch "echo \$SHIFT_SWITCH_PID >>$PWD/told" 2>/dev/null
		{ sleep 0.5; printf "add 17\nfailover 17\n"; sleep 1; } | $other "$BUILDDIR/tests/stats/stats_live" j >other.out
		grep -c done other.out >/dev/null
		{ sleep 0.5; printf "add 17\nfailover 17\n"; sleep 1; } | "$BUILDDIR/tests/stats/stats_live" j >own.out
		shift-kvd status --job j --json >status
		kill "$(jq .pid status)"' bash $other 3>&-
	[ "$(sed -n "s/^ready //p" own.out)" = "$(cat told)" ]
}

@test "the daemon ends the command when it is told to end" {
	kvd --on-switch 'echo x >told; exec sleep 4328'
	live p j
	order p add 0x11
	order p failover 0x11
	wait_until 10 pgrep -x -f 'sleep 4328'
	kill "$KVD"
	wait_until 20 sh -c '! pgrep -x -f "sleep 4328"'
	wait_until 20 eval '! kill -0 $KVD 2>/dev/null'
}

@test "a command that cannot be run is refused before anything is started" {
	local c
	while read -r c; do
		run shift-run --on-switch "$c" -- true
		expect_status 125
		expect_line '^shift-run: --on-switch .*: (no command for a shell|its first word is no command here)$'
		run shift-kvd --kv http://127.0.0.1:1 --job j --on-switch "$c"
		expect_status 2
		expect_line '^shift-kvd: --on-switch .*: (no command for a shell|its first word is no command here)$'
	done <<-'END'

		if true
		no-such-command --now
		./no-such-file
		echo "
	END
	run shift-run --on-switch-limit 5s -- true
	expect_status 125
	expect_line '^shift-run: --on-switch-limit is for --on-switch$'
	run shift-run --on-switch true --on-switch-limit soon -- true
	expect_status 125
	expect_line '^shift-run: --on-switch-limit soon: not a time; try 60s$'
	run shift-run --on-switch "true $(printf '%05000d' 0)" -- true
	expect_status 125
	expect_line "too long: put it into a script\$"
	[ ! -e run ]
}

@test "shift-kvd says that another runs already, and that its command is not run" {
	kvd
	run -0 shift-kvd --kv http://127.0.0.1:1 --job j --on-switch 'echo other'
	expect_line '^shift-kvd: --on-switch: a shift-kvd of job j runs here already: this command is not run$'
	run -0 shift-kvd --kv http://127.0.0.1:1 --job j
	[ -z "$output" ]
}

@test "shift-run gives it to the daemon, says if there is another, and reports what became of it" {
	needs_etcd
	drive p shift-run --job j --report r.json --on-switch 'echo "$SHIFT_SWITCH_NIC $SHIFT_JOB" >>told; exit 3' -- "$BUILDDIR/tests/stats/stats_live" j
	wait_until 60 grep -q ready p.out
	order p add 0x11
	order p failover 0x11
	wait_until 10 grep -qx 'mlx5_0 j' told
	run -0 --separate-stderr shift-run --job j --on-switch 'echo other' -- true
	[[ $stderr == *"--on-switch: the job runs on this host already with another one: this command is not run"* ]]
	exec {IN[p]}>&- # its standard input ends
	wait_until 30 test -s r.json
	wait_until 10 jq -e '.on_switch | .runs == 1 and .failed == 1 and .last_status == 3 and (.command | startswith("echo "))' r.json
}
