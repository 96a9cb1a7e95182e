/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>

#include "lib/core/psn.h"

static uint32_t ceil_packets(uint64_t length, uint32_t mtu)
{
	uint64_t n = (length + mtu - 1) / mtu;

	return n ? (uint32_t)n : 1;
}

uint32_t shift_psn_packets(uint8_t opcode, uint64_t length, uint32_t mtu)
{
	switch ((enum shift_opcode)opcode) {
	case SHIFT_OP_WRITE:
	case SHIFT_OP_WRITE_IMM:
	case SHIFT_OP_SEND:
	case SHIFT_OP_SEND_IMM:
	case SHIFT_OP_SEND_INV:
	case SHIFT_OP_READ: return ceil_packets(length, mtu);
	case SHIFT_OP_CMP_SWAP:
	case SHIFT_OP_FETCH_ADD: return 1;
	case SHIFT_OP_LOCAL_INV:
	case SHIFT_OP_BIND_MW: return 0;
	}
	return 0;
}

int shift_psn_unwrap(uint32_t psn, uint32_t first, uint64_t acked, uint64_t posted, uint64_t *k)
{
	uint64_t cand = acked + shift_psn_sub(psn, shift_psn_add(first, acked));

	if (cand > posted)
		return -ERANGE;
	*k = cand;
	return 0;
}
