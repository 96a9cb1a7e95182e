/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The network namespace in which a journal was made. The number of its inode is reused when the
 * namespace is gone; the cookie, which Linux has since 5.14, never is.
 */
#include <cjson/cJSON.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faultinject/inject.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* of headers before 5.14; the kernel may have it all the same */
#endif

enum { COOKIE_BYTES = 32, LINK_BYTES = 64 };

static double own_inode(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) ? 0 : (double)st.st_ino;
}

/* As text: a number of JSON does not hold 64 bits. Empty: this kernel has none. */
static void own_cookie(char text[COOKIE_BYTES])
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t cookie = 0;
	socklen_t bytes = sizeof(cookie);

	*text = 0;
	if (fd >= 0 && !getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &bytes))
		snprintf(text, COOKIE_BYTES, "%" PRIu64, cookie);
	if (fd >= 0)
		close(fd);
}

void netns_sign(cJSON *j)
{
	char cookie[COOKIE_BYTES];

	own_cookie(cookie);
	cJSON_AddNumberToObject(j, "netns", own_inode());
	if (*cookie)
		cJSON_AddStringToObject(j, "netns_cookie", cookie);
}

bool journal_is_of_another_netns(const cJSON *j)
{
	const char *its = json_text(j, "netns_cookie");
	char own[COOKIE_BYTES];

	own_cookie(own);
	if (*its && *own)
		return strcmp(its, own) != 0;
	return own_inode() != json_number(j, "netns", 0);
}

/* --- where it is now ------------------------------------------------------------------------- */

/* Does that path lead to the namespace? The inodes have been compared before. One that may not be
 * entered counts as the same. */
static bool path_enters(const char *path, const cJSON *j)
{
	int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool same = true;

	if (own >= 0 && fd >= 0 && !setns(fd, CLONE_NEWNET)) {
		same = !journal_is_of_another_netns(j);
		if (setns(own, CLONE_NEWNET))
			abort();
	}
	if (own >= 0)
		close(own);
	if (fd >= 0)
		close(fd);
	return same;
}

/* By the threads that are in it, and the descriptors that keep it. */
static bool find_link(const cJSON *j, const char *pattern, const char *name, char *path,
		      size_t bytes)
{
	glob_t g = {0};
	bool found = false;

	if (glob(pattern, GLOB_NOSORT, NULL, &g))
		g.gl_pathc = 0;
	for (size_t i = 0; i < g.gl_pathc && !found; i++) {
		char text[LINK_BYTES] = "";

		if (readlink(g.gl_pathv[i], text, sizeof(text) - 1) <= 0 || strcmp(text, name))
			continue;
		snprintf(path, bytes, "%s", g.gl_pathv[i]);
		found = path_enters(path, j);
	}
	globfree(&g);
	return found;
}

/* One mounted by `ip netns add` has a name, which need not be in our mount namespace. */
static bool find_in_mounts(const cJSON *j, const char *table, const char *name, char *path,
			   size_t bytes)
{
	char line[1024], root[LINK_BYTES], point[256];
	FILE *f = fopen(table, "re");
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %*s %*s %63s %255s", root, point) != 2 || strcmp(root, name))
			continue;
		snprintf(path, bytes, "%.*s/root%s", (int)(strrchr(table, '/') - table), table,
			 point);
		found = path_enters(path, j);
	}
	if (f)
		fclose(f);
	return found;
}

static bool find_mount(const cJSON *j, const char *name, char *path, size_t bytes)
{
	glob_t g = {0};
	bool found = false;

	if (glob("/proc/[0-9]*/mountinfo", GLOB_NOSORT, NULL, &g))
		g.gl_pathc = 0;
	for (size_t i = 0; i < g.gl_pathc && !found; i++)
		found = find_in_mounts(j, g.gl_pathv[i], name, path, bytes);
	globfree(&g);
	return found;
}

bool journal_netns_find(const cJSON *j, char *path, size_t bytes)
{
	char name[LINK_BYTES];

	snprintf(name, sizeof(name), "net:[%.0f]", json_number(j, "netns", 0));
	return find_link(j, "/proc/[0-9]*/ns/net", name, path, bytes) ||
	       find_link(j, "/proc/[0-9]*/task/[0-9]*/ns/net", name, path, bytes) ||
	       find_mount(j, name, path, bytes) ||
	       find_link(j, "/proc/[0-9]*/fd/[0-9]*", name, path, bytes);
}
