/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A QP of the program that is not protected, on an SRQ whose other QPs are: connected with itself,
 * on rail 0 always, destroyed and made anew with each life of the others. It keeps NIC 0 live for
 * good (doc/srq.md, S4), and what it receives bears the program's wr_ids all the same.
 */
#include <stdio.h>

#include "lib/verbs/qp.h"
#include "tests/glue/prog.h"

enum { SENDS_AT_ONCE = 4, BUFFERS = 16, BYTES = 256 };

static struct stray {
	struct side side; /* for the oracle of the SRQ; its pool: NULL: there is none */
	struct ibv_qp *qp;
	bool posting; /* a thread is at it */
	uint32_t qpn;
	int buffer[WRS_MAX]; /* in which each message lies */
	uint32_t bytes[WRS_MAX];
} strays[HOSTS];

static uint8_t *stray_bytes(unsigned int h, uint32_t seq)
{
	return memory[h].stray[seq % BUFFERS];
}

void stray_choose(unsigned int h, struct pool *p)
{
	strays[h].side.pool = p;
	strays[h].side.host = h;
	strays[h].side.pair = 9;
}

static void must_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int err = hook_modify_qp(qp, attr, mask);

	if (err)
		violation("a QP that is not protected: modify to %d fails with %d", attr->qp_state,
			  err);
}

void stray_make(unsigned int h, struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct stray *t = &strays[h];
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UC, .send_cq = cq, .recv_cq = cq};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .path_mtu = IBV_MTU_256,
				   .timeout = 14, /* longer than an RNR wait */
				   .retry_cnt = 7,
				   .rnr_retry = 7};

	if (!t->side.pool)
		return;
	init.srq = t->side.pool->srq;
	init.cap = (struct ibv_qp_cap){.max_send_wr = SENDS_AT_ONCE, .max_send_sge = 1};
	tally->srq_strays++;
	t->qp = hook_create_qp(pd, &init);
	t->qpn = attr.dest_qp_num = t->qp->qp_num;
	((struct fake_qp *)t->qp)->stray = true;
	must_modify(t->qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTR;
	must_modify(t->qp, &attr,
		    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
	attr.qp_state = IBV_QPS_RTS;
	must_modify(t->qp, &attr,
		    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY);
	t->side.total = 1 + rnd_below(20);
	t->side.posted = t->side.next_cqe = t->side.executed = t->side.received = 0;
	t->side.closing = t->side.closed = t->side.pool_over = false;
}

/* Its completions may come later still, as without us. */
void stray_destroy(unsigned int h)
{
	struct stray *t = &strays[h];
	int err;

	if (!t->qp)
		return;
	t->side.closing = true;
	err = hook_destroy_qp(t->qp);
	if (err)
		violation("a QP that is not protected: destroy_qp fails with %d", err);
	t->side.closed = true;
	t->qp = NULL;
	pool_side_over(&t->side, t->side.posted - t->side.received);
}

bool stray_is_done(unsigned int h)
{
	const struct side *s = &strays[h].side;

	return !strays[h].qp || (s->received == s->total && s->next_cqe == s->total);
}

bool stray_is_on(const struct pool *p)
{
	return strays[p->host].qp && strays[p->host].side.pool == p;
}

bool stray_may_be_probed(unsigned int h, const struct pool *p)
{
	return strays[h].qp && strays[h].side.pool == p && strays[h].side.total < WRS_MAX;
}

void stray_add_probe(unsigned int h)
{
	strays[h].side.total++;
}

void stray_post(unsigned int h)
{
	struct stray *t = &strays[h];
	struct side *s = &t->side;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_sge sge;
	uint32_t seq;

	if (t->qp && !s->closing) /* no other QP may be there to do it */
		pool_post(s->pool, s->pool->lkey);
	seq = s->posted;
	if (t->posting || !t->qp || s->closing || seq == s->total ||
	    seq - s->next_cqe == SENDS_AT_ONCE || !pool_has_credit(s) || !one_in(4))
		return;
	s->posted++;
	s->pool->promised++;
	t->bytes[seq] = 1 + rnd_below(BYTES);
	for (uint32_t i = 0; i < t->bytes[seq]; i++)
		stray_bytes(h, seq)[i] = pattern(h, s->pair, seq, i);
	sge = (struct ibv_sge){(uintptr_t)stray_bytes(h, seq), t->bytes[seq], s->pool->lkey};
	wr.wr_id = seq;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	t->posting = true;
	if (ibv_post_send(t->qp, &wr, &bad))
		violation("a QP that is not protected: a post fails");
	t->posting = false;
}

/* At the NIC. */
void stray_execute(const struct fake_qp *q)
{
	struct stray *t = &strays[q->nic->host];
	uint32_t seq = t->side.executed++;

	if (q->nic->rail)
		violation("a QP that is not protected is on rail %u", q->nic->rail);
	t->buffer[seq] = pool_landed(&t->side, q);
}

static void stray_receives(struct stray *t, const struct ibv_wc *wc)
{
	struct side *s = &t->side;
	uint32_t seq = s->received++;
	const uint8_t *at = pool_bytes(s, t->buffer[seq]);

	if (seq >= s->executed || wc->byte_len != t->bytes[seq])
		violation("%c: message %u of a QP that is not protected has %u bytes",
			  'a' + s->host, seq, wc->byte_len);
	if (s->closed) {
		pool_received_late(s, wc, t->buffer[seq]);
		return;
	}
	for (uint32_t i = 0; i < wc->byte_len; i++)
		if (at[i] != pattern(s->host, s->pair, seq, i))
			violation(
				"%c: message %u of a QP that is not protected is wrong at byte %u",
				'a' + s->host, seq, i);
	pool_received(s, wc, t->buffer[seq]);
}

/* false: it is a completion of another QP. */
bool stray_polled(unsigned int h, const struct ibv_wc *wc)
{
	struct stray *t = &strays[h];

	if (!t->side.pool || wc->qp_num != t->qpn)
		return false;
	trace("%c9: wr_id %lx, status %u, opcode %u", 'a' + h, (unsigned long)wc->wr_id, wc->status,
	      wc->opcode);
	if (wc->status && !t->side.closing)
		violation("%c: a QP that is not protected fails with %u", 'a' + h, wc->status);
	if (wc->status)
		return true;
	if (wc->opcode & IBV_WC_RECV)
		stray_receives(t, wc);
	else if (wc->wr_id != t->side.next_cqe++)
		violation("%c: send %lu of a QP that is not protected completes out of order",
			  'a' + h, (unsigned long)wc->wr_id);
	return true;
}

int stray_hang(char *text, size_t bytes)
{
	int n = 0;

	for (unsigned int h = 0; h < HOSTS; h++) {
		const struct side *s = &strays[h].side;

		if (strays[h].qp)
			n += snprintf(
				text + n, bytes - (size_t)n,
				"%c9: posted %u of %u, completed %u, executed %u, received %u; ",
				'a' + h, s->posted, s->total, s->next_cqe, s->executed,
				s->received);
	}
	return n;
}
