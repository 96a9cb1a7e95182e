/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The guard undoes a fault when its process is ended by SIGKILL or crashes. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faultinject/inject.h"

/* Did that process write a journal? It may have failed before. */
static int undo_of(const char *id, struct problem *p)
{
	int lock = journal_lock(p);
	cJSON *j = lock < 0 ? NULL : journal_find(id, p);
	int status = j ? undo_journal(j, p) : p->status;

	cJSON_Delete(j);
	journal_unlock(lock);
	return status;
}

static _Noreturn void guard_main(int fd, const char *id)
{
	struct problem p = {0};
	sigset_t all;
	char done;
	ssize_t n;

	/* A terminal's hang-up, the end of a session or a kill of the process group must not end
	 * the guard. */
	setsid();
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_NAME, "inject-guard");
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	if (chdir("/"))
		_exit(1);
	do {
		n = read(fd, &done, 1);
	} while (n < 0 && errno == EINTR);
	if (n > 0)
		_exit(0);
	if (undo_of(id, &p))
		fprintf(stderr, "shift-inject: %s: not undone: %s\n", id, p.text);
	_exit(p.status);
}

int guard_start(struct injection *in, pid_t *pid)
{
	int ends[2];

	*pid = -1;
	if (pipe2(ends, O_CLOEXEC))
		return -1;
	fflush(NULL);
	*pid = fork();
	if (!*pid) {
		close(ends[1]);
		guard_main(ends[0], in->id);
	}
	close(ends[0]);
	if (*pid > 0)
		return ends[1];
	close(ends[1]);
	return -1;
}

void guard_release(int fd, pid_t pid)
{
	if (fd < 0)
		return;
	if (write(fd, "x", 1) == 1)
		waitpid(pid, NULL, 0);
	close(fd);
}
