# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Programs that sleep on completion channels, between two guests under libshift.so, when the cable is pulled. Each is shown
# to end, or to stand still, without us. (perftest has -e for all but WRITEs.)
# shellcheck disable=SC2034,SC2154  # variables for, and of, survive.bash

load survive_file

export NAME=check-channels

# bats test_tags=long
@test "ib_read_bw -e: cable pulled at the client" {
	outlives_panic survives pull:a ib_read_bw -e -s 4096
}

@test "ib_send_bw -e: cable pulled at the receiver" {
	outlives_panic survives pull:b ib_send_bw -e -s 4096
}

# Not ib_send_lat -e: it has one channel for both its CQs, and takes the event of a receive for that of the send it waits
# for. That goes well only while the ACK of a message comes before its answer (seen in 1 of 2 runs: it did not).
# bats test_tags=long
@test "ib_read_lat -e: all packets dropped silently" {
	outlives_panic survives hole:ab ib_read_lat -e
}

@test "ibv_rc_pingpong -e: cable pulled at the client" {
	outlives_panic survives pull:a ibv_rc_pingpong -e
}

# bats test_tags=long
@test "ib_read_bw -e of stock verbs errs or hangs" {
	stock_errs_or_hangs pull:a ib_read_bw -e -s 4096
}

@test "the two others err or hang with stock verbs" {
	stock_errs_or_hangs pull:b ib_send_bw -e -s 4096
	stock_errs_or_hangs pull:a ibv_rc_pingpong -e
}
