/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the parts of the writer share: file.c (the file), stats.c (slots), switch.c (records). */
#ifndef SHIFT_STATS_WRITER_H
#define SHIFT_STATS_WRITER_H

#include <pthread.h>
#include <sys/types.h>

#include "lib/stats/stats.h"

struct stats_file {
	pthread_mutex_t lock; /* leaf; around every change */
	struct stats_header *h;
	struct stats_conn *conns;
	struct stats_event *events;
	struct stats_switch *switches;
	pid_t owner;
	size_t conns_ready; /* slots that have memory: writing there cannot raise SIGBUS */
	uint64_t last_id;
	dev_t dev;
	ino_t ino;
	char path[128];
};

extern struct stats_file stats_file;

/* The lock, if there is a file of this process: else false, and nothing is locked. */
bool stats_lock(void);
void stats_unlock(void);

/* Around changes of what readers may look at meanwhile. */
static inline void stats_write_begin(uint64_t *sequence)
{
	__atomic_fetch_add(sequence, 1, __ATOMIC_ACQ_REL);
}

static inline void stats_write_end(uint64_t *sequence)
{
	__atomic_fetch_add(sequence, 1, __ATOMIC_RELEASE);
}

/* Clocks are read before the lock is taken: what another thread noted may be later than now. */
static inline uint64_t stats_since(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* Memory for more slots. 0, or a negative errno: the file system is full, or the file is gone. */
int stats_grow(void);

/* At most STATS_NIC_BYTES - 1, the rest zeros. */
void stats_copy_name(char *to, size_t bytes, const char *from);

/* Locked; c is between stats_write_begin and _end. */
void stats_switch_change(struct stats_conn *c, const struct shift_action *report,
			 const struct shift_conn_view *view, const struct shift_conn_stats *stats,
			 uint64_t now_ns);

/* A fault that was not repeated for so long is over. */
#define STATS_FAULT_GAP_NS 2000000000ull

#endif
