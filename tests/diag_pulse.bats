# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-diag pulse: its command line. The rules are in tests/unit/test_pulse_*.c.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR"
	export ASAN_OPTIONS=log_path=$PWD/sanitizer UBSAN_OPTIONS=log_path=$PWD/sanitizer
}

teardown() {
	! cat "$BATS_TEST_TMPDIR"/sanitizer.* 2>/dev/null
}

# Four ranks, three operations; the one that LATE names begins the last one never.
records() { # LATE
	local rank seq
	mkdir -p job
	for rank in 0 1 2 3; do
		{
			echo '{"record":"header","format":"shift-records","version":1,"job":"j",'\
				"\"host\":\"node$rank\",\"pid\":$((100 + rank)),\"rank\":$rank,"\
				'"began":"1795855608000000000","read_ns":9000000000,"clock_error_ns":1000,"dropped":0}'
			echo "{\"record\":\"comm\",\"comm\":\"world\",\"size\":4,\"rank\":$rank}"
			for seq in 1 2 3; do
				[ "$seq$rank" != "3$1" ] || continue
				echo "{\"record\":\"coll\",\"comm\":\"world\",\"seq\":$seq,\"op\":\"allreduce\","\
					"\"bytes\":4096,\"launch_ns\":${seq}00000000" \
					"$([ "$seq$1" = 3 ] || [ "$seq" -lt 3 ] && echo ",\"end_ns\":${seq}10000000")}"
			done
			[ -n "$1" ] || echo '{"record":"counter","t_ns":1,"name":"x","value":0}'
		} | sed 's/" "/""/' >"job/$rank.records"
	done
}

@test "bad usage is one line and status 64" {
	records ''
	mkdir empty
	while read -r arguments; do
		# shellcheck disable=SC2086
		run shift-diag pulse $arguments
		expect_status 64
		expect_line '^shift-diag: '
	done <<-END

		nowhere
		empty
		--kappa 1 job
		--kappa x job
		--repeat 0 job
		--delta soon job
		--hang 0 job
		--slice -1 job
		--format xml job
		--nonsense job
	END
}

@test "a rank that has not begun is the culprit, as text and as JSON" {
	records 2
	run shift-diag pulse job
	expect_status 2
	expect_match 'missing-start.*rank 2 host node2 pid 102'
	run shift-diag pulse --json job/*.records
	expect_status 2
	jq -e '.schema_version == 1 and .inferred == false and
		.communicators[0].operations == 3' <<<"$output"
	jq -e '.verdicts[0] | .rule == "missing-start" and .class == "stopped" and
		.component == "computation" and .culprits[0].rank == 2 and
		.thresholds.kappa == 1.15 and .coverage.ranks_seen == 4' <<<"$output"
}

@test "an operation that may go on for longer does not stand still" {
	records 2
	run shift-diag pulse --hang 1m job
	expect_status 0
	run shift-diag pulse --kappa 2 --repeat 5 --delta 5ms --slice 65536 --hang 1m --json job
	expect_status 0
	jq -e '.verdicts[0].thresholds | .kappa == 2 and .repeat == 5 and .delta_ns == 5e6 and
		.slice_bytes == 65536 and .hang_ns == 6e10' <<<"$output"
}

@test "nobody is well without records" {
	records 2
	rm job/3.records
	run shift-diag pulse --hang 1m job
	expect_status 3
	expect_match '1 of 4 ranks have no records'
}
