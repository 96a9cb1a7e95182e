/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "kv/endpoint.h"

static const char *after_prefix(const char *s, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(s, prefix, n) ? NULL : s + n;
}

bool endpoint_is_local(const char *url)
{
	return after_prefix(url, ENDPOINT_UNIX);
}

bool endpoint_is_clear(const char *url)
{
	return after_prefix(url, "http://");
}

bool endpoint_is_encrypted(const char *url)
{
	return after_prefix(url, "https://");
}

const char *endpoint_refusal(const char *url)
{
	const char *path = after_prefix(url, ENDPOINT_UNIX);

	if (path && *path != '/')
		return "unix: needs an absolute path";
	if (path && strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return "too long a path for a socket";
	if (!path && !endpoint_is_clear(url) && !endpoint_is_encrypted(url))
		return "an endpoint begins with http://, https:// or unix:/";
	return NULL;
}

/* The part of a URL that %XX stands in. */
static bool decode_percent(char *to, size_t size, const char *from, size_t bytes)
{
	size_t n = 0;

	for (size_t i = 0; i < bytes; i++, n++) {
		char hex[3] = {0}, *end;

		if (n + 1 >= size)
			return false;
		to[n] = from[i];
		if (from[i] != '%')
			continue;
		if (bytes - i < 3)
			return false;
		memcpy(hex, from + i + 1, 2);
		to[n] = strtol(hex, &end, 16);
		if (*end || !to[n])
			return false;
		i += 2;
	}
	to[n] = 0;
	return true;
}

/* bytes: of "USER:PASSWORD". */
static bool take_user(struct endpoint_user *u, const char *words, size_t bytes)
{
	const char *colon = memchr(words, ':', bytes);
	size_t n = colon ? (size_t)(colon - words) : bytes;

	if (*u->name)
		return true;
	if (!decode_percent(u->name, sizeof(u->name), words, n))
		return false;
	return !colon || decode_percent(u->password, sizeof(u->password), colon + 1, bytes - n - 1);
}

bool endpoints_take_user(char *list, struct endpoint_user *u)
{
	size_t before = strlen(list);
	bool good = true;

	memset(u, 0, sizeof(*u));
	for (char *url = list; *url; url += strcspn(url, ",") + !!url[strcspn(url, ",")]) {
		char *at = NULL, *host = strstr(url, "://");
		size_t end = strcspn(url, ",");

		if (!host || host >= url + end)
			continue;
		host += 3;
		for (char *p = host; p < url + end && *p != '/'; p++)
			at = *p == '@' ? p : at;
		if (!at)
			continue;
		good &= take_user(u, host, at - host);
		memmove(host, at + 1, strlen(at + 1) + 1);
	}
	explicit_bzero(list + strlen(list), before - strlen(list));
	return good;
}
