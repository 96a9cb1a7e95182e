/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What makes the job slow (section 5): a metric of one host stands out, or one rank comes late to
 * collectives, or one needs more time for a byte.
 *
 * Beyond the paper: the largest z-score among n hosts is sqrt(n-1), so of up to five none exceeds
 * 2; a host is compared with the others only. And what costs nothing is not called slow.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/aegis.h"
#include "common/cli.h"

static const double alpha = 0.8, beta = 1.5, slack = 1.2, usual_share = 0.5;
static const double cost_least = 0.01; /* of the time, that a late rank costs */
static const double degradation_least = 0.05, mean_ns = 1e9;
static const double errors_least = 4; /* standard errors, by which a mean is above 0 */
static const double deviations = 2, deviation_least = 0.1;

enum { COLLECTIVES_LEAST = 5, SLICES = 5, SLICES_LEAST = 3, SINGLES_TOLD = 8, MEANS_LEAST = 60 };

struct study {
	const struct records *r;
	const struct aegis_view *view;
	uint64_t begin_ns, end_ns;
	struct verdict *v;
	size_t compared;		   /* communicators and metrics that could be judged */
	size_t singles;			   /* counters of which there is one reading */
	const struct aegis_comm *degraded; /* the worst; NULL: none */
	double degradation;
};

/* ---- numbers -------------------------------------------------------------------------------- */

double aegis_degradation(const double *t, size_t n)
{
	double sum = 0, above = 0, limit;

	for (size_t i = 0; i < n; i++)
		sum += t[i];
	limit = n ? slack * sum / (double)n : 0;
	for (size_t i = 0; i < n; i++)
		above += t[i] > limit ? t[i] - limit : 0;
	return sum > 0 ? above / sum : 0;
}

bool aegis_is_outlier(const double *value, size_t n, size_t i, double floor)
{
	double sum = 0, squares = 0, mean, deviation;

	if (n < 3)
		return false;
	for (size_t j = 0; j < n; j++)
		sum += j == i ? 0 : value[j];
	mean = sum / (double)(n - 1);
	for (size_t j = 0; j < n; j++)
		squares += j == i ? 0 : (value[j] - mean) * (value[j] - mean);
	deviation = sqrt(squares / (double)(n - 1));
	deviation = fmax(deviation, fmax(deviation_least * fabs(mean), floor));
	return value[i] > mean + deviations * deviation;
}

/* ---- metrics of hosts ----------------------------------------------------------------------- */

enum metric_kind {
	METRIC_ZERO,  /* grows when something is wrong; a second's growth is compared with limit */
	METRIC_GROWS, /* grows; what stands out is wrong */
	METRIC_LEVEL, /* is as high as it is */
};

/* By the end of the name: counters are of several layers, with their prefixes. */
static const struct metric {
	const char *name;
	enum metric_kind kind;
	double limit; /* a second's growth above which it is wrong; or the floor of deviations */
	enum verdict_component component;
} metrics[] = {
	/* mlx5 */
	{"out_of_sequence", METRIC_ZERO, 10, COMPONENT_COMMUNICATION},
	{"packet_seq_err", METRIC_ZERO, 10, COMPONENT_COMMUNICATION},
	{"implied_nak_seq_err", METRIC_ZERO, 10, COMPONENT_COMMUNICATION},
	{"local_ack_timeout_err", METRIC_ZERO, 1, COMPONENT_COMMUNICATION},
	{"rnr_nak_retry_err", METRIC_ZERO, 10, COMPONENT_COMMUNICATION},
	{"np_ecn_marked_roce_packets", METRIC_GROWS, 100, COMPONENT_COMMUNICATION},
	{"np_cnp_sent", METRIC_GROWS, 100, COMPONENT_COMMUNICATION},
	{"rp_cnp_handled", METRIC_GROWS, 100, COMPONENT_COMMUNICATION},
	/* the port */
	{"symbol_error", METRIC_ZERO, 1, COMPONENT_COMMUNICATION},
	{"port_rcv_errors", METRIC_ZERO, 1, COMPONENT_COMMUNICATION},
	{"port_xmit_discards", METRIC_ZERO, 10, COMPONENT_COMMUNICATION},
	/* soft-RoCE */
	{"completer_retry_err", METRIC_ZERO, 1, COMPONENT_COMMUNICATION},
	{"rcvd_seq_err", METRIC_ZERO, 10, COMPONENT_COMMUNICATION},
	/* the netdev */
	{"rx_dropped", METRIC_GROWS, 10, COMPONENT_COMMUNICATION},
	{"tx_dropped", METRIC_GROWS, 10, COMPONENT_COMMUNICATION},
	/* the host */
	{"throttled_usec", METRIC_GROWS, 10000, COMPONENT_COMPUTATION},
	{"nr_throttled", METRIC_GROWS, 1, COMPONENT_COMPUTATION},
	{"temperature", METRIC_LEVEL, 5, COMPONENT_COMPUTATION},
};

/* One counter at one place. */
struct series {
	const struct metric *metric;
	const char *host, *nic, *name;
	const struct rec_counter **sample; /* by time */
	size_t samples;
};

struct all_series {
	struct series *of;
	size_t n;
};

static const struct metric *metric_of(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < sizeof(metrics) / sizeof(*metrics); i++) {
		size_t m = strlen(metrics[i].name);

		if (n >= m && !strcmp(name + n - m, metrics[i].name))
			return metrics + i;
	}
	return NULL;
}

static struct series *series_of(struct all_series *all, const struct rec_file *f,
				const struct rec_counter *c, const struct metric *m)
{
	struct series *s;

	for (size_t i = 0; i < all->n; i++) {
		s = all->of + i;
		if (s->metric == m && !strcmp(s->host, f->host) && !strcmp(s->nic, c->nic) &&
		    !strcmp(s->name, c->name))
			return s;
	}
	all->of = check_alloc(reallocarray(all->of, all->n + 1, sizeof(*all->of)));
	s = all->of + all->n++;
	*s = (struct series){.metric = m, .host = f->host, .nic = c->nic, .name = c->name};
	return s;
}

static int by_time(const void *a, const void *b)
{
	const struct rec_counter *x = *(const struct rec_counter *const *)a,
				 *y = *(const struct rec_counter *const *)b;

	return (x->t_ns > y->t_ns) - (x->t_ns < y->t_ns);
}

static struct all_series series_find(const struct study *s)
{
	struct all_series all = {0};

	for (size_t i = 0; i < s->r->files; i++)
		for (size_t j = 0; j < s->r->file[i].counter_n; j++) {
			const struct rec_counter *c = s->r->file[i].counter + j;
			const struct metric *m = metric_of(c->name);
			struct series *of;

			if (!m || c->t_ns < s->begin_ns)
				continue;
			of = series_of(&all, s->r->file + i, c, m);
			of->sample = check_alloc(
				reallocarray(of->sample, of->samples + 1, sizeof(*of->sample)));
			of->sample[of->samples++] = c;
		}
	for (size_t i = 0; i < all.n; i++)
		qsort(all.of[i].sample, all.of[i].samples, sizeof(*all.of[i].sample), by_time);
	return all;
}

/* Somebody has looked before and after, as by rdma -j statistic: the mean growth is all there is.
 */
static bool is_before_and_after(const struct series *of)
{
	return of->samples < SLICES && of->metric->kind != METRIC_LEVEL;
}

/* The value in a slice of the window: the mean level, or a second's growth. NAN: not known. */
static double slice_value(const struct study *s, const struct series *of, int slice)
{
	uint64_t part = (s->end_ns - s->begin_ns) / SLICES + 1;
	uint64_t begin = s->begin_ns + part * (uint64_t)slice, end = begin + part;
	const struct rec_counter *first = NULL, *last = NULL;
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < of->samples && !is_before_and_after(of); i++) {
		const struct rec_counter *c = of->sample[i];

		if (c->t_ns >= end)
			break;
		if (c->t_ns < begin) {
			first = c; /* it grows from there */
			continue;
		}
		first = first ? first : c;
		last = c;
		sum += c->value;
		n++;
	}
	if (is_before_and_after(of)) {
		first = of->sample[0];
		last = of->sample[of->samples - 1];
	} else if (!n) {
		return NAN;
	}
	if (of->metric->kind == METRIC_LEVEL)
		return sum / (double)n;
	if (last->t_ns == first->t_ns || last->value < first->value)
		return NAN; /* one sample, or it began again from 0 */
	return (last->value - first->value) / ((double)(last->t_ns - first->t_ns) / 1e9);
}

/* How often a counter is wrong, in how many slices; and how often it is so here alone. */
struct outing {
	int known, out, alone;
	double worst;
};

static void outing_add(struct outing *o, const struct metric *m, const double *value, size_t n,
		       size_t i)
{
	bool alone = aegis_is_outlier(value, n, i, m->limit / deviations);

	o->known++;
	o->worst = fmax(o->worst, value[i]);
	if (m->kind == METRIC_ZERO) { /* of two there is no deviation; and it is wrong by itself */
		o->out += value[i] > m->limit;
		o->alone += value[i] > m->limit && (n < 3 || alone);
	} else {
		o->out += alone;
		o->alone += alone;
	}
}

static struct outing outing_of(const struct study *s, const struct all_series *all,
			       const struct series *of)
{
	double *value = check_alloc(calloc(all->n, sizeof(*value)));
	struct outing o = {0};

	for (int slice = 0; slice < SLICES; slice++) {
		size_t n = 0, own = SIZE_MAX;

		for (size_t i = 0; i < all->n; i++) {
			double x = all->of[i].metric == of->metric &&
						   !strcmp(all->of[i].name, of->name)
					   ? slice_value(s, all->of + i, slice)
					   : NAN;

			if (isnan(x))
				continue;
			if (all->of + i == of)
				own = n;
			value[n++] = x;
		}
		if (own != SIZE_MAX)
			outing_add(&o, of->metric, value, n, own);
	}
	free(value);
	return o;
}

static void blame_series(struct study *s, const struct series *of, const struct outing *o)
{
	struct culprit *c = NULL;

	s->v->class = CLASS_SLOW;
	s->v->component = of->metric->component;
	s->v->rule = "metric-outlier";
	s->v->confidence = is_before_and_after(of) ? 0.6 : 0.8;
	verdict_says(s->v, "%s%s%s: %s is up to %.6g%s, too high all the time", of->host,
		     *of->nic ? " " : "", of->nic, of->name, o->worst,
		     of->metric->kind == METRIC_LEVEL ? "" : " a second");
	if (o->alone < o->known) /* at others, too: it tells nobody apart */
		return;
	for (size_t i = 0; i < s->v->culprits_n && !c; i++)
		if (!strcmp(s->v->culprits[i].host, of->host) &&
		    !strcmp(s->v->culprits[i].nic, of->nic))
			c = s->v->culprits + i;
	if (!c) {
		c = verdict_blame(s->v);
		snprintf(c->host, sizeof(c->host), "%s", of->host);
		snprintf(c->nic, sizeof(c->nic), "%s", of->nic);
	}
}

/* Since when it grew is not known. */
static void tell_single(struct study *s, const struct series *of)
{
	if (of->samples != 1 || of->metric->kind != METRIC_ZERO || !of->sample[0]->value)
		return;
	if (s->singles++ < SINGLES_TOLD)
		verdict_says(s->v, "%s%s%s: %s is %.0f; one reading tells no rate", of->host,
			     *of->nic ? " " : "", of->nic, of->name, of->sample[0]->value);
}

static void judge_metrics(struct study *s)
{
	struct all_series all = series_find(s);

	for (size_t i = 0; i < all.n; i++) {
		struct outing o = outing_of(s, &all, all.of + i);

		s->compared += o.known >= SLICES_LEAST;
		if (o.known >= SLICES_LEAST && o.out == o.known)
			blame_series(s, all.of + i, &o);
		tell_single(s, all.of + i);
	}
	if (s->v->class == CLASS_SLOW) {
		s->v->level = s->v->culprits_n && *s->v->culprits->nic ? LEVEL_NIC : LEVEL_MACHINE;
		verdict_advises(s->v, "look at what is named: cable, ethtool -S, temperature");
	}
	for (size_t i = 0; i < all.n; i++)
		free(all.of[i].sample);
	free(all.of);
}

/* ---- collectives ---------------------------------------------------------------------------- */

/* One collective at one member. */
struct share {
	uint64_t seq;
	size_t member;
	const struct rec_coll *coll;
};

/* What a member did in those collectives that are known of all members that are seen. */
struct tally {
	double td, late, late_squares; /* late: the mean less its own */
	size_t early, slow;
	uint64_t first_ns, last_ns;
};

struct comparison {
	const struct aegis_comm *comm;
	struct share *share;
	size_t shares;
	struct tally *of; /* each member */
	size_t collectives;
	size_t n_collectives; /* of which time per byte is known at all */
	double *time;	      /* from one launch to the next, at the first member */
	size_t times;
};

static int by_seq(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	if (x->seq != y->seq)
		return (x->seq > y->seq) - (x->seq < y->seq);
	return (x->member > y->member) - (x->member < y->member);
}

static void shares_find(const struct study *s, struct comparison *c)
{
	for (size_t m = 0; m < c->comm->members; m++) {
		const struct rec_file *f = c->comm->member[m].file;

		for (size_t i = 0; i < f->coll_n; i++) {
			const struct rec_coll *of = f->coll + i;

			if (strcmp(of->comm, c->comm->name) || !of->end_ns || of->launch_only ||
			    of->launch_ns < s->begin_ns)
				continue;
			c->share = check_alloc(
				reallocarray(c->share, c->shares + 1, sizeof(*c->share)));
			c->share[c->shares++] = (struct share){of->seq, m, of};
		}
	}
	if (c->shares)
		qsort(c->share, c->shares, sizeof(*c->share), by_seq);
}

/* The time that sending took for a byte, in ns: epochs with traffic if they are recorded, as in
 * the others it waited. NAN: not known. */
static double time_per_byte(const struct rec_file *f, const struct rec_coll *c)
{
	uint64_t bytes = 0, active = 0;

	for (size_t i = 0; i < f->epochs_n; i++) {
		const struct rec_epochs *e = f->epochs + i;
		uint64_t j = c->launch_ns > e->t_ns ? (c->launch_ns - e->t_ns) / f->epoch_ns : 0;

		for (; j < e->n && e->t_ns + j * f->epoch_ns < c->end_ns; j++) {
			bytes += e->bytes[j];
			active += e->bytes[j] ? f->epoch_ns : 0;
		}
	}
	if (bytes)
		return (double)active / (double)bytes;
	if (!f->epochs_n && c->sent_bytes && c->first_wr_ns)
		return (double)(c->end_ns - c->first_wr_ns) / (double)c->sent_bytes;
	return NAN;
}

static void tally_durations(struct comparison *c, const struct share *of, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double)(of[i].coll->end_ns - of[i].coll->launch_ns);
	for (size_t i = 0; i < n; i++) {
		struct tally *t = c->of + of[i].member;
		double td = (double)(of[i].coll->end_ns - of[i].coll->launch_ns);

		t->td += td;
		t->late += sum / (double)n - td;
		t->late_squares += (sum / (double)n - td) * (sum / (double)n - td);
		t->early += td < alpha * sum / (double)n;
		if (!t->first_ns)
			t->first_ns = of[i].coll->launch_ns;
		t->last_ns = of[i].coll->end_ns;
	}
}

static void tally_bytes(struct comparison *c, const struct share *of, size_t n)
{
	double *each = check_alloc(calloc(n, sizeof(*each))), sum = 0;
	size_t known = 0;

	for (size_t i = 0; i < n; i++) {
		each[i] = time_per_byte(c->comm->member[of[i].member].file, of[i].coll);
		if (!isnan(each[i])) {
			sum += each[i];
			known++;
		}
	}
	c->n_collectives += known == n;
	for (size_t i = 0; i < n && known == n; i++)
		c->of[of[i].member].slow += each[i] > beta * sum / (double)n;
	free(each);
}

static void tally_all(struct comparison *c)
{
	size_t members = c->comm->members;
	const struct rec_coll *before = NULL;

	for (size_t i = 0; i < c->shares;) {
		size_t n = 1;

		while (i + n < c->shares && c->share[i + n].seq == c->share[i].seq)
			n++;
		if (n == members) {
			const struct rec_coll *first = c->share[i].coll;

			c->collectives++;
			tally_durations(c, c->share + i, n);
			tally_bytes(c, c->share + i, n);
			if (before && first->launch_ns > before->launch_ns)
				c->time[c->times++] = (double)(first->launch_ns -
							       before->launch_ns);
			before = first;
		}
		i += n;
	}
}

static double mean_td(const struct comparison *c)
{
	double sum = 0;

	for (size_t m = 0; m < c->comm->members; m++)
		sum += c->of[m].td;
	return sum / (double)c->comm->members;
}

/* Of ranks that compute for random times one is the last on average, too. */
static bool is_certain(const struct comparison *c, const struct tally *t)
{
	double n = (double)c->collectives, mean = t->late / n;
	double variance = fmax(t->late_squares / n - mean * mean, 0);

	return mean > errors_least * sqrt(variance / n);
}

/* Its collectives are short as it comes last: so it is late by what the others wait longer. */
static bool is_late(const struct comparison *c, const struct tally *t, double *cost)
{
	double mean = mean_td(c), span = (double)(t->last_ns - t->first_ns);

	*cost = span > 0 ? (mean - t->td) / span : 0;
	return t->td < alpha * mean && *cost >= cost_least && is_certain(c, t) &&
	       (double)t->early > usual_share * (double)c->collectives;
}

static void blame_late(struct study *s, const struct comparison *c)
{
	size_t late = 0;
	double cost;

	for (size_t m = 0; m < c->comm->members; m++)
		late += is_late(c, c->of + m, &cost);
	if (!late)
		return;
	if (2 * late > c->comm->members) { /* the others are early, as they have less to do */
		verdict_says(s->v, "%s: %zu of %zu members come late, so it is none of them alone",
			     c->comm->name, late, c->comm->members);
		s->v->class = CLASS_SLOW;
		s->v->confidence = 0.4;
		return;
	}
	for (size_t m = 0; m < c->comm->members; m++) {
		const struct aegis_member *of = c->comm->member + m;

		if (!is_late(c, c->of + m, &cost))
			continue;
		verdict_says(s->v,
			     "%s: rank %d on %s is %.3f ms in a collective, the mean is %.3f "
			     "ms: it comes late, which costs %.0f %% of the time",
			     c->comm->name, of->rank, of->file->host,
			     c->of[m].td / (double)c->collectives / 1e6,
			     mean_td(c) / (double)c->collectives / 1e6, cost * 100);
		aegis_blame(s->v, of->file)->score = fmin(cost, 1);
	}
	s->v->rule = "shorter-collectives";
	s->v->component = COMPONENT_COMPUTATION;
	s->v->level = LEVEL_RANK;
	s->v->confidence = 0.85;
	verdict_advises(s->v, "what slows its computation: throttling, another process, a GPU?");
}

static bool is_slow(const struct comparison *c, size_t m)
{
	return (double)c->of[m].slow > usual_share * (double)c->n_collectives;
}

/* The host at an end of all the slow members' queue pairs, if it is one. */
static const char *common_peer(const struct comparison *c)
{
	const char *common = NULL;

	for (size_t m = 0; m < c->comm->members; m++) {
		const struct rec_file *f = c->comm->member[m].file;

		for (size_t i = 0; is_slow(c, m) && i < f->qp_n; i++) {
			if (!*f->qp[i].peer_host)
				continue;
			if (common && strcmp(common, f->qp[i].peer_host))
				return NULL;
			common = f->qp[i].peer_host;
		}
	}
	return common;
}

static void blame_slow_members(struct study *s, const struct comparison *c, size_t slow)
{
	const char *peer = slow > 1 ? common_peer(c) : NULL;

	s->v->rule = "time-per-byte";
	s->v->component = COMPONENT_COMMUNICATION;
	s->v->level = LEVEL_MACHINE;
	s->v->confidence = slow == 1 ? 0.8 : 0.6;
	for (size_t m = 0; m < c->comm->members; m++) {
		const struct aegis_member *of = c->comm->member + m;

		if (!is_slow(c, m))
			continue;
		verdict_says(s->v,
			     "%s: rank %d on %s needs more than %.1f times the mean time for "
			     "a byte, in %zu of %zu collectives",
			     c->comm->name, of->rank, of->file->host, beta, c->of[m].slow,
			     c->n_collectives);
		if (!peer)
			aegis_blame(s->v, of->file);
	}
	if (peer) {
		verdict_says(s->v, "all their connections go to %s", peer);
		snprintf(verdict_blame(s->v)->host, REC_NAME_BYTES, "%s", peer);
	}
	verdict_advises(s->v, "shift-diag ping from there, all sizes; the speed of link and PCIe");
}

static void judge_bytes(struct study *s, const struct comparison *c)
{
	size_t slow = 0;

	if (c->n_collectives < COLLECTIVES_LEAST)
		return;
	for (size_t m = 0; m < c->comm->members; m++)
		slow += is_slow(c, m);
	if (slow)
		blame_slow_members(s, c, slow);
}

/* The mean of those of each second: the paper's times are of iterations, which are as long. What a
 * collective of milliseconds needs more now and then is noise. Returns how many there are. */
static size_t mean_times(const struct comparison *c, double *mean)
{
	size_t n = 0, in = 0;
	double sum = 0;

	for (size_t i = 0; i < c->times; i++) {
		sum += c->time[i];
		in++;
		if (sum < mean_ns)
			continue;
		mean[n++] = sum / (double)in;
		sum = 0;
		in = 0;
	}
	return n;
}

static void look_at_time(struct study *s, const struct comparison *c)
{
	double *mean = check_alloc(calloc(c->times + 1, sizeof(*mean)));
	size_t n = mean_times(c, mean);
	double degradation = n < MEANS_LEAST ? 0 : aegis_degradation(mean, n);

	free(mean);
	if (degradation < degradation_least || degradation <= s->degradation)
		return;
	s->degradation = degradation;
	s->degraded = c->comm;
}

static void judge_time(struct study *s)
{
	if (!s->degraded)
		return;
	verdict_says(s->v,
		     "%s: %.0f %% of the time is above %.1f times the mean from one collective "
		     "to the next",
		     s->degraded->name, s->degradation * 100, slack);
	s->v->class = CLASS_SLOW;
	s->v->rule = "degradation";
	s->v->confidence = 0.5;
	verdict_advises(s->v, "no rank stands out: look at what all share: storage, network");
}

static bool is_enough(const struct comparison *c)
{
	return c->collectives >= COLLECTIVES_LEAST;
}

static void compare_members(struct study *s, const struct aegis_comm *comm, struct comparison *c)
{
	*c = (struct comparison){.comm = comm};
	if (comm->members < 2)
		return;
	shares_find(s, c);
	c->of = check_alloc(calloc(comm->members, sizeof(*c->of)));
	c->time = check_alloc(calloc(c->shares + 1, sizeof(*c->time)));
	tally_all(c);
	s->compared += is_enough(c);
}

static void comparison_free(struct comparison *c)
{
	free(c->time);
	free(c->of);
	free(c->share);
}

/* Who stands out by its traffic; else, whether the network has become slower, of which ranks that
 * come late in other communicators may be the effect; else who comes late. */
static void judge_comms(struct study *s)
{
	size_t n = s->view->comms;
	struct comparison *c = check_alloc(calloc(n + 1, sizeof(*c)));

	for (size_t i = 0; i < n; i++)
		compare_members(s, s->view->comm + i, c + i);
	for (size_t i = 0; i < n && !s->v->culprits_n; i++)
		if (is_enough(c + i))
			judge_bytes(s, c + i);
	if (!s->v->culprits_n)
		aegis_slow_network(s->view, s->begin_ns, s->v);
	for (size_t i = 0; i < n && !s->v->culprits_n; i++)
		if (is_enough(c + i))
			blame_late(s, c + i);
	for (size_t i = 0; i < n; i++)
		if (is_enough(c + i))
			look_at_time(s, c + i);
	if (s->v->class != CLASS_SLOW && !s->v->culprits_n)
		judge_time(s);
	for (size_t i = 0; i < n; i++)
		comparison_free(c + i);
	free(c);
}

/* ---- together ------------------------------------------------------------------------------- */

static void find_window(struct study *s, uint64_t window_ns)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < s->r->files; i++) {
		const struct rec_file *f = s->r->file + i;

		for (size_t j = 0; j < f->coll_n; j++) {
			uint64_t t = f->coll[j].end_ns ? f->coll[j].end_ns : f->coll[j].launch_ns;

			s->end_ns = t > s->end_ns ? t : s->end_ns;
			first = f->coll[j].launch_ns < first ? f->coll[j].launch_ns : first;
		}
		for (size_t j = 0; j < f->counter_n; j++) {
			uint64_t t = f->counter[j].t_ns;

			s->end_ns = t > s->end_ns ? t : s->end_ns;
			first = t < first ? t : first;
		}
	}
	s->begin_ns = s->end_ns > window_ns ? s->end_ns - window_ns : 0;
	if (first != UINT64_MAX && first > s->begin_ns)
		s->begin_ns = first;
}

static void undecided(struct study *s, const char *why, const char *do_what)
{
	s->v->class = CLASS_UNDECIDED;
	s->v->confidence = 0;
	verdict_says(s->v, "%s", why);
	verdict_advises(s->v, "%s", do_what);
}

/* Never fine while it hangs. */
static bool stands_still(const struct study *s, const struct aegis_options *o)
{
	struct verdict hang = aegis_hang(s->r, o);
	bool is_fine = hang.class == CLASS_FINE || !s->view->processes;

	verdict_free(&hang);
	return !is_fine;
}

static void conclude(struct study *s, const struct aegis_options *o)
{
	if (s->v->culprits_n) {
		s->v->class = CLASS_SLOW;
		s->v->confidence *= aegis_coverage(s->view);
	} else if (s->v->class == CLASS_SLOW) {
		s->v->confidence *= aegis_coverage(s->view);
	} else if (!s->compared) {
		undecided(s, "there are too few collectives and counters to compare",
			  "record for longer");
	} else if (s->view->processes && !aegis_is_complete(s->view)) {
		for (size_t i = 0; i < s->view->comms; i++)
			aegis_tell_missing(s->v, s->view->comm + i);
		undecided(s, "nothing stands out among those that are seen",
			  "get the records of all ranks");
	} else if (stands_still(s, o)) {
		undecided(s, "nothing stands out, but not all is well of who waits for whom",
			  "shift-diag hang of the same records");
	} else {
		s->v->confidence = aegis_coverage(s->view);
	}
}

static void tell_thresholds(struct verdict *v, const struct aegis_options *o)
{
	verdict_threshold(v, "window_s", (double)o->window_ns / 1e9);
	verdict_threshold(v, "alpha", alpha);
	verdict_threshold(v, "beta", beta);
	verdict_threshold(v, "deviations", deviations);
	verdict_threshold(v, "cost_least", cost_least);
	verdict_threshold(v, "errors_least", errors_least);
}

struct verdict aegis_slow(const struct records *r, const struct aegis_options *o)
{
	struct verdict v = verdict_make("aegis", "shorter-collectives");
	struct aegis_view view = aegis_view_make(r, o->window_ns);
	struct study s = {.r = r, .view = &view, .v = &v};

	v.coverage = view.coverage;
	tell_thresholds(&v, o);
	find_window(&s, o->window_ns);
	judge_metrics(&s);
	if (!v.culprits_n)
		judge_comms(&s);
	conclude(&s, o);
	aegis_view_free(&view);
	return v;
}
