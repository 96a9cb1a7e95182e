#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# coverage.sh SOURCE [SEEDS]: lines of lib/core that the simulator and the unit tests reach, and those that
# they do not. Fails below 95 %. Builds in a directory of its own.
set -euo pipefail

source=$(cd "${1:?usage: coverage.sh SOURCE [SEEDS]}" && pwd)
seeds=${2:-1..100000}
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cd "$build"
"$source/configure" -q CFLAGS='-O1 -g --coverage' >configure.log 2>&1 || { cat configure.log; exit 1; }
# One build of lib/core with everything compiled in serves all; the counters of several objects of one
# source do not add up.
unit_tests=(psn wrlog msg fast progress invariants posting log_rules log_reuse completions no_progress rails)
for test in setup trigger handshake proof planned promise lives end fence switch timers replay failback random; do
	unit_tests+=("conn_$test")
done
unit_tests+=(conn_config conn_hello conn_answers conn_times conn_view conn_last conn_actions msg_fields siphash)
make -s -j2 lib/libshiftcore-checked.la tests/sim/sim "${unit_tests[@]/#/tests/unit/test_}" \
	>make.log 2>&1 || { cat make.log; exit 1; }
tests/sim/sim --seeds "$seeds" -q
for test in "${unit_tests[@]}"; do
	"tests/unit/test_$test" >test.log 2>&1 || { cat test.log; exit 1; }
done
for file in "$source"/lib/core/*.c; do
	name=$(basename "$file" .c)
	object=$(find lib -name "*_checked_la-$name.gcda" | head -n 1)
	[ -n "$object" ] || { echo "$name.c: never run"; exit 1; }
	gcov -r -s "$source" -o "${object%.gcda}" "$file" >"gcov.$name" 2>/dev/null
	sed -n "/^File '.*core\/$name.c'/{n;s/Lines executed:\([0-9.]*\)% of \([0-9]*\)/$name.c \1 \2/p}" "gcov.$name"
done | awk '
	{printf "%-14s %6.2f %% of %4d lines\n", $1, $2, $3; all += $3; hit += $2 * $3 / 100}
	END {printf "lib/core: %.2f %% of %d lines\n", 100 * hit / all, all; exit hit < 0.95 * all}' || status=$?
# A transition or an action that is not reached is a failure at any percentage.
not_reached=$(for file in *.c.gcov; do
	[ -e "$source/lib/core/${file%.gcov}" ] &&
		sed -n "s/^ *#####: *\([0-9]*\):/${file%.gcov}:\1:/p" "$file"
done)
echo "$not_reached" | head -n "${SHOW:-0}"
if echo "$not_reached" | grep -E 'conn_set_state\(|conn_emit\(|giveup_start\('; then
	echo "a transition or an action is not reached: see above"
	status=1
fi
exit "${status:-0}"
