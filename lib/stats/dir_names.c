/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/stats/dir_names.h"

static int add_name(struct dir_names *n, size_t *room, const char *name)
{
	if (n->count == *room) {
		size_t wanted = *room ? 2 * *room : 64;
		char **more = realloc(n->name, wanted * sizeof(*more));

		if (!more)
			return -ENOMEM;
		n->name = more;
		*room = wanted;
	}
	n->name[n->count] = strdup(name);
	if (!n->name[n->count])
		return -ENOMEM;
	n->count++;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_names(struct dir_names *n, DIR *dir,
		      enum dir_choice (*choose)(void *arg, const char *name), void *arg)
{
	enum dir_choice choice = DIR_SKIP;
	const struct dirent *e;
	size_t room = 0;
	int err = 0;

	while (choice != DIR_STOP && !err && (errno = 0, e = readdir(dir))) {
		if (*e->d_name == '.')
			continue;
		choice = choose(arg, e->d_name);
		if (choice == DIR_KEEP)
			err = add_name(n, &room, e->d_name);
	}
	return err || choice == DIR_STOP ? err : -errno;
}

int dir_names_read(struct dir_names *n, const char *path,
		   enum dir_choice (*choose)(void *arg, const char *name), void *arg)
{
	DIR *dir = opendir(path);
	int err;

	memset(n, 0, sizeof(*n));
	if (!dir)
		return -errno;
	err = read_names(n, dir, choose, arg);
	closedir(dir);
	if (n->count)
		qsort(n->name, n->count, sizeof(*n->name), compare_names);
	return err;
}

void dir_names_free(struct dir_names *n)
{
	for (size_t i = 0; i < n->count; i++)
		free(n->name[i]);
	free(n->name);
	memset(n, 0, sizeof(*n));
}
