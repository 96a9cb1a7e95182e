# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-ctl with processes that only look as if they had NICs (tests/stats/stats_live), and the fate of
# their files.

load helper
load driven
load live
load etcd

setup() {
	live_setup
	ETCD= KVD= LISTENER= SHARED= BASES= OTHER=59871
}

teardown() {
	# shellcheck disable=SC2086
	[ -z "$SHARED$BASES" ] || rm -rf $SHARED $BASES
	[ ! -L "/tmp/shift-$OTHER" ] || rm "/tmp/shift-$OTHER"
	# shellcheck disable=SC2086
	live_teardown $KVD $ETCD $LISTENER
}

has_line() { # TEXT: exactly that is a line of the output
	grep -qxF -- "$1" <<<"$output" || {
		echo "no line '$1': $output"
		return 1
	}
}

@test "nothing runs" {
	run -0 shift-ctl status
	expect_line '^no protected process runs here$'
	run -0 shift-ctl status --json
	jq -e '.schema_version == 1 and .processes == []' <<<"$output"
	run -0 shift-ctl events
	[ -z "$output" ]
	for c in "status --job x" "status --pid 1" "events --pid 1" "migrate --nic mlx5_0" failback; do
		# shellcheck disable=SC2086
		run shift-ctl $c
		expect_status 3
		expect_line '^shift-ctl: no protected process .*runs here$'
	done
}

@test "bad usage is one line and status 2" {
	while read -r arguments; do
		# shellcheck disable=SC2086
		run shift-ctl $arguments
		expect_status 2
		expect_line '^shift-ctl: '
	done <<-END

		destroy
		status x
		status --pid x
		status --pid 0
		status --pid -3
		status --job ../x
		status --nic mlx5_0
		status --follow
		events --nic mlx5_0
		migrate
		migrate mlx5_0
		migrate --nic $(printf 'x%.0s' {1..64})
		failback x
	END
	run shift-ctl migrate --nic "a b"
	expect_status 2
}

@test "status: connections, rail, epoch, protected or why not" {
	live p j1
	order p add 17
	order p add 18
	order p failover 17
	order p unprotect 18 10
	order p bypass mlx5_0 3
	run -0 shift-ctl status
	expect_match "job j1, process ${PID[p]} stats_live, since "
	expect_match '17 +10\.0\.1\.2/18 +1 mlx5_1 +ACTIVE +1 +1, <= [0-9.]+ ms +yes, rq_psn unmeasured'
	expect_match '18 +10\.0\.1\.2/19 +0 mlx5_0 +ACTIVE +0 +0 +no: the peer runs without shift'
	expect_match '1 not protected on mlx5_0: receives come from a shared receive queue'
	expect_match '1 connection moved 1 time \(1 failover\), longest outage [0-9.]+ ms, 0 requests in doubt'
	run -0 shift-ctl status --json --pid "${PID[p]}"
	jq -e --argjson pid "${PID[p]}" '.processes | length == 1 and (.[0] |
		.pid == $pid and .job == "j1" and .life == "running" and .crash_record == false and
		.totals.failovers == 1 and .totals.protected == 2 and .totals.unprotected.SRQ == 1 and
		.connections[0].rails == [{nic: "mlx5_0", rq_psn: "live"}, {nic: "mlx5_1", rq_psn: "unmeasured"}]
		and .connections[0].setup_us == 12345.678 and .connections[1].setup_us == 12345.678
		and .connections[0].epoch == 1 and .connections[0].nic == "mlx5_1" and
		.connections[1].unprotected == "NO_PEER_LIBRARY" and
		(.switches[0] | .cause == "LINK_DOWN" and .kind == "failover" and .outcome == "committed" and
			.phases_us.detect >= 1000 and .phases_us.fence >= 2000 and
			.phases_us.handshake >= 3000 and .outage_us >= 6000 and .requests.proved == 3))' <<<"$output"
	hang_up p
	grep -qE "^shift\[[0-9]+\]: 1 connection moved 1 time" p.out
	[ ! -e run/j1 ]
}

@test "status: shared receive queues, and what is wrong with one" {
	local n
	live p j1
	run -0 shift-ctl status
	! grep -q 'shared receive queue' <<<"$output" || false
	order p srq 1023
	order p srq 15
	order p srq_at 0 1023 517 5 380 3 0 12 1 132 0 16 1 0
	run -0 shift-ctl status
	has_line '  shared receive queue 1: 517 receives posted, room for 1023: 380 on mlx5_0 (12 queue pairs), 132 on mlx5_1 (1 queue pair), 5 wait for a NIC'
	has_line '    3 on mlx5_0 that it does not give back'
	has_line '    mlx5_0 gave nothing back when it was asked last; it is asked again'
	has_line '    16 old ones may still be in mlx5_1: no queue pair moves there before they are out'
	[ "$(grep -c ' old ones\| not give back\|gave nothing' <<<"$output")" -eq 3 ]
	order p srq_at 1 15 4 0 4 0 0 0 0 0 0 0 2 0
	run -0 shift-ctl status
	has_line '  shared receive queue 2: 4 receives posted, room for 15: 4 on mlx5_0, 0 on mlx5_1 (2 queue pairs)'
	order p srq_at 1 15 4 4 0 0 0 0 0 0 0 0 0 0
	run -0 shift-ctl status --json
	jq -e '.processes[0] | (.shared_receive_queues | length == 2 and
		(.[0] | .queue == 1 and .posted == 517 and .waiting == 5 and .nics[0] == {nic: "mlx5_0", receives: 380,
			held: 3, ghosts: 0, queue_pairs: 12, gives_back: false} and .nics[1].ghosts == 16) and
		(.[1] | .waiting == 4 and .counters.drained == 4)) and
		.totals.shared_receive_queues.counters.drained == 9' <<<"$output"
	run -0 shift-ctl status
	has_line '  shared receive queue 2: 4 receives posted, room for 15: 4 wait for a NIC'
	order p srq_remove 0
	order p srq_remove 1
	run -0 shift-ctl status
	! grep -q 'shared receive queue' <<<"$output" || false
	run -0 shift-ctl status --json
	jq -e '.processes[0] | .shared_receive_queues == [] and (.totals.shared_receive_queues | .ever == 2 and .live == 0
		and .counters.drained == 9)' <<<"$output"
	for ((n = 0; n < 130; n++)); do printf 'srq 15\n'; done >&"${IN[p]}"
	wait_until 30 eval '[ "$(grep -c done p.out)" -ge 137 ]'
	run -0 shift-ctl status
	has_line '  shared receive queue 130: 0 receives posted, room for 15'
	has_line '  2 more shared receive queues are not shown: its statistics had no room'
}

@test "jobs and processes are told apart" {
	live p j1
	live q j2
	live r j2
	run -0 shift-ctl status --json
	[ "$(jq '.processes | length' <<<"$output")" -eq 3 ]
	run -0 shift-ctl status --json --job j2
	[ "$(jq -r '[.processes[].job] | unique[]' <<<"$output")" = j2 ]
	run -0 shift-ctl status --json --job j2 --pid "${PID[r]}"
	[ "$(jq '.processes[].pid' <<<"$output")" = "${PID[r]}" ]
	run shift-ctl status --job j1 --pid "${PID[r]}"
	expect_status 3
	[ "$(stat -c %a run/j1 run/j1/*.stats run/j1/*.sock)" = $'700\n600\n600' ]
}

@test "migrate and failback reach every process, and say what it answered" {
	live p j1
	live q j1
	order p add 17
	order q add 27
	run -0 shift-ctl migrate --nic mlx5_0
	[ "${#lines[@]}" -eq 2 ]
	expect_match "${PID[p]}: 1 connections leave mlx5_0"
	run -0 shift-ctl status --json
	[ "$(jq -c '[.processes[].connections[].nic]' <<<"$output")" = '["mlx5_1","mlx5_1"]' ]
	run -0 shift-ctl failback --nic mlx5_0 --pid "${PID[q]}" --json
	jq -e --argjson pid "${PID[q]}" --argjson uid "$(id -u)" '.answers == [{job: "j1", pid: $pid, uid: $uid, ok: true,
		text: "1 connections move"}]' <<<"$output"
	run -0 shift-ctl status --json
	jq -e '[.processes[].totals | [.migrations, .failbacks]] | sort == [[1, 0], [1, 1]]' <<<"$output"
	run shift-ctl migrate --nic mlx5_9
	expect_status 1
	expect_match "^shift-ctl: process ${PID[p]}: 0 connections leave mlx5_9"
}

@test "a stopped process is not waited for for ever" {
	live p j1
	kill -STOP "${PID[p]}"
	run -0 shift-ctl status
	run timeout 30 shift-ctl failback
	expect_status 1
	expect_line 'no answer; is the process stopped\?$'
}

@test "events: changes and switches in their order" {
	live p j1
	order p add 17
	order p failover 17
	order p giveup 17
	run -0 shift-ctl events
	[ "${#lines[@]}" -eq 10 ]
	[[ ${lines[0]} =~ \ ${PID[p]}\ qpn\ 17\ SETUP\ -\>\ ACTIVE\ \(HELLO\),\ rail\ 0\ mlx5_0,\ epoch\ 0$ ]]
	[[ ${lines[4]} =~ SWITCHING\ -\>\ ACTIVE\ \(COMMIT\),\ rail\ 1\ mlx5_1,\ epoch\ 1$ ]]
	[[ ${lines[5]} =~ failover\ committed,\ mlx5_0\ -\>\ mlx5_1\ \(LINK_DOWN\),\ outage ]]
	[[ ${lines[9]} =~ given\ up ]]
	run -0 shift-ctl status
	expect_match '; 1 connection given up: no NIC led to the peer in time, see --give-up$'
	run -0 shift-ctl status --json
	jq -e '.processes[0].totals | .given_up == 1 and .given_up_for == {GIVEUP_TIME: 1} and
		.unprotected_failed == {}' <<<"$output"
	run -0 shift-ctl events --json
	jq -se 'length == 10 and ([.[] | select(.type == "switch")] | length == 2 and
		.[0].outcome == "committed" and .[1].outcome == "given up") and
		([.[] | .unix_s] | min > 1600000000) and ([.[] | select(.lost_before > 0)] == [])' <<<"$output"
}

@test "events: error completions, asynchronous events and lives, with what became of each" {
	live p j1
	order p add 17
	order p state mlx5_0 17 2 18
	printf 'wcerr mlx5_0 17 %s 0\n' '12 0x81' '5 0' '5 0' >&"${IN[p]}" # at once: a run has no pause
	wait_until 30 eval '[ "$(grep -c done p.out)" -eq 5 ]'
	order p qp mlx5_1 99 2
	order p wcerr mlx5_1 99 13 0 1
	order p async mlx5_0 0 10 1 3
	order p async mlx5_0 17 1 0 0
	order p gone mlx5_1 99
	run -0 shift-ctl events
	[ "${#lines[@]}" -eq 5 ]
	[[ ${lines[1]} =~ \ ${PID[p]}\ qpn\ 17\ error\ completion\ RETRY_EXC_ERR\ \(vendor_err\ 0x81\)\ in\ the\ send\ queue,\ NIC\ mlx5_0,\ peer\ 10.0.1.2/18:\ kept\ from\ the\ program\;\ then\ 2\ flushed\ within\ [0-9.]+\ [mun]*s$ ]]
	[[ ${lines[2]} =~ qpn\ 99\ error\ completion\ RNR_RETRY_EXC_ERR\ in\ the\ send\ queue,\ NIC\ mlx5_1:\ given\ to\ the\ program,\ not\ protected\ \(NOT_RC\)$ ]]
	[[ ${lines[3]} =~ \ event\ PORT_ERR,\ NIC\ mlx5_0\ port\ 1:\ seen\ by\ shift,\ which\ watches\ the\ NIC\ itself$ ]]
	[[ ${lines[4]} =~ \ qpn\ 17\ event\ QP_FATAL,\ NIC\ mlx5_0:\ kept\ from\ the\ program$ ]]
	run -0 shift-ctl events --all
	[ "${#lines[@]}" -eq 9 ]
	expect_match 'qpn 17 brought to RTR, NIC mlx5_0, peer 10.0.1.2/18'
	expect_match 'qpn 99 created, NIC mlx5_1, not protected \(NOT_RC\)'
	expect_match 'qpn 99 destroyed, NIC mlx5_1'
	run -0 shift-ctl events --all --json
	jq -se '[.[].type] | sort == ["async", "async", "event", "qp", "qp", "qp", "qp", "wcerr", "wcerr"]' <<<"$output"
	jq -se '.[] | select(.type == "wcerr" and .qpn == 17) | .status == "RETRY_EXC_ERR" and .fate == "hidden" and .protected and
		.flushed == 2 and .more == 0 and .peer.qpn == 18 and .queue == "send" and .opcode == null' <<<"$output"
	jq -se '.[] | select(.type == "wcerr" and .qpn == 99) | .unprotected == "NOT_RC" and .fate == "given"' <<<"$output"
	jq -se '[.[] | select(.type == "async") | .event] == ["PORT_ERR", "QP_FATAL"]' <<<"$output"
	jq -se '[.[] | select(.qpn == 99 and .type == "qp") | .state] == ["created", "destroyed"]' <<<"$output"
	run -0 shift-ctl status --json
	jq -e '.processes[0].totals | .error_completions == {hidden: 3, given: 1, made: 0, watched: 0, flushes: 2, unprotected: 1} and
		.async_events == {hidden: 1, given: 0, made: 0, watched: 1}' <<<"$output"
	for word in RETRY_EXC_ERR NOT_RC PORT_ERR QP_FATAL; do run -0 shift-diag explain $word; done
}

# --foreground: without it timeout sends SIGCONT behind the signal that ends the command. That undoes the stop by which
# the leak check of a sanitized command waits for itself.
follow() { # FILE [OPTION...]: does not hold the others' standard input open
	local f out=$1
	shift
	for f in "${IN[@]}"; do exec {f}>&-; done
	exec timeout --foreground 60 shift-ctl events --follow "$@" >"$out" 2>&1 3>&-
}

@test "events --follow: what comes later too, also of a process that begins later; ends with --pid" {
	local first second
	live p j1
	order p add 17
	follow all.out --json &
	first=$!
	follow one.out --pid "${PID[p]}" &
	second=$!
	wait_until 30 grep -q HELLO all.out
	wait_until 30 grep -q HELLO one.out
	live q j2
	order q add 27
	order p failover 17
	order q failover 27
	wait_until 30 eval '[ "$(grep -c "\"switch\"" all.out)" -eq 2 ]'
	wait_until 30 grep -q 'failover committed' one.out
	hang_up p
	wait "$second"
	! grep -q 'qpn 27' one.out
	kill "$first"
	wait "$first" || true
	[ "$(jq -s '[.[] | select(.type == "event")] | length' all.out)" -eq 10 ]
	[ "$(jq -c '[.job, .pid, .number, .type]' all.out | sort | uniq -d)" = '' ]
}

@test "more happened than is kept: it is said how much" {
	live p j1
	order p add 17
	for ((i = 0; i < 130; i++)); do printf 'migrate 17\nfailback 17\n'; done >&"${IN[p]}"
	wait_until 60 eval '[ "$(grep -c done p.out)" -eq 261 ]'
	run -0 shift-ctl events --json
	jq -se '[.[] | .lost_before // 0] | add == 1 + 260 * 4 - 1023' <<<"$output"
	run -0 shift-ctl events
	[[ ${lines[0]} =~ [0-9]+\ earlier\ events\ are\ not\ kept$ || ${lines[*]} =~ earlier\ events ]]
	run -0 shift-ctl status --json
	[ "$(jq '.processes[0].switches_lost' <<<"$output")" -eq 5 ]
}

@test "a dead process's file is recognised, also when its number is used again" {
	live p j1
	order p add 17
	cp run/j1/"${PID[p]}".stats saved
	murder p
	run -0 shift-ctl status
	expect_match 'stats_live, DEAD, its file was left, began '
	run -0 shift-ctl status --json
	[ "$(jq -r '.processes[0].life' <<<"$output")" = crashed ]
	run shift-ctl failback
	expect_status 3
	mkdir -p run/j2
	cp saved run/j2/$$.stats # that number lives, but began at another time
	run -0 shift-ctl status --job j2 --json
	[ "$(jq -r '.processes[0].life' <<<"$output")" = crashed ]
}

@test "what is no statistics file, or of another version, is said and passed over" {
	live p j1
	echo nonsense >run/j1/1.stats
	: >run/j1/2.stats
	cp run/j1/"${PID[p]}".stats run/j1/3.stats
	printf '\x63' | dd of=run/j1/3.stats bs=1 seek=8 conv=notrunc status=none
	mkfifo run/j1/4.stats
	ln -s /etc/passwd run/j1/5.stats
	run -0 --separate-stderr timeout 20 shift-ctl status --json
	[ "$(jq '.processes | length' <<<"$output")" -eq 1 ]
	[[ $stderr == *1.stats:\ not\ a\ statistics\ file* ]]
	[[ $stderr == *3.stats:\ of\ another\ version\ of\ shift* ]]
	[[ $stderr == *4.stats* ]] && [[ $stderr == *5.stats* ]]
	rm run/j1/[1-5].stats
}

@test "a clean end with a report directory leaves the file there, and nothing else" {
	mkdir report
	live p j1 "$PWD/report"
	order p add 17
	order p failover 17
	hang_up p
	[ "$(ls report | wc -l)" -eq 1 ] && [ ! -e run/j1 ]
}

start_kvd() {
	needs_etcd
	launch_etcd
	# shellcheck disable=SC2086
	timeout --foreground 30 env ${WITH_HANG:+LD_PRELOAD=$WITH_HANG} shift-kvd --kv "$KV" --job j1 --grace 2s --foreground >kvd.out 2>&1 3>&- &
	KVD=$!
	wait_until 30 test -e run/j1/kvd.sock
}

crashes() {
	find run/j1/crash -name '*.stats' 2>/dev/null | wc -l
}

@test "shift-kvd keeps crash records, and nothing of a clean end" {
	local name
	start_kvd
	live p j1
	live q j1
	order p hello
	order q hello
	order p add 17
	order p failover 17
	hang_up q
	order p add 18
	murder p
	wait_until 30 eval '[ "$(crashes)" -eq 1 ]'
	[ -z "$(find run/j1 -maxdepth 1 -name '[0-9]*')" ]
	run -0 shift-ctl status
	expect_match 'stats_live, CRASH RECORD, began '
	expect_match '17 +10\.0\.1\.2/18 +1 mlx5_1'
	run -0 shift-ctl status --json
	jq -e '.processes | length == 1 and .[0].crash_record and .[0].life == "crashed" and
		.[0].totals.failovers == 1' <<<"$output"
	run -0 shift-ctl events
	expect_match 'failover committed'
	for name in c{1..18}; do
		live "$name" j1
		order "$name" hello
		murder "$name"
	done
	wait_until 30 eval '[ -z "$(find run/j1 -maxdepth 1 -name "[0-9]*")" ]'
	wait_until 30 eval '[ "$(crashes)" -eq 16 ]'
	run -0 shift-ctl status --json
	[ "$(jq '[.processes[] | select(.crash_record)] | length' <<<"$output")" -eq 16 ]
	! grep -q failover <<<"$(shift-ctl events)" # the oldest is gone
	wait "$KVD"
	KVD=
	[ "$(ls run/j1)" = crash ]
}

@test "crash records where the path has what a shell would interpret" {
	export SHIFT_RUN_DIR=$PWD/'[a]*?\'
	mkdir "$SHIFT_RUN_DIR"
	ln -s "$SHIFT_RUN_DIR" run
	start_kvd
	live p j1
	order p hello
	order p add 17
	murder p
	wait_until 30 eval '[ "$(crashes)" -eq 1 ]'
	live q j1 # never spoke to it
	murder q
	wait "$KVD"
	KVD=
	[ "$(crashes)" -eq 2 ]
}

@test "a crashed process's report was to be made on a file server that does not answer: shift-kvd does" {
	local name
	! nm -D "$BUILDDIR/kv/shift-kvd" | grep -qE '__(asan|tsan)' || skip "sanitized: nothing can be preloaded"
	"${CC:-gcc}" -shared -fPIC -x c -o hang.so - <<-'END'
		#include <string.h>
		#include <unistd.h>
		int access(const char *path, int mode)
		{
			if (!strncmp(path, "/dead/", 6))
				sleep(30);
			return faccessat(-100, path, mode, 0);
		}
	END
	WITH_HANG=$PWD/hang.so
	start_kvd
	for name in c{1..17}; do
		live "$name" j1 /dead/report
		order "$name" hello
		murder "$name"
	done
	wait_until 30 eval '[ "$(crashes)" -eq 17 ]'
	live p j1
	order p hello
	run -0 timeout 10 shift-kvd status --job j1
	hang_up p
	wait "$KVD"
	KVD=
	[ "$(ls run/j1)" = crash ]
}

@test "shift-kvd finds what died before it began, or never spoke to it" {
	live p j1
	murder p
	start_kvd
	wait_until 30 eval '[ "$(crashes)" -eq 1 ]'
	live q j1
	order q add 17
	murder q
	wait "$KVD"
	KVD=
	[ "$(crashes)" -eq 2 ]
	[ "$(ls run/j1)" = crash ]
}

@test "a process of a container on this host: its number is not ours" {
	unshare --pid --fork true 2>/dev/null || skip "namespaces are not allowed here"
	start_kvd
	WITHIN="unshare --pid --fork --kill-child" live p j1
	[ -e run/j1/1.stats ]
	order p hello
	run -0 shift-ctl status
	expect_match 'process 1 stats_live, of host .*, or in a container'
	run -0 shift-ctl failback
	expect_line '^process 1: 0 connections move$'
	murder p
	wait_until 30 eval '[ "$(crashes)" -eq 1 ]'
	[ -z "$(find run/j1 -maxdepth 1 -name '[0-9]*')" ]
	[ "$(find run/j1/crash -name '1-*.stats' | wc -l)" -eq 1 ]
	run shift-ctl failback
	expect_status 3
}

# ---- what comes from others, and reaches a terminal ----

printable() { # FILE...
	! LC_ALL=C grep -n $'[^\t -~]' "$@"
}

@test "names of processes, commands and NICs that a terminal would obey are shown, not obeyed" {
	cp "$BUILDDIR/tests/stats/stats_live" $'x\e[2J\x9by'
	drive p "$PWD"/$'x\e[2J\x9by' j1
	wait_until 30 grep -q ready p.out
	order p add 17
	order p bypass $'\e[31mn' 3
	order p failover 17
	shift-ctl status >status
	shift-ctl status --json >json
	shift-ctl events >events
	shift-ctl events --json >events.json
	shift-ctl migrate --nic $'m\x9bn' >answer 2>&1 || true
	printable status json events events.json answer
	grep -qF 'x\x1b[2J\x9by' status
	grep -qF 'not protected on \x1b[31mn' status
	[ "$(jq -r '.processes[0].passed_through[0].nic' json)" = $'\e[31mn' ]
	tell p quit
}

# Something that answers one line on a socket, as this user.
answer_on() { # SOCKET TEXT
	command -v python3 >/dev/null || skip "needs python3, for a socket"
	cat >listener.py <<-'END'
		import os, socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.bind(sys.argv[1])
		s.listen(8)
		while True:
		    c, _ = s.accept()
		    c.recv(1000)
		    c.sendall(os.fsencode(sys.argv[2]) + b"\n")
		    c.close()
	END
	python3 listener.py "$@" 3>&- &
	LISTENER=$!
	wait_until 30 test -S "$1"
}

@test "the answer of a control socket is shown, not obeyed" {
	live p j1
	mv run/j1/"${PID[p]}".sock kept.sock
	answer_on run/j1/"${PID[p]}".sock $'ok \e]0;title\a\xc2\x9b2J'
	shift-ctl failback >answer
	shift-ctl failback --json >json
	printable answer json
	grep -qF '\x1b]0;title\x07\xc2\x9b2J' answer
	[ "$(jq -r '.answers[0].text' json)" = $'\e]0;title\a\xc2\x9b2J' ]
	rm run/j1/"${PID[p]}".sock
}

@test "errors of what pretends to be an etcd are shown, not obeyed" {
	command -v python3 >/dev/null || skip "needs python3, for a web server"
	cat >server.py <<-'END'
		import http.server
		class Hostile(http.server.BaseHTTPRequestHandler):
		    def do_POST(self):
		        self.rfile.read(int(self.headers.get("Content-Length", 0)))
		        text = b'{"error":"\\u001b[2Jx\xc2\x9by","code":2,"message":"\\u001b[2Jx\xc2\x9by"}'
		        self.send_response(500)
		        self.send_header("Content-Length", str(len(text)))
		        self.end_headers()
		        self.wfile.write(text)
		    do_GET = do_POST
		    def log_message(self, *words):
		        pass
		server = http.server.HTTPServer(("127.0.0.1", 0), Hostile)
		print(server.server_port, flush=True)
		server.serve_forever()
	END
	python3 server.py >port 3>&- &
	LISTENER=$!
	wait_until 30 test -s port
	KV=http://127.0.0.1:$(<port)
	timeout --foreground 30 shift-kvd --kv "$KV" --job j1 --grace 2s --foreground >kvd.out 2>&1 3>&- &
	KVD=$!
	wait_until 30 eval 'shift-kvd status --job j1 2>/dev/null | grep -q "last error"'
	shift-kvd status --job j1 >status
	shift-kvd status --job j1 --json >json
	timeout --foreground 30 shift-run --job j1 --kv "$KV" --wait 1s -- true >run.out 2>&1 || true
	printable status json kvd.out run.out
	grep -qF 'x1b[2Jx' status
	grep -q . run.out
	kill "$KVD"
}

# ---- what another user made, and root looks at ----

# A run directory of several users, and what another user begins in it.
begin_shared() {
	[ "$(id -u)" -eq 0 ] || skip "needs root, to be two users"
	AS_OTHER="setpriv --reuid $OTHER --regid $OTHER --clear-groups --"
	$AS_OTHER test -x "$BUILDDIR/tests/stats/stats_live" || skip "the build directory is closed to others"
	SHARED=$(mktemp -d /tmp/shift-ctl.XXXXXX)
	chmod 1777 "$SHARED"
	export SHIFT_RUN_DIR=$SHARED
	live r rj
	WITHIN=$AS_OTHER live u uj
	order r add 17
	order u add 27
}

@test "root: another user's processes are told as such, and asked" {
	begin_shared
	run -0 shift-ctl status
	expect_match "process ${PID[u]} stats_live, by user $OTHER, since "
	expect_match "process ${PID[r]} stats_live, since "
	run -0 shift-ctl migrate --nic mlx5_0
	expect_match "${PID[u]}: 1 connections leave mlx5_0"
	run -0 shift-ctl status --json
	[ "$(jq -c '[.processes[].uid]' <<<"$output")" = "[0,$OTHER]" ]
	run $AS_OTHER env SHIFT_RUN_DIR="$SHARED" "$BUILDDIR/cmd/shift-ctl/shift-ctl" status --job rj
	expect_status 3
}

@test "root: a forged process is not believed, and that is said" {
	begin_shared
	cp "$SHARED/rj/${PID[r]}.stats" "$SHARED/uj/7.stats"
	cp "$SHARED/uj/${PID[u]}.stats" "$SHARED/uj/8.stats"
	truncate -s 1T "$SHARED/uj/8.stats"
	chown "$OTHER" "$SHARED"/uj/*.stats
	cp "$SHARED/rj/${PID[r]}.stats" "$SHARED/uj/9.stats"
	ln -s "$SHARED/rj/${PID[r]}.stats" "$SHARED/uj/10.stats"
	run -0 --separate-stderr timeout 20 shift-ctl status --job uj --json
	[ "$(jq -c '[.processes[].pid]' <<<"$output")" = "[${PID[u]}]" ]
	[[ $stderr == */7.stats:\ not\ believed:\ it\ claims\ the\ process\ of\ another\ user* ]]
	[[ $stderr == */8.stats:\ not\ a\ statistics\ file* ]]
	[[ $stderr == */9.stats:\ not\ believed:\ its\ owner\ is\ not\ that\ of\ its\ directory* ]]
	[[ $stderr == */10.stats:\ Too\ many\ levels* ]]
	rm "$SHARED"/uj/{7,8,9,10}.stats
}

@test "root: another user's socket leads to no other" {
	local socket
	begin_shared
	order r failover 17
	socket=$SHARED/uj/${PID[u]}.sock
	rm "$socket"
	ln -s "$SHARED/rj/${PID[r]}.sock" "$socket"
	run shift-ctl failback --job uj
	expect_status 1
	expect_line 'not asked: it is no socket$'
	mv -T "$SHARED/rj/${PID[r]}.sock" "$socket"
	run shift-ctl failback --job uj
	expect_status 1
	expect_line 'not asked: another user listens there$'
	chown "$OTHER" "$socket"
	run shift-ctl failback --job uj
	expect_status 1
	expect_line 'not asked: another user listens there$'
	run -0 shift-ctl status --job rj --json
	[ "$(jq -r '.processes[0].connections[0].nic' <<<"$output")" = mlx5_1 ] # nobody told it to fail back
	rm "$socket"
}

@test "root: links in place of a job's directory, or of a run directory, are not followed" {
	begin_shared
	$AS_OTHER ln -s "$SHARED/rj" "$SHARED/lj"
	run shift-ctl status --job lj
	expect_status 3
	$AS_OTHER ln -s "$SHARED" "/tmp/shift-$OTHER"
	unset SHIFT_RUN_DIR
	run shift-ctl status --job rj
	expect_status 3
	export SHIFT_RUN_DIR=$SHARED
}

@test "root: processes of another user that are silent are not waited for again and again" {
	local name begun=$SECONDS
	begin_shared
	for name in a b c d; do WITHIN=$AS_OTHER live "$name" uj; done
	for name in a b c d u; do kill -STOP "${PID[$name]}"; done
	run timeout 60 shift-ctl failback --job uj
	expect_status 1
	[ "${#lines[@]}" -eq 5 ]
	[ $((SECONDS - begun)) -lt 20 ]
}

@test "root: silent processes that were not asked for want of time do nothing later, either" {
	local name answered
	begin_shared
	for name in a b c d; do
		WITHIN=$AS_OTHER live "$name" uj
		order "$name" add 27
	done
	for name in a b c d u; do
		order "$name" failover 27
		kill -STOP "${PID[$name]}"
	done
	run timeout 60 shift-ctl failback --job uj
	expect_status 1
	answered=$(grep -c 'no answer; is the process stopped' <<<"$output")
	[ "$answered" -ge 1 ] && [ "$answered" -le 3 ]
	[ "$(grep -c 'not asked: too many other processes of this user' <<<"$output")" -eq $((5 - answered)) ]
	for name in a b c d u; do kill -CONT "${PID[$name]}"; done
	for name in a b c d u; do order "$name" bypass mlx5_0 3; done # they run again
	sleep 1 # for what should not come: there is nothing to wait for
	run -0 shift-ctl status --job uj --json
	[ "$(jq '[.processes[].totals.failbacks] | add' <<<"$output")" -le "$answered" ]
}

# A run directory as a user would have it, with the file of a process that has died.
make_base() { # DIRECTORY
	BASES+=" $1"
	mkdir -m 700 "$1" "$1/bj"
	cp "$SHARED/uj/${PID[u]}.stats" "$1/bj/1.stats"
	# It began at another time; each at its own.
	printf '%b' "\\x$(wc -w <<<"$BASES")" | dd of="$1/bj/1.stats" bs=1 seek=43 conv=notrunc status=none
	chown -R "$OTHER:$OTHER" "$1"
}

@test "root: of a user's directories in /tmp only the one that bears the user's number is looked into" {
	begin_shared
	make_base "/tmp/shift-$OTHER"
	make_base "/var/tmp/shift-$OTHER"
	make_base "/tmp/shift-$OTHER.2"
	make_base "/tmp/shift-0$OTHER"
	make_base /tmp/shift-59873
	unset SHIFT_RUN_DIR
	run -0 --separate-stderr shift-ctl status --job bj --json
	[ "$(jq -r '.processes[].file' <<<"$output")" = "/tmp/shift-$OTHER/bj/1.stats
/var/tmp/shift-$OTHER/bj/1.stats" ]
	jq -e '.complete and .cut_uids == []' <<<"$output"
	export SHIFT_RUN_DIR=$SHARED
}

@test "root: a user with too many files is cut short, which is said, and hides nobody" {
	begin_shared
	$AS_OTHER bash -c 'cd "$1/uj" && seq -f %.0f.stats 100001 104200 | xargs touch' - "$SHARED"
	run -0 --separate-stderr timeout 60 shift-ctl status --json
	jq -e --argjson r "${PID[r]}" --argjson uid "$OTHER" '.complete == false and .cut_uids == [$uid] and
		([.processes[].pid] | index($r))' <<<"$output"
	[ "$(grep -c "^shift-ctl: user $OTHER: too many files" <<<"$stderr")" -eq 1 ]
	run timeout 60 shift-ctl failback
	expect_status 1
	expect_match "shift-ctl: user $OTHER: too many files, or too large ones: not all processes are seen"
	[ "${#lines[@]}" -lt 50 ] # not one for each of them
}
