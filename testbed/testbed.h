/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-testbed: what its commands, its supervisor and its kinds of host share. */
#ifndef SHIFT_TESTBED_H
#define SHIFT_TESTBED_H

#include <limits.h>
#include <sys/types.h>

#include "common/cli.h"
#include "testbed/chan.h"

struct cJSON;

/* Documented in shift-testbed(1). exec has its own: 124 to 127, as timeout(1) and env(1) do. */
enum exit_status {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_BAD_USAGE = 2,
	EXIT_NOT_UP = 3,
	EXIT_NAME_TAKEN = 4,
	EXIT_MISSING = 5,     /* a program or a package */
	EXIT_NO_RESOURCE = 6, /* memory or disk */
	EXIT_TIMED_OUT = 124,
	EXIT_EXEC_FAILED = 125,
};

enum {
	MAX_RAILS = 8,
	MAX_SHARES = 8,
	MAX_HOSTS = 2,
};

enum layout { LAYOUT_PAIR, LAYOUT_SINGLE, LAYOUT_SSH };

/* One real machine, from the configuration file. Strings are empty where nothing is set. */
struct ssh_host {
	char name[64], address[256], user[64], port[8], identity[PATH_MAX];
	char rails[256], netdevs[256], management[256], path[PATH_MAX], gid_index[8];
	char link_down[512], link_up[512];
	bool sudo;
};

/* The options of `up`; the supervisor inherits them. */
struct plan {
	char name[64];
	enum layout layout;
	int rails, memory_mib;
	long lease_s; /* 0: for ever */
	bool kvm, keep_boot_log;
	char kernel[16], kernel_dir[PATH_MAX];
	char *shares[MAX_SHARES];
	int share_count;
	struct ssh_host ssh[MAX_HOSTS];
};

/* ---- util.c -------------------------------------------------------------------------------- */

/* Letters, digits, dot, dash and underscore, at most 32, not starting with a dot or dash. */
bool name_is_valid(const char *name);

/* The file of ours called NAME: beside this program (build tree) or where it was installed. */
void own_file(char path[PATH_MAX], const char *name);

/* A whole file, NUL-terminated, to be freed; NULL with errno set. */
char *read_whole_file(const char *path, size_t *bytes);

/* Runs argv with stdout on stderr; its exit status, or 127. SIGINT ends both. */
int run_program(char *const argv[]);

/* Keys go through as they are, until this program ends. Nothing where there is no terminal. */
void terminal_raw(void);

/* Where kernels are kept, created if need be. */
void cache_dir(char path[PATH_MAX]);

/* ---- state.c ------------------------------------------------------------------------------- */

/*
 * A testbed that is up has a directory BASE/NAME with its socket and logs, and its supervisor holds
 * a lock on it. A directory without that lock was left by a crash; the next command that sees it
 * removes it.
 */
struct state {
	char base[PATH_MAX - 128], dir[PATH_MAX - 32];
	int lock_fd;
};

void state_paths(struct state *s, const char *name);

/* Creates and locks it. Ends the process if the name is taken or there is no room. */
void state_create(struct state *s, const char *name);

/* Removes it, and the base if that was the last. The lock must be held. */
void state_remove(const struct state *s);

/* Removes what is left of it if no process holds its lock. True if it is gone now. */
bool state_clean(const char *name);

/* Names of the testbeds that are up, cleaning up after the others. Freed with free(). */
int state_list(char (**names)[64]);

/* Starts a process that cleans up when this one ends, however it ends. */
void state_guard(const struct state *s);

/* ---- config.c ------------------------------------------------------------------------------ */

/* Fills ssh[] for "hostA,hostB" from the file (NULL: the user's own, which need not exist). */
void config_load(struct ssh_host ssh[MAX_HOSTS], const char *hosts, const char *file);

/* ---- panic_log.c --------------------------------------------------------------------------- */

/*
 * Why a guest or ssh ended, from its console's log at path: the kernel's panic with what led to it,
 * else the last line that says something. Empty if there is no log.
 */
void panic_log_read(const char *path, char *text, size_t size);

/* ---- kvm.c --------------------------------------------------------------------------------- */

/* Does a stock kernel really run under KVM here? Tried once per machine and kernel, with a bound.
 */
bool kvm_works(const char *kernel_dir);

/* ---- supervisor.c -------------------------------------------------------------------------- */

/*
 * The process that keeps a testbed up: starts its hosts, serves its socket, ends it. up_fd: where
 * `up` waits for an answer; if it disconnects before, the testbed ends.
 */
_Noreturn void supervise(const struct plan *plan, const struct state *state, int listen_fd,
			 int up_fd);

/* ---- client.c ------------------------------------------------------------------------------ */

/* Connects to the supervisor of NAME; ends the process with not_up if there is none. */
void client_connect(struct chan *c, const char *name, int not_up);

/*
 * Sends a request (deleted here) and waits for the answer, to be deleted by the caller. An answer
 * that says "error" ends the process with its text, and with failure or the status that it says.
 */
struct cJSON *client_request(struct chan *c, struct cJSON *request, int failure);

/* The waiting half of it. */
struct cJSON *client_answer(struct chan *c, int failure);

/* {"op": op, "host": host}; a host of NULL is left out. */
struct cJSON *client_op(const char *op, const char *host);

struct exec_options {
	const char *name, *host;
	char *const *env; /* "K=V", NULL-terminated */
	char *const *argv;
	long timeout_ms;
	bool tty;
	int in, out; /* descriptors for standard input and output */
};

/* Runs a command in a host; returns the status for exit(). */
int client_exec(const struct exec_options *o);

/* ---- the commands, one file each ----------------------------------------------------------- */

int cmd_up(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_cp(int argc, char **argv);
int cmd_link(int argc, char **argv);
int cmd_console(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_down(int argc, char **argv);

#endif
