/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * From a key to those who have asked for it: a change costs the number of these, and not that of
 * all clients. A prefix is looked up once for each length that any client has asked for.
 */
#include <string.h>

#include "kv/kvd.h"

/* A key or prefix that somebody has asked for. */
struct topic {
	struct kv_entry head;
	struct kv_link subscribers;
};

/* In a client's table. */
struct subscription {
	struct kv_entry head;
	struct client *client;
	struct topic *topic;
	struct kv_link in_topic;
};

void subs_init(struct kvd *k)
{
	kv_table_init(&k->subs.keys, sizeof(struct topic));
	kv_table_init(&k->subs.prefixes, sizeof(struct topic));
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

void subs_add(struct kvd *k, struct client *c, bool prefix, const struct kv_bytes *key)
{
	struct kv_table *mine = prefix ? &c->watches : &c->gets;
	struct kv_table *all = prefix ? &k->subs.prefixes : &k->subs.keys;
	struct subscription *s = check_alloc(kv_table_get(mine, key->data, key->bytes));
	struct topic *t;

	if (s->client)
		return;
	t = check_alloc(kv_table_get(all, key->data, key->bytes));
	if (!kv_link_is_held(&t->subscribers)) {
		kv_list_init(&t->subscribers);
		if (prefix)
			k->subs.prefixes_of_bytes[key->bytes]++;
	}
	s->client = c;
	s->topic = t;
	kv_list_append(&t->subscribers, &s->in_topic);
}

static void leave_topic(struct kvd *k, struct subscription *s, bool prefix)
{
	struct topic *t = s->topic;

	kv_list_remove(&s->in_topic);
	if (!kv_list_is_empty(&t->subscribers))
		return;
	if (prefix)
		k->subs.prefixes_of_bytes[strlen(t->head.key)]--;
	kv_table_remove(prefix ? &k->subs.prefixes : &k->subs.keys, &t->head);
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
	leave_topic(k, s, mine == &c->watches);
	kv_table_remove(mine, &s->head);
}

void subs_drop_client(struct kvd *k, struct client *c)
{
	struct subscription *s;

	for (s = NULL; (s = kv_table_next(&c->gets, s));)
		leave_topic(k, s, false);
	for (s = NULL; (s = kv_table_next(&c->watches, s));)
		leave_topic(k, s, true);
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
