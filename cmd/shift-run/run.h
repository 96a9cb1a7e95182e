/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * shift-run: what its parts share. Everything that can be refused is refused before anything is
 * started; then exec replaces this program by the command.
 *
 *   run_options.c  the command line           settings.c  the library's settings
 *   target.c       can this be preloaded?     elf.c       the file of a program
 *   library.c      libshift.so                rails.c     the NICs
 *   job.c          the job's name             kv_spec.c   --kv
 *   access.c       the job key, and what etcd asks for
 *   rendezvous.c   the daemons of the job     kvd.c       this host's shift-kvd
 *   show.c         --dry-run, --check         exec.c      exec, or fork for --report
 *   report.c       --report                   launchers.c   ranks on other hosts
 *   collectives.c  --collectives
 */
#ifndef SHIFT_RUN_H
#define SHIFT_RUN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "common/cli.h"
#include "common/own_files.h"
#include "common/rails.h"
#include "kv/endpoint.h"
#include "kv/proto.h"

/* Documented in shift-run(1). */
enum exit_status {
	EXIT_OK = 0,
	EXIT_NO = 1, /* --check */
	EXIT_OURS = 125,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
};

/* ---- run_options.c ------------------------------------------------------------------------- */

struct options {
	char *kv;				 /* its user and password are taken out of it */
	const char *key_file, *job, *report;	 /* NULL: not given */
	const char *on_switch, *on_switch_limit; /* as shift-kvd takes them; NULL: not given */
	bool check, dry_run, json;
	int64_t wait_ms;
	char **command; /* NULL-terminated, not empty */
};

/* Ends the process if they make no sense, and for --help and --version. */
void run_options_parse(struct options *o, int argc, char **argv);

/* ---- settings.c ---------------------------------------------------------------------------- */

enum setting {
	SET_RAILS,
	SET_GIVE_UP,
	SET_FAILBACK,
	SET_LOG_LEVEL,
	SET_LOG_FILE,
	SET_LOST_ATOMIC,
	SET_ATOMICS,
	SET_COLLECTIVES,
	SET_TRACE,
	SETTINGS,
};

/* Sets it by its option. Ends the process if the words make no sense. */
void setting_give(enum setting s, const char *words);

/* The same for what is in the environment. */
void settings_check(void);

/* The value as the library reads it: from the option, else from the environment, else NULL. */
const char *setting_value(enum setting s);
const char *setting_variable(enum setting s);

/* The name of an option that differs from the setting in the environment, else NULL. */
const char *settings_conflict(void);

/* ---- target.c, elf.c ----------------------------------------------------------------------- */

struct target {
	char path[PATH_MAX];	/* of the file that is executed first */
	char program[PATH_MAX]; /* of the program that it comes to, behind #! lines and env */
	char why[PATH_MAX + 256];
};

/* 0: the command can be protected; else the exit status, and the reason in t->why. */
int target_check(char *const *command, struct target *t);

/* The command's path as execvp() finds it. 0, EXIT_NOT_FOUND or EXIT_NOT_EXECUTABLE. */
int find_command(const char *name, char path[PATH_MAX]);

/* NULL: a dynamic program for this machine; else the reason, a static text. */
const char *elf_refusal(const char *path);

/* ---- library.c ----------------------------------------------------------------------------- */

/* Finds it, and sees in a child that it can be loaded. Ends the process if not. */
const char *library_find(void);

/* Another library that is installed beside it; NULL: it was not built. As format_text(). */
const char *library_optional(const char *name);

/* The new value of LD_PRELOAD, which is appended to, never overwritten. As format_text(). */
char *library_preload(const char *library, const char *const *others, size_t count);

/* Is a libshift.so in LD_PRELOAD? */
bool library_is_active(void);

/* ---- collectives.c ------------------------------------------------------------------------- */

enum { COLLECTIVES_LIBRARIES_MAX = 3 };

/* The libraries that record collectives, by --collectives. Returns how many. Ends the process if
 * one that is asked for by name was not built. */
size_t collectives_libraries(const struct target *t, const char **libraries);

/* ---- rails.c ------------------------------------------------------------------------------- */

/* Ends the process if a device in it does not exist here. Warns if there is no backup. */
void rails_check(const char *words);
/* ---- job.c --------------------------------------------------------------------------------- */

/* --job, $SHIFT_JOB, the launcher's, or "default". Ends the process if that is no name. */
const char *job_name(const char *option);

/* ---- kv_spec.c ----------------------------------------------------------------------------- */

enum meeting_kind {
	MEET_HERE,  /* a private etcd, for this host only */
	MEET_URLS,  /* there is an etcd */
	MEET_START, /* the shift-run on that host starts it */
};

enum { NOTES_MAX = 4 };

struct meeting {
	enum meeting_kind kind;
	char urls[4096];   /* empty: not known yet */
	bool is_host;	   /* that host is this one: */
	char listen[2048]; /* ADDRESS:PORT[,ADDRESS:PORT...], all that HOST leads to here */
	char place[300];   /* MEET_START: HOST:PORT, as it was given */
	struct endpoint_user user;
	bool has_started_kvd;
	const char *notes[NOTES_MAX + 1]; /* what one process of this host is to say */
};

/*
 * Of --kv or $SHIFT_KV; NULL or empty: MEET_HERE. Resolves HOST. Takes USER:PASSWORD@ out of the
 * words. Ends the process on nonsense.
 */
void kv_spec_parse(struct meeting *m, char *words);

/* text: as of format_text(). */
void meeting_note(struct meeting *m, const char *text);
void meeting_say_notes(const struct meeting *m);

/* ---- access.c ------------------------------------------------------------------------------ */

enum access_file {
	ACCESS_CA,
	ACCESS_CERT,
	ACCESS_KEY,
	ACCESS_USER,
	ACCESS_FILES,
};

/* By its option. */
void access_give(enum access_file f, const char *path);

/* Takes the job key out of the environment. */
void access_take_key(void);

/*
 * Finds the job key and the files, here or in the environment. Ends the process if one of them
 * cannot be used. Leaves the user of a URL in the environment, for shift-kvd and for a shift-run on
 * another host.
 */
void access_prepare(struct meeting *m, const struct options *o);

/* NULL: none. The value is an absolute path. */
const char *access_value(enum access_file f);
const char *access_variable(enum access_file f);
const char *access_kvd_option(enum access_file f);

/* The file of the job key, for other hosts; NULL: it did not come from a file. */
const char *access_key_file(void);

/* NULL: there is none, and shift-kvd makes one. */
const uint8_t *access_job_key(void);
void access_forget_key(void);

/* Was anything given that a shift-kvd can have got wrong before? */
bool access_is_needed(const struct meeting *m);

/* ---- rendezvous.c, kvd.c ------------------------------------------------------------------- */

/*
 * Makes sure that this host's shift-kvd of the job runs and stays for this process, and waits for
 * it to reach etcd. Ends the process if there can be none; without etcd it says so and returns.
 */
void rendezvous_join(struct meeting *m, const struct options *o, const char *job);

struct kvd_state {
	char *endpoints; /* joined by commas */
	char *error;
	char *key_id;	      /* empty: it was given no key */
	char *on_switch;      /* its command; empty: none */
	char *on_switch_json; /* what has become of it; NULL: there is none */
	bool up;
	pid_t pid; /* of the process that listens, as the kernel says; 0: not to be seen from here
		    */
	int users; /* clients and holders, without ourselves */
};

/* Asks the shift-kvd for its state, and holds it. 0 or a negative errno; -ENOENT, -ECONNREFUSED:
 * there is none. */
int kvd_hold(const char *job, struct kvd_state *s);
void kvd_state_free(struct kvd_state *s);

/* Runs shift-kvd with these arguments (NULL-terminated, without its name) until it has detached
 * itself. Returns what it printed, to be freed; ends the process if it failed, with its reason. */
char *kvd_run(const char *const *arguments);

/* ---- exec.c -------------------------------------------------------------------------------- */

/* An environment variable for the command. */
struct variable {
	const char *name;
	char *value;
};

/* If a launcher has ignored SIGCHLD, the end of a child could not be seen. The command gets the
 * signal as it was. */
void wait_for_children(void);

/* Becomes the command. Returns an exit status only if that fails, after a message. */
int exec_command(char **command);

/* Runs it as a child; its wait status. */
int run_command(char **command);

/* Ends this process as the child has ended: with the same status, or by the same signal. */
_Noreturn void end_as(int wait_status);

/* ---- launchers.c ----------------------------------------------------------------------------- */

/* The one by which Open MPI's mpirun starts its daemons on other hosts under shift-run, with v, the
 * variables so far. No name: it is not needed, or not possible, or the user has set it. */
struct variable mpirun_variable(const struct variable *v, const struct meeting *m);

/* ---- show.c -------------------------------------------------------------------------------- */

struct plan {
	const struct options *o;
	const char *library, *job;
	const char **recorders; /* of collectives */
	size_t recorder_count;
	const struct target *target;
	const struct meeting *meeting;
	const struct variable *variables; /* ends with name of NULL */
};

void show_plan(const struct plan *p);
int show_check(const struct options *o, const struct target *t, int status, const char *library);

/* ---- report.c ------------------------------------------------------------------------------ */

struct run_report {
	const char *file, *job;
	char *dir; /* where each process leaves its statistics; made by report_begin() */
	char **command;
	struct timespec begun, ended;
	int wait_status;
};

/* Makes the directory, and sees that the file can be written. Ends the process if not. */
void report_begin(struct run_report *r);

/* Writes the file and removes the directory. */
void collect_report(struct run_report *r);

#endif
