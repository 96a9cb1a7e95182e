# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Programs of other people that take their receives from shared receive queues, between two guests under libshift.so, when
# the cable is pulled. Each is shown to run with stock verbs, and to end, or to stand still, at the pull.
# shellcheck disable=SC2034,SC2154  # variables for, and of, survive.bash

load survive_file

export NAME=check-srq
shared=$BUILDDIR/srq-bats # what the guests see, and may write

teardown_file() {
	survive_down
	rm -rf "$shared"
}

# UCX's RC by itself, which connects over TCP. Its messages (-t tag_...), and so Open MPI's, are connected over its UD, and no packet
# of that arrives over soft-RoCE: "unhandled timeout error", also with stock verbs.
ucx() { # COMMAND...
	[ "${UCX_ROOT:-}" ] || command -v ucx_perftest >/dev/null || skip "no ucx_perftest (Debian: ucx-utils)"
	local stock_env=("${ucx_env[@]}")
	shift_env+=("${ucx_env[@]}")
	"$@"
}
ucx_env=(UCX_IB_GID_INDEX=1)
away_env=()
# Where UCX, libfabric and Open MPI are unpacked, if they are not installed.
if [ "${UCX_ROOT:-}" ]; then
	libraries=$UCX_ROOT/usr/lib/$(uname -m)-linux-gnu
	away_env=("PATH=$UCX_ROOT/usr/bin:/usr/sbin:/usr/bin:/sbin:/bin" "LD_LIBRARY_PATH=$libraries" "OPAL_PREFIX=$UCX_ROOT/usr")
	ucx_env+=("${away_env[@]}")
fi
by_uct='ucx_perftest -x rc_verbs -d mlx5_0:1 -t am_lat'

# Open MPI over libfabric's verbs, whose receives are shared if it is told so (one SRQ per process, RDMA-CM); its CQs are for
# FI_UNIVERSE_SIZE peers, and soft-RoCE has none for the 256 of the default. mpirun on host a starts its daemon on b by a remote shell; here that leaves the command in the shared
# directory, where b finds it.
start_mpi() { # mpi_pingpong -n COUNT
	local agent=$shared/mpi-agent
	program=$1
	rm -f "$shared/mpi-command"
	cat >"$agent" <<-END
		#!/bin/sh
		shift
		echo "\$*" >$shared/mpi-command.new
		mv $shared/mpi-command.new $shared/mpi-command
		until [ -e $shared/mpi-ended ]; do sleep 0.2; done
	END
	chmod +x "$agent"
	rm -f "$shared/mpi-ended"
	shift-testbed exec --name "$NAME" --timeout "${patience}s" b -- env "${away_env[@]}" sh -c "
		until [ -e $shared/mpi-command ]; do sleep 0.1; done
		sh $shared/mpi-command; status=\$?; touch $shared/mpi-ended; exit \$status" >"$out/b.out" 2>"$out/b.err" & server=$!
	shift-testbed exec --name "$NAME" --timeout "${patience}s" a -- env "${away_env[@]}" sh -c "
		\"\$@\"; status=\$?; [ -e $shared/mpi-command ] || echo 'exit 1' >$shared/mpi-command; exit \$status" sh \
		mpirun.openmpi --allow-run-as-root \
		-np 2 --host a,b --mca plm_rsh_agent "$agent" --mca oob_tcp_if_include eth0 --mca osc '^ucx' --mca btl self \
		--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'verbs;ofi_rxm' -x FI_VERBS_IFACE=eth1 \
		-x FI_OFI_RXM_USE_SRX=1 -x FI_UNIVERSE_SIZE=4 -x FI_OFI_RXM_MSG_TX_SIZE=128 -x FI_OFI_RXM_MSG_RX_SIZE=128 \
		"${prefix[@]}" "$shared/mpi_pingpong" "$3" >"$out/a.out" 2>"$out/a.err" & client=$!
}

mpi() { # COMMAND...
	local mpicc=${MPICC:-mpicc} starter=start_mpi
	command -v "${mpicc%% *}" >/dev/null || skip "no mpicc (Debian: libopenmpi-dev, openmpi-bin)"
	mkdir -p "$shared"
	# shellcheck disable=SC2086
	$mpicc -O2 -o "$shared/mpi_pingpong" "$SRCDIR/tests/testbed/mpi_pingpong.c" ${MPILIBS:-}
	shift_env+=("${away_env[@]}")
	"$@"
}

stock_runs() { # PROGRAM OPTIONS...
	unprotected
	prefix+=("${stock_env[@]}")
	"${starter:-start}" "$@" -n "$(count_for 4 "$@")" && finish
	[ "$client_status $server_status" = '0 0' ] || {
		failed "stock: $*"
		return 1
	}
}

# bats test_tags=long
@test "stock verbs, no fault: all of them run" {
	local words
	for words in 'ib_send_bw --use-srq -s 4096' 'ib_send_bw --use-srq -s 4096 -q 4' 'ib_send_bw --use-srq -e -s 4096' \
		'ib_send_lat --use-srq' ibv_srq_pingpong 'ibv_srq_pingpong -e'; do
		# shellcheck disable=SC2086
		stock_runs $words
	done
}

# bats test_tags=long
@test "stock verbs, no fault: UCX runs" {
	# shellcheck disable=SC2086
	ucx stock_runs $by_uct
}

# bats test_tags=long
@test "stock verbs, no fault: Open MPI runs" {
	mpi stock_runs mpi_pingpong
	[ "$(grep -c 'exchanges, 0 bytes wrong' "$out/a.out")" -eq 2 ]
}

@test "with stock verbs they err or hang when the cable is pulled" {
	stock_errs_or_hangs pull:b ib_send_bw --use-srq -s 4096
	stock_errs_or_hangs pull:a ibv_srq_pingpong -e
}

# bats test_tags=long
@test "with stock verbs UCX errs or hangs when the cable is pulled" {
	# shellcheck disable=SC2086
	ucx stock_errs_or_hangs pull:a $by_uct
}

@test "ib_send_bw --use-srq: cable pulled at the receiver" {
	outlives_panic survives pull:b ib_send_bw --use-srq -s 4096
}

# bats test_tags=long
@test "ib_send_bw --use-srq: cable pulled at the client" {
	outlives_panic survives pull:a ib_send_bw --use-srq -s 4096
}

# bats test_tags=long
@test "ib_send_bw --use-srq -q 4: cable pulled at the receiver" {
	connections=4
	outlives_panic survives pull:b ib_send_bw --use-srq -s 4096 -q 4
}

# bats test_tags=long
@test "ib_send_bw --use-srq -e: cable pulled at the receiver" {
	outlives_panic survives pull:b ib_send_bw --use-srq -e -s 4096
}

# bats test_tags=long
@test "ib_send_lat --use-srq: cable pulled at the client" {
	outlives_panic survives pull:a ib_send_lat --use-srq
}

# bats test_tags=long
@test "ibv_srq_pingpong: cable pulled at either end" {
	connections=16
	outlives_panic survives pull:a ibv_srq_pingpong
	outlives_panic survives pull:b ibv_srq_pingpong -e
}

# bats test_tags=long
@test "ucx_perftest over rc_verbs: cable pulled at either end" {
	# shellcheck disable=SC2086
	ucx outlives_panic survives pull:a $by_uct
	# shellcheck disable=SC2086
	ucx outlives_panic survives pull:b $by_uct
}

# bats test_tags=long
@test "Open MPI: cable pulled at either end" {
	mpi outlives_panic survives pull:a mpi_pingpong
	mpi outlives_panic survives pull:b mpi_pingpong
}
