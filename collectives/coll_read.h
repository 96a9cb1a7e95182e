/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Reads a file of collectives (coll_file.h), for the tools. As for statistics (lib/stats/read.h),
 * the file belongs to another process, which may be writing it, may have died amid a change, or be
 * of another version; for root it may be made by a user who wants to deceive. So all that is read
 * is checked, and nothing is mapped.
 *
 * For any thread, no lock, no state, no waiting.
 */
#ifndef SHIFT_COLLECTIVES_COLL_READ_H
#define SHIFT_COLLECTIVES_COLL_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "collectives/coll_file.h"
#include "lib/stats/read.h"

/* What a file said at one moment. Texts are terminated, but may contain anything. */
struct coll_copy {
	struct coll_header h;
	enum stats_life life;
	uint64_t read_ns; /* CLOCK_MONOTONIC: of what happened later, nothing needs to be there */
	struct coll_entry *ops; /* oldest first; .seq - 1 is the number of an operation */
	size_t op_count;
	uint64_t op_lost; /* written over, or amid a change */
	struct coll_comm *comms;
	size_t comm_count;
	char (*hosts)[COLL_HOST_BYTES];
	size_t host_count;
	uint32_t *members;
	size_t member_count;
};

/*
 * Fills copy from a file that must belong to that user; the caller empties it by coll_free(), but
 * not after an error. 0, or a negative errno, as of stats_read().
 */
int coll_read_of(uid_t owner, const char *path, struct coll_copy *copy);

/* Fills only .h and .life: nothing to free. */
int coll_read_header_of(uid_t owner, const char *path, struct coll_copy *copy);

void coll_free(struct coll_copy *copy);

/* The memory that it takes. */
size_t coll_copy_bytes(const struct coll_copy *copy);

/* "allreduce"; "?": it is none. */
const char *coll_op_name(unsigned int op);

/* The host of a rank of that communicator; NULL: it is not told. */
const char *coll_member_host(const struct coll_copy *copy, const struct coll_comm *c,
			     uint32_t rank);

#endif
