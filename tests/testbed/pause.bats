# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Events during the phases of a switch, which pause points hold for as long as needed: rail 0 comes back, a process is
# killed. Each phase of a failover once; the rest: survive-matrix pause and kill.

load survive_file
load pause

export NAME=check-pause
run= # a tree of shift-run, if a test has made one

teardown() {
	rm -rf "${run:-}"
	kill_programs
	outlives_panic mend_all # a program that ended with its link down leaves packets that panic 6.1 now
}

@test "ib_write_bw: rail 0 is back in each phase of the switch, first before one end has heard of the fault" {
	survives_pause down:b ab 'detect fence handshake repost' ib_write_bw -s 4096
}

# bats test_tags=long
@test "integrity: rail 0 is back while the twin is armed: nothing lost, duplicated, reordered or corrupt" {
	survives_pause down:a ab arm integrity --allow-lost-results --qps 2
}

# bats test_tags=long
@test "ib_send_bw, no NIC's rq_psn is believed: through without a proof, as statistics say" {
	shift_env=(SHIFT_PSN=stale)
	# A busy guest takes its time to run shift-ctl.
	seconds=30 library=libshift-hooks.so course=disbelieving survives down:b ib_send_bw -s 4096
}

# kvd and etcd, too: survive-matrix kill. A killed shift-kvd's lease alone lasts half a minute. job.bats kills a peer in
# every run.
# bats test_tags=long
@test "kill -9 of the peer while the old QP is fenced: an error at once, and nothing stays" {
	run_tree "$(mktemp -d "$BUILDDIR/pause.XXXXXX")"
	killed_in fence b ib_send_bw -s 4096
}
