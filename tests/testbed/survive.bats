# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Unmodified programs under libshift.so between two guests, and faults from outside. Each program and each
# fault once; all with all: survive-matrix.

load ../helper
load survive

export NAME=check-survive

setup_file() {
	cd "$BUILDDIR" || return
	survive_up
	out=$BATS_FILE_TMPDIR
	calibrate
	export rate
}

teardown_file() {
	survive_down
}

setup() {
	cd "$BUILDDIR" || return
	out=$BATS_TEST_TMPDIR
	shift_env=(SHIFT_LOST_ATOMIC=continue)
	client= server=
}

teardown() {
	kill_programs
	mend_all
}

@test "ib_write_bw, messages of 64 KB: admin down on the sender" {
	outlives_panic survives down:a ib_write_bw -s 65536
}

@test "ib_read_bw: all packets dropped silently" {
	outlives_panic survives hole:b ib_read_bw -s 4096
}

@test "ib_write_bw: cable pulled at the sender" {
	outlives_panic survives pull:a ib_write_bw -s 4096
}

@test "ib_send_lat: both rails go, one after the other" {
	outlives_panic survives both:a ib_send_lat
}

@test "ib_read_lat: admin down on the receiver" {
	outlives_panic survives down:b ib_read_lat
}

@test "ib_send_bw: only packets of more than 1 KB dropped" {
	outlives_panic survives big:b ib_send_bw -s 4096
}

@test "ib_atomic_bw: all ACKs dropped" {
	outlives_panic survives acks:b ib_atomic_bw
}

@test "ib_atomic_lat: cable pulled at the receiver" {
	outlives_panic survives pull:b ib_atomic_lat
}

@test "ib_write_lat: five times down for 2 s and up for 2 s" {
	outlives_panic survives flap:a ib_write_lat
}

# Few receives, and often withheld: switches without any outstanding, too.
@test "integrity, 4 QPs, 2 threads: admin down on the receiver, and nothing lost, duplicated, reordered or corrupt" {
	outlives_panic survives down:b integrity --allow-lost-results --receives 4 --hold 100
}

@test "SHIFT_EXACTLY_ONCE=0: admin down on the receiver, and the integrity client finds duplicates" {
	outlives_panic duplicates down:b
}

@test "peer stopped for 5 s: no switch, no error" {
	outlives_panic stopped 5 ib_send_bw -s 4096
}

@test "unprotected, admin down on the sender: an error, or a hang past 10 s" {
	outlives_panic suffers down:a error-or-hang
}

@test "unprotected, admin down on the receiver: a stall as long as the fault" {
	outlives_panic suffers down:b stall
}

@test "unprotected, all ACKs dropped: a stall as long as the fault" {
	outlives_panic suffers acks:b stall
}
