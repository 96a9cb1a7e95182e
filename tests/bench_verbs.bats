# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-bench verbs: what it says, and that what it measures is so. Over the null provider.

load helper

setup() {
	hooks=$BUILDDIR/lib/.libs/libshift-hooks.so
	PATH=$BUILDDIR/cmd/shift-bench/verbs_client:$PATH
	cd "$BATS_TEST_TMPDIR" || return
}

needs_unsanitized() {
	! ldd "$BUILDDIR/lib/.libs/libshift.so" | grep -qE 'lib[at]san' || skip "not with a sanitizer"
}

needs_valgrind() {
	command -v valgrind >/dev/null || skip "valgrind is not installed"
}

client() { # OPTION...: without shift
	LD_LIBRARY_PATH=$BUILDDIR/tests/nullverbs/.libs verbs-client --elsewhere "$@"
}

patterns() {
	shift-bench verbs --help | sed -n '/^Patterns\. /,$ s/^  \([a-z][a-z0-9-]*\)  .*/\1/p'
}

added() { # FILE CASE: instructions
	jq --arg id "$2" '.cases[] | select(.id == $id).results[] | select(.metric == "instructions") |
		.shift.median - .baseline.median' "$1"
}

@test "the manual page has every pattern" {
	[ "$(patterns | wc -l)" -gt 30 ]
	patterns | grep -qx controls
	diff <(patterns | sort) <(sed -n '/^The patterns:/,/^\.El/ s/^\.It Li \([a-z0-9-]*\).*/\1/p' "$SRCDIR/man/shift-bench.1" | sort)
}

@test "what is not understood is bad usage, in one line" {
	while read -r arguments; do
		# shellcheck disable=SC2086
		run shift-bench verbs $arguments
		expect_status 2
		[ "${#lines[@]}" -eq 1 ]
		expect_line '^shift-bench'
	done <<-END
		--patterns same-3qp
		--patterns same-1qp,
		--mix x
		--mix 5..1
		--mix 1..100000
		--mix 1 --patterns same-1qp
		--mix 1 --qps 2
		--only both
		--only ns --at-most 60
		--at-most few
		--qps 0
		--qps 1001
		--wrs 10
		--gid-index 1
		--library $BATS_TEST_TMPDIR/none.so
		--testbed x
		same-1qp
	END
}

@test "a NIC that there is not: one line" {
	run shift-bench verbs --nic mlx5_99
	expect_status 2
	[ "${#lines[@]}" -eq 1 ]
	expect_line '^shift-bench: verbs: there is no such NIC'
}

@test "every pattern posts what it says, and all of it completes" {
	for pattern in $(patterns | grep -vx controls); do
		client --pattern "$pattern" --wrs 2000 >out || { echo "$pattern" && return 1; }
		awk -v pattern="$pattern" '{n[$1] = $2} END {
			expected = n["receives"] + (pattern ~ /unsignaled/ ? n["wrs"] / 16 : n["posts"])
			if (pattern ~ /-list8/) expected = n["receives"] + n["posts"]
			off = n["completions"] - expected
			exit !(n["wrs"] >= 2000 && n["ns_per_wr"] > 0 && off > -64 && off < 64)}' out ||
			{ echo "$pattern" && cat out && return 1; }
	done
}

@test "--mix: the same seed posts the same, another one does not" {
	for seed in 1 2 3 4; do
		client --mix $seed --wrs 5000 | grep -v '^ns' >one
		client --mix $seed --wrs 5000 | grep -v '^ns' >two
		diff one two
		grep -qE '^wrs 500[0-9]$' one
	done
	client --mix 5 --wrs 5000 | grep -v '^ns' >two
	run ! diff -q one two
}

@test "--mix: seeds have one QP and hundreds, one thread and two, all opcodes" {
	for seed in {1..40}; do client --mix "$seed" --wrs 1000; done >out
	awk '{n[$1] += $2 > 0; if ($1 == "qps") {few += $2 < 10; many += $2 > 300}; if ($1 == "threads") two += $2 == 2}
		END {exit !(few && many && two > 5 && two < 35 && n["write"] && n["write_imm"] && n["send"] && n["send_imm"] &&
			n["read"] && n["fetch_add"] && n["cmp_swp"] && n["inline"])}' out
}

@test "what callgrind counts does not change from run to run" {
	needs_unsanitized
	needs_valgrind
	for n in 1 2; do
		run -0 shift-bench verbs --only instructions --patterns filled-8qp,two-post --seed 1 --json $n.json
	done
	for pattern in filled-8qp two-post; do
		awk -v a="$(added 1.json $pattern)" -v b="$(added 2.json $pattern)" -v p=$pattern 'BEGIN {print p, a, b; exit !(a > 10 && a - b < 5 && b - a < 5)}'
	done
}

@test "--at-most: the exit status says whether it is kept" {
	needs_unsanitized
	needs_valgrind
	run -0 shift-bench verbs --only instructions --patterns same-1qp --at-most 1000
	run shift-bench verbs --only instructions --patterns same-1qp --at-most 1
	expect_status 4
	expect_match 'shift-bench: verbs: same-1qp: [0-9.]+ instructions added, at most 1'
}

@test "without valgrind: ns, and it is said that instructions are not counted" {
	needs_unsanitized
	mkdir bin
	for tool in bash env; do ln -s "$(command -v $tool)" bin/; done
	PATH=$PWD/bin run -0 "$BUILDDIR/cmd/shift-bench/shift-bench" verbs --patterns same-1qp --repetitions 2
	expect_match 'valgrind is missing, so no instructions are counted; install it with: apt-get install valgrind'
	expect_match 'instructions: valgrind is not installed'
	PATH=$PWD/bin run "$BUILDDIR/cmd/shift-bench/shift-bench" verbs --patterns same-1qp --only instructions
	expect_status 5
}

@test "control verbs: each has a figure on both sides" {
	needs_unsanitized
	run -0 shift-bench verbs --patterns controls --repetitions 2 --json out.json
	[ "$(jq '[.cases[0].results[] | select(.baseline.median > 0 and .shift.median > 0)] | length' out.json)" -eq 13 ]
}

@test "a library that is slower by 2 us per post is noticed: by verbs, and by compare" {
	needs_unsanitized
	common='verbs --patterns filled-1qp,list8-8qp --only ns --repetitions 8 --wrs 20000'
	# shellcheck disable=SC2086
	run -0 shift-bench $common --library "$hooks" --json fast.json
	# shellcheck disable=SC2086
	run -0 shift-bench $common --library "$hooks" --env SHIFT_SLOW_POST=2us --json slow.json
	jq -e '[.cases[].results[] | select(.metric == "time") | .ratio | .difference == "more" and .ratio > 10] | all' slow.json
	run shift-bench compare fast.json slow.json
	expect_status 4
	expect_match 'filled-1qp.*WORSE'
	expect_match 'list8-8qp.*WORSE'
}

@test "interrupted: what was measured is kept, nothing is left" {
	needs_unsanitized
	TMPDIR=$PWD/tmp
	mkdir tmp
	export TMPDIR
	shift-bench verbs --only ns --json out.json 3>&- &
	pid=$!
	wait_until 60 grep -qs '"filled-1qp"' out.json
	kill -INT $pid
	status=0
	wait $pid || status=$?
	[ "$status" -eq 130 ]
	[ "$(jq -r .state out.json)" = interrupted ]
	[ "$(jq '[.cases[0].samples[] | select(.values.time > 0)] | length' out.json)" -eq 20 ]
	[ -z "$(ls tmp)" ]
	run ! pgrep -P $pid
}
