/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kv/kvd.h"

enum {
	OUT_BYTES_MAX = 4 << 20, /* a stopped process does not read: then all is told again */
	GONE_MS = 3000, /* for a process that lost its socket and lives (exec, closefrom) */
	BLIND_HOLD_MS = 5 * 60 * 1000,
	SILENT_MS = 10 * 1000, /* for the first words, and to read the last */
	TURN_MS = 20,	       /* what a client may cost before the others have their turn */
	PAUSE_MS = 200,	       /* without a descriptor for another connection */
	/* Standard ones, lock, sockets, signals, and the connections to etcd. */
	FDS_OF_DAEMON = 48,
	FDS_OF_CLIENT = 3,    /* socket and process; and the process of a holder */
	SILENT_MS_MIN = 1000, /* so long at least, when others wait */
	ACCEPT_AGAIN_MS = 2,
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
	c->silent_at_ms = now_ms();
}

void clients_init(struct kvd *k)
{
	struct rlimit l;
	long places = CLIENTS_MAX;

	k->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (!getrlimit(RLIMIT_NOFILE, &l) && l.rlim_cur < 1 << 20)
		places = ((long)l.rlim_cur - FDS_OF_DAEMON - 2 * SILENT_MAX) / FDS_OF_CLIENT;
	k->places = places < 1 ? 1 : places < CLIENTS_MAX ? places : CLIENTS_MAX;
	if (k->places < CLIENTS_MAX)
		say("takes %d processes of this job, not %d: its limit of open files is %ld; raise "
		    "ulimit -n before its start",
		    k->places, CLIENTS_MAX, (long)l.rlim_cur);
}

static bool has_no_room(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOMEM;
}

/* A process of a pid namespace that cannot be seen from here has no pidfd: only its socket tells
 * whether it lives. One that is here must have its pidfd, or it would be taken for such a one. */
struct client *clients_add(struct kvd *k, int fd, pid_t pid)
{
	int pidfd = pid > 0 ? pidfd_open(pid, 0) : -1;
	struct client *c;

	if (pid > 0 && pidfd < 0 && has_no_room(errno))
		return NULL;
	c = check_alloc(calloc(1, sizeof(*c)));
	c->fd = fd;
	c->pid = pid;
	c->pidfd = pidfd;
	c->silent_at_ms = now_ms();
	kv_list_init(&c->items);
	subs_init_client(c);
	c->next = k->clients;
	k->clients = c;
	k->connections++;
	return c;
}

static bool is_silent(const struct client *c)
{
	return c->fd >= 0 && (!c->nonce || c->closing);
}

/* The processes that are served, or those for which the daemon stays. */
static int count_places(const struct kvd *k, bool holders)
{
	int n = 0;

	for (const struct client *c = k->clients; c; c = c->next)
		n += holders ? c->holds : c->nonce && !c->buried;
	return n;
}

static void close_socket(struct kvd *k, struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->welcomed = c->overrun = c->more = false;
	kv_buf_free(&c->in);
	kv_buf_free(&c->out);
	subs_drop_client(k, c);
}

static void free_client(struct kvd *k, struct client *c)
{
	struct client **p = &k->clients;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	k->connections--;
	if (k->turn == c)
		k->turn = c->next;
	close_socket(k, c);
	if (c->pidfd >= 0)
		close(c->pidfd);
	free(c);
}

/* Deletes the client's keys. session_tick() revokes its lease, after which it is freed. */
static void bury_client(struct kvd *k, struct client *c, bool died)
{
	close_socket(k, c);
	c->gone_at_ms = 0;
	if (c->buried || !c->nonce)
		return;
	c->buried = true;
	if (c->pidfd >= 0)
		close(c->pidfd);
	c->pidfd = -1;
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
	while (c->fd >= 0 && !c->closing && (c->more || has_unread(c)))
		client_on_socket(k, c);
}

static void on_close(struct kvd *k, struct client *c)
{
	close_socket(k, c);
	if (!c->nonce || c->buried)
		return;
	if (is_running(c))
		c->gone_at_ms = now_ms();
	else
		bury_client(k, c, true);
}

static void end_silent(struct kvd *k, struct client *c, const char *text)
{
	if (!c->closing)
		refuse_request(c, KV_ERROR_PROTOCOL, text);
	kv_buf_flush(&c->out, c->fd);
	on_close(k, c);
}

/* Too many have said nothing yet, or do not read their answer: the oldest of them makes room,
 * unless it is so new that it just had no turn. New ones are in front. False: there is no room. */
static bool make_room(struct kvd *k)
{
	struct client *oldest = NULL;
	int n = 0;

	for (struct client *c = k->clients; c; c = c->next) {
		if (!is_silent(c))
			continue;
		n++;
		oldest = c;
	}
	if (n < SILENT_MAX)
		return true;
	if (now_ms() - oldest->silent_at_ms < SILENT_MS_MIN)
		return false;
	end_silent(k, oldest, "too many connections that say nothing");
	return true;
}

/* It is told, and the next ones wait. */
static void refuse_for_descriptors(struct kvd *k, int fd)
{
	struct client c = {.fd = fd, .pidfd = -1};

	k->accept_at_ms = now_ms() + PAUSE_MS;
	refuse_request(&c, KV_ERROR_FULL,
		       "shift-kvd has no file descriptor left; raise its ulimit -n");
	kv_buf_flush(&c.out, fd);
	kv_buf_free(&c.out);
	close(fd);
}

static void take_connection(struct kvd *k, int fd)
{
	struct ucred cred = {0};
	socklen_t n = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) ||
	    (cred.uid != 0 && cred.uid != geteuid())) {
		say("refused a connection of another user's process (uid %u)", cred.uid);
		close(fd);
		return;
	}
	if (!clients_add(k, fd, cred.pid))
		refuse_for_descriptors(k, fd);
}

/* There is no descriptor for the next connection, which would be reported all the time: it gets the
 * spare one, only to be told. */
static void refuse_connection(struct kvd *k)
{
	int err = errno, fd;

	k->accept_at_ms = now_ms() + PAUSE_MS;
	if (err != EMFILE && err != ENFILE)
		return;
	close(k->spare_fd);
	fd = accept4(k->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0)
		refuse_for_descriptors(k, fd);
	k->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void clients_accept(struct kvd *k)
{
	while (now_ms() >= k->accept_at_ms) {
		int fd;

		if (!make_room(k)) {
			k->accept_at_ms = now_ms() + ACCEPT_AGAIN_MS;
			return;
		}
		fd = accept4(k->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0)
			take_connection(k, fd);
		else if (errno == EAGAIN)
			return;
		else if (errno != EINTR && errno != ECONNABORTED)
			refuse_connection(k);
	}
}

void client_on_exit(struct kvd *k, struct client *c)
{
	hear_out(k, c);
	c->holds = false;
	if (c->pidfd >= 0)
		close(c->pidfd);
	c->pidfd = -1;
	bury_client(k, c, true);
}

void client_send_item(struct client *c, const struct item *i)
{
	struct kv_msg m = {
		.type = KV_EVENT,
		.event = i->head.value ? KV_EVENT_PUT : KV_EVENT_DELETE,
		.key = kv_str(i->head.key),
		.value = {i->head.value, i->head.bytes},
	};

	send_to(c, &m);
}

void clients_peer_died(struct kvd *k, uint64_t nonce)
{
	for (struct client *c = k->clients; c; c = c->next)
		if (c->welcomed && c->nonce != nonce)
			send_to(c, &(struct kv_msg){.type = KV_PEER_DIED, .nonce = nonce});
}

static void tell_deaths(struct kvd *k, struct client *c)
{
	const struct kv_link *l;

	for (l = k->store.deaths.after; l != &k->store.deaths && !c->overrun; l = l->after) {
		uint64_t nonce = death_of_key(KV_HOLDER(l, struct item, in_deaths)->head.key);

		if (nonce != c->nonce)
			send_to(c, &(struct kv_msg){.type = KV_PEER_DIED, .nonce = nonce});
	}
}

/* Of a prefix, that this was all; of a key, that there is none. */
void client_tell_known(struct kvd *k, struct client *c, const struct topic *t)
{
	struct kv_msg synced = {
		.type = KV_EVENT, .event = KV_EVENT_SYNCED, .key = kv_str(t->head.key)};
	struct item *i, none = {.head.key = t->head.key};

	if (t->prefix)
		return send_to(c, &synced);
	i = store_next_of(k, t, NULL);
	if (!i || !i->head.value)
		client_send_item(c, &none);
}

/* What is here at once. The rest comes when it has been read from etcd. */
void client_tell_topic(struct kvd *k, struct client *c, const struct topic *t)
{
	struct item *i;

	for (i = NULL; !c->overrun && (i = store_next_of(k, t, i));)
		if (i->head.value)
			client_send_item(c, i);
	if (t->known)
		client_tell_known(k, c, t);
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
	c->lease = old->lease;
	c->keepalive_at_ms = old->keepalive_at_ms;
	store_hand_over(old, c);
	close_socket(k, old); /* a child of the process may hold the other end open */
	old->nonce = 0;	      /* freed by clients_tick(), once its requests are answered */
	old->lease = 0;
	old->gone_at_ms = 0;
}

static void refuse_full(struct kvd *k, struct client *c)
{
	char text[128];

	snprintf(text, sizeof(text), "this host's shift-kvd takes no more than %d processes%s",
		 k->places, k->places < CLIENTS_MAX ? "; raise its ulimit -n" : "");
	refuse_for_good(c, KV_ERROR_FULL, text);
}

static void on_hello(struct kvd *k, struct client *c, const struct kv_msg *m)
{
	struct client *old = find_earlier(k, c, m->nonce);

	if (m->version != KV_VERSION)
		return refuse_for_good(c, KV_ERROR_VERSION, "another version of the protocol");
	if (m->job.bytes != strlen(k->o.job) || memcmp(m->job.data, k->o.job, m->job.bytes))
		return refuse_for_good(c, KV_ERROR_JOB, "this is another job's shift-kvd");
	if ((old && (old->buried || old->pid != c->pid)) || session_has_grave(k, m->nonce))
		return refuse_for_good(c, KV_ERROR_PROTOCOL, "that process is dead, or another");
	if (!old && count_places(k, false) >= k->places)
		return refuse_full(k, c);
	c->nonce = m->nonce;
	snprintf(c->name, sizeof(c->name), "%016" PRIx64, m->nonce);
	if (old)
		adopt_client(k, c, old);
	client_welcome(k, c);
}

static void on_subscription(struct kvd *k, struct client *c, const struct kv_msg *m)
{
	if (m->type == KV_GET && c->gets.count >= CLIENT_KEYS_MAX)
		return refuse_request(c, KV_ERROR_FULL, "more than 65,536 keys are asked for");
	if (m->type == KV_WATCH && c->watches.count >= CLIENT_WATCHES_MAX)
		return refuse_request(c, KV_ERROR_FULL, "more than 4,096 prefixes are asked for");
	client_tell_topic(k, c, subs_add(k, c, m->type == KV_WATCH, &m->key));
}

static void on_change(struct kvd *k, struct client *c, const struct kv_msg *m)
{
	const char *why;
	int err = m->type == KV_PUT ? store_put(k, c, m, &why) : store_delete(k, c, m, &why);
	char text[KV_KEY_MAX + 128];

	if (!err)
		return;
	snprintf(text, sizeof(text), "%s refused: %s: %.*s", m->type == KV_PUT ? "put" : "delete",
		 why, (int)m->key.bytes, (const char *)m->key.data);
	refuse_request(c, err, text);
}

static void on_status(struct kvd *k, struct client *c)
{
	char *json = status_json(k);

	send_to(c, &(struct kv_msg){.type = KV_STATUS, .text = kv_str(json)});
	free(json);
	c->closing = true;
	c->silent_at_ms = now_ms();
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
	if (count_places(k, true) >= k->places)
		return refuse_full(k, c);
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
	case KV_UNGET: return subs_remove(k, c, &m->key);
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
	int err = c->more ? 0 : kv_buf_fill(&c->in, c->fd), n = 0;
	int64_t end = now_ms() + TURN_MS;
	struct kv_msg m;

	c->more = false;
	if (err == -ENOMEM)
		check_alloc(NULL);
	while (!c->closing && c->fd >= 0 && !c->more && (n = kv_buf_next(&c->in, &m)) > 0) {
		on_client_message(k, c, &m);
		c->more = c->fd >= 0 && !err && now_ms() >= end;
	}
	if (n < 0)
		refuse_for_good(c, KV_ERROR_PROTOCOL, "not a frame");
	if (c->closing) /* nothing of it counts any more */
		c->in.start = c->in.end = 0;
	if (err && c->fd >= 0)
		on_close(k, c);
}

/* The client has read what was sent before the overrun. Now it gets everything that it asked for
 * again. */
static void tell_again(struct kvd *k, struct client *c)
{
	c->overrun = false;
	client_welcome(k, c);
	tell_deaths(k, c);
	subs_tell_again(k, c);
}

/* In milliseconds from now; not negative. INT_MAX: never. */
static int time_left(const struct client *c)
{
	int64_t end = is_silent(c)    ? c->silent_at_ms + SILENT_MS
		      : c->gone_at_ms ? c->gone_at_ms + GONE_MS
				      : INT64_MAX;

	if (end == INT64_MAX)
		return INT_MAX;
	return end > now_ms() ? (int)(end - now_ms()) : 0;
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
	if (time_left(c) > 0)
		return;
	if (c->fd >= 0)
		end_silent(k, c, "no HELLO came in 10 s");
	else
		bury_client(k, c, true);
}

void clients_tick(struct kvd *k)
{
	struct client *c, *next;

	for (c = k->clients; c; c = c->next)
		client_tick(k, c);
	for (c = k->clients; c; c = next) {
		next = c->next;
		if (c->fd >= 0 || c->asking || c->holds || (c->nonce && !c->buried))
			continue;
		if (c->lease)
			session_bury(k, c);
		free_client(k, c);
	}
}

int clients_wait_ms(const struct kvd *k)
{
	int64_t pause = k->accept_at_ms - now_ms();
	int ms = pause > 0 ? (int)pause : INT_MAX;

	for (const struct client *c = k->clients; c && ms; c = c->next) {
		int left = c->more ? 0 : time_left(c);

		ms = left < ms ? left : ms;
	}
	return ms;
}

void clients_free(struct kvd *k)
{
	while (k->clients)
		free_client(k, k->clients);
	if (k->spare_fd >= 0)
		close(k->spare_fd);
}
