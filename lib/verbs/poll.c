/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completions on their way to the program.
 *
 * On the fast way the program's poll goes to its NIC, and the completions are only counted. The
 * slow way begins with the first error, or while a QP of the CQ is in a switch or on a twin. Then a
 * thread that polls first feeds all completions to the connections, in order (vcq_drain), and takes
 * what these have delivered. A fence drains in the same way. So no thread can overtake a completion
 * that another one is feeding.
 */
#include "lib/verbs/poll.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/background.h"
#include "lib/base/log.h"
#include "lib/base/uncancelled.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/cq_counts.h"
#include "lib/conn/drain.h"
#include "lib/conn/srq_qps.h"
#include "lib/object/passed_errors.h"

/* --- slow ------------------------------------------------------------------------------------ */

static int drained_poll(struct vcq *cq, int n, struct ibv_wc *wc)
{
	int got, err;

	pthread_mutex_lock(&cq->drain_lock);
	err = vcq_drain(cq);
	got = vcq_take(cq, n, wc);
	pthread_mutex_unlock(&cq->drain_lock);
	return got ? got : err;
}

/* A poll that finds nothing, though an event has said that a completion is there, waits at most so
 * long for one. Less than a switch waits for the program at ibv_wr_start (wr_builder.c). */
#define WOKEN_NS 500000000ull

/* A thread that has done so in vain does not wait again so soon. It may serve many connections: if
 * those to a host that is gone held it up one after the other, all others would stand still. */
#define VAIN_NS 30000000000ull

static bool vain_lately(uint64_t vain_ns)
{
	return vain_ns && now_ns() - vain_ns < VAIN_NS;
}

/*
 * It was an error, which the program is not to see. What the switch brings in its place comes soon:
 * some programs poll once for an event, and take it that their WR is done (ib_read_lat -e). Without
 * a switch there is nothing to wait for: `woken` may be of long ago, as a completion that is
 * counted on the fast way does not clear it, and the gate is shut for many reasons.
 */
static int awaited_poll(struct vcq *cq, int n, struct ibv_wc *wc)
{
	const struct timespec ms = {.tv_nsec = 1000000};
	static _Thread_local uint64_t vain_ns; /* when it did last; 0: never */
	uint64_t end = now_ns() + WOKEN_NS;
	int got = 0;

	if (!vqp_any_switching() || vain_lately(vain_ns))
		return 0;
	object_get(&cq->obj); /* a careless program may destroy it meanwhile */
	uncancelled_begin();  /* no poll is a cancellation point */
	do {
		nanosleep(&ms, NULL);
		if (cq_events_closing(&cq->events))
			break;
		got = drained_poll(cq, n, wc);
	} while (!got && gate_is_shut(&cq->gate) && now_ns() < end);
	if (!got && now_ns() >= end)
		vain_ns = now_ns();
	uncancelled_end();
	object_put(&cq->obj);
	return got;
}

static int slow_poll(struct vcq *cq, int n, struct ibv_wc *wc)
{
	int got = drained_poll(cq, n, wc);

	if (atomic_load(&cq->woken) && atomic_exchange(&cq->woken, false) && !got)
		got = awaited_poll(cq, n, wc);
	return got;
}

/* --- fast ------------------------------------------------------------------------------------ */

static struct vqp *qp_of(struct vcq *cq, uint32_t qpn)
{
	struct vqp *v = assoc_find(&cq->qps, qpn);

	if (__builtin_expect(!v, 0)) {
		v = table_get(&cq->dev->qps, qpn);
		if (v)
			vcq_remember(cq, v, qpn);
	}
	return v;
}

/*
 * The QP of a completion without an error, if the CQ has seen it before, as is so for most. The
 * provider has stored each field just now. If a field were read together with its neighbour, it
 * could not be forwarded from these stores, and would have to wait until both are in the cache (3
 * ns per completion). So the fields are read one by one, in an order in which the compiler does not
 * join them.
 */
static inline struct vqp *known_qp(const struct vcq *cq, const struct ibv_wc *wc)
{
	if (__builtin_expect(wc->status != IBV_WC_SUCCESS, 0))
		return NULL;
	return assoc_find(&cq->qps, wc->qp_num);
}

/* A receive; of an SRQ, whose QPs have nothing in their logs, in the usual case. */
static inline bool count_recv(struct vqp *v, struct ibv_wc *wc)
{
	return shift_fast_recv_done(&v->hot.log.recvs, &wc->wr_id) ||
	       (v->hot.srq && srq_qp_count_usual(v, &wc->wr_id));
}

/* false: it is a receive, and not in the QP's log. */
static inline bool count_own(struct vqp *v, struct ibv_wc *wc)
{
	if (wc->opcode & IBV_WC_RECV)
		return shift_fast_recv_done(&v->hot.log.recvs, &wc->wr_id);
	PLAIN_INCREMENT(&v->hot.log.sends_done);
	return true;
}

/* The same, but one of an SRQ is counted, too. */
static inline bool count_for(struct vqp *v, struct ibv_wc *wc)
{
	return wc->opcode & IBV_WC_RECV ? count_recv(v, wc) : count_own(v, wc);
}

static inline bool count_known(const struct vcq *cq, struct ibv_wc *wc)
{
	struct vqp *v = known_qp(cq, wc);

	return v && count_for(v, wc);
}

static inline bool count_known_own(const struct vcq *cq, struct ibv_wc *wc)
{
	struct vqp *v = known_qp(cq, wc);

	return v && count_own(v, wc);
}

/* Those of [wc, end) before the first that is not usual, or end. Most are: so this is by itself,
 * and needs few registers. */
static __attribute__((noinline)) struct ibv_wc *count_usual(struct vcq *cq, struct ibv_wc *wc,
							    const struct ibv_wc *end)
{
	while (wc != end && count_known(cq, wc))
		wc++;
	return wc;
}

/* Counts any other completion. */
static void count_one(struct vqp *v, struct ibv_wc *wc)
{
	struct shift_cqe cqe = {
		.wr_id = wc->wr_id,
		.epoch = v->hot.rail0_epoch,
		.is_recv = wc->opcode & IBV_WC_RECV,
	};
	struct shift_wc out = {.wr_id = wc->wr_id};

	shift_conn_cqe(v->conn, &cqe, &out, 0);
	wc->wr_id = out.wr_id;
}

/* Counts completions from wc[i] on until one has an error. Returns how many with those before.
 * *passed: there is an error among these, of a QP that is left alone. */
static int count_completions(struct vcq *cq, int i, int n, struct ibv_wc *wc, bool *passed)
{
	for (; i < n; i++) {
		struct vqp *v;

		if (count_known(cq, &wc[i]))
			continue;
		v = qp_of(cq, wc[i].qp_num);
		if (!v) {
			vsrq_translate(&wc[i]);
			*passed |= wc[i].status != IBV_WC_SUCCESS;
			continue;
		}
		if (__builtin_expect(wc[i].status != IBV_WC_SUCCESS, 0))
			return i;
		if (!(wc[i].opcode & IBV_WC_RECV) || !srq_qp_count(v, &wc[i].wr_id))
			count_one(v, &wc[i]);
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

/* Inside the gate, which is shut then: later completions must not overtake these. */
static void stash_completions(struct vcq *cq, int n, const struct ibv_wc *wc)
{
	cq->stash_at = 0;
	cq->stash_n = (uint32_t)n;
	if (!stash_grow(cq, cq->stash_n)) {
		log_error("out of memory: completions are lost, and the program may wait for "
			  "them for ever");
		cq->stash_n = cq->stash_size;
	}
	memcpy(cq->stash, wc, cq->stash_n * sizeof(*wc));
	gate_shut(&cq->gate);
}

/*
 * Some were counted, and behind them there are others for the slow way. A program that sleeps on a
 * channel takes a poll that returns less than it could for the end, and goes to sleep: no event
 * would come for what is left.
 */
static int poll_rest(struct vcq *cq, int counted, int n, struct ibv_wc *wc)
{
	int got = 0;

	atomic_store_explicit(&cq->woken, false, memory_order_relaxed);
	if (cq->events.channel && counted < n)
		got = drained_poll(cq, n - counted, wc + counted);
	return got > 0 ? counted + got : counted;
}

/* Those before `rest` are counted. Inside the gate, which it leaves. */
static __attribute__((noinline)) int polled_unusual(struct vcq *cq, enum gate_how how,
						    const struct ibv_wc *rest, int got,
						    struct ibv_wc *wc)
{
	bool passed = false;
	int counted = count_completions(cq, (int)(rest - wc), got, wc, &passed);

	if (counted < got)
		stash_completions(cq, got - counted, wc + counted);
	gate_leave(&cq->gate, how);
	if (__builtin_expect(passed, 0))
		passed_errors_note(cq->dev, wc, counted);
	return counted ? poll_rest(cq, counted, got, wc) : slow_poll(cq, got, wc);
}

/* Inside the gate, which it leaves. */
static inline int polled(struct vcq *cq, enum gate_how how, int got, struct ibv_wc *wc)
{
	const struct ibv_wc *end = wc + got, *rest = count_usual(cq, wc, end);

	if (__builtin_expect(rest != end, 0))
		return polled_unusual(cq, how, rest, got, wc);
	gate_leave(&cq->gate, how);
	atomic_store_explicit(&cq->woken, false, memory_order_relaxed);
	return got;
}

/* Inside the gate. Nothing is there: the completion that an event has told of was polled before. */
static void event_was_answered(struct vcq *cq)
{
	if (atomic_load_explicit(&cq->woken, memory_order_relaxed))
		atomic_store_explicit(&cq->woken, false, memory_order_relaxed);
}

/* Inside the gate, which it leaves. */
static inline __attribute__((always_inline)) int poll_entered(struct vcq *cq, enum gate_how how,
							      int n, struct ibv_wc *wc)
{
	int got = cq->poll_cq(cq->cq, n, wc);

	if (got > 0 && (got > 1 || !count_known_own(cq, wc)))
		return polled(cq, how, got, wc);
	if (!got)
		event_was_answered(cq);
	gate_leave(&cq->gate, how);
	return got;
}

/* Another thread polls it, too, or it is slow. */
static __attribute__((noinline)) int poll_shared(struct vcq *cq, int n, struct ibv_wc *wc)
{
	enum gate_how how = gate_enter(&cq->gate, wc);

	return how == GATE_IS_SHUT ? slow_poll(cq, n, wc) : poll_entered(cq, how, n, wc);
}

/* A CQ that is the NIC's alone may have completions of an SRQ that is not. */
static int poll_passed(struct vdev *dev, struct ibv_cq *real_cq, int n, struct ibv_wc *wc)
{
	int got = dev->ops.poll_cq(real_cq, n, wc);

	for (int i = 0; i < got; i++)
		vsrq_translate(&wc[i]);
	passed_errors_note(dev, wc, got);
	return got;
}

/* A CQ that this thread does not remember. */
static __attribute__((noinline)) int poll_unknown(struct ibv_cq *real_cq, int n, struct ibv_wc *wc)
{
	struct vcq *cq = vcq_find(real_cq);
	enum gate_how how;

	if (!cq) {
		struct vdev *dev = vdev_find(real_cq->context);

		return dev ? poll_passed(dev, real_cq, n, wc) : 0;
	}
	how = gate_enter(&cq->gate, wc);
	if (how == GATE_IS_SHUT)
		return slow_poll(cq, n, wc);
	gate_remember(&gate_mine.poll, real_cq, cq);
	return poll_entered(cq, how, n, wc);
}

/* The other ends of hot_poll_cq, which is inside the gate: so that it has little to save. */
static __attribute__((noinline)) int polled_unlike(struct vcq *cq, int got)
{
	if (got > 0)
		return polled(cq, GATE_OWNED, got, gate_mark(&cq->gate));
	if (!got)
		event_was_answered(cq);
	gate_leave(&cq->gate, GATE_OWNED);
	return got;
}

int hot_poll_cq(struct ibv_cq *real_cq, int n, struct ibv_wc *wc)
{
	struct vcq *cq = gate_find(&gate_mine.poll, real_cq);
	struct vqp *v;
	int got;

	if (__builtin_expect(!cq, 0))
		return poll_unknown(real_cq, n, wc);
	/* The gate's mark is wc, so that little has to be saved over the call. */
	if (!gate_enter_owned(&cq->gate, wc))
		return poll_shared(cq, n, wc);
	got = cq->poll_cq(real_cq, n, wc);
	if (__builtin_expect(got != 1, 0))
		return polled_unlike(cq, got);
	__asm__("" : "+a"(got)); /* it is 1 already: the compiler must not load it again */
	wc = gate_mark(&cq->gate);
	v = known_qp(cq, wc);
	if (__builtin_expect(!v, 0))
		return polled_unlike(cq, 1);
	/* Each kind has its own way out, which is a jump less than count_for(). */
	if (!(wc->opcode & IBV_WC_RECV)) {
		PLAIN_INCREMENT(&v->hot.log.sends_done);
		gate_leave(&cq->gate, GATE_OWNED);
		return got;
	}
	if (__builtin_expect(!count_recv(v, wc), 0))
		return polled_unlike(cq, 1);
	gate_leave(&cq->gate, GATE_OWNED);
	return got;
}
