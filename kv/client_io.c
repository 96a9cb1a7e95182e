/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The client's connection: made, lost and made again; frames in and out. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kv/client_priv.h"
#include "lib/base/run_dir.h"

enum {
	RETRY_MS_MIN = 10,
	RETRY_MS_MAX = 1000,
	OUT_BYTES = 1 << 16, /* more waits in the queue, where a second put replaces the first */
	DEAD_MAX = 1 << 16,
};

int64_t kv_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * (int64_t)1000 + t.tv_nsec / 1000000;
}

int kv_socket_path(char *path, size_t bytes, const char *job)
{
	int err = run_dir_of_job(path, bytes, job);
	size_t n = err ? 0 : strlen(path);

	if (err)
		return err;
	return (size_t)snprintf(path + n, bytes - n, "/kvd.sock") < bytes - n ? 0 : -ENAMETOOLONG;
}

static void tell_error(struct kv_client *c, int code, const char *text)
{
	if (c->callbacks.error)
		c->callbacks.error(c->callbacks.arg, code, text);
}

/* Reports the same reason only once, as the client tries again every second. */
static void tell_errno(struct kv_client *c, int err, const char *what)
{
	char text[256];

	if (c->complained_errno == err)
		return;
	c->complained_errno = err;
	snprintf(text, sizeof(text), "%s: %s: %s", c->path, what, strerror(err));
	tell_error(c, 0, text);
}

/* False once the program has closed our descriptor, and perhaps opened another of that number. */
static bool fd_is_ours(const struct kv_client *c)
{
	struct stat st;

	return !fstat(c->fd, &st) && st.st_dev == c->fd_dev && st.st_ino == c->fd_ino;
}

void kv_client_disconnect(struct kv_client *c)
{
	if (c->fd >= 0 && fd_is_ours(c))
		close(c->fd);
	c->fd = -1;
	c->welcome = false;
	c->in.start = c->in.end = 0;
	c->out.start = c->out.end = 0;
	c->retry_ms = c->retry_ms ? 2 * c->retry_ms : RETRY_MS_MIN;
	if (c->retry_ms > RETRY_MS_MAX)
		c->retry_ms = RETRY_MS_MAX;
	c->retry_at_ms = kv_now_ms() + c->retry_ms;
}

void kv_client_say_goodbye(struct kv_client *c)
{
	if (fd_is_ours(c) && !kv_buf_frame(&c->out, &(struct kv_msg){.type = KV_BYE}))
		kv_buf_flush(&c->out, c->fd);
}

/* Only a daemon of root or of this user is trusted. */
static int check_peer(int fd)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n))
		return errno;
	return cred.uid == 0 || cred.uid == geteuid() ? 0 : EPERM;
}

static int open_socket(struct kv_client *c)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct stat st;
	int err = 0;

	memcpy(a.sun_path, c->path, sizeof(a.sun_path));
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return errno;
	if (connect(c->fd, (struct sockaddr *)&a, sizeof(a)) || fstat(c->fd, &st))
		err = errno;
	else
		err = check_peer(c->fd);
	if (err) {
		close(c->fd);
		c->fd = -1;
		return err;
	}
	c->fd_dev = st.st_dev;
	c->fd_ino = st.st_ino;
	return 0;
}

static int connect_now(struct kv_client *c)
{
	struct kv_msg hello = {
		.type = KV_HELLO,
		.version = KV_VERSION,
		.job = kv_str(c->job),
		.nonce = c->nonce,
		.pid = c->owner,
	};
	int err = open_socket(c);

	if (err) {
		tell_errno(c, err, "cannot connect");
		kv_client_disconnect(c);
		return 0;
	}
	c->connection++;
	kv_client_requeue_all(c);
	return kv_buf_frame(&c->out, &hello);
}

static int send_entry(struct kv_client *c, struct client_entry *e)
{
	struct kv_msg m = {.key = kv_str(e->head.key)};
	int err = 0;

	if (e->is_watch) {
		m.type = e->unwanted ? KV_UNGET : KV_WATCH;
		return kv_buf_frame(&c->out, &m);
	}
	if (e->mine || e->dropped) {
		m.type = e->mine ? KV_PUT : KV_DELETE;
		m.value = (struct kv_bytes){e->head.value, e->head.bytes};
		err = kv_buf_frame(&c->out, &m);
	}
	if ((e->subscribed || e->unwanted) && !err) {
		m.type = e->subscribed ? KV_GET : KV_UNGET;
		err = kv_buf_frame(&c->out, &m);
	}
	return err;
}

static int send_queued(struct kv_client *c)
{
	int err = 0;

	while (c->first && c->welcome && !err && kv_buf_bytes(&c->out) < OUT_BYTES) {
		struct client_entry *e = c->first;

		c->first = e->next_queued;
		if (!c->first)
			c->last = NULL;
		e->queued = false;
		err = send_entry(c, e);
		if (!err && e->unwanted)
			kv_client_drop(c, e);
	}
	return err ? err : kv_buf_flush(&c->out, c->fd);
}

static void call_event(struct kv_client *c, enum kv_event event, struct client_entry *e)
{
	if (c->callbacks.event)
		c->callbacks.event(c->callbacks.arg, event, e->head.key, e->head.value,
				   e->head.bytes);
}

static void forget_value(struct kv_client *c, struct client_entry *e)
{
	bool had = e->head.value;

	kv_entry_set(&e->head, NULL, 0);
	if (had || !e->known) {
		e->known = true;
		call_event(c, KV_EVENT_DELETE, e);
	}
	e->known = true;
}

/* The daemon has sent all keys of a prefix. Keys that it did not send have been deleted since the
 * last connection. */
static void on_synced(struct kv_client *c, const struct kv_msg *m)
{
	struct client_entry *w = kv_table_find(&c->watches, m->key.data, m->key.bytes), *e;

	for (e = NULL; (e = kv_table_next(&c->entries, e));)
		if (!strncmp(e->head.key, m->key.data, m->key.bytes) && e->head.value && !e->mine &&
		    e->seen != c->connection)
			forget_value(c, e);
	if (!w)
		return;
	w->known = true;
	call_event(c, KV_EVENT_SYNCED, w);
}

static int on_event(struct kv_client *c, const struct kv_msg *m)
{
	struct client_entry *e;

	if (m->event == KV_EVENT_SYNCED)
		return on_synced(c, m), 0;
	if (!m->key.bytes)
		return -EPROTO;
	e = kv_table_find(&c->entries, m->key.data, m->key.bytes);
	if (!e && !kv_client_watches(c, &m->key))
		return 0; /* said before the daemon heard that we had forgotten it */
	e = e ? e : kv_table_get(&c->entries, m->key.data, m->key.bytes);
	if (!e)
		return -ENOMEM;
	e->seen = c->connection;
	/* Our own value counts: it is still on its way to the daemon, or the daemon's lease ran
	 * out. */
	if (e->mine && (e->queued || m->event == KV_EVENT_DELETE))
		return 0;
	if (m->event == KV_EVENT_DELETE)
		return forget_value(c, e), 0;
	if (kv_entry_is(&e->head, m->value.data, m->value.bytes))
		return 0;
	if (kv_entry_set(&e->head, m->value.data, m->value.bytes))
		return -ENOMEM;
	e->mine = e->dropped = false;
	call_event(c, KV_EVENT_PUT, e);
	return 0;
}

size_t kv_client_name_dead(char name[17], uint64_t nonce)
{
	return (size_t)snprintf(name, 17, "%016" PRIx64, nonce);
}

static int on_peer_died(struct kv_client *c, uint64_t nonce)
{
	char name[17];
	size_t n = kv_client_name_dead(name, nonce);

	if (nonce == c->nonce || kv_table_find(&c->dead, name, n))
		return 0;
	if (c->dead.count >= DEAD_MAX)
		kv_table_free(&c->dead); /* then some are told twice */
	if (!kv_table_get(&c->dead, name, n))
		return -ENOMEM;
	if (c->callbacks.peer_died)
		c->callbacks.peer_died(c->callbacks.arg, nonce);
	return 0;
}

static int on_welcome(struct kv_client *c, const struct kv_msg *m)
{
	if (m->version != KV_VERSION)
		return -EPROTO;
	if (c->has_job_key && memcmp(c->job_key, m->job_key, sizeof(c->job_key)))
		tell_error(c, 0, "the job key has changed: another job of the same name?");
	memcpy(c->job_key, m->job_key, sizeof(c->job_key));
	c->has_job_key = true;
	c->lease = m->lease;
	c->welcome = true;
	c->retry_ms = 0;
	c->complained_errno = 0;
	return 0;
}

static int on_error_message(struct kv_client *c, const struct kv_msg *m)
{
	char text[512];

	snprintf(text, sizeof(text), "%.*s", (int)m->text.bytes, (const char *)m->text.data);
	tell_error(c, m->code, text);
	return 0;
}

static int on_daemon_message(struct kv_client *c, const struct kv_msg *m)
{
	switch (m->type) {
	case KV_WELCOME: return on_welcome(c, m);
	case KV_EVENT: return on_event(c, m);
	case KV_PEER_DIED: return on_peer_died(c, m->nonce);
	case KV_ERROR: return on_error_message(c, m);
	case KV_HELLO:
	case KV_PUT:
	case KV_GET:
	case KV_WATCH:
	case KV_DELETE:
	case KV_STATUS:
	case KV_BYE:
	case KV_HOLD:
	case KV_UNGET:
	case KV_TYPE_END: return -EPROTO;
	}
	return -EPROTO;
}

static int receive_messages(struct kv_client *c)
{
	int err = kv_buf_fill(&c->in, c->fd), n;
	struct kv_msg m;

	/* What came before the end of file counts too. */
	while ((n = kv_buf_next(&c->in, &m)) > 0) {
		n = on_daemon_message(c, &m);
		if (n)
			break;
	}
	return n < 0 ? n : err;
}

int kv_client_process(struct kv_client *c)
{
	int err = 0;

	if (c->owner != getpid())
		return -ECHILD;
	if (c->fd >= 0 && !fd_is_ours(c))
		err = -EBADF;
	if (c->fd < 0 && kv_client_poll_timeout_ms(c) == 0)
		err = connect_now(c);
	if (c->fd >= 0 && !err)
		err = receive_messages(c);
	if (c->fd >= 0 && !err)
		err = send_queued(c);
	if (err && c->fd >= 0) {
		tell_errno(c, -err, "connection lost");
		kv_client_disconnect(c);
	}
	return err == -ENOMEM ? err : 0;
}
