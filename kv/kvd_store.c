/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/kvd.h"

static const char dead_prefix[] = "dead/";

/* The nonce of the process whose death this item records; 0: it records none. */
static uint64_t death_in(const struct item *i)
{
	if (strncmp(i->head.key, dead_prefix, sizeof(dead_prefix) - 1))
		return 0;
	return strtoull(i->head.key + sizeof(dead_prefix) - 1, NULL, 16);
}

struct item *store_find(struct kvd *k, const char *key, size_t bytes)
{
	return kv_table_find(&k->store.items, key, bytes);
}

static void mark_dirty(struct kvd *k, struct item *i)
{
	if (i->dirty)
		return;
	i->dirty = true;
	i->next_dirty = NULL;
	if (k->store.last)
		k->store.last->next_dirty = i;
	else
		k->store.first = i;
	k->store.last = i;
	k->store.dirty++;
}

static struct item *pop_dirty(struct kvd *k)
{
	struct item *i = k->store.first;

	if (!i)
		return NULL;
	k->store.first = i->next_dirty;
	if (!k->store.first)
		k->store.last = NULL;
	i->dirty = false;
	k->store.dirty--;
	return i;
}

/* Frees an item that has no value, once all have been told. */
static void release_item(struct kvd *k, struct item *i)
{
	if (i->head.value || i->dirty || i->in_flight)
		return;
	if (i->owner)
		i->owner->keys--;
	kv_table_remove(&k->store.items, &i->head);
}

static void publish_item(struct kvd *k, struct item *i, const struct client *except)
{
	uint64_t nonce = i->head.value ? death_in(i) : 0;

	clients_publish(k, i, except);
	if (nonce)
		clients_peer_died(k, nonce);
}

static void own_item(struct item *i, struct client *c)
{
	if (i->owner == c)
		return;
	if (i->owner)
		i->owner->keys--;
	if (c)
		c->keys++;
	i->owner = c;
}

static bool is_reserved(const struct kv_bytes *key)
{
	const char *job_key = "job-key";

	return (key->bytes == strlen(job_key) && !memcmp(key->data, job_key, key->bytes)) ||
	       (key->bytes >= sizeof(dead_prefix) - 1 &&
		!memcmp(key->data, dead_prefix, sizeof(dead_prefix) - 1));
}

int store_put(struct kvd *k, struct client *c, const struct kv_msg *m)
{
	struct item *i;

	if (is_reserved(&m->key))
		return KV_ERROR_BAD_KEY;
	if (c->keys >= CLIENT_KEYS_MAX)
		return KV_ERROR_FULL;
	i = check_alloc(kv_table_get(&k->store.items, m->key.data, m->key.bytes));
	/* Told again after a reconnect: etcd has it. */
	if (i->owner == c && kv_entry_is(&i->head, m->value.data, m->value.bytes))
		return 0;
	if (kv_entry_set(&i->head, m->value.data, m->value.bytes))
		check_alloc(NULL);
	own_item(i, c);
	mark_dirty(k, i);
	publish_item(k, i, c);
	return 0;
}

int store_delete(struct kvd *k, struct client *c, const struct kv_msg *m)
{
	struct item *i = store_find(k, m->key.data, m->key.bytes);

	if (!i)
		return 0;
	if (i->owner != c)
		return KV_ERROR_NOT_YOURS;
	if (!i->head.value)
		return 0;
	kv_entry_set(&i->head, NULL, 0);
	mark_dirty(k, i);
	publish_item(k, i, c);
	return 0;
}

static void unmark_dirty(struct kvd *k, struct item *i)
{
	struct item **p = &k->store.first, *before = NULL;

	if (!i->dirty)
		return;
	for (; *p != i; p = &(*p)->next_dirty)
		before = *p;
	*p = i->next_dirty;
	if (k->store.last == i)
		k->store.last = before;
	i->dirty = false;
	k->store.dirty--;
}

void store_drop_client(struct kvd *k, struct client *c)
{
	struct item *i, *next;

	for (i = kv_table_next(&k->store.items, NULL); i; i = next) {
		next = kv_table_next(&k->store.items, i);
		if (i->owner != c)
			continue;
		unmark_dirty(k, i);
		own_item(i, NULL);
		if (i->head.value) {
			kv_entry_set(&i->head, NULL, 0);
			publish_item(k, i, c);
		}
		release_item(k, i);
	}
}

void store_add_death(struct kvd *k, const char *nonce_name)
{
	char key[64];
	int n = snprintf(key, sizeof(key), "%s%s", dead_prefix, nonce_name);
	struct item *i = check_alloc(kv_table_get(&k->store.items, key, n));

	if (i->head.value)
		return;
	if (kv_entry_set(&i->head, "1", 1))
		check_alloc(NULL);
	i->ours = true;
	mark_dirty(k, i);
	publish_item(k, i, NULL);
}

/* Puts a key of this host again that etcd has lost (its lease ran out) or has with another
 * value. */
static void remote_of_ours(struct kvd *k, struct item *i, const void *value, size_t bytes)
{
	if (!i->head.value)
		return; /* being deleted */
	if (!value) {
		mark_dirty(k, i);
		return;
	}
	if (kv_entry_is(&i->head, value, bytes))
		return;
	own_item(i, NULL); /* another host's process has put it since */
	i->ours = false;
	if (kv_entry_set(&i->head, value, bytes))
		check_alloc(NULL);
	publish_item(k, i, NULL);
}

void store_remote(struct kvd *k, const char *key, size_t key_bytes, const void *value, size_t bytes,
		  int64_t revision)
{
	struct item *i = store_find(k, key, key_bytes);

	if (!i && !value)
		return;
	if (!i)
		i = check_alloc(kv_table_get(&k->store.items, key, key_bytes));
	i->seen = k->store.round;
	/* This is older than what we have stored, or are about to store. */
	if (i->dirty || i->in_flight || revision < i->revision)
		return;
	i->revision = revision;
	if (i->owner || i->ours) {
		remote_of_ours(k, i, value, bytes);
		return;
	}
	if (value ? kv_entry_is(&i->head, value, bytes) : !i->head.value)
		return;
	if (kv_entry_set(&i->head, value, bytes))
		check_alloc(NULL);
	publish_item(k, i, NULL);
	release_item(k, i);
}

void store_mark_dirty(struct kvd *k, const struct client *c)
{
	struct item *i;

	for (i = NULL; (i = kv_table_next(&k->store.items, i));)
		if (c ? i->owner == c : i->owner || i->ours)
			mark_dirty(k, i);
}

void store_begin_round(struct kvd *k)
{
	struct item *i;

	k->store.round++;
	/* This may be another etcd, whose revisions cannot be compared with the last one's. */
	for (i = NULL; (i = kv_table_next(&k->store.items, i));)
		i->revision = 0;
}

void store_end_round(struct kvd *k, int64_t revision)
{
	struct item *i, *next;

	for (i = kv_table_next(&k->store.items, NULL); i; i = next) {
		next = kv_table_next(&k->store.items, i);
		if (i->seen != k->store.round && !i->dirty && !i->in_flight)
			store_remote(k, i->head.key, strlen(i->head.key), NULL, 0, revision);
	}
}

static bool can_be_sent(const struct kvd *k, const struct item *i)
{
	return !i->in_flight && (i->owner ? i->owner->lease : k->session.job_lease);
}

struct item *store_next_dirty(struct kvd *k)
{
	for (size_t n = k->store.dirty; n; n--) {
		struct item *i = pop_dirty(k);

		if (can_be_sent(k, i)) {
			i->in_flight = true;
			k->store.in_flight++;
			return i;
		}
		mark_dirty(k, i);
	}
	return NULL;
}

void store_sent(struct kvd *k, struct item *i, int64_t revision)
{
	i->in_flight = false;
	k->store.in_flight--;
	if (revision > i->revision)
		i->revision = revision;
	/* Its owner may have died since: then its lease is being revoked, and this goes too. */
	if (!revision && (i->owner || i->ours))
		mark_dirty(k, i);
	release_item(k, i);
}
