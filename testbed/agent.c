/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * shift-testbed-agent: runs commands in a host on behalf of shift-testbed.
 *
 * As PID 1 it boots a guest and speaks over a virtio-serial port; with --stdio it speaks over
 * standard input and output (ssh), and takes its own file away (--unlink) as it has been copied
 * there for this one run. One thread, static, no allocation that grows with time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testbed/agent.h"
#include "testbed/wire.h"

static sigset_t blocked;

void child_restore_signals(void)
{
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &blocked, NULL);
}

/* ---- set-up -------------------------------------------------------------------------------- */

/* Runs the set-up script and collects what it says. 0, or its exit status. */
static int run_script(const char *script, struct buf *said)
{
	int p[2], raw = -1;
	char data[4096];
	ssize_t n;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC))
		return 125;
	pid = fork();
	if (pid == 0) {
		child_restore_signals();
		dup2(p[1], 1);
		dup2(p[1], 2);
		execl("/bin/sh", "sh", "-eu", "-c", script, (char *)NULL);
		_exit(127);
	}
	close(p[1]);
	while ((n = read(p[0], data, sizeof(data))) > 0)
		buf_append(said, data, n);
	close(p[0]);
	waitpid(pid, &raw, 0);
	return WIFEXITED(raw) ? WEXITSTATUS(raw) : 125;
}

static int setup_env(const char *word, int *shares)
{
	if (!strncmp(word, "share=", 6))
		return boot_mount_share((*shares)++, word + 6);
	return putenv(strdup(word)) ? -ENOMEM : 0;
}

/* Payload: the script, then words: share=PATH is mounted, K=V goes into every environment. */
static void setup_host(struct chan *c, const uint8_t *p, size_t bytes)
{
	const uint8_t *end = p + bytes;
	const char *script = strings_next(&p, end), *word;
	struct buf said = {0};
	int err = script ? 0 : -EPROTO, shares = 0;

	while (!err && (word = strings_next(&p, end))) {
		err = setup_env(word, &shares);
		if (err) {
			char line[4200];

			snprintf(line, sizeof(line), "%s: %s\n", word, strerror(-err));
			buf_append(&said, line, strlen(line));
		}
	}
	if (!err)
		err = run_script(script, &said);
	chan_send(c, err ? FRAME_FAILED : FRAME_READY, 0, said.data + said.start, buf_bytes(&said));
	buf_free(&said);
}

/* ---- the loop ------------------------------------------------------------------------------ */

static int serve_frames(struct chan *c)
{
	const uint8_t *payload;
	struct frame f;
	int err = chan_fill(c);

	/* A virtio-serial port whose other end is not there reads as end of file. */
	if (err)
		return err;
	while ((err = chan_next(c, &f, &payload)) == 1) {
		if (f.type == FRAME_SETUP)
			setup_host(c, payload, f.bytes);
		else
			jobs_frame(c, &f, payload);
	}
	return err;
}

static int serve_channel(struct chan *c, int sigfd)
{
	static struct pollfd p[2 + 3 * AGENT_MAX_JOBS];
	struct signalfd_siginfo si;
	int err = 0;

	while (!err) {
		int n;

		/*
		 * The port has no POLLOUT worth waiting for; credit bounds what is queued, and the
		 * supervisor always reads.
		 */
		if (chan_flush_all(c, 60000))
			return -EPIPE;
		n = 2 + jobs_poll(p + 2);
		p[0] = (struct pollfd){.fd = c->rfd, .events = POLLIN};
		p[1] = (struct pollfd){.fd = sigfd, .events = POLLIN};
		if (poll(p, n, jobs_timeout_ms()) < 0 && errno != EINTR)
			return -errno;
		while (read(sigfd, &si, sizeof(si)) > 0)
			if (si.ssi_signo != SIGCHLD)
				return -EINTR;
		jobs_reap();
		if (p[0].revents)
			err = serve_frames(c);
		jobs_run(c);
	}
	return err;
}

static void lift_limits(void)
{
	const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};

	setrlimit(RLIMIT_MEMLOCK, &all);
	setrlimit(RLIMIT_CORE, &all);
}

static int block_signals(void)
{
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	if (getpid() != 1) {
		sigaddset(&blocked, SIGTERM);
		sigaddset(&blocked, SIGINT);
		sigaddset(&blocked, SIGHUP);
	}
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &blocked, SFD_NONBLOCK | SFD_CLOEXEC);
}

int main(int argc, char **argv)
{
	struct chan c;
	int sigfd;

	if (getpid() == 1) {
		int fd = boot_host();

		chan_init(&c, fd, fd);
	} else if (argc > 1 && !strcmp(argv[1], "--stdio")) {
		if (argc > 2 && !strcmp(argv[2], "--unlink"))
			unlink(argv[0]);
		chan_init(&c, 0, 1);
	} else {
		fputs("shift-testbed-agent: started by shift-testbed, not by hand\n", stderr);
		return 2;
	}
	lift_limits();
	sigfd = block_signals();
	buf_append(&c.out, AGENT_GREETING, strlen(AGENT_GREETING));
	serve_channel(&c, sigfd);
	jobs_kill_all();
	return 0;
}
