# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-bench without a testbed: its command line, compare, and hosts that are not there.

load helper

setup() {
	export SHIFT_TESTBED_DIR=$BATS_TEST_TMPDIR/state
	cd "$BATS_TEST_TMPDIR" || return
}

results() { # FACTOR [BASE]: a file of --json, shift slower by that factor than a baseline of about BASE
	jq -n --argjson f "$1" --argjson b "${2:-10}" '
		def sample(s; v): {side: s, warmup: false, values: {p50: v}};
		{program: "shift-bench", schema: 1, command: "latency", seed: "1", cases: [{
			id: "write 8 B", metrics: [{name: "p50", unit: "us", better: "less"}],
			samples: [range(10) | (. % 3) as $n | sample("baseline"; $b * (1 + $n / 100)),
				sample("shift"; $b * $f * (1 + $n / 100))]}]}'
}

@test "what is not understood is bad usage" {
	while read -r arguments; do
		# shellcheck disable=SC2086
		run shift-bench $arguments
		expect_status 2
		expect_line '^shift-bench'
	done <<-END
		latency --ops fly
		latency --ops write,
		latency --sizes 0
		latency --sizes 4K,x
		latency --sizes 128K
		latency --idle-qps 1001
		latency --idle-qps some
		latency --events --ops write
		latency --repetitions 0
		latency --confidence 1
		latency --env X
		latency --seed x
		latency --testbed x --hosts a,b
		latency --testbed x --layout pair
		latency --config x
		latency something
		bandwidth --qps 65
		bandwidth --directions up
		bandwidth --iterations 150
		failover --faults fire
		failover --faults down:a,
		failover --fault-ms 10
		all --parts verbs
		all --parts latency,
		timeline --ops atomic
		timeline --faults loss:b
		timeline --fault-ms 30000
		setup --qps 1001
		setup --backups 3
		compare one.json
		measure
	END
}

@test "a testbed that is not up: one line and status 3" {
	for command in latency bandwidth failover timeline setup training; do
		run shift-bench $command --testbed nowhere
		expect_status 3
		expect_line 'no testbed nowhere is up'
	done
}

@test "compare: the same is no change, slower is worse, faster is better" {
	results 1.05 >old.json
	run -0 shift-bench compare old.json old.json
	expect_match 'no change can be shown'
	results 1.25 >new.json
	run shift-bench compare old.json new.json
	expect_status 4
	expect_match 'write 8 B +p50 +1\.190 .*WORSE'
	run -0 shift-bench compare new.json old.json
	expect_match 'better'
	run -0 shift-bench compare --tolerance 0.3 old.json new.json
	expect_match 'within the tolerance'
}

@test "compare: a slower machine is no regression, unless it is asked for" {
	results 1.05 10 >old.json
	results 1.05 30 >new.json
	run -0 shift-bench compare old.json new.json
	run shift-bench compare --absolute old.json new.json
	expect_status 4
}

@test "compare: what cannot be compared" {
	results 1 >a.json
	echo '{}' >b.json
	run shift-bench compare a.json b.json
	expect_status 2
	expect_line 'b.json: not a file of shift-bench --json'
	jq '.schema = 99' a.json >b.json
	run shift-bench compare a.json b.json
	expect_status 2
	expect_line 'schema 99, this program knows 1'
	jq '.cases[0].id = "other"' a.json >b.json
	run shift-bench compare a.json b.json
	expect_status 2
	expect_match 'only in the old file'
}
