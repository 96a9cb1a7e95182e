# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# More pairs of programs and faults, for which survive.bats has no time; make check-long.

load survive_file

export NAME=check-survive-long

@test "ib_send_bw: admin down on the receiver" {
	outlives_panic survives down:b ib_send_bw -s 4096
}

@test "ib_send_bw -b -q 4: all ACKs dropped" {
	outlives_panic survives acks:b ib_send_bw -s 4096 -b -q 4
}

@test "ib_read_bw -q 4: cable pulled at the receiver" {
	outlives_panic survives pull:b ib_read_bw -s 4096 -q 4
}

@test "ib_write_lat: all packets dropped silently, both ways" {
	outlives_panic survives hole:ab ib_write_lat
}

@test "integrity, 4 QPs, 2 threads: all ACKs dropped, and nothing lost, duplicated, reordered or corrupt" {
	outlives_panic survives acks:b integrity --allow-lost-results
}

@test "unprotected, the same, admin down on the sender: it does not come as far as the next life" {
	outlives_panic suffers down:a error-or-hang --lives 6 --seconds 10
}

@test "integrity, atomics both ways: 200 migrations by shift-ctl and as many fail-backs, nothing lost, none that was not planned" {
	outlives_panic migrates 50
}

@test "integrity: 20 faults in lives, between them and over their ends, QPs used again with the same PSNs" {
	outlives_panic reuses in:down:b between:hole:b over:acks:b in:hole:ab in:pull:a between:acks:b over:hole:b in:big:b \
		in:down:a between:hole:ab over:acks:b in:acks:b in:pull:b between:hole:b over:hole:ab in:hole:b in:down:b \
		between:acks:b over:hole:b in:acks:b
}

@test "SHIFT_EXACTLY_ONCE=0: ACKs dropped, and the integrity client finds duplicates" {
	outlives_panic duplicates acks:b
}

@test "ib_atomic_lat by default, ACKs dropped: a lost atomic is an error that says so" {
	outlives_panic loses_atomic ib_atomic_lat -n "$(count_for 30 ib_atomic_lat)"
}

@test "integrity by default, ACKs dropped: a lost atomic is an error that says so, and none is executed twice" {
	outlives_panic loses_atomic integrity --allow-lost-results --seconds 60
}

@test "unprotected, cable pulled: a stall as long as the fault" {
	outlives_panic suffers pull:b stall
}

@test "unprotected, all ACKs dropped: a stall as long as the fault" {
	outlives_panic suffers acks:b stall
}

@test "unprotected, all packets dropped: a stall as long as the fault" {
	outlives_panic suffers hole:b stall
}

@test "unprotected, packets of more than 1 KB dropped: a stall as long as the fault" {
	outlives_panic suffers big:b stall --size 2000 --fixed-size
}

@test "ib_write_bw -b -q 4: cable pulled at the sender" {
	outlives_panic survives pull:a ib_write_bw -s 4096 -b -q 4
}

@test "ib_write_bw -q 4: cable pulled at the sender" {
	outlives_panic survives pull:a ib_write_bw -s 4096 -q 4
}

@test "QPs of one process on both NICs, each the other's backup" {
	outlives_panic both_nics
}

@test "the library at the sender only: as with none" {
	outlives_panic lone a
}

@test "the library at the receiver only: as with none" {
	outlives_panic lone b
}

@test "collective, verbs as NCCL uses them: cable pulled at the receiver, every byte right, no fatal event" {
	outlives_panic survives pull:b collective
}

@test "collective: admin down at the sender, whose flush QPs go on elsewhere, every byte right, no fatal event" {
	outlives_panic survives down:a collective
}

@test "collective: admin down at the receiver, whose flush QPs go on elsewhere, every byte right, no fatal event" {
	outlives_panic survives down:b collective
}

@test "unprotected, collective: admin down on the sender ends it with an error" {
	outlives_panic ends_in_error down:a collective --seconds 60 --timeout 14 --retry 6
}

@test "integrity: while rail 0 is dead its address comes again at another GID index; by RDMA-CM, too" {
	prepare=address_anew outlives_panic survives readd:b integrity --allow-lost-results
	prepare=address_anew outlives_panic survives readd:a integrity --allow-lost-results --rdma-cm --events edge
	on a sh -c '! grep -q 0a00:0101 /sys/class/infiniband/mlx5_0/ports/1/gids/1'
	address_anew
}
