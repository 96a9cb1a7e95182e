# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# examples/nccl between two guests under libshift.so: a ring allreduce through a network plugin for NCCL, checked bit for bit.
# shellcheck disable=SC2034,SC2154  # variables for, and of, survive.bash

load survive_file

export NAME=check-nccl
starter=start_ring
plugin=$BUILDDIR/examples/nccl/.libs/libnccl-net-verbs.so
nccl_env=()
connections=8 # in each direction 2 rings of 2 QPs

teardown_file() {
	survive_down
}

# Rank 0 listens on host b.
start_ring() { # net-allreduce OPTIONS...
	local options=(--root b:18532 --plugin "$plugin" --bytes 131072 --slice 16384 --json)
	program=$1
	shift
	prefix+=(NCCL_IB_HCA==mlx5_0 NCCL_IB_GID_INDEX=1 NCCL_SOCKET_IFNAME=eth0 NCCL_IB_QPS_PER_CONNECTION=2 "${nccl_env[@]}")
	launch b net-allreduce "${options[@]}" --rank 0 "$@" & server=$!
	launch a net-allreduce "${options[@]}" --rank 1 "$@" & client=$!
}

# Through interface 9 or 10, with a bit of a message wrong.
wrong_by() { # VERSION [NAME=VALUE]
	unprotected
	nccl_env=("NET_WRAPPED=$plugin" "${@:2}")
	plugin=$BUILDDIR/tests/clients/.libs/libnet$1.so start_ring net-allreduce -n 10 && finish || return
	jq -es "all(.version == $1) and map(.wrong) == $wrong" "$out/b.out" "$out/a.out"
}

# bats test_tags=long
@test "stock verbs, no fault: every bit is right; a wrong one is found" {
	unprotected
	start_ring net-allreduce -n 20 && finish
	[ "$client_status $server_status" = '0 0' ]
	jq -es 'all(.wrong == 0 and .iterations == 20 and .version == 8)' "$out/a.out" "$out/b.out"
	wrong='[0, 0]' wrong_by 9
	[ "$client_status $server_status" = '0 0' ]
	wrong='[2, 2]' wrong_by 10 NET_WRONG_AT=1 # both ranks make one, and each sum goes round
	[ "$client_status $server_status" = '3 3' ]
}

@test "with stock verbs it ends with an error, or hangs, when the cable is pulled" {
	nccl_env=(NCCL_IB_TIMEOUT=14 NCCL_IB_RETRY_CNT=6)
	stock_errs_or_hangs pull:a net-allreduce
}

@test "a ring through a plugin for NCCL: cable pulled, every QP protected, every bit right" {
	outlives_panic survives pull:a net-allreduce
}

# bats test_tags=long
@test "a ring through a plugin for NCCL: the other faults at either end" {
	local fault
	for fault in down:a down:b pull:b hole:ab acks:b big:b flap:a flap:b both:a; do
		outlives_panic survives $fault net-allreduce || return
	done
}
