# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Unmodified programs under libshift.so between two guests, and faults from outside. Each program and each
# fault once; all with all: survive-matrix.

load survive_file

export NAME=check-survive

@test "ib_write_bw, messages of 64 KB: admin down on the sender" {
	outlives_panic survives down:a ib_write_bw -s 65536
}

@test "ib_read_bw: all packets dropped silently" {
	outlives_panic survives hole:b ib_read_bw -s 4096
}

@test "ib_send_lat: both rails go, one after the other" {
	outlives_panic survives both:a ib_send_lat
}

@test "ib_read_lat: cable pulled at the sender" {
	outlives_panic survives pull:a ib_read_lat
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

# With few receives, often withheld, some switches happen while none is outstanding.
@test "integrity, 4 QPs, 2 threads: admin down on the receiver, and nothing lost, duplicated, reordered or corrupt" {
	outlives_panic survives down:b integrity --allow-lost-results --receives 4 --hold 100
}

@test "integrity, 4 QPs, 2 threads: each QP goes to ERR, by shift-inject" {
	seconds=30 course=through_qp_errors outlives_panic survives qp-error integrity --allow-lost-results
}

# None of the four QPs may be unprotected: it might wait for the end of the fault, and look well.
@test "integrity, by ibv_wr_* and extended CQs, asleep on their channels: cable pulled at the receiver, and nothing lost, no wake-up either" {
	connections=4 outlives_panic survives pull:b integrity --allow-lost-results --wr-api --cq-ex --events edge --rxe-44 post
	jq -es 'all(.wr_api and .cq_ex and .events == "edge" and .events_taken > 0)' "$out/a.out" "$out/b.out" >/dev/null
}

@test "unprotected, the same ends with an error" {
	outlives_panic ends_in_error pull:b integrity --one-way --seconds 60 --retry 6 --wr-api --cq-ex --events edge --rxe-44 both
}

@test "integrity: its QPs are RESET and used again with the same PSNs, with a fault between two lives" {
	outlives_panic reuses between:hole:b
}

# bats test_tags=long
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

# Here and not in inject.bats, since the NICs of its layout are not on a bus.
@test "shift-inject unbind: a NIC is gone with all it had, and comes back as it was" {
	run on a bash -c '
		PATH='"$BUILDDIR"'/cmd/shift-inject:$PATH
		rdma link delete mlx5_1 && ip route add 10.97.0.0/16 via 10.0.2.2 dev eth2 || exit
		state() { ip -d link show eth2 | grep -v "^[0-9]"; ip addr show eth2 | grep inet; ip route show dev eth2; }
		as_before() { state | diff /tmp/before -; }
		ends() { # HOW FOR
			rm -f /tmp/said
			shift-inject unbind --nic eth2 --for "${2:-1m}" >/tmp/said & fault=$!
			until test -s /tmp/said; do kill -0 $fault || return; sleep 0.02; done
			! test -e /sys/class/net/eth2 || return
			[ "$1" = for ] || kill -"$1" $fault
			wait $fault; echo "$1 $?"
			for i in $(seq 100); do as_before >/dev/null && return; sleep 0.1; done
			as_before
		}
		state >/tmp/before
		ends for 1s && ends INT && ends TERM && ends KILL
		status=$?
		rdma link add mlx5_1 type rxe netdev eth2
		exit $status'
	expect_status 0
	expect_match 'for 0.*INT 0.*TERM 0.*KILL 137'
}
