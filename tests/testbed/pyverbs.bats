# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# rdma-core's own tests (Debian's python3-pyverbs ships them), run at one host with and without libshift.so: each has the same
# result. Their QPs are connected within one process, which is not protected. So this is not about faults: it shows that the
# verbs which the library passes on or carries out itself do what rdma-core says, errors included.
# shellcheck disable=SC2016,SC2034,SC2154  # code for the guest's shell; variables for, and of, survive.bash

load ../helper
load survive

export NAME=check-pyverbs

lots='1 2 3'      # runs with and without, each pair with sizes, flags and orders of its own
least_tests=250   # there are 273 in rdma-core 44
least_passed=80   # 96 to 97: the others are for NICs of mlx5 and EFA, or need what soft-RoCE has not
least_qps=40      # that the library has seen in a run

setup() {
	cd "$BUILDDIR" || return
	[ -e /usr/share/doc/rdma-core/tests ] || {
		echo "python3-pyverbs is not installed"
		return 1
	}
	out=$BATS_TEST_TMPDIR
	shift_env=(SHIFT_LOG_FILE=/tmp/shift.log)
}

teardown() {
	survive_down
}

# One run at host a under "${prefix[@]}", in a directory of its own, where a process that crashes leaves its core.
suite() { # RUN OPTIONS...; the results are in $out/RUN
	local run=$1
	shift
	shift-testbed exec --name "$NAME" --timeout 400s a -- sh -c 'mkdir -p "$1" && cd "$1" && ulimit -c unlimited && shift && exec "$@"' \
		sh "/tmp/$run" "${prefix[@]}" /usr/bin/python3 "$SRCDIR/tests/testbed/pyverbs-suite" --dev mlx5_0 --gid 1 "$@" \
		>"$out/$run" 2>"$out/$run.err" || {
		echo "run $run: status $?"
		tail -n 20 "$out/$run" "$out/$run.err"
		return 1
	}
}

same_results() {
	local lot
	for lot in $lots; do
		unprotected
		suite "without.$lot" --lot "$lot" || return
		protected
		suite "with.$lot" --lot "$lot" && was_loaded && whole "with.$lot" && explained "$lot" || return
	done
	for lot in $lots; do
		echo "# lot $lot: without us $(figures "without.$lot"); with us $(figures "with.$lot")" >&3
	done
}

# The library has seen the QPs of the tests.
was_loaded() {
	local qps
	qps=$(on a sh -c 'grep -c "CLOSING -> CLOSED" /tmp/shift.log; rm -f /tmp/shift.log')
	[ "${qps:-0}" -ge $least_qps ] || {
		echo "the library has seen ${qps:-no} RC QPs"
		return 1
	}
}

# Did all tests run, enough of them for good, and did no process crash? RDMA-CM's fork, and do not look how a child ended.
whole() { # RUN
	if [ "$(wc -l <"$out/$1")" -ge $least_tests ] && [ "$(cut -f2 "$out/$1" | grep -c '^ok$')" -ge $least_passed ] &&
		! cut -f2 "$out/$1" | grep -qE 'CRASH|HANG' && ! on a sh -c 'ls /tmp/'"$1"'/core.* 2>/dev/null'; then
		return
	fi
	echo "run $1: $(figures "$1")"
	grep -E $'\t(CRASH|HANG)\t' "$out/$1"
	tail -n 30 "$out/$1.err"
	return 1
}

figures() { # RUN
	cut -f2 "$out/$1" | sort | uniq -c | awk '{n += $1; said = said ", " $1 " " $2} END {print n " tests" said}'
}

# Name, result and reason of each test.
results() { # RUN...
	(cd "$out" && cut -f1-3 "$@" | sort -u)
}

# A result that is another with us has to be among those that this test has without us, alone, in 30 more runs. The guest is
# busy meanwhile: test_resize_cq does not wait for what it has posted, and fails in half of the runs then (else in 1 of 15).
explained() { # LOT
	local lot=$1
	comm -13 <(results "without.$lot") <(results "with.$lot") >"$out/other"
	[ -s "$out/other" ] || return 0
	cut -f1 "$out/other" >"$out/names"
	busy
	suite "again.$lot" --lot "$lot" --only /dev/stdin --times 30 <"$out/names" || {
		cat "$out/other"
		return 1
	}
	results "without.$lot" "again.$lot" >"$out/known"
	sed 's/^/# differs from run to run without us, too: /' <(comm -12 "$out/other" "$out/known") >&3
	comm -23 "$out/other" "$out/known" >"$out/ours"
	[ -s "$out/ours" ] || return 0
	echo "with us:"
	cat "$out/ours"
	echo "without us:"
	grep -wFf <(cut -f1 "$out/ours") "$out/known"
	tail -n 20 "$out/with.$lot.err"
	return 1
}

busy() {
	prefix=(sh -c 'for i in 1 2 3; do while :; do :; done & p="$p $!"; done; "$@"; status=$?; kill $p; exit $status' sh)
}

@test "kernel 6.1: rdma-core's own tests have the same results with and without us" {
	survive_up 6.1
	outlives_panic same_results
}

@test "kernel 6.12: rdma-core's own tests have the same results with and without us" {
	survive_up 6.12
	outlives_panic same_results
}
