/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What sessions say to each other in the records SESSION of the control messages (doc/protocol.md,
 * 6.1). These bytes travel as they are, so their layout is fixed; a change needs a new
 * SHIFT_MSG_VERSION. The tag of the datagram proves that a member of the job has sent them.
 */
#ifndef SHIFT_SESSION_SESSION_MSG_H
#define SHIFT_SESSION_SESSION_MSG_H

#include <stdint.h>
#include <string.h>

#include "lib/conn/vqp.h"
#include "lib/core/msg.h"
#include "lib/nic/probe.h"

enum session_kind {
	SESSION_ALIVE = 1, /* struct session_alive */
	SESSION_CONN = 2,  /* struct session_conn */
	SESSION_PROBE = 3, /* struct session_probe */
	SESSION_BYE = 4,   /* struct session_bye */
	SESSION_END = 5,   /* struct session_end */
};

/* Does your program still run? */
struct session_alive {
	uint8_t kind;
	uint8_t answer; /* 0: the question */
	uint8_t pad[6];
	uint64_t challenge; /* a random number; the answer has that of the question */
};

/* A QP on rail 0, as programs name it. */
struct session_qp {
	union ibv_gid gid;
	uint32_t qpn;
	uint8_t pad[4];
};

static inline bool session_qp_is(const struct session_qp *a, const struct session_qp *b)
{
	return a->qpn == b->qpn && !memcmp(&a->gid, &b->gid, sizeof(a->gid));
}

/* Without a GRH a QP has no GID in its packets. It is named by its subnet and LID. No NIC has such
 * a GID, as its GUID would be below 2^16. */
static inline union ibv_gid session_lid_name(const union ibv_gid *of_subnet, uint16_t lid)
{
	union ibv_gid name = {.raw = {[14] = (uint8_t)(lid >> 8), [15] = (uint8_t)lid}};

	memcpy(name.raw, of_subnet->raw, 8);
	return name;
}

/*
 * My end of a connection, on one of its rails. All of them have the same serial, and count only
 * together. Serials are the sender's (told.h).
 */
struct session_conn {
	uint8_t kind;
	uint8_t ask; /* 1: answer with your end, even if you have heard this before */
	uint8_t rails, rail;
	uint32_t serial;
	uint32_t heard; /* the serial of your end that I know; 0: none */
	uint32_t id;	/* of this life of my QP */
	struct session_qp mine, yours;
	struct rail_addr addr; /* on that rail */
};

/* My end of the probes over a path. */
struct session_probe {
	uint8_t kind;
	uint8_t ask;
	uint8_t nic, your_nic; /* the ends of the path, by the numbers of the two processes */
	uint32_t serial, heard;
	uint8_t pad[4];
	struct probe_addr addr;
};

/* My process ends, and with it all its connections. The envelope names the two processes. */
struct session_bye {
	uint8_t kind;
	uint8_t pad[7];
};

/* My program has disconnected a connection of RDMA-CM. */
struct session_end {
	uint8_t kind;
	uint8_t answer; /* 1: I have heard that of yours */
	uint8_t pad[2];
	uint32_t mine, yours; /* ids of the lives of the two QPs */
};

_Static_assert(sizeof(struct session_alive) == 16, "its layout is fixed");
_Static_assert(sizeof(struct session_bye) == 8, "its layout is fixed");
_Static_assert(sizeof(struct session_end) == 12, "its layout is fixed");
_Static_assert(sizeof(struct session_conn) == 128, "its layout is fixed");
_Static_assert(sizeof(struct session_probe) == 64, "its layout is fixed");
_Static_assert(sizeof(struct session_conn) <= SHIFT_MSG_BLOB_MAX, "it fits a record");

/* A message to be sent; the bytes must live until it is. */
static inline struct shift_msg session_msg(const void *bytes, size_t n)
{
	return (struct shift_msg){
		.type = SHIFT_MSG_SESSION, .blob = bytes, .blob_bytes = (uint8_t)n};
}

#endif
