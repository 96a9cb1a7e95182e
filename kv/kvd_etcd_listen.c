/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Where an etcd listens, and who has that port. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kv/kvd_etcd.h"

struct addrinfo *etcd_parse_listen(const char *words)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
				 .ai_socktype = SOCK_STREAM};
	int bracket = *words == '[';
	size_t n = strcspn(words, bracket ? "]" : ":");
	const char *rest = words + n + (words[n] == ']');
	struct addrinfo *a = NULL;
	char address[64];

	snprintf(address, sizeof(address), "%.*s", (int)n - bracket, words + bracket);
	if ((*rest && *rest != ':') || getaddrinfo(address, *rest ? rest + 1 : "0", &hints, &a))
		die(EXIT_BAD_USAGE, "--listen %s: not ADDRESS[:PORT], in numbers", words);
	return a;
}

int etcd_try_bind(struct guard *g, const struct addrinfo *a)
{
	char port[8] = "", host[64] = "";
	struct sockaddr_storage bound;
	socklen_t bytes = a->ai_addrlen;
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, err;

	memcpy(&bound, a->ai_addr, bytes);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	err = bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 1) ? -errno : 0;
	if (!err)
		getsockname(fd, (struct sockaddr *)&bound, &bytes);
	getnameinfo((struct sockaddr *)&bound, bytes, host, sizeof(host), port, sizeof(port),
		    NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(g->listen, sizeof(g->listen), strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
	if (fd >= 0)
		close(fd);
	return err;
}

/* ---- whose port is it? --------------------------------------------------------------------- */

/* The port of an address, and the address as /proc/net/tcp and tcp6 write it: words of the CPU. */
struct listener {
	unsigned int port;
	char v4[9], v6[33], mapped[33];
};

static void write_words(char *text, const void *address, int words)
{
	uint32_t w;

	for (int i = 0; i < words; i++) {
		memcpy(&w, (const char *)address + 4 * i, sizeof(w));
		snprintf(text + 8 * i, 9, "%08X", w);
	}
}

static void describe_listener(struct listener *l, const struct addrinfo *a)
{
	struct in6_addr mapped = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
	const struct sockaddr_in *four = (const void *)a->ai_addr;
	const struct sockaddr_in6 *six = (const void *)a->ai_addr;

	memset(l, 0, sizeof(*l));
	if (a->ai_family == AF_INET6) {
		l->port = ntohs(six->sin6_port);
		write_words(l->v6, &six->sin6_addr, 4);
		return;
	}
	l->port = ntohs(four->sin_port);
	memcpy(&mapped.s6_addr[12], &four->sin_addr, 4);
	write_words(l->v4, &four->sin_addr, 1);
	write_words(l->mapped, &mapped, 4);
}

/* The address itself, or one that includes it. */
static bool is_in_the_way(const struct listener *l, const char *address)
{
	return !strcmp(address, l->v4) || !strcmp(address, l->v6) || !strcmp(address, l->mapped) ||
	       strspn(address, "0") == strlen(address);
}

/* How many listen there; *foreign: one that is neither this user's nor root's. */
static int count_listeners(const struct listener *l, const char *table, uid_t *foreign)
{
	FILE *f = fopen(table, "re");
	char line[512], address[33];
	unsigned int port, state, uid;
	int n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, " %*u: %32[0-9A-F]:%x %*s %x %*s %*s %*s %u", address, &port,
			   &state, &uid) != 4)
			continue;
		if (state != TCP_LISTEN || port != l->port || !is_in_the_way(l, address))
			continue;
		n++;
		if (uid && uid != geteuid())
			*foreign = uid;
	}
	if (f)
		fclose(f);
	return n;
}

static const char *owner_refusal(const struct guard *g)
{
	struct addrinfo *a = etcd_parse_listen(g->listen);
	const char *colon = strrchr(g->listen, ':');
	int host = colon - g->listen, n;
	uid_t foreign = 0;
	struct listener l;

	describe_listener(&l, a);
	freeaddrinfo(a);
	n = count_listeners(&l, "/proc/net/tcp", &foreign);
	n += count_listeners(&l, "/proc/net/tcp6", &foreign);
	if (foreign)
		return format_text("port %s on %.*s is taken by uid %u: choose another port: --kv "
				   "start@%.*s:PORT",
				   colon + 1, host, g->listen, foreign, host, g->listen);
	if (!n)
		return format_text("port %s on %.*s is taken, and /proc/net/tcp does not say by "
				   "whom: choose another port: --kv start@%.*s:PORT",
				   colon + 1, host, g->listen, host, g->listen);
	return NULL;
}

/* Its owner is looked at before anything is said to it, and of the one that has answered. */
const char *etcd_port_refusal(const struct guard *g, int timeout_ms)
{
	const char *why = owner_refusal(g);

	if (why)
		return why;
	if (!etcd_answers(format_text("http://%s", g->listen), timeout_ms))
		return format_text("%s is in use by something that is no etcd; another port is "
				   "needed",
				   g->listen);
	return owner_refusal(g);
}
