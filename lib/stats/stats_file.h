/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The file of this process, for the parts of the writer: stats.c (slots, totals, flight recorder),
 * srq_stats.c (shared receive queues), switch_record.c (records of switches) and notes.c (notes of
 * queue pairs). stats.h has what the library calls.
 *
 * There is one file in a process and one lock, a leaf: nothing else is locked while it is held. All
 * that the mapping contains is written under that lock alone. The mapping is never undone, as a
 * thread may be on its way into it at the end of the process.
 */
#ifndef SHIFT_STATS_STATS_FILE_H
#define SHIFT_STATS_STATS_FILE_H

#include <pthread.h>
#include <sys/types.h>

#include "lib/stats/stats.h"

/* The rings of notes, in the order of their tables. */
enum stats_note_kind { STATS_NOTE_ERROR, STATS_NOTE_ASYNC, STATS_NOTE_LIFE, STATS_NOTE_KINDS };

/* Where the tables are in header.table. */
enum {
	TABLE_EVENTS,
	TABLE_SWITCHES,
	TABLE_CONNS,
	TABLE_SRQS,
	TABLE_NOTES,
	TABLES = TABLE_NOTES + STATS_NOTE_KINDS
};

extern const uint64_t stats_note_room[STATS_NOTE_KINDS]; /* entries of each ring */

struct stats_file {
	pthread_mutex_t lock;	/* leaf; around every change */
	struct stats_header *h; /* the mapping; NULL: there is no file */
	struct stats_conn *conns;
	struct stats_event *events;
	struct stats_switch *switches;
	struct stats_srq *srqs;
	struct stats_note *notes[STATS_NOTE_KINDS];
	pid_t owner;	    /* a child of fork() has the mapping too, and may not write */
	size_t conns_ready; /* slots that have memory: writing there cannot raise SIGBUS */
	uint64_t last_id, last_srq_id;
	dev_t dev; /* of our file: path may be another's by now */
	ino_t ino;
	char path[128];
};

extern struct stats_file stats_file;

/* Takes the lock. False: this process has no file, and nothing is locked. */
bool stats_lock(void);
void stats_unlock(void);

/* Around a change of what other processes may read at the same time. */
static inline void stats_write_begin(uint64_t *sequence)
{
	__atomic_fetch_add(sequence, 1, __ATOMIC_ACQ_REL);
}

static inline void stats_write_end(uint64_t *sequence)
{
	__atomic_fetch_add(sequence, 1, __ATOMIC_RELEASE);
}

/* Callers read the clock before they take the lock: what another thread noted may be later than
 * their now. */
static inline uint64_t stats_since(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* Locked: takes memory for more slots. 0, or a negative errno: the file system is full, or the file
 * is gone. */
int stats_grow(void);

/* Copies at most bytes - 1 characters and fills the rest with zeros. from may be NULL. */
void stats_copy_name(char *to, size_t bytes, const char *from);

/* Locked, as the file was just made: no QP is known. Also in a child of fork(), where the parent's
 * are forgotten, and their memory with them. */
void stats_forget_qps(void);

#endif
