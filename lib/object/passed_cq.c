/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/object/passed_cq.h"

#include <stdlib.h>

#include "lib/base/table.h"
#include "lib/object/passed_errors.h"
#include "lib/object/vsrq.h"

/* The provider's functions of a CQ. */
struct passed_cq {
	int (*start_poll)(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr);
	int (*next_poll)(struct ibv_cq_ex *cq);
};

static struct table passed = TABLE_INIT;

/* Of the completion that is being read. The program may not have asked for the QP's number, and
 * then the provider has no function for it. */
static __attribute__((noinline)) void note_passed_error(struct ibv_cq_ex *cq)
{
	const struct vdev *dev = vdev_find(cq->context);
	struct ibv_wc wc = {.status = cq->status,
			    .qp_num = cq->read_qp_num ? ibv_wc_read_qp_num(cq) : 0,
			    .vendor_err = cq->read_vendor_err ? ibv_wc_read_vendor_err(cq) : 0};

	if (dev)
		passed_errors_note(dev, &wc, 1);
}

static int passed_polled(struct ibv_cq_ex *cq, int err)
{
	struct ibv_wc wc = {.wr_id = cq->wr_id};

	if (!err)
		vsrq_translate(&wc);
	if (!err && cq->status != IBV_WC_SUCCESS)
		note_passed_error(cq);
	cq->wr_id = wc.wr_id;
	return err;
}

static const struct passed_cq *functions_of(const struct ibv_cq_ex *cq)
{
	return table_get(&passed, (uintptr_t)cq);
}

static int start_passed(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	return passed_polled(cq, functions_of(cq)->start_poll(cq, attr));
}

static int next_passed(struct ibv_cq_ex *cq)
{
	return passed_polled(cq, functions_of(cq)->next_poll(cq));
}

struct ibv_cq_ex *passed_cq_created(struct ibv_cq_ex *cq)
{
	struct passed_cq *p = cq ? malloc(sizeof(*p)) : NULL;

	if (!p)
		return cq;
	*p = (struct passed_cq){cq->start_poll, cq->next_poll};
	if (table_put(&passed, (uintptr_t)cq, p)) {
		free(p);
		return cq;
	}
	cq->start_poll = start_passed;
	cq->next_poll = next_passed;
	return cq;
}

void *passed_cq_find(const struct ibv_cq *cq)
{
	return table_get(&passed, (uintptr_t)cq);
}

void passed_cq_ended(const struct ibv_cq *cq, void *kept)
{
	table_remove_value(&passed, (uintptr_t)cq, kept);
	free(kept);
}
