/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * --on-switch: a command for each switch of this host's processes, to take a checkpoint for
 * instance (the paper's section 4.3). Switches are found where the processes write them, in their
 * statistics: the library does nothing for it. What comes together is one run; one command runs at
 * a time, and of what comes meanwhile the newest waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/shell_command.h"
#include "kv/kvd.h"
#include "lib/stats/places.h"
#include "lib/stats/read.h"

enum {
	LOOK_MS = 100,
	KILL_MS = 5000, /* from SIGTERM to SIGKILL, when its time is over */
};

/* A process whose switches are counted. */
struct switcher {
	struct switcher *next;
	uint64_t nonce;	   /* of its statistics */
	uint64_t switches; /* that were seen */
	bool there;
};

/* --- what has happened ------------------------------------------------------------------------ */

static uint64_t switches_written(const struct stats_header *h)
{
	for (uint32_t i = 0; i < h->tables && i < STATS_TABLES_MAX; i++)
		if (h->table[i].kind == STATS_TABLE_SWITCHES)
			return h->table[i].written;
	return 0;
}

static struct switcher *find_switcher(struct on_switch *w, uint64_t nonce)
{
	struct switcher *s = w->switchers;

	while (s && s->nonce != nonce)
		s = s->next;
	if (s)
		return s;
	s = check_alloc(calloc(1, sizeof(*s)));
	*s = (struct switcher){.next = w->switchers, .nonce = nonce};
	w->switchers = s;
	return s;
}

static const char *peer_of(const struct stats_copy *copy, uint64_t conn)
{
	for (size_t i = 0; i < copy->conn_count; i++)
		if (copy->conns[i].id == conn)
			return copy->conns[i].peer_host;
	return "";
}

/* The newest is told of; those that it takes the place of are counted with it. */
static void take_switch(struct on_switch *w, const struct stats_copy *copy,
			const struct stats_switch *s, uint64_t more)
{
	struct switch_note *n = &w->waiting;
	uint64_t count = w->has_waiting ? n->count : 0;

	*n = (struct switch_note){.pid = copy->h.pid, .qpn = s->qpn, .count = count + more};
	snprintf(n->kind, sizeof(n->kind), "%s", stats_kind_name(s->kind));
	snprintf(n->outcome, sizeof(n->outcome), "%s", stats_outcome_name(s->outcome));
	snprintf(n->cause, sizeof(n->cause), "%s", shift_reason_name(s->cause));
	snprintf(n->from, sizeof(n->from), "%.*s", STATS_NIC_BYTES, s->from_nic);
	snprintf(n->to, sizeof(n->to), "%.*s", STATS_NIC_BYTES, s->nic);
	snprintf(n->peer, sizeof(n->peer), "%.63s", peer_of(copy, s->conn));
	w->has_waiting = true;
}

/* The statistics keep the last ones only, but say how many there were. */
static void take_switches(struct on_switch *w, struct switcher *s, const struct stats_copy *copy)
{
	const struct stats_switch *newest = copy->switches + copy->switch_count;

	if (copy->switch_count && (--newest)->seq > s->switches)
		take_switch(w, copy, newest, copy->switches_written - s->switches);
	s->switches = copy->switches_written;
}

static bool look_at_process(void *arg, const struct stats_place *place)
{
	struct on_switch *w = arg;
	struct stats_copy copy;
	struct switcher *s;

	if (stats_read_header_of(place->owner, place->path, &copy))
		return false;
	s = find_switcher(w, copy.h.nonce);
	s->there = true;
	if (!w->has_looked) /* from before this daemon */
		s->switches = switches_written(&copy.h);
	if (switches_written(&copy.h) == s->switches ||
	    stats_read_of(place->owner, place->path, &copy))
		return false;
	take_switches(w, s, &copy);
	stats_free(&copy);
	return false;
}

static void look(struct kvd *k)
{
	struct on_switch *w = &k->on_switch;
	struct switcher **at = &w->switchers, *s;

	for (s = w->switchers; s; s = s->next)
		s->there = false;
	/* Root's command is not for others to start, nor its time for them to take. */
	stats_each_own(k->o.job, look_at_process, w);
	w->has_looked = true;
	while ((s = *at)) {
		if (s->there) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		free(s);
	}
}

/* --- the command ------------------------------------------------------------------------------ */

static void set_number(const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	setenv(name, text, 1);
}

static void set_environment(const struct kvd *k, const struct switch_note *n)
{
	setenv("SHIFT_JOB", k->o.job, 1);
	setenv("SHIFT_SWITCH_KIND", n->kind, 1);
	setenv("SHIFT_SWITCH_OUTCOME", n->outcome, 1);
	setenv("SHIFT_SWITCH_CAUSE", n->cause, 1);
	setenv("SHIFT_SWITCH_NIC", n->from, 1);
	setenv("SHIFT_SWITCH_TO", n->to, 1);
	setenv("SHIFT_SWITCH_PEER", n->peer, 1);
	set_number("SHIFT_SWITCH_PID", n->pid);
	set_number("SHIFT_SWITCH_QPN", n->qpn);
	set_number("SHIFT_SWITCH_COUNT", n->count);
}

/* Of the daemon it has the user and the environment, and nothing else. */
static _Noreturn void become_command(const struct kvd *k)
{
	sigset_t none;

	sigemptyset(&none);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	if (chdir(k->o.on_switch_cwd) && chdir("/"))
		_exit(127);
	close_range(3, ~0U, 0);
	set_environment(k, &k->on_switch.waiting);
	execl("/bin/sh", "sh", "-c", k->o.on_switch, (char *)NULL);
	_exit(127);
}

static void run_waiting(struct kvd *k)
{
	struct on_switch *w = &k->on_switch;
	pid_t pid = fork();

	if (!pid)
		become_command(k);
	if (pid < 0) {
		say("--on-switch: cannot fork: %s", strerror(errno));
		return; /* it is tried again */
	}
	w->child = pid;
	w->runs++;
	w->has_waiting = false;
	w->over_at_ms = now_ms() + k->o.on_switch_limit_ms;
	w->has_ended = w->killed_for_time = w->killed_hard = false;
}

/* As a shell has it. */
static int shell_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* It has a group of its own as soon as it has begun. */
static bool signal_command(const struct on_switch *w, int sig)
{
	return !kill(-w->child, sig) || (!w->has_ended && !kill(w->child, sig));
}

static bool shell_has_ended(struct on_switch *w)
{
	int status;
	pid_t pid = w->has_ended ? 0 : waitpid(w->child, &status, WNOHANG);

	if (pid) {
		w->has_ended = pid > 0 || errno != EINTR;
		w->last_status = pid < 0 ? 127 : shell_status(status);
	}
	return w->has_ended;
}

static void reap(struct kvd *k)
{
	struct on_switch *w = &k->on_switch;

	if (!shell_has_ended(w))
		return;
	/* What it has started may go on after SIGTERM: SIGKILL comes. */
	if (w->killed_for_time && !w->killed_hard && signal_command(w, 0))
		return;
	w->child = 0;
	if (!w->last_status)
		return;
	w->failed++;
	if (w->killed_for_time)
		say("--on-switch: the command took longer than %g s, and was ended",
		    k->o.on_switch_limit_ms / 1e3);
	else
		say("--on-switch: the command failed with status %d", w->last_status);
}

static void end_overdue(struct on_switch *w)
{
	if (now_ms() < w->over_at_ms)
		return;
	w->killed_hard = w->killed_for_time;
	w->killed_for_time = true;
	signal_command(w, w->killed_hard ? SIGKILL : SIGTERM);
	w->over_at_ms = now_ms() + KILL_MS;
}

/* --- when ------------------------------------------------------------------------------------- */

int on_switch_tick(struct kvd *k)
{
	struct on_switch *w = &k->on_switch;
	int64_t now = now_ms();

	if (!k->o.on_switch)
		return INT_MAX;
	if (w->child)
		reap(k);
	if (w->child)
		end_overdue(w);
	if (now >= w->look_at_ms) {
		look(k);
		w->look_at_ms = now + LOOK_MS;
	}
	if (!w->child && w->has_waiting && !k->stopping)
		run_waiting(k);
	return LOOK_MS;
}

bool on_switch_is_idle(const struct kvd *k)
{
	return !k->on_switch.child && !k->on_switch.has_waiting;
}

void on_switch_free(struct kvd *k)
{
	struct switcher *s;

	if (k->on_switch.child)
		signal_command(&k->on_switch, SIGTERM);
	while ((s = k->on_switch.switchers)) {
		k->on_switch.switchers = s->next;
		free(s);
	}
}
