/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/memlock.h"

#include <errno.h>
#include <string.h>

#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/protection.h"
#include "lib/conn/self_qp.h"

#define AGAIN_FIRST_NS 2000000000ull
#define AGAIN_LAST_NS  600000000000ull
#define DROP_MAX_MS    2000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* one thread makes room at a time */
static _Atomic unsigned int rooms_made;			 /* how often room was made */
static _Atomic bool nic_short[NICS_MAX];		 /* no shadows are made there for now */

/* --- what connections are told --------------------------------------------------------------- */

static bool domain_lacks(const struct vpd *pd, const struct nic *nic)
{
	return atomic_load(&nic_short[nic->index]) || atomic_load(&pd->lacking[nic->index]);
}

void memlock_update_rails(struct vqp *v)
{
	uint32_t before = v->rails.lacking;
	struct shift_conn_view view;

	for (uint8_t i = 1; i < v->dev->rails; i++) {
		uint32_t bit = 1u << i;

		if (domain_lacks(v->pd, v->dev->nic[i]) == !!(v->rails.lacking & bit))
			continue;
		v->rails.lacking ^= bit;
		if (v->rails.lacking & bit)
			vqp_rail_event(v, SHIFT_EV_RAIL_VETO, i);
		else
			vqp_rail_open(v, i);
		log_info("QP %#x: %s %s", v->qp->qp_num, v->dev->nic[i]->name,
			 v->rails.lacking & bit
				 ? "lacks some of its memory: the connection does not move there"
				 : "has all its memory again");
	}
	shift_conn_view(v->conn, &view);
	if (v->rails.lacking != before && view.protected_ && view.state < SHIFT_ST_GIVEUP)
		vqp_report_protection(v);
}

static void conn_update_rails(struct vqp *v, void *arg)
{
	(void)arg;
	vqp_enter(v);
	memlock_update_rails(v);
	vqp_leave(v);
}

static void memlock_update_all(void *arg)
{
	(void)arg;
	vqp_each(conn_update_rails, NULL);
}

void memlock_changed(void)
{
	static struct bg_call call = {.fn = memlock_update_all};

	bg_call(&call);
}

static void conn_go_on(struct vqp *v, void *arg)
{
	(void)arg;
	if (!atomic_exchange(&v->repost.wants_lkey, false))
		return;
	vqp_enter(v);
	self_qp_go_on(v);
	vqp_leave(v);
}

void memlock_registered(void)
{
	vqp_each(conn_go_on, NULL);
}

/* --- trying again later ---------------------------------------------------------------------- */

static bool retry_is_set; /* the timer is; background thread */

static void memlock_try_again(void *arg)
{
	struct nic *nic;

	(void)arg;
	retry_is_set = false;
	for (unsigned int i = 0; (nic = nic_at(i)); i++) {
		atomic_store(&nic_short[i], false);
		if (nic->ready)
			memory_nic_ready(nic);
	}
	memlock_update_all(NULL);
}

/* Each time later, so that a program that needs all it may lock does not lose time by us for ever.
 */
static void set_retry_timer(void *arg)
{
	static struct bg_timer timer = {.fn = memlock_try_again};
	static uint64_t wait_ns = AGAIN_FIRST_NS;

	(void)arg;
	if (retry_is_set)
		return;
	retry_is_set = true;
	bg_timer_set(&timer, now_ns() + wait_ns);
	wait_ns = 2 * wait_ns < AGAIN_LAST_NS ? 2 * wait_ns : AGAIN_LAST_NS;
}

static void try_again_later(void)
{
	static struct bg_call call = {.fn = set_retry_timer};

	bg_call(&call);
}

bool memlock_is_short(const struct nic *nic)
{
	return atomic_load(&nic_short[nic->index]);
}

void memlock_refused(const struct nic *nic, int err)
{
	static _Atomic bool told[NICS_MAX];

	if (!memlock_is_short(nic) && !atomic_exchange(&told[nic->index], true))
		log_warn("%s: memory of the program cannot be registered on this NIC (%s): "
			 "connections that may use it do not move here; if locked memory is short, "
			 "raise its limit (ulimit -l)",
			 nic->name, strerror(err));
	try_again_later();
}

/* --- room for the program -------------------------------------------------------------------- */

struct nic_use {
	const struct nic *nic;
	bool in_use;
};

/* Is the NIC in use by the connection, or the target of its switch? Then its memory must stay. */
static bool conn_lives_on(struct vqp *v, const struct nic *nic)
{
	struct shift_conn_view view;

	shift_conn_view(v->conn, &view);
	if (view.state >= SHIFT_ST_GIVEUP)
		return false;
	return (view.r && v->dev->nic[view.r] == nic) ||
	       (view.holding && view.target_r && view.target_r < v->dev->rails &&
		v->dev->nic[view.target_r] == nic);
}

static void conn_leave_nic(struct vqp *v, void *arg)
{
	struct nic_use *l = arg;

	vqp_enter(v);
	l->in_use |= conn_lives_on(v, l->nic);
	if (!l->in_use)
		memlock_update_rails(v);
	vqp_leave(v);
}

/* Deregisters all shadows on the NIC. false: there were none, or they are in use. */
static bool shadows_drop(struct nic *nic)
{
	struct nic_use l = {.nic = nic};

	if (!nic->ready || atomic_exchange(&nic_short[nic->index], true))
		return false;
	vqp_each(conn_leave_nic, &l);
	if (l.in_use || !memory_drop_shadows(nic, DROP_MAX_MS)) {
		atomic_store(&nic_short[nic->index], false);
		memlock_changed();
		return false;
	}
	log_warn("%s: the copies of the program's memory on this NIC made room for the program "
		 "(RLIMIT_MEMLOCK): no connection moves here for now; raise the limit (ulimit -l)",
		 nic->name);
	try_again_later();
	return true;
}

/* First the least preferred backup of the device, then those of other devices. */
static bool shadows_drop_one(const struct vdev *dev)
{
	struct nic *nic;

	for (unsigned int i = dev->rails; i-- > 1;)
		if (shadows_drop(dev->nic[i]))
			return true;
	for (unsigned int i = 0; (nic = nic_at(i)); i++)
		if (shadows_drop(nic))
			return true;
	return false;
}

unsigned int memlock_rooms_made(void)
{
	return atomic_load(&rooms_made);
}

bool memlock_make_room(struct ibv_context *ctx, unsigned int *seen)
{
	struct vdev *dev = vdev_find(ctx);
	bool more;

	if (errno != ENOMEM || !dev || fork_in_child())
		return false;
	pthread_mutex_lock(&lock);
	more = atomic_load(&rooms_made) != *seen; /* another thread has made room meanwhile */
	if (!more && shadows_drop_one(dev)) {
		atomic_fetch_add(&rooms_made, 1);
		more = true;
	}
	*seen = atomic_load(&rooms_made);
	pthread_mutex_unlock(&lock);
	errno = ENOMEM;
	return more;
}
