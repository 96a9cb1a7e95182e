/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * NCCL, TensorPipe, Mooncake and others dlopen("libibverbs.so.1") and take their verbs from that
 * handle, where a preload is not asked. They get a handle of this library instead: a look-up there
 * finds our verbs first and, as we depend on libibverbs, the real one's for all the rest.
 *
 * libmlx5 is no dependency of ours, so a handle of ours would have none of mlx5dv_*. Beside us lies
 * libshift-mlx5.so, which has nothing in it and depends on this library and on libmlx5, in this
 * order: who asks for libmlx5 gets a handle of that. It is searched for as by us, not by the
 * caller's RUNPATH; one that only this leads to is let pass: then we do not see who posts around us
 * (dv.c).
 *
 * Names are compared whole: libibverbs loads its providers (libibverbs/libmlx5-rdmav34.so) through
 * this dlopen too. RTLD_DEEPBIND and dlmopen cannot be covered.
 */
#include "lib/base/dlopen.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/env.h"
#include "lib/base/log.h"

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

static dlopen_fn next_dlopen(void)
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
	return next_dlopen()(file, mode);
}

static bool is_named(const char *file, const char *name)
{
	const char *slash = strrchr(file, '/');
	const char *base = slash ? slash + 1 : file;
	size_t n = strlen(name);

	return strncmp(base, name, n) == 0 &&
	       (strcmp(base + n, ".so.1") == 0 || strcmp(base + n, ".so") == 0);
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
static void *open_self(int mode, dlopen_fn next)
{
	Dl_info info;

	if (!dladdr((void *)dlopen_choose, &info))
		return NULL;
	return next(info.dli_fname, mode);
}

/* libshift-mlx5.so, where this library lies; NULL if it cannot be loaded. */
static void *load_libshift_mlx5(int mode, dlopen_fn next)
{
	const char name[] = "libshift-mlx5.so";
	char path[PATH_MAX];
	const char *slash;
	Dl_info info;
	size_t n;

	if (!dladdr((void *)dlopen_choose, &info))
		return NULL;
	slash = strrchr(info.dli_fname, '/');
	n = slash ? (size_t)(slash - info.dli_fname) + 1 : 0;
	if (n + sizeof(name) > sizeof(path))
		return NULL;
	memcpy(path, info.dli_fname, n);
	memcpy(path + n, name, sizeof(name));
	return next(path, mode & ~RTLD_NOLOAD); /* libmlx5 is loaded */
}

static bool same_mlx5(void *a, void *b)
{
	return dlsym(a, "mlx5dv_query_device") == dlsym(b, "mlx5dv_query_device");
}

/* The real one first: it is that one which libshift-mlx5.so then depends on. NULL: there is none
 * for us; the caller's own dlopen may find one, or say why not. */
static void *open_mlx5(const char *file, int mode, dlopen_fn next)
{
	void *loaded = next(file, mode), *both;

	if (!loaded)
		return NULL;
	both = load_libshift_mlx5(mode, next);
	if (both && same_mlx5(both, loaded)) {
		dlclose(loaded);
		return both;
	}
	if (both)
		dlclose(both);
	dlerror(); /* no error of the program's */
	env_read();
	if (env.job[0])
		log_warn("%s is loaded without libshift-mlx5.so: connections whose queues the "
			 "program asks for there must not move, and we do not see which",
			 file);
	return loaded;
}

struct choice dlopen_choose(const char *file, int mode)
{
	struct choice choice = {.handle = NULL, .next = next_dlopen()};
	int saved = errno;

	if (file && is_named(file, "libibverbs") && !is_other_copy(file, choice.next))
		choice.handle = open_self(mode, choice.next);
	else if (file && is_named(file, "libmlx5"))
		choice.handle = open_mlx5(file, mode, choice.next);
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
