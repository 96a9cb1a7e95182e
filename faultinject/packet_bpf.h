/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Makes a packet program: which packets a fault matches, and what happens to them. */
#ifndef SHIFT_INJECT_PACKET_BPF_H
#define SHIFT_INJECT_PACKET_BPF_H

#include <stdbool.h>
#include <stdint.h>

#include "faultinject/bpf.h"
#include "faultinject/inject.h"

enum packet_action {
	ACTION_DROP,
	ACTION_CORRUPT, /* one bit behind the BTH */
	ACTION_MARK,	/* ECN: congestion experienced */
	ACTION_DUPLICATE,
	ACTION_CLASSIFY, /* for a qdisc with classes: -1, its default is 0 */
};

struct packet_rule {
	enum packet_action action;
	bool is_egress;
	bool roce;	     /* RoCE v2 only */
	bool answers;	     /* only what acknowledges: RC opcodes 0x0d to 0x12 */
	int64_t qpn;	     /* destination QP, or -1 */
	unsigned int larger; /* IP packets of more bytes; 0: all */
	int peer_family;     /* the other end's address; 0: any */
	const struct in6_addr *peer;
	unsigned int ifindex;
	double rate, burst; /* struct inject_options */
};

/* The program's state: 64-bit numbers, in this order. */
struct packet_state {
	uint64_t random; /* not 0 */
	uint64_t matched, hit;
	uint64_t in_burst;
};

/* Makes the program for a rule. state_fd: the map with its state. */
void packet_bpf_make(struct bpf_code *c, const struct packet_rule *r, int state_fd);

/* Can there be so much loss in bursts of that length? */
bool burst_is_possible(double rate, double burst);

#endif
