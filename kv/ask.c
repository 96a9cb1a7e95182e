/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "kv/ask.h"
#include "kv/table.h"

static int read_answer(int fd, int timeout_ms, char **text)
{
	struct kv_buf in = {0};
	struct kv_msg m;
	int n = 0, err = 0;

	while (!err && !(n = kv_buf_next(&in, &m))) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		err = poll(&p, 1, timeout_ms) > 0 ? kv_buf_fill(&in, fd) : -ETIMEDOUT;
	}
	if (!err && (n < 0 || m.type != KV_STATUS))
		err = -EPROTO;
	if (!err)
		*text = strndup(m.text.data, m.text.bytes);
	if (!err && !*text)
		err = -ENOMEM;
	kv_buf_free(&in);
	return err;
}

/* Another user may have put a socket where our daemon's should be. */
static int check_owner(int fd, pid_t *pid)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n))
		return -errno;
	if (pid)
		*pid = cred.pid;
	return cred.uid && cred.uid != geteuid() ? -EPERM : 0;
}

int kv_ask(const char *path, enum kv_type type, int timeout_ms, char **text, pid_t *pid)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct kv_buf out = {0};
	int fd, err;

	if (strlen(path) >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	strcpy(a.sun_path, path);
	err = connect(fd, (struct sockaddr *)&a, sizeof(a)) ? -errno : check_owner(fd, pid);
	if (!err)
		err = kv_buf_frame(&out, &(struct kv_msg){.type = type});
	if (!err)
		err = kv_buf_flush(&out, fd);
	if (!err)
		err = read_answer(fd, timeout_ms, text);
	kv_buf_free(&out);
	close(fd);
	return err;
}
