/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kv/client.h"
#include "kv/client_priv.h"

struct kv_client *kv_client_new(const char *path, const char *job, uint64_t nonce,
				const struct kv_callbacks *callbacks)
{
	struct kv_client *c;

	errno = EINVAL;
	if (!nonce || !kv_job_is_valid(job, strlen(job)))
		return NULL;
	errno = ENAMETOOLONG;
	if (strlen(path) >= sizeof(c->path))
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->fd = -1;
	c->owner = getpid();
	c->nonce = nonce;
	c->callbacks = *callbacks;
	strcpy(c->path, path);
	strcpy(c->job, job);
	kv_table_init(&c->entries, sizeof(struct client_entry));
	kv_table_init(&c->watches, sizeof(struct client_entry));
	kv_table_init(&c->dead, sizeof(struct kv_entry));
	return c;
}

void kv_client_free(struct kv_client *c)
{
	if (!c)
		return;
	if (c->fd >= 0 && c->owner == getpid())
		kv_client_say_goodbye(c);
	kv_client_disconnect(c);
	kv_buf_free(&c->in);
	kv_buf_free(&c->out);
	kv_table_free(&c->entries);
	kv_table_free(&c->watches);
	kv_table_free(&c->dead);
	free(c);
}

int kv_client_fd(const struct kv_client *c)
{
	return c->fd;
}

static bool wants_to_write(const struct kv_client *c)
{
	return kv_buf_bytes(&c->out) || (c->welcome && c->first);
}

short kv_client_poll_events(const struct kv_client *c)
{
	return POLLIN | (wants_to_write(c) ? POLLOUT : 0);
}

int kv_client_poll_timeout_ms(const struct kv_client *c)
{
	int64_t left;

	if (c->fd >= 0)
		return -1;
	left = c->retry_at_ms - kv_now_ms();
	return left > 0 ? (int)left : 0;
}

/* Behind the others that wait to be told to the daemon. */
static void enqueue_entry(struct kv_client *c, struct client_entry *e)
{
	if (e->queued)
		return;
	e->queued = true;
	e->next_queued = NULL;
	if (c->last)
		c->last->next_queued = e;
	else
		c->first = e;
	c->last = e;
}

bool kv_client_watches(const struct kv_client *c, const struct kv_bytes *key)
{
	struct client_entry *w;

	for (w = NULL; (w = kv_table_next(&c->watches, w));) {
		size_t n = strlen(w->head.key);

		if (!w->unwanted && n <= key->bytes && !memcmp(key->data, w->head.key, n))
			return true;
	}
	return false;
}

void kv_client_drop(struct kv_client *c, struct client_entry *e)
{
	struct kv_bytes key = kv_str(e->head.key);

	e->unwanted = false;
	if (e->is_watch)
		kv_table_remove(&c->watches, &e->head);
	else if (!e->mine && !e->dropped && !kv_client_watches(c, &key))
		kv_table_remove(&c->entries, &e->head);
}

void kv_client_requeue_all(struct kv_client *c)
{
	struct client_entry *e, *next;

	c->first = c->last = NULL;
	for (e = kv_table_next(&c->entries, NULL); e; e = next) {
		next = kv_table_next(&c->entries, e);
		e->queued = false;
		if (e->mine || e->dropped || e->subscribed)
			enqueue_entry(c, e);
		if (e->unwanted) /* a new connection has not asked for it */
			kv_client_drop(c, e);
	}
	/* Last: what the daemon answers then includes what we put. */
	for (e = kv_table_next(&c->watches, NULL); e; e = next) {
		next = kv_table_next(&c->watches, e);
		e->queued = false;
		if (e->unwanted)
			kv_client_drop(c, e);
		else
			enqueue_entry(c, e);
	}
}

int kv_client_put(struct kv_client *c, const char *key, const void *value, size_t bytes)
{
	struct client_entry *e;

	if (!kv_key_is_valid(key, strlen(key)) || bytes > KV_VALUE_MAX)
		return -EINVAL;
	e = kv_table_get(&c->entries, key, strlen(key));
	if (!e || kv_entry_set(&e->head, value ? value : "", bytes))
		return -ENOMEM;
	e->mine = true;
	e->dropped = false;
	enqueue_entry(c, e);
	return 0;
}

int kv_client_delete(struct kv_client *c, const char *key)
{
	struct client_entry *e = kv_table_find(&c->entries, key, strlen(key));

	if (!e || !e->mine)
		return -ENOENT;
	kv_entry_set(&e->head, NULL, 0);
	e->mine = false;
	e->dropped = true;
	e->known = true;
	enqueue_entry(c, e);
	return 0;
}

static bool is_watched(const struct kv_client *c, const char *key)
{
	struct client_entry *w;

	for (w = NULL; (w = kv_table_next(&c->watches, w));)
		if (w->known && !strncmp(key, w->head.key, strlen(w->head.key)))
			return true;
	return false;
}

int kv_client_get(struct kv_client *c, const char *key, const void **value, size_t *bytes)
{
	struct client_entry *e = kv_table_find(&c->entries, key, strlen(key));

	if (e && e->unwanted) {
		e->unwanted = false; /* not said yet */
		e->subscribed = true;
	}
	if (e && e->head.value) {
		*value = e->head.value;
		*bytes = e->head.bytes;
		return 0;
	}
	if ((e && e->known) || is_watched(c, key))
		return -ENOENT;
	if (!kv_key_is_valid(key, strlen(key)))
		return -EINVAL;
	e = e ? e : kv_table_get(&c->entries, key, strlen(key));
	if (!e)
		return -ENOMEM;
	if (!e->subscribed) {
		e->subscribed = true;
		enqueue_entry(c, e);
	}
	return -EAGAIN;
}

void kv_client_forget(struct kv_client *c, const char *key)
{
	struct client_entry *e = kv_table_find(&c->entries, key, strlen(key));

	if (!e || !e->subscribed)
		return;
	e->subscribed = false;
	e->unwanted = true;
	enqueue_entry(c, e);
}

int kv_client_watch(struct kv_client *c, const char *prefix)
{
	struct client_entry *w;

	if (*prefix && !kv_key_is_valid(prefix, strlen(prefix)))
		return -EINVAL;
	w = kv_table_get(&c->watches, prefix, strlen(prefix));
	if (!w)
		return -ENOMEM;
	w->is_watch = true;
	w->unwanted = false;
	if (!w->known)
		enqueue_entry(c, w);
	return 0;
}

int kv_client_unwatch(struct kv_client *c, const char *prefix)
{
	size_t n = strlen(prefix);
	struct client_entry *w = n ? kv_table_find(&c->watches, prefix, n) : NULL, *e, *next;

	if (!w || w->unwanted)
		return -ENOENT;
	w->unwanted = true;
	w->known = false;
	enqueue_entry(c, w);
	for (e = kv_table_next(&c->entries, NULL); e; e = next) {
		next = kv_table_next(&c->entries, e);
		if (!strncmp(e->head.key, prefix, n) && !e->subscribed && !e->queued)
			kv_client_drop(c, e);
	}
	return 0;
}

void kv_client_refute_death(struct kv_client *c, uint64_t nonce)
{
	char name[17];
	struct kv_entry *e = kv_table_find(&c->dead, name, kv_client_name_dead(name, nonce));

	if (e)
		kv_table_remove(&c->dead, e);
}

const uint8_t *kv_client_job_key(const struct kv_client *c)
{
	return c->has_job_key ? c->job_key : NULL;
}

bool kv_client_is_connected(const struct kv_client *c)
{
	return c->welcome;
}

enum kv_lease kv_client_lease(const struct kv_client *c)
{
	return c->welcome ? c->lease : KV_LEASE_UNCERTAIN;
}

size_t kv_client_unsent(const struct kv_client *c)
{
	size_t n = 0;

	for (const struct client_entry *e = c->first; e; e = e->next_queued)
		n += e->mine || e->dropped;
	return n;
}
