/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * From a key to those who have asked for it: a change costs the number of these, and not that of
 * all clients. A prefix is looked up once for each length that any client has asked for.
 */
#include <string.h>

#include "kv/kvd.h"

/* In a client's table. */
struct subscription {
	struct kv_entry head;
	struct client *client;
	struct topic *topic;
	struct kv_link in_topic;
};

static struct kv_table *topics_of(struct subscriptions *s, bool prefix)
{
	return prefix ? &s->prefixes : &s->keys;
}

static struct topic *get_topic(struct kvd *k, bool prefix, const char *key, size_t bytes)
{
	struct topic *t = check_alloc(kv_table_get(topics_of(&k->subs, prefix), key, bytes));

	if (kv_link_is_held(&t->subscribers))
		return t;
	kv_list_init(&t->subscribers);
	t->prefix = prefix;
	if (prefix)
		k->subs.prefixes_of_bytes[bytes]++;
	watch_topic_begun(k, t);
	return t;
}

struct topic *subs_add_own(struct kvd *k, bool prefix, const char *key)
{
	struct topic *t = get_topic(k, prefix, key, strlen(key));

	if (!topic_is_used(t))
		watch_topic_used(t);
	t->own = true;
	return t;
}

bool topic_is_used(const struct topic *t)
{
	return t->own || !kv_list_is_empty(&t->subscribers);
}

void topic_free(struct kvd *k, struct topic *t)
{
	store_forget_topic(k, t);
	if (t->prefix)
		k->subs.prefixes_of_bytes[strlen(t->head.key)]--;
	kv_table_remove(topics_of(&k->subs, t->prefix), &t->head);
}

struct topic *subs_next(const struct kvd *k, const struct topic *t)
{
	bool prefix = t && t->prefix;
	struct topic *next = kv_table_next(prefix ? &k->subs.prefixes : &k->subs.keys, t);

	return next || prefix ? next : kv_table_next(&k->subs.prefixes, NULL);
}

void subs_init(struct kvd *k)
{
	kv_table_init(&k->subs.keys, sizeof(struct topic));
	kv_table_init(&k->subs.prefixes, sizeof(struct topic));
	k->subs.job_key = subs_add_own(k, false, "job-key");
	subs_add_own(k, true, "dead/");
}

void subs_free(struct kvd *k)
{
	kv_table_free(&k->subs.keys);
	kv_table_free(&k->subs.prefixes);
}

void subs_init_client(struct client *c)
{
	kv_table_init(&c->gets, sizeof(struct subscription));
	kv_table_init(&c->watches, sizeof(struct subscription));
}

struct topic *subs_add(struct kvd *k, struct client *c, bool prefix, const struct kv_bytes *key)
{
	struct kv_table *mine = prefix ? &c->watches : &c->gets;
	struct subscription *s = check_alloc(kv_table_get(mine, key->data, key->bytes));

	if (s->client)
		return s->topic;
	s->client = c;
	s->topic = get_topic(k, prefix, key->data, key->bytes);
	if (!topic_is_used(s->topic))
		watch_topic_used(s->topic);
	kv_list_append(&s->topic->subscribers, &s->in_topic);
	return s->topic;
}

static void leave_topic(struct kvd *k, struct subscription *s)
{
	kv_list_remove(&s->in_topic);
	if (!topic_is_used(s->topic))
		watch_topic_unused(k, s->topic);
}

void subs_remove(struct kvd *k, struct client *c, const struct kv_bytes *key)
{
	struct kv_table *mine = &c->gets;
	struct subscription *s = kv_table_find(mine, key->data, key->bytes);

	if (!s) {
		mine = &c->watches;
		s = kv_table_find(mine, key->data, key->bytes);
	}
	if (!s)
		return;
	leave_topic(k, s);
	kv_table_remove(mine, &s->head);
}

void subs_drop_client(struct kvd *k, struct client *c)
{
	struct subscription *s;

	for (s = NULL; (s = kv_table_next(&c->gets, s));)
		leave_topic(k, s);
	for (s = NULL; (s = kv_table_next(&c->watches, s));)
		leave_topic(k, s);
	kv_table_free(&c->gets);
	kv_table_free(&c->watches);
}

static void tell_topic(struct kvd *k, const struct topic *t, const struct item *i,
		       const struct client *except)
{
	for (struct kv_link *l = t->subscribers.after; l != &t->subscribers; l = l->after) {
		struct client *c = KV_HOLDER(l, struct subscription, in_topic)->client;

		if (c == except || !c->welcomed || c->told == k->subs.told)
			continue;
		c->told = k->subs.told;
		client_send_item(c, i);
	}
}

bool subs_cover(const struct kvd *k, const char *key, size_t bytes, const struct topic *but)
{
	const struct topic *t = kv_table_find(&k->subs.keys, key, bytes);

	if (t && t != but)
		return true;
	for (size_t n = 0; n <= bytes; n++) {
		t = k->subs.prefixes_of_bytes[n] ? kv_table_find(&k->subs.prefixes, key, n) : NULL;
		if (t && t != but)
			return true;
	}
	return false;
}

void subs_tell_known(struct kvd *k, const struct topic *t)
{
	for (struct kv_link *l = t->subscribers.after; l != &t->subscribers; l = l->after)
		client_tell_known(k, KV_HOLDER(l, struct subscription, in_topic)->client, t);
}

void subs_tell_again(struct kvd *k, struct client *c)
{
	struct subscription *s;

	for (s = NULL; (s = kv_table_next(&c->gets, s));)
		client_tell_topic(k, c, s->topic);
	for (s = NULL; (s = kv_table_next(&c->watches, s));)
		client_tell_topic(k, c, s->topic);
}

void clients_publish(struct kvd *k, const struct item *i, const struct client *except)
{
	size_t bytes = strlen(i->head.key);
	const struct topic *t = kv_table_find(&k->subs.keys, i->head.key, bytes);

	k->subs.told++;
	if (t)
		tell_topic(k, t, i, except);
	for (size_t n = 0; k->subs.prefixes.count && n <= bytes; n++) {
		t = k->subs.prefixes_of_bytes[n] ? kv_table_find(&k->subs.prefixes, i->head.key, n)
						 : NULL;
		if (t)
			tell_topic(k, t, i, except);
	}
}
