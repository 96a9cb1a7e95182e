/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-inject: what its commands share. */
#ifndef SHIFT_INJECT_COMMAND_H
#define SHIFT_INJECT_COMMAND_H

#include "common/cli.h"
#include "faultinject/inject.h"

/* What a fault was asked for, checked. Ends the process on anything that is not understood. */
void fault_options_parse(const struct fault *fault, struct inject_options *o, int argc,
			 char **argv);

/* Would fault_options_parse() take them? If not, why; --help is not to be among them. */
bool fault_options_try(const struct fault *fault, int argc, char **argv, char *wrong, size_t bytes);

/* At which of the words fault_options_parse() was, or has ended; NULL: at none in particular. */
const char *fault_options_word(void);

/* Does the fault take an option of exactly that name? getopt takes abbreviations too. */
bool fault_options_has(const struct fault *fault, const char *name);

/* --- other hosts, host.c --------------------------------------------------------------------- */

struct host {
	char testbed[64], name[128];
	bool is_ssh, is_here;
};

/* What --host says; ends the process if there is no such host. */
void host_find(const char *words, struct host *h);

/* Runs shift-inject with these words there until it ends, we get a signal or, until_eof, our
 * standard input ends; its exit status. */
int host_run(const struct host *h, char *const words[], bool until_eof);

/* Starts it. It ends when hold is closed; out: where its output goes, or -1. Its process here. */
pid_t host_start(const struct host *h, char *const words[], int out, int *hold);

/* Of waitpid() to an exit status, with a message if it was not shift-inject that failed. */
int host_status(const struct host *h, int status);

/* Standard output of a command there, to be freed; NULL: it failed. */
char *host_output(const struct host *h, char *const words[]);

/* argv[0] is what getopt's messages begin with: "shift-inject: loss". */
int cmd_fault(const struct fault *fault, int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_undo(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_random(int argc, char **argv);

/* --- scenarios ------------------------------------------------------------------------------- */

struct scenario;
struct play_options {
	const char *testbed; /* whose hosts are meant; NULL: as --host says it */
	bool json, dry_run;
};

/* Ends the process on anything wrong in it. */
void scenario_load(const char *path, struct scenario *s);

/* Carries it out; a status for exit(). */
int scenario_play(struct scenario *s, const struct play_options *o);

/* shift-ctl as that host has it. Valid until the next call. */
char *ctl_path(const struct host *h);

/* What protected programs of these hosts did, by shift-ctl there. */
struct watch;
struct watch *watch_begin(const struct host *hosts, int count);
/* Are all connections home? */
bool watch_is_home(struct watch *w);
struct expectation;
/* Was it as expected since the beginning; found: what it was. home_us: since the last fault's end
 * until all were home, -1: never. */
bool watch_check(struct watch *w, const struct expectation *e, int64_t home_us, char found[160]);
void watch_free(struct watch *w);

#endif
