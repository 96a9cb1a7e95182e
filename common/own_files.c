/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "common/own_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

const char *own_directory(int status)
{
	static char self[PATH_MAX];
	int err;

	if (*self)
		return self;
	err = program_path(self);
	if (err)
		die(status, "/proc/self/exe: %s; /proc is needed", strerror(-err));
	*strrchr(self, '/') = 0;
	return self;
}

bool find_own(char path[PATH_MAX], const char *name, const char *in_build_tree,
	      const char *installed, int status)
{
	char found[PATH_MAX];

	if (snprintf(found, PATH_MAX, "%s/%s", own_directory(status), name) < PATH_MAX &&
	    realpath(found, path))
		return true;
	if (snprintf(found, PATH_MAX, "%s/%s/%s", own_directory(status), in_build_tree, name) <
		    PATH_MAX &&
	    realpath(found, path))
		return true;
	return snprintf(found, PATH_MAX, "%s/%s", installed, name) < PATH_MAX &&
	       realpath(found, path);
}
