// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Looks symbols up as programs do that load their libraries themselves:
 *   lookup [-g] [-n] [-c] LIBRARY|NULL [SYMBOL[@VERSION]]...
 * prints for each symbol the file that it was found in. -g: RTLD_GLOBAL; -n: RTLD_NOW; -c: then
 * opens the first device with what is found there, allocates a PD, and closes it.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what)
{
	const char *error = dlerror();

	fprintf(stderr, "%s: %s\n", what, error ? error : "no error");
	return 1;
}

static int look_up(void *handle, char *name)
{
	char *version = strchr(name, '@');
	const char *slash;
	Dl_info info;
	void *sym;

	if (version)
		*version++ = '\0';
	sym = version ? dlvsym(handle, name, version) : dlsym(handle, name);
	if (!sym || !dladdr(sym, &info))
		return fail(name);
	slash = strrchr(info.dli_fname, '/');
	puts(slash ? slash + 1 : info.dli_fname);
	return 0;
}

static int call(void *handle)
{
	struct ibv_device **(*get_list)(int *) = dlsym(handle, "ibv_get_device_list");
	struct ibv_context *(*open_device)(struct ibv_device *) = dlsym(handle, "ibv_open_device");
	struct ibv_pd *(*alloc_pd)(struct ibv_context *) = dlsym(handle, "ibv_alloc_pd");
	int (*close_device)(struct ibv_context *) = dlsym(handle, "ibv_close_device");
	int (*dealloc_pd)(struct ibv_pd *) = dlsym(handle, "ibv_dealloc_pd");
	void (*free_list)(struct ibv_device **) = dlsym(handle, "ibv_free_device_list");
	struct ibv_device **list;
	struct ibv_context *ctx;
	struct ibv_pd *pd;

	if (!get_list || !open_device || !alloc_pd || !close_device || !dealloc_pd || !free_list)
		return fail("verbs");
	list = get_list(NULL);
	ctx = list && list[0] ? open_device(list[0]) : NULL;
	pd = ctx ? alloc_pd(ctx) : NULL;
	if (!pd)
		return fail("open");
	printf("opened %s\n", ctx->device->name);
	free_list(list);
	return dealloc_pd(pd) | close_device(ctx);
}

int main(int argc, char **argv)
{
	int mode = RTLD_LAZY;
	bool calls = false;
	void *handle;
	int c, err = 0;

	while ((c = getopt(argc, argv, "gnc")) != -1) {
		if (c == 'g')
			mode |= RTLD_GLOBAL;
		if (c == 'n')
			mode = (mode & ~RTLD_LAZY) | RTLD_NOW;
		calls |= c == 'c';
	}
	if (optind == argc)
		return 2;
	handle = dlopen(strcmp(argv[optind], "NULL") ? argv[optind] : NULL, mode);
	if (!handle)
		return fail("dlopen");
	if (dlerror())
		return fail("an error without an error");
	for (int i = optind + 1; i < argc; i++)
		err |= look_up(handle, argv[i]);
	if (calls)
		err |= call(handle);
	return err | dlclose(handle);
}
