# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# tests/bench/job-scale: a small simulated job, and the model of large ones.

load helper
load etcd

job_scale() {
	"$SRCDIR/tests/bench/job-scale" "$@"
}

# One job for all tests; what cannot be done here makes them skip.
setup_file() {
	local status=0
	cd "$BATS_FILE_TMPDIR" || return
	command -v etcd python3 >/dev/null || return 0
	"$SRCDIR/tests/bench/job-scale" --sizes 3x4 --connections 5 --deaths 2 --idle 0 --repetitions 1 --json \
		>job.json 2>errors || status=$?
	cat errors
	[ "$status" -eq 77 ] || return "$status"
	mv errors cannot
}

needs_job() {
	needs_etcd
	command -v python3 >/dev/null || skip "needs python3"
	[ ! -e "$BATS_FILE_TMPDIR/cannot" ] || skip "$(<"$BATS_FILE_TMPDIR/cannot")"
}

holds() { # FILTER: of the job
	jq -e ".runs[0] | $1" "$BATS_FILE_TMPDIR/job.json" >/dev/null || {
		echo "not so: $1"
		cat "$BATS_FILE_TMPDIR/job.json"
		return 1
	}
}

@test "etcd has one key for each process and NIC, and the job key" {
	needs_job
	holds '.keys.before == 1'
	holds '.keys.joined == 1 + 3 * 4 * 8'
	# A daemon that was starved, and has begun anew, puts its keys again.
	holds '.join.etcd.puts == 96 or .reconnects > 0'
}

@test "more connections put no key, and ask etcd nothing" {
	needs_job
	holds '.connect.processes == 12 and .connect.connections_of_each == 5'
	holds '.keys.connected == .keys.joined'
	holds '.connect.etcd | .puts == 0 and .deletes == 0 or .reconnects > 0'
}

@test "each process finds its peers, on all NICs" {
	needs_job
	holds '.join.found.count == 12 and .join.errors == 0'
	holds '.join.records >= 12 * 2 * 8'
}

@test "a death is heard by all who live; the records of the dead go" {
	needs_job
	holds '[.death.deaths[].all.count] == [11, 10]'
	holds '[.death.deaths[].peers.count] == [2, 2]'
	holds '.keys.after_deaths == .keys.joined - 2 * 8 + 2'
}

@test "a daemon hears of the records that its processes look at, and of no others" {
	needs_job
	# Of two hosts each: fewer, if a record was there before it was looked at.
	holds '.join.etcd.events <= 2 * 96 or .reconnects > 0'
	# 16 GIDs, the deaths and the job key.
	holds '[.daemons[].watchers] == [18, 18, 18, 2]'
	# A death is heard of by all, what goes by two hosts.
	holds '.death.etcd.events <= 2 * (3 + 2 * 8) or .reconnects > 0'
	holds '.daemons[3].events == 0'
}

@test "a host that comes late knows of the deaths" {
	needs_job
	holds '.late.etcd.puts == 0 and .late.host_bytes > 0'
}

descendants() { # PID
	local child
	for child in $(pgrep -P "$1"); do
		echo "$child"
		descendants "$child"
	done
}

has_descendants() { # PID NUMBER
	[ "$(descendants "$1" | wc -l)" -ge "$2" ]
}

all_ended() { # PID...
	local pid
	for pid; do
		[ ! -e "/proc/$pid" ] || grep -q '^State:.*Z' "/proc/$pid/status" 2>/dev/null || return 1
	done
}

@test "killed with SIGKILL, it leaves no process and no file" {
	local pid all
	needs_job
	cd "$BATS_TEST_TMPDIR"
	mkdir tmp
	# Not by the function: that would be a shell of its own.
	TMPDIR=$PWD/tmp "$SRCDIR/tests/bench/job-scale" --sizes 2x4 --idle 600 --repetitions 1 >out 2>&1 3>&- &
	# etcd and its guard, two daemons, the processes and what starts them
	wait_until 300 has_descendants $! 14
	all=$(descendants $!)
	kill -9 $!
	wait $! || true
	# shellcheck disable=SC2086  # words
	wait_until 60 all_ended $all
	[ -z "$(ls tmp)" ]
}

@test "bad sizes, and what is missing, are said" {
	command -v python3 >/dev/null || skip "needs python3"
	run -2 job_scale --sizes 1x4
	expect_match '1x4 is not HOSTSxPROCESSES'
	run -2 job_scale --sizes 2x4 --deaths 8
	expect_match 'nobody left to hear'
	BUILDDIR=$BATS_TEST_TMPDIR run -77 job_scale --sizes 2x4
	expect_match 'kv/shift-kvd is missing in '
	run -1 job_scale --runs "$BATS_TEST_TMPDIR/none"
	expect_match 'no results of job-scale --json'
	run -0 job_scale --help
	expect_match 'without the handshake over the control'
}

invented_runs() { # runs whose costs are known: a process costs etcd 2 ms and 1 kB, a host 5 ms and 3 kB
	python3 - <<-'END'
		import json
		runs = []
		for hosts, processes in ((2, 8), (4, 8), (16, 2), (16, 8)):
		    cost = {"etcd_cpu_s": hosts * (processes * 2e-3 + 5e-3), "host_bytes": hosts * (processes * 1000 + 3000),
		            "kvds_cpu_s": 0.1, "etcd_rss_kb": 1, "kvd_rss_kb": 1, "etcd": {"db_bytes_used": 1}}
		    runs.append({"hosts": hosts, "processes": processes, "nics": 8, "peers": 2, "deaths": 0, "join": cost})
		print(json.dumps({"runs": runs}))
	END
}

@test "the model finds the costs of invented runs, and computes a large job from them" {
	command -v python3 >/dev/null || skip "needs python3"
	cd "$BATS_TEST_TMPDIR"
	invented_runs >runs
	job_scale --runs runs --json --compute 2000x8 >out
	jq -e '[.computed.quantities[] | select(.quantity == "join: etcd") | .value / 42 - 1 | fabs] | max < 1e-6' out
	jq -e '[.computed.quantities[] | select(.quantity == "join: bytes") | .value / 22 - 1 | fabs] | max < 1e-6' out
	jq -e '[.hold_out[] | select(.quantity == "join: etcd" or .quantity == "join: bytes") |
		.predicted / .measured - 1 | fabs] | length == 2 and max < 1e-6' out
	jq -e '.computed.events == 256000' out
}
