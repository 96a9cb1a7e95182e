# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# What tests/mutants/run says of mutants, with tables of one mutant each.

load ../helper

setup() {
	cd "$BUILDDIR"
	table=$BATS_TEST_TMPDIR
	echo 'tests/unit/test_psn lib/core {}' >"$table/judges"
}

mutant() { # OLD NEW [LINE]: number 7, in psn.c
	printf '%s\n' 'file lib/core/psn.c' "mutant 7: something" "-$1" "+$2" ${3:+"$3"} >"$table/one.mutants"
}

mutants() { # ARGUMENT...
	run "$SRCDIR/tests/mutants/run" --table "$table" --jobs 1 "$@"
}

@test "a mutant that a test notices is killed" {
	mutant 'return n ? (uint32_t)n : 1;' 'return (uint32_t)n;'
	mutants
	[ "$status" -eq 0 ]
	[[ $output =~ ' 7 lib/core/psn.c: killed by test_psn in ' ]]
	[[ $output =~ all\ +1\ +0\ +0\ +0\ +0 ]]
}

@test "the compiler's name may be of several words" {
	mkdir "$table/bin"
	printf '#!/bin/sh\nexec %s CC="env %s" "$@"\n' "$(command -v make)" "${CC:-gcc}" >"$table/bin/make"
	chmod +x "$table/bin/make"
	mutant 'return n ? (uint32_t)n : 1;' 'return (uint32_t)n;'
	PATH=$table/bin:$PATH mutants
	[ "$status" -eq 0 ] || { echo "$output" && return 1; }
	[[ $output =~ ' 7 lib/core/psn.c: killed by test_psn in ' ]]
}

@test "a mutant that no test notices fails the run" {
	mutant 'if (cand > posted)' 'if (posted < cand)'
	mutants
	[ "$status" -eq 1 ]
	[[ $output =~ ' 7 lib/core/psn.c: alive, SURVIVED: something' ]]
	mutants --tap
	[ "$status" -eq 1 ]
	[[ $output =~ 'not ok 1 - ' ]]
}

@test "it may have a reason; and one that is argued to be equivalent is not run" {
	mutant 'if (cand > posted)' 'if (posted < cand)' 'alive: it says the same'
	mutants
	[ "$status" -eq 0 ]
	[[ $output =~ ' alive, because it says the same' ]]
	mutant 'if (cand > posted)' 'while (true)' 'equivalent: it says the same'
	mutants
	[ "$status" -eq 0 ]
	[[ $output =~ all\ +0\ +1\ +0\ +0\ +0 ]]
}

@test "one that is known to be open fails a strict run only, and must be in a table" {
	mutant 'if (cand > posted)' 'if (posted < cand)'
	echo '7 # not tried' >"$table/open"
	mutants
	[ "$status" -eq 0 ]
	[[ $output =~ ' open, no test notices yet: something' ]]
	mutants --strict
	[ "$status" -eq 1 ]
	echo 8 >"$table/open"
	mutants --apply
	[ "$status" -eq 2 ]
}

@test "one that never ends is killed" {
	mutant 'uint64_t cand = acked' 'for (;;) ; uint64_t cand = acked'
	mutants --cpu-max 1
	[ "$status" -eq 0 ]
	[[ $output =~ ' killed by test_psn in '.*': hang' ]]
}

@test "one that does not apply, or twice, or has the number of another, fails the run" {
	mutant 'no such text' ''
	mutants --apply
	[ "$status" -eq 2 ]
	[[ $output =~ 'mutant 7 does not apply: 0 places' ]]
	mutant 'uint64_t' 'uint32_t'
	mutants --apply
	[ "$status" -eq 2 ]
	[[ $output =~ 'mutant 7 does not apply: '[1-9] ]]
	mutant 'if (cand > posted)' 'if (posted < cand)' 'withdrawn 7: it has gone'
	mutants --apply
	[ "$status" -eq 2 ]
	[[ $output =~ 'the number 7 was given before' ]]
}

@test "one that does not compile fails the run" {
	mutant 'if (cand > posted)' 'if (cand >'
	mutants
	[ "$status" -eq 1 ]
	[[ $output =~ 'does not compile' ]]
}

@test "the tables apply, and are in the distribution" {
	run "$SRCDIR/tests/mutants/run" --apply
	[ "$status" -eq 0 ] || { echo "$output" && return 1; }
	for file in "$SRCDIR"/tests/mutants/*.mutants; do
		grep -q "tests/mutants/${file##*/}" "$SRCDIR/tests/mutants/local.mk"
	done
}
