/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Where the programs and the library of this installation, or of this build tree, are. One
 * thread. */
#ifndef SHIFT_COMMON_OWN_FILES_H
#define SHIFT_COMMON_OWN_FILES_H

#include <limits.h>
#include <stdbool.h>

/* The directory of this program's file. Ends the process with that status without /proc. */
const char *own_directory(int status);

/* A file of ours: beside this program, in the build tree, or installed. False: nowhere. */
bool find_own(char path[PATH_MAX], const char *name, const char *in_build_tree,
	      const char *installed, int status);

#endif
