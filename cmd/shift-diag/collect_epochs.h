/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Runs of a ring (lib/stats/epoch_file.h) as the traffic of one queue pair after the other, epoch
 * by epoch. Pure; any thread. Ends the process if there is no memory.
 */
#ifndef SHIFT_DIAG_COLLECT_EPOCHS_H
#define SHIFT_DIAG_COLLECT_EPOCHS_H

#include <stddef.h>
#include <stdint.h>

#include "lib/stats/epoch_file.h"

enum {
	/* A file that its owner has made up could say of more than there is memory for. */
	EPOCHS_TOLD_MAX = 1 << 22,
	/* For another shift-diag, which waits for all processes of a host: 3 to 25 MB of text each.
	 */
	EPOCHS_STREAM_MAX = 1 << 18,
	EPOCHS_GAP = 8, /* so many without traffic, and another record begins */
	EPOCHS_RECORD_MAX = 4096,
};

/* What a queue pair did in one epoch. */
struct told_epoch {
	uint64_t qp, epoch;
	uint64_t bytes, wr, wc;
};

/* By queue pairs, and the epochs of each in order, each once. *told is to be freed. Returns how
 * many. *lost: of the runs, the oldest of which are left out if there are more than max epochs. */
size_t epochs_tell(const struct epoch_run *runs, size_t n, size_t max, struct told_epoch **told,
		   uint64_t *lost);

/* What room they take then. */
size_t epochs_told_bytes(const struct epoch_run *runs, size_t n);

/* How many of them, from the first, make one record. n is not 0. */
size_t epochs_of_record(const struct told_epoch *t, size_t n);

#endif
