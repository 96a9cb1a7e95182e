# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-diag hang, fail, slow: their command lines. The rules are tested in tests/unit/test_aegis_*.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR"
	export ASAN_OPTIONS=log_path=$PWD/sanitizer UBSAN_OPTIONS=log_path=$PWD/sanitizer
	mkdir job
}

teardown() {
	! cat "$BATS_TEST_TMPDIR"/sanitizer.* 2>/dev/null
}

# rank RANK LAUNCHED [SIZE]: has completed so many of 10 collectives; if it has more, it waits in number 11.
rank() {
	printf '{"record":"header","format":"shift-records","version":1,"job":"j","host":"h%d","pid":%d,"rank":%d,"began":"1795855608123456789","read_ns":90000000000}\n' \
		"$1" "$((1000 + $1))" "$1"
	printf '{"record":"comm","comm":"world","size":%d,"rank":%d}\n' "${3:-4}" "$1"
	for ((seq = 1; seq <= $2; seq++)); do
		printf '{"record":"coll","comm":"world","seq":%d,"launch_ns":%d%s}\n' "$seq" "$((seq * 100000000))" \
			"$([ "$seq" -gt 10 ] || echo ",\"end_ns\":$((seq * 100000000 + 20000000))")"
	done
}

job() { # LAUNCHED of each rank
	for n; do
		rank "$((i++))" "$n" >"job/$i.records"
	done
	true
}

@test "hang: the rank that has not come, as text and as JSON" {
	i=0 job 11 11 10 11
	run -2 shift-diag hang job
	[[ ${lines[0]} == 'it stands still, in computation (aegis: fewer-launches, confidence 0.95)' ]]
	[[ ${lines[1]} == 'culprit, a rank: rank 2 host h2 pid 1002' ]]
	expect_match 'rests on: 4 of 4 ranks'
	run -2 shift-diag hang --json job/*.records
	jq -e '.schema_version == 1 and (.verdicts | length) == 1' <<<"$output"
	jq -e '.verdicts[0] | .class == "stopped" and .component == "computation" and .level == "rank" and .rule == "fewer-launches"' <<<"$output"
	jq -e '.verdicts[0] | .culprits[0].rank == 2 and .culprits[0].pid == 1002 and .coverage.ranks_seen == 4' <<<"$output"
	jq -e '.verdicts[0].first_seen_ns == "1795855609223456789"' <<<"$output"
}

@test "hang: a rank without records, and the status is 3" {
	i=0 job 11 11 10
	run -3 shift-diag hang job
	expect_match 'could not decide'
	expect_match 'rank 3 has no records'
	expect_match 'rests on: 3 of 4 ranks'
}

@test "hang: nobody waits" {
	i=0 job 10 10 10 10
	run -0 shift-diag hang job
	expect_match '^fine: '
	run -1 shift-diag hang --window 30s job # for which nobody has done anything
	expect_match 'idle'
}

@test "fail: a line of a log, of the host after which it is named" {
	i=0 job 10 10 10 10
	echo 'NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.' >job/node7.log
	run -2 shift-diag fail job
	expect_match 'culprit, a machine: host node7'
	run -2 shift-diag fail --json job/1.records job/node7.log
	jq -e '.verdicts[0] | .rule == "critical-error" and .culprits[0].host == "node7"' <<<"$output"
	echo 'NVRM: Xid (PCI:0000:41:00): 63, row remapped' >job/node7.log
	run -0 shift-diag fail job
	run -3 shift-diag fail job/node7.log
}

@test "fail: what a terminal would obey is not shown" {
	printf 'connection reset by peer\n' >$'job/\e[2J.log'
	run -2 shift-diag fail job
	[[ $output != *$'\e'* ]]
	run -2 shift-diag fail --json job
	[[ $output != *$'\e'* ]]
	jq -e '.verdicts[0].culprits[0].host == "\u001b[2J"' <<<"$output"
}

@test "slow: a job in balance, and one of too few collectives" {
	i=0 job 10 10 10 10
	run -0 shift-diag slow job
	i=0 job 3 3 3 3
	run -3 shift-diag slow job
	expect_match 'too few'
}

@test "slow: timelines that were recorded" {
	run -2 shift-diag slow --timeline "$SRCDIR/tests/data/straggler/timeline-AR.json"
	expect_match 'DP rank 0, PP rank 0, TP rank 0'
	[ "$(grep -c '^culprit' <<<"$output")" = 1 ]
	run -1 shift-diag slow --json --timeline "$SRCDIR/tests/data/straggler/timeline-ST.json"
	jq -e '.verdicts[0] | .rule == "long-stage" and .culprits == []' <<<"$output"
}

@test "damaged files are told in one line each, and the others are used" {
	i=0 job 11 11 10 11
	sed -i '5s/.*/{"record":"coll","comm":7}/' job/1.records
	head -c 300 /dev/urandom >job/9.records
	printf '{"record":"coll","comm":"wor' >>job/2.records # it is being written
	run -2 --separate-stderr shift-diag hang job
	[[ $output == *'rank 2 host h2'* ]]
	[ "$(wc -l <<<"$stderr")" = 2 ]
	[[ $stderr == *'shift-diag: job/1.records: lines left out'*'line 5'* ]]
	[[ $stderr == *'shift-diag: job/9.records: not used: '* ]]
}

@test "bad usage is one line and status 64" {
	i=0 job 10
	mkdir empty
	echo '{}' >x.json
	while read -r arguments; do
		# shellcheck disable=SC2086
		run shift-diag $arguments
		expect_status 64
		expect_line '^shift-diag: '
	done <<-END
		hang nowhere
		hang empty
		hang --window soon job
		hang --window 0 job
		hang --timeline x.json
		slow --timeline x.json job
		slow --timeline x.json
		slow --timeline nowhere
		fail nowhere.log
		fail --format xml job
	END
}
