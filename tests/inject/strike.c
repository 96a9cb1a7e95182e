/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Preloaded into shift-inject: a signal strikes it right before its Nth step, which is a journal
 * written (rename) or removed (unlink), a helper process started (fork) or a message to the kernel
 * (sendmsg) or its answer (recvmsg). STRIKE="main|guard N SIGNAL"; STRUCK is a file that is made
 * then.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static pid_t first;
static int steps;

__attribute__((constructor)) static void note_process(void)
{
	first = getpid();
}

static void count_step(const char *name)
{
	const char *only = getenv("STRIKE_ONLY");
	const char *words = getenv("STRIKE"), *mark = getenv("STRUCK");
	char who[8];
	int n, sig;

	if (!words || (only && strcmp(only, name)) ||
	    sscanf(words, "%7s %d %d", who, &n, &sig) != 3 ||
	    (getpid() == first) != !strcmp(who, "main") || ++steps != n)
		return;
	if (mark)
		close(open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	kill(getpid(), sig);
}

int renameat(int old, const char *from, int new, const char *to)
{
	int (*real)(int, const char *, int, const char *) = dlsym(RTLD_NEXT, "renameat");

	count_step("rename");
	return real(old, from, new, to);
}

int unlinkat(int directory, const char *path, int flags)
{
	int (*real)(int, const char *, int) = dlsym(RTLD_NEXT, "unlinkat");

	count_step("unlink");
	return real(directory, path, flags);
}

pid_t fork(void)
{
	pid_t (*real)(void) = dlsym(RTLD_NEXT, "fork");

	count_step("fork");
	return real();
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t (*real)(int, struct msghdr *, int) = dlsym(RTLD_NEXT, "recvmsg");

	count_step("recvmsg");
	return real(fd, m, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	ssize_t (*real)(int, const struct msghdr *, int) = dlsym(RTLD_NEXT, "sendmsg");

	count_step("sendmsg");
	return real(fd, m, flags);
}
