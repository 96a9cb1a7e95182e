# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Programs of other people that connect by RDMA-CM and sleep on completion channels, between two guests under libshift.so,
# when the cable is pulled. qperf's server forks for each test; fio acknowledges more events than it was given.
# shellcheck disable=SC2034,SC2154  # variables for, and of, survive.bash

load survive_file
load rdmacm

export NAME=check-programs

@test "qperf: cable pulled at either end" {
	outlives_panic survives_cm pull:a qperf rc_bw 30
	outlives_panic survives_cm pull:b qperf rc_rdma_read_bw 30
	outlives_panic survives_cm pull:a qperf rc_lat 30
}

@test "fio: cable pulled at either end" {
	outlives_panic survives_cm pull:a fio write 160
	outlives_panic survives_cm pull:b fio read 160
}

# fio's status is 0 whatever happens.
@test "with stock verbs they have ended without a result, or stand still, 15 s after the pull" {
	local words
	for words in "qperf rc_bw 30" "fio write 160"; do
		unprotected
		# shellcheck disable=SC2086
		start_cm $words
		carries a 0
		break_it pull:a
		sleep 15
		if running "$client"; then still; else ! right_cm; fi
		kill_programs
	done
}
