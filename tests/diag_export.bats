# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shift-diag export, status, top and events, with processes that only look as if they had NICs
# (tests/stats/stats_live).

load helper
load driven
load live

setup() {
	live_setup
}

teardown() {
	live_teardown
}

# A process with a connection that has moved, and one that is not protected.
moved() { # NAME JOB
	live "$1" "$2"
	order "$1" add 17
	order "$1" add 18
	order "$1" failover 17
	order "$1" unprotect 18 10
}

# The counters that an mlx5 and a soft-RoCE device have.
with_counters() { # COMMAND: a shell's
	unshare -rm true 2>/dev/null || skip "user namespaces are not allowed here"
	unshare -rm bash -c '
		mount -t tmpfs none /sys/class || exit 99
		put() { # DEVICE DIRECTORY NAME...: the third is 3, and so on
			local dir=/sys/class/infiniband/$1/ports/1/$2 n=1
			mkdir -p $dir
			shift 2
			for name; do echo $((n++)) >$dir/$name; done
		}
		put mlx5_0 . dummy
		put mlx5_0 counters port_rcv_data port_xmit_data port_rcv_packets port_xmit_packets port_xmit_wait
		put mlx5_0 hw_counters out_of_sequence packet_seq_err local_ack_timeout_err lifespan rnr_nak_retry_err
		put rxe-0 hw_counters sent_pkts rcvd_pkts out_of_seq_request rcvd_seq_err completer_retry_err
		echo "4: ACTIVE" >/sys/class/infiniband/mlx5_0/ports/1/state
		echo "1: DOWN" >/sys/class/infiniband/rxe-0/ports/1/state
		echo "100 Gb/sec (4X EDR)" >/sys/class/infiniband/mlx5_0/ports/1/rate
		echo "N/A (no PMA)" >/sys/class/infiniband/mlx5_0/ports/1/counters/VL15_dropped
		eval "$1"' bash "$1"
}

@test "export: what promtool checks, of processes and of NICs" {
	moved p 'j1'
	order p add 19
	order p fence 19
	with_counters 'shift-diag export' >metrics
	promtool check metrics <metrics >lint 2>&1 || {
		cat lint
		false
	}
	[ ! -s lint ]
	who="shift_job=\"j1\",pid=\"${PID[p]}\""
	for line in "shift_switches_total{$who,kind=\"failover\"} 1" "shift_switches_total{$who,kind=\"failback\"} 0" \
		"shift_connections{$who,device=\"mlx5_1\",port=\"1\",state=\"protected\"} 1" \
		"shift_connections{$who,device=\"mlx5_0\",port=\"1\",state=\"unprotected\"} 1" \
		"shift_connections{$who,device=\"mlx5_0\",port=\"1\",state=\"switching\"} 1" \
		"shift_proved_total{$who} 3" "shift_queue_pairs_opened_total{$who} 3" 'shift_processes_complete 1' \
		'shift_infiniband_port_data_received_bytes_total{device="mlx5_0",port="1"} 4' \
		'shift_infiniband_port_data_transmitted_bytes_total{device="mlx5_0",port="1"} 8' \
		'shift_infiniband_port_packets_received_total{device="mlx5_0",port="1"} 3' \
		'shift_infiniband_hw_out_of_sequence_total{device="mlx5_0",port="1"} 1' \
		'shift_infiniband_hw_sent_pkts_total{device="rxe-0",port="1"} 1' \
		'shift_infiniband_port_active{device="rxe-0",port="1"} 0' \
		'shift_infiniband_rate_bytes_per_second{device="mlx5_0",port="1"} 12500000000'; do
		grep -qxF "$line" metrics || {
			echo "no line $line"
			false
		}
	done
	run ! grep -q 'lifespan\|vl15_dropped{' metrics # a setting; not a number
	awk -F'[ {]' '/^shift_outage_seconds_total/ {exit !($NF > 0.005 && $NF < 60)}' metrics
}

# node_exporter takes none of a file in which something is twice, and shows none of its own metrics either.
@test "export: names that look alike when they are printed are one" {
	live p 'j'
	order p add 17
	order p add 18
	murder p
	python3 - run/j/*.stats <<-'END'
		import sys
		data = open(sys.argv[1], "rb").read()
		one, other = (n.ljust(24, b"\0") for n in (b"x\1", b"x\\x01"))
		pair = b"mlx5_0".ljust(24, b"\0") + b"mlx5_1".ljust(24, b"\0")
		assert data.count(pair) == 2
		at = data.find(pair)
		data = data[:at] + data[at:].replace(pair, one + other, 1).replace(pair, other + one, 1)
		boot = data.find(open("/proc/sys/kernel/random/boot_id", "rb").read().strip())
		jobs = (b"k\1", 1), (b"k\\x01", 2)
		for job, n in jobs:
		    head = bytearray(data)
		    head[boot - 24] ^= n # the nonce
		    head[boot + 40:boot + 40 + 72] = job.ljust(72, b"\0")
		    open("run/j/%d.stats" % n, "wb").write(head)
	END
	run -0 shift-ctl status --json
	[ "$(jq -c '[.processes[].job] | sort' <<<"$output")" = '["j","k\u0001","k\\x01"]' ]
	shift-diag export | grep -v '^#' | sed 's/ [^ ]*$//' >series
	grep -q '^shift_connections{shift_job="k\\\\x01",pid="[0-9]*",device="x\\\\x01",.*state="protected"}' series
	[ -z "$(sort series | uniq -d)" ]
}

@test "export: promtool would have complained" {
	printf '# TYPE shift_x counter\nshift_x{a="b} 1\n' >metrics
	run promtool check metrics <metrics
	[ "$status" -ne 0 ]
}

@test "export: OpenMetrics is the same, with the families' names and an end" {
	moved p j1
	with_counters 'shift-diag export; shift-diag export --format openmetrics' >both
	awk '/^# HELP shift_processes_complete/ {n++} {print >("part" n)}' both
	[ "$(tail -n 1 part2)" = '# EOF' ]
	[ "$(grep -c '# EOF' both)" -eq 1 ]
	# Samples are the same; of the rest, only the names of counters and of information differ.
	diff <(grep -v '^#' part1) <(grep -v '^#' part2)
	diff <(sed -nE 's/^# TYPE (.*)_total counter/# TYPE \1 counter/p' part1) <(grep 'counter$' part2)
	diff <(sed -nE 's/^# TYPE (.*)_info gauge/# TYPE \1 info/p' part1) <(grep 'info$' part2)
	[ "$(grep -c 'info$' part2)" -eq 2 ]
}

@test "export: names that a process has chosen do no harm" {
	live p j1
	order p add 17
	cp "$BUILDDIR/tests/stats/stats_live" 'a"b\c'
	drive q ./'a"b\c' j2
	wait_until 30 grep -q ready q.out
	shift-diag export >metrics
	grep -qF 'comm="a\"b\\c"' metrics
	promtool check metrics <metrics
}

@test "export: the textfile is replaced in one step, and nothing is left beside it" {
	live p j1
	mkdir dir
	echo old >dir/shift.prom
	exec {old}<dir/shift.prom # whoever reads it, reads all of the old one
	run -0 shift-diag export --textfile dir/shift.prom
	[ -z "$output" ]
	[ "$(cat <&"$old")" = old ]
	[ "$(ls dir)" = shift.prom ]
	[ "$(stat -c %a dir/shift.prom)" = 644 ]
	grep -q '^shift_switches_total' dir/shift.prom
	run shift-diag export --textfile nowhere/shift.prom
	expect_status 70
	expect_line '^shift-diag: export: nowhere/shift.prom.*No such file'
	mkdir dir/taken
	run shift-diag export --textfile dir/taken
	expect_status 70
	expect_line '^shift-diag: export: dir/taken: '
	ln -s /dev/null dir/null
	run shift-diag export --textfile dir/null
	expect_status 64
	expect_line '^shift-diag: export: --textfile dir/null: it is there, and no file$'
	[ -L dir/null ] && rm dir/null
	[ "$(ls dir | tr '\n' ' ')" = 'shift.prom taken ' ]
	for c in '--format json' '--format text' '--textfile x/' '--textfile x --format openmetrics' x; do
		# shellcheck disable=SC2086
		run shift-diag export $c
		expect_status 64
		expect_line '^shift-diag: export: '
	done
	[ ! -e x ]
}

@test "export: the dashboard asks for nothing that is not exported" {
	moved p j1
	with_counters 'shift-diag export' | grep -v '^#' | sed 's/[{ ].*//' | sort -u >exported
	jq -r '.panels[].targets[].expr, .templating.list[].query.query?' "$SRCDIR/doc/grafana-dashboard.json" |
		grep -oE 'shift_[a-z0-9_]+' | sort -u >asked
	[ "$(wc -l <asked)" -gt 15 ]
	comm -13 exported asked >missing
	[ ! -s missing ] || {
		cat missing
		false
	}
	jq -e '[.panels[].id] | length == (unique | length)' "$SRCDIR/doc/grafana-dashboard.json"
}

@test "status and events: as shift-ctl, with a verdict" {
	live p j1
	order p add 17
	run -0 shift-diag status
	[ "$output" = "$(shift-ctl status)" ]
	order p failover 17
	run -0 shift-diag status --job j1
	expect_match '17 +10\.0\.1\.2/18 +1 mlx5_1 +ACTIVE'
	run -0 shift-diag events
	expect_match 'failover committed, mlx5_0 -> mlx5_1 \(LINK_DOWN\)'
	run -0 shift-diag events --json --pid "${PID[p]}"
	jq -es '.[-1].type == "switch"' <<<"$output"
	order p add 18
	order p unprotect 18 10
	run shift-diag status
	expect_status 1
	[ "$output" = "$(shift-ctl status)" ]
	order p remove 18
	run -0 shift-diag status
	live q j2
	order q bypass mlx5_0 2
	run shift-diag status --job j2
	expect_status 1
	hang_up q
	live r j3
	run -0 shift-diag status --job j3
	murder r
	run shift-diag status --job j3
	expect_status 1
	rm run/j3/*.stats
	order p giveup 17
	run shift-diag status --json
	expect_status 1
	jq -e '.processes[0].totals.given_up == 1' <<<"$output"
	for c in 'status --pid 1' 'events --job other'; do
		# shellcheck disable=SC2086
		run shift-diag $c
		expect_status 3
		expect_line '^shift-diag: no protected process .*runs here$'
	done
}

@test "top: rates of connections and NICs" {
	live p j1
	order p add 17
	order p add 18
	shift-diag top --json --interval 1s --count 2 >top &
	local top=$!
	while kill -0 "$top" 2>/dev/null; do
		order p work 17 500
		sleep 0.1
	done
	wait "$top"
	[ "$(wc -l <top)" -eq 2 ]
	# At most 500 each 0.1 s, as the order itself takes time; the other one does nothing.
	jq -es '.[1].processes[0].connections | (.[0] | .qpn == 17 and .sends_per_second > 500 and .sends_per_second < 5100 and
		.receives_per_second == .sends_per_second and .sends_waiting == 0 and .protected) and .[1].sends_per_second == 0' top
	with_counters '
		sed -i s/.*/100000000/ /sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data
		{ sleep 0.3; echo 200000000 >/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data; } &
		shift-diag top --json --interval 1s --count 1' >top
	# 100 million words of 4 bytes in a second or a little more
	jq -e '.nics[0] | .device == "mlx5_0" and .received_bytes_per_second > 2e8 and .received_bytes_per_second <= 4e8 and
		.sent_bytes_per_second == 0' top
	jq -e '.nics[1] | .device == "rxe-0" and .state == "DOWN" and .received_bytes_per_second == null' top
	run -0 shift-diag top -i 50ms -n 2
	expect_match 'NIC +PORT +STATE +RECEIVED B/s'
	expect_match '  17 +10\.0\.1\.2/18 +mlx5_0 +ACTIVE +0 +0 +0 +0 +-  yes'
	[ "$(grep -c 'rates over' <<<"$output")" -eq 2 ]
	run ! grep -q $'\033' <<<"$output" # a terminal's alone
	for c in '--interval soon' '--interval 1ms' '--count 0' x; do
		# shellcheck disable=SC2086
		run shift-diag top $c
		expect_status 64
		expect_line '^shift-diag: top: '
	done
}

@test "top: on a terminal it clears the screen, and ends when interrupted" {
	live p j1
	order p add 17
	timeout --foreground 20 script -qec 'stty rows 8 cols 120; timeout --preserve-status -s INT 1 shift-diag top -i 100ms' typescript >screen
	grep -q $'\033\[H\033\[2J' screen
	grep -q 'process [0-9]* stats_live, job j1, running' screen
	# A line that is longer than the terminal is wide must not become two: the first ones would leave the screen.
	awk -v RS=$'\033' '/^\[\?7l/ {cut = 1} /^\[\?7h/ {cut = 0} !cut && /process/ {bad = 1} END {exit bad || cut || !NR}' screen
}
