// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The drainer of an SRQ (lib/object/srq_drainer.c) on a NIC that the test has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/background.h"
#include "lib/base/real_verbs.h"
#include "lib/object/srq_drainer.h"

struct real_verbs real;

static uint64_t clock_ns;
static struct ibv_cq cq;
static struct ibv_qp qp;
static struct ibv_srq srq;
static struct ibv_pd pd;
static struct ibv_context ctx;
static struct ibv_context_ops ops;
static const struct nic nic = {
	.name = "mlx5_0", .is_rxe = true, .port_attr.link_layer = IBV_LINK_LAYER_INFINIBAND};
static const struct srq_place place = {
	.srq = &srq, .pd = &pd, .ctx = &ctx, .ops = &ops, .nic = &nic};
static struct srq_drainer drainer;
static bool destroyed;
static unsigned int posted, polled; /* messages to itself */

uint64_t now_ns(void)
{
	return clock_ns++;
}

static struct ibv_cq *fake_create_cq(struct ibv_context *c, int n, void *arg,
				     struct ibv_comp_channel *channel, int vector)
{
	(void)c;
	(void)n;
	(void)arg;
	(void)channel;
	(void)vector;
	return &cq;
}

static int fake_destroy_cq(struct ibv_cq *c)
{
	(void)c;
	return 0;
}

static struct ibv_qp *fake_create_qp(struct ibv_pd *p, struct ibv_qp_init_attr *attr)
{
	(void)p;
	(void)attr;
	return &qp;
}

static int fake_modify_qp(struct ibv_qp *q, struct ibv_qp_attr *attr, int mask)
{
	(void)q;
	(void)attr;
	(void)mask;
	return 0;
}

/* An event of it that the program's thread is just reading is known as the drainer's still. */
static int fake_destroy_qp(struct ibv_qp *q)
{
	assert_ptr_equal(atomic_load(&drainer.qp), q);
	destroyed = true;
	return 0;
}

static int fake_post_send(struct ibv_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)q;
	(void)wr;
	(void)bad;
	posted++;
	return 0;
}

/* Each message takes a receive: two completions. */
static int fake_poll_cq(struct ibv_cq *c, int n, struct ibv_wc *wc)
{
	(void)c;
	for (int i = 0; i < n; i += 2) {
		if (polled == posted)
			return i;
		wc[i] = (struct ibv_wc){.status = IBV_WC_SUCCESS};
		wc[i + 1] = (struct ibv_wc){.wr_id = ++polled, .status = IBV_WC_SUCCESS};
	}
	return n;
}

static int set_up(void **state)
{
	(void)state;
	real.create_cq = fake_create_cq;
	real.destroy_cq = fake_destroy_cq;
	real.create_qp = fake_create_qp;
	real.modify_qp = fake_modify_qp;
	real.destroy_qp = fake_destroy_qp;
	ops.post_send = fake_post_send;
	ops.poll_cq = fake_poll_cq;
	memset(&drainer, 0, sizeof(drainer));
	destroyed = false;
	posted = polled = 0;
	return 0;
}

static unsigned int taken, goes_on_until;

static bool took(void *arg, uint64_t id)
{
	(void)arg;
	assert_int_equal(id, ++taken);
	return taken < goes_on_until;
}

static enum shift_srq_drain drain(uint32_t count, unsigned int until)
{
	taken = 0;
	goes_on_until = until;
	return srq_drainer_run(&drainer, &place, count, took, NULL);
}

static void it_takes_as_many_as_it_is_told(void **state)
{
	(void)state;
	assert_int_equal(drain(1000, 10000), SHIFT_SRQ_TOOK_ALL);
	assert_int_equal(taken, 1000);
	srq_drainer_end(&drainer);
	assert_true(destroyed);
}

static void it_is_known_until_it_is_destroyed(void **state)
{
	(void)state;
	assert_int_equal(drain(1, 10000), SHIFT_SRQ_TOOK_ALL);
	srq_drainer_end(&drainer);
	assert_true(destroyed);
	assert_null(atomic_load(&drainer.qp));
}

/* The program waits for it, to destroy its SRQ. */
static void it_ends_early_if_nobody_needs_it(void **state)
{
	(void)state;
	drain(30000, 100);
	assert_in_range(taken, 100, 100 + SRQ_DRAIN_MAX);
	srq_drainer_end(&drainer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(it_takes_as_many_as_it_is_told, set_up),
		cmocka_unit_test_setup(it_is_known_until_it_is_destroyed, set_up),
		cmocka_unit_test_setup(it_ends_early_if_nobody_needs_it, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
