/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * NCCL's RAS as records: how many collectives each rank has launched, at the times at which
 * somebody asked. Whether it stands still only two answers tell, at least 10 s apart.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/foreign.h"
#include "common/cli.h"

enum { RANKS_MAX = 1 << 20, TOLD_MAX = 8 };

/* A rank of a communicator in an answer, looked at. */
struct ras_rank {
	const char *host;
	char comm[REC_NAME_BYTES];
	int pid, rank, size;
	int64_t launched; /* -1: missing */
	int async_error;
	bool is_dead, is_unresponsive, aborts;
};

static int int_of(const cJSON *o, const char *name, int otherwise)
{
	const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, name);

	return cJSON_IsNumber(n) ? n->valueint : otherwise;
}

static bool flag_of(const cJSON *o, const char *name)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, name));
}

/* Messages between two ranks are no collectives: NCCL may count them some day. */
static bool is_collective(const char *name)
{
	static const char *const others[] = {"Send",	  "Recv",   "SendRecv",
					     "PutSignal", "Signal", "WaitSignal"};

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (!strcmp(name, others[i]))
			return false;
	return true;
}

static int64_t sum_of_counts(const cJSON *rank)
{
	const cJSON *counts = cJSON_GetObjectItemCaseSensitive(rank, "collective_counts"), *n;
	double sum = 0;

	if (!cJSON_IsObject(counts)) /* an array has no names */
		return -1;
	cJSON_ArrayForEach (n, counts)
		if (cJSON_IsNumber(n) && n->valuedouble >= 0 && is_collective(n->string))
			sum += floor(n->valuedouble);
	return sum < 9e15 ? (int64_t)sum : -1;
}

/* False: it has not what a rank has. */
static bool look_at(const cJSON *comm, const cJSON *rank, struct ras_rank *to)
{
	const char *hash = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(comm, "hash"));
	const char *host = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(rank, "host"));
	const cJSON *status = cJSON_GetObjectItemCaseSensitive(rank, "status");

	*to = (struct ras_rank){
		.host = host && strcmp(host, "unknown") ? host : "",
		.pid = int_of(rank, "pid", -1),
		.rank = int_of(rank, "rank", -1),
		.size = int_of(comm, "size", 0),
		.launched = sum_of_counts(rank),
		.async_error = int_of(status, "async_error", 0),
		.is_dead = flag_of(status, "considered_dead"),
		.is_unresponsive = flag_of(status, "unresponsive"),
		.aborts = flag_of(status, "abort_flag"),
	};
	snprintf(to->comm, sizeof(to->comm), "ras-%.32s", hash ? hash : "?");
	return to->size > 0 && to->size <= RANKS_MAX && to->rank >= 0 && to->rank < to->size;
}

/* Calls fn for each rank that an answer has: those that are there, then those that are missing. */
static void each_rank(const struct ras_snapshot *s,
		      void (*fn)(void *arg, uint64_t t_ns, const struct ras_rank *r), void *arg)
{
	static const char *const lists[] = {"ranks", "missing_ranks"};
	const cJSON *comm, *rank;
	struct ras_rank r;

	cJSON_ArrayForEach (comm, cJSON_GetObjectItemCaseSensitive(s->json, "communicators"))
		for (int i = 0; i < 2; i++)
			cJSON_ArrayForEach (rank, cJSON_GetObjectItemCaseSensitive(comm, lists[i]))
				if (look_at(comm, rank, &r))
					fn(arg, s->t_ns, &r);
}

/* ---- as records ----------------------------------------------------------------------------- */

static struct rec_file *file_of(struct records *all, const struct ras_rank *r, uint64_t t_ns)
{
	struct rec_file *f;

	for (size_t i = 0; i < all->files; i++)
		if (all->file[i].pid == r->pid && !strcmp(all->file[i].host, r->host))
			return all->file + i;
	f = check_alloc(records_add(all));
	snprintf(f->host, sizeof(f->host), "%s", r->host);
	f->pid = r->pid;
	f->began_ns = t_ns;
	return f;
}

static bool has_comm(const struct rec_file *f, const struct ras_rank *r)
{
	for (size_t i = 0; i < f->comm_n; i++)
		if (!strcmp(f->comm[i].comm, r->comm))
			return true;
	return false;
}

/* Its rank is that in its largest communicator. */
static void add_comm(struct rec_file *f, const struct ras_rank *r)
{
	struct rec_comm *c;
	int largest = 0;

	if (has_comm(f, r))
		return;
	for (size_t i = 0; i < f->comm_n; i++)
		largest = f->comm[i].size > largest ? f->comm[i].size : largest;
	if (r->size > largest)
		f->rank = r->rank;
	c = check_alloc(rec_add_comm(f));
	snprintf(c->comm, sizeof(c->comm), "%s", r->comm);
	c->size = r->size;
	c->rank = r->rank;
}

static struct rec_coll *coll_of(struct rec_file *f, const char *comm)
{
	struct rec_coll *c;

	for (size_t i = 0; i < f->coll_n; i++)
		if (!strcmp(f->coll[i].comm, comm))
			return f->coll + i;
	c = check_alloc(rec_add_coll(f));
	snprintf(c->comm, sizeof(c->comm), "%s", comm);
	c->launch_only = true;
	c->root = REC_NONE;
	return c;
}

static void drop_coll(struct rec_file *f, const struct rec_coll *c)
{
	f->coll[c - f->coll] = f->coll[--f->coll_n];
}

/* The newest one that was launched, since the first answer that had it. */
static void add_rank(void *arg, uint64_t t_ns, const struct ras_rank *r)
{
	struct rec_coll *c;
	struct rec_file *f;

	if (r->launched < 0 || r->pid <= 0)
		return; /* missing: there is nothing to record */
	f = file_of(arg, r, t_ns);
	f->read_ns = t_ns;
	add_comm(f, r);
	c = coll_of(f, r->comm);
	if (!r->launched) {
		drop_coll(f, c);
	} else if (c->seq != (uint64_t)r->launched) {
		c->seq = (uint64_t)r->launched;
		c->launch_ns = c->end_ns = t_ns;
	}
}

static int by_time(const void *a, const void *b)
{
	const struct ras_snapshot *x = a, *y = b;

	return (x->t_ns > y->t_ns) - (x->t_ns < y->t_ns);
}

static bool has_processes(const struct records *r)
{
	for (size_t i = 0; i < r->files; i++)
		if (r->file[i].pid)
			return true;
	return false;
}

void foreign_finish(struct foreign *f, struct records *r)
{
	if (!f->ras_n)
		return;
	qsort(f->ras, f->ras_n, sizeof(*f->ras), by_time);
	if (has_processes(r)) /* they say more, and are not to be counted twice */
		return;
	for (size_t i = 0; i < f->ras_n; i++)
		each_rank(f->ras + i, add_rank, r);
	if (f->ras[0].t_ns == f->ras[f->ras_n - 1].t_ns)
		for (size_t i = 0; i < r->files; i++)
			if (r->file[i].pid)
				r->file[i].read_ns = 0; /* of one moment: nobody has stood still */
}

/* ---- as a verdict --------------------------------------------------------------------------- */

struct telling {
	struct verdict *v;
	enum verdict_class class;
	bool blames, any_dead;
	size_t told;
};

static void find_dead(void *arg, uint64_t t_ns, const struct ras_rank *r)
{
	struct telling *t = arg;

	(void)t_ns;
	t->any_dead |= r->is_dead;
}

static bool is_blamed(const struct verdict *v, const struct ras_rank *r)
{
	for (size_t i = 0; i < v->culprits_n; i++)
		if (v->culprits[i].pid == r->pid && v->culprits[i].rank == r->rank &&
		    !strcmp(v->culprits[i].host, r->host))
			return true;
	return false;
}

/* If some are dead, those that do not answer may only wait for them. */
static void blame(struct telling *t, const struct ras_rank *r)
{
	struct culprit *c;

	if (!t->blames || is_blamed(t->v, r) || (t->any_dead && !r->is_dead))
		return;
	c = verdict_blame(t->v);
	c->rank = r->rank;
	c->pid = r->pid > 0 ? r->pid : 0;
	snprintf(c->host, sizeof(c->host), "%s", r->host);
	t->v->class = t->class;
	t->v->component = COMPONENT_NONE;
	t->v->level = LEVEL_RANK;
	t->v->rule = r->is_dead ? "ras-dead" : "ras-unresponsive";
	t->v->confidence = r->is_dead ? 0.9 : 0.7;
	verdict_advises(t->v, "look at this process and its host: is it there, what does it do? "
			      "gdb -p, dmesg");
}

static void tell_rank(void *arg, uint64_t t_ns, const struct ras_rank *r)
{
	struct telling *t = arg;
	const char *what = r->is_dead		? "is dead"
			   : r->is_unresponsive ? "does not answer"
			   : r->launched < 0	? "does not have this communicator"
			   : r->aborts		? "aborts"
			   : r->async_error	? "has an error"
						: NULL;

	(void)t_ns;
	if (!what)
		return;
	if (t->told++ < TOLD_MAX)
		verdict_says(t->v, "RAS: %s: rank %d%s%s, process %d, %s (async_error %d)", r->comm,
			     r->rank, *r->host ? " on " : "", r->host, r->pid, what,
			     r->async_error);
	if (t->v->class == CLASS_FINE &&
	    (r->aborts || r->async_error || r->is_dead || r->is_unresponsive))
		verdict_undecided(t->v);
	if (r->is_dead || r->is_unresponsive)
		blame(t, r);
}

void foreign_tell(const struct foreign *f, enum verdict_class class, struct verdict *v)
{
	struct telling t = {.v = v, .class = class, .blames = !v->culprits_n};
	const struct ras_snapshot *last;

	if (!f->ras_n)
		return;
	last = f->ras + f->ras_n - 1;
	each_rank(last, find_dead, &t);
	each_rank(last, tell_rank, &t);
	if (t.told > TOLD_MAX)
		verdict_says(v, "RAS: and %zu more", t.told - TOLD_MAX);
	if (f->ras_n == 1 && !v->culprits_n)
		verdict_says(v,
			     "ncclras was asked once: whether the job stands still only a second "
			     "answer tells, 10 s later");
}
