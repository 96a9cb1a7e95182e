/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* One injection from its beginning to its end. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/printable.h"
#include "faultinject/inject.h"

enum {
	JOURNALS_MAX = 256,
	CAP_NET_ADMIN_BIT = 12,
	GUARDS_MAX = 10,    /* killed ones */
	PERIOD_MORE_MS = 2, /* a share of a period has 1 ms at least */
	LETS_GO_MS = 15000, /* a driver needs up to 10 s to come back */
};

/* Why it ends. */
enum ending { GOES_ON, BY_TIME, BY_COUNT, BY_SIGNAL, BY_EOF, BY_ERROR, BY_GUARD };
static const char *const ending_name[] = {"", "time", "count", "signal", "eof", "error", "guard"};

struct run {
	struct injection in;
	int signals, signal;
	struct guard guard;
	int64_t begun_ms, end_ms, next_ms, finish_ms;
	uint64_t periods;
	int64_t last_ms;     /* when the guard takes it for over */
	int64_t by_guard_ms; /* when the guard has undone it, or 0 */
	int guards_lost;
	bool on, is_said; /* is_said: that it has begun */
};

double inject_random(struct injection *in)
{
	in->random ^= in->random << 13;
	in->random ^= in->random >> 7;
	in->random ^= in->random << 17;
	return (double)(in->random >> 11) / 9007199254740992.0;
}

/* --- may it be? ------------------------------------------------------------------------------ */

static bool may_administer(void)
{
	unsigned long long caps = 0;
	char line[128];
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			break;
	if (f)
		fclose(f);
	return caps >> CAP_NET_ADMIN_BIT & 1;
}

/* The names of the faults of NICs that do not need the kernel to see packets. */
static void list_other_faults(char *text, size_t bytes)
{
	*text = 0;
	for (const struct fault *f = faults; f->name; f++)
		if ((f->options & OPT_NIC) && !f->wire)
			snprintf(text + strlen(text), bytes - strlen(text), "%s%s",
				 *text ? ", " : "", f->name);
}

static int check_kind(const struct injection *in, struct problem *p)
{
	const struct target *t = &in->t;
	char others[256];

	if (in->fault->wire && t->bypasses) {
		list_other_faults(others, sizeof(others));
		return problem_set(
			p, INJECT_REFUSED,
			"RoCE packets of %s never meet the kernel, where %s acts; what works: %s",
			t->rdma, in->fault->name, others);
	}
	return 0;
}

static int check_fault(struct injection *in, struct problem *p)
{
	bool has_nic = in->fault->options & OPT_NIC;
	int status = has_nic ? target_find(&in->o, &in->t, p) : 0;

	if (!status && has_nic)
		status = check_kind(in, p);
	if (!status && has_nic && !in->o.sure && (in->fault->resource || in->fault->wire))
		status = target_is_safe(&in->t, p);
	if (!status && has_nic && !in->o.dry_run && !may_administer())
		status = problem_set(p, INJECT_NO_PERMISSION,
				     "%s: CAP_NET_ADMIN is needed; run it as root",
				     in->fault->name);
	if (!status && in->fault->check)
		status = in->fault->check(in, p);
	return status;
}

/*
 * A link that goes down, or changes its MTU, along with a lower link cannot have a fault of its
 * own: the fault that is undone first would restore the state that the other one has made.
 */
static bool shares_link_state(const struct injection *in, const cJSON *j)
{
	const char *netdev = json_text(j, "netdev");

	return netdevs_are_stacked(in->t.netdev, netdev) ||
	       (!strcmp(in->fault->name, "mtu") && !strcmp(json_text(j, "fault"), "mtu") &&
		netdevs_share_upper(in->t.netdev, netdev));
}

static bool excludes_other(const struct injection *in, const cJSON *j)
{
	enum resource r = in->fault->resource;

	if (r == RESOURCE_NONE || r != (enum resource)json_uint32(j, "resource") ||
	    journal_is_of_another_boot(j) || cJSON_IsTrue(cJSON_GetObjectItem(j, "waiting")))
		return false;
	if (r == RESOURCE_PROCESS)
		return json_number(j, "process", 0) == in->o.pid;
	if (journal_is_of_another_netns(j))
		return false;
	if (r == RESOURCE_LINK && shares_link_state(in, j))
		return true;
	return json_number(j, "ifindex", 0) == in->t.ifindex;
}

static int check_overlap(const struct injection *in, struct problem *p)
{
	cJSON *list[JOURNALS_MAX];
	unsigned int n = journal_list(list, JOURNALS_MAX, NULL);
	int status = n < JOURNALS_MAX
			     ? 0
			     : problem_set(p, INJECT_REFUSED, "too many faults are active");

	for (unsigned int i = 0; i < n; i++) {
		if (!status && excludes_other(in, list[i]))
			status = problem_set(
				p, INJECT_REFUSED,
				"%s is active there, and excludes %s; see shift-inject list",
				json_text(list[i], "id"), in->fault->name);
		cJSON_Delete(list[i]);
	}
	return status;
}

/* --- what is said ---------------------------------------------------------------------------- */

static const char *target_prefix(const struct injection *in, char text[128])
{
	const struct target *t = &in->t;

	*text = 0;
	if (*t->rdma)
		snprintf(text, 128, "%s (%s): ", t->rdma, t->netdev);
	else if (*t->netdev)
		snprintf(text, 128, "%s: ", t->netdev);
	return text;
}

static void say_json(const struct injection *in, cJSON *o)
{
	struct timespec t;
	char *json, *s;

	clock_gettime(CLOCK_REALTIME, &t);
	cJSON_AddStringToObject(o, "id", in->id);
	cJSON_AddNumberToObject(o, "unix_s", (double)t.tv_sec + (double)(t.tv_nsec / 1000) / 1e6);
	json = cJSON_PrintUnformatted(o);
	s = printable_json(json);
	puts(s ? s : "{}");
	fflush(stdout);
	free(json);
	free(s);
	cJSON_Delete(o);
}

static cJSON *event_json(const char *name)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "event", name);
	return o;
}

static void say_begin(const struct injection *in)
{
	char text[128], detail[1024], until[48] = "until interrupted";
	cJSON *o;

	if (in->o.for_ms >= 0)
		snprintf(until, sizeof(until), "for %g s", (double)in->o.for_ms / 1000);
	if (!in->o.json) {
		printf("%s: %s%s%s%s\n", in->id, target_prefix(in, text),
		       printable(detail, sizeof(detail), in->detail), in->fault->once ? "" : ", ",
		       in->fault->once ? "" : until);
		fflush(stdout);
		return;
	}
	o = event_json("begin");
	cJSON_AddStringToObject(o, "fault", in->fault->name);
	cJSON_AddStringToObject(o, "nic", in->t.rdma);
	cJSON_AddStringToObject(o, "netdev", in->t.netdev);
	cJSON_AddStringToObject(o, "detail", in->detail);
	cJSON_AddNumberToObject(o, "seed", (double)in->o.seed);
	say_json(in, o);
}

static void say_wave(const struct run *r)
{
	cJSON *o;

	if (!r->in.o.json)
		return;
	o = event_json(r->on ? "on" : "off");
	cJSON_AddNumberToObject(o, "period", (double)r->periods + 1);
	say_json(&r->in, o);
}

static void say_end(const struct run *r, enum ending why, bool undone)
{
	const struct injection *in = &r->in;
	int64_t end_ms = r->by_guard_ms ? r->by_guard_ms : inject_now_ms();
	double seconds = (double)(end_ms - r->begun_ms) / 1000;
	uint64_t matched = 0, hit = 0;
	bool counted = packet_counters(in->state_fd, &matched, &hit);
	cJSON *o;

	if (!in->o.json) {
		printf("%s: %s%s after %.1f s", in->id, undone ? "undone" : "NOT UNDONE",
		       r->by_guard_ms ? " by its guard" : "", seconds);
		if (counted)
			printf("; %llu of %llu packets hit", (unsigned long long)hit,
			       (unsigned long long)matched);
		putchar('\n');
		fflush(stdout);
		return;
	}
	o = event_json("end");
	cJSON_AddStringToObject(o, "reason", ending_name[why]);
	if (r->signal)
		cJSON_AddNumberToObject(o, "signal", r->signal);
	cJSON_AddNumberToObject(o, "seconds", seconds);
	cJSON_AddBoolToObject(o, "undone", undone);
	if (counted) {
		cJSON_AddNumberToObject(o, "matched", (double)matched);
		cJSON_AddNumberToObject(o, "hit", (double)hit);
	}
	say_json(in, o);
}

/* --- while it lasts -------------------------------------------------------------------------- */

/* All signals that end a process by default, except those of a crash. */
static int open_signals(void)
{
	static const int list[] = {SIGHUP,  SIGINT,    SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM,
				   SIGPROF, SIGVTALRM, SIGXCPU, SIGXFSZ, SIGPWR,  SIGIO,   SIGCHLD};
	static const int ignored[] = {SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++)
		sigaddset(&set, list[i]);
	for (int s = SIGRTMIN; s <= SIGRTMAX; s++)
		sigaddset(&set, s);
	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void put_number(cJSON *o, const char *key, double n)
{
	cJSON_DeleteItemFromObject(o, key);
	cJSON_AddNumberToObject(o, key, n);
}

static void name_guard(struct run *r)
{
	cJSON *j = r->in.journal;

	put_number(j, "guard", r->guard.pid);
	put_number(j, "guard_began", (double)process_began(r->guard.pid));
}

static int write_guard(struct run *r, struct problem *p)
{
	int lock = journal_lock(p), status = lock < 0 ? p->status : 0;

	name_guard(r);
	if (!status)
		status = journal_write(&r->in, p);
	journal_unlock(lock);
	return status;
}

/* Somebody has killed the guard: without one, the fault would outlive this process. */
static enum ending replace_guard(struct run *r, struct problem *p)
{
	if (guard_has_undone(&r->guard))
		return BY_GUARD;
	guard_release(&r->guard);
	if (++r->guards_lost > GUARDS_MAX || guard_start(&r->guard, r->in.id)) {
		problem_set(p, INJECT_FAILED, "%s: it has no guard process any more", r->in.id);
		return BY_ERROR;
	}
	guard_set_end(&r->guard, r->last_ms);
	return write_guard(r, p) ? BY_ERROR : GOES_ON;
}

/* The fault is over when one of its helper processes ends. */
static enum ending child_ended(struct run *r, struct problem *p)
{
	enum ending why = GOES_ON;
	pid_t pid;

	while (why == GOES_ON && (pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		if (pid != r->guard.pid) {
			problem_set(p, INJECT_FAILED, "%s: a process of it has ended", r->in.id);
			return BY_ERROR;
		}
		r->guard.pid = -1; /* the number may be another process's now */
		why = replace_guard(r, p);
	}
	return why;
}

static enum ending take_signal(struct run *r, struct problem *p)
{
	struct signalfd_siginfo s;
	enum ending why = GOES_ON;

	while (why == GOES_ON && read(r->signals, &s, sizeof(s)) == sizeof(s)) {
		if (s.ssi_signo == SIGCHLD) {
			why = child_ended(r, p);
		} else {
			r->signal = (int)s.ssi_signo;
			why = BY_SIGNAL;
		}
	}
	return why;
}

/* Waits until then, or until something ends the fault earlier. */
static enum ending wait_until(struct run *r, int64_t at, struct problem *p)
{
	struct pollfd fds[2] = {{.fd = r->signals, .events = POLLIN},
				{.fd = r->in.o.until_eof ? STDIN_FILENO : -1, .events = POLLIN}};
	enum ending why = GOES_ON;

	while (why == GOES_ON) {
		char byte[64];

		if (inject_now_ms() >= at)
			return GOES_ON;
		inject_poll(fds, 2, at);
		if (fds[0].revents)
			why = take_signal(r, p);
		if (why == GOES_ON && fds[1].revents && read(STDIN_FILENO, byte, sizeof(byte)) <= 0)
			why = BY_EOF;
	}
	return why;
}

static int64_t phase_ms(struct run *r)
{
	const struct inject_options *o = &r->in.o;
	double share = r->on ? o->duty : 1 - o->duty, ms = (double)o->period_ms * share;

	if (o->jitter > 0)
		ms *= 1 + o->jitter * (2 * inject_random(&r->in) - 1);
	return ms < 1 ? 1 : (int64_t)ms;
}

static enum ending next_wave(struct run *r, struct problem *p)
{
	int status;

	if (!guard_enter(&r->guard))
		return BY_GUARD;
	status = r->in.fault->wave(&r->in, !r->on, p);
	guard_leave(&r->guard);
	r->on = !r->on;
	r->next_ms += phase_ms(r);
	return status ? BY_ERROR : GOES_ON;
}

/* Without a lock: whoever reads may be slow, or stopped. */
static void count_wave(struct run *r)
{
	say_wave(r);
	r->periods += !r->on;
}

/* A process that was stopped does not make up for the waves of that time. */
static void skip_missed_waves(struct run *r)
{
	int64_t now_ms = inject_now_ms();

	if (r->next_ms + r->in.o.period_ms < now_ms)
		r->next_ms = now_ms;
}

static enum ending finish_fault(struct run *r, struct problem *p)
{
	int lock = journal_lock(p), status = lock < 0 ? p->status : 0;
	enum ending why = GOES_ON;

	r->finish_ms = INJECT_NEVER;
	if (guard_has_undone(&r->guard))
		why = BY_GUARD;
	else if (status || r->in.fault->finish(&r->in, p))
		why = BY_ERROR;
	journal_unlock(lock);
	return why;
}

/* When something is to be done. */
static int64_t next_event(const struct run *r)
{
	int64_t at = r->in.fault->wave && r->next_ms < r->end_ms ? r->next_ms : r->end_ms;

	return r->finish_ms < at ? r->finish_ms : at;
}

static enum ending keep_up(struct run *r, struct problem *p)
{
	for (;;) {
		enum ending why = wait_until(r, next_event(r), p);

		if (why == GOES_ON && inject_now_ms() >= r->end_ms)
			why = BY_TIME;
		if (why == GOES_ON && inject_now_ms() >= r->finish_ms)
			why = finish_fault(r, p);
		if (why != GOES_ON)
			return why;
		if (!r->in.fault->wave || inject_now_ms() < r->next_ms)
			continue;
		if (!r->on && r->in.o.count && r->periods == r->in.o.count)
			return BY_COUNT;
		skip_missed_waves(r);
		why = next_wave(r, p);
		if (why != GOES_ON)
			return why;
		count_wave(r);
	}
}

/* --- from beginning to end ------------------------------------------------------------------- */

/* A fault that waits has changed nothing and excludes no other, but list shows it and undo ends
 * it. */
static int announce_fault(struct injection *in, struct problem *p)
{
	int lock = journal_lock(p), status = lock < 0 ? p->status : journal_begin(in, p);

	if (!status) {
		cJSON_AddTrueToObject(in->journal, "waiting");
		cJSON_AddStringToObject(in->journal, "detail", in->detail);
		status = journal_write(in, p);
	}
	journal_unlock(lock);
	return status;
}

static int start_journal(struct run *r, struct problem *p)
{
	struct injection *in = &r->in;
	int status;

	cJSON_Delete(in->journal); /* announce_fault()'s */
	in->journal = NULL;
	status = journal_begin(in, p);
	if (status)
		return status;
	name_guard(r);
	cJSON_AddStringToObject(in->journal, "detail", in->detail);
	return 0;
}

/* How long the fault can last, by its options; INJECT_NEVER: for ever. */
static int64_t longest_ms(const struct inject_options *o)
{
	double period_ms = (double)o->period_ms * (1 + o->jitter) + PERIOD_MORE_MS;

	if (o->for_ms >= 0)
		return o->for_ms;
	return o->count ? (int64_t)((double)o->count * period_ms) : INJECT_NEVER;
}

/* The guard waits for whoever has the lock; only if that is given away it needs to be told. */
static void tell_guard(struct run *r, bool changing)
{
	int64_t longest = longest_ms(&r->in.o);

	if (longest != INJECT_NEVER && changing && r->in.fault->lets_go)
		longest += LETS_GO_MS;
	r->last_ms = longest == INJECT_NEVER ? longest : inject_now_ms() + longest;
	guard_set_end(&r->guard, r->last_ms);
}

/* Called when the fault is in force: on a machine under load that can take seconds. */
static void start_clock(struct run *r)
{
	const struct inject_options *o = &r->in.o;

	r->begun_ms = r->next_ms = inject_now_ms();
	r->end_ms = o->for_ms >= 0 ? r->begun_ms + o->for_ms : INJECT_NEVER;
	r->finish_ms = r->in.fault->finish ? r->begun_ms + o->time_us / 1000 : INJECT_NEVER;
	tell_guard(r, false);
}

static int begin_fault(struct run *r, struct problem *p)
{
	struct injection *in = &r->in;
	/* Before the lock, which it must not share. */
	int err = guard_start(&r->guard, in->id), lock, status;
	char left[200] = "";

	if (err)
		return problem_set(p, INJECT_FAILED, "no guard process: %s", strerror(-err));
	lock = journal_lock(p);
	status = lock < 0 ? p->status : undo_abandoned(left, sizeof(left), p);
	if (!status)
		status = check_overlap(in, p);
	if (!status)
		status = start_journal(r, p);
	/* Should this process be stopped amid the change. */
	tell_guard(r, true);
	if (!status && in->fault->begin)
		status = in->fault->begin(in, p);
	start_clock(r);
	if (!status && in->fault->wave && next_wave(r, p) != GOES_ON)
		status = p->status;
	journal_unlock(lock);
	/* Not before: nobody may read it. */
	if (*left)
		fprintf(stderr, "shift-inject: %s: left behind by a killed shift-inject; %s\n",
			left, status == INJECT_NOT_UNDONE ? "not (all) undone" : "undone");
	if (!status && in->fault->wave)
		count_wave(r);
	return status;
}

static int undo_fault(struct run *r, struct problem *p)
{
	int lock, status = 0;

	if (r->in.journal) {
		if (r->in.fault->lets_go)
			tell_guard(r, true);
		lock = journal_lock(p);
		/* Not twice: another fault may be there now. */
		r->by_guard_ms = guard_has_undone(&r->guard);
		if (!r->by_guard_ms)
			status = lock < 0 ? INJECT_NOT_UNDONE : undo_journal(r->in.journal, p);
		journal_unlock(lock);
		cJSON_Delete(r->in.journal);
		r->in.journal = NULL;
	}
	if (status != INJECT_NOT_UNDONE)
		guard_release(&r->guard);
	return status;
}

static int show_dry_run(struct run *r, struct problem *p)
{
	struct injection *in = &r->in;
	int status = check_overlap(in, p);

	if (!status && in->fault->begin)
		status = in->fault->begin(in, p);
	if (!status && in->fault->wave) {
		status = in->fault->wave(in, true, p);
		if (!status)
			status = in->fault->wave(in, false, p);
	}
	return status;
}

/* 0: the fault may begin. It is checked again, as it may have become impossible or unsafe. */
static int wait_for_it(struct run *r, enum ending *why, struct problem *p)
{
	struct injection *in = &r->in;
	/* A fault that is over at once leaves nothing to undo, and needs no journal. */
	int status = in->fault->once ? 0 : announce_fault(in, p);

	*why = GOES_ON;
	if (!status)
		*why = wait_until(r, inject_now_ms() + in->o.after_ms, p);
	return status || *why != GOES_ON ? status : check_fault(in, p);
}

static int run_once(struct run *r, struct problem *p)
{
	int status = r->in.fault->begin(&r->in, p);

	if (!status)
		say_begin(&r->in);
	return status;
}

static enum ending run_through(struct run *r, struct problem *p)
{
	if (begin_fault(r, p))
		return BY_ERROR;
	say_begin(&r->in);
	r->is_said = true;
	return keep_up(r, p);
}

/* What had gone wrong does not matter then: it is what the guard did, or came after it. */
static int say_late(const struct run *r, struct problem *p)
{
	p->status = 0;
	return problem_set(p, INJECT_LATE,
			   "%s: this process stood still when the time was over; its guard has "
			   "undone the fault",
			   r->in.id);
}

static int run_fault(struct run *r, struct problem *p)
{
	struct problem undoing = {0};
	enum ending why = GOES_ON;
	int status = 0;
	bool undone;

	r->signals = open_signals();
	if (r->in.o.after_ms)
		status = wait_for_it(r, &why, p);
	if (!status && why == GOES_ON && r->in.fault->once)
		return run_once(r, p);
	if (!status && why == GOES_ON)
		why = run_through(r, p);
	if (!status && why == BY_ERROR)
		status = p->status;
	undone = !undo_fault(r, &undoing);
	if (!undone)
		*p = undoing;
	else if (r->by_guard_ms) {
		why = BY_GUARD;
		status = say_late(r, p);
	}
	if (r->is_said)
		say_end(r, undone ? why : BY_ERROR, undone);
	return undone ? status : INJECT_NOT_UNDONE;
}

int fault_run(const struct fault *fault, const struct inject_options *o, struct problem *p)
{
	struct run r = {.in = {.fault = fault, .o = *o, .state_fd = -1}, .guard = GUARD_NONE};
	int status;

	r.in.random = o->seed * 0x9e3779b97f4a7c15ull | 1;
	if (!r.in.o.direction)
		r.in.o.direction = fault->direction;
	snprintf(r.in.id, sizeof(r.in.id), "%s-%d", fault->name, getpid());
	snprintf(r.in.detail, sizeof(r.in.detail), "%s", fault->summary);
	status = check_fault(&r.in, p);
	if (!status && o->dry_run)
		status = show_dry_run(&r, p);
	else if (!status)
		status = run_fault(&r, p);
	return status;
}
