// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * NCCL, TensorPipe, Mooncake and others dlopen("libibverbs.so.1") and take their verbs from that
 * handle, where a preload is not asked. They get a handle of this library instead: a look-up there
 * finds our verbs first and, as we depend on libibverbs, the real one's for all the rest.
 *
 * libmlx5 is let pass. It is no dependency of ours, so a handle of ours would have none of
 * mlx5dv_*. What a program finds in the real one still leads to us where it opens a device
 * (mlx5dv_open_device calls verbs_open_device through its PLT); mlx5dv functions that we may come
 * to export are not seen by such a program.
 *
 * Names are compared whole: libibverbs loads its providers (libibverbs/libmlx5-rdmav34.so) through
 * this dlopen too. RTLD_DEEPBIND and dlmopen cannot be covered.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "lib/verbs/env.h"
#include "lib/verbs/real.h"

typedef void *(*dlopen_fn)(const char *file, int mode);

struct choice {
	void *handle; /* NULL: go on to next */
	dlopen_fn next;
};

/* Called by the stub in dlopen.S. */
struct choice dlopen_choose(const char *file, int mode);

static void *no_dlopen(const char *file, int mode)
{
	(void)file;
	(void)mode;
	return NULL;
}

static dlopen_fn find_next(void)
{
	static _Atomic(dlopen_fn) next;
	dlopen_fn found = next;

	if (found)
		return found;
	found = (dlopen_fn)dlsym(RTLD_NEXT, "dlopen");
	if (!found) /* we were not preloaded, and nobody's dlopen comes here but our own */
		found = (dlopen_fn)dlsym(RTLD_DEFAULT, "dlopen");
	if (!found || found == dlopen)
		found = no_dlopen;
	next = found;
	return found;
}

void *real_dlopen(const char *file, int mode)
{
	return find_next()(file, mode);
}

static bool is_libibverbs(const char *file)
{
	const char *slash = strrchr(file, '/');
	const char *base = slash ? slash + 1 : file;

	return strcmp(base, "libibverbs.so.1") == 0 || strcmp(base, "libibverbs.so") == 0;
}

/*
 * A path may lead to another libibverbs than the one we stand before, with other verbs in it: the
 * program shall have what it asks for, and be told what that costs.
 */
static bool is_other_copy(const char *file, dlopen_fn next)
{
	void *loaded;

	if (!strchr(file, '/'))
		return false;
	loaded = next(file, RTLD_LAZY | RTLD_NOLOAD);
	if (loaded) {
		dlclose(loaded);
		return false;
	}
	env_read();
	if (env.job[0] && access(file, R_OK) == 0)
		log_warn("%s is not the libibverbs that is loaded: what the program opens with it "
			 "is not protected",
			 file);
	return true;
}

/* A handle of this library; NULL if the loader does not give us one. */
static void *self(int mode, dlopen_fn next)
{
	Dl_info info;

	if (!dladdr((void *)dlopen_choose, &info))
		return NULL;
	return next(info.dli_fname, mode);
}

struct choice dlopen_choose(const char *file, int mode)
{
	struct choice choice = {.handle = NULL, .next = find_next()};
	int saved = errno;

	if (file && is_libibverbs(file) && !is_other_copy(file, choice.next))
		choice.handle = self(mode, choice.next);
	errno = saved;
	return choice;
}

#if !defined(__LP64__) || !(defined(__x86_64__) || defined(__aarch64__))
/* No stub for this machine: a caller's RUNPATH is not searched. */
__attribute__((visibility("default"))) void *dlopen(const char *file, int mode)
{
	struct choice choice = dlopen_choose(file, mode);

	return choice.handle ? choice.handle : choice.next(file, mode);
}
#endif
