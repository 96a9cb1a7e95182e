/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The verbs of live.h: a pair of QPs, some rounds of WRITEs and fences, all on the resolver. */
#include "lib/nic/rq_psn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "lib/base/background.h"
#include "lib/base/poll_deadline.h"
#include "lib/base/real_verbs.h"
#include "lib/base/worker.h"
#include "lib/core/psn.h"
#include "lib/nic/nic_int.h"

enum {
	REST_TRIES = 50,
	TIMEOUT = 14, /* 4.096 us * 2^14 = 67 ms */
	RETRIES = 6,  /* soft-RoCE takes 7 for "for ever" */
	RNR_RETRIES = 7,
};

#define WAIT_MAX_NS 2000000000ull /* for the WRITEs of a round: beyond the NIC's own retries */

/*
 * Where a round is cut. A NIC that executes what it is given before the post returns (soft-RoCE 6.1
 * does, to itself) is cut all the same by what is posted when B is in ERR already; in others some
 * of the WRITEs in between are under way.
 */
static const struct plan {
	unsigned int idle; /* WRITEs that are waited for */
	unsigned int
		racing; /* ... that have been posted when B is moved to ERR; the rest is then */
	bool wrap;	/* PSNs begin again in the middle */
} plans[] = {
	{.idle = 16, .racing = 16},
	{.idle = 21, .racing = RQ_PSN_WRITES - 4, .wrap = true},
	{.idle = 1, .racing = RQ_PSN_WRITES},
	{.idle = 32, .racing = 34},
};

struct rq_psn_measuring {
	struct nic *nic;
	void (*done)(struct nic *nic, enum stats_psn answer, const char *why);
	struct job job;
	struct bg_call call;
	unsigned int round;
	enum stats_psn answer;
	const char *why;

	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint64_t *source;	 /* with the memory that is written to behind it */
	volatile uint64_t *sink; /* by the NIC */
	size_t bytes;
	struct ibv_qp *a, *b; /* requester and responder */
	int gid_index;
	union ibv_gid gid;
};

/* ---- rq_psn --------------------------------------------------------------------------------- */

static void nap_us(long us)
{
	struct timespec t = {.tv_nsec = us * 1000};

	nanosleep(&t, NULL);
}

bool rq_psn_query(struct ibv_qp *qp, uint32_t *psn)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (real.query_qp(qp, &attr, IBV_QP_RQ_PSN | IBV_QP_STATE, &init))
		return false;
	*psn = attr.rq_psn;
	return true;
}

bool rq_psn_at_rest(const struct nic *nic, struct ibv_qp *qp, uint32_t *psn)
{
	uint32_t before;

	if (nic->is_rxe)
		return rq_psn_query(qp, psn);
	for (int tries = 0; tries < REST_TRIES; tries++) {
		if (!rq_psn_query(qp, &before))
			return false;
		nap_us(1000);
		if (!rq_psn_query(qp, psn))
			return false;
		if (*psn == before)
			return true;
	}
	return false;
}

/* ---- what it is measured with --------------------------------------------------------------- */

static bool pair_make_memory(struct rq_psn_measuring *l)
{
	size_t sink = RQ_PSN_PARTS * l->nic->mtu_bytes;
	size_t source = sink + RQ_PSN_WRITES * sizeof(*l->source);

	l->bytes = source + sink;
	l->source = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	if (l->source == MAP_FAILED) {
		l->source = NULL;
		return false;
	}
	/* A fork of the program must not move the pages from under the NIC. */
	madvise(l->source, l->bytes, MADV_DONTFORK);
	for (size_t i = 0; i < source / sizeof(*l->source); i++)
		l->source[i] = i + 1; /* rq_psn_stamp() */
	l->sink = l->source + source / sizeof(*l->source);
	l->mr = real.reg_mr(l->nic->pd, l->source, l->bytes,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return l->mr;
}

static struct ibv_qp *pair_make_qp(struct rq_psn_measuring *l)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.send_cq = l->cq,
					.recv_cq = l->cq,
					.sq_sig_all = 1,
					.cap = {.max_send_wr = RQ_PSN_WRITES,
						.max_recv_wr = 1,
						.max_send_sge = 1,
						.max_recv_sge = 1}};

	return real.create_qp(l->nic->pd, &attr);
}

static bool pair_make(struct rq_psn_measuring *l)
{
	l->gid_index = nic_gid_own(l->nic, &l->gid);
	if (!pair_make_memory(l))
		return false;
	l->cq = real.create_cq(l->nic->ctx, 2 * RQ_PSN_WRITES, NULL, NULL, 0);
	if (l->cq)
		l->a = pair_make_qp(l);
	if (l->a)
		l->b = pair_make_qp(l);
	return l->b;
}

static void pair_unmake(struct rq_psn_measuring *l)
{
	if (l->b)
		real.destroy_qp(l->b);
	if (l->a)
		real.destroy_qp(l->a);
	if (l->cq)
		real.destroy_cq(l->cq);
	if (l->mr)
		real.dereg_mr(l->mr);
	if (l->source)
		munmap(l->source, l->bytes);
}

static bool to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return !real.modify_qp(qp, &attr, IBV_QP_STATE);
}

/* To RTS, like a QP of a connection, with PSNs from `first` in both directions. */
static bool pair_arm(const struct rq_psn_measuring *l, struct ibv_qp *qp, const struct ibv_qp *peer,
		     uint32_t first)
{
	const struct nic *nic = l->nic;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = nic->port,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
				   .path_mtu = nic->port_attr.active_mtu,
				   .dest_qp_num = peer->qp_num,
				   .rq_psn = first,
				   .sq_psn = first,
				   .max_rd_atomic = 1,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 12,
				   .timeout = TIMEOUT,
				   .retry_cnt = RETRIES,
				   .rnr_retry = RNR_RETRIES,
				   .ah_attr = {.dlid = nic->port_attr.lid, .port_num = nic->port}};

	if (nic->port_attr.link_layer != IBV_LINK_LAYER_INFINIBAND || !nic->port_attr.lid) {
		if (l->gid_index < 0)
			return false;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = l->gid;
		attr.ah_attr.grh.sgid_index = (uint8_t)l->gid_index;
		attr.ah_attr.grh.hop_limit = 64;
	}
	if (!to_state(qp, IBV_QPS_RESET) ||
	    real.modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return false;
	attr.qp_state = IBV_QPS_RTR;
	if (real.modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER))
		return false;
	attr.qp_state = IBV_QPS_RTS;
	return !real.modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* ---- a round -------------------------------------------------------------------------------- */

static bool round_post(const struct rq_psn_measuring *l, unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i < to; i++) {
		struct ibv_sge sge = {.addr = (uintptr_t)(l->source + i),
				      .length = rq_psn_bytes(i, l->nic->mtu_bytes),
				      .lkey = l->mr->lkey};
		struct ibv_send_wr wr = {
			.wr_id = i,
			.sg_list = &sge,
			.num_sge = sge.length > 0,
			.opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = {.remote_addr = (uintptr_t)l->sink, .rkey = l->mr->rkey}};
		struct ibv_send_wr *bad;

		if (ibv_post_send(l->a, &wr, &bad))
			return false;
	}
	return true;
}

/* Wait for n completions; those with success are added to *acked. */
static bool wait_for(const struct rq_psn_measuring *l, unsigned int n, unsigned int *acked)
{
	struct poll_deadline deadline = {.left_ns = WAIT_MAX_NS};
	struct ibv_wc wc;

	while (n) {
		int polled = ibv_poll_cq(l->cq, 1, &wc);

		if (polled < 0 || (!polled && !poll_deadline_left(&deadline)))
			return false;
		if (!polled) {
			nap_us(50);
			continue;
		}
		*acked += wc.status == IBV_WC_SUCCESS;
		n--;
	}
	return true;
}

/* As a connection's (lib/conn/fence_qp.c). */
static bool pair_fence(const struct rq_psn_measuring *l, uint32_t *psn)
{
	if (l->nic->is_rxe && !to_state(l->b, IBV_QPS_RESET))
		return false;
	return rq_psn_at_rest(l->nic, l->b, psn);
}

/* The facts of a round; or what it failed in. */
static const char *round_play(struct rq_psn_measuring *l, const struct plan *plan,
			      struct rq_psn_facts *f)
{
	*f = (struct rq_psn_facts){.mtu = l->nic->mtu_bytes,
				   .first = plan->wrap ? SHIFT_PSN_MASK - RQ_PSN_WRITES
						       : (uint32_t)now_ns() & SHIFT_PSN_MASK,
				   .idle_writes = plan->idle,
				   .posted = RQ_PSN_WRITES};
	for (unsigned int i = 0; i < RQ_PSN_PARTS; i++)
		l->sink[i * f->mtu / sizeof(*l->sink)] = 0;
	if (!pair_arm(l, l->b, l->a, f->first) || !pair_arm(l, l->a, l->b, f->first))
		return "the QPs cannot be connected";
	if (!rq_psn_query(l->b, &f->armed))
		return "no answer to a query";
	if (!round_post(l, 0, plan->idle) || !wait_for(l, plan->idle, &f->acked) ||
	    f->acked != plan->idle)
		return "what is sent to itself does not arrive";
	if (!rq_psn_at_rest(l->nic, l->b, &f->idle))
		return "no answer to a query";
	if (!round_post(l, plan->idle, plan->racing) || !to_state(l->b, IBV_QPS_ERR) ||
	    !round_post(l, plan->racing, RQ_PSN_WRITES))
		return "a request or ERR is refused";
	if (!pair_fence(l, &f->stopped))
		return "the fence is not complete";
	if (!to_state(l->a, IBV_QPS_ERR) || !wait_for(l, RQ_PSN_WRITES - plan->idle, &f->acked))
		return "requests do not flush";
	nap_us(1000);
	if (!rq_psn_query(l->b, &f->later))
		return "no answer to a query";
	for (unsigned int i = 0; i < RQ_PSN_PARTS; i++)
		f->seen[i] = l->sink[i * f->mtu / sizeof(*l->sink)];
	return NULL;
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* true: there is an answer. */
static bool round_run(struct rq_psn_measuring *l)
{
	struct rq_psn_facts facts;

	l->answer = STATS_PSN_UNMEASURED;
	l->why = l->b || pair_make(l) ? round_play(l, &plans[l->round], &facts)
				      : "QPs cannot be made";
	if (l->why)
		return true;
	l->why = rq_psn_contradiction(&facts);
	l->answer = l->why ? STATS_PSN_STALE : STATS_PSN_LIVE;
	return l->why || ++l->round == sizeof(plans) / sizeof(*plans);
}

static void measuring_run(struct job *job)
{
	struct rq_psn_measuring *l =
		(struct rq_psn_measuring *)((char *)job - offsetof(struct rq_psn_measuring, job));

	/* Behind what others have to do on the resolver: a switch shall not wait for this. */
	if (!round_run(l)) {
		worker_submit(l->nic->resolver, &l->job);
		return;
	}
	pair_unmake(l);
	bg_call(&l->call);
}

static void measuring_over(void *arg)
{
	struct rq_psn_measuring *l = arg;

	l->done(l->nic, l->answer, l->why);
	free(l);
}

int rq_psn_measure(struct nic *nic,
		   void (*done)(struct nic *nic, enum stats_psn answer, const char *why))
{
	struct rq_psn_measuring *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->nic = nic;
	l->done = done;
	l->job.fn = measuring_run;
	l->call = (struct bg_call){.fn = measuring_over, .arg = l};
	worker_submit(nic->resolver, &l->job);
	return 0;
}
