/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* 24-bit packet sequence numbers (IB spec 9.2, BTH:PSN) and what a WR takes of them. Pure. */
#ifndef SHIFT_CORE_PSN_H
#define SHIFT_CORE_PSN_H

#include "lib/core/types.h"

#define SHIFT_PSN_BITS 24
#define SHIFT_PSN_MASK ((1u << SHIFT_PSN_BITS) - 1)

/* psn + n, modulo 2^24; only the low 24 bits of either count. */
static inline uint32_t shift_psn_add(uint32_t psn, uint64_t n)
{
	return (uint32_t)(psn + n) & SHIFT_PSN_MASK;
}

/* Packets from b forward to a, 0 .. 2^24 - 1. */
static inline uint32_t shift_psn_sub(uint32_t a, uint32_t b)
{
	return (a - b) & SHIFT_PSN_MASK;
}

/*
 * PSNs that one WR takes of the requester's sequence (IB spec 9.7.2): SEND and WRITE one per
 * MTU, at least one; a READ as many as its response; an atomic one; local operations none.
 * opcode: enum shift_opcode; length and mtu in bytes, mtu > 0.
 */
uint32_t shift_psn_packets(uint8_t opcode, uint64_t length, uint32_t mtu);

/*
 * The cumulative packet count K that a 24-bit psn names.
 * first: PSN of the epoch's packet 0. acked: packets known to be executed (the anchor); posted:
 * packets handed to the NIC; all counted since the epoch's commit. There must be less than 2^24
 * packets between the two, which the caller ensures by signaling (doc/protocol.md, A8).
 * Returns 0 and *k in [acked, posted], or -ERANGE when no such K exists: the psn is not live, or
 * the peer lies; *k is then not written.
 */
int shift_psn_unwrap(uint32_t psn, uint32_t first, uint64_t acked, uint64_t posted, uint64_t *k);

#endif
