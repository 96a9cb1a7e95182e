/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "collectives/mpi_real.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef OPEN_MPI
static const char *const names[] = {"libmpi.so.40", "libmpi.so.80", NULL};
#else
static const char *const names[] = {"libmpich.so.12", "libmpi.so.12", NULL};
#endif

/* A program in Python has its MPI library in no scope that we see. */
static void *loaded_library(void)
{
	for (const char *const *name = names; *name; name++) {
		void *handle = dlopen(*name, RTLD_LAZY | RTLD_NOLOAD);

		if (handle)
			return handle; /* it stays: never closed */
	}
	return NULL;
}

void *mpi_symbol(const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name), *library;

	if (found)
		return found;
	library = loaded_library();
	return library ? dlsym(library, name) : NULL;
}

void *mpi_function(void **known, const char *name)
{
	void *found = mpi_symbol(name);

	if (!found) {
		fprintf(stderr, "shift: %s is called, and no MPI library that has it is loaded\n",
			name);
		abort();
	}
	__atomic_store_n(known, found, __ATOMIC_RELAXED);
	return found;
}

void *mpi_next(void **known, const char *name)
{
	void *found = dlsym(RTLD_NEXT, name), *library;

	if (!found) {
		library = loaded_library();
		found = library ? dlsym(library, name) : NULL;
	}
	if (!found)
		return mpi_function(known, name);
	__atomic_store_n(known, found, __ATOMIC_RELAXED);
	return found;
}
