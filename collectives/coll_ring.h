/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The writer of coll_file.h, inside the libraries that are preloaded: libc only.
 *
 * Any thread. coll_begin() and coll_end() take no lock and make no system call, as the clock is
 * read through the vDSO; the others may do both. Without a file (/run is read-only, or full; no
 * shift-run) everything does nothing. In a child of fork() there is none either, until it opens its
 * own.
 */
#ifndef SHIFT_COLLECTIVES_COLL_RING_H
#define SHIFT_COLLECTIVES_COLL_RING_H

#include <stdbool.h>

#include "collectives/coll_file.h"

/*
 * Creates RUNDIR/JOB/PID.SOURCE.coll for the job of SHIFT_JOB, unless SHIFT_COLLECTIVES is "off",
 * or it is there already. rank: in the whole job, or -1. Returns whether there is a file. It is
 * removed when the process ends by exit().
 */
bool coll_open(const char *source, int rank);

struct coll_call {
	uint64_t comm, coll_seq, count, group;
	uint32_t element_bytes;
	int root;
	enum coll_op op;
	uint8_t flags;
	const char *dtype; /* COLL_DTYPE_BYTES, zeros behind the name; NULL: not known */
};

/* The launch of an operation. Returns its number + 1, for coll_end(); 0: it is not recorded. */
uint64_t coll_begin(const struct coll_call *call);

/* Its end. Nothing is done if that is 0, or if the entry has been used again meanwhile. */
void coll_end(uint64_t ticket);

/* Its end will not be known. */
void coll_forget(uint64_t ticket);

/* An operation on a communicator that is not known. */
void coll_stranger(void);

/* The index of a host's name; -1: there is no room. */
int coll_host(const char *name);

/* hosts: of each of its `size` ranks, by coll_host(); NULL: not known. False: it is not recorded.
 */
bool coll_comm_add(uint64_t id, uint32_t size, int rank, const uint32_t *hosts, bool is_world);

/* It is freed. Its slot may be used again when all others are in use. */
void coll_comm_remove(uint64_t id);

/* Clean end, as at exit(): removes the file. For tests. */
void coll_close(void);

#endif
