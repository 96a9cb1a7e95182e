/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/verbs/wr_builder.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/env.h"
#include "lib/base/gate.h"
#include "lib/conn/vqp.h"
#include "lib/verbs/post_send.h"
#include "lib/verbs/traced.h"

enum { WRS_AT_ONCE = 16 };

#define MESSAGE_MAX 0x80000000u /* IB spec 9.7.1 */

/* The provider's own. */
struct builder_calls {
	void (*wr_start)(struct ibv_qp_ex *);
	int (*wr_complete)(struct ibv_qp_ex *);
	void (*rdma_write)(struct ibv_qp_ex *, uint32_t, uint64_t);
	void (*rdma_write_imm)(struct ibv_qp_ex *, uint32_t, uint64_t, __be32);
	void (*rdma_read)(struct ibv_qp_ex *, uint32_t, uint64_t);
	void (*send)(struct ibv_qp_ex *);
	void (*send_imm)(struct ibv_qp_ex *, __be32);
	void (*send_inv)(struct ibv_qp_ex *, uint32_t);
	void (*local_inv)(struct ibv_qp_ex *, uint32_t);
	void (*cmp_swap)(struct ibv_qp_ex *, uint32_t, uint64_t, uint64_t, uint64_t);
	void (*fetch_add)(struct ibv_qp_ex *, uint32_t, uint64_t, uint64_t);
	void (*sge)(struct ibv_qp_ex *, uint32_t, uint64_t, uint32_t);
	void (*sge_list)(struct ibv_qp_ex *, size_t, const struct ibv_sge *);
	void (*inline_data)(struct ibv_qp_ex *, void *, size_t);
};

/* A WR, its SGEs and its inline payload lie behind each other. None of them ever moves, as they
 * point at each other. */
struct wr_builder {
	struct vqp *v;
	struct ibv_qp_ex *qp;
	struct builder_calls real;
	/* From ibv_wr_start() on: two threads may post to one QP, and one waits for the other. As
	 * with a driver's lock, another thread may complete what one has begun. */
	pthread_mutex_t lock;
	bool open;     /* a batch has begun */
	bool rewrites; /* the provider has set wr_complete anew: wr_builder_keep() */
	struct ibv_send_wr *first, *last;
	uint32_t n, n_max;
	uint32_t sges_max, inline_max;
	size_t wr_bytes;
	int err;     /* of the first call that failed */
	char *wrs[]; /* WRS_AT_ONCE each; NULL: not needed so far */
};

/* --- room ------------------------------------------------------------------------------------- */

bool wr_builder_knows(uint64_t send_ops)
{
	const uint64_t known = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			       IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
			       IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
			       IBV_QP_EX_WITH_SEND_WITH_INV;

	return !(send_ops & ~known);
}

static bool add_room(struct wr_builder *b, uint32_t at)
{
	char **wrs = &b->wrs[at / WRS_AT_ONCE];

	if (!*wrs)
		*wrs = malloc(WRS_AT_ONCE * b->wr_bytes);
	return *wrs;
}

struct wr_builder *wr_builder_new(const struct ibv_qp_cap *cap)
{
	size_t parts = cap->max_send_wr / WRS_AT_ONCE + 1;
	struct wr_builder *b = calloc(1, sizeof(*b) + parts * sizeof(*b->wrs));

	if (!b)
		return NULL;
	pthread_mutex_init(&b->lock, NULL);
	b->n_max = cap->max_send_wr;
	b->sges_max = cap->max_send_sge ? cap->max_send_sge : 1; /* of inline payload */
	b->inline_max = cap->max_inline_data;
	b->wr_bytes = sizeof(struct ibv_send_wr) + b->sges_max * sizeof(struct ibv_sge) +
		      ((b->inline_max + 7ul) & ~7ul);
	if (add_room(b, 0))
		return b;
	wr_builder_free(b);
	return NULL;
}

void wr_builder_free(struct wr_builder *b)
{
	if (!b)
		return;
	for (uint32_t i = 0; i <= b->n_max / WRS_AT_ONCE; i++)
		free(b->wrs[i]);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

/* --- begin and end ---------------------------------------------------------------------------- */

/* NULL: in a child of fork() it may be forgotten. */
static struct wr_builder *find_builder(struct ibv_qp_ex *qp)
{
	struct vqp *v = gate_find(&gate_mine.send, &qp->qp_base);

	if (!v)
		v = vqp_find(&qp->qp_base);
	return v ? v->wr_builder : NULL;
}

/* NULL: no batch has begun. */
static struct wr_builder *builder_of(struct ibv_qp_ex *qp)
{
	struct wr_builder *b = find_builder(qp);

	return b && b->open ? b : NULL;
}

static void start(struct ibv_qp_ex *qp)
{
	struct wr_builder *b = find_builder(qp);

	if (!b)
		return; /* wr_complete says EINVAL */
	pthread_mutex_lock(&b->lock);
	b->open = true;
	b->n = 0;
	b->err = 0;
	b->first = b->last = NULL;
}

static void end(struct wr_builder *b)
{
	b->open = false;
	pthread_mutex_unlock(&b->lock);
}

static void build_again(const struct builder_calls *real, struct ibv_qp_ex *qp,
			const struct ibv_send_wr *wr)
{
	uint32_t rkey = wr->wr.rdma.rkey;
	uint64_t addr = wr->wr.rdma.remote_addr;

	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE: real->rdma_write(qp, rkey, addr); break;
	case IBV_WR_RDMA_WRITE_WITH_IMM: real->rdma_write_imm(qp, rkey, addr, wr->imm_data); break;
	case IBV_WR_RDMA_READ: real->rdma_read(qp, rkey, addr); break;
	case IBV_WR_SEND: real->send(qp); break;
	case IBV_WR_SEND_WITH_IMM: real->send_imm(qp, wr->imm_data); break;
	case IBV_WR_SEND_WITH_INV: real->send_inv(qp, wr->invalidate_rkey); break;
	case IBV_WR_LOCAL_INV: real->local_inv(qp, wr->invalidate_rkey); break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		real->cmp_swap(qp, wr->wr.atomic.rkey, addr, wr->wr.atomic.compare_add,
			       wr->wr.atomic.swap);
		break;
	default: real->fetch_add(qp, wr->wr.atomic.rkey, addr, wr->wr.atomic.compare_add); break;
	}
}

/* Also no data is set: drivers finish a WR there. */
static void set_data_again(const struct builder_calls *real, struct ibv_qp_ex *qp,
			   const struct ibv_send_wr *wr)
{
	if (wr->send_flags & IBV_SEND_INLINE)
		real->inline_data(qp, (void *)(uintptr_t)wr->sg_list->addr, wr->sg_list->length);
	else if (wr->num_sge == 1)
		real->sge(qp, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
	else
		real->sge_list(qp, (size_t)wr->num_sge, wr->sg_list);
}

/* What the program has set in its object stays so. */
static int build_all_again(struct vqp *v, const struct ibv_send_wr *wr)
{
	const struct wr_builder *b = v->wr_builder;
	struct ibv_qp_ex *qp = b->qp;
	uint64_t wr_id = qp->wr_id;
	unsigned int flags = qp->wr_flags;
	int err;

	b->real.wr_start(qp);
	for (; wr; wr = wr->next) {
		qp->wr_id = wr->wr_id;
		qp->wr_flags = wr->send_flags; /* rxe asks them whether payload is inline */
		build_again(&b->real, qp, wr);
		if (wr->opcode != IBV_WR_LOCAL_INV)
			set_data_again(&b->real, qp, wr);
	}
	qp->wr_id = wr_id;
	qp->wr_flags = flags;
	err = b->real.wr_complete(qp);
	return err < 0 ? -err : err; /* of bnxt_re some are negative */
}

/* All of them are taken, or none. */
static int post_all(struct wr_builder *b)
{
	uint32_t n;
	int err;

	if (!env.trace_epoch_ns)
		return post_send_batch(b->v, b->first, b->n, build_all_again);
	n = traced_posting(b->v->qp, b->first);
	err = post_send_batch(b->v, b->first, b->n, build_all_again);
	traced_posted(b->v->qp, n, err ? n : 0);
	return err;
}

static int complete(struct ibv_qp_ex *qp)
{
	struct wr_builder *b = builder_of(qp);
	int err;

	if (!b)
		return EINVAL;
	err = b->err;
	if (!err && b->n)
		err = post_all(b);
	end(b);
	return err;
}

static void give_up(struct ibv_qp_ex *qp)
{
	struct wr_builder *b = builder_of(qp);

	if (b)
		end(b);
}

static void refuse(struct ibv_qp_ex *qp, int err)
{
	struct wr_builder *b = builder_of(qp);

	if (b && !b->err)
		b->err = err;
}

/* --- a WR ------------------------------------------------------------------------------------- */

static void *next_wr(struct wr_builder *b)
{
	uint32_t at = b->n;

	if (b->err || at == b->n_max || (!(at % WRS_AT_ONCE) && !add_room(b, at))) {
		b->err = b->err ? b->err : ENOMEM;
		return NULL;
	}
	b->n++;
	return b->wrs[at / WRS_AT_ONCE] + at % WRS_AT_ONCE * b->wr_bytes;
}

/* What is written into it is of no account where it cannot be taken. */
static struct ibv_send_wr *add_wr(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode)
{
	static _Thread_local struct ibv_send_wr not_taken;
	struct wr_builder *b = builder_of(qp);
	struct ibv_send_wr *wr = b ? next_wr(b) : NULL;

	if (!wr)
		return &not_taken;
	if (b->last)
		b->last->next = wr;
	else
		b->first = wr;
	b->last = wr;
	wr->wr_id = qp->wr_id;
	wr->next = NULL;
	wr->sg_list = (struct ibv_sge *)(wr + 1);
	wr->num_sge = 0;
	wr->opcode = opcode;
	wr->send_flags = qp->wr_flags & ~(unsigned int)IBV_SEND_INLINE; /* the setter says so */
	wr->imm_data = 0;
	wr->wr.rdma.remote_addr = 0;
	wr->wr.rdma.rkey = 0;
	return wr;
}

static void add_rdma(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr,
		     __be32 imm)
{
	struct ibv_send_wr *wr = add_wr(qp, opcode);

	wr->imm_data = imm;
	wr->wr.rdma.remote_addr = addr;
	wr->wr.rdma.rkey = rkey;
}

static void add_atomic(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey,
		       uint64_t addr, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *wr = add_wr(qp, opcode);

	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
	wr->wr.atomic.rkey = rkey;
}

static void build_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	add_rdma(qp, IBV_WR_RDMA_WRITE, rkey, addr, 0);
}

static void build_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, __be32 imm)
{
	add_rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}

static void build_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	add_rdma(qp, IBV_WR_RDMA_READ, rkey, addr, 0);
}

static void build_send(struct ibv_qp_ex *qp)
{
	add_wr(qp, IBV_WR_SEND);
}

static void build_send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
	add_wr(qp, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void build_send_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	add_wr(qp, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void build_local_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	add_wr(qp, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
}

static void build_cmp_swap(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, uint64_t compare,
			   uint64_t swap)
{
	add_atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}

static void build_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, uint64_t add)
{
	add_atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, add, 0);
}

/* --- its data --------------------------------------------------------------------------------- */

/* NULL: there is no WR to which data could belong. */
static struct wr_builder *builder_with_wr(struct ibv_qp_ex *qp)
{
	struct wr_builder *b = builder_of(qp);

	return b && !b->err && b->last ? b : NULL;
}

static void set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct wr_builder *b = builder_with_wr(qp);

	if (!b)
		return;
	b->last->num_sge = 1;
	b->last->sg_list[0] = (struct ibv_sge){.addr = addr, .length = length, .lkey = lkey};
	if (length > MESSAGE_MAX)
		b->err = EINVAL;
}

static void set_sge_list(struct ibv_qp_ex *qp, size_t n, const struct ibv_sge *sges)
{
	struct wr_builder *b = builder_with_wr(qp);
	uint64_t length = 0;

	if (!b)
		return;
	if (n > b->sges_max) {
		b->err = EINVAL;
		return;
	}
	b->last->num_sge = (int)n;
	for (size_t i = 0; i < n; i++) {
		b->last->sg_list[i] = sges[i];
		length += sges[i].length;
	}
	if (length > MESSAGE_MAX)
		b->err = EINVAL;
}

static void set_inline_list(struct ibv_qp_ex *qp, size_t n, const struct ibv_data_buf *bufs)
{
	struct wr_builder *b = builder_with_wr(qp);
	struct ibv_sge *sge;
	char *data;

	if (!b)
		return;
	sge = b->last->sg_list;
	data = (char *)(sge + b->sges_max);
	*sge = (struct ibv_sge){.addr = (uintptr_t)data};
	for (size_t i = 0; i < n && !b->err; i++) {
		if (bufs[i].length > b->inline_max - sge->length) {
			b->err = ENOMEM; /* as of mlx5 */
			return;
		}
		memcpy(data + sge->length, bufs[i].addr, bufs[i].length);
		sge->length += (uint32_t)bufs[i].length;
	}
	b->last->num_sge = 1;
	b->last->send_flags |= IBV_SEND_INLINE;
}

static void set_inline(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	const struct ibv_data_buf buf = {.addr = addr, .length = length};

	set_inline_list(qp, 1, &buf);
}

/* --- what RC, or the QP as it was created, does not have ---------------------------------------
 */

static void refuse_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
			   const struct ibv_mw_bind_info *info)
{
	(void)mw;
	(void)rkey;
	(void)info;
	refuse(qp, EOPNOTSUPP);
}

static void refuse_tso(struct ibv_qp_ex *qp, void *header, uint16_t bytes, uint16_t mss)
{
	(void)header;
	(void)bytes;
	(void)mss;
	refuse(qp, EOPNOTSUPP);
}

static void refuse_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	(void)ah;
	(void)qpn;
	(void)qkey;
	refuse(qp, EOPNOTSUPP);
}

static void refuse_xrc_srqn(struct ibv_qp_ex *qp, uint32_t srqn)
{
	(void)srqn;
	refuse(qp, EOPNOTSUPP);
}

/* --- the provider's wr_complete ----------------------------------------------------------------
 */

void wr_builder_keep(struct vqp *v)
{
	struct wr_builder *b = v->wr_builder;

	if (!b->qp || b->qp->wr_complete == complete)
		return;
	b->real.wr_complete = b->qp->wr_complete;
	b->qp->wr_complete = complete;
	b->rewrites = true;
}

enum { OPEN_MAX_S = 1 };

/* On a thread of ours, which brings the QP home. A batch that the program completed just when
 * wr_complete is the provider's would be lost, and the builder stay locked. So there is none then.
 * If one stays open for long, the QP cannot come home now. */
static int setup_begin(struct vqp *v)
{
	struct wr_builder *b = v->wr_builder;
	struct timespec until;

	if (!b->rewrites)
		return 0;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += OPEN_MAX_S;
	return pthread_mutex_timedlock(&b->lock, &until);
}

static void setup_end(struct vqp *v)
{
	struct wr_builder *b = v->wr_builder;
	bool locked = b->rewrites;

	wr_builder_keep(v);
	if (locked)
		pthread_mutex_unlock(&b->lock);
}

/* The pointers that every libibverbs with ibv_wr_* has. Of an older one the struct ends behind
 * them, and what would be written there is another member's. */
void wr_builder_take_over(struct vqp *v, struct ibv_qp_ex *qp)
{
	v->rail0_setup_begin = setup_begin;
	v->rail0_setup_end = setup_end;
	v->wr_builder->v = v;
	v->wr_builder->qp = qp;
	v->wr_builder->real = (struct builder_calls){
		.wr_start = qp->wr_start,
		.wr_complete = qp->wr_complete,
		.rdma_write = qp->wr_rdma_write,
		.rdma_write_imm = qp->wr_rdma_write_imm,
		.rdma_read = qp->wr_rdma_read,
		.send = qp->wr_send,
		.send_imm = qp->wr_send_imm,
		.send_inv = qp->wr_send_inv,
		.local_inv = qp->wr_local_inv,
		.cmp_swap = qp->wr_atomic_cmp_swp,
		.fetch_add = qp->wr_atomic_fetch_add,
		.sge = qp->wr_set_sge,
		.sge_list = qp->wr_set_sge_list,
		.inline_data = qp->wr_set_inline_data,
	};
	qp->wr_start = start;
	qp->wr_complete = complete;
	qp->wr_abort = give_up;
	qp->wr_rdma_write = build_rdma_write;
	qp->wr_rdma_write_imm = build_rdma_write_imm;
	qp->wr_rdma_read = build_rdma_read;
	qp->wr_send = build_send;
	qp->wr_send_imm = build_send_imm;
	qp->wr_send_inv = build_send_inv;
	qp->wr_local_inv = build_local_inv;
	qp->wr_atomic_cmp_swp = build_cmp_swap;
	qp->wr_atomic_fetch_add = build_fetch_add;
	qp->wr_set_sge = set_sge;
	qp->wr_set_sge_list = set_sge_list;
	qp->wr_set_inline_data = set_inline;
	qp->wr_set_inline_data_list = set_inline_list;
	qp->wr_bind_mw = refuse_bind_mw;
	qp->wr_send_tso = refuse_tso;
	qp->wr_set_ud_addr = refuse_ud_addr;
	qp->wr_set_xrc_srqn = refuse_xrc_srqn;
}
