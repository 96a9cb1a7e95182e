/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/answer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/diag.h"

/* Nobody is so sure that others could not outvote it. */
static const double CONFIDENCE_MIN = 0.02, CONFIDENCE_MAX = 0.98;

/* ---- who is the same ------------------------------------------------------------------------ */

static bool is_of_network(enum verdict_level l)
{
	return l == LEVEL_FLOW || l == LEVEL_PORT;
}

static bool is_blaming(const struct verdict *v)
{
	return v->culprits_n && v->class != CLASS_FINE && v->class != CLASS_UNDECIDED;
}

/* A job that stands still and one that has failed are one finding; slowness is another. */
static bool same_kind(enum verdict_class a, enum verdict_class b)
{
	return (a == CLASS_SLOW) == (b == CLASS_SLOW);
}

/* A verdict that knows the host only is about each of its ranks. */
static bool is_same(const struct answer_culprit *a, const struct verdict *v,
		    const struct culprit *c)
{
	if (is_of_network(a->level) != is_of_network(v->level))
		return false;
	if (is_of_network(v->level) || (!*c->host && c->rank == REC_NONE))
		return !strcmp(a->who.what, c->what) && !strcmp(a->who.host, c->host);
	if (a->who.rank != REC_NONE && c->rank != REC_NONE)
		return a->who.rank == c->rank;
	return *c->host && !strcmp(a->who.host, c->host);
}

/* ---- votes ---------------------------------------------------------------------------------- */

static void add_vote(struct answer_vote **list, size_t *n, struct answer_vote vote)
{
	size_t at = *n;

	*list = check_alloc(reallocarray(*list, *n + 1, sizeof(**list)));
	for (; at && (*list)[at - 1].verdict->confidence < vote.verdict->confidence; at--)
		(*list)[at] = (*list)[at - 1];
	(*list)[at] = vote;
	++*n;
}

static void copy_unknown(char *to, const char *from)
{
	if (!*to)
		snprintf(to, REC_NAME_BYTES, "%s", from);
}

static void learn(struct culprit *who, const struct culprit *c)
{
	who->rank = who->rank == REC_NONE ? c->rank : who->rank;
	who->pid = who->pid ? who->pid : c->pid;
	who->qpn = who->qpn ? who->qpn : c->qpn;
	who->score = fmax(who->score, c->score);
	copy_unknown(who->host, c->host);
	copy_unknown(who->nic, c->nic);
}

/* The surest verdict says what is wrong, and where. */
static void take_surest(struct answer_culprit *a)
{
	const struct answer_vote *first = a->named_by;

	a->class = first->verdict->class;
	a->level = first->verdict->level;
	a->action = first->verdict->action;
	snprintf(a->who.what, sizeof(a->who.what), "%s", first->culprit->what);
	for (size_t i = 0; i < a->named_by_n; i++) {
		const struct verdict *v = a->named_by[i].verdict;

		if (a->component == COMPONENT_NONE)
			a->component = v->component;
		if (v->first_seen_ns && (!a->first_seen_ns || v->first_seen_ns < a->first_seen_ns))
			a->first_seen_ns = v->first_seen_ns;
	}
}

/* Twice in one verdict is no second voice. */
static bool is_named_in(const struct answer_culprit *c, const struct verdict *v)
{
	for (size_t i = 0; i < c->named_by_n; i++)
		if (c->named_by[i].verdict == v)
			return true;
	return false;
}

static void name(struct answer *a, const struct answer_source *s, const struct verdict *v,
		 const struct culprit *c)
{
	struct answer_vote vote = {s, v, c};
	bool found = false;

	for (size_t i = 0; i < a->culprits_n; i++) {
		struct answer_culprit *k = a->culprit + i;

		if (!same_kind(k->class, v->class) || !is_same(k, v, c))
			continue;
		found = true;
		if (!is_named_in(k, v))
			add_vote(&k->named_by, &k->named_by_n, vote);
		learn(&k->who, c);
	}
	if (!found) {
		a->culprit = check_alloc(
			reallocarray(a->culprit, a->culprits_n + 1, sizeof(*a->culprit)));
		a->culprit[a->culprits_n] = (struct answer_culprit){
			.who = *c, .class = v->class, .level = v->level};
		add_vote(&a->culprit[a->culprits_n].named_by, &a->culprit[a->culprits_n].named_by_n,
			 vote);
		a->culprits_n++;
	}
}

/* Ranks first, so that verdicts on hosts find those whom they are about. */
static void name_all(struct answer *a, bool with_rank)
{
	for (size_t i = 0; i < a->sources; i++)
		for (size_t k = 0; k < a->source[i].n; k++) {
			const struct verdict *v = a->source[i].verdict + k;

			for (size_t m = 0; is_blaming(v) && m < v->culprits_n; m++)
				if ((v->culprits[m].rank != REC_NONE) == with_rank)
					name(a, a->source + i, v, v->culprits + m);
		}
}

static bool is_named_by(const struct answer_culprit *c, const struct answer_source *s)
{
	for (size_t i = 0; i < c->named_by_n; i++)
		if (c->named_by[i].source == s)
			return true;
	return false;
}

static bool is_seen_by(const struct answer_culprit *c, const struct answer_source *s)
{
	for (size_t i = 0; i < c->named_by_n; i++)
		if (!(s->sees & CLASS_BIT(c->named_by[i].verdict->class)))
			return false;
	return true;
}

/* Does it say that it was somebody else, or nobody? */
static bool contradicts(const struct answer_culprit *c, const struct answer_source *s,
			const struct verdict *v)
{
	if (is_of_network(c->level) || is_named_by(c, s))
		return false;
	if (v->class == CLASS_FINE)
		return is_seen_by(c, s);
	return is_blaming(v) && same_kind(c->class, v->class) && !is_of_network(v->level);
}

static double odds(double confidence)
{
	double c = fmin(fmax(confidence, CONFIDENCE_MIN), CONFIDENCE_MAX);

	return c / (1 - c);
}

static double weight_against(const struct verdict *v)
{
	return 1 - fmin(v->confidence, CONFIDENCE_MAX) / 2;
}

static bool is_first_of_analyser(const struct answer_vote *list, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(list[k].verdict->analyser, list[i].verdict->analyser))
			return false;
	return true;
}

/* Of an analyser's votes the surest, which is its first. */
static double weigh(const struct answer_culprit *c)
{
	double all = 1;

	for (size_t i = 0; i < c->named_by_n; i++)
		if (is_first_of_analyser(c->named_by, i))
			all *= odds(c->named_by[i].verdict->confidence);
	for (size_t i = 0; i < c->against_n; i++)
		if (is_first_of_analyser(c->against, i))
			all *= weight_against(c->against[i].verdict);
	return all / (1 + all);
}

static void hear_others(struct answer *a, struct answer_culprit *c)
{
	for (size_t i = 0; i < a->sources; i++)
		for (size_t k = 0; k < a->source[i].n; k++) {
			const struct verdict *v = a->source[i].verdict + k;

			if (contradicts(c, a->source + i, v))
				add_vote(&c->against, &c->against_n,
					 (struct answer_vote){a->source + i, v, NULL});
		}
	c->confidence = weigh(c);
}

/* ---- order ---------------------------------------------------------------------------------- */

static int rank_culprits(const void *x, const void *y)
{
	const struct answer_culprit *a = x, *b = y;
	bool blamed_a = a->confidence > ANSWER_BLAMED, blamed_b = b->confidence > ANSWER_BLAMED;

	if (blamed_a != blamed_b)
		return blamed_a ? -1 : 1;
	if (!same_kind(a->class, b->class))
		return b->class == CLASS_SLOW ? -1 : 1;
	if (fabs(a->confidence - b->confidence) > 1e-6)
		return a->confidence > b->confidence ? -1 : 1;
	if (a->who.score != b->who.score)
		return a->who.score > b->who.score ? -1 : 1;
	return (a->who.rank > b->who.rank) - (a->who.rank < b->who.rank);
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* Of those that know of most ranks, what the least of them has seen. */
static void take_coverage(struct answer *a)
{
	struct coverage *all = &a->coverage;
	bool some = false;

	*all = (struct coverage){.ranks_expected = REC_NONE, .clock_error_ns = REC_NONE};
	for (size_t i = 0; i < a->sources; i++)
		for (size_t k = 0; k < a->source[i].n; k++) {
			const struct coverage *c = &a->source[i].verdict[k].coverage;

			if (!some || c->ranks_expected > all->ranks_expected)
				all->ranks_seen = c->ranks_seen;
			else if (c->ranks_expected == all->ranks_expected)
				all->ranks_seen = c->ranks_seen < all->ranks_seen ? c->ranks_seen
										  : all->ranks_seen;
			if (c->ranks_expected > all->ranks_expected)
				all->ranks_expected = c->ranks_expected;
			if (c->clock_error_ns > all->clock_error_ns)
				all->clock_error_ns = c->clock_error_ns;
			all->dropped = c->dropped > all->dropped ? c->dropped : all->dropped;
			some = true;
		}
}

/* A warning: something is wrong, and no culprit was named. */
static const struct verdict *find_warning(const struct answer *a)
{
	for (size_t i = 0; i < a->sources; i++)
		for (size_t k = 0; k < a->source[i].n; k++) {
			const struct verdict *v = a->source[i].verdict + k;

			if (v->class != CLASS_FINE && v->class != CLASS_UNDECIDED && !v->culprits_n)
				return v;
		}
	return NULL;
}

/* The least of what is sure of each class; 0: somebody could have seen one, and has not. */
static double sure_that_fine(const struct answer *a)
{
	static const enum verdict_class classes[] = {CLASS_STOPPED, CLASS_SLOW, CLASS_FAILED};
	double sure = 1;
	bool asked = false;

	for (int c = 0; c < 3; c++) {
		double best = -1;

		for (size_t i = 0; i < a->sources; i++)
			for (size_t k = 0; k < a->source[i].n; k++) {
				const struct verdict *v = a->source[i].verdict + k;

				if (!(a->source[i].sees & CLASS_BIT(classes[c])))
					continue;
				best = fmax(best, v->class == CLASS_FINE ? v->confidence : 0);
			}
		if (best >= 0) {
			asked = true;
			sure = fmin(sure, best);
		}
	}
	/* Only who sees a part was asked. */
	for (size_t i = 0; !asked && i < a->sources; i++)
		for (size_t k = 0; k < a->source[i].n; k++)
			if (a->source[i].verdict[k].class == CLASS_FINE)
				return a->source[i].verdict[k].confidence;
	return asked ? sure : 0;
}

static void conclude(struct answer *a)
{
	const struct answer_culprit *first = a->culprit;
	const struct verdict *warning = find_warning(a);

	if (a->blamed || (a->culprits_n && first->confidence >= ANSWER_SUSPECT)) {
		a->class = a->blamed ? first->class : CLASS_UNDECIDED;
		a->component = a->blamed ? first->component : COMPONENT_NONE;
		a->confidence = a->blamed ? first->confidence : 0;
		a->first_seen_ns = first->first_seen_ns;
		a->action = first->action;
	} else if (warning) {
		a->class = warning->class;
		a->component = warning->component;
		a->confidence = warning->confidence;
		a->first_seen_ns = warning->first_seen_ns;
		a->action = warning->action;
	} else {
		a->confidence = sure_that_fine(a);
		a->class = a->confidence > 0 ? CLASS_FINE : CLASS_UNDECIDED;
	}
}

/* What to do, if nobody is blamed and nothing is fine: as the first who is undecided says. */
static void advise(struct answer *a)
{
	for (size_t i = 0; a->class == CLASS_UNDECIDED && i < a->sources; i++)
		for (size_t k = 0; !a->action && k < a->source[i].n; k++)
			if (a->source[i].verdict[k].class == CLASS_UNDECIDED)
				a->action = a->source[i].verdict[k].action;
}

struct answer answer_make(const struct answer_source *source, size_t n)
{
	struct answer a = {.source = source, .sources = n};

	name_all(&a, true);
	name_all(&a, false);
	for (size_t i = 0; i < a.culprits_n; i++) {
		take_surest(a.culprit + i);
		hear_others(&a, a.culprit + i);
	}
	if (a.culprits_n)
		qsort(a.culprit, a.culprits_n, sizeof(*a.culprit), rank_culprits);
	while (a.blamed < a.culprits_n && a.culprit[a.blamed].confidence > ANSWER_BLAMED)
		a.blamed++;
	take_coverage(&a);
	conclude(&a);
	advise(&a);
	return a;
}

void answer_free(struct answer *a)
{
	for (size_t i = 0; i < a->culprits_n; i++) {
		free(a->culprit[i].named_by);
		free(a->culprit[i].against);
	}
	free(a->culprit);
	a->culprit = NULL;
	a->culprits_n = a->blamed = 0;
}

int answer_status(const struct answer *a)
{
	if (a->blamed)
		return EXIT_CULPRIT;
	switch (a->class) {
	case CLASS_FINE: return EXIT_FINE;
	case CLASS_STOPPED:
	case CLASS_SLOW:
	case CLASS_FAILED: return EXIT_WARNING;
	case CLASS_UNDECIDED: return EXIT_UNDECIDED;
	}
	return EXIT_UNDECIDED;
}
