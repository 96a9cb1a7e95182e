/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Puts and deletes on their way to etcd: one transaction at a time, the next gathers meanwhile. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "kv/kvd.h"

static void give_back(struct kvd *k, int64_t revision)
{
	struct session *s = &k->session;
	int n = s->batch_items;

	s->batch_items = 0;
	for (int i = 0; i < n; i++)
		store_sent(k, s->batch[i], revision);
}

/* One of the leases is gone, and etcd does not say which: all of the batch get new ones. */
static void renew_leases(struct kvd *k)
{
	for (int i = 0; i < k->session.batch_items; i++)
		if (k->session.batch[i]->owner)
			k->session.batch[i]->owner->lease = 0;
}

static void on_txn(void *arg, const cJSON *reply, int code, const char *text)
{
	struct kvd *k = arg;

	int64_t revision = etcd_revision(cJSON_GetObjectItem(reply, "header"), "revision");

	if (code == ETCD_NOT_FOUND)
		renew_leases(k);
	give_back(k, revision);
	if (code == ETCD_NOT_FOUND)
		return session_restart(k); /* looks after the job's lease too */
	if (session_request_failed(k, code, text))
		return;
	if (!revision)
		session_fail(k, "an answer without a revision: is this etcd?");
	session_note_revision(k, revision);
}

static void add_put(struct kvd *k, cJSON *ops, const struct item *i, const char *key, size_t n)
{
	cJSON *op = cJSON_CreateObject(), *put = cJSON_AddObjectToObject(op, "request_put");

	etcd_add_bytes(put, "key", key, n);
	etcd_add_bytes(put, "value", i->head.value, i->head.bytes);
	etcd_add_int(put, "lease", i->owner ? i->owner->lease : k->session.job_lease);
	cJSON_AddItemToArray(ops, op);
}

/* Only if it is still this process's: the lease is its mark. */
static void add_delete(cJSON *ops, const struct item *i, const char *key, size_t n)
{
	cJSON *op = cJSON_CreateObject(), *txn = cJSON_AddObjectToObject(op, "request_txn");
	cJSON *compare = cJSON_CreateObject(), *delete = cJSON_CreateObject();

	cJSON_AddItemToArray(cJSON_AddArrayToObject(txn, "compare"), compare);
	etcd_add_bytes(compare, "key", key, n);
	cJSON_AddStringToObject(compare, "target", "LEASE");
	etcd_add_int(compare, "lease", i->owner ? i->owner->lease : 0);
	cJSON_AddItemToArray(cJSON_AddArrayToObject(txn, "success"), delete);
	etcd_add_bytes(cJSON_AddObjectToObject(delete, "request_delete_range"), "key", key, n);
	cJSON_AddItemToArray(ops, op);
}

void txn_send(struct kvd *k)
{
	struct session *s = &k->session;
	char key[sizeof(s->prefix) + KV_KEY_MAX + 1];
	cJSON *txn, *ops;
	struct item *i;

	if (s->batch_items || !k->store.dirty)
		return;
	txn = cJSON_CreateObject();
	ops = cJSON_AddArrayToObject(txn, "success");
	while (s->batch_items < TXN_OPS && (i = store_next_dirty(k))) {
		int n = snprintf(key, sizeof(key), "%s%s", s->prefix, i->head.key);

		s->batch[s->batch_items++] = i;
		if (i->head.value)
			add_put(k, ops, i, key, n);
		else
			add_delete(ops, i, key, n);
	}
	if (s->batch_items)
		etcd_post(s->etcd, "/v3/kv/txn", txn, on_txn, k);
	else
		cJSON_Delete(txn);
}
