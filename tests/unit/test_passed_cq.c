// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* CQs that stay the NIC's alone (lib/object/passed_cq.c), while another thread destroys them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lib/object/device.h"
#include "lib/object/passed_cq.h"
#include "lib/object/passed_errors.h"
#include "lib/object/vsrq.h"

void vsrq_translate(struct ibv_wc *wc)
{
	wc->wr_id += 1000;
}

static struct vdev device;
static struct ibv_context opened;
static struct ibv_wc noted;
static int notes;

struct vdev *vdev_find(const struct ibv_context *ctx)
{
	return ctx == &opened ? &device : NULL;
}

void passed_errors_note(const struct vdev *dev, const struct ibv_wc *wc, int n)
{
	assert_ptr_equal(dev, &device);
	assert_int_equal(n, 1);
	noted = *wc;
	notes++;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0x119;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0x81;
}

static int fake_start(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	(void)attr;
	cq->wr_id = 1;
	return 0;
}

static int fake_next(struct ibv_cq_ex *cq)
{
	cq->wr_id = 2;
	return 0;
}

static struct ibv_cq_ex cq;

static struct ibv_cq *plain(void)
{
	return (struct ibv_cq *)&cq;
}

static int begin(void **state)
{
	(void)state;
	cq = (struct ibv_cq_ex){.context = &opened,
				.start_poll = fake_start,
				.next_poll = fake_next,
				.read_qp_num = read_qp_num,
				.read_vendor_err = read_vendor_err};
	notes = 0;
	assert_ptr_equal(passed_cq_created(&cq), &cq);
	return 0;
}

static void assert_polled(void)
{
	struct ibv_poll_cq_attr attr = {0};

	assert_int_equal(cq.start_poll(&cq, &attr), 0);
	assert_int_equal(cq.wr_id, 1001);
	assert_int_equal(cq.next_poll(&cq), 0);
	assert_int_equal(cq.wr_id, 1002);
}

static void an_error_is_noted(void **state)
{
	(void)state;
	assert_polled();
	assert_int_equal(notes, 0);
	cq.status = IBV_WC_RETRY_EXC_ERR;
	assert_polled();
	assert_int_equal(notes, 2);
	assert_int_equal(noted.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(noted.qp_num, 0x119);
	assert_int_equal(noted.vendor_err, 0x81);
	passed_cq_ended(plain(), passed_cq_find(plain()));
}

/* It is there only if the program has asked for it. */
static void where_the_number_cannot_be_read_it_is_noted_without(void **state)
{
	(void)state;
	cq.read_qp_num = NULL;
	cq.status = IBV_WC_RETRY_EXC_ERR;
	assert_polled();
	assert_int_equal(notes, 2);
	assert_int_equal(noted.qp_num, 0);
	passed_cq_ended(plain(), passed_cq_find(plain()));
}

/* Its QPs are there still, so the verb fails. */
static void it_is_polled_while_the_verb_fails(void **state)
{
	void *kept;

	(void)state;
	assert_polled();
	kept = passed_cq_find(plain());
	assert_non_null(kept);
	assert_polled();
	kept = passed_cq_find(plain()); /* it is tried again */
	passed_cq_ended(plain(), kept);
	assert_null(passed_cq_find(plain()));
}

static void another_at_its_address_is_not_forgotten(void **state)
{
	void *kept;

	kept = passed_cq_find(plain());
	begin(state);
	passed_cq_ended(plain(), kept);
	assert_polled();
	passed_cq_ended(plain(), passed_cq_find(plain()));
}

static void one_that_is_not_kept_may_end(void **state)
{
	(void)state;
	passed_cq_ended(plain(), passed_cq_find(plain()));
	assert_null(passed_cq_find(plain()));
	passed_cq_ended(plain(), NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_error_is_noted, begin),
		cmocka_unit_test_setup(where_the_number_cannot_be_read_it_is_noted_without, begin),
		cmocka_unit_test_setup(it_is_polled_while_the_verb_fails, begin),
		cmocka_unit_test_setup(another_at_its_address_is_not_forgotten, begin),
		cmocka_unit_test_setup(one_that_is_not_kept_may_end, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
