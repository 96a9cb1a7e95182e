/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-inject: what its commands share. */
#ifndef SHIFT_INJECT_COMMAND_H
#define SHIFT_INJECT_COMMAND_H

#include "common/cli.h"
#include "faultinject/inject.h"

/* Reads and checks the options of a fault. Ends the process on anything that is not understood. */
void fault_options_parse(const struct fault *fault, struct inject_options *o, int argc,
			 char **argv);

/* Would fault_options_parse() accept them? If not, wrong says why. --help must not be among
 * them. */
bool fault_options_try(const struct fault *fault, int argc, char **argv, char *wrong, size_t bytes);

/* The word at which fault_options_parse() is, or has ended; NULL: none in particular. */
const char *fault_options_word(void);

/* Does the fault take an option of exactly that name? getopt takes abbreviations too. */
bool fault_options_has(const struct fault *fault, const char *name);

/* --- other hosts, host.c --------------------------------------------------------------------- */

struct host {
	char testbed[64], name[128];
	bool is_ssh, is_here;
};

/* Finds the host that --host names; ends the process if there is none. */
void host_find(const char *words, struct host *h);

/* Runs shift-inject with these words on that host until it ends, this process gets a signal or,
 * with until_eof, standard input ends. Returns its exit status. */
int host_run(const struct host *h, char *const words[], bool until_eof);

/* Starts it. It ends when *hold is closed. out: where its output goes, or -1. Returns its local
 * process. */
pid_t host_start(const struct host *h, char *const words[], int out, int *hold);

/* Turns the status of waitpid() into an exit status, with a message if something other than shift-
 * inject failed. */
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
	const char *testbed; /* to which the hosts belong; NULL: names as for --host */
	bool json, dry_run;
};

/* Ends the process on anything wrong in it. */
void scenario_load(const char *path, struct scenario *s);

/* Carries it out; a status for exit(). */
int scenario_play(struct scenario *s, const struct play_options *o);

/* shift-ctl as that host has it. Valid until the next call. */
char *ctl_path(const struct host *h);

/* Watches what the protected programs of these hosts do, with shift-ctl. */
struct watch;
struct watch *watch_begin(const struct host *hosts, int count);
/* Are all connections on the NIC that their program chose? */
bool watch_is_home(struct watch *w);
struct expectation;
/* Is the expectation met since watch_begin()? found: what happened. home_us: from the end of the
 * last fault until all connections were back on rail 0; -1: they are not. */
bool watch_check(struct watch *w, const struct expectation *e, int64_t home_us, char found[160]);
void watch_free(struct watch *w);

#endif
