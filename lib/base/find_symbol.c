/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/find_symbol.h"

#include <dlfcn.h>

#include "lib/base/dlopen.h"

void *find_symbol(const char *library, const char *name, const char *version)
{
	void *sym = dlvsym(RTLD_NEXT, name, version);
	void *handle;

	if (sym)
		return sym;
	/* A library that was loaded by a dlopen with RTLD_LOCAL is in no scope but its own. */
	handle = real_dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	if (handle) {
		sym = dlvsym(handle, name, version);
		dlclose(handle);
	}
	if (!sym)
		dlerror(); /* forget the message: the program made no error */
	return sym;
}
