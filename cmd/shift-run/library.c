/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/shift-run/run.h"

enum { LOAD_S_MAX = 20 };

/* Runs in a child, so that nothing of the library stays in this process. */
static void load_library(const char *path, int fd)
{
	alarm(LOAD_S_MAX);
	if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
		dprintf(fd, "%s", dlerror());
	_exit(0);
}

static void check_loads(const char *path)
{
	char text[2048];
	int p[2], status;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	if (pipe(p) || (pid = fork()) < 0)
		die(EXIT_OURS, "cannot fork: %s", strerror(errno));
	if (!pid)
		load_library(path, p[1]);
	close(p[1]);
	while ((got = read(p[0], text + n, sizeof(text) - 1 - n)) > 0)
		n += got;
	text[n] = 0;
	close(p[0]);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die(EXIT_OURS, "%s could not be tried: %s", path, strerror(errno));
	if (n)
		die(EXIT_OURS, "%s cannot be loaded: %s", strrchr(path, '/') + 1, text);
	if (status)
		die(EXIT_OURS, "%s: a process that loads it ends at once (%s %d)", path,
		    WIFSIGNALED(status) ? "signal" : "status",
		    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* Ends the process if LD_PRELOAD cannot name it, or if it cannot be loaded. */
static void check_library(const char *path)
{
	if (strpbrk(path, " \t\n:$"))
		die(EXIT_OURS,
		    "%s: LD_PRELOAD cannot name a path with a blank, a colon or a $; install shift "
		    "elsewhere",
		    path);
	check_loads(path);
}

const char *library_optional(const char *name)
{
	char path[PATH_MAX];

	if (!find_own(path, name, "../../collectives/.libs", PKGLIBDIR, EXIT_OURS))
		return NULL;
	check_library(path);
	return format_text("%s", path);
}

const char *library_find(void)
{
	static char path[PATH_MAX];

	if (!find_own(path, "libshift.so", "../../lib/.libs", PKGLIBDIR, EXIT_OURS))
		die(EXIT_OURS, "libshift.so is neither in %s nor in %s: is shift installed?",
		    own_directory(EXIT_OURS), PKGLIBDIR);
	check_library(path);
	return path;
}

static const char *next_preload(const char **list, size_t *bytes)
{
	const char *at = *list + strspn(*list, " :");

	*bytes = strcspn(at, " :");
	*list = at + *bytes;
	return *bytes ? at : NULL;
}

bool library_is_active(void)
{
	const char *list = getenv("LD_PRELOAD"), *p;
	size_t n;

	while (list && (p = next_preload(&list, &n)))
		if (n > 12 && !strncmp(p + n - 12, "/libshift.so", 12))
			return true;
	return false;
}

static bool is_in(const char *list, const char *library)
{
	const char *p;
	size_t n;

	while (list && (p = next_preload(&list, &n)))
		if (n == strlen(library) && !strncmp(p, library, n))
			return true;
	return false;
}

char *library_preload(const char *library, const char *const *others, size_t count)
{
	const char *before = getenv("LD_PRELOAD");
	char *list = format_text("%s", before ? before : "");

	for (size_t i = 0; i <= count; i++) {
		const char *add = i ? others[i - 1] : library;

		if (!is_in(list, add))
			list = format_text("%s%s%s", list, *list ? ":" : "", add);
	}
	return list;
}
