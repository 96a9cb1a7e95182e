/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Background RDMA traffic: datagrams, as fast as the NIC sends them. The queue pair that they name
 * does not exist at the peer, so nothing has to run there; they keep the wire and the peer's NIC
 * busy all the same. Without a peer they go to this host itself, which keeps this NIC (and its PCI
 * link) busy.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "faultinject/device.h"

enum { DEPTH = 128, NOBODY = 0xfffffe, QKEY = 0x11111111, GIDS_MAX = 64, BURST = 16 };

struct flood {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	uint32_t bytes, qpn;
	uint64_t limit_bits;
	void *buffer;
};

static _Noreturn void give_flood_up(const struct injection *in, const char *what)
{
	fprintf(stderr, "shift-inject: %s: %s: %s\n", in->t.rdma, what, strerror(errno));
	_exit(1);
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (int i = 0; list && list[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

static bool is_ipv4(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw);
}

static bool is_link_local(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)gid->raw);
}

/* Our GID of the same kind as the peer's; without a peer, any. */
static int own_gid(const struct injection *in, struct ibv_context *ctx, const union ibv_gid *peer,
		   struct ibv_gid_entry *entry)
{
	for (uint32_t i = 0; i < GIDS_MAX; i++) {
		if (ibv_query_gid_ex(ctx, in->t.port, i, entry, 0) ||
		    entry->gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		if (!peer || (is_ipv4(&entry->gid) == is_ipv4(peer) &&
			      is_link_local(&entry->gid) == is_link_local(peer)))
			return 0;
	}
	errno = EADDRNOTAVAIL;
	return -1;
}

static union ibv_gid peer_gid(const struct injection *in)
{
	union ibv_gid gid = {0};

	if (in->o.peer_family == AF_INET) {
		gid.raw[10] = gid.raw[11] = 0xff;
		memcpy(gid.raw + 12, &in->o.peer, 4);
	} else {
		memcpy(gid.raw, &in->o.peer, 16);
	}
	return gid;
}

static void make_qp(const struct injection *in, struct flood *f)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD,
					.cap = {.max_send_wr = DEPTH,
						.max_recv_wr = 1,
						.max_send_sge = 1,
						.max_recv_sge = 1}};
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = (uint8_t)in->t.port, .qkey = QKEY};

	f->cq = ibv_create_cq(f->ctx, DEPTH, NULL, NULL, 0);
	f->mr = f->cq ? ibv_reg_mr(f->pd, f->buffer, f->bytes, 0) : NULL;
	init.send_cq = init.recv_cq = f->cq;
	f->qp = f->mr ? ibv_create_qp(f->pd, &init) : NULL;
	if (!f->qp)
		give_flood_up(in, "queue pair");
	if (ibv_modify_qp(f->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		give_flood_up(in, "INIT");
	a.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(f->qp, &a, IBV_QP_STATE))
		give_flood_up(in, "RTR");
	a.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(f->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN))
		give_flood_up(in, "RTS");
	f->qpn = in->o.peer_family ? NOBODY : f->qp->qp_num;
}

static void open_flood(const struct injection *in, struct flood *f)
{
	union ibv_gid peer = peer_gid(in);
	struct ibv_gid_entry gid;
	struct ibv_port_attr port;
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = (uint8_t)in->t.port};

	f->ctx = open_device(in->t.rdma);
	if (!f->ctx || ibv_query_port(f->ctx, (uint8_t)in->t.port, &port))
		give_flood_up(in, "cannot be opened");
	f->bytes = 128u << port.active_mtu;
	f->buffer = calloc(1, f->bytes);
	if (!f->buffer)
		give_flood_up(in, "memory");
	if (own_gid(in, f->ctx, in->o.peer_family ? &peer : NULL, &gid))
		give_flood_up(in, "no RoCE v2 GID of the peer's address family");
	f->pd = ibv_alloc_pd(f->ctx); /* outlives a QP that fails, as the address handle does */
	if (!f->pd)
		give_flood_up(in, "protection domain");
	make_qp(in, f);
	ah.grh.dgid = in->o.peer_family ? peer : gid.gid;
	ah.grh.sgid_index = (uint8_t)gid.gid_index;
	ah.grh.hop_limit = 64;
	f->ah = ibv_create_ah(f->pd, &ah);
	if (!f->ah)
		give_flood_up(in, "no route to the peer");
}

static bool post_flood(struct flood *f)
{
	struct ibv_sge sge = {(uintptr_t)f->buffer, f->bytes, f->mr->lkey};
	struct ibv_send_wr *bad,
		wr = {.sg_list = &sge,
		      .num_sge = 1,
		      .opcode = IBV_WR_SEND,
		      .send_flags = IBV_SEND_SIGNALED,
		      .wr.ud = {.ah = f->ah, .remote_qpn = f->qpn, .remote_qkey = QKEY}};

	return !ibv_post_send(f->qp, &wr, &bad);
}

/* To the next moment that the limit allows BURST more. */
static void keep_to_limit(const struct flood *f, struct timespec *next)
{
	uint64_t ns = f->limit_bits ? 8ull * f->bytes * BURST * 1000000000 / f->limit_bits : 0;

	next->tv_nsec += (long)(ns % 1000000000);
	next->tv_sec += (time_t)(ns / 1000000000 + (uint64_t)next->tv_nsec / 1000000000);
	next->tv_nsec %= 1000000000;
	if (ns)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL);
}

/* The traffic goes on after a link was down: a QP that failed meanwhile is made anew. */
static _Noreturn void run_flood(void *arg)
{
	struct injection *in = arg;
	struct flood f = {.limit_bits = in->o.limit_bits};
	struct timespec next;
	struct ibv_wc wc[BURST];
	int free_slots = DEPTH;

	open_flood(in, &f);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (;;) {
		int n, failed = 0;

		for (n = 0; n < BURST && free_slots && post_flood(&f); n++)
			free_slots--;
		n = ibv_poll_cq(f.cq, BURST, wc);
		for (int i = 0; i < n; i++)
			failed |= wc[i].status != IBV_WC_SUCCESS;
		free_slots += n > 0 ? n : 0;
		if (failed) {
			ibv_destroy_qp(f.qp);
			ibv_dereg_mr(f.mr);
			ibv_destroy_cq(f.cq);
			usleep(100000);
			make_qp(in, &f);
			free_slots = DEPTH;
		}
		keep_to_limit(&f, &next);
	}
}

int congest_check(struct injection *in, struct problem *p)
{
	char limit[48] = "as fast as they go";

	if (!*in->t.rdma)
		return problem_set(p, INJECT_REFUSED, "%s has no RDMA device", in->t.netdev);
	if (in->o.limit_bits)
		snprintf(limit, sizeof(limit), "%g Mbit/s", (double)in->o.limit_bits / 1e6);
	snprintf(in->detail, sizeof(in->detail), "RDMA datagrams to %s, %s",
		 in->o.peer_family ? in->o.peer_text : "itself", limit);
	return 0;
}

int congest_begin(struct injection *in, struct problem *p)
{
	if (dry_run(in, "send %s", in->detail))
		return 0;
	return child_start(in, run_flood, in, p);
}
