# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# A job of four ranks on two guests with one NIC each, recorded by shift-run, and shift-diag that asks the guests by ssh: for
# aegis.bats and aegis-matrix. They use survive.bash and mpi.bash.
# shellcheck shell=bash disable=SC2016,SC2034,SC2154  # variables for, and of, survive.bash; code for the guests

mpi_ranks=(-np 4 --host 'a:2,b:2' --mca mpi_yield_when_idle 1)
window=10m # of shift-diag
kb=128 compute_ms=30

# An ssh, in front of $PATH, that goes to the guest of that name.
guests_by_ssh() {
	mkdir -p "$out/bin"
	cat >"$out/bin/ssh" <<-END
		#!/bin/sh
		while [ "\$1" != -- ]; do shift; done
		exec shift-testbed exec --name $NAME --timeout 60s "\$2" -- sh -c "PATH=$BUILDDIR/cmd/shift-diag:\\\$PATH; \$3"
	END
	chmod +x "$out/bin/ssh"
}

diag() { # COMMAND OPTIONS...: of both guests; $diag_status, $out/verdict
	diag_status=0
	PATH=$out/bin:$PATH "$BUILDDIR/cmd/shift-diag/shift-diag" "$1" --hosts a,b --job aegis --window "$window" --json "${@:2}" \
		>"$out/verdict" 2>"$out/diag.err" || diag_status=$?
}

says() { # COMMAND STATUS FILTER: its status, and a condition on its verdict
	diag "$1"
	[ "$diag_status" -eq "$2" ] && jq -e ".verdicts[0] | $3" "$out/verdict" >/dev/null
}

# Shows the last verdict.
told() {
	cat "$out/diag.err"
	jq -c '.verdicts[] | [.class, .rule, .level, .confidence, .coverage, [.culprits[] | [.rank, .host, .device]], .evidence]' "$out/verdict"
}

# Instead of survive.bash's.
# shellcheck disable=SC2317
protected() {
	job=aegis
	prefix=(env "${shift_env[@]}" "${shift_run[@]}" --job aegis --collectives mpi --)
	before_mpirun=()
}

job_starts() { # SECONDS
	mpi_program tests/testbed/mpi_rounds.c mpi_rounds
	protected
	start_mpi mpi_rounds "$kb" "$compute_ms" "$1" && wait_until 90 all_ranks_go
}

# Each has done a few rounds.
all_ranks_go() {
	diag hang
	[ "$diag_status" -eq 0 ] || return
	[ "$(jq '.verdicts[0].coverage.ranks_seen' "$out/verdict")" = 4 ]
}

pid_of_rank() { # RANK: on its host, rank 0 and 1 are on a
	on "$(host_of_rank "$1")" sh -c 'for p in $(pgrep -x mpi_rounds); do
		tr "\0" "\n" </proc/$p/environ | grep -qx OMPI_COMM_WORLD_RANK='"$1"' && echo $p; done; true'
}

host_of_rank() { # RANK
	[ "$1" -lt 2 ] && echo a || echo b
}

stop_rank() { # RANK: before its next collective
	stopped=$(pid_of_rank "$1")
	on "$(host_of_rank "$1")" kill -USR1 "$stopped"
}

continue_rank() { # RANK
	on "$(host_of_rank "$1")" kill -CONT "$stopped"
}

# $limit: a fifth of what host b sends while the ranks only communicate, in Mbit/s.
calibrate_rate() {
	local before after
	compute_ms=0 job_starts 20 || return
	before=$(sent_bytes b)
	sleep 5
	after=$(sent_bytes b)
	finish
	limit=$(awk "BEGIN {printf \"%.1f\", ($after - $before) * 8 / 5 / 5 / 1e6}")
	[ "$limit" != 0.0 ]
}

sent_bytes() { # HOST
	on "$1" cat /sys/class/net/eth1/statistics/tx_bytes
}

slow_down() { # HOST
	"$BUILDDIR/cmd/shift-inject/shift-inject" rate --host "$NAME/$1" --nic mlx5_0 --limit "${limit}mbit" --json >"$out/rate" 2>&1 3>&- & slow=$!
	wait_until 20 grep -q '"begin"' "$out/rate"
}

speed_up() {
	kill -INT "$slow"
	wait "$slow" || true
	slow=
}
