/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The program destroys its QP (lib/verbs/qp.c). */
#include "lib/conn/conn_lock.h"
#include "lib/verbs/qp.h"
#include "tests/unit/rooms.h"

static struct vqp *v;

/* Something else than lib/core lets the program's call return. */
static void it_is_closed(void)
{
	vqp_enter(v);
	core_asks(&(struct shift_action){.type = SHIFT_ACT_CLOSED});
	vqp_leave(v);
}

static int begin(void **state)
{
	rooms_begin(state);
	world.on_wait = it_is_closed;
	v = rooms_create_qp();
	rooms_start_qp(v);
	return 0;
}

static int end(void **state)
{
	if (v) {
		rooms_unlock(v);
		v->life.closed = true;
		hook_destroy_qp(v->qp);
	}
	v = NULL;
	return rooms_end(state);
}

static void destroy_closes_and_removes_all(void **state)
{
	struct ibv_qp *qp = v->qp;
	uint32_t id = v->id;

	(void)state;
	assert_int_equal(hook_destroy_qp(qp), 0);
	v = NULL;
	assert_traced("event CLOSE rail 0 how 2\nwaits\nmodify 0x10 to 0\na life ends\n"
		      "destroy 0x21\ndestroy 0x22\ndestroy 0x10\n");
	assert_null(vqp_find(qp));
	assert_null(vqp_by_id(id));
	assert_null(table_get(&world.dev.qps, QPN));
	assert_int_equal(world.send_cq.wanted, 0);
	assert_int_equal(world.recv_cq.wanted, 0);
	assert_int_equal(world.send_cq.obj.refs, 1000);
	assert_int_equal(world.recv_cq.obj.refs, 1000);
	assert_int_equal(world.pd.obj.refs, 1000);
	for (int i = 1; i < RAILS; i++) {
		assert_int_equal(world.send_cq.shadow[i].wanted, 0);
		assert_int_equal(world.recv_cq.shadow[i].wanted, 0);
	}
	assert_int_equal(world.send_cq.gate.shut & ~GATE_SHARED, GATE_OPEN);
	assert_int_equal(world.recv_cq.gate.shut & ~GATE_SHARED, GATE_OPEN);
}

static const struct cq_events *doubtful;

void __wrap_cq_events_doubt(struct cq_events *e);
void __wrap_cq_events_doubt(struct cq_events *e)
{
	doubtful = e;
	trace_add("doubt\n");
}

/* The flushes of a destroy wake no thread that sleeps for events. */
static void destroy_makes_events_doubtful(void **state)
{
	struct vcq *cqs[] = {&world.send_cq, &world.recv_cq};

	for (int i = 0; i < 2; i++) {
		begin(state);
		cqs[i]->events.channel = (struct channel *)(void *)&world;
		doubtful = NULL;
		trace_clear();
		hook_destroy_qp(v->qp);
		v = NULL;
		cqs[i]->events.channel = NULL;
		assert_ptr_equal(doubtful, &cqs[i]->events);
		assert_non_null(strstr(trace_text(), "doubt\nevent CLOSE"));
		end(state);
	}
}

/* RESET without ERR before it may cost the NIC: doc/soft-roce.md. */
static void soft_roce_is_destroyed_by_err(void **state)
{
	(void)state;
	world.nic[0].is_rxe = true;
	hook_destroy_qp(v->qp);
	v = NULL;
	assert_traced("event CLOSE rail 0 how 2\nwaits\nmodify 0x10 to 6\nmodify 0x10 to 0\n"
		      "a life ends\ndestroy 0x21\ndestroy 0x22\ndestroy 0x10\n");
}

/* It is in RESET already, after a fence. */
static void soft_roce_may_refuse_err(void **state)
{
	struct ibv_wc wc;

	(void)state;
	world.nic[0].is_rxe = true;
	world.modify_fails_at = 1;
	vcq_deliver(&world.send_cq, &(struct ibv_wc){.qp_num = QPN});
	hook_destroy_qp(v->qp);
	v = NULL;
	assert_non_null(strstr(trace_text(), "modify 0x10 to 6\nmodify 0x10 to 0\n"));
	assert_int_equal(vcq_take(&world.send_cq, 1, &wc), 0);
}

static void destroy_of_a_bypassed_qp_closes_nothing(void **state)
{
	(void)state;
	v->life.bypassed = true;
	hook_destroy_qp(v->qp);
	v = NULL;
	assert_traced("a life ends\ndestroy 0x21\ndestroy 0x22\ndestroy 0x10\n");
}

/* One gate that both queues share was shut once. */
static void destroy_with_one_cq_opens_its_gate_once(void **state)
{
	struct ibv_qp_init_attr attr = rooms_qp_attr();

	rooms_begin(state);
	attr.recv_cq = attr.send_cq;
	v = vqp_find(hook_create_qp(&world.real_pd, &attr));
	vqp_enter(v);
	vqp_leave(v);
	hook_destroy_qp(v->qp);
	v = NULL;
	assert_int_equal(world.send_cq.gate.shut & ~GATE_SHARED, GATE_OPEN);
}

static void a_qp_that_is_fast_leaves_its_gates_as_they_are(void **state)
{
	rooms_begin(state);
	v = rooms_create_qp();
	hook_destroy_qp(v->qp);
	v = NULL;
	assert_int_equal(world.send_cq.gate.shut & ~GATE_SHARED, GATE_OPEN);
	assert_int_equal(world.recv_cq.gate.shut & ~GATE_SHARED, GATE_OPEN);
	assert_null(strstr(trace_text(), "event CLOSE")); /* it was never in use */
}

int main(void)
{
#define TEST(name)  cmocka_unit_test_setup_teardown(name, begin, end)
#define ALONE(name) cmocka_unit_test_setup_teardown(name, NULL, end)
	const struct CMUnitTest tests[] = {
		TEST(destroy_closes_and_removes_all),
		cmocka_unit_test(destroy_makes_events_doubtful),
		TEST(soft_roce_is_destroyed_by_err),
		TEST(soft_roce_may_refuse_err),
		TEST(destroy_of_a_bypassed_qp_closes_nothing),
		ALONE(destroy_with_one_cq_opens_its_gate_once),
		ALONE(a_qp_that_is_fast_leaves_its_gates_as_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
