/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The daemon's life with etcd: token, the job's lease, the job key, what there is of what is looked
 * at here, then its changes. Where the connection or a lease is lost, or etcd cannot go on from
 * where we are, all begins anew, at the next endpoint if that failed. A request that comes too late
 * or is refused as there are too many is made again, more and more slowly, and nothing begins anew:
 * that would cost an etcd more that has too much to do already.
 *
 * The job's lease has a number made from its name, so that all daemons of the job keep the same
 * one alive: the job key and the records of deaths live as long as the job, and no longer. Each
 * process has a lease of its own: revoking it deletes its keys, all at once and no others, also
 * where another process has put the same key since.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/printable.h"
#include "kv/job_key.h"
#include "kv/kvd.h"

enum {
	RETRY_MS_MIN = 50,
	RETRY_MS_MAX = 5000,
	PAUSE_MS_MIN = 200,
	PAUSE_MS_MAX = 5000,
	LOST_TIMEOUTS = 2, /* so long after the first request that failed, etcd is taken for lost */
	TOKEN_MS = 200 * 1000, /* etcd's default: a token lasts 300 s */
	TICK_MS_MAX = 60 * 1000,
	BEGIN_TIMEOUTS = 5, /* from the first request to the watch */
	SAY_AGAIN_MS = 60 * 1000,
	LEASE_REQUESTS_MAX = 16, /* at once: each has a connection */
};

void session_init(struct kvd *k)
{
	struct session *s = &k->session;
	uint64_t h = 0xcbf29ce484222325;

	s->etcd = check_alloc(etcd_new(&k->o.etcd));
	kv_list_init(&s->graves);
	snprintf(s->prefix, sizeof(s->prefix), "/shift/v1/%s/", k->o.job);
	for (const char *p = s->prefix; *p; p++)
		h = (h ^ (uint8_t)*p) * 0x100000001b3;
	s->job_lease = (h >> 1) | 1;
	if (k->o.has_job_key) {
		memcpy(s->job_key, k->o.job_key, sizeof(s->job_key));
		s->has_key = true;
	}
}

/* For callbacks whose argument is not the daemon. */
static struct kvd *the_kvd;

static void close_grave(struct kvd *k, struct grave *g)
{
	kv_list_remove(&g->link);
	k->session.grave_count--;
	free(g);
}

void session_free(struct kvd *k)
{
	etcd_free(k->session.etcd);
	k->session.etcd = NULL;
	watch_stop(k);
	while (!kv_list_is_empty(&k->session.graves))
		close_grave(k, KV_HOLDER(k->session.graves.after, struct grave, link));
}

static void session_stop(struct kvd *k)
{
	struct session *s = &k->session;
	bool was_up = s->state == SESSION_UP;

	if (was_up && now_ms() - s->up_at_ms >= CALM_MS)
		s->retry_ms = 0;
	s->state = SESSION_DOWN;
	etcd_cancel_all(s->etcd);
	watch_stop(k);
	s->failing_since_ms = s->pause_until_ms = s->pause_ms = 0;
	s->asking = s->asking_presence = false;
	s->presence_at_ms = 0;
	if (was_up)
		clients_welcome(k);
}

int64_t session_jitter(int64_t ms)
{
	uint32_t random = 0;

	if (ms <= 0 || getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		return ms;
	return ms / 2 + random % (ms + 1);
}

/* Every beginning costs etcd something: the next one is later each time, until all was well for a
 * while. */
static void retry_later(struct session *s)
{
	s->retry_at_ms = now_ms() + session_jitter(s->retry_ms);
	s->retry_ms = s->retry_ms ? 2 * s->retry_ms : RETRY_MS_MIN;
	if (s->retry_ms > RETRY_MS_MAX)
		s->retry_ms = RETRY_MS_MAX;
}

void session_restart(struct kvd *k)
{
	session_stop(k);
	retry_later(&k->session);
}

static void say_error(struct session *s)
{
	if (!strcmp(s->error, s->said) && now_ms() - s->said_at_ms < SAY_AGAIN_MS)
		return;
	say("%s", s->error);
	strcpy(s->said, s->error);
	s->said_at_ms = now_ms();
}

static void note_error(struct session *s, const char *text)
{
	char error[sizeof(s->error)];

	snprintf(error, sizeof(error), "%s: %s%s", etcd_endpoint(s->etcd), text,
		 strstr(text, ETCD_NO_SPACE) ? ": its quota is used up, and it takes nothing new: "
					       "new connections are not protected"
					     : "");
	printable(s->error, sizeof(s->error), error);
	say_error(s);
}

void session_fail(struct kvd *k, const char *text)
{
	struct session *s = &k->session;

	note_error(s, text);
	session_stop(k);
	etcd_next_endpoint(s->etcd);
	if (!s->retry_ms)
		s->retry_ms = RETRY_MS_MIN;
	retry_later(s);
}

static void pause_longer(struct kvd *k, const char *text)
{
	struct session *s = &k->session;

	if (!s->failing_since_ms)
		s->failing_since_ms = now_ms();
	if (now_ms() - s->failing_since_ms > LOST_TIMEOUTS * k->o.etcd.timeout_ms)
		return session_fail(k, text);
	note_error(s, text);
	if (now_ms() < s->pause_until_ms)
		return; /* it was asked at the same time as another */
	s->pause_ms = s->pause_ms ? 2 * s->pause_ms : PAUSE_MS_MIN;
	if (s->pause_ms > PAUSE_MS_MAX)
		s->pause_ms = PAUSE_MS_MAX;
	s->pause_until_ms = now_ms() + session_jitter(s->pause_ms);
}

static void end_pause(struct session *s)
{
	s->failing_since_ms = 0;
	s->pause_ms /= 2; /* others may still be refused */
	*s->error = 0;
}

bool session_request_failed(struct kvd *k, int code, const char *text)
{
	struct session *s = &k->session;

	if (code == ETCD_UNAUTHENTICATED)
		s->token_at_ms = 0;
	/* A host that is gone is late, too: the others are tried before it is waited for. */
	if (code == ETCD_BUSY && k->o.etcd.endpoints > 1)
		session_fail(k, text);
	else if (code == ETCD_OK && s->state >= SESSION_READ)
		end_pause(s);
	else if (s->state >= SESSION_READ && etcd_is_busy(code, text))
		pause_longer(k, text);
	else if (code != ETCD_OK && code != ETCD_CANCELLED)
		session_fail(k, text);
	return code != ETCD_OK;
}

void session_note_revision(struct kvd *k, int64_t revision)
{
	if (revision > k->session.revision)
		k->session.revision = revision;
}

/* ---- the job key --------------------------------------------------------------------------- */

/*
 * The value of the job key in etcd: the key that was made, or zeros if a key was given, which never
 * stands in etcd; 16 random bytes that name this etcd; the id of the key. An etcd that was emptied
 * gets another name. Revisions alone prove nothing: two young etcds have the same.
 */
struct stored_key {
	uint8_t key[KV_JOB_KEY_BYTES], instance[KV_JOB_KEY_BYTES], id[JOB_KEY_ID_BYTES];
};

/* It has none of what this daemon has put into the last one, nor its leases. */
static void put_all_again(struct kvd *k)
{
	for (struct client *c = k->clients; c; c = c->next)
		if (!c->buried)
			c->lease = 0;
	store_mark_dirty(k, NULL);
}

static void accept_key(struct kvd *k, const struct stored_key *stored, int64_t revision)
{
	struct session *s = &k->session;
	bool same = s->knows_instance && revision >= s->revision &&
		    !memcmp(s->instance, stored->instance, sizeof(s->instance));

	if (!k->o.has_job_key)
		memcpy(s->job_key, stored->key, sizeof(s->job_key));
	memcpy(s->instance, stored->instance, sizeof(s->instance));
	s->has_key = s->knows_instance = true;
	s->revision = revision;
	s->state = SESSION_READ;
	if (!same)
		put_all_again(k);
	watch_begin(k, same, revision);
}

static const char *check_key(const struct kvd *k, const struct stored_key *stored)
{
	static const uint8_t none[KV_JOB_KEY_BYTES];
	bool is_none = !memcmp(stored->key, none, sizeof(none));
	uint8_t id[JOB_KEY_ID_BYTES];

	if (is_none != k->o.has_job_key)
		return JOB_KEY_ON_SOME;
	if (!k->session.has_key)
		return NULL;
	job_key_id(id, k->session.job_key);
	if (!memcmp(id, stored->id, sizeof(id)))
		return NULL;
	return k->o.has_job_key ? JOB_KEY_DIFFERS
				: "the job has another key there: two jobs of one name?";
}

static void on_key(void *arg, const cJSON *reply, int code, const char *text)
{
	struct kvd *k = arg;
	int64_t revision = etcd_revision(cJSON_GetObjectItem(reply, "header"), "revision");
	struct stored_key stored;
	const cJSON *kv;
	uint8_t *value;
	size_t bytes;

	if (session_request_failed(k, code, text))
		return;
	kv = cJSON_GetArrayItem(cJSON_GetObjectItem(reply, "responses"), 0);
	if (cJSON_IsTrue(cJSON_GetObjectItem(reply, "succeeded")))
		kv = cJSON_GetArrayItem(cJSON_GetObjectItem(reply, "responses"), 1);
	kv = cJSON_GetObjectItem(kv, "response_range");
	kv = cJSON_GetArrayItem(cJSON_GetObjectItem(kv, "kvs"), 0);
	value = etcd_bytes(kv, "value", &bytes);
	if (value && bytes == sizeof(stored))
		memcpy(&stored, value, sizeof(stored));
	text = value && bytes == sizeof(stored)
		       ? check_key(k, &stored)
		       : "the job has no key there, or one of another version of shift";
	free(value);
	if (!text && !revision)
		text = "an answer without a revision: is this etcd?";
	if (text)
		session_fail(k, text);
	else
		accept_key(k, &stored, revision);
}

static void propose_key(struct kvd *k, cJSON *put)
{
	struct session *s = &k->session;
	struct stored_key fresh;

	if (getrandom(&fresh, sizeof(fresh), 0) != sizeof(fresh))
		die(EXIT_FAILED, "the kernel gives no random bytes for the job key");
	if (s->has_key)
		memcpy(fresh.key, s->job_key, sizeof(fresh.key));
	job_key_id(fresh.id, fresh.key);
	if (k->o.has_job_key)
		memset(fresh.key, 0, sizeof(fresh.key));
	etcd_add_bytes(put, "value", &fresh, sizeof(fresh));
	etcd_add_int(put, "lease", s->job_lease);
}

static void add_key_range(cJSON *ops, const char *key, size_t bytes)
{
	cJSON *o = cJSON_CreateObject();

	etcd_add_bytes(cJSON_AddObjectToObject(o, "request_range"), "key", key, bytes);
	cJSON_AddItemToArray(ops, o);
}

/* Create it if it is not there; read it either way. */
static void ask_for_key(struct kvd *k)
{
	cJSON *txn = cJSON_CreateObject(), *o, *in, *success;
	char key[128];
	int n = snprintf(key, sizeof(key), "%sjob-key", k->session.prefix);

	k->session.state = SESSION_KEY;
	o = cJSON_CreateObject();
	cJSON_AddItemToArray(cJSON_AddArrayToObject(txn, "compare"), o);
	etcd_add_bytes(o, "key", key, n);
	cJSON_AddStringToObject(o, "target", "CREATE");
	etcd_add_int(o, "create_revision", 0);
	o = cJSON_CreateObject();
	success = cJSON_AddArrayToObject(txn, "success");
	cJSON_AddItemToArray(success, o);
	in = cJSON_AddObjectToObject(o, "request_put");
	etcd_add_bytes(in, "key", key, n);
	propose_key(k, in);
	add_key_range(success, key, n);
	add_key_range(cJSON_AddArrayToObject(txn, "failure"), key, n);
	etcd_post(k->session.etcd, "/v3/kv/txn", txn, on_key, k);
}

/* ---- token and the job's lease ------------------------------------------------------------- */

static void on_job_lease(void *arg, const cJSON *reply, int code, const char *text)
{
	struct kvd *k = arg;

	(void)reply;
	/* "lease already exists": a fellow daemon was first. */
	if (code != ETCD_FAILED_PRECONDITION && session_request_failed(k, code, text))
		return;
	k->session.job_keepalive_at_ms = 0;
	ask_for_key(k);
}

static void ask_for_lease(struct kvd *k)
{
	cJSON *body = cJSON_CreateObject();

	k->session.state = SESSION_LEASE;
	etcd_add_int(body, "TTL", 2 * k->o.lease_s);
	etcd_add_int(body, "ID", k->session.job_lease);
	etcd_post(k->session.etcd, "/v3/lease/grant", body, on_job_lease, k);
}

static void on_token(void *arg, const cJSON *reply, int code, const char *text)
{
	struct kvd *k = arg;
	const cJSON *token = cJSON_GetObjectItem(reply, "token");

	if (session_request_failed(k, code, text)) {
		k->session.token_at_ms = 0;
		return;
	}
	if (!cJSON_IsString(token) || etcd_set_token(k->session.etcd, token->valuestring))
		return session_fail(k, "no token for this user");
	k->session.token_at_ms = now_ms() + TOKEN_MS;
	if (k->session.state == SESSION_AUTH)
		ask_for_lease(k);
}

static void ask_for_token(struct kvd *k)
{
	cJSON *body = cJSON_CreateObject();

	k->session.token_at_ms = now_ms() + TOKEN_MS; /* one request is enough */
	cJSON_AddStringToObject(body, "name", k->o.user);
	cJSON_AddStringToObject(body, "password", k->o.password);
	etcd_post(k->session.etcd, "/v3/auth/authenticate", body, on_token, k);
}

static void session_begin(struct kvd *k)
{
	struct session *s = &k->session;

	s->reconnects++;
	s->begun_at_ms = now_ms();
	if (!k->o.user)
		return ask_for_lease(k);
	s->state = SESSION_AUTH;
	etcd_set_token(s->etcd, NULL);
	ask_for_token(k);
}

/* ---- leases of the processes --------------------------------------------------------------- */

static void on_grant(void *arg, const cJSON *reply, int code, const char *text)
{
	struct client *c = arg;

	c->asking = false;
	the_kvd->session.lease_requests--;
	if (session_request_failed(the_kvd, code, text))
		return;
	c->lease = etcd_int(reply, "ID");
	if (c->lease <= 0) {
		c->lease = 0;
		session_fail(the_kvd, "it granted a lease without a number");
		return;
	}
	c->keepalive_at_ms = now_ms() + the_kvd->o.lease_s * 1000 / 3;
	store_mark_dirty(the_kvd, c);
	client_welcome(the_kvd, c);
}

static void on_keepalive(void *arg, const cJSON *reply, int code, const char *text)
{
	struct client *c = arg;

	c->asking = false;
	the_kvd->session.lease_requests--;
	if (session_request_failed(the_kvd, code, text))
		return;
	/* The lease ran out while etcd or this daemon was away: it is granted anew, and all keys
	 * are put again. */
	if (etcd_int(cJSON_GetObjectItem(reply, "result"), "TTL") <= 0)
		c->lease = 0;
	c->keepalive_at_ms = now_ms() + the_kvd->o.lease_s * 1000 / 3;
}

static void on_revoke(void *arg, const cJSON *reply, int code, const char *text)
{
	struct grave *g = arg;

	(void)reply;
	g->asking = false;
	the_kvd->session.lease_requests--;
	if (code == ETCD_NOT_FOUND || g->forgotten || !session_request_failed(the_kvd, code, text))
		close_grave(the_kvd, g);
}

static void on_job_keepalive(void *arg, const cJSON *reply, int code, const char *text)
{
	struct kvd *k = arg;

	k->session.asking = false;
	if (session_request_failed(k, code, text)) {
		k->session.job_keepalive_at_ms = 0;
		return;
	}
	if (etcd_int(cJSON_GetObjectItem(reply, "result"), "TTL") <= 0)
		session_restart(k);
}

static void lease_request(struct kvd *k, const char *path, int64_t lease, etcd_reply_fn *fn,
			  void *arg)
{
	cJSON *body = cJSON_CreateObject();

	etcd_add_int(body, "ID", lease);
	if (!lease)
		etcd_add_int(body, "TTL", k->o.lease_s);
	etcd_post(k->session.etcd, path, body, fn, arg);
}

/* ---- the daemon's own ---------------------------------------------------------------------- */

/* The number may be in use: only this daemon can have taken it, so the lease is there. Nothing else
 * in the answer counts, as it could ask for the next grant at once. */
static void on_presence(void *arg, const cJSON *reply, int code, const char *text)
{
	struct kvd *k = arg;

	(void)reply;
	k->session.asking_presence = false;
	if (code != ETCD_FAILED_PRECONDITION && session_request_failed(k, code, text))
		k->session.presence_at_ms = 0;
}

static void on_presence_kept(void *arg, const cJSON *reply, int code, const char *text)
{
	struct kvd *k = arg;
	struct session *s = &k->session;

	s->asking_presence = false;
	if (session_request_failed(k, code, text)) {
		s->presence_at_ms = 0;
		return;
	}
	/* It ran out, or this is another etcd: the next one is granted at once, but not kept before
	 * its time. */
	if (etcd_int(cJSON_GetObjectItem(reply, "result"), "TTL") <= 0)
		s->presence = s->presence_at_ms = 0;
}

static void on_presence_over(void *arg, const cJSON *reply, int code, const char *text)
{
	struct kvd *k = arg;
	struct session *s = &k->session;

	(void)reply;
	s->asking_presence = false;
	if (code == ETCD_NOT_FOUND || !session_request_failed(k, code, text))
		s->presence = s->presence_at_ms = 0;
}

static void tick_presence(struct kvd *k)
{
	struct session *s = &k->session;
	cJSON *body;

	if (s->asking_presence || (k->leaving ? !s->presence : now_ms() < s->presence_at_ms))
		return;
	s->asking_presence = true;
	s->presence_at_ms = now_ms() + k->o.lease_s * 1000 / 3;
	if (k->leaving)
		return lease_request(k, "/v3/lease/revoke", s->presence, on_presence_over, k);
	if (s->presence)
		return lease_request(k, "/v3/lease/keepalive", s->presence, on_presence_kept, k);
	s->presence = etcd_presence_lease();
	body = cJSON_CreateObject();
	etcd_add_int(body, "TTL", k->o.lease_s);
	etcd_add_int(body, "ID", s->presence);
	etcd_post(s->etcd, "/v3/lease/grant", body, on_presence, k);
}

void session_bury(struct kvd *k, const struct client *c)
{
	struct session *s = &k->session;
	struct grave *g = check_alloc(calloc(1, sizeof(*g)));

	g->nonce = c->nonce;
	g->lease = c->lease;
	kv_list_append(&s->graves, &g->link);
	if (++s->grave_count <= GRAVES_MAX)
		return;
	/* etcd has been away for very long: the lease of the oldest has run out, or will. */
	g = KV_HOLDER(s->graves.after, struct grave, link);
	if (g->asking)
		g->forgotten = true;
	else
		close_grave(k, g);
}

bool session_has_grave(const struct kvd *k, uint64_t nonce)
{
	const struct kv_link *graves = &k->session.graves, *l;

	for (l = graves->after; l != graves; l = l->after)
		if (KV_HOLDER(l, struct grave, link)->nonce == nonce)
			return true;
	return false;
}

/* One is enough to see whether a busy etcd has time again. */
static int free_lease_requests(const struct session *s)
{
	return (s->failing_since_ms ? 1 : LEASE_REQUESTS_MAX) - s->lease_requests;
}

static bool may_ask(struct kvd *k, bool *asking)
{
	if (*asking || free_lease_requests(&k->session) <= 0)
		return false;
	*asking = true;
	k->session.lease_requests++;
	return true;
}

/* While no transaction is on its way, which could put a key of that lease again. */
static void tick_graves(struct kvd *k)
{
	struct kv_link *graves = &k->session.graves, *l;

	for (l = graves->after; l != graves && !k->store.in_flight; l = l->after) {
		struct grave *g = KV_HOLDER(l, struct grave, link);

		if (free_lease_requests(&k->session) <= 0)
			return;
		if (may_ask(k, &g->asking))
			lease_request(k, "/v3/lease/revoke", g->lease, on_revoke, g);
	}
}

static void tick_client(struct kvd *k, struct client *c)
{
	if (!c->nonce || c->buried)
		return;
	if (!c->lease && may_ask(k, &c->asking))
		lease_request(k, "/v3/lease/grant", 0, on_grant, c);
	else if (c->lease && now_ms() >= c->keepalive_at_ms && may_ask(k, &c->asking))
		lease_request(k, "/v3/lease/keepalive", c->lease, on_keepalive, c);
}

/* After a failure something must tell whether etcd has time again, or the next failure would count
 * as one that has lasted since then. What failed may not be needed any more: so the job's lease. */
static void ask_after_failure(struct session *s, const struct watches *w)
{
	bool asking = s->asking || s->asking_presence || s->lease_requests || s->batch_items ||
		      w->reading || w->opening;

	if (s->failing_since_ms && !asking)
		s->job_keepalive_at_ms = 0;
}

static void tick_up(struct kvd *k)
{
	struct session *s = &k->session;

	if (k->o.user && now_ms() >= s->token_at_ms)
		ask_for_token(k);
	if (!s->asking && now_ms() >= s->job_keepalive_at_ms) {
		s->asking = true;
		s->job_keepalive_at_ms = now_ms() + k->o.lease_s * 1000 / 3;
		lease_request(k, "/v3/lease/keepalive", s->job_lease, on_job_keepalive, k);
	}
	tick_presence(k);
	tick_graves(k);
	for (struct client *c = k->clients; c; c = c->next)
		tick_client(k, c);
	txn_send(k);
	watch_tick(k);
	ask_after_failure(s, &k->watches);
}

static void session_is_up(struct kvd *k)
{
	struct session *s = &k->session;

	s->state = SESSION_UP;
	s->up_at_ms = now_ms();
	*s->error = 0;
	clients_welcome(k);
}

/* A stream has no timeout of its own, and a paused etcd may just have taken the watch. */
static void tick_beginning(struct kvd *k)
{
	struct session *s = &k->session;
	int64_t bound_ms = BEGIN_TIMEOUTS * k->o.etcd.timeout_ms;
	char text[128];

	if (now_ms() - s->begun_at_ms > bound_ms) {
		snprintf(text, sizeof(text),
			 "not connected after %g s: etcd is slow or stopped; see its load and its "
			 "log",
			 bound_ms / 1e3);
		return session_fail(k, text);
	}
	if (s->state != SESSION_READ || now_ms() < s->pause_until_ms)
		return;
	if (watch_has_begun(k))
		return session_is_up(k);
	watch_tick(k);
}

/* When the next is due of what is done while the session is up. */
static int64_t next_of_up(const struct kvd *k)
{
	const struct session *s = &k->session;
	int64_t next = watch_due_at_ms(k);

	if (now_ms() < s->pause_until_ms)
		return s->pause_until_ms;
	if (s->job_keepalive_at_ms < next)
		next = s->job_keepalive_at_ms;
	if (!k->leaving && s->presence_at_ms < next)
		next = s->presence_at_ms;
	for (struct client *c = k->clients; c && free_lease_requests(s) > 0; c = c->next)
		if (c->lease && !c->asking && !c->buried && c->keepalive_at_ms < next)
			next = c->keepalive_at_ms;
	return next;
}

static int64_t next_of_beginning(const struct kvd *k)
{
	int64_t next = now_ms() + k->o.etcd.timeout_ms, due = watch_due_at_ms(k);

	if (now_ms() < k->session.pause_until_ms)
		return k->session.pause_until_ms;
	return due < next ? due : next;
}

int session_tick(struct kvd *k)
{
	struct session *s = &k->session;
	int64_t next = now_ms() + TICK_MS_MAX, due;

	the_kvd = k;
	if (s->state != SESSION_DOWN && s->state != SESSION_UP)
		tick_beginning(k);
	if (s->state == SESSION_DOWN && now_ms() >= s->retry_at_ms)
		session_begin(k);
	if (s->state == SESSION_UP && now_ms() >= s->pause_until_ms)
		tick_up(k);
	due = s->state == SESSION_DOWN ? s->retry_at_ms
	      : s->state == SESSION_UP ? next_of_up(k)
				       : next_of_beginning(k);
	if (due < next)
		next = due;
	return next > now_ms() ? (int)(next - now_ms()) : 0;
}

bool session_is_idle(const struct kvd *k)
{
	if (k->session.grave_count)
		return false;
	for (const struct client *c = k->clients; c; c = c->next)
		if (c->buried && c->lease)
			return false;
	if (k->session.state == SESSION_UP && k->session.presence)
		return false;
	return !k->store.dirty && !k->store.in_flight;
}
