/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What is in etcd, and what changes there. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "kv/kvd.h"

/* The keys that begin with the prefix: up to the first that does not. */
static void add_range(struct kvd *k, cJSON *o)
{
	char end[sizeof(k->session.prefix)];
	size_t n = strlen(k->session.prefix);

	memcpy(end, k->session.prefix, n);
	end[n - 1]++;
	etcd_add_bytes(o, "key", k->session.prefix, n);
	etcd_add_bytes(o, "range_end", end, n);
}

/* False: it was the job key that was deleted. The session must put it again before another daemon
 * makes another. */
static bool take_kv(struct kvd *k, const cJSON *kv, bool deleted)
{
	size_t key_bytes, bytes = 0, prefix = strlen(k->session.prefix);
	char *key = (char *)etcd_bytes(kv, "key", &key_bytes);
	uint8_t *value = deleted ? NULL : etcd_bytes(kv, "value", &bytes);
	bool is_key = key && !strcmp(key + prefix, "job-key");

	/* A key or value that was put with etcdctl may be too long for a client's frame. */
	if (key && key_bytes > prefix && kv_key_is_valid(key + prefix, key_bytes - prefix) &&
	    bytes <= KV_VALUE_MAX && !is_key)
		store_remote(k, key + prefix, key_bytes - prefix,
			     deleted ? NULL
			     : value ? value
				     : (uint8_t *)"",
			     bytes, etcd_int(kv, "mod_revision"));
	free(key);
	free(value);
	return !is_key || !deleted;
}

static void on_all(void *arg, const cJSON *reply, int code, const char *text)
{
	struct kvd *k = arg;
	const cJSON *kv;

	if (code == ETCD_CANCELLED)
		return;
	if (code != ETCD_OK) {
		if (code == ETCD_UNAUTHENTICATED)
			k->session.token_at_ms = 0;
		session_fail(k, text);
		return;
	}
	k->session.revision = etcd_int(cJSON_GetObjectItem(reply, "header"), "revision");
	store_begin_round(k);
	cJSON_ArrayForEach (kv, cJSON_GetObjectItem(reply, "kvs"))
		take_kv(k, kv, false);
	store_end_round(k, k->session.revision);
	watch_start(k);
}

void watch_read_all(struct kvd *k)
{
	cJSON *body = cJSON_CreateObject();

	add_range(k, body);
	etcd_post(k->session.etcd, "/v3/kv/range", body, on_all, k);
}

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
	k->session.state = SESSION_UP;
	clients_welcome(k);
}

/* The header's revision would be wrong: events from before it may still come. */
static void note_revision(struct kvd *k, const cJSON *kv)
{
	int64_t revision = etcd_int(kv, "mod_revision");

	if (revision > k->session.revision)
		k->session.revision = revision;
}

static void on_watch(void *arg, const cJSON *reply, int code, const char *text)
{
	struct kvd *k = arg;
	const cJSON *result = cJSON_GetObjectItem(reply, "result"), *event, *type;
	bool key_is_there = true;

	if (code == ETCD_CANCELLED)
		return;
	if (code != ETCD_OK)
		return session_fail(k, text);
	if (cJSON_IsTrue(cJSON_GetObjectItem(result, "canceled")))
		return on_cancelled(k, result);
	if (cJSON_IsTrue(cJSON_GetObjectItem(result, "created")))
		return on_created(k);
	cJSON_ArrayForEach (event, cJSON_GetObjectItem(result, "events")) {
		type = cJSON_GetObjectItem(event, "type");
		key_is_there &= take_kv(k, cJSON_GetObjectItem(event, "kv"),
					cJSON_IsString(type) &&
						!strcmp(type->valuestring, "DELETE"));
		note_revision(k, cJSON_GetObjectItem(event, "kv"));
	}
	if (!key_is_there)
		session_restart(k);
}

void watch_start(struct kvd *k)
{
	cJSON *body = cJSON_CreateObject(), *create;

	create = cJSON_AddObjectToObject(body, "create_request");
	add_range(k, create);
	etcd_add_int(create, "start_revision", k->session.revision + 1);
	etcd_stream(k->session.etcd, "/v3/watch", body, on_watch, k);
}
