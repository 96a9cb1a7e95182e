# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# examples/torch/train.py by torchrun on both hosts, for torch.bats. On top of survive.bash; rank 0 is host a.
# shellcheck shell=bash disable=SC2034,SC2154  # variables for, and of, survive.bash

program=python3.11 # torchrun's worker, for carries
gid=0              # TensorPipe's: link-local addresses
busy=250           # packets per second: what a rail carries of a slow training, more than probes
mute=warn          # ask shift-ctl where the connections are
patience=900

shift_run() { # OPTIONS of shift-run
	prefix=("$BUILDDIR/cmd/shift-run/shift-run" --kv "$rendezvous" --job survive --log-level warn "$@" --)
}

# Starts it on both hosts, "$PREFIX" before it; $client is host a's, $server host b's. TensorPipe's and Gloo's sockets go over
# eth0; its transport ibv takes the first device and GID 0 by itself. "-r 1:1 -t 1:1" (of a local rank that is not there) is
# because of torch 1.13 with Python 3.11: torchrun fails at the default.
start_training() { # OPTIONS of train.py
	local host
	for host in a b; do
		shift-testbed exec --name "$NAME" --timeout "${patience}s" "$host" -- \
			env OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0 TP_SOCKET_IFNAME=eth0 "${prefix[@]}" \
			torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint a:29500 -r 1:1 -t 1:1 "${torchrun[@]}" \
			"$SRCDIR/examples/torch/train.py" --data "$BUILDDIR/digits.csv.gz" "$@" \
			>"$out/$host.out" 2>"$out/$host.err" 3>&- &
		[ $host = a ] && client=$! || server=$!
	done
}
torchrun=(--max_restarts 0)

step() { # the last one
	sed -n 's/^step \([0-9]*\) .*/\1/p' "$out/a.out" | tail -n 1
}

at_step() { # N: is it there?
	[ "$(step)" ] && [ "$(step)" -ge "$1" ]
}

# N steps more, or the training has ended.
goes_on() { # N
	local from
	from=$(step)
	wait_until 60 at_step $((from + $1)) || {
		running "$client" && echo "it stands still at step $from"
		return 1
	}
}

# For how long a fault lasts, in seconds, and the --timeout of the training that it has to be longer than.
lasts=20 timeout=15

# Without shift: the training is at work when the fault begins, and has ended with an error, or says that its timeout is over,
# while the fault lasts. (On soft-RoCE it may not be able to end while its link is down.)
ends_by() { # COMMAND that makes the fault
	unprotected
	start_training --epochs 1000 --timeout "$timeout"
	wait_until 240 at_step 3 && "$@" && ends_by_timeout
}

# A guest whose links are down may come to saying so only when they are up again: soft-RoCE leaves it no time.
ends_by_timeout() {
	wait_until $((timeout + 60)) over_or_said >/dev/null || { mend_all && wait_until 60 over_or_said; } || {
		echo "without shift the training goes on"
		return 1
	}
	mend_all && finish || return
	[ "$client_status" -ne 0 ]
}

over_or_said() {
	either_ended || timeout_said
}

either_ended() {
	! running "$client" || ! running "$server"
}

timeout_said() {
	grep -q 'RPC ran for more than set timeout\|not all ranks have sent' "$out/a.err" "$out/b.err"
}

# All six queue pairs (TensorPipe makes them as it starts) of both processes are protected, and none is not.
six_protected() {
	local host
	for host in a b; do
		status_of "$host" >"$out/$host.status" || return
		jq -e '[.processes[] | select(.life == "running")] | length == 1 and (.[0] | .passed_through == [] and
			([.connections[].protected] | length == 6 and all))' "$out/$host.status" >/dev/null || return
	done
}

trains() { # is it training, over RDMA, protected?
	if ! { wait_until 240 at_step 3 && wait_until 30 six_protected; }; then
		tail -n 5 "$out"/a.err "$out"/b.err
		return 1
	fi
}

# By SIGUSR2 the training ends after its epoch, both ranks with status 0.
end_training() {
	on a pkill -USR2 -x "$program" && both_right
}

both_right() {
	finish
	[ "$client_status $server_status" = '0 0' ] || {
		echo "status $client_status of host a, $server_status of host b"
		tail -n 20 "$out"/a.err "$out"/b.err
		return 1
	}
}

# The steps with their losses, and the weights after each epoch: no times.
curve() { # FILE of rank 0
	sed -n 's/^\(step [0-9]*\) .* \(loss [^ ]*\) .*/\1 \2/p; /^epoch/p' "$1"
}

# Is it, to the last digit, what the program does alone, without faults? That is run now, if not long enough yet.
as_without_faults() {
	local n epochs reference=$BATS_FILE_TMPDIR/curve
	curve "$out/a.out" >"$out/curve"
	n=$(wc -l <"$out/curve") epochs=$(grep -c ^epoch "$out/curve")
	[ "$epochs" -gt 0 ] || { echo "no epoch has ended"; return 1; }
	[ -e "$reference" ] && [ "$(wc -l <"$reference")" -ge "$n" ] || make_reference "$epochs" || return
	diff "$out/curve" <(head -n "$n" "$reference") || {
		echo "the losses or the weights are others than without a fault"
		return 1
	}
}

make_reference() { # EPOCHS
	local out=$BATS_FILE_TMPDIR
	unprotected
	start_training --epochs "$1" && both_right && curve "$out/a.out" >"$out/curve"
}
