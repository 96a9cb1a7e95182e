# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Programs of two ranks under Open MPI, one on each guest, for files that use survive_file.bash.
# shellcheck shell=bash disable=SC2034,SC2154,SC2016  # variables for, and of, survive.bash; code for the guests

shared=$BUILDDIR/$NAME.shared # what the guests see, and may write

# Over UCX's RC, with UD for making connections; doc/soft-roce.md, "UCX", says why GID 0.
over_ucx=(--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any --mca osc ucx
	-x "UCX_TLS=rc_v,ud_v,self" -x UCX_IB_GID_INDEX=0 -x UCX_NET_DEVICES=mlx5_0:1)

# Over libfabric's verbs, whose receives are shared if it is told so (one SRQ per process, RDMA-CM); its CQs are for
# FI_UNIVERSE_SIZE peers, and soft-RoCE has none for the 256 of the default.
over_libfabric=(--mca osc '^ucx' --mca btl self --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'verbs;ofi_rxm'
	-x FI_VERBS_IFACE=eth1 -x FI_OFI_RXM_USE_SRX=1 -x FI_UNIVERSE_SIZE=4 -x FI_OFI_RXM_MSG_TX_SIZE=128 -x FI_OFI_RXM_MSG_RX_SIZE=128)

# $transport: one of these two. $before_mpirun: what mpirun is started by. $mpi_ranks: how many ranks, and where.
transport=("${over_ucx[@]}") gid=0
before_mpirun=()
mpi_ranks=(-np 2 --host 'a,b')

# Compiles a program into $shared, under a name that kill_programs knows.
mpi_program() { # SOURCE mpi_NAME
	command -v mpicc >/dev/null || skip "no mpicc (Debian: libopenmpi-dev, openmpi-bin)"
	mkdir -p "$shared"
	mpicc -O2 -ffp-contract=off -o "$shared/$2" "$SRCDIR/$1"
}

# A $starter of survive.bash. mpirun on host a starts its daemon on b by a remote shell; here that leaves the command in the
# shared directory, where b finds it. What a rank says to its standard error stays on its host's side: $out/HOST.err, of
# the files that survive.bash reads.
start_mpi() { # mpi_NAME OPTIONS...
	local agent=$shared/agent host on_host
	program=$1
	shift
	rm -f "$shared"/{command,ended}
	for host in a b; do
		: >"$shared/$host.err"
		ln -sf "$shared/$host.err" "$out/$host.err"
	done
	cat >"$agent" <<-END
		#!/bin/sh
		shift
		echo "\$*" >$shared/command.new
		mv $shared/command.new $shared/command
		until [ -e $shared/ended ]; do sleep 0.2; done
	END
	chmod +x "$agent"
	on_host='exec "$@" 2>>'$shared'/$(uname -n).err'
	shift-testbed exec --name "$NAME" --timeout "${patience}s" b -- sh -c "
		until [ -e $shared/command ]; do sleep 0.1; done
		sh $shared/command; status=\$?; touch $shared/ended; exit \$status" >"$out/b.out" 2>&1 & server=$!
	shift-testbed exec --name "$NAME" --timeout "${patience}s" a -- sh -c "
		\"\$@\"; status=\$?; [ -e $shared/command ] || echo 'exit 1' >$shared/command; exit \$status" sh \
		"${before_mpirun[@]}" mpirun --allow-run-as-root "${mpi_ranks[@]}" --mca plm_rsh_agent "$agent" \
		--mca oob_tcp_if_include eth0 "${transport[@]}" \
		sh -c "$on_host" sh "${prefix[@]}" "$shared/$program" "$@" >"$out/a.out" 2>&1 & client=$!
	wait_until 60 has_started
}

has_started() {
	! running "$client" || on a pgrep -x "$program" >/dev/null
}

# --- examples/mpi/train.c ---------------------------------------------------------------------------

training() { # COMMAND...
	local starter=start_mpi
	mpi_program examples/mpi/train.c mpi_train
	"$@"
}

# Is what it printed, but for the times, what one rank alone, without network, prints?
trained() { # OPTIONS...
	"$shared/mpi_train" "$@" >"$out/alone" || return
	curve "$out/alone" >"$out/alone.curve"
	grep -q 'weights [0-9a-f]\{16\}$' "$out/alone.curve" && curve "$out/a.out" | diff "$out/alone.curve" -
}

curve() { # FILE
	sed -nE 's/, [0-9]+ samples.s$//; s/ on [0-9]+ ranks//; /^(step [0-9]+|[0-9]+ steps),/p' "$1"
}

# Instead of survive.bash's. One shift-run for all: host b knows nothing of the job before.
# shellcheck disable=SC2317
protected() {
	prefix=() job=training
	before_mpirun=(env "${shift_env[@]}" "${shift_run[@]}" --job "$job" --log-level debug --)
}

unprotected() {
	prefix=(env) before_mpirun=()
}

# A shift-run for each rank.
protected_by_ranks() {
	prefix=(env "${shift_env[@]}" "${shift_run[@]}" --job "$job" --log-level debug --)
	before_mpirun=()
}

shift_run=("$BUILDDIR/cmd/shift-run/shift-run" --kv "$rendezvous")

# With a retry count of 7 soft-RoCE never gives up, other NICs do with any: 0.9 s.
few_retries=(-x UCX_RC_RETRY_COUNT=6 -x UCX_RC_TIMEOUT=100ms)

stock_ends_by() { # COMMAND that makes the fault
	unprotected
	"$starter" mpi_train -n "$(count_for 30 mpi_train)" && carries a 0 && "$@" && wait_until 30 ended "$client" && finish || return
	[ "$client_status" -ne 0 ] || {
		failed "$*: stock verbs go on"
		return 1
	}
}

flaps() { # HOST
	on "$1" sh -c 'for i in 1 2 3; do ip link set eth1 down; sleep 3; ip link set eth1 up; sleep 3; done'
}
