/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A bind of a memory window cannot be posted again on another NIC, and the peer may use a window's
 * key over any QP of the domain. So all connections of the domain are released when its first
 * window is allocated.
 */
#include "lib/verbs/memory_windows.h"

#include <errno.h>

#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/reentry.h"
#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"

static void release_of_domain(struct vqp *v, void *pd)
{
	if (v->pd != pd || v->life.released)
		return;
	vqp_enter(v);
	if (!vqp_release(v, STATS_UNPROTECTED_MEMORY_WINDOW) && !v->life.dead)
		log_warn(
			"QP %#x has moved to another NIC already: no memory window can be bound on "
			"it, and its peer cannot use any; run such a program without shift",
			v->qp->qp_num);
	vqp_leave(v);
}

/* The first window may have been allocated after qp_judge(). */
void memory_windows_check(struct vqp *v)
{
	if (v->pd->windows)
		release_of_domain(v, v->pd);
}

struct ibv_mw *hook_alloc_mw(struct ibv_pd *real_pd, enum ibv_mw_type type)
{
	struct vdev *dev = vdev_find(real_pd->context);
	struct vpd *pd = vpd_find(real_pd);
	struct ibv_mw *mw = quietly(dev->ops.alloc_mw(real_pd, type));

	if (mw && pd && !hooks_off && !fork_in_child_warn() && !atomic_exchange(&pd->windows, true))
		vqp_each(release_of_domain, pd);
	return mw;
}

/* The provider posts the bind itself. It is logged beforehand, because its completion will be
 * counted. */
int hook_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct vdev *dev = vdev_find(qp->context);
	struct vqp *v = vqp_find(qp);
	struct shift_wr log = {.wr_id = bind->wr_id,
			       .opcode = SHIFT_OP_BIND_MW,
			       .flags = (uint8_t)bind->send_flags};
	int rail, err;

	if (!v || !v->conn || v->life.bypassed || hooks_off)
		return quietly(dev->ops.bind_mw(qp, mw, bind));
	vqp_enter(v);
	err = EOPNOTSUPP;
	if (vqp_release(v, STATS_UNPROTECTED_MEMORY_WINDOW))
		err = v->repost.tx_next < v->repost.tx_end
			      ? ENOMEM
			      : -shift_conn_post_send(v->conn, &log, &rail);
	if (err <= 0) {
		err = quietly(dev->ops.bind_mw(qp, mw, bind));
		if (err)
			shift_conn_unpost_send(v->conn, 1);
	}
	vqp_leave(v);
	return err;
}
