/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/control_socket.h"

#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/background.h"

enum {
	CLIENTS = 8, /* a ninth replaces the one that has been silent for longest */
	LINE_BYTES = 256,
	ANSWER_BYTES = 1024,
};

#define LISTEN_PAUSE_NS 200000000ull

struct control_client {
	int fd;
	ino_t ino;     /* 0: free */
	uint64_t used; /* the larger the later */
	size_t in_bytes, out_bytes;
	char in[LINE_BYTES], out[ANSWER_BYTES];
};

static struct {
	int fd;
	ino_t ino;
	pid_t owner;
	uint64_t clock;
	const struct control_calls *calls;
	struct control_client client[CLIENTS];
	struct sockaddr_un address;
} control;

static ino_t ino_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* The program may have closed our descriptor, and its number may now be another file of the
 * program. So the descriptor is closed only if it still has our inode. */
static void fd_close_own(int fd, ino_t ino)
{
	if (ino_of(fd) != ino)
		return;
	bg_unwatch(fd);
	close(fd);
}

static void client_hang_up(struct control_client *c)
{
	fd_close_own(c->fd, c->ino);
	memset(c, 0, sizeof(*c));
}

static void on_client(void *arg, uint32_t events);

/* false: the client is gone. */
static bool client_flush(struct control_client *c)
{
	ssize_t n = send(c->fd, c->out, c->out_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		client_hang_up(c);
		return false;
	}
	if (n > 0) {
		c->out_bytes -= (size_t)n;
		memmove(c->out, c->out + n, c->out_bytes);
	}
	/* A client that does not take its answer is not read from meanwhile. */
	bg_watch(c->fd, c->out_bytes ? EPOLLOUT : EPOLLIN, on_client, c);
	return true;
}

static int command_unavailable(char *answer, size_t bytes)
{
	snprintf(answer, bytes, "not possible here");
	return -ENOTSUP;
}

static int command_qp_error(const char *word, char *answer, size_t bytes)
{
	char *end;
	unsigned long qpn = strtoul(word, &end, 0);

	if (!*word || *end || *word == '-' || qpn > 0xffffff) {
		snprintf(answer, bytes, "%s is no QP number", word);
		return -EINVAL;
	}
	return control.calls->qp_error ? control.calls->qp_error((uint32_t)qpn, answer, bytes)
				       : command_unavailable(answer, bytes);
}

static int command_execute(const char *command, const char *word, char *answer, size_t bytes)
{
	const struct control_calls *calls = control.calls;

	if (!strcmp(command, "ping") && !*word)
		return 0;
	if (!strcmp(command, "version") && !*word) {
		snprintf(answer, bytes, "%s", PACKAGE_VERSION);
		return 0;
	}
	if (!strcmp(command, "migrate") && *word)
		return calls->migrate ? calls->migrate(word, answer, bytes)
				      : command_unavailable(answer, bytes);
	if (!strcmp(command, "failback"))
		return calls->failback ? calls->failback(*word ? word : NULL, answer, bytes)
				       : command_unavailable(answer, bytes);
	if (!strcmp(command, "qp-error"))
		return command_qp_error(word, answer, bytes);
	snprintf(answer, bytes, "not understood: %s%s%s", command, *word ? " " : "", word);
	return -EINVAL;
}

/* The line is terminated by NUL. The answer is made one line, whatever is in it. */
static void client_execute_line(struct control_client *c, char *line)
{
	char answer[ANSWER_BYTES - 16] = "", *word = strchr(line, ' ');
	bool ok;

	line[strcspn(line, "\r")] = 0;
	if (word)
		*word++ = 0;
	ok = !command_execute(line, word ? word : "", answer, sizeof(answer));
	for (char *p = answer; *p; p++)
		if ((unsigned char)*p < ' ')
			*p = ' ';
	c->out_bytes = (size_t)snprintf(c->out, sizeof(c->out), "%s%s%s\n", ok ? "ok" : "error",
					*answer ? " " : "", answer);
}

/* Goes on while there are lines and the client takes the answers. false: the client is gone. */
static bool client_execute_all(struct control_client *c)
{
	char *end;

	while (!c->out_bytes && (end = memchr(c->in, '\n', c->in_bytes))) {
		*end++ = 0;
		client_execute_line(c, c->in);
		c->in_bytes -= (size_t)(end - c->in);
		memmove(c->in, end, c->in_bytes);
		if (!client_flush(c))
			return false;
	}
	return true;
}

static void on_client(void *arg, uint32_t events)
{
	struct control_client *c = arg;
	ssize_t n;

	c->used = ++control.clock;
	if (events & EPOLLOUT) {
		if (client_flush(c))
			client_execute_all(c);
		return;
	}
	n = recv(c->fd, c->in + c->in_bytes, sizeof(c->in) - c->in_bytes, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		client_hang_up(c);
		return;
	}
	c->in_bytes += (size_t)n;
	if (!client_execute_all(c) || c->out_bytes || c->in_bytes < sizeof(c->in))
		return;
	c->out_bytes = (size_t)snprintf(c->out, sizeof(c->out), "error the line is too long\n");
	if (client_flush(c))
		client_hang_up(c);
}

static struct control_client *client_slot(void)
{
	struct control_client *oldest = control.client;

	for (struct control_client *c = control.client; c < control.client + CLIENTS; c++) {
		if (!c->ino)
			return c;
		if (c->used < oldest->used)
			oldest = c;
	}
	client_hang_up(oldest);
	return oldest;
}

static void on_listen(void *arg, uint32_t events);

static void listen_again(void *arg)
{
	(void)arg;
	if (ino_of(control.fd) == control.ino)
		bg_watch(control.fd, EPOLLIN, on_listen, NULL);
}

static struct bg_timer listen_timer = {.fn = listen_again};

/* The client that cannot be accepted, as the program has no descriptor left, keeps the socket
 * readable: the loop would spin in the program's process. It waits in the queue meanwhile. */
static void listen_pause(void)
{
	bg_unwatch(control.fd);
	bg_timer_set(&listen_timer, now_ns() + LISTEN_PAUSE_NS);
}

static void on_listen(void *arg, uint32_t events)
{
	struct ucred cred = {0};
	socklen_t bytes = sizeof(cred);
	struct control_client *c;
	int fd;

	(void)arg;
	(void)events;
	/* A program that closed our descriptor may listen on one of that number. */
	if (ino_of(control.fd) != control.ino)
		return;
	fd = accept4(control.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			listen_pause();
		return;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) ||
	    (cred.uid && cred.uid != geteuid())) {
		close(fd);
		return;
	}
	c = client_slot();
	c->fd = fd;
	c->ino = ino_of(fd);
	c->used = ++control.clock;
	if (bg_watch(fd, EPOLLIN, on_client, c))
		client_hang_up(c);
}

static int set_address(const char *stats_path)
{
	size_t n = strlen(stats_path);
	const char *end = strrchr(stats_path, '.');

	n = end ? (size_t)(end - stats_path) : n;
	if (n + sizeof(".sock") > sizeof(control.address.sun_path))
		return -ENAMETOOLONG;
	control.address.sun_family = AF_UNIX;
	memcpy(control.address.sun_path, stats_path, n);
	strcpy(control.address.sun_path + n, ".sock");
	return 0;
}

int control_open(const char *stats_path, const struct control_calls *calls)
{
	int err = stats_path ? set_address(stats_path) : -ENOENT;
	int fd = err ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err ? err : -errno;
	control.calls = calls;
	unlink(control.address.sun_path); /* left by a dead process that had our pid */
	/* bind() gives the name the mode of the socket. umask() would change the whole process. */
	if (fchmod(fd, 0600) ||
	    bind(fd, (struct sockaddr *)&control.address, sizeof(control.address)) ||
	    listen(fd, CLIENTS)) {
		err = -errno;
		close(fd);
		return err;
	}
	control.fd = fd;
	control.ino = ino_of(fd);
	control.owner = getpid();
	err = bg_watch(fd, EPOLLIN, on_listen, NULL);
	if (err)
		control_close();
	return err;
}

void control_close(void)
{
	if (!control.owner || control.owner != getpid())
		return;
	for (struct control_client *c = control.client; c < control.client + CLIENTS; c++)
		if (c->ino)
			client_hang_up(c);
	bg_timer_set(&listen_timer, UINT64_MAX);
	fd_close_own(control.fd, control.ino);
	control_remove();
	control.owner = 0;
}

void control_remove(void)
{
	if (control.owner && control.owner == getpid())
		unlink(control.address.sun_path);
}
