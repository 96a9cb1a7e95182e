/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The program's RESET, by the library's own verbs, connections, dispatch and tombstones. The test
 * is the rendezvous, the network and the NIC.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "lib/base/control_socket.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/peer_keys.h"
#include "lib/session/dispatch.h"
#include "lib/session/operator.h"
#include "lib/session/peer_paths.h"
#include "lib/session/tombstones.h"
#include "lib/verbs/bypass.h"
#include "lib/verbs/qp.h"

enum { RAIL = 1, RAILS = 3, PEER_ID = 7, NONCE = 0xa, PEER_NONCE = 0xb, CONN_BYTES = 1 << 20 };

struct real_verbs real;

static struct nic nic[RAILS];
static struct ibv_device device = {.name = "mlx5_0"};
static struct ibv_context ctx = {.device = &device};
static struct vdev dev = {.rails = RAILS, .nic = {nic, nic + 1, nic + 2}, .ctx = &ctx};
static struct vpd pd;
static struct vcq cq = {.qps = ASSOC_INIT};
static struct tracked_path path = {.users = 1};
static struct ibv_qp qp = {.qp_num = 0x10, .context = &ctx};
static struct vqp *v;
static struct shift_msg answer;
static unsigned int answers, begun;
static long nic_takes_ns;
static enum { NO_QUEUE, QUEUE_OF_CQ, QUEUE_OF_QP } asked_for; /* by another thread, meanwhile */
static _Atomic int alive;				      /* lives that the rendezvous knows */
static _Atomic bool begun_twice; /* a life began before the one before it had ended */
static uint32_t vetoed;		 /* rails, as lib/core was told since the last life began */
static struct control_calls orders;

/* --- the rest of the world -------------------------------------------------------------------- */

void __wrap_ctrl_link_send(struct ctrl_link_peer *link, const struct shift_msg *m);
void __wrap_bg_timer_set(struct bg_timer *timer, uint64_t at_ns);

void __wrap_ctrl_link_send(struct ctrl_link_peer *link, const struct shift_msg *m)
{
	(void)link;
	answer = *m;
	answers++;
}

void __wrap_bg_timer_set(struct bg_timer *timer, uint64_t at_ns)
{
	(void)timer;
	(void)at_ns;
}

void __real_shift_conn_event(struct shift_conn *c, const struct shift_event *ev, uint64_t at_ns);
void __wrap_shift_conn_event(struct shift_conn *c, const struct shift_event *ev, uint64_t at_ns);
const char *__wrap_stats_path(void);
int __wrap_control_open(const char *stats_path, const struct control_calls *calls);

void __wrap_shift_conn_event(struct shift_conn *c, const struct shift_event *ev, uint64_t at_ns)
{
	if (ev->type == SHIFT_EV_RAIL_VETO)
		vetoed |= 1u << ev->rail;
	else if (ev->type == SHIFT_EV_RAIL_OPEN)
		vetoed &= ~(1u << ev->rail);
	__real_shift_conn_event(c, ev, at_ns);
}

const char *__wrap_stats_path(void)
{
	return "stats";
}

int __wrap_control_open(const char *stats_path, const struct control_calls *calls)
{
	(void)stats_path;
	orders = *calls;
	return 0;
}

static int nic_modify_qp(struct ibv_qp *of, struct ibv_qp_attr *attr, int mask)
{
	struct timespec t = {.tv_nsec = nic_takes_ns};

	(void)mask;
	nanosleep(&t, NULL);
	if (asked_for == QUEUE_OF_CQ)
		cq.bypassed = true;
	if (asked_for == QUEUE_OF_QP)
		assert_int_equal(hook_init_direct_obj(of, NULL), 0);
	of->state = attr->qp_state;
	return 0;
}

static int nothing_completes(struct ibv_cq *of, int n, struct ibv_wc *wc)
{
	(void)of;
	(void)n;
	(void)wc;
	return 0;
}

/* The rendezvous finds the peer of a life, ... */
static void life_begins(struct vqp *of)
{
	struct shift_conn_peer p = {.nonce = PEER_NONCE, .id = PEER_ID + begun++, .rails = RAILS};

	if (atomic_fetch_add(&alive, 1))
		atomic_store(&begun_twice, true);
	assert_true(shift_conn_meet(of->conn, &p));
	of->setup.peer_nonce = p.nonce;
	of->setup.peer_id = p.id;
	of->setup.met = true;
}

/* ... and forgets it. */
static void life_ends(struct vqp *of)
{
	atomic_store(&alive, 0);
	tombstone_leave(of);
}

static int begin(void **state)
{
	static const struct qp_session session = {
		.nonce = NONCE, .begin = life_begins, .end = life_ends};
	struct shift_conn_cfg cfg = {.nonce = NONCE,
				     .sq_cap = 4,
				     .rq_cap = 4,
				     .rails = RAILS,
				     .mtu = {1024, 1024, 1024}};

	(void)state;
	real.modify_qp = nic_modify_qp;
	qp_set_session(&session);
	gate_init(&cq.gate);
	cq.dev = &dev;
	cq.poll_cq = nothing_completes;
	pthread_mutex_init(&cq.drain_lock, NULL);
	pthread_mutex_init(&cq.delivered_lock, NULL);
	for (uint8_t i = 0; i < RAILS; i++) {
		nic[i].index = i;
		nic[i].link_up = true;
		snprintf(nic[i].name, sizeof(nic[i].name), "mlx5_%d", i);
		if (!nic[i].worker) { /* their threads never end */
			nic[i].worker = worker_new("test", 1);
			nic[i].memory = worker_new("test", 1);
			nic[i].fences = worker_new("test", 2);
			nic[i].arms = worker_new("test", 2);
		}
	}
	v = aligned_alloc(64, (sizeof(*v) + 63) & ~(size_t)63);
	memset(v, 0, sizeof(*v));
	v->qp = &qp;
	v->id = cfg.id = vqp_draw_id();
	v->conn = shift_conn_init(aligned_alloc(64, CONN_BYTES), CONN_BYTES, &cfg, 0);
	v->dev = &dev;
	v->pd = &pd;
	v->send_cq = v->recv_cq = &cq;
	v->init.cap = (struct ibv_qp_cap){.max_send_wr = 4, .max_recv_wr = 4};
	v->stats = -1;
	gate_init(&v->hot.send_gate);
	gate_init(&v->hot.recv_gate);
	pthread_mutex_init(&v->lock, NULL);
	pthread_mutex_init(&v->life.modify_lock, NULL);
	pthread_cond_init(&v->rails.job_ended, NULL);
	v->keys.peer = peer_keys_new();
	v->rails.twin[RAIL].path = &path.path;
	answers = begun = 0;
	alive = 0;
	asked_for = NO_QUEUE;
	cq.bypassed = false;
	begun_twice = false;
	life_begins(v);
	return vqp_publish(v);
}

static int end(void **state)
{
	(void)state;
	vqp_unpublish(v);
	peer_keys_free(v->keys.peer);
	free(v->conn);
	free(v);
	return 0;
}

static void reset_qp(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	assert_int_equal(hook_modify_qp(&qp, &attr, IBV_QP_STATE), 0);
}

/* The peer's life asks one of ours. Returns how many answers there were. */
static unsigned int ask(uint32_t to, uint32_t from)
{
	struct shift_msg m = {.type = SHIFT_MSG_SWITCH,
			      .src_nonce = PEER_NONCE,
			      .dst_nonce = NONCE,
			      .dst_conn = to,
			      .src_conn = from,
			      .rail = RAIL,
			      .epoch = 2};

	answers = 0;
	dispatch_message(nic + RAIL, &m);
	return answers;
}

/* --- the tests -------------------------------------------------------------------------------- */

static void each_life_has_an_id_of_its_own(void **state)
{
	uint32_t id[100];

	(void)state;
	for (int life = 0; life < 100; life++) {
		id[life] = v->id;
		for (int before = 0; before < life; before++) {
			assert_int_not_equal(id[before], v->id);
			assert_null(vqp_by_id(id[before]));
		}
		assert_ptr_equal(vqp_by_id(v->id), v);
		reset_qp();
	}
}

/* Released, so that it has something to say without having been fenced. */
static void the_life_before_is_answered_for_under_its_id(void **state)
{
	uint32_t before = v->id;

	(void)state;
	assert_true(shift_conn_release(v->conn));
	reset_qp();
	assert_int_equal(ask(before, PEER_ID), 1);
	assert_int_equal(answer.type, SHIFT_MSG_FAILED);
	assert_int_equal(answer.src_conn, before);
	assert_int_equal(ask(before, PEER_ID + 1), 0); /* that life of the peer never knew it */
	assert_int_equal(ask(v->id, PEER_ID), 0);
	assert_int_equal(ask(v->id, PEER_ID + 1), 0); /* not protected yet: it has no answer */
	assert_ptr_equal(vqp_by_id(v->id), v);
}

/* Rail 0 was RESET by the program; a fence has still to account for the twin. */
static void what_a_fence_left_open_outlives_a_life(void **state)
{
	(void)state;
	v->rails.unclean = 3;
	reset_qp();
	assert_int_equal(v->rails.unclean, 2);
}

/* A new life starts on rail 0, which is the program's. But it does not come back to it. */
static void a_veto_of_rail_0_outlives_a_life(void **state)
{
	(void)state;
	v->rails.vetoed = 1;
	vetoed = 0;
	reset_qp();
	assert_int_equal(vetoed, 1);
}

/* The new life has not found its peer yet. */
static void a_veto_is_lifted_between_two_lives(void **state)
{
	char line[100];

	(void)state;
	v->rails.vetoed = 3;
	reset_qp();
	v->setup.met = false;
	operator_start();
	assert_int_equal(orders.failback(NULL, line, sizeof(line)), 0);
	assert_string_equal(line, "0 connections fail back");
	assert_int_equal(v->rails.vetoed, 0);
	assert_int_equal(vetoed, 0);
}

/* A protected connection of three rails, on rail 0. */
static void be_active(void)
{
	struct shift_conn_cfg cfg = {.nonce = NONCE,
				     .id = v->id,
				     .peer_nonce = PEER_NONCE,
				     .peer_id = PEER_ID,
				     .sq_cap = 4,
				     .rq_cap = 4,
				     .rails = 3,
				     .mtu = {1024, 1024, 1024},
				     .confirmed = true};

	v->conn = shift_conn_init(v->conn, CONN_BYTES, &cfg, now_ns());
	v->setup.peer_rails = 3;
	for (int i = 1; i < 3; i++) {
		v->rails.twin[i].path = &path.path;
		v->rails.twin[i].clean = true;
	}
}

/* lib/core knows more of the rails than the operator's room: here, that a link is down. */
static void it_migrates_to_the_rail_that_can_take_over(void **state)
{
	struct shift_conn_view view;
	char line[100];

	(void)state;
	be_active();
	shift_conn_event(v->conn, &(struct shift_event){.type = SHIFT_EV_LINK_DOWN, .rail = 1},
			 now_ns());
	operator_start();
	answers = 0;
	assert_int_equal(orders.migrate(nic[0].name, line, sizeof(line)), 0);
	assert_string_equal(line, "1 connection leaves mlx5_0");
	shift_conn_view(v->conn, &view);
	assert_int_equal(view.state, SHIFT_ST_PREPARE);
	assert_int_equal(answers, 1);
	assert_int_equal(answer.rail, 2);
}

static void modify_to(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .path_mtu = IBV_MTU_1024};

	assert_int_equal(hook_modify_qp(&qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MTU), 0);
}

/* Packets of the life before may still be held up there. */
static void rail_0_receives_only_after_its_quarantine(void **state)
{
	uint64_t until = now_ns() + 200000000;

	(void)state;
	v->life.past.rail0_until = until;
	modify_to(IBV_QPS_INIT);
	assert_true(now_ns() < until);
	modify_to(IBV_QPS_RTR);
	assert_true(now_ns() >= until);
	assert_int_equal(qp.state, IBV_QPS_RTR);
}

static void *reset_thread(void *arg)
{
	(void)arg;
	reset_qp();
	return NULL;
}

/* Verbs may be called by any thread. Each RESET must end one life and begin one. */
static void two_threads_reset_one_after_the_other(void **state)
{
	uint32_t first = v->id;
	pthread_t thread;

	(void)state;
	nic_takes_ns = 50000000;
	assert_int_equal(pthread_create(&thread, NULL, reset_thread, NULL), 0);
	reset_qp();
	pthread_join(thread, NULL);
	nic_takes_ns = 0;
	assert_false(begun_twice);
	assert_int_equal(v->id, first + 2);
	assert_null(vqp_by_id(first));
	assert_null(vqp_by_id(first + 1));
	assert_ptr_equal(vqp_by_id(v->id), v);
}

/* The walk over all QPs has just missed this one, whose id was being renewed. */
static void a_cq_handed_over_meanwhile(void **state)
{
	(void)state;
	asked_for = QUEUE_OF_CQ;
	reset_qp();
	assert_true(v->life.bypassed);
	assert_true(v->life.released);
}

/* What was handed over was the life that ends. The next one has no protection either. */
static void a_qp_handed_over_meanwhile(void **state)
{
	(void)state;
	asked_for = QUEUE_OF_QP;
	reset_qp();
	assert_true(v->life.bypassed);
	assert_true(v->life.released);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(each_life_has_an_id_of_its_own),
		TEST(the_life_before_is_answered_for_under_its_id),
		TEST(what_a_fence_left_open_outlives_a_life),
		TEST(a_veto_of_rail_0_outlives_a_life),
		TEST(a_veto_is_lifted_between_two_lives),
		TEST(it_migrates_to_the_rail_that_can_take_over),
		TEST(rail_0_receives_only_after_its_quarantine),
		TEST(two_threads_reset_one_after_the_other),
		TEST(a_cq_handed_over_meanwhile),
		TEST(a_qp_handed_over_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
