/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The verbs of the probes: creating, arming and destroying their QPs on the resolver, and posting.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "lib/base/background.h"
#include "lib/base/real_verbs.h"
#include "lib/nic/nic.h"
#include "lib/nic/nic_int.h"
#include "lib/nic/probe_int.h"

enum {
	PER_CQ = 128,
	CQ_DEPTH = 1024, /* for both QPs of each, and what an earlier incarnation may have left */
	SCRATCH_BYTES = 4096,
	TIMEOUT = 14, /* 4.096 us * 2^14 = 67 ms */
	RETRIES = 6,  /* with 7 soft-RoCE retries for ever */
	RNR_RETRIES = 7,
};

static int errno_or_eio(void)
{
	return -(errno ? errno : EIO);
}

/* ---- what the probes of a NIC share --------------------------------------------------------- */

static int probe_make_memory(struct probe_nic *s)
{
	s->memory = mmap(NULL, 2 * SCRATCH_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->memory == MAP_FAILED) {
		s->memory = NULL;
		return errno_or_eio();
	}
	madvise(s->memory, 2 * SCRATCH_BYTES, MADV_DONTFORK);
	s->mr = real.reg_mr(s->nic->pd, s->memory, 2 * SCRATCH_BYTES,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (s->mr)
		return 0;
	munmap(s->memory, 2 * SCRATCH_BYTES);
	s->memory = NULL;
	return errno_or_eio();
}

static int probe_make_channel(struct probe_nic *s)
{
	s->channel = real.create_comp_channel(s->nic->ctx);
	if (!s->channel)
		return errno_or_eio();
	fcntl(s->channel->fd, F_SETFL, fcntl(s->channel->fd, F_GETFL) | O_NONBLOCK);
	return 0;
}

static struct probe_cq *probe_get_cq(struct probe_nic *s)
{
	struct probe_cq *c;

	for (c = s->cqs; c; c = c->next)
		if (c->users < PER_CQ)
			break;
	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return NULL;
		c->cq = real.create_cq(s->nic->ctx, CQ_DEPTH, s, s->channel, 0);
		if (!c->cq) {
			free(c);
			return NULL;
		}
		ibv_req_notify_cq(c->cq, 0);
		c->next = s->cqs;
		s->cqs = c;
	}
	c->users++;
	return c;
}

/* ---- creating and destroying ---------------------------------------------------------------- */

static struct ibv_qp *probe_make_qp(struct probe *p)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.send_cq = p->cq->cq,
					.recv_cq = p->cq->cq,
					.sq_sig_all = 1,
					.cap = {.max_send_wr = PROBES_OUT_MAX,
						.max_recv_wr = 1,
						.max_send_sge = 1,
						.max_recv_sge = 1}};

	return real.create_qp(p->nic->pd, &attr);
}

static void probe_destroy_qps(struct probe *p)
{
	if (p->requester)
		real.destroy_qp(p->requester);
	if (p->responder)
		real.destroy_qp(p->responder);
	if (p->cq)
		p->cq->users--;
	p->requester = p->responder = NULL;
	p->cq = NULL;
}

static int probe_create_qps(struct probe *p)
{
	struct probe_nic *s = p->shared;
	int err = s->mr ? 0 : probe_make_memory(s);

	if (!err && !s->channel)
		err = probe_make_channel(s);
	if (err)
		return err;
	p->cq = probe_get_cq(s);
	if (p->cq)
		p->requester = probe_make_qp(p);
	if (p->requester)
		p->responder = probe_make_qp(p);
	if (p->responder)
		return 0;
	err = errno_or_eio();
	probe_destroy_qps(p);
	return err;
}

/* ---- arming -------------------------------------------------------------------------------- */

uint32_t probe_path_bytes(const struct probe_addr *a, const struct probe_addr *b)
{
	return a->mtu_bytes < b->mtu_bytes ? a->mtu_bytes : b->mtu_bytes;
}

static enum ibv_mtu mtu_code(uint32_t bytes)
{
	enum ibv_mtu code = IBV_MTU_256;

	while (code < IBV_MTU_4096 && 128u << (code + 1) <= bytes)
		code++;
	return code;
}

static int reset_to_init(struct probe *p, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = p->nic->port,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	int err = nic_reset_qp(p->nic, qp);

	if (!err)
		err = real.modify_qp(qp, &attr,
				     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					     IBV_QP_ACCESS_FLAGS);
	return err;
}

/* May wait for a neighbour that does not answer. 0 or a positive errno. */
static int to_rtr(struct probe *p, struct ibv_qp *qp, uint32_t dest_qpn, uint32_t rq_psn)
{
	const struct probe_addr *peer = &p->task.peer;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = mtu_code(probe_path_bytes(&p->task.own, peer)),
				   .dest_qp_num = dest_qpn,
				   .rq_psn = rq_psn,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 12,
				   .ah_attr = {.dlid = peer->lid, .port_num = p->nic->port}};
	union ibv_gid own;
	int index, err = reset_to_init(p, qp);

	if (err)
		return err;
	if (p->nic->port_attr.link_layer != IBV_LINK_LAYER_INFINIBAND || !peer->lid) {
		index = nic_gid_like(p->nic, &peer->gid, &own);
		if (index < 0)
			return -index;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = peer->gid;
		attr.ah_attr.grh.sgid_index = (uint8_t)index;
		attr.ah_attr.grh.hop_limit = 64;
	}
	return real.modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER);
}

static int arm_requester(struct probe *p)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
				   .sq_psn = p->task.sq_psn,
				   .timeout = TIMEOUT,
				   .retry_cnt = RETRIES,
				   .rnr_retry = RNR_RETRIES,
				   .max_rd_atomic = 1};
	/* Nothing is ever sent to a requester, so its rq_psn does not matter. */
	int err = to_rtr(p, p->requester, p->task.peer.responder_qpn, 0);

	if (err)
		return -err;
	return -real.modify_qp(p->requester, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int arm_responder(struct probe *p)
{
	/* It needs no more than RTR, because it only answers. */
	return -to_rtr(p, p->responder, p->task.peer.requester_qpn, p->task.rq_psn);
}

void probe_job(struct job *job)
{
	struct probe *p = (struct probe *)((char *)job - offsetof(struct probe, job));
	int err = 0;

	if (p->task.destroy)
		probe_destroy_qps(p);
	if (p->task.create)
		err = probe_create_qps(p);
	if (!err && p->task.responder)
		err = arm_responder(p);
	if (!err && p->task.requester)
		err = arm_requester(p);
	p->task.err = err;
	bg_call(&p->done);
}

int probe_post(struct probe *p, unsigned int n)
{
	const struct probe_nic *s = p->shared;
	struct ibv_sge sge = {.addr = (uintptr_t)s->memory,
			      .length = probe_path_bytes(&p->own, &p->peer),
			      .lkey = s->mr->lkey};
	struct ibv_send_wr wr[PROBES_OUT_MAX], *bad;

	for (unsigned int i = 0; i < n; i++)
		wr[i] = (struct ibv_send_wr){
			.wr_id = (uint64_t)p->slot << 32 | p->incarnation,
			.next = i + 1 < n ? &wr[i + 1] : NULL,
			.sg_list = &sge,
			.num_sge = p->sent[p->out - n + i].large,
			.opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = {.remote_addr = p->peer.remote_addr, .rkey = p->peer.rkey}};
	return n ? ibv_post_send(p->requester, wr, &bad) : 0;
}
