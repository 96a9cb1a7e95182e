/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Shared by client.c (the cache and the calls) and client_io.c (the connection). */
#ifndef SHIFT_KV_CLIENT_PRIV_H
#define SHIFT_KV_CLIENT_PRIV_H

#include <sys/types.h>
#include <sys/un.h>

#include "kv/client.h"
#include "kv/table.h"

/* A key, or a watched prefix. */
struct client_entry {
	struct kv_entry head;
	struct client_entry *next_queued;
	uint64_t seen;	 /* the connection in which the daemon told it last */
	bool queued;	 /* is among those to be told to the daemon */
	bool is_watch;	 /* head.key is a prefix */
	bool mine;	 /* we put it: told again after a reconnect */
	bool dropped;	 /* it was ours: DELETE is sent, also after a reconnect */
	bool subscribed; /* by GET */
	bool unwanted;	 /* UNGET must be sent, then the entry or watch may be removed */
	bool known;	 /* without a value: there is none; a watch: all of it has come */
};

struct kv_client {
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)], job[KV_JOB_MAX + 1];
	struct kv_callbacks callbacks;
	uint64_t nonce, connection; /* the latter counts them */
	pid_t owner;
	int fd;
	dev_t fd_dev; /* which socket is ours: programs close descriptors they do not know */
	ino_t fd_ino;
	struct kv_buf in, out;
	int64_t retry_at_ms;
	int retry_ms, complained_errno;
	bool welcome, has_job_key;
	uint8_t job_key[KV_JOB_KEY_BYTES];
	enum kv_lease lease;
	struct kv_table entries, watches, dead;
	struct client_entry *first, *last; /* to be told to the daemon */
};

/* CLOCK_MONOTONIC. */
int64_t kv_now_ms(void);

/* Queues everything that we have put and asked for again, for a new connection. */
void kv_client_requeue_all(struct kv_client *c);

/* Is the key under a prefix that is watched? */
bool kv_client_watches(const struct kv_client *c, const struct kv_bytes *key);

/* Removes an entry that is unwanted, as the daemon knows, unless there is another reason to keep
 * it. */
void kv_client_drop(struct kv_client *c, struct client_entry *e);

/* The key of a process in `dead`. */
size_t kv_client_name_dead(char name[17], uint64_t nonce);

void kv_client_disconnect(struct kv_client *c);
void kv_client_say_goodbye(struct kv_client *c);

#endif
