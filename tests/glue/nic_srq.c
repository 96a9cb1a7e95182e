/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Shared receive queues of a NIC, and their verbs (doc/srq.md, section 1). Any QP of an SRQ takes a
 * receive when a message begins that needs one, and completes it when that ends. What becomes of
 * the receive of a message that was cut is a matter of the NIC: it is flushed, dropped, or dropped
 * and named by the first error of a later life.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/real_verbs.h"
#include "tests/glue/glue.h"

uint32_t srq_refusals;

static uint32_t srq_room(const struct fake_srq *s)
{
	/* Soft-RoCE frees a slot when a receive is taken, mlx5 when it completes. */
	return s->max - (s->posted - s->taken) - (s->nic->is_rxe ? 0 : s->held);
}

bool srq_is_empty(const struct fake_srq *s)
{
	return s->posted == s->taken;
}

/* Not in the order of posting: neither the specification nor mlx5 promises one. */
void srq_take(struct fake_qp *q)
{
	struct fake_srq *s = q->srq;
	uint32_t first = s->taken % s->max, i = first;

	if (s->any_order && one_in(4))
		i = (s->taken + rnd_below(s->posted - s->taken)) % s->max;
	q->rqe = s->rq[i];
	s->rq[i] = s->rq[first];
	s->taken++;
	s->held++;
	q->holds = true;
	pool_taken(q);
}

void srq_release(struct fake_qp *q)
{
	q->srq->held--;
	q->holds = false;
}

static void name_receive(struct fake_qp *q, const struct rqe *r)
{
	struct ibv_wc wc = {.wr_id = r->wr_id,
			    .status = IBV_WC_WR_FLUSH_ERR,
			    .opcode = one_in(2) ? IBV_WC_SEND : IBV_WC_RECV};

	pool_named(r);
	nic_completes(q->qp.recv_cq, q, &wc);
}

static void cut(struct fake_qp *q)
{
	tally->srq_cuts++;
	trace("%s: QP %#x is cut, it has receive %lx", q->nic->nic->name, q->qp.qp_num,
	      (unsigned long)q->rqe.wr_id);
	pool_cut(q);
	if (q->nic->cut_how == CUT_NAMED_LATE) {
		q->late = q->rqe;
		q->late_life = q->life;
		q->is_late = true;
	}
	srq_release(q);
}

/* An error: nothing is flushed but what the QP holds. */
void srq_flush(struct fake_qp *q)
{
	if (q->is_late && q->late_life != q->life) {
		tally->srq_named_late++;
		name_receive(q, &q->late);
		q->is_late = one_in(3); /* and again */
		q->late_life = q->life;
	}
	if (!q->holds)
		return;
	if (q->nic->cut_how == CUT_FLUSHED) {
		tally->srq_cuts++;
		name_receive(q, &q->rqe);
		srq_release(q);
	} else {
		cut(q);
	}
}

void srq_reset(struct fake_qp *q)
{
	if (q->holds)
		cut(q);
}

/* --- verbs ------------------------------------------------------------------------------------ */

int op_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_srq *s = (struct fake_srq *)srq;
	int err = 0;

	thread_step();
	for (; wr && !err; wr = err ? wr : wr->next) {
		struct rqe *r = &s->rq[s->posted % s->max];

		err = s->nic->broken && one_in(4) ? EIO : 0;
		if (!err && (!srq_room(s) || rnd_ppm(s->refuse_ppm)))
			err = ENOMEM;
		if (err) {
			*bad = wr;
			break;
		}
		r->wr_id = wr->wr_id;
		r->num_sge = (uint32_t)wr->num_sge;
		for (uint32_t i = 0; i < r->num_sge; i++)
			r->sge[i] = wr->sg_list[i];
		nic_check_keys(s->nic, r->sge, r->num_sge);
		s->posted++;
		trace("%s: SRQ %p gets receive %lx", s->nic->nic->name, (void *)s,
		      (unsigned long)r->wr_id);
	}
	srq_refusals += err != 0;
	tally->refused_posts += err != 0;
	thread_step();
	return err;
}

struct ibv_srq *real_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct fake_srq *s = calloc(1, sizeof(*s));

	verbs_ask(nic_of(pd->context), 20 * NS_US);
	s->nic = nic_of(pd->context);
	s->srq = (struct ibv_srq){.context = pd->context, .pd = pd};
	s->any_order = one_in(2);
	s->refuse_ppm = one_in(8) ? rnd_below(20000) : 0;
	s->max = attr->attr.max_wr;
	s->rq = calloc(s->max, sizeof(*s->rq));
	trace("%s: SRQ %p is made", s->nic->nic->name, (void *)s);
	verbs_made(1);
	return &s->srq;
}

int real_destroy_srq(struct ibv_srq *srq)
{
	struct fake_srq *s = (struct fake_srq *)srq;

	verbs_ask(s->nic, 20 * NS_US);
	if (s->qps)
		return EBUSY;
	trace("%s: SRQ %p is destroyed", s->nic->nic->name, (void *)s);
	free(s->rq);
	free(s);
	verbs_made(-1);
	return 0;
}

int real_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	(void)srq;
	(void)attr;
	(void)mask;
	return EOPNOTSUPP;
}

int __wrap_ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid);

/* A drainer asks for the first one, whatever that is. */
int __wrap_ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	(void)ctx;
	(void)port;
	(void)index;
	*gid = (union ibv_gid){.raw = {0xfe, 0x80}};
	return 0;
}
