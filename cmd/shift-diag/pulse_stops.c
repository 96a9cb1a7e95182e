/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What stands still, and since whom. */
#include "cmd/shift-diag/pulse.h"

#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

/* For how long each file's records say nothing of an operation. */
static uint64_t last_word(const struct rec_file *f)
{
	return f->ended_ns ? f->ended_ns : f->read_ns;
}

static uint64_t longest_gap(const struct pulse *p, size_t comm)
{
	uint64_t gap = 0;

	for (size_t i = 0; i < p->ops; i++)
		for (int m = 0; p->op[i].comm == comm && m < p->comm[comm].size; m++)
			if (p->op[i].part[m].ended && p->op[i].part[m].gap_ns > (int64_t)gap)
				gap = (uint64_t)p->op[i].part[m].gap_ns;
	return gap;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t last_act(const struct rec_file *f)
{
	uint64_t t = 0;

	for (size_t i = 0; i < f->coll_n; i++)
		t = later(t, later(f->coll[i].launch_ns, f->coll[i].end_ns));
	for (size_t i = 0; i < f->p2p_n; i++)
		t = later(t, later(f->p2p[i].launch_ns, f->p2p[i].end_ns));
	return t;
}

/* Silence of an operation counts from its last sign of life at any member. */
static bool is_hung(const struct pulse *p, const struct pulse_op *o)
{
	const struct pulse_comm *c = p->comm + o->comm;
	uint64_t last = o->start_ns, now = 0;
	uint64_t known = UINT64_MAX; /* until when, of those that are not done */
	bool unfinished = false, died = false;

	for (int m = 0; m < c->size; m++) {
		const struct pulse_part *part = o->part + m;

		last = later(last, later(part->start_ns, later(part->sent.last_ns, part->end_ns)));
		if (c->file[m] < 0)
			continue;
		now = later(now, last_word(p->records->file + c->file[m]));
		if (part->takes_part && !part->ended) {
			const struct rec_file *f = p->records->file + c->file[m];

			unfinished = true;
			if (!f->died && !f->ended_ns && f->read_ns < known)
				known = f->read_ns;
		}
		died = died ||
		       (part->takes_part && !part->ended && p->records->file[c->file[m]].died);
	}
	for (size_t i = 0; i < o->messages; i++)
		unfinished = unfinished || o->message[i].unfinished;
	if (!unfinished)
		return false;
	now = known < now ? known : now; /* files are not copied all at once */
	/* Who has not come may be busy elsewhere. */
	for (int m = 0; now > last && m < c->size; m++)
		if (c->file[m] >= 0 && o->part[m].takes_part && !o->part[m].started)
			last = later(last, last_act(p->records->file + c->file[m]));
	return died || (now > last && now - last >= p->options.hang_ns &&
			now - last >= 3 * longest_gap(p, o->comm));
}

/* A rank inside one operation that hangs cannot join another. */
static bool is_blocked(const struct pulse *p, const bool *hung, int file,
		       const struct pulse_op *but)
{
	for (size_t i = 0; i < p->ops; i++) {
		const struct pulse_comm *c = p->comm + p->op[i].comm;

		for (int m = 0; hung[i] && p->op + i != but && m < c->size; m++)
			if (c->file[m] == file && p->op[i].part[m].started &&
			    !p->op[i].part[m].ended)
				return true;
	}
	return false;
}

static bool is_absent(const struct pulse *p, const struct pulse_op *o, int m)
{
	return o->part[m].takes_part && !o->part[m].started && p->comm[o->comm].file[m] >= 0;
}

static int unseen(const struct pulse *p, const struct pulse_op *o)
{
	const struct pulse_comm *c = p->comm + o->comm;
	int n = 0;

	for (int m = 0; m < c->size; m++)
		n += c->file[m] < 0 && o->part[m].takes_part;
	return n;
}

static void says_op(struct verdict *v, const struct pulse *p, const struct pulse_op *o)
{
	int started = 0, ended = 0, all = 0;

	for (int m = 0; m < p->comm[o->comm].size; m++) {
		started += o->part[m].started;
		ended += o->part[m].started && o->part[m].ended;
		all += o->part[m].takes_part;
	}
	verdict_says(v,
		     "%s %llu of communicator %s stands still: %d of %d members have begun, %d "
		     "have ended",
		     o->op, (unsigned long long)o->seq, shown(p->comm[o->comm].name), started, all,
		     ended);
	v->first_seen_ns = o->start_ns;
	v->class = CLASS_STOPPED;
}

/* ---- missing start -------------------------------------------------------------------------- */

static void blame_absent(const struct pulse *p, const struct pulse_op *o, const bool *hung,
			 struct verdict *v)
{
	const struct pulse_comm *c = p->comm + o->comm;

	v->rule = "missing-start";
	v->component = COMPONENT_COMPUTATION;
	v->level = LEVEL_MACHINE;
	v->confidence = .95;
	says_op(v, p, o);
	for (int m = 0; m < c->size; m++) {
		if (!is_absent(p, o, m) || is_blocked(p, hung, c->file[m], o))
			continue;
		pulse_blame(p, c, m, v);
		if (p->records->file[c->file[m]].died)
			verdict_says(v, "%s has not begun it: its process is gone",
				     pulse_who(p, c, m));
		else if (o->part[m].launch_ns)
			verdict_says(v, "%s has launched it, and has posted nothing",
				     pulse_who(p, c, m));
		else
			verdict_says(v, "%s has not begun it, and is in no other operation",
				     pulse_who(p, c, m));
	}
	if (2 * v->culprits_n > (size_t)c->size && c->size > 2)
		v->confidence = .5;
	verdict_advises(v,
			"see what this process does (its stack, its GPU, its host's kernel log)");
}

static bool missing_start(const struct pulse *p, const bool *hung, struct verdict *v)
{
	for (size_t i = 0; i < p->ops; i++) {
		const struct pulse_comm *c = p->comm + p->op[i].comm;

		for (int m = 0; hung[i] && m < c->size; m++)
			if (is_absent(p, p->op + i, m) &&
			    !is_blocked(p, hung, c->file[m], p->op + i)) {
				blame_absent(p, p->op + i, hung, v);
				return true;
			}
	}
	return false;
}

/* ---- a process is gone --------------------------------------------------------------------- */

/* Where one is, the others wait; where several are, they may have ended as they waited in vain. */
static bool one_is_gone(const struct pulse *p, const bool *hung, struct verdict *v)
{
	const struct pulse_op *o = NULL;
	int gone = 0, who = REC_NONE;

	for (size_t i = 0; i < p->records->files; i++)
		gone += p->records->file[i].died;
	for (size_t i = 0; gone == 1 && !o && i < p->ops; i++) {
		const struct pulse_comm *c = p->comm + p->op[i].comm;

		for (int m = 0; hung[i] && m < c->size; m++)
			if (c->file[m] >= 0 && p->records->file[c->file[m]].died &&
			    p->op[i].part[m].takes_part && !p->op[i].part[m].ended) {
				o = p->op + i;
				who = m;
			}
	}
	if (!o)
		return false;
	v->rule = "process-gone";
	v->component = COMPONENT_COMPUTATION;
	v->level = LEVEL_MACHINE;
	v->confidence = .95;
	says_op(v, p, o);
	pulse_blame(p, p->comm + o->comm, who, v);
	verdict_says(v, "the process of %s is gone, and those of all others are not",
		     pulse_who(p, p->comm + o->comm, who));
	verdict_advises(v, "why did it end? Its output, and the kernel log of its host");
	return true;
}

/* ---- all have begun ------------------------------------------------------------------------- */

static bool is_open(const struct pulse *p, const struct pulse_op *o)
{
	for (int m = 0; m < p->comm[o->comm].size; m++)
		if (is_absent(p, o, m))
			return false;
	return true;
}

/* Who of the others has sent to m in this operation. */
static uint64_t received(const struct pulse *p, const struct pulse_op *o, int m)
{
	const struct pulse_comm *c = p->comm + o->comm;
	bool *to = check_alloc(calloc((size_t)p->ranks + 1, 1));
	uint64_t bytes = 0;

	if (c->rank[m] >= 0)
		to[c->rank[m]] = true;
	for (int k = 0; k < c->size; k++)
		if (k != m && c->file[k] >= 0 && o->part[k].sent.last_ns)
			bytes += pulse_traffic(p->curve + c->file[k], to, p->ranks,
					       o->part[k].sent.first_ns, o->part[k].sent.last_ns)
					 .cv;
	free(to);
	return bytes;
}

/* Of members that have sent as little: the one to whom most was sent, which went no further. */
static int smallest_volume(const struct pulse *p, const struct pulse_op *o, uint64_t *second)
{
	uint64_t best = UINT64_MAX, got = 0;
	int size = p->comm[o->comm].size, who = REC_NONE;

	for (int m = 0; m < size; m++)
		if (o->part[m].started && o->part[m].sent.cv < best)
			best = o->part[m].sent.cv;
	*second = UINT64_MAX;
	for (int m = 0; m < size; m++) {
		uint64_t r;

		if (!o->part[m].started)
			continue;
		r = o->part[m].sent.cv == best ? received(p, o, m) + 1 : 0;
		if (r > got) {
			got = r;
			who = m;
		}
	}
	for (int m = 0; m < size; m++)
		if (m != who && o->part[m].started && o->part[m].sent.cv < *second)
			*second = o->part[m].sent.cv;
	return who;
}

static void blame_smallest(const struct pulse *p, const struct pulse_op *o, struct verdict *v)
{
	const struct pulse_comm *c = p->comm + o->comm;
	uint64_t second;
	int who = smallest_volume(p, o, &second);

	v->rule = "smallest-volume";
	v->component = COMPONENT_COMMUNICATION;
	says_op(v, p, o);
	if (who < 0 || second == UINT64_MAX || second == o->part[who].sent.cv) {
		v->level = LEVEL_GROUP;
		v->confidence = .4;
		for (int m = 0; m < c->size; m++)
			if (o->part[m].started)
				pulse_blame(p, c, m, v)->score = 1. / c->size;
		verdict_says(v, "all have sent as much: whose NIC or link it is cannot be told");
		return;
	}
	v->level = LEVEL_MACHINE;
	v->confidence = second - o->part[who].sent.cv > p->options.slice_bytes / 2 ? .9 : .7;
	pulse_blame(p, c, who, v);
	verdict_says(v, "%s has sent least, %llu bytes; the next one %llu", pulse_who(p, c, who),
		     (unsigned long long)o->part[who].sent.cv, (unsigned long long)second);
	verdict_advises(v, "look at its NIC and link: shift-diag rails, shift-diag ping there");
}

/* Messages unfinished, from or to each member. */
static int *unfinished_of(const struct pulse *p, const struct pulse_op *o, int *all)
{
	int *n = check_alloc(calloc((size_t)p->comm[o->comm].size + 1, sizeof(*n)));

	*all = 0;
	for (size_t i = 0; i < o->messages; i++) {
		if (!o->message[i].unfinished)
			continue;
		++*all;
		n[o->message[i].from]++;
		n[o->message[i].to]++;
	}
	return n;
}

/* Its own NIC has said that it failed, or lost its link. */
static bool nic_failed(const struct pulse *p, const struct pulse_comm *c, int m)
{
	const struct rec_file *f;

	if (c->file[m] < 0)
		return false;
	f = p->records->file + c->file[m];
	for (size_t i = 0; i < f->async_n; i++)
		if (strstr(f->async[i].event, "PORT_ERR") ||
		    strstr(f->async[i].event, "DEVICE_FATAL"))
			return true;
	return false;
}

/* Of two ends of the same messages: the one whose NIC failed. */
static void look_at_nics(const struct pulse *p, const struct pulse_op *o, int all, int *n,
			 int *common, struct verdict *v)
{
	const struct pulse_comm *c = p->comm + o->comm;
	int failed = 0;

	for (int m = 0; m < c->size; m++)
		failed += n[m] == all && nic_failed(p, c, m);
	if (*common < 2 || failed != 1)
		return;
	for (int m = 0; m < c->size; m++) {
		if (n[m] != all)
			continue;
		if (nic_failed(p, c, m))
			verdict_says(v, "of the two ends the NIC of %s has reported an error",
				     pulse_who(p, c, m));
		else
			n[m] = 0;
	}
	*common = 1;
}

static void blame_common(const struct pulse *p, const struct pulse_op *o, struct verdict *v)
{
	const struct pulse_comm *c = p->comm + o->comm;
	int all, *n = unfinished_of(p, o, &all), common = 0;

	for (int m = 0; m < c->size; m++)
		common += all && n[m] == all;
	if (all)
		look_at_nics(p, o, all, n, &common, v);
	v->rule = "unfinished-p2p";
	v->component = COMPONENT_COMMUNICATION;
	v->level = common == 1 ? LEVEL_MACHINE : common ? LEVEL_LINK : LEVEL_GROUP;
	v->confidence = common == 1 ? .9 : common ? .6 : .4;
	says_op(v, p, o);
	for (int m = 0; m < c->size; m++)
		if (common ? n[m] == all : n[m])
			pulse_blame(p, c, m, v)->score = 1. / (common ? common : c->size);
	if (common)
		verdict_says(v, "%s is an end of all %d messages that are unfinished",
			     v->culprits_n == 1 ? "it" : "each of them", all);
	else
		verdict_says(v, "%d messages are unfinished, and no rank is an end of all", all);
	verdict_advises(v, "look at its NIC and link: shift-diag rails, shift-diag ping there");
	free(n);
}

/* Without the records of a member nobody knows whether it has begun. */
static void blame_unseen(const struct pulse *p, const struct pulse_op *o, struct verdict *v)
{
	const struct pulse_comm *c = p->comm + o->comm;

	v->rule = "no-records";
	v->level = LEVEL_RANK;
	v->confidence = .4;
	says_op(v, p, o);
	for (int m = 0; m < c->size; m++)
		if (c->file[m] < 0 && o->part[m].takes_part) {
			pulse_blame(p, c, m, v)->score = 1. / unseen(p, o);
			verdict_says(v, "there are no records of %s, and all others have begun",
				     pulse_who(p, c, m));
		}
	v->class = CLASS_UNDECIDED; /* as shift-diag(1) says */
	verdict_advises(v, "is its process alive? Fetch its records, and ask again");
}

static bool all_begun(const struct pulse *p, const bool *hung, struct verdict *v)
{
	for (size_t i = 0; i < p->ops; i++) {
		const struct pulse_op *o = p->op + i;

		if (!hung[i] || !is_open(p, o))
			continue;
		if (o->messages)
			blame_common(p, o, v);
		else if (unseen(p, o))
			blame_unseen(p, o, v);
		else
			blame_smallest(p, o, v);
		return true;
	}
	return false;
}

/* Every operation has ended, or waits for a rank that waits elsewhere. */
static bool is_silent(const struct pulse *p, struct verdict *v)
{
	uint64_t last = 0, now = 0, patience = p->options.hang_ns;
	bool lives = false;

	for (size_t i = 0; i < p->comms; i++)
		patience = later(patience, 3 * longest_gap(p, i));
	for (size_t i = 0; i < p->ops; i++)
		for (int m = 0; m < p->comm[p->op[i].comm].size; m++)
			last = later(last,
				     later(p->op[i].part[m].end_ns, p->op[i].part[m].start_ns));
	for (size_t i = 0; i < p->records->files; i++) {
		const struct rec_file *f = p->records->file + i;

		lives = lives || ((f->pid || f->rank >= 0) && !f->ended_ns);
		now = later(now, last_word(f));
	}
	if (!lives || !last || now < last || now - last < patience)
		return false;
	v->rule = "silence";
	v->class = CLASS_UNDECIDED;
	v->confidence = .5;
	v->first_seen_ns = last;
	verdict_says(v, "nothing has begun or ended for the last %.3f s",
		     (double)(now - last) / 1e9);
	verdict_advises(v, "what do the processes do? All compute, or all hang");
	return true;
}

bool pulse_stopped(const struct pulse *p, struct verdict *v)
{
	bool *hung = check_alloc(calloc(p->ops + 1, sizeof(*hung))), found;

	for (size_t i = 0; i < p->ops; i++)
		hung[i] = is_hung(p, p->op + i);
	found = one_is_gone(p, hung, v) || missing_start(p, hung, v) || all_begun(p, hung, v) ||
		is_silent(p, v);
	free(hung);
	return found;
}
