/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/pulse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

/* The NIC of a process, if all its queue pairs are on one. */
static void find_nic(const struct rec_file *f, struct culprit *k)
{
	for (size_t i = 0; i < f->qp_n; i++) {
		if (!*f->qp[i].nic)
			continue;
		if (*k->nic && strcmp(k->nic, f->qp[i].nic)) {
			*k->nic = '\0';
			return;
		}
		snprintf(k->nic, sizeof(k->nic), "%s", f->qp[i].nic);
	}
}

struct culprit *pulse_blame(const struct pulse *p, const struct pulse_comm *c, int member,
			    struct verdict *v)
{
	struct culprit *k = verdict_blame(v);

	k->rank = c->rank[member];
	k->score = 1;
	snprintf(k->host, sizeof(k->host), "%s", c->host[member]);
	if (c->file[member] < 0)
		return k;
	k->pid = p->records->file[c->file[member]].pid;
	snprintf(k->host, sizeof(k->host), "%s", p->records->file[c->file[member]].host);
	if (v->component == COMPONENT_COMMUNICATION)
		find_nic(p->records->file + c->file[member], k);
	return k;
}

const char *pulse_who(const struct pulse *p, const struct pulse_comm *c, int member)
{
	static char text[4][3 * REC_NAME_BYTES];
	static unsigned int next;
	char *t = text[next++ % 4];

	(void)p;
	if (c->rank[member] >= 0)
		snprintf(t, sizeof(text[0]), "rank %d", c->rank[member]);
	else
		snprintf(t, sizeof(text[0]), "member %d of communicator %s", member, c->name);
	if (*c->host[member])
		snprintf(t + strlen(t), sizeof(text[0]) - strlen(t), " on %s", c->host[member]);
	return t;
}

/* Of a healthy job epochs should show at least a rank that is so many times as slow: the paper's
 * figure, by which 32 us suffice for 400 Gb/s. */
#define AS_SLOW 2.0

/* ---- epochs --------------------------------------------------------------------------------- */

uint64_t pulse_epoch(const struct pulse *p)
{
	uint64_t e = 0;

	for (size_t i = 0; i < p->records->files; i++)
		if (p->curve[i].n && p->curve[i].epoch_ns > e)
			e = p->curve[i].epoch_ns;
	return e;
}

uint64_t pulse_epoch_max(const struct pulse *p, double times)
{
	double rate = 0;

	for (size_t i = 0; i < p->records->files; i++)
		if (p->curve[i].rate_max > rate)
			rate = p->curve[i].rate_max;
	if (rate <= 0 || times <= 1)
		return 0;
	return (uint64_t)((double)p->options.slice_bytes / rate * (times - 1));
}

/* ---- confidence ----------------------------------------------------------------------------- */

static void less(struct verdict *v, double factor)
{
	v->confidence *= factor;
}

/* A rank that is slow by times makes the others wait for each slice; epochs that are longer than
 * these gaps hide them, and all seem to send for as long. */
static void weigh_epochs(const struct pulse *p, double times, struct verdict *v)
{
	uint64_t most = pulse_epoch_max(p, times), epoch = pulse_epoch(p);

	if (!epoch && v->class != CLASS_STOPPED) {
		verdict_says(v, "no epochs were recorded: slow communication does not show");
		less(v, .7);
	}
	if (!epoch || !most)
		return;
	verdict_threshold(v, "epoch_ns", (double)epoch);
	verdict_threshold(v, "epoch_max_ns", (double)most);
	if (epoch <= most)
		return;
	verdict_says(
		v,
		"epochs of %.1f us are longer than %.1f us: what is %.2f times as slow may not "
		"show in gaps between slices",
		(double)epoch / 1e3, (double)most / 1e3, times);
	if (v->class != CLASS_STOPPED)
		less(v, .7);
}

static void weigh_records(const struct pulse *p, struct verdict *v)
{
	int unobserved = 0;

	for (size_t i = 0; i < p->records->files; i++)
		unobserved += p->records->file[i].unobserved;
	if (v->coverage.dropped) {
		verdict_says(v, "%llu records were lost: a ring was full",
			     (unsigned long long)v->coverage.dropped);
		less(v, .7);
	}
	if (unobserved) {
		verdict_says(v, "%d processes post around libibverbs: that traffic is not recorded",
			     unobserved);
		less(v, .7);
	}
	if (v->coverage.ranks_seen < v->coverage.ranks_expected)
		less(v, .7);
	if (p->inferred && p->ops) {
		verdict_says(v,
			     "no hooks: %zu operations of %zu communicators were inferred from "
			     "traffic",
			     p->ops, p->comms);
		less(v, .7);
		if (v->coverage.clock_error_ns == REC_NONE ||
		    v->coverage.clock_error_ns > (int64_t)p->options.delta_ns) {
			verdict_says(v, "the clocks of the hosts may differ by more than delta");
			less(v, .7);
		}
	}
	if (p->disagreements) {
		verdict_says(v, "Algorithm 1 sees %zu of %zu operations elsewhere than the hooks",
			     p->disagreements, p->compared);
		less(v, .9);
	}
}

/* Nobody is well of whom nothing is known. */
static void judge_fine(const struct pulse *p, struct verdict *v)
{
	int missing = v->coverage.ranks_expected - v->coverage.ranks_seen;

	v->confidence = .9;
	v->class = CLASS_FINE;
	if (!p->ops) {
		v->class = CLASS_UNDECIDED;
		v->rule = "no-records";
		verdict_says(v, "there is no operation in these records");
		verdict_advises(
			v, "record a job: with hooks of its collectives, or epochs of its traffic");
	} else if (missing > 0 || p->silent_ranks) {
		v->class = CLASS_UNDECIDED;
		v->rule = "no-records";
		verdict_says(v, "what is recorded is fine, but %d of %d ranks have no records",
			     missing, v->coverage.ranks_expected);
		verdict_advises(v, "fetch the records of all ranks, and ask again");
	}
}

struct verdict pulse_judge(struct pulse *p)
{
	struct verdict v = verdict_make("pulse", "none");

	double times = AS_SLOW;

	v.coverage = p->coverage;
	if (!pulse_stopped(p, &v) && !pulse_slow(p, &v, &times))
		judge_fine(p, &v);
	verdict_threshold(&v, "kappa", p->options.kappa);
	verdict_threshold(&v, "delta_ns", (double)p->options.delta_ns);
	verdict_threshold(&v, "hang_ns", (double)p->options.hang_ns);
	verdict_threshold(&v, "slice_bytes", (double)p->options.slice_bytes);
	verdict_threshold(&v, "repeat", p->options.repeat);
	weigh_records(p, &v);
	weigh_epochs(p, times, &v);
	return v;
}
