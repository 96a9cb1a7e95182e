# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-diag path: recorded simulations with known answers, records, and bad input.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR"
	export ASAN_OPTIONS=log_path=$PWD/sanitizer UBSAN_OPTIONS=log_path=$PWD/sanitizer
	data=$SRCDIR/tests/data/path
}

teardown() {
	! cat "$BATS_TEST_TMPDIR"/sanitizer.* 2>/dev/null
}

query() { # JQ-EXPRESSION, of $output
	jq -rc "$1" <<<"$output"
}

@test "ring: critical path, its length and the rating are exact" {
	run -2 shift-diag path --json "$data/ring_e1"
	[ "$(query '[.path.steps[] | [.rank, .step]]')" = \
		'[[13,1],[14,2],[14,3],[14,4],[14,5],[14,6],[14,7],[14,8],[14,9],[14,10],[14,11],[14,12],[14,13],[14,14]]' ]
	[ "$(query '.path.total_ns, .path.makespan_ns')" = $'624098483\n624098483' ]
	[ "$(query '.ratings | length')" -eq 1 ]
	[ "$(query '.ratings[0].flow')" = '12:10001>15:10001' ]
	[ "$(query '.ratings[0].rating * 100 | round')" = 2410044 ]
	# Both flows of others are named, the one that was rated first.
	[ "$(query '.verdicts[] | select(.rule == "contention").culprits | [.[].what]')" = '["12:10001>15:10001","14:10001>18:10001"]' ]
}

@test "ring: lines of a flow may be added up" {
	run -2 shift-diag path --all-lines --json "$data/ring_e1"
	[ "$(query '.ratings[0].rating * 100 | round')" = 4001087 ]
}

@test "halving and doubling: critical path and length are exact, nobody contributes" {
	run shift-diag path --json "$data/hd_e1"
	[ "$(query '[.path.steps[] | [.rank, .step]]')" = '[[15,1],[14,2],[12,3],[12,4],[16,5],[18,6]]' ]
	[ "$(query .path.total_ns)" = 775998929 ]
	[ "$(query .ratings)" = '[]' ]
	[ "$(query '[.verdicts[] | select(.level == "flow")]')" = '[]' ]
}

@test "as text" {
	run -2 --separate-stderr shift-diag path "$data/ring_e1"
	expect_match 'critical path: 624098483 ns of 624098483 ns'
	expect_match '12:10001>15:10001 +24100\.44 100 %'
	expect_match 'culprit, a flow: 12:10001>15:10001 \(100 %\)'
	[ -z "$stderr" ]
}

@test "without telemetry no port is named" {
	mkdir d
	cp "$data/ring_e1/fct.txt" "$data/ring_e1/topology.txt" "$data/ring_e1/pfc.txt" d
	run -2 shift-diag path d
	[[ $output != *switch\ [0-9]* ]]
	expect_match 'critical-path'
	expect_match 'no port can be named'
}

records() { # RANK: two ranks, rank 1 is slow in its first step
	printf '{"record":"header","format":"shift-records","version":1,"job":"j","host":"h%d","pid":1,"rank":%d,"began":"1795855608000000000"}\n' "$1" "$1"
	printf '{"record":"comm","comm":"w","size":2,"rank":%d}\n' "$1"
	printf '{"record":"step","comm":"w","seq":1,"step":1,"peer":%d,"bytes":100,"start_ns":0,"end_ns":%d,"expected_ns":1000,"flow":"f%d"}\n' \
		$((1 - $1)) $((1000 + $1 * 2000)) "$1"
	printf '{"record":"step","comm":"w","seq":1,"step":2,"peer":%d,"bytes":100,"start_ns":3000,"end_ns":4000,"expected_ns":1000,"wait_rank":%d,"wait_step":1,"send_index":1,"recv_index":1,"flow":"f%d"}\n' \
		$((1 - $1)) $((1 - $1)) "$1"
}

@test "records: the path goes over the slow rank; telemetry names who was in its way" {
	mkdir d
	records 0 >d/0.records
	records 1 >d/1.records
	run -2 shift-diag path --json d
	[ "$(query '[.path.steps[] | [.rank, .step]]')" = '[[1,1],[0,2]]' ]
	[ "$(query .path.total_ns)" = 4000 ]
	[ "$(query '.verdicts[0] | .rule, .culprits[0].rank')" = $'critical-path\n1' ]
	cat >d/s.telemetry <<-'END'
		{"record":"header","format":"shift-telemetry","version":1,"began":"1795855608000000000"}
		{"record":"port","t_ns":500,"switch":"leaf1","port":"7","packets":4,"depth_packets":4,"flows":[{"flow":"f1","packets":2,"depth_packets":2},{"flow":"x","packets":2,"depth_packets":2}]}
	END
	run -2 shift-diag path --json d
	[ "$(query '.ratings[0].flow')" = x ]
	[ "$(query '.ratings[0].rating')" = 1 ]
	[ "$(query '.verdicts[0] | .rule, .culprits[0].what')" = $'contention\nx' ]
	[ "$(query '.findings[0].port')" = 'switch leaf1 port 7' ]
}

@test "records of some ranks only: undecided" {
	mkdir d
	records 0 >d/0.records
	run -3 shift-diag path d
	expect_match 'incomplete'
}

@test "bad usage and bad input are one line and status 64" {
	mkdir empty bad cut twice json
	cp "$data"/ring_e1/*.txt bad
	echo '1 2 3' >>bad/fct.txt
	echo '12 13 1 1 19 1 1 1 0 1' >cut/fct.txt
	records 0 >twice/0.records
	records 0 >twice/1.records
	records 0 >json/0.records
	records 1 >json/1.records
	echo '{"record":"port"}' >json/x.telemetry
	while read -r arguments; do
		# shellcheck disable=SC2086
		run shift-diag path $arguments
		expect_status 64
		expect_line '^shift-diag: .*(;|:).*'
	done <<-END

		nowhere
		empty
		bad
		cut
		twice
		json
		empty more
		--window soon empty
		--seq 0 empty
		--seq 1 $data/ring_e1
		--format xml empty
	END
}

@test "a truncated block is left out, and told in one line" {
	cp -r "$data/ring_e1" d
	chmod -R u+w d
	head -c -40 "$data/ring_e1/telemetry_7.txt" >d/telemetry_7.txt
	run --separate-stderr shift-diag path --json d
	expect_status 2
	[[ $stderr =~ telemetry_7.txt:[0-9]+:\ it\ ends\ within\ a\ block ]]
	[ "$(query .path.total_ns)" = 624098483 ]
}
