/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What is in etcd, and what changes there. All of it is read in pages of one revision, so that
 * neither etcd nor we need memory or time for all at once.
 *
 * An etcd that is broken, or not ours, says anything: what it says is checked before it is used,
 * and what cannot be ends the session.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/kvd.h"

/* The first page is small, for an etcd of long values; but each costs etcd a look at all keys. */
enum { PAGE_KEYS = 1000, PAGE_KEYS_MAX = 16000 };

/* Of reading all of the job. */
struct reading {
	char *next; /* the last key that was read, and the NUL behind it; NULL: none yet */
	size_t next_bytes;
	int64_t revision; /* of all pages; 0: not known yet */
	long limit, limit_max, keys;
};

/* A key of the job, taken from an answer. */
struct remote {
	char *key; /* the whole */
	const char *name;
	size_t key_bytes, name_bytes, bytes;
	uint8_t *value;
	int64_t revision;
};

static void free_remote(struct remote *r)
{
	free(r->key);
	free(r->value);
	*r = (struct remote){0};
}

/* False: that is no key of the job, or no key at all. */
static bool read_remote(const struct kvd *k, const cJSON *kv, struct remote *r)
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

static bool is_job_key(const struct remote *r)
{
	return r->name_bytes == strlen("job-key") && !memcmp(r->name, "job-key", r->name_bytes);
}

/* A key or value that was put with etcdctl may be too long for a client's frame. False: there are
 * too many keys. */
static bool take_remote(struct kvd *k, const struct remote *r, bool deleted)
{
	const uint8_t *value = deleted ? NULL : r->value ? r->value : (const uint8_t *)"";

	if (!kv_key_is_valid(r->name, r->name_bytes) || r->bytes > KV_VALUE_MAX || is_job_key(r))
		return true;
	return store_remote(k, r->name, r->name_bytes, value, deleted ? 0 : r->bytes, r->revision);
}

static void fail_for_keys(struct kvd *k)
{
	char text[64];

	snprintf(text, sizeof(text), "the job has more than %d keys, or %d MB", KEYS_MAX,
		 STORE_BYTES_MAX >> 20);
	session_fail(k, text);
}

/* The keys that begin with the prefix: up to the first that does not. */
static void add_range(struct kvd *k, cJSON *o, const char *from, size_t bytes)
{
	char end[sizeof(k->session.prefix)];
	size_t n = strlen(k->session.prefix);

	memcpy(end, k->session.prefix, n);
	end[n - 1]++;
	etcd_add_bytes(o, "key", from, bytes);
	etcd_add_bytes(o, "range_end", end, n);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void read_page(struct kvd *k);

void watch_forget(struct kvd *k)
{
	if (k->session.reading)
		free(k->session.reading->next);
	free(k->session.reading);
	k->session.reading = NULL;
}

static void end_reading(struct kvd *k)
{
	struct session *s = &k->session;

	s->revision = s->reading->revision;
	s->knows_instance = true;
	watch_forget(k);
	store_end_round(k, s->revision);
	watch_start(k);
}

/* The next page begins behind this key. False: keys must come in order. */
static bool note_key(struct reading *r, struct remote *kv)
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
static bool take_page(struct kvd *k, const cJSON *reply)
{
	const cJSON *kv, *kvs = cJSON_GetObjectItem(reply, "kvs");
	struct remote r = {0};
	bool good = !kvs || cJSON_IsArray(kvs), room = true;

	for (kv = good && kvs ? kvs->child : NULL; kv && good && room; kv = kv->next) {
		good = read_remote(k, kv, &r);
		room = !good || take_remote(k, &r, false);
		good = good && note_key(k->session.reading, &r);
		free_remote(&r);
	}
	if (!good)
		session_fail(k, "keys came that were not asked for: is this etcd?");
	else if (!room || k->session.reading->keys > KEYS_MAX)
		fail_for_keys(k);
	else
		return true;
	return false;
}

/* The history may have been compacted since the first page; and a page of very long values is read
 * in smaller ones. */
static void on_page_error(struct kvd *k, int code, const char *text)
{
	struct reading *r = k->session.reading;

	if (code == ETCD_CANCELLED)
		return;
	if (code == ETCD_TOO_LONG && r->limit > 1) {
		r->limit = r->limit > 4 ? r->limit / 4 : 1;
		r->limit_max = r->limit;
		return read_page(k);
	}
	if (code == ETCD_UNAUTHENTICATED)
		k->session.token_at_ms = 0;
	if (code == ETCD_OUT_OF_RANGE)
		session_restart(k);
	else
		session_fail(k, text);
}

static void on_page(void *arg, const cJSON *reply, int code, const char *text)
{
	struct kvd *k = arg;
	struct reading *r = k->session.reading;
	long before = code == ETCD_OK ? r->keys : 0;

	if (code != ETCD_OK)
		return on_page_error(k, code, text);
	if (!r->revision)
		r->revision = etcd_revision(cJSON_GetObjectItem(reply, "header"), "revision");
	if (!r->revision)
		return session_fail(k, "an answer without a revision: is this etcd?");
	if (!take_page(k, reply))
		return;
	k->session.begun_at_ms = now_ms(); /* it goes on */
	r->limit = 2 * r->limit < r->limit_max ? 2 * r->limit : r->limit_max;
	if (!cJSON_IsTrue(cJSON_GetObjectItem(reply, "more")))
		end_reading(k);
	else if (r->keys == before)
		session_fail(k, "an empty page of keys: is this etcd?");
	else
		read_page(k);
}

static void read_page(struct kvd *k)
{
	struct reading *r = k->session.reading;
	cJSON *body = cJSON_CreateObject();

	add_range(k, body, r->next ? r->next : k->session.prefix,
		  r->next ? r->next_bytes : strlen(k->session.prefix));
	etcd_add_int(body, "limit", r->limit);
	if (r->revision)
		etcd_add_int(body, "revision", r->revision);
	etcd_post(k->session.etcd, "/v3/kv/range", body, on_page, k);
}

void watch_read_all(struct kvd *k)
{
	struct session *s = &k->session;

	watch_forget(k);
	s->knows_instance = false; /* until all is read */
	s->reading = check_alloc(calloc(1, sizeof(*s->reading)));
	s->reading->limit = PAGE_KEYS;
	s->reading->limit_max = PAGE_KEYS_MAX;
	store_begin_round(k);
	read_page(k);
}

/* ---- changes -------------------------------------------------------------------------------- */

/* After a compaction the changes since that revision are lost, but the present state can be
 * read. */
static void on_cancelled(struct kvd *k, const cJSON *result)
{
	k->session.knows_instance = false;
	if (etcd_int(result, "compact_revision"))
		session_restart(k);
	else
		session_fail(k, "etcd ended the watch");
}

static void on_created(struct kvd *k)
{
	if (k->session.state == SESSION_UP)
		return;
	k->session.state = SESSION_UP;
	k->session.up_at_ms = now_ms();
	clients_welcome(k);
}

/* The header's revision would be wrong: events from before it may still come; and of a message in
 * parts, others of the same revision. */
static void note_revision(struct kvd *k, int64_t revision, bool in_parts)
{
	revision -= in_parts;
	if (revision > k->session.revision)
		k->session.revision = revision;
}

/* False: the session has failed, or starts again. */
static bool take_event(struct kvd *k, const cJSON *event, bool in_parts)
{
	const cJSON *type = cJSON_GetObjectItem(event, "type");
	bool deleted = cJSON_IsString(type) && !strcmp(type->valuestring, "DELETE");
	struct remote r = {0};
	bool good = read_remote(k, cJSON_GetObjectItem(event, "kv"), &r);
	bool room = !good || take_remote(k, &r, deleted);
	/* It must be put again before another daemon makes another one. */
	bool lost = good && deleted && is_job_key(&r);

	if (good && room)
		note_revision(k, r.revision, in_parts);
	free_remote(&r);
	if (!good)
		session_fail(k, "a change came that was not asked for: is this etcd?");
	else if (!room)
		fail_for_keys(k);
	else if (lost)
		session_restart(k);
	return good && room && !lost;
}

static void on_watch(void *arg, const cJSON *reply, int code, const char *text)
{
	struct kvd *k = arg;
	const cJSON *result = cJSON_GetObjectItem(reply, "result"), *events, *event;
	bool in_parts = cJSON_IsTrue(cJSON_GetObjectItem(result, "fragment"));

	if (code == ETCD_CANCELLED)
		return;
	if (code != ETCD_OK)
		return session_fail(k, text);
	if (cJSON_IsTrue(cJSON_GetObjectItem(result, "canceled")))
		return on_cancelled(k, result);
	if (cJSON_IsTrue(cJSON_GetObjectItem(result, "created")))
		return on_created(k);
	events = cJSON_GetObjectItem(result, "events");
	for (event = cJSON_IsArray(events) ? events->child : NULL; event; event = event->next)
		if (!take_event(k, event, in_parts))
			return;
}

void watch_start(struct kvd *k)
{
	cJSON *body = cJSON_CreateObject(), *create;

	create = cJSON_AddObjectToObject(body, "create_request");
	add_range(k, create, k->session.prefix, strlen(k->session.prefix));
	etcd_add_int(create, "start_revision", k->session.revision + 1);
	cJSON_AddBoolToObject(create, "fragment", true);
	etcd_stream(k->session.etcd, "/v3/watch", body, on_watch, k);
}
