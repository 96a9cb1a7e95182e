/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Operations that hooks have told, and the traffic of each. */
#include "cmd/shift-diag/pulse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

/* A hook's record, with where it belongs. */
struct told {
	size_t comm;
	uint64_t seq;
	int file, member;
	int from, to; /* of a message alone; else 0 */
	const struct rec_coll *coll;
	const struct rec_p2p *p2p;
};

struct told_list {
	struct told *item;
	size_t n;
};

static void add(struct told_list *l, struct told t)
{
	if (!(l->n & (l->n + 1)))
		l->item = check_alloc(realloc(l->item, (2 * l->n + 2) * sizeof(*l->item)));
	l->item[l->n++] = t;
}

static int by_op(const void *a, const void *b)
{
	const struct told *x = a, *y = b;

	if (x->comm != y->comm)
		return x->comm < y->comm ? -1 : 1;
	if (x->from != y->from)
		return x->from - y->from;
	if (x->to != y->to)
		return x->to - y->to;
	return (x->seq > y->seq) - (x->seq < y->seq);
}

/* A communicator of which there is no record is taken for that of the whole job. */
static size_t comm_of(struct pulse *p, const char *name, int file, int *member)
{
	size_t i = pulse_comm_find(p, name, 1);
	struct pulse_comm *c = p->comm + i;

	if (i == p->comms - 1 && c->size == 1 && p->ranks > 1) {
		p->comms--;
		free(c->file);
		free(c->rank);
		free(c->host);
		free(c->has_rank);
		i = pulse_comm_find(p, name, p->ranks);
		c = p->comm + i;
	}
	for (*member = 0; *member < c->size; (*member)++)
		if (c->file[*member] == file)
			return i;
	*member = p->records->file[file].rank;
	if (*member < 0 || *member >= c->size || c->file[*member] != REC_NONE) {
		*member = REC_NONE;
		return i;
	}
	c->file[*member] = file;
	c->rank[*member] = *member;
	c->has_rank[*member] = true;
	snprintf(c->host[*member], sizeof(c->host[0]), "%s", p->records->file[file].host);
	return i;
}

/* ---- collectives ---------------------------------------------------------------------------- */

static struct told_list told_colls(struct pulse *p)
{
	struct told_list l = {0};

	for (size_t i = 0; i < p->records->files; i++) {
		const struct rec_file *f = p->records->file + i;

		for (size_t j = 0; j < f->coll_n; j++) {
			struct told t = {
				.seq = f->coll[j].seq, .file = (int)i, .coll = f->coll + j};

			if (f->coll[j].launch_only) /* it would look as if it took no time */
				continue;
			t.comm = comm_of(p, f->coll[j].comm, t.file, &t.member);
			if (t.member >= 0)
				add(&l, t);
		}
	}
	if (l.n)
		qsort(l.item, l.n, sizeof(*l.item), by_op);
	return l;
}

static uint64_t until(const struct pulse *p, int file, uint64_t end_ns)
{
	return end_ns ? end_ns : p->records->file[file].read_ns;
}

static void fill_coll(struct pulse *p, struct pulse_op *o, const struct told *t)
{
	const struct rec_coll *k = t->coll;
	struct pulse_part *part = o->part + t->member;
	const struct pulse_curve *curve = p->curve + t->file;
	uint64_t from = k->launch_ns;

	if (k->first_wr_ns && (!from || k->first_wr_ns < from))
		from = k->first_wr_ns;
	part->takes_part = part->started = true;
	part->ended = k->end_ns != 0;
	part->launch_ns = k->launch_ns;
	part->start_ns = k->first_wr_ns ? k->first_wr_ns : k->launch_ns;
	part->end_ns = k->end_ns;
	if (curve->n)
		part->sent = pulse_traffic(curve, p->comm[o->comm].has_rank, p->ranks,
					   from - curve->epoch_ns + 1,
					   until(p, t->file, k->end_ns));
	else
		part->sent.cv = k->sent_bytes;
	snprintf(o->op, sizeof(o->op), "%s", k->op);
	o->bytes = k->bytes;
	o->seq = k->seq;
}

static int member_with_rank(const struct pulse_comm *c, int rank)
{
	for (int m = 0; m < c->size; m++)
		if (c->rank[m] == rank)
			return m;
	return REC_NONE;
}

static bool *active_peers(const struct pulse *p, const struct pulse_op *o)
{
	const struct pulse_comm *c = p->comm + o->comm;
	size_t size = (size_t)c->size;
	bool *active = check_alloc(calloc(size * size, 1));

	for (int m = 0; m < c->size; m++) {
		const struct pulse_part *part = o->part + m;
		const struct pulse_curve *curve;

		if (c->file[m] < 0 || !part->sent.cv)
			continue;
		curve = p->curve + c->file[m];
		for (size_t i = 0; i < curve->n && curve->sample[i].t_ns <= part->sent.last_ns;
		     i++) {
			int to;

			if (curve->sample[i].t_ns < part->sent.first_ns ||
			    curve->sample[i].rank < 0)
				continue;
			to = member_with_rank(c, curve->sample[i].rank);
			if (to >= 0)
				active[(size_t)m * size + (size_t)to] = true;
		}
	}
	return active;
}

static bool all_ended(const struct pulse *p, const struct pulse_op *o)
{
	for (int m = 0; m < p->comm[o->comm].size; m++)
		if (!o->part[m].ended)
			return false;
	return true;
}

/* By operation and order of magnitude: libraries choose by these. 0: no key. */
static uint64_t cache_key(const struct pulse_op *o)
{
	uint64_t key = 14695981039346656037u, bytes = o->bytes;

	for (const char *s = o->op; *s; s++)
		key = (key ^ (unsigned char)*s) * 1099511628211u;
	for (; bytes; bytes >>= 1)
		key++;
	return key ? key : 1;
}

static void find_algorithm(struct pulse *p, struct pulse_op *o)
{
	struct pulse_comm *c = p->comm + o->comm;
	uint64_t key = cache_key(o);
	size_t i = 0, n = sizeof(c->cached) / sizeof(*c->cached);
	bool *active;

	while (i < n && c->cached_key[i] && c->cached_key[i] != key)
		i++;
	if (i < n && c->cached_key[i]) {
		o->algorithm = c->cached[i];
		return;
	}
	active = active_peers(p, o);
	o->algorithm = pulse_match(active, c->size);
	free(active);
	if (i == n || o->algorithm == ALGORITHM_UNKNOWN || !all_ended(p, o))
		return;
	c->cached[i] = o->algorithm;
	c->cached_key[i] = key;
}

/* The paper's start is that of traffic: a kernel that was launched, and has not begun, has none.
 * Only where members send by themselves; elsewhere they wait for data first. */
static void find_starts(struct pulse *p, struct pulse_op *o, bool wrs_told)
{
	bool traffic = false;

	for (int m = 0; m < p->comm[o->comm].size; m++)
		traffic = traffic || o->part[m].sent.cv;
	for (int m = 0; m < p->comm[o->comm].size; m++) {
		struct pulse_part *part = o->part + m;

		if (!part->takes_part || wrs_told)
			continue;
		if (!o->symmetric && part->launch_ns)
			part->start_ns = part->launch_ns;
		else if (o->symmetric && part->sent.first_ns > part->start_ns)
			part->start_ns = part->sent.first_ns;
		else if (o->symmetric && traffic && o->algorithm != ALGORITHM_UNKNOWN &&
			 !part->sent.cv && !part->ended)
			part->started = false;
	}
}

static void set_starts_by_wr(struct pulse_op *o, const struct told *t, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct pulse_part *part = o->part + t[i].member;

		if (!o->symmetric && part->launch_ns)
			part->start_ns = part->launch_ns;
		else if (o->symmetric && !t[i].coll->first_wr_ns && !t[i].coll->wr && !part->ended)
			part->started = false;
	}
}

/* What such a process has no record of, it has not begun. */
static bool is_hooked(const struct rec_file *f)
{
	return !f->dropped && !f->unobserved && (f->comm_n || f->coll_n || f->p2p_n);
}

/* Members without a record: not begun, unless records are lost or nobody has recorded them. */
static void fill_missing(struct pulse *p, struct pulse_op *o, const uint64_t *last_seq)
{
	const struct pulse_comm *c = p->comm + o->comm;

	for (int m = 0; m < c->size; m++) {
		const struct rec_file *f;

		if (o->part[m].takes_part)
			continue;
		f = c->file[m] >= 0 ? p->records->file + c->file[m] : NULL;
		o->part[m].takes_part = !f || (is_hooked(f) && last_seq[m] < o->seq);
	}
}

static uint64_t *last_seqs(const struct pulse_comm *c, const struct told *t, size_t n)
{
	uint64_t *last = check_alloc(calloc((size_t)c->size + 1, sizeof(*last)));

	for (size_t i = 0; i < n; i++)
		if (t[i].seq > last[t[i].member])
			last[t[i].member] = t[i].seq;
	return last;
}

static void find_start(const struct pulse *p, struct pulse_op *o)
{
	for (int m = 0; m < p->comm[o->comm].size; m++) {
		const struct pulse_part *part = o->part + m;

		if (part->started && (!o->start_ns || part->start_ns < o->start_ns))
			o->start_ns = part->start_ns;
	}
}

static void make_coll(struct pulse *p, const struct told *t, size_t n, const uint64_t *last_seq)
{
	struct pulse_op *o = pulse_op_add(p, t->comm, KIND_COLLECTIVE);
	bool wrs_told = false;

	for (size_t i = 0; i < n; i++) {
		fill_coll(p, o, t + i);
		wrs_told = wrs_told || t[i].coll->first_wr_ns;
	}
	find_algorithm(p, o);
	o->symmetric = pulse_is_symmetric(o->op, o->algorithm);
	for (int m = 0; m < p->comm[o->comm].size; m++)
		o->part[m].expected = pulse_expected_bytes(o->op, o->algorithm, o->bytes,
							   p->comm[o->comm].size);
	if (wrs_told)
		set_starts_by_wr(o, t, n);
	find_starts(p, o, wrs_told);
	fill_missing(p, o, last_seq);
	find_start(p, o);
	if (!o->start_ns)
		o->start_ns = t->coll->launch_ns;
}

static bool same_op(const struct told *a, const struct told *b)
{
	return !by_op(a, b);
}

static void make_colls(struct pulse *p)
{
	struct told_list l = told_colls(p);

	for (size_t i = 0, j; i < l.n; i = j) {
		uint64_t *last;

		for (j = i; j < l.n && l.item[j].comm == l.item[i].comm;)
			j++;
		last = last_seqs(p->comm + l.item[i].comm, l.item + i, j - i);
		for (size_t k = i, next; k < j; k = next) {
			for (next = k; next < j && same_op(l.item + k, l.item + next);)
				next++;
			make_coll(p, l.item + k, next - k, last);
		}
		free(last);
	}
	free(l.item);
}

/* ---- messages ------------------------------------------------------------------------------- */

/* The nth message between two ranks is the same one at both. */
static uint64_t nth(const struct rec_file *f, size_t j)
{
	const struct rec_p2p *k = f->p2p + j;
	uint64_t n = 1;

	while (j--)
		n += !f->p2p[j].group && f->p2p[j].peer == k->peer &&
		     f->p2p[j].is_send == k->is_send && !strcmp(f->p2p[j].comm, k->comm);
	return n;
}

static struct told_list told_p2ps(struct pulse *p, bool grouped)
{
	struct told_list l = {0};

	for (size_t i = 0; i < p->records->files; i++) {
		const struct rec_file *f = p->records->file + i;

		for (size_t j = 0; j < f->p2p_n; j++) {
			const struct rec_p2p *k = f->p2p + j;
			struct told t = {.file = (int)i, .p2p = k};

			if (!k->group == grouped)
				continue;
			t.comm = comm_of(p, k->comm, t.file, &t.member);
			if (t.member < 0 || k->peer < 0 || k->peer >= p->comm[t.comm].size)
				continue;
			t.seq = grouped ? k->group : nth(f, j);
			t.from = grouped ? 0 : k->is_send ? t.member : k->peer;
			t.to = grouped ? 0 : k->is_send ? k->peer : t.member;
			add(&l, t);
		}
	}
	if (l.n)
		qsort(l.item, l.n, sizeof(*l.item), by_op);
	return l;
}

static struct pulse_message *message_between(struct pulse_op *o, int from, int to)
{
	for (size_t i = 0; i < o->messages; i++)
		if (o->message[i].from == from && o->message[i].to == to)
			return o->message + i;
	o->message = check_alloc(realloc(o->message, (o->messages + 1) * sizeof(*o->message)));
	o->message[o->messages] = (struct pulse_message){.from = from, .to = to};
	return o->message + o->messages++;
}

static bool is_done(const struct rec_p2p *k)
{
	return k->end_ns || (k->expected_bytes && k->actual_bytes >= k->expected_bytes);
}

static void fill_message(struct pulse_op *o, const struct told *t)
{
	const struct rec_p2p *k = t->p2p;
	int from = k->is_send ? t->member : k->peer, to = k->is_send ? k->peer : t->member;
	struct pulse_message *m = message_between(o, from, to);

	m->sent = m->sent || k->is_send;
	m->awaited = m->awaited || !k->is_send;
	m->unfinished = m->unfinished || !is_done(k);
	if (k->is_send || !m->sent) {
		m->expected = k->is_send ? m->expected + k->expected_bytes : k->expected_bytes;
		m->actual = k->is_send ? m->actual + k->actual_bytes : k->actual_bytes;
	}
}

static void fill_p2p(struct pulse_op *o, const struct told *t)
{
	const struct rec_p2p *k = t->p2p;
	struct pulse_part *part = o->part + t->member;
	bool first = !part->started;

	fill_message(o, t);
	part->takes_part = part->started = true;
	if (first || k->launch_ns < part->launch_ns)
		part->launch_ns = part->start_ns = k->launch_ns;
	part->ended = is_done(k) && (first || part->ended);
	if (k->end_ns > part->end_ns)
		part->end_ns = k->end_ns;
	if (k->is_send)
		part->expected += k->expected_bytes;
	if (k->is_send)
		part->sent.cv += k->actual_bytes;
	o->bytes += k->is_send ? k->expected_bytes : 0;
}

static void find_traffic(struct pulse *p, struct pulse_op *o)
{
	const struct pulse_comm *c = p->comm + o->comm;

	for (int m = 0; m < c->size; m++) {
		struct pulse_part *part = o->part + m;
		const struct pulse_curve *curve;

		if (!part->started || c->file[m] < 0 || !part->expected)
			continue;
		curve = p->curve + c->file[m];
		if (!curve->n)
			continue;
		part->sent = pulse_traffic(curve, c->has_rank, p->ranks,
					   part->launch_ns - curve->epoch_ns + 1,
					   until(p, c->file[m], part->ended ? part->end_ns : 0));
		if (part->ended && !part->end_ns)
			part->end_ns = part->sent.last_ns + curve->epoch_ns;
		if (o->kind == KIND_GROUP && part->sent.first_ns > part->start_ns)
			part->start_ns = part->sent.first_ns;
	}
}

/* One sends to all: then its messages are compared with each other, by who gets them. */
static void find_traffic_of_one(struct pulse *p, struct pulse_op *o)
{
	const struct pulse_comm *c = p->comm + o->comm;
	int from = o->message[0].from;
	bool *to = check_alloc(calloc((size_t)p->ranks + 1, 1));

	for (size_t i = 0; i < o->messages; i++) {
		struct pulse_part *part = o->part + o->message[i].to;
		int rank = c->rank[o->message[i].to];

		if (rank < 0)
			continue;
		to[rank] = true;
		part->sent = pulse_traffic(p->curve + c->file[from], to, p->ranks,
					   o->part[from].sent.first_ns, o->part[from].sent.last_ns);
		to[rank] = false;
	}
	o->part[from].sent.act_ns = 0;
	free(to);
}

static bool is_from_one(const struct pulse *p, const struct pulse_op *o)
{
	const struct pulse_comm *c = p->comm + o->comm;

	for (size_t i = 1; i < o->messages; i++)
		if (o->message[i].from != o->message[0].from)
			return false;
	return o->messages > 1 && c->file[o->message[0].from] >= 0 &&
	       p->curve[c->file[o->message[0].from]].n;
}

static bool has_bytes(const struct pulse_op *o, int member)
{
	for (size_t i = 0; i < o->messages; i++)
		if ((o->message[i].from == member || o->message[i].to == member) &&
		    (o->message[i].actual || !o->message[i].unfinished))
			return true;
	return false;
}

/* Whom the others of the group name, and who has said nothing, or none of whose messages has moved
 * though those of others have: launched by its host, but not begun. */
static void find_missing(struct pulse *p, struct pulse_op *o)
{
	const struct pulse_comm *c = p->comm + o->comm;
	bool some = false;

	for (int m = 0; m < c->size; m++)
		some = some || has_bytes(o, m);
	for (size_t i = 0; i < o->messages; i++) {
		int ends[] = {o->message[i].from, o->message[i].to};

		for (int k = 0; k < 2; k++) {
			struct pulse_part *part = o->part + ends[k];
			int file = c->file[ends[k]];
			const struct rec_file *f = file >= 0 ? p->records->file + file : NULL;

			if (!part->takes_part)
				part->takes_part = !f || is_hooked(f);
			if (o->kind == KIND_GROUP && some && f && part->started && !part->sent.cv &&
			    !has_bytes(o, ends[k]) &&
			    !pulse_posted(f, part->launch_ns, until(p, file, 0)))
				part->started = false;
		}
	}
}

static void make_p2ps(struct pulse *p, bool grouped)
{
	struct told_list l = told_p2ps(p, grouped);

	for (size_t i = 0, j; i < l.n; i = j) {
		struct pulse_op *o = pulse_op_add(p, l.item[i].comm,
						  grouped ? KIND_GROUP : KIND_P2P);

		snprintf(o->op, sizeof(o->op), grouped ? "group" : "message");
		o->seq = l.item[i].seq;
		o->symmetric = grouped;
		for (j = i; j < l.n && same_op(l.item + i, l.item + j); j++)
			fill_p2p(o, l.item + j);
		find_traffic(p, o);
		find_missing(p, o);
		if (is_from_one(p, o))
			find_traffic_of_one(p, o);
		find_start(p, o);
		if (!o->start_ns)
			o->start_ns = l.item[i].p2p->launch_ns;
	}
	free(l.item);
}

void pulse_ops_hooks(struct pulse *p)
{
	make_colls(p);
	make_p2ps(p, true);
	make_p2ps(p, false);
}
