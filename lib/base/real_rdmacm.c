/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/real_rdmacm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#include "lib/base/dlopen.h"
#include "lib/base/find_symbol.h"

#define LIBRARY "librdmacm.so.1"

static struct real_rdmacm found;
static const struct real_rdmacm *result;

static void find_all(void)
{
	const struct {
		const char *name;
		void **field;
	} table[] = {
#define ENTRY(name, type, args) {"rdma_" #name, (void **)&found.name},
		REAL_RDMACM(ENTRY)
#undef ENTRY
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		*table[i].field = find_symbol(LIBRARY, table[i].name, "RDMACM_1.0");
		if (!*table[i].field)
			return;
	}
	/* A program that closes it goes on with other calls here. */
	real_dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	result = &found;
}

const struct real_rdmacm *real_rdmacm(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_all);
	return result;
}
