# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Hosts with a single NIC: a second QP on it survives a link that is away for longer than the retries, and an address
# that moves. Each fault is shown to end the program without us. survive-matrix one-nic has all of these, many times.
# shellcheck disable=SC2034,SC2154  # variables for, and of, survive.bash

rails=1
load survive_file
load one_nic

export NAME=check-one-nic

stock_errs() { # FAULT OPTIONS of integrity...
	local fault=$1
	shift
	unprotected
	address_anew || return
	start "${integrity[@]}" --stall 12 --seconds $((away + 8)) "$@" || return
	carries a 0 && break_it "$fault" && sleep "$away" && mend_it "$fault" || return
	finish
	[ "$client_status $server_status" != '0 0' ] || {
		echo "$fault: stock verbs survive it: it shows nothing"
		return 1
	}
}

@test "integrity: the cable is pulled for 20 s" {
	away=20 seconds=34 on_one_nic pull:a "${integrity[@]}" --retry 6
}

@test "integrity: admin down at either end" {
	on_one_nic down:a "${integrity[@]}" --retry 6
	on_one_nic down:b "${integrity[@]}" --retry 6
}

@test "integrity: the address is replaced by another, with retry_cnt 7" {
	way=through_move on_one_nic move:a "${integrity[@]}" --retry 7
}

@test "stock verbs err at each of these" {
	stock_errs pull:a --retry 6
	stock_errs down:b --retry 6
	away=14 stock_errs move:a --retry 7
}

# bats test_tags=long
@test "ib_write_bw: admin down at the sender" {
	on_one_nic down:a ib_write_bw -s 65536
}

took() { # seconds that ib_write_bw takes, with a pull of 5 s
	local began=$SECONDS
	start ib_write_bw -s 65536 -n "$1" && carries a 0 && sleep 1 && break_it pull:a && sleep 5 && mend_it pull:a && finish &&
		[ "$client_status $server_status" = '0 0' ] || return
	echo $((SECONDS - began))
}

# With its usual retry_cnt of 7 soft-RoCE never errs, and goes on as soon as the link is there.
# bats test_tags=long
@test "ib_write_bw: a pulled cable is no longer away than for stock verbs" {
	local count stock ours
	address_anew
	count=$(count_for 12 ib_write_bw -s 65536)
	unprotected
	stock=$(took "$count")
	protected
	ours=$(took "$count")
	echo "stock $stock s, ours $ours s"
	[ "$ours" -le $((stock + 3)) ]
}
