/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kv/kvd.h"

enum {
	OUT_BYTES_MAX = 4 << 20, /* a stopped process does not read: then all is told again */
	GONE_MS = 3000, /* for a process that lost its socket and lives (exec, closefrom) */
	BLIND_HOLD_MS = 5 * 60 * 1000,
};

static void send_to(struct client *c, const struct kv_msg *m)
{
	if (c->fd < 0 || c->overrun)
		return;
	if (kv_buf_bytes(&c->out) > OUT_BYTES_MAX) {
		c->overrun = true;
		return;
	}
	if (kv_buf_frame(&c->out, m) == -ENOMEM)
		check_alloc(NULL);
}

static void refuse_request(struct client *c, enum kv_error code, const char *text)
{
	send_to(c, &(struct kv_msg){.type = KV_ERROR, .code = code, .text = kv_str(text)});
}

static void refuse_for_good(struct client *c, enum kv_error code, const char *text)
{
	refuse_request(c, code, text);
	c->closing = true;
}

/* A process of a pid namespace that cannot be seen from here has no pidfd: only its socket tells
 * whether it lives. */
void clients_accept(struct kvd *k)
{
	int fd = accept4(k->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct ucred cred = {0};
	socklen_t n = sizeof(cred);
	struct client *c;

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) ||
	    (cred.uid != 0 && cred.uid != geteuid()) || k->client_count >= CLIENTS_MAX) {
		say("refused a process of uid %u (%d clients)", cred.uid, k->client_count);
		close(fd);
		return;
	}
	c = check_alloc(calloc(1, sizeof(*c)));
	c->fd = fd;
	c->pid = cred.pid;
	c->pidfd = cred.pid > 0 ? pidfd_open(cred.pid, 0) : -1;
	kv_table_init(&c->gets, sizeof(struct kv_entry));
	kv_table_init(&c->watches, sizeof(struct kv_entry));
	c->next = k->clients;
	k->clients = c;
	k->client_count++;
}

static void close_socket(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->welcomed = c->overrun = false;
	kv_buf_free(&c->in);
	kv_buf_free(&c->out);
	kv_table_free(&c->gets);
	kv_table_free(&c->watches);
}

static void free_client(struct kvd *k, struct client *c)
{
	struct client **p = &k->clients;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	k->client_count--;
	close_socket(c);
	if (c->pidfd >= 0)
		close(c->pidfd);
	free(c);
}

/* Deletes the client's keys. session_tick() revokes its lease, after which it is freed. */
static void bury_client(struct kvd *k, struct client *c, bool died)
{
	close_socket(c);
	c->gone_at_ms = 0;
	if (c->buried || !c->nonce)
		return;
	c->buried = true;
	if (died) {
		store_add_death(k, c->name);
		crash_record(k->dir, c->pid, c->nonce);
	}
	store_drop_client(k, c);
}

static bool is_running(const struct client *c)
{
	return c->pidfd >= 0 && !pidfd_send_signal(c->pidfd, 0, NULL, 0);
}

static bool has_unread(const struct client *c)
{
	char byte;

	return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* A client that has closed its end may have sent a BYE before, behind any number of other
 * frames. */
static void hear_out(struct kvd *k, struct client *c)
{
	while (c->fd >= 0 && !c->closing && has_unread(c))
		client_on_socket(k, c);
}

static void on_close(struct kvd *k, struct client *c)
{
	close_socket(c);
	if (!c->nonce || c->buried)
		return;
	if (is_running(c))
		c->gone_at_ms = now_ms();
	else
		bury_client(k, c, true);
}

void client_on_exit(struct kvd *k, struct client *c)
{
	hear_out(k, c);
	close(c->pidfd);
	c->pidfd = -1;
	c->holds = false;
	bury_client(k, c, true);
}

static void send_item(struct client *c, const struct item *i)
{
	struct kv_msg m = {
		.type = KV_EVENT,
		.event = i->head.value ? KV_EVENT_PUT : KV_EVENT_DELETE,
		.key = kv_str(i->head.key),
		.value = {i->head.value, i->head.bytes},
	};

	send_to(c, &m);
}

static bool client_wants(const struct client *c, const char *key)
{
	const struct kv_entry *e;

	if (kv_table_find(&c->gets, key, strlen(key)))
		return true;
	for (e = NULL; (e = kv_table_next(&c->watches, e));)
		if (!strncmp(key, e->key, strlen(e->key)))
			return true;
	return false;
}

void clients_publish(struct kvd *k, const struct item *i, const struct client *except)
{
	for (struct client *c = k->clients; c; c = c->next)
		if (c != except && c->welcomed && client_wants(c, i->head.key))
			send_item(c, i);
}

void clients_peer_died(struct kvd *k, uint64_t nonce)
{
	for (struct client *c = k->clients; c; c = c->next)
		if (c->welcomed && c->nonce != nonce)
			send_to(c, &(struct kv_msg){.type = KV_PEER_DIED, .nonce = nonce});
}

static void tell_deaths(struct kvd *k, struct client *c)
{
	struct item *i;

	for (i = NULL; (i = kv_table_next(&k->store.items, i));) {
		uint64_t nonce = strncmp(i->head.key, "dead/", 5)
					 ? 0
					 : strtoull(i->head.key + 5, NULL, 16);

		if (i->head.value && nonce && nonce != c->nonce)
			send_to(c, &(struct kv_msg){.type = KV_PEER_DIED, .nonce = nonce});
	}
}

static void tell_prefix(struct kvd *k, struct client *c, const char *prefix)
{
	struct kv_msg synced = {.type = KV_EVENT, .event = KV_EVENT_SYNCED, .key = kv_str(prefix)};
	struct item *i;

	for (i = NULL; (i = kv_table_next(&k->store.items, i));)
		if (i->head.value && !strncmp(i->head.key, prefix, strlen(prefix)))
			send_item(c, i);
	send_to(c, &synced);
}

static void tell_get(struct kvd *k, struct client *c, const char *key)
{
	struct item *i = store_find(k, key, strlen(key));
	struct item none = {.head.key = (char *)key};

	send_item(c, i ? i : &none);
}

/* Tells the client whether others see its keys: not before its lease is granted, perhaps not while
 * etcd is away. */
void client_welcome(struct kvd *k, struct client *c)
{
	struct kv_msg m = {.type = KV_WELCOME, .version = KV_VERSION};
	bool first = !c->welcomed;

	if (!c->nonce || c->fd < 0 || c->buried || !k->session.has_key)
		return;
	memcpy(m.job_key, k->session.job_key, sizeof(m.job_key));
	m.lease = k->session.state != SESSION_UP ? KV_LEASE_UNCERTAIN
		  : c->lease			 ? KV_LEASE_HELD
						 : KV_LEASE_NONE;
	send_to(c, &m);
	c->welcomed = true;
	if (first)
		tell_deaths(k, c);
}

void clients_welcome(struct kvd *k)
{
	for (struct client *c = k->clients; c; c = c->next)
		client_welcome(k, c);
}

/* The client that has this nonce already: the process lost its socket and has connected again. */
static struct client *find_earlier(struct kvd *k, const struct client *c, uint64_t nonce)
{
	for (struct client *old = k->clients; old; old = old->next)
		if (old != c && old->nonce == nonce)
			return old;
	return NULL;
}

/* Moves the state of the old connection to the new one. */
static void adopt_client(struct kvd *k, struct client *c, struct client *old)
{
	struct item *i;

	c->lease = old->lease;
	c->keepalive_at_ms = old->keepalive_at_ms;
	c->keys = old->keys;
	for (i = NULL; (i = kv_table_next(&k->store.items, i));)
		if (i->owner == old)
			i->owner = c;
	close_socket(old); /* a child of the process may hold the other end open */
	old->nonce = 0;	   /* freed by clients_tick(), once its requests are answered */
	old->lease = 0;
	old->keys = 0;
	old->gone_at_ms = 0;
}

static void on_hello(struct kvd *k, struct client *c, const struct kv_msg *m)
{
	struct client *old = find_earlier(k, c, m->nonce);

	if (m->version != KV_VERSION)
		return refuse_for_good(c, KV_ERROR_VERSION, "another version of the protocol");
	if (m->job.bytes != strlen(k->o.job) || memcmp(m->job.data, k->o.job, m->job.bytes))
		return refuse_for_good(c, KV_ERROR_JOB, "this is another job's shift-kvd");
	if (old && (old->buried || old->pid != c->pid))
		return refuse_for_good(c, KV_ERROR_PROTOCOL, "that process is dead, or another");
	c->nonce = m->nonce;
	snprintf(c->name, sizeof(c->name), "%016" PRIx64, m->nonce);
	if (old)
		adopt_client(k, c, old);
	client_welcome(k, c);
}

static void on_subscription(struct kvd *k, struct client *c, const struct kv_msg *m)
{
	bool one = m->type == KV_GET;
	struct kv_table *t = one ? &c->gets : &c->watches;
	struct kv_entry *e;

	if (t->count >= CLIENT_KEYS_MAX)
		return refuse_request(c, KV_ERROR_FULL, "more than 65,536 keys are asked for");
	e = check_alloc(kv_table_get(t, m->key.data, m->key.bytes));
	if (one)
		tell_get(k, c, e->key);
	else
		tell_prefix(k, c, e->key);
}

static void on_unget(struct client *c, const struct kv_msg *m)
{
	struct kv_entry *e = kv_table_find(&c->gets, m->key.data, m->key.bytes);

	if (e)
		kv_table_remove(&c->gets, e);
}

static void on_change(struct kvd *k, struct client *c, const struct kv_msg *m)
{
	int err = m->type == KV_PUT ? store_put(k, c, m) : store_delete(k, c, m);
	char text[KV_KEY_MAX + 64];

	if (!err)
		return;
	snprintf(text, sizeof(text), "%s: %.*s", m->type == KV_PUT ? "put refused" : "not yours",
		 (int)m->key.bytes, (const char *)m->key.data);
	refuse_request(c, err, text);
}

static void on_status(struct kvd *k, struct client *c)
{
	char *json = status_json(k);

	send_to(c, &(struct kv_msg){.type = KV_STATUS, .text = kv_str(json)});
	free(json);
	c->closing = true;
}

/*
 * Sent by a launcher before it becomes the program, which may open its first NIC minutes later. The
 * daemon stays while the process lives, or for a fixed time if the process is of another pid
 * namespace and cannot be seen.
 */
static void on_hold(struct kvd *k, struct client *c)
{
	if (k->stopping)
		return refuse_for_good(c, KV_ERROR_FULL, "about to end");
	for (struct client *other = k->clients; other; other = other->next)
		if (other->holds && other->pid == c->pid)
			return on_status(k, c);
	if (c->pidfd >= 0)
		c->holds = true;
	else
		k->idle_since_ms = now_ms() + BLIND_HOLD_MS;
	on_status(k, c);
}

static void on_client_message(struct kvd *k, struct client *c, const struct kv_msg *m)
{
	bool first = m->type == KV_HELLO || m->type == KV_STATUS || m->type == KV_HOLD;

	if (first != !c->nonce)
		return refuse_for_good(c, KV_ERROR_PROTOCOL, "HELLO comes first, and once");
	switch (m->type) {
	case KV_HELLO: return on_hello(k, c, m);
	case KV_STATUS: return on_status(k, c);
	case KV_HOLD: return on_hold(k, c);
	case KV_PUT:
	case KV_DELETE: return on_change(k, c, m);
	case KV_GET:
	case KV_WATCH: return on_subscription(k, c, m);
	case KV_UNGET: return on_unget(c, m);
	case KV_BYE: return bury_client(k, c, false);
	case KV_WELCOME:
	case KV_EVENT:
	case KV_PEER_DIED:
	case KV_ERROR:
	case KV_TYPE_END: break;
	}
	refuse_for_good(c, KV_ERROR_PROTOCOL, "not for a client to say");
}

void client_on_socket(struct kvd *k, struct client *c)
{
	int err = kv_buf_fill(&c->in, c->fd), n = 0;
	struct kv_msg m;

	if (err == -ENOMEM)
		check_alloc(NULL);
	while (!c->closing && c->fd >= 0 && (n = kv_buf_next(&c->in, &m)) > 0)
		on_client_message(k, c, &m);
	if (n < 0)
		refuse_for_good(c, KV_ERROR_PROTOCOL, "not a frame");
	if (err && c->fd >= 0)
		on_close(k, c);
}

/* The client has read what was sent before the overrun. Now it gets everything that it asked for
 * again. */
static void tell_again(struct kvd *k, struct client *c)
{
	struct kv_entry *e;

	c->overrun = false;
	client_welcome(k, c);
	tell_deaths(k, c);
	for (e = NULL; (e = kv_table_next(&c->gets, e));)
		tell_get(k, c, e->key);
	for (e = NULL; (e = kv_table_next(&c->watches, e));)
		tell_prefix(k, c, e->key);
}

static void client_tick(struct kvd *k, struct client *c)
{
	if (c->fd >= 0 && kv_buf_flush(&c->out, c->fd)) {
		hear_out(k, c);
		on_close(k, c);
	}
	if (c->fd >= 0 && c->closing && !kv_buf_bytes(&c->out))
		on_close(k, c);
	if (c->fd >= 0 && c->overrun && !kv_buf_bytes(&c->out))
		tell_again(k, c);
	if (c->gone_at_ms && now_ms() - c->gone_at_ms >= GONE_MS)
		bury_client(k, c, true);
}

void clients_tick(struct kvd *k)
{
	struct client *c, *next;

	for (c = k->clients; c; c = c->next)
		client_tick(k, c);
	for (c = k->clients; c; c = next) {
		next = c->next;
		if (c->fd < 0 && !c->asking && !c->holds && (!c->nonce || (c->buried && !c->lease)))
			free_client(k, c);
	}
}

void clients_free(struct kvd *k)
{
	while (k->clients)
		free_client(k, k->clients);
}
