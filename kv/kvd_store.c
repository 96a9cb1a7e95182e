/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/kvd.h"

static const char dead_prefix[] = "dead/";

void store_init(struct kvd *k)
{
	kv_table_init(&k->store.items, sizeof(struct item));
	kv_list_init(&k->store.ready);
	kv_list_init(&k->store.deaths);
	kv_list_init(&k->store.deleted);
}

struct item *store_find(struct kvd *k, const char *key, size_t bytes)
{
	return kv_table_find(&k->store.items, key, bytes);
}

static struct item *item_of_node(const struct kv_node *n)
{
	return n ? KV_HOLDER(n, struct item, in_order) : NULL;
}

struct item *store_next_of(const struct kvd *k, const struct topic *t, const struct item *i)
{
	const char *key = t->head.key;

	if (!t->prefix)
		return i ? NULL : store_find((struct kvd *)k, key, strlen(key));
	i = item_of_node(kv_sorted_after(k->store.order, i ? i->head.key : key, !i));
	return i && !strncmp(i->head.key, key, strlen(key)) ? (struct item *)i : NULL;
}

/* A new one if there is none. NULL: there are too many, or no room for the value. */
static struct item *get_item(struct kvd *k, const char *key, size_t bytes, size_t value_bytes)
{
	struct item *i = store_find(k, key, bytes);

	if (k->store.bytes + (i ? 0 : bytes) + value_bytes > STORE_BYTES_MAX)
		return NULL;
	if (i)
		return i;
	if (k->store.items.count >= KEYS_MAX)
		return NULL;
	k->store.bytes += bytes;
	i = check_alloc(kv_table_get(&k->store.items, key, bytes));
	kv_sorted_add(&k->store.order, &i->in_order, i->head.key);
	return i;
}

/* NULL: it has none any more. */
static void set_value(struct kvd *k, struct item *i, const void *value, size_t bytes)
{
	k->store.bytes -= i->head.bytes;
	if (kv_entry_set(&i->head, value, bytes))
		check_alloc(NULL);
	k->store.bytes += i->head.bytes;
}

static int64_t lease_of(const struct kvd *k, const struct item *i)
{
	return i->owner ? i->owner->lease : k->session.job_lease;
}

/* One without a lease waits: store_mark_dirty() comes when that is granted. */
static void mark_dirty(struct kvd *k, struct item *i)
{
	k->store.dirty += !i->dirty;
	i->dirty = true;
	if (!kv_link_is_held(&i->in_ready) && lease_of(k, i))
		kv_list_append(&k->store.ready, &i->in_ready);
}

static void unmark_dirty(struct kvd *k, struct item *i)
{
	k->store.dirty -= i->dirty;
	i->dirty = false;
	kv_list_remove(&i->in_ready);
}

static void own_item(struct item *i, struct client *c)
{
	if (i->owner == c)
		return;
	if (i->owner)
		i->owner->keys--;
	kv_list_remove(&i->in_owner);
	i->owner = c;
	if (!c)
		return;
	c->keys++;
	kv_list_append(&c->items, &i->in_owner);
}

/* Frees an item that has no value, once all have been told. */
static void release_item(struct kvd *k, struct item *i)
{
	if (i->head.value || i->dirty || i->in_flight)
		return;
	own_item(i, NULL);
	kv_list_remove(&i->in_ready);
	kv_list_remove(&i->in_deaths);
	kv_list_remove(&i->in_deleted);
	k->store.bytes -= strlen(i->head.key);
	kv_sorted_remove(&k->store.order, &i->in_order);
	kv_table_remove(&k->store.items, &i->head);
}

static void publish_item(struct kvd *k, struct item *i, const struct client *except)
{
	uint64_t nonce = i->head.value ? death_of_key(i->head.key) : 0;

	clients_publish(k, i, except);
	if (!nonce || kv_link_is_held(&i->in_deaths))
		return;
	kv_list_append(&k->store.deaths, &i->in_deaths);
	clients_peer_died(k, nonce);
}

void store_hand_over(struct client *from, struct client *to)
{
	while (!kv_list_is_empty(&from->items))
		own_item(KV_HOLDER(from->items.after, struct item, in_owner), to);
}

static bool is_reserved(const struct kv_bytes *key)
{
	const char *job_key = "job-key";

	return (key->bytes == strlen(job_key) && !memcmp(key->data, job_key, key->bytes)) ||
	       (key->bytes >= sizeof(dead_prefix) - 1 &&
		!memcmp(key->data, dead_prefix, sizeof(dead_prefix) - 1));
}

int store_put(struct kvd *k, struct client *c, const struct kv_msg *m, const char **why)
{
	struct item *i;

	*why = "a name of shift-kvd's own";
	if (is_reserved(&m->key))
		return KV_ERROR_BAD_KEY;
	i = store_find(k, m->key.data, m->key.bytes);
	*why = "a process has 65,536 keys at most";
	if (c->keys >= CLIENT_KEYS_MAX && (!i || i->owner != c))
		return KV_ERROR_FULL;
	*why = "a job has 1,048,576 keys at most, and 1 GB";
	i = get_item(k, m->key.data, m->key.bytes, m->value.bytes);
	if (!i)
		return KV_ERROR_FULL;
	/* Told again after a reconnect: etcd has it. */
	if (i->owner == c && kv_entry_is(&i->head, m->value.data, m->value.bytes))
		return 0;
	set_value(k, i, m->value.data, m->value.bytes);
	kv_list_remove(&i->in_deleted);
	own_item(i, c);
	mark_dirty(k, i);
	publish_item(k, i, c);
	return 0;
}

int store_delete(struct kvd *k, struct client *c, const struct kv_msg *m, const char **why)
{
	struct item *i = store_find(k, m->key.data, m->key.bytes);

	*why = "another process has put it";
	if (!i || kv_link_is_held(&i->in_deleted))
		return 0;
	if (i->owner != c)
		return KV_ERROR_NOT_YOURS;
	if (!i->head.value)
		return 0;
	set_value(k, i, NULL, 0);
	mark_dirty(k, i);
	publish_item(k, i, c);
	return 0;
}

void store_drop_client(struct kvd *k, struct client *c)
{
	while (!kv_list_is_empty(&c->items)) {
		struct item *i = KV_HOLDER(c->items.after, struct item, in_owner);

		unmark_dirty(k, i);
		own_item(i, NULL);
		if (i->head.value) {
			set_value(k, i, NULL, 0);
			publish_item(k, i, c);
		}
		release_item(k, i);
	}
}

/* Also if it was told before: whoever has refuted it is to try it again. The clients pass over what
 * they have not refuted. */
static void publish_death(struct kvd *k, struct item *i)
{
	kv_list_remove(&i->in_deaths);
	publish_item(k, i, NULL);
}

/* Without the job key its tag is made later, by store_next_dirty(). */
static void seal_death(struct kvd *k, struct item *i)
{
	char tag[DEATH_TAG_CHARS + 1] = "";

	if (k->session.has_key)
		death_tag(k, i->head.key, tag);
	set_value(k, i, tag, strlen(tag));
}

void store_add_death(struct kvd *k, const char *nonce_name)
{
	char key[64];
	int n = snprintf(key, sizeof(key), "%s%s", dead_prefix, nonce_name);
	struct item *i = get_item(k, key, n, DEATH_TAG_CHARS);

	if (!i)
		return;
	seal_death(k, i);
	i->ours = true;
	mark_dirty(k, i);
	publish_death(k, i);
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
	set_value(k, i, value, bytes);
	publish_item(k, i, NULL);
}

/* False: who wrote that record does not have the job key. */
static bool believe_death(struct kvd *k, struct item *i, const char *key, size_t key_bytes,
			  const void *value, size_t bytes)
{
	char name[KV_KEY_MAX + 1];

	if (!value || key_bytes < strlen(dead_prefix) ||
	    memcmp(key, dead_prefix, strlen(dead_prefix)))
		return true;
	snprintf(name, sizeof(name), "%.*s", (int)key_bytes, key);
	if (death_of_key(name) && death_is_proved(k, name, value, bytes))
		return true;
	if (!k->store.unproved_deaths++)
		say("%s%s: the job key does not prove this record of a death: ignored, as all "
		    "like it will be; who writes to this etcd, or runs another version of shift?",
		    k->session.prefix, name);
	if (i && i->ours)
		mark_dirty(k, i);
	return false;
}

/* Again: it was put since the last time that we heard of it. A death is put again, with the same
 * value, if it is reported again. */
static void remote_of_others(struct kvd *k, struct item *i, const void *value, size_t bytes,
			     bool again)
{
	if (value ? kv_entry_is(&i->head, value, bytes) : !i->head.value) {
		if (value && again && death_of_key(i->head.key))
			publish_death(k, i);
		return;
	}
	set_value(k, i, value, bytes);
	publish_item(k, i, NULL);
	kv_list_remove(&i->in_deleted);
	if (!value && k->watches.reading)
		kv_list_append(&k->store.deleted, &i->in_deleted);
	else
		release_item(k, i);
}

bool store_remote(struct kvd *k, const char *key, size_t key_bytes, const void *value, size_t bytes,
		  int64_t revision)
{
	struct item *i = store_find(k, key, key_bytes);
	bool again = i && i->revision && revision > i->revision;

	if (i)
		i->seen = k->store.round;
	/* That one is older than what we have stored, or are about to store. */
	if ((!i && !value) || (i && (i->dirty || i->in_flight || revision < i->revision)))
		return true;
	if (!i && !subs_cover(k, key, key_bytes, NULL))
		return true;
	if (!believe_death(k, i, key, key_bytes, value, bytes))
		return true;
	i = get_item(k, key, key_bytes, value ? bytes : 0);
	if (!i)
		return false;
	i->seen = k->store.round;
	i->revision = revision;
	if (i->owner || i->ours)
		remote_of_ours(k, i, value, bytes);
	else
		remote_of_others(k, i, value, bytes, again);
	return true;
}

void store_mark_dirty(struct kvd *k, const struct client *c)
{
	struct item *i;

	if (c) {
		const struct kv_link *l = c->items.after;

		for (; l != &c->items; l = l->after)
			mark_dirty(k, KV_HOLDER(l, struct item, in_owner));
		return;
	}
	for (i = NULL; (i = kv_table_next(&k->store.items, i));)
		if (i->owner || i->ours)
			mark_dirty(k, i);
}

void store_forget_revisions(struct kvd *k)
{
	struct item *i;

	for (i = NULL; (i = kv_table_next(&k->store.items, i));)
		i->revision = 0;
}

void store_end_round(struct kvd *k, const struct topic *t, int64_t revision)
{
	struct item *i, *next;

	for (i = store_next_of(k, t, NULL); i; i = next) {
		next = store_next_of(k, t, i);
		if (i->seen != k->store.round && !i->dirty && !i->in_flight)
			store_remote(k, i->head.key, strlen(i->head.key), NULL, 0, revision);
	}
}

void store_end_reading(struct kvd *k)
{
	while (!kv_list_is_empty(&k->store.deleted)) {
		struct item *i = KV_HOLDER(k->store.deleted.after, struct item, in_deleted);

		kv_list_remove(&i->in_deleted);
		release_item(k, i);
	}
}

void store_forget_topic(struct kvd *k, const struct topic *t)
{
	struct item *i, *next;

	for (i = store_next_of(k, t, NULL); i; i = next) {
		next = store_next_of(k, t, i);
		if (i->owner || i->ours || subs_cover(k, i->head.key, strlen(i->head.key), t))
			continue;
		set_value(k, i, NULL, 0);
		release_item(k, i);
	}
}

struct item *store_next_dirty(struct kvd *k)
{
	while (!kv_list_is_empty(&k->store.ready)) {
		struct item *i = KV_HOLDER(k->store.ready.after, struct item, in_ready);

		kv_list_remove(&i->in_ready);
		/* Its lease is gone, and will be granted anew; or store_sent() comes back to it. */
		if (i->in_flight || !lease_of(k, i))
			continue;
		unmark_dirty(k, i);
		if (i->ours && !i->head.bytes)
			seal_death(k, i);
		i->in_flight = true;
		k->store.in_flight++;
		return i;
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
	if (i->dirty || (!revision && (i->owner || i->ours)))
		mark_dirty(k, i);
	release_item(k, i);
}
