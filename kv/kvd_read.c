/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What is in etcd of the topics that are wanted. Many are read by one request, so that a process
 * with many peers waits for one answer; what does not fit into that is read page by page. All of it
 * is of one revision, behind which the topics are then watched.
 *
 * An etcd that is broken, or not ours, says anything: what it says is checked before it is used,
 * and what cannot be ends the session.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/kvd.h"

/* The first answer is small, for an etcd of long values; but each costs etcd a look at all keys of
 * the topic. */
enum { ANSWER_KEYS = 4000, ANSWER_KEYS_MAX = 16000 };

struct reading {
	struct kv_link topics; /* that are not read to their end */
	char *next; /* of the first of them: its last key that was read, and the NUL behind it */
	size_t next_bytes;
	int64_t revision; /* of all answers; 0: not known yet */
	int64_t job_key;  /* its mod_revision, if it was among them */
	long limit, limit_max, keys;
	int batch; /* topics in the first request, which is for many; the others are for one */
	bool asked;
};

/* ---- a key --------------------------------------------------------------------------------- */

void remote_free(struct remote *r)
{
	free(r->key);
	free(r->value);
	*r = (struct remote){0};
}

bool remote_parse(const struct kvd *k, const cJSON *kv, struct remote *r)
{
	size_t prefix = strlen(k->session.prefix);

	r->key = (char *)etcd_bytes(kv, "key", &r->key_bytes);
	r->value = etcd_bytes(kv, "value", &r->bytes);
	r->revision = etcd_revision(kv, "mod_revision");
	if (!r->key || r->key_bytes < prefix || memcmp(r->key, k->session.prefix, prefix) ||
	    !r->revision)
		return false;
	r->name = r->key + prefix;
	r->name_bytes = r->key_bytes - prefix;
	return true;
}

bool remote_is_job_key(const struct remote *r)
{
	return r->name_bytes == strlen("job-key") && !memcmp(r->name, "job-key", r->name_bytes);
}

static bool fail_for_keys(struct kvd *k)
{
	char text[64];

	snprintf(text, sizeof(text), "the job has more than %d keys, or %d MB", KEYS_MAX,
		 STORE_BYTES_MAX >> 20);
	session_fail(k, text);
	return false;
}

/* A key or value that was put with etcdctl may be too long for a client's frame. */
bool remote_take(struct kvd *k, const struct remote *r, bool deleted)
{
	const uint8_t *value = deleted ? NULL : r->value ? r->value : (const uint8_t *)"";

	if (!kv_key_is_valid(r->name, r->name_bytes) || r->bytes > KV_VALUE_MAX ||
	    remote_is_job_key(r))
		return true;
	return store_remote(k, r->name, r->name_bytes, value, deleted ? 0 : r->bytes,
			    r->revision) ||
	       fail_for_keys(k);
}

/* ---- ranges -------------------------------------------------------------------------------- */

void add_topic_range(const struct kvd *k, cJSON *o, const struct topic *t, const char *from,
		     size_t from_bytes)
{
	char key[sizeof(k->session.prefix) + KV_KEY_MAX + 1];
	int n = snprintf(key, sizeof(key), "%s%s", k->session.prefix, t->head.key);

	etcd_add_bytes(o, "key", from ? from : key, from ? from_bytes : (size_t)n);
	if (!t->prefix)
		return;
	key[n - 1]++; /* up to the first that does not begin with it */
	etcd_add_bytes(o, "range_end", key, n);
}

static struct topic *first_topic(const struct reading *r)
{
	return KV_HOLDER(r->topics.after, struct topic, in_state);
}

static void forget_place(struct reading *r)
{
	free(r->next);
	r->next = NULL;
	r->next_bytes = 0;
	r->keys = 0;
}

/* The next page begins behind this key. False: keys must come in order. */
static bool note_place(struct reading *r, struct remote *kv)
{
	size_t last = r->next ? r->next_bytes - 1 : 0;
	int order = r->next ? memcmp(r->next, kv->key, last < kv->key_bytes ? last : kv->key_bytes)
			    : -1;

	if (order > 0 || (!order && last >= kv->key_bytes))
		return false;
	free(r->next);
	r->next = kv->key; /* which has a NUL behind it */
	r->next_bytes = kv->key_bytes + 1;
	kv->key = NULL;
	r->keys++;
	return true;
}

/* False: the session has failed. */
static bool take_range(struct kvd *k, const cJSON *range)
{
	struct reading *reading = k->watches.reading;
	const cJSON *kv, *kvs = cJSON_GetObjectItem(range, "kvs");
	bool good = !kvs || cJSON_IsArray(kvs), room = true;
	struct remote r = {0};

	for (kv = good && kvs ? kvs->child : NULL; kv && good && room; kv = kv->next) {
		good = remote_parse(k, kv, &r);
		if (good && remote_is_job_key(&r))
			reading->job_key = r.revision;
		room = !good || remote_take(k, &r, false);
		good = !room || (good && note_place(reading, &r));
		remote_free(&r);
	}
	if (!good)
		session_fail(k, "keys came that were not asked for: is this etcd?");
	else if (room && reading->keys > KEYS_MAX)
		room = fail_for_keys(k);
	return good && room;
}

/* ---- from the first request to the last ---------------------------------------------------- */

void read_stop(struct kvd *k)
{
	struct reading *r = k->watches.reading;

	if (!r)
		return;
	while (!kv_list_is_empty(&r->topics))
		topic_move(k, first_topic(r), TOPIC_WANTED);
	forget_place(r);
	free(r);
	k->watches.reading = NULL;
	store_end_reading(k);
}

/* False: the session starts again. */
static bool end_topic(struct kvd *k, struct topic *t)
{
	struct reading *r = k->watches.reading;

	/* It has been lost, or made anew by another daemon, in the history that was compacted. */
	if (t == k->subs.job_key && (!r->job_key || r->job_key > t->revision))
		return session_restart(k), false;
	forget_place(r);
	store_end_round(k, t, r->revision);
	watch_topic_read(k, t, r->revision);
	return true;
}

static void begin_topic(struct reading *r, struct kvd *k, struct topic *t)
{
	topic_move(k, t, TOPIC_READING);
	kv_list_append(&r->topics, &t->in_state);
	k->watches.first -= k->watches.first > 0;
}

/* If all of the job is wanted, that comes first, and is all. */
static void begin_reading(struct kvd *k)
{
	struct reading *r = check_alloc(calloc(1, sizeof(*r)));
	struct kv_link *wanted = &k->watches.wanted;
	struct topic *all = k->subs.all;

	kv_list_init(&r->topics);
	r->limit = ANSWER_KEYS;
	r->limit_max = ANSWER_KEYS_MAX;
	k->watches.reading = r;
	k->watches.lost = false;
	k->store.round++;
	if (all && all->state == TOPIC_WANTED)
		return begin_topic(r, k, all);
	for (int n = 0; n < TXN_OPS && !kv_list_is_empty(wanted); n++)
		begin_topic(r, k, KV_HOLDER(wanted->after, struct topic, in_state));
}

/* An answer that is too long is asked for in smaller parts. True: it is dealt with. */
static bool ask_for_less(struct reading *r, int code)
{
	if (code != ETCD_TOO_LONG || r->limit <= 1)
		return false;
	r->limit = r->limit > 4 ? r->limit / 4 : 1;
	r->limit_max = r->limit;
	return true;
}

/* True: there is nothing to be taken. The history may have been compacted since the first
 * answer. */
static bool answer_failed(struct kvd *k, const cJSON *reply, int code, const char *text)
{
	struct reading *r = k->watches.reading;

	if (code == ETCD_CANCELLED)
		return true;
	r->asked = false;
	if (ask_for_less(r, code))
		return true;
	if (code == ETCD_OUT_OF_RANGE)
		return read_stop(k), watch_lost(k), true;
	if (session_request_failed(k, code, text))
		return true;
	if (!r->revision)
		r->revision = etcd_revision(cJSON_GetObjectItem(reply, "header"), "revision");
	if (!r->revision)
		return session_fail(k, "an answer without a revision: is this etcd?"), true;
	session_note_revision(k, r->revision);
	k->session.begun_at_ms = now_ms(); /* it goes on */
	return false;
}

static bool has_more(const cJSON *range)
{
	return cJSON_IsTrue(cJSON_GetObjectItem(range, "more"));
}

/* The topics of which there is more are read by pages, from their beginning. */
static void on_ranges(void *arg, const cJSON *reply, int code, const char *text)
{
	struct kvd *k = arg;
	struct reading *r = k->watches.reading;
	const cJSON *responses = cJSON_GetObjectItem(reply, "responses"), *range;
	struct kv_link *l, *next;
	int i = 0;

	if (answer_failed(k, reply, code, text))
		return;
	for (l = r->topics.after; l != &r->topics && i < r->batch; l = next, i++) {
		next = l->after;
		range = cJSON_GetObjectItem(cJSON_GetArrayItem(responses, i), "response_range");
		if (!range)
			return session_fail(k, "an answer without what was asked: is this etcd?");
		if (!take_range(k, range))
			return;
		forget_place(r);
		if (!has_more(range) && !end_topic(k, KV_HOLDER(l, struct topic, in_state)))
			return;
	}
}

static void ask_for_ranges(struct kvd *k)
{
	struct reading *r = k->watches.reading;
	cJSON *txn = cJSON_CreateObject(), *ops = cJSON_AddArrayToObject(txn, "success");
	struct kv_link *l;
	int n = 0;

	for (l = r->topics.after; l != &r->topics && n < r->limit; l = l->after)
		n++;
	r->batch = n;
	for (l = r->topics.after; n; l = l->after, n--) {
		cJSON *op = cJSON_CreateObject();
		cJSON *range = cJSON_AddObjectToObject(op, "request_range");

		add_topic_range(k, range, KV_HOLDER(l, struct topic, in_state), NULL, 0);
		etcd_add_int(range, "limit", r->limit / r->batch);
		cJSON_AddItemToArray(ops, op);
	}
	etcd_post(k->session.etcd, "/v3/kv/txn", txn, on_ranges, k);
}

static void on_page(void *arg, const cJSON *reply, int code, const char *text)
{
	struct kvd *k = arg;
	struct reading *r = k->watches.reading;
	long before = r ? r->keys : 0;

	if (answer_failed(k, reply, code, text) || !take_range(k, reply))
		return;
	r->limit = 2 * r->limit < r->limit_max ? 2 * r->limit : r->limit_max;
	if (!has_more(reply))
		end_topic(k, first_topic(r));
	else if (r->keys == before)
		session_fail(k, "an empty page of keys: is this etcd?");
}

static void ask_for_page(struct kvd *k)
{
	struct reading *r = k->watches.reading;
	cJSON *body = cJSON_CreateObject();

	add_topic_range(k, body, first_topic(r), r->next, r->next_bytes);
	etcd_add_int(body, "limit", r->limit);
	etcd_add_int(body, "revision", r->revision);
	etcd_post(k->session.etcd, "/v3/kv/range", body, on_page, k);
}

void read_end(struct kvd *k)
{
	if (k->watches.reading && kv_list_is_empty(&k->watches.reading->topics))
		read_stop(k);
}

void read_tick(struct kvd *k)
{
	struct reading *r;

	if (!k->watches.reading && !kv_list_is_empty(&k->watches.wanted) &&
	    now_ms() >= k->watches.read_at_ms)
		begin_reading(k);
	r = k->watches.reading;
	if (!r || r->asked)
		return;
	r->asked = true;
	if (r->revision)
		ask_for_page(k);
	else
		ask_for_ranges(k);
}
