/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/operator.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/control_socket.h"
#include "lib/base/log.h"
#include "lib/conn/actions.h"
#include "lib/conn/arm.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/rail_jobs.h"

struct order {
	const char *nic; /* NULL: any */
	unsigned int count;
	uint32_t qpn;
};

static int rail_named(const struct vqp *v, const char *nic)
{
	for (int i = 0; i < v->setup.peer_rails; i++)
		if (!strcmp(v->dev->nic[i]->name, nic))
			return i;
	return -1;
}

/* --- migrate --------------------------------------------------------------------------------- */

static bool rail_is_usable(const struct vqp *v, uint8_t i)
{
	return (!i || v->rails.twin[i].clean) &&
	       !((v->rails.vetoed | v->rails.lacking) & 1u << i) && v->dev->nic[i]->link_up;
}

/* lib/core knows more of the rail than we: its probes, its quarantine, whether its NIC hangs. It
 * takes no order for one that cannot take over now, nor while a switch is under way. */
static bool conn_begins_to_move(struct vqp *v, uint8_t to)
{
	struct shift_conn_view view;

	vqp_rail_event(v, SHIFT_EV_MIGRATE, to);
	shift_conn_view(v->conn, &view);
	return view.state != SHIFT_ST_ACTIVE;
}

static bool conn_move_from(struct vqp *v, uint8_t rail)
{
	for (uint8_t i = 0; i < v->setup.peer_rails; i++)
		if (v->dev->nic[i] != v->dev->nic[rail] && rail_is_usable(v, i) &&
		    conn_begins_to_move(v, i))
			return true;
	return false;
}

static uint32_t rails_on_nic_of(const struct vqp *v, uint8_t rail)
{
	uint32_t rails = 0;

	for (uint8_t i = 0; i < v->setup.peer_rails; i++)
		if (v->dev->nic[i] == v->dev->nic[rail])
			rails |= 1u << i;
	return rails;
}

/* Vetoes the NIC for the connection, which leaves it if it is there. The veto stays until failback.
 */
static void migrate_one(struct vqp *v, void *arg)
{
	struct order *o = arg;
	int rail = v->setup.met ? rail_named(v, o->nic) : -1;
	uint32_t rails;

	if (rail < 0)
		return;
	vqp_enter(v);
	rails = rails_on_nic_of(v, (uint8_t)rail);
	v->rails.vetoed |= rails;
	if (rails >> vqp_rail(v) & 1)
		o->count += conn_move_from(v, (uint8_t)rail);
	for (uint8_t i = 0; i < v->setup.peer_rails; i++)
		if (rails >> i & 1)
			vqp_rail_event(v, SHIFT_EV_RAIL_VETO, i);
	vqp_leave(v);
}

static int order_migrate(const char *nic, char *answer, size_t bytes)
{
	struct order o = {.nic = nic};

	vqp_each(migrate_one, &o);
	snprintf(answer, bytes, "%u connection%s leave%s %s", o.count, o.count == 1 ? "" : "s",
		 o.count == 1 ? "s" : "", nic);
	return 0;
}

/* --- failback -------------------------------------------------------------------------------- */

static void rail_allow(struct vqp *v, uint8_t i)
{
	if (!(v->rails.vetoed & 1u << i))
		return;
	v->rails.vetoed &= ~(1u << i);
	vqp_rail_open(v, i);
}

/* A veto outlives RESET. So it is lifted, too, while the next life has not found its peer, or has
 * found one with fewer rails. */
static void failback_one(struct vqp *v, void *arg)
{
	struct order *o = arg;

	if (o->nic && strcmp(v->dev->nic[0]->name, o->nic))
		return;
	vqp_enter(v);
	for (uint8_t i = 0; i < v->dev->rails; i++)
		rail_allow(v, i);
	if (vqp_rail(v)) {
		vqp_rail_event(v, SHIFT_EV_MIGRATE, 0);
		o->count++;
	}
	vqp_leave(v);
}

static int order_failback(const char *nic, char *answer, size_t bytes)
{
	struct order o = {.nic = nic};

	vqp_each(failback_one, &o);
	snprintf(answer, bytes, "%u connection%s fail%s back", o.count, o.count == 1 ? "" : "s",
		 o.count == 1 ? "s" : "");
	return 0;
}

/* --- qp-error -------------------------------------------------------------------------------- */

static void break_run(struct job *job)
{
	struct rail_jobs *j = (struct rail_jobs *)((char *)job -
						   offsetof(struct rail_jobs, breaks));
	struct vqp *v = j->v;

	if (vqp_rail_qp(v, j->rail))
		vqp_to_state(v, j->rail, IBV_QPS_ERR);
	pthread_mutex_lock(&v->lock);
	j->breaking = false;
	pthread_mutex_unlock(&v->lock);
	rail_job_ends(j);
}

/* Under v->lock. */
static void break_start(struct vqp *v, uint8_t rail)
{
	struct rail_jobs *j = &v->rails.jobs[rail];

	if (j->breaking)
		return;
	j->breaking = true;
	j->breaks.fn = break_run;
	j->breaks.owner = j;
	rail_job_begins(j);
	worker_submit(v->dev->nic[rail]->fences, &j->breaks);
}

static void break_one(struct vqp *v, void *arg)
{
	struct order *o = arg;

	if (v->qp->qp_num != o->qpn || !v->setup.met)
		return;
	pthread_mutex_lock(&v->lock);
	break_start(v, vqp_rail(v));
	pthread_mutex_unlock(&v->lock);
	o->count++;
}

static int order_qp_error(uint32_t qpn, char *answer, size_t bytes)
{
	struct order o = {.qpn = qpn};

	vqp_each(break_one, &o);
	if (!o.count) {
		snprintf(answer, bytes,
			 "no protected connection has QP number %#x; see shift-ctl status", qpn);
		return -1;
	}
	snprintf(answer, bytes, "%u QP%s move%s to ERR", o.count, o.count == 1 ? "" : "s",
		 o.count == 1 ? "s" : "");
	return 0;
}

void operator_start(void)
{
	static const struct control_calls calls = {
		.migrate = order_migrate, .failback = order_failback, .qp_error = order_qp_error};
	int err = stats_path() ? control_open(stats_path(), &calls) : 0;

	if (err)
		log_info(
			"the control socket cannot be opened (%s): shift-ctl cannot give orders to "
			"this process",
			strerror(-err));
}
