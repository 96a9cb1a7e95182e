/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Measuring rq_psn: a pair of QPs, and some rounds of WRITEs and fences, all on the resolver. */
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
#include "lib/nic/rc_qp.h"

enum {
	LOOKS_MAX = 51,
	LOOK_NS = 1000000,
	TIMEOUT = 14, /* 4.096 us * 2^14 = 67 ms */
	RETRIES = 6,  /* with 7 soft-RoCE retries for ever */
	RNR_RETRIES = 7,
};

#define WAIT_MAX_NS 2000000000ull /* for a round: longer than the NIC's own retries */

/*
 * Where a round is cut. On most NICs some of the racing WRITEs are under way when B is moved to
 * ERR. A NIC may also execute a WRITE before the post returns (soft-RoCE 6.1 does, to itself).
 * There the WRITEs that are posted after ERR make the cut.
 */
static const struct plan {
	unsigned int idle;   /* so many WRITEs are posted first, and waited for */
	unsigned int racing; /* up to here they are posted before ERR, the rest after it */
	bool wrap;	     /* the PSN wraps round in the middle */
} plans[] = {
	{.idle = 16, .racing = 16},
	{.idle = 21, .racing = RQ_PSN_WRITES - 4, .wrap = true},
	{.idle = 1, .racing = RQ_PSN_WRITES},
	{.idle = 32, .racing = 34},
};

struct rq_psn_measurement {
	struct nic *nic;
	void (*done)(struct nic *nic, enum stats_psn answer, const char *why);
	struct job job;
	struct bg_call call;
	unsigned int round;
	enum stats_psn answer;
	const char *why;

	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint64_t *source;	 /* what A sends; behind it lies the sink */
	volatile uint64_t *sink; /* what the NIC writes to */
	size_t bytes;
	struct ibv_qp *a, *b; /* requester and responder */
	int gid_index;
	union ibv_gid gid;
};

/* ---- rq_psn --------------------------------------------------------------------------------- */

static void sleep_us(long us)
{
	struct timespec t = {.tv_nsec = us * 1000};

	nanosleep(&t, NULL);
}

/* The kernel says the state, too. Asked for, libibverbs would store it in the program's object. */
bool rq_psn_query(struct ibv_qp *qp, uint32_t *psn, bool *in_err)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_UNKNOWN};

	if (real.query_qp(qp, &attr, IBV_QP_RQ_PSN, &init))
		return false;
	*psn = attr.rq_psn;
	if (in_err)
		*in_err = attr.qp_state == IBV_QPS_ERR;
	return true;
}

/* Until a look is due: at most a millisecond, whatever the clock does. */
static void wait_for_look(const struct rq_psn_looks *all)
{
	uint64_t since = now_ns() - all->last_ns;

	if (all->looks && since < LOOK_NS)
		sleep_us((long)(LOOK_NS - since + 999) / 1000);
}

enum rq_psn_rest rq_psn_look(const struct nic *nic, struct ibv_qp *qp, struct rq_psn_looks *all)
{
	uint32_t before = all->psn;
	bool again = all->looks;

	wait_for_look(all);
	if (!rq_psn_query(qp, &all->psn, NULL))
		return RQ_PSN_UNKNOWN;
	all->last_ns = now_ns();
	all->looks++;
	if (nic->is_rxe || (again && all->psn == before))
		return RQ_PSN_AT_REST;
	return all->looks < LOOKS_MAX ? RQ_PSN_MOVING : RQ_PSN_UNKNOWN;
}

bool rq_psn_at_rest(const struct nic *nic, struct ibv_qp *qp, uint32_t *psn)
{
	struct rq_psn_looks all = {0};
	enum rq_psn_rest rest;

	do {
		rest = rq_psn_look(nic, qp, &all);
	} while (rest == RQ_PSN_MOVING);
	*psn = all.psn;
	return rest == RQ_PSN_AT_REST;
}

/* ---- the pair of QPs ------------------------------------------------------------------------ */

static bool pair_make_memory(struct rq_psn_measurement *m)
{
	size_t sink = RQ_PSN_PARTS * m->nic->mtu_bytes;
	size_t source = sink + RQ_PSN_WRITES * sizeof(*m->source);

	m->bytes = source + sink;
	m->source = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	if (m->source == MAP_FAILED) {
		m->source = NULL;
		return false;
	}
	/* A fork of the program must not move the pages from under the NIC. */
	madvise(m->source, m->bytes, MADV_DONTFORK);
	for (size_t i = 0; i < source / sizeof(*m->source); i++)
		m->source[i] = i + 1; /* rq_psn_stamp() */
	m->sink = m->source + source / sizeof(*m->source);
	m->mr = real.reg_mr(m->nic->pd, m->source, m->bytes,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return m->mr;
}

static struct ibv_qp *pair_make_qp(struct rq_psn_measurement *m)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.send_cq = m->cq,
					.recv_cq = m->cq,
					.sq_sig_all = 1,
					.cap = {.max_send_wr = RQ_PSN_WRITES,
						.max_recv_wr = 1,
						.max_send_sge = 1,
						.max_recv_sge = 1}};

	return real.create_qp(m->nic->pd, &attr);
}

static bool pair_create(struct rq_psn_measurement *m)
{
	m->gid_index = nic_gid_own(m->nic, &m->gid);
	if (!pair_make_memory(m))
		return false;
	m->cq = real.create_cq(m->nic->ctx, 2 * RQ_PSN_WRITES, NULL, NULL, 0);
	if (m->cq)
		m->a = pair_make_qp(m);
	if (m->a)
		m->b = pair_make_qp(m);
	return m->b;
}

static void pair_destroy(struct rq_psn_measurement *m)
{
	if (m->b)
		real.destroy_qp(m->b);
	if (m->a)
		real.destroy_qp(m->a);
	if (m->cq)
		real.destroy_cq(m->cq);
	if (m->mr)
		real.dereg_mr(m->mr);
	if (m->source)
		munmap(m->source, m->bytes);
}

static bool to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return !real.modify_qp(qp, &attr, IBV_QP_STATE);
}

/* Brings a QP to RTS, like a connection's, with PSNs from `first` in both directions. */
static bool pair_arm(const struct rq_psn_measurement *m, struct ibv_qp *qp,
		     const struct ibv_qp *peer, uint32_t first)
{
	const struct nic *nic = m->nic;
	struct ibv_qp_attr attr = {.port_num = nic->port,
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
		if (m->gid_index < 0)
			return false;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = m->gid;
		attr.ah_attr.grh.sgid_index = (uint8_t)m->gid_index;
		attr.ah_attr.grh.hop_limit = 64;
	}
	return to_state(qp, IBV_QPS_RESET) && rc_qp_to_rts(qp, &attr);
}

/* ---- a round -------------------------------------------------------------------------------- */

static bool round_post(const struct rq_psn_measurement *m, unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i < to; i++) {
		struct ibv_sge sge = {.addr = (uintptr_t)(m->source + i),
				      .length = rq_psn_bytes(i, m->nic->mtu_bytes),
				      .lkey = m->mr->lkey};
		struct ibv_send_wr wr = {
			.wr_id = i,
			.sg_list = &sge,
			.num_sge = sge.length > 0,
			.opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = {.remote_addr = (uintptr_t)m->sink, .rkey = m->mr->rkey}};
		struct ibv_send_wr *bad;

		if (ibv_post_send(m->a, &wr, &bad))
			return false;
	}
	return true;
}

/* Waits for n completions. Adds those with success to *acked. */
static bool wait_completions(const struct rq_psn_measurement *m, unsigned int n,
			     unsigned int *acked)
{
	struct poll_deadline deadline = {.left_ns = WAIT_MAX_NS};
	struct ibv_wc wc;

	while (n) {
		int polled = ibv_poll_cq(m->cq, 1, &wc);

		if (polled < 0 || (!polled && !poll_deadline_left(&deadline)))
			return false;
		if (!polled) {
			sleep_us(50);
			continue;
		}
		*acked += wc.status == IBV_WC_SUCCESS;
		n--;
	}
	return true;
}

/* The same fence as a connection's (lib/conn/fence_qp.c). */
static bool pair_fence(const struct rq_psn_measurement *m, uint32_t *psn)
{
	if (m->nic->is_rxe && !to_state(m->b, IBV_QPS_RESET))
		return false;
	return rq_psn_at_rest(m->nic, m->b, psn);
}

/* Collects the facts of a round. Returns NULL, or the step that failed. */
static const char *round_execute(struct rq_psn_measurement *m, const struct plan *plan,
				 struct rq_psn_facts *f)
{
	*f = (struct rq_psn_facts){.mtu = m->nic->mtu_bytes,
				   .first = plan->wrap ? SHIFT_PSN_MASK - RQ_PSN_WRITES
						       : (uint32_t)now_ns() & SHIFT_PSN_MASK,
				   .idle_writes = plan->idle,
				   .posted = RQ_PSN_WRITES};
	for (unsigned int i = 0; i < RQ_PSN_PARTS; i++)
		m->sink[i * f->mtu / sizeof(*m->sink)] = 0;
	if (!pair_arm(m, m->b, m->a, f->first) || !pair_arm(m, m->a, m->b, f->first))
		return "the QPs cannot be connected";
	if (!rq_psn_query(m->b, &f->armed, NULL))
		return "no answer to a query";
	if (!round_post(m, 0, plan->idle) || !wait_completions(m, plan->idle, &f->acked) ||
	    f->acked != plan->idle)
		return "what is sent to itself does not arrive";
	if (!rq_psn_at_rest(m->nic, m->b, &f->idle))
		return "no answer to a query";
	if (!round_post(m, plan->idle, plan->racing) || !to_state(m->b, IBV_QPS_ERR) ||
	    !round_post(m, plan->racing, RQ_PSN_WRITES))
		return "a request or ERR is refused";
	if (!pair_fence(m, &f->stopped))
		return "the fence is not complete";
	if (!to_state(m->a, IBV_QPS_ERR) ||
	    !wait_completions(m, RQ_PSN_WRITES - plan->idle, &f->acked))
		return "requests do not flush";
	sleep_us(1000);
	if (!rq_psn_query(m->b, &f->later, NULL))
		return "no answer to a query";
	for (unsigned int i = 0; i < RQ_PSN_PARTS; i++)
		f->seen[i] = m->sink[i * f->mtu / sizeof(*m->sink)];
	return NULL;
}

/* ---- all rounds ----------------------------------------------------------------------------- */

/* One round. true: there is an answer. */
static bool round_step(struct rq_psn_measurement *m)
{
	struct rq_psn_facts facts;

	m->answer = STATS_PSN_UNMEASURED;
	m->why = m->b || pair_create(m) ? round_execute(m, &plans[m->round], &facts)
					: "QPs cannot be made";
	if (m->why)
		return true;
	m->why = rq_psn_contradiction(&facts);
	m->answer = m->why ? STATS_PSN_STALE : STATS_PSN_LIVE;
	return m->why || ++m->round == sizeof(plans) / sizeof(*plans);
}

static void measurement_run(struct job *job)
{
	struct rq_psn_measurement *m =
		(struct rq_psn_measurement *)((char *)job -
					      offsetof(struct rq_psn_measurement, job));

	/* The next round queues behind the other jobs of the resolver, so that no switch waits for
	 * the measurement. */
	if (!round_step(m)) {
		worker_submit(m->nic->resolver, &m->job);
		return;
	}
	pair_destroy(m);
	bg_call(&m->call);
}

static void measurement_done(void *arg)
{
	struct rq_psn_measurement *m = arg;

	m->done(m->nic, m->answer, m->why);
	free(m);
}

int rq_psn_measure(struct nic *nic,
		   void (*done)(struct nic *nic, enum stats_psn answer, const char *why))
{
	struct rq_psn_measurement *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->nic = nic;
	m->done = done;
	m->job.fn = measurement_run;
	m->call = (struct bg_call){.fn = measurement_done, .arg = m};
	worker_submit(nic->resolver, &m->job);
	return 0;
}
