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

# UCX, by UCP (receives of its RC are shared) and by UCT alone. Over soft-RoCE its UD, which makes the connections, needs GID 0:
# doc/soft-roce.md, "UCX drops what comes to an IPv4 address".
ucx_env=("UCX_TLS=rc_v,ud_v" UCX_IB_GID_INDEX=0 UCX_NET_DEVICES=mlx5_0:1 UCX_WARN_UNUSED_ENV_VARS=n)
uct='-x rc_verbs -d mlx5_0:1'

ucx() { # COMMAND...
	command -v ucx_perftest >/dev/null || skip "no ucx_perftest (Debian: ucx-utils)"
	local stock_env=("${ucx_env[@]}") connections=1
	shift_env+=("${ucx_env[@]}")
	"$@"
}

ucx_survives() { # FAULT WORDS...: one run for each of the words
	local fault=$1 words
	shift
	for words; do
		# shellcheck disable=SC2086
		ucx outlives_panic survives "$fault" ucx_perftest $words
	done
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

@test "with stock verbs they err or hang when the cable is pulled" {
	stock_errs_or_hangs pull:b ib_send_bw --use-srq -s 4096
	stock_errs_or_hangs pull:a ibv_srq_pingpong -e
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

@test "UCX tag_lat: with stock verbs it errs or hangs when the cable is pulled, with shift it survives" {
	ucx stock_errs_or_hangs pull:a ucx_perftest -t tag_lat
	ucx_survives pull:a '-t tag_lat'
}

# bats test_tags=long
@test "UCX, no fault: stock verbs run, and with shift all lines and the status are the same" {
	local words
	for words in '-t tag_lat' '-t tag_bw' '-t tag_bw -s 65536' '-t ucp_put_lat' '-t ucp_am_lat' '-t ucp_am_bw -s 65536' \
		'-t ucp_get -s 4096' "$uct -t am_lat" "$uct -t put_lat"; do
		# shellcheck disable=SC2086
		ucx same_as_stock ucx_perftest $words
	done
}

# bats test_tags=long
@test "UCX: with stock verbs it errs or hangs when the cable is pulled" {
	local words
	for words in '-t tag_bw' '-t ucp_put_lat' '-t ucp_am_lat' "$uct -t am_lat"; do
		# shellcheck disable=SC2086
		ucx stock_errs_or_hangs pull:b ucx_perftest $words
		mend_all
	done
}

# bats test_tags=long
@test "UCX messages with tags: cable pulled at either end" {
	ucx_survives pull:b '-t tag_lat'
	ucx_survives pull:a '-t tag_bw'
	ucx_survives pull:b '-t tag_bw' '-t tag_bw -s 65536'
}

# bats test_tags=long
@test "UCX put and get: cable pulled at either end" {
	ucx_survives pull:a '-t ucp_put_lat' "$uct -t put_lat"
	ucx_survives pull:b '-t ucp_put_lat' "$uct -t put_lat" '-t ucp_get -s 4096'
}

# bats test_tags=long
@test "UCX active messages: cable pulled at either end" {
	ucx_survives pull:a '-t ucp_am_lat' "$uct -t am_lat"
	ucx_survives pull:b '-t ucp_am_lat' "$uct -t am_lat" '-t ucp_am_bw -s 65536'
}

# --- events ---------------------------------------------------------------------------------------

# srq_events sleeps for events, takes its QPs to ERR at SIGUSR1, and wants LAST_WQE_REACHED of each, once.
start_events() { # OPTIONS...
	local events=(srq_events --device mlx5_0 --gid-index 1 "$@")
	program=srq_events
	launch b "${events[@]}" & server=$!
	on b timeout 30 sh -c "until grep -qE ':4856 0+:0000 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done" || return
	launch a "${events[@]}" b & client=$!
}

end_events() {
	local host
	for host in a b; do
		on "$host" pkill -USR1 -x srq_events || return
	done
	finish
}

# What host says of its events.
told() { # HOST JQ-EXPRESSION
	jq -e "$2" "$out/$1.out" >/dev/null || {
		jq -c 'del(.gaps, .by_second)' "$out/$1.out"
		return 1
	}
}

# All QPs are on rail 1, and rail 0's cable is out, when the program ends them.
ends_when_moved() { # OPTIONS...
	connections=4
	protected
	start_events "$@" && carries a 0 && wait_until 20 met_all && sleep 1 && break_it pull:a && carries a 1 || return
	wait_until 20 all_on 1 && end_events || return
	[ "$client_status $server_status" = '0 0' ] && told a '.events == 4' && told b '.events == 4'
}

@test "LAST_WQE_REACHED of QPs that were moved: to a program that sleeps in epoll" {
	busy=200 outlives_panic ends_when_moved || {
		failed 'in epoll, by level'
		return 1
	}
}

# bats test_tags=long
@test "LAST_WQE_REACHED of QPs that were moved: to one that reads all at each edge, or sleeps in the verb" {
	local how
	for how in edge blocking; do
		busy=200 outlives_panic ends_when_moved --sleep $how || {
			failed "$how"
			return 1
		}
		mend_all
	done
}

# bats test_tags=long
@test "LAST_WQE_REACHED of QPs that have not moved" {
	connections=4
	protected
	start_events && carries a 0 && wait_until 20 met_all && end_events
	[ "$client_status $server_status" = '0 0' ] && told a '.events == 4' && told b '.events == 4'
}

# With stock verbs the program has no end of its own, as its sends err, or go on for ever. Without a fault 6.1 never says so,
# and 6.12 more than once (doc/soft-roce.md).
# bats test_tags=long
@test "LAST_WQE_REACHED with stock verbs: not at the pull, and not of soft-RoCE" {
	unprotected
	busy=200 && start_events && carries a 0 && break_it pull:a && wait_until 15 over_or_still
	kill_programs
	mend_all
	start_events && carries a 0 && end_events
	if [ "${KERNEL:-6.1}" = 6.1 ]; then
		[ "$client_status" -eq 3 ] && told a '.events == 0'
	else
		told a '.events >= 4'
	fi
}

# integrity ends with a violation where the event of an arming does not come. It may be a second late: with stock verbs, too (4 of
# 169 on 6.1).
# bats test_tags=long
@test "SRQ_LIMIT_REACHED comes while all receives are on another NIC" {
	local host
	connections=4
	protected
	start integrity --allow-lost-results --qps 4 --size 4096 --srq 1 --srq-limit 16 --seconds 30 && carries a 0 && wait_until 20 met_all &&
		sleep 1 && break_it pull:b && carries a 1 && sleep 15 && mend_it pull:b && finish
	[ "$client_status $server_status" = '0 0' ] || {
		failed 'the limit of an SRQ'
		return 1
	}
	for host in a b; do
		told $host '.srq.limit_events > 20 and .found.lost_limits == 0'
	done
}
