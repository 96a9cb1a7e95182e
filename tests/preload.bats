# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# libshift.so under programs, over a libibverbs whose devices are memory (tests/nullverbs).

load helper

setup() {
	library=$BUILDDIR/lib/.libs/libshift.so
	nullverbs=$BUILDDIR/tests/nullverbs/.libs
	PATH=$BUILDDIR/tests/preload:$BUILDDIR/cmd/shift-bench/verbs_client:$PATH
	# A sanitizer must come first, also in a program that was built without it.
	sanitizer=$(ldd "$library" | awk '$1 ~ /^lib[at]san/ {print $3}')
	preload=${sanitizer:+$sanitizer:}
}

needs_unsanitized() {
	[ -z "$sanitizer" ] || skip "not with a sanitizer"
}

preloaded() { # COMMAND...: above nullverbs
	env LD_LIBRARY_PATH="$nullverbs" LD_PRELOAD="$preload$library" "$@"
}

exports() { # FILE: names with versions
	nm -D --defined-only --with-symbol-versions "$1" | awk '$2 ~ /[TW]/ {print $3}' | sort
}

@test "exports: the verbs, in the versions of libibverbs, libmlx4, libmlx5 and librdmacm, and nothing else" {
	diff <(exports "$library") <(sort <<-END
		dlopen
		ibv_ack_async_event@@IBVERBS_1.1
		ibv_ack_cq_events@@IBVERBS_1.1
		ibv_alloc_pd@@IBVERBS_1.1
		ibv_close_device@@IBVERBS_1.1
		ibv_create_comp_channel@@IBVERBS_1.0
		ibv_create_cq@@IBVERBS_1.1
		ibv_create_qp@@IBVERBS_1.1
		ibv_create_srq@@IBVERBS_1.1
		ibv_dealloc_pd@@IBVERBS_1.1
		ibv_dereg_mr@@IBVERBS_1.1
		ibv_destroy_comp_channel@@IBVERBS_1.0
		ibv_destroy_cq@@IBVERBS_1.1
		ibv_destroy_qp@@IBVERBS_1.1
		ibv_destroy_srq@@IBVERBS_1.1
		ibv_get_async_event@@IBVERBS_1.1
		ibv_get_cq_event@@IBVERBS_1.1
		ibv_import_device@@IBVERBS_1.10
		ibv_set_ece@@IBVERBS_1.10
		ibv_modify_qp@@IBVERBS_1.1
		ibv_modify_srq@@IBVERBS_1.1
		ibv_open_device@@IBVERBS_1.1
		ibv_query_qp@@IBVERBS_1.1
		ibv_reg_dmabuf_mr@@IBVERBS_1.12
		ibv_reg_mr@@IBVERBS_1.1
		ibv_reg_mr_iova2@@IBVERBS_1.8
		ibv_reg_mr_iova@@IBVERBS_1.7
		ibv_rereg_mr@@IBVERBS_1.1
		ibv_resize_cq@@IBVERBS_1.1
		mlx4dv_create_qp@@MLX4_1.0
		mlx4dv_init_obj@@MLX4_1.0
		mlx5dv_create_cq@@MLX5_1.1
		mlx5dv_create_qp@@MLX5_1.3
		mlx5dv_devx_obj_create@@MLX5_1.7
		mlx5dv_devx_obj_destroy@@MLX5_1.7
		mlx5dv_init_obj@@MLX5_1.2
		mlx5dv_init_obj@MLX5_1.0
		mlx5dv_reg_dmabuf_mr@@MLX5_1.25
		rdma_accept@@RDMACM_1.0
		rdma_ack_cm_event@@RDMACM_1.0
		rdma_connect@@RDMACM_1.0
		rdma_destroy_ep@@RDMACM_1.0
		rdma_destroy_event_channel@@RDMACM_1.0
		rdma_destroy_id@@RDMACM_1.0
		rdma_destroy_qp@@RDMACM_1.0
		rdma_disconnect@@RDMACM_1.0
		rdma_get_cm_event@@RDMACM_1.0
		rdma_migrate_id@@RDMACM_1.0
		verbs_open_device
	END
	)
	# No data either.
	[ -z "$(nm -D --defined-only "$library" | awk '$2 !~ /[TA]/')" ]
}

same_exports() { # NAMES FILE: those of ours that begin so are in that library too, if it is not older than they
	exports "$2" >"$BATS_TEST_TMPDIR/theirs"
	for symbol in $(exports "$library" | grep "^$1.*@" | sort | comm -23 - "$BATS_TEST_TMPDIR/theirs"); do
		! grep -q "@${symbol##*@}\$" "$BATS_TEST_TMPDIR/theirs" || { echo "$symbol" && return 1; }
	done
}

@test "exports: this machine's libibverbs has the same names and versions" {
	same_exports ibv_ "$(ldd "$library" | awk '$1 == "libibverbs.so.1" {print $3}')"
}

@test "exports: this machine's libmlx5, libmlx4 and librdmacm have the same names and versions" {
	for name in mlx4:mlx4dv mlx5:mlx5dv rdmacm:rdma; do
		file=$(ldconfig -p | awk -v name="lib${name%:*}.so.1" '$1 == name {print $NF; exit}')
		[ -n "$file" ] || skip "lib${name%:*} is not installed"
		same_exports "${name#*:}_" "$file"
	done
}

@test "it needs libibverbs and libc, nothing else" {
	needs_unsanitized
	readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
		grep -v '^ld-linux' | sort >"$BATS_TEST_TMPDIR/needed"
	printf 'libc.so.6\nlibibverbs.so.1\n' | diff - "$BATS_TEST_TMPDIR/needed"
}

@test "no thread and no message in a process that opens no device" {
	run -0 preloaded ls /proc/self/task
	[ "${#lines[@]}" -eq 1 ]
	run -0 --separate-stderr preloaded ibv_devices
	[ -z "$stderr" ]
	expect_match 'mlx5_1'
}

@test "a program does all it did without" {
	local with without
	for what in '--pattern same-1qp' '--pattern send-8qp' '--pattern imm0-1qp' '--mix 7'; do
		# shellcheck disable=SC2086
		with=$(preloaded verbs-client $what --wrs 1000 | grep -v ^ns) && without=$(LD_LIBRARY_PATH=$nullverbs verbs-client $what --wrs 1000 | grep -v ^ns)
		[ -n "$with" ] && [ "$with" = "$without" ]
	done
}

@test "each verb reaches its hook, once, with what the program gave" {
	library=$BUILDDIR/tests/preload/.libs/libtrace.so
	run -0 preloaded every_verb
	diff - <(echo "$output") <<-END
		ibv_open_device:
		opened
		verbs_open:
		opened
		ibv_import_device:
		not opened
		ibv_get_async_event:
		get_async_event
		ibv_ack_async_event:
		ack_async_event
		ibv_alloc_pd:
		alloc_pd
		ibv_reg_mr:
		registered at 0x10000, 11 bytes, iova 0x10000, access 0x1, no fd
		ibv_reg_mr_iova:
		registered at 0x10000, 12 bytes, iova 0x20000, access 0x2, no fd
		ibv_reg_mr_iova2:
		registered at 0x10000, 13 bytes, iova 0x30000, access 0x100000, no fd
		ibv_reg_dmabuf_mr:
		registered at 0x40, 14 bytes, iova 0x50000, access 0x3, fd
		ibv_reg_dmabuf_mr:
		not registered at 0, 0 bytes, iova 0, access 0, no fd
		ibv_rereg_mr:
		rereg_mr
		ibv_dereg_mr:
		dereg_mr
		ibv_dereg_mr:
		dereg_mr
		ibv_dereg_mr:
		dereg_mr
		ibv_dereg_mr:
		dereg_mr
		ibv_create_comp_channel:
		create_channel
		ibv_get_cq_event:
		get_cq_event
		create_cq
		ibv_ack_cq_events:
		ack_cq_events of 0
		destroy_cq
		ibv_destroy_comp_channel:
		destroy_channel
		ibv_create_cq:
		create_cq
		ibv_resize_cq:
		resize_cq
		ibv_create_qp:
		create_qp
		ibv_modify_qp:
		modify_qp
		ibv_set_ece:
		set_ece
		ibv_query_qp:
		query_qp
		ibv_destroy_qp:
		destroy_qp
		ibv_destroy_cq:
		destroy_cq
		ibv_dealloc_pd:
		dealloc_pd
		ibv_close_device:
		close_device
		close_device
	END
}

@test "callers of version 1.0 reach libibverbs" {
	run -0 preloaded compat
	expect_line '^1\.0$'
}

@test "dlopen of libibverbs: ours first, then the real one" {
	for name in libibverbs.so.1 libibverbs.so "$nullverbs/libibverbs.so.1"; do
		for flag in '' -g -n -gn; do
			# shellcheck disable=SC2086
			run -0 preloaded lookup $flag "$name" ibv_open_device@IBVERBS_1.1 ibv_open_device \
				ibv_get_device_list ibv_query_port@IBVERBS_1.1 ibv_open_device@IBVERBS_1.0
			[ "$output" = "$(printf '%s\n' libshift.so libshift.so \
				libibverbs.so.1 libibverbs.so.1 libibverbs.so.1)" ]
		done
	done
	run -0 preloaded lookup -c libibverbs.so.1
	expect_line '^opened mlx5_0$'
}

@test "dlopen of libibverbs: the same by a bare name in LD_PRELOAD, from another directory" {
	cd "$BATS_TEST_TMPDIR"
	LD_LIBRARY_PATH=$nullverbs:${library%/*} LD_PRELOAD=${preload}libshift.so run -0 \
		lookup libibverbs.so.1 ibv_open_device
	expect_line '^libshift\.so$'
}

@test "dlopen of another copy of libibverbs gives that, and says so under a launcher" {
	mkdir "$BATS_TEST_TMPDIR/copy"
	cp "$nullverbs/libibverbs.so.1" "$BATS_TEST_TMPDIR/copy/"
	file=$BATS_TEST_TMPDIR/copy/libibverbs.so.1
	run -0 preloaded lookup "$file" ibv_open_device
	expect_line '^libibverbs.so.1$'
	SHIFT_JOB=j run -0 --separate-stderr preloaded lookup "$file" ibv_open_device
	[[ $stderr =~ ^shift\[[0-9]+\]:\ warning:\ .*/copy/libibverbs.so.1\ is\ not ]]
}

@test "dlopen of names that only look like libibverbs" {
	for name in libibverbs.so.2 xlibibverbs.so.1 libibverbs.so.1.0 libibverbs.so.1/ libibverbs; do
		run -1 preloaded lookup "$name"
		[ "$output" = "$(LD_LIBRARY_PATH=$nullverbs lookup "$name" 2>&1)" ]
	done
}

@test "dlopen: NULL, errors and bad modes are the real one's" {
	run -0 preloaded lookup NULL ibv_open_device getppid
	[ "${lines[0]}" = libshift.so ]
	[ "${lines[1]}" = libc.so.6 ]
	run -1 preloaded lookup /nowhere/libibverbs.so.1
	expect_line '^dlopen: /nowhere/libibverbs.so.1: cannot open shared object file'
	run -1 preloaded lookup libibverbs.so.1 no_such_verb
	expect_match '^no_such_verb: .*undefined symbol: no_such_verb'
}

@test "dlopen searches the caller's RUNPATH and ORIGIN" {
	needs_unsanitized # whose dlopen would be the caller
	cd "$BATS_TEST_TMPDIR"
	mkdir private
	echo 'int private_symbol(void); int private_symbol(void) { return 1; }' |
		${CC:-gcc} -shared -fPIC -x c - -o private/libprivate.so
	# shellcheck disable=SC2016
	${CC:-gcc} -std=gnu11 -D_GNU_SOURCE "$SRCDIR/tests/preload/lookup.c" -o private/lookup \
		-Wl,--enable-new-dtags,-rpath,'$ORIGIN'
	cd /
	for name in libprivate.so '$ORIGIN/libprivate.so'; do
		run -0 preloaded "$BATS_TEST_TMPDIR/private/lookup" "$name" private_symbol
		expect_line '^libprivate\.so$'
	done
}

@test "librdmacm that is unloaded and loaded again by a plugin; another library's functions of its names" {
	needs_unsanitized # whose dlopen would be the caller
	cd "$BATS_TEST_TMPDIR"
	printf '%s\n' 'int rdma_ack_cm_event(void *); int plug(void); int plug(void) { return rdma_ack_cm_event(0); }' |
		${CC:-gcc} -shared -fPIC -x c - -x none -o plug.so -l:librdmacm.so.1 || skip "librdmacm is not installed"
	printf '%s\n' '#include <dlfcn.h>' 'int main(void) { for (int i = 0; i < 3; i++) { void *h = dlopen("./plug.so", RTLD_NOW);' \
		'int (*plug)(void) = h ? dlsym(h, "plug") : 0; if (!plug || plug() != -1 || dlclose(h)) return 1; } return 0; }' |
		${CC:-gcc} -x c - -x none -o host -ldl
	LD_PRELOAD=$preload$library run -0 ./host
	printf '%s\n' 'int rdma_connect(const char *, int); int rdma_connect(const char *s, int n) { return n + *s; }' \
		'void rdma_destroy_qp(int *); void rdma_destroy_qp(int *n) { *n = 9; }' |
		${CC:-gcc} -shared -fPIC -x c - -x none -o libown.so
	printf '%s\n' 'int rdma_connect(const char *, int); void rdma_destroy_qp(int *);' \
		'int main(void) { int n = 0; rdma_destroy_qp(&n); return rdma_connect("!", n); }' |
		${CC:-gcc} -x c - -x none -o own ./libown.so
	LD_PRELOAD=$preload$library run -42 ./own
}

@test "libmlx5 opens its devices through us" {
	run lookup libmlx5.so.1 mlx5dv_open_device
	[ "$status" -eq 0 ] || skip "libmlx5 is not installed"
	LD_PRELOAD=$preload$library run -0 lookup libmlx5.so.1 mlx5dv_open_device
	expect_match '^libmlx5\.so'
	LD_PRELOAD=$preload$library LD_BIND_NOW=1 LD_DEBUG=bindings run -0 lookup libmlx5.so.1
	expect_match "libmlx5.so[^ ]* \[0\] to [^ ]*/libshift.so \[0\]: normal symbol .verbs_open_device'"
}

@test "loaded by dlopen instead of preloaded" {
	for flag in '' -g -n -gn; do
		# shellcheck disable=SC2086
		LD_LIBRARY_PATH=$nullverbs run -0 lookup $flag -c "$library" ibv_open_device
		[ "$output" = "$(printf 'libshift.so\nopened mlx5_0')" ]
	done
}

@test "a libibverbs that lacks what we cannot be without: said under a launcher, all passes" {
	cd "$BATS_TEST_TMPDIR"
	sed '/ibv_create_srq/d' "$SRCDIR/tests/nullverbs/nullverbs.map" >map
	echo 'local: ibv_create_srq; };' | sed 's/^/IBVERBS_LESS { /' >>map
	${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -shared -fPIC -I"$SRCDIR" "$SRCDIR"/tests/nullverbs/{builder,channel,data,device,events,objects,poll_ex,qp,srq,ud}.c \
		-Wl,-soname,libibverbs.so.1,--version-script,map -o libibverbs.so.1
	nullverbs=$BATS_TEST_TMPDIR
	SHIFT_JOB=j run -0 --separate-stderr preloaded lookup -c libibverbs.so.1
	[ "$output" = "opened mlx5_0" ]
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ $stderr =~ warning:\ libibverbs\ has\ no\ ibv_create_srq\  ]]
}

@test "a malformed variable: one warning that names it, and the default" {
	SHIFT_RAILS=mlx5_0=+mlx5_1 run -0 --separate-stderr preloaded lookup -c libibverbs.so.1
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ $stderr =~ ^shift\[[0-9]+\]:\ warning:\ SHIFT_RAILS=mlx5_0=\+mlx5_1\  ]]
	[ "$output" = "opened mlx5_0" ]
	SHIFT_LOG_FILE=$BATS_TEST_TMPDIR/log SHIFT_PROBES=maybe run -0 --separate-stderr \
		preloaded lookup -c libibverbs.so.1
	[ -z "$stderr" ]
	grep -q 'warning: SHIFT_PROBES=maybe is not understood' "$BATS_TEST_TMPDIR/log"
	SHIFT_LOG=error SHIFT_PROBES=maybe run -0 --separate-stderr preloaded lookup -c libibverbs.so.1
	[ -z "$stderr" ]
}

with_shift() { # COMMAND...: as under shift-run, with a backup NIC, talking
	SHIFT_RUN_DIR=$BATS_TEST_TMPDIR SHIFT_JOB=j SHIFT_RAILS=mlx5_0=mlx5_1 \
		SHIFT_LOG=${SHIFT_LOG:-info} SHIFT_LOG_FILE=$BATS_TEST_TMPDIR/log preloaded "$@"
}

@test "the flight recorder: lives and errors of queue pairs, with a connection and without" {
	for what in connection other; do
		run -0 with_shift notes $what
		[[ $output = *done ]]
	done
}

# Of the queue pairs of out/: bytes, work requests, retired ones.
traffic() {
	jq -sc 'map(select(.record == "epochs")) | [(map(.bytes[]) | add), (map(.wr[]) | add), (map(.wc[]) | add)]' out/*.records
}

@test "traffic by epochs: the bytes, posts and completions of lists, READs, refused posts, resets, errors, ibv_wr_* and ibv_start_poll" {
	needs_unsanitized
	cd "$BATS_TEST_TMPDIR"
	export SHIFT_TRACE=epochs,50us THEN="env -u LD_PRELOAD $(type -P shift-diag) collect --job j out"
	local what
	for what in 'lists [65,5,5]' 'reset [7,2,1]' 'errors [null,2,0]' 'wr_api [24,3,3]' 'start_poll [9,1,1]'; do
		rm -rf out
		run -0 with_shift traced "${what% *}"
		[[ $output = *done ]]
		echo "$what: $(traffic)"
		[ "$(traffic | sed 's/^\[0,/[null,/')" = "${what#* }" ]
		[ "$(jq -c 'select(.record == "header") | [.epoch_ns, .dropped]' out/*.records)" = '[50000,0]' ]
		# Each is a queue pair's that is told of, from its beginning on.
		jq -se '(map(select(.record == "qp")) | reverse | map({(.qp | tostring): .t_ns}) | add) as $born |
			map(select(.record == "epochs")) | length > 0 and all($born[.qp | tostring] <= .t_ns + 50000)' out/*.records
	done
	[ ! -e "$BATS_TEST_TMPDIR/j" ] # nothing is left behind
}

@test "traffic by epochs: off, nothing is made; a word that is not understood is said, and is off" {
	THEN="test -z \"\$(find $BATS_TEST_TMPDIR/j -name '*.epochs')\"" run -0 with_shift traced lists
	local word
	for word in epoch epochs, epochs,0us epochs,32 epochs,32ms epochs,1000001us; do
		SHIFT_TRACE=$word SHIFT_LOG=warn THEN="test -z \"\$(find $BATS_TEST_TMPDIR/j -name '*.epochs')\"" run -0 with_shift traced lists
		grep -q "warning: SHIFT_TRACE=$word is not understood" "$BATS_TEST_TMPDIR/log"
	done
}

@test "the flight recorder: what shift-diag collects of it can be read back, and tells why a job failed" {
	needs_unsanitized
	cd "$BATS_TEST_TMPDIR"
	THEN="env -u LD_PRELOAD $(type -P shift-diag) collect --job j out" run -0 with_shift notes connection
	[ "$(jq -c 'select(.record == "wcerr") | [.status, .hidden]' out/*.records)" = '["REM_ACCESS_ERR",null]' ]
	[ "$(jq -r 'select(.record == "qp") | .state' out/*.records | paste -sd' ')" = 'RESET INIT RTR RTS ERR destroyed' ]
	[ "$(jq -c 'select(.record == "header") | .dropped' out/*.records)" = 0 ]
	run --separate-stderr shift-diag fail --json out
	[ -z "$stderr" ]
	[ "$(jq -c '.verdicts[0] | [.class, .rule, (.evidence[0] | contains("REM_ACCESS_ERR"))]' <<<"$output")" = '["failed","few-hosts",true]' ]
}

@test "memory: copies on the backup NIC make way for what the program registers, and come back" {
	export NULLVERBS_MEMLOCK=$((64 << 20))
	mkfifo "$BATS_TEST_TMPDIR/in"
	run -0 env LD_LIBRARY_PATH="$nullverbs" memlock <<<$'\n'
	[ "$output" = "64 ENOMEM" ]
	with_shift memlock -w <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" &
	pid=$!
	exec 4>"$BATS_TEST_TMPDIR/in"
	wait_until 30 grep -q 'mlx5_1: ready' "$BATS_TEST_TMPDIR/log"
	echo >&4
	wait_until 30 grep -q ENOMEM "$BATS_TEST_TMPDIR/out"
	# Two control links lock 1.3 MB each.
	[ "$(cut -d' ' -f1 "$BATS_TEST_TMPDIR/out")" -ge 61 ]
	grep -q "mlx5_1: the copies of the program's memory on this NIC made room" "$BATS_TEST_TMPDIR/log"
	wait_until 30 grep -q 'mlx5_1 lacks some of its memory' "$BATS_TEST_TMPDIR/log"
	wait_until 30 grep -q 'mlx5_1 has all its memory again' "$BATS_TEST_TMPDIR/log"
	exec 4>&-
	wait "$pid"
}

as_without_shift() { # PROGRAM WHAT
	[ "$(LD_LIBRARY_PATH=$nullverbs "$@")" = done ]
	run -0 with_shift "$@"
	[ "$output" = done ]
}

objects() { # WHAT
	as_without_shift odd_objects "$1"
}

waits_as() { # WHAT
	as_without_shift events "$1"
}

@test "completion channels: poll, select, epoll by level and by edge, O_NONBLOCK set and cleared" {
	waits_as polled
	waits_as level
	waits_as edge
	waits_as blocking
}

@test "completion channels: threads that sleep, are cancelled, or are interrupted by signals" {
	waits_as threads
	waits_as cancelled
	waits_as signals
}

@test "completion channels: many CQs on one, solicited events, events of CQs that are gone" {
	waits_as many
	waits_as solicited
	waits_as extended
}

@test "completion channels: acks that are late, in bulk, uneven; EBUSY; destroy waits for them" {
	waits_as acks
	waits_as busy
	run -0 with_shift events too-many # hangs without
	[ "$output" = done ]
}

@test "completion channels: the numbers of descriptors, none is left, fork" {
	waits_as descriptors
	waits_as child
}

@test "completion channels: QPs on them are protected, and who sleeps while the NIC fails is woken" {
	for what in moved parted; do
		run -0 with_shift events "$what"
		[ "$output" = done ]
		grep 'connected to itself, leaves mlx5_0' "$BATS_TEST_TMPDIR/log"
		rm "$BATS_TEST_TMPDIR/log"
		LD_LIBRARY_PATH=$nullverbs run -1 events "$what"
		expect_match '^failed: a success'
	done
}

@test "memory windows: its connections are as without shift, before it could matter" {
	objects windows
	[ "$(grep -c 'QP .* is not protected: memory windows' "$BATS_TEST_TMPDIR/log")" -eq 1 ]
	[ "$(grep -c 'connection .* sends' "$BATS_TEST_TMPDIR/log")" -eq 1 ] # none for the second
}

around() { # [-d LIBRARY] WHAT: works as without shift
	[ -x "$BUILDDIR/tests/preload/direct_verbs" ] || skip "built without libmlx5"
	[ "$(LD_LIBRARY_PATH=$nullverbs direct_verbs "$@")" = done ]
	run -0 with_shift direct_verbs "$@"
	[ "$output" = done ]
}

unprotected() { # FILTER [-d LIBRARY] WHAT: of the statistics, while the objects are there
	local filter=$1
	shift
	mkfifo "$BATS_TEST_TMPDIR/in"
	STAY=1 with_shift direct_verbs "$@" <"$BATS_TEST_TMPDIR/in" &
	pid=$!
	exec 4>"$BATS_TEST_TMPDIR/in"
	export SHIFT_RUN_DIR=$BATS_TEST_TMPDIR
	wait_until 30 status_says "$filter"
	exec 4>&-
	wait "$pid"
	rm "$BATS_TEST_TMPDIR/in"
}

status_says() { # FILTER
	shift-ctl status --json | jq -e ".processes[] | $1" >/dev/null
}

not_protected() { # hence passed through, said once
	[ "$(grep -c 'QP .* is not protected: the program posts around' "$BATS_TEST_TMPDIR/log")" -eq "$1" ]
	rm "$BATS_TEST_TMPDIR/log"
}

lost() { # N: connections unprotected for this reason
	echo '[.connections[] | select(.unprotected == "POSTED_AROUND" and .protected == false)]
		| length == '"$1"
}

@test "mlx5dv_init_obj of a QP: unprotected with the reason, before it could matter" {
	around qp
	not_protected 1
	unprotected "$(lost 1)" qp
}

@test "mlx5dv_init_obj of a QP: receives outstanding come back as they were posted" {
	around receives
	not_protected 1
}

@test "mlx5dv_init_obj of a CQ: all QPs on it, also those to come" {
	around cq
	not_protected 2
	unprotected "($(lost 2)) and .passed_through == [.passed_through[0] + {count: 1, unprotected: \"POSTED_AROUND\"}]" cq
}

@test "QPs that are objects of the firmware: passed through, and counted" {
	around devx
	unprotected '.connections == [] and .passed_through == [.passed_through[0] + {count: 1, unprotected: "POSTED_AROUND"}]' devx
	around -d libmlx5.so.1 devx
}

@test "mlx5dv_create_qp with attributes of mlx5: passed through, and counted" {
	around special
	[ ! -s "$BATS_TEST_TMPDIR/log" ] || ! grep 'connection .* sends' "$BATS_TEST_TMPDIR/log"
	unprotected '.connections == [] and .passed_through == [.passed_through[0] + {count: 1, unprotected: "POSTED_AROUND"}]' special
}

@test "mlx5dv_create_qp without: as any other QP, until its queue is asked for" {
	around made
	grep 'connection .* sends' "$BATS_TEST_TMPDIR/log"
	run ! grep 'is not protected: the program posts around' "$BATS_TEST_TMPDIR/log"
	rm "$BATS_TEST_TMPDIR/log"
	unprotected '(.connections | length) == 1 and .passed_through == []' made
	around -d libmlx5.so.1 made
	around asked
	unprotected "$(lost 1)" asked
}

@test "direct verbs by a dlopen of libmlx5: the same" {
	for name in libmlx5.so.1 libmlx5.so "$nullverbs/libmlx5.so.1"; do
		around -d "$name" qp
		not_protected 1
		around -d "$name" old
		not_protected 1
	done
	unprotected "$(lost 1)" -d libmlx5.so.1 old
	unprotected '.passed_through[0].unprotected == "POSTED_AROUND"' -d libmlx5.so special
}

@test "dlopen of libmlx5: ours first, then the real one" {
	[ -e "$BUILDDIR/lib/.libs/libshift-mlx5.so" ] || skip "built without libmlx5"
	for flag in '' -g -n -gn; do
		# shellcheck disable=SC2086
		run -0 --separate-stderr preloaded lookup $flag libmlx5.so.1 mlx5dv_init_obj mlx5dv_init_obj@MLX5_1.0 \
			mlx5dv_create_qp@MLX5_1.3 mlx5dv_query_device
		[ "$output" = "$(printf '%s\n' libshift.so libshift.so libshift.so libmlx5.so.1)" ]
		[ -z "$stderr" ]
	done
	run -1 preloaded lookup /nowhere/libmlx5.so.1
	expect_line '^dlopen: /nowhere/libmlx5.so.1: cannot open shared object file'
}

@test "dlopen of libmlx5 without libshift-mlx5.so gives the real one, and says so under a launcher" {
	[ -e "$nullverbs/libmlx5.so.1" ] || skip "built without libmlx5"
	cp "$library" "$BATS_TEST_TMPDIR/"
	library=$BATS_TEST_TMPDIR/libshift.so
	run -0 --separate-stderr preloaded lookup libmlx5.so.1 mlx5dv_init_obj
	[ "$output" = libmlx5.so.1 ]
	[ -z "$stderr" ]
	SHIFT_JOB=j run -0 --separate-stderr preloaded lookup libmlx5.so.1 mlx5dv_init_obj
	[ "$output" = libmlx5.so.1 ]
	[[ $stderr =~ ^shift\[[0-9]+\]:\ warning:\ libmlx5.so.1\ is\ loaded\ without ]]
}

@test "the queue of a QP that was never protected is given also when it is in ERR" {
	[ -x "$BUILDDIR/tests/preload/direct_verbs" ] || skip "built without libmlx5"
	run -0 with_shift direct_verbs over
	[ "${lines[0]}" = "not busy" ]
	! grep 'gets EBUSY' "$BATS_TEST_TMPDIR/log"
}

@test "a QP connected to itself works, and its READs would follow the data" {
	objects loopback
	mkfifo "$BATS_TEST_TMPDIR/in"
	STAY=1 with_shift odd_objects loopback <"$BATS_TEST_TMPDIR/in" &
	pid=$!
	exec 4>"$BATS_TEST_TMPDIR/in"
	wait_until 30 grep -q 'QP .*: connected to itself: its READs follow' "$BATS_TEST_TMPDIR/log"
	exec 4>&-
	wait "$pid"
}

@test "two QPs of one process work" {
	objects pair
}

@test "a QP that is connected again after RESET works" {
	objects again
}

# A fence would hang. Nobody is to be told what these QPs have executed.
@test "a QP that never met its peer is not fenced when it is destroyed, or connected again" {
	library=$BUILDDIR/lib/.libs/libshift-hooks.so
	for what in pair again; do
		SHIFT_HANG=fence:2s run -0 with_shift odd_objects $what
		[ "$output" = done ]
		! grep 'has not ended its fence' "$BATS_TEST_TMPDIR/log"
		rm "$BATS_TEST_TMPDIR/log"
	done
}

@test "what a program does meanwhile does not wait for 80 slow registrations on the backup NIC" {
	NULLVERBS_REG_MS=100 run -0 with_shift slow_memory quick
	[ "$output" = done ]
}

@test "completions of a shared receive queue that is gone have the program's wr_ids, where the NIC keeps them" {
	as_without_shift srq late
	NULLVERBS_CQ=kept as_without_shift srq late
}

@test "shared receive queues: refused lists, EBUSY, QPs in any state, threads, the child of a fork" {
	for what in lists busy churn threads child; do
		as_without_shift srq $what
		rm "$BATS_TEST_TMPDIR/log"
	done
	NULLVERBS_CQ=kept as_without_shift srq churn
}

@test "a child of fork() has its verbs straight from libibverbs, and waits for nobody" {
	[ "$(LD_LIBRARY_PATH=$nullverbs odd_objects child)" = done ]
	run -0 with_shift timeout 30 odd_objects child
	[ "$output" = done ]
	[ "$(grep -c 'warning: .*fork' "$BATS_TEST_TMPDIR/log")" -eq 1 ]
}

@test "a QP with as many sends as the device takes has a twin" {
	mkfifo "$BATS_TEST_TMPDIR/in"
	STAY=1 with_shift odd_objects largest <"$BATS_TEST_TMPDIR/in" 3>&- &
	pid=$!
	exec 4>"$BATS_TEST_TMPDIR/in"
	wait_until 30 grep -q 'mlx5_1: ready' "$BATS_TEST_TMPDIR/log"
	exec 4>&- # the destruction of a QP waits for the NIC's work on it
	wait "$pid"
	! grep 'no twin on' "$BATS_TEST_TMPDIR/log"
}

seen() { # FILTER WHAT: of the statistics, while the objects of $program (odd_objects) are there
	mkfifo "$BATS_TEST_TMPDIR/in"
	STAY=1 with_shift "${program:-odd_objects}" "$2" <"$BATS_TEST_TMPDIR/in" &
	pid=$!
	exec 4>"$BATS_TEST_TMPDIR/in"
	export SHIFT_RUN_DIR=$BATS_TEST_TMPDIR
	wait_until 30 status_says "$1"
	exec 4>&-
	wait "$pid"
	rm "$BATS_TEST_TMPDIR/in"
}

@test "ibv_create_qp_ex: each QP is counted, with its reason, and the reasons are as many as the QPs" {
	objects extended
	seen '([.passed_through[] | {(.unprotected): .count}] | add) == {WR_API: 2, ATTRIBUTES: 3, NOT_RC: 2} and
		(.connections | length) == 5 and
		.totals.connections == 12 and .totals.protected + ([.totals.unprotected[]] | add) == 12' extended
}

@test "a QP without a send queue is fenced like any other" {
	objects receiver
	run ! grep 'the fence of mlx5_0 is not complete' "$BATS_TEST_TMPDIR/log"
	seen '(.connections | length) == 2' receiver
}

@test "an opcode that the log does not know is the NIC's, and its QP not protected" {
	objects opcode
	[ "$(grep -c 'QP .* is not protected: queues or requests beyond' "$BATS_TEST_TMPDIR/log")" -eq 1 ]
}

@test "a QP in a thread domain is not protected: our threads do not post to it" {
	objects thread
	seen '.connections == [] and .passed_through[0].unprotected == "THREAD_DOMAIN"' thread
	seen '(.connections | length) == 1' domain
}

@test "a parent domain is as good as its protection domain" {
	SHIFT_LOG=debug objects domain
	grep -q 'connection .* sends' "$BATS_TEST_TMPDIR/log"
	! grep 'shadow PD is still in use' "$BATS_TEST_TMPDIR/log"
}

awkward() { # WHAT
	as_without_shift data_path "$1"
}

@test "two threads that poll one CQ get each receive's own wr_id, whatever a third asks" {
	awkward pollers
}

@test "a post that the provider refuses is refused, whatever another thread asks meanwhile" {
	awkward refused
}

@test "of a list longer than the queue is taken what fits, and nothing else is forgotten" {
	awkward long
}

@test "modify to ERR of a connection without a peer: one completion each, those of before too" {
	awkward errors
}

@test "RESET and destroy take what is left of a QP's completions, and nothing of another QP's" {
	awkward lives
}

@test "the same where the NIC's driver leaves them in the CQ" {
	export NULLVERBS_CQ=kept
	run -0 with_shift data_path kept
	[ "$output" = done ]
}

as_without_shift_queried() { # PROGRAM WHAT...: alone, and beside a thread that makes it slow again and again
	local what program=$1
	shift
	for what in "$@"; do
		as_without_shift "$program" "$what"
		QUERIED=1 as_without_shift "$program" "$what"
	done
}

@test "ibv_wr_*: each operation and its data, alone and in batches" {
	as_without_shift_queried post_ex operations batches
	NULLVERBS_PSN=live as_without_shift_queried post_ex data
}

@test "ibv_wr_*: a batch with an error in it, one that is aborted, one that does not fit: nothing of it is posted" {
	as_without_shift_queried post_ex errors aborted full
}

@test "ibv_wr_*: of a batch that the NIC refuses nothing is posted" {
	as_without_shift_queried post_ex refused
}

@test "ibv_import_device: its QPs are protected like those of a device that was opened" {
	export IMPORTED=1
	as_without_shift_queried post_ex operations
	program=poll_ex seen '(.connections | length) == 1' stays
}

@test "ibv_wr_*: many QPs at a time; RESET, another QP at the same address, other states, fork" {
	as_without_shift_queried post_ex nested forsaken handed lives states child
}

@test "ibv_wr_*: threads that post to one QP, by ibv_post_send too, and more than fits" {
	as_without_shift_queried post_ex_threads threads mixed crowded
}

@test "ibv_start_poll: blocks of completions, their fields, errors, two CQs at a time" {
	as_without_shift_queried poll_ex blocks refuses fields failed nested
}

@test "ibv_start_poll: threads that poll one CQ in both ways, completion channels" {
	as_without_shift_queried poll_ex pollers channel
}

@test "ibv_start_poll: a QP whose life is over, another CQ at the same address, fork; one thread; timestamps" {
	as_without_shift_queried poll_ex lives child single timestamps
}

@test "a CQ that was asked for timestamps is not protected, others of ibv_create_cq_ex are" {
	program=poll_ex seen '([.passed_through[] | {(.unprotected): .count}] | add) == {CQ_EX: 1} and (.connections | length) == 1' stays
}

@test "ibv_wr_*: a QP that is connected with itself goes on while its NIC breaks it" {
	for _ in 1 2; do
		run -0 with_shift post_ex_threads moved
		[ "$output" = done ]
	done
	grep 'connected to itself, leaves mlx5_0' "$BATS_TEST_TMPDIR/log"
}

in_job() { # COMMAND...: with shift-kvd; two NICs, each the backup of the other
	# shellcheck source=tests/bench/null_job.bash
	(
		build=$BUILDDIR NULL_JOB=preload-$$
		. "$SRCDIR/tests/bench/null_job.bash"
		run_job env SHIFT_FAILBACK="${failback:-never}" SHIFT_SUMMARY=0 "$@"
	)
}

@test "ibv_wr_* and ibv_start_poll: connections that move while they are used lose, double and mix up nothing" {
	needs_unsanitized
	for seed in 1 2 3; do
		run -0 --separate-stderr in_job "$BUILDDIR/tests/preload/moves_ex" sends $seed
		[ "${lines[-1]}" = done ]
		NULLVERBS_PSN=live run -0 --separate-stderr in_job "$BUILDDIR/tests/preload/moves_ex" writes $seed
		[ "${lines[-1]}" = done ]
	done
}

@test "ibv_wr_*: connections that come home while they are used lose, double and mix up nothing" {
	needs_unsanitized
	failback=auto run -0 --separate-stderr in_job "$BUILDDIR/tests/preload/moves_ex" sends 1 home
	[ "${lines[-1]}" = done ]
}

srq_events() { # EVENTS-OF-THE-NIC OPTIONS...
	NULLVERBS_EVENTS=$1 run --separate-stderr in_job "$BUILDDIR/tests/preload/srq_events" "${@:2}"
	[ "$status" -eq 0 ] || {
		echo "$*: $status: $stderr"
		return 1
	}
}

# A NIC that raises no event of a QP in ERR nor of a full CQ wakes nobody; who looks nevertheless gets the event.
@test "SRQs: their events wake a program whose queue pairs have moved, once each" {
	needs_unsanitized
	for where in moved home; do
		for events in limit,last_wqe limit,cq_err; do
			srq_events $events $where
		done
	done
	srq_events limit moved polls
	run ! srq_events limit moved
	[[ $output = *'cannot be woken (no event comes)'* && $output = *'srq_events: an event of'* ]]
}

# Its statistics file has only connections, so its log is read.
measured() { # TEXT: the log's words about rq_psn
	rm -f "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/log"
	mkfifo "$BATS_TEST_TMPDIR/in"
	STAY=1 SHIFT_LOG=debug with_shift odd_objects receiver <"$BATS_TEST_TMPDIR/in" &
	pid=$!
	exec 4>"$BATS_TEST_TMPDIR/in"
	for nic in mlx5_0 mlx5_1; do
		wait_until 30 grep -q "$nic: .*rq_psn is $1" "$BATS_TEST_TMPDIR/log" ||
			{ cat "$BATS_TEST_TMPDIR/log" && return 1; }
	done
	exec 4>&-
	wait "$pid"
}

@test "rq_psn is measured on every NIC: live if it counts in ERR too, else stale; not known of one that is mute" {
	measured 'stale: it does not count the packets of completed requests'
	NULLVERBS_PSN=lag measured 'stale: it is not between what was acknowledged and what was sent'
	NULLVERBS_PSN=mute measured 'live cannot be measured: what is sent to itself does not arrive'
	NULLVERBS_PSN=live measured 'live$'
	run ! grep -q 'warning' "$BATS_TEST_TMPDIR/log"
}

@test "pause points: in libshift-hooks.so, and not a byte of them in libshift.so" {
	hooks=$BUILDDIR/lib/.libs/libshift-hooks.so
	export ASAN_OPTIONS=detect_leaks=0 # lookup ends with the device open
	export SHIFT_JOB=j SHIFT_RUN_DIR=$BATS_TEST_TMPDIR SHIFT_LOG_FILE=$BATS_TEST_TMPDIR/log
	plain=$library library=$hooks
	for bad in fence fence:2 fence:-1s fence@0:2s fence@:2s wave:2s :2s fence:2s,, fence:2m; do
		rm -f log
		SHIFT_PAUSE=$bad run -0 preloaded lookup -c libibverbs.so.1
		grep -q "warning: SHIFT_PAUSE=$bad is not understood" "$SHIFT_LOG_FILE" || { echo "$bad"; false; }
	done
	rm "$SHIFT_LOG_FILE"
	SHIFT_PAUSE=fence:2s,fence@2:/file,detect:10ms,repost@255:1s run -0 preloaded lookup -c libibverbs.so.1
	run ! grep -q SHIFT_PAUSE "$SHIFT_LOG_FILE"
	grep -q SHIFT_PAUSE "$hooks"
	SHIFT_PSN=dead run -0 preloaded lookup -c libibverbs.so.1
	grep -q 'warning: SHIFT_PSN=dead is not understood' "$SHIFT_LOG_FILE"
	rm "$SHIFT_LOG_FILE"
	SHIFT_PSN=stale run -0 preloaded lookup -c libibverbs.so.1
	run ! grep -q SHIFT_PSN "$SHIFT_LOG_FILE"

	! grep -q '^HOOKS_CFLAGS = -D' "$BUILDDIR/Makefile" || skip "configured with --enable-test-hooks"
	library=$plain
	SHIFT_PAUSE=wave run -0 preloaded lookup -c libibverbs.so.1
	run ! grep -q SHIFT_PAUSE "$SHIFT_LOG_FILE"
	run ! grep -qE 'SHIFT_(PAUSE|PSN)' "$plain"
	[ -z "$(nm "$plain" | grep -w 'pause_[a-z]*')" ]
}

@test "the data path: instructions added are as recorded (shift-bench verbs)" {
	needs_unsanitized
	run "$SRCDIR/tests/bench/datapath" --check
	[ "$status" -ne 77 ] || skip "$output"
	echo "$output"
	[ "$status" -eq 0 ]
}

milliseconds() { # COMMAND...: of fifty runs
	local start=${EPOCHREALTIME/./}
	for _ in {1..50}; do "$@"; done
	echo $(((${EPOCHREALTIME/./} - start) / 1000))
}

# A futex is the lock of a QP that the background thread holds at that moment.
@test "RTR and RTS of 64 QPs: no system call is added on the caller's thread" {
	needs_unsanitized
	with_shift strace -o "$BATS_TEST_TMPDIR/calls" odd_objects many
	[ "$(grep -c '^getppid' "$BATS_TEST_TMPDIR/calls")" -eq 2 ]
	calls=$(awk '/^getppid/ {inside = !inside; next} inside && !/^futex/' "$BATS_TEST_TMPDIR/calls")
	[ -z "$calls" ] || { echo "$calls" && return 1; }
	grep -q '^membarrier' "$BATS_TEST_TMPDIR/calls" # it is our library that was watched
}

@test "starting a program that has nothing to do with RDMA takes little longer" {
	needs_unsanitized
	plain=$(milliseconds env /bin/true)
	with=$(milliseconds env LD_PRELOAD="$library" /bin/true)
	echo "# /bin/true: $((plain * 20)) us, with the preload $((with * 20)) us" >&3
	[ "$with" -lt $((plain * 5 + 1000)) ]
}

@test "a NIC that hangs in a verb of the program's holds up no other QP" {
	for verb in query attributes err; do
		run -0 with_shift hang $verb
		[ "$output" = done ]
	done
	grep 'connected to itself, leaves mlx5_0' "$BATS_TEST_TMPDIR/log"
}

@test "QPs that are connected with themselves go on while their NIC breaks them" {
	for cq in kept ''; do
		run -0 env SHIFT_JOB=x SHIFT_RAILS=mlx5_0=mlx5_1+mlx5_2 NULLVERBS_DEVICES=3 NULLVERBS_CQ=$cq SHIFT_LOG=info \
			SHIFT_LOG_FILE="$BATS_TEST_TMPDIR/log" SHIFT_RUN_DIR="$BATS_TEST_TMPDIR" LD_LIBRARY_PATH="$nullverbs" \
			LD_PRELOAD="$preload$library" self_reads reads
		[ "$output" = done ]
	done
	grep 'connected to itself, leaves mlx5_0' "$BATS_TEST_TMPDIR/log"
	grep 'connected to itself, READs through mlx5_' "$BATS_TEST_TMPDIR/log"
}
