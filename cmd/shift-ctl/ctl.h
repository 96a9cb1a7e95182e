/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-ctl: what its commands share. */
#ifndef SHIFT_CTL_H
#define SHIFT_CTL_H

#include <stdbool.h>

#include "common/cli.h"
#include "lib/stats/json.h"
#include "lib/stats/places.h"

/* Documented in shift-ctl(1). */
enum exit_status {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_BAD_USAGE = 2,
	EXIT_NONE = 3,
};

struct ctl_options {
	const char *job; /* NULL: all */
	pid_t pid;	 /* 0: all */
	const char *nic; /* NULL: none was named */
	bool json, follow;
};

/*
 * --job, --pid, --json and --help for every command; allowed: "f" --follow, "n" --nic. Ends the
 * process on anything else.
 */
void ctl_options_parse(struct ctl_options *o, const char *allowed, const char *text, int argc,
		       char **argv);

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
};

/* Says what could not be read, and, the first time, of whom not everything was. headers_only: as
 * stats_read_header(). The caller frees it. */
struct processes processes_read(const struct ctl_options *o, bool headers_only);
void processes_free(struct processes *found);

/* Adds "complete", and "cut_uids": those of whom not everything was read. */
void processes_add_cut(cJSON *o, const struct stats_cut *cut);

/* Ends with "no protected process of job j runs here", for the processes that were asked for. */
_Noreturn void die_none(const struct ctl_options *o);

/* Sends a line to every running process, and prints the answers. Returns an exit status. */
int ask_all(const struct ctl_options *o, const char *line);

/* "38.2 ms"; at most 15 bytes with the NUL. */
const char *show_ns(char *text, uint64_t ns);

/* Prints and frees. */
void ctl_print_json(cJSON *o, bool one_line);

int cmd_status(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_migrate(int argc, char **argv);
int cmd_failback(int argc, char **argv);

#endif
