/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Files that a user names, or the directory that they are in. Any thread. */
#ifndef SHIFT_DIAG_EACH_FILE_H
#define SHIFT_DIAG_EACH_FILE_H

#include <stdbool.h>

bool has_ending(const char *name, const char *ending);

/*
 * Calls read() for a file; or for each one of a directory that has this ending, in the order of
 * their names. read() returns 1: it was of use; 0: it was not; or a negative errno, which is said
 * of those in a directory. Returns how many were of use; or a negative errno, of the file or the
 * directory.
 */
int each_file(const char *path, const char *ending, int (*read)(void *arg, const char *path),
	      void *arg);

#endif
