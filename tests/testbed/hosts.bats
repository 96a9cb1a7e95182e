# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# What a testbed promises, in one layout on one kernel: $LAYOUT and $KERNEL, set by the .hosts file that
# names this one. $FULL is set for one combination: every perftest program over every rail. Tests of
# the tool, alike in all of them, have the tag "tool": once is enough for ./check.

load guests

export NAME=check-$LAYOUT-$KERNEL

setup_file() {
	guests_up --layout "$LAYOUT" --kernel "$KERNEL"
}

teardown() {
	for host in a b; do
		for rail in 0 1; do
			shift-testbed link --name "$NAME" "$host" "$rail" up
		done
	done
}

nic() { # HOST RAIL
	on "$1" sh -c "echo \$SHIFT_HOST_RAILS | cut -d, -f$(($2 + 1))"
}

# Runs a pair of one program, the server on b, and prints the output of the client on a.
perftest() { # PROGRAM RAIL OPTIONS...
	local program=$1 rail=$2 server
	shift 2
	on b sh -c 'd=$(echo $SHIFT_HOST_RAILS | cut -d, -f'$((rail + 1))'); '"$program"' -d $d -x $SHIFT_GID_INDEX '"$*" \
		>"$BATS_TEST_TMPDIR/server" 2>&1 &
	server=$!
	wait_until 20 listening
	on a sh -c 'd=$(echo $SHIFT_HOST_RAILS | cut -d, -f'$((rail + 1))'); '"$program"' -d $d -x $SHIFT_GID_INDEX '"$*"' $SHIFT_PEER_ADDR' ||
		{ cat "$BATS_TEST_TMPDIR/server"; return 1; }
	wait $server || { cat "$BATS_TEST_TMPDIR/server"; return 1; }
}

@test "two hosts are ready, two rails each, named like real NICs, MTU 4096" {
	run -0 shift-testbed status --name "$NAME" --json
	[ "$(jq -r '.testbeds[0] | .layout + " " + .kernel' <<<"$output")" = "$LAYOUT $KERNEL" ]
	[ "$(jq -r '.testbeds[0].hosts[] | .name + .state' <<<"$output" | xargs)" = "aready bready" ]
	for host in a b; do
		for rail in 0 1; do
			n=$(nic $host $rail)
			[[ $n =~ ^mlx5_[0-3]$ ]]
			run -0 on $host ibv_devinfo -d "$n"
			expect_match 'state:[[:space:]]*PORT_ACTIVE'
			expect_match 'active_mtu:[[:space:]]*4096'
		done
	done
	[[ $(on a uname -r) == "$KERNEL"* ]]
}

# bats test_tags=tool
@test "exec passes output, error, input and status" {
	run -7 --separate-stderr on a sh -c 'echo out; echo err >&2; exit 7'
	[ "$output" = out ] && [ "$stderr" = err ]
	[ "$(echo hello | on b tr a-z A-Z)" = HELLO ]
	run on a no-such-command
	expect_status 127
	run on a /etc/passwd
	expect_status 126
	run -143 on a sh -c 'kill -TERM $$'
}

# bats test_tags=tool
@test "exec passes megabytes both ways unharmed" {
	head -c 3000000 /dev/urandom >"$BATS_TEST_TMPDIR/sent"
	on a cat <"$BATS_TEST_TMPDIR/sent" >"$BATS_TEST_TMPDIR/received"
	cmp "$BATS_TEST_TMPDIR/sent" "$BATS_TEST_TMPDIR/received"
}

# bats test_tags=tool
@test "exec sets the environment: ours, --env, and the current directory" {
	run -0 shift-testbed exec --name "$NAME" --env K="a b" --env BATS_TEST_NAME b -- sh -c \
		'echo "$K|$BATS_TEST_NAME|$SHIFT_HOST|$SHIFT_PEER|$PWD"'
	[ "$output" = "a b|$BATS_TEST_NAME|b|a|$BUILDDIR" ]
}

# bats test_tags=tool
@test "exec passes signals, and leaves nothing running" {
	shift-testbed exec --name "$NAME" a -- sh -c 'trap "echo got it; exit 9" USR1; echo $$ >/tmp/pid; while :; do sleep 0.05; done' \
		>"$BATS_TEST_TMPDIR/out" &
	wait_until 10 on a test -s /tmp/pid
	kill -USR1 $!
	status=0
	wait $! || status=$?
	expect_status 9
	[ "$(cat "$BATS_TEST_TMPDIR/out")" = 'got it' ]
	on a sh -c '! kill -0 $(cat /tmp/pid) 2>/dev/null'
}

# bats test_tags=tool
@test "exec --timeout ends the command with 124" {
	run shift-testbed exec --name "$NAME" a --timeout 300ms -- sleep 4321
	expect_status 124
	run -1 on a pgrep -x -f 'sleep 4321'
}

# bats test_tags=tool
@test "a client that is killed takes its command along" {
	shift-testbed exec --name "$NAME" a -- sleep 4322 &
	wait_until 10 on a pgrep -x -f 'sleep 4322'
	kill -KILL $!
	wait_until 10 on a sh -c '! pgrep -x -f "sleep 4322"'
}

# bats test_tags=tool
@test "many commands at once, each with its own output" {
	for i in $(seq 20); do
		on a sh -c "seq 1 2000; echo end $i" >"$BATS_TEST_TMPDIR/out.$i" &
	done
	wait
	for i in $(seq 20); do
		[ "$(wc -l <"$BATS_TEST_TMPDIR/out.$i")" -eq 2001 ]
		[ "$(tail -n 1 "$BATS_TEST_TMPDIR/out.$i")" = "end $i" ]
	done
}

# bats test_tags=tool
@test "cp copies in, out and between hosts, with modes" {
	mkdir -p "$BATS_TEST_TMPDIR/tree/sub"
	echo x >"$BATS_TEST_TMPDIR/tree/sub/file"
	chmod 750 "$BATS_TEST_TMPDIR/tree/sub/file"
	shift-testbed cp --name "$NAME" "$BATS_TEST_TMPDIR/tree" a:/tmp/copy
	shift-testbed cp --name "$NAME" a:/tmp/copy b:/tmp/copy2
	shift-testbed cp --name "$NAME" b:/tmp/copy2/sub/file "$BATS_TEST_TMPDIR/back"
	[ "$(cat "$BATS_TEST_TMPDIR/back")" = x ]
	[ "$(stat -c %a "$BATS_TEST_TMPDIR/back")" = 750 ]
	run shift-testbed cp --name "$NAME" a:/nowhere "$BATS_TEST_TMPDIR/x"
	expect_status 1
	[ ! -e "$BATS_TEST_TMPDIR/x" ]
}

@test "a file rebuilt on this machine is there at once, also when it has been read before" {
	for i in 1 2 3; do
		echo "build $i" >tests/fresh.tmp
		[ "$(on a cat tests/fresh.tmp)" = "build $i" ]
	done
	rm tests/fresh.tmp
}

@test "the machine's own files cannot be changed from a host" {
	on a sh -c 'echo x >/etc/shift-testbed-was-here'
	[ ! -e /etc/shift-testbed-was-here ]
	run ! on a sh -c 'echo x >/host/etc/shift-testbed-was-here'
}

@test "link: carrier goes at that host alone, and comes back; unknown rails and hosts are refused" {
	shift-testbed link --name "$NAME" b 0 down
	wait_until 10 carrier b 0 0
	carrier a 0 1 && carrier b 1 1
	[ "$(shift-testbed status --name "$NAME" --json |
		jq -r '.testbeds[0].hosts[1].rails[0].cable')" = down ]
	shift-testbed link --name "$NAME" b 0 up
	wait_until 10 carrier b 0 1
	shift-testbed link --name "$NAME" all 1 down
	wait_until 10 carrier a 1 0
	wait_until 10 carrier b 1 0
	run shift-testbed link --name "$NAME" a 7 down
	expect_status 2
	expect_line 'no rail 7 at host a: it has 2'
	run shift-testbed link --name "$NAME" c 0 down
	expect_status 2
	expect_line 'no host c: there are a and b'
}

# bats test_tags=tool
@test "console shows the kernel's words; a shell answers there" {
	on a sh -c 'echo "<2>shift was here" >/dev/kmsg'
	wait_until 10 sh -c 'shift-testbed console --name "$NAME" --log a | grep -q "shift was here"'
	(
		printf '\r'
		wait_until 15 grep -q '# $' "$BATS_TEST_TMPDIR/console"
		printf 'echo $((6 * 7))"=42"\r'
		wait_until 15 grep -q '42=42' "$BATS_TEST_TMPDIR/console"
		printf '\035'
	) | shift-testbed console --name "$NAME" a >"$BATS_TEST_TMPDIR/console"
	grep -q '42=42' "$BATS_TEST_TMPDIR/console"
}

@test "modprobe has what the fault tools need" {
	on a sh -ec 'for m in sch_netem sch_plug sch_tbf sch_htb sch_ingress cls_flower cls_u32 cls_bpf \
		act_pedit act_mirred act_gact bridge 8021q veth; do modprobe $m; done'
}

@test "perftest runs over each rail" {
	for rail in 0 1; do
		for program in ${FULL:+ib_send_bw ib_send_lat ib_read_bw ib_read_lat ib_write_lat} ib_write_bw; do
			run perftest $program $rail -F -n 100 -s 4096
			expect_status 0
			expect_match '4096 +100 '
		done
	done
}

@test "unprotected, retry_cnt 6: a pulled cable is RETRY_EXC" {
	on b sh -c 'rc_trace=tests/clients/rc_trace; $rc_trace --device ${SHIFT_HOST_RAILS%%,*} --gid-index $SHIFT_GID_INDEX --count 100000' \
		>"$BATS_TEST_TMPDIR/receiver" &
	receiver=$!
	on a sh -c 'tests/clients/rc_trace --device ${SHIFT_HOST_RAILS%%,*} --gid-index $SHIFT_GID_INDEX --count 100000 --interval 5 $SHIFT_PEER_ADDR' \
		>"$BATS_TEST_TMPDIR/sender" &
	sender=$!
	wait_until 20 grep -q '"wc".*"success"' "$BATS_TEST_TMPDIR/sender"
	shift-testbed link --name "$NAME" b 0 down
	status=0
	wait $sender || status=$?
	expect_status 3
	wait $receiver || true
	grep -q '"async".*"port error"' "$BATS_TEST_TMPDIR/receiver"
	grep '"event": "wc"' "$BATS_TEST_TMPDIR/sender" | tail -n 1 |
		grep -q 'transport retry counter exceeded'
}

@test "unprotected, retry_cnt 7: perftest stalls until the cable is back" {
	# Some seconds' worth. Not a ping-pong: on 6.12 a host without carrier that has something to
	# send gets an error at once. Messages of one packet: see doc/soft-roce.md on 6.1 and longer ones.
	count=$([ "$LAYOUT" = pair ] && echo 6000 || echo 25000)
	before=$(received_bytes b 0)
	perftest ib_write_bw 0 -F -s 4096 -n "$count" >"$BATS_TEST_TMPDIR/out" 2>&1 &
	client=$!
	wait_until 20 flows 1000000
	shift-testbed link --name "$NAME" b 0 down
	wait_until 10 carrier b 0 0
	before=$(received_bytes b 0)
	sleep 6
	# Far past the NIC's retry time of 0.4 s: no error, no end, no progress.
	kill -0 $client
	[ "$(received_bytes b 0)" -eq "$before" ]
	shift-testbed link --name "$NAME" b 0 up
	wait $client || { cat "$BATS_TEST_TMPDIR/out"; false; }
	grep -q " $count " "$BATS_TEST_TMPDIR/out"
}

@test "RDMA-CM: between guests it runs, inside one it is refused" {
	if [ "$LAYOUT" = pair ]; then
		on b timeout 60 rping -s -a 10.0.1.2 -C 3 &
		server=$!
		wait_until 20 sh -c "shift-testbed exec --name $NAME a -- rping -c -a 10.0.1.2 -C 3"
		wait $server
	else
		run -1 on a modprobe rdma_ucm
		expect_match 'no RDMA-CM in layout single: use layout pair'
		run ! on a timeout 10 rping -c -a 10.0.1.2 -C 3
		[ "$status" -ne 124 ]
	fi
}
