/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/protection.h"

void vqp_report_protection(struct vqp *v)
{
	enum stats_unprotected why = v->rails.lacking ? STATS_UNPROTECTED_NO_SHADOW
						      : STATS_UNPROTECTED_OTHER; /* no twin */

	for (uint8_t i = 1; i < v->setup.peer_rails; i++)
		if (!(v->rails.lacking & 1u << i) && !v->rails.twin[i].failed &&
		    !vdev_rail_is_spare(v->dev, i))
			why = STATS_UNPROTECTED_NONE;
	stats_conn_protect(v->stats, why == STATS_UNPROTECTED_NONE, why);
	if (why != STATS_UNPROTECTED_NONE || !v->life.started_ns)
		return;
	stats_conn_setup(v->stats, now_ns() - v->life.started_ns);
	v->life.started_ns = 0;
}
