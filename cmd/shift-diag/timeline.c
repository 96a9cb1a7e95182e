/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/timeline.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/aegis.h"
#include "common/cli.h"

enum { FILE_MAX_BYTES = 256 << 20, WORKERS_MAX = 65536, EVENTS_LEAST = 3 };

/* A worker or a stage is slow if it needs so many times what the others need. */
static const double slow_times = 1.2;

static const char *const op_names[] = {"forward", "backward"};

/* ---- reading -------------------------------------------------------------------------------- */

static int read_all(FILE *in, char **text, size_t *len)
{
	size_t room = 1 << 20;

	*text = malloc(room);
	*len = 0;
	while (*text) {
		size_t n = fread(*text + *len, 1, room - *len, in);
		char *grown;

		*len += n;
		if (*len < room)
			return ferror(in) ? -EIO : 0;
		if (room >= FILE_MAX_BYTES)
			return -EFBIG;
		room *= 2;
		grown = realloc(*text, room);
		if (!grown)
			free(*text);
		*text = grown;
	}
	return -ENOMEM;
}

static const char *text_of(const cJSON *o, const char *name)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));

	return text ? text : "";
}

static double number_of(const cJSON *o, const char *name)
{
	const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, name);

	return cJSON_IsNumber(n) ? n->valuedouble : NAN;
}

/* "PP rank 0, TP rank 0, compute" */
static void take_thread(struct timeline *t, const cJSON *e)
{
	const char *name = text_of(cJSON_GetObjectItemCaseSensitive(e, "args"), "name");
	struct timeline_worker w = {.pid = number_of(e, "pid"), .tid = number_of(e, "tid")};
	int end = 0;

	if (sscanf(name, "PP rank %d, TP rank %d, compute%n", &w.pp, &w.tp, &end) != 2 || !end ||
	    name[end] || !(w.pid >= 0 && w.pid <= INT32_MAX) || !isfinite(w.tid) ||
	    t->workers == WORKERS_MAX)
		return;
	w.dp = (int)w.pid;
	t->worker = check_alloc(reallocarray(t->worker, t->workers + 1, sizeof(*t->worker)));
	t->worker[t->workers++] = w;
}

static int by_thread(const void *a, const void *b)
{
	const struct timeline_worker *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->tid > y->tid) - (x->tid < y->tid);
}

static void take_event(struct timeline *t, const cJSON *e)
{
	const struct timeline_worker key = {.pid = number_of(e, "pid"), .tid = number_of(e, "tid")};
	const char *name = text_of(e, "name");
	double us = number_of(e, "dur");
	struct timeline_worker *w;
	int op;

	if (!strcmp(name, "forward-compute"))
		op = TIMELINE_FORWARD;
	else if (!strcmp(name, "backward-compute"))
		op = TIMELINE_BACKWARD;
	else
		return;
	w = t->workers ? bsearch(&key, t->worker, t->workers, sizeof(key), by_thread) : NULL;
	if (!w || !(us >= 0) || !isfinite(us))
		return;
	w->sum_us[op] += us;
	w->n[op]++;
}

static void take_all(struct timeline *t, const cJSON *events)
{
	const cJSON *e;

	cJSON_ArrayForEach (e, events) {
		if (!strcmp(text_of(e, "ph"), "M") && !strcmp(text_of(e, "name"), "thread_name"))
			take_thread(t, e);
	}
	if (t->workers)
		qsort(t->worker, t->workers, sizeof(*t->worker), by_thread);
	cJSON_ArrayForEach (e, events) {
		if (!strcmp(text_of(e, "ph"), "X"))
			take_event(t, e);
	}
}

int timeline_read(FILE *in, struct timeline *t)
{
	char *text = NULL;
	size_t len;
	int status = read_all(in, &text, &len);
	cJSON *o = status ? NULL : cJSON_ParseWithLength(text, len);

	*t = (struct timeline){0};
	free(text);
	if (status)
		return status;
	/* Both forms of a trace. */
	take_all(t, cJSON_IsArray(o) ? o : cJSON_GetObjectItemCaseSensitive(o, "traceEvents"));
	cJSON_Delete(o);
	return t->workers ? 0 : -EINVAL;
}

void timeline_free(struct timeline *t)
{
	free(t->worker);
	*t = (struct timeline){0};
}

/* ---- judging -------------------------------------------------------------------------------- */

static bool is_known(const struct timeline_worker *w, int op)
{
	return w->n[op] >= EVENTS_LEAST;
}

static double mean_us(const struct timeline_worker *w, int op)
{
	return w->sum_us[op] / (double)w->n[op];
}

static bool is_peer(const struct timeline_worker *a, const struct timeline_worker *b, int op)
{
	return is_known(b, op) && a->pp == b->pp && a->tp == b->tp;
}

/* How many times the mean of the others of its stage it needs; 0: not more than they. */
static double times_peers(const struct timeline *t, const struct timeline_worker *w, int op)
{
	double *value = check_alloc(calloc(t->workers, sizeof(*value))), sum = 0, times = 0;
	size_t n = 0, own = 0;

	for (size_t i = 0; i < t->workers; i++) {
		if (!is_peer(w, t->worker + i, op))
			continue;
		if (t->worker + i == w)
			own = n;
		else
			sum += mean_us(t->worker + i, op);
		value[n++] = mean_us(t->worker + i, op);
	}
	if (n > 1 && sum > 0)
		times = value[own] / (sum / (double)(n - 1));
	if (times < slow_times || (n > 2 && !aegis_is_outlier(value, n, own, 0)))
		times = 0;
	free(value);
	return times;
}

static double mean_of_all(const struct timeline *t, int op)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < t->workers; i++)
		if (is_known(t->worker + i, op)) {
			sum += mean_us(t->worker + i, op);
			n++;
		}
	return sum / (double)n;
}

static void judge_worker(const struct timeline *t, const struct timeline_worker *w,
			 struct verdict *v)
{
	struct culprit *c;
	bool slow = false;

	for (int op = 0; op < TIMELINE_OPS; op++) {
		double times = is_known(w, op) ? times_peers(t, w, op) : 0;

		if (times == 0)
			continue;
		slow = true;
		verdict_says(v,
			     "DP rank %d, PP rank %d, TP rank %d: %s takes %.2f times as long as "
			     "at its peers, %.2f times the mean of all",
			     w->dp, w->pp, w->tp, op_names[op], times,
			     mean_us(w, op) / mean_of_all(t, op));
	}
	if (!slow)
		return;
	c = verdict_blame(v);
	snprintf(c->what, sizeof(c->what), "DP rank %d, PP rank %d, TP rank %d", w->dp, w->pp,
		 w->tp);
}

/* The mean of a stage, or of all others. NAN: not known. */
static double stage_us(const struct timeline *t, int pp, bool others, int op)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < t->workers; i++)
		if (is_known(t->worker + i, op) && (t->worker[i].pp == pp) != others) {
			sum += mean_us(t->worker + i, op);
			n++;
		}
	return n ? sum / (double)n : NAN;
}

static void judge_stages(const struct timeline *t, struct verdict *v)
{
	int last = -1;

	for (size_t i = 0; i < t->workers; i++)
		last = t->worker[i].pp > last && t->worker[i].pp < WORKERS_MAX ? t->worker[i].pp
									       : last;
	for (int pp = 0; pp <= last; pp++)
		for (int op = 0; op < TIMELINE_OPS; op++) {
			double times = stage_us(t, pp, false, op) / stage_us(t, pp, true, op);

			if (!(times >= slow_times))
				continue;
			v->class = CLASS_SLOW;
			verdict_says(v,
				     "PP rank %d: %s takes %.2f times as long as in other stages, "
				     "at all its workers",
				     pp, op_names[op], times);
		}
}

struct verdict timeline_judge(const struct timeline *t)
{
	struct verdict v = verdict_make("aegis", "slow-worker");
	int known = 0;

	for (size_t i = 0; i < t->workers; i++)
		known += is_known(t->worker + i, TIMELINE_FORWARD) ||
			 is_known(t->worker + i, TIMELINE_BACKWARD);
	v.coverage.ranks_expected = (int)t->workers;
	v.coverage.ranks_seen = known;
	v.confidence = t->workers ? 0.9 * known / (double)t->workers : 0;
	verdict_threshold(&v, "slow_times", slow_times);
	for (size_t i = 0; i < t->workers; i++)
		judge_worker(t, t->worker + i, &v);
	if (v.culprits_n) {
		v.class = CLASS_SLOW;
		v.component = COMPONENT_COMPUTATION;
		verdict_advises(&v, "what slows this worker: throttling, another process, a GPU?");
		return v;
	}
	judge_stages(t, &v);
	if (v.class == CLASS_SLOW) {
		v.rule = "long-stage";
		v.component = COMPONENT_COMPUTATION;
		verdict_advises(&v, "divide the layers among the stages anew");
	} else if (known < (int)t->workers || known < 2) {
		v.class = CLASS_UNDECIDED;
		v.confidence = 0;
		verdict_says(&v, "%d of %zu workers have computations enough to compare", known,
			     t->workers);
		verdict_advises(&v, "record for longer, and all workers");
	}
	return v;
}
