/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* One daemon per job and host: the process that holds the lock. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "kv/ask.h"
#include "kv/client.h"
#include "kv/kvd.h"
#include "lib/base/run_dir.h"

enum { OTHER_MS = 5000 }; /* for a racing starter, or one that is just ending */

static void make_dir(const char *path, mode_t forbidden)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		die(EXIT_FAILED, "cannot create %s: %s", path, strerror(errno));
	if (lstat(path, &st))
		return; /* a daemon that ended has just removed it: the caller tries again */
	if (!S_ISDIR(st.st_mode))
		die(EXIT_FAILED, "%s is not a directory", path);
	if (st.st_uid != geteuid() && (forbidden == 077 || st.st_uid))
		die(EXIT_FAILED, "%s belongs to another user (uid %u)", path, st.st_uid);
	if (st.st_mode & forbidden && !(forbidden == 022 && st.st_mode & S_ISVTX))
		die(EXIT_FAILED, "%s is open to others (mode %04o); try: chmod 0700 %s", path,
		    st.st_mode & 07777, path);
}

void run_directory(char dir[PATH_MAX], const char *job)
{
	char base[PATH_MAX];
	int err;

	err = kv_socket_path(dir, PATH_MAX, job);
	if (err)
		die(EXIT_BAD_USAGE, "%s", run_dir_problem(err));
	*strrchr(dir, '/') = 0;
	strcpy(base, dir);
	*strrchr(base, '/') = 0;
	make_dir(base, 022);
	make_dir(dir, 077);
}

static void set_run_paths(struct run *r, const char *job)
{
	run_directory(r->dir, job);
	kv_socket_path(r->socket, sizeof(r->socket), job);
	snprintf(r->lock, sizeof(r->lock), "%.*s/kvd.lock", (int)sizeof(r->lock) - 16, r->dir);
}

/* True: we hold the lock, and the locked file is still the one of that name. */
static bool try_kvd_lock(struct run *r)
{
	struct stat held, named;

	r->lock_fd = open(r->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (r->lock_fd < 0 && errno != ENOENT)
		die(EXIT_FAILED, "cannot create %s: %s", r->lock, strerror(errno));
	if (r->lock_fd < 0)
		return false;
	if (!flock(r->lock_fd, LOCK_EX | LOCK_NB) && !fstat(r->lock_fd, &held) &&
	    !stat(r->lock, &named) && held.st_ino == named.st_ino)
		return true;
	close(r->lock_fd);
	return false;
}

int lock_file(const char *path, int operation, int flags)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	struct stat held, named;

	if (fd < 0)
		return -1;
	if (!flock(fd, operation | LOCK_NB) && !fstat(fd, &held) && !stat(path, &named) &&
	    held.st_ino == named.st_ino)
		return fd;
	close(fd);
	return -1;
}

static void make_kvd_socket(struct run *r)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	mode_t mask = umask(0177);

	memcpy(a.sun_path, r->socket, strlen(r->socket) + 1);
	unlink(r->socket);
	r->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (r->listen_fd < 0 || bind(r->listen_fd, (struct sockaddr *)&a, sizeof(a)) ||
	    listen(r->listen_fd, SOMAXCONN))
		die(EXIT_FAILED, "cannot listen on %s: %s", r->socket, strerror(errno));
	umask(mask);
}

int run_take(struct run *r, const char *job)
{
	int64_t end = now_ms() + OTHER_MS;
	char *text;

	for (set_run_paths(r, job); !try_kvd_lock(r); set_run_paths(r, job)) {
		/* The daemon that answers counts its time without clients from now on. */
		if (!kv_ask(r->socket, KV_STATUS, 1000, &text, NULL)) {
			free(text);
			return -EEXIST;
		}
		if (now_ms() > end)
			die(EXIT_FAILED,
			    "another shift-kvd has %s and does not answer; is it stopped? see "
			    "fuser -v %s",
			    r->dir, r->lock);
		poll(NULL, 0, 20);
	}
	make_kvd_socket(r);
	return 0;
}

/* The reader of a launcher's pipe would wait for its end as long as it stayed open here. */
static void close_others(int a, int b)
{
	int low = a < b ? a : b, high = a < b ? b : a;

	if (low > 3)
		close_range(3, low - 1, 0);
	if (high > low + 1)
		close_range(low + 1, high - 1, 0);
	close_range(high + 1, ~0U, 0);
}

static void syslog_line(const char *line)
{
	syslog(LOG_WARNING, "%s", line);
}

void messages_to_syslog(void)
{
	openlog("shift-kvd", LOG_PID, LOG_DAEMON);
	cli_messages_to(syslog_line);
}

void run_detach(struct run *r)
{
	pid_t pid = fork();
	int null, status;

	if (pid < 0)
		die(EXIT_FAILED, "cannot fork: %s", strerror(errno));
	if (pid > 0) {
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		_exit(status ? EXIT_FAILED : EXIT_OK);
	}
	setsid();
	pid = fork();
	if (pid)
		_exit(pid < 0 ? EXIT_FAILED : EXIT_OK);
	if (chdir("/"))
		_exit(EXIT_FAILED);
	null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	close_others(r->lock_fd, r->listen_fd);
	/* Whoever connects from now on sees this process at the other end (SO_PEERCRED). */
	listen(r->listen_fd, SOMAXCONN);
	messages_to_syslog();
}

void run_leave(struct run *r)
{
	unlink(r->socket);
	close(r->listen_fd);
	unlink(r->lock);
	rmdir(r->dir); /* others may have their files there */
	close(r->lock_fd);
}
