/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * shift-kvd: what its parts share. One thread.
 *
 *   kvd_clients.c  the processes of this host: their sockets, lives and deaths
 *   kvd_store.c    the job's keys, here and elsewhere; which of them etcd has not got yet
 *   kvd_session.c  etcd: lease, job key, what is there, changes, puts; lost and found again
 *   kvd_crash.c    what dead processes leave in the directory
 *   kvd_run.c      the directory, the lock, the socket, the detached process
 */
#ifndef SHIFT_KVD_H
#define SHIFT_KVD_H

#include <limits.h>
#include <sys/types.h>

#include "common/cli.h"
#include "kv/etcd.h"
#include "kv/proto.h"
#include "kv/table.h"

/* Documented in shift-kvd(1). */
enum exit_status {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_BAD_USAGE = 2,
	EXIT_NOT_UP = 3,
};

enum {
	CLIENTS_MAX = 1024,
	CLIENT_KEYS_MAX = 1 << 16,
	/* etcd's default --max-txn-ops is 128, which counts nested operations too: one place is
	 * left for that of a delete. */
	TXN_OPS = 127,
};

struct kvd_options {
	char job[KV_JOB_MAX + 1];
	struct etcd_options etcd;
	const char *user, *password;
	bool has_job_key; /* it was given, and never stands in etcd: */
	uint8_t job_key[KV_JOB_KEY_BYTES];
	bool foreground;
	int64_t grace_ms, lease_s;
};

/* A process of this host. */
struct client {
	struct client *next;
	int fd, pidfd; /* -1: none */
	pid_t pid;
	uint64_t nonce; /* 0: no HELLO yet */
	char name[17];	/* the nonce in hexadecimal */
	struct kv_buf in, out;
	struct kv_table gets, watches; /* the keys and prefixes that it has asked for */
	bool welcomed, overrun, closing, buried;
	bool holds;	    /* no HELLO: the daemon is to stay while it lives */
	int64_t gone_at_ms; /* its socket closed without a goodbye, but it lives */
	size_t keys;
	/* of kvd_session.c */
	int64_t lease, keepalive_at_ms;
	bool asking; /* a request about the lease is on its way */
};

/* A key of the job. */
struct item {
	struct kv_entry head; /* no value: it is to be deleted */
	struct client *owner; /* NULL: another host's */
	bool ours;	      /* of this daemon: a record of a death */
	bool dirty;	      /* must be sent to etcd */
	bool in_flight;
	struct item *next_dirty;
	int64_t revision, seen;
};

struct store {
	struct kv_table items;
	struct item *first, *last; /* the dirty ones */
	size_t dirty, in_flight;
	int64_t round; /* of reading everything again */
};

enum session_state {
	SESSION_DOWN, /* waits until retry_at_ms */
	SESSION_AUTH,
	SESSION_LEASE,
	SESSION_KEY,
	SESSION_READ,
	SESSION_UP,
};

struct session {
	struct etcd *etcd;
	enum session_state state;
	char prefix[96];
	int64_t begun_at_ms, retry_at_ms, retry_ms, token_at_ms;
	int64_t job_lease, job_keepalive_at_ms;
	int64_t revision;		  /* everything up to it is in the store */
	int64_t presence, presence_at_ms; /* a lease: some etcds end when there are none */
	bool has_key, asking, asking_presence, knows_instance;
	uint8_t job_key[KV_JOB_KEY_BYTES];
	uint8_t instance[KV_JOB_KEY_BYTES]; /* tells one etcd from another, or an emptied one */
	struct item *batch[TXN_OPS];
	int batch_items;
	char error[256]; /* the last one; empty while all is well */
	unsigned long reconnects;
};

struct kvd {
	struct kvd_options o;
	struct store store;
	struct session session;
	struct client *clients;
	int client_count, listen_fd;
	const char *dir;
	int64_t idle_since_ms; /* may lie in the future */
	bool stopping, leaving;
};

/* ---- kvd_options.c ------------------------------------------------------------------------- */

/* Fills o; ends the process if they make no sense, or for --help and --version. */
void kvd_options_parse(struct kvd_options *o, int argc, char **argv);

/* The time that an option says; ends the process if it is none, or below min_ms. */
int64_t option_ms(const char *option, const char *s, int64_t min_ms);

/* ---- kvd_store.c --------------------------------------------------------------------------- */

struct item *store_find(struct kvd *k, const char *key, size_t bytes);

/* By a client of this host. 0, or enum kv_error. */
int store_put(struct kvd *k, struct client *c, const struct kv_msg *m);
int store_delete(struct kvd *k, struct client *c, const struct kv_msg *m);

/* Deletes the keys of a client that is gone, here and at once. In etcd they are deleted with its
 * lease. */
void store_drop_client(struct kvd *k, struct client *c);

/* Records a death for the other hosts. */
void store_add_death(struct kvd *k, const char *nonce_name);

/* etcd reports the value of a key since a revision; NULL: the key is deleted. */
void store_remote(struct kvd *k, const char *key, size_t key_bytes, const void *value, size_t bytes,
		  int64_t revision);

/* Sends everything of a client to etcd again, or everything of all clients and of this daemon
 * (NULL). */
void store_mark_dirty(struct kvd *k, const struct client *c);

/* Brackets reading everything again: store_remote() is called for each key in between, and the end
 * removes all other keys. */
void store_begin_round(struct kvd *k);
void store_end_round(struct kvd *k, int64_t revision);

/* Takes the next dirty item whose lease is granted off the list; NULL: there is none. */
struct item *store_next_dirty(struct kvd *k);

/* etcd has stored the item with that revision, or the item must be sent again (revision 0). */
void store_sent(struct kvd *k, struct item *i, int64_t revision);

/* ---- kvd_clients.c ------------------------------------------------------------------------- */

void clients_accept(struct kvd *k);

/* Called when poll reports a client's socket or the end of its process. Never frees a client. */
void client_on_socket(struct kvd *k, struct client *c);
void client_on_exit(struct kvd *k, struct client *c);

/* Writes, ends and frees what is due. */
void clients_tick(struct kvd *k);

/* Sends a changed key to all clients that have asked for it, but not to `except`. */
void clients_publish(struct kvd *k, const struct item *i, const struct client *except);
void clients_peer_died(struct kvd *k, uint64_t nonce);

/* Answers a HELLO that could not be answered before, and reports a changed lease. */
void client_welcome(struct kvd *k, struct client *c);
void clients_welcome(struct kvd *k);
void clients_free(struct kvd *k);

/* The state of the daemon as JSON, to be freed. */
char *status_json(struct kvd *k);

/* ---- kvd_session.c ------------------------------------------------------------------------- */

void session_init(struct kvd *k);
void session_free(struct kvd *k);

/* Does what is due; milliseconds until the next is. */
int session_tick(struct kvd *k);

/* True: nothing is left that etcd must get before the end. */
bool session_is_idle(const struct kvd *k);

/* Cancels all requests and starts again; after a failure later, and at the next endpoint. */
void session_restart(struct kvd *k);
void session_fail(struct kvd *k, const char *text);

/* ---- kvd_txn.c ----------------------------------------------------------------------------- */

/* Sends what is dirty, at most TXN_OPS keys at once. */
void txn_send(struct kvd *k);

/* ---- kvd_watch.c --------------------------------------------------------------------------- */

/* Reads all of the job, then SESSION_UP and watch_start(). */
void watch_read_all(struct kvd *k);

/* Watches from the first revision that is not in the store. */
void watch_start(struct kvd *k);

/* ---- kvd_crash.c --------------------------------------------------------------------------- */

enum { CRASHES_KEPT = 16 };

/*
 * Statistics of processes that ended without removing them become crash records; their control
 * sockets go. All that are found dead, and the one with this nonce (0: none).
 */
void crash_sweep(const char *dir, uint64_t nonce);

/* The same for this process, which has died; quick, as all processes of a job may die at once. */
void crash_record(const char *dir, pid_t pid, uint64_t nonce);

/* After new crash records: keeps the last CRASHES_KEPT, and those that a report still needs. */
void crash_prune(const char *dir);

/* ---- kvd_run.c ----------------------------------------------------------------------------- */

/*
 * Takes the job on this host: 0, or -EEXIST: a daemon has it, and its socket answers. Ends the
 * process if the directory is another user's or open to others.
 */
struct run {
	char dir[PATH_MAX], socket[PATH_MAX], lock[PATH_MAX];
	int lock_fd, listen_fd;
};

int run_take(struct run *r, const char *job);

/* The job's directory, which is made if it is not there. */
void run_directory(char dir[PATH_MAX], const char *job);

/* Detaches: goes on in a new process; the calling one ends with 0. */
void run_detach(struct run *r);

/* Opens and locks a file. -1: another process has the lock, or the file is gone. A file that was
 * removed or replaced meanwhile does not count. */
int lock_file(const char *path, int operation, int flags);

/* Messages go to syslog from now on, as a detached process has no standard error. */
void messages_to_syslog(void);

/* Removes socket, lock and directory. */
void run_leave(struct run *r);

/* ---- the loop and the commands ------------------------------------------------------------- */

void kvd_loop(struct kvd *k);
int cmd_status(int argc, char **argv);
int cmd_etcd(int argc, char **argv);

#endif
