/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/run_dir.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

bool run_dir_job_is_valid(const char *job, size_t bytes)
{
	if (!bytes || bytes > RUN_DIR_JOB_MAX || *job == '.' || *job == '-')
		return false;
	for (size_t i = 0; i < bytes; i++) {
		unsigned char c = job[i];

		if (c > 126 || !(isalnum(c) || c == '.' || c == '-' || c == '_'))
			return false;
	}
	return true;
}

/* Where the directory of a user may be who is not root, best first. False: there are no more. The
 * path is empty if there is none at that place. */
static bool place_at(unsigned int place, char *path, size_t bytes)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	int n = 0;

	*path = 0;
	switch (place) {
	case 0:
		if (xdg && *xdg == '/') /* a relative one is to be ignored, says the standard */
			n = snprintf(path, bytes, "%s/shift", xdg);
		break;
	case 1: n = snprintf(path, bytes, "/run/user/%u/shift", geteuid()); break;
	case 2: n = snprintf(path, bytes, "/tmp/shift-%u", geteuid()); break;
	case 3: n = snprintf(path, bytes, "/var/tmp/shift-%u", geteuid()); break;
	default: return false;
	}
	if ((size_t)n >= bytes)
		*path = 0;
	return true;
}

/* Nobody but root and this user may put another directory in place of ours. */
static bool parent_is_safe(const char *path)
{
	char parent[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* of no use if longer */
	const char *end = strrchr(path, '/');
	struct stat st;

	if (!end || end == path ||
	    (size_t)snprintf(parent, sizeof(parent), "%.*s", (int)(end - path), path) >=
		    sizeof(parent))
		return false;
	if (stat(parent, &st) || !S_ISDIR(st.st_mode) || (st.st_uid && st.st_uid != geteuid()))
		return false;
	return (!(st.st_mode & 022) || st.st_mode & S_ISVTX) &&
	       !faccessat(AT_FDCWD, parent, W_OK | X_OK, AT_EACCESS);
}

static bool is_ours(const char *path)
{
	struct stat st;

	return *path && !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & 022) && parent_is_safe(path);
}

static bool can_be_made(const char *path)
{
	struct stat st;

	return *path && lstat(path, &st) && errno == ENOENT && parent_is_safe(path);
}

/*
 * Anybody can make /tmp/shift-UID, and it must not keep that user out. The one that is there wins,
 * so that processes agree which were started with another environment, or before and after a
 * foreign directory was removed.
 */
static int find_place(char *path, size_t bytes)
{
	for (unsigned int i = 0; place_at(i, path, bytes); i++)
		if (is_ours(path))
			return 0;
	for (unsigned int i = 0; place_at(i, path, bytes); i++)
		if (can_be_made(path))
			return 0;
	return -EPERM;
}

int run_dir_path(char *path, size_t bytes)
{
	const char *own = getenv("SHIFT_RUN_DIR");
	int n;

	if (own && *own)
		n = snprintf(path, bytes, "%s", own);
	else if (geteuid() == 0)
		n = snprintf(path, bytes, "/run/shift");
	else
		return find_place(path, bytes);
	return (size_t)n < bytes ? 0 : -ENAMETOOLONG;
}

const char *run_dir_problem(int err)
{
	switch (err) {
	case -EPERM:
		return "no directory of this user's own can be had in /run/user, /tmp or /var/tmp "
		       "(shift-UID is another user's there, or open to others); set SHIFT_RUN_DIR";
	case -ENAMETOOLONG:
		return "too long a path for a socket: a shorter --job or SHIFT_RUN_DIR is needed";
	case -EINVAL: return "no name for a job; use letters, digits, dots, dashes and underscores";
	default: return strerror(-err);
	}
}

int run_dir_of_job(char *path, size_t bytes, const char *job)
{
	const size_t max = sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof("/kvd.sock");
	size_t n, have;
	int err;

	if (!run_dir_job_is_valid(job, strlen(job)))
		return -EINVAL;
	err = run_dir_path(path, bytes);
	if (err)
		return err;
	have = strlen(path);
	n = have + (size_t)snprintf(path + have, bytes - have, "/%s", job);
	return n < bytes && n <= max ? 0 : -ENAMETOOLONG;
}
