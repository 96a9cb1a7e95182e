/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/run_dir.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

int run_dir_path(char *path, size_t bytes)
{
	const char *own = getenv("SHIFT_RUN_DIR"), *xdg = getenv("XDG_RUNTIME_DIR");
	int n;

	if (own && *own)
		n = snprintf(path, bytes, "%s", own);
	else if (geteuid() == 0)
		n = snprintf(path, bytes, "/run/shift");
	else if (xdg && *xdg)
		n = snprintf(path, bytes, "%s/shift", xdg);
	else
		n = snprintf(path, bytes, "/tmp/shift-%u", geteuid());
	return (size_t)n < bytes ? 0 : -ENAMETOOLONG;
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
