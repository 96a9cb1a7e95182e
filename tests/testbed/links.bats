# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# lib/nic between two hosts: control link, link events and probes, and faults of
# every kind while they run. One pair of link_test serves all tests, in this order.

load guests

export NAME=check-links
patience=60

setup_file() {
	guests_up --layout pair ${KERNEL:+--kernel "$KERNEL"}
	client b &
	client a '$SHIFT_PEER_ADDR' &
	disown -a
	for host in a b; do
		wait_until 30 has $host '"event": "probe", "answered": true' || {
			tail -n 30 "$BATS_FILE_TMPDIR"/[ab]*
			return 1
		}
	done
}

setup() {
	cd "$BUILDDIR" || return
	mark
}

teardown() {
	on b pkill -CONT -x link_test
	on b ip link set eth1 up
	on b ip addr replace 10.0.1.2/24 dev eth1
	on b tc qdisc del dev eth1 clsact 2>/dev/null || true
	[ -n "$BATS_TEST_COMPLETED" ] || tail -n 30 "$BATS_FILE_TMPDIR"/[ab]*
}

client() { # HOST OPTIONS...: reports to $BATS_FILE_TMPDIR/HOST
	local host=$1
	shift
	shift-testbed exec --name "$NAME" --timeout 120s "$host" -- sh -c \
		'tests/clients/link_test --seconds 100 --device ${SHIFT_HOST_RAILS%%,*} '"$*" \
		>"$BATS_FILE_TMPDIR/$host" 2>"$BATS_FILE_TMPDIR/$host.err" 3>&-
}

# says() finds only events since the last mark.
mark() {
	for host in a b; do
		wc -c <"$BATS_FILE_TMPDIR/$host" >"$BATS_FILE_TMPDIR/$host.mark"
	done
}

said() { # HOST: since the mark
	tail -c "+$(($(cat "$BATS_FILE_TMPDIR/$1.mark") + 1))" "$BATS_FILE_TMPDIR/$1"
}

has() { # HOST TEXT, at any time
	grep -qF "$2" "$BATS_FILE_TMPDIR/$1"
}

says() { # HOST TEXT, since the mark
	said "$1" | grep -qF "$2"
}

last_probe() { # HOST true|false: the newest word on probes
	grep -F '"event": "probe"' "$BATS_FILE_TMPDIR/$1" | tail -n 1 | grep -q "\"answered\": $2"
}

missed='"event": "probe", "answered": false'
answered='"event": "probe", "answered": true'
link_down='"ready": 1, "link_up": 0'
link_up='"ready": 1, "link_up": 1'
silent='"event": "control", "heard": false'
heard='"event": "control", "heard": true'

@test "rq_psn of soft-RoCE is measured on the NIC itself, and live" {
	for host in a b; do
		wait_until 30 grep -q 'rq_psn is live' "$BATS_FILE_TMPDIR/$host.err"
		run ! grep 'rq_psn is stale' "$BATS_FILE_TMPDIR/$host.err"
	done
}

@test "datagrams of several records arrive intact, both ways" {
	for host in a b; do
		run -0 grep -F '"event": "messages"' "$BATS_FILE_TMPDIR/$host"
		expect_match '"records": 1000, "wrong": 0,'
		expect_match '"refused": 0, "other_version": 0, "misaddressed": 0,'
	done
}

@test "a wrong key is refused, and counted" {
	for host in a b; do
		run -0 grep -F '"event": "wrong_key"' "$BATS_FILE_TMPDIR/$host"
		expect_match '"records": 1000, "wrong": 0,'
		expect_match '"refused": [3-9],'
	done
}

@test "probes are answered, with a round trip" {
	for host in a b; do
		run -0 grep -m 1 -F "$answered" "$BATS_FILE_TMPDIR/$host"
		expect_match '"rtt_us": [1-9]'
	done
}

@test "a stopped peer's NIC goes on answering; its program does not" {
	on b pkill -STOP -x link_test
	wait_until 10 says a "$silent"
	sleep 1 # long enough for all probes to be missed; a busy machine may delay single ones
	wait_until 5 last_probe a true
	on b pkill -CONT -x link_test
	wait_until 10 says a "$heard"
	# And b does not take its own stop for a fault of the network.
	wait_until 5 last_probe b true
}

@test "a link set down is reported at once there, missed probes at both; all comes back" {
	on b ip link set eth1 down
	wait_until 5 says b "$link_down"
	for host in a b; do
		wait_until 5 says $host "$missed"
		wait_until 5 says $host "$silent"
	done
	run ! says a "$link_down"
	mark
	on b ip link set eth1 up
	for host in a b; do
		wait_until 20 says $host "$answered"
		wait_until 20 says $host "$heard"
	done
	says b "$link_up"
	# Sends without a link are errors of soft-RoCE: the control link was made anew, same address.
	run -0 tail -n 1 <(grep -F '"event": "stats"' "$BATS_FILE_TMPDIR/b")
	expect_match '"wrong": 0,'
	expect_match '"rebuilt": [1-9]'
}

@test "lost ACKs: probes are missed although datagrams pass; then answered again" {
	on b sh -ec 'tc qdisc add dev eth1 clsact
		tc filter add dev eth1 egress protocol ip u32 match ip protocol 17 0xff \
			match u16 0x12b7 0xffff at 22 match u8 0x11 0xff at 28 action drop'
	wait_until 5 says a "$missed"
	sleep 1 # past the NIC's own retries
	run ! says a "$silent"
	run ! says a "$link_down"
	mark
	on b tc qdisc del dev eth1 clsact
	wait_until 20 says a "$answered"
}

@test "only large packets are lost: probes are missed; then answered again" {
	on b sh -ec 'tc qdisc add dev eth1 clsact
		tc filter add dev eth1 ingress protocol ip u32 match ip protocol 17 0xff \
			match u16 0x12b7 0xffff at 22 match u16 0x1000 0xf000 at 2 action drop'
	wait_until 5 says a "$missed"
	sleep 1 # past the NIC's own retries
	run ! says a "$silent"
	mark
	on b tc qdisc del dev eth1 clsact
	wait_until 20 says a "$answered"
}

@test "an address goes and comes again: published anew, and all comes back" {
	on b ip addr del 10.0.1.2/24 dev eth1
	for host in a b; do # the link-local one of b does not go with the other of a
		wait_until 5 says $host "$missed"
	done
	wait_until 5 says a "$silent"
	mark
	on b ip addr add 10.0.1.2/24 dev eth1
	for host in a b; do
		wait_until 20 says $host "$answered"
	done
	wait_until 20 says a "$heard"
}

@test "both ends' cables out: link down at both, and all comes back" {
	shift-testbed link --name "$NAME" all 0 down
	for host in a b; do
		wait_until 5 says $host "$link_down"
		wait_until 5 says $host "$missed"
	done
	mark
	shift-testbed link --name "$NAME" all 0 up
	for host in a b; do
		wait_until 20 says $host "$link_up"
		wait_until 20 says $host "$answered"
		wait_until 20 says $host "$heard"
	done
	run cat "$BATS_FILE_TMPDIR"/[ab].err
	[[ $output != *error:* ]]
}
