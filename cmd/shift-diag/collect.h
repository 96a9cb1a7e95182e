/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-diag collect: the processes of this host as files of shift-records(5). One thread. */
#ifndef SHIFT_DIAG_COLLECT_H
#define SHIFT_DIAG_COLLECT_H

#include <stdbool.h>
#include <stdio.h>

#include "cmd/live/live.h"
#include "collectives/coll_read.h"
#include "lib/stats/epoch_read.h"
#include "lib/stats/read.h"

enum { COLLECTED_COLLS_MAX = 4 };

/* What is known of one process. At least one of the three is there. */
struct collected {
	struct collected *next;
	uid_t owner;		  /* of its files */
	struct stats_copy *stats; /* NULL: it has opened no RDMA device */
	struct coll_copy *coll[COLLECTED_COLLS_MAX];
	unsigned int colls;
	struct epoch_copy *epochs; /* NULL: its traffic is not recorded */
};

/* Whose they are. Texts live as long as what they were taken from. */
struct collected_process {
	uid_t owner;
	uint32_t pid;
	uint64_t start_ticks, pid_namespace;
	const char *boot_id, *job, *host;
};

struct collected_process collected_process(const struct collected *c);

/* The processes of this host, and those that have died and left something. */
struct collection {
	struct collected *first, **end;
	struct processes found;
	struct stats_cut cut, epochs_cut; /* of files of collectives, of traffic */
	size_t refused;
};

/* Says on standard error what could not be read. The caller frees it. */
void collection_read(struct collection *all, const struct live_select *which);
bool collection_is_whole(const struct collection *all);
void collection_free(struct collection *all);

/*
 * Writes all of them one behind the other; each begins with its header. The last line is
 * {"record":"end","files":N,"whole":BOOL}: without it the stream was cut off. False: not all could
 * be written.
 */
bool collection_write(FILE *out, const struct collection *all);

/* Writes its records, of traffic at most so many epochs. False: not all could be written. */
bool collect_write(FILE *out, const struct collected *c, size_t epochs_max);

#endif
