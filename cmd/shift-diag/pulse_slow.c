/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Who is slow. Each rule compares the members of one operation, and asks for the same one several
 * times within a few: a single hiccup is nobody's fault. Computation is compared by the time from
 * the end of one operation to the start of the next at the same rank, so that clocks of hosts and
 * ranks that were waited for do not matter.
 */
#include "cmd/shift-diag/pulse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

/* Such a part of delta is a difference that schedulers and interrupts make. */
#define NOISE 10

/* A finding may be made by chance in so much of a series. */
#define CHANCE 0.01

/* Operations of a kind, one after the other. */
struct series {
	size_t comm;
	enum pulse_kind kind;
	const char *op;
	uint64_t bytes;
	const struct pulse_op **item;
	size_t n;
};

struct series_list {
	struct series *series;
	size_t n;
};

/* Who was slow in what. */
struct finding {
	const struct series *series;
	int member;
	double times; /* what is usual */
	size_t at;    /* the first operation, of the series */
	size_t seen;  /* in how many */
};

static bool in_series(const struct series *s, const struct pulse_op *o)
{
	return s->comm == o->comm && s->kind == o->kind && !strcmp(s->op, o->op) &&
	       (o->kind != KIND_COLLECTIVE || s->bytes == o->bytes);
}

static void add(struct series_list *l, const struct pulse_op *o)
{
	struct series *s = l->series;

	while (s < l->series + l->n && !in_series(s, o))
		s++;
	if (s == l->series + l->n) {
		l->series = check_alloc(realloc(l->series, (l->n + 1) * sizeof(*l->series)));
		s = l->series + l->n++;
		*s = (struct series){o->comm, o->kind, o->op, o->bytes, NULL, 0};
	}
	if (!(s->n & (s->n + 1)))
		s->item = check_alloc(realloc(s->item, (2 * s->n + 2) * sizeof(*s->item)));
	s->item[s->n++] = o;
}

static bool is_complete(const struct pulse *p, const struct pulse_op *o)
{
	for (int m = 0; m < p->comm[o->comm].size; m++)
		if (o->part[m].takes_part && (!o->part[m].started || !o->part[m].ended))
			return false;
	return true;
}

static struct series_list series_of(const struct pulse *p)
{
	struct series_list l = {0};

	for (size_t i = 0; i < p->ops; i++)
		if (is_complete(p, p->op + i))
			add(&l, p->op + i);
	return l;
}

static void series_free(struct series_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->series[i].item);
	free(l->series);
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The lower of two middle ones: of two groups the slow one is not usual. */
static double median(double *v, size_t n)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return v[(n - 1) / 2];
}

/* ---- what is compared ----------------------------------------------------------------------- */

/* A quantity of a part; < 0: not known. Less is better. */
typedef double quantity(const struct pulse_op *o, const struct pulse_part *part);

/* Who only receives in a group waits there early, by design. */
static double gap(const struct pulse_op *o, const struct pulse_part *part)
{
	bool only_receives = o->messages && !part->expected;

	return part->started && !only_receives ? (double)part->gap_ns : -1;
}

static double act(const struct pulse_op *o, const struct pulse_part *part)
{
	(void)o;
	return part->sent.cv && part->sent.act_ns ? (double)part->sent.act_ns : -1;
}

/* The rule "rate": what members send differs, so time per byte counts. */
static double time_per_byte(const struct pulse_op *o, const struct pulse_part *part)
{
	(void)o;
	return part->sent.cv && part->sent.act_ns
		       ? (double)part->sent.act_ns / (double)part->sent.cv
		       : -1;
}

/* What is known of an operation's members, sorted. */
struct known {
	double *v;
	size_t n;
};

static struct known known_of(const struct pulse *p, const struct pulse_op *o, quantity *q)
{
	int size = p->comm[o->comm].size;
	struct known k = {.v = check_alloc(calloc((size_t)size + 1, sizeof(*k.v)))};

	for (int m = 0; m < size; m++)
		if (o->part[m].takes_part && q(o, o->part + m) >= 0)
			k.v[k.n++] = q(o, o->part + m);
	qsort(k.v, k.n, sizeof(*k.v), by_value);
	return k;
}

/* The median of the others than the one that has mine. < 0: there are none. */
static double usual(const struct known *k, double mine)
{
	size_t low = 0, high = k->n, middle;

	if (k->n < 2)
		return -1;
	while (low < high) {
		size_t at = low + (high - low) / 2;

		if (k->v[at] < mine)
			low = at + 1;
		else
			high = at;
	}
	middle = (k->n - 2) / 2;
	return k->v[middle + (middle >= low)];
}

/* How many times what is usual it was, below 1 if it was faster; 0: not known, or the difference is
 * too small. least: in ns, of all that it has sent. */
static double excess(const struct pulse_op *o, const struct known *k, int m, quantity *q,
		     double least)
{
	double mine = q(o, o->part + m), others;

	if (!o->part[m].takes_part || mine < 0)
		return 0;
	if (q == time_per_byte)
		least /= (double)o->part[m].sent.cv;
	others = usual(k, mine);
	if (others < 0 || fabs(mine - others) < least)
		return 0;
	return others > 0 ? mine / others : 1e3;
}

/* Of all operations of a series; to be freed with known_free(). */
static struct known *known_all(const struct pulse *p, const struct series *s, quantity *q)
{
	struct known *k = check_alloc(calloc(s->n + 1, sizeof(*k)));

	for (size_t i = 0; i < s->n; i++)
		k[i] = known_of(p, s->item[i], q);
	return k;
}

static void known_free(struct known *k, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(k[i].v);
	free(k);
}

/* ---- in succession -------------------------------------------------------------------------- */

static size_t window_of(size_t wanted, size_t n)
{
	return n < wanted ? n : wanted;
}

/* That of PULSE_WINDOW operations at least k are slow, if each is with this chance. */
static double chance_of(unsigned int k, double each)
{
	double term = pow(1 - each, PULSE_WINDOW), sum = 0;

	for (unsigned int i = 0; i <= PULSE_WINDOW; i++) {
		sum += i >= k ? term : 0;
		term *= (double)(PULSE_WINDOW - i) / (i + 1) * each / (1 - each);
	}
	return sum;
}

/* So many of a window are more than chance. Who is slow now and fast then only varies, and is slow
 * as often as it is as much faster than others; among many operations some will lie close together
 * then. */
static size_t beyond_chance(const struct pulse *p, const double *times, size_t n)
{
	unsigned int wanted = p->options.repeat;
	size_t fast = 0;

	for (size_t i = 0; i < n; i++)
		fast += times[i] > 0 && times[i] < 1 / p->options.kappa;
	while (fast && wanted <= PULSE_WINDOW &&
	       (fast == n || (double)n * chance_of(wanted, (double)fast / (double)n) > CHANCE))
		wanted++;
	return n < wanted && !fast ? n : wanted;
}

/* The first stretch of operations with enough that were over kappa. Not all of them need to be:
 * those of several layers, or of dispatch and combine, are in one series, and only some follow what
 * is slow. */
static bool often_over(const struct pulse *p, const double *times, size_t n, struct finding *f)
{
	size_t wanted = beyond_chance(p, times, n), hits = 0;
	double sum = 0;

	f->seen = 0;
	for (size_t i = 0; i < n; i++) {
		hits += times[i] > p->options.kappa;
		if (i >= PULSE_WINDOW)
			hits -= times[i - PULSE_WINDOW] > p->options.kappa;
		if (wanted && hits >= wanted && !f->seen) {
			f->at = i >= PULSE_WINDOW ? i + 1 - PULSE_WINDOW : 0;
			f->seen = 1;
		}
	}
	if (!f->seen)
		return false;
	while (times[f->at] <= p->options.kappa)
		f->at++;
	f->seen = 0;
	for (size_t i = 0; i < n; i++)
		if (times[i] > p->options.kappa) {
			sum += times[i];
			f->seen++;
		}
	f->times = sum / (double)f->seen;
	return true;
}

/* The first window whose mean is over kappa: members of a custom collective differ each time. */
static bool mean_over(const struct pulse *p, const double *times, size_t n, struct finding *f)
{
	size_t window = window_of(PULSE_WINDOW, n);

	for (size_t i = 0; window && i + window <= n; i++) {
		double sum = 0;

		for (size_t k = i; k < i + window; k++)
			sum += times[k];
		if (sum / (double)window <= p->options.kappa)
			continue;
		f->at = i;
		f->times = sum / (double)window;
		f->seen = window;
		return true;
	}
	return false;
}

/* The rule "act" by other means. Where epochs are longer than the gaps, only a rank whose full
 * epochs have less than those of others is slow in sending; one whose slices come late is not. */
static double emptiness(const struct pulse_op *o, const struct pulse_part *part)
{
	(void)o;
	return part->sent.full ? 1. / (double)part->sent.full : -1;
}

static bool has_slower_epochs(const struct pulse *p, const struct finding *f)
{
	const struct series *s = f->series;
	double *times = check_alloc(calloc(s->n + 1, sizeof(*times))), middle;

	for (size_t i = 0; i < s->n; i++) {
		struct known k = known_of(p, s->item[i], emptiness);

		times[i] = excess(s->item[i], &k, f->member, emptiness, -1e300);
		free(k.v);
	}
	middle = median(times + f->at, s->n - f->at);
	free(times);
	return middle > 1 + (p->options.kappa - 1) / 2;
}

static void worse(struct finding *best, const struct finding *f, struct finding *list, size_t *n)
{
	list[(*n)++] = *f;
	if (f->times > best->times)
		*best = *f;
}

static bool is_too_coarse(const struct pulse *p, double times)
{
	uint64_t most = pulse_epoch_max(p, times);

	return !pulse_epoch(p) || (most && pulse_epoch(p) > most);
}

/* Twice as long as that, and also gaps between late slices look like slow sending. */
static bool is_doubtful(const struct pulse *p, const struct finding *f)
{
	return is_too_coarse(p, 1 + 2 * (f->times - 1)) && !has_slower_epochs(p, f);
}

/* Has each member a place of its own, as in a tree? */
static bool has_places(const struct series *s)
{
	return s->kind == KIND_COLLECTIVE && !s->item[0]->symmetric;
}

/*
 * The place of a member in a tree makes it slower than others, with no fault at all: it shares the
 * link to its parent with a sibling, which may double its time. So it is measured by its own
 * fastest operations, as far as that.
 */
static void allow_for_place(double *times, size_t n)
{
	double *sorted = check_alloc(calloc(n + 1, sizeof(*sorted))), usual_here;

	memcpy(sorted, times, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_value);
	usual_here = n ? sorted[n / 5] : 1;
	usual_here = usual_here < 1 ? 1 : usual_here > 2 ? 2 : usual_here;
	for (size_t i = 0; i < n; i++)
		times[i] /= usual_here;
	free(sorted);
}

/* The findings of all members of a series by one rule; *best the worst of them. */
static size_t find_in(const struct pulse *p, const struct series *s, quantity *q, double least,
		      bool mean, struct finding *list, struct finding *best)
{
	double *times = check_alloc(calloc(s->n + 1, sizeof(*times)));
	struct known *known = known_all(p, s, q);
	size_t found = 0;

	*best = (struct finding){0};
	for (int m = 0; m < p->comm[s->comm].size; m++) {
		struct finding f = {.series = s, .member = m};

		for (size_t i = 0; i < s->n; i++) {
			double x = excess(s->item[i], known + i, m, q, mean ? -1e300 : least);

			/* The gap behind a late end is short: that is not a fast one. */
			times[i] = q == gap && x < 1 ? 0 : x;
		}
		if (q == time_per_byte && has_places(s))
			allow_for_place(times, s->n);
		if (!(mean ? mean_over(p, times, s->n, &f) : often_over(p, times, s->n, &f)))
			continue;
		if (q != act || !is_doubtful(p, &f))
			worse(best, &f, list, &found);
	}
	known_free(known, s->n);
	free(times);
	return found;
}

/* ---- the rules ------------------------------------------------------------------------------ */

struct rule {
	const char *name, *says;
	enum verdict_component component;
	quantity *q;
};

static const struct rule late_start = {"late-start", "starts late: it computes",
				       COMPONENT_COMPUTATION, gap};
static const struct rule long_act = {"act", "sends for", COMPONENT_COMMUNICATION, act};
static const struct rule low_rate = {"rate", "needs, for each byte,", COMPONENT_COMMUNICATION,
				     time_per_byte};

/* What all send is the same, within a tenth. */
static bool is_even(const struct pulse *p, const struct series *s)
{
	for (size_t i = 0; i < s->n; i++) {
		uint64_t low = UINT64_MAX, high = 0;

		for (int m = 0; m < p->comm[s->comm].size; m++) {
			uint64_t cv = s->item[i]->part[m].sent.cv;

			if (!s->item[i]->part[m].takes_part)
				continue;
			low = cv < low ? cv : low;
			high = cv > high ? cv : high;
		}
		if (low < high - high / 10)
			return false;
	}
	return true;
}

/* Too short to be measured by epochs: one more or less of them is a large part. So are most of
 * these, whatever single ones took that were held up. */
static bool is_measured(const struct pulse *p, const struct series *s)
{
	size_t size = (size_t)p->comm[s->comm].size, n = 0;
	double *longest = check_alloc(calloc(s->n + 1, sizeof(*longest))), middle;

	for (size_t i = 0; i < s->n; i++, n++)
		for (size_t m = 0; m < size; m++)
			if ((double)s->item[i]->part[m].sent.act_ns > longest[n])
				longest[n] = (double)s->item[i]->part[m].sent.act_ns;
	middle = median(longest, n);
	free(longest);
	return pulse_epoch(p) && middle >= 8 * (double)pulse_epoch(p);
}

struct result {
	const struct rule *rule;
	struct finding best, *list;
	size_t n;
	uint64_t first_ns;
};

static void consider(const struct pulse *p, const struct series *s, const struct rule *rule,
		     struct result *r)
{
	size_t size = (size_t)p->comm[s->comm].size;
	struct finding *list = check_alloc(calloc(size + 1, sizeof(*list))), best;
	bool by_rate = rule == &low_rate, mean = by_rate && s->kind == KIND_GROUP;
	double least = rule == &late_start ? (double)p->options.delta_ns / NOISE
					   : 2 * (double)pulse_epoch(p);
	size_t n = find_in(p, s, rule->q, least, mean, list, &best);
	uint64_t first = n ? s->item[best.at]->start_ns : 0;

	if (!n || (r->n && first >= r->first_ns)) {
		free(list);
		return;
	}
	free(r->list);
	*r = (struct result){rule, best, list, n, first};
}

/* ---- pipelines ------------------------------------------------------------------------------ */

/* The sender of a message that is alone, and how late it sent. */
struct stage {
	int size, from, to; /* size of its communicator */
	uint64_t seq;
	double late;
};

/* Of all pipelines: those of the same message one behind the other, by how late they were. */
struct stages {
	struct stage *stage;
	double *late; /* the same once more */
	size_t n;
};

static int same_message(const struct stage *x, const struct stage *y)
{
	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	return x->from != y->from ? x->from - y->from : x->to - y->to;
}

static int by_message(const void *a, const void *b)
{
	const struct stage *x = a, *y = b;
	int order = same_message(x, y);

	return order ? order : (x->late > y->late) - (x->late < y->late);
}

static struct stage stage_of(const struct pulse *p, const struct pulse_op *o)
{
	const struct pulse_message *m = o->message;

	return (struct stage){.size = p->comm[o->comm].size,
			      .from = m->from,
			      .to = m->to,
			      .seq = o->seq,
			      .late = gap(o, o->part + m->from)};
}

static struct stages stages_of(const struct pulse *p)
{
	struct stages l = {.stage = check_alloc(calloc(p->ops + 1, sizeof(*l.stage))),
			   .late = check_alloc(calloc(p->ops + 1, sizeof(*l.late)))};

	for (size_t i = 0; i < p->ops; i++) {
		if (p->op[i].messages != 1 || !is_complete(p, p->op + i))
			continue;
		l.stage[l.n] = stage_of(p, p->op + i);
		l.n += l.stage[l.n].late >= 0;
	}
	qsort(l.stage, l.n, sizeof(*l.stage), by_message);
	for (size_t i = 0; i < l.n; i++)
		l.late[i] = l.stage[i].late;
	return l;
}

/* The first stage of that message, or, after: the first behind its last. */
static size_t stage_at(const struct stages *l, const struct stage *s, bool after)
{
	size_t low = 0, high = l->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (same_message(l->stage + middle, s) < after)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* How late a stage sends, beside the same stage of other pipelines. 0: there is none. */
static double excess_of_stage(const struct pulse *p, const struct stages *l,
			      const struct pulse_op *o)
{
	struct stage s = stage_of(p, o);
	size_t first = stage_at(l, &s, false);
	struct known others = {.v = l->late + first, .n = stage_at(l, &s, true) - first};
	double theirs = s.late < 0 ? -1 : usual(&others, s.late);

	if (theirs < 0 || s.late - theirs < (double)p->options.delta_ns / NOISE)
		return 0;
	return theirs > 0 ? s.late / theirs : 1e3;
}

static bool stage_is_late(const struct pulse *p, const struct stages *l, const struct series *s,
			  int member, struct finding *f)
{
	double *times = check_alloc(calloc(s->n + 1, sizeof(*times)));
	size_t *at = check_alloc(calloc(s->n + 1, sizeof(*at))), n = 0;
	bool found;

	for (size_t i = 0; i < s->n; i++) {
		const struct pulse_op *o = s->item[i];

		if (o->messages != 1 || o->message->from != member)
			continue;
		at[n] = i;
		times[n++] = excess_of_stage(p, l, o);
	}
	*f = (struct finding){.series = s, .member = member};
	found = n && often_over(p, times, n, f);
	f->at = at[f->at];
	free(times);
	free(at);
	return found;
}

static void consider_pipelines(const struct pulse *p, const struct series_list *l, struct result *r)
{
	struct stages stages = stages_of(p);

	for (size_t i = 0; i < l->n; i++) {
		const struct series *s = l->series + i;

		for (int m = 0; s->item[0]->messages == 1 && m < p->comm[s->comm].size; m++) {
			struct finding f;

			if (!stage_is_late(p, &stages, s, m, &f) ||
			    (r->n && s->item[f.at]->start_ns >= r->first_ns))
				continue;
			free(r->list);
			r->list = check_alloc(calloc(1, sizeof(*r->list)));
			*r->list = f;
			*r = (struct result){&late_start, f, r->list, 1, s->item[f.at]->start_ns};
		}
	}
	free(stages.stage);
	free(stages.late);
}

static void says(const struct pulse *p, const struct result *r, const struct finding *f,
		 struct verdict *v)
{
	const struct series *s = f->series;

	verdict_says(v, "%s %s %.2f times as long as the others, in %zu of %zu operations \"%s\"",
		     pulse_who(p, p->comm + s->comm, f->member), r->rule->says, f->times, f->seen,
		     s->n, shown(s->op));
}

/* Two that compute slowly are both told, but not those that are so only beside the slowest. One
 * that sends slowly makes others do so, too: only the slowest is told. */
static void conclude(const struct pulse *p, const struct result *r, struct verdict *v)
{
	const struct series *s = r->best.series;

	v->rule = r->rule->name;
	v->class = CLASS_SLOW;
	v->component = r->rule->component;
	v->level = LEVEL_MACHINE;
	v->first_seen_ns = r->first_ns;
	v->confidence = s->n < p->options.repeat		 ? .6
			: r->best.times < 1.3 * p->options.kappa ? .8
								 : .9;
	pulse_blame(p, p->comm + s->comm, r->best.member, v);
	says(p, r, &r->best, v);
	for (size_t i = 0; r->rule == &late_start && i < r->n; i++) {
		const struct finding *f = r->list + i;

		if (f->member == r->best.member || f->times - 1 < (r->best.times - 1) / 2)
			continue;
		pulse_blame(p, p->comm + s->comm, f->member, v)->score = (f->times - 1) /
									 (r->best.times - 1);
		says(p, r, f, v);
	}
	if (r->rule == &late_start)
		verdict_advises(v, "compare its GPU clocks, temperature, CPU load and limits with "
				   "another host's");
	else
		verdict_advises(v, "look at its NIC's PCIe speed, NUMA node and paths: shift-diag "
				   "precheck, shift-diag ping there");
}

/* ---- duration ------------------------------------------------------------------------------- */

/* Once all are there: the member that came last has waited for nobody. */
static double duration(const struct pulse *p, const struct pulse_op *o)
{
	double least = -1;

	for (int m = 0; m < p->comm[o->comm].size; m++) {
		const struct pulse_part *part = o->part + m;
		double d = (double)part->end_ns - (double)part->start_ns;

		if (part->takes_part && (least < 0 || d < least))
			least = d;
	}
	return least;
}

static bool is_alike(const struct pulse *p, const struct series *a, const struct series *b)
{
	return a->kind == KIND_COLLECTIVE && b->kind == KIND_COLLECTIVE && !strcmp(a->op, b->op) &&
	       a->bytes == b->bytes && p->comm[a->comm].size == p->comm[b->comm].size;
}

/* Over this group, and all others that do the same. */
static double usual_duration(const struct pulse *p, const struct series_list *l,
			     const struct series *s)
{
	double *v = NULL, result;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		for (size_t k = 0; is_alike(p, l->series + i, s) && k < l->series[i].n; k++) {
			v = check_alloc(realloc(v, (n + 1) * sizeof(*v)));
			v[n++] = duration(p, l->series[i].item[k]);
		}
	result = median(v, n);
	free(v);
	return result;
}

static bool find_long(const struct pulse *p, const struct series_list *l, const struct series *s,
		      struct finding *f)
{
	double *times = check_alloc(calloc(s->n + 1, sizeof(*times)));
	double base = usual_duration(p, l, s);
	bool found;

	for (size_t i = 0; base > 0 && i < s->n; i++) {
		double d = duration(p, s->item[i]);

		times[i] = d - base >= (double)p->options.delta_ns / NOISE ? d / base : 0;
	}
	f->series = s;
	found = s->kind == KIND_COLLECTIVE && s->n >= p->options.repeat &&
		often_over(p, times, s->n, f);
	free(times);
	return found;
}

static bool long_duration(const struct pulse *p, const struct series_list *l, struct verdict *v,
			  double *times)
{
	struct finding best = {0};

	for (size_t i = 0; i < l->n; i++) {
		struct finding f = {0};

		if (find_long(p, l, l->series + i, &f) && f.times > best.times)
			best = f;
	}
	if (!best.series)
		return false;
	*times = best.times;
	v->rule = "duration";
	v->class = CLASS_SLOW;
	v->component = COMPONENT_COMPUTATION;
	v->level = LEVEL_GROUP;
	v->confidence = .7;
	v->first_seen_ns = best.series->item[best.at]->start_ns;
	for (int m = 0; m < p->comm[best.series->comm].size; m++)
		pulse_blame(p, p->comm + best.series->comm, m, v)->score =
			1. / p->comm[best.series->comm].size;
	verdict_says(v,
		     "operations \"%s\" of communicator %s take %.2f times as long as usual, while "
		     "starts and times of sending are as usual",
		     shown(best.series->op), shown(p->comm[best.series->comm].name), best.times);
	if (is_too_coarse(p, best.times)) {
		v->component = COMPONENT_NONE;
		v->confidence = .4;
		verdict_says(v, "without epochs, or with epochs so long, computation and "
				"communication cannot be told apart");
	}
	verdict_advises(v, "compare CPU load, limits and clocks of these hosts with others'");
	return true;
}

bool pulse_slow(const struct pulse *p, struct verdict *v, double *times)
{
	struct series_list l = series_of(p);
	struct result r = {0};
	bool found;

	for (size_t i = 0; i < l.n; i++)
		consider(p, l.series + i, &late_start, &r);
	consider_pipelines(p, &l, &r);
	for (size_t i = 0; i < l.n; i++)
		if (is_measured(p, l.series + i))
			consider(p, l.series + i,
				 l.series[i].kind != KIND_GROUP && is_even(p, l.series + i)
					 ? &long_act
					 : &low_rate,
				 &r);
	if (r.n) {
		conclude(p, &r, v);
		*times = r.best.times;
	}
	found = r.n || long_duration(p, &l, v, times);
	free(r.list);
	series_free(&l);
	return found;
}
