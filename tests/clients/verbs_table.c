/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "tests/clients/verbs_table.h"

#include <dlfcn.h>
#include <string.h>

struct verbs_table verbs;

/* A pointer to a function and one to an object need not be alike in C; POSIX says that they are. */
static const char *find(void *library, const char *name, void *to)
{
	void *symbol = dlvsym(library, name, "IBVERBS_1.1");

	memcpy(to, &symbol, sizeof(symbol));
	return symbol ? NULL : name;
}

const char *verbs_table_load(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);
	const char *missing = library ? NULL : "libibverbs.so.1";

#define X(name, type, arguments) \
	if (!missing)            \
		missing = find(library, "ibv_" #name, &verbs.name);
	VERBS_TABLE(X)
#undef X
	return missing;
}
