/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/clients/rc_device.h"
#include "tests/clients/srq_lab.h"

const struct path usual = {.retry = 7, .rnr_retry = 7, .min_rnr_timer = 12};
const struct path at_once = {.retry = 3, .rnr_retry = 0, .min_rnr_timer = 12};
bool busy;

_Noreturn void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

void fact(int question, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("{\"question\": %d, ", question);
	vprintf(fmt, ap);
	printf("}\n");
	fflush(stdout);
	va_end(ap);
}

double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

void pause_ms(int ms)
{
	if (ms > 0)
		poll(NULL, 0, ms);
}

/* ---- NICs ---------------------------------------------------------------------------------- */

void find_gids(struct nic *n)
{
	union ibv_gid g;

	n->gid_index[LINK_LOCAL] = n->gid_index[IPV4] = -1;
	for (int i = 15; i >= 0; i--) {
		enum kind k = LINK_LOCAL;

		if (ibv_query_gid(n->context, 1, i, &g) || !(g.raw[0] | g.raw[10] | g.raw[15]))
			continue;
		if (g.raw[10] == 0xff && g.raw[11] == 0xff && !g.raw[0])
			k = IPV4;
		n->gid_index[k] = i;
		n->gid[k] = g;
	}
}

void open_nic(struct nic *n, const char *name, const char *netdev)
{
	n->name = name;
	n->netdev = netdev;
	n->context = rc_device_open(name);
	n->memory = calloc(SLOTS, SLOT_BYTES);
	n->pd = n->context ? ibv_alloc_pd(n->context) : NULL;
	n->mr = n->pd ? ibv_reg_mr(n->pd, n->memory, SLOTS * SLOT_BYTES,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
		      : NULL;
	if (!n->mr)
		fail(name);
	fcntl(n->context->async_fd, F_SETFL, fcntl(n->context->async_fd, F_GETFL) | O_NONBLOCK);
	find_gids(n);
}

struct events events_within(struct nic *n, int wait_ms)
{
	struct events e = {0};
	double start = now_us();
	struct pollfd fd = {.fd = n->context->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	for (int left = wait_ms; left >= 0; left = wait_ms - (int)((now_us() - start) / 1e3)) {
		if (poll(&fd, 1, left) <= 0)
			break;
		if (ibv_get_async_event(n->context, &ev))
			continue;
		if (!e.last_wqe && !e.limit && !e.other)
			e.first_us = now_us() - start;
		if (ev.event_type == IBV_EVENT_QP_LAST_WQE_REACHED)
			e.last_wqe++;
		else if (ev.event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
			e.limit++;
		else
			e.other++;
		ibv_ack_async_event(&ev);
	}
	return e;
}

/* ---- SRQs ---------------------------------------------------------------------------------- */

struct ibv_srq *make_srq(struct nic *n, int max_wr, int limit)
{
	struct ibv_srq_init_attr attr = {
		.attr = {.max_wr = max_wr, .max_sge = 2, .srq_limit = limit}};
	struct ibv_srq *s = ibv_create_srq(n->pd, &attr);

	if (!s)
		fail("create_srq");
	return s;
}

char *slot_of(struct nic *n, uint64_t id)
{
	return n->memory + id % SLOTS * SLOT_BYTES;
}

int post_receive(struct nic *n, struct ibv_srq *s, uint64_t id, int sges, uint32_t lkey)
{
	struct ibv_sge sge[4];
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = sge, .num_sge = sges};

	for (int i = 0; i < 4; i++)
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)slot_of(n, id) + i * SLOT_BYTES / 4,
					  .length = sges > 1 ? SLOT_BYTES / 4 : SLOT_BYTES,
					  .lkey = lkey};
	return ibv_post_srq_recv(s, &wr, &bad);
}

int fill(struct nic *n, struct ibv_srq *s, uint64_t first, int count)
{
	for (int i = 0; i < count; i++)
		if (post_receive(n, s, first + i, 1, n->mr->lkey))
			return i;
	return count;
}

void post_receives(struct nic *n, struct ibv_qp *qp, uint64_t first, int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_sge sge = {.addr = (uintptr_t)slot_of(n, first + i),
				      .length = SLOT_BYTES,
				      .lkey = n->mr->lkey};
		struct ibv_recv_wr *bad, wr = {.wr_id = first + i, .sg_list = &sge, .num_sge = 1};

		if (ibv_post_recv(qp, &wr, &bad))
			fail("post_recv");
	}
}

/* ---- QPs ----------------------------------------------------------------------------------- */

struct ibv_cq *make_cq(struct nic *n)
{
	struct ibv_cq *cq = ibv_create_cq(n->context, CQ_DEPTH, NULL, NULL, 0);

	if (!cq)
		fail("create_cq");
	return cq;
}

struct ibv_qp *make_qp(struct nic *n, struct ibv_srq *s, struct ibv_cq *send_cq,
		       struct ibv_cq *recv_cq)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.srq = s,
					.send_cq = send_cq,
					.recv_cq = recv_cq,
					.cap = {.max_send_wr = 1024,
						.max_recv_wr = s ? 0 : 1024,
						.max_send_sge = 2,
						.max_recv_sge = s ? 0 : 1}};
	struct ibv_qp *qp = ibv_create_qp(n->pd, &attr);

	if (!qp)
		fail("create_qp");
	return qp;
}

struct end make_end(struct nic *n, struct ibv_srq *s)
{
	struct end e = {.nic = n, .send_cq = make_cq(n), .recv_cq = make_cq(n)};

	e.qp = make_qp(n, s, e.send_cq, e.recv_cq);
	return e;
}

void drop_qp(struct end *e)
{
	if (e->qp && ibv_destroy_qp(e->qp))
		fail("destroy_qp");
	e->qp = NULL;
}

void drop_end(struct end *e)
{
	drop_qp(e);
	ibv_destroy_cq(e->send_cq);
	ibv_destroy_cq(e->recv_cq);
}

int to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state};

	return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	return ibv_modify_qp(qp, &init,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct end *e, const struct end *peer, uint32_t psn, const struct path *p)
{
	struct ibv_qp_attr rtr = {.path_mtu = IBV_MTU_1024,
				  .dest_qp_num = peer->qp->qp_num,
				  .rq_psn = psn,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = p->min_rnr_timer,
				  .ah_attr = {.is_global = 1,
					      .port_num = 1,
					      .grh = {.dgid = peer->nic->gid[p->kind],
						      .sgid_index = e->nic->gid_index[p->kind],
						      .hop_limit = 64}}};

	return rc_device_rtr(e->qp, &rtr);
}

int connect_end(struct end *e, const struct end *peer, uint32_t psn, const struct path *p,
		const char **at)
{
	struct ibv_qp_attr rts = {.sq_psn = psn,
				  .timeout = 14,
				  .retry_cnt = p->retry,
				  .rnr_retry = p->rnr_retry,
				  .max_rd_atomic = 1};
	int err;

	*at = "INIT";
	err = to_init(e->qp);
	if (err)
		return err;
	*at = "RTR";
	err = to_rtr(e, peer, psn, p);
	if (err)
		return err;
	*at = "RTS";
	return rc_device_rts(e->qp, &rts);
}

uint32_t next_psn(void)
{
	static uint32_t psn = 1000;

	return psn += 5000;
}

uint32_t connect_ends(struct end *a, struct end *b, const struct path *p)
{
	uint32_t psn = next_psn();
	const char *at;

	if (connect_end(a, b, psn, p, &at) || (a != b && connect_end(b, a, psn, p, &at)))
		fail(at);
	return psn;
}

const char *state_of(const struct end *e)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	if (ibv_query_qp(e->qp, &a, IBV_QP_STATE, &init))
		fail("query_qp");
	return a.qp_state < 7 ? names[a.qp_state] : "UNKNOWN";
}

uint32_t rq_psn_of(const struct end *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	if (ibv_query_qp(e->qp, &a, IBV_QP_RQ_PSN, &init))
		fail("query_qp");
	return a.rq_psn;
}

/* ---- work and completions ------------------------------------------------------------------ */

int send_nothing(struct end *e, int count)
{
	struct ibv_send_wr *bad, wr[1024];

	memset(wr, 0, count * sizeof(*wr));
	for (int i = 0; i < count; i++) {
		wr[i].wr_id = i;
		wr[i].opcode = IBV_WR_SEND;
		wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
		wr[i].send_flags = i + 1 < count ? 0 : IBV_SEND_SIGNALED;
	}
	return ibv_post_send(e->qp, wr, &bad);
}

int send_bytes(struct end *e, char *from, uint32_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)from, .length = bytes, .lkey = e->nic->mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};

	return ibv_post_send(e->qp, &wr, &bad);
}

static int write_to(struct end *e, uint64_t addr, uint32_t rkey, uint32_t bytes,
		    enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)e->nic->memory, .length = bytes, .lkey = e->nic->mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = opcode,
				       .send_flags = IBV_SEND_SIGNALED,
				       .wr.rdma = {.remote_addr = addr, .rkey = rkey}};

	return ibv_post_send(e->qp, &wr, &bad);
}

int write_imm(struct end *e, const struct nic *to, uint32_t bytes)
{
	return write_to(e, (uintptr_t)to->memory, to->mr->rkey, bytes, IBV_WR_RDMA_WRITE_WITH_IMM);
}

int write_wrongly(struct end *e)
{
	return write_to(e, 64, BAD_KEY, 8, IBV_WR_RDMA_WRITE);
}

int take(struct ibv_cq *cq, struct ibv_wc *wc, int max, int wait_ms)
{
	double end = now_us() + wait_ms * 1e3;
	int n = 0, got;

	do {
		got = ibv_poll_cq(cq, max - n, wc + n);
		if (got < 0)
			fail("poll_cq");
		n += got;
		if (!got && !busy)
			sched_yield();
	} while (n < max && now_us() < end);
	return n;
}

void drain(struct end *e, int count, int wait_ms, struct drained *d)
{
	static struct ibv_wc wc[CQ_DEPTH];
	double start = now_us();
	int n;

	d->count = d->wrong = 0;
	d->status = -1;
	if (send_nothing(e, count))
		fail("post_send");
	if (take(e->send_cq, wc, 1, wait_ms))
		d->status = wc[0].status;
	d->us = now_us() - start;
	/* Where the send is done, its receive is there, too; flushed sends are behind. */
	n = take(e->recv_cq, wc, count, d->status == IBV_WC_SUCCESS ? wait_ms : 20);
	for (int i = 0; i < n; i++) {
		if (wc[i].status || wc[i].byte_len || wc[i].qp_num != e->qp->qp_num)
			d->wrong++;
		d->id[d->count++] = wc[i].wr_id;
	}
	while (ibv_poll_cq(e->send_cq, CQ_DEPTH, wc) > 0)
		;
}

void drain_all(struct nic *n, struct ibv_srq *s, struct drained *all)
{
	struct end e = make_end(n, s);
	struct drained one;

	*all = (struct drained){.status = -1};
	connect_ends(&e, &e, &at_once);
	do {
		drain(&e, 1, 2000, &one);
		all->status = one.status;
		all->wrong += one.wrong;
		if (one.count)
			all->id[all->count++] = one.id[0];
	} while (one.count && all->count < MAX_IDS);
	drop_end(&e);
	events_within(n, 0);
}

bool in_order(const struct drained *d, uint64_t first)
{
	for (int i = 0; i < d->count; i++)
		if (d->id[i] != first + i)
			return false;
	return true;
}

void drop_srq(struct ibv_srq *s)
{
	if (ibv_destroy_srq(s))
		fail("destroy_srq");
}
