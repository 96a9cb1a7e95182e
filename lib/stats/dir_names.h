/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The names in a directory, one by one: there may be more than are worth keeping. For any thread,
 * no lock. */
#ifndef SHIFT_STATS_DIR_NAMES_H
#define SHIFT_STATS_DIR_NAMES_H

#include <stdbool.h>
#include <stddef.h>

struct dir_names {
	char **name;
	size_t count;
};

enum dir_choice { DIR_SKIP, DIR_KEEP, DIR_STOP };

/*
 * Fills n with those for which `choose` returns DIR_KEEP, sorted, until it returns DIR_STOP; it is
 * not asked for names that begin with a dot. The caller empties n by dir_names_free(), also after
 * an error. 0, or a negative errno: then n has those that were read until then.
 */
int dir_names_read(struct dir_names *n, const char *path,
		   enum dir_choice (*choose)(void *arg, const char *name), void *arg);
void dir_names_free(struct dir_names *n);

#endif
