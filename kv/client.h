/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The rendezvous, as a process sees it: puts keys, and knows those of its peers.
 *
 * No thread, no lock, no signal, libc only: one (background) thread makes all the calls and polls
 * kv_client_fd(). Nothing blocks. Whatever was seen stays here: with shift-kvd or etcd dead,
 * kv_client_get() still answers. After a loss the client connects again, with a growing delay,
 * and tells again what it put and what it watches; what changed meanwhile comes as events.
 *
 * Functions that return int give 0 or a negative errno.
 */
#ifndef SHIFT_KV_CLIENT_H
#define SHIFT_KV_CLIENT_H

#include "kv/proto.h"

struct kv_client;

/* Where shift-kvd of this job listens: RUNDIR/JOB/kvd.sock, with the RUNDIR and the errors of
 * lib/base/run_dir.h. */
int kv_socket_path(char *path, size_t bytes, const char *job);

/* All are called from kv_client_process(), any may be NULL; they may call everything but
 * kv_client_free(). Strings are valid during the call. */
struct kv_callbacks {
	/* A key of a peer appeared or changed (KV_EVENT_PUT), is gone (KV_EVENT_DELETE; value
	 * NULL), or all there is under the watched prefix `key` is known now (KV_EVENT_SYNCED). */
	void (*event)(void *arg, enum kv_event event, const char *key, const void *value,
		      size_t bytes);
	/* The process with this nonce has died. Called once for each, until
	 * kv_client_refute_death(). */
	void (*peer_died)(void *arg, uint64_t nonce);
	/* For the log: code is of enum kv_error, or 0 for an error of this side. */
	void (*error)(void *arg, int code, const char *text);
	void *arg;
};

/*
 * path, job: copied. nonce: random, not 0, one per process and job. NULL: no memory, or an invalid
 * job or nonce (see errno). Connects with the first kv_client_process().
 */
struct kv_client *kv_client_new(const char *path, const char *job, uint64_t nonce,
				const struct kv_callbacks *callbacks);

/*
 * Sends BYE, if there is a connection (the keys are deleted, peers hear of no death), and frees
 * everything. In a child of fork() it only frees. c may be NULL.
 */
void kv_client_free(struct kv_client *c);

/* The descriptor to poll, and the events (POLLIN, and POLLOUT when data waits). -1: not connected.
 * Both change: ask before every poll. */
int kv_client_fd(const struct kv_client *c);
short kv_client_poll_events(const struct kv_client *c);

/* Milliseconds until kv_client_process() must be called without an event; -1: never, 0: now. */
int kv_client_poll_timeout_ms(const struct kv_client *c);

/* Connects, reads, writes, calls back. Never blocks. -ENOMEM: the connection was dropped, so that
 * the daemon sends again what could not be stored. */
int kv_client_process(struct kv_client *c);

/*
 * Puts a key of ours; it lives until kv_client_delete() or the end of this process. The value is
 * copied. -EINVAL: not a key, or longer than KV_VALUE_MAX.
 */
int kv_client_put(struct kv_client *c, const char *key, const void *value, size_t bytes);

/* Deletes a key of ours. -ENOENT: it is not ours. */
int kv_client_delete(struct kv_client *c, const char *key);

/*
 * The value of a key. 0: *value (valid until the next kv_client_process(), _put() or _delete()) and
 * *bytes. -ENOENT: there is none. -EAGAIN: not known yet; the daemon is asked, and an event
 * follows. Later calls answer from memory, and changes arrive by themselves.
 */
int kv_client_get(struct kv_client *c, const char *key, const void **value, size_t *bytes);

/* Forgets a key that the caller will not ask for again: no more events, and its memory is freed,
 * here and in the daemon, which holds 65,536 keys for a client. */
void kv_client_forget(struct kv_client *c, const char *key);

/* Subscribes to all keys with this prefix ("" for all), now and later. */
int kv_client_watch(struct kv_client *c, const char *prefix);

/* Ends kv_client_watch() of a prefix that is not "": no more events, and what is known by it is
 * forgotten. -ENOENT: it is not watched. */
int kv_client_unwatch(struct kv_client *c, const char *prefix);

/* It is known not to be dead: peer_died is called again if its death is reported again. */
void kv_client_refute_death(struct kv_client *c, uint64_t nonce);

/* The 16 bytes all members of the job share; NULL before the first WELCOME. They stay. */
const uint8_t *kv_client_job_key(const struct kv_client *c);

/* Is there a daemon that answered? And can others see our keys (enum kv_lease)? */
bool kv_client_is_connected(const struct kv_client *c);
enum kv_lease kv_client_lease(const struct kv_client *c);

/* The number of puts and deletes that have not been sent to the daemon yet. */
size_t kv_client_unsent(const struct kv_client *c);

#endif
