/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/stats/process_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int open_process_file(uid_t owner, const char *path, off_t bytes_max)
{
	/* A fifo of that name must not make us wait. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY), err = 0;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		err = -errno;
	else if (st.st_uid != owner)
		err = -EPERM;
	else if (!S_ISREG(st.st_mode) || st.st_size > bytes_max)
		err = -EBADMSG;
	if (!err)
		return fd;
	close(fd);
	return err;
}

int process_file_with(uid_t owner, const char *path, off_t bytes_max,
		      int (*read)(int fd, uid_t owner, void *copy), void *copy)
{
	int fd = open_process_file(owner, path, bytes_max), err;

	if (fd < 0)
		return fd;
	err = read(fd, owner, copy);
	close(fd);
	return err;
}

uint64_t process_read_clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int process_file_read(int fd, void *to, size_t bytes, uint64_t at)
{
	ssize_t n = pread(fd, to, bytes, (off_t)at);

	if (n < 0)
		return -errno;
	return (size_t)n == bytes ? 0 : -EBADMSG;
}

/* As of the process of a file of statistics. */
int process_find_life(const struct process_claim *c, uid_t owner, enum stats_life *life)
{
	struct stats_header *like = calloc(1, sizeof(*like));
	int err;

	if (!like)
		return -ENOMEM;
	like->pid = c->pid;
	like->start_ticks = c->start_ticks;
	like->pid_namespace = c->pid_namespace;
	snprintf(like->boot_id, sizeof(like->boot_id), "%s", c->boot_id);
	snprintf(like->host, sizeof(like->host), "%s", c->host);
	err = stats_find_life(like, life);
	free(like);
	if (!err && *life == STATS_RUNNING)
		err = stats_check_process(c->pid, owner);
	if (c->closed_ns)
		*life = STATS_ENDED;
	return err;
}
