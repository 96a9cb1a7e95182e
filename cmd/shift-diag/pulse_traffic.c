/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/pulse.h"

#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

/* Without the peer's rank in its record: the file whose queue pair is the other end. */
static int rank_of_peer(const struct records *r, const struct rec_file *f, const struct rec_qp *q)
{
	if (q->peer_rank >= 0)
		return q->peer_rank;
	for (size_t i = 0; q->peer_qpn && i < r->files; i++) {
		const struct rec_file *other = r->file + i;

		if (*q->peer_host && strcmp(q->peer_host, other->host))
			continue;
		for (size_t j = 0; j < other->qp_n; j++)
			if (other->qp[j].qpn == q->peer_qpn && other->qp[j].peer_qpn == q->qpn &&
			    (other != f || other->qp[j].id != q->id))
				return other->rank;
	}
	return REC_NONE;
}

struct qp_rank {
	uint64_t id;
	int rank;
};

static int by_id(const void *a, const void *b)
{
	const struct qp_rank *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->rank < y->rank) - (x->rank > y->rank); /* one that is known first */
}

static struct qp_rank *qp_ranks(const struct records *r, const struct rec_file *f)
{
	struct qp_rank *list = check_alloc(calloc(f->qp_n + 1, sizeof(*list)));

	for (size_t i = 0; i < f->qp_n; i++)
		list[i] = (struct qp_rank){f->qp[i].id, rank_of_peer(r, f, f->qp + i)};
	list[f->qp_n].rank = REC_NONE; /* where a search for one that is not there ends */
	qsort(list, f->qp_n, sizeof(*list), by_id);
	return list;
}

static int rank_of_qp(const struct qp_rank *list, size_t n, uint64_t id)
{
	size_t low = 0;

	while (n) {
		size_t half = n / 2;

		if (list[low + half].id < id) {
			low += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return list[low].id == id ? list[low].rank : REC_NONE;
}

static int by_time(const void *a, const void *b)
{
	const struct pulse_sample *x = a, *y = b;

	if (x->t_ns != y->t_ns)
		return x->t_ns < y->t_ns ? -1 : 1;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Epochs of queue pairs need not begin together: each sample goes to the epoch of the process in
 * which it began, so that those of several are counted once. */
static void add_epochs(struct pulse_curve *c, const struct rec_file *f, const struct rec_epochs *e,
		       int rank)
{
	for (size_t i = 0; i < e->n; i++) {
		uint64_t t = e->t_ns + i * c->epoch_ns;

		if (!e->bytes[i])
			continue;
		if (e->bytes[i] > c->rate_max * (double)c->epoch_ns)
			c->rate_max = e->bytes[i] / (double)c->epoch_ns;
		t = t < f->began_ns ? t
				    : f->began_ns + (t - f->began_ns) / c->epoch_ns * c->epoch_ns;
		c->sample[c->n++] = (struct pulse_sample){t, e->bytes[i], rank};
	}
}

static void merge(struct pulse_curve *c)
{
	size_t n = 0;

	qsort(c->sample, c->n, sizeof(*c->sample), by_time);
	for (size_t i = 0; i < c->n; i++) {
		if (n && !by_time(c->sample + n - 1, c->sample + i))
			c->sample[n - 1].bytes += c->sample[i].bytes;
		else
			c->sample[n++] = c->sample[i];
	}
	c->n = n;
}

struct pulse_curve pulse_curve(const struct records *r, const struct rec_file *f)
{
	struct pulse_curve c = {.epoch_ns = f->epoch_ns};
	struct qp_rank *list;
	size_t n = 0;

	for (size_t i = 0; i < f->epochs_n; i++)
		n += f->epochs[i].n;
	c.sample = check_alloc(calloc(n + 1, sizeof(*c.sample)));
	if (!c.epoch_ns)
		return c;
	list = qp_ranks(r, f);
	for (size_t i = 0; i < f->epochs_n; i++)
		add_epochs(&c, f, f->epochs + i, rank_of_qp(list, f->qp_n, f->epochs[i].qp));
	merge(&c);
	free(list);
	return c;
}

void pulse_curve_free(struct pulse_curve *c)
{
	free(c->sample);
	*c = (struct pulse_curve){0};
}

static bool is_to(const struct pulse_sample *s, const bool *to, int ranks)
{
	return !to || s->rank < 0 || (s->rank < ranks && to[s->rank]);
}

static size_t first_from(const struct pulse_curve *c, uint64_t from_ns)
{
	size_t low = 0, n = c->n;

	while (n) {
		size_t half = n / 2;

		if (c->sample[low + half].t_ns < from_ns) {
			low += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return low;
}

struct pulse_sample *pulse_curve_to(const struct pulse_curve *c, const bool *to, int ranks,
				    size_t *n)
{
	struct pulse_sample *s = check_alloc(calloc(c->n + 1, sizeof(*s)));

	*n = 0;
	for (size_t i = 0; i < c->n; i++) {
		if (!is_to(c->sample + i, to, ranks))
			continue;
		if (*n && s[*n - 1].t_ns == c->sample[i].t_ns)
			s[*n - 1].bytes += c->sample[i].bytes;
		else
			s[(*n)++] = c->sample[i];
	}
	return s;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* What an epoch in the midst of sending has: the ninth tenth. */
static uint64_t full_epoch(const struct pulse_sample *s, size_t n)
{
	uint64_t *bytes = check_alloc(calloc(n + 1, sizeof(*bytes))), full;

	for (size_t i = 0; i < n; i++)
		bytes[i] = s[i].bytes;
	qsort(bytes, n, sizeof(*bytes), by_value);
	full = n ? bytes[n - 1 - n / 10] : 0;
	free(bytes);
	return full;
}

/* Of an epoch beside one in which nothing was sent only a part was used. Counted as a whole, a rank
 * that sends slice by slice would seem to send for longer than one that sends them in one go. */
static uint64_t actual_time(const struct pulse_sample *s, size_t n, uint64_t full,
			    uint64_t epoch_ns)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		bool inner = i && i + 1 < n && s[i].t_ns - s[i - 1].t_ns <= epoch_ns &&
			     s[i + 1].t_ns - s[i].t_ns <= epoch_ns;

		if (inner || s[i].bytes >= full)
			sum += epoch_ns;
		else
			sum += (uint64_t)((double)epoch_ns * (double)s[i].bytes / (double)full);
	}
	return sum;
}

struct pulse_traffic pulse_traffic(const struct pulse_curve *c, const bool *to, int ranks,
				   uint64_t from_ns, uint64_t to_ns)
{
	struct pulse_curve part = *c;
	struct pulse_traffic t = {0};
	struct pulse_sample *s;
	size_t n;

	part.sample += first_from(c, from_ns);
	part.n = first_from(c, to_ns + 1) - (size_t)(part.sample - c->sample);
	if (to_ns < from_ns || !part.n)
		return t;
	s = pulse_curve_to(&part, to, ranks, &n);
	for (size_t i = 0; i < n; i++)
		t.cv += s[i].bytes;
	if (n) {
		t.full = full_epoch(s, n);
		t.act_ns = actual_time(s, n, t.full, c->epoch_ns);
		t.first_ns = s[0].t_ns;
		t.last_ns = s[n - 1].t_ns;
	}
	free(s);
	return t;
}

bool pulse_posted(const struct rec_file *f, uint64_t from_ns, uint64_t to_ns)
{
	for (size_t i = 0; i < f->epochs_n; i++) {
		const struct rec_epochs *e = f->epochs + i;

		for (size_t k = 0; e->wr && k < e->n; k++) {
			uint64_t t = e->t_ns + k * f->epoch_ns;

			if (e->wr[k] && t + f->epoch_ns > from_ns && t <= to_ns)
				return true;
		}
	}
	return false;
}
