/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The protected processes of this host, for shift-ctl and shift-diag: found, read and shown. One
 * thread. */
#ifndef SHIFT_LIVE_H
#define SHIFT_LIVE_H

#include <stdbool.h>

#include "common/cli.h"
#include "lib/stats/json.h"
#include "lib/stats/places.h"

/* Which of them. */
struct live_select {
	const char *job; /* NULL: all */
	pid_t pid;	 /* 0: all */
};

/* --job and --pid. End the process with that status if the text is none. */
const char *live_parse_job(const char *s, int status);
pid_t live_parse_pid(const char *s, int status);

/* A file, read; crash records and others'. */
struct process {
	struct process *next;
	struct stats_copy copy;
	char *path;
	bool is_crash;
};

struct processes {
	struct process *first; /* in the order of their paths, crash records last */
	struct stats_cut cut;
	size_t refused; /* files that could not be used */
};

/* Says what could not be read, and, the first time, of whom not everything was. headers_only: as
 * stats_read_header(). The caller frees it. */
struct processes processes_read(const struct live_select *which, bool headers_only);
void processes_free(struct processes *found);
void process_free(struct process *p); /* that is in no list */

/* Adds "complete", and "cut_uids": those of whom not everything was read. */
void processes_add_cut(cJSON *o, const struct stats_cut *cut);

/* Ends with "no protected process of job j runs here", for the processes that were asked for. */
_Noreturn void die_none(const struct live_select *which, int status);

/* "38.2 ms"; at most 15 bytes with the NUL. */
const char *show_ns(char *text, uint64_t ns);

/* "node1/282", or the address; "-": it is not known. Returns to, or a static text. */
const char *live_peer(char *to, size_t bytes, const struct stats_conn *c);

/* Prints and frees. */
void live_print_json(cJSON *o, bool one_line);

/* Each process with its connections. */
void live_show_status(const struct processes *found, const struct live_select *which, bool json);

/* The same of what is there now. Ends the process with that status if some were asked for by
 * name and there is none. Returns whether all could be written. */
bool live_status(const struct live_select *which, bool json, int none_status);

/* "10.0.1.2/18": the peer of the QP of a note; "-": it is not known. Returns to, or a static text.
 */
const char *live_note_peer(char *to, size_t bytes, const struct stats_copy *copy,
			   const struct stats_note *n);

/* A note as a line, with its end. */
void live_show_error(const struct stats_copy *copy, const struct stats_note *n);
void live_show_async(const struct stats_copy *copy, const struct stats_note *n);
void live_show_life(const struct stats_copy *copy, const struct stats_note *n);

struct live_how {
	bool json;
	bool follow; /* until interrupted, or until the process of which->pid has ended */
	bool lives;  /* of all queue pairs, too */
};

/* What happened. The rest is as for live_status(). */
bool live_events(const struct live_select *which, const struct live_how *how, int none_status);

/* Sets a flag at SIGINT and SIGTERM instead of ending. */
void live_catch_end(void);
bool live_is_interrupted(void);

#endif
