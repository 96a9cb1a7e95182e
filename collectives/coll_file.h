/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * RUNDIR/JOB/PID.mpi.coll, PID.nccl.coll: the collective operations of one process, its newest
 * ones, as a library that is preloaded beside libshift.so has seen them. It writes them through a
 * shared mapping (coll_ring.h). shift-diag reads them (coll_read.h), also after the process has
 * died.
 *
 * A header comes first, then tables, which a reader finds by their kinds. An entry may have more
 * fields than it knows, not fewer. Numbers have the byte order of the machine. Times are
 * CLOCK_MONOTONIC, in ns; the header has one moment by both clocks. The size of the file never
 * changes.
 */
#ifndef SHIFT_COLLECTIVES_COLL_FILE_H
#define SHIFT_COLLECTIVES_COLL_FILE_H

#include <stdint.h>

#define COLL_MAGIC  "shiftCO"
#define COLL_ENDING ".coll"

enum {
	COLL_VERSION = 1,
	COLL_HEADER_BYTES = 4096, /* the first table begins there */
	COLL_TABLES_MAX = 8,
	COLL_OPS_MAX = 4096, /* entries of the tables */
	COLL_COMMS_MAX = 256,
	COLL_HOSTS_MAX = 1024,
	COLL_MEMBERS_MAX = 32768,
	COLL_DTYPE_BYTES = 30, /* longer names are cut */
	COLL_HOST_BYTES = 64,
};

/* The names of shift-records(5). */
#define COLL_OPS(X)                       \
	X(ALLREDUCE, "allreduce")         \
	X(ALLGATHER, "allgather")         \
	X(REDUCESCATTER, "reducescatter") \
	X(BROADCAST, "broadcast")         \
	X(REDUCE, "reduce")               \
	X(ALLTOALL, "alltoall")           \
	X(BARRIER, "barrier")             \
	X(GATHER, "gather")               \
	X(SCATTER, "scatter")             \
	X(SCAN, "scan")

enum coll_op {
#define COLL_OP_ENUM(name, word) COLL_##name,
	COLL_OPS(COLL_OP_ENUM)
#undef COLL_OP_ENUM
		COLL_OPS_COUNT
};

#define COLL_NO_ROOT (-1)

/* The end is not recorded: an operation on a GPU's stream, or a request that was not followed. */
#define COLL_LAUNCH_ONLY 1

/* Of coll_entry.end: the operation of that number is under way. */
#define COLL_UNDER_WAY (1ULL << 63)

/* Of coll_entry.seq: it is being written. */
#define COLL_BUSY UINT64_MAX

/* Operation n is at n % entries. */
struct coll_entry {
	uint64_t seq;	   /* n + 1 */
	uint64_t comm;	   /* coll_comm.id */
	uint64_t coll_seq; /* counts those of the communicator, from 1 */
	uint64_t count;	   /* elements */
	uint64_t group;	   /* 0: none */
	uint64_t launch_ns;
	uint64_t end; /* ns, or COLL_UNDER_WAY | n */
	uint32_t element_bytes;
	int32_t root; /* or COLL_NO_ROOT */
	uint8_t op;   /* enum coll_op */
	uint8_t flags;
	char dtype[COLL_DTYPE_BYTES]; /* with a NUL; "": it is not known */
};

/* A communicator. */
struct coll_comm {
	uint64_t sequence; /* odd while it is changed */
	uint64_t id;	   /* the same at all its members; 0: a free slot */
	uint64_t made_ns;
	uint64_t freed_ns; /* 0: it is in use */
	uint32_t size;
	int32_t rank;	  /* of this process */
	uint32_t members; /* how many; 0: their hosts are not told */
	uint32_t first;	  /* of COLL_TABLE_MEMBERS: an index of COLL_TABLE_HOSTS for each rank */
	uint8_t is_world, unused[7];
};

enum coll_table_kind {
	COLL_TABLE_OPS = 1, /* a ring */
	COLL_TABLE_COMMS,
	COLL_TABLE_HOSTS,   /* char[COLL_HOST_BYTES] */
	COLL_TABLE_MEMBERS, /* uint32_t */
};

struct coll_table {
	uint32_t kind, version, entry_bytes, unused;
	uint64_t at, entries;
	uint64_t written; /* of the ring: entries ever begun; of others: entries in use */
};

struct coll_header {
	char magic[8];
	uint32_t version, header_bytes; /* version: last, readers refuse the file until then */
	uint32_t pid, tables;
	uint64_t start_ticks, pid_namespace; /* as of lib/stats/layout.h */
	uint64_t opened_ns, opened_real_ns;
	uint64_t closed_ns; /* clean end; 0: it runs, or crashed */
	char boot_id[40];
	char job[72], host[64], command[256];
	char source[16]; /* "mpi", "nccl" */
	int32_t rank;	 /* in the whole job; -1: not known */
	int32_t unused;
	uint64_t lost; /* operations that found their entry being written by another thread */
	uint64_t
		strangers; /* operations on communicators that are not known, and so not recorded */
	uint64_t untold;   /* communicators that found no room */
	struct coll_table table[COLL_TABLES_MAX];
};

_Static_assert(sizeof(struct coll_header) <= COLL_HEADER_BYTES, "the header has grown");
_Static_assert(sizeof(struct coll_entry) % 8 == 0 && sizeof(struct coll_comm) % 8 == 0,
	       "entries are read in words of 8 bytes");

#endif
