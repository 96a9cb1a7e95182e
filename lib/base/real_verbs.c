/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/real_verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "lib/base/dlopen.h"
#include "lib/base/env.h"
#include "lib/base/log.h"

struct real_verbs real;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int result;

/*
 * Of a preload, RTLD_NEXT is libibverbs, or another preload that must be called first. It finds
 * nothing if we were loaded by a dlopen with RTLD_LOCAL. Then we ask libibverbs itself, which is
 * loaded because we depend on it.
 */
static void *real_find(void *libibverbs, const char *name, const char *version)
{
	void *sym = version ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);

	if (!sym && libibverbs)
		sym = version ? dlvsym(libibverbs, name, version) : dlsym(libibverbs, name);
	return sym;
}

static void real_missing(const char *name, const char *version)
{
	if (strcmp(version, "IBVERBS_1.0") != 0 && strcmp(version, "IBVERBS_1.1") != 0)
		return;
	result = -ENOSYS;
	env_read();
	if (env.job[0])
		log_warn("libibverbs has no %s of version %s: nothing is protected; use the "
			 "libibverbs of rdma-core",
			 name, version);
}

static void real_fill(void)
{
	void *libibverbs = real_dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	const struct {
		const char *name, *version;
		void **field;
	} table[] = {
#define ENTRY(name, version, type, args) {"ibv_" #name, version, (void **)&real.name},
		REAL_VERBS(ENTRY)
#undef ENTRY
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		*table[i].field = real_find(libibverbs, table[i].name, table[i].version);
		if (!*table[i].field)
			real_missing(table[i].name, table[i].version);
	}
	real.verbs_open_device = real_find(libibverbs, "verbs_open_device", NULL);
	if (libibverbs)
		dlclose(libibverbs);
	dlerror(); /* forget the message: what an older libibverbs lacks is no error of the program
		    */
}

int real_init(void)
{
	int saved = errno;

	pthread_once(&once, real_fill);
	errno = saved;
	return result;
}
