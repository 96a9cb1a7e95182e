# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-diag hang, fail and slow of jobs that run: on this host, and on others by an ssh of the test's own.
# shellcheck disable=SC2164  # bats fails where cd does

load helper
load driven

setup() {
	cd "$BATS_TEST_TMPDIR"
	unset "${!SHIFT_@}" LD_PRELOAD
	export SHIFT_RUN_DIR=$PWD/run
	export ASAN_OPTIONS=log_path=$PWD/sanitizer:verify_asan_link_order=0:detect_leaks=0 UBSAN_OPTIONS=log_path=$PWD/sanitizer
	mkdir bin
	# What ssh does at HOST is in on.HOST; $3 is the command.
	cat >bin/ssh <<-'END'
		#!/bin/sh
		while [ "$1" != -- ]; do echo "$1" >>options; shift; done
		echo "$2: $3" >>calls
		. "./on.$2"
	END
	chmod +x bin/ssh
	PATH=$PWD/bin:$PATH
}

teardown() {
	local pid
	for pid in "${PID[@]}"; do kill -9 "$pid"; done 2>/dev/null || true
	! cat "$BATS_TEST_TMPDIR"/sanitizer.* 2>/dev/null
}

# Rank RANK of JOB on HOST has launched so many collectives and completed 10; if it has launched more, it waits in number 11.
rank() { # HOST RANK LAUNCHED [JOB [MORE OF THE HEADER]]
	printf '{"record":"header","format":"shift-records","version":1,"job":"%s","host":"%s","boot_id":"b-%s","pid":%d,"rank":%d,"began":"1795855608123456789","read_ns":90000000000%s}\n' \
		"${4:-j}" "$1" "$1" "$((1000 + $2))" "$2" "${5:-}"
	printf '{"record":"comm","comm":"world","size":4,"rank":%d,"hosts":["a","a","b","b"]}\n' "$2"
	for ((seq = 1; seq <= $3; seq++)); do
		printf '{"record":"coll","comm":"world","seq":%d,"launch_ns":%d%s}\n' "$seq" "$((seq * 100000000))" \
			"$([ "$seq" -gt 10 ] || echo ",\"end_ns\":$((seq * 100000000 + 20000000))")"
	done
}

end() { # FILES [WHOLE]
	printf '{"record":"end","files":%d,"whole":%s}\n' "$1" "${2:-true}"
}

# Two ranks on each of the hosts a and b.
hosts() { # LAUNCHED of each rank
	{ rank a 0 "$1"; rank a 1 "$2"; end 2; } >a
	{ rank b 2 "$3"; rank b 3 "$4"; end 2; } >b
	echo 'cat a' >on.a
	echo 'cat b' >on.b
}

@test "hosts are asked by ssh, at the same time, and the rank that has not come is named" {
	hosts 11 11 10 11
	run -2 shift-diag hang --hosts a,b --job j
	[[ ${lines[0]} == 'job j: it stands still, in computation (aegis: fewer-launches, confidence 0.95)' ]]
	[[ ${lines[1]} == 'culprit, a rank: rank 2 host b pid 1002' ]]
	expect_match 'rests on: 4 of 4 ranks, 2 of 2 hosts'
	[ "$(sort calls)" = 'a: shift-diag collect --job j -
b: shift-diag collect --job j -' ]
	[ "$(LC_ALL=C sort -u options)" = '-oBatchMode=yes
-oClearAllForwardings=yes
-oConnectTimeout=20
-oForwardAgent=no
-oForwardX11=no
-oServerAliveInterval=5' ]
	# Whoever starts it may ignore the ends of children.
	on=$(trap '' CHLD; run shift-diag hang --hosts a,nobody 2>&1; echo "$output")
	[[ $on == *'nobody: it has not answered'* ]]
	run -2 shift-diag hang --json --hosts a,b
	jq -e '.verdicts | length == 1 and (.[0] | .job == "j" and .culprits[0].rank == 2 and .coverage.hosts_expected == 2 and .coverage.hosts_seen == 2)' <<<"$output"
	hosts 10 10 10 10
	for command in hang fail slow; do run -0 shift-diag $command --hosts a,b; done
}

@test "a host that does not answer is told, and is not healthy" {
	hosts 11 11 11 11
	echo 'echo $$ >pid; sleep 300' >on.b
	run -3 --separate-stderr shift-diag hang --hosts a,b --timeout 1s
	expect_match 'could not decide'
	expect_match 'rank 2 on b has no records'
	expect_match 'b: it has not answered: no answer within 1 s'
	expect_match 'rests on: 2 of 4 ranks, 1 of 2 hosts'
	[ "$stderr" = '' ]
	! kill -0 "$(cat pid)" || false
}

@test "ranks that are all seen are not fine if another host does not answer, and a culprit is less sure" {
	hosts 10 10 10 10
	echo 'echo "ssh: connect to host c port 22: No route to host" >&2; exit 255' >on.c
	for command in hang fail slow; do
		run -3 shift-diag $command --hosts a,b,c
		expect_match 'c: it has not answered: ssh: connect to host c port 22: No route to host'
	done
	hosts 11 11 10 11
	run -2 shift-diag hang --json --hosts a,b,c
	jq -e '.verdicts[0] | .culprits[0].rank == 2 and .confidence < 0.64 and .coverage.hosts_seen == 2' <<<"$output"
}

@test "an answer that is cut off, or is none, is not used" {
	hosts 11 11 11 11
	head -n -1 b >part
	head -c 900 b >short
	head -c 5000 /dev/urandom >noise
	{ rank b 2 10; rank b 3 10; end 3; } >miscounted
	{ cat b; echo more; } >longer
	for file in part short noise miscounted longer /dev/null; do
		echo "cat $file" >on.b
		run -3 shift-diag hang --hosts a,b
		expect_match 'b: its answer is cut off, or not that of this version'
		expect_match 'rests on: 2 of 4 ranks, 1 of 2 hosts'
	done
	echo 'cat b; exit 70' >on.b
	run -3 shift-diag hang --hosts a,b
	expect_match 'b: it has not answered: ended with status 70'
	echo 'exit 127' >on.b
	run -3 shift-diag hang --hosts a,b
	expect_match 'b: it has not answered: there is no shift-diag'
	printf 'echo "\\033[2Jgone" >&2; exit 255' >on.b
	run -3 shift-diag hang --hosts a,b
	expect_match 'gone'
	[[ $output != *$'\e'* ]]
	{ rank b 2 10; rank b 3 10; end 2 false; } >b
	hosts 10 10 10 10
	{ rank b 2 10; rank b 3 10; end 2 false; } >b
	run -3 shift-diag hang --hosts a,b
	expect_match 'b: not all of its processes could be read'
}

@test "what an earlier life of the job left is not looked at; what died in this one is" {
	hosts 10 10 10 10
	local before=',"died":true'
	{ rank a 0 11 j "$before" | sed '1s/"began":"1795855608/"began":"1795855408/; s/"pid":1000/"pid":900/'; rank a 0 10; rank a 1 10; end 3; } >a
	run -0 shift-diag hang --hosts a,b
	expect_match 'rests on: 4 of 4 ranks'
	{ rank a 0 11; rank a 1 10 j ',"died":true'; end 2; } >a
	{ rank b 2 11; rank b 3 11; end 2; } >b
	run -2 shift-diag hang --hosts a,b
	expect_match 'culprit, a rank: rank 1 host a pid 1001'
	expect_match 'it has died'
}

@test "each job that runs is judged, the worst is the status; one that does not is for fail" {
	hosts 10 10 10 10
	{ rank a 0 10; rank a 1 10; rank a 0 11 k; rank a 1 11 k; end 4; } >a
	{ rank b 2 10; rank b 3 10; rank b 2 10 k; rank b 3 11 k; end 4; } >b
	run -2 shift-diag hang --json --hosts a,b
	jq -e '[.verdicts[] | [.job, .class]] == [["j", "fine"], ["k", "stopped"]]' <<<"$output"
	{ rank a 0 10; rank a 1 10; rank a 0 11 k ',"died":true'; end 3; } >a
	{ rank b 2 10; rank b 3 10; end 2; } >b
	run -0 shift-diag hang --hosts a,b
	run shift-diag fail --json --hosts a,b
	jq -e '[.verdicts[].job] == ["j", "k"]' <<<"$output"
}

@test "--watch goes on as long as all is fine" {
	hosts 10 10 10 10
	cp b fine
	{ rank b 2 10; rank b 3 10; end 2; } >fine
	echo '[ -e seen.3 ] || cat fine; [ ! -e seen.3 ] || cat b
		n=$(ls seen.* 2>/dev/null | wc -l); touch "seen.$((n + 1))"' >on.b
	{ rank b 2 10; rank b 3 10 j ',"died":true'; end 2; } >b
	run shift-diag hang --hosts a,b --watch 100ms
	expect_status 3
	expect_match 'has died'
	[ -e seen.4 ]
	[ ! -e seen.5 ]
	[ "$(grep -c 'job j' <<<"$output")" -eq 1 ]
}

@test "no process here: nothing is decided" {
	for command in hang fail slow; do
		run -3 shift-diag $command
		expect_match 'no process of this user runs under shift-run on this host'
		run -3 shift-diag $command --job j
		expect_match 'no process of job j runs'
	done
	echo 'sh -c "$3"' >on.a # it answers that it has none
	run -3 shift-diag hang --hosts a
	expect_match 'no process of this user runs under shift-run on these hosts'
	expect_match '1 of 1 hosts'
}

@test "bad usage is one line and status 64" {
	rank a 0 10 >x.records
	while read -r arguments; do
		# shellcheck disable=SC2086
		run shift-diag $arguments
		expect_status 64
		expect_line '^shift-diag: '
	done <<-END
		hang --hosts -oProxyCommand=x
		hang --hosts a,,b
		hang --hosts a,a
		hang --hosts a --hosts b
		hang --hosts a x.records
		hang --job ../x
		hang --watch 0
		hang --watch 1s x.records
		hang --timeout soon
		slow --job j --timeline x.records
	END
	[ ! -e calls ]
	run shift-diag hang --hosts a,a
	expect_line 'the same host twice$'
	run shift-diag hang --hosts a --hosts b
	expect_line '--hosts b: given twice$'
}

# --- ranks of MPI over shared memory, no RDMA -----------------------------------------------------------

needs_mpi() {
	command -v mpirun mpicc >/dev/null && [ -e "$BUILDDIR/collectives/.libs/libshift-mpi-ompi.so" ] ||
		skip "no Open MPI (Debian: libopenmpi-dev, openmpi-bin), or shift was built without its headers"
	mpicc -O2 -o mpi_ranks "$SRCDIR/tests/collectives/mpi_ranks.c"
}

ranks() { # NUMBER MODE WORD...
	local n=$1 mode=$2
	shift 2
	drive ranks mpirun --allow-run-as-root --oversubscribe -np "$n" -x SHIFT_JOB=j -x SHIFT_RUN_DIR \
		-x LD_PRELOAD="$BUILDDIR/collectives/.libs/libshift-mpi-ompi.so" "$PWD/mpi_ranks" "$mode" "$PWD/pids" "$@"
	wait_until 60 all_have_come "$n"
}

all_have_come() {
	[ -e pids ] && [ "$(wc -l <pids)" -eq "$1" ]
}

pid_of() { # RANK
	awk -v rank="$1" '$1 == rank {print $2}' pids
}

@test "a job on this host: fine while it goes on, and then the rank that does not come" {
	needs_mpi
	ranks 3 stop
	local began=$SECONDS
	run shift-diag hang
	[ "$status" -eq 0 ] || [ $((SECONDS - began)) -gt 8 ]
	run -2 timeout 120 shift-diag hang --watch 1s
	expect_match "culprit, a rank: rank 1 host $(uname -n) pid $(pid_of 1)"
	expect_match 'rests on: 3 of 3 ranks, 1 of 1 hosts'
	echo 'sh -c "$3"' >on.a
	run -2 shift-diag hang --json --hosts a --job j
	jq -e --argjson pid "$(pid_of 1)" '.verdicts[0] | .job == "j" and .culprits == [.culprits[0]] and .culprits[0].pid == $pid' <<<"$output"
	shift-diag collect - | jq -e -s 'map(.record) | map(select(. == "header")) | length == 3'
	shift-diag collect - | tail -n 1 | jq -e '. == {record: "end", files: 3, whole: true}'
}
