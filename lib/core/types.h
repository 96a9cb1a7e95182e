/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Words shared by the whole of lib/core. The numbers of opcodes, flags and statuses are those of
 * libibverbs (infiniband/verbs.h), so that lib/verbs converts by assignment; the core itself must
 * not see that header.
 */
#ifndef SHIFT_CORE_TYPES_H
#define SHIFT_CORE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHIFT_RAILS_MAX 8 /* rail 0 and at most seven backups */

enum shift_opcode { /* = enum ibv_wr_opcode */
		    SHIFT_OP_WRITE = 0,
		    SHIFT_OP_WRITE_IMM = 1,
		    SHIFT_OP_SEND = 2,
		    SHIFT_OP_SEND_IMM = 3,
		    SHIFT_OP_READ = 4,
		    SHIFT_OP_CMP_SWAP = 5,
		    SHIFT_OP_FETCH_ADD = 6,
		    SHIFT_OP_LOCAL_INV = 7,
		    SHIFT_OP_BIND_MW = 8,
		    SHIFT_OP_SEND_INV = 9,
};

enum shift_send_flags { /* = enum ibv_send_flags */
			SHIFT_F_FENCE = 1,
			SHIFT_F_SIGNALED = 2,
			SHIFT_F_SOLICITED = 4,
			SHIFT_F_INLINE = 8,
};

enum shift_wc_status { /* = enum ibv_wc_status; only those we reason about are named */
		       SHIFT_WC_SUCCESS = 0,
		       SHIFT_WC_LOC_LEN_ERR = 1,
		       SHIFT_WC_LOC_QP_OP_ERR = 2,
		       SHIFT_WC_LOC_PROT_ERR = 4,
		       SHIFT_WC_WR_FLUSH_ERR = 5,
		       SHIFT_WC_BAD_RESP_ERR = 7,
		       SHIFT_WC_REM_INV_REQ_ERR = 9,
		       SHIFT_WC_REM_ACCESS_ERR = 10,
		       SHIFT_WC_REM_OP_ERR = 11,
		       SHIFT_WC_RETRY_EXC_ERR = 12,
		       SHIFT_WC_RNR_RETRY_EXC_ERR = 13,
		       SHIFT_WC_FATAL_ERR = 19,
		       SHIFT_WC_RESP_TIMEOUT_ERR = 20,
		       SHIFT_WC_GENERAL_ERR = 21,
};

enum shift_wc_opcode { /* = enum ibv_wc_opcode */
		       SHIFT_WC_SEND = 0,
		       SHIFT_WC_RDMA_WRITE = 1,
		       SHIFT_WC_RDMA_READ = 2,
		       SHIFT_WC_COMP_SWAP = 3,
		       SHIFT_WC_FETCH_ADD = 4,
		       SHIFT_WC_BIND_MW = 5,
		       SHIFT_WC_LOCAL_INV = 6,
		       SHIFT_WC_RECV = 128,
};

/* vendor_err of the error completions that we, not a NIC, hand to the program: "SH" + cause. */
enum shift_vendor_err {
	SHIFT_VENDOR_GIVEUP = 0x53480001,      /* give-up time passed */
	SHIFT_VENDOR_ATOMIC = 0x53480002,      /* atomic executed, result lost */
	SHIFT_VENDOR_PEER_FAILED = 0x53480003, /* the peer gave up or is unknown */
	SHIFT_VENDOR_PEER_CLOSED = 0x53480004, /* the peer closed its QP */
	SHIFT_VENDOR_PEER_DIED = 0x53480005,   /* the peer's process is gone */
	SHIFT_VENDOR_PROOF = 0x53480006,       /* the proof of delivery contradicts itself */
	SHIFT_VENDOR_PROTOCOL = 0x53480007,    /* the peer broke the protocol */
	SHIFT_VENDOR_OVERFLOW = 0x53480008,    /* our own fault: SHIFT_R_OVERFLOW */
	SHIFT_VENDOR_NO_KEY = 0x53480009,      /* memory that the NIC in use has no key for */
	SHIFT_VENDOR_PEER_LEFT = 0x5348000a,   /* the peer's process has ended */
	SHIFT_VENDOR_APART = 0x5348000b,       /* an atomic that no rail in reach may execute */
};

struct shift_sge { /* = struct ibv_sge */
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/* A send work request as the program posted it, or as it must be reposted. */
struct shift_wr {
	uint64_t wr_id;
	uint64_t remote_addr; /* RDMA and atomics */
	uint64_t compare_add;
	uint64_t swap;
	const struct shift_sge *sge; /* borrowed; of an INLINE repost: sge[0].addr is our copy */
	uint32_t num_sge;
	uint32_t rkey;
	uint32_t imm;	/* as in memory (network order), or the rkey that SEND_INV invalidates */
	uint8_t opcode; /* enum shift_opcode */
	uint8_t flags;	/* enum shift_send_flags */
};

/* A receive work request. */
struct shift_recv_wr {
	uint64_t wr_id;
	const struct shift_sge *sge; /* borrowed */
	uint32_t num_sge;
};

/* A completion as the program must see it. */
struct shift_wc {
	uint64_t wr_id;
	uint32_t status; /* enum shift_wc_status or another of libibverbs */
	uint32_t opcode; /* enum shift_wc_opcode; of a receive only SHIFT_WC_RECV */
	uint32_t vendor_err;
	uint32_t byte_len; /* sends: of READ and atomics; receives: left to the caller */
	bool is_recv;
};

#endif
