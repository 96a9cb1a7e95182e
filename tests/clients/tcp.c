/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "tests/clients/tcp.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *name; /* of the program */

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", name, what, strerror(errno));
	exit(EXIT_FAILURE);
}

static struct addrinfo *resolve(const char *host, const char *port)
{
	struct addrinfo *a, hints = {.ai_family = AF_INET,
				     .ai_socktype = SOCK_STREAM,
				     .ai_flags = host ? 0 : AI_PASSIVE};
	int err = getaddrinfo(host, port, &hints, &a);

	if (err) {
		fprintf(stderr, "%s: %s port %s: %s\n", name, host ? host : "any address", port,
			gai_strerror(err));
		exit(EXIT_FAILURE);
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

int tcp_open(const char *program, const char *host, const char *port)
{
	struct addrinfo *a;
	int fd;

	name = program;
	a = resolve(host, port);
	fd = host ? connect_to(a) : accept_one(a);
	freeaddrinfo(a);
	return fd;
}

bool tcp_send(int fd, const void *bytes, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t sent = send(fd, (const char *)bytes + done, n - done, MSG_NOSIGNAL);

		if (sent < 0)
			return false;
		done += sent;
	}
	return true;
}

bool tcp_receive(int fd, void *bytes, size_t n)
{
	ssize_t got = recv(fd, bytes, n, MSG_WAITALL);

	if (got >= 0 && (size_t)got < n)
		errno = ECONNRESET;
	return got == (ssize_t)n;
}

bool tcp_pending(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, timeout_ms) > 0;
}

bool tcp_left(int fd)
{
	char byte;
	ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return !got || (got < 0 && errno != EAGAIN && errno != EINTR);
}
