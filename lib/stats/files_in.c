/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/stats/files_in.h"

int glob_files_in(const char *dir, const char *pattern, int flags, glob_t *g)
{
	char escaped[2 * PATH_MAX];
	size_t n = 0;

	memset(g, 0, sizeof(*g));
	if (strlen(dir) + strlen(pattern) + 1 >= PATH_MAX)
		return GLOB_NOMATCH;
	for (; *dir; dir++) {
		if (strchr("*?[\\", *dir))
			escaped[n++] = '\\';
		escaped[n++] = *dir;
	}
	snprintf(escaped + n, sizeof(escaped) - n, "/%s", pattern);
	return glob(escaped, flags, NULL, g);
}
