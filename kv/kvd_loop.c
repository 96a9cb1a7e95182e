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
	FDS_MAX = 2 + 2 * CLIENTS_MAX,
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
	if (session_is_idle(k))
		return true;
	if (idle_ms < (k->stopping ? 0 : k->o.grace_ms) + FLUSH_MS)
		return false;
	say("etcd was not told of %zu keys: their leases will run out", k->store.dirty);
	return true;
}

static unsigned int gather_fds(struct kvd *k, int signal_fd, struct curl_waitfd *fds)
{
	unsigned int n = 0;

	fds[n++] = (struct curl_waitfd){.fd = signal_fd, .events = CURL_WAIT_POLLIN};
	fds[n++] = (struct curl_waitfd){.fd = k->listen_fd, .events = CURL_WAIT_POLLIN};
	for (struct client *c = k->clients; c; c = c->next) {
		short out = kv_buf_bytes(&c->out) ? CURL_WAIT_POLLOUT : 0;

		if (c->fd >= 0)
			fds[n++] = (struct curl_waitfd){.fd = c->fd,
							.events = CURL_WAIT_POLLIN | out};
		if (c->pidfd >= 0 && !c->buried)
			fds[n++] = (struct curl_waitfd){.fd = c->pidfd, .events = CURL_WAIT_POLLIN};
	}
	return n;
}

static bool is_ready(const struct curl_waitfd *fds, unsigned int n, int fd)
{
	for (unsigned int i = 0; i < n; i++)
		if (fds[i].fd == fd)
			return fds[i].revents;
	return false;
}

/* Clients are only added (in front) and never freed here. */
static void serve_fds(struct kvd *k, const struct curl_waitfd *fds, unsigned int n)
{
	unsigned int at = 2;

	for (struct client *c = k->clients; c && at < n; c = c->next) {
		bool socket = at < n && c->fd >= 0 && fds[at].fd == c->fd, gone = false;

		if (socket && fds[at++].revents)
			client_on_socket(k, c);
		if (at < n && c->pidfd >= 0 && fds[at].fd == c->pidfd)
			gone = fds[at++].revents;
		if (gone)
			client_on_exit(k, c);
	}
	if (is_ready(fds, n, k->listen_fd))
		clients_accept(k);
}

static int until_next(struct kvd *k, int timeout_ms)
{
	bool close_look = k->stopping || !has_clients(k);

	for (const struct client *c = k->clients; c; c = c->next)
		close_look |= c->gone_at_ms || c->buried;
	return close_look && timeout_ms > CLOSE_LOOK_MS ? CLOSE_LOOK_MS : timeout_ms;
}

void kvd_loop(struct kvd *k)
{
	static struct curl_waitfd fds[FDS_MAX];
	int signal_fd = loop_signals(), timeout_ms;
	struct signalfd_siginfo info;

	k->idle_since_ms = now_ms();
	while (!daemon_is_over(k)) {
		unsigned int n;

		clients_tick(k);
		timeout_ms = session_tick(k);
		clients_tick(k);
		n = gather_fds(k, signal_fd, fds);
		etcd_wait(k->session.etcd, fds, n, until_next(k, timeout_ms));
		serve_fds(k, fds, n);
		crash_prune(k->dir);
		if (read(signal_fd, &info, sizeof(info)) > 0 && !k->stopping) {
			k->stopping = true;
			k->idle_since_ms = now_ms();
		}
	}
	close(signal_fd);
}
