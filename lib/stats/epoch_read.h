/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Reads a file of epochs (epoch_file.h), for the tools. All that is read is checked, and nothing is
 * mapped. For any thread, no lock, no state, no waiting.
 */
#ifndef SHIFT_STATS_EPOCH_READ_H
#define SHIFT_STATS_EPOCH_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/stats/epoch_file.h"
#include "lib/stats/read.h"

/* What a file said at one moment. Texts are terminated, but may contain anything. */
struct epoch_copy {
	struct epoch_header h;
	enum stats_life life;
	uint64_t read_ns;
	struct epoch_run *runs; /* the newest ones, the oldest first; epochs is not 0 */
	size_t count;
	uint64_t lost; /* of all that were written */
};

/* The file must belong to that user. 0, and the caller frees the copy; -EAGAIN: it is just being
 * made; -EBADMSG: it is no such file; -EPROTONOSUPPORT: of another version; -EPERM, -ESRCH: it is
 * not what it claims; or another negative errno. */
int epoch_read_of(uid_t owner, const char *path, struct epoch_copy *copy);

/* Only .h and .life: nothing to free. */
int epoch_read_header_of(uid_t owner, const char *path, struct epoch_copy *copy);

/*
 * So many runs had been begun before the ring was read, and behind it. Those from *first on and
 * before `before` were not written over meanwhile: one more may be on its way. They fit into the
 * ring. false: there are less than there were, so the file is not what a process of ours writes.
 */
bool epoch_runs_kept(uint64_t before, uint64_t after, uint64_t *first);

size_t epoch_copy_bytes(const struct epoch_copy *copy);

void epoch_free(struct epoch_copy *copy);

#endif
