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
