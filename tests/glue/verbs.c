/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The verbs beneath the library: what `real` and the operations of contexts point to. Each takes
 * time, and other threads run meanwhile. If the NIC hangs, those of the control path do not return.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/real_verbs.h"
#include "tests/glue/glue.h"

struct real_verbs real;

static struct fake_mr *mrs;
static uint32_t next_key;
static unsigned int objects;
static uint32_t refuse_ppm;

unsigned int verbs_objects(void)
{
	return objects;
}

struct fake_nic *nic_of(const struct ibv_context *ctx)
{
	for (unsigned int h = 0; h < HOSTS; h++)
		for (unsigned int r = 0; r < rails; r++)
			if (ctx == &nics[h][r].program_ctx || ctx == &nics[h][r].library_ctx)
				return &nics[h][r];
	violation("a context that does not exist");
}

void verbs_made(int n)
{
	objects += (unsigned int)n;
}

/* A system call that asks the NIC. */
void verbs_ask(const struct fake_nic *n, uint64_t max_ns)
{
	thread_sleep(rnd() % max_ns);
	while (n->hung)
		thread_sleep(5 * NS_MS);
}

/* --- queue pairs ------------------------------------------------------------------------------ */

static struct ibv_qp *real_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_qp *q;

	verbs_ask(nic_of(pd->context), 50 * NS_US);
	q = nic_create_qp(pd, attr);
	q->program = pd->context == &q->nic->program_ctx;
	objects++;
	((struct fake_cq *)attr->send_cq)->qps++;
	((struct fake_cq *)attr->recv_cq)->qps++;
	if (q->srq)
		q->srq->qps++;
	trace("%s: QP %#x is made", q->nic->nic->name, q->qp.qp_num);
	return &q->qp;
}

static int real_destroy_qp(struct ibv_qp *qp)
{
	struct fake_qp *q = (struct fake_qp *)qp;

	verbs_ask(q->nic, 50 * NS_US);
	nic_destroy_qp(q);
	((struct fake_cq *)qp->send_cq)->qps--;
	((struct fake_cq *)qp->recv_cq)->qps--;
	if (q->srq)
		q->srq->qps--;
	trace("%s: QP %#x is destroyed", q->nic->nic->name, q->qp.qp_num);
	free(q->sq);
	free(q->rq);
	q->sq = NULL;
	q->rq = NULL;
	objects--;
	return 0;
}

/* RTR waits for a neighbour that does not answer. */
static int resolve(const struct fake_nic *n)
{
	const struct fake_nic *peer = &nics[!n->host][n->rail];

	if ((!n->cut && !peer->cut) || one_in(2))
		return 0;
	thread_sleep(rnd_range(100, 3000) * NS_MS);
	return n->cut || peer->cut ? ETIMEDOUT : 0;
}

static int real_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *q = (struct fake_qp *)qp;
	int err = 0;

	verbs_ask(q->nic, 100 * NS_US);
	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR &&
	    attr->dest_qp_num != qp->qp_num)
		err = resolve(q->nic);
	err = err ? err : nic_modify_qp(q, attr, mask);
	trace("%s: QP %#x: modify to %d: %d", q->nic->nic->name, qp->qp_num,
	      mask & IBV_QP_STATE ? (int)attr->qp_state : -1, err);
	verbs_ask(q->nic, 10 * NS_US);
	if (!err && (mask & IBV_QP_STATE))
		qp->state = attr->qp_state; /* what libibverbs does last */
	return err;
}

static int real_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			 struct ibv_qp_init_attr *init)
{
	struct fake_qp *q = (struct fake_qp *)qp;

	verbs_ask(q->nic, 60 * NS_US);
	memset(attr, 0, sizeof(*attr));
	*init = q->init;
	*attr = q->attr;
	attr->qp_state = attr->cur_qp_state = q->state;
	attr->rq_psn = (q->rx_psn + q->rx) & 0xffffff;
	thread_sleep(rnd_below(20 * NS_US)); /* the answer is of a moment ago */
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state; /* what libibverbs does last */
	return 0;
}

/* --- posts and polls -------------------------------------------------------------------------- */

static int refuses(const struct fake_nic *n, const struct fake_qp *q)
{
	if (q->stray)
		return 0;
	if (q->state ==
	    IBV_QPS_ERR) /* the fence's marker waits for room only if the queue is full */
		return 0;
	if (n->broken && !one_in(3))
		return EIO;
	return !is_self_connected(q) && rnd_ppm(refuse_ppm) ? ENOMEM : 0;
}

static int op_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *q = (struct fake_qp *)qp;
	bool is_last = false;
	int err = 0;

	thread_step();
	for (; wr; wr = wr->next) {
		is_last |= q->program && prog_is_last(qp, wr->wr_id);
		err = refuses(q->nic, q);
		if (err == EIO && one_in(2)) { /* queued, and the doorbell fails (V9) */
			for (; wr && !nic_post_send(q, wr); wr = wr->next)
				is_last |= q->program && prog_is_last(qp, wr->wr_id);
			*bad = wr;
			break;
		}
		err = err ? err : nic_post_send(q, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	tally->refused_posts += err != 0;
	prog_asked(qp, is_last, err);
	thread_step();
	return err;
}

static uint32_t length_of(const struct ibv_send_wr *wr)
{
	uint32_t n = 0;

	for (; wr; wr = wr->next)
		n++;
	return n;
}

int verbs_post_all(struct vqp *v, const struct ibv_send_wr *wr)
{
	struct fake_qp *q = (struct fake_qp *)v->qp;
	bool is_last = false, queued;
	int err;

	thread_step();
	err = refuses(q->nic, q);
	queued = !err || (err == EIO && q->nic->is_rxe); /* then its doorbell fails */
	if (queued && nic_send_room(q) < length_of(wr)) {
		err = ENOMEM;
		queued = false;
	}
	if (err == ENOMEM && q->nic->is_rxe)
		err = ENOSPC; /* check_qp_queue_full() of its rxe.c */
	if (err == EIO && queued && one_in(2))
		err = ENOMEM; /* the kernel's, of its doorbell */
	for (; wr; wr = wr->next) {
		is_last |= prog_is_last(v->qp, wr->wr_id);
		if (queued && nic_post_send(q, wr))
			err = EINVAL; /* of its first: the QP is in the wrong state */
	}
	tally->refused_posts += err != 0;
	prog_asked(v->qp, is_last, err);
	thread_step();
	return err;
}

static int op_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *q = (struct fake_qp *)qp;
	int err = 0;

	thread_step();
	for (; wr && !err; wr = err ? wr : wr->next) {
		err = q->nic->broken && q->state != IBV_QPS_ERR && one_in(4) ? EIO
									     : nic_post_recv(q, wr);
		if (err)
			*bad = wr;
	}
	tally->refused_posts += err != 0;
	prog_asked(qp, true, err);
	thread_step();
	return err;
}

static int op_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got;

	thread_step();
	got = nic_poll((struct fake_cq *)cq, n, wc);
	thread_step();
	return got;
}

/* --- channels --------------------------------------------------------------------------------- */

static struct fake_cq *on_channels;

/* Nobody polls its descriptor: the program asks for events now and then. */
static struct ibv_comp_channel *real_create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));

	verbs_ask(nic_of(ctx), 20 * NS_US);
	channel->context = ctx;
	channel->fd = eventfd(0, EFD_CLOEXEC);
	objects++;
	return channel;
}

static int real_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (channel->refcnt)
		return EBUSY;
	close(channel->fd);
	free(channel);
	objects--;
	return 0;
}

static int real_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	for (struct fake_cq *c = on_channels; c; c = c->next) {
		if (c->channel != channel || !c->event_at || c->event_at > now)
			continue;
		c->event_at = 0;
		c->reported++;
		*cq = &c->cq;
		*context = c->cq.cq_context;
		return 0;
	}
	errno = EAGAIN;
	return -1;
}

static void real_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	cq->comp_events_completed += n;
}

static int op_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)solicited_only;
	thread_step();
	nic_notify((struct fake_cq *)cq);
	thread_step();
	return 0;
}

static void leave_channel(struct fake_cq *c)
{
	struct fake_cq **at = &on_channels;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->cq.channel->refcnt--;
}

/* --- CQs -------------------------------------------------------------------------------------- */

static struct ibv_cq *real_create_cq(struct ibv_context *ctx, int cqe, void *context,
				     struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *c = calloc(1, sizeof(*c));

	(void)vector;
	verbs_ask(nic_of(ctx), 20 * NS_US);
	c->nic = nic_of(ctx);
	c->cq.cq_context = context;
	c->cq.channel = channel;
	c->channel = channel;
	if (channel) {
		channel->refcnt++;
		c->next = on_channels;
		on_channels = c;
	}
	c->cq.context = ctx;
	c->cq.cqe = cqe;
	c->size = 4096; /* a power of two, as the indexes wrap */
	trace("%s: CQ %p is made", c->nic->nic->name, (void *)c);
	c->entry = calloc(c->size, sizeof(*c->entry));
	objects++;
	return &c->cq;
}

static int real_resize_cq(struct ibv_cq *cq, int cqe)
{
	verbs_ask(nic_of(cq->context), 20 * NS_US);
	cq->cqe = cqe;
	return 0;
}

static int real_destroy_cq(struct ibv_cq *cq)
{
	struct fake_cq *c = (struct fake_cq *)cq;

	verbs_ask(c->nic, 20 * NS_US);
	if (c->qps)
		return EBUSY;
	if (c->reported != cq->comp_events_completed)
		violation("destroy_cq waits for ever: %u events, %u acknowledged", c->reported,
			  cq->comp_events_completed);
	if (c->channel)
		leave_channel(c);
	trace("%s: CQ %p is destroyed", c->nic->nic->name, (void *)c);
	free(c->entry);
	free(c);
	objects--;
	return 0;
}

/* --- memory ----------------------------------------------------------------------------------- */

struct fake_mr *mr_find(const struct fake_nic *n, uint32_t key, uint64_t addr, uint64_t bytes)
{
	for (struct fake_mr *m = mrs; m; m = m->next)
		if (m->nic == n && m->mr.lkey == key && addr >= (uintptr_t)m->mr.addr &&
		    addr + bytes <= (uintptr_t)m->mr.addr + m->mr.length)
			return m;
	return NULL;
}

static struct ibv_pd *real_alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	verbs_ask(nic_of(ctx), 20 * NS_US);
	pd->context = ctx;
	trace("%s: PD %p is made", nic_of(ctx)->nic->name, (void *)pd);
	objects++;
	return pd;
}

static int real_dealloc_pd(struct ibv_pd *pd)
{
	verbs_ask(nic_of(pd->context), 20 * NS_US);
	trace("%s: PD %p is destroyed", nic_of(pd->context)->nic->name, (void *)pd);
	free(pd);
	objects--;
	return 0;
}

static uint32_t free_keys[16];
static unsigned int frees;

/* A key of the program may be given to it again. All other keys are used once, not even by two
 * NICs: what asks with a wrong one is found. */
static uint32_t make_key(bool program)
{
	if (program && frees && one_in(2))
		return free_keys[--frees];
	return next_key += 0x101;
}

static struct ibv_mr *real_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct fake_mr *m = calloc(1, sizeof(*m));

	(void)access;
	/* It hangs with no NIC: a peer that asks for a key may make the background thread wait for
	 * a registration (doc/architecture.md, Threads), and here that is the thread of both hosts.
	 */
	thread_sleep(rnd_below(200 * NS_US));
	m->nic = nic_of(pd->context);
	m->mr = (struct ibv_mr){.context = pd->context,
				.pd = pd,
				.addr = addr,
				.length = length,
				.lkey = make_key(pd->context == &m->nic->program_ctx)};
	m->mr.rkey = m->mr.lkey;
	trace("%s: MR %#x is made", m->nic->nic->name, m->mr.lkey);
	m->next = mrs;
	mrs = m;
	objects++;
	return &m->mr;
}

static int real_dereg_mr(struct ibv_mr *mr)
{
	struct fake_mr **p = &mrs, *m = (struct fake_mr *)mr;

	verbs_ask(m->nic, 50 * NS_US);
	while (*p != m)
		p = &(*p)->next;
	*p = m->next;
	if (mr->context == &m->nic->program_ctx && frees < 16)
		free_keys[frees++] = mr->lkey;
	trace("%s: MR %#x is destroyed", m->nic->nic->name, m->mr.lkey);
	free(m);
	objects--;
	return 0;
}

/* --- contexts --------------------------------------------------------------------------------- */

static void gid_of(const struct fake_nic *n, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	gid->raw[12] = 10;
	gid->raw[14] = (uint8_t)n->rail;
	gid->raw[15] = (uint8_t)(1 + n->host);
}

static int real_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	const struct fake_nic *n = nic_of(ctx);

	(void)port;
	if (index != (int)n->rail) /* not the same on all NICs */
		return -1;
	gid_of(n, gid);
	return 0;
}

int __wrap_nic_gid_find(const struct nic *nic, const struct nic_gid *gid, int hint);

int __wrap_nic_gid_find(const struct nic *nic, const struct nic_gid *gid, int hint)
{
	const struct fake_nic *n = nic_of(nic->ctx);
	union ibv_gid have;

	(void)hint;
	gid_of(n, &have);
	return memcmp(&have, &gid->value, sizeof(have)) ? -EADDRNOTAVAIL : (int)n->rail;
}

static void context_setup(struct fake_nic *n, struct ibv_context *ctx)
{
	ctx->device = &n->device;
	ctx->async_fd = -1;
	ctx->ops.post_send = op_post_send;
	ctx->ops.post_recv = op_post_recv;
	ctx->ops.post_srq_recv = op_post_srq_recv;
	ctx->ops.poll_cq = op_poll_cq;
	ctx->ops.req_notify_cq = op_req_notify_cq;
}

void verbs_setup(void)
{
	next_key = 0x1000 + rnd_below(0x100000);
	refuse_ppm = one_in(3) ? rnd_below(100000) : 0;
	real = (struct real_verbs){
		.create_qp = real_create_qp,
		.destroy_qp = real_destroy_qp,
		.modify_qp = real_modify_qp,
		.query_qp = real_query_qp,
		.create_comp_channel = real_create_comp_channel,
		.destroy_comp_channel = real_destroy_comp_channel,
		.get_cq_event = real_get_cq_event,
		.ack_cq_events = real_ack_cq_events,
		.create_srq = real_create_srq,
		.modify_srq = real_modify_srq,
		.destroy_srq = real_destroy_srq,
		.create_cq = real_create_cq,
		.resize_cq = real_resize_cq,
		.destroy_cq = real_destroy_cq,
		.alloc_pd = real_alloc_pd,
		.dealloc_pd = real_dealloc_pd,
		.reg_mr = real_reg_mr,
		.dereg_mr = real_dereg_mr,
		.query_gid = real_query_gid,
	};
	for (unsigned int h = 0; h < HOSTS; h++)
		for (unsigned int r = 0; r < rails; r++) {
			context_setup(&nics[h][r], &nics[h][r].program_ctx);
			context_setup(&nics[h][r], &nics[h][r].library_ctx);
		}
}
