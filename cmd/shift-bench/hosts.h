/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Two hosts, always through shift-testbed: guests and real machines are one way. Programs run with
 * bounded time and their output is captured. The client is host a, the server host b.
 */
#ifndef SHIFT_BENCH_HOSTS_H
#define SHIFT_BENCH_HOSTS_H

#include <sys/types.h>

#include "cmd/shift-bench/sample.h"

enum host { HOST_A, HOST_B, HOSTS };
enum { BACKUPS_MAX = 2 };

/* One program; also one of this machine. */
struct run {
	pid_t pid; /* 0: it has ended */
	int out, err,
		status; /* status: as a shell says it; shift-testbed exec has its own 124..127 */
	int64_t deadline_ms;
};

struct hosts {
	char *tool;	/* shift-testbed */
	char *name;	/* of the testbed */
	pid_t guardian; /* ends an own testbed when we end, however; 0: it is not ours */
	int guardian_fd;
	char *nic[HOSTS];
	long gid_index[HOSTS];
	char *backup[HOSTS][BACKUPS_MAX];	    /* the NICs of rails 1 and 2, or NULL */
	long backup_gid_index[HOSTS];		    /* of rail 1 */
	char *shift_run;			    /* there */
	char *shift_ctl, *shift_inject, *integrity; /* for commands that make faults, or NULL */
	char *idle_qps, *train_steps;		    /* for one command each, or NULL */
	char *peer;				    /* b's address, as a reaches it */
	char *job, *kv;				    /* a job of its own for each call */
	struct run meeting[HOSTS]; /* holds the job's daemons from the first run to the last */
};

/*
 * Finds or starts the testbed, looks whether both hosts have perftest and, for runs with shift,
 * shift-run in this program's version, and says so in r. EXIT_OK, or the exit status after one line
 * that says what is wrong. hosts_close() in any case.
 */
int hosts_open(struct hosts *h, struct results *r);
void hosts_close(struct hosts *h);

/* EXIT_OK: the programs that make faults are there, or EXIT_MISSING after a line. */
int hosts_need_faults(const struct hosts *h);

/* The same of one program: name is what the line calls it. */
int hosts_need(const char *program, const char *name);

/* Are both still there? EXIT_OK, or EXIT_HOST after one line. */
int hosts_check(const struct hosts *h);

const char *host_name(enum host host); /* "a", "b" */

/* ---- one program ---------------------------------------------------------------------------- */

/* words ends with NULL and begins with a path. False: no process could be made, which was said.
 * run_free() in any case. */
bool process_start(struct run *run, char **words);

/* In a host; argv ends with NULL. It is ended after limit_ms. */
bool run_start(struct run *run, const struct hosts *h, enum host host, const char *const *argv,
	       int64_t limit_ms);

/* Waits for its end, not beyond its limit; an interrupt ends the program. */
void run_wait(struct run *run);
bool run_alive(struct run *run);

/* Asks it to end, and waits. */
void run_stop(struct run *run);

/* A limit_ms that is none. */
enum { RUN_FOR_EVER_MS = INT32_MAX / 2 };

/* Calls take for each line of its output that is whole, and behind *from, which begins with 0. */
void run_lines(const struct run *run, off_t *from, void (*take)(void *what, char *line),
	       void *what);

/* What it said, whole; the caller frees it. */
char *run_output(const struct run *run);
char *run_errors(const struct run *run);
void run_free(struct run *run);

/* The three at once; the caller frees both texts. Returns the status. */
int host_runs(const struct hosts *h, enum host host, const char *const *argv, int64_t limit_ms,
	      char **out, char **err);

/* ---- a server and its client ---------------------------------------------------------------- */

struct pair_words {
	const char *const
		*words[HOSTS]; /* of the client and the server, each with NULL at the end */
	const char *const *environment; /* K=V for both if with_shift; NULL at the end */
	bool with_shift;
	bool unknown_job; /* protection_of() */
	long port; /* on which the server listens; 0: that is not known, and not waited for */
	int64_t limit_ms;
	/* NULL, or what happens while both run; returns as soon as it is over, or an interrupt
	 * came. */
	void (*meanwhile)(void *what, struct run runs[HOSTS]);
	void *what;
	long results_up_to; /* exit statuses up to this are results of the program; usually 0 */
};

struct pair_outcome {
	char *out[HOSTS], *err[HOSTS];
	struct away away; /* from the client's start to its end */
	int status[HOSTS];
	bool unknown_job;     /* of pair_words */
	cJSON *report[HOSTS]; /* with shift, what shift-run --report wrote; or NULL */
	const char *failure;  /* NULL: both succeeded; lives as long as the process */
};

/* "host a: status 3: the last line that it said". As format_text(). */
const char *pair_reason(const struct pair_outcome *out, enum host host);

/* With shift, also if a connection was not protected. Adds "protection" to the detail. */
void pair_protection(struct pair_outcome *out, bool with_shift, cJSON **detail);

/* EXIT_OK also if the programs failed; else the hosts are gone, or we are to end: the whole ends
 * with this status. pair_free() in any case. */
int pair_run(struct hosts *h, const struct pair_words *w, struct pair_outcome *out);
void pair_free(struct pair_outcome *out);

/* A program's words behind shift-run, or alone. report: of shift-run, or NULL. The caller frees the
 * array. */
const char **words_under(const struct hosts *h, const char *const *environment, bool with_shift,
			 const char *report, const char *const *own);

/* False: nobody listens on that port, half a minute later. */
bool host_listens(const struct hosts *h, enum host host, long port);

/* What shift-ctl says of the job there; it is ours, so its connections are our programs'. NULL: it
 * does not answer. */
cJSON *job_status(const struct hosts *h, enum host host);

#endif
