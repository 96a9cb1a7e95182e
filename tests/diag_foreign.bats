# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-diag hang, fail and slow of what other tools print: ncclras -f json, rdma -j statistic.
# shellcheck disable=SC2164  # bats fails where cd does

load helper

setup() {
	cd "$BATS_TEST_TMPDIR"
	export ASAN_OPTIONS=log_path=$PWD/sanitizer UBSAN_OPTIONS=log_path=$PWD/sanitizer
	mkdir job
}

teardown() {
	! cat "$BATS_TEST_TMPDIR"/sanitizer.* 2>/dev/null
}

# --- NCCL's RAS --------------------------------------------------------------------------------------------

rank() { # RANK ALLREDUCES [ASYNC_ERROR]
	printf '        {
          "rank": %d,
          "host": "10.0.0.%d",
          "pid": %d,
          "cuda_dev": 0,
          "nvml_dev": 0,
          "status": {
            "init_state": 0,
            "async_error": %d,
            "finalize_called": false,
            "destroy_flag": false,
            "abort_flag": false
          },
          "collective_counts": {
            "Broadcast": 1,
            "Reduce": 0,
            "AllGather": 0,
            "ReduceScatter": 0,
            "AllReduce": %d
          }
        }' "$1" "$((1 + $1 / 2))" "$((1000 + $1))" "${3:-0}" "$2"
}

missing() { # RANK UNRESPONSIVE DEAD
	printf '        {
          "rank": %d,
          "host": "10.0.0.%d",
          "pid": %d,
          "cuda_dev": 0,
          "nvml_dev": 0%s
          "status": {
            "unresponsive": %s,
            "considered_dead": %s
          }
        }' "$1" "$((1 + $1 / 2))" "$((1000 + $1))" "${comma-,}" "$2" "$3"
}

# What ncclras prints of a job of 4 ranks: $ranks and $missing are lists of the words of these two.
ras() { # SECOND
	local words list=() lost=()
	while read -r words; do [ -z "$words" ] || list+=("$(rank $words)"); done <<<"$ranks"
	while read -r words; do [ -z "$words" ] || lost+=("$(missing $words)"); done <<<"$missing"
	printf '{
  "nccl_version": "2.29.2+cuda13.1",
  "cuda_runtime_version": 13010,
  "cuda_driver_version": 13010,
  "timestamp": "2026-11-28 13:00:%02d",
  "communicators_count": 1,
  "communicators": [
    {
      "hash": "0x9e3779b97f4a7c15",
      "secondary_hash": "0x1:0x2",
      "size": 4,
      "ranks_count": %d,
      "missing_ranks_count": %d,
      "ranks": [
%s
      ],
      "missing_ranks": [
%s
      ]
    }
  ],
  "ras": {
    "collection_time_sec": 0.003,
    "timeouts_count": 0
  }
}
' "$1" "${#list[@]}" "${#lost[@]}" "$(joined "${list[@]}")" "$(joined "${lost[@]}")"
}

joined() {
	local first=1 text
	for text; do
		[ $first = 1 ] || printf ',\n'
		printf '%s' "$text"
		first=0
	done
}

missing=

@test "ncclras twice: the rank that has launched less, and stands still" {
	ranks=$'0 500\n1 500\n2 499\n3 500' ras 10 >job/first.json
	ranks=$'0 500\n1 500\n2 499\n3 500' ras 25 >job/second.json
	jq -e . job/first.json >/dev/null # the fixture is JSON
	run -2 shift-diag hang --json job
	jq -e '.verdicts[0] | .rule == "fewer-launches" and .culprits == [.culprits[0]] and
		(.culprits[0] | .rank == 2 and .host == "10.0.0.2" and .pid == 1002) and .coverage.ranks_seen == 4' <<<"$output"
	run -2 shift-diag hang job/second.json job/first.json
	# 5 s apart is too early, and one that went on is fine.
	ranks=$'0 500\n1 500\n2 499\n3 500' ras 15 >job/second.json
	run -0 shift-diag hang job
	ranks=$'0 900\n1 900\n2 900\n3 900' ras 55 >job/second.json
	run -0 shift-diag hang job
}

@test "ncclras once does not tell whether anybody stands still" {
	ranks=$'0 500\n1 500\n2 499\n3 500' ras 10 >job/one.json
	run -3 shift-diag hang job
	expect_match 'only a second answer tells'
	ranks=$'0 500\n1 500\n2 500\n3 500' ras 10 >job/one.json
	run -3 shift-diag hang job
}

@test "ncclras: a rank that does not answer, and one that is dead" {
	ranks=$'0 500\n1 500\n2 500' missing='3 true false' ras 10 >job/one.json
	run -2 shift-diag hang --json job
	jq -e '.verdicts[0] | .rule == "ras-unresponsive" and .class == "stopped" and (.culprits | length) == 1 and .culprits[0].rank == 3' <<<"$output"
	ranks=$'0 500\n1 500 6' missing=$'2 true true\n3 true false' ras 10 >job/one.json
	run -2 shift-diag hang --json job
	jq -e '.verdicts[0] | .rule == "ras-dead" and (.culprits | length) == 1 and .culprits[0].pid == 1002' <<<"$output"
	run -2 shift-diag fail job
	expect_match 'it has failed .aegis: ras-dead'
	expect_match 'rank 1 on 10.0.0.1, process 1001, has an error .async_error 6'
	# Who has left the communicator is not blamed.
	ranks=$'0 500\n1 500\n2 500' missing='3 false false' ras 10 >job/one.json
	run -3 shift-diag hang job
	expect_match 'does not have this communicator'
}

@test "ncclras: a rank with an error is not called fine" {
	ranks=$'0 500\n1 500\n2 500\n3 500' ras 10 >job/first.json
	ranks=$'0 900\n1 900 6\n2 900\n3 900' ras 30 >job/second.json
	run -3 shift-diag fail job
	expect_match 'rank 1 on 10.0.0.1, process 1001, has an error .async_error 6'
	run -3 shift-diag hang job
}

@test "ncclras of NCCL 2.28, which leaves out a comma" {
	comma='' ranks=$'0 500\n1 500\n2 500' missing='3 true true' ras 10 >job/one.json
	run ! jq -e . job/one.json
	run -2 shift-diag hang job
	expect_match 'culprit, a rank: rank 3 host 10.0.0.2 pid 1003'
}

@test "RAS is evidence where the processes have left records themselves" {
	printf '{"record":"header","format":"shift-records","version":1,"job":"j","host":"h","pid":7,"rank":0,"began":"1795855608123456789","read_ns":90000000000}
{"record":"comm","comm":"world","size":1,"rank":0}
{"record":"coll","comm":"world","seq":1,"launch_ns":1,"end_ns":2}\n' >job/h.records
	ranks=$'0 500\n1 500\n2 500' missing='3 true true' ras 10 >job/one.json
	run -2 shift-diag hang --json job
	jq -e '.verdicts[0] | .coverage.ranks_seen == 1 and .rule == "ras-dead"' <<<"$output"
}

# --- counters of NICs ---------------------------------------------------------------------------------------

statistic() { # HOST SECONDS PACKET_SEQ_ERR [CNPS]
	printf '[{"ifname":"mlx5_0","port":1,"rx_write_requests":12,"out_of_sequence":0,"packet_seq_err":%d,"np_cnp_sent":%d},{"ifname":"mlx5_1","port":1,"packet_seq_err":0}]\n' \
		"$3" "${4:-0}" >"job/$1.rdma.$((1795855608 + $2)).json"
}

@test "rdma -j statistic before and after: the NIC whose errors grow" {
	for host in node1 node2.rack7 node3; do
		statistic $host 0 100
		statistic $host 60 100
	done
	run -0 shift-diag slow job
	statistic node2.rack7 60 7300
	run -2 shift-diag slow --json job
	jq -e '.verdicts[0] | .rule == "metric-outlier" and .level == "nic" and (.culprits | length) == 1 and
		(.culprits[0] | .host == "node2.rack7" and .device == "mlx5_0") and .confidence <= 0.6' <<<"$output"
	expect_match 'packet_seq_err is up to 120 a second'
	statistic node2.rack7 60 200 # 2 a second are not told
	run -0 shift-diag slow job
	for host in node1 node2.rack7; do statistic $host 60 100 50; done
	statistic node3 60 100 60000
	run -2 shift-diag slow job
	expect_match 'host node3 NIC mlx5_0'
}

@test "rdma -j statistic: the file's time counts where its name has none" {
	statistic node1 0 100
	mv job/node1.rdma.*.json job/node1.rdma.json
	touch -d @1795855608 job/node1.rdma.json
	statistic node1 60 9100
	run -2 shift-diag slow job
	expect_match 'culprit, a nic: host node1 NIC mlx5_0'
	expect_match '150 a second'
}

@test "rdma -j statistic once: a counter is told, and nobody blamed" {
	statistic node1 0 100
	run -3 shift-diag slow job
	expect_match 'node1 mlx5_0: packet_seq_err is 100; one reading tells no rate'
	statistic node1 0 0
	run -3 shift-diag slow job
	[[ $output != *'one reading'* ]]
}

# --- files that cannot be used --------------------------------------------------------------------------------

@test "what is unknown, cut off or no file is told in one line" {
	statistic node1 0 100
	ranks=$'0 500\n1 500\n2 500\n3 500' ras 10 >job/whole.json
	head -c 700 job/whole.json >job/cut.json
	head -c 500 /dev/urandom >job/noise.json
	: >job/empty.json
	mkfifo job/fifo.json
	echo '{"nccl_version":"2.29.2","communicators":7}' >job/odd.json
	echo '[{"ifindex":1}]' >job/link.json # rdma -j link
	echo '[]' >job/none.json
	run -3 --separate-stderr shift-diag hang job
	[ "$(sort <<<"$stderr")" = 'shift-diag: job/cut.json: not used: not JSON, or cut off
shift-diag: job/empty.json: not used: not JSON, or cut off
shift-diag: job/fifo.json: not used: Invalid argument
shift-diag: job/link.json: not used: neither of ncclras -f json nor of rdma -j statistic
shift-diag: job/noise.json: not used: not JSON, or cut off
shift-diag: job/none.json: not used: neither of ncclras -f json nor of rdma -j statistic
shift-diag: job/odd.json: not used: neither of ncclras -f json nor of rdma -j statistic' ]
	run shift-diag hang job/cut.json
	expect_status 64
	expect_match 'no records that can be used'
	run shift-diag hang nowhere.json
	expect_status 64
	expect_line 'nowhere.json: No such file or directory'
}

@test "odd values do no harm" {
	local value
	ranks=$'0 500\n1 500\n2 500\n3 500' ras 10 >whole
	for value in null -1 1e99 '"x"' '[]' '[1]' '{}' 4294967296; do
		for key in size rank pid host AllReduce async_error ranks missing_ranks collective_counts status hash timestamp; do
			jq --argjson v "$value" --arg k "$key" 'walk(if type == "object" and has($k) then .[$k] = $v else . end)' whole >job/odd.json
			run shift-diag hang job
			[ "$status" -le 3 ] || [ "$status" -eq 64 ]
			echo "[{\"ifname\":\"mlx5_0\",\"port\":1,\"packet_seq_err\":$value},{\"ifname\":\"mlx5_0\",\"port\":$value}]" >job/host.rdma.json
			run shift-diag slow job
			[ "$status" -le 3 ] || [ "$status" -eq 64 ]
		done
	done
}
