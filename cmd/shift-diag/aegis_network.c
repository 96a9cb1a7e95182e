/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Whether communication itself has become slower. The member that comes last to a collective waits
 * for nobody: what it spends there is the time that the network takes, by one clock only. So for
 * each kind of operation the shortest stay of its members is compared with what it was before.
 *
 * The paper finds the slow one by comparing ranks. On a path that all ranks share they are slow
 * together, and none stands out; then only the past tells, and which hosts are the ends.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/aegis.h"
#include "common/cli.h"

static const double slower = 2, surely_slower = 1.5; /* median and lower quartile, now */
static const double cost_least = 0.05;
static const uint64_t now_ns_long = 10000000000u; /* what counts as now, if it has enough */

enum { NOW_LEAST = 5, BEFORE_LEAST = 10 };

/* One operation, at all its members. */
struct stay {
	const char *op;
	uint64_t bytes, seq, launch_ns;
	uint64_t ns; /* the shortest one */
	size_t members;
};

struct stays {
	struct stay *of;
	size_t n;
};

/* Two hosts, or one twice: within it. */
struct pair {
	const char *a, *b;
};

struct pairs {
	struct pair *of;
	size_t n;
};

struct ways {
	struct pairs slow, well;
	struct verdict *v;
	double cost; /* the largest */
};

/* ---- operations ----------------------------------------------------------------------------- */

static int by_seq(const void *a, const void *b)
{
	const struct stay *x = a, *y = b;

	return (x->seq > y->seq) - (x->seq < y->seq);
}

static int by_kind_and_time(const void *a, const void *b)
{
	const struct stay *x = a, *y = b;
	int op = strcmp(x->op, y->op);

	if (op)
		return op;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? 1 : -1;
	return (x->seq > y->seq) - (x->seq < y->seq);
}

static bool is_of(const struct rec_coll *r, const struct aegis_comm *c, uint64_t begin_ns)
{
	return !strcmp(r->comm, c->name) && r->end_ns && !r->launch_only &&
	       r->launch_ns >= begin_ns;
}

static struct stays all_stays(const struct aegis_comm *c, uint64_t begin_ns)
{
	struct stays all = {0};

	for (size_t m = 0; m < c->members; m++) {
		const struct rec_file *f = c->member[m].file;

		for (size_t i = 0; i < f->coll_n; i++) {
			const struct rec_coll *r = f->coll + i;

			if (!is_of(r, c, begin_ns))
				continue;
			all.of = check_alloc(reallocarray(all.of, all.n + 1, sizeof(*all.of)));
			all.of[all.n++] = (struct stay){
				r->op, r->bytes, r->seq, r->launch_ns, r->end_ns - r->launch_ns, 1};
		}
	}
	return all;
}

/* The operations that all members have completed, by kind and time. */
static struct stays operations_of(const struct aegis_comm *c, uint64_t begin_ns)
{
	struct stays all = all_stays(c, begin_ns);
	size_t n = 0, kept = 0;

	if (all.n)
		qsort(all.of, all.n, sizeof(*all.of), by_seq);
	for (size_t i = 0; i < all.n; i++) {
		if (n && all.of[n - 1].seq == all.of[i].seq) {
			struct stay *s = all.of + n - 1;

			s->members++;
			s->ns = all.of[i].ns < s->ns ? all.of[i].ns : s->ns;
		} else {
			all.of[n++] = all.of[i];
		}
	}
	for (size_t i = 0; i < n; i++)
		if (all.of[i].members == c->members)
			all.of[kept++] = all.of[i];
	all.n = kept;
	if (kept)
		qsort(all.of, kept, sizeof(*all.of), by_kind_and_time);
	return all;
}

/* ---- then and now --------------------------------------------------------------------------- */

static int by_length(const void *a, const void *b)
{
	const struct stay *x = a, *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

/* The value below which that part of them is. Changes their order. */
static double quantile(struct stay *of, size_t n, double part)
{
	qsort(of, n, sizeof(*of), by_length);
	return (double)of[(size_t)(part * (double)(n - 1))].ns;
}

/* How many at the end of one kind are now. */
static size_t count_now(const struct stay *of, size_t n)
{
	size_t now = 0;

	while (now < n &&
	       (now < NOW_LEAST || of[n - 1 - now].launch_ns + now_ns_long >= of[n - 1].launch_ns))
		now++;
	return now;
}

struct change {
	double before, now; /* ns */
	double cost;	    /* of the time now */
};

static double cost_of(const struct stay *of, size_t n, double before)
{
	double above = 0, span = (double)(of[n - 1].launch_ns - of[0].launch_ns);

	for (size_t i = 0; i < n; i++)
		above += (double)of[i].ns - before;
	return span > 0 ? above / span : 0;
}

/* Of n operations of one kind, by time. False: there are too few. */
static bool compare(struct stay *of, size_t n, struct change *c)
{
	size_t now = count_now(of, n);
	struct stay *copy;

	if (n < now + BEFORE_LEAST)
		return false;
	/* Those of now are among all: a fault that comes and goes has slow ones in the past, too.
	 */
	copy = check_alloc(calloc(n, sizeof(*copy)));
	memcpy(copy, of, n * sizeof(*copy));
	c->before = quantile(copy, n, 0.25);
	c->cost = cost_of(of + n - now, now, c->before);
	c->now = quantile(of + n - now, now, 0.5);
	if (quantile(of + n - now, now, 0.25) < surely_slower * c->before)
		c->cost = 0;
	free(copy);
	return true;
}

static bool is_slower(const struct change *c)
{
	return c->now > slower * c->before && c->cost >= cost_least;
}

/* ---- whose way ------------------------------------------------------------------------------ */

static bool has_pair(const struct pairs *p, const char *a, const char *b)
{
	for (size_t i = 0; i < p->n; i++)
		if ((!strcmp(p->of[i].a, a) && !strcmp(p->of[i].b, b)) ||
		    (!strcmp(p->of[i].a, b) && !strcmp(p->of[i].b, a)))
			return true;
	return false;
}

static void add_pair(struct pairs *p, const char *a, const char *b)
{
	if (has_pair(p, a, b))
		return;
	p->of = check_alloc(reallocarray(p->of, p->n + 1, sizeof(*p->of)));
	p->of[p->n++] = (struct pair){a, b};
}

static bool is_on_one_host(const struct aegis_comm *c)
{
	for (size_t i = 1; i < c->members; i++)
		if (strcmp(c->member[i].file->host, c->member[0].file->host))
			return false;
	return true;
}

/* Between hosts, what happens within one is no matter. */
static void add_ways(struct pairs *p, const struct aegis_comm *c)
{
	bool one = is_on_one_host(c);

	for (size_t i = 0; i < c->members; i++)
		for (size_t j = i + 1; j < c->members; j++) {
			const char *a = c->member[i].file->host, *b = c->member[j].file->host;

			if (one || strcmp(a, b))
				add_pair(p, a, b);
		}
}

static void look_at_comm(struct ways *w, const struct aegis_comm *c, uint64_t begin_ns)
{
	struct stays all = operations_of(c, begin_ns);
	bool known = false, slow = false;

	for (size_t i = 0, n; i < all.n; i += n) {
		struct change ch;

		for (n = 1; i + n < all.n && !strcmp(all.of[i].op, all.of[i + n].op) &&
			    all.of[i].bytes == all.of[i + n].bytes;)
			n++;
		if (!compare(all.of + i, n, &ch))
			continue;
		known = true;
		if (!is_slower(&ch))
			continue;
		slow = true;
		w->cost = ch.cost > w->cost ? ch.cost : w->cost;
		verdict_says(w->v,
			     "%s: who comes last to %s of %llu bytes now needs %.3f ms, it was "
			     "%.3f ms: %.0f %% of the time is lost in the network",
			     c->name, *all.of[i].op ? all.of[i].op : "a collective",
			     (unsigned long long)all.of[i].bytes, ch.now / 1e6, ch.before / 1e6,
			     ch.cost * 100);
	}
	if (known)
		add_ways(slow ? &w->slow : &w->well, c);
	free(all.of);
}

/* ---- the verdict ---------------------------------------------------------------------------- */

/* What works well elsewhere is not to blame. */
static void exonerate(struct ways *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->slow.n; i++)
		if (!has_pair(&w->well, w->slow.of[i].a, w->slow.of[i].b))
			w->slow.of[kept++] = w->slow.of[i];
	if (kept)
		w->slow.n = kept;
}

static bool is_end(const struct pair *p, const char *host)
{
	return !strcmp(p->a, host) || !strcmp(p->b, host);
}

/* The one host at an end of all of several ways. NULL: none, or both of one way. */
static const char *common_end(const struct pairs *p)
{
	const char *ends[] = {p->of[0].a, p->of[0].b}, *found = NULL;

	for (int e = 0; e < 2; e++) {
		bool all = true;

		for (size_t i = 0; i < p->n; i++)
			all = all && is_end(p->of + i, ends[e]);
		if (all && found && strcmp(found, ends[e]))
			return NULL;
		found = all ? ends[e] : found;
	}
	return found;
}

static void blame_host(struct verdict *v, const char *host, double cost)
{
	struct culprit *c = verdict_blame(v);

	snprintf(c->host, sizeof(c->host), "%s", host);
	c->score = cost < 1 ? cost : 1;
}

static void blame_ways(struct ways *w)
{
	const char *common = common_end(&w->slow);
	struct verdict *v = w->v;

	v->class = CLASS_SLOW;
	v->component = COMPONENT_COMMUNICATION;
	v->rule = "slower-network";
	v->level = common ? LEVEL_MACHINE : LEVEL_LINK;
	v->confidence = common ? 0.7 : 0.8;
	if (common) {
		blame_host(v, common, w->cost);
	} else if (w->slow.n == 1) {
		blame_host(v, w->slow.of[0].a, w->cost);
		blame_host(v, w->slow.of[0].b, w->cost);
		verdict_says(v, "it is the way between %s and %s, or one of its ends",
			     w->slow.of[0].a, w->slow.of[0].b);
	} else {
		v->confidence = 0.5;
		verdict_says(v, "%zu ways between hosts are used, and none stands out", w->slow.n);
	}
	verdict_advises(v, "shift-diag ping between these hosts, all sizes; the speed of links; "
			   "whose other traffic is there");
}

bool aegis_slow_network(const struct aegis_view *view, uint64_t begin_ns, struct verdict *v)
{
	struct ways w = {.v = v};
	bool found;

	for (size_t i = 0; i < view->comms; i++)
		if (view->comm[i].members > 1)
			look_at_comm(&w, view->comm + i, begin_ns);
	found = w.slow.n;
	if (found) {
		exonerate(&w);
		blame_ways(&w);
	}
	free(w.slow.of);
	free(w.well.of);
	return found;
}
