# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-diag where there is no RDMA device.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR"
	export ASAN_OPTIONS=log_path=$PWD/sanitizer UBSAN_OPTIONS=log_path=$PWD/sanitizer
}

teardown() {
	! cat "$BATS_TEST_TMPDIR"/sanitizer.* 2>/dev/null
}

@test "bad usage is one line and status 64" {
	while read -r arguments; do
		# shellcheck disable=SC2086
		run shift-diag $arguments
		expect_status 64
		expect_line '^shift-diag: '
	done <<-END

		destroy
		explain --format xml 12
		explain --nonsense
		explain status
		rails x
		rails --rails mlx5_0
		precheck x
		precheck --format openmetrics
		rq-psn --timeout soon
		rq-psn --timeout 0
	END
}

@test "explain: a code by any of its names" {
	for word in RETRY_EXC_ERR RETRY_EXC IBV_WC_RETRY_EXC_ERR retry_exc_err 12 'status 12'; do
		run -0 shift-diag explain "$word"
		[[ ${lines[0]} == 'IBV_WC_RETRY_EXC_ERR (completion status 12)' ]]
		expect_match 'Likely causes:.*Next:'
	done
	run -0 shift-diag explain vendor_err 129
	[[ ${lines[0]} == '0x81 (mlx5 vendor_err)' ]]
	run -0 shift-diag explain 0x10008
	[[ ${lines[0]} == 'FLUSH_RETRY_EXC_ERR (irdma vendor_err 0x10008)' ]]
	run -0 shift-diag explain IBV_EVENT_PORT_ERR NO_TWIN LINK_DOWN
	expect_match 'IBV_EVENT_PORT_ERR \(asynchronous event\)'
	expect_match 'NO_TWIN \(reason why it is not protected\)'
	expect_match 'LINK_DOWN \(cause or reason of a switch\)'
}

@test "explain: lines of logs" {
	run -0 shift-diag explain 'NET/IB: Got completion from peer 10.0.0.1<4000> with status=12 opcode=0 len=0 vendor err 129 (Recv)'
	expect_match 'IBV_WC_RETRY_EXC_ERR.*0x81 \(mlx5 vendor_err\)'
	[[ $output != *LOC_LEN* ]] # of the other numbers of the line
	run -0 shift-diag explain 'Failed status 10: wr_id 0 syndrom 0x88'
	expect_match 'IBV_WC_REM_ACCESS_ERR.*0x88 \(mlx5'
	run -0 shift-diag explain 'Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)'
	expect_match 'MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR'
	run -0 shift-diag explain 'shift[4711]: warn: QP 0x11a: no twin on mlx5_1 (Cannot allocate memory): the connection cannot move there'
	expect_match 'message of shift'
	run -0 shift-diag explain 'shift[4711]: info: QP 0x11a is not protected: the peer runs without shift, or in another job'
	expect_match '^NO_PEER_LIBRARY'
}

@test "explain: every message of the library that it quotes is in the library" {
	shift-diag explain --json | jq -r '.known[] | select(.kind == "message of shift").name' >parts
	[ "$(wc -l <parts)" -gt 10 ]
	# As one line: the sources break long texts.
	cat "$SRCDIR"/lib/*/*.c "$SRCDIR"/cmd/shift-run/*.c | tr -d '\n\t' | sed 's/""//g' >sources
	while read -r part; do
		grep -qF -- "$part" sources || {
			echo "nobody says: $part"
			false
		}
	done <parts
}

@test "explain: all statuses and events of libibverbs are known, with their numbers" {
	local name
	for name in $(grep -oE '\bIBV_WC_[A-Z_]*ERR\b|\bIBV_EVENT_[A-Z_]+\b' /usr/include/infiniband/verbs.h | sort -u); do
		[ "$name" != IBV_EVENT_DEVICE_SPEED_CHANGE ] || continue # newer than Debian 12
		run -0 shift-diag explain "$name"
		[[ ${lines[0]} == "$name ("* ]]
	done
	shift-diag explain --json | jq -e '[.known[] | select(.kind == "completion status").number] == [range(24)]'
}

@test "explain: what is not known is told with the nearest known, and status 3" {
	run --separate-stderr shift-diag explain RTRY_EXC_ERR
	[ "$status" -eq 3 ] && [ -z "$output" ]
	[[ $stderr == 'shift-diag: explain: nothing is known of RTRY_EXC_ERR; the nearest known: RETRY_EXC_ERR, '* ]]
	run --separate-stderr shift-diag explain PORT_ERR 0x7777
	[ "$status" -eq 3 ]
	[[ $output == IBV_EVENT_PORT_ERR* && $stderr == *'nothing is known of 0x7777;'* ]]
	run shift-diag explain "a line that nobody has ever written, with 12 words and status 0x7777"
	expect_status 3
	run shift-diag explain --json NONSENSE NO_TWIN
	expect_status 3
	jq -e '.schema_version == 1 and (.found | length == 1) and .found[0].name == "NO_TWIN" and
		.found[0].checks[0] and .unknown[0].word == "NONSENSE" and (.unknown[0].nearest | length == 3)' <<<"$output"
}

# Devices of memory (tests/nullverbs) with a sysfs that a test makes up: NAME:NODE:STATE:LAYER:GBPS...
on_host() { # 'NAME:...' COMMAND: a shell's
	unshare -rm true 2>/dev/null || skip "user namespaces are not allowed here"
	LD_LIBRARY_PATH=$BUILDDIR/tests/nullverbs/.libs unshare -rm bash -c '
		mount -t tmpfs none /sys/class || exit 99
		for d in $1; do
			IFS=: read -r name node state layer gbps <<<"$d"
			dir=/sys/class/infiniband/$name
			mkdir -p $dir/device $dir/ports/1
			echo $layer >$dir/ports/1/link_layer
			echo $node >$dir/device/numa_node
			echo "4: $state" >$dir/ports/1/state
			echo "$gbps Gb/sec (4X EDR)" >$dir/ports/1/rate
			echo 20.43.1014 >$dir/fw_ver
		done
		eval "$2"' bash "$@"
}

two='mlx5_0:0:ACTIVE:Ethernet:100 mlx5_1:0:ACTIVE:Ethernet:100'

@test "no RDMA device: it says so, and cannot decide" {
	for c in rails rq-psn; do
		run --separate-stderr on_host '' "shift-diag $c"
		[ "$status" -eq 3 ] && [ -z "$output" ]
		[ "$stderr" = "shift-diag: $c: there is no RDMA device here; see rdma link" ]
		run --separate-stderr on_host '' "shift-diag $c --json"
		[ "$status" -eq 3 ]
		jq -e '.schema_version == 1 and .nics == []' <<<"$output"
	done
}

@test "rails: two NICs that fit" {
	run -0 on_host "$two" 'shift-diag rails'
	expect_match 'mlx5_0 +1 +ACTIVE +100 Gb/sec \(4X EDR\) +4096 +0 .* 20\.43\.1014 +1: 10\.0\.0\.1, RoCE v2'
	expect_match 'mlx5_0 is backed up by.  mlx5_1.*mlx5_1 is backed up by.  mlx5_0'
	run -0 on_host "$two" 'shift-diag rails --json'
	jq -e '.nics[1] | .device == "mlx5_1" and .state == "ACTIVE" and .mtu_bytes == 4096 and .trouble == null
		and .rate_bits_per_second == 100e9 and .gid == {index: 1, address: "10.0.1.1", type: "RoCE v2", vlan: 0}' <<<"$output"
	jq -e '.rails == [{device: "mlx5_0", backups: [{device: "mlx5_1", listed: true, unsuitable: null, remarks: []}]},
		{device: "mlx5_1", backups: [{device: "mlx5_0", listed: true, unsuitable: null, remarks: []}]}]' <<<"$output"
}

@test "rails: the same backups as shift-run --dry-run, and why not the others" {
	local hosts='mlx5_0:0:ACTIVE:Ethernet:100 mlx5_1:1:ACTIVE:Ethernet:25 mlx5_2:0:ACTIVE:InfiniBand:100
		mlx5_3:0:ACTIVE:Ethernet:100' list
	for list in '' '--rails mlx5_0=mlx5_3+mlx5_1,mlx5_1=mlx5_1'; do
		run on_host "$hosts" "NULLVERBS_DEVICES=4 shift-diag rails --json $list |
			jq -c '[.rails[] | {key: .device, value: [.backups[] | select(.listed).device]}] | from_entries'
			shift-run -nj $list true | jq -c .rails"
		[ "${lines[0]}" = "${lines[1]}" ] && [ "${#lines[0]}" -gt 20 ]
	done
	run on_host "$hosts" 'NULLVERBS_DEVICES=4 shift-diag rails'
	expect_status 1
	expect_match 'mlx5_1.    it is slower: 25 Gb/sec.*    it is on NUMA node 1, mlx5_0 on 0'
	expect_match '  not mlx5_2: another link layer'
	run on_host "$hosts" 'NULLVERBS_DEVICES=4 shift-diag rails --rails mlx5_0=mlx5_3'
	expect_match '  not mlx5_1: --rails does not name it'
}

@test "rails: one NIC alone is a warning, a port that is down or a NIC that cannot be opened the culprit" {
	run on_host mlx5_0:0:ACTIVE:Ethernet:100 'shift-diag rails'
	expect_status 1
	expect_match 'the same NIC: a link that flaps is survived, a dead NIC is not'
	run on_host "$two" 'NULLVERBS_DEVICES=1 shift-diag rails'
	expect_status 2
	expect_match 'mlx5_1: it cannot be opened: No such device'
	expect_match 'mlx5_1, but not now: it cannot be opened'
	for words in mlx5_0 mlx5_0=mlx5_9; do
		run on_host "$two" "shift-diag rails --rails $words"
		expect_status 64
		expect_line '^shift-diag: rails: '
	done
}

@test "rq-psn: live, stale and no answer" {
	run -0 on_host "$two" 'NULLVERBS_PSN=live shift-diag rq-psn'
	[ "$output" = "mlx5_0     live
mlx5_1     live" ]
	run on_host "$two" 'NULLVERBS_PSN=lag shift-diag rq-psn mlx5_1'
	expect_status 2
	expect_line '^mlx5_1     stale: '
	run on_host "$two" 'NULLVERBS_PSN=mute shift-diag rq-psn --json mlx5_0'
	expect_status 3
	jq -e '.nics | length == 1 and .[0].device == "mlx5_0" and .[0].rq_psn == "unmeasured" and .[0].why != null' <<<"$output"
	run on_host "$two" 'shift-diag rq-psn mlx5_7'
	expect_status 64
	expect_line '^shift-diag: rq-psn: mlx5_7: no such RDMA device'
}

check_of() { # CHECK: its lines of the output
	grep -E "^(pass|warn|fail|skip)  $1 " <<<"$output"
}

@test "precheck: a host that is well" {
	run on_host "$two" 'mkdir run; SHIFT_RUN_DIR=$PWD/run shift-diag precheck'
	[ -z "$(grep ^fail <<<"$output" | grep -v memlock)" ] # that is this machine's
	[ "$(check_of nic)" = "pass  nic          mlx5_0: port 1 active, RoCE v2 10.0.0.1
pass  nic          mlx5_1: port 1 active, RoCE v2 10.0.1.1" ]
	[ "$(check_of backup | cut -c1-4 | uniq)" = pass ]
	[[ $(check_of mtu) == pass*4096* && $(check_of library) == pass* && $(check_of run-dir) == pass* ]]
	[[ $(check_of etcd) == skip*'no --kv'* && $(check_of pcie) == skip* && $(check_of ecn) == skip* ]]
	[[ $(check_of clock) =~ ^(pass|warn) ]]
	run on_host "$two" 'shift-diag precheck --json --light'
	jq -e '.schema_version == 1 and ([.checks[].result | select(. == "fail")] == [] or .verdict == "fail") and
		(.checks | length > 10 and all(.check != "library" and .text != ""))' <<<"$output"
}

@test "precheck: what is wrong, with its reason" {
	run on_host mlx5_0:0:ACTIVE:Ethernet:100 'ulimit -n 1000; ulimit -l 1024; shift-diag precheck'
	expect_status 2
	[[ $(check_of backup) == warn*mlx5_0* && $(check_of descriptors) == warn*1000* ]]
	[[ $(check_of memlock) == fail*'1024 kB'* ]]
	run on_host "$two" 'NULLVERBS_DEVICES=1 shift-diag precheck
		echo "status $?"; sed -i s/1014/1015/ /sys/class/infiniband/mlx5_1/fw_ver
		for f in current_link_speed max_link_speed current_link_width; do
			echo 16 >/sys/class/infiniband/mlx5_0/device/$f
		done
		echo 8 >/sys/class/infiniband/mlx5_0/device/max_link_width
		shift-diag precheck --light'
	expect_match 'fail  nic +mlx5_1: it cannot be opened: No such device'
	expect_match 'status 2'
	expect_match 'warn  driver +mlx5_0 has firmware 20.43.1014, mlx5_1 has 20.43.1015'
	expect_match 'warn  pcie +mlx5_0: x16 at 16, it could have x8 at 16'
	run on_host '' 'shift-diag precheck'
	expect_status 2
	if ulimit -l 100000 2>/dev/null; then
		[[ $(on_host "$two" 'shift-diag precheck --light') == *'warn  memlock      97 MB'* ]]
	fi
	[[ $(check_of nic) == fail*'no RDMA device'* && $(check_of backup) == skip* ]]
	run on_host "$two" 'cp $(type -p shift-diag) alone; ./alone precheck'
	expect_status 2
	[[ $(check_of library) == fail*'shift-run is neither in'* ]]
}

etcd_says() { # TEXT: an etcd that says that of its health, once; $url is its address
	: >url
	python3 -c '
import socket, sys
socket.setdefaulttimeout(20)
s = socket.create_server(("127.0.0.1", 0))
print("http://127.0.0.1:%d" % s.getsockname()[1], flush=True)
c = s.accept()[0]
c.recv(1000)
c.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + sys.argv[1].encode())' "$1" >url 3>&- &
	wait_until 10 test -s url
	server=$!
	url=$(<url)
}

@test "precheck: etcd" {
	for answer in 'pass {"health":"true"}' 'fail {"health":"false"}' 'fail nonsense'; do
		etcd_says "${answer#* }"
		run on_host "$two" "shift-diag precheck --light --kv $url"
		[[ $(check_of etcd) == ${answer%% *}*$url* ]]
		wait "$server"
		run on_host "$two" "SHIFT_KV=$url shift-diag precheck --light" # it has ended
		[[ $(check_of etcd) == fail*"$url: Connection refused" ]]
	done
	for words in http://no-such-host.invalid:1 nonsense start@no-such-host.invalid unix:/nowhere; do
		run on_host "$two" "shift-diag precheck --light --kv $words"
		[[ $(check_of etcd) == fail* ]]
	done
	run on_host "$two" "shift-diag precheck --light --kv start@127.0.0.1:1"
	[[ $(check_of etcd) == pass*'none runs there yet' ]]
	run on_host "$two" "shift-diag precheck --light --kv http://me:secret@127.0.0.1:1"
	[[ $(check_of etcd) == fail*http://127.0.0.1:1:* && $output != *secret* ]]
}

@test "precheck: one line for node-problem-detector, also if a NIC hangs" {
	run on_host "$two" 'shift-diag precheck --light --format npd'
	[ "$status" -eq 0 ] || [[ $output == memlock:* ]] # that is this machine's
	[ "${#lines[@]}" -eq 1 ] && [ "${#output}" -le 80 ]
	run on_host "mlx5_$(printf 'x%.0s' {1..50}):0:ACTIVE:Ethernet:100" 'shift-diag precheck --light --format npd'
	expect_status 1
	[ "${#lines[@]}" -eq 1 ] && [ "${#output}" -eq 80 ] && [[ $output == 'nic: mlx5_xxx'* ]]
	ulimit -l unlimited 2>/dev/null || true
	run on_host "$two" 'echo 1 >/sys/class/infiniband/mlx5_1/fw_ver; shift-diag precheck --light --format npd'
	if [[ $output != memlock:* ]]; then
		expect_status 0 # a warning is no problem of the node
		expect_line '^driver: '
	fi
	local before=$SECONDS
	run on_host "$two" 'rm /sys/class/infiniband/mlx5_1/fw_ver; mkfifo /sys/class/infiniband/mlx5_1/fw_ver
		shift-diag precheck --light --format npd'
	expect_status 1
	expect_line '^fail: it hangs: the NICs$'
	[ $((SECONDS - before)) -le 30 ]
	run on_host "$two" 'rm /sys/class/infiniband/mlx5_1/fw_ver; mkfifo /sys/class/infiniband/mlx5_1/fw_ver
		shift-diag precheck --light --json'
	expect_status 2
	jq -e '.schema_version == 1 and .verdict == "fail" and .checks == [{check: "hang", result: "fail", text: "it hangs: the NICs"}]' <<<"$output"
}

@test "precheck: the manual's script for Slurm drains a node that fails, and no other" {
	local s
	mandoc -T utf8 "$SRCDIR/man/shift-diag.1" | col -bx | sed -n '/^ *#!\/bin\/sh$/,/^$/p' >health
	mkdir bin
	printf '#!/bin/sh\necho "$*" >>drained\n' >bin/scontrol
	printf '#!/bin/sh\necho "it is so"\nexit $S\n' >bin/shift-diag
	chmod +x bin/*
	for s in 0 2 64 70 127 1; do # and 127: it is not installed
		[ ! -e drained ]
		S=$s SLURMD_NODENAME=n7 PATH=$PWD/bin:$PATH sh health # else slurmd does not register the node
	done
	[ "$(cat drained)" = 'update nodename=n7 state=drain reason=shift-diag: it is so' ]
}

@test "explain: what the checks name are commands that there are" {
	local words command
	shift-diag explain --json | jq -r '.known[].checks[]' | grep -oE 'shift-(diag|ctl|run|kvd) [a-z-]+' | sort -u >named
	[ -s named ]
	while read -r command words; do
		"$command" --help | grep -qE -- "(^|[ ,])$words([ |]|\$)" || {
			echo "no $command $words"
			false
		}
	done <named
}
