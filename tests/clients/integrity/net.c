/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the sides tell each other over TCP. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/clients/integrity/integrity.h"

_Noreturn void fail(const char *what)
{
	fprintf(stderr, "integrity: %s: %s\n", what, strerror(errno));
	exit(EXIT_SETUP);
}

static struct addrinfo *resolve(void)
{
	struct addrinfo *a, hints = {.ai_family = AF_INET,
				     .ai_socktype = SOCK_STREAM,
				     .ai_flags = opt.peer ? 0 : AI_PASSIVE};
	int err = getaddrinfo(opt.peer, opt.port, &hints, &a);

	if (err) {
		fprintf(stderr, "integrity: %s port %s: %s\n", opt.peer ? opt.peer : "any address",
			opt.port, gai_strerror(err));
		exit(EXIT_SETUP);
	}
	return a;
}

static int connect_to(const struct addrinfo *a)
{
	/* The other side may still be starting. */
	for (int i = 0; i < 200; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (fd < 0)
			fail("socket");
		if (!connect(fd, a->ai_addr, a->ai_addrlen))
			return fd;
		close(fd);
		poll(NULL, 0, 50);
	}
	fail("connect");
}

static int accept_one(const struct addrinfo *a)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1, fd;

	if (listener < 0)
		fail("socket");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, a->ai_addr, a->ai_addrlen) || listen(listener, 1))
		fail("listen");
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		fail("accept");
	close(listener);
	return fd;
}

void net_open(struct run *r)
{
	struct addrinfo *a = resolve();

	r->tcp = opt.peer ? connect_to(a) : accept_one(a);
	freeaddrinfo(a);
}

/* These return false, with errno set, when the peer has left. */
bool net_send(struct run *r, const void *own, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = send(r->tcp, (const char *)own + done, bytes - done, MSG_NOSIGNAL);

		if (n < 0)
			return false;
		done += n;
	}
	return true;
}

bool net_receive(struct run *r, void *peer, size_t bytes)
{
	ssize_t n = recv(r->tcp, peer, bytes, MSG_WAITALL);

	if (n >= 0 && (size_t)n < bytes)
		errno = ECONNRESET;
	return n == (ssize_t)bytes;
}

bool net_swap(struct run *r, const void *own, void *peer, size_t bytes)
{
	return net_send(r, own, bytes) && net_receive(r, peer, bytes);
}

/* Has the peer said something, or left? */
bool net_pending(struct run *r, int timeout_ms)
{
	struct pollfd p = {.fd = r->tcp, .events = POLLIN};

	return poll(&p, 1, timeout_ms) > 0;
}

/* The side that connects says what is to be done. */
void net_agree(struct run *r)
{
	if (opt.peer ? !net_send(r, &opt.w, sizeof(opt.w)) : !net_receive(r, &opt.w, sizeof(opt.w)))
		fail("the peer left");
	if (opt.threads > opt.w.qps)
		opt.threads = opt.w.qps;
}
