/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/arm.h"

#include <errno.h>
#include <string.h>

#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/exported_keys.h"
#include "lib/conn/fence_qp.h"
#include "lib/conn/peer_keys.h"
#include "lib/conn/rail_jobs.h"
#include "lib/conn/self_qp.h"
#include "lib/conn/srq_qps.h"

static void vqp_show_state(struct vqp *v)
{
	v->qp->state = v->program.state; /* at once: the lock may take long */
	pthread_mutex_lock(&v->lock);
	v->qp->state = v->program.state;
	pthread_mutex_unlock(&v->lock);
}

/* Where drivers set a QP up anew for posting: those of posting by ibv_wr_*, for example. */
static bool sets_up(const struct ibv_qp_attr *attr, int mask)
{
	return mask & IBV_QP_STATE &&
	       (attr->qp_state == IBV_QPS_RESET || attr->qp_state == IBV_QPS_RTS);
}

/* The program must not see through qp->state what we do to rail 0. */
static int rail0_modify(struct vqp *v, struct ibv_qp_attr *attr, int mask)
{
	bool guarded = v->rail0_setup_begin && sets_up(attr, mask);
	int err = guarded ? v->rail0_setup_begin(v) : 0;

	if (err)
		return err;
	err = real.modify_qp(v->qp, attr, mask);
	if (guarded)
		v->rail0_setup_end(v);
	vqp_show_state(v);
	return err;
}

int vqp_modify(struct vqp *v, uint8_t rail, struct ibv_qp_attr *attr, int mask)
{
	return rail ? real.modify_qp(vqp_rail_qp(v, rail), attr, mask)
		    : rail0_modify(v, attr, mask);
}

int vqp_to_state(struct vqp *v, uint8_t rail, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return vqp_modify(v, rail, &attr, IBV_QP_STATE);
}

/* As nic_reset_qp(). */
int vqp_to_reset(struct vqp *v, uint8_t rail)
{
	if (v->dev->nic[rail]->is_rxe)
		vqp_to_state(v, rail, IBV_QPS_ERR);
	return vqp_to_state(v, rail, IBV_QPS_RESET);
}

/* The largest MTU that is not larger than `bytes`. */
static enum ibv_mtu mtu_enum(uint32_t bytes)
{
	for (int m = IBV_MTU_4096; m > IBV_MTU_256; m--)
		if (bytes >= 128u << m)
			return (enum ibv_mtu)m;
	return IBV_MTU_256;
}

/* What an arming needs of the connection: copied under vqp.lock, as the program may modify its QP,
 * and the background thread may look GIDs up, meanwhile. */
struct arm_input {
	struct arming to;
	struct vqp_program program;
	struct nic_gid gid; /* of the rail */
	int gid_index;
	__be16 pkey;
	uint32_t mtu;
	struct rail_addr peer;
	bool peer_srq; /* its QP takes its receives from one */
};

/* A backup rail of the peer says so. */
static bool peer_has_srq(const struct vqp *v)
{
	bool has = false;

	for (uint8_t i = 1; i < v->dev->rails; i++)
		has |= v->rails.twin[i].peer.flags & RAIL_SRQ;
	return has;
}

static void arm_take_input(struct vqp *v, const struct rail_jobs *j, struct arm_input *in)
{
	const struct twin *t = &v->rails.twin[j->rail];

	pthread_mutex_lock(&v->lock);
	*in = (struct arm_input){.to = j->arm,
				 .program = v->program,
				 .gid = t->gid,
				 .gid_index = t->gid_index,
				 .pkey = v->rails.pkey,
				 .mtu = t->mtu,
				 .peer = t->peer,
				 .peer_srq = peer_has_srq(v)};
	pthread_mutex_unlock(&v->lock);
}

/* What a twin has at least: 67 ms, six times. */
enum { TIMEOUT_MIN = 14, RETRIES_MIN = 6 };

/* What a QP has that has not said what RTS needs: 8.6 s. It may say later, when it cannot be
 * changed any more, and must not find its QP less patient. The retries end: to soft-RoCE 7 is for
 * ever. */
enum { TIMEOUT_UNSAID = 21, RETRIES_UNSAID = 6 };

static void rts_defaults(struct ibv_qp_attr *attr)
{
	attr->timeout = TIMEOUT_UNSAID;
	attr->retry_cnt = RETRIES_UNSAID;
	attr->rnr_retry = 7;
	attr->max_rd_atomic = 1;
}

/* A twin is never less patient than the program's QP: what is slow is not dead, and probes, link
 * events and progress find what is dead long before (doc/protocol.md, rule 27). */
static void twin_patience(struct ibv_qp_attr *attr)
{
	if (attr->timeout && attr->timeout < TIMEOUT_MIN) /* 0: it waits for ever */
		attr->timeout = TIMEOUT_MIN;
	if (attr->retry_cnt < RETRIES_MIN)
		attr->retry_cnt = RETRIES_MIN;
}

/* A NIC may take four times the timeout for each try. */
uint64_t twin_retries_ns(const struct vqp_program *p)
{
	struct ibv_qp_attr attr = p->attr;

	if (p->state != IBV_QPS_RTS)
		rts_defaults(&attr);
	twin_patience(&attr);
	if (!attr.timeout) /* no try is ever given up */
		attr.timeout = TIMEOUT_MIN;
	return (4 * 4096ull << attr.timeout) * (attr.retry_cnt + 1u);
}

/* The GID and the P_Key count by their values, as indexes move when an address goes and comes, and
 * differ between NICs (doc/protocol.md, V14). 0; or a negative errno: the rail cannot be used now.
 */
static int own_address(struct vqp *v, uint8_t rail, const struct arm_input *in,
		       struct ibv_qp_attr *attr)
{
	const struct nic *nic = v->dev->nic[rail];
	int gid = 0, pkey = 0;

	if (attr->ah_attr.is_global)
		gid = nic_gid_find(nic, &in->gid,
				   rail ? in->gid_index : attr->ah_attr.grh.sgid_index);
	if (rail && in->pkey)
		pkey = nic_pkey_index(nic, in->pkey);
	attr->ah_attr.grh.sgid_index = (uint8_t)gid;
	if (rail)
		attr->pkey_index = (uint16_t)pkey;
	return gid < 0 ? gid : pkey < 0 ? pkey : 0;
}

/* Without a GRH only InfiniBand works. */
static bool needs_grh(const struct nic *nic, const struct rail_addr *peer)
{
	return nic->port_attr.link_layer != IBV_LINK_LAYER_INFINIBAND || !peer->lid;
}

/* The twin's own path. The rest is as the program asked for (doc/protocol.md, rule 27). */
static void twin_attr(struct vqp *v, uint8_t rail, const struct arm_input *in,
		      struct ibv_qp_attr *attr)
{
	const struct ibv_ah_attr *ah = &in->program.attr.ah_attr;

	attr->port_num = v->dev->nic[rail]->port;
	attr->path_mtu = mtu_enum(in->mtu);
	attr->dest_qp_num = in->peer.qpn;
	attr->ah_attr = (struct ibv_ah_attr){
		.is_global = ah->is_global || needs_grh(v->dev->nic[rail], &in->peer),
		.grh = {.dgid = in->peer.gid,
			.hop_limit = ah->grh.hop_limit ? ah->grh.hop_limit : 64,
			.traffic_class = ah->grh.traffic_class,
			.flow_label = ah->grh.flow_label},
		.dlid = in->peer.lid,
		.sl = ah->sl,
		.static_rate = ah->static_rate,
		.port_num = v->dev->nic[rail]->port,
	};
	twin_patience(attr);
}

/* What the two ends have agreed on must be so at both, or they do not understand each other. */
static int arm_ece(struct vqp *v, uint8_t rail, const struct arm_input *in)
{
	struct ibv_ece ece = in->program.ece;

	return in->program.has_ece ? real.set_ece(vqp_rail_qp(v, rail), &ece) : 0;
}

/* A NIC that cannot do it sends faster: that is no reason to end the job. */
static void arm_rate(struct vqp *v, uint8_t rail, const struct arm_input *in)
{
	struct ibv_qp *qp = vqp_rail_qp(v, rail);
	struct ibv_qp_rate_limit_attr rate = in->program.rate;
	const struct verbs_context *vctx;
	int err = EOPNOTSUPP;

	if (!rate.rate_limit)
		return;
	vctx = verbs_get_ctx_op(qp->context, modify_qp_rate_limit);
	if (!rail)
		err = v->dev->modify_qp_rate_limit(qp, &rate);
	else if (vctx)
		err = vctx->modify_qp_rate_limit(qp, &rate);
	if (err)
		log_warn("QP %#x: sends without its rate limit on %s, which refuses it: %s", v->qpn,
			 v->dev->nic[rail]->name, strerror(err));
}

/* A program that sleeps is to be woken by what completes there. */
void arm_events(struct vqp *v, uint8_t rail)
{
	const struct nic *nic = rail ? v->dev->nic[rail] : NULL;

	vcq_arm(v->send_cq, nic);
	if (v->recv_cq != v->send_cq)
		vcq_arm(v->recv_cq, nic);
}

static int arm_qp(struct vqp *v, uint8_t rail, const struct arm_input *in)
{
	struct ibv_qp_attr attr = in->program.attr;
	int err;

	if (!vqp_rail_qp(v, rail))
		return -1;
	if (rail)
		twin_attr(v, rail, in, &attr);
	if (in->program.state !=
	    IBV_QPS_RTS) /* the program has not set what RTS needs: it only receives so far */
		rts_defaults(&attr);
	/* Its receives may lie on another NIC for a moment, also when it is back on rail 0
	 * (doc/srq.md, S14). */
	if (in->peer_srq)
		attr.rnr_retry = 7;
	attr.rq_psn = in->to.rx_psn;
	attr.sq_psn = in->to.tx_psn;
	arm_events(v, rail);
	err = vqp_to_state(v, rail, IBV_QPS_RESET);
	err = err ? err : own_address(v, rail, in, &attr);
	err = err ? err : arm_ece(v, rail, in);
	attr.qp_state = IBV_QPS_INIT;
	err = err ? err
		  : vqp_modify(v, rail, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	err = err ? err
		  : vqp_modify(v, rail, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	err = err ? err
		  : vqp_modify(v, rail, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (!err)
		arm_rate(v, rail, in);
	return err;
}

/* The GID that the program's QP has on rail 0. It is known well once the rendezvous has named it.
 */
static void gid_of_rail0(const struct arm_input *in, struct nic_gid *gid)
{
	static const struct nic_gid none;

	*gid = in->gid;
	if (!memcmp(gid, &none, sizeof(none)))
		*gid = (struct nic_gid){.value = in->program.attr.ah_attr.grh.dgid,
					.type = IBV_GID_TYPE_ROCE_V2};
}

int arm_to_itself(struct vqp *v, uint8_t rail, uint32_t psn)
{
	const struct nic *nic = v->dev->nic[rail];
	struct ibv_qp *qp = vqp_rail_qp(v, rail);
	struct nic_gid rail0;
	struct arm_input in;
	uint32_t asked;

	if (!qp || !nic->ready)
		return -ENODEV;
	arm_take_input(v, &v->rails.jobs[0], &in);
	in.to = (struct arming){.tx_psn = psn, .rx_psn = psn};
	gid_of_rail0(&in, &rail0);
	in.gid = rail0;
	if (rail) {
		in.gid_index = nic_gid_for_twin(nic, &rail0, &in.gid);
		if (in.gid_index < 0)
			return in.gid_index;
	}
	asked = 128u << in.program.attr.path_mtu;
	in.mtu = asked < nic->mtu_bytes ? asked : nic->mtu_bytes;
	in.peer = (struct rail_addr){
		.gid = in.gid.value, .qpn = qp->qp_num, .lid = nic->port_attr.lid};
	return arm_qp(v, rail, &in);
}

/* A new epoch has keys of its own. An ARM that ends late is of an earlier one: the connection has
 * moved to another rail meanwhile, and needs the keys that it has. */
static void arm_reset_keys(struct vqp *v, uint8_t rail, uint32_t epoch)
{
	if (epoch <= v->keys.exported.epoch)
		return;
	peer_keys_reset(v->keys.peer, epoch, rail);
	exported_keys_reset(&v->keys.exported, epoch, rail);
}

enum arm_end {
	ARM_ENDS,
	ARM_AGAIN, /* another was asked for meanwhile, and the caller carries out that one next */
	ARM_LATE,  /* it was taken for hung just now, and lib/core was told nothing yet */
};

/* Tells lib/core how an ARM ended. One that is not waited for any more must not stay armed. */
static enum arm_end arm_answer(struct vqp *v, struct rail_jobs *j, const struct arming *done,
			       bool armed, bool late)
{
	struct shift_event ev = {.type = armed ? SHIFT_EV_ARM_DONE : SHIFT_EV_ARM_FAILED,
				 .rail = j->rail,
				 .epoch = done->epoch};
	bool again;

	vqp_enter(v);
	if (armed && !j->arm_since) {
		vqp_leave(v);
		return ARM_LATE;
	}
	again = j->arm_since && (late || j->arm.epoch != done->epoch);
	if (!again) {
		atomic_store(&j->arming, false);
		j->arm_since = 0;
	}
	fence_follow(v, j);
	if (!j->stale) {
		v->rails.armed_epoch[j->rail] = done->epoch;
		if (!j->rail)
			v->hot.rail0_epoch = done->epoch;
		arm_reset_keys(v, j->rail, done->epoch);
		if (armed && !again)
			srq_qp_leave_others(v, j->rail);
		shift_conn_event(v->conn, &ev, now_ns()); /* the core ignores an overdue answer */
	}
	vqp_leave(v);
	return again ? ARM_AGAIN : ARM_ENDS;
}

/* If the NIC refuses even that, its QP may accept packets still: it leaves when another rail is
 * armed, as one whose fence hung. */
static void arm_undo(struct vqp *v, uint8_t rail)
{
	if (!vqp_rail_qp(v, rail) || !vqp_to_reset(v, rail))
		srq_qp_leave(v, rail);
}

static int arm_or_warn(struct vqp *v, uint8_t rail, const struct arm_input *in)
{
	int err = arm_qp(v, rail, in);

	if (err)
		log_warn("QP %#x: cannot bring its twin on %s to RTS (%s); is the peer's rail %u "
			 "reachable from there?",
			 v->qpn, v->dev->nic[rail]->name, strerror(err > 0 ? err : -err), rail);
	return err;
}

static void arm_run(struct job *job)
{
	struct rail_jobs *j = (struct rail_jobs *)((char *)job - offsetof(struct rail_jobs, arms));
	struct vqp *v = j->v;
	struct arm_input in;
	enum arm_end end;
	bool late;
	int err;

	do {
		arm_take_input(v, j, &in);
		pause_hang(v, STATS_PHASE_ARM);
		self_qps_follow(v, j->rail); /* before the first packet can come there */
		err = srq_qp_join(v, j->rail, SRQ_JOIN_NS) ? arm_or_warn(v, j->rail, &in) : EAGAIN;
		if (!err)
			srq_qp_await_supply(v, j->rail);
		pthread_mutex_lock(&v->lock);
		late = !j->arm_since;
		pthread_mutex_unlock(&v->lock);
		do {
			if (err || late)
				arm_undo(v, j->rail);
			end = arm_answer(v, j, &in.to, !err && !late, late);
			late |= end == ARM_LATE;
		} while (end == ARM_LATE);
		if (end == ARM_AGAIN && !err && !late) /* for an epoch that is over */
			vqp_to_reset(v, j->rail);
	} while (end == ARM_AGAIN);
	rail_job_ends(j);
}

/* On threads of their own: modify to RTR waits a second and more for a neighbour that does not
 * answer, and the fences of other connections must not wait for that. */
void arm_start(struct vqp *v, const struct shift_action *a)
{
	struct rail_jobs *j = &v->rails.jobs[a->rail];

	j->arm = (struct arming){.epoch = a->epoch, .tx_psn = a->tx_psn, .rx_psn = a->rx_psn};
	j->arm_since = bg_awake_ns();
	bg_call(&v->timers.overdue_call);
	if (j->arming) /* an overdue ARM still runs, and takes up this one when it ends */
		return;
	atomic_store(&j->arming, true);
	j->arms.fn = arm_run;
	rail_job_begins(j);
	worker_submit(v->dev->nic[a->rail]->arms, &j->arms);
}
