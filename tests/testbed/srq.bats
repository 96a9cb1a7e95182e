# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Programs of other people that take their receives from shared receive queues, between two guests under libshift.so, when
# the cable is pulled. Each is shown to run with stock verbs, and to end, or to stand still, at the pull.
# shellcheck disable=SC2034,SC2154  # variables for, and of, survive.bash

load survive_file

export NAME=check-srq

# Queue pairs on an SRQ are not protected yet.
protects_srqs() {
	[ "${SRQ_PROTECTED:-}" ] || skip "receives from a shared receive queue are not protected yet (SRQ_PROTECTED=1 tries)"
}

# UCX, without the transports that shift has nothing to do with. Its own messages (-t tag_...) need UD to connect.
ucx() { # COMMAND...
	command -v ucx_perftest >/dev/null || skip "no ucx_perftest (Debian: ucx-utils)"
	# It measures until its count is reached, and has one packet under way at a time.
	shift_env+=("${ucx_env[@]}")
	"$@"
}
ucx_env=(UCX_TLS=rc_v UCX_NET_DEVICES=mlx5_0:1 UCX_IB_GID_INDEX=1)
by_uct='ucx_perftest -x rc_verbs -d mlx5_0:1 -t am_lat'

stock_runs() { # PROGRAM OPTIONS...
	unprotected
	prefix+=("${ucx_env[@]}")
	start "$@" -n "$(count_for 4 "$@")" && finish
	[ "$client_status $server_status" = '0 0' ] || {
		failed "stock: $*"
		return 1
	}
}

@test "stock verbs, no fault: all of them run" {
	local words
	for words in 'ib_send_bw --use-srq -s 4096' 'ib_send_bw --use-srq -s 4096 -q 4' 'ib_send_bw --use-srq -e -s 4096' \
		'ib_send_lat --use-srq' ibv_srq_pingpong 'ibv_srq_pingpong -e'; do
		# shellcheck disable=SC2086
		stock_runs $words
	done
}

@test "stock verbs, no fault: UCX runs" {
	# shellcheck disable=SC2086
	ucx stock_runs $by_uct
	ucx stock_runs ucx_perftest -t tag_lat
}

@test "with stock verbs they err or hang when the cable is pulled" {
	stock_errs_or_hangs pull:b ib_send_bw --use-srq -s 4096
	stock_errs_or_hangs pull:a ibv_srq_pingpong -e
}

@test "ib_send_bw --use-srq: cable pulled at either end" {
	protects_srqs
	outlives_panic survives pull:a ib_send_bw --use-srq -s 4096
	outlives_panic survives pull:b ib_send_bw --use-srq -s 4096
}

@test "ib_send_bw --use-srq -q 4: cable pulled at the receiver" {
	protects_srqs
	connections=4
	outlives_panic survives pull:b ib_send_bw --use-srq -s 4096 -q 4
}

@test "ib_send_bw --use-srq -e: cable pulled at the receiver" {
	protects_srqs
	outlives_panic survives pull:b ib_send_bw --use-srq -e -s 4096
}

@test "ib_send_lat --use-srq: cable pulled at the client" {
	protects_srqs
	outlives_panic survives pull:a ib_send_lat --use-srq
}

@test "ibv_srq_pingpong: cable pulled at either end" {
	protects_srqs
	connections=16
	outlives_panic survives pull:a ibv_srq_pingpong
	outlives_panic survives pull:b ibv_srq_pingpong -e
}

@test "ucx_perftest over rc_verbs: cable pulled at either end" {
	protects_srqs
	# shellcheck disable=SC2086
	ucx outlives_panic survives pull:a $by_uct
	ucx outlives_panic survives pull:b ucx_perftest -t tag_lat
}
