/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "tests/clients/rc_device.h"
#include "tests/clients/rc_peer.h"
#include "tests/clients/tcp.h"

enum { IB_PORT = 1, TIMEOUT = 14, RETRY = 7, RNR_RETRY = 7, MIN_RNR_TIMER = 12 };

/* In the machine's own layout: both sides are the same program. */
struct address {
	uint32_t qpn, psn;
	uint16_t lid, mtu;
	union ibv_gid gid;
};

static _Noreturn void fail(const char *what)
{
	die(EXIT_FAILURE, "%s: %s", what, strerror(errno));
}

void rc_peer_open(struct rc_peer *p, int tcp, const char *device, int gid_index, int cqe)
{
	p->tcp = tcp;
	p->srq = NULL;
	p->gid_index = gid_index;
	p->context = rc_device_open(device);
	if (!p->context)
		fail(device);
	p->pd = ibv_alloc_pd(p->context);
	p->cq = ibv_create_cq(p->context, cqe, NULL, NULL, 0);
	if (!p->pd || !p->cq)
		fail("alloc_pd, create_cq");
}

static struct ibv_qp *create_qp(struct rc_peer *p, uint32_t depth)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.send_cq = p->cq,
					.recv_cq = p->cq,
					.srq = p->srq,
					.cap = {.max_send_wr = depth,
						.max_recv_wr = depth,
						.max_send_sge = 1,
						.max_recv_sge = 1}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = IB_PORT};
	struct ibv_qp *qp = ibv_create_qp(p->pd, &attr);

	if (!qp)
		fail("create_qp");
	if (ibv_modify_qp(qp, &init,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail("modify_qp to INIT");
	return qp;
}

static struct address address_of(struct rc_peer *p, const struct ibv_qp *qp)
{
	struct ibv_port_attr port;
	struct address own = {.qpn = qp->qp_num, .psn = (qp->qp_num * 2654435761u) >> 8};

	if (ibv_query_port(p->context, IB_PORT, &port) ||
	    ibv_query_gid(p->context, IB_PORT, p->gid_index, &own.gid))
		fail("query_port, query_gid");
	own.lid = port.lid;
	own.mtu = port.active_mtu;
	return own;
}

static void to_rts(struct rc_peer *p, struct ibv_qp *qp, const struct address *own,
		   const struct address *peer)
{
	struct ibv_qp_attr rtr = {
		.path_mtu = own->mtu < peer->mtu ? own->mtu : peer->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = MIN_RNR_TIMER,
		.ah_attr = {.is_global = 1,
			    .dlid = peer->lid,
			    .port_num = IB_PORT,
			    .grh = {.dgid = peer->gid,
				    .sgid_index = (uint8_t)p->gid_index,
				    .hop_limit = 64}},
	};
	struct ibv_qp_attr rts = {.sq_psn = own->psn,
				  .timeout = TIMEOUT,
				  .retry_cnt = RETRY,
				  .rnr_retry = RNR_RETRY,
				  .max_rd_atomic = 1};

	if (rc_device_rtr(qp, &rtr))
		fail("modify_qp to RTR");
	if (rc_device_rts(qp, &rts))
		fail("modify_qp to RTS");
}

struct ibv_qp *rc_peer_connect(struct rc_peer *p, uint32_t depth)
{
	struct ibv_qp *qp = create_qp(p, depth);
	struct address own = address_of(p, qp), peer;

	if (!tcp_send(p->tcp, &own, sizeof(own)) || !tcp_receive(p->tcp, &peer, sizeof(peer)))
		fail("the peer left");
	to_rts(p, qp, &own, &peer);
	return qp;
}

void rc_peer_meet(struct rc_peer *p)
{
	char own = 0, peer;

	if (!tcp_send(p->tcp, &own, 1) || !tcp_receive(p->tcp, &peer, 1))
		fail("the peer left");
}
