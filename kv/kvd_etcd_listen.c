/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Where an etcd listens, and who has these ports. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kv/kvd_etcd.h"
#include "kv/listener.h"

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

int etcd_try_bind(char listen_text[LISTEN_CHARS], const struct addrinfo *a)
{
	char port[8] = "", host[64] = "";
	struct sockaddr_storage bound;
	socklen_t bytes = a->ai_addrlen;
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, err;

	err = fd < 0 ? -errno : 0;
	memcpy(&bound, a->ai_addr, bytes);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!err && (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 1)))
		err = -errno;
	if (!err)
		getsockname(fd, (struct sockaddr *)&bound, &bytes);
	getnameinfo((struct sockaddr *)&bound, bytes, host, sizeof(host), port, sizeof(port),
		    NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(listen_text, LISTEN_CHARS, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
	if (fd >= 0)
		close(fd);
	return err;
}

/* ---- whose port is it? --------------------------------------------------------------------- */

const char *etcd_owner_refusal(const char *listen)
{
	const char *colon = strrchr(listen, ':');
	int bracket = *listen == '[', n = colon - listen;
	char address[LISTEN_CHARS], why[96];

	snprintf(address, sizeof(address), "%.*s", n - 2 * bracket, listen + bracket);
	if (!listener_is_refused(why, sizeof(why), address, colon + 1))
		return NULL;
	return format_text("%s: choose another port: --kv start@%.*s:PORT", why, n, listen);
}

static const char *answer_refusal(const char *listen, int timeout_ms)
{
	const char *why = etcd_owner_refusal(listen);

	if (why)
		return why;
	if (!etcd_answers(format_text("http://%s", listen), timeout_ms))
		return format_text("%s is in use by something that is no etcd; another port is "
				   "needed",
				   listen);
	return etcd_owner_refusal(listen);
}

/* Its owner is looked at before anything is said to it, and of the one that has answered. */
const char *etcd_port_refusal(const struct guard *g, int timeout_ms)
{
	const char *why = NULL;

	for (int i = 0; i < g->listens && !why; i++)
		why = answer_refusal(g->listen[i], timeout_ms);
	return why;
}
