/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Questions to an etcd that may be another job's, no etcd at all, or just starting. */
#include <cjson/cJSON.h>
#include <poll.h>
#include <string.h>

#include "kv/kvd_etcd.h"

enum {
	NONSENSE_MS = 500, /* a proxy that answers something else may lead to an etcd in a moment */
	JOIN_S = 10,
};

struct question {
	bool done, is_etcd, is_other;
	int presences;
};

static void on_leases(void *arg, const cJSON *reply, int code, const char *text)
{
	struct question *q = arg;
	const cJSON *lease;

	q->done = true;
	q->is_other = code == ETCD_NO_ANSWER && strstr(text, ETCD_NO_JSON);
	/* One that refuses the request (users, passwords, certificates) is an etcd, too. */
	q->is_etcd = code > 0 ||
		     cJSON_GetObjectItem(cJSON_GetObjectItem(reply, "header"), "cluster_id");
	cJSON_ArrayForEach (lease, cJSON_GetObjectItem(reply, "leases"))
		q->presences += etcd_is_presence_lease(etcd_int(lease, "ID"));
}

static void on_joined(void *arg, const cJSON *reply, int code, const char *text)
{
	(void)arg;
	(void)reply;
	(void)code;
	(void)text;
}

struct member {
	const char *name;
	bool done, is_it;
};

static void on_members(void *arg, const cJSON *reply, int code, const char *text)
{
	struct member *m = arg;
	const cJSON *list = cJSON_GetObjectItem(reply, "members");
	const char *name = cJSON_GetStringValue(
		cJSON_GetObjectItem(cJSON_GetArrayItem(list, 0), "name"));

	(void)code;
	(void)text;
	m->done = true;
	m->is_it = name && !strcmp(name, m->name);
}

static struct question ask_etcd(const char *url, bool join, int timeout_ms)
{
	struct etcd_options o = {.endpoint = {url}, .endpoints = 1, .timeout_ms = timeout_ms};
	struct etcd *e = check_alloc(etcd_new(&o));
	struct question q = {0};
	cJSON *body;

	if (join) {
		body = cJSON_CreateObject();
		etcd_add_int(body, "TTL", JOIN_S);
		etcd_add_int(body, "ID", etcd_presence_lease());
		etcd_post(e, "/v3/lease/grant", body, on_joined, NULL);
	}
	etcd_post(e, "/v3/lease/leases", cJSON_CreateObject(), on_leases, &q);
	while (!q.done)
		etcd_wait(e, NULL, 0, timeout_ms);
	etcd_free(e);
	return q;
}

bool etcd_answers(const char *url, int timeout_ms)
{
	int64_t begun = now_ms();

	for (;;) {
		struct question q = ask_etcd(url, false, 1000);
		int64_t waited = now_ms() - begun;

		if (q.is_etcd)
			return true;
		if (waited >= timeout_ms || (q.is_other && waited >= NONSENSE_MS))
			return false;
		poll(NULL, 0, 50);
	}
}

bool etcd_is(const char *url, const char *name, int timeout_ms)
{
	struct etcd_options o = {.endpoint = {url}, .endpoints = 1, .timeout_ms = timeout_ms};
	struct etcd *e = check_alloc(etcd_new(&o));
	struct member m = {.name = name};

	etcd_post(e, "/v3/cluster/member/list", cJSON_CreateObject(), on_members, &m);
	while (!m.done)
		etcd_wait(e, NULL, 0, timeout_ms);
	etcd_free(e);
	return m.is_it;
}

int etcd_presences(const char *url, bool join, int timeout_ms)
{
	struct question q = ask_etcd(url, join, timeout_ms);

	return q.is_etcd ? q.presences : -1;
}
