/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/verbs/cq_ex.h"

#include <errno.h>
#include <stdbool.h>

#include "lib/base/gate.h"
#include "lib/base/reentry.h"
#include "lib/base/uncancelled.h"
#include "lib/conn/memlock.h"
#include "lib/object/channel.h"
#include "lib/object/cq.h"
#include "lib/object/passed_cq.h"
#include "lib/verbs/poll.h"

/* --- polling ---------------------------------------------------------------------------------- */

/* What this thread is polling; NULL: look for it. */
static _Thread_local struct vcq *polling;

static struct vcq *cq_of(struct ibv_cq_ex *ex)
{
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ex);
	struct vcq *known = polling;

	if (known && known->cq == cq)
		return known;
	known = gate_find(&gate_mine.poll, cq);
	return known ? known : vcq_find(cq);
}

/* 0, ENOENT or another errno. */
static int poll_one(struct vcq *cq, struct ibv_cq_ex *ex)
{
	int got = ibv_poll_cq(cq->cq, 1, &cq->poller.wc);

	if (got == 1) {
		ex->wr_id = cq->poller.wc.wr_id;
		ex->status = cq->poller.wc.status;
		return 0;
	}
	return got ? EINVAL : ENOENT;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct vcq *cq = cq_of(ex);

	polling = NULL;
	pthread_mutex_unlock(&cq->poller.lock);
}

/* After an error the program does not end it. */
static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct vcq *cq = cq_of(ex);
	int err;

	if (attr && attr->comp_mask)
		return EINVAL;
	pthread_mutex_lock(&cq->poller.lock);
	polling = cq;
	err = poll_one(cq, ex);
	if (err)
		end_poll(ex);
	return err;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return poll_one(cq_of(ex), ex);
}

/* --- reading ---------------------------------------------------------------------------------- */

static const struct ibv_wc *wc_of(struct ibv_cq_ex *ex)
{
	return &cq_of(ex)->poller.wc;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->byte_len;
}

/* Or the key that was invalidated: that is in the same place. */
static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return wc_of(ex)->dlid_path_bits;
}

static void take_over(struct ibv_cq_ex *ex)
{
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
}

/* --- creation --------------------------------------------------------------------------------- */

/* A parent domain may have the program's own locks. */
static bool wc_holds_all(const struct ibv_cq_init_attr_ex *attr)
{
	return !(attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS) &&
	       !(attr->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS);
}

/* A CQ that one thread polls needs no lock; but threads of ours poll it, too. */
static struct ibv_cq_ex *create_shared(struct vdev *dev, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_init_attr_ex given;

	channel_attr_for_kernel(attr, &given);
	given.flags &= ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	return with_room(dev->ctx, dev->create_cq_ex(dev->ctx, &given));
}

static struct ibv_cq_ex *create_unknown(struct vdev *dev, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_init_attr_ex copy;

	return passed_cq_created(channel_adopt_cq_ex(
		with_room(dev->ctx,
			  dev->create_cq_ex(dev->ctx, channel_attr_for_kernel(attr, &copy))),
		attr->channel));
}

struct ibv_cq_ex *hook_create_cq_ex(struct vdev *dev, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *ex;

	if (!wc_holds_all(attr) || dev->rails < 2) /* nothing on it can move */
		return create_unknown(dev, attr);
	ex = create_shared(dev, attr);
	if (!ex)
		return NULL;
	uncancelled_begin();
	hook_created_cq(ibv_cq_ex_to_cq(ex), attr->channel);
	if (vcq_find(ibv_cq_ex_to_cq(ex)))
		take_over(ex);
	uncancelled_end();
	return ex;
}
