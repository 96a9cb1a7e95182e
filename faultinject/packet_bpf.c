/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <stddef.h>
#include <string.h>

#include "faultinject/packet_bpf.h"

enum {
	ROCE_PORT = 4791,
	UDP_BYTES = 8,
	BTH_BYTES = 12,
	/* BTH opcodes (IBA 9.2.1); READ responses and ACKs are between them */
	READ_RESPONSE_FIRST = 0x0d,
	ATOMIC_ACKNOWLEDGE = 0x12,
	/* registers that outlive a call */
	CTX = BPF_REG_6,
	IP = BPF_REG_7,	 /* where the IP header begins */
	UDP = BPF_REG_8, /* where the UDP header begins; before that, the length of the IP packet */
	STATE = BPF_REG_9,
	/* on the stack */
	HEADER = -48,
	WORD = -8,
	COPY = 0x5f1f, /* tc_index of a copy that ACTION_DUPLICATE made */
};

struct maker {
	struct bpf_code *c;
	const struct packet_rule *r;
	int miss;
};

bool burst_is_possible(double rate, double burst)
{
	return burst <= 0 || rate >= 1 || rate <= burst * (1 - rate) + 1e-9;
}

/* Loads bytes of the packet to the stack. A packet with fewer bytes does not match. */
static void fetch_bytes(struct maker *m, int offset_register, int to, int bytes)
{
	struct bpf_code *c = m->c;

	bpf_op(c, BPF_MOV, BPF_REG_1, CTX);
	bpf_op(c, BPF_MOV, BPF_REG_2, offset_register);
	bpf_op(c, BPF_MOV, BPF_REG_3, BPF_REG_10);
	bpf_op_imm(c, BPF_ADD, BPF_REG_3, to);
	bpf_op_imm(c, BPF_MOV, BPF_REG_4, bytes);
	bpf_call(c, BPF_FUNC_skb_load_bytes);
	bpf_jump_imm(c, BPF_JNE, BPF_REG_0, 0, m->miss);
}

static void store_bytes(struct maker *m, int offset_register, int from, int bytes)
{
	struct bpf_code *c = m->c;

	bpf_op(c, BPF_MOV, BPF_REG_1, CTX);
	bpf_op(c, BPF_MOV, BPF_REG_2, offset_register);
	bpf_op(c, BPF_MOV, BPF_REG_3, BPF_REG_10);
	bpf_op_imm(c, BPF_ADD, BPF_REG_3, from);
	bpf_op_imm(c, BPF_MOV, BPF_REG_4, bytes);
	bpf_op_imm(c, BPF_MOV, BPF_REG_5, 0);
	bpf_call(c, BPF_FUNC_skb_store_bytes);
}

/* Sets IP to the offset of the IP header, behind at most two VLAN tags that the NIC has left in the
 * packet. The ethertype is at WORD. */
static void find_ip(struct maker *m)
{
	struct bpf_code *c = m->c;
	int untagged = bpf_label(c);

	bpf_op_imm(c, BPF_MOV, IP, offsetof(struct ethhdr, h_proto));
	fetch_bytes(m, IP, WORD, 2);
	for (int tags = 0; tags < 2; tags++) {
		int tagged = bpf_label(c);

		bpf_load(c, BPF_H, BPF_REG_1, BPF_REG_10, WORD);
		bpf_jump_imm(c, BPF_JEQ, BPF_REG_1, htons(ETH_P_8021Q), tagged);
		bpf_jump_imm(c, BPF_JNE, BPF_REG_1, htons(ETH_P_8021AD), untagged);
		bpf_place(c, tagged);
		bpf_op_imm(c, BPF_ADD, IP, 4);
		fetch_bytes(m, IP, WORD, 2);
	}
	bpf_place(c, untagged);
	bpf_op_imm(c, BPF_ADD, IP, 2);
	bpf_load(c, BPF_H, BPF_REG_1, BPF_REG_10, WORD);
}

static void match_length(struct maker *m)
{
	if (m->r->larger)
		bpf_jump_imm(m->c, BPF_JLE, UDP, m->r->larger, m->miss);
}

static void match_udp(struct maker *m, int protocol_at)
{
	bpf_load(m->c, BPF_B, BPF_REG_1, BPF_REG_10, HEADER + protocol_at);
	bpf_jump_imm(m->c, BPF_JNE, BPF_REG_1, IPPROTO_UDP, m->miss);
}

static void match_ipv4(struct maker *m)
{
	const struct packet_rule *r = m->r;
	struct bpf_code *c = m->c;
	uint32_t peer;

	fetch_bytes(m, IP, HEADER, 20);
	bpf_load(c, BPF_H, UDP, BPF_REG_10, HEADER + 2);
	bpf_swap(c, UDP, 16);
	match_length(m);
	if (r->peer_family) {
		memcpy(&peer, r->peer, sizeof(peer));
		bpf_load(c, BPF_W, BPF_REG_1, BPF_REG_10, HEADER + (r->is_egress ? 16 : 12));
		bpf_jump_imm(c, BPF_JNE, BPF_REG_1, peer, m->miss);
	}
	if (!r->roce)
		return;
	match_udp(m, 9);
	/* Only a first fragment has a UDP header. */
	bpf_load(c, BPF_H, BPF_REG_1, BPF_REG_10, HEADER + 6);
	bpf_op_imm(c, BPF_AND, BPF_REG_1, htons(0x1fff));
	bpf_jump_imm(c, BPF_JNE, BPF_REG_1, 0, m->miss);
	bpf_load(c, BPF_B, UDP, BPF_REG_10, HEADER);
	bpf_op_imm(c, BPF_AND, UDP, 15);
	bpf_op_imm(c, BPF_LSH, UDP, 2);
	bpf_op(c, BPF_ADD, UDP, IP);
}

static void match_ipv6(struct maker *m)
{
	const struct packet_rule *r = m->r;
	struct bpf_code *c = m->c;
	uint32_t peer[4];

	fetch_bytes(m, IP, HEADER, 40);
	bpf_load(c, BPF_H, UDP, BPF_REG_10, HEADER + 4);
	bpf_swap(c, UDP, 16);
	bpf_op_imm(c, BPF_ADD, UDP, 40);
	match_length(m);
	for (int i = 0; r->peer_family && i < 4; i++) {
		memcpy(peer, r->peer, sizeof(peer));
		bpf_load(c, BPF_W, BPF_REG_1, BPF_REG_10, HEADER + (r->is_egress ? 24 : 8) + 4 * i);
		bpf_jump_imm(c, BPF_JNE, BPF_REG_1, peer[i], m->miss);
	}
	if (!r->roce)
		return;
	match_udp(m, 6);
	bpf_op(c, BPF_MOV, UDP, IP);
	bpf_op_imm(c, BPF_ADD, UDP, 40);
}

static void match_roce(struct maker *m)
{
	struct bpf_code *c = m->c;

	fetch_bytes(m, UDP, HEADER, UDP_BYTES + BTH_BYTES);
	bpf_load(c, BPF_H, BPF_REG_1, BPF_REG_10, HEADER + 2);
	bpf_jump_imm(c, BPF_JNE, BPF_REG_1, htons(ROCE_PORT), m->miss);
	if (m->r->answers) {
		bpf_load(c, BPF_B, BPF_REG_1, BPF_REG_10, HEADER + UDP_BYTES);
		bpf_jump_imm(c, BPF_JLT, BPF_REG_1, READ_RESPONSE_FIRST, m->miss);
		bpf_jump_imm(c, BPF_JGT, BPF_REG_1, ATOMIC_ACKNOWLEDGE, m->miss);
	}
	if (m->r->qpn >= 0) {
		bpf_load(c, BPF_W, BPF_REG_1, BPF_REG_10, HEADER + UDP_BYTES + 4);
		bpf_swap(c, BPF_REG_1, 32);
		bpf_op_imm(c, BPF_AND, BPF_REG_1, 0xffffff);
		bpf_jump_imm(c, BPF_JNE, BPF_REG_1, (uint32_t)m->r->qpn, m->miss);
	}
}

/* With a peer only its address family can match; without one, both can. */
static void match_ip(struct maker *m)
{
	struct bpf_code *c = m->c;
	int ipv6, met;

	if (m->r->peer_family == AF_INET) {
		bpf_jump_imm(c, BPF_JNE, BPF_REG_1, htons(ETH_P_IP), m->miss);
		match_ipv4(m);
		return;
	}
	if (m->r->peer_family == AF_INET6) {
		bpf_jump_imm(c, BPF_JNE, BPF_REG_1, htons(ETH_P_IPV6), m->miss);
		match_ipv6(m);
		return;
	}
	ipv6 = bpf_label(c);
	met = bpf_label(c);
	bpf_jump_imm(c, BPF_JEQ, BPF_REG_1, htons(ETH_P_IPV6), ipv6);
	bpf_jump_imm(c, BPF_JNE, BPF_REG_1, htons(ETH_P_IP), m->miss);
	match_ipv4(m);
	bpf_jump(c, met);
	bpf_place(c, ipv6);
	match_ipv6(m);
	bpf_place(c, met);
}

static void match_packet(struct maker *m)
{
	const struct packet_rule *r = m->r;

	if (!r->roce && !r->larger && !r->peer_family)
		return;
	find_ip(m);
	match_ip(m);
	if (r->roce)
		match_roce(m);
}

/* Sets r1 to a random number of 32 bits, and r3 to the generator's new state. */
static void draw_random(struct bpf_code *c)
{
	bpf_load(c, BPF_DW, BPF_REG_1, STATE, offsetof(struct packet_state, random));
	for (int i = 0; i < 3; i++) {
		static const int by[] = {13, 7, 17};

		bpf_op(c, BPF_MOV, BPF_REG_2, BPF_REG_1);
		bpf_op_imm(c, i == 1 ? BPF_RSH : BPF_LSH, BPF_REG_2, by[i]);
		bpf_op(c, BPF_XOR, BPF_REG_1, BPF_REG_2);
	}
	bpf_store(c, BPF_DW, STATE, offsetof(struct packet_state, random), BPF_REG_1);
	bpf_op(c, BPF_MOV, BPF_REG_3, BPF_REG_1);
	bpf_op_imm(c, BPF_RSH, BPF_REG_1, 32);
}

static uint64_t of_2_32(double share)
{
	return share >= 1 ? 1ull << 32 : (uint64_t)(share * 4294967296.0);
}

/* Two states; in the bad one every packet is hit. */
static void burst_chance(struct maker *m)
{
	const double rate = m->r->rate, burst = m->r->burst;
	const int at = offsetof(struct packet_state, in_burst);
	struct bpf_code *c = m->c;
	int good = bpf_label(c), hit = bpf_label(c);

	bpf_load(c, BPF_DW, BPF_REG_2, STATE, at);
	bpf_jump_imm(c, BPF_JEQ, BPF_REG_2, 0, good);
	bpf_constant(c, BPF_REG_2, of_2_32(1 / burst));
	bpf_jump_reg(c, BPF_JGE, BPF_REG_1, BPF_REG_2, hit);
	bpf_store_imm(c, BPF_DW, STATE, at, 0);
	bpf_jump(c, m->miss);
	bpf_place(c, good);
	bpf_constant(c, BPF_REG_2, of_2_32(rate / (burst * (1 - rate))));
	bpf_jump_reg(c, BPF_JGE, BPF_REG_1, BPF_REG_2, m->miss);
	bpf_store_imm(c, BPF_DW, STATE, at, 1);
	bpf_place(c, hit);
}

static void take_chance(struct maker *m)
{
	if (m->r->rate >= 1)
		return;
	draw_random(m->c);
	if (m->r->burst > 0) {
		burst_chance(m);
		return;
	}
	bpf_constant(m->c, BPF_REG_2, of_2_32(m->r->rate));
	bpf_jump_reg(m->c, BPF_JGE, BPF_REG_1, BPF_REG_2, m->miss);
}

static void count_packet(struct bpf_code *c, int offset)
{
	bpf_op_imm(c, BPF_MOV, BPF_REG_1, 1);
	bpf_add_to(c, STATE, offset, BPF_REG_1);
}

/* --- what becomes of them -------------------------------------------------------------------- */

/* Flips one bit somewhere behind the BTH, which the ICRC must detect. */
static void corrupt_bit(struct maker *m)
{
	struct bpf_code *c = m->c;

	draw_random(c);
	bpf_load(c, BPF_W, BPF_REG_2, CTX, offsetof(struct __sk_buff, len));
	bpf_op_imm(c, BPF_ADD, UDP, UDP_BYTES + BTH_BYTES);
	bpf_jump_reg(c, BPF_JLE, BPF_REG_2, UDP, m->miss);
	bpf_op(c, BPF_SUB, BPF_REG_2, UDP);
	bpf_op(c, BPF_MOD, BPF_REG_1, BPF_REG_2);
	bpf_op(c, BPF_MOV, IP, BPF_REG_1);
	bpf_op(c, BPF_ADD, IP, UDP);
	bpf_op(c, BPF_MOV, UDP, BPF_REG_3);
	fetch_bytes(m, IP, WORD, 1);
	bpf_op_imm(c, BPF_AND, UDP, 7);
	bpf_op_imm(c, BPF_MOV, BPF_REG_1, 1);
	bpf_op(c, BPF_LSH, BPF_REG_1, UDP);
	bpf_load(c, BPF_B, BPF_REG_2, BPF_REG_10, WORD);
	bpf_op(c, BPF_XOR, BPF_REG_2, BPF_REG_1);
	bpf_store(c, BPF_B, BPF_REG_10, WORD, BPF_REG_2);
	store_bytes(m, IP, WORD, 1);
}

/* Sets both bits of ECN, whatever they were: soft-RoCE's packets say "not ECN-capable". The ICRC
 * does not cover these bits, the checksum of IPv4 does. */
static void mark_ecn(struct maker *m)
{
	struct bpf_code *c = m->c;
	int ipv6 = bpf_label(c), store = bpf_label(c);

	fetch_bytes(m, IP, WORD, 2);
	bpf_load(c, BPF_B, BPF_REG_2, BPF_REG_10, WORD + 1);
	bpf_load(c, BPF_B, BPF_REG_1, BPF_REG_10, WORD);
	bpf_op_imm(c, BPF_AND, BPF_REG_1, 0xf0);
	bpf_jump_imm(c, BPF_JEQ, BPF_REG_1, 0x60, ipv6);
	bpf_load(c, BPF_H, BPF_REG_3, BPF_REG_10, WORD);
	bpf_op_imm(c, BPF_OR, BPF_REG_2, 3);
	bpf_store(c, BPF_B, BPF_REG_10, WORD + 1, BPF_REG_2);
	bpf_load(c, BPF_H, BPF_REG_4, BPF_REG_10, WORD);
	bpf_op(c, BPF_MOV, BPF_REG_1, CTX);
	bpf_op(c, BPF_MOV, BPF_REG_2, IP);
	bpf_op_imm(c, BPF_ADD, BPF_REG_2, 10);
	bpf_op_imm(c, BPF_MOV, BPF_REG_5, 2);
	bpf_call(c, BPF_FUNC_l3_csum_replace);
	bpf_jump(c, store);
	bpf_place(c, ipv6);
	bpf_op_imm(c, BPF_OR, BPF_REG_2, 0x30);
	bpf_store(c, BPF_B, BPF_REG_10, WORD + 1, BPF_REG_2);
	bpf_place(c, store);
	store_bytes(m, IP, WORD, 2);
}

/*
 * A copy passes this program again, and every other program that duplicates on this NIC. None of
 * them may copy it, or two of them would copy each other's copies for ever; so the sign stays on
 * it. It is in tc_index, which nothing else uses here: the mark belongs to users, for their routes
 * and filters.
 */
static uint32_t sign_of_copy(const struct packet_rule *r)
{
	return (uint16_t)(COPY ^ (r->ifindex << 1 | r->is_egress));
}

static void let_copies_pass(struct maker *m)
{
	bpf_load(m->c, BPF_W, BPF_REG_1, CTX, offsetof(struct __sk_buff, tc_index));
	bpf_jump_imm(m->c, BPF_JEQ, BPF_REG_1, sign_of_copy(m->r), m->miss);
}

static void duplicate_packet(struct maker *m)
{
	const int at = offsetof(struct __sk_buff, tc_index);
	struct bpf_code *c = m->c;

	bpf_load(c, BPF_W, UDP, CTX, at);
	bpf_op_imm(c, BPF_MOV, BPF_REG_1, (int32_t)sign_of_copy(m->r));
	bpf_store(c, BPF_W, CTX, at, BPF_REG_1);
	bpf_op(c, BPF_MOV, BPF_REG_1, CTX);
	bpf_op_imm(c, BPF_MOV, BPF_REG_2, (int32_t)m->r->ifindex);
	bpf_op_imm(c, BPF_MOV, BPF_REG_3, m->r->is_egress ? 0 : BPF_F_INGRESS);
	bpf_call(c, BPF_FUNC_clone_redirect);
	bpf_store(c, BPF_W, CTX, at, UDP);
}

static void act_on_packet(struct maker *m)
{
	switch (m->r->action) {
	case ACTION_DROP: break;
	case ACTION_CORRUPT: corrupt_bit(m); break;
	case ACTION_MARK: mark_ecn(m); break;
	case ACTION_DUPLICATE: duplicate_packet(m); break;
	case ACTION_CLASSIFY: break;
	}
}

/*
 * A packet that is dropped at egress must count as sent, as one that is lost on the wire does:
 * STOLEN. SHOT reports an error to the sender, and soft-RoCE then tries again at once, for ever.
 */
static int32_t verdict_of(const struct packet_rule *r)
{
	if (r->action == ACTION_DROP)
		return r->is_egress ? TC_ACT_STOLEN : TC_ACT_SHOT;
	return TC_ACT_UNSPEC; /* go on; to a qdisc with classes: the filter's class */
}

void packet_bpf_make(struct bpf_code *c, const struct packet_rule *r, int state_fd)
{
	struct maker m = {.c = c, .r = r};

	memset(c, 0, sizeof(*c));
	m.miss = bpf_label(c);
	bpf_op(c, BPF_MOV, CTX, BPF_REG_1);
	bpf_map_value(c, STATE, state_fd);
	if (r->action == ACTION_DUPLICATE)
		let_copies_pass(&m);
	match_packet(&m);
	count_packet(c, offsetof(struct packet_state, matched));
	take_chance(&m);
	act_on_packet(&m);
	count_packet(c, offsetof(struct packet_state, hit));
	bpf_return(c, verdict_of(r));
	/* The verifier rejects code that nothing jumps to. */
	if (!bpf_is_used(c, m.miss))
		return;
	bpf_place(c, m.miss);
	bpf_return(c, r->action == ACTION_CLASSIFY ? 0 : TC_ACT_UNSPEC);
}
