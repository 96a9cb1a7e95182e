/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What sessions say to each other in the records SESSION of the control messages (doc/protocol.md,
 * 6.1). These bytes travel as they are, so their layout is fixed; a change needs a new
 * SHIFT_MSG_VERSION. The tag of the datagram proves that a member of the job has sent them.
 */
#ifndef SHIFT_SESSION_SESSION_MSG_H
#define SHIFT_SESSION_SESSION_MSG_H

#include <stdint.h>

#include "lib/core/msg.h"

enum session_kind {
	SESSION_ALIVE = 1, /* struct session_alive */
};

/* Does your program still run? */
struct session_alive {
	uint8_t kind;
	uint8_t answer; /* 0: the question */
	uint8_t pad[6];
	uint64_t challenge; /* a random number; the answer has that of the question */
};

/* A message to be sent; the bytes must live until it is. */
static inline struct shift_msg session_msg(const void *bytes, size_t n)
{
	return (struct shift_msg){
		.type = SHIFT_MSG_SESSION, .blob = bytes, .blob_bytes = (uint8_t)n};
}

#endif
