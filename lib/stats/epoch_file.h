/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * RUNDIR/JOB/PID.epochs: what the queue pairs of one process have sent, by short epochs of time
 * (SHIFT_TRACE=epochs). The process writes it through a shared mapping (epochs.h). shift-diag reads
 * it (epoch_read.h), also after the process has died.
 *
 * A header, and behind it a ring. Numbers have the byte order of the machine. Times are
 * CLOCK_MONOTONIC, in ns; the header has one moment by both clocks. The size of the file never
 * changes.
 */
#ifndef SHIFT_STATS_EPOCH_FILE_H
#define SHIFT_STATS_EPOCH_FILE_H

#include <stdint.h>

#define EPOCH_MAGIC  "shiftEP"
#define EPOCH_ENDING ".epochs"

enum {
	EPOCH_VERSION = 1,
	EPOCH_HEADER_BYTES = 4096, /* the ring begins there */
	EPOCH_RUNS = 1 << 19,	   /* its entries: 20 MiB */
};

/* What a queue pair did in some successive epochs, in each of them as much. Runs of one queue pair
 * may overlap: then both count. */
struct epoch_run {
	uint64_t qp;	/* its number, as of the statistics (lib/stats/layout.h) */
	uint64_t first; /* epoch 0 began at opened_ns */
	uint64_t bytes; /* in all of them */
	uint32_t epochs;
	uint32_t wr; /* work requests that were posted */
	uint32_t wc; /* that were retired, also without a completion of their own */
	uint32_t unused;
};

struct epoch_header {
	char magic[8];
	uint32_t version, header_bytes; /* version: last, readers refuse the file until then */
	uint32_t pid, run_bytes;
	uint64_t start_ticks, pid_namespace; /* as of lib/stats/layout.h */
	uint64_t opened_ns, opened_real_ns;
	uint64_t closed_ns; /* clean end; 0: it runs, or crashed */
	char boot_id[40];
	char job[72], host[64];
	uint64_t epoch_ns;
	uint64_t runs;	  /* entries of the ring: run n is at n % runs */
	uint64_t written; /* runs ever begun. The newest ones may still be added to */
	uint64_t unknown; /* work requests of queue pairs that were not followed, for lack of memory
			   */
};

_Static_assert(sizeof(struct epoch_header) <= EPOCH_HEADER_BYTES, "the header has grown");
_Static_assert(sizeof(struct epoch_run) == 40, "the ring has the size that is said");

#endif
