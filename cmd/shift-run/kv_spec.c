/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* --kv: where the hosts of a job meet. The same words on all of them. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cmd/shift-run/run.h"

static const char port_default[] = "29379";

struct place {
	char host[256], port[6];
	bool is_number; /* an address, not a name */
};

static bool is_port(const char *s)
{
	size_t n = strspn(s, "0123456789");

	return n && n <= 5 && !s[n] && atoi(s) > 0 && atoi(s) < 65536;
}

/* "HOST", "HOST:PORT", "[v6]", "[v6]:PORT", ":PORT", "" */
static void split_place(struct place *p, const char *words, const char *at)
{
	const char *host = at, *rest, *master = getenv("MASTER_ADDR");
	size_t n = *at == '[' ? strcspn(at, "]") : strcspn(at, ":");

	rest = at + n + (*at == '[' && at[n]);
	if (*at == '[') {
		host++;
		n--;
	}
	if (!n && master && *master) {
		host = master;
		n = strlen(master);
	}
	if (!n)
		die(EXIT_OURS, "--kv %s: which host? MASTER_ADDR is not set; try start@HOST",
		    words);
	if (n >= sizeof(p->host) || (*rest && *rest != ':') || (*rest && !is_port(rest + 1)))
		die(EXIT_OURS, "--kv %s: not start@HOST[:PORT]", words);
	memcpy(p->host, host, n);
	p->host[n] = 0;
	strcpy(p->port, *rest ? rest + 1 : port_default);
}

static bool is_loopback(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
	return a->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
	if (!b || a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return a->sa_family == AF_INET6 &&
	       IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *)a)->sin6_addr,
				  &((const struct sockaddr_in6 *)b)->sin6_addr);
}

static bool is_local_address(const struct sockaddr *a)
{
	struct ifaddrs *list = NULL, *i;

	if (is_loopback(a))
		return true;
	if (getifaddrs(&list))
		return false;
	for (i = list; i && !same_address(a, i->ifa_addr);)
		i = i->ifa_next;
	freeifaddrs(list);
	return i;
}

static void set_listen(struct meeting *m, const struct place *p, const struct sockaddr *a,
		       socklen_t bytes)
{
	char address[48];

	getnameinfo(a, bytes, address, sizeof(address), NULL, 0, NI_NUMERICHOST);
	/* Many hosts resolve their own name to 127.0.1.1, which other hosts cannot reach. */
	if (is_loopback(a) && !p->is_number && strcmp(p->host, "localhost"))
		strcpy(address, a->sa_family == AF_INET ? "0.0.0.0" : "::");
	address[strcspn(address, "%")] = 0;
	snprintf(m->listen, sizeof(m->listen), strchr(address, ':') ? "[%s]:%s" : "%s:%s", address,
		 p->port);
}

static void resolve_place(struct meeting *m, struct place *p)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list, *i;
	unsigned char binary[16];
	int err = getaddrinfo(p->host, p->port, &hints, &list);

	if (err)
		die(EXIT_OURS, "--kv start@%s: %s", p->host, gai_strerror(err));
	p->is_number = inet_pton(AF_INET, p->host, binary) == 1 || strchr(p->host, ':');
	for (i = list; i && !is_local_address(i->ai_addr);)
		i = i->ai_next;
	m->is_host = i;
	if (i)
		set_listen(m, p, i->ai_addr, i->ai_addrlen);
	freeaddrinfo(list);
}

/* Copies URLs as shift-kvd shows them: "http://a:1/,http://b:2" without the slash. */
static void copy_urls(char *to, const char *words)
{
	for (; *words; words++)
		if (*words != '/' || (words[1] && words[1] != ','))
			*to++ = *words;
	*to = 0;
}

void kv_spec_parse(struct meeting *m, const char *words)
{
	struct place p = {0};

	memset(m, 0, sizeof(*m));
	if (!words || !*words)
		return;
	if (strlen(words) >= sizeof(m->urls))
		die(EXIT_OURS, "--kv: too long");
	m->kind = !strcmp(words, "start") || !strncmp(words, "start@", 6) ? MEET_START : MEET_URLS;
	if (m->kind == MEET_URLS) {
		if (strncmp(words, "http://", 7) && strncmp(words, "https://", 8))
			die(EXIT_OURS, "--kv %s: neither http[s]://HOST:PORT nor start@HOST[:PORT]",
			    words);
		copy_urls(m->urls, words);
		return;
	}
	split_place(&p, words, words[5] ? words + 6 : "");
	resolve_place(m, &p);
	snprintf(m->urls, sizeof(m->urls), strchr(p.host, ':') ? "http://[%s]:%s" : "http://%s:%s",
		 p.host, p.port);
}
