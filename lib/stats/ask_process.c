/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "lib/stats/ask_process.h"

/* What listens there may be anything that this user, root above all, can reach through a link. */
static int check_listener(int fd, uid_t owner)
{
	struct ucred cred = {0};
	socklen_t n = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n))
		return -errno;
	return cred.uid == owner ? 0 : -EPERM;
}

static int connect_to(const char *path, uid_t owner)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct stat st;
	int fd, err;

	if (strlen(path) >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	if (lstat(path, &st))
		return -errno;
	if (!S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	if (st.st_uid != owner)
		return -EPERM;
	strcpy(a.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	err = connect(fd, (struct sockaddr *)&a, sizeof(a)) ? -errno : check_listener(fd, owner);
	if (!err)
		return fd;
	close(fd);
	return err;
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads until a newline, and puts the end of the text in its place. */
static int read_answer(int fd, char *text, size_t bytes, long end_ms)
{
	size_t have = 0;

	while (have + 1 < bytes) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		long left = end_ms - now_ms();
		ssize_t n;

		if (left <= 0 || poll(&p, 1, (int)left) == 0)
			return -ETIMEDOUT;
		n = recv(fd, text + have, bytes - 1 - have, 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0)
			return n ? -errno : -EPIPE;
		have += (size_t)n;
		text[have] = 0;
		if (text[have - 1] == '\n') {
			text[have - 1] = 0;
			return 0;
		}
	}
	return -EMSGSIZE;
}

int ask_process(uid_t owner, const char *socket_path, const char *line, char *answer, size_t bytes,
		int timeout_ms)
{
	char text[1024];
	int fd = connect_to(socket_path, owner), n, err;

	*answer = 0;
	if (fd < 0)
		return fd;
	n = snprintf(text, sizeof(text), "%s\n", line);
	if ((size_t)n >= sizeof(text))
		err = -EMSGSIZE;
	else if (send(fd, text, (size_t)n, MSG_NOSIGNAL) != n)
		err = -errno;
	else
		err = read_answer(fd, text, sizeof(text), now_ms() + timeout_ms);
	close(fd);
	if (err)
		return err;
	for (int ok = 1; ok >= 0; ok--) {
		const char *word = ok ? "ok" : "error";
		size_t len = strlen(word);

		if (strncmp(text, word, len) || (text[len] && text[len] != ' '))
			continue;
		snprintf(answer, bytes, "%s", text[len] ? text + len + 1 : "");
		return ok;
	}
	return -EBADMSG;
}
