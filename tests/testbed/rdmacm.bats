# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Programs that connect by RDMA-CM, between two guests under libshift.so: a pulled cable, and an end while it is out. The
# kernel's connection manager speaks over rail 0 only. With kernels from 6.0 on it calls an established connection
# UNREACHABLE some seconds after the pull, at the end that has connected.
# shellcheck disable=SC2034,SC2154  # variables for, and of, survive.bash

load survive_file
load rdmacm

export NAME=check-rdmacm

# The cable is pulled, and the client killed, if it has not ended by itself (UNREACHABLE).
killed_in_silence() {
	start_cm rping -C 100000 && carries a 0 && sleep 2 && break_it pull:a && sleep 3 || return
	on a pkill -KILL -x rping || true
	wait_until 10 ended "$client"
}

# bats test_tags=long
@test "without a fault: the same lines and status" {
	as_without rping -C 200
	as_without ucmatose -C 50 -S 4096
	as_without ib_send_lat -n 1000
}

@test "rping: cable pulled at the client" {
	outlives_panic survives_cm pull:a rping -C 2000
}

@test "a client that disconnects while its cable is out: the server hears of it" {
	protected
	start_cm rping -C 600 && carries a 0 && wait_until 20 met_all && break_it pull:a
	finish
	[ "$client_status $server_status" = '0 0' ]
	grep -q 'its RDMA-CM is told that it is disconnected' "$out/b.err"
	grep -q '^server DISCONNECT EVENT' "$out/b.err"
}

@test "a client that is killed while its cable is out: the server ends; with stock verbs it stands still" {
	protected
	killed_in_silence
	wait_until 20 ended "$server"
	mend_all
	unprotected
	killed_in_silence
	sleep 20
	running "$server"
}

# bats test_tags=long
@test "ucmatose: cable pulled at either end" {
	outlives_panic survives_cm pull:a ucmatose -S 65536 -C 4000
	outlives_panic survives_cm pull:b ucmatose -S 65536 -C 4000
}

# bats test_tags=long
@test "perftest -R: cable pulled at either end" {
	outlives_panic survives_cm pull:a ib_write_bw -s 4096 -n 100000
	outlives_panic survives_cm pull:b ib_read_bw -s 4096 -n 100000
	outlives_panic survives_cm pull:a ib_send_lat -n 8000
}

# bats test_tags=long
@test "integrity --rdma-cm: the cable is out until the kernel calls its peer unreachable, and no event is heard of" {
	connections=4 course=through_silence outlives_panic survives pull:a integrity --allow-lost-results --rdma-cm
	grep -q 'RDMA-CM event .* is hidden' "$out/a.err"
	jq -es 'all(.rdma_cm and .found.bad_events == 0)' "$out/a.out" "$out/b.out" >/dev/null
}

# bats test_tags=long
@test "unprotected, the same hears that its connections are unreachable" {
	unprotected
	start integrity --allow-lost-results --rdma-cm --seconds 20
	carries a 0 && break_it pull:a && sleep $silent_s && mend_all
	finish
	[ "$client_status $server_status" = '5 5' ]
	grep -q 'RDMA_CM_EVENT_UNREACHABLE' "$out/a.err"
	jq -e '.found.bad_events > 0' "$out/a.out" >/dev/null
}

# bats test_tags=long
@test "rsocket: rstream, and iperf by librspreload in either order; cable pulled at the client" {
	outlives_panic survives_cm pull:a rstream -S 65536 -C 2 -I 2000
	sockets=first outlives_panic survives_cm pull:a iperf -t 40
	sockets=last outlives_panic survives_cm pull:a iperf -t 40
}
