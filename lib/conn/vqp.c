/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/vqp.h"

#include <string.h>

#include "lib/conn/cq_counts.h"

static struct table qps = TABLE_INIT;
static struct table by_id = TABLE_INIT;
static struct table twins[NICS_MAX] = {[0 ... NICS_MAX - 1] = TABLE_INIT}; /* by QPN */

static _Atomic uint32_t next_id = 1;

uint32_t vqp_draw_id(void)
{
	return atomic_fetch_add(&next_id, 1);
}

struct vqp *vqp_find(const struct ibv_qp *qp)
{
	return table_get(&qps, (uintptr_t)qp);
}

struct vqp *vqp_by_id(uint32_t id)
{
	return table_get(&by_id, id);
}

void vqp_each(void (*fn)(struct vqp *v, void *arg), void *arg)
{
	table_each(&by_id, (void (*)(void *, void *))fn, arg);
}

void vqp_all(void (*fn)(struct vqp *v, void *arg), void *arg)
{
	table_each(&qps, (void (*)(void *, void *))fn, arg);
}

int vqp_publish(struct vqp *v)
{
	int err = 0;

	if (v->conn)
		err = table_put(&v->dev->qps, v->qp->qp_num, v);
	if (!err && v->conn)
		err = table_put(&by_id, v->id, v);
	return err ? err : table_put(&qps, (uintptr_t)v->qp, v);
}

int vqp_renew_id(struct vqp *v)
{
	uint32_t id = vqp_draw_id();

	table_remove(&by_id, v->id);
	pthread_mutex_lock(&v->lock);
	v->id = id;
	pthread_mutex_unlock(&v->lock);
	return table_put(&by_id, id, v);
}

void vqp_unpublish_forked(struct vqp *v)
{
	table_remove_forked(&qps, (uintptr_t)v->qp);
	if (!v->conn)
		return;
	table_remove_forked(&v->dev->qps, v->qp->qp_num);
	gate_forget(&v->hot.send_gate, v->qp);
	gate_forget(&v->hot.recv_gate, v->qp);
}

void vqp_wait_drains(struct vqp *v)
{
	pthread_mutex_lock(&v->send_cq->drain_lock);
	pthread_mutex_unlock(&v->send_cq->drain_lock);
	pthread_mutex_lock(&v->recv_cq->drain_lock);
	pthread_mutex_unlock(&v->recv_cq->drain_lock);
}

void vqp_unpublish(struct vqp *v)
{
	table_remove(&qps, (uintptr_t)v->qp);
	if (!v->conn)
		return;
	table_remove(&by_id, v->id);
	table_remove(&v->dev->qps, v->qp->qp_num);
	gate_forget(&v->hot.send_gate, v->qp);
	gate_forget(&v->hot.recv_gate, v->qp);
	vcq_forget(v->send_cq, v);
	vcq_forget(v->recv_cq, v);
	vqp_wait_drains(v);
}

struct vqp *vqp_by_twin(const struct nic *nic, uint32_t qpn, uint8_t *rail)
{
	struct vqp *v = table_get(&twins[nic->index], qpn);
	int i = v ? vqp_twin_rail_on(v, nic) : -1;

	*rail = (uint8_t)i;
	return i < 0 ? NULL : v;
}

int vqp_publish_twin(struct vqp *v, const struct nic *nic, uint32_t qpn)
{
	return table_put(&twins[nic->index], qpn, v);
}

void vqp_unpublish_twin(struct vqp *v, const struct nic *nic, uint32_t qpn)
{
	table_remove(&twins[nic->index], qpn);
	vqp_wait_drains(v);
}

/* --- its rails ------------------------------------------------------------------------------- */

uint8_t vqp_rail(const struct vqp *v)
{
	return shift_conn_rail(v->conn);
}

bool vqp_is_protected(const struct vqp *v)
{
	return shift_conn_protected(v->conn);
}

bool vqp_rail_is_up(const struct vqp *v, uint8_t rail)
{
	static const struct nic_gid none;
	const struct nic_gid *gid = &v->rails.twin[rail].gid;

	if (!v->dev->nic[rail]->link_up)
		return false;
	if (!v->program.attr.ah_attr.is_global || !memcmp(gid, &none, sizeof(none)))
		return true;
	if (v->rails.unheard >> rail & 1)
		return false;
	return !nic_gid_is_lost(v->dev->nic[rail], gid);
}

bool vqp_rail_was_up(const struct vqp *v, uint8_t rail)
{
	return !(atomic_load(&v->rails.down) >> rail & 1);
}

void vqp_rail_note_up(struct vqp *v, uint8_t rail, bool up)
{
	if (up)
		atomic_fetch_and(&v->rails.down, ~(1u << rail));
	else
		atomic_fetch_or(&v->rails.down, 1u << rail);
}

bool vqp_is_idle(const struct vqp *v)
{
	return v->timers.idle && shift_conn_activity(v->conn) == v->timers.activity;
}

int vqp_twin_rail_on(const struct vqp *v, const struct nic *nic)
{
	for (int i = 1; i < v->dev->rails; i++)
		if (v->dev->nic[i] == nic)
			return i;
	return -1;
}

static bool has_path(const struct vqp *v, uint32_t rails, const struct peer_path *path)
{
	for (uint8_t i = 0; i < v->dev->rails && path; i++)
		if ((rails >> i & 1) && v->rails.twin[i].path == path)
			return true;
	return false;
}

uint32_t vqp_rails_heard(const struct vqp *v, const struct nic *nic)
{
	uint32_t rails = 0;

	for (uint8_t i = 0; i < v->dev->rails; i++)
		if (v->dev->nic[i] == nic && !has_path(v, rails, v->rails.twin[i].path))
			rails |= 1u << i;
	return rails;
}

/* --- answers ---------------------------------------------------------------------------------- */

static _Atomic uint32_t times_awaited;

/* In this order: who sees the count looks for the mask, and then not again. */
void vqp_await_answers(struct vqp *v)
{
	atomic_store(&v->awaits_answers, UINT32_MAX);
	atomic_fetch_add(&times_awaited, 1);
}

uint32_t vqp_times_answers_awaited(void)
{
	return atomic_load(&times_awaited);
}
