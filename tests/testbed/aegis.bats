# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-diag hang, fail and slow of a job of four ranks on two hosts, over verbs.
# shellcheck disable=SC2034,SC2154  # variables for, and of, survive.bash

rails=1
load survive_file

export NAME=check-aegis
load mpi
load aegis

setup_file() {
	cd "$BUILDDIR" || return
	survive_up "${KERNEL:-6.1}"
}

setup() {
	cd "$BUILDDIR" || return
	out=$BATS_TEST_TMPDIR
	client='' server='' slow=''
	guests_by_ssh
}

teardown() {
	[ -z "$slow" ] || speed_up
	[ -n "$BATS_TEST_COMPLETED" ] || [ ! -e "$out/verdict" ] || told
	kill_programs
	outlives_panic mend_all
}

teardown_file() {
	survive_down
	rm -rf "$shared"
}

@test "a rank that is stopped before a collective is named by hang, and a job that goes on is fine" {
	job_starts 100
	stop_rank 2
	wait_until 60 says hang 2 '.rule == "fewer-launches" and [.culprits[].rank] == [2] and .culprits[0].host == "b"'
	continue_rank 2
	wait_until 30 says hang 0 '.culprits == []'
}

# bats test_tags=long
@test "a path that became slow is named by slow, as the link between the two hosts" {
	calibrate_rate
	job_starts 200
	sleep 30
	says slow 0 '.culprits == []' || says slow 1 '.culprits == []'
	slow_down b
	wait_until 60 says slow 2 '.rule == "slower-network" and .level == "link" and [.culprits[].host] == ["a", "b"]'
	speed_up
	wait_until 60 says slow 1 '.culprits == []'
}

# bats test_tags=long
@test "a NIC whose cable is out is named by fail" {
	job_starts 200
	says fail 0 '.culprits == []'
	break_it pull:b
	wait_until 60 says fail 2 '.rule == "critical-error" and .level == "nic" and [.culprits[] | .host + " " + .device] == ["b mlx5_0"]'
	mend_it pull:b
	wait_until 60 says fail 0 '.culprits == []'
}

@test "what rdma -j statistic prints here can be read" {
	local host t
	mkdir "$out/counters"
	for t in 1795855608 1795855668; do
		for host in a b; do on "$host" rdma -j statistic >"$out/counters/$host.rdma.$t.json"; done
	done
	run -0 --separate-stderr "$BUILDDIR/cmd/shift-diag/shift-diag" slow "$out/counters"
	[ "$stderr" = '' ]
}
