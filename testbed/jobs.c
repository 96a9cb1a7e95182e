/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Commands in a host: each is one stream of the channel, in a session (process group) of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "testbed/agent.h"
#include "testbed/wire.h"

enum { KILL_GRACE_MS = 2000 };

struct job {
	pid_t pid; /* 0: this place is free */
	uint16_t stream;
	bool tty, exited, timed_out, client_gone;
	int status;
	int in, out, err;      /* our ends; with a tty in == out and err == -1 */
	struct buf input;      /* from the client, not yet taken by the command */
	bool input_ends;       /* close `in` when input is empty */
	uint32_t credit_bytes; /* what we may still send */
	int64_t term_at_ms;    /* 0: no deadline */
	int64_t kill_at_ms;
};

static struct job jobs[AGENT_MAX_JOBS];

static int64_t jobs_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static struct job *job_of(uint16_t stream)
{
	for (int i = 0; i < AGENT_MAX_JOBS; i++)
		if (jobs[i].pid && jobs[i].stream == stream)
			return &jobs[i];
	return NULL;
}

static struct job *job_free_place(void)
{
	for (int i = 0; i < AGENT_MAX_JOBS; i++)
		if (!jobs[i].pid)
			return &jobs[i];
	return NULL;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void job_release(struct job *j)
{
	if (j->out == j->in)
		j->out = -1;
	close_fd(&j->in);
	close_fd(&j->out);
	close_fd(&j->err);
	buf_free(&j->input);
	memset(j, 0, sizeof(*j));
}

static void report_exit(struct chan *c, uint16_t stream, int status, bool timed_out)
{
	struct exit_report r = {.status = status, .timed_out = timed_out};

	chan_send(c, FRAME_EXIT, stream, &r, sizeof(r));
}

static void refuse_job(struct chan *c, uint16_t stream, const char *why)
{
	chan_send(c, FRAME_STDERR, stream, why, strlen(why));
	report_exit(c, stream, 125, false);
}

/* ---- starting ------------------------------------------------------------------------------ */

struct command {
	struct open_request req;
	const char *cwd;
	char **env, **argv; /* NULL-terminated; the strings stay in the payload */
};

static char **take_strings(const uint8_t **at, const uint8_t *end, unsigned n)
{
	char **list = calloc(n + 1, sizeof(*list));

	for (unsigned i = 0; list && i < n; i++) {
		list[i] = (char *)strings_next(at, end);
		if (!list[i]) {
			free(list);
			return NULL;
		}
	}
	return list;
}

static void command_free(struct command *cmd)
{
	free(cmd->env);
	free(cmd->argv);
}

static bool command_parse(struct command *cmd, const uint8_t *p, size_t bytes)
{
	const uint8_t *end = p + bytes;

	memset(cmd, 0, sizeof(*cmd));
	if (bytes < sizeof(cmd->req))
		return false;
	memcpy(&cmd->req, p, sizeof(cmd->req));
	p += sizeof(cmd->req);
	cmd->cwd = strings_next(&p, end);
	cmd->env = take_strings(&p, end, cmd->req.env_count);
	cmd->argv = take_strings(&p, end, cmd->req.argv_count);
	if (cmd->cwd && cmd->env && cmd->argv && cmd->req.argv_count && p == end)
		return true;
	command_free(cmd);
	return false;
}

static _Noreturn void exec_child(const struct command *cmd)
{
	int err;

	child_restore_signals();
	if (chdir(cmd->cwd) && chdir("/"))
		_exit(125);
	for (char **e = cmd->env; *e; e++)
		putenv(*e);
	execvp(cmd->argv[0], cmd->argv);
	err = errno;
	dprintf(2, "shift-testbed: %s: %s\n", cmd->argv[0], strerror(err));
	_exit(err == ENOENT ? 127 : 126);
}

static pid_t fork_tty(struct job *j, const struct command *cmd)
{
	struct winsize ws = {.ws_row = cmd->req.rows, .ws_col = cmd->req.columns};
	pid_t pid = forkpty(&j->in, NULL, NULL, &ws);

	if (pid == 0)
		exec_child(cmd);
	j->out = j->in;
	j->err = -1;
	return pid;
}

static pid_t fork_pipes(struct job *j, const struct command *cmd)
{
	int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
	pid_t pid = -1;

	if (!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC) && !pipe2(err, O_CLOEXEC))
		pid = fork();
	if (pid == 0) {
		setsid();
		dup2(in[0], 0);
		dup2(out[1], 1);
		dup2(err[1], 2);
		exec_child(cmd);
	}
	close_fd(&in[0]);
	close_fd(&out[1]);
	close_fd(&err[1]);
	j->in = in[1];
	j->out = out[0];
	j->err = err[0];
	return pid;
}

static void set_nonblock(int fd)
{
	if (fd >= 0) {
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	}
}

static void job_start(struct chan *c, struct job *j, uint16_t stream, const struct command *cmd)
{
	pid_t pid;

	memset(j, 0, sizeof(*j));
	j->in = j->out = j->err = -1;
	j->stream = stream;
	j->tty = cmd->req.tty;
	j->credit_bytes = STREAM_WINDOW_BYTES;
	pid = j->tty ? fork_tty(j, cmd) : fork_pipes(j, cmd);
	if (pid < 0) {
		refuse_job(c, stream, "shift-testbed: the host cannot start another process\n");
		job_release(j);
		return;
	}
	j->pid = pid;
	if (cmd->req.timeout_ms)
		j->term_at_ms = jobs_now_ms() + cmd->req.timeout_ms;
	set_nonblock(j->in);
	set_nonblock(j->out);
	set_nonblock(j->err);
}

void jobs_open(struct chan *c, uint16_t stream, const uint8_t *payload, size_t bytes)
{
	struct job *j = job_free_place();
	struct command cmd;

	if (!command_parse(&cmd, payload, bytes)) {
		refuse_job(c, stream, "shift-testbed: the host did not understand the request\n");
		return;
	}
	if (j)
		job_start(c, j, stream, &cmd);
	else
		refuse_job(c, stream, "shift-testbed: too many commands at once in this host\n");
	command_free(&cmd);
}

/* ---- running ------------------------------------------------------------------------------- */

static void job_signal(const struct job *j, int signo)
{
	if (!j->exited)
		kill(-j->pid, signo);
}

static void job_terminate(struct job *j, int signo)
{
	job_signal(j, signo);
	j->term_at_ms = 0;
	j->kill_at_ms = jobs_now_ms() + KILL_GRACE_MS;
}

static void job_hangup(struct job *j)
{
	j->client_gone = true;
	job_terminate(j, SIGHUP);
}

static void job_input(struct job *j, const uint8_t *data, size_t bytes)
{
	if (!bytes)
		j->input_ends = true;
	else if (j->in >= 0)
		buf_append(&j->input, data, bytes);
}

static void job_resize(const struct job *j, const uint8_t *data, size_t bytes)
{
	struct winsize ws = {0};

	if (!j->tty || bytes < 4)
		return;
	memcpy(&ws.ws_row, data, 2);
	memcpy(&ws.ws_col, data + 2, 2);
	ioctl(j->in, TIOCSWINSZ, &ws);
}

void jobs_frame(struct chan *c, const struct frame *f, const uint8_t *payload)
{
	struct job *j = job_of(f->stream);
	uint32_t n = 0;

	if (f->type == FRAME_OPEN && !j) {
		jobs_open(c, f->stream, payload, f->bytes);
		return;
	}
	if (!j)
		return;
	if (f->bytes >= sizeof(n))
		memcpy(&n, payload, sizeof(n));
	if (f->type == FRAME_STDIN)
		job_input(j, payload, f->bytes);
	else if (f->type == FRAME_CREDIT)
		j->credit_bytes += n;
	else if (f->type == FRAME_SIGNAL && n > 0 && n < NSIG)
		job_signal(j, n);
	else if (f->type == FRAME_RESIZE)
		job_resize(j, payload, f->bytes);
	else if (f->type == FRAME_HANGUP)
		job_hangup(j);
}

static void job_write_input(struct chan *c, struct job *j)
{
	uint32_t taken = 0;

	while (j->in >= 0 && buf_bytes(&j->input)) {
		ssize_t n = write(j->in, j->input.data + j->input.start, buf_bytes(&j->input));

		if (n < 0 && errno == EAGAIN)
			break;
		if (n <
		    0) { /* the command closed its input: what is left goes nowhere, as in a pipe */
			n = buf_bytes(&j->input);
			if (!j->tty)
				close_fd(&j->in);
		}
		buf_consume(&j->input, n);
		taken += n;
	}
	if (taken && !j->client_gone)
		chan_send(c, FRAME_CREDIT, j->stream, &taken, sizeof(taken));
	if (!j->input_ends || buf_bytes(&j->input))
		return;
	j->input_ends = false;
	if (j->tty)
		(void)!write(j->in, "\004", 1); /* a terminal's end of file is a key */
	else
		close_fd(&j->in);
}

/* Returns false when no more can come out of *fd now. */
static bool job_read_output(struct chan *c, struct job *j, int *fd, enum frame_type type)
{
	uint8_t data[FRAME_DATA_BYTES];
	size_t room = j->client_gone ? sizeof(data) : j->credit_bytes;
	ssize_t n;

	if (*fd < 0 || !room)
		return false;
	n = read(*fd, data, room < sizeof(data) ? room : sizeof(data));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) { /* a terminal whose last user is gone says EIO */
		if (j->in == *fd)
			j->in = -1;
		close_fd(fd);
		return false;
	}
	if (!j->client_gone) {
		chan_send(c, type, j->stream, data, n);
		j->credit_bytes -= n;
	}
	return true;
}

static void job_deadlines(struct job *j)
{
	int64_t now = jobs_now_ms();

	if (j->exited)
		return;
	if (j->term_at_ms && now >= j->term_at_ms) {
		j->timed_out = true;
		job_terminate(j, SIGTERM);
	}
	if (j->kill_at_ms && now >= j->kill_at_ms) {
		job_signal(j, SIGKILL);
		j->kill_at_ms = now + KILL_GRACE_MS;
	}
}

static void job_run(struct chan *c, struct job *j)
{
	job_deadlines(j);
	job_write_input(c, j);
	while (job_read_output(c, j, &j->out, FRAME_STDOUT))
		;
	while (job_read_output(c, j, &j->err, FRAME_STDERR))
		;
	/* A command ends with its own process, not with the last process that has its output open:
	 * `sh -c 'server &'` returns. All that it wrote itself is in the pipe by then, where only
	 * missing credit can keep it. */
	if (j->exited && (j->credit_bytes || j->client_gone || (j->out < 0 && j->err < 0))) {
		report_exit(c, j->stream, j->status, j->timed_out);
		job_release(j);
	}
}

void jobs_run(struct chan *c)
{
	for (int i = 0; i < AGENT_MAX_JOBS; i++)
		if (jobs[i].pid)
			job_run(c, &jobs[i]);
}

void jobs_reap(void)
{
	int raw;
	pid_t pid;

	while ((pid = waitpid(-1, &raw, WNOHANG)) > 0) {
		for (int i = 0; i < AGENT_MAX_JOBS; i++) {
			if (jobs[i].pid != pid || jobs[i].exited)
				continue;
			jobs[i].exited = true;
			jobs[i].status = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
		}
	}
}

void jobs_kill_all(void)
{
	for (int i = 0; i < AGENT_MAX_JOBS; i++)
		if (jobs[i].pid)
			job_signal(&jobs[i], SIGKILL);
}

static int job_pollfd(struct pollfd *p, int fd, short events)
{
	if (fd < 0 || !events)
		return 0;
	p->fd = fd;
	p->events = events;
	return 1;
}

int jobs_poll(struct pollfd *p)
{
	int n = 0;

	for (int i = 0; i < AGENT_MAX_JOBS; i++) {
		const struct job *j = &jobs[i];
		short in = buf_bytes(&j->input) ? POLLOUT : 0;
		short out = j->credit_bytes || j->client_gone ? POLLIN : 0;

		if (!j->pid)
			continue;
		if (j->in == j->out)
			in |= out;
		else
			n += job_pollfd(&p[n], j->out, out);
		n += job_pollfd(&p[n], j->in, in);
		n += job_pollfd(&p[n], j->err, out);
	}
	return n;
}

int jobs_timeout_ms(void)
{
	int64_t first = 0, left;

	for (int i = 0; i < AGENT_MAX_JOBS; i++) {
		const struct job *j = &jobs[i];
		int64_t at[2] = {j->term_at_ms, j->kill_at_ms};

		for (int k = 0; k < 2 && j->pid && !j->exited; k++)
			if (at[k] && (!first || at[k] < first))
				first = at[k];
	}
	if (!first)
		return -1;
	left = first - jobs_now_ms();
	return left > 0 ? left : 0;
}
