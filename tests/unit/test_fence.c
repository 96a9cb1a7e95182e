// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Fences of two rails of one connection that end on two workers at once (lib/conn/fence_qp.c). The
 * NICs, the lock and lib/core are the test's. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/background.h"
#include "lib/base/log.h"
#include "lib/base/worker.h"
#include "lib/conn/actions.h"
#include "lib/conn/arm.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/drain.h"
#include "lib/conn/srq_qps.h"
#include "lib/conn/fence_qp.h"
#include "lib/conn/rail_jobs.h"
#include "lib/conn/repost.h"
#include "lib/nic/rq_psn.h"

enum { RAILS = 2, ROUNDS = 200 };

static struct nic nic[RAILS];
static struct vdev dev;
static struct vcq cq;
static struct vqp v;
static struct ibv_qp qp[RAILS];
static struct job *job[RAILS];
static pthread_barrier_t both; /* have done all that comes before the lock */
static bool responder_stops;
static uint32_t unclean_when_left; /* by the last owner of the lock */
static unsigned int without_lock;  /* changes of unclean */
static void (*meanwhile)(void);	   /* while a fence waits for its NIC; NULL: for the other rail's */
static uint32_t withdrawn_epoch;
static unsigned int told; /* events for the core */

/* --- the rest of the library ----------------------------------------------------------------- */

uint64_t now_ns(void)
{
	static _Atomic uint64_t now;

	return now += 1000000;
}

uint64_t bg_awake_ns(void)
{
	return now_ns();
}

void bg_call(struct bg_call *call)
{
	(void)call;
}

void log_at(enum log_level level, const char *format, ...)
{
	(void)level;
	(void)format;
}

void worker_submit(struct worker *w, struct job *j)
{
	job[(struct nic *)(void *)w - nic] = j;
}

void vqp_enter(struct vqp *q)
{
	pthread_mutex_lock(&q->lock);
	without_lock += q->rails.unclean != unclean_when_left;
}

void vqp_leave(struct vqp *q)
{
	unclean_when_left = q->rails.unclean;
	pthread_mutex_unlock(&q->lock);
}

void vqp_act(struct vqp *q)
{
	(void)q;
}

int vqp_to_state(struct vqp *q, uint8_t rail, enum ibv_qp_state state)
{
	(void)q;
	(void)rail;
	(void)state;
	return 0;
}

/* All has flushed at once. */
int vcq_drain(struct vcq *c)
{
	(void)c;
	for (int i = 0; i < RAILS; i++)
		v.rails.jobs[i].marker_seen = true;
	return 0;
}

void vqp_drain_unless_gone(struct vqp *q)
{
	if (!q->life.gone)
		vcq_drain(q->send_cq);
}

uint32_t srq_qp_look(struct vqp *q, uint8_t rail)
{
	(void)q;
	(void)rail;
	return 0;
}

void srq_qp_leave(struct vqp *q, uint8_t rail)
{
	(void)q;
	(void)rail;
}

bool rq_psn_query(struct ibv_qp *q, uint32_t *psn, bool *in_err)
{
	(void)q;
	(void)in_err;
	(void)psn;
	return true;
}

enum rq_psn_rest rq_psn_look(const struct nic *n, struct ibv_qp *q, struct rq_psn_looks *all)
{
	(void)n;
	(void)q;
	(void)all;
	if (meanwhile)
		meanwhile();
	else
		pthread_barrier_wait(&both);
	return responder_stops ? RQ_PSN_AT_REST : RQ_PSN_UNKNOWN;
}

void repost_withdraw(struct vqp *q, uint8_t rail, uint32_t epoch)
{
	(void)q;
	(void)rail;
	withdrawn_epoch = epoch;
}

void shift_conn_event(struct shift_conn *c, const struct shift_event *ev, uint64_t now)
{
	(void)c;
	(void)now;
	assert_int_equal(ev->clean, responder_stops);
	told++;
}

void rail_job_begins(struct rail_jobs *j)
{
	j->under_way++;
}

void rail_job_ends(struct rail_jobs *j)
{
	j->under_way--;
}

/* --- the tests ------------------------------------------------------------------------------- */

static int post_send(struct ibv_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)q;
	(void)wr;
	(void)bad;
	return 0;
}

static int set_up(void **state)
{
	static struct ibv_context ctx = {.ops.post_send = post_send};

	(void)state;
	memset(&v, 0, sizeof(v));
	dev = (struct vdev){.rails = RAILS, .nic = {nic, nic + 1}};
	v.dev = &dev;
	v.qp = qp;
	v.post_send = post_send;
	v.send_cq = v.recv_cq = &cq;
	pthread_mutex_init(&v.lock, NULL);
	for (uint8_t i = 0; i < RAILS; i++) {
		qp[i].context = &ctx;
		nic[i].fences = (void *)(nic + i);
		v.rails.jobs[i].v = &v;
		v.rails.jobs[i].rail = i;
	}
	v.rails.twin[1].qp = qp + 1;
	unclean_when_left = without_lock = told = 0;
	meanwhile = NULL;
	return pthread_barrier_init(&both, NULL, RAILS);
}

static int tear_down(void **state)
{
	(void)state;
	pthread_mutex_destroy(&v.lock);
	return pthread_barrier_destroy(&both);
}

static void *run_job(void *arg)
{
	struct job *j = arg;

	j->fn(j);
	return NULL;
}

static void fence_both(bool stops)
{
	pthread_t thread[RAILS];

	responder_stops = stops;
	for (uint8_t i = 0; i < RAILS; i++) {
		struct shift_action a = {.type = SHIFT_ACT_FENCE, .rail = i, .epoch = 1};

		fence_start(&v, &a);
	}
	for (int i = 0; i < RAILS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, run_job, job[i]), 0);
	for (int i = 0; i < RAILS; i++)
		pthread_join(thread[i], NULL);
}

static void what_a_fence_leaves_unclean_is_noted_under_the_lock(void **state)
{
	(void)state;
	fence_both(false);
	fence_both(true);
	assert_int_equal(without_lock, 0);
}

static void no_rail_is_lost_of_two_that_end_at_once(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		fence_both(false);
		assert_int_equal(v.rails.unclean, 3);
		fence_both(true);
		assert_int_equal(v.rails.unclean, 0);
	}
}

/* It was taken for hung, and the rail was armed and is fenced again before it ends. */
static void ask_for_another(void)
{
	v.rails.jobs[1].fence_epoch = 2;
	v.rails.jobs[1].fence_since = 77;
}

static void a_fence_that_ends_late_speaks_for_itself_alone(void **state)
{
	struct shift_action a = {.type = SHIFT_ACT_FENCE, .rail = 1, .epoch = 1};

	(void)state;
	responder_stops = true;
	meanwhile = ask_for_another;
	fence_start(&v, &a);
	run_job(job[1]);
	assert_int_equal(withdrawn_epoch, 1);
	assert_int_equal(v.rails.jobs[1].fence_since, 77); /* the deadline of the other */
}

/* The program has RESET its QP meanwhile. What the fence found is true of the twin all the same,
 * and nothing to the new life's core. */
static void a_fence_of_the_life_before_speaks_of_the_twin(void **state)
{
	struct shift_action a = {.type = SHIFT_ACT_FENCE, .rail = 1, .epoch = 1};

	(void)state;
	for (int stops = 0; stops <= 1; stops++) {
		responder_stops = stops;
		meanwhile = ask_for_another; /* whatever: it does not wait for rail 0 */
		v.rails.jobs[1].stale = true;
		fence_start(&v, &a);
		run_job(job[1]);
		assert_int_equal(v.rails.unclean, stops ? 0 : 2);
	}
	assert_int_equal(told, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(what_a_fence_leaves_unclean_is_noted_under_the_lock),
		TEST(no_rail_is_lost_of_two_that_end_at_once),
		TEST(a_fence_that_ends_late_speaks_for_itself_alone),
		TEST(a_fence_of_the_life_before_speaks_of_the_twin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
