/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cli.h"

enum { AT_ONCE = 64, SSH_FAILED = 255 };

/* ssh may hand it to a shell (ProxyCommand with %h). */
bool remote_is_host(const char *name)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "._:@%[]-";
	size_t n = strlen(name);

	return n && n <= 255 && *name != '-' && strspn(name, plain) == n;
}

static void exec_ssh(const struct remote *r, const char *command, int out, int err,
		     int64_t timeout_ms)
{
	char wait[48];
	int null = open("/dev/null", O_RDONLY);

	/* A group of its own: what ssh starts (ProxyCommand) ends with it. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	snprintf(wait, sizeof(wait), "-oConnectTimeout=%lld",
		 (long long)((timeout_ms + 999) / 1000));
	dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	/* Nothing of ours is lent to that host, whatever the user's configuration says. */
	execlp("ssh", "ssh", "-oBatchMode=yes", wait, "-oServerAliveInterval=5",
	       "-oClearAllForwardings=yes", "-oForwardAgent=no", "-oForwardX11=no", "--", r->host,
	       command, (char *)NULL);
	dprintf(STDERR_FILENO, "ssh cannot be started: %s\n", strerror(errno));
	_exit(SSH_FAILED);
}

static void close_both(const int ends[2])
{
	close(ends[0]);
	close(ends[1]);
}

static void start(struct remote *r, const char *command, int64_t timeout_ms)
{
	int out[2], err[2];

	if (pipe2(out, O_CLOEXEC))
		check_alloc(NULL);
	if (pipe2(err, O_CLOEXEC))
		check_alloc(NULL);
	fflush(NULL);
	r->deadline_ms = now_ms() + timeout_ms;
	r->pid = fork();
	if (!r->pid)
		exec_ssh(r, command, out[1], err[1], timeout_ms);
	if (r->pid < 0) {
		snprintf(r->said, sizeof(r->said), "cannot start ssh: %s", strerror(errno));
		close_both(out);
		close_both(err);
		return;
	}
	setpgid(r->pid, r->pid); /* whoever of the two comes first */
	close(out[1]);
	close(err[1]);
	r->out = out[0];
	r->err = err[0];
	fcntl(r->err, F_SETFL, O_NONBLOCK); /* somebody may hold it open for ever */
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- what they say -------------------------------------------------------------------------- */

/* False: it has ended, or says too much. */
static bool take_output(struct remote *r)
{
	ssize_t n;

	if (r->len + 1 >= r->room) {
		r->room = r->room ? 2 * r->room : 65536;
		r->text = check_alloc(realloc(r->text, r->room));
	}
	n = read(r->out, r->text + r->len, r->room - r->len - 1);
	if (n < 0 && errno == EINTR)
		return true;
	if (n <= 0)
		return false;
	r->len += (size_t)n;
	r->text[r->len] = 0;
	return r->len <= REMOTE_ANSWER_BYTES;
}

/* Keeps the last line that is not blank. False: there is no more now. */
static bool take_error(struct remote *r)
{
	char text[1024];
	ssize_t n = read(r->err, text, sizeof(text) - 1);
	char *line, *rest = text;

	if (!n)
		close_one(&r->err);
	if (n <= 0)
		return n < 0 && errno == EINTR;
	text[n] = 0;
	while ((line = strsep(&rest, "\r\n")))
		if (*line && strlen(line) < 1000)
			snprintf(r->said, sizeof(r->said), "%.*s", REMOTE_SAID_BYTES - 1, line);
	return true;
}

static void judge_end(struct remote *r, int status, bool was_late, int64_t timeout_ms)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	if (was_late)
		snprintf(r->said, sizeof(r->said), "no answer within %lld s",
			 (long long)(timeout_ms + 999) / 1000);
	else if (!code || code == 1) /* a warning: not all could be read */
		*r->said = 0;
	else if (!*r->said && code == 127)
		strcpy(r->said, "there is no shift-diag");
	else if (!*r->said)
		snprintf(r->said, sizeof(r->said), "ended with status %d", code);
}

static void forget_answer(struct remote *r)
{
	free(r->text);
	r->text = NULL;
	r->len = 0;
}

/* Whether it is over. Who has closed its output need not have ended. */
static bool try_end(struct remote *r, int64_t timeout_ms)
{
	bool was_late = now_ms() >= r->deadline_ms, too_much = r->len > REMOTE_ANSWER_BYTES;
	int status = 0;

	if (was_late || too_much)
		kill(-r->pid, SIGKILL);
	else if (r->out >= 0)
		return false;
	if (!waitpid(r->pid, &status, was_late || too_much ? 0 : WNOHANG))
		return false;
	while (r->err >= 0 && take_error(r))
		;
	close_one(&r->out);
	close_one(&r->err);
	r->pid = 0;
	if (too_much)
		snprintf(r->said, sizeof(r->said), "it says more than %d MB",
			 REMOTE_ANSWER_BYTES >> 20);
	else
		judge_end(r, status, was_late, timeout_ms);
	if (*r->said)
		forget_answer(r);
	return true;
}

/* ---- together ------------------------------------------------------------------------------- */

struct crew {
	struct remote *running[AT_ONCE];
	size_t n;
	struct pollfd fds[2 * AT_ONCE];
};

static void wait_for_one(struct crew *c)
{
	int64_t now = now_ms(), left = 60000;

	for (size_t i = 0; i < c->n; i++) {
		struct remote *r = c->running[i];

		c->fds[2 * i] = (struct pollfd){.fd = r->out, .events = POLLIN};
		c->fds[2 * i + 1] = (struct pollfd){.fd = r->err, .events = POLLIN};
		if (r->deadline_ms - now < left)
			left = r->deadline_ms > now ? r->deadline_ms - now : 0;
		if (r->out < 0 && left > 20) /* it ends now */
			left = 20;
	}
	if (poll(c->fds, 2 * c->n, (int)left) < 0)
		for (size_t i = 0; i < 2 * c->n; i++)
			c->fds[i].revents = 0;
}

static void listen_to(struct crew *c, size_t i)
{
	struct remote *r = c->running[i];

	if (c->fds[2 * i + 1].revents && r->err >= 0)
		take_error(r);
	if (c->fds[2 * i].revents && r->out >= 0 && !take_output(r))
		close_one(&r->out);
}

void remote_run(struct remote *all, size_t n, const char *command, int64_t timeout_ms)
{
	struct crew c = {0};
	size_t next = 0;

	signal(SIGCHLD, SIG_DFL); /* whoever ignores it hands that on, and has no exit status */
	while (next < n || c.n) {
		while (next < n && c.n < AT_ONCE) {
			start(all + next, command, timeout_ms);
			if (all[next].pid > 0)
				c.running[c.n++] = all + next;
			next++;
		}
		if (!c.n)
			continue;
		wait_for_one(&c);
		for (size_t i = c.n; i-- > 0;) {
			listen_to(&c, i);
			if (try_end(c.running[i], timeout_ms))
				c.running[i] = c.running[--c.n];
		}
	}
}
