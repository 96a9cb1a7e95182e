/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * --srq: shared receive queues, and the books of their buffers.
 *
 * A wr_id names a buffer and how often that was posted, so one that comes back twice, or late, is
 * told from one that is due. A buffer that is not posted is filled with bytes that no NIC may
 * change.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/clients/integrity/integrity.h"

enum {
	SPARE_BUFFERS = 8, /* more than receives: some rest while all receives are posted */
	LIST_MAX = 8,
	RESTING = 0xb7, /* in a buffer that is not posted */
};

uint32_t srq_buffers(void)
{
	return opt.w.srq_depth + SPARE_BUFFERS;
}

uint32_t srq_receives(void)
{
	return opt.w.srqs * opt.w.srq_depth;
}

static uint32_t buffer_index(const struct srq *s, const struct srq_buffer *b)
{
	return (uint32_t)(b - s->buffers);
}

static uint8_t *buffer_bytes(const struct srq *s, const struct srq_buffer *b)
{
	return s->memory + (size_t)buffer_index(s, b) * (s->mr->length / srq_buffers());
}

static void complain(const struct srq *s, uint64_t wr_id, const char *what)
{
	fprintf(stderr, "integrity: srq %u: receive %u, posted %u times: %s\n", s->index,
		(uint32_t)wr_id & 0xffff, (uint32_t)wr_id >> 16, what);
}

/* ---- posting ------------------------------------------------------------------------------- */

/* Messages without data in their receive need no buffer. */
static bool sends_data(void)
{
	return opt.w.ops & (1u << OP_SEND | 1u << OP_SEND_IMM);
}

static void check_rest(struct srq *s, const struct srq_buffer *b)
{
	const uint8_t *p = buffer_bytes(s, b);
	uint32_t length = (uint32_t)(s->mr->length / srq_buffers());

	if (*p == RESTING && !memcmp(p, p + 1, length - 1))
		return;
	s->found.late_writes++;
	fprintf(stderr, "integrity: srq %u: buffer %u was written while it was not posted\n",
		s->index, buffer_index(s, b));
}

static uint64_t id_of(const struct srq *s, const struct srq_buffer *b)
{
	uint64_t id = UINT64_C(1) << 63 | (uint64_t)s->index << 32;

	return opt.w.same_ids ? id : id | (uint64_t)b->life << 16 | buffer_index(s, b);
}

static void prepare_receive(struct srq *s, struct ibv_recv_wr *wr, struct ibv_sge *sges)
{
	uint32_t nth = pick_by(&s->random, s->free_count);
	struct srq_buffer *b = &s->buffers[s->free[nth]];

	s->free[nth] = s->free[--s->free_count];
	check_rest(s, b);
	b->posted = true;
	b->life++;
	pieces_cut(&s->random, &b->pieces, (uint32_t)(buffer_bytes(s, b) - s->memory), opt.w.size);
	if (!sends_data() && (opt.w.same_ids || pick_by(&s->random, 2)))
		b->pieces.n = 0;
	*wr = (struct ibv_recv_wr){.wr_id = id_of(s, b), .sg_list = sges};
	wr->num_sge = pieces_sges(s->mr, &b->pieces, sges);
}

/* Of a list: it must end before that one. */
static bool breaks(struct srq *s)
{
	if (opt.break_receive != BREAK_LOST_RECEIVE || s->index || s->n.posted < BREAK_AT)
		return false;
	opt.break_receive = BREAK_NO_RECEIVE;
	return true;
}

/* Returns how many: n, or fewer for --break. */
static uint32_t post_list(struct srq *s, uint32_t n)
{
	struct ibv_recv_wr wrs[LIST_MAX], *bad = NULL;
	struct ibv_sge sges[LIST_MAX][PIECES_MAX];
	int err;

	if (breaks(s)) {
		prepare_receive(s, wrs, sges[0]);
		return 1;
	}
	for (uint32_t i = 0; i < n; i++) {
		prepare_receive(s, &wrs[i], sges[i]);
		wrs[i].next = i + 1 < n ? &wrs[i + 1] : NULL;
	}
	err = ibv_post_srq_recv(s->srq, wrs, &bad);
	if (err) {
		errno = err;
		fail("post_srq_recv");
	}
	/* They are the NIC's: what we wrote them from is used again at once. */
	memset(wrs, 0xee, sizeof(wrs));
	memset(sges, 0xee, sizeof(sges));
	s->n.posts++;
	return n;
}

/* Single ones, and lists. */
static void post_some(struct srq *s, uint32_t n)
{
	while (n) {
		uint32_t list = 1 + pick_by(&s->random, LIST_MAX);

		if (pick_by(&s->random, 2))
			list = 1;
		list = post_list(s, list < n ? list : n);
		s->posted += list;
		s->ungranted += list;
		s->n.posted += list;
		n -= list;
	}
}

/* How many of n now? */
static uint32_t draw(struct srq *s, uint32_t n)
{
	if (opt.w.prompt_receives)
		return n;
	if (pick_by(&s->random, 8) || now_ms() < s->held_until_ms)
		return 0;
	if (!pick_by(&s->random, 500)) {
		s->held_until_ms = now_ms() + opt.w.hold_ms;
		return 0;
	}
	return 1 + pick_by(&s->random, n);
}

static void post_locked(struct srq *s, bool all)
{
	uint32_t n = opt.w.srq_depth - s->posted;

	if (s->free_count < n)
		n = s->free_count; /* the others are being read */
	if (all) {
		post_some(s, n);
	} else if (!opt.srq_limit) {
		post_some(s, n ? draw(s, n) : 0);
	} else if (srq_limit_due(s)) {
		post_some(s, n);
		srq_limit_arm(s);
	}
}

void srq_post(struct run *r, struct srq *s, bool all)
{
	(void)r;
	pthread_mutex_lock(&s->lock);
	post_locked(s, all);
	pthread_mutex_unlock(&s->lock);
}

void srqs_post_all(struct run *r)
{
	for (uint32_t i = 0; i < opt.w.srqs; i++)
		srq_post(r, &r->srqs[i], true);
}

/* ---- completions --------------------------------------------------------------------------- */

/* Which it is is not known, and without SGEs it makes no difference. */
static struct srq_buffer *any_posted(struct srq *s)
{
	for (uint32_t i = 0; i < srq_buffers(); i++)
		if (s->buffers[i].posted)
			return &s->buffers[i];
	return NULL;
}

static struct srq_buffer *named(struct srq *s, uint64_t wr_id)
{
	uint32_t index = wr_id & 0xffff;

	if ((wr_id >> 32 & 0x7fffffff) != s->index)
		return NULL;
	if (opt.w.same_ids)
		return wr_id == id_of(s, NULL) ? any_posted(s) : NULL;
	return index < srq_buffers() ? &s->buffers[index] : NULL;
}

static struct srq_buffer *take_locked(struct srq *s, uint64_t wr_id)
{
	struct srq_buffer *b = named(s, wr_id);
	const char *wrong = NULL;

	if (!b)
		wrong = opt.w.same_ids ? "more came back than were posted" : "there is no such one";
	else if (!opt.w.same_ids && b->life != (uint16_t)(wr_id >> 16))
		wrong = "it came back from an earlier time";
	else if (!b->posted)
		wrong = "it came back twice";
	if (wrong) {
		complain(s, wr_id, wrong);
		s->found.bad_receives++;
		return NULL;
	}
	b->posted = false;
	s->posted--;
	s->n.handed_out++;
	return b;
}

struct srq_buffer *srq_take(struct srq *s, uint64_t wr_id)
{
	struct srq_buffer *b;

	pthread_mutex_lock(&s->lock);
	b = take_locked(s, wr_id);
	if (b && opt.break_receive == BREAK_REPEATED_RECEIVE && s->n.handed_out > BREAK_AT) {
		opt.break_receive = BREAK_NO_RECEIVE;
		take_locked(s, wr_id);
	}
	pthread_mutex_unlock(&s->lock);
	return b;
}

void srq_put_back(struct srq *s, struct srq_buffer *b)
{
	memset(buffer_bytes(s, b), RESTING, s->mr->length / srq_buffers());
	pthread_mutex_lock(&s->lock);
	s->free[s->free_count++] = buffer_index(s, b);
	pthread_mutex_unlock(&s->lock);
}

/* ---- credit -------------------------------------------------------------------------------- */

static bool peer_sends(const struct lane *l)
{
	return !l->last && (!opt.peer || !opt.w.one_way);
}

/* Each receive to one lane, in turn, of those whose peers send. */
static void grant_locked(struct run *r, struct srq *s)
{
	uint32_t lanes = (opt.w.qps - s->index + opt.w.srqs - 1) / opt.w.srqs, idle = 0;

	while (s->ungranted && idle < lanes) {
		struct lane *l = &r->lanes[s->index + s->turn * opt.w.srqs];

		s->turn = (s->turn + 1) % lanes;
		if (!peer_sends(l)) {
			idle++;
			continue;
		}
		idle = 0;
		l->granted++;
		s->ungranted--;
	}
}

uint32_t srq_granted(struct run *r, struct lane *l)
{
	uint32_t granted;

	if (!opt.w.credits || !l->srq)
		return 0;
	pthread_mutex_lock(&l->srq->lock);
	grant_locked(r, l->srq);
	granted = l->granted;
	pthread_mutex_unlock(&l->srq->lock);
	return granted;
}

/* What it will not use is another lane's. */
void srq_last_heard(struct lane *l)
{
	uint32_t sent = l->last - 1;

	if (!l->srq)
		return;
	pthread_mutex_lock(&l->srq->lock);
	if (l->granted > sent)
		l->srq->ungranted += l->granted - sent;
	pthread_mutex_unlock(&l->srq->lock);
}

/* ---- from the first to the last ------------------------------------------------------------ */

static void *memory_of(size_t n, size_t bytes)
{
	void *p = calloc(n, bytes);

	if (!p)
		fail("memory");
	return p;
}

static void create_buffers(struct run *r, struct srq *s)
{
	size_t bytes = (size_t)srq_buffers() * r->layout.buffer_stride;

	s->buffers = memory_of(srq_buffers(), sizeof(*s->buffers));
	s->free = memory_of(srq_buffers(), sizeof(*s->free));
	s->memory = aligned_alloc(64, bytes);
	if (!s->memory)
		fail("memory");
	memset(s->memory, RESTING, bytes);
	s->mr = ibv_reg_mr(r->devices[0].pd, s->memory, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!s->mr)
		fail("reg_mr");
	for (uint32_t i = 0; i < srq_buffers(); i++)
		s->free[s->free_count++] = i;
}

/* Some receives are there before any QP is. */
static void create(struct run *r, uint32_t index)
{
	struct srq *s = &r->srqs[index];
	struct ibv_srq_init_attr attr = {
		.attr = {.max_wr = opt.w.srq_depth, .max_sge = PIECES_MAX}};

	s->index = index;
	s->random = mix(opt.w.seed ^ (uint64_t)index << 40 ^ side_own());
	pthread_mutex_init(&s->lock, NULL);
	s->srq = ibv_create_srq(r->devices[0].pd, &attr);
	if (!s->srq)
		fail("create_srq");
	create_buffers(r, s);
	post_some(s, pick_by(&s->random, opt.w.srq_depth + 1));
}

void srqs_create(struct run *r)
{
	r->srqs = memory_of(opt.w.srqs, sizeof(*r->srqs));
	for (uint32_t i = 0; i < opt.w.srqs; i++)
		create(r, i);
	if (opt.srq_limit > opt.w.srq_depth) { /* the client may have said so only now */
		errno = EINVAL;
		fail("--srq-limit: more than the receives");
	}
	if (opt.srq_limit)
		srq_limit_start(r);
}

void srqs_reuse(struct run *r)
{
	for (uint32_t i = 0; i < opt.w.srqs; i++)
		r->srqs[i].ungranted = r->srqs[i].posted;
}

void srqs_destroy(struct run *r)
{
	if (opt.srq_limit)
		srq_limit_stop(r);
	for (uint32_t i = 0; i < opt.w.srqs; i++) {
		struct srq *s = &r->srqs[i];

		ibv_destroy_srq(s->srq);
		ibv_dereg_mr(s->mr);
		free(s->memory);
		free(s->buffers);
		free(s->free);
	}
	free(r->srqs);
}
