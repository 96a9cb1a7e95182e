/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Reading the statistics of processes, for the tools. The files belong to others, who may write
 * them at that moment, have died amid a change, or be of another version: nothing in them is
 * believed, and nothing is mapped (a file cut short would end the reader).
 */
#ifndef SHIFT_STATS_READ_H
#define SHIFT_STATS_READ_H

#include <sys/types.h>

#include "lib/stats/layout.h"

enum stats_life {
	STATS_RUNNING,
	STATS_ENDED,   /* cleanly */
	STATS_DEAD,    /* its process is gone, or another has its number; it did not say so */
	STATS_UNKNOWN, /* of another host or container */
};

/* What a file said at one moment. */
struct stats_copy {
	struct stats_header h; /* its texts are terminated, and printable */
	enum stats_life life;
	bool torn; /* something was amid a change all the time: it died there */
	struct stats_conn *conns;
	size_t conn_count; /* live ones only */
	struct stats_event *events;
	size_t event_count; /* oldest first; .seq - 1 is the number of an event */
	uint64_t events_written;
	struct stats_switch *switches;
	size_t switch_count;
	uint64_t switches_written;
};

/*
 * Fills copy, which stats_free() empties. 0; -EBADMSG: not such a file; -EPROTONOSUPPORT: of
 * another version; -EAGAIN: it is just being made; or another negative errno. Nothing is to
 * be freed after an error.
 */
int stats_read(const char *path, struct stats_copy *copy);
int stats_read_fd(int fd, struct stats_copy *copy);

/* Only .h and .life. Nothing is to be freed. */
int stats_read_header(const char *path, struct stats_copy *copy);
void stats_free(struct stats_copy *copy);

/* All counters, of the connections that are gone too. */
struct shift_conn_stats stats_sum(const struct stats_copy *copy);

/* The same file at two times, or places. */
bool stats_same_process(const struct stats_header *a, const struct stats_header *b);

/* A time of that process as CLOCK_REALTIME, ns. */
uint64_t stats_real_ns(const struct stats_copy *copy, uint64_t time_ns);

/*
 * Calls fn for every file that there is: of a job (NULL: all), of a pid (0: all), and crash
 * records. Looks where this user's processes have theirs; for root also where other users' may be;
 * in $SHIFT_RUN_DIR alone if that is set. Crash records come last: a file that becomes one at that
 * moment is found twice rather than never. Returns how many calls returned true.
 */
struct stats_place {
	const char *path, *job;
	pid_t pid;
	bool is_crash;
};
size_t stats_each(const char *job, pid_t pid,
		  bool (*fn)(void *arg, const struct stats_place *place), void *arg);

#endif
