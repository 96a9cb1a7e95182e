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

/* Where shift-kvd of this job listens: $SHIFT_RUN_DIR, or /run/shift (root), or
 * $XDG_RUNTIME_DIR/shift, or /tmp/shift-UID; then /JOB/kvd.sock. -ENAMETOOLONG, or -EINVAL if that
 * is no name for a job. */
int kv_socket_path(char *path, size_t bytes, const char *job);

/* All are called from kv_client_process(), any may be NULL; they may call everything but
 * kv_client_free(). Strings are valid during the call. */
struct kv_callbacks {
	/* A key of a peer appeared or changed (KV_EVENT_PUT), is gone (KV_EVENT_DELETE; value
	 * NULL), or all there is under the watched prefix `key` is known now (KV_EVENT_SYNCED). */
	void (*event)(void *arg, enum kv_event event, const char *key, const void *value,
		      size_t bytes);
	/* The process that said HELLO with this nonce is gone for good. Once for each. */
	void (*peer_died)(void *arg, uint64_t nonce);
	/* For the log: code is of enum kv_error, or 0 for what this side found. */
	void (*error)(void *arg, int code, const char *text);
	void *arg;
};

/*
 * path, job: copied. nonce: random, not 0, one per process and job. NULL: no memory, or a job or
 * nonce that is none (errno says which). Connects with the first kv_client_process().
 */
struct kv_client *kv_client_new(const char *path, const char *job, uint64_t nonce,
				const struct kv_callbacks *callbacks);

/*
 * Says goodbye, if there is a connection (the keys go, peers are not told of a death), and frees
 * everything. In a child of fork() it only frees. NULL is fine.
 */
void kv_client_free(struct kv_client *c);

/* What to poll, and for what (POLLIN, and POLLOUT when something waits). -1: not connected. Ask
 * before every poll: both change. */
int kv_client_fd(const struct kv_client *c);
short kv_client_poll_events(const struct kv_client *c);

/* Milliseconds until kv_client_process() is wanted without an event; -1: never, 0: now. */
int kv_client_poll_timeout_ms(const struct kv_client *c);

/* Connects, reads, writes, calls back. Never blocks. -ENOMEM: something was not remembered; the
 * connection was dropped, so that it will be told again. */
int kv_client_process(struct kv_client *c);

/*
 * Puts a key of ours; it lives until kv_client_delete() or the end of this process. The value is
 * copied. -EINVAL: not a key, or longer than KV_VALUE_MAX.
 */
int kv_client_put(struct kv_client *c, const char *key, const void *value, size_t bytes);

/* Takes a key of ours back. -ENOENT: it is not ours. */
int kv_client_delete(struct kv_client *c, const char *key);

/*
 * What is known of a key. 0: *value (valid until the next kv_client_process(), _put() or
 * _delete()) and *bytes. -ENOENT: there is none. -EAGAIN: not known yet; it has been asked for, an
 * event will tell. Later calls always answer from memory, and changes arrive by themselves.
 */
int kv_client_get(struct kv_client *c, const char *key, const void **value, size_t *bytes);

/* Nobody will ask for this key again: no more events, and its memory, here and in the daemon, which
 * takes 65,536 of them. */
void kv_client_forget(struct kv_client *c, const char *key);

/* Wants all keys with this prefix ("" for all), now and later. */
int kv_client_watch(struct kv_client *c, const char *prefix);

/* The 16 bytes all members of the job share; NULL before the first WELCOME. They stay. */
const uint8_t *kv_client_job_key(const struct kv_client *c);

/* Is there a daemon that answered? And can others see our keys (enum kv_lease)? */
bool kv_client_is_connected(const struct kv_client *c);
enum kv_lease kv_client_lease(const struct kv_client *c);

/* So many puts and deletes have not been handed to the daemon yet. */
size_t kv_client_unsent(const struct kv_client *c);

#endif
