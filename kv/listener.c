/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kv/listener.h"

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

static void describe_listener(struct listener *l, const struct sockaddr *a)
{
	struct in6_addr mapped = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
	const struct sockaddr_in *four = (const void *)a;
	const struct sockaddr_in6 *six = (const void *)a;

	memset(l, 0, sizeof(*l));
	if (a->sa_family == AF_INET6) {
		l->port = ntohs(six->sin6_port);
		write_words(l->v6, &six->sin6_addr, 4);
		return;
	}
	l->port = ntohs(four->sin_port);
	memcpy(&mapped.s6_addr[12], &four->sin_addr, 4);
	write_words(l->v4, &four->sin_addr, 1);
	write_words(l->mapped, &mapped, 4);
}

/*
 * The kernel gives a connection to the closest of them. A foreign one that is farther takes nothing
 * from it: another user may listen at [::] for IPv6 only, beside an etcd at an IPv4 address.
 */
enum closeness { ITSELF, ALL_OF_FAMILY, ALL_OF_BOTH, CLOSENESSES, ELSEWHERE = CLOSENESSES };

struct found {
	int n;
	uid_t foreign; /* 0: none */
};

static enum closeness closeness_of(const struct listener *l, const char *address)
{
	bool is_v4 = strlen(address) == 8;

	if (!strcmp(address, l->v4) || !strcmp(address, l->v6) || !strcmp(address, l->mapped))
		return ITSELF;
	if (strspn(address, "0") != strlen(address))
		return ELSEWHERE;
	if (*l->v4)
		return is_v4 ? ALL_OF_FAMILY : ALL_OF_BOTH;
	return is_v4 ? ELSEWHERE : ALL_OF_FAMILY;
}

static void search_table(const struct listener *l, const char *table, struct found *found)
{
	FILE *f = fopen(table, "re");
	char line[512], address[33];
	unsigned int port, state, uid;
	enum closeness c;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, " %*u: %32[0-9A-F]:%x %*s %x %*s %*s %*s %u", address, &port,
			   &state, &uid) != 4)
			continue;
		c = closeness_of(l, address);
		if (state != TCP_LISTEN || port != l->port || c == ELSEWHERE)
			continue;
		found[c].n++;
		if (uid && uid != geteuid())
			found[c].foreign = uid;
	}
	if (f)
		fclose(f);
}

static int count_listeners(const struct sockaddr *a, uid_t *foreign)
{
	struct found found[CLOSENESSES] = {0};
	struct listener l;
	int c = ITSELF;

	describe_listener(&l, a);
	search_table(&l, "/proc/net/tcp", found);
	search_table(&l, "/proc/net/tcp6", found);
	while (c < ALL_OF_BOTH && !found[c].n)
		c++;
	*foreign = found[c].foreign;
	return found[c].n;
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

bool address_is_loopback(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
	return a->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

bool address_is_here(const struct sockaddr *a)
{
	struct ifaddrs *list = NULL, *i;

	/* All of 127/8 is, by one address of it. ::1 is not where IPv6 is off. */
	if (a->sa_family == AF_INET && address_is_loopback(a))
		return true;
	if (getifaddrs(&list))
		return false;
	for (i = list; i && !same_address(a, i->ifa_addr);)
		i = i->ifa_next;
	freeifaddrs(list);
	return i;
}

bool listener_is_refused(char *why, size_t bytes, const char *address, const char *port)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				 .ai_socktype = SOCK_STREAM};
	struct addrinfo *a = NULL;
	uid_t foreign = 0;
	int n = 1;

	if (!getaddrinfo(address, port, &hints, &a)) {
		if (address_is_here(a->ai_addr))
			n = count_listeners(a->ai_addr, &foreign);
		freeaddrinfo(a);
	}
	if (foreign)
		snprintf(why, bytes, "port %s on %s is taken by uid %u", port, address, foreign);
	else if (!n)
		snprintf(why, bytes,
			 "port %s on %s is taken, and /proc/net/tcp does not say by whom", port,
			 address);
	return foreign || !n;
}
