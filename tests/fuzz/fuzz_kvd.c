/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Fuzzer of shift-kvd between its clients and its etcd: frames and garbage from some clients,
 * answers and garbage from etcd, time, in any order. Everything that the daemon sends to a client
 * must be a frame, and its lists must agree with each other. etcd's HTTP and the crash records are
 * not a part of it. Usage without libFuzzer: fuzz_kvd [runs [seed]]
 */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kv/kvd.h"
#include "tests/fuzz/rnd.h"

enum { CLIENTS = 4, REQUESTS_MAX = 64, KEYS = 8, NUMBERS = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the world around the daemon ------------------------------------------------------------ */

static int64_t clock_ms;

int64_t fuzz_now_ms(void)
{
	return clock_ms;
}

struct request {
	char path[64];
	cJSON *body;
	etcd_reply_fn *fn;
	void *arg;
	uintptr_t stream; /* its number; 0: it is none */
};

struct etcd {
	struct request request[REQUESTS_MAX];
	int count;
};

static struct etcd the_etcd;

struct etcd *etcd_new(const struct etcd_options *o)
{
	(void)o;
	memset(&the_etcd, 0, sizeof(the_etcd));
	return &the_etcd;
}

static struct request take_request(struct etcd *e, int n)
{
	struct request r = e->request[n];

	memmove(e->request + n, e->request + n + 1, (--e->count - n) * sizeof(r));
	return r;
}

void etcd_cancel_all(struct etcd *e)
{
	while (e->count) {
		struct request r = take_request(e, 0);

		cJSON_Delete(r.body);
		r.fn(r.arg, NULL, ETCD_CANCELLED, "cancelled");
	}
}

void etcd_free(struct etcd *e)
{
	etcd_cancel_all(e);
}

static void add_request(struct etcd *e, const char *path, cJSON *body, etcd_reply_fn *fn, void *arg,
			uintptr_t stream)
{
	struct request *r = &e->request[e->count++];

	if (e->count > REQUESTS_MAX)
		abort(); /* no bound on what is asked at once */
	*r = (struct request){.body = body, .fn = fn, .arg = arg, .stream = stream};
	snprintf(r->path, sizeof(r->path), "%s", path);
}

void etcd_post(struct etcd *e, const char *path, struct cJSON *body, etcd_reply_fn *fn, void *arg)
{
	add_request(e, path, body, fn, arg, 0);
}

/* A number instead of a pointer, as requests move in their array. */
struct etcd_request *etcd_stream(struct etcd *e, const char *path, struct cJSON *messages,
				 etcd_reply_fn *fn, void *arg)
{
	static uintptr_t last;

	add_request(e, path, messages, fn, arg, ++last);
	return (struct etcd_request *)last;
}

void etcd_end(struct etcd_request *r)
{
	int n = 0;

	while (n < the_etcd.count && the_etcd.request[n].stream != (uintptr_t)r)
		n++;
	if (n == the_etcd.count)
		abort(); /* it has ended */
	cJSON_Delete(take_request(&the_etcd, n).body);
}

void etcd_next_endpoint(struct etcd *e)
{
	(void)e;
}

const char *etcd_endpoint(const struct etcd *e)
{
	(void)e;
	return "http://fuzz";
}

int etcd_set_token(struct etcd *e, const char *token)
{
	(void)e;
	(void)token;
	return 0;
}

void crash_record(const char *dir, pid_t pid, uint64_t nonce)
{
	(void)dir;
	(void)pid;
	(void)nonce;
}

static void ignore_line(const char *line)
{
	(void)line;
}

/* ---- input ---------------------------------------------------------------------------------- */

struct input {
	const uint8_t *at;
	size_t left;
};

static uint8_t next_byte(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->at++;
}

static struct kv_bytes next_bytes(struct input *in, size_t bytes)
{
	struct kv_bytes b = {in->at, bytes < in->left ? bytes : in->left};

	in->at += b.bytes;
	in->left -= b.bytes;
	return b;
}

static const char *const keys[KEYS] = {
	"a", "b/1", "b/2", "job-key", "dead/0000000000000002", "dead/x", "", "a\x1b[2J",
};

static const char *const numbers[NUMBERS] = {
	"0", "1", "9", "12", "-1", "9223372036854775807", "4611686018427387904", "much",
};

/* ---- clients -------------------------------------------------------------------------------- */

static struct kvd kvd;
static int ends[CLIENTS]; /* the other ends of the clients' sockets; -1: none */

static void connect_client(int n)
{
	int fd[2];

	if (ends[n] >= 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd))
		return;
	ends[n] = fd[0];
	clients_add(&kvd, fd[1], 0);
}

static void send_bytes(int n, const void *data, size_t bytes)
{
	if (ends[n] >= 0 && send(ends[n], data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		close(ends[n]);
		ends[n] = -1;
	}
}

static void send_message(int n, struct input *in)
{
	static uint8_t frame[KV_FRAME_MAX];
	const char *key = keys[next_byte(in) % KEYS];
	struct kv_msg m = {
		.type = 1 + next_byte(in) % (KV_TYPE_END - 1),
		.version = KV_VERSION,
		.job = kv_str("fuzz"),
		.nonce = 1 + next_byte(in) % CLIENTS,
		.key = kv_str(key),
		.event = KV_EVENT_PUT,
		.text = kv_str("text"),
	};
	int bytes;

	m.value = next_bytes(in, next_byte(in) % 32);
	bytes = kv_encode(&m, frame, sizeof(frame));
	if (bytes > 0)
		send_bytes(n, frame, bytes);
}

/* What the daemon has sent must be frames. */
static void read_answers(int n)
{
	struct kv_buf in = {0};
	struct kv_msg m;
	int err;

	if (ends[n] < 0)
		return;
	do {
		err = kv_buf_fill(&in, ends[n]);
		while (kv_buf_next(&in, &m) > 0)
			;
		if (kv_buf_bytes(&in) && kv_buf_next(&in, &m) < 0)
			abort();
	} while (!err && recv(ends[n], &(char){0}, 1, MSG_PEEK | MSG_DONTWAIT) > 0);
	kv_buf_free(&in);
	if (err) {
		close(ends[n]);
		ends[n] = -1;
	}
}

static void turn(void)
{
	for (struct client *c = kvd.clients; c; c = c->next)
		if (c->fd >= 0)
			client_on_socket(&kvd, c);
	clients_tick(&kvd);
	session_tick(&kvd);
	clients_tick(&kvd);
	for (int n = 0; n < CLIENTS; n++)
		read_answers(n);
}

/* ---- etcd's answers ------------------------------------------------------------------------- */

static cJSON *add_kv(cJSON *list, struct input *in)
{
	cJSON *kv = cJSON_CreateObject();
	char key[128];
	uint8_t how = next_byte(in);
	struct kv_bytes value = next_bytes(in, next_byte(in) % 40);

	snprintf(key, sizeof(key), "%s%s", how & 0x80 ? "/o" : kvd.session.prefix,
		 keys[how % KEYS]);
	etcd_add_bytes(kv, "key", key, strlen(key));
	etcd_add_bytes(kv, "value", value.data, value.bytes);
	cJSON_AddStringToObject(kv, "mod_revision", numbers[next_byte(in) % NUMBERS]);
	cJSON_AddItemToArray(list, kv);
	return kv;
}

/* As a good etcd answers a transaction for the job key: it stores what is put. */
static cJSON *job_key_answer(const cJSON *body)
{
	const cJSON *put = cJSON_GetObjectItem(
		cJSON_GetArrayItem(cJSON_GetObjectItem(body, "success"), 0), "request_put");
	cJSON *reply = cJSON_CreateObject(), *list, *o, *kv;
	const cJSON *value = cJSON_GetObjectItem(put, "value");

	cJSON_AddStringToObject(cJSON_AddObjectToObject(reply, "header"), "revision", "3");
	cJSON_AddBoolToObject(reply, "succeeded", true);
	list = cJSON_AddArrayToObject(reply, "responses");
	cJSON_AddItemToArray(list, cJSON_CreateObject());
	o = cJSON_CreateObject();
	cJSON_AddItemToArray(list, o);
	list = cJSON_AddArrayToObject(cJSON_AddObjectToObject(o, "response_range"), "kvs");
	kv = cJSON_CreateObject();
	cJSON_AddStringToObject(kv, "value", cJSON_IsString(value) ? value->valuestring : "");
	cJSON_AddItemToArray(list, kv);
	return reply;
}

/* As a good etcd answers a transaction of ranges: with one for each. */
static cJSON *ranges_answer(const cJSON *body, cJSON *reply, struct input *in)
{
	int n = cJSON_GetArraySize(cJSON_GetObjectItem(body, "success"));
	cJSON *responses = cJSON_AddArrayToObject(reply, "responses"), *o, *list;

	for (; n; n--) {
		uint8_t how = next_byte(in);

		o = cJSON_CreateObject();
		cJSON_AddItemToArray(responses, o);
		o = cJSON_AddObjectToObject(o, "response_range");
		list = cJSON_AddArrayToObject(o, "kvs");
		for (int kvs = how & 3; kvs; kvs--)
			add_kv(list, in);
		cJSON_AddBoolToObject(o, "more", how & 64);
	}
	return reply;
}

static bool is_of_ranges(const cJSON *body)
{
	const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItem(body, "success"), 0);

	return cJSON_GetObjectItem(first, "request_range");
}

static cJSON *watch_answer(struct input *in)
{
	cJSON *reply = cJSON_CreateObject(), *result = cJSON_AddObjectToObject(reply, "result");
	cJSON *events, *event, *list;
	uint8_t how = next_byte(in);

	if (how < 64) {
		cJSON_AddBoolToObject(result, "created", true);
		return reply;
	}
	if (how > 240) {
		cJSON_AddBoolToObject(result, "canceled", true);
		cJSON_AddStringToObject(result, "compact_revision", numbers[how % NUMBERS]);
		return reply;
	}
	cJSON_AddBoolToObject(result, "fragment", how & 1);
	cJSON_AddNumberToObject(result, "watch_id", how >> 4);
	events = cJSON_AddArrayToObject(result, "events");
	for (int n = 1 + (how & 3); n; n--) {
		event = cJSON_CreateObject();
		list = cJSON_CreateArray();
		if (next_byte(in) & 1)
			cJSON_AddStringToObject(event, "type", "DELETE");
		add_kv(list, in);
		cJSON_AddItemToObject(event, "kv", cJSON_DetachItemFromArray(list, 0));
		cJSON_Delete(list);
		cJSON_AddItemToArray(events, event);
	}
	return reply;
}

static cJSON *shaped_answer(const struct request *r, struct input *in)
{
	uint8_t how = next_byte(in);
	const char *number = how < 128 ? "7" : numbers[how % NUMBERS];
	cJSON *reply, *list;

	if (r->stream)
		return watch_answer(in);
	if (!strcmp(r->path, "/v3/kv/txn") && cJSON_GetObjectItem(r->body, "compare"))
		return job_key_answer(r->body);
	reply = cJSON_CreateObject();
	cJSON_AddStringToObject(cJSON_AddObjectToObject(reply, "header"), "revision", number);
	cJSON_AddStringToObject(reply, "ID", number);
	cJSON_AddStringToObject(cJSON_AddObjectToObject(reply, "result"), "TTL", number);
	if (!strcmp(r->path, "/v3/kv/txn") && is_of_ranges(r->body))
		return ranges_answer(r->body, reply, in);
	if (strcmp(r->path, "/v3/kv/range"))
		return reply;
	list = cJSON_AddArrayToObject(reply, "kvs");
	for (int n = how & 3; n; n--)
		add_kv(list, in);
	cJSON_AddBoolToObject(reply, "more", how & 4);
	return reply;
}

/* As etcd.c hands it over: an object, or an error. */
static void deliver(int n, cJSON *reply, int failure)
{
	struct request r = the_etcd.request[n];
	const char *text = ETCD_NO_JSON;
	int code = cJSON_IsObject(reply) ? etcd_code_of(reply, &text) : ETCD_NO_ANSWER;
	bool is_over;

	if (failure)
		code = failure;
	is_over = !r.stream || code;
	if (is_over)
		take_request(&the_etcd, n);
	r.fn(r.arg, code ? NULL : reply, code, text);
	if (is_over)
		cJSON_Delete(r.body);
	cJSON_Delete(reply);
}

static void answer_request(struct input *in)
{
	static const int failures[] = {0, 0,  0,  0, ETCD_NO_ANSWER, ETCD_TOO_LONG, ETCD_BUSY, 1, 5,
				       9, 11, 14, 16};
	uint8_t which = next_byte(in), how = next_byte(in);
	int n = the_etcd.count ? which % the_etcd.count : -1;
	struct kv_bytes text;

	if (n < 0)
		return;
	if (how < 200)
		return deliver(n, shaped_answer(&the_etcd.request[n], in), 0);
	if (how < 230)
		return deliver(n, NULL, failures[how % (sizeof(failures) / sizeof(*failures))]);
	text = next_bytes(in, next_byte(in));
	deliver(n, cJSON_ParseWithLength(text.data, text.bytes), 0);
}

/* ---- what must hold ------------------------------------------------------------------------- */

/* Some topic covers it, and it has a value: or it is on its way to etcd, or was deleted while
 * something is read. */
static void check_kept(const struct item *i)
{
	bool deleted = kv_link_is_held(&i->in_deleted);

	if (deleted && (i->head.value || !kvd.watches.reading))
		abort();
	if (i->dirty || i->in_flight)
		return;
	if ((!i->head.value && !deleted) ||
	    (!i->owner && !i->ours && !subs_cover(&kvd, i->head.key, strlen(i->head.key), NULL)))
		abort();
}

/* Each is in one place, and nothing is kept that none of them covers. */
static void check_topics(void)
{
	struct topic *t;
	struct item *i;

	for (t = NULL; (t = subs_next(&kvd, t));) {
		if ((t->state == TOPIC_WATCHED) != (t->stream != NULL) ||
		    (t->state == TOPIC_COVERED) == kv_link_is_held(&t->in_state) ||
		    (t->state == TOPIC_COVERED && !kvd.subs.all))
			abort();
		if (!topic_is_used(t) && t->state != TOPIC_WATCHED && t->state != TOPIC_READING)
			abort();
	}
	for (i = NULL; (i = kv_table_next(&kvd.store.items, i));)
		check_kept(i);
}

static void check_lists(void)
{
	size_t dirty = 0, in_flight = 0, owned = 0, keys_of_clients = 0, bytes = 0, sorted = 0;
	const struct kv_node *n;
	struct item *i;
	int connections = 0;

	for (i = NULL; (i = kv_table_next(&kvd.store.items, i));) {
		dirty += i->dirty;
		in_flight += i->in_flight;
		bytes += strlen(i->head.key) + i->head.bytes;
		owned += i->owner != NULL;
		if (kv_link_is_held(&i->in_ready) && !i->dirty)
			abort();
		if (i->owner && !kv_link_is_held(&i->in_owner))
			abort();
	}
	for (n = kv_sorted_after(kvd.store.order, "", true); n;
	     n = kv_sorted_after(kvd.store.order, n->key, false))
		sorted++;
	check_topics();
	for (struct client *c = kvd.clients; c; c = c->next) {
		keys_of_clients += c->keys;
		connections++;
	}
	if (sorted != kvd.store.items.count || bytes != kvd.store.bytes ||
	    dirty != kvd.store.dirty || in_flight != kvd.store.in_flight ||
	    owned != keys_of_clients || connections != kvd.connections)
		abort();
}

static void one_step(struct input *in)
{
	uint8_t op = next_byte(in), n = (op >> 4) % CLIENTS;
	struct kv_bytes b;

	switch (op % 8) {
	case 0: connect_client(n); break;
	case 1:
		b = next_bytes(in, next_byte(in));
		send_bytes(n, b.data, b.bytes);
		break;
	case 2:
	case 3: send_message(n, in); break;
	case 4:
		if (!(next_byte(in) & 7) && ends[n] >= 0) {
			close(ends[n]);
			ends[n] = -1;
		}
		break;
	case 5:
	case 6: answer_request(in); break;
	case 7: clock_ms += next_byte(in) * 20; break;
	}
	turn();
	check_lists();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const endpoint = "http://fuzz";
	struct input in = {data, size};

	cli_messages_to(ignore_line);
	clock_ms = 1000000;
	memset(&kvd, 0, sizeof(kvd));
	strcpy(kvd.o.job, "fuzz");
	kvd.o.etcd = (struct etcd_options){
		.endpoint = {endpoint}, .endpoints = 1, .timeout_ms = 500};
	kvd.o.lease_s = 2;
	kvd.places = CLIENTS - 1;
	kvd.spare_fd = kvd.listen_fd = -1;
	memset(ends, -1, sizeof(ends));
	watch_init(&kvd);
	store_init(&kvd);
	subs_init(&kvd);
	session_init(&kvd);
	while (in.left)
		one_step(&in);
	for (int n = 0; n < CLIENTS; n++)
		if (ends[n] >= 0)
			close(ends[n]);
	session_free(&kvd);
	clients_free(&kvd);
	subs_free(&kvd);
	kv_table_free(&kvd.store.items);
	return 0;
}

#ifndef SHIFT_LIBFUZZER
/* Often as all goes well, so that the states behind that are reached. */
static size_t make_input(uint8_t *buf, size_t size)
{
	size_t n = 0, steps = 20 + rnd(100);

	for (uint8_t c = 0; c < CLIENTS - 1; c++) {
		static const uint8_t hello[] = {2, 0, KV_HELLO - 1, 0, 0};

		buf[n++] = c << 4;
		memcpy(buf + n, hello, sizeof(hello));
		buf[n] |= c << 4;
		buf[n + 3] = c;
		n += sizeof(hello);
	}
	for (size_t i = 0; i < steps && n + 16 < size; i++) {
		if (rnd(4)) { /* the first request is answered well */
			uint8_t good[] = {5, 0, 0, 0, (uint8_t)(rnd(3) ? 0 : rnd(256))};

			memcpy(buf + n, good, sizeof(good));
			n += sizeof(good);
			continue;
		}
		for (uint32_t bytes = 1 + rnd(12); bytes; bytes--)
			buf[n++] = rnd(256);
	}
	return n;
}

int main(int argc, char **argv)
{
	uint32_t runs = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 10000;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	static uint8_t buf[4096];
	uint32_t up = 0;

	cli_begin("fuzz_kvd", 1);
	rng = seed * 0x9e3779b97f4a7c15u + 1;
	for (uint32_t i = 0; i < runs; i++) {
		LLVMFuzzerTestOneInput(buf, make_input(buf, sizeof(buf)));
		up += kvd.session.up_at_ms > 0;
	}
	printf("1..1\n%s 1 - %" PRIu32 " runs, %" PRIu32
	       " of them reached etcd's watch, seed %" PRIu64 "\n",
	       up > runs / 4 ? "ok" : "not ok", runs, up, seed);
	return 0;
}
#endif
