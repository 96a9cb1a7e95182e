/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The client side: talks to the supervisor, and runs commands in a host through it. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "testbed/testbed.h"
#include "testbed/wire.h"

/* The agent ends a command by SIGTERM at its time, and by SIGKILL two seconds later. If nothing is
 * heard this long after that, no agent is running. */
enum { AGENT_LATE_MS = 20000 };

void client_connect(struct chan *c, const char *name, int not_up)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct state s;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!name_is_valid(name))
		die(not_up == EXIT_NOT_UP ? EXIT_BAD_USAGE : not_up, "%s: not a testbed's name",
		    name);
	state_paths(&s, name);
	snprintf(a.sun_path, sizeof(a.sun_path), "%.90s/sock", s.dir);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		state_clean(name);
		die(not_up, "no testbed %s is up; start one with: shift-testbed up%s%s", name,
		    strcmp(name, "default") ? " --name " : "", strcmp(name, "default") ? name : "");
	}
	chan_init(c, fd, fd);
}

cJSON *client_op(const char *op, const char *host)
{
	cJSON *json = cJSON_CreateObject();

	cJSON_AddStringToObject(json, "op", op);
	if (host)
		cJSON_AddStringToObject(json, "host", host);
	return json;
}

cJSON *client_answer(struct chan *c, int failure)
{
	const uint8_t *payload;
	struct frame f;
	cJSON *reply = NULL;
	const char *error;

	if (!chan_wait(c, &f, &payload, -1) && f.type == FRAME_REPLY)
		reply = cJSON_ParseWithLength((const char *)payload, f.bytes);
	if (!reply)
		die(failure ? failure : EXIT_FAILED, "the testbed went away");
	error = cJSON_GetStringValue(cJSON_GetObjectItem(reply, "error"));
	if (error)
		die(failure ? failure
			    : (int)cJSON_GetNumberValue(cJSON_GetObjectItem(reply, "exit")),
		    "%s", error);
	return reply;
}

cJSON *client_request(struct chan *c, cJSON *request, int failure)
{
	char *text = cJSON_PrintUnformatted(request);

	chan_send(c, FRAME_REQUEST, 0, text, strlen(text));
	free(text);
	cJSON_Delete(request);
	chan_flush_all(c, 10000); /* if that fails, so does what follows */
	return client_answer(c, failure);
}

/* ---- exec ---------------------------------------------------------------------------------- */

struct run {
	const struct exec_options *o;
	struct chan chan;
	int signal_fd;
	uint32_t credit_bytes; /* of input that may still be sent */
	bool input_open;
	struct buf out, err; /* not yet taken by our own standard output and error */
	int64_t end_ms;	     /* of all patience; 0: none */
	bool exited;
	struct exit_report report;
};

static struct winsize window_size(void)
{
	struct winsize ws = {.ws_row = 24, .ws_col = 80};

	ioctl(0, TIOCGWINSZ, &ws);
	return ws;
}

static unsigned count_words(char *const *list)
{
	unsigned n = 0;

	while (list && list[n])
		n++;
	return n;
}

static void send_open(struct run *r, const cJSON *reply)
{
	const cJSON *env = cJSON_GetObjectItem(reply, "env"), *word;
	const char *path = cJSON_GetStringValue(cJSON_GetObjectItem(reply, "path"));
	const struct exec_options *o = r->o;
	struct winsize ws = window_size();
	struct open_request q = {
		.timeout_ms = o->timeout_ms,
		.env_count = cJSON_GetArraySize(env) + count_words(o->env) + 1,
		.argv_count = count_words(o->argv),
		.rows = ws.ws_row,
		.columns = ws.ws_col,
		.tty = o->tty,
	};
	char cwd[PATH_MAX], term[128];
	struct buf b = {0};

	snprintf(term, sizeof(term), "TERM=%.100s", getenv("TERM") ? getenv("TERM") : "dumb");
	buf_append(&b, &q, sizeof(q));
	strings_put(&b, path && *path ? path : getcwd(cwd, sizeof(cwd)) ? cwd : "/");
	cJSON_ArrayForEach (word, env)
		strings_put(&b, cJSON_GetStringValue(word));
	strings_put(&b, term);
	for (char *const *e = o->env; e && *e; e++)
		strings_put(&b, *e);
	for (char *const *w = o->argv; *w; w++)
		strings_put(&b, *w);
	if (buf_bytes(&b) > FRAME_MAX_BYTES)
		die(EXIT_EXEC_FAILED, "the command line and environment are too long");
	chan_send(&r->chan, FRAME_OPEN, 0, b.data + b.start, buf_bytes(&b));
	buf_free(&b);
}

static int catch_for_host(void)
{
	static const int passed[] = {SIGINT,  SIGTERM, SIGHUP,	SIGQUIT,
				     SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++)
		sigaddset(&set, passed[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

static void pass_signals(struct run *r)
{
	struct signalfd_siginfo si;

	while (read(r->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		uint32_t signo = si.ssi_signo;

		if (signo == SIGWINCH) {
			struct winsize ws = window_size();
			uint16_t size[2] = {ws.ws_row, ws.ws_col};

			chan_send(&r->chan, FRAME_RESIZE, 0, size, sizeof(size));
		} else {
			chan_send(&r->chan, FRAME_SIGNAL, 0, &signo, sizeof(signo));
		}
	}
}

static void pass_input(struct run *r)
{
	uint8_t data[FRAME_DATA_BYTES];
	size_t room = r->credit_bytes < sizeof(data) ? r->credit_bytes : sizeof(data);
	ssize_t n = read(r->o->in, data, room);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		n = 0;
		r->input_open = false;
	}
	r->credit_bytes -= n;
	chan_send(&r->chan, FRAME_STDIN, 0, data, n);
}

static void take_frame(struct run *r, const struct frame *f, const uint8_t *payload)
{
	uint32_t n;

	if (f->type == FRAME_STDOUT) {
		buf_append(&r->out, payload, f->bytes);
	} else if (f->type == FRAME_STDERR) {
		buf_append(&r->err, payload, f->bytes);
	} else if (f->type == FRAME_CREDIT && f->bytes == sizeof(n)) {
		memcpy(&n, payload, sizeof(n));
		r->credit_bytes += n;
	} else if (f->type == FRAME_EXIT && f->bytes == sizeof(r->report)) {
		memcpy(&r->report, payload, sizeof(r->report));
		r->exited = true;
	} else if (f->type == FRAME_FAILED) {
		die(EXIT_EXEC_FAILED, "host %s: %.*s", r->o->host, (int)f->bytes,
		    (const char *)payload);
	}
}

static void take_frames(struct run *r)
{
	const uint8_t *payload;
	struct frame f;
	int err = chan_fill(&r->chan);

	while (chan_next(&r->chan, &f, &payload) == 1)
		take_frame(r, &f, payload);
	if (err && !r->exited)
		die(EXIT_EXEC_FAILED, "the testbed went away");
}

/* Writes what fits without blocking: our standard output is often shared, so no O_NONBLOCK on it.
 */
static void give_output(struct run *r, struct buf *b, int fd)
{
	uint32_t n = buf_bytes(b) < PIPE_BUF ? buf_bytes(b) : PIPE_BUF;
	ssize_t done = write(fd, b->data + b->start, n);

	if (done < 0 && errno == EPIPE) {
		/* Ends by SIGPIPE, as a local command would. The command in the host gets a hang-
		 * up. */
		signal(SIGPIPE, SIG_DFL);
		raise(SIGPIPE);
	}
	if (done < 0 && errno != EAGAIN && errno != EINTR)
		die(EXIT_EXEC_FAILED, "cannot write the command's output: %s", strerror(errno));
	if (done <= 0)
		return;
	n = done;
	buf_consume(b, n);
	chan_send(&r->chan, FRAME_CREDIT, 0, &n, sizeof(n));
}

/* A guest whose kernel hangs takes its agent along, which was to keep the time. */
static int time_left_ms(const struct run *r)
{
	int64_t left = r->end_ms - now_ms();

	if (!r->end_ms || r->exited)
		return -1;
	if (left <= 0)
		die(EXIT_EXEC_FAILED, "host %s does not answer: its kernel hangs", r->o->host);
	return (int)left;
}

static void run_loop(struct run *r)
{
	while (!r->exited || buf_bytes(&r->out) || buf_bytes(&r->err)) {
		bool in = r->input_open && r->credit_bytes;
		struct pollfd p[5] = {
			{.fd = r->chan.rfd,
			 .events = POLLIN | (buf_bytes(&r->chan.out) ? POLLOUT : 0)},
			{.fd = r->signal_fd, .events = POLLIN},
			{.fd = in ? r->o->in : -1, .events = POLLIN},
			{.fd = buf_bytes(&r->out) ? r->o->out : -1, .events = POLLOUT},
			{.fd = buf_bytes(&r->err) ? 2 : -1, .events = POLLOUT},
		};

		if (r->exited)
			p[0].fd = -1;
		if (poll(p, 5, time_left_ms(r)) < 0)
			continue;
		if (p[0].revents & ~POLLOUT)
			take_frames(r);
		if (p[1].revents)
			pass_signals(r);
		if (p[2].revents && !r->exited)
			pass_input(r);
		if (p[3].revents)
			give_output(r, &r->out, r->o->out);
		if (p[4].revents)
			give_output(r, &r->err, 2);
		if (!r->exited && chan_flush(&r->chan))
			take_frames(r); /* says why it is gone */
	}
}

int client_exec(const struct exec_options *o)
{
	struct run r = {.o = o, .credit_bytes = STREAM_WINDOW_BYTES, .input_open = true};
	cJSON *reply;

	client_connect(&r.chan, o->name, EXIT_EXEC_FAILED);
	reply = client_request(&r.chan, client_op("exec", o->host), EXIT_EXEC_FAILED);
	send_open(&r, reply);
	cJSON_Delete(reply);
	if (o->timeout_ms)
		r.end_ms = now_ms() + o->timeout_ms + AGENT_LATE_MS;
	r.signal_fd = catch_for_host();
	if (o->tty)
		terminal_raw();
	run_loop(&r);
	chan_close(&r.chan);
	buf_free(&r.out);
	buf_free(&r.err);
	close(r.signal_fd);
	return r.report.timed_out ? EXIT_TIMED_OUT : r.report.status;
}
