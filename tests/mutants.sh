#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Break lib/core on purpose in every way that lib/core/mutants.h lists, and show that each is caught.
# Usage: mutants.sh --sim PROGRAM --table mutants.h [--seeds A..B] [--tap]
# PROGRAM is tests/sim/sim-mutants. Exit: 0 all killed, 1 one survived, 2 usage.
set -u

sim='' table='' seeds=1..20000 tap=no
while [ $# -gt 0 ]; do
	case $1 in
	--sim) sim=$2; shift ;;
	--table) table=$2; shift ;;
	--seeds) seeds=$2; shift ;;
	--tap) tap=yes ;;
	*) echo "usage: mutants.sh --sim PROGRAM --table FILE [--seeds A..B] [--tap]" >&2; exit 2 ;;
	esac
	shift
done
if [ ! -x "$sim" ] || [ ! -r "$table" ]; then
	echo "mutants.sh: --sim or --table missing" >&2
	exit 2
fi

# The rule that tests/model/run removes to the same effect, where the model has it.
model_rule()
{
	case $1 in
	SKIP_BARRIER) echo BARRIER ;;
	FORGET_TAG) echo 7 ;;
	SEND_BEFORE_SWITCH) echo 14 ;;
	STALE_EPOCH|COMMIT_OTHER_EPOCH) echo 9 ;;
	REP_QP_JUST_LEFT) echo 2_NEWEST ;;
	WRONG_PARITY) echo 3 ;;
	FAILED_UNFENCED|CLOSED_UNFENCED) echo 19 ;;
	REP_LAST_COMMITTED) echo 10 ;;
	NO_FENCE_IF_NOT_ACTIVE) echo 5 ;;
	NEVER_ANSWER) echo 8 ;;
	TRUST_LEAVING) echo LEAVING ;;
	*) echo - ;;
	esac
}

list()
{
	sed -n 's/^[[:blank:]]X(\([0-9]*\), \([A-Z_]*\), "\(.*\)").*$/\1 \2 \3/p' "$table"
}

out=$(mktemp) || exit 2
trap 'rm -f "$out"' EXIT INT TERM
fail=0 n=0
count=$(list | wc -l)
[ "$count" -ge 12 ] || { echo "mutants.sh: no table in $table" >&2; exit 2; }
if [ $tap = yes ]; then
	echo "1..$count"
else
	printf '%3s %-23s %-9s %8s %9s  %s\n' no mutant 'model' seed schedules 'caught as'
fi
list >"$out.list"
while read -r number name what; do
	n=$((n + 1))
	if "$sim" --seeds "$seeds" --mutant "$number" --lines 0 -q >"$out" 2>&1; then
		fail=1 verdict="SURVIVED: $what" seed=- runs=-
	else
		verdict=$(sed -n 's/^seed [0-9]*: [A-Z]* *after [0-9]* events: //p; s/^seed [0-9]*: CRASH, /crash: /p' \
			"$out" | head -n 1)
		seed=$(sed -n 's/^seed \([0-9]*\): .*/\1/p' "$out" | head -n 1)
		runs=$(sed -n 's/^after \([0-9]*\) schedules/\1/p' "$out")
		# Another failure proves nothing.
		[ -n "$verdict" ] || { fail=1 verdict="ERROR: $(head -n 1 "$out")"; }
	fi
	case $verdict in
	SURVIVED*|ERROR*) word='not ok' ;;
	*) word=ok ;;
	esac
	if [ $tap = yes ]; then
		echo "$word $n - mutant $number $name: seed $seed, schedule $runs: $verdict"
	else
		printf '%3s %-23s %-9s %8s %9s  %s\n' "$number" "$name" "$(model_rule "$name")" "$seed" \
			"$runs" "$verdict"
	fi
done <"$out.list"
rm -f "$out.list"
[ $tap = yes ] || [ $fail != 0 ] || echo "all $count mutants killed"
exit $fail
