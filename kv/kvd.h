/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * shift-kvd: what its parts share. One thread.
 *
 *   kvd_clients.c  the processes of this host: their sockets, lives and deaths
 *   kvd_subs.c     what they have asked for: topics
 *   kvd_store.c    the job's keys, here and elsewhere; which of them etcd has not got yet
 *   kvd_deaths.c   the records of deaths, which the job key proves
 *   kvd_session.c  etcd: leases, job key; lost and found again
 *   kvd_read.c     what is in etcd of the topics
 *   kvd_watch.c    what changes there of them
 *   kvd_txn.c      puts and deletes
 *   kvd_crash.c    what dead processes leave in the directory
 *   kvd_switch.c   the command of --on-switch
 *   kvd_run.c      the directory, the lock, the socket, the detached process
 */
#ifndef SHIFT_KVD_H
#define SHIFT_KVD_H

#include <limits.h>
#include <sys/types.h>

#include "common/cli.h"
#include "kv/etcd.h"
#include "kv/list.h"
#include "kv/proto.h"
#include "kv/sorted.h"
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
	SILENT_MAX = 64, /* connections that have said nothing yet, or are about to end */
	CLIENT_KEYS_MAX = 1 << 16,
	CLIENT_WATCHES_MAX = 4096, /* a process asks for one for each GID of its peers */
	KEYS_MAX = 1 << 20,
	STORE_BYTES_MAX = 1 << 30, /* of keys and values, without what a table needs for them */
	GRAVES_MAX = 4096,
	/* etcd's default --max-txn-ops is 128, which counts nested operations too: one place is
	 * left for that of a delete. */
	TXN_OPS = 127,
	/* Of a daemon. Each costs etcd memory for as long as it is watched: with more, all of the
	 * job costs it less. */
	TOPICS_MAX = 4096,
};

struct kvd_options {
	char job[KV_JOB_MAX + 1];
	struct etcd_options etcd;
	const char *user, *password;
	bool has_job_key; /* it was given, and never stands in etcd: */
	uint8_t job_key[KV_JOB_KEY_BYTES];
	bool foreground;
	int64_t grace_ms, lease_s;
	const char *on_switch;	      /* a command for the shell; NULL: none */
	char on_switch_cwd[PATH_MAX]; /* where it runs */
	int64_t on_switch_limit_ms;
};

/* A switch that the command is told of. */
struct switch_note {
	uint32_t pid, qpn;
	uint64_t count; /* that have come together */
	char kind[16], outcome[16], cause[32], from[32], to[32], peer[64];
};

/* Of kvd_switch.c. */
struct on_switch {
	struct switcher *switchers;
	bool has_looked, has_waiting, has_ended, killed_for_time, killed_hard;
	struct switch_note waiting;
	pid_t child; /* 0: none */
	int64_t look_at_ms, over_at_ms;
	unsigned long runs, failed;
	int last_status;
};

/* A process of this host. */
struct client {
	struct client *next;
	int fd, pidfd;		      /* -1: none */
	unsigned int fd_at, pidfd_at; /* of kvd_loop.c; 0: they are not polled */
	pid_t pid;
	uint64_t nonce; /* 0: no HELLO yet */
	char name[17];	/* the nonce in hexadecimal */
	struct kv_buf in, out;
	struct kv_table gets, watches; /* struct subscription: keys and prefixes */
	uint64_t told;		       /* see struct subscriptions */
	bool welcomed, overrun, closing, buried;
	bool more;	      /* frames wait in `in`: others were to have their turn */
	bool holds;	      /* no HELLO: the daemon is to stay while it lives */
	int64_t silent_at_ms; /* connected, or told that this is the end; then it must hurry */
	int64_t gone_at_ms;   /* its socket closed without a goodbye, but it lives */
	struct kv_link items; /* that it has put */
	size_t keys;	      /* the number of them */
	/* of kvd_session.c */
	int64_t lease, keepalive_at_ms;
	bool asking; /* a request about the lease is on its way */
};

/* The lease of a process that is gone, until it is revoked. */
struct grave {
	struct kv_link link;
	uint64_t nonce;
	int64_t lease;
	bool asking, forgotten;
};

/* A key of the job. */
struct item {
	struct kv_entry head; /* no value: it is to be deleted */
	struct client *owner; /* NULL: another host's */
	struct kv_node in_order;
	struct kv_link in_owner, in_ready, in_deaths, in_deleted;
	bool ours;  /* of this daemon: a record of a death */
	bool dirty; /* must be sent to etcd */
	bool in_flight;
	int64_t revision, seen;
};

struct store {
	struct kv_table items;
	struct kv_node *order; /* of the items */
	struct kv_link ready;  /* the dirty items whose lease is granted */
	struct kv_link deaths; /* the records of deaths that are proved */
	/* Deleted while something is read, whose answer may be older: their revisions tell. */
	struct kv_link deleted;
	size_t dirty, in_flight, bytes;
	int64_t round;		       /* of reading what there is */
	unsigned long unproved_deaths; /* that were in etcd, and ignored */
};

enum topic_state {
	TOPIC_WANTED,  /* is to be read, */
	TOPIC_READING, /* is being read, */
	TOPIC_READ,    /* is to be watched from the next revision on, */
	TOPIC_WATCHED, /* is watched by a stream. */
	TOPIC_COVERED, /* All of the job is. */
};

/* A key, or all with a prefix, that somebody has asked for, or the daemon itself. One that nobody
 * asks for any more stays as long as it is watched. */
struct topic {
	struct kv_entry head;
	struct kv_link subscribers;
	bool prefix, own;
	bool known; /* what is in the store is what was in etcd when it was looked at last */
	enum topic_state state;
	struct kv_link in_state; /* of others that are in that state, or in that stream */
	int64_t revision;	 /* all up to it is in the store */
	struct stream *stream;
	size_t watch_id;
};

/* Who has asked for a key, or for all with a prefix. The daemon needs in the store, and hears of
 * from etcd, what some topic covers, and nothing else. */
struct subscriptions {
	struct kv_table keys, prefixes;			/* struct topic */
	unsigned int prefixes_of_bytes[KV_KEY_MAX + 1]; /* their number, by length */
	uint64_t told; /* counts events: a client hears each once, whatever it has asked for */
	struct topic *all, *job_key; /* of the daemon's own; all: NULL if there are few topics */
};

/* The topics on their way from etcd. */
struct watches {
	struct kv_link wanted, read;
	struct kv_link streams;	 /* the newest last */
	struct stream *opening;	 /* etcd has not got all of it yet */
	struct reading *reading; /* of kvd_read.c */
	size_t watchers, streams_count;
	size_t first;	      /* at most so many are wanted that were when the session began */
	bool begun;	      /* a stream of this session is confirmed */
	bool lost;	      /* history was compacted since the last reading began */
	int losses;	      /* in a row, with no pause of CALM_MS between them */
	int64_t lost_at_ms;   /* the last one */
	int64_t read_at_ms;   /* no reading begins before */
	unsigned long events; /* that etcd has sent */
};

enum { CALM_MS = 10 * 1000 }; /* all was well so long: the next failure is a new one */

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
	int64_t begun_at_ms, retry_at_ms, retry_ms, token_at_ms, up_at_ms;
	int64_t job_lease, job_keepalive_at_ms;
	int64_t revision;		  /* the greatest that was heard of */
	int64_t failing_since_ms;	  /* no request has succeeded since; 0: the last one has */
	int64_t pause_until_ms, pause_ms; /* etcd has too much to do: nothing is asked until then */
	int64_t presence, presence_at_ms; /* a lease: some etcds end when there are none */
	bool has_key, asking, asking_presence, knows_instance;
	uint8_t job_key[KV_JOB_KEY_BYTES];
	uint8_t instance[KV_JOB_KEY_BYTES]; /* tells one etcd from another, or an emptied one */
	struct item *batch[TXN_OPS];
	int batch_items;
	struct kv_link graves;
	int grave_count, lease_requests;
	char error[256]; /* the last one; empty while all is well */
	char said[256];	 /* in the log, at said_at_ms */
	int64_t said_at_ms;
	unsigned long reconnects;
};

struct kvd {
	struct kvd_options o;
	struct store store;
	struct subscriptions subs;
	struct watches watches;
	struct session session;
	struct client *clients;
	struct client *turn; /* the next one to be served; NULL: the first */
	int connections;     /* and holders: all of `clients` */
	int places;	     /* for processes; at most CLIENTS_MAX, fewer with few descriptors */
	int listen_fd, spare_fd;
	int64_t accept_at_ms; /* not before: there was no descriptor for it */
	const char *dir;
	int64_t idle_since_ms; /* may lie in the future */
	bool stopping, leaving;
	struct on_switch on_switch;
};

/* ---- kvd_options.c ------------------------------------------------------------------------- */

/* Fills o; ends the process if they make no sense, or for --help and --version. */
void kvd_options_parse(struct kvd_options *o, int argc, char **argv);

/* The time that an option says; ends the process if it is none, or below min_ms. */
int64_t option_ms(const char *option, const char *s, int64_t min_ms);

/* ---- kvd_store.c --------------------------------------------------------------------------- */

void store_init(struct kvd *k);

struct item *store_find(struct kvd *k, const char *key, size_t bytes);

/* The first item of a topic, or the next one after i; NULL: there is none. */
struct item *store_next_of(const struct kvd *k, const struct topic *t, const struct item *i);

/* Gives all items of a client to another. */
void store_hand_over(struct client *from, struct client *to);

/* By a client of this host. 0, or enum kv_error and why. */
int store_put(struct kvd *k, struct client *c, const struct kv_msg *m, const char **why);
int store_delete(struct kvd *k, struct client *c, const struct kv_msg *m, const char **why);

/* Deletes the keys of a client that is gone, here and at once. In etcd they are deleted with its
 * lease. */
void store_drop_client(struct kvd *k, struct client *c);

/* Records a death for the other hosts, and tells the clients of this one. Each report counts, as
 * the one before may have been refuted. */
void store_add_death(struct kvd *k, const char *nonce_name);

/* etcd reports the value of a key since a revision; NULL: the key is deleted. What no topic covers
 * is not kept. False: there are KEYS_MAX already, or STORE_BYTES_MAX. */
bool store_remote(struct kvd *k, const char *key, size_t key_bytes, const void *value, size_t bytes,
		  int64_t revision);

/* Sends everything of a client to etcd again, or everything of all clients and of this daemon
 * (NULL). */
void store_mark_dirty(struct kvd *k, const struct client *c);

/* This may be another etcd, whose revisions cannot be compared with the last one's. */
void store_forget_revisions(struct kvd *k);

/* A topic was read, as it was at that revision: store_remote() was called for each of its keys
 * since store.round was counted up. Removes the others. */
void store_end_round(struct kvd *k, const struct topic *t, int64_t revision);

/* Nothing is being read any more. */
void store_end_reading(struct kvd *k);

/* Forgets what only this topic covers, which is about to go. */
void store_forget_topic(struct kvd *k, const struct topic *t);

/* Takes the next dirty item whose lease is granted off the list; NULL: there is none. */
struct item *store_next_dirty(struct kvd *k);

/* etcd has stored the item with that revision, or the item must be sent again (revision 0). */
void store_sent(struct kvd *k, struct item *i, int64_t revision);

/* ---- kvd_deaths.c -------------------------------------------------------------------------- */

/* Is that the key of a record of a death? The nonce of the process; 0: no. */
uint64_t death_of_key(const char *key);

/*
 * A record's value is a tag that only those can make who have the job key: without it, whoever can
 * write to etcd could declare any process dead. In hexadecimal, NUL-terminated.
 */
enum { DEATH_TAG_CHARS = 32 };
void death_tag(const struct kvd *k, const char *key, char tag[DEATH_TAG_CHARS + 1]);
bool death_is_proved(const struct kvd *k, const char *key, const void *value, size_t bytes);

/* ---- kvd_subs.c ---------------------------------------------------------------------------- */

void subs_init(struct kvd *k);
void subs_free(struct kvd *k);

/* Makes a client's empty tables, and drops all that is in them. */
void subs_init_client(struct client *c);
void subs_drop_client(struct kvd *k, struct client *c);

/* By GET (a key) or WATCH (a prefix). Asking twice is asking once. */
struct topic *subs_add(struct kvd *k, struct client *c, bool prefix, const struct kv_bytes *key);
void subs_remove(struct kvd *k, struct client *c, const struct kv_bytes *key);

/* For the daemon itself, until it is freed or `own` is taken away. */
struct topic *subs_add_own(struct kvd *k, bool prefix, const char *key);

/* Does anybody need it? */
bool topic_is_used(const struct topic *t);

/* In no list of kvd_watch.c: forgets what is known by it. */
void topic_free(struct kvd *k, struct topic *t);

/* For each topic; NULL: the first one. NULL: there is none left. The present one may be freed if
 * its successor is asked for before. */
struct topic *subs_next(const struct kvd *k, const struct topic *t);

/* Does a topic cover this key, other than `but`? */
bool subs_cover(const struct kvd *k, const char *key, size_t bytes, const struct topic *but);

/* Tells all who have asked for a topic that all of it is known now. */
void subs_tell_known(struct kvd *k, const struct topic *t);

/* Tells a client again all that it has asked for. */
void subs_tell_again(struct kvd *k, struct client *c);

/* Sends a changed key to all clients that have asked for it, but not to `except`. */
void clients_publish(struct kvd *k, const struct item *i, const struct client *except);

/* ---- kvd_clients.c ------------------------------------------------------------------------- */

/* Finds out how many clients there can be. */
void clients_init(struct kvd *k);

/* A connection that was accepted: of this process, 0 if that cannot be seen from here. NULL: there
 * is no descriptor for the process; the connection is still the caller's. */
struct client *clients_add(struct kvd *k, int fd, pid_t pid);

void clients_accept(struct kvd *k);

/* Called when poll reports a client's socket or the end of its process. Never frees a client. */
void client_on_socket(struct kvd *k, struct client *c);
void client_on_exit(struct kvd *k, struct client *c);

/* Writes, ends and frees what is due. */
void clients_tick(struct kvd *k);

/* Milliseconds until the next of that; INT_MAX: nothing ends by the clock. */
int clients_wait_ms(const struct kvd *k);

void client_send_item(struct client *c, const struct item *i);
void client_tell_topic(struct kvd *k, struct client *c, const struct topic *t);
void client_tell_known(struct kvd *k, struct client *c, const struct topic *t);
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

/* Revokes the lease of a client that is gone. */
void session_bury(struct kvd *k, const struct client *c);

/* Is a process of this nonce dead, and its lease not revoked yet? */
bool session_has_grave(const struct kvd *k, uint64_t nonce);

/* Cancels all requests and starts again: at once, but later each time if it goes on like that.
 * After a failure later, and at the next endpoint. */
void session_restart(struct kvd *k);
void session_fail(struct kvd *k, const char *text);

/*
 * For each answer. True: the request has failed. Where etcd has too much to do the session goes on:
 * the request is to be made again by a later session_tick(), which is put off for longer each
 * time. Else, or if that goes on for long, the session has failed.
 */
bool session_request_failed(struct kvd *k, int code, const char *text);

/* By half more or less, so that the daemons of a job do not all come back at once. */
int64_t session_jitter(int64_t ms);

/* etcd has answered with this revision. */
void session_note_revision(struct kvd *k, int64_t revision);

/* ---- kvd_txn.c ----------------------------------------------------------------------------- */

/* Sends what is dirty, at most TXN_OPS keys at once. */
void txn_send(struct kvd *k);

/* ---- kvd_read.c ---------------------------------------------------------------------------- */

/* Goes on reading the topics that are wanted, if there are any. */
void read_tick(struct kvd *k);

/* Is over with the topics that have been read to their end. */
void read_end(struct kvd *k);

/* Gives up: what was being read is wanted. */
void read_stop(struct kvd *k);

/* Adds the range of a topic's keys, beginning with `from` (NULL: the first one). */
void add_topic_range(const struct kvd *k, struct cJSON *o, const struct topic *t, const char *from,
		     size_t from_bytes);

/* A key of the job, taken from an answer of etcd. */
struct remote {
	char *key; /* the whole */
	const char *name;
	size_t key_bytes, name_bytes, bytes;
	uint8_t *value;
	int64_t revision;
};

/* False: that is no key of the job, or no key at all. To be freed in any case. */
bool remote_parse(const struct kvd *k, const struct cJSON *kv, struct remote *r);
void remote_free(struct remote *r);

/* Puts it into the store, if a topic covers it. False: there are too many keys, and the session has
 * failed. */
bool remote_take(struct kvd *k, const struct remote *r, bool deleted);

bool remote_is_job_key(const struct remote *r);

/* ---- kvd_watch.c --------------------------------------------------------------------------- */

void watch_init(struct kvd *k);

/* The session has a job key, of this revision. Same: this is the etcd that was watched before, and
 * it goes on from there. */
void watch_begin(struct kvd *k, bool same, int64_t revision);

/* Reads and watches what is needed and is not watched yet. */
void watch_tick(struct kvd *k);

/* Milliseconds; nothing is due before. */
int64_t watch_due_at_ms(const struct kvd *k);

/* All requests were cancelled. */
void watch_stop(struct kvd *k);

/* Is all being watched that was needed when the session began? */
bool watch_has_begun(const struct kvd *k);

/* History that was wanted has been compacted, and is read again: at once, but later each time if
 * that goes on, as an etcd would have it that lies. */
void watch_lost(struct kvd *k);

/* To that state and into its list, or away if nobody needs it. */
void topic_move(struct kvd *k, struct topic *t, enum topic_state state);

/* A topic is new, or nobody, or somebody again, asks for it. */
void watch_topic_begun(struct kvd *k, struct topic *t);
void watch_topic_unused(struct kvd *k, struct topic *t);
void watch_topic_used(struct topic *t);

/* All of it was read, as it was at that revision. */
void watch_topic_read(struct kvd *k, struct topic *t, int64_t revision);

/* ---- kvd_crash.c --------------------------------------------------------------------------- */

enum { CRASHES_KEPT = 16 };

/* Of each kind of collectives: where one rank has died its launcher ends all others of the host. */
enum { COLLS_KEPT = 64 };

/* Files of traffic, of 20 MiB each. */
enum { EPOCHS_KEPT = 4 };

/*
 * Statistics of processes that ended without removing them become crash records; their control
 * sockets go.
 */
void crash_sweep(const char *dir);

/* The same for this process, which has died; quick, as all processes of a job may die at once. One
 * that has another pid here, or no statistics, is found by the next crash_prune(). */
void crash_record(const char *dir, pid_t pid, uint64_t nonce);

/* After new crash records: keeps the last CRASHES_KEPT, and those that a report still needs. Does
 * not wait for it. */
void crash_prune(const char *dir);

/* Both, at the end; waits for up to two seconds. */
void crash_finish(const char *dir);

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

/* ---- kvd_switch.c -------------------------------------------------------------------------- */

/* Runs the command, if there is one and something has happened. ms until it is to look again. */
int on_switch_tick(struct kvd *k);

/* Nothing runs, or waits to run. */
bool on_switch_is_idle(const struct kvd *k);

/* A command that still runs is told to end. */
void on_switch_free(struct kvd *k);

#endif
