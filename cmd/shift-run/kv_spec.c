/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* --kv: where the hosts of a job meet. The same words on all of them. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cmd/shift-run/run.h"
#include "kv/listener.h"

enum { LISTENS_MAX = 32 }; /* of shift-kvd etcd */

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

static bool is_link_local(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 16 == 0xa9fe;
	return IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static socklen_t address_bytes(const struct sockaddr *a)
{
	return a->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static void write_address(char text[48], const struct sockaddr *a)
{
	getnameinfo(a, address_bytes(a), text, 48, NULL, 0, NI_NUMERICHOST);
	text[strcspn(text, "%")] = 0;
}

static bool list_has_address(const char *list, const char *address)
{
	size_t n = strlen(address);

	for (const char *p = list; (p = strstr(p, address)); p += n)
		if ((p == list || p[-1] == ' ') && (!p[n] || p[n] == ','))
			return true;
	return false;
}

/* The addresses of this host that other hosts may reach, "A, B"; their number. */
static int list_addresses(char *list, size_t size, int family)
{
	struct ifaddrs *all = NULL;
	char address[48];
	size_t used = 0;
	int n = 0;

	*list = 0;
	if (getifaddrs(&all))
		return 0;
	for (struct ifaddrs *i = all; i && size - used > sizeof(address) + 2; i = i->ifa_next) {
		const struct sockaddr *a = i->ifa_addr;

		if (!a || a->sa_family != family || !(i->ifa_flags & IFF_RUNNING) ||
		    address_is_loopback(a) || is_link_local(a))
			continue;
		write_address(address, a);
		if (list_has_address(list, address))
			continue;
		used += snprintf(list + used, size - used, "%s%s", n++ ? ", " : "", address);
	}
	freeifaddrs(all);
	return n;
}

static bool is_localhost_name(const char *host)
{
	size_t n = strlen(host);

	return !strncmp(host, "localhost", 9) || !strcmp(host, "ip6-localhost") ||
	       !strcmp(host, "ip6-loopback") || (n > 10 && !strcmp(host + n - 10, ".localhost"));
}

/*
 * Many hosts resolve their own name to 127.0.1.1, which other hosts cannot reach. All addresses
 * would be more than what was said. With one address there is no doubt which is meant.
 */
static void replace_loopback(struct meeting *m, const struct place *p, char address[48])
{
	char list[512];
	int n = list_addresses(list, sizeof(list), AF_INET);

	if (!n)
		n = list_addresses(list, sizeof(list), AF_INET6);
	if (!n)
		return; /* nobody else can reach this host */
	if (n > 1)
		die(EXIT_OURS,
		    "--kv start@%s: %s is %s here, which no other host reaches, and this host has "
		    "several addresses (%s): say start@ADDRESS, or correct /etc/hosts",
		    p->host, p->host, address, list);
	meeting_note(m, format_text("--kv start@%s: %s is %s here, which no other host reaches: "
				    "etcd listens on %s",
				    p->host, p->host, address, list));
	snprintf(address, 48, "%.47s", list);
	snprintf(m->urls, sizeof(m->urls), strchr(list, ':') ? "http://[%s]:%s" : "http://%s:%s",
		 list, p->port);
}

static void add_listen(struct meeting *m, const struct place *p, const char *address)
{
	size_t n = strlen(m->listen);

	snprintf(m->listen + n, sizeof(m->listen) - n,
		 strchr(address, ':') ? "%s[%s]:%s" : "%s%s:%s", n ? "," : "", address, p->port);
}

/* HOST may lead to what is of one link (fe80::), as some resolvers know it: it means something only
 * with a NIC's name, which is another on each host. */
static bool is_own_address(const struct sockaddr *a)
{
	return address_is_here(a) && !(a->sa_family == AF_INET6 && is_link_local(a));
}

/* Of the addresses that HOST leads to, those of this host; their number. The first that others
 * reach comes first; NULL: there is none. */
static int own_addresses(const struct addrinfo *list, const struct sockaddr **first)
{
	int n = 0;

	*first = NULL;
	for (; list; list = list->ai_next) {
		if (!is_own_address(list->ai_addr))
			continue;
		n++;
		if (!*first || (address_is_loopback(*first) && !address_is_loopback(list->ai_addr)))
			*first = list->ai_addr;
	}
	return n;
}

/*
 * At all of them, as members may try any of them first: at one that was left free another user of
 * this host could listen.
 */
static void set_listen(struct meeting *m, const struct place *p, const struct addrinfo *list)
{
	const struct sockaddr *first;
	char address[48];
	int n = own_addresses(list, &first);

	m->is_host = n;
	if (!n)
		return;
	if (n > LISTENS_MAX)
		die(EXIT_OURS, "--kv start@%s: it has %d addresses here; say start@ADDRESS",
		    p->host, n);
	write_address(address, first);
	if (address_is_loopback(first) && !p->is_number && !is_localhost_name(p->host)) {
		replace_loopback(m, p, address);
		add_listen(m, p, address);
		return;
	}
	for (; list; list = list->ai_next) {
		if (!is_own_address(list->ai_addr))
			continue;
		write_address(address, list->ai_addr);
		add_listen(m, p, address);
	}
	/* libcurl does not ask where localhost is: it tries addresses that may not be meant. */
	if (is_localhost_name(p->host))
		snprintf(m->urls, sizeof(m->urls), "http://%.*s", (int)strcspn(m->listen, ","),
			 m->listen);
}

static void resolve_place(struct meeting *m, struct place *p)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
	unsigned char binary[16];
	int err = getaddrinfo(p->host, p->port, &hints, &list);

	if (err)
		die(EXIT_OURS, "--kv start@%s: %s", p->host, gai_strerror(err));
	p->is_number = inet_pton(AF_INET, p->host, binary) == 1 || strchr(p->host, ':');
	if (p->is_number && list->ai_family == AF_INET6 && is_link_local(list->ai_addr))
		die(EXIT_OURS, "--kv start@[%s]: other hosts cannot reach an address of one link",
		    p->host);
	set_listen(m, p, list);
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

static void set_urls(struct meeting *m, const char *words)
{
	copy_urls(m->urls, words);
	for (const char *url = m->urls; url; url = strchr(url, ',') ? strchr(url, ',') + 1 : NULL)
		if (endpoint_refusal(url))
			die(EXIT_OURS, "--kv %s: neither http[s]://HOST:PORT nor start@HOST[:PORT]",
			    words);
}

void kv_spec_parse(struct meeting *m, char *words)
{
	struct place p = {0};

	memset(m, 0, sizeof(*m));
	if (!words || !*words)
		return;
	if (!endpoints_take_user(words, &m->user))
		die(EXIT_OURS, "--kv: the USER:PASSWORD@ of a URL is too long, or has a %% that is "
			       "not %%XX");
	if (strlen(words) >= sizeof(m->urls))
		die(EXIT_OURS, "--kv: too long");
	m->kind = !strcmp(words, "start") || !strncmp(words, "start@", 6) ? MEET_START : MEET_URLS;
	if (m->kind == MEET_URLS) {
		set_urls(m, words);
		return;
	}
	split_place(&p, words, words[5] ? words + 6 : "");
	snprintf(m->place, sizeof(m->place), strchr(p.host, ':') ? "[%s]:%s" : "%s:%s", p.host,
		 p.port);
	snprintf(m->urls, sizeof(m->urls), "http://%s", m->place);
	resolve_place(m, &p);
}

void meeting_note(struct meeting *m, const char *text)
{
	for (int i = 0; i < NOTES_MAX; i++) {
		if (m->notes[i])
			continue;
		m->notes[i] = text;
		return;
	}
}

void meeting_say_notes(const struct meeting *m)
{
	for (int i = 0; m->notes[i]; i++)
		say("%s", m->notes[i]);
}
