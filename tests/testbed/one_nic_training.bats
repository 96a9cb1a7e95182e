# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Trainings on hosts with a single NIC, whose link flaps (examples/mpi, examples/torch). For build-aux/training-packages.
# shellcheck disable=SC2034,SC2154  # variables for, and of, survive.bash

rails=1
load survive_file
load one_nic
load mpi

patience=600 # slow guests take long
busy=200      # packets per second: more than probes, and what slow guests have

export NAME=check-one-nic-training

teardown_file() {
	survive_down
	rm -rf "$shared"
}

# Longer than the program's retries (few_retries), by the cable: without a carrier, but not administratively down.
pull_thrice() { # HOST
	local i
	for i in 1 2 3; do
		break_it "pull:$1" && sleep 4 && mend_it "pull:$1" && sleep 4 || return
	done
}

through_flaps() { # FAULT
	carries a 0 && wait_until 20 met_all && sleep 1 && pull_thrice "${1##*:}" && wait_until 40 went_to 0 && wait_until 60 home &&
		carries a 0
}

# bats test_tags=long
@test "mpirun: a cable that is pulled again and again ends the training; with shift it has the losses and weights of one without faults" {
	local host
	transport+=("${few_retries[@]}")
	course=through_flaps
	for host in a b; do
		training stock_ends_by pull_thrice "$host"
		mend_all
		training outlives_panic survives "flap:$host" mpi_train
	done
}

# What a rank posts while its own link is down fails at once, whatever its retries.
# bats test_tags=long
@test "torchrun: a flapping link at either end ends the training; with shift it has the losses and weights of one without faults" {
	local host
	load torch
	for host in a b; do
		unprotected
		start_training --epochs 1000
		wait_until 240 at_step 3
		flaps "$host"
		wait_until 120 either_ended
		kill_programs
		mend_all
	done
	shift_run
	start_training --epochs 1000
	trains
	for host in a b; do
		flaps "$host"
		goes_on 5
	done
	end_training
	as_without_faults
	grep 'shift.*0 requests in doubt' "$out/a.err"
}
