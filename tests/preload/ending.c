// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Ends that are none of the process's own, or come at odd moments. The program does not know of
 * shift.
 */
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/preload/rc.h"

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static int sockets(void)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *e;
	char path[300], to[64];
	int n = 0;

	expect(dir != NULL, "/proc/self/fd");
	while ((e = readdir(dir))) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		length = readlink(path, to, sizeof(to) - 1);
		n += length > 7 && !memcmp(to, "socket:", 7);
	}
	closedir(dir);
	return n;
}

/* When no more have come for a second. */
static int sockets_at_last(void)
{
	int n = sockets();

	for (int quiet = 0; quiet < 10; quiet++) {
		sleep_ms(100);
		if (sockets() != n)
			quiet = 0;
		n = sockets();
	}
	return n;
}

static int end(void *arg)
{
	(void)arg;
	exit(0);
}

/* As after vfork(), it shares the parent's memory; no handler of pthread_atfork() is called. The
 * process stays with shift-kvd, to which it has a socket. */
static void child(void)
{
	static char stack[1 << 18] __attribute__((aligned(64)));
	struct ibv_qp *qp = create_qp(pd, 4);
	int before, status, pid;

	before = sockets_at_last();
	expect(before >= 2, "two sockets"); /* that of shift-ctl, and that to shift-kvd */
	pid = clone(end, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	expect(pid > 0 && waitpid(pid, &status, 0) == pid, "the child");
	sleep_ms(400);
	expect(sockets() == before, "all sockets are left");
	destroy(qp);
}

int main(int argc, char **argv)
{
	static const struct use uses[] = {{"child", child}};

	return rc_main(argc, argv, uses, 1);
}
