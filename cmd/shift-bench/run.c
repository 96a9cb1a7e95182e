/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/shift-bench/hosts.h"
#include "cmd/shift-bench/plan.h"

enum {
	SPARE_MS = 15000, /* for the testbed itself, beyond the limit of the program */
	END_MS = 5000,	  /* a program that was asked to end */
	LOOK_MS = 100,	  /* how often an interrupt is looked for */
	FIXED_WORDS = 8,
	LINES_BYTES = 16384,
};

/* ---- a process of this machine -------------------------------------------------------------- */

static void become(char **words, int out, int err)
{
	sigset_t none;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	/* The terminal's Ctrl-C is for us, who end it in order; it ends, too, if we are killed. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null, 0);
	dup2(out, 1);
	dup2(err, 2);
	execv(words[0], words);
	_exit(127);
}

bool process_start(struct run *run, char **words)
{
	memset(run, 0, sizeof(*run));
	run->out = memfd_create("out", MFD_CLOEXEC);
	run->err = memfd_create("err", MFD_CLOEXEC);
	run->pid = run->out < 0 || run->err < 0 ? -1 : fork();
	if (run->pid == 0)
		become(words, run->out, run->err);
	if (run->pid < 0) {
		say("cannot start %s: %s", words[0], strerror(errno));
		run->pid = 0;
		return false;
	}
	run->deadline_ms = now_ms() + INT32_MAX;
	return true;
}

/* False: it has not ended by then. */
static bool ends_within(struct run *run, int64_t ms, bool whatever)
{
	int fd = pidfd_open(run->pid, 0), status;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int64_t until = now_ms() + ms;

	while (poll(&p, 1, ms < LOOK_MS ? (int)ms : LOOK_MS) <= 0 && now_ms() < until &&
	       (whatever || !interrupted()))
		;
	if (fd >= 0)
		close(fd);
	if (waitpid(run->pid, &status, WNOHANG) != run->pid)
		return false;
	run->pid = 0;
	run->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return true;
}

void run_stop(struct run *run)
{
	static const int signals[] = {SIGTERM, SIGKILL};

	for (int i = 0; i < 2 && run->pid; i++) {
		kill(run->pid, signals[i]);
		ends_within(run, END_MS, true);
	}
}

void run_wait(struct run *run)
{
	int64_t left_ms = run->deadline_ms - now_ms();

	if (run->pid && !ends_within(run, left_ms > 0 ? left_ms : 0, false))
		run_stop(run);
}

bool run_alive(struct run *run)
{
	return run->pid && !ends_within(run, 0, true);
}

static char *whole_text(int fd)
{
	struct stat st;
	char *text;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st))
		return check_alloc(strdup(""));
	text = check_alloc(malloc((size_t)st.st_size + 1));
	n = pread(fd, text, (size_t)st.st_size, 0);
	text[n > 0 ? n : 0] = 0;
	return text;
}

char *run_output(const struct run *run)
{
	return whole_text(run->out);
}

char *run_errors(const struct run *run)
{
	return whole_text(run->err);
}

void run_lines(const struct run *run, off_t *from, void (*take)(void *what, char *line), void *what)
{
	char text[LINES_BYTES], *line, *end;
	ssize_t n;

	while ((n = pread(run->out, text, sizeof(text), *from)) > 0) {
		for (line = text; (end = memchr(line, '\n', (size_t)(text + n - line)));
		     line = end + 1) {
			*end = 0;
			take(what, line);
		}
		if (line == text && (size_t)n < sizeof(text))
			return; /* the rest is to come */
		/* A line that does not fit is none of ours. */
		*from += line == text ? n : line - text;
	}
}

void run_free(struct run *run)
{
	run_stop(run);
	if (run->out > 0)
		close(run->out);
	if (run->err > 0)
		close(run->err);
	memset(run, 0, sizeof(*run));
}

/* ---- a program of a host -------------------------------------------------------------------- */

const char *host_name(enum host host)
{
	return host == HOST_A ? "a" : "b";
}

bool run_start(struct run *run, const struct hosts *h, enum host host, const char *const *argv,
	       int64_t limit_ms)
{
	size_t count = 0, n = 0;
	char **words, limit[32];
	bool started;

	while (argv[count])
		count++;
	words = check_alloc(calloc(count + FIXED_WORDS + 1, sizeof(*words)));
	snprintf(limit, sizeof(limit), "%lds", (long)(limit_ms + 999) / 1000);
	words[n++] = h->tool;
	words[n++] = (char *)"exec";
	words[n++] = (char *)"--name";
	words[n++] = h->name;
	words[n++] = (char *)"--timeout";
	words[n++] = limit;
	words[n++] = (char *)host_name(host);
	words[n++] = (char *)"--";
	memcpy(words + n, argv, count * sizeof(*words));
	started = process_start(run, words);
	run->deadline_ms = now_ms() + limit_ms + SPARE_MS;
	free(words);
	return started;
}

int host_runs(const struct hosts *h, enum host host, const char *const *argv, int64_t limit_ms,
	      char **out, char **err)
{
	struct run run;
	int status = 125;

	*out = *err = NULL;
	if (run_start(&run, h, host, argv, limit_ms)) {
		run_wait(&run);
		status = run.status;
	}
	*out = run_output(&run);
	*err = run_errors(&run);
	run_free(&run);
	return status;
}
