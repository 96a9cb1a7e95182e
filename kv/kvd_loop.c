/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <curl/curl.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "kv/kvd.h"

enum {
	FLUSH_MS = 5000,     /* at the end, for what etcd has not got yet */
	CLOSE_LOOK_MS = 100, /* while something ends by the clock */
	ROUND_MS = 50,	     /* for clients, before etcd and new ones have their turn */
	FDS_MAX = 2 + 3 * CLIENTS_MAX + 2 * SILENT_MAX,
};

static int loop_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static bool has_clients(const struct kvd *k)
{
	for (const struct client *c = k->clients; c; c = c->next)
		if (!c->buried)
			return true;
	return false;
}

/* True when there was no client for the grace time, and etcd has all changes or cannot be told in
 * time. */
static bool daemon_is_over(struct kvd *k)
{
	int64_t idle_ms;

	if (has_clients(k) && !k->stopping) {
		if (k->idle_since_ms < now_ms())
			k->idle_since_ms = now_ms();
		k->leaving = false;
		return false;
	}
	idle_ms = now_ms() - k->idle_since_ms;
	if (!k->stopping && idle_ms < k->o.grace_ms)
		return false;
	k->leaving = true;
	if (session_is_idle(k) && (k->stopping || on_switch_is_idle(k)))
		return true;
	if (idle_ms < (k->stopping ? 0 : k->o.grace_ms) + FLUSH_MS || session_is_idle(k))
		return false;
	say("ends before etcd has taken the last changes of %zu keys: old ones stay there until "
	    "their leases run out",
	    k->store.dirty);
	return true;
}

static unsigned int gather_fds(struct kvd *k, int signal_fd, struct curl_waitfd *fds)
{
	unsigned int n = 0;

	fds[n++] = (struct curl_waitfd){.fd = signal_fd, .events = CURL_WAIT_POLLIN};
	fds[n++] = (struct curl_waitfd){
		.fd = k->listen_fd, .events = now_ms() < k->accept_at_ms ? 0 : CURL_WAIT_POLLIN};
	for (struct client *c = k->clients; c; c = c->next) {
		short out = kv_buf_bytes(&c->out) ? CURL_WAIT_POLLOUT : 0;

		c->fd_at = c->pidfd_at = 0;
		if (c->fd >= 0 && n < FDS_MAX)
			fds[c->fd_at = n++] = (struct curl_waitfd){
				.fd = c->fd, .events = CURL_WAIT_POLLIN | out};
		if (c->pidfd >= 0 && n < FDS_MAX)
			fds[c->pidfd_at = n++] = (struct curl_waitfd){.fd = c->pidfd,
								      .events = CURL_WAIT_POLLIN};
	}
	return n;
}

/* After the last comes the first. */
static struct client *next_client(const struct kvd *k, const struct client *c)
{
	return c->next ? c->next : k->clients;
}

static void serve_client(struct kvd *k, struct client *c, const struct curl_waitfd *fds)
{
	if (c->fd >= 0 && c->fd_at && (fds[c->fd_at].revents || c->more))
		client_on_socket(k, c);
	if (c->pidfd >= 0 && c->pidfd_at && fds[c->pidfd_at].revents)
		client_on_exit(k, c);
}

/*
 * First the new ones, which may want a short answer only. Then the others, from where the last turn
 * ended for lack of time: those behind are still ready in the next one. Clients are only added (in
 * front) and never freed here.
 */
static void serve_fds(struct kvd *k, const struct curl_waitfd *fds)
{
	int64_t end = now_ms() + ROUND_MS;
	struct client *c, *begin;

	for (c = k->clients; c; c = c->next)
		if (!c->nonce)
			serve_client(k, c, fds);
	if (fds[1].revents)
		clients_accept(k);
	begin = c = k->turn ? k->turn : k->clients;
	for (; c && now_ms() < end; c = next_client(k, c) == begin ? NULL : next_client(k, c))
		serve_client(k, c, fds);
	k->turn = c;
}

static int until_next(struct kvd *k, int timeout_ms)
{
	int ms = clients_wait_ms(k);

	if ((k->stopping || !has_clients(k) || k->session.grave_count) && ms > CLOSE_LOOK_MS)
		ms = CLOSE_LOOK_MS;
	return timeout_ms < ms ? timeout_ms : ms;
}

void kvd_loop(struct kvd *k)
{
	static struct curl_waitfd fds[FDS_MAX];
	int signal_fd = loop_signals(), timeout_ms, switch_ms;
	struct signalfd_siginfo info;

	k->idle_since_ms = now_ms();
	while (!daemon_is_over(k)) {
		unsigned int n;

		clients_tick(k);
		timeout_ms = session_tick(k);
		clients_tick(k);
		switch_ms = on_switch_tick(k);
		timeout_ms = switch_ms < timeout_ms ? switch_ms : timeout_ms;
		n = gather_fds(k, signal_fd, fds);
		etcd_wait(k->session.etcd, fds, n, until_next(k, timeout_ms));
		serve_fds(k, fds);
		crash_prune(k->dir);
		if (read(signal_fd, &info, sizeof(info)) > 0 && !k->stopping) {
			k->stopping = true;
			k->idle_since_ms = now_ms();
		}
	}
	close(signal_fd);
}
