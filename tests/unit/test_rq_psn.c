// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Measuring whether rq_psn is live (lib/nic/rq_psn.c), on a NIC of the test's own. It executes a
 * packet or more whenever a verb is called, so the WRITEs are cut wherever that happens to be. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/nic/rq_psn.h"
#include "lib/base/background.h"
#include "lib/nic/nic_int.h"
#include "lib/base/real_verbs.h"

#undef ibv_reg_mr

enum { MTU = 256 };

struct real_verbs real;

static struct ibv_context ctx;
static struct ibv_cq cq = {.context = &ctx};
static struct ibv_mr mr;
static struct nic nic;
static struct job *submitted;
static uint64_t clock_ns;

static struct {
	unsigned int speed; /* packets per call */
	unsigned int leak;  /* executed in ERR */
	bool copy;	    /* rq_psn stays as it was set */
	bool forgets;	    /* ... in ERR */
	bool goes_on;	    /* executes behind the fence */
	bool mute;	    /* packets are lost */
	int fail_at;	    /* the nth verb that makes or modifies */
} how;

static struct qp {
	struct ibv_qp base; /* first */
	uint32_t set, rq_psn;
	unsigned int leaks;
} qps[2];

#define A (&qps[0])
#define B (&qps[1])

static struct ibv_send_wr wrs[RQ_PSN_WRITES];
static struct ibv_sge sges[RQ_PSN_WRITES];
static unsigned int posted, at, part, polled, verbs;
static int objects;

static unsigned int rounds;
static enum stats_psn answer;
static const char *answer_why;

/* --- the rest of the library ----------------------------------------------------------------- */

uint64_t now_ns(void)
{
	return clock_ns += 1000000;
}

void worker_submit(struct worker *w, struct job *job)
{
	(void)w;
	submitted = job;
	rounds++;
}

void bg_call(struct bg_call *call)
{
	call->fn(call->arg);
}

int nic_gid_own(const struct nic *n, union ibv_gid *gid)
{
	(void)n;
	memset(gid, 1, sizeof(*gid));
	return 1;
}

/* --- the NIC --------------------------------------------------------------------------------- */

static bool accepts(struct qp *qp)
{
	if (qp->base.state == IBV_QPS_RTS)
		return true;
	return qp->base.state == IBV_QPS_ERR && (how.goes_on || qp->leaks++ < how.leak);
}

static void execute_packet(void)
{
	uint32_t length = wrs[at].num_sge ? sges[at].length : 0, offset = part * MTU;
	uint32_t left = length - offset;

	if (length)
		memcpy((char *)(uintptr_t)wrs[at].wr.rdma.remote_addr + offset,
		       (char *)(uintptr_t)sges[at].addr + offset, left < MTU ? left : MTU);
	B->rq_psn = (B->rq_psn + 1) & 0xffffff;
	part++;
	if (offset + MTU >= length) {
		at++;
		part = 0;
	}
}

static void go_on(void)
{
	for (unsigned int i = 0; i < how.speed && at < posted && !how.mute; i++)
		if (A->base.state == IBV_QPS_RTS && accepts(B))
			execute_packet();
}

static bool fails(void)
{
	errno = ENOMEM;
	return how.fail_at && ++verbs == (unsigned int)how.fail_at;
}

static int modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
	struct qp *qp = (struct qp *)base;

	if (fails())
		return EINVAL;
	go_on();
	base->state = attr->qp_state;
	if (mask & IBV_QP_RQ_PSN)
		qp->set = qp->rq_psn = attr->rq_psn;
	if (base->state == IBV_QPS_RESET && qp == A)
		posted = at = part = polled = 0;
	if (base->state == IBV_QPS_RTS)
		qp->leaks = 0;
	return 0;
}

static int query_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask,
		    struct ibv_qp_init_attr *init)
{
	struct qp *qp = (struct qp *)base;

	(void)init;
	/* Else libibverbs stores it in the program's object. */
	assert_int_equal(mask & IBV_QP_STATE, 0);
	if (!how.goes_on) /* that one looks as if it stood still */
		go_on();
	attr->rq_psn = qp->rq_psn;
	if (how.copy || (how.forgets && base->state != IBV_QPS_RTS))
		attr->rq_psn = qp->set;
	return 0;
}

static int post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)base;
	(void)bad;
	assert_true(posted < RQ_PSN_WRITES);
	wrs[posted] = *wr;
	sges[posted++] = *wr->sg_list;
	go_on();
	return 0;
}

static int poll_cq(struct ibv_cq *from, int room, struct ibv_wc *wc)
{
	bool flushes = A->base.state == IBV_QPS_ERR;

	(void)from;
	(void)room;
	go_on();
	if (polled == (flushes ? posted : at))
		return 0;
	wc->status = polled < at ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR;
	polled++;
	return 1;
}

static struct ibv_cq *create_cq(struct ibv_context *c, int n, void *arg,
				struct ibv_comp_channel *ch, int vector)
{
	(void)c;
	(void)arg;
	(void)ch;
	(void)vector;
	assert_true(n >= RQ_PSN_WRITES);
	return fails() ? NULL : (objects++, &cq);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct qp *qp = A->base.context ? B : A;

	(void)pd;
	(void)attr;
	if (fails())
		return NULL;
	qp->base = (struct ibv_qp){.context = &ctx, .qp_num = 17 + (uint32_t)(qp - qps)};
	objects++;
	return &qp->base;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	(void)pd;
	(void)addr;
	(void)access;
	assert_true(length < 16 * MTU);
	return fails() ? NULL : (objects++, &mr);
}

static int destroy_qp(struct ibv_qp *qp)
{
	qp->context = NULL;
	objects--;
	return 0;
}

static int destroy_cq(struct ibv_cq *c)
{
	(void)c;
	objects--;
	return 0;
}

static int dereg_mr(struct ibv_mr *m)
{
	(void)m;
	objects--;
	return 0;
}

/* --- tests ----------------------------------------------------------------------------------- */

static int setup(void **state)
{
	(void)state;
	memset(&how, 0, sizeof(how));
	memset(qps, 0, sizeof(qps));
	how.speed = 1;
	nic = (struct nic){.name = "mlx5_0", .port = 1, .mtu_bytes = MTU};
	ctx.ops.post_send = post_send;
	ctx.ops.poll_cq = poll_cq;
	real = (struct real_verbs){.reg_mr = reg_mr,
				   .dereg_mr = dereg_mr,
				   .create_cq = create_cq,
				   .destroy_cq = destroy_cq,
				   .create_qp = create_qp,
				   .destroy_qp = destroy_qp,
				   .modify_qp = modify_qp,
				   .query_qp = query_qp};
	return 0;
}

static void done(struct nic *n, enum stats_psn a, const char *why)
{
	assert_ptr_equal(n, &nic);
	answer = a;
	answer_why = why;
}

static enum stats_psn measure(void)
{
	answer = (enum stats_psn)99;
	verbs = rounds = 0;
	assert_int_equal(rq_psn_measure(&nic, done), 0);
	while (submitted) {
		struct job *job = submitted;

		submitted = NULL;
		job->fn(job);
	}
	assert_int_equal(objects, 0);
	assert_int_equal(!answer_why, answer == STATS_PSN_LIVE);
	return answer;
}

static void live(void **state)
{
	(void)state;
	for (how.speed = 1; how.speed < 200; how.speed = how.speed * 3 / 2 + 1)
		for (how.leak = 0; how.leak < 4; how.leak++)
			for (int is_rxe = 0; is_rxe < 2; is_rxe++) {
				nic.is_rxe = is_rxe;
				if (measure() != STATS_PSN_LIVE)
					fail_msg("speed %u, %u leak, rxe %d: %s", how.speed,
						 how.leak, is_rxe, answer_why);
				assert_int_equal(rounds, 4); /* each gives the resolver back */
			}
}

static void a_copy(void **state)
{
	(void)state;
	how.copy = true;
	assert_int_equal(measure(), STATS_PSN_STALE);
}

static void lost_in_err(void **state)
{
	(void)state;
	for (how.speed = 1; how.speed < 20; how.speed++) {
		how.forgets = true;
		assert_int_equal(measure(), STATS_PSN_STALE);
	}
}

static void a_fence_that_is_none(void **state)
{
	(void)state;
	how.goes_on = true;
	assert_int_equal(measure(), STATS_PSN_STALE);
	assert_non_null(strstr(answer_why, "behind the fence"));
}

static void packets_that_get_lost(void **state)
{
	(void)state;
	how.mute = true;
	assert_int_equal(measure(), STATS_PSN_UNMEASURED);
	assert_int_equal(rounds, 1);
}

static void whatever_fails(void **state)
{
	(void)state;
	for (how.fail_at = 1; how.fail_at < 100; how.fail_at++)
		if (measure() == STATS_PSN_LIVE)
			break;
	assert_in_range(how.fail_at, 4 + 4 * 10, 4 + 4 * 11); /* all that there are */
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(live),
		T(a_copy),
		T(lost_in_err),
		T(a_fence_that_is_none),
		T(packets_that_get_lost),
		T(whatever_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
