/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/stats/process_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/run_dir.h"

void process_read_text(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, bytes - 1);

	text[n > 0 ? n : 0] = 0;
	if (fd >= 0)
		close(fd);
}

/* NULs separate the arguments in /proc; here blanks do. */
void process_read_command(char *text, size_t bytes)
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, bytes - 1);

	for (ssize_t i = 0; i + 1 < n; i++)
		if (!text[i])
			text[i] = ' ';
	text[n > 0 ? n : 0] = 0;
	if (fd >= 0)
		close(fd);
}

/* Field 22, behind the name in parentheses, which may contain anything. */
uint64_t process_start_ticks(void)
{
	char text[1024], *p;

	process_read_text("/proc/self/stat", text, sizeof(text));
	p = strrchr(text, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p + 1, NULL, 10) : 0;
}

uint64_t process_clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t process_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

/* Makes and checks a directory by the rules of shift-kvd (kv/): it must be root's or ours, and
 * closed to others as `forbidden` says. */
static int make_dir(const char *path, mode_t forbidden)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	if (lstat(path, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (st.st_uid != geteuid() && (forbidden == 077 || st.st_uid))
		return -EPERM;
	return st.st_mode & forbidden && !(forbidden == 022 && st.st_mode & S_ISVTX) ? -EPERM : 0;
}

static int make_dirs(char *path)
{
	char *job = strrchr(path, '/'), *base;
	int err;

	*job = 0;
	base = strrchr(path, '/');
	*base = 0;
	err = make_dir(path, 022);
	*base = '/';
	if (!err)
		err = make_dir(path, 077);
	*job = '/';
	return err;
}

int process_file_create(char *path, size_t bytes, const char *job, const char *ending)
{
	int err = run_dir_of_job(path, bytes, job), fd = -1;
	size_t n = err ? 0 : strlen(path), room = bytes - n;

	if (err)
		return err;
	if ((size_t)snprintf(path + n, room, "/%d.%s", getpid(), ending) >= room)
		return -ENAMETOOLONG;
	/* A shift-kvd that ends may remove the directory between make_dirs() and open(). */
	for (int i = 0; i < 5 && fd < 0; i++) {
		err = make_dirs(path);
		if (err && err != -ENOENT)
			return err;
		/* There may be a file of a dead process of our number, or of this process before
		 * exec(). */
		unlink(path);
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && errno != ENOENT && errno != EEXIST)
			return -errno;
	}
	return fd < 0 ? -ENOENT : fd;
}
