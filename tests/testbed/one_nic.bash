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

on_one_nic() { # FAULT PROGRAM OPTIONS...
	course=${way:-through_one_nic} prepare=address_anew outlives_panic survives "$@"
}
