# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# The integrity client: it is clean on a sound network, finds each kind of damage, and shows faults without shift.

load guests

export NAME=check-integrity

setup_file() {
	guests_up --layout single
}

teardown() {
	shift-testbed link --name "$NAME" b 0 up
}

peer() { # HOST OPTIONS...: JSON goes to $BATS_TEST_TMPDIR/HOST, messages to HOST.err
	local host=$1
	shift
	shift-testbed exec --name "$NAME" --timeout 60s "$host" -- sh -c \
		'tests/clients/integrity/integrity --json --device ${SHIFT_HOST_RAILS%%,*} --gid-index $SHIFT_GID_INDEX '"$*" \
		>"$BATS_TEST_TMPDIR/$host" 2>"$BATS_TEST_TMPDIR/$host.err"
}

both() { # STATUS CLIENT-OPTIONS...: both sides end so; $own: options of the server
	local want=$1 server client=0 end=0 known=
	shift
	# soft-RoCE 6.1 itself may complete an atomic without its result after any retransmission, and a
	# loaded machine retransmits without a fault (doc/soft-roce.md).
	[ "$want" -ne 0 ] || known=--allow-lost-results
	peer b "$known ${own:-}" & server=$!
	peer a $known "$*" '$SHIFT_PEER_ADDR' || client=$?
	wait $server || end=$?
	[ "$client $end" = "$want $want" ] || {
		echo "client $client, server $end, not $want; options: $*"
		cat "$BATS_TEST_TMPDIR"/[ab]*
		return 1
	}
}

says() { # HOST JQ-EXPRESSION: true of its report?
	jq -e "$2" <"$BATS_TEST_TMPDIR/$1" >/dev/null || {
		echo "not so at $1: $2"
		cat "$BATS_TEST_TMPDIR/$1"
		return 1
	}
}

# One-way SENDs, and the receiver's cable pulled in the middle: $server and $client are left running.
pull_cable() { # CLIENT-OPTIONS...
	before=$(received_bytes b 0)
	peer b & server=$!
	peer a "--outage --one-way $*" '$SHIFT_PEER_ADDR' & client=$!
	wait_until 20 flows 100000
	shift-testbed link --name "$NAME" b 0 down
	wait_until 10 carrier b 0 0
}

@test "all operations, 4 QPs, 2 threads: clean, and every operation was used" {
	both 0 --seconds 2 --seed 7
	for host in a b; do
		says $host '.exit == 0 and .seed == 7 and .qps == 4 and .threads == 2 and .error == null'
		says $host '[.posted[] > 0] | all'
		says $host '[(.found, .peer_found) | del(.lost_results)[]] | add == 0'
		says $host '.longest_gap_ms == .gaps[0].ms and .longest_gap_ms > 0'
	done
}

@test "packets of 256 bytes, messages of 20 KB, one QP per thread: clean" {
	both 0 --mtu 256 --qps 2 --size 20000 --count 300
	says a '[(.found, .peer_found) | del(.lost_results)[]] | add == 0'
}

# Each way of using verbs, which a program has by itself: what soft-RoCE does not do right alone is left out.
@test "every other way to post, to poll and to wait, and all of them together: clean" {
	for how in --wr-api --cq-ex '--events level' '--events edge' '--events blocking' '--dlopen now' '--dlopen lazy' \
		'--wr-api --cq-ex --events level' '--wr-api --cq-ex --events edge' '--wr-api --cq-ex --events blocking'; do
		own="$how --rxe-44 both" both 0 "$how --rxe-44 both --seconds 1 --seed 7"
		for host in a b; do
			says $host '[(.found, .peer_found) | del(.lost_results)[]] | add == 0'
			says $host '[.posted[] > 0] | all'
		done
		says a ".wr_api == $([[ $how = *wr-api* ]] && echo true || echo false)"
		says a ".cq_ex == $([[ $how = *cq-ex* ]] && echo true || echo false)"
		says a ".dlopen == $([[ $how = *dlopen* ]] && echo "\"${how##* }\"" || echo null)"
		[[ $how = *events* ]] || how=none
		says a ".events == \"${how##* }\" and (.events_taken > 0) == (.events != \"none\")"
	done
}

@test "outage mode: every WR signaled, one completion each" {
	both 0 --outage --count 2000
	says a '.posted.send == 2000 and .completions == .posted.send + .posted.status'
	says b '.receives == 2000 and .bytes_sent >= 2000 * 1024'
}

caught() { # KIND:OP EXPRESSION OF THE SERVER'S REPORT, OPTIONS...
	both 5 --qps 1 --threads 1 --ops "${1#*:}" --count 60 --break "$1" "${@:3}"
	says b "$2"
}

# Two copies that land between two looks at the memory look like one: so it is tried again.
caught_in_time() { # as caught
	for _ in $(seq 10); do
		if both 5 --qps 1 --threads 1 --ops "${1#*:}" --count 60 --break "$1" && says b "$2"; then
			return
		fi
	done
	return 1
}

@test "--break: what is sent twice is a duplicate" {
	caught duplicate:send '.found.duplicated == 1 and .found.lost == 0'
	for op in write flag; do
		caught_in_time duplicate:$op '.found.duplicated == 1 and .found.lost == 0'
	done
	for op in fetch-add cmp-swap; do
		caught duplicate:$op '.found.duplicated + .peer_found.duplicated > 0'
	done
}

@test "--break: what is not sent is lost" {
	for op in send write flag fetch-add cmp-swap; do
		caught lose:$op '.found.lost + .peer_found.lost > 0'
	done
}

@test "--break: two messages that change places are reordered, not lost" {
	caught reorder:send '.found.reordered == 1 and .found.lost == 0 and .found.duplicated == 0'
}

@test "--break: one bad byte is found" {
	for op in send write flag; do
		caught corrupt:$op '.found.bad_bytes == 1 and .found.lost == 0'
	done
}

@test "--break: damage is found among WRs of ibv_wr_*, and in completions of an extended CQ" {
	own='--wr-api --cq-ex --rxe-44 both'
	caught duplicate:send '.found.duplicated == 1 and .found.lost == 0' $own
	caught lose:fetch-add '.found.lost + .peer_found.lost > 0' $own
	caught reorder:send '.found.reordered == 1 and .found.lost == 0 and .found.duplicated == 0' $own
	caught corrupt:write '.found.bad_bytes == 1 and .found.lost == 0' $own
}

@test "--break: a CQ that sleeps without being armed is a lost wake-up" {
	for how in level edge blocking; do
		both 5 --qps 1 --threads 1 --seconds 3 --events $how --break unarmed
		says a '.found.lost_wakeups == 1 and (.found | del(.lost_wakeups, .lost_results) | add) == 0'
	done
}

@test "shared receive queues, few and many receives, senders that may not wait: clean, each receive met" {
	local how
	for how in '--srq 1 --srq-depth 1' '--srq 2 --srq-depth 2' '--srq 1 --srq-depth 1 --rnr-retry 0' \
		'--srq 2 --srq-depth 64 --rnr-retry 0' '--srq 1 --srq-depth 1024 --size 2048' \
		'--srq 2 --srq-same-ids --ops write-imm' '--srq 2 --srq-depth 8 --lives 3'; do
		own="--rnr-retry $([[ $how = *rnr-retry* ]] && echo 0 || echo 7)" both 0 "$how --seconds 1 --seed 7"
		for host in a b; do
			says $host '[(.found, .peer_found) | del(.lost_results)[]] | add == 0'
			says $host '.srq.handed_out == .srq.posted and .srq.posted == .receives'
			says $host '.srq.drained == .srqs * .srq.depth * .lives'
			says $host ".srq.credits == $([[ $how = *rnr-retry* ]] && echo true || echo false)"
		done
	done
}

@test "shared receive queues: receives that are posted at the event of the limit only" {
	own='--srq-limit 16' both 0 --srq 2 --srq-limit 16 --seconds 2
	for host in a b; do
		says $host '[(.found, .peer_found) | del(.lost_results)[]] | add == 0'
		says $host '.srq.limit_events > 3'
	done
}

@test "--break: a receive that is lost, and one that comes back twice, are found" {
	own='--stall 3' both 5 --srq 1 --stall 3 --seconds 1 --break lost-receive
	says a '.found.lost_receives == 1 and .found.bad_receives == 0'
	both 5 --srq 1 --seconds 1 --break repeated-receive
	says a '.found.bad_receives == 1 and .found.lost_receives == 0 and .found.lost == 0'
}

@test "unprotected, retry_cnt 6: a pulled cable is an error completion, status 3" {
	pull_cable --retry 6 --seconds 40
	status=0
	wait $client || status=$?
	expect_status 3
	wait $server || status=$?
	expect_status 3
	says a '.error.status == "transport retry counter exceeded" and .found.error_completions > 0'
	says b '.error == null and .peer_exit == 3'
}

@test "unprotected, retry_cnt 7: a stall as long as the fault, then nothing is lost" {
	pull_cable --retry 7 --seconds 5
	down_ns=$(date +%s%N)
	sleep 2 # the length of the fault
	fault_ms=$((($(date +%s%N) - down_ns) / 1000000))
	shift-testbed link --name "$NAME" b 0 up
	wait $client
	wait $server
	says a ".longest_gap_ms >= $fault_ms and .longest_gap_at_ms > 0"
	says a '[(.found, .peer_found) | del(.lost_results)[]] | add == 0'
}

@test "unprotected, retry_cnt 7, no end of the fault: stalled, status 4" {
	pull_cable --retry 7 --seconds 40 --stall 1
	status=0
	wait $client || status=$?
	expect_status 4
	says a '.longest_gap_ms >= 1000'
	wait $server || true
}

@test "usage: help on standard output; what it does not know is status 2 and one line" {
	integrity=tests/clients/integrity/integrity
	run -0 --separate-stderr $integrity --help
	[[ $output == 'usage: integrity'* ]] && [ -z "$stderr" ]
	while read -r arguments; do
		# shellcheck disable=SC2086
		run $integrity $arguments
		expect_status 2
		expect_line 'integrity: '
	done <<-END
		--no-such-option
		--qps 0
		--count -1
		--size 7
		--mtu 1000
		--ops send,fly
		--break reorder:flag
		--break nonsense
		--break unarmed
		--events
		--events often
		--wr-api=no
		--rxe-44 none
		--size 1000000 --receives 4000
		a b
	END
	run $integrity --device no_such_nic no.such.host.invalid
	expect_status 1
}
