# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Open MPI over UCX, one rank on each of two guests, with a network that is trained (examples/mpi): its losses and weights
# are the same to the bit in any run, so a run through a fault is compared with one of one rank, without a network.
# shellcheck disable=SC2034,SC2154  # variables for, and of, survive.bash

load survive_file

export NAME=check-mpi
load mpi
load busy

teardown() {
	empty_backup
	kill_programs
	outlives_panic mend_all
}

teardown_file() {
	survive_down
	rm -rf "$shared"
}

survives_each() { # FAULT...
	local fault
	for fault; do
		training outlives_panic survives "$fault" mpi_train
	done
}

# Of faults that begin and end: the training goes on while they last. (Packets on rail 1 are no proof: a peer that has no receive
# asks for one again and again.)
course=through_steps
through_steps() { # FAULT
	[[ $1 != flap:* && $1 != both:* ]] || { through "$1"; return; }
	carries a 0 && wait_until 30 met_all && sleep 1 && break_it "$1" && wait_until 30 all_on 1 && goes_on && mend_it "$1" &&
		wait_until 60 home && carries a 0
}

step() { # the last one that was told
	sed -n 's/^step \([0-9]*\),.*/\1/p' "$out/a.out" | tail -n 1
}

goes_on() { # twice 50 steps
	local from
	from=$(step)
	wait_until 60 at_step $((from + 100))
}

at_step() { # N
	[ "$(step)" -ge "$1" ]
}

@test "a training with stock verbs ends or hangs when the cable is pulled" {
	training stock_errs_or_hangs pull:a mpi_train
}

@test "shift-run mpirun: the cable is pulled, and a training's losses and weights are as without" {
	survives_each pull:b
}

# bats test_tags=long
@test "mpirun shift-run: the cable is pulled, and a training's losses and weights are as without" {
	protected() { protected_by_ranks; }
	survives_each pull:a
}

# bats test_tags=long
@test "no fault: a training's losses, weights and lines are the same with stock verbs and with shift" {
	training same_as_stock mpi_train
	trained "${duration[@]}"
}

# UCX's queue pair to itself is on the SRQ, too, and stays at the NIC, from which nothing can be fetched then (doc/srq.md, S4).
# bats test_tags=long
@test "a training: link down at either end" {
	survives_each down:a down:b
}

# bats test_tags=long
@test "a training: flapping link" {
	survives_each flap:b
}

# bats test_tags=long
@test "a training: all acknowledgements dropped" {
	survives_each acks:b
}

# bats test_tags=long
@test "a training: both NICs of a host down, 100 ms apart" {
	course=through_two survives_each two:a two:b
}

through_two() { # two:HOST
	local host=${1#*:}
	carries a 0 && wait_until 20 met_all && sleep 1 || return
	break_it "$1" && sleep 3 && on "$host" ip link set eth2 up &&
		carries a 1 && on "$host" ip link set eth1 up && wait_until 60 home && carries a 0
}

# bats test_tags=long
@test "without shift each of these faults ends or hangs a training" {
	local fault
	for fault in pull:b down:a down:b acks:b two:a two:b; do
		training stock_errs_or_hangs "$fault" mpi_train
		mend_all
	done
	transport+=("${few_retries[@]}")
	training stock_ends_by flaps b
}

# bats test_tags=long
@test "a training: the cable is pulled while other traffic fills the backup NIC" {
	local fault prepare=fill_backup busy=200 rate=$((rate / 2))
	fill_backup
	training stock_errs_or_hangs pull:a mpi_train
	for fault in pull:a pull:b; do
		survives_each "$fault"
		backup_is_filled
	done
}

# bats test_tags=long
@test "a training: the cable is out for a while as it begins" {
	protected
	duration=(-n "$(count_for 10 mpi_train)")
	training start_mpi mpi_train "${duration[@]}"
	wait_until 60 connected
	break_it pull:b
	sleep 4
	mend_it pull:b
	finish
	right_to_the_end
}

# A program's queue pair that sends.
connected() {
	on a sh -c "rdma resource show qp link mlx5_0 | grep 'type RC state RTS' | grep -q mpi_train"
}

# bats test_tags=long
@test "a training: the cable is pulled just before it ends, and stays out" {
	local step
	for step in 290 300; do
		protected
		duration=(-n 300 -e 10)
		training start_mpi mpi_train "${duration[@]}"
		wait_until 100 grep -q "^step $step," "$out/a.out"
		break_it pull:b
		finish
		mend_all
		right_to_the_end
	done
}

right_to_the_end() {
	if [ "$client_status $server_status" != '0 0' ] || ! right; then
		failed training
		return 1
	fi
}

# bats test_tags=long
@test "a rank on a host without shift: it works, and is shown as not protected, with its host's address" {
	protected
	before_mpirun=(env OMPI_MCA_orte_launch_agent=orted "${before_mpirun[@]}")
	duration=(-n "$(count_for 40 mpi_train)")
	training start_mpi mpi_train "${duration[@]}"
	wait_until 60 lone_rank
	finish
	right_to_the_end
	run ! grep shift "$out/b.err"
}

lone_rank() { # UCX has a queue pair that is connected to itself, too
	status_of a >"$out/status" 2>/dev/null && jq -e '[.processes[] | select(.life == "running") | .connections[] | select(.unprotected != "LOOPBACK")] |
		length == 1 and .[0].unprotected == "NO_PEER_LIBRARY" and (.[0].peer.gid | endswith("ff:fe00:2"))' "$out/status" >/dev/null
}

pingpong() { # COMMAND...
	local starter=start_mpi
	mpi_program tests/testbed/mpi_pingpong.c mpi_pingpong
	"$@"
}

# bats test_tags=long
@test "messages of all lengths over UCX: cable pulled at either end" {
	pingpong outlives_panic survives pull:a mpi_pingpong
	pingpong outlives_panic survives pull:b mpi_pingpong
}

# bats test_tags=long
@test "messages of all lengths over libfabric: stock verbs err or hang, with shift they survive" {
	transport=("${over_libfabric[@]}") gid=1
	pingpong stock_errs_or_hangs pull:a mpi_pingpong
	mend_all
	pingpong outlives_panic survives pull:a mpi_pingpong
	pingpong outlives_panic survives pull:b mpi_pingpong
}
