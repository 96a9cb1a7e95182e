/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/each_file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

bool has_ending(const char *name, const char *ending)
{
	size_t n = strlen(name), e = strlen(ending);

	return n > e && !strcmp(name + n - e, ending);
}

int each_file(const char *path, const char *ending, int (*read)(void *arg, const char *path),
	      void *arg)
{
	struct dirent **found;
	int n = scandir(path, &found, NULL, alphasort), files = 0;

	if (n < 0 && errno == ENOTDIR)
		return read(arg, path);
	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		char name[PATH_MAX];
		int status = 0;

		snprintf(name, sizeof(name), "%s/%s", path, found[i]->d_name);
		if (has_ending(found[i]->d_name, ending))
			status = read(arg, name);
		if (status < 0)
			say("%s: not used: %s", name, strerror(-status));
		files += status > 0;
		free(found[i]);
	}
	free(found);
	return files;
}
