# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-run, with a libshift.so that does nothing, beside a copy of it; no RDMA.
# shellcheck disable=SC2164  # bats fails where cd does
# shellcheck disable=SC2016  # the code in single quotes is for a shell under shift-run
# shellcheck disable=SC2154  # stderr: set by bats

load helper
load etcd

ALL_THE_SAME='the command starts now, and its connections are not protected until that is mended'

setup_file() {
	needs_etcd
	cd "$BATS_FILE_TMPDIR"
	export BIN=$PWD/bin KV
	mkdir bin
	cp "$BUILDDIR/cmd/shift-run/shift-run" "$BUILDDIR/kv/shift-kvd" bin
	library bin/libshift.so 'int standin;'
	program static 'int main(void) { return 0; }' -static || rm -f static
	program plain 'int main(void) { return 0; }'
	export SHARED_JOB=shared-$$
	KV=$(SHIFT_RUN_DIR=$PWD/shared bin/shift-kvd etcd --job "$SHARED_JOB" --grace 20m 3>&-) # of no use for minutes, now and then
}

teardown_file() {
	cd "$BATS_FILE_TMPDIR"
	JOB=$SHARED_JOB
	end_daemons
}

setup() {
	needs_etcd
	cd "$BATS_TEST_TMPDIR"
	PATH=$BIN:$PATH
	JOB=j$$-$BATS_TEST_NUMBER
	SHARED=$BATS_FILE_TMPDIR
	unset "${!SHIFT_@}" MASTER_ADDR TORCHELASTIC_RUN_ID SLURM_JOB_ID OMPI_MCA_ess_base_jobid \
		PMIX_NAMESPACE LD_PRELOAD
	export SHIFT_RUN_DIR=$PWD/A
	# Detached processes have no standard error.
	export ASAN_OPTIONS=log_path=$PWD/sanitizer:verify_asan_link_order=0 UBSAN_OPTIONS=log_path=$PWD/sanitizer
}

teardown() {
	[ -z "${JOB:-}" ] || end_daemons
	[ -z "${ETCD:-}" ] || kill -9 "$ETCD" 2>/dev/null || true
	[ -z "${SLOW:-}" ] || kill "$SLOW" 2>/dev/null || true
	[ -z "${OTHERS:-}" ] || rm -rf "$OTHERS"
	for n in ${NETWORKS:-}; do ip netns del "$n"; done
	! cat "$BATS_TEST_TMPDIR"/sanitizer.* 2>/dev/null
}

library() { # FILE TEXT
	"${CC:-gcc}" -shared -fPIC -x c -o "$1" - <<<"$2"
}

program() { # FILE TEXT [FLAG...]
	"${CC:-gcc}" -x c -o "$1" - "${@:3}" <<<"$2" 2>/dev/null
}

daemons() { # [etcd|--kv]: pids of this test's shift-kvds, the guard of etcd among them
	pgrep -f "^([^ ]*/)?shift-kvd ${1:+$1 .*}.*--job $JOB( |\$)" || true
}

no_daemons() {
	[ -z "$(daemons)" ]
}

nothing_left() { # DIRECTORY...
	no_daemons && [ -z "$(find "$@" -mindepth 1)" ]
}

end_daemons() {
	local p
	for p in $(daemons); do kill "$p" 2>/dev/null || true; done
	wait_until 30 no_daemons
}

srun() { # OPTION... -- COMMAND: this test's job
	timeout 60 shift-run --job "$JOB" "$@" 3>&-
}

ctl() { # the etcd at $KV
	ETCDCTL_API=3 timeout 10 etcdctl --endpoints "$KV" "$@" 3>&-
}

own_etcd() { # $KV is its URL, over http
	launch_etcd
	wait_until 30 eval 'ctl get --keys-only --limit 1 x >/dev/null 2>&1'
}

two_users() { # $OTHERS: a directory that both reach
	[ "$(id -u)" -eq 0 ] || skip "needs root, to be two users"
	OTHERS=$(mktemp -d /tmp/shift-run-XXXXXX)
	chmod 755 "$OTHERS"
}

nobody() { # COMMAND...
	timeout 20 setpriv --reuid nobody --clear-groups "$@" 3>&-
}

listens() { # PID: where, one a line
	ss -ltnpH | awk -v pid="pid=$1," 'index($0, pid) { print $4 }'
}

patch() { # FILE OFFSET BYTE(octal)
	printf '%b' "\\0$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

refused() { # REGEX COMMAND...: --check says so, and it is not started
	local regex=$1
	shift
	run shift-run --check -- "$@"
	expect_status 1
	expect_line "^no: .*$regex"
	run srun --kv "$KV" -- "$@"
	expect_status 125
	expect_line "^shift-run: .*$regex"
	[ ! -e A ]
}

as_root_in_namespace() {
	unshare -rm true 2>/dev/null || skip "user namespaces are not allowed here"
}

@test "the command takes our place, with the library under it" {
	exec 9< <(exec shift-run --job "$JOB" --kv "$KV" -- sh -c 'echo $$' 3>&-)
	[ "$(cat <&9)" = $! ]
	run -0 srun --kv "$KV" -- grep -c /bin/libshift.so /proc/self/maps
}

@test "exit status: the command's own, and 125, 126, 127" {
	run srun --kv "$KV" -- sh -c 'exit 7'
	expect_status 7
	run srun --kv "$KV" -- sh -c 'kill -TERM $$'
	expect_status 143
	for options in "" "--report report"; do
		# shellcheck disable=SC2086
		run srun --kv "$KV" $options -- "$SHARED/bin"
		expect_status 126
		expect_line "^shift-run: .*/bin: not executable$"
		# shellcheck disable=SC2086
		run -127 srun --kv "$KV" $options -- nowhere-to-be-found
		expect_line '^shift-run: nowhere-to-be-found: not found$'
	done
	[ ! -e report ]
	while read -r arguments; do
		# shellcheck disable=SC2086
		run srun $arguments
		expect_status 125
		expect_line '^shift-run: '
	done <<-END
		--kv $KV
		--kv $KV --
		--kv ftp://h -- true
		--kv startle -- true
		--kv start@ -- true
		--kv start@h:x -- true
		--kv start@127.0.0.1:0 -- true
		--wait soon -- true
		--give-up 0 -- true
		--give-up ever -- true
		--failback perhaps -- true
		--lost-atomic retry -- true
		--log-level loud -- true
		--log-file /$(printf 'x%.0s' {1..300}) -- true
		--rails mlx5_0 -- true
		--rails mlx5_0= -- true
		--rails mlx5_0=mlx5_0 -- true
		--rails mlx5_0=mlx5_1+mlx5_1 -- true
		--rails mlx5_0=mlx5_1,mlx5_0=mlx5_2 -- true
		--rails mlx5_0=mlx5_1, -- true
		--rails no_such_0=no_such_1 -- true
		--job ../x -- true
		--json -- true
		--check --dry-run -- true
		--key-file /nowhere -- true
		--report /nowhere/report --kv $KV -- true
		--no-such-option -- true
	END
	[ ! -e A/../x ]
}

@test "options end at the command, with or without --" {
	run -0 srun --kv "$KV" echo --kv x
	[ "$output" = "--kv x" ]
	run -0 srun --kv "$KV" -- echo -- --kv x
	[ "$output" = "-- --kv x" ]
}

@test "LD_PRELOAD is appended to, once" {
	! nm -D "$BIN/shift-run" | grep -qE '__(asan|tsan)' || skip "sanitized: nothing can be preloaded"
	library other.so 'int other;'
	LD_PRELOAD=$PWD/other.so run -0 srun --kv "$KV" -- sh -c 'echo $LD_PRELOAD'
	[ "$output" = "$PWD/other.so:$BIN/libshift.so" ]
	LD_PRELOAD=$BIN/libshift.so:$PWD/other.so run -0 shift-run --dry-run --json true
	[ "$(jq -r .environment.LD_PRELOAD <<<"$output")" = "$BIN/libshift.so:$PWD/other.so" ]
}

@test "refused: what a library cannot be put under" {
	cp "$SHARED/plain" setuid && chmod u+s setuid
	cp "$SHARED/plain" setgid && chmod g+s setgid
	cp "$SHARED/plain" narrow && patch narrow 4 001
	cp "$SHARED/plain" foreign && patch foreign 18 010
	head -c 100 "$SHARED/plain" >short && chmod +x short
	refused 'setuid cannot be protected: it is setuid: ' ./setuid
	refused 'setgid cannot be protected: it is setgid: ' ./setgid
	refused 'narrow cannot be protected: it is a 32-bit program' ./narrow
	refused 'foreign cannot be protected: it is for another kind of machine' ./foreign
	refused 'short cannot be protected: its file is cut short' ./short
	[ -x "$SHARED/static" ] || skip "the rest needs a static libc"
	refused 'static cannot be protected: it is statically linked' "$SHARED/static"
	if [ "$(id -u)" -eq 0 ] && command -v setcap >/dev/null; then
		cp "$SHARED/plain" caps && setcap cap_net_raw+ep caps
		refused 'caps cannot be protected: it has file capabilities' ./caps
	fi
}

@test "#! lines and env are followed" {
	printf '#!/bin/sh\nexit 3\n' >script
	printf 'exit 4\n' >bare
	printf '#! %s\n' "$SHARED/plain" >indirect
	printf '#!/usr/bin/env -S A=1 sh\nexit $A\n' >env-s
	printf '#!/usr/bin/env -S A=1 -i sh\n' >env-i
	printf '#!%s/loop\n' "$PWD" >loop
	printf '#!/nowhere/sh\n' >nowhere
	chmod +x script bare indirect env-s env-i loop nowhere
	run srun --kv "$KV" -- ./script
	expect_status 3
	run srun --kv "$KV" -- ./bare
	expect_status 4
	run srun --kv "$KV" -- ./env-s
	expect_status 1
	for c in ./indirect "env A=1 -u B -C / true" "env" "env -- true" "env -v true"; do
		# shellcheck disable=SC2086
		run -0 shift-run --check -- $c
	done
	run shift-run --check -- ./nowhere
	expect_line '^no: /nowhere/sh: not found$'
	end_daemons
	rm -rf A
	refused 'too many interpreters' ./loop
	refused 'env -i takes LD_PRELOAD away' ./env-i
	for c in "env -i true" "env - true" "env -u LD_PRELOAD true" "env -uSHIFT_JOB true" \
		"env --unset=LD_PRELOAD true" "env --ignore-environment true" \
		"env A=1 LD_PRELOAD=x true" "env -S LD_PRELOAD=x true"; do
		# shellcheck disable=SC2086
		refused '(takes|sets) ' $c
	done
	[ -x "$SHARED/static" ] || skip "the rest needs a static libc"
	printf '#!%s\n' "$SHARED/static" >static-script
	printf '#!/usr/bin/env -S A=1 %s\n' "$SHARED/static" >static-env
	chmod +x static-script static-env
	refused 'static cannot be protected' ./static-script
	refused 'static cannot be protected' ./static-env
	refused 'static cannot be protected' env A=1 "$SHARED/static"
}

@test "the library: missing, broken, or where LD_PRELOAD cannot name it" {
	mkdir none broken "a blank" a:colon ends
	for d in none broken "a blank" a:colon ends; do cp "$BIN"/shift-* "$d"; done
	cp "$BIN/libshift.so" "a blank"
	cp "$BIN/libshift.so" a:colon
	echo nonsense >broken/libshift.so
	library ends/libshift.so '#include <stdlib.h>
		__attribute__((constructor)) static void end(void) { abort(); }'
	run none/shift-run true
	expect_status 125
	expect_line '^shift-run: libshift.so is neither in .*/none nor in '
	run broken/shift-run true
	expect_status 125
	expect_line '^shift-run: libshift.so cannot be loaded: .*/broken/libshift.so: '
	for d in "a blank" a:colon; do
		run "$d/shift-run" true
		expect_status 125
		expect_line "^shift-run: .*/$d/libshift.so: LD_PRELOAD cannot name"
	done
	run ends/shift-run true
	expect_status 125
	expect_line '^shift-run: .*/ends/libshift.so: a process that loads it ends at once \(signal 6\)'
	[ ! -e A ]
}

@test "--dry-run starts nothing, and says all" {
	run -0 --separate-stderr shift-run -n --rails auto --give-up 10s --failback manual --lost-atomic continue \
		--atomics move \
		--log-level info --log-file log --kv start@127.0.0.1:4000 --report r --job x \
		-j -- sh -c 'exit 3'
	[ "$(jq -c '[.job, .program, .command, .meeting]' <<<"$output")" = \
		'["x","'"$(command -v sh)"'",["sh","-c","exit 3"],{"kind":"start","endpoints":["http://127.0.0.1:4000"],"starts_etcd":true}]' ]
	[ "$(jq -r '.environment | to_entries[] | select(.key | startswith("SHIFT_")) | "\(.key)=\(.value)"' \
		<<<"$output" | sort)" = "SHIFT_ATOMICS=move
SHIFT_FAILBACK=manual
SHIFT_GIVE_UP_MS=10000
SHIFT_JOB=x
SHIFT_KV=http://127.0.0.1:4000
SHIFT_LOG=info
SHIFT_LOG_FILE=$PWD/log
SHIFT_LOST_ATOMIC=continue
SHIFT_RAILS=auto
SHIFT_REPORT_DIR=(a new directory)
SHIFT_RUN_DIR=$PWD/A" ]
	run -0 shift-run -n --give-up never true
	expect_match "library  *$BIN/libshift.so"
	expect_match "job  *default"
	expect_match "meeting  *a private etcd, for this host only"
	expect_match "SHIFT_GIVE_UP_MS=never"
	[ ! -e A ] && [ ! -e r ]
}

@test "mpirun's daemons on other hosts start under shift-run, too" {
	agent() { shift-run -nj "$@" true 2>/dev/null | jq -r .environment.OMPI_MCA_orte_launch_agent; }
	[ "$(agent --kv http://h:1 --job x --give-up 10s --report r)" = \
		"env SHIFT_JOB=x SHIFT_RUN_DIR=$PWD/A SHIFT_KV=http://h:1 SHIFT_GIVE_UP_MS=10000 $BIN/shift-run -- orted" ]
	# A user without a password would end shift-run there.
	[ "$(agent --kv http://user:secret@h:1)" = "$(agent --kv http://h:1)" ]
	# A meeting point of this host; words that mpirun would split; the user's own.
	[ "$(agent)" = null ]
	[ "$(agent --kv unix:/tmp/x)" = null ]
	[ "$(agent --kv http://h:1 --log-file 'a log')" = null ]
	[ "$(OMPI_MCA_orte_launch_agent=valgrind\ orted agent --kv http://h:1)" = null ]
}

@test "examples/slurm: what srun gets is a job that shift-run takes" {
	mkdir fake home
	printf '#!/bin/sh\necho 127.0.0.1\n' >fake/scontrol
	printf '#!/bin/sh\n' >fake/torchrun
	printf '#!/bin/sh\n[ "$1 $2" = "--kill-on-bad-exit=1 shift-run" ] && shift 2 && exec shift-run -nj "$@"\n' >fake/srun
	chmod +x fake/*
	HOME=$PWD/home SLURM_JOB_ID=77 SLURM_JOB_NODELIST=n1 SLURM_JOB_NUM_NODES=1 PATH=$PWD/fake:$PATH \
		run -0 --separate-stderr bash "$SRCDIR/examples/slurm/job.sbatch"
	jq -e '.job == "77" and .meeting.kind == "start" and .key_id != null and .command[0] == "torchrun"' <<<"$output"
	[ -z "$(ls -A home)" ]
}

@test "the environment is honoured, options win, nonsense is refused" {
	export SHIFT_FAILBACK=never SHIFT_GIVE_UP_MS=5000 SHIFT_LOG_FILE=log SHIFT_JOB=env-job \
		SHIFT_KV=http://h:1
	run -0 --separate-stderr shift-run -nj --failback manual true
	[ "$(jq -c '[.job, .environment.SHIFT_FAILBACK, .environment.SHIFT_GIVE_UP_MS,
		.environment.SHIFT_LOG_FILE, .meeting.endpoints[0]]' <<<"$output")" = \
		"[\"env-job\",\"manual\",\"5000\",\"$PWD/log\",\"http://h:1\"]" ]
	run -0 --separate-stderr shift-run -nj --job x --kv http://i:2/,http://j:3/ true
	[ "$(jq -c '[.job, .environment.SHIFT_KV]' <<<"$output")" = '["x","http://i:2,http://j:3"]' ]
	for e in SHIFT_FAILBACK=perhaps SHIFT_GIVE_UP_MS=10s SHIFT_RAILS=mlx5_0 SHIFT_LOG=loud \
		SHIFT_LOST_ATOMIC=retry SHIFT_ATOMICS=go SHIFT_JOB=../x SHIFT_KV=h:1; do
		run env "$e" shift-run -n true
		expect_status 125
		expect_line '^shift-run: '
	done
}

@test "the job's name: the launcher's" {
	job() { env "$@" shift-run -nj true | jq -r .job; }
	[ "$(job)" = default ]
	[ "$(job TORCHELASTIC_RUN_ID=run-1 SLURM_JOB_ID=77)" = run-1 ]
	[ "$(job TORCHELASTIC_RUN_ID=none SLURM_JOB_ID=77)" = 77 ]
	[ "$(job OMPI_MCA_ess_base_jobid=4711)" = 4711 ]
	[ "$(job PMIX_NAMESPACE=prterun-host-12@1)" = prterun-host-12_1 ]
	[ "$(job PMIX_NAMESPACE=.hidden)" = _hidden ]
	[ "$(job PMIX_NAMESPACE="$(printf 'x%.0s' {1..99})")" = "$(printf 'x%.0s' {1..64})" ]
	[ "$(job SHIFT_JOB=mine SLURM_JOB_ID=77)" = mine ]
}

@test "rails: named devices exist, automatic ones are near" {
	as_root_in_namespace
	run -0 unshare -rm bash -ec '
		mount -t tmpfs none /sys/class
		for d in mlx5_0:0 mlx5_1:1 mlx5_2:0 mlx5_10:0; do
			mkdir -p /sys/class/infiniband/${d%:*}/{device,ports/1}
			echo Ethernet >/sys/class/infiniband/${d%:*}/ports/1/link_layer
			echo ${d#*:} >/sys/class/infiniband/${d%:*}/device/numa_node
		done
		shift-run -nj true | jq -c .rails
		shift-run -nj --rails mlx5_0=mlx5_1+mlx5_2,mlx5_1=mlx5_0 true | jq -c .rails
		shift-run -n --rails mlx5_0=mlx5_1+mlx5_7 true 2>&1 || echo $?
		rm -r /sys/class/infiniband/mlx5_[12]*
		shift-run -n true 2>&1 >/dev/null
		shift-run -nj true 2>/dev/null | jq -c .rails
		shift-run -nj --rails mlx5_0=mlx5_0 true | jq -c .rails'
	[ "${lines[0]}" = '{"mlx5_0":["mlx5_2","mlx5_10","mlx5_1"],"mlx5_1":["mlx5_2","mlx5_10","mlx5_0"],"mlx5_2":["mlx5_10","mlx5_0","mlx5_1"],"mlx5_10":["mlx5_0","mlx5_2","mlx5_1"]}' ]
	[ "${lines[1]}" = '{"mlx5_0":["mlx5_1","mlx5_2"],"mlx5_1":["mlx5_0"]}' ]
	[ "${lines[2]}" = 'shift-run: mlx5_7: no such RDMA device; see rdma link' ]
	[ "${lines[3]}" = 125 ]
	[ "${lines[4]}" = 'shift-run: mlx5_0 is the only RDMA device here: its connections survive a link that flaps, not a NIC that is gone' ]
	[ "${lines[5]}" = '{"mlx5_0":["mlx5_0"]}' ] # a second queue pair on the same NIC
	[ "${lines[6]}" = '{"mlx5_0":["mlx5_0"]}' ]
}

@test "within itself: nothing to do; other options are an error" {
	run -0 srun --kv "$KV" --failback manual -- shift-run --job "$JOB" --kv "$KV" \
		--failback manual -- sh -c 'echo $LD_PRELOAD'
	[ "${lines[0]}" = "shift-run: inside job $JOB already: the command runs as a part of it" ]
	[ "${lines[1]}" = "$BIN/libshift.so" ]
	run srun --kv "$KV" -- shift-run sh -c 'exit 9'
	expect_status 9
	for o in "--job other" "--failback never" "--kv http://127.0.0.1:1" "--report r" "--on-switch true"; do
		# shellcheck disable=SC2086
		run srun --kv "$KV" -- shift-run $o -- true
		expect_status 125
		expect_line "^shift-run: ${o% *}: this is inside job $JOB already"
	done
}

@test "shift-kvd is nobody's child, stays while the command lives, and is gone after it" {
	mkfifo hold
	srun --kv "$KV" -- sh -c ': >ready; exec cat hold' >out &
	pid=$!
	wait_until 30 test -e ready
	kvd=$(daemons)
	[ "$(ps -o sid= -p "$kvd" | xargs)" != "$(ps -o sid= -p $$ | xargs)" ]
	[ "$(ps -o ppid= -p "$kvd" | xargs)" != $pid ]
	run ! grep -E '/(hold|out)$|pipe:' <(readlink "/proc/$kvd/fd"/*)
	sleep 3 # longer than its grace time
	[ "$(shift-kvd status --job "$JOB" --json | jq '[.pid, .holders]' -c)" = "[$kvd,1]" ]
	echo >hold
	wait $pid
	wait_until 30 nothing_left A
}

@test "no --kv: an etcd for this host, one line, and nothing is left" {
	run -0 --separate-stderr srun -- shift-kvd status --job "$JOB"
	[ "$stderr" = "shift-run: no --kv: protecting only connections inside this host" ]
	expect_line "^job $JOB: etcd up at unix:$SHIFT_RUN_DIR/$JOB/etcd:0, "
	[ "$(daemons | wc -l)" -eq 2 ]
	run -0 srun -- true
	[ "$(daemons | wc -l)" -eq 2 ]
	wait_until 30 nothing_left A
}

@test "six at the same time start one shift-kvd and one etcd" {
	local pids=() p
	for _ in 1 2 3 4 5 6; do
		srun -- sh -c 'shift-kvd status --json >>out; until [ -e all ]; do sleep 0.05; done' 2>/dev/null &
		pids+=($!)
	done
	six_are() { [ "$(jq -c .pid out | wc -l)" -eq 6 ]; }
	wait_until 50 six_are
	: >all
	for p in "${pids[@]}"; do wait "$p"; done
	[ "$(jq -c '[.pid, .etcd, .endpoint]' out | sort -u | wc -l)" -eq 1 ]
	[ "$(jq -c .etcd out | sort | uniq -c | xargs)" = '6 up' ]
	[ "$(daemons | wc -l)" -eq 2 ]
}

@test "start@: two hosts at the same time, the same words" {
	local port
	port=$(free_port)
	# Each stays until they have met, however much later one of them starts.
	(echo put k from-a; wait_until 50 test -e met) | SHIFT_RUN_DIR=$PWD/A srun --kv "start@127.0.0.1:$port" -- \
		"$BUILDDIR/tests/kv/kv_shell" "$JOB" a1 >a.out 2>a.err &
	(echo watch; wait_until 50 test -e met) | MASTER_ADDR=127.0.0.1 SHIFT_RUN_DIR=$PWD/B srun \
		--kv "start@:$port" -- "$BUILDDIR/tests/kv/kv_shell" "$JOB" b1 >b.out 2>b.err &
	wait_until 50 grep -qx 'put k from-a' b.out
	[ "$(daemons etcd | wc -l)" -eq 1 ]
	: >met
	wait
	for h in a b; do # without a key: whose it is, in one line
		[ "$(cat $h.err)" = "shift-run: --kv start@127.0.0.1 without --key-file: whoever can reach 127.0.0.1:$port can read the job's key; see SECURITY in shift-run(1)" ]
	done
	wait_until 30 nothing_left A B
}

@test "no --kv: another user reads nothing, writes nothing, connects to nothing" {
	local KV etcd
	two_users
	export SHIFT_RUN_DIR=$OTHERS/run
	mkfifo hold
	srun -- sh -c ': >ready; exec cat hold' &
	wait_until 30 test -e ready
	KV=$(shift-kvd status --job "$JOB" --json | jq -r .endpoint)
	KV=${KV/#unix:/unix:\/\/}
	etcd=$(ps -o pid= --ppid "$(daemons etcd)" | xargs)
	ctl get "/shift/v1/$JOB/job-key" | grep -q "/$JOB/job-key" # so it can be asked
	run ! nobody env ETCDCTL_API=3 etcdctl --endpoints "$KV" --command-timeout 2s \
		get --prefix /shift/
	[[ $output != */job-key* ]]
	run ! nobody env ETCDCTL_API=3 etcdctl --endpoints "$KV" --command-timeout 2s \
		put "/shift/v1/$JOB/dead/1" x
	[ -z "$(ctl get "/shift/v1/$JOB/dead/1")" ]
	[ -z "$(listens "$etcd")" ]
	for f in etcd:0 peer:0 kvd.sock; do
		test -S "$SHIFT_RUN_DIR/$JOB/$f"
		run ! nobody test -e "$SHIFT_RUN_DIR/$JOB/$f"
	done
	echo >hold
	wait
	wait_until 30 nothing_left "$OTHERS/run"
}

@test "start@: it listens where it was told, and nowhere else" {
	local port
	port=$(free_port)
	srun --kv "start@127.0.0.2:$port" -- sleep 60 &
	wait_until 30 eval '[ -n "$(daemons --kv)" ]'
	[ "$(listens "$(ps -o pid= --ppid "$(daemons etcd)" | xargs)")" = "127.0.0.2:$port" ]
	pkill -P $! sleep || kill "$(pgrep -P $!)"
	wait || true
}

# With HOST as 127.0.1.1, in a network that has these addresses.
in_network() { # ADDRESSES COMMAND...
	local addresses=$1
	shift
	printf '%s\n' '127.0.0.1 localhost' '127.0.1.1 head.example head' '10.99.0.1 both' '10.98.0.1 both' \
		'10.97.0.1 both' '127.0.1.1 both' ${HOSTS:+"$HOSTS"} >hosts
	unshare -rmn bash -ec '
		mount --bind hosts /etc/hosts
		ip link set lo up
		ip link add d0 type dummy 2>/dev/null || ip link add d0 type veth peer name d1
		ip link set d0 up
		ip link set d1 up 2>/dev/null || true
		for a in '"$addresses"'; do ip addr add $a/24 dev d0 $([[ $a != *:* ]] || echo nodad); done
		exec "$@"' sh "$@" 3>&-
}

@test "start@HOST, and HOST is a loopback address there: one address, several, none" {
	as_root_in_namespace
	# shellcheck disable=SC2016
	local listening='ss -ltnH "sport = :29379" | awk "{ print \$4 }"'
	head -c 16 /dev/urandom >key
	chmod 600 key
	in_network "" true || skip "no network of the test's own here"
	in_network 10.99.0.1 shift-run --job "$JOB" --key-file key --kv start@head -- sh -c "$listening" >out 2>err
	[ "$(cat out)" = 10.99.0.1:29379 ]
	[ "$(cat err)" = "shift-run: --kv start@head: head is 127.0.1.1 here, which no other host reaches: etcd listens on 10.99.0.1" ]
	wait_until 30 no_daemons
	run in_network "10.99.0.1 10.98.0.1" shift-run --job "$JOB" --key-file key --kv start@head -- true
	expect_status 125
	expect_line '^shift-run: --kv start@head: head is 127.0.1.1 here, which no other host reaches, and this host has several addresses \(10.99.0.1, 10.98.0.1\): say start@ADDRESS, or correct /etc/hosts$'
	run -0 in_network "10.99.0.1 10.98.0.1" shift-run --job "$JOB" --key-file key --kv start@10.98.0.1 -- sh -c "$listening"
	[ "$output" = 10.98.0.1:29379 ]
	wait_until 30 no_daemons
	run -0 in_network "" shift-run --job "$JOB" --key-file key --kv start@head -- sh -c "$listening"
	[ "$output" = 127.0.1.1:29379 ]
	run -0 in_network 10.99.0.1 shift-run --job "$JOB-2" --key-file key --kv start@localhost -- sh -c "$listening"
	[ "$output" = 127.0.0.1:29379 ]
}

@test "start@HOST, and HOST has several addresses: etcd listens at those that are here" {
	as_root_in_namespace
	# shellcheck disable=SC2016
	local listening='ss -ltnH "sport = :29379" | awk "{ print \$4 }" | sort | xargs'
	head -c 16 /dev/urandom >key
	chmod 600 key
	in_network "" true || skip "no network of the test's own here"
	run -0 in_network "10.99.0.1 10.98.0.1" shift-run --job "$JOB" --key-file key --kv start@both -- sh -c "$listening"
	[ "$output" = "10.98.0.1:29379 10.99.0.1:29379 127.0.1.1:29379" ]
	wait_until 30 no_daemons
	# An etcd that has only some of them leaves room for others.
	# shellcheck disable=SC2016
	run in_network "10.99.0.1 10.98.0.1" sh -c '
		shift-kvd etcd --job "$1-2" --listen 10.99.0.1:29379 --grace 1s >&2 2>/dev/null
		exec shift-run --job "$1" --key-file key --kv start@both -- true' sh "$JOB"
	expect_status 125
	[[ ${lines[-1]} =~ ^"shift-run: 10.99.0.1:29379 is in use, by something that does not listen at all addresses of that host; another port is needed, or start@ADDRESS"$ ]]
	kill $(pgrep -f -- "--job $JOB-2")
}

@test "start@HOST, and HOST leads to addresses that nobody can listen at, or to very many" {
	as_root_in_namespace
	# shellcheck disable=SC2016
	local listening='ss -ltnH "sport = :29379" | awk "{ print \$4 }" | sort | xargs' n
	local -a no_ipv6=(sh -c 'echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; exec "$@"' sh)
	head -c 16 /dev/urandom >key
	chmod 600 key
	in_network "" true || skip "no network of the test's own here"
	HOSTS=$(printf '%s\n' '::1 localhost' '10.99.0.1 link' 'fe80::1234 link'
		for n in {1..12}; do echo "10.96.0.$n many"; done)
	# ::1 stands in /etc/hosts of most containers, also of those without IPv6.
	run -0 in_network "" "${no_ipv6[@]}" \
		shift-run --job "$JOB" --key-file key --kv start@localhost -- sh -c "$listening"
	[ "$output" = 127.0.0.1:29379 ]
	wait_until 30 no_daemons
	run -0 in_network "" "${no_ipv6[@]}" shift-kvd etcd --job "$JOB" --grace 1s --listen "[::1]:29379,127.0.0.1:29379"
	[ "${lines[0]}" = "shift-kvd: [::1]:29379: Cannot assign requested address: it is left out" ]
	[ "${lines[1]}" = http://127.0.0.1:29379 ]
	end_daemons
	run in_network "" "${no_ipv6[@]}" shift-kvd etcd --job "$JOB" --listen "[::1]:29379"
	expect_status 1
	run -0 in_network "10.99.0.1 fe80::1234" \
		shift-run --job "$JOB" --key-file key --kv start@link -- sh -c "$listening"
	[ "$output" = 10.99.0.1:29379 ]
	wait_until 30 no_daemons
	run in_network "fe80::1234" shift-run --job "$JOB" --key-file key --kv 'start@[fe80::1234]' -- true
	expect_status 125
	expect_line '^shift-run: --kv start@\[fe80::1234\]: other hosts cannot reach an address of one link$'
	run -0 in_network "$(echo 10.96.0.{1..12})" shift-run --job "$JOB" --key-file key --kv start@many -- sh -c "$listening"
	[ "$(wc -w <<<"$output")" -eq 12 ]
}

@test "start@: an etcd of another user at that port is not used, one of ours or root's is" {
	local KV port own
	two_users
	chown nobody "$OTHERS"
	port=$(free_port)
	cd "$OTHERS"
	nobody_etcd() {
		exec setpriv --reuid nobody --clear-groups etcd --name t --data-dir "$OTHERS/data" \
			--listen-client-urls "http://127.0.0.1:$port" --advertise-client-urls "http://127.0.0.1:$port" \
			--listen-peer-urls unix://p:0 --initial-advertise-peer-urls unix://p:0 \
			--initial-cluster t=unix://p:0 --log-level error >/dev/null 2>&1 3>&-
	}
	nobody_etcd &
	ETCD=$!
	KV=http://127.0.0.1:$port
	wait_until 30 eval 'ctl get --limit 1 x >/dev/null 2>&1'
	cd "$BATS_TEST_TMPDIR"
	run srun --kv "start@127.0.0.1:$port" -- true
	expect_status 125
	expect_line "^shift-run: port $port on 127.0.0.1 is taken by uid $(id -u nobody): choose another port: --kv start@127.0.0.1:PORT$"
	[ -z "$(ctl get --prefix --keys-only /shift/)" ]
	[ ! -e "A/$JOB" ]
	kill -9 "$ETCD"
	own_etcd
	run -0 --separate-stderr srun --kv "start@127.0.0.1:$PORT" -- shift-kvd status --job "$JOB" --json
	[ "$(jq -r .etcd <<<"$output")" = up ]
	[ -z "$(daemons etcd)" ]
	own=$(mktemp -d "$OTHERS/XXXXXX") # a user takes root's
	cp "$BIN"/* "$own"
	chmod -R a+rx "$own"
	run -0 nobody env SHIFT_RUN_DIR="$OTHERS/run" "$own/shift-run" --job "$JOB-2" --kv "start@127.0.0.1:$PORT" -- true
	wait_until 30 eval '[ -z "$(pgrep -f -- "--job $JOB-2")" ]'
}

@test "start@ on another host: waited for, in a network of its own" {
	[ "$(id -u)" -eq 0 ] || skip "needs root, for two networks"
	local a=sr-$$-a b=sr-$$-b
	ip netns add "$a" 2>/dev/null || skip "no network namespaces here"
	NETWORKS=$a
	ip netns add "$b"
	NETWORKS="$a $b"
	ip link add va netns "$a" type veth peer name vb netns "$b"
	ip -n "$a" addr add 10.99.0.1/24 dev va && ip -n "$a" link set va up && ip -n "$a" link set lo up
	ip -n "$b" addr add 10.99.0.2/24 dev vb && ip -n "$b" link set vb up && ip -n "$b" link set lo up
	SHIFT_RUN_DIR=$PWD/B ip netns exec "$b" "$BIN/shift-run" --job "$JOB" --kv start@10.99.0.1 -- \
		"$BIN/shift-kvd" status --job "$JOB" >b.out 2>b.err 3>&- &
	wait_until 30 grep -q '^shift-run: waiting up to 60 s for etcd: http://10.99.0.1:29379' b.err
	SHIFT_RUN_DIR=$PWD/A ip netns exec "$a" "$BIN/shift-run" --job "$JOB" --kv start@10.99.0.1 -- \
		timeout 50 sh -c 'until [ -s b.out ]; do sleep 0.05; done' >a.out 2>a.err 3>&-
	wait
	grep -q "^job $JOB: etcd up at http://10.99.0.1:29379, " b.out
}

@test "start@: an etcd whose network is down for long is not ended" {
	[ "$(id -u)" -eq 0 ] || skip "needs root, for a network"
	local n=sr-$$-c url=http://10.99.0.1:29379 guard etcd
	ip netns add "$n" 2>/dev/null || skip "no network namespaces here"
	NETWORKS=$n
	ip -n "$n" link add va type dummy 2>/dev/null ||
		ip -n "$n" link add va type veth peer name vb
	ip -n "$n" addr add 10.99.0.1/24 dev va && ip -n "$n" link set va up && ip -n "$n" link set lo up
	SHIFT_ETCD_DEAF_MS=3000 ip netns exec "$n" "$BIN/shift-kvd" etcd --job "$JOB" --grace 1s \
		--listen 10.99.0.1:29379 --advertise "$url" 3>&-
	ip netns exec "$n" "$BIN/shift-kvd" --kv "$url" --job "$JOB" --grace 2m --lease 2s \
		--timeout 500ms 3>&-
	wait_until 30 etcd_is up
	guard=$(daemons etcd)
	etcd=$(ps -o pid= --ppid "$guard")
	ip -n "$n" addr del 10.99.0.1/24 dev va
	ip -n "$n" link set va down
	wait_until 30 etcd_is down
	sleep 8 # longer than its guard would wait, and than any lease lasts
	ip -n "$n" link set va up
	ip -n "$n" addr add 10.99.0.1/24 dev va
	wait_until 30 etcd_is up
	[ "$(ps -o pid= --ppid "$guard")" = "$etcd" ]
}

@test "no meeting point: one line" {
	local peer KV
	own_etcd
	peer=127.0.0.1:$PEER_PORT
	run srun --kv "start@$peer" -- true # answers in HTTP, but not as etcd
	expect_status 125
	expect_line "^shift-run: $peer is in use by something that is no etcd; another port is needed$"
	run -0 srun --kv "http://$peer" -- true # what somebody there answers keeps nothing from running
	expect_line "^shift-run: http://$peer is no etcd; $ALL_THE_SAME$"
	run srun --kv start@no-such-host.invalid -- true
	expect_status 125
	expect_line '^shift-run: --kv start@no-such-host.invalid: '
	run -0 srun --wait 500ms --kv http://127.0.0.1:1 -- true # takes over from the one above
	expect_line "^shift-run: no etcd after 0.5 s: http://127.0.0.1:1: .*; $ALL_THE_SAME$"
	run srun --kv start -- true
	expect_status 125
	expect_line '^shift-run: --kv start: which host\? MASTER_ADDR is not set'
	as_root_in_namespace
	JOB=$JOB-2
	run unshare -rm sh -c 'mount --bind /dev/null "$(command -v etcd)" && exec shift-run --job "$1" true' sh "$JOB"
	expect_status 125
	expect_line '^shift-run: etcd is not installed; try: apt-get install etcd-server$'
	[ ! -e "A/$JOB" ]
}

@test "a job meets at one place" {
	run srun --kv "$KV" -- sh -c 'LD_PRELOAD= SHIFT_KV= shift-run --kv http://127.0.0.1:1 true'
	expect_status 125
	expect_line "^shift-run: job $JOB meets at $KV already, not at http://127.0.0.1:1; another --job"
	run -0 srun --wait 100ms --kv http://127.0.0.1:1 -- true # the first is not in use any more
	expect_line "^shift-run: no etcd after 0.1 s: http://127.0.0.1:1: .*; $ALL_THE_SAME$"
	run -0 srun --kv "$KV" -- true
}

@test "--key-file: 0600, and the same for all of a job" {
	head -c 16 /dev/urandom >key
	chmod 644 key
	run srun --kv "$KV" --key-file key -- true
	expect_status 125
	expect_line '^shift-run: key is open to others \(mode 0644\); try: chmod 0600 key$'
	chmod 600 key
	run -0 srun --kv "$KV" --key-file key -- shift-kvd status --json
	[ "$(jq .key_file <<<"$output")" = true ]
	head -c 15 key >short
	chmod 600 short
	JOB=$JOB-2
	run srun --kv "$KV" --key-file short -- true
	expect_status 125
	expect_line '^shift-run: short: not 16 bytes'
	run srun --kv "$KV" -- sh -c 'LD_PRELOAD= shift-run --key-file key true'
	expect_status 125
	expect_line "^shift-run: job $JOB runs here already without --key-file$"
}

hex() { # FILE
	od -An -v -tx1 "$1" | tr -d ' \n'
}

other_host() { # OPTION...: shift-run there
	SHIFT_RUN_DIR=$PWD/B srun "$@"
}

@test "the job key: by the environment, seen by nobody" {
	local KV pid key kvd
	own_etcd
	head -c 16 /dev/urandom >key
	key=$(hex key)
	mkfifo hold
	# shellcheck disable=SC2016
	SHIFT_JOB_KEY=$key srun --kv "$KV" -- sh -c 'tr "\0" "\n" </proc/$$/environ >environ
		said() { for i in $(seq 500); do ! grep -q "^$1" shell.out || break; sleep 0.05; done; }
		(echo sync; said synced-all; echo key; said key) | "$BUILDDIR/tests/kv/kv_shell" "$SHIFT_JOB" 1 >shell.out
		: >ready; exec cat hold' 2>err &
	pid=$!
	wait_until 30 test -e ready
	kvd=$(daemons --kv)
	grep -qx "key $key" shell.out # the processes get it from the daemon
	grep -q "^SHIFT_JOB=$JOB$" environ
	cat "/proc/$kvd/environ" >kvd.environ || true # only root may read it
	ps -eo args= >args
	ctl get --prefix "/shift/v1/$JOB/" -w json >etcd.json
	jq -r '.kvs[].value' etcd.json | while read -r v; do base64 -d <<<"$v" | od -An -v -tx1 | tr -d ' \n'; echo; done >values
	shift-kvd status --job "$JOB" --json >status.json
	run ! grep -ail "$key" environ kvd.environ args values status.json err
	[ "$(jq -c '[.key_file, (.key_id | length)]' status.json)" = '[true,16]' ]
	grep -q "$(jq -r .key_id status.json)" values # its id is there
	[ ! -s err ]
	chmod 600 key
	other_host --kv "$KV" --key-file key -- true # the same key, from a file
	end_daemons_of_b
	head -c 16 /dev/urandom >other
	chmod 600 other
	run -0 other_host --wait 1s --kv "$KV" --key-file other -- true
	expect_line "^shift-run: $KV: the job has another key: --key-file of another job\?; $ALL_THE_SAME$"
	end_daemons_of_b
	run -0 other_host --wait 1s --kv "$KV" -- true
	[ "${lines[0]}" = "shift-run: $KV: a job key (--key-file, SHIFT_JOB_KEY) must be given on all hosts of a job, or on none; $ALL_THE_SAME" ]
	run srun --kv "$KV" --key-file other -- sh -c 'LD_PRELOAD= true'
	expect_status 125
	expect_line "^shift-run: job $JOB runs here already with another job key$"
	echo >hold
	wait $pid
}

end_daemons_of_b() {
	local p
	p=$(SHIFT_RUN_DIR=$PWD/B shift-kvd status --job "$JOB" --json | jq .pid)
	kill "$p" 2>/dev/null || true # it may have ended by itself
	wait_until 30 eval "! kill -0 $p 2>/dev/null"
}

@test "the job key: what is none is refused; the file's name goes to other hosts" {
	for k in 0 "$(printf 'ab%.0s' {1..15})" "$(printf 'ab%.0s' {1..17})" "$(printf 'ag%.0s' {1..16})"; do
		SHIFT_JOB_KEY=$k run srun --kv "$KV" -- true
		expect_status 125
		expect_line '^shift-run: SHIFT_JOB_KEY: not 32 hexadecimal digits; try: openssl rand -hex 16$'
		[[ $output != *$k* ]] || [ "$k" = 0 ]
	done
	head -c 16 /dev/urandom >key
	chmod 600 key
	run -0 srun --kv "$KV" --key-file key -- sh -c 'echo $SHIFT_KEY_FILE'
	[ "$output" = "$PWD/key" ]
	run -0 --separate-stderr shift-run -nj --key-file key --kv start@127.0.0.1:1 true
	[ "$(jq -r .environment.SHIFT_KEY_FILE <<<"$output")" = "$PWD/key" ]
	[ "$(jq -r '.key_id | length' <<<"$output")" = 16 ]
	[ -z "$stderr" ]
}

@test "no job key, and an etcd that others reach: one line on each host" {
	local pid line="can read the job's key; see SECURITY in shift-run(1)$"
	run -0 --separate-stderr srun --kv "$KV" -- true # a socket of ours
	[ -z "$stderr" ]
	end_daemons
	own_etcd
	mkfifo hold
	srun --kv "$KV" -- sh -c ': >ready; exec cat hold' 2>first.err &
	pid=$!
	wait_until 30 test -e ready
	for i in 1 2 3; do srun --kv "$KV" -- true 2>>more.err; done
	grep -q "^shift-run: --kv $KV without --key-file: whoever can read that etcd $line" first.err
	[ "$(wc -l <first.err)" -eq 1 ]
	[ ! -s more.err ]
	echo >hold
	wait $pid
}

certificates() { # server.pem client.pem expired.pem by ca.pem, and other.pem by itself
	command -v openssl >/dev/null || skip "openssl is not installed (apt-get install openssl)"
	local new=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes) n
	for n in ca other; do
		openssl req -x509 "${new[@]}" -days 2 -subj "/CN=$n" -keyout $n.key -out $n.pem
	done
	for n in server client expired; do
		openssl req "${new[@]}" -subj "/CN=$n" -addext subjectAltName=IP:127.0.0.1 -keyout $n.key -out $n.csr
		openssl x509 -req -in $n.csr -CA ca.pem -CAkey ca.key -CAcreateserial -copy_extensions copy \
			-days "$([ $n = expired ] && echo -1 || echo 2)" -out $n.pem
	done
}

tls_etcd() { # CERTIFICATE OPTION...
	local cert=$1
	shift
	if [ -n "${ETCD:-}" ]; then
		kill -9 "$ETCD"
		wait "$ETCD" || true # it has the port until then, and the next one would end for want of it
	fi
	rm -rf data
	launch_etcd data --cert-file "$cert.pem" --key-file "$cert.key" \
		--listen-client-urls "https://127.0.0.1:$PORT" --advertise-client-urls "https://127.0.0.1:$PORT" "$@"
	KV=https://127.0.0.1:$PORT
	wait_until 30 eval '[ -n "$(ss -ltnH "sport = :$PORT")" ]'
}

not_met() { # REGEX OPTION...: before the time for waiting is over, in one line; and the command runs
	local regex=$1
	shift
	JOB=$JOB-x
	run srun --wait 5m --key-file key --kv "$KV" "$@" -- touch ran
	expect_status 0
	# On a slow machine a line about waiting comes before it.
	[[ ${lines[-1]} =~ ^"shift-run: $KV: "$regex"; $ALL_THE_SAME"$ ]] || { echo "$output"; return 1; }
	[ "$(grep -cv '^shift-run: waiting up to' <<<"$output")" -eq 1 ]
	rm ran
	end_daemons
}

met() { # OPTION...
	JOB=$JOB-y
	run -0 srun --key-file key --kv "$KV" "$@" -- shift-kvd status --json
	[ "$(jq -r .etcd <<<"${lines[-1]}")" = up ]
	end_daemons
}

@test "TLS: right, wrong authority, expired, with our certificate and without" {
	local KV PORT PEER_PORT
	certificates 2>/dev/null
	head -c 16 /dev/urandom >key
	chmod 600 key
	PORT=$(free_port)
	tls_etcd server
	met --kv-ca ca.pem
	SHIFT_KV_CA=ca.pem met
	# shellcheck disable=SC2016
	run -0 srun --key-file key --kv "$KV" --kv-ca ca.pem -- sh -c 'echo $SHIFT_KV_CA'
	[ "$output" = "$PWD/ca.pem" ]
	end_daemons
	not_met "TLS: .*(signed|issuer|certificate).* \(see --kv-ca, --kv-cert and --kv-key\)" --kv-ca other.pem
	not_met "TLS: .*(signed|issuer|certificate).* \(see --kv-ca, --kv-cert and --kv-key\)"
	tls_etcd expired
	not_met "TLS: .*expired.* \(see --kv-ca, --kv-cert and --kv-key\)" --kv-ca ca.pem
	tls_etcd server --client-cert-auth --trusted-ca-file ca.pem
	met --kv-ca ca.pem --kv-cert client.pem --kv-key client.key
	not_met "TLS: etcd wants a certificate of ours, or does not accept the one it got \(see .*" --kv-ca ca.pem
	not_met "TLS: etcd wants a certificate of ours, or does not accept the one it got \(see .*" \
		--kv-ca ca.pem --kv-cert other.pem --kv-key other.key
	JOB=$JOB-z # what was wrong is not kept
	run -0 srun --key-file key --kv "$KV" --kv-ca other.pem -- true
	expect_match "$ALL_THE_SAME"
	chmod 644 client.key
	run -0 srun --key-file key --kv "$KV" --kv-ca ca.pem --kv-cert client.pem --kv-key client.key -- true
	expect_line "^shift-run: $PWD/client.key: others can use the key of our certificate \(mode 0644\); try: chmod 0600 $PWD/client.key$"
	chmod 600 client.key
	run -0 srun --key-file key --kv "$KV" --kv-ca ca.pem --kv-cert client.pem --kv-key client.key -- true
	while read -r regex arguments; do
		# shellcheck disable=SC2086
		run srun --key-file key $arguments -- true
		expect_status 125
		expect_line "^shift-run: ${regex//_/ }"
	done <<-END
		--kv-ca_/nowhere:_No_such_file --kv $KV --kv-ca /nowhere
		--kv-ca:_--kv_http://h:1_is_not_https:// --kv http://h:1 --kv-ca ca.pem
		--kv-key_without_--kv-cert --kv $KV --kv-key client.key
		--kv-ca_is_for_an_etcd_of_your_own --kv start@127.0.0.1:1 --kv-ca ca.pem
		--kv-user-file_is_for_an_etcd_of_your_own --kv-user-file key
	END
}

slow_server() { # at $SLOW_PORT: $PORT, whose first word to each connection comes after 3 s
	python3 -c 'import socket, sys, threading, time
def carry(source, to, pause):
    data = source.recv(65536)
    time.sleep(pause)
    while data:
        to.sendall(data)
        data = source.recv(65536)
    to.shutdown(socket.SHUT_WR)
door = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    client = door.accept()[0]
    server = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    threading.Thread(target=carry, args=(client, server, 0), daemon=True).start()
    threading.Thread(target=carry, args=(server, client, 3), daemon=True).start()' \
		"$SLOW_PORT" "$PORT" 2>/dev/null 3>&- &
	SLOW=$!
	wait_until 30 eval '[ -n "$(ss -ltnH "sport = :$SLOW_PORT")" ]'
}

@test "TLS: a handshake may take as long as a request" {
	local KV PORT PEER_PORT SLOW_PORT
	certificates 2>/dev/null
	PORT=$(free_port)
	SLOW_PORT=$(free_port)
	tls_etcd server
	slow_server
	shift-kvd --kv "https://127.0.0.1:$SLOW_PORT" --ca ca.pem --job "$JOB" --timeout 20s --grace 2m 3>&-
	wait_until 60 etcd_is up
}

resetting_server() { # at $SLOW_PORT: $PORT, but the first nine connections break within the handshake, in three ways
	python3 -c 'import socket, struct, sys, threading
def carry(source, to):
    data = source.recv(65536)
    while data:
        to.sendall(data)
        data = source.recv(65536)
    to.shutdown(socket.SHUT_WR)
def break_off(client, server, way):
    hello = client.recv(65536)
    if way == 2:
        server.sendall(hello)
        client.sendall(server.recv(65536)[:100])
    if way != 1:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    server.close()
door = socket.create_server(("127.0.0.1", int(sys.argv[1])))
for n in range(1 << 30):
    client = door.accept()[0]
    server = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    print(n, flush=True)
    if n < 9:
        break_off(client, server, n % 3)
        continue
    threading.Thread(target=carry, args=(client, server), daemon=True).start()
    threading.Thread(target=carry, args=(server, client), daemon=True).start()' \
		"$SLOW_PORT" "$PORT" >connections 2>resetting.err 3>&- &
	SLOW=$!
	wait_until 30 eval '[ -n "$(ss -ltnH "sport = :$SLOW_PORT")" ]'
}

@test "TLS: a connection that breaks within the handshake is no refused certificate" {
	local KV PORT PEER_PORT SLOW_PORT
	command -v python3 >/dev/null || skip "needs python3, for a server that breaks connections off"
	certificates 2>/dev/null
	head -c 16 /dev/urandom >key
	chmod 600 key
	PORT=$(free_port)
	SLOW_PORT=$(free_port)
	tls_etcd server
	resetting_server
	# The command runs when etcd is there, in the time of --wait.
	run -0 timeout 200 shift-run --job "$JOB" --wait 150s --key-file key --kv "https://127.0.0.1:$SLOW_PORT" --kv-ca ca.pem -- \
		shift-kvd status --json 3>&-
	[ "$(sed -n '/^{/,$p' <<<"$output" | jq -r .etcd)" = up ] || { echo "$output"; return 1; }
	[[ $output != *"$ALL_THE_SAME"* ]]
	[ "$(wc -l <connections)" -gt 9 ]
}

@test "users of etcd, and a certificate of ours: etcd's gateway takes none that has a CommonName" {
	local KV PORT PEER_PORT with
	certificates 2>/dev/null
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /O=shift -keyout nameless.key -out nameless.csr 2>/dev/null
	openssl x509 -req -in nameless.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out nameless.pem 2>/dev/null
	head -c 16 /dev/urandom >key
	echo root:secret >user
	chmod 600 key user
	PORT=$(free_port)
	tls_etcd server --client-cert-auth --trusted-ca-file ca.pem --bcrypt-cost 4
	with=(--cacert ca.pem --cert client.pem --key client.key)
	wait_until 30 ctl "${with[@]}" endpoint health
	ctl "${with[@]}" user add root:secret
	ctl "${with[@]}" user grant-role root root
	met --kv-ca ca.pem --kv-cert client.pem --kv-key client.key # it has no users yet
	ctl "${with[@]}" auth enable
	not_met "it has users, and then takes no certificate with a CommonName: ours must be made without one \(see --kv-cert\)" \
		--kv-ca ca.pem --kv-cert client.pem --kv-key client.key --kv-user-file user
	met --kv-ca ca.pem --kv-cert nameless.pem --kv-key nameless.key --kv-user-file user
}

@test "users of etcd: right, wrong password, none, one who may not" {
	local KV pid
	own_etcd
	head -c 16 /dev/urandom >key
	ctl user add root:secret
	ctl user grant-role root root
	ctl user add worker:pass
	ctl role add shift
	ctl role grant-permission shift --prefix=true readwrite /shift/
	ctl user grant-role worker shift
	ctl user add guest:pass
	ctl auth enable
	echo worker:pass >user
	run srun --kv "$KV" --kv-user-file user -- true
	expect_status 125
	expect_line '^shift-run: .*/user is open to others \(mode 0644\)'
	for f in "worker:wrong wrong" "guest:pass guest" "worker nonsense"; do echo "${f% *}" >"${f#* }"; done
	chmod 600 user wrong guest nonsense key
	run -0 --separate-stderr srun --key-file key --kv "$KV" --kv-user-file user -- shift-kvd status --json
	[ "$(jq -r .etcd <<<"$output")" = up ]
	[ "$stderr" = "shift-run: $KV: the password is not encrypted on its way; https:// would" ]
	end_daemons
	not_met '.*invalid user ID or password \(see --kv-user-file\)' --kv-user-file wrong
	not_met '.*permission denied \(its user needs a role with readwrite on the prefix /shift/\)' --kv-user-file guest
	not_met '.*user name is empty \(that etcd has users: see --kv-user-file\)'
	run srun --kv "$KV" --kv-user-file nonsense -- true
	expect_status 125
	expect_line '^shift-run: .*/nonsense: not USER:PASSWORD$'
	# A user in the URL: it is used, and nowhere to be seen
	run -0 --separate-stderr shift-run -nj --kv "http://worker:pass@${KV#http://}/" -- true
	[[ $output$stderr != *pass[@\"]* ]]
	[ "$(jq -c '[.meeting.endpoints[0], .environment.SHIFT_KV, .environment.SHIFT_KV_USER, .environment.SHIFT_KV_PASSWORD]' \
		<<<"$output")" = "[\"$KV\",\"$KV\",\"worker\",\"***\"]" ]
	[ "${stderr_lines[0]}" = "shift-run: --kv URL with USER:PASSWORD@ shows in the list of processes; --kv-user-file FILE does not" ]
	[ "${stderr_lines[1]}" = "shift-run: $KV: the password is not encrypted on its way; https:// would" ]
	mkfifo hold
	shift-run --job "$JOB" --report r --key-file key --kv "http://worker:p%61ss@${KV#http://}" -- \
		sh -c ': >ready; exec cat hold' 2>err 3>&- &
	pid=$!
	wait_until 30 test -e ready
	ps -eo args= | grep -- "--job $JOB " >args
	grep -q -- "--kv $KV" args
	cat "/proc/$(daemons --kv)/environ" >kvd.environ || true # only root may read it
	shift-kvd status --job "$JOB" --json >status.json
	[ "$(jq -r .etcd status.json)" = up ]
	run ! grep -aE '[:=](pass|p%61ss)' args kvd.environ status.json err
	echo >hold
	wait $pid
}

@test "a shift-kvd of another etcd, left over in a container: it is told to end, by its number here" {
	unshare --pid --fork true 2>/dev/null || skip "namespaces are not allowed here"
	unshare --pid --fork --kill-child "$BIN/shift-kvd" --kv http://127.0.0.1:1 --job "$JOB" --grace 2m --foreground 2>/dev/null 3>&- &
	wait_until 30 test -S "A/$JOB/kvd.sock"
	run -0 --separate-stderr srun --kv "$KV" -- shift-kvd status --json
	[ "$(jq -r .endpoint <<<"$output")" = "$KV" ]
}

@test "what was killed: shift-kvd, etcd, its guard" {
	local guard kvd connects
	mkfifo hold
	srun -- sh -c ': >ready; exec cat hold' &
	wait_until 30 test -e ready
	guard=$(daemons etcd)
	kvd=$(daemons --kv)
	[ "$(wc -w <<<"$guard $kvd")" -eq 2 ]
	connects=$(connects_of)
	kill -9 "$(ps -o pid= --ppid "$guard")"
	reconnected() { [ "$(connects_of)" -gt "$connects" ] && etcd_is up; } # it may be down too shortly to be seen so
	wait_until 30 reconnected
	kill -9 "$kvd"
	run -0 srun -- shift-kvd status --job "$JOB" --json
	[ "$(jq -r .etcd <<<"${lines[-1]}")" = up ]
	[ "$(jq -r .pid <<<"${lines[-1]}")" != "$kvd" ]
	kill -9 "$guard"
	wait_until 30 etcd_is down
	run -0 srun -- shift-kvd status --job "$JOB" --json
	[ "$(jq -r .etcd <<<"${lines[-1]}")" = up ]
	echo >hold
	wait
}

connects_of() {
	shift-kvd status --job "$JOB" --json | jq .connects
}

etcd_is() {
	[ "$(shift-kvd status --job "$JOB" --json | jq -r .etcd)" = "$1" ]
}

@test "--report: what ran, and how it ended" {
	run srun --kv "$KV" --report r -- sh -c 'test -d "$SHIFT_REPORT_DIR" && echo "$SHIFT_REPORT_DIR"; exit 5'
	expect_status 5
	[ ! -e "$output" ]
	[ "$(jq -c '[.job, .command[0], .exit_status, .signal, .processes]' r)" = \
		"[\"$JOB\",\"sh\",5,null,[]]" ]
	[ "$(jq '.ended_unix_s >= .started_unix_s' r)" = true ]
	run srun --kv "$KV" --report r -- sh -c 'kill -SEGV $$'
	expect_status 139
	[ "$(jq -c '[.exit_status, .signal]' r)" = '[null,"SIGSEGV"]' ]
	[ -z "$(ls core* 2>/dev/null)" ]
}

@test "--report: what the processes left, and what those left that could not" {
	# shellcheck disable=SC2016
	local live='"$BUILDDIR"/tests/stats/stats_live "$SHIFT_JOB" "$SHIFT_REPORT_DIR"'
	printf 'add 17\nfailover 17\nbypass mlx5_0 3\n' | srun --kv "$KV" --report r -- sh -c "$live; true"
	jq -e '.exit_status == 0 and .crashed == 0 and .totals.failovers == 1 and .totals.unprotected.SRQ == 1 and
		(.summary | test("^1 connection moved 1 time")) and
		(.processes | length == 1 and .[0].life == "ended" and .[0].connections[0].qpn == 17)' r
	printf 'add 17\nfailover 17\ncrash\n' | srun --kv "$KV" --report r -- sh -c "$live; true"
	jq -e '.exit_status == 0 and .crashed == 1 and .totals.failovers == 1 and
		(.processes | length == 1 and .[0].life == "crashed")' r
}

@test "--report: a TMPDIR whose path has what a shell would interpret" {
	mkdir '[t]*\'
	# shellcheck disable=SC2016
	printf 'add 17\nfailover 17\n' | TMPDIR=$PWD/'[t]*\' srun --kv "$KV" --report r -- sh -c \
		'"$BUILDDIR"/tests/stats/stats_live "$SHIFT_JOB" "$SHIFT_REPORT_DIR"; true'
	jq -e '.totals.failovers == 1 and (.processes | length == 1)' r
	[ -z "$(ls '[t]*\')" ]
}

@test "--report: more processes that crashed than shift-kvd keeps" {
	# shellcheck disable=SC2016
	srun --kv "$KV" --report r -- sh -c 'for i in $(seq 20); do
		printf "add 17\nhello\ncrash\n" |
			"$BUILDDIR"/tests/stats/stats_live "$SHIFT_JOB" "$SHIFT_REPORT_DIR"
		done; true'
	jq -e '.crashed == 20 and (.processes | length == 20)' r
	wait_until 30 no_daemons
	[ "$(find "A/$JOB/crash" -name '*.stats' | wc -l)" -eq 16 ]
}

# With the library itself, over NICs that are memory.
@test "--trace epochs: the traffic of a process that was killed" {
	! ldd "$BUILDDIR/lib/.libs/libshift.so" | grep -q 'lib[at]san' || skip "not with a sanitizer"
	run env THEN='kill -9 $PPID' LD_LIBRARY_PATH="$BUILDDIR/tests/nullverbs/.libs" \
		"$BUILDDIR/cmd/shift-run/shift-run" --kv "$KV" --job "$JOB" --trace epochs,1000us -- \
		"$BUILDDIR/tests/preload/traced" lists
	expect_status 137
	wait_until 30 no_daemons
	[ "$(find "A/$JOB" -name '*.epochs' | wc -l)" -eq 1 ] && [ -z "$(ls "A/$JOB"/*.epochs 2>/dev/null)" ]
	run -0 shift-diag collect --job "$JOB" out
	[ "$(jq -c 'select(.record == "header") | [.died, .epoch_ns, .dropped]' out/*.records)" = '[true,1000000,0]' ]
	[ "$(jq -s 'map(select(.record == "epochs") | .bytes[]) | add' out/*.records)" -eq 65 ]
}

@test "--trace: what is not understood starts nothing" {
	local word
	for word in '' on epochs, epochs,0us epochs,32 epochs,2ms epochs,1000001us epochs,-1us; do
		run shift-run --trace "$word" -- touch started
		expect_status 125
		expect_line "^shift-run: --trace $word: not understood \\(off, epochs, or epochs,32us with 1 to 10000 us\\)$"
		[ ! -e started ]
	done
	SHIFT_TRACE=yes run shift-run -- touch started
	expect_status 125
	expect_line '^shift-run: SHIFT_TRACE=yes: not understood \(expected: off, epochs, or epochs,32us with 1 to 10000 us\)$'
	[ ! -e started ]
}

@test "--report: no room where processes leave their statistics" {
	as_root_in_namespace
	mkdir tmp
	cat >full <<-'END'
		mount -t tmpfs -o size=4k none tmp
		head -c 4096 /dev/zero >tmp/zero
		printf 'add 17\nfailover 17\n' | TMPDIR=tmp shift-run "$@" -- sh -c \
			'"$BUILDDIR/tests/stats/stats_live" "$SHIFT_JOB" "$SHIFT_REPORT_DIR"; true'
	END
	timeout 60 unshare -rm sh -e full --job "$JOB" --kv "$KV" --report r 3>&-
	jq -e '.crashed == 0 and .totals.failovers == 1 and
		(.processes | length == 1 and .[0].life == "ended")' r
	[ -z "$(find A -name '*.stats')" ]
}

@test "--report: signals, stops and a kill -9 reach the command" {
	local pid child
	for s in TERM INT HUP USR1 USR2 QUIT; do
		rm -f ready
		(
			# Some signals are ignored if the tests run in the background, and a shell cannot undo that.
			exec env --default-signal shift-run --job "$JOB" --kv "$KV" --report r -- sh -c \
				'trap "exit 33" '$s'; : >ready; while :; do sleep 0.05; done' 3>&-
		) &
		pid=$!
		wait_until 30 test -e ready
		kill -$s $pid
		wait_until 30 eval "! kill -0 $pid 2>/dev/null || [ \"\$(ps -o stat= -p $pid)\" = Z ]" || kill -KILL $pid
		status=0
		wait $pid || status=$?
		[ $status -eq 33 ] || { echo "$s: $status"; return 1; }
	done
	# A process group of its own: in an orphaned one, as under setsid, the kernel ignores SIGTSTP.
	set -m
	shift-run --job "$JOB" --kv "$KV" --report r -- sleep 60 3>&- &
	pid=$!
	set +m
	wait_until 30 eval "ps -o comm= --ppid $pid | grep -qx sleep"
	child=$(ps -o pid= --ppid $pid | xargs)
	# A stop of the child alone, as by shift-inject sigstop: it goes on alone, too.
	kill -STOP "$child"
	wait_until 30 eval "ps -o stat= -p $child | grep -q T"
	kill -CONT "$child"
	wait_until 30 eval "! ps -o stat= -p $child | grep -q T"
	kill -TSTP $pid # would wait for a parent that has stopped
	wait_until 30 eval "ps -o stat= -p $child | grep -q T"
	wait_until 30 eval "ps -o stat= -p $pid | grep -q T"
	kill -CONT $pid
	wait_until 30 eval "! ps -o stat= -p $child,$pid | grep -q T"
	kill -9 $pid
	wait_until 30 eval "! kill -0 $child 2>/dev/null"
}

@test "--report: a terminal that is gone is told to the command" {
	command -v python3 >/dev/null || skip "needs python3, for a terminal"
	cat >terminal.py <<-'END'
		import os, pty, signal, sys, time
		pid, terminal = pty.fork()
		if pid == 0:
		    signal.signal(signal.SIGHUP, signal.SIG_DFL)
		    os.execvp(sys.argv[1], sys.argv[1:])
		while not os.path.exists("ready"):
		    time.sleep(0.05)
		os.close(terminal)
		print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
	END
	run -0 timeout --foreground 60 python3 terminal.py shift-run --job "$JOB" --kv "$KV" \
		--report r -- sh -c 'trap "exit 33" HUP; : >ready; for i in $(seq 400); do sleep 0.05; done' 3>&-
	[ "$output" = 33 ]
	[ "$(jq .exit_status r)" = 33 ]
}

chld_is_ignored() { # in /proc/self/status on standard input
	local mask
	mask=$(sed -n 's/^SigIgn:\t//p')
	((16#$mask & 1 << (17 - 1)))
}

@test "a launcher that ignores SIGCHLD: nothing goes wrong, and the command is given it so" {
	local report
	for report in "" "--report r"; do
		# shellcheck disable=SC2086
		timeout --foreground 60 env --ignore-signal=CHLD shift-run --job "$JOB" $report -- \
			cat /proc/self/status >out 3>&-
		chld_is_ignored <out
		# shellcheck disable=SC2086
		srun $report -- cat /proc/self/status >out
		run ! chld_is_ignored <out
	done
	[ "$(jq .exit_status r)" = 0 ]
	end_daemons
	head -c 15 /dev/urandom >short
	chmod 600 short
	run timeout --foreground 60 env --ignore-signal=CHLD shift-run --job "$JOB" --kv "$KV" \
		--key-file short -- true
	expect_status 125
	expect_line '^shift-run: short: not 16 bytes'
}

@test "the manual page names every variable that the library reads" {
	grep -o 'SHIFT_[A-Z_]*[A-Z]' "$SRCDIR/lib/base/env.h" | grep -v _H$ | sort -u | while read -r v; do
		grep -qE "^(\.It )?.*\b$v\b" "$SRCDIR/man/shift-run.1" || { echo "$v"; false; }
	done
}
