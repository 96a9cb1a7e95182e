/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The files of a directory whose path may contain anything, also what glob() would interpret. */
#ifndef SHIFT_STATS_FILES_IN_H
#define SHIFT_STATS_FILES_IN_H

#include <glob.h>

/*
 * Fills g with the paths of the files in dir whose names have this pattern, as of glob(7):
 * "*.stats". flags and result are those of glob(); to be freed by globfree(), also after an error.
 * Any thread.
 */
int glob_files_in(const char *dir, const char *pattern, int flags, glob_t *g);

#endif
