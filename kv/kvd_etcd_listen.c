/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Where an etcd listens. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
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

static bool has_prefix(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static bool is_free(const char *words)
{
	struct addrinfo *a = etcd_parse_listen(words);
	struct guard g;
	int err = etcd_try_bind(&g, a);

	freeaddrinfo(a);
	return !err;
}

bool etcd_set_local(struct guard *g)
{
	bool is_all = has_prefix(g->listen, "0.0.0.0:") || has_prefix(g->listen, "[::]:");
	bool is_local = has_prefix(g->listen, "127.") || has_prefix(g->listen, "[::1]:");
	char here[32];
	bool too;

	snprintf(here, sizeof(here), "127.0.0.1%s", strrchr(g->listen, ':'));
	too = !is_all && !is_local && is_free(here); /* else it is another etcd's */
	snprintf(g->local_url, sizeof(g->local_url), "http://%s", is_all || too ? here : g->listen);
	return too;
}

int etcd_free_port(void)
{
	struct addrinfo *a = etcd_parse_listen("127.0.0.1");
	struct guard g;
	int err = etcd_try_bind(&g, a);

	freeaddrinfo(a);
	return err ? 0 : atoi(strrchr(g.listen, ':') + 1);
}
