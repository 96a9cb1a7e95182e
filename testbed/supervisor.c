/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testbed/supervisor.h"

enum {
	BOOT_LIMIT_MS = 120 * 1000,
	CONSOLE_LOG_BYTES = 4 << 20,
	/* listen, signals, two per machine, one per client */
	MAX_POLL = 2 + 2 * MAX_HOSTS + MAX_CLIENTS,
};

/* ---- machines ------------------------------------------------------------------------------ */

static void client_free(struct client *c)
{
	chan_close(&c->chan);
	memset(c, 0, sizeof(*c));
}

static void machine_failed(struct supervisor *s, struct machine *m, const char *why)
{
	char words[400];

	if (*m->failure)
		return;
	panic_log_read(m->console_path, words, sizeof(words));
	snprintf(m->failure, sizeof(m->failure), "%s%s%s", why, *words ? "; last it said: " : "",
		 words);
	chan_close(&m->agent);
	for (struct client *c = s->clients; c < s->clients + MAX_CLIENTS; c++) {
		if (c->machine != m)
			continue;
		if (c->kind == CLIENT_GONE)
			client_free(c);
		else if (c->kind == CLIENT_EXEC)
			chan_send(&c->chan, FRAME_FAILED, 0, m->failure, strlen(m->failure));
		c->command_runs = false;
	}
}

static struct host *host_by_letter(struct supervisor *s, char letter)
{
	for (int i = 0; i < MAX_HOSTS; i++)
		if (s->hosts[i].letter == letter)
			return &s->hosts[i];
	return NULL;
}

/* The set-up's "rail" lines are all that we know of a host's NICs. */
static void learn_rails(struct supervisor *s, const char *said)
{
	struct rail r;
	char letter;
	int number;

	for (const char *line = said; line; line = strchr(line, '\n'), line += line ? 1 : 0) {
		struct host *h;

		memset(&r, 0, sizeof(r));
		if (sscanf(line, "rail %c %d %31s %31s %63s %d", &letter, &number, r.nic, r.netdev,
			   r.address, &r.gid_index) != 6)
			continue;
		h = host_by_letter(s, letter);
		if (!h || h->rail_count == MAX_RAILS || number != h->rail_count)
			continue;
		r.cable_up = true;
		h->rails[h->rail_count++] = r;
	}
}

static void machine_said(struct supervisor *s, struct machine *m, const struct frame *f,
			 const uint8_t *payload)
{
	char *text = strndup((const char *)payload, f->bytes);

	if (f->type == FRAME_READY) {
		learn_rails(s, text);
		m->ready = true;
	} else {
		char *end = strchrnul(text, '\n');
		char why[400];

		snprintf(why, sizeof(why), "set-up failed: %.*s", (int)(end - text), text);
		machine_failed(s, m, why);
	}
	free(text);
}

static void pass_to_client(struct supervisor *s, const struct frame *f, const uint8_t *payload)
{
	struct client *c = &s->clients[f->stream - 1];

	if (f->stream > MAX_CLIENTS || !c->command_runs)
		return;
	if (c->kind == CLIENT_EXEC)
		chan_send(&c->chan, f->type, 0, payload, f->bytes);
	if (f->type != FRAME_EXIT)
		return;
	c->command_runs = false;
	if (c->kind == CLIENT_GONE)
		client_free(c);
}

/* A login shell may print before the agent does. */
static void skip_to_greeting(struct machine *m)
{
	const size_t n = strlen(AGENT_GREETING);
	struct buf *in = &m->agent.in, words = {0};
	uint8_t *at = memmem(in->data + in->start, buf_bytes(in), AGENT_GREETING, n);

	if (!at)
		return;
	buf_consume(in, at + n - (in->data + in->start));
	m->greeted = true;
	machine_setup(m, &words);
	chan_send(&m->agent, FRAME_SETUP, 0, words.data + words.start, buf_bytes(&words));
	buf_free(&words);
}

static void log_console(struct machine *m, const char *data, size_t n)
{
	/* Bounded: what is old goes. */
	if (m->console_bytes + n > CONSOLE_LOG_BYTES) {
		(void)!ftruncate(m->console_log, 0);
		lseek(m->console_log, 0, SEEK_SET);
		m->console_bytes = 0;
	}
	(void)!write(m->console_log, data, n);
	m->console_bytes += n;
}

static void machine_console(struct supervisor *s, struct machine *m)
{
	char data[FRAME_DATA_BYTES];
	ssize_t n = read(m->console, data, sizeof(data));

	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			close(m->console);
			m->console = -1;
		}
		return;
	}
	log_console(m, data, n);
	for (struct client *c = s->clients; c < s->clients + MAX_CLIENTS; c++)
		if (c->kind == CLIENT_CONSOLE && c->machine == m)
			chan_send(&c->chan, FRAME_CONSOLE, 0, data, n);
}

static void reap_machines(struct supervisor *s)
{
	char why[64];
	pid_t pid;
	int raw;

	while ((pid = waitpid(-1, &raw, WNOHANG)) > 0) {
		for (int i = 0; i < s->machine_count; i++) {
			struct machine *m = &s->machines[i];

			if (m->pid != pid)
				continue;
			m->pid = 0;
			for (int k = 0; k < 64 && m->console >= 0; k++)
				machine_console(s, m);
			snprintf(why, sizeof(why), "%s ended (%s %d)",
				 s->plan->layout == LAYOUT_SSH ? "ssh" : "QEMU",
				 WIFSIGNALED(raw) ? "signal" : "status",
				 WIFSIGNALED(raw) ? WTERMSIG(raw) : WEXITSTATUS(raw));
			machine_failed(s, m, why);
		}
	}
}

/* QEMU or ssh usually ends in a moment, and its status says more; but it may also hang. */
static void channel_ended(struct supervisor *s, struct machine *m)
{
	for (int i = 0; i < 200 && !*m->failure; i++) {
		poll(NULL, 0, 10);
		reap_machines(s);
	}
	machine_failed(s, m, "the command channel closed");
}

static void machine_frames(struct supervisor *s, struct machine *m)
{
	const uint8_t *payload;
	struct frame f;
	int err = chan_fill(&m->agent);

	if (!m->greeted)
		skip_to_greeting(m);
	while (m->greeted && chan_next(&m->agent, &f, &payload) == 1) {
		if (f.stream)
			pass_to_client(s, &f, payload);
		else
			machine_said(s, m, &f, payload);
		if (*m->failure)
			return;
	}
	if (err)
		channel_ended(s, m);
}

/* ---- clients ------------------------------------------------------------------------------- */

static void accept_client(struct supervisor *s)
{
	int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	for (struct client *c = s->clients; c < s->clients + MAX_CLIENTS; c++) {
		if (c->kind != CLIENT_FREE)
			continue;
		c->kind = CLIENT_NEW;
		chan_init(&c->chan, fd, fd);
		return;
	}
	close(fd);
}

static void client_left(struct supervisor *s, struct client *c)
{
	if (c->kind == CLIENT_WAIT && !s->ready)
		s->ending = true; /* nobody would know of this testbed */
	if (c->kind == CLIENT_EXEC && c->command_runs) {
		chan_send(&c->machine->agent, FRAME_HANGUP, c - s->clients + 1, NULL, 0);
		chan_close(&c->chan);
		c->kind = CLIENT_GONE;
		return;
	}
	client_free(c);
}

static void client_frames(struct supervisor *s, struct client *c)
{
	const uint8_t *payload;
	struct frame f;
	int err = chan_fill(&c->chan), more;

	while ((more = chan_next(&c->chan, &f, &payload)) == 1)
		request_frame(s, c, &f, payload);
	if (err || more < 0)
		client_left(s, c);
}

static void tell_waiting(struct supervisor *s)
{
	const struct machine *failed = NULL;
	bool ready = true;

	for (int i = 0; i < s->machine_count; i++) {
		ready &= s->machines[i].ready;
		if (*s->machines[i].failure)
			failed = &s->machines[i];
	}
	if (failed && !s->ready)
		s->ending = true;
	if (ready && !s->ready) {
		s->ready = true;
		if (s->plan->lease_s)
			s->lease_ends_ms = now_ms() + 1000 * s->plan->lease_s;
	}
	for (struct client *c = s->clients; c < s->clients + MAX_CLIENTS; c++) {
		if (c->kind != CLIENT_WAIT || !(failed || ready))
			continue;
		if (failed)
			request_refuse(c, EXIT_FAILED, "host %s: %s", s->hosts[failed->number].name,
				       failed->failure);
		else
			request_done(c);
		c->kind = CLIENT_NEW;
	}
}

/* ---- the loop ------------------------------------------------------------------------------ */

static struct pollfd pollfd_for(int fd, bool more_to_send)
{
	return (struct pollfd){.fd = fd, .events = POLLIN | (more_to_send ? POLLOUT : 0)};
}

static int fill_poll(struct supervisor *s, struct pollfd *p)
{
	int n = 0;

	p[n++] = pollfd_for(s->listen_fd, false);
	p[n++] = pollfd_for(s->signal_fd, false);
	for (int i = 0; i < s->machine_count; i++) {
		struct machine *m = &s->machines[i];

		p[n++] = pollfd_for(m->agent.rfd, buf_bytes(&m->agent.out));
		p[n++] = pollfd_for(m->console, false);
	}
	for (int i = 0; i < MAX_CLIENTS; i++) {
		struct chan *c = &s->clients[i].chan;
		bool open = s->clients[i].kind != CLIENT_FREE && s->clients[i].kind != CLIENT_GONE;

		p[n++] = pollfd_for(open ? c->rfd : -1, buf_bytes(&c->out));
	}
	return n;
}

static void handle_signals(struct supervisor *s)
{
	struct signalfd_siginfo si;

	while (read(s->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGCHLD)
			reap_machines(s);
		else
			s->ending = true;
	}
}

static void handle_poll(struct supervisor *s, const struct pollfd *p)
{
	const struct pollfd *mp = p + 2, *cp = p + 2 + 2 * s->machine_count;

	for (int i = 0; i < s->machine_count; i++) {
		if (mp[2 * i + 1].revents)
			machine_console(s, &s->machines[i]);
		if (mp[2 * i].revents & ~POLLOUT && !*s->machines[i].failure)
			machine_frames(s, &s->machines[i]);
	}
	for (int i = 0; i < MAX_CLIENTS; i++)
		if (cp[i].revents & ~POLLOUT)
			client_frames(s, &s->clients[i]);
	if (p[1].revents)
		handle_signals(s);
	if (p[0].revents)
		accept_client(s);
}

static void flush_all(struct supervisor *s)
{
	for (int i = 0; i < s->machine_count; i++)
		if (s->machines[i].agent.wfd >= 0)
			chan_flush(&s->machines[i].agent);
	for (int i = 0; i < MAX_CLIENTS; i++)
		if (s->clients[i].kind != CLIENT_FREE && s->clients[i].kind != CLIENT_GONE)
			chan_flush(&s->clients[i].chan);
}

static void check_deadlines(struct supervisor *s)
{
	int64_t now = now_ms();

	if (s->lease_ends_ms && now >= s->lease_ends_ms)
		s->ending = true;
	if (s->ready || now < s->started_ms + BOOT_LIMIT_MS)
		return;
	for (int i = 0; i < s->machine_count; i++)
		if (!s->machines[i].ready)
			machine_failed(s, &s->machines[i], "not ready after 120 s");
}

static void supervise_loop(struct supervisor *s)
{
	static struct pollfd p[MAX_POLL];

	while (!s->ending) {
		int n = fill_poll(s, p);

		/* A second is fine enough for leases. */
		if (poll(p, n, 1000) > 0)
			handle_poll(s, p);
		check_deadlines(s);
		tell_waiting(s);
		flush_all(s);
	}
}

/* ---- beginning and end --------------------------------------------------------------------- */

static int make_cables(const struct plan *p, struct cables *cables)
{
	int pair[2];

	for (int i = 0; i < 1 + p->rails && p->layout == LAYOUT_PAIR; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
			return -errno;
		cables->end[i][0] = pair[0];
		cables->end[i][1] = pair[1];
	}
	return 0;
}

static void close_cables(const struct plan *p, const struct cables *cables)
{
	for (int i = 0; i < 1 + p->rails && p->layout == LAYOUT_PAIR; i++) {
		close(cables->end[i][0]);
		close(cables->end[i][1]);
	}
}

static void start_machine(struct supervisor *s, int i, const struct cables *cables,
			  const char *initrd)
{
	struct machine *m = &s->machines[i];
	int err;

	m->plan = s->plan;
	m->number = i;
	m->qmp = m->console = -1;
	m->agent.rfd = m->agent.wfd = -1;
	snprintf(m->console_path, sizeof(m->console_path), "%s/%c.console", s->state->dir, 'a' + i);
	m->console_log = open(m->console_path, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0600);
	err = s->plan->layout == LAYOUT_SSH ? ssh_start(m) : qemu_start(m, cables, initrd);
	if (err)
		machine_failed(s, m, strerror(-err));
}

static void start_machines(struct supervisor *s)
{
	char initrd[PATH_MAX] = "";
	struct cables cables;

	s->machine_count = s->plan->layout == LAYOUT_SINGLE ? 1 : 2;
	for (int i = 0; i < MAX_HOSTS; i++) {
		struct host *h = &s->hosts[i];

		h->letter = 'a' + i;
		h->machine = &s->machines[s->machine_count == 1 ? 0 : i];
		snprintf(h->name, sizeof(h->name), "%c", h->letter);
		if (s->plan->layout == LAYOUT_SSH)
			snprintf(h->name, sizeof(h->name), "%s", s->plan->ssh[i].name);
	}
	snprintf(initrd, sizeof(initrd), "%s/initrd", s->state->dir);
	if (s->plan->layout != LAYOUT_SSH && build_initrd(s->plan->kernel_dir, initrd))
		die(EXIT_NO_RESOURCE, "cannot write %s", initrd);
	if (make_cables(s->plan, &cables))
		die(EXIT_NO_RESOURCE, "cannot make the cables: %s", strerror(errno));
	for (int i = 0; i < s->machine_count; i++)
		start_machine(s, i, &cables, initrd);
	close_cables(s->plan, &cables);
}

static int supervisor_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

static void stop_testbed(struct supervisor *s)
{
	for (int i = 0; i < s->machine_count; i++)
		machine_stop(&s->machines[i]);
	close(s->listen_fd);
	state_remove(s->state);
	for (struct client *c = s->clients; c < s->clients + MAX_CLIENTS; c++) {
		if (c->kind == CLIENT_DOWN)
			request_done(c);
		if (c->kind != CLIENT_FREE && c->kind != CLIENT_GONE)
			chan_flush_all(&c->chan, 1000);
	}
}

void supervise(const struct plan *plan, const struct state *state, int listen_fd, int up_fd)
{
	static struct supervisor s;

	s.plan = plan;
	s.state = state;
	s.listen_fd = listen_fd;
	s.signal_fd = supervisor_signals();
	s.started_ms = now_ms();
	s.clients[0].kind = CLIENT_WAIT;
	chan_init(&s.clients[0].chan, up_fd, up_fd);
	start_machines(&s);
	supervise_loop(&s);
	stop_testbed(&s);
	exit(EXIT_OK);
}
