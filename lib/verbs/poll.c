/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completions on their way to the program.
 *
 * Fast: the program's poll goes to its NIC and the completions are only counted. Slow, from the
 * first error on or while one of the CQ's QPs is in a switch or on a twin: whoever polls, or drains
 * behind a fence, first feeds all there is into the connections, in order (digest), and then takes
 * from `out`. So nobody can overtake a completion that another thread holds in its hand.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/verbs/log.h"
#include "lib/verbs/vobj.h"

#define BATCH 32

/* --- slow ------------------------------------------------------------------------------------ */

/* Completions from the program's CQ: those of the stash first. Under cq->digest, the gate shut. */
static int harvest(struct vcq *cq, struct ibv_wc *wc)
{
	int n = 0;

	while (n < BATCH && cq->stash_at < cq->stash_n)
		wc[n++] = cq->stash[cq->stash_at++];
	if (!n)
		return cq->poll_cq(cq->cq, BATCH, wc);
	if (cq->stash_at == cq->stash_n) {
		cq->stash_at = cq->stash_n = 0;
		gate_open(&cq->gate);
	}
	return n;
}

static void feed_rail0(struct vcq *cq, struct ibv_wc *wc)
{
	struct vqp *v = table_get(&cq->dev->qps, wc->qp_num);

	if (!v || !v->conn)
		vcq_out(cq, wc);
	else if (wc->wr_id == v->marker)
		atomic_store(&v->jobs[0].marker_seen, true);
	else
		vqp_completion(v, cq, 0, wc);
}

static void feed_twin(struct vcq *cq, const struct nic *nic, struct ibv_wc *wc)
{
	uint8_t rail;
	struct vqp *v = twin_find(nic, wc->qp_num, &rail);

	if (!v)
		return; /* of a twin that is gone, and so is its connection */
	if (wc->wr_id == v->marker)
		atomic_store(&v->jobs[rail].marker_seen, true);
	else
		vqp_completion(v, cq, rail, wc);
}

static void digest_shadow(struct vcq *cq, const struct nic *nic)
{
	struct ibv_cq *shadow = atomic_load(&cq->shadow[nic->index].cq);
	struct ibv_wc wc[BATCH];
	int n;

	if (!shadow)
		return;
	do {
		n = ibv_poll_cq(shadow, BATCH, wc);
		for (int i = 0; i < n; i++)
			feed_twin(cq, nic, &wc[i]);
	} while (n == BATCH);
}

/*
 * The gate stays shut until all that was polled is fed: a receive's completion gets the wr_id that
 * is next in the log, so nobody may poll a later one and have it counted first.
 */
void vcq_digest(struct vcq *cq)
{
	struct gate *gate = &cq->gate;
	struct ibv_wc wc[BATCH];
	int n;

	gate_shut(gate);
	gate_sync(&gate, 1);
	do {
		n = harvest(cq, wc);
		for (int i = 0; i < n; i++)
			feed_rail0(cq, &wc[i]);
	} while (n > 0);
	for (unsigned int i = 1; i < cq->dev->rails; i++)
		digest_shadow(cq, cq->dev->nic[i]);
	gate_open(gate);
}

static int take(struct vcq *cq, int n, struct ibv_wc *wc)
{
	struct wc_ring *r = &cq->out;
	int got = 0;

	pthread_mutex_lock(&cq->out_lock);
	while (got < n && r->head != r->tail)
		wc[got++] = r->wc[r->head++ & r->mask];
	if (got && r->head == r->tail)
		gate_open(&cq->gate);
	pthread_mutex_unlock(&cq->out_lock);
	return got;
}

static int slow_poll(struct vcq *cq, int n, struct ibv_wc *wc)
{
	int got;

	pthread_mutex_lock(&cq->digest);
	vcq_digest(cq);
	got = take(cq, n, wc);
	pthread_mutex_unlock(&cq->digest);
	return got;
}

/* --- fast ------------------------------------------------------------------------------------ */

/*
 * Another send of the QP that was counted last? Most are. The provider has stored each field just
 * now: read in a piece with its neighbour it would not be forwarded from those stores, but have to
 * wait until both are in the cache (3 ns per completion). So one by one, and in an order in which
 * the compiler does not join them.
 */
static inline bool count_like_last(struct vcq *cq, const struct ibv_wc *wc)
{
	if (wc->status != cq->alike.status || wc->qp_num != cq->alike.qpn ||
	    wc->opcode != cq->alike.opcode)
		return false;
	cq->done++;
	return true;
}

#ifdef __x86_64__
/* The same in fewer instructions. */
static inline SHIFT_SSE41 bool count_like_last_sse41(struct vcq *cq, const struct ibv_wc *wc)
{
	__m128i alike = _mm_cvtsi32_si128((int)wc->status);

	alike = _mm_insert_epi32(alike, (int)wc->opcode, 1);
	alike = _mm_insert_epi32(alike, (int)wc->qp_num, 2);
	alike = _mm_xor_si128(alike, *(const __m128i *)(const void *)&cq->alike);
	if (__builtin_expect(!_mm_testz_si128(alike, alike), 0))
		return false;
	cq->done++;
	return true;
}
#endif

void vcq_add_done(struct vcq *cq, const struct vqp *v)
{
	if (!v || cq->last != v)
		return;
	*shift_fast_done(v->conn) += cq->done;
	cq->done = 0;
}

static struct vqp *qp_of(struct vcq *cq, uint32_t qpn)
{
	if (__builtin_expect(qpn != cq->alike.qpn, 0)) {
		vcq_add_done(cq, cq->last);
		cq->last = table_get(&cq->dev->qps, qpn);
		cq->alike.qpn = cq->last ? qpn : 0;
	}
	return cq->last;
}

void vcq_forget(struct vcq *cq, const struct vqp *v)
{
	struct gate *gate = &cq->gate;

	gate_shut(gate);
	gate_sync(&gate, 1);
	if (cq->last == v) {
		vcq_add_done(cq, v);
		cq->last = NULL;
		cq->alike.qpn = 0;
	}
	gate_open(gate);
}

/* Not like the last one. */
static void count_one(struct vcq *cq, struct vqp *v, struct ibv_wc *wc)
{
	struct shift_cqe cqe = {
		.wr_id = wc->wr_id,
		.epoch = v->rail0_epoch,
		.is_recv = wc->opcode & IBV_WC_RECV,
	};
	struct shift_wc out = {.wr_id = wc->wr_id};

	shift_conn_cqe(v->conn, &cqe, &out, 0);
	wc->wr_id = out.wr_id;
	if (!cqe.is_recv)
		cq->alike.opcode = wc->opcode;
}

/* Counts what it may; returns how many that were, from the front. */
static int count(struct vcq *cq, int n, struct ibv_wc *wc)
{
	for (int i = 0; i < n; i++) {
		struct vqp *v;

		if (count_like_last(cq, &wc[i]))
			continue;
		v = qp_of(cq, wc[i].qp_num);
		if (!v)
			continue;
		if (__builtin_expect(wc[i].status != IBV_WC_SUCCESS, 0))
			return i;
		count_one(cq, v, &wc[i]);
	}
	return n;
}

static bool stash_grow(struct vcq *cq, uint32_t n)
{
	struct ibv_wc *stash;

	if (n <= cq->stash_size)
		return true;
	stash = realloc(cq->stash, n * sizeof(*stash));
	if (!stash)
		return false;
	cq->stash = stash;
	cq->stash_size = n;
	return true;
}

/* Under the gate: what comes after must not overtake these. */
static void stash(struct vcq *cq, int n, const struct ibv_wc *wc)
{
	cq->stash_at = 0;
	cq->stash_n = (uint32_t)n;
	if (!stash_grow(cq, cq->stash_n)) {
		log_error("out of memory: completions are lost");
		cq->stash_n = cq->stash_size;
	}
	memcpy(cq->stash, wc, cq->stash_n * sizeof(*wc));
	gate_shut(&cq->gate);
}

/* Inside the gate, which it leaves. */
static __attribute__((noinline)) int polled(struct vcq *cq, enum gate_how how, int got,
					    struct ibv_wc *wc)
{
	int counted = count(cq, got, wc);

	if (counted < got)
		stash(cq, got - counted, wc + counted);
	gate_leave(&cq->gate, how);
	return counted ? counted : slow_poll(cq, got, wc);
}

static __attribute__((noinline)) int any_poll_cq(struct ibv_cq *real_cq, int n, struct ibv_wc *wc)
{
	struct vcq *cq = vcq_find(real_cq);
	enum gate_how how;
	int got;

	if (!cq) {
		struct vdev *dev = vdev_find(real_cq->context);

		return dev ? dev->ops.poll_cq(real_cq, n, wc) : 0;
	}
	how = gate_enter(&cq->gate, wc);
	if (how == GATE_IS_SHUT)
		return slow_poll(cq, n, wc);
	if (how == GATE_OWNED)
		gate_remember(&gate_mine.poll, real_cq, cq);
	got = cq->poll_cq(real_cq, n, wc);
	if (got > 0)
		return polled(cq, how, got, wc);
	gate_leave(&cq->gate, how);
	return got;
}

/* The mark of the gate is wc, so that there is little to be saved over the call. */
static inline __attribute__((always_inline)) struct vcq *enter_to_poll(struct ibv_cq *real_cq,
								       struct ibv_wc *wc)
{
	struct vcq *cq;

	if (!gate_owns(&gate_mine.poll, real_cq))
		return NULL;
	cq = gate_mine.poll.object;
	return gate_enter_owned(&cq->gate, wc) ? cq : NULL;
}

static __attribute__((noinline)) int polled_unlike(struct vcq *cq, int got)
{
	if (got > 0)
		return polled(cq, GATE_OWNED, got, gate_mark(&cq->gate));
	gate_leave(&cq->gate, GATE_OWNED);
	return got;
}

int hot_poll_cq(struct ibv_cq *real_cq, int n, struct ibv_wc *wc)
{
	struct vcq *cq = enter_to_poll(real_cq, wc);
	int got;

	if (__builtin_expect(!cq, 0))
		return any_poll_cq(real_cq, n, wc);
	got = cq->poll_cq(real_cq, n, wc);
	if (got != 1 || !count_like_last(cq, gate_mark(&cq->gate)))
		return polled_unlike(cq, got);
	gate_leave(&cq->gate, GATE_OWNED);
	return 1;
}

#ifdef __x86_64__
SHIFT_SSE41 int hot_poll_cq_sse41(struct ibv_cq *real_cq, int n, struct ibv_wc *wc)
{
	struct vcq *cq = enter_to_poll(real_cq, wc);
	int got;

	if (__builtin_expect(!cq, 0))
		return any_poll_cq(real_cq, n, wc);
	got = cq->poll_cq(real_cq, n, wc);
	if (__builtin_expect(got != 1 || !count_like_last_sse41(cq, gate_mark(&cq->gate)), 0))
		return polled_unlike(cq, got);
	__asm__("" : "+r"(got)); /* 1, and there already */
	gate_leave(&cq->gate, GATE_OWNED);
	return got;
}
#endif
