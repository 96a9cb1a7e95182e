/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/object/cq.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "lib/base/fork.h"
#include "lib/base/gate.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/base/reentry.h"
#include "lib/base/table.h"
#include "lib/base/uncancelled.h"
#include "lib/object/device.h"
#include "lib/object/object.h"
#include "lib/object/passed_cq.h"

static struct table cqs = TABLE_INIT;

struct vcq *vcq_find(const struct ibv_cq *cq)
{
	return table_get(&cqs, (uintptr_t)cq);
}

static void cq_free(struct object *obj)
{
	struct vcq *cq = (struct vcq *)obj;

	pthread_mutex_destroy(&cq->drain_lock);
	pthread_mutex_destroy(&cq->delivered_lock);
	pthread_mutex_destroy(&cq->grow);
	pthread_mutex_destroy(&cq->poller.lock);
	assoc_clear(&cq->qps);
	free(cq->stash);
	free(cq->delivered.wc);
	cq_events_end(&cq->events);
	free(cq);
}

static struct vcq *cq_new(struct vdev *dev, struct ibv_cq *real_cq)
{
	struct vcq *cq = calloc(1, sizeof(*cq));

	if (!cq)
		return NULL;
	cq->obj.refs = 1;
	cq->obj.free = cq_free;
	cq->cq = real_cq;
	cq->dev = dev;
	cq->poll_cq = dev->ops.poll_cq;
	cq->qps = (struct assoc)ASSOC_INIT;
	gate_init(&cq->gate);
	cq->stash = calloc(STASH_MIN, sizeof(*cq->stash));
	cq->stash_size = STASH_MIN;
	pthread_mutex_init(&cq->drain_lock, NULL);
	pthread_mutex_init(&cq->delivered_lock, NULL);
	pthread_mutex_init(&cq->grow, NULL);
	pthread_mutex_init(&cq->poller.lock, NULL);
	if (!cq->stash) {
		cq_free(&cq->obj);
		return NULL;
	}
	return cq;
}

struct ibv_cq *hook_created_cq(struct ibv_cq *real_cq, struct ibv_comp_channel *channel)
{
	struct vdev *dev = real_cq ? vdev_find(real_cq->context) : NULL;
	struct vcq *cq;

	if (real_cq)
		channel_adopt_cq(real_cq, channel);
	if (!dev || fork_in_child_warn())
		return real_cq;
	cq = cq_new(dev, real_cq);
	if (!cq)
		return real_cq;
	cq->has_channel = channel != NULL;
	if (table_put(&cqs, (uintptr_t)real_cq, cq)) {
		cq_free(&cq->obj);
		return real_cq;
	}
	if (!cq_events_begin(&cq->events, real_cq, channel))
		log_warn("queue pairs on a CQ are not protected: out of memory");
	return real_cq;
}

/* --- sizes ----------------------------------------------------------------------------------- */

static bool ring_grow(struct wc_ring *r, uint32_t n)
{
	uint32_t size = r->wc ? r->mask + 1 : 64;
	struct ibv_wc *wc;

	while (size < n)
		size *= 2;
	if (r->wc && size == r->mask + 1)
		return true;
	wc = calloc(size, sizeof(*wc));
	if (!wc)
		return false;
	for (uint32_t i = r->head; i != r->tail; i++)
		wc[i & (size - 1)] = r->wc[i & r->mask];
	free(r->wc);
	r->wc = wc;
	r->mask = size - 1;
	return true;
}

/*
 * Unsignaled requests flush with a completion, too, and the program did not size its CQ for these
 * (doc/protocol.md, V10). So the CQ must hold all that its QPs can have outstanding, and the
 * markers of fences.
 */
bool vcq_attach(struct vcq *cq, uint32_t n)
{
	bool ok;

	pthread_mutex_lock(&cq->grow);
	ok = cq->wanted + n <= (uint32_t)cq->cq->cqe ||
	     !quietly(real.resize_cq(cq->cq, (int)(cq->wanted + n)));
	pthread_mutex_lock(&cq->delivered_lock);
	ok = ok && ring_grow(&cq->delivered, cq->wanted + n);
	pthread_mutex_unlock(&cq->delivered_lock);
	if (ok)
		cq->wanted += n;
	pthread_mutex_unlock(&cq->grow);
	return ok;
}

void vcq_detach(struct vcq *cq, uint32_t n)
{
	pthread_mutex_lock(&cq->grow);
	cq->wanted -= n;
	pthread_mutex_unlock(&cq->grow);
}

int hook_resize_cq(struct ibv_cq *real_cq, int cqe)
{
	struct vcq *cq = vcq_find(real_cq);
	int err;

	if (!cq || fork_in_child_warn())
		return quietly(real.resize_cq(real_cq, cqe));
	pthread_mutex_lock(&cq->grow);
	if ((uint32_t)cqe < cq->wanted)
		cqe = (int)cq->wanted;
	err = quietly(real.resize_cq(real_cq, cqe));
	pthread_mutex_unlock(&cq->grow);
	return err;
}

static struct ibv_cq *shadow_create(struct vcq *cq, struct nic *nic, uint32_t n)
{
	struct ibv_comp_channel *channel = NULL;

	if (cq->events.channel) {
		channel = channel_shadow(cq->events.channel, nic);
		if (!channel)
			return NULL;
	}
	return real.create_cq(nic->ctx, (int)n, channel ? &cq->events : NULL, channel, 0);
}

struct ibv_cq *vcq_shadow(struct vcq *cq, struct nic *nic, uint32_t n, uint32_t shared)
{
	uint32_t had = cq->shadow[nic->index].shared;
	uint32_t most = shared > had ? shared : had;
	uint32_t wanted = cq->shadow[nic->index].wanted + n + most;
	struct ibv_cq *shadow = atomic_load(&cq->shadow[nic->index].cq);

	if (!shadow) {
		shadow = shadow_create(cq, nic, wanted);
		if (!shadow)
			return NULL;
		atomic_store(&cq->shadow[nic->index].cq, shadow);
	} else if (wanted > (uint32_t)shadow->cqe && real.resize_cq(shadow, (int)wanted)) {
		return NULL;
	}
	cq->shadow[nic->index].wanted += n;
	cq->shadow[nic->index].shared = most;
	return shadow;
}

/* --- the end --------------------------------------------------------------------------------- */

static void cq_unshadow(struct object *obj, struct nic *nic)
{
	struct vcq *cq = (struct vcq *)obj;
	struct ibv_cq *shadow = atomic_exchange(&cq->shadow[nic->index].cq, NULL);

	if (shadow && real.destroy_cq(shadow))
		log_debug("%s: a shadow CQ is still in use", nic->name);
}

/* As without us, this waits until the program has acknowledged all its events. */
static int destroy_with_events(struct vcq *cq, struct ibv_cq *real_cq)
{
	bool has_events = cq && cq->events.channel;
	void *passed = cq ? NULL : passed_cq_find(real_cq);
	int err;

	if (has_events)
		cq_events_close(&cq->events);
	err = quietly(real.destroy_cq(real_cq));
	if (!err)
		passed_cq_ended(real_cq, passed);
	if (has_events && err)
		cq_events_reopen(&cq->events);
	else if (has_events)
		cq_events_over(&cq->events);
	return err;
}

int hook_destroy_cq(struct ibv_cq *real_cq)
{
	struct vcq *cq = vcq_find(real_cq);
	int err;

	/* Before the CQ is destroyed: after that another thread may create one at this address. */
	if (cq)
		gate_forget(&cq->gate, real_cq);
	if (cq && fork_in_child_warn()) {
		table_remove_forked(&cqs, (uintptr_t)real_cq);
		cq = NULL;
	}
	err = destroy_with_events(cq, real_cq);
	if (!cq || err)
		return err;
	/* Another thread may have created a CQ at this address already, which has replaced ours. */
	if (vcq_find(real_cq) == cq)
		table_remove(&cqs, (uintptr_t)real_cq);
	for (unsigned int i = 1; i < cq->dev->rails; i++)
		object_job(&cq->obj, cq->dev->nic[i], cq_unshadow);
	object_put(&cq->obj);
	return 0;
}

/* --- events ---------------------------------------------------------------------------------- */

static int notify(struct vcq *cq, struct ibv_cq *shadow, bool solicited_only)
{
	return shadow ? ibv_req_notify_cq(shadow, solicited_only)
		      : cq->dev->ops.req_notify_cq(cq->cq, solicited_only);
}

void vcq_arm(struct vcq *cq, const struct nic *nic)
{
	struct ibv_cq *shadow = nic ? atomic_load(&cq->shadow[nic->index].cq) : NULL;
	unsigned int armed;

	if (!cq->events.channel)
		return;
	cq_events_doubt(&cq->events);
	if (nic && !shadow)
		return;
	/* Of two requests the NIC keeps the last. So ours must not be less than what the program
	 * asks for at this moment. */
	do {
		armed = atomic_load(&cq->armed);
		if (armed)
			notify(cq, shadow, !(armed & ARMED_ANY));
	} while (atomic_load(&cq->armed) & ~armed & ARMED_ANY);
}

/* Which sends were solicited the peer knows: their receives may have been. */
static bool is_waited_for(unsigned int armed, const struct ibv_wc *wc)
{
	if (armed & ARMED_ANY)
		return true;
	return armed & ARMED_SOLICITED &&
	       (wc->status != IBV_WC_SUCCESS || wc->opcode & IBV_WC_RECV);
}

/* A completion is there for the program that no NIC will report: it was polled by us. */
static void vcq_wake(struct vcq *cq, const struct ibv_wc *wc)
{
	if (!cq->events.channel || !is_waited_for(atomic_load(&cq->armed), wc))
		return;
	atomic_store(&cq->armed, 0); /* if the program asks again now, the event is behind that */
	cq_events_add(&cq->events);
}

bool vcq_has_delivered(struct vcq *cq)
{
	bool has;

	pthread_mutex_lock(&cq->delivered_lock);
	has = cq->delivered.head != cq->delivered.tail;
	pthread_mutex_unlock(&cq->delivered_lock);
	return has;
}

/* On each rail where completions may come: on rail 0, and while a QP of the CQ is not on the fast
 * way, on all. If a QP leaves that only now, what is armed then is known. */
static int notify_all_rails(struct vcq *cq, bool solicited_only)
{
	int err = notify(cq, NULL, solicited_only);

	if (!gate_is_shut(&cq->gate))
		return err;
	for (unsigned int i = 1; i < cq->dev->rails; i++) {
		struct ibv_cq *shadow = atomic_load(&cq->shadow[cq->dev->nic[i]->index].cq);

		if (shadow && !notify(cq, shadow, solicited_only))
			err = 0; /* rail 0's NIC may be gone */
	}
	return err;
}

static int cq_ask(struct vcq *cq, unsigned int what)
{
	atomic_fetch_or(&cq->armed, what);
	return notify_all_rails(cq, !(what & ARMED_ANY));
}

void vcq_disarm(struct vcq *cq)
{
	atomic_store(&cq->armed, 0);
}

void vcq_ask_again(struct vcq *cq)
{
	unsigned int asked = atomic_load(&cq->asked);

	if (asked)
		cq_ask(cq, asked);
}

int hook_req_notify_cq(struct ibv_cq *real_cq, int solicited_only)
{
	struct vcq *cq = vcq_find(real_cq);
	struct vdev *dev = cq ? cq->dev : vdev_find(real_cq->context);
	unsigned int what;
	int err;

	if (!cq || !cq->events.channel || fork_in_child())
		return dev ? dev->ops.req_notify_cq(real_cq, solicited_only) : EINVAL;
	uncancelled_begin(); /* it is not called by name */
	what = solicited_only ? ARMED_SOLICITED : ARMED_ANY;
	/* What it asked for before, and was not told of yet, stands. */
	atomic_store(&cq->asked, what | (atomic_load(&cq->armed) & ARMED_ANY));
	err = cq_ask(cq, what);
	if (gate_is_shut(&cq->gate) && vcq_has_delivered(cq))
		cq_events_add(&cq->events); /* as of a NIC that has completions already */
	uncancelled_end();
	return err;
}

/* --- completions for the program ------------------------------------------------------------- */

void vcq_wait_counted(const struct vcq *cq, const struct vqp *v)
{
	while (atomic_load(&cq->counting) == v)
		sched_yield();
}

void vcq_deliver(struct vcq *cq, const struct ibv_wc *wc)
{
	struct wc_ring *r = &cq->delivered;

	pthread_mutex_lock(&cq->delivered_lock);
	if (r->wc && r->tail - r->head > r->mask)
		ring_grow(r, 2 * (r->mask + 1));
	else if (!r->wc)
		ring_grow(r, 64);
	if (!r->wc || r->tail - r->head > r->mask) {
		/* vcq_attach() has made room for all that can be outstanding. So this happens only
		 * without memory, and for a QP that we do not know. */
		log_error("out of memory: a completion of QP %#x is lost, and the program may wait "
			  "for it for ever",
			  wc->qp_num);
	} else {
		if (r->head == r->tail) {
			gate_shut(&cq->gate);
			r->head = r->tail = 0; /* the first again: the rest need not be there */
		}
		r->wc[r->tail++ & r->mask] = *wc;
	}
	pthread_mutex_unlock(&cq->delivered_lock);
	vcq_wake(cq, wc);
}

int vcq_take(struct vcq *cq, int n, struct ibv_wc *wc)
{
	struct wc_ring *r = &cq->delivered;
	int got = 0;

	pthread_mutex_lock(&cq->delivered_lock);
	while (got < n && r->head != r->tail)
		wc[got++] = r->wc[r->head++ & r->mask];
	if (got && r->head == r->tail)
		gate_open(&cq->gate);
	pthread_mutex_unlock(&cq->delivered_lock);
	return got;
}

/* --- when a life of a QP is over ---------------------------------------------------------------
 */

/* With the gate shut and nobody inside. */
static void stash_purge(struct vcq *cq, uint32_t qpn)
{
	bool was_empty = cq->stash_at == cq->stash_n;
	uint32_t kept = 0;

	for (uint32_t i = cq->stash_at; i < cq->stash_n; i++)
		if (cq->stash[i].qp_num != qpn)
			cq->stash[kept++] = cq->stash[i];
	cq->stash_at = 0;
	cq->stash_n = kept;
	if (!was_empty && !kept)
		gate_open(&cq->gate);
}

static void delivered_purge(struct vcq *cq, uint32_t qpn)
{
	struct wc_ring *r = &cq->delivered;
	uint32_t kept;

	pthread_mutex_lock(&cq->delivered_lock);
	kept = r->head;
	for (uint32_t i = r->head; i != r->tail; i++)
		if (r->wc[i & r->mask].qp_num != qpn)
			r->wc[kept++ & r->mask] = r->wc[i & r->mask];
	if (r->head != r->tail && r->head == kept)
		gate_open(&cq->gate);
	r->tail = kept;
	pthread_mutex_unlock(&cq->delivered_lock);
}

void vcq_purge(struct vcq *cq, uint32_t qpn)
{
	struct gate *gate = &cq->gate;

	pthread_mutex_lock(&cq->drain_lock);
	gate_shut(gate);
	gate_sync(&gate, 1);
	stash_purge(cq, qpn);
	delivered_purge(cq, qpn);
	gate_open(gate);
	pthread_mutex_unlock(&cq->drain_lock);
}
