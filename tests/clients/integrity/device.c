/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Device, memory and queue pairs. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/clients/integrity/integrity.h"
#include "tests/clients/rc_device.h"

static void *allocate(size_t n, size_t bytes)
{
	void *p = calloc(n, bytes);

	if (!p)
		fail("memory");
	return p;
}

static struct ibv_context *open_named(const char *name)
{
	struct ibv_context *context = rc_device_open(name);

	if (!context)
		fail(name);
	return context;
}

static uint32_t place(uint32_t *end, uint32_t bytes)
{
	uint32_t at = *end;

	*end = (at + bytes + 63) & ~63u;
	return at;
}

static struct layout layout_of(const struct workload *w)
{
	uint32_t receives = w->srqs ? w->srq_depth : w->receives;
	struct layout m = {
		.slot_stride = (w->size + 16 + 63) & ~63u,
		.imm_slots = receives + 4, /* what is posted, one under way, and for --break */
		.imm_stride = (w->size + 63) & ~63u,
		.read_bytes = 2 * w->size + 64,
		.buffer_stride = (w->size + 16 + PIECES_MAX * PIECE_GAP + 63) & ~63u,
	};
	uint32_t end = 0;

	m.status = place(&end, sizeof(struct status_block));
	m.add = place(&end, 8);
	m.swap = place(&end, 8);
	m.slots[WRITES] = place(&end, SLOTS * m.slot_stride);
	m.slots[FLAGS] = place(&end, SLOTS * m.slot_stride);
	m.imm = place(&end, m.imm_slots * m.imm_stride);
	m.read = place(&end, m.read_bytes);
	m.send = place(&end, w->depth * m.buffer_stride);
	m.receive = place(&end, w->srqs ? 0 : w->receives * m.buffer_stride);
	m.total = end;
	return m;
}

static void to_init(struct lane *l)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = opt.ib_port,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						      IBV_ACCESS_REMOTE_READ |
						      IBV_ACCESS_REMOTE_ATOMIC};

	if (ibv_modify_qp(l->qp, &init,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail("modify_qp to INIT");
}

static void create_qp(struct lane *l, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.srq = l->srq ? l->srq->srq : NULL,
		.cap = {.max_send_wr = opt.w.depth,
			.max_recv_wr = l->srq ? 0 : opt.w.receives,
			.max_send_sge = PIECES_MAX,
			.max_recv_sge = l->srq ? 0 : PIECES_MAX,
			.max_inline_data = INLINE_MAX},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = l->device->pd,
		.send_ops_flags = wr_api_flags(),
	};

	if (opt.rdma_cm)
		cm->create_qp(l, &attr);
	else if (opt.wr_api)
		l->qp = ibv_create_qp_ex(l->device->context, &attr);
	else /* the extended attributes begin with the plain ones */
		l->qp = ibv_create_qp(l->device->pd, (struct ibv_qp_init_attr *)&attr);
	if (!l->qp)
		fail("create_qp");
	if (opt.wr_api)
		l->qp_ex = ibv_qp_to_qp_ex(l->qp);
	if (!opt.rdma_cm)
		to_init(l);
}

/* As a life finds it. */
static void fill_memory(const struct run *r, struct lane *l)
{
	const struct layout *m = &r->layout;

	memset(l->memory, 0, m->total);
	message_fill(l->memory + m->read, message_key(side_own(), l->index, READS, 0), 0,
		     m->read_bytes);
}

static void create_memory(struct run *r, struct lane *l)
{
	const struct layout *m = &r->layout;

	l->memory = aligned_alloc(4096, (m->total + 4095) & ~4095u);
	if (!l->memory)
		fail("memory");
	fill_memory(r, l);
	l->mr = ibv_reg_mr(l->device->pd, l->memory, m->total,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (!l->mr)
		fail("reg_mr");
	l->records = allocate(opt.w.depth, sizeof(*l->records));
	l->receive_pieces = allocate(opt.w.receives, sizeof(*l->receive_pieces));
	l->scratch = allocate(2, m->buffer_stride);
	l->expected = l->scratch + m->buffer_stride;
}

static void create_lane(struct run *r, uint32_t i)
{
	uint32_t d = i / opt.threads % opt.device_count;
	struct lane *l = &r->lanes[i];

	l->index = i;
	l->device = &r->devices[d];
	l->srq = opt.w.srqs ? &r->srqs[i % opt.w.srqs] : NULL;
	l->sends = opt.peer || !opt.w.one_way;
	l->random = mix(opt.w.seed ^ (uint64_t)i << 32 ^ side_own());
	for (int g = 0; g < GAPS_KEPT; g++)
		l->gaps[g].ms = -1;
	create_memory(r, l);
	create_qp(l, r->pollers[i % opt.threads].cqs[d].cq);
	l->own = (struct address){.qpn = l->qp->qp_num,
				  .psn = mix(l->random) & 0xffffff,
				  .rkey = l->mr->rkey,
				  .memory = (uintptr_t)l->memory};
}

/* A CQ holds all that its QPs may have outstanding. */
static void create_pollers(struct run *r)
{
	uint32_t lanes = (opt.w.qps + opt.threads - 1) / opt.threads;
	uint32_t receives = opt.w.srqs ? srq_receives() : lanes * opt.w.receives;

	r->pollers = allocate(opt.threads, sizeof(*r->pollers));
	for (uint32_t t = 0; t < opt.threads; t++)
		poller_create(r, t, lanes * opt.w.depth + receives);
}

static void open_one(struct run *r, struct device *d, const char *name)
{
	d->context = open_named(name);
	if (opt.rdma_cm)
		cm->open(r, d);
	d->pd = ibv_alloc_pd(d->context);
	if (!d->pd)
		fail("alloc_pd");
}

void device_open(struct run *r)
{
	for (uint32_t d = 0; d < opt.device_count; d++)
		open_one(r, &r->devices[d], opt.devices[d]);
	create_pollers(r);
	r->layout = layout_of(&opt.w);
	if (opt.w.srqs)
		srqs_create(r);
	r->lanes = allocate(opt.w.qps, sizeof(*r->lanes));
	r->peer_totals = allocate(opt.w.qps, sizeof(*r->peer_totals));
	for (uint32_t i = 0; i < opt.w.qps; i++)
		create_lane(r, i);
}

static enum ibv_mtu path_mtu(const struct lane *l)
{
	int mtu = l->own.mtu < l->peer.mtu ? l->own.mtu : l->peer.mtu;

	return (enum ibv_mtu)mtu;
}

static void to_rts(struct lane *l, int max_tries)
{
	struct ibv_qp_attr rtr = {
		.path_mtu = path_mtu(l),
		.dest_qp_num = l->peer.qpn,
		.rq_psn = l->peer.psn,
		.max_dest_rd_atomic = opt.rd_atomic,
		.min_rnr_timer = opt.min_rnr_timer,
		.ah_attr = {.is_global = 1,
			    .dlid = l->peer.lid,
			    .port_num = opt.ib_port,
			    .grh = {.dgid = l->peer.gid,
				    .sgid_index = opt.gid_index,
				    .hop_limit = 64}},
	};
	struct ibv_qp_attr rts = {.sq_psn = l->own.psn,
				  .timeout = opt.timeout,
				  .retry_cnt = opt.retry,
				  .rnr_retry = opt.rnr_retry,
				  .max_rd_atomic = opt.rd_atomic};

	for (int tries = 1; rc_device_rtr(l->qp, &rtr); tries++) {
		if (tries >= max_tries)
			fail("modify_qp to RTR");
		usleep(RTR_PAUSE_US);
	}
	if (rc_device_rts(l->qp, &rts))
		fail("modify_qp to RTS");
}

static void own_path(struct lane *l)
{
	struct ibv_port_attr port;

	if (ibv_query_port(l->device->context, opt.ib_port, &port))
		fail("query_port");
	l->own.lid = port.lid;
	l->own.mtu = opt.mtu ? opt.mtu : port.active_mtu;
	if (ibv_query_gid(l->device->context, opt.ib_port, opt.gid_index, &l->own.gid))
		fail("query_gid");
}

/* Exchanges addresses, and returns when both sides can receive. */
void device_connect(struct run *r)
{
	char own = 0, peer;

	for (uint32_t i = 0; i < opt.w.qps; i++) {
		struct lane *l = &r->lanes[i];

		own_path(l);
		if (!net_swap(r, &l->own, &l->peer, sizeof(l->own)))
			fail("the peer left");
		if (opt.rdma_cm)
			cm->connect(l);
		else
			to_rts(l, 1);
		receives_post(r, l, true);
	}
	if (!net_swap(r, &own, &peer, 1))
		fail("the peer left");
}

/* All but what outlives a RESET: the memory, and what is counted of all lives. */
static void renew_lane(const struct run *r, struct lane *l)
{
	struct lane fresh = {.index = l->index,
			     .device = l->device,
			     .qp = l->qp,
			     .qp_ex = l->qp_ex,
			     .mr = l->mr,
			     .memory = l->memory,
			     .scratch = l->scratch,
			     .expected = l->expected,
			     .own = l->own,
			     .peer = l->peer,
			     .random = l->random,
			     .sends = l->sends,
			     .srq = l->srq,
			     .records = l->records,
			     .receive_pieces = l->receive_pieces,
			     .n = l->n};

	memcpy(fresh.gaps, l->gaps, sizeof(fresh.gaps));
	memcpy(fresh.by_second, l->by_second, sizeof(fresh.by_second));
	*l = fresh;
	fill_memory(r, l);
}

/* RESETs all QPs, and brings them to RTS as they were before, with the same PSNs. Nobody sends
 * before both sides have: a message of the new life must not reach a QP of the old one, which would
 * take it for one that it has had. */
void device_reuse(struct run *r)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	char own = 0, peer;

	pattern_life = r->life;
	srqs_reuse(r);
	for (uint32_t i = 0; i < opt.w.qps; i++) {
		if (ibv_modify_qp(r->lanes[i].qp, &reset, IBV_QP_STATE))
			fail("modify_qp to RESET");
		renew_lane(r, &r->lanes[i]);
		to_init(&r->lanes[i]);
	}
	for (uint32_t i = 0; i < opt.w.qps; i++) {
		to_rts(&r->lanes[i], RTR_TRIES);
		receives_post(r, &r->lanes[i], true);
	}
	if (!net_swap(r, &own, &peer, 1))
		fail("the peer left");
}

static void close_lane(struct lane *l)
{
	if (opt.rdma_cm)
		cm->close_lane(l);
	else
		ibv_destroy_qp(l->qp);
	ibv_dereg_mr(l->mr);
	free(l->memory);
	free(l->records);
	free(l->receive_pieces);
	free(l->scratch);
}

static void close_one(struct device *d)
{
	ibv_dealloc_pd(d->pd);
	if (opt.rdma_cm)
		cm->close();
	else
		ibv_close_device(d->context);
}

void device_close(struct run *r)
{
	for (uint32_t i = 0; i < opt.w.qps; i++)
		close_lane(&r->lanes[i]);
	if (opt.w.srqs)
		srqs_destroy(r);
	for (uint32_t t = 0; t < opt.threads; t++)
		poller_destroy(&r->pollers[t]);
	for (uint32_t d = 0; d < opt.device_count; d++)
		close_one(&r->devices[d]);
	close(r->tcp);
	free(r->pollers);
	free(r->lanes);
	free(r->peer_totals);
}
