# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-diag analyze: all analysers on incidents of the simulator, with known truth; and the pages of
# --html. How verdicts are put together is in tests/unit/test_answer.c.

load helper
load page

setup() {
	cd "$BATS_TEST_TMPDIR"
	export ASAN_OPTIONS=log_path=$PWD/sanitizer UBSAN_OPTIONS=log_path=$PWD/sanitizer
	PATH=$BUILDDIR/tests/collsim:$PATH
}

teardown() {
	! cat "$BATS_TEST_TMPDIR"/sanitizer.* 2>/dev/null
}

query() { # JQ-EXPRESSION, of $output
	jq -rc "$1" <<<"$output"
}

@test "a slow NIC: Pulse and Aegis name it, Vedrfolnir and Aegis its neighbour, and it is first" {
	collsim --case dp-slow-nic --seed 3 --out d
	run -2 shift-diag analyze --json d
	jq -e '.schema_version == 1 and .answer.class == "slow" and .answer.component == "communication"' <<<"$output"
	[ "$(jq '.culprits[0].rank' d/truth.json)" = 1 ]
	[ "$(query '.answer.culprits[0] | .rank, .host, .standing')" = $'1\nnode4\nculprit' ]
	[ "$(query '[.answer.culprits[0].named_by[] | .analyser] | sort')" = '["aegis","pulse"]' ]
	[ "$(query '[.answer.culprits[0].named_by[] | .evidence | length > 0] | all')" = true ]
	[ "$(query '[.answer.culprits[0].against[].command]')" = '["path"]' ]
	# Its neighbour, which one of the three contradicts.
	[ "$(query '.answer.culprits[1] | .rank, .standing')" = $'0\nsuspect' ]
	[ "$(query '[.answer.culprits[1].named_by[].command] | sort')" = '["path","slow"]' ]
	[ "$(query '[.answer.culprits[1].against[].command]')" = '["pulse"]' ]
	jq -e '.answer | .confidence == .culprits[0].confidence and .confidence > 0.9 and
		.coverage.ranks_seen == 8 and .coverage.ranks_expected == 8' <<<"$output"
	[ "$(query '[.verdicts[].command]')" = '["hang","fail","slow","pulse","path"]' ]
	[ "$(query .not_asked)" = '[]' ]
}

@test "a slow NIC: two name it, and nobody another one" {
	collsim --case dp-slow-nic --seed 10 --out d
	run -2 shift-diag analyze --json d
	[ "$(query '.answer.culprits[0].rank')" = "$(jq '.culprits[0].rank' d/truth.json)" ]
	[ "$(query '[.answer.culprits[0].named_by[] | .analyser] | unique')" = '["pulse","vedrfolnir"]' ]
	jq -e '.answer.culprits | length == 1 and .[0].confidence > 0.8' <<<"$output"
}

@test "a slow rank: one sees nothing, one names another, and the right one is first" {
	collsim --case dp-slow-rank --seed 3 --out d
	run -2 shift-diag analyze --json d
	[ "$(query '.answer.culprits[0].rank')" = "$(jq '.culprits[0].rank' d/truth.json)" ]
	[ "$(query '.answer.component')" = computation ]
	[ "$(query '[.answer.culprits[0].named_by[].command]')" = '["pulse"]' ]
	[ "$(query '[.answer.culprits[0].against[] | [.command, .class]] | sort')" = '[["path","slow"],["slow","fine"]]' ]
	jq -e '.answer.confidence < .answer.culprits[0].named_by[0].confidence' <<<"$output"
	run -2 shift-diag analyze d
	[[ ${lines[0]} =~ ^'it is slow, in computation (confidence 0.' ]]
	[[ ${lines[1]} =~ ^'1. culprit, a machine: rank 0 host node0 pid 4000' ]]
	expect_match ' +\+ pulse: slow, computation \(late-start'
	expect_match ' +- slow: sees nothing wrong \(confidence'
	expect_match ' +- path: names rank 7 .* instead \(critical-path'
	expect_match ' +rests on: 8 of 8 ranks'
	expect_match '2\. outvoted'
}

@test "a dead NIC: one names its neighbour, and the answer is right" {
	collsim --case dp-nic-down --seed 3 --out d
	run -2 shift-diag pulse --json d
	[ "$(query '.verdicts[0].culprits[0].rank')" = 7 ]
	run -2 shift-diag analyze --json d
	[ "$(query '.answer | .class, .culprits[0].rank, .culprits[0].device')" = $'failed\n0\nmlx5_0' ]
	[ "$(jq '.culprits[0].rank' d/truth.json)" = 0 ]
	[ "$(query '[.answer.culprits[0].named_by[].command]')" = '["fail","hang"]' ]
	[ "$(query '[.answer.culprits[0].against[].command]')" = '["pulse"]' ]
	[ "$(query '.answer.culprits[1] | .rank, [.against[].command]')" = $'7\n["fail"]' ]
}

@test "a rank that has stopped comes before what is slow" {
	collsim --case dp-stopped --seed 3 --out d
	run -2 shift-diag analyze --json d
	[ "$(query '.answer | .class, .culprits[0].rank')" = $'stopped\n0' ]
	[ "$(query '[.answer.culprits[0].named_by[].command] | sort')" = '["fail","hang","pulse"]' ]
	[ "$(query '.answer.culprits[0].confidence > 0.99')" = true ]
}

@test "others' traffic: the flows, as the telemetry of switches tells it" {
	collsim --case vedrfolnir-incast --seed 3 --out d
	run -2 shift-diag analyze --json d
	[ "$(query '[.answer.culprits[] | select(.level == "flow").what] | length')" -eq "$(jq '.culprits | length' d/truth.json)" ]
	jq -e '[.answer.culprits[0:8][] | .level == "flow" and .standing == "culprit"] | all' <<<"$output"
	# A rank that a flow makes slow is no contradiction.
	[ "$(query '[.answer.culprits[0:8][].against[]]')" = '[]' ]
}

@test "healthy jobs: nobody is blamed, and the status is 0" {
	local seed
	for seed in 1 2 3; do
		collsim --case dp-slow-nic --healthy --seed "$seed" --out "d$seed"
		run -0 shift-diag analyze --json "d$seed"
		jq -e '.answer.class == "fine" and ([.answer.culprits[] | select(.standing != "outvoted")] == [])' <<<"$output"
	done
	collsim --case vedrfolnir-incast --healthy --seed 1 --out d
	run -0 shift-diag analyze d
	expect_match '^fine: '
}

@test "a rank without records: not fine, and the coverage says so" {
	collsim --case dp-slow-nic --healthy --no-telemetry --seed 3 --out d
	rm d/rank004.records
	run -3 shift-diag analyze --json d
	jq -e '.answer | .class == "undecided" and .coverage.ranks_seen == 7 and .coverage.ranks_expected == 8' <<<"$output"
}

@test "what cannot be asked is said" {
	mkdir steps records
	cp "$SRCDIR"/tests/data/path/ring_e1/*.txt steps
	run -2 shift-diag analyze --json steps
	[ "$(query '[.not_asked[].command]')" = '["hang","fail","slow","pulse"]' ]
	[ "$(query '.answer.culprits[0].what')" = '12:10001>15:10001' ]
	collsim --case dp-stopped --seed 3 --no-telemetry --no-epochs --out d
	grep -hv '"step"' d/rank000.records >records/0.records
	run shift-diag analyze records
	expect_match ' +path +not asked: no step of such a collective'
}

@test "bad usage and bad input are one line and status 64" {
	mkdir empty bad
	echo nonsense >bad/x.records
	while read -r arguments; do
		# shellcheck disable=SC2086
		run shift-diag analyze $arguments
		expect_status 64
		expect_line '^shift-diag: '
	done <<-END

		nowhere
		empty
		empty empty
		--window soon empty
		--format xml empty
		--html
	END
	run shift-diag analyze bad
	expect_status 64
}

@test "pages: valid, self-contained, with all pictures and every culprit" {
	collsim --case vedrfolnir-incast --seed 3 --out net
	collsim --case dp-stopped --seed 3 --out stopped
	run -2 shift-diag analyze --html net.html net
	run -2 shift-diag analyze --html stopped.html stopped
	run -2 shift-diag pulse --html pulse.html stopped
	run -2 shift-diag path --html path.html net
	run shift-diag slow --html slow.html stopped
	expect_status 3
	for page in net stopped pulse path slow; do
		check_markup "$page.html" >tags
		grep -qw svg tags
		[ "$(grep -o '<svg role="img"' "$page.html" | wc -l)" -eq "$(grep -o '</title><desc ' "$page.html" | wc -l)" ]
		for name in $(grep -o 'var(--[a-z0-9]*)' "$page.html" | sort -u | sed 's/var(\(.*\))/\1/'); do
			[ "$(grep -o -- "$name:#" "$page.html" | wc -l)" -eq 2 ] # light and dark
		done
	done
	for id in timeline path network votes evidence; do
		grep -q "<h2 id=\"$id\"" net.html
	done
	grep -q '29:10003&gt;20:10003' net.html
	grep -qE 'fill="var\(--worse\)" font-weight="700">rank 0 node0<' stopped.html
	[ "$(grep -c 'font-weight="700"' stopped.html)" -eq 1 ]
	grep -q 'not ended' pulse.html
	run ! grep -q 'id="network"' stopped.html # no telemetry, so no port
}

@test "text of records is text on a page, not markup" {
	hostile='</title><script>alert(1)</script><img src=x onerror=x>&"'
	collsim --case vedrfolnir-contention --seed 3 --out d
	rm d/*.txt
	bad=$(jq -nc --arg s "${hostile:0:48}" '$s | tostring' | sed 's/^"//; s/"$//')
	sed -i "s#\"node[0-9]*\"#\"${bad//\\/\\\\}\"#g; s#\"world\"#\"${bad//\\/\\\\}\"#g; s#\"flow\":\"#&<b>#" d/*.records
	cat >d/s.telemetry <<-END
		{"record":"header","format":"shift-telemetry","version":1,"began":"1795855608000000000"}
		{"record":"port","t_ns":5000000,"switch":"<i>","port":"<b>","packets":4,"depth_packets":4,"flows":[{"flow":"<b>$(
			grep -hom1 '<b>[^"]*' d/rank000.records | sed 's/^<b>//')","packets":2,"depth_packets":2},{"flow":"<script>x","packets":2,"depth_packets":2}]}
	END
	run -2 shift-diag analyze --json d
	[ "$(query '.answer.culprits[0] | .level, .what')" = $'flow\n<script>x' ] # by shift-telemetry(5)
	for command in analyze pulse path slow; do
		run shift-diag "$command" --html page.html d
		[ "$status" -le 3 ]
		check_markup page.html >tags
		run ! grep -wE 'script|img|i' tags
		grep -qE '&lt;(script|/title|b|i)&gt;' page.html
	done
}

@test "a page replaces a file whole, or the command fails and says so" {
	collsim --case dp-stopped --seed 3 --no-telemetry --no-epochs --out d
	echo old >page.html
	run -2 shift-diag analyze --html page.html d
	grep -q '</html>' page.html
	[ "$(ls)" = $'d\npage.html' ]
	run shift-diag analyze --html nowhere/page.html d
	expect_status 70
	expect_line '^shift-diag: analyze: nowhere/page.html: '
}
