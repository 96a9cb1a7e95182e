# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# What soft-RoCE does with shared receive queues: what moving QPs with an SRQ will rely on (doc/soft-roce.md). Measured by
# tests/clients/srq_facts on $KERNEL; where kernels differ, both ways are held. SRQ_FACTS_DIR=DIR keeps the answers.
# bats file_tags=long

load guests

export NAME=check-srq-facts KERNEL=${KERNEL:-6.1}

setup_file() {
	guests_up --layout single --rails 1 --kernel "$KERNEL"
	# A GID of the other kind, for a QP that is connected to itself.
	on a ip addr add 10.9.0.1/24 dev eth1
}

answer() { # QUESTION: the file
	echo "${SRQ_FACTS_DIR:-$BATS_FILE_TMPDIR}/$KERNEL-$1.jsonl"
}

ask() { # QUESTION
	on a tests/clients/srq_facts mlx5_0 eth1 mlx5_1 eth2 "$1" >"$(answer "$1")"
}

# The lines of the answer that FILTER chooses are all so, and there is one at least.
holds() { # QUESTION FILTER CONDITION
	jq -es "[.[] | select(.question and ($2))] | length > 0 and all($3)" "$(answer "$1")" >/dev/null || {
		echo "$1, $2: not $3:"
		jq -c "select(.question and ($2) and (($3) | not))" "$(answer "$1")"
		return 1
	}
}

pleases() { # QUESTION WHAT: does it ask for that?
	grep -q "\"please\": \"$2\"" "$(answer "$1")"
}

@test "a QP that is connected to itself takes receives back, in order, their buffers untouched" {
	ask drainer
	holds drainer '.drainer == "self"' '.taken == 1024 and .wrong == 0 and .in_order and .untouched'
	holds drainer '.drainer != "self"' '.taken == 3 and .wrong == 0 and .in_order'
}

@test "RNR at rnr_retry 0 says at once that an SRQ is empty; the QP can be used again" {
	ask rnr
	holds rnr '.empty == "one send"' '.status == 13 and .taken == 0 and .state == "ERR" and .us < 500000'
	holds rnr '.empty == "batch"' '.all_taken == .rounds and .rnr == .rounds'
}

@test "receives are taken back without a carrier, not while the NIC is admin down; none is lost" {
	ask link 3>&- &
	wait_until 30 pleases link pull
	shift-testbed link --name "$NAME" a 0 down
	wait_until 30 pleases link plug
	shift-testbed link --name "$NAME" a 0 up
	wait $!
	holds link '.drainer and (.link | test("^(up|no carrier|up after.*|address back)$"))' '.taken == 4 and .wrong == 0'
	holds link '.link == "admin down" and .drainer == "connected before"' '.taken == 0 and .status > 0'
	holds link '.link == "admin down" and .drainer != "connected before"' '.connect == 101 and .at == "RTR"'
	# The GID that is made of the MAC address stays when an address goes.
	holds link '.link == "address gone" and .drainer and .gid == "link-local"' '.taken == 4'
	holds link '.link == "address gone" and .drainer and .gid == "IPv4"' '.taken == 0'
	holds link '.taken_in_all' '.taken_in_all + .left == 64'
}

@test "a receive that a message cut in the middle holds is in the SRQ no more" {
	ask cut
	holds cut true .first_came
	holds cut '.opcode == "SEND" and (.send_between | not)' '.left == 7 and .first_left == 101'
	holds cut '.opcode == "SEND" and .delay_ms == -1' '.flushed == []'
	holds cut '.opcode == "WRITE_IMM"' '.left == 8 and .flushed == [] and .next_life_error == []'
}

@test "it is flushed by 6.1, if ERR has time; 6.12 keeps it for the next life's first error" {
	local flushed='[{wr_id: 100, status: 5}]' stale='[{wr_id: 100, status: 10}]'
	local one='.opcode == "SEND"' next='.opcode == "SEND" and .end == "RESET"'
	if [ "$KERNEL" = 6.1 ]; then
		holds cut "$one and .delay_ms == 100" ".flushed == $flushed"
		holds cut "$next" '.next_life_error == []'
	else
		holds cut "$one" '.flushed == []'
		holds cut "$next and (.send_between | not)" ".next_life_error == $stale"
		holds cut "$next and .send_between" '.next_life_error == []'
	fi
}

@test "as many receives complete as rq_psn says, in the end" {
	ask settle
	holds settle true '.cut > 0 and .not_rq_psn_at_end == 0 and .nic_is_there'
}

@test "LAST_WQE_REACHED: never from 6.1; from 6.12 at ERR, again with each packet, not without ERR" {
	ask last-wqe
	if [ "$KERNEL" = 6.1 ]; then
		holds last-wqe true '.last_wqe == 0'
	else
		holds last-wqe '.when | test("to ERR$|own$|^RNR")' '.last_wqe == 1'
		holds last-wqe '.when | test("^packets")' '.last_wqe > 1'
		holds last-wqe '.when | test("RESET$|destroyed")' '.last_wqe == 0'
	fi
}

@test "SRQ_LIMIT_REACHED: once, by the receive whose taking leaves fewer than the limit" {
	ask limit
	holds limit '.limit | test("^armed (at|again)|create_srq")' '.times == 1 and .raised_at == 9'
	holds limit '.limit | test("below|as many|posted|^max")' '.times == 1 and .raised_at == .armed_at - 1'
	holds limit '.limit | test("^not|disarmed")' '.times == 0'
	holds limit '.limit | test("than max_wr")' '.err == 22'
	holds limit true '.query == 0'
}

@test "completions outlive RESET and destroy of their QP; numbers of QPs do not come again soon" {
	ask outlive
	holds outlive .end '.receives_survive == .receives_done and .sends_survive == .sends_done'
	holds outlive .qpn '.reused | not'
}

@test "sizes, resizing, lists, an SRQ whose QP is in ERR" {
	ask sizes
	holds sizes '.size == "create" and .err == 0' '.posted == .query and .query >= .asked'
	holds sizes '.size == "resize" and .to > 10' '.err == 0 and .drained == .query and .in_order'
	holds sizes '.size == "resize" and .to < 10' '.err == 22 and .drained == 127'
	holds sizes '.list | . and test("SGEs")' '.err == 22 and .bad == 2 and .taken == 2'
	holds sizes '.list | . and test("16 into 7")' '.err == 12 and .bad == 7 and .taken == 7'
	holds sizes .owner '.accepted == 5 and .drained == 5 and .destroy_srq_with_qp == 16'
}

@test "a completion names its QP and its receive; a QP without an SRQ on the same CQ" {
	ask owner
	holds owner true '.completions == 48 and .wrong_qp_num + .out_of_order_in_qp + .of_the_wrong_queue == 0'
}

# Last, and not on 6.1, where it may cost the NIC.
@test "RESET of a responder in a stream, without ERR before, leaves the NIC there" {
	[ "$KERNEL" != 6.1 ] || skip "6.1 puts references twice"
	ask reset
	holds reset true '.cut > 0 and .not_rq_psn_at_end == 0 and .nic_is_there'
}
