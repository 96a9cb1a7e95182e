/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * NCCL, TensorPipe, Mooncake and others dlopen("libibverbs.so.1") and take their verbs from that
 * handle. The loader does not ask a preload then. So they get a handle of this library instead: a
 * look-up there finds our verbs first and, as we depend on libibverbs, the real ones for the rest.
 *
 * libmlx5 is no dependency of ours, so a handle of this library would have none of mlx5dv_*. Beside
 * it lies libshift-mlx5.so, which has no code and depends on this library and on libmlx5, in this
 * order. A program that asks for libmlx5 gets a handle of libshift-mlx5.so. libmlx5 is searched for
 * by our own RUNPATH, not by the caller's. If only the caller's leads to a libmlx5, the program
 * gets that one as it is, and we do not see which QPs it posts to directly
 * (lib/preload/direct_verbs.c).
 *
 * Names are compared whole, because libibverbs loads its providers
 * (libibverbs/libmlx5-rdmav34.so) through this dlopen, too. RTLD_DEEPBIND and dlmopen cannot be
 * covered.
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
	void *handle; /* the answer; NULL: ask `next` */
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
	if (!found) /* not preloaded: only our own calls of dlopen come here */
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
 * A path may lead to another libibverbs than the one beneath us, with other verbs in it. The
 * program gets what it asks for, and a warning that says what that costs.
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
		log_warn("%s is not the libibverbs that is loaded: connections that the program "
			 "makes with it are not protected; load libibverbs.so.1 by its name",
			 file);
	return true;
}

/* A handle of this library; NULL if the loader gives none. */
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

/* The real libmlx5 is loaded first, so that libshift-mlx5.so depends on that one. NULL: we find
 * none; the caller's own dlopen may find one, or says why not. */
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
	dlerror(); /* forget the message: the program made no error */
	env_read();
	if (env.job[0])
		log_warn("%s is loaded without libshift-mlx5.so: a connection that the program "
			 "drives by direct verbs (mlx5dv) breaks when it moves; install "
			 "libshift-mlx5.so beside libshift.so",
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
/* dlopen.S has no stub for this machine, so a caller's RUNPATH is not searched. */
__attribute__((visibility("default"))) void *dlopen(const char *file, int mode)
{
	struct choice choice = dlopen_choose(file, mode);

	return choice.handle ? choice.handle : choice.next(file, mode);
}
#endif
