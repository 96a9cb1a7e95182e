/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/srq_qps.h"

#include <errno.h>
#include <time.h>

#include "lib/base/log.h"
#include "lib/base/uncancelled.h"

#define SUPPLY_MAX_NS 200000000ull

static void srq_pause(void)
{
	const struct timespec ms = {.tv_nsec = 1000000};

	nanosleep(&ms, NULL);
}

/* --- live ------------------------------------------------------------------------------------- */

/* A drainer is at work on the NIC: so long, anew with each step that it makes, and three times that
 * in all. */
struct emptying {
	uint32_t ghosts;
	uint64_t step_ns, step_end, end;
};

static struct emptying emptying_begins(struct vqp *v, uint8_t rail, uint64_t max_ns)
{
	uint64_t now = now_ns();

	return (struct emptying){vsrq_ghosts(v->hot.srq, rail), max_ns, now + max_ns,
				 now + 3 * max_ns};
}

static bool emptying_is_over(struct emptying *e, struct vqp *v, uint8_t rail)
{
	uint64_t now = now_ns();
	uint32_t ghosts = vsrq_ghosts(v->hot.srq, rail);

	if (ghosts < e->ghosts)
		e->step_end = now + e->step_ns;
	e->ghosts = ghosts;
	return now >= e->step_end || now >= e->end;
}

/* A fence has been asked for, and waits for the arming: what it arms would be fenced at once. */
static bool fence_waits(struct vqp *v, uint8_t rail)
{
	bool follows;

	pthread_mutex_lock(&v->lock);
	follows = v->rails.jobs[rail].fence_follows;
	pthread_mutex_unlock(&v->lock);
	return follows;
}

bool srq_qp_join(struct vqp *v, uint8_t rail, uint64_t max_ns)
{
	struct emptying e;

	if (!v->hot.srq)
		return true;
	atomic_fetch_and(&v->rails.recv_flushed, ~(1u << rail));
	if (atomic_load(&v->rails.joined) >> rail & 1)
		return true;
	e = emptying_begins(v, rail, max_ns);
	while (!vsrq_join(v->hot.srq, rail)) {
		if (fence_waits(v, rail))
			return false;
		if (v->life.gone || emptying_is_over(&e, v, rail)) {
			log_warn("QP %#x: cannot use %s yet: receives that its shared receive "
				 "queue had there before are not out",
				 v->qpn, v->dev->nic[rail]->name);
			return false;
		}
		srq_pause();
	}
	atomic_fetch_or(&v->rails.joined, 1u << rail);
	return true;
}

void srq_qp_joins_late(struct vqp *v)
{
	if (!atomic_exchange(&v->rails.joins_late, true))
		gate_shut(&v->hot.send_gate);
}

static void no_more_late(struct vqp *v)
{
	if (atomic_exchange(&v->rails.joins_late, false))
		gate_open(&v->hot.send_gate);
}

/* Two threads may send at once. */
static pthread_mutex_t late_lock = PTHREAD_MUTEX_INITIALIZER;

int srq_qp_join_to_send(struct vqp *v, uint64_t max_ns)
{
	int err = 0;

	uncancelled_begin();
	pthread_mutex_lock(&late_lock);
	if (atomic_load(&v->rails.joins_late)) {
		err = srq_qp_join(v, 0, max_ns) ? 0 : ETIMEDOUT;
		if (!err)
			no_more_late(v);
	}
	pthread_mutex_unlock(&late_lock);
	uncancelled_end();
	return err;
}

bool srq_qp_join_at_once(struct vqp *v)
{
	bool joined;

	if (!atomic_load(&v->rails.joins_late))
		return true;
	if (pthread_mutex_trylock(&late_lock))
		return false;
	joined = !atomic_load(&v->rails.joins_late) || atomic_load(&v->rails.joined) & 1 ||
		 vsrq_join(v->hot.srq, 0);
	if (joined && atomic_load(&v->rails.joins_late)) {
		atomic_fetch_or(&v->rails.joined, 1u);
		no_more_late(v);
	}
	pthread_mutex_unlock(&late_lock);
	return joined;
}

void srq_qp_await_supply(struct vqp *v, uint8_t rail)
{
	uint64_t end = now_ns() + SUPPLY_MAX_NS;

	while (v->hot.srq && !v->life.gone && !vsrq_supplied(v->hot.srq, rail) && now_ns() < end)
		srq_pause();
}

/* Returns whether it was there: two threads may find that it has gone. */
static bool has_left(struct vqp *v, uint8_t rail)
{
	uint32_t bit = 1u << rail;

	return v->hot.srq && atomic_fetch_and(&v->rails.joined, ~bit) & bit;
}

/* A flush that has named its receive has given that back. */
static bool may_be_cut(const struct vqp *v, uint8_t rail)
{
	return !(atomic_load(&v->rails.recv_flushed) >> rail & 1);
}

void srq_qp_leave(struct vqp *v, uint8_t rail)
{
	if (has_left(v, rail))
		vsrq_leave(v->hot.srq, rail, may_be_cut(v, rail));
}

void srq_qp_leave_others(struct vqp *v, uint8_t rail)
{
	for (uint8_t i = 0; i < v->dev->rails; i++)
		if (i != rail)
			srq_qp_leave(v, i);
}

void srq_qp_leave_ended(struct vqp *v, uint8_t rail)
{
	if (has_left(v, rail))
		vsrq_leave(v->hot.srq, rail, false);
}

/* A fence of it is under way or was not complete, or an arming is under way that is undone when it
 * ends: then it leaves, or when it is armed elsewhere or destroyed. */
static bool may_still_accept(struct vqp *v, uint8_t rail)
{
	bool may;

	pthread_mutex_lock(&v->lock);
	may = v->rails.jobs[rail].under_way || v->rails.unclean >> rail & 1;
	pthread_mutex_unlock(&v->lock);
	return may;
}

void srq_qp_reset(struct vqp *v)
{
	no_more_late(v);
	srq_qp_leave_ended(v, 0);
	for (uint8_t i = 1; i < v->dev->rails; i++)
		if (!may_still_accept(v, i))
			srq_qp_leave_ended(v, i);
}

void srq_qp_in_err(struct vqp *v)
{
	if (v->hot.srq && made_event_say(&v->last_wqe))
		made_event_raise(v->dev, &v->last_wqe);
}

uint32_t srq_qp_look(struct vqp *v, uint8_t rail)
{
	return v->hot.srq ? vsrq_look(v->hot.srq, rail) : 0;
}

/* --- completions ------------------------------------------------------------------------------ */

/* An error that names no receive of the program is not given to it: its first send has the error.
 */
bool srq_qp_completed(struct vqp *v, uint8_t rail, struct ibv_wc *wc, bool deliver)
{
	if (!v->hot.srq)
		return deliver;
	if (!deliver) {
		if (vsrq_back(v->hot.srq, rail, wc->wr_id) && wc->status != IBV_WC_SUCCESS)
			atomic_fetch_or(&v->rails.recv_flushed, 1u << rail);
		return false;
	}
	if (vsrq_done(v->hot.srq, rail, &wc->wr_id))
		return true;
	if (wc->status == IBV_WC_SUCCESS)
		log_error("QP %#x: %s has put a message into a receive that it does not have",
			  v->qpn, v->dev->nic[rail]->name);
	return wc->status == IBV_WC_SUCCESS;
}
