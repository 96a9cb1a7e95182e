# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-diag on two hosts with soft-RoCE.

load guests
load ../wait

export NAME=check-diag

setup_file() {
	guests_up --layout pair ${KERNEL:+--kernel "$KERNEL"}
	shift-testbed exec --name "$NAME" --timeout 600s b -- cmd/shift-diag/shift-diag ping --listen \
		>"$BATS_FILE_TMPDIR/listen" 2>&1 3>&- &
	disown -a
	wait_until 30 grep -q listening "$BATS_FILE_TMPDIR/listen"
}

teardown() {
	local host
	for host in a b; do
		on "$host" sh -c 'tc qdisc del dev eth1 clsact; ip link set eth1 up' 2>/dev/null || true
	done
	[ -n "$BATS_TEST_COMPLETED" ] || tail -n 20 "$BATS_FILE_TMPDIR/listen"
}

diag() { # COMMAND OPTIONS...: at host a
	on a cmd/shift-diag/shift-diag "$@"
}

# As the fault `big` of survive.bash: at the receiver, IP packets of 1024 to 8191 bytes.
drop_big() { # HOST
	on "$1" sh -c 'tc qdisc add dev eth1 clsact && for m in "0x0400 0xfc00" "0x0800 0xf800" "0x1000 0xf000"; do
		tc filter add dev eth1 ingress protocol ip u32 match ip protocol 17 0xff match u16 0x12b7 0xffff at 22 \
			match u16 $m at 2 action drop || exit; done'
}

@test "rails: the NICs of a host, and a port that goes down" {
	run -0 diag rails --json
	jq -e '.nics | length == 2 and all(.trouble == null and .driver == "rdma_rxe" and .mtu_bytes == 4096 and
		.state == "ACTIVE" and .gid.type == "RoCE v2")' <<<"$output"
	jq -e '.nics[0].netdev == "eth1" and (.nics[0].gid.address | . == "10.0.1.1" or startswith("fe80::"))' <<<"$output"
	jq -e '.rails[0].backups == [{device: "mlx5_1", listed: true, unsuitable: null, remarks: []}]' <<<"$output"
	on a ip link set eth1 down
	wait_until 10 port_is_down
	run diag rails
	expect_status 2
	expect_match 'mlx5_0: its port is DOWN'
	expect_match 'mlx5_1 is backed up by.  mlx5_0, but not now: its port is DOWN'
}

port_is_down() {
	on a grep -q DOWN /sys/class/infiniband/mlx5_0/ports/1/state
}

@test "rq-psn: live on both NICs" {
	wait_until 10 port_is_up
	run -0 diag rq-psn
	[ "${lines[0]}" = 'mlx5_0     live' ] && [ "${lines[1]}" = 'mlx5_1     live' ]
}

port_is_up() {
	on a grep -q ACTIVE /sys/class/infiniband/mlx5_0/ports/1/state
}

@test "ping: all sizes arrive on both rails" {
	run -0 diag ping --wait 5s b
	[ "$(grep -c 'lost      0 %     0 %     0 %     0 %     0 %     0 %$' <<<"$output")" -eq 4 ]
}

@test "ping: the loss of large packets alone is found, its direction too, and not by 64 bytes alone" {
	drop_big b
	run -0 diag ping --wait 5s --size 64 b
	run diag ping b
	expect_status 2
	expect_match 'mlx5_0 -> b mlx5_0: datagrams of 512 bytes arrive, those of 1024 and more are lost'
	on b tc qdisc del dev eth1 clsact
	drop_big a
	run -0 diag ping --wait 5s --size 64 b
	run diag ping --json b
	expect_status 2
	jq -e '.verdicts | length == 1 and .[0].rule == "large-lost" and
		.[0].culprits == [{from: {host: "b", device: "mlx5_0"}, to: {host: "a", device: "mlx5_0"}}]' <<<"$output"
}

@test "ping: a dead path" {
	on b ip link set eth1 down
	run diag ping --nic mlx5_0 --count 5 --json b
	jq -e '(.verdicts[0].rule == "all-lost") or (.paths[0].error | test("cannot reach"))' <<<"$output"
	[ "$status" -eq 2 ] || [ "$status" -eq 3 ]
	run -0 diag ping --wait 5s --nic mlx5_1 b
}

@test "export: promtool checks the counters of soft-RoCE" {
	diag export >"$BATS_TEST_TMPDIR/metrics"
	promtool check metrics <"$BATS_TEST_TMPDIR/metrics"
	grep -q '^shift_infiniband_hw_rcvd_pkts_total{device="mlx5_0",port="1"} [1-9]' "$BATS_TEST_TMPDIR/metrics"
}
