# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-inject on soft-RoCE: each fault does what it says to unmodified programs, and is undone. Both hosts are
# one guest: a's rail 0 is mlx5_0 (eth1), b's is mlx5_2 (eth3).

load guests

export NAME=check-inject

setup_file() {
	guests_up --layout single ${KERNEL:+--kernel "$KERNEL"}
}

teardown() {
	guest 'pkill -x "ib_.*"; shift-inject undo --all' || true
}

# Runs a script in the guest, with these functions:
guest() { # SCRIPT
	shift-testbed exec --name "$NAME" --timeout 100s a -- bash -c '
		PATH='"$BUILDDIR"'/cmd/shift-inject:$PATH
		# Runs any ib_* program, its server on mlx5_2, its client on mlx5_0; prints the milliseconds it took.
		program() {
			"$1" -F -d mlx5_2 -x 0 "${@:2}" >/tmp/server 2>&1 &
			until grep -q ":4853 00000000:0000 0A" /proc/net/tcp; do sleep 0.02; done
			start=$(date +%s%3N)
			"$1" -F -d mlx5_0 -x 0 "${@:2}" 127.0.0.1 >/tmp/client 2>&1 && wait $! || {
				cat /tmp/server /tmp/client
				return 1
			}
			took=$(($(date +%s%3N) - start))
			# On a busy machine perftest 4.5 may find no clock rate, and all times are inf: once more.
			if grep -qw inf /tmp/client && [ -z "$again" ]; then
				again=1 program "$@"
			else
				echo $took
			fi
		}
		# A fault, in the background; its events are in /tmp/fault.
		fault() {
			rm -f /tmp/fault # of the one before
			shift-inject "$@" --json >/tmp/fault &
			fault=$!
			until grep -qs begin /tmp/fault; do kill -0 $fault || return; sleep 0.02; done
		}
		# Ends the fault; prints how many packets it matched, and how many it hit.
		end() {
			kill $fault
			wait $fault || return
			jq -r "select(.event == \"end\") | \"\(.matched) \(.hit)\"" /tmp/fault
		}
		counter() { cat /sys/class/infiniband/$1/ports/1/hw_counters/$2; }
		gid() { grep -l "$1" /sys/class/infiniband/mlx5_0/ports/1/gids/* 2>/dev/null; }
		'"$1"
}

# A program that takes milliseconds has not ended a second after the fault's first hit, and ends when the fault is over.
# Prints how many packets the fault matched, and how many it hit.
stalls() { # FAULT...
	run guest "
		fault $*
		program ib_write_lat -n 200 -s 2048 >/dev/null & program=\$!
		until shift-inject list --json | jq -e '.faults[0].hit > 0' >/dev/null; do
			kill -0 \$program || exit
			sleep 0.05
		done
		sleep 1
		kill -0 \$program || { echo 'it does not stall'; exit 9; }
		end && wait \$program"
	expect_status 0
}

@test "undone on KILL: links, qdiscs, filters, RDMA, GIDs, processes are as before" {
	run guest "'$SRCDIR/tests/testbed/inject-undone' quick"
	expect_status 0
}

@test "loss: the share that was asked for, and retries" {
	run guest '
		fault loss --nic mlx5_2 --rate 5% --seed 7
		program ib_send_bw -n 1000 -s 4096 >/dev/null || exit
		end'
	expect_status 0
	awk '{exit !($1 > 1000 && $2 > $1 * 0.02 && $2 < $1 * 0.10)}' <<<"${lines[-1]}"
}

@test "blackhole: nothing in either direction, until it is over" {
	stalls blackhole --nic mlx5_0
	expect_line '^([1-9][0-9]*) \1$'
}

@test "ack-drop: requests arrive, no answer does, until it is over" {
	stalls ack-drop --nic mlx5_0
	expect_line '^([1-9][0-9]*) \1$'
}

@test "a drop on the way out is as silent as one on the way in" {
	before=$(guest 'counter mlx5_0 send_err')
	stalls blackhole --nic mlx5_0 --direction out
	# soft-RoCE would try hundreds of times a millisecond if it saw the drop.
	[ "${output#* }" -lt 2000 ]
	[ "$(guest 'counter mlx5_0 send_err')" -eq "$before" ]
}

@test "drop-larger: small messages pass, large ones do not, at any size" {
	run guest '
		fault drop-larger 700 --nic mlx5_2
		program ib_write_lat -n 100 -s 512 && end'
	expect_status 0
	[ "${lines[-1]}" = '0 0' ]
	stalls drop-larger 700 --nic mlx5_2
}

@test "corrupt: soft-RoCE finds it, and asks again" {
	run guest '
		fault corrupt --nic mlx5_2 --rate 5%
		program ib_send_bw -n 500 -s 4096 >/dev/null && end'
	expect_status 0
	awk '{exit !($1 >= 500 && $2 > 5)}' <<<"${lines[-1]}"
}

@test "duplicate: the receiver sees requests twice" {
	run guest '
		before=$(counter mlx5_2 duplicate_request)
		fault duplicate --nic mlx5_2 --rate 50%
		program ib_send_bw -n 200 -s 1024 >/dev/null && end
		echo $(($(counter mlx5_2 duplicate_request) - before))'
	expect_status 0
	[ "${lines[-1]}" -ge 50 ]
}

@test "reorder: the receiver sees requests out of sequence" {
	run guest '
		before=$(counter mlx5_2 out_of_seq_request)
		fault reorder --nic mlx5_0 --rate 20%
		program ib_send_bw -n 300 -s 4096 >/dev/null
		kill $fault; wait $fault
		echo $(($(counter mlx5_2 out_of_seq_request) - before))'
	expect_status 0
	[ "${lines[-1]}" -ge 1 ]
}

@test "ecn-mark: the wire carries the mark" {
	run guest '
		fault ecn-mark --nic mlx5_0 --rate 100% --direction out
		timeout 20 tcpdump -ni eth3 -c 50 "ip6[0:2] & 0x30 = 0x30 and udp port 4791" >/dev/null 2>/tmp/dump & dump=$!
		until grep -q listening /tmp/dump; do sleep 0.02; done
		program ib_write_lat -n 200 -s 64 >/dev/null && wait $dump && end'
	expect_status 0
	awk '{exit !($1 >= 200 && $2 == $1)}' <<<"${lines[-1]}"
}

@test "delay: each round trip takes so much longer; one QP only, if it is so wanted" {
	run guest '
		typical() { awk "\$1 == 64 {print int(\$5)}" /tmp/client; }
		fault delay --nic mlx5_0 --time 20ms
		program ib_write_lat -n 20 -s 64 >/dev/null && typical
		kill $fault; wait $fault
		fault delay --nic mlx5_0 --time 20ms --qpn 0xabcdef
		program ib_write_lat -n 20 -s 64 >/dev/null && typical
		kill $fault; wait $fault'
	expect_status 0
	# Microseconds, half of the round trip: one way of it is delayed.
	[ "${lines[0]}" -ge 10000 ] && [ "${lines[1]}" -lt 5000 ]
}

@test "rate: no faster than that" {
	run guest '
		fault rate --nic mlx5_0 --limit 16mbit
		program ib_write_bw -n 20 -s 65536
		kill $fault; wait $fault'
	expect_status 0
	[ "${lines[0]}" -ge 600 ]
}

@test "pause: packets wait, and go on" {
	run guest '
		fault pause --nic mlx5_0 --period 300ms --duty 60%
		program ib_write_lat -n 6000 -s 64 >/dev/null || exit
		kill $fault; wait $fault
		# #bytes #iterations t_min t_max
		awk "\$1 == 64 {print int(\$4)}" /tmp/client'
	expect_status 0
	[ "${lines[-1]}" -ge 60000 ]
}

@test "down, flap: the port goes down with it" {
	run guest '
		port() { cat /sys/class/infiniband/mlx5_0/ports/1/state; }
		settled() { for i in $(seq 100); do [[ $(port) != *$1 ]] || return 0; sleep 0.02; done; port; return 1; }
		fault down --nic mlx5_0 && settled DOWN && end && settled ACTIVE || exit
		fault flap --nic mlx5_0 --period 2s && settled DOWN && settled ACTIVE && settled DOWN && end && settled ACTIVE'
	expect_status 0
}

@test "mtu: the port's active MTU follows" {
	run guest '
		active() { rdma link show mlx5_0/1 >/dev/null; ibv_devinfo -d mlx5_0 | sed -n "s/.*active_mtu:[[:space:]]*\([0-9]*\).*/\1/p"; }
		active
		fault mtu 1500 --nic mlx5_0 && active && end && active'
	expect_status 0
	[ "${lines[0]} ${lines[1]} ${lines[-1]}" = '4096 1024 4096' ]
}

@test "addr-move: the GID index moves, and comes back" {
	run guest '
		ip addr add 10.99.0.1/24 dev eth1
		settled() { until gid 0a63:0001; do sleep 0.02; done; }
		settled
		fault addr-move --nic mlx5_0 && sleep 0.3 && settled && end && sleep 0.3 && settled
		ip addr del 10.99.0.1/24 dev eth1'
	expect_status 0
	[ "${lines[0]}" != "${lines[1]}" ] && [ "${lines[0]}" = "${lines[-1]}" ]
}

@test "congest: the peer gets RDMA packets, no faster than the limit" {
	run guest '
		peer=$(ip -6 -br addr show dev eth3 | grep -o "fe80[^/]*")
		bytes() { cat /sys/class/net/eth3/statistics/rx_bytes; }
		before=$(bytes)
		fault congest --nic mlx5_0 --peer $peer --limit 16mbit || exit
		until [ $(bytes) -gt $((before + 100000)) ]; do sleep 0.02; done
		before=$(bytes); sleep 1; echo $(($(bytes) - before)) && end'
	expect_status 0
	[ "${lines[0]}" -gt 500000 ] && [ "${lines[0]}" -lt 4000000 ]
}

@test "congest goes on when a link that was down is up again" {
	run guest '
		fault congest --nic mlx5_0 --peer $(ip -6 -br addr show dev eth3 | grep -o "fe80[^/]*")
		arrived() { cat /sys/class/net/eth3/statistics/rx_packets; }
		goes_on() { local n=$(arrived); sleep 0.3; [ $(arrived) -gt $((n + 20)) ]; }
		for i in $(seq 20); do ! goes_on || break; done
		ip link set eth1 down; sleep 1; ip link set eth1 up
		for i in $(seq 40); do ! goes_on || { end; exit 0; }; done
		exit 9'
	expect_status 0
}

@test "cpu-throttle: a process gets no more than its share" {
	run guest '
		sh -c "while :; do :; done" & spin=$!
		used() { cut -d" " -f14,15 /proc/$spin/stat | tr " " +; }
		fault cpu-throttle --pid $spin --share 10%
		before=$(($(used))); sleep 1; echo $(($(used) - before))
		end; kill $spin'
	expect_status 0
	# hundredths of a second
	[ "${lines[0]}" -le 30 ]
}

@test "--host: on a host of the testbed, and undone there when this end is killed" {
	shift-inject blackhole --host $NAME/a --nic mlx5_0 >"$BATS_TEST_TMPDIR/said" 3>&- &
	pid=$!
	wait_until 20 test -s "$BATS_TEST_TMPDIR/said"
	run guest 'tc qdisc show dev eth1'
	expect_match clsact
	kill -9 $pid
	gone() { ! guest 'tc qdisc show dev eth1' | grep clsact; }
	wait_until 20 gone
	run shift-inject blackhole --host $NAME/c --nic mlx5_0
	expect_status 3
	run shift-inject blackhole --host $NAME/a --nic mlx5_9
	expect_status 3
}

@test "unbind and pcie-downgrade are refused on soft-RoCE" {
	for fault in unbind pcie-downgrade; do
		run guest "shift-inject $fault --nic mlx5_0"
		expect_status 4
		expect_line 'mlx5_0 is no device on a PCI bus'
	done
}
