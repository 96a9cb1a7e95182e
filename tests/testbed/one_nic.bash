# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Faults for hosts with a single NIC. For one_nic.bats and survive-matrix, which have set rails=1 and loaded survive.bash.
# shellcheck shell=bash disable=SC2016,SC2034,SC2154  # for the guest; variables for, and of, survive.bash

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

on_one_nic() { # FAULT PROGRAM OPTIONS...
	course=${way:-through_one_nic} prepare=address_anew outlives_panic survives "$@"
}
