# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Hosts with a single NIC: a second QP on it survives a link that is away for longer than the retries, and an address
# that moves. Each fault is first shown to end the program without us.
# shellcheck disable=SC2016,SC2034,SC2154  # for the guest; variables for, and of, survive.bash

rails=1
load survive_file

export NAME=check-one-nic

# Which of its QPs a connection takes when the link is back is open: at the end it is the first one, in a new epoch.
over=0

# Patient enough not to err on a busy machine (7 tries of 0.27 s), and few QPs, so that little is under way.
integrity=(integrity --allow-lost-results --qps 2 --threads 1 --timeout 16)

# $away: for how many seconds. What errs meanwhile waits for the link, and goes on over the second QP; a second later
# the first one has the traffic again.
away=6
through_one_nic() { # FAULT
	carries a 0 && wait_until 20 met_all && sleep 1 && break_it "$1" && sleep "$away" && mend_it "$1" || return
	wait_until 40 went_to 0 && wait_until 60 home || return
	carries a 0
}

# The program is well again before its address is back.
through_move() { # FAULT
	mend_it "$1" 2>/dev/null || true # the program of the try before may have ended meanwhile
	carries a 0 && wait_until 20 met_all && sleep 1 && break_it "$1" && wait_until 20 went_to 1 && carries a 0 || return
	mend_it "$1" && wait_until 60 home || return
	carries a 0
}

# The addresses of the beginning, at their GID index of the beginning: an index whose address was taken away is free
# again only when the last QP that used it is gone, so what a moved address leaves behind is not there, but beside it. The
# kernel changes the table a moment after the address.
address_anew() {
	local host
	for host in a b; do
		on "$host" sh -c 'gids=/sys/class/infiniband/mlx5_0/ports/1/gids
			ip -4 addr flush dev eth1 && while grep -qr :ffff: $gids; do sleep 0.1; done
			ip addr add "10.0.1.$0/24" dev eth1 && until grep -q :ffff: $gids/1; do sleep 0.1; done' "$(number "$host")" || return
	done
}

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

on_one_nic() { # FAULT PROGRAM OPTIONS...
	address_anew && course=${way:-through_one_nic} outlives_panic survives "$@"
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
@test "integrity: each of these, 20 times" {
	local i fault
	for i in $(seq 20); do
		away=20 seconds=34 on_one_nic pull:b "${integrity[@]}" --retry 6
		for fault in down:a down:b; do
			on_one_nic $fault "${integrity[@]}" --retry 6
		done
		for fault in move:a move:b; do
			for retry in 6 7; do
				way=through_move on_one_nic $fault "${integrity[@]}" --retry $retry
			done
		done
	done
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
