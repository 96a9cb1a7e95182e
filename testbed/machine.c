/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What guests and real machines have in common: the set-up, and the end. */
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testbed/machine.h"
#include "testbed/wire.h"

static void add_setup_word(struct buf *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void add_setup_word(struct buf *b, const char *fmt, ...)
{
	char text[PATH_MAX + 64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	strings_put(b, text);
}

static void add_script(struct buf *b, const char *name)
{
	char path[PATH_MAX], *text;

	own_file(path, name);
	text = read_whole_file(path, NULL);
	if (!text)
		die(EXIT_MISSING, "cannot read %s", path);
	strings_put(b, text);
	free(text);
}

static void guest_setup(const struct machine *m, struct buf *b)
{
	const struct plan *p = m->plan;

	add_script(b, "shift-testbed-guest");
	add_setup_word(b, "TB_LAYOUT=%s", p->layout == LAYOUT_PAIR ? "pair" : "single");
	add_setup_word(b, "TB_HOST=%c", 'a' + m->number);
	add_setup_word(b, "TB_NUMBER=%d", m->number + 1);
	add_setup_word(b, "TB_RAILS=%d", p->rails);
	add_setup_word(b, "TB_MODULES=%s/lib/modules", p->kernel_dir);
	for (int i = 0; i < p->share_count; i++)
		add_setup_word(b, "share=%s", p->shares[i]);
}

static void ssh_setup(const struct machine *m, struct buf *b)
{
	const struct ssh_host *h = &m->plan->ssh[m->number];

	add_script(b, "shift-testbed-ssh");
	add_setup_word(b, "TB_HOST=%c", 'a' + m->number);
	add_setup_word(b, "TB_NICS=%s", h->rails);
	add_setup_word(b, "TB_NETDEVS=%s", h->netdevs);
	add_setup_word(b, "TB_GID_INDEX=%s", h->gid_index);
}

void machine_setup(const struct machine *m, struct buf *words)
{
	if (m->plan->layout == LAYOUT_SSH)
		ssh_setup(m, words);
	else
		guest_setup(m, words);
}

void machine_child(pid_t supervisor)
{
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != supervisor)
		_exit(125);
	setpgid(0, 0);
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A real machine's agent ends its commands and itself when the channel closes. */
static bool ends_by_itself(const struct machine *m)
{
	if (m->plan->layout != LAYOUT_SSH)
		return false;
	for (int i = 0; i < 200; i++) {
		if (waitpid(m->pid, NULL, WNOHANG))
			return true;
		poll(NULL, 0, 10);
	}
	return false;
}

void machine_stop(struct machine *m)
{
	chan_close(&m->agent);
	if (m->pid > 0 && !ends_by_itself(m)) {
		kill(m->pid, SIGKILL);
		waitpid(m->pid, NULL, 0);
	}
	m->pid = 0;
}
