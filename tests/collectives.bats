# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Collectives of MPI over shared memory, and of an NCCL without GPUs, as shift-diag collect tells them; no RDMA.
# shellcheck disable=SC2164  # bats fails where cd does

load helper
load driven

setup_file() {
	cd "$BATS_FILE_TMPDIR"
	"${CC:-gcc}" -shared -fPIC -D_GNU_SOURCE -I"$SRCDIR" -Wl,-soname,libnccl.so.2 -o libnccl.so.2 "$SRCDIR/tests/collectives/fake_nccl.c"
	"${CC:-gcc}" -D_GNU_SOURCE -I"$SRCDIR" -o nccl_ranks "$SRCDIR/tests/collectives/nccl_ranks.c" libnccl.so.2 -Wl,-rpath,"$PWD"
	! has_mpi || mpicc -O2 -o mpi_ranks "$SRCDIR/tests/collectives/mpi_ranks.c"
}

setup() {
	cd "$BATS_TEST_TMPDIR"
	SHARED=$BATS_FILE_TMPDIR HOOKS=$BUILDDIR/collectives/.libs
	unset "${!SHIFT_@}" LD_PRELOAD
	export SHIFT_RUN_DIR=$PWD/run SHIFT_JOB=j
	export ASAN_OPTIONS=log_path=$PWD/sanitizer:verify_asan_link_order=0:detect_leaks=0 UBSAN_OPTIONS=log_path=$PWD/sanitizer
}

teardown() {
	local pid
	for pid in "${PID[@]}"; do kill -9 "$pid"; done 2>/dev/null || true
	! cat sanitizer.* 2>/dev/null
}

has_mpi() {
	command -v mpirun mpicc >/dev/null && [ -e "$BUILDDIR/collectives/.libs/libshift-mpi-ompi.so" ]
}

needs_mpi() {
	has_mpi || skip "no Open MPI (Debian: libopenmpi-dev, openmpi-bin), or shift was built without its headers"
}

# Ranks under the hook of MPI, driven by the name "ranks".
ranks() { # NUMBER MODE WORD...
	local n=$1
	shift
	drive ranks mpirun --allow-run-as-root --oversubscribe -np "$n" -x SHIFT_JOB -x SHIFT_RUN_DIR \
		-x LD_PRELOAD="$HOOKS/libshift-mpi-ompi.so" "$SHARED/mpi_ranks" "$1" "$PWD/pids" "${@:2}"
	wait_until 60 all_have_come "$n"
}

all_have_come() {
	[ -e pids ] && [ "$(wc -l <pids)" -eq "$1" ]
}

pid_of() { # RANK
	awk -v rank="$1" '$1 == rank {print $2}' pids
}

records() { # RANK FILTER...: of that rank's file, with jq
	jq -c "${@:2}" out/*."$(pid_of "$1")".records
}

colls() { # RANK FILTER: of all its collectives
	records "$1" "select(.record == \"coll\") | $2"
}

@test "the collectives of three ranks: operations, counts, roots, and ends behind launches" {
	needs_mpi
	ranks 3 all
	run -0 shift-diag collect out
	[ "${#lines[@]}" -eq 3 ]
	[ "$(records 0 'select(.record == "header") | [.format, .version, .job, .rank, .dropped, .strangers, .died]')" = \
		'["shift-records",1,"j",0,0,null,null]' ]
	[ "$(colls 1 'select(.comm == "world" and .seq < 17) | [.seq, .op, .dtype, .count, .bytes, .root]')" = \
'[1,"barrier",null,0,0,null]
[2,"broadcast","int",5,20,1]
[3,"allreduce","double",1,8,null]
[4,"reduce","double",1,8,0]
[5,"allgather","int",2,8,null]
[6,"allgather","int",2,8,null]
[7,"reducescatter","int",6,24,null]
[8,"reducescatter","int",3,12,null]
[9,"alltoall","byte",4,4,null]
[10,"alltoall","int",6,24,null]
[11,"gather","int",3,12,0]
[12,"gather","int",2,8,0]
[13,"scatter","int",2,8,0]
[14,"scatter","int",2,8,0]
[15,"scan","double",1,8,null]
[16,"scan","double",1,8,null]' ]
	# In place, and one with an array of counts, as the root sees them.
	[ "$(colls 0 'select(.comm == "world" and (.seq == 12 or .seq == 14)) | [.seq, .dtype, .count]')" = \
		"[12,\"int\",1]
[14,\"int\",1]" ]
	for rank in 0 1 2; do
		[ "$(colls $rank 'select(.seq != 17 and (.end_ns == null or .end_ns < .launch_ns or .launch_ns <= 0))')" = "" ]
	done
	# Those that do not wait, and one of a type of the program's own.
	[ "$(colls 2 'select(.dtype == "derived") | [.op, .count, .bytes]')" = '["broadcast",1,8]' ]
	hang_up ranks
	[ -z "$(find run -name '*.coll')" ]
}

@test "communicators have one name at all members, and each its own" {
	needs_mpi
	ranks 4 all
	run -0 shift-diag collect out
	for rank in 0 1 2 3; do
		# In the order in which they were made: world, a copy, half of it, a copy of that, two by group.
		records $rank 'select(.record == "comm")' >"comm.$rank"
		colls $rank '[.comm, .seq, .op]' | sort >"colls.$rank"
	done
	name() { jq -r --argjson n "$2" -s '.[$n].comm' "comm.$1"; }
	[ "$(name 0 0)" = world ]
	for n in 0 1; do
		for rank in 1 2 3; do [ "$(name 0 $n)" = "$(name $rank $n)" ]; done
	done
	for n in 2 3; do
		[ "$(name 0 $n)" = "$(name 2 $n)" ]
		[ "$(name 1 $n)" = "$(name 3 $n)" ]
		[ "$(name 0 $n)" != "$(name 1 $n)" ]
	done
	[ "$(name 0 4)" = "$(name 1 4)" ]
	[ "$(name 2 4)" = null ]
	[ "$(jq -r .comm comm.? | sort -u | wc -l)" -eq 7 ]
	[ "$(jq -c '[.size, .rank, .hosts]' comm.3)" = "$(printf '[4,3,["%s","%s","%s","%s"]]\n' "$(uname -n)"{,,,})
$(printf '[4,3,["%s","%s","%s","%s"]]\n' "$(uname -n)"{,,,})
$(printf '[2,1,["%s","%s"]]\n' "$(uname -n)"{,})
$(printf '[2,1,["%s","%s"]]\n' "$(uname -n)"{,})" ]
	{ diff colls.0 colls.2 || true; } | grep -q '"barrier"' # the one by group, which rank 2 is not in
	{ diff colls.1 colls.3 || true; } | grep -q '"barrier"'
	hang_up ranks
}

@test "a rank that is killed in a collective leaves its launch without an end" {
	needs_mpi
	ranks 2 stop
	wait_until 30 is_stuck
	kill -9 "$(pid_of 0)"
	# mpirun ends the other one.
	wait "${PID[ranks]}" || true
	unset "PID[ranks]"
	rm -rf out
	run -0 shift-diag collect out
	[ "$(records 0 'select(.record == "header") | .died')" = true ]
	[ "$(colls 0 '[.comm, .seq, .op, .end_ns == null, .launch_only]')" = '["world",1,"barrier",false,null]
["world",2,"barrier",true,null]' ]
}

is_stuck() { # rank 0 waits in its second barrier, to which rank 1 does not come
	shift-diag collect out >/dev/null && [ "$(colls 0 'select(.end_ns == null) | .seq')" = 2 ]
}

@test "the newest are kept, and what was lost is counted" {
	needs_mpi
	ranks 2 many 5000
	run -0 shift-diag collect out
	[ "$(records 0 'select(.record == "header") | .dropped')" -ge 904 ]
	[ "$(colls 0 .seq | wc -l)" -ge 4090 ]
	[ "$(colls 0 .seq | sort -n | uniq -d)" = "" ]
	hang_up ranks
}

@test "a child that a rank forks writes and removes nothing" {
	needs_mpi
	ranks 2 fork
	run -0 shift-diag collect out
	[ "$(colls 0 'select(.end_ns != null) | .seq')" = 1 ]
	hang_up ranks
}

@test "where no file can be made, and without MPI, nothing happens" {
	needs_mpi
	export SHIFT_RUN_DIR=/proc/none
	ranks 2 all
	hang_up ranks
	export SHIFT_RUN_DIR=$PWD/run
	LD_PRELOAD=$HOOKS/libshift-mpi-ompi.so:$HOOKS/libshift-nccl.so run -0 sh -c 'echo well'
	[ "$output" = well ]
	rm pids ranks.in
	SHIFT_COLLECTIVES=off drive ranks mpirun --allow-run-as-root --oversubscribe -np 2 -x SHIFT_JOB -x SHIFT_RUN_DIR -x SHIFT_COLLECTIVES \
		-x LD_PRELOAD="$HOOKS/libshift-mpi-ompi.so" "$SHARED/mpi_ranks" all "$PWD/pids"
	wait_until 60 all_have_come 2
	hang_up ranks
	[ ! -e run ]
}

@test "NCCL: launches, groups, communicators that are split" {
	for rank in 0 1 2 3; do
		LD_PRELOAD=$HOOKS/libshift-nccl.so drive "rank$rank" "$SHARED/nccl_ranks" "$rank"
		wait_until 30 grep -q ready "rank$rank.out"
		echo "$rank ${PID[rank$rank]}" >>pids
	done
	run -0 shift-diag collect out
	[ "$(colls 3 '[.seq, .op, .dtype, .count, .bytes, .root, .launch_only, .end_ns]')" = \
'[1,"allreduce","float32",1000,4000,null,true,null]
[2,"broadcast","float16",7,14,3,true,null]
[3,"reducescatter","int32",5,20,null,true,null]
[1,"allreduce","int32",1,4,null,true,null]' ]
	[ "$(colls 0 .group)" = 'null
1
1
null' ]
	[ "$(records 2 'select(.record == "comm") | [.size, .rank, .hosts]')" = '[4,2,null]
[2,1,null]' ]
	for rank in 0 1 2 3; do records $rank 'select(.record == "comm") | .comm' >"comm.$rank"; done
	cmp comm.0 comm.2
	cmp comm.1 comm.3
	[ "$(head -1 comm.0)" = "$(head -1 comm.1)" ]
	[ "$(tail -1 comm.0)" != "$(tail -1 comm.1)" ]
	for rank in 0 1 2 3; do hang_up "rank$rank"; done
	[ ! -e run/j ]
}

@test "collect: what it refuses, and that it leaves whole files only" {
	run shift-diag collect out
	expect_status 3
	expect_line '^shift-diag: no protected process runs here$'
	[ ! -e out ]
	run shift-diag collect
	expect_status 64
	run shift-diag collect a b
	expect_status 64
	run shift-diag collect --job ../x out
	expect_status 64
	LD_PRELOAD=$HOOKS/libshift-nccl.so drive rank "$SHARED/nccl_ranks" 0
	wait_until 30 grep -q ready rank.out
	touch file
	run shift-diag collect file
	expect_status 64
	expect_line 'file: it is there, and no directory$'
	run shift-diag collect none/out
	expect_status 64
	run shift-diag collect --job k out
	expect_status 3
	run -0 shift-diag collect --job j --pid "${PID[rank]}" out
	run -0 shift-diag collect out
	[ "$(ls out)" = "$(uname -n).${PID[rank]}.records" ]
	[ "$(stat -c %a out/*)" = 600 ]
	# One that is no such file is said, and the others are written.
	echo nonsense >run/j/77.mpi.coll
	run shift-diag collect out
	expect_status 1
	expect_match '77.mpi.coll: not what its name says'
	hang_up rank
}

@test "shift-run takes the recorders that a program's file names, and says which" {
	unset SHIFT_JOB
	plan() { shift-run -nj "$@" 2>/dev/null | jq -c '[.collectives[] | sub(".*/"; "")]'; }
	[ "$(plan -- "$SHARED/nccl_ranks")" = '["libshift-nccl.so"]' ]
	[ "$(plan -- true)" = '[]' ]
	[ "$(plan --collectives off -- "$SHARED/nccl_ranks")" = '[]' ]
	[ "$(plan --collectives nccl -- true)" = '["libshift-nccl.so"]' ]
	[ "$(SHIFT_COLLECTIVES=nccl plan -- true)" = '["libshift-nccl.so"]' ]
	shift-run -n -- "$SHARED/nccl_ranks" >plan 2>/dev/null
	grep -q '^collectives .*/libshift-nccl.so$' plan
	grep -q 'LD_PRELOAD=.*/libshift.so:.*/libshift-nccl.so$' plan
	run shift-run -n --collectives all -- true
	expect_status 125
	expect_line '^shift-run: --collectives all: not one of '
	SHIFT_COLLECTIVES=all run shift-run -n -- true
	expect_status 125
	# Beside this copy of it there are none.
	mkdir bin
	cp "$BUILDDIR/cmd/shift-run/shift-run" bin
	cp "$BUILDDIR/lib/.libs/libshift.so" bin
	run bin/shift-run -n --collectives nccl -- true
	expect_status 125
	expect_line '^shift-run: --collectives nccl: there is no libshift-nccl.so beside libshift.so: '
	run -0 bin/shift-run -n -- "$SHARED/nccl_ranks"
	needs_mpi
	[ "$(plan -- "$SHARED/mpi_ranks")" = '["libshift-mpi-ompi.so"]' ]
	[ "$(plan -- mpirun "$SHARED/mpi_ranks")" = '["libshift-mpi-ompi.so"]' ]
	[ "$(plan --collectives mpi -- true)" = '["libshift-mpi-ompi.so"]' ]
}

# Linked with a tool, driven by the name "odd"; under the hook if HOOK is set.
odd() {
	"${CC:-gcc}" -shared -fPIC $(mpicc --showme:compile) -o libtool.so "$SRCDIR/tests/collectives/mpi_tool.c"
	mpicc -O2 -o odd "$SRCDIR/tests/collectives/mpi_odd.c" -L. -Wl,--no-as-needed -ltool -Wl,-rpath,"$PWD"
	drive odd env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ${HOOK:+LD_PRELOAD="$HOOK"} ./odd
	wait_until 60 grep -q '^pid ' odd.out
}

@test "a tool that the program is linked with sees its calls, and errors are the program's, as without the recorder" {
	needs_mpi
	for HOOK in '' "$HOOKS/libshift-mpi-ompi.so"; do
		rm -f odd.out odd.in
		odd
		hang_up odd
		grep -qx 'no datatype: 1' odd.out
		grep -qx 'the tool has seen 5' odd.out
	done
}

@test "a communicator that was freed behind the recorder does not give its name to the next one" {
	needs_mpi
	HOOK=$HOOKS/libshift-mpi-ompi.so odd
	run -0 shift-diag collect out
	[ "$(jq -c 'select(.record == "coll" and .op == "allreduce") | [.comm, .seq]' out/*.records | sort -u | wc -l)" -eq 5 ]
	[ "$(jq -r 'select(.record == "coll" and .op == "allreduce") | .comm' out/*.records | uniq -c | awk '{print $1}' | paste -sd' ')" = '4 1' ]
}
