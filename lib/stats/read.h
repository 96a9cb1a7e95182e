/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Reads the statistics of a process, for the tools. The file belongs to another process, which may
 * be writing it at that moment, may have died in the middle of a change, or may be of another
 * version; for root it may be made by a user who wants to deceive. So the reader checks all that it
 * reads. It does not map the file, as a file that is cut
 * short meanwhile would end the reader by SIGBUS.
 *
 * For any thread, no lock, no state. A read waits up to 200 ms for a process that is amid a change,
 * and 2 ms for another user's.
 */
#ifndef SHIFT_STATS_READ_H
#define SHIFT_STATS_READ_H

#include <sys/types.h>

#include "lib/stats/layout.h"

enum stats_life {
	STATS_RUNNING,
	STATS_ENDED,   /* cleanly */
	STATS_DEAD,    /* without an end: the process is gone, or another has its number */
	STATS_UNKNOWN, /* its process belongs to another host or container */
};

/* What a file said at one moment. */
struct stats_copy {
	struct stats_header h; /* its texts are terminated, but may contain anything */
	uid_t owner;	       /* of the file */
	enum stats_life life;
	bool torn; /* some part was amid a change all the time: the process died there */
	struct stats_conn *conns;
	size_t conn_count;	/* live ones only */
	struct stats_srq *srqs; /* live ones only */
	size_t srq_count;
	struct stats_event *events;
	size_t event_count; /* oldest first; .seq - 1 is the number of an event */
	uint64_t events_written;
	struct stats_switch *switches;
	size_t switch_count;
	uint64_t switches_written;
	/* Of error completions, asynchronous events and the lives of QPs; the same. */
	struct stats_notes {
		struct stats_note *note;
		size_t count;
		uint64_t written;
	} errors, asyncs, lives;
};

/*
 * Fills copy from a file of this user; the caller empties it by stats_free(), but not after an
 * error. 0, or a negative errno: -EBADMSG: this is no file of statistics, -EPROTONOSUPPORT: it is
 * of another version, -EAGAIN: it is just being made, -EPERM: it belongs to another user, -ESRCH:
 * it claims to be of a process that is another user's, -EMFILE and others: whether its process
 * lives cannot be found out.
 */
int stats_read(const char *path, struct stats_copy *copy);

/* The same from a file that must belong to that user (lib/stats/places.h tells which): for root. */
int stats_read_of(uid_t owner, const char *path, struct stats_copy *copy);

/* The same from any file. */
int stats_read_fd(int fd, struct stats_copy *copy);

/* Fill only .h, .owner and .life: nothing to free. From a file of this user, or of that one. */
int stats_read_header(const char *path, struct stats_copy *copy);
int stats_read_header_of(uid_t owner, const char *path, struct stats_copy *copy);
void stats_free(struct stats_copy *copy);

/*
 * Whether the process of a header lives, of which this uses pid, start_ticks, pid_namespace, host
 * and boot_id. STATS_ENDED is not for this to say. 0, or a negative errno: it cannot be found out,
 * so nothing may be done as if it were dead.
 */
int stats_find_life(const struct stats_header *h, enum stats_life *life);

/* -ESRCH: that running process is not the owner's. 0 also if it has just ended. */
int stats_check_process(uint32_t pid, uid_t owner);

/* The memory that it takes. */
size_t stats_copy_bytes(const struct stats_copy *copy);

/* The counters of all connections, also of those that are gone. */
struct shift_conn_stats stats_sum(const struct stats_copy *copy);

/* The counters of all shared receive queues, also of those that are gone. */
struct shift_srq_stats stats_sum_srqs(const struct stats_copy *copy);

/* Are these headers of one process, read at two times or in two places? */
bool stats_same_process(const struct stats_header *a, const struct stats_header *b);

/* A time in that file as CLOCK_REALTIME, ns. */
uint64_t stats_real_ns(const struct stats_copy *copy, uint64_t time_ns);

#endif
