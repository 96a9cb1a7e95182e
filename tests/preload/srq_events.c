/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Asynchronous events of QPs on SRQs, on the null provider, to a program that sleeps in epoll on
 * its context's descriptor and reads one event when it is woken. Both ends are here, on two NICs;
 * each NIC is the other's backup. Usage: srq_events moved|home [polls]
 *
 * moved: the near QPs have left their NIC. polls: the program looks for events now and then.
 * Exit status: 0, 1 something failed, 2 bad usage.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "common/cli.h"
#include "lib/core/conn.h"
#include "tests/bench/ends.h"

enum {
	EXIT_USAGE = 2,
	PAIRS = 3,
	RECEIVES = 8,
	LIMIT = 4,
	COMES_MS = 5000,
	NONE_MS = 50,
	MOVES_MS = 10000
};

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	union ibv_gid gid;
	struct ibv_qp *qp[PAIRS];
};

static struct end near, far;
static int ep;
static bool polls;
static unsigned int received, posted, sent; /* by the near end */
static unsigned int fences, empty;

static void ensure(bool holds, const char *what)
{
	if (!holds)
		die(EXIT_FAILURE, "%s", what);
}

static void open_end(struct end *e, struct ibv_device *device)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = RECEIVES, .max_sge = 1}};

	e->ctx = ibv_open_device(device);
	must(e->ctx, "open_device");
	e->pd = ibv_alloc_pd(e->ctx);
	e->cq = ibv_create_cq(e->ctx, 64, NULL, NULL, 0);
	e->srq = ibv_create_srq(e->pd, &srq);
	must(e->cq && e->srq && !ibv_query_gid(e->ctx, 1, 1, &e->gid), "create_cq, create_srq");
	for (int i = 0; i < PAIRS; i++) {
		struct ibv_qp_init_attr attr = {.send_cq = e->cq,
						.recv_cq = e->cq,
						.srq = e->srq,
						.cap = {.max_send_wr = RECEIVES, .max_send_sge = 1},
						.sq_sig_all = 1,
						.qp_type = IBV_QPT_RC};

		e->qp[i] = ibv_create_qp(e->pd, &attr);
		must(e->qp[i], "create_qp");
	}
}

/* --- messages ----------------------------------------------------------------------------------
 */

static void post_receives(const struct end *e, int n)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = 7};

	while (n--)
		must(!ibv_post_srq_recv(e->srq, &wr, &bad), "post_srq_recv");
}

static void poll_end(const struct end *e)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(e->cq, 1, &wc) > 0) {
		ensure(wc.status == IBV_WC_SUCCESS, "no completion with an error");
		received += e == &near && wc.opcode == IBV_WC_RECV;
		sent += e == &near && wc.opcode == IBV_WC_SEND;
	}
}

/* From the far end to the near one, until all are received. */
static void messages(unsigned int n)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND};
	unsigned int until = received + n;

	for (unsigned int i = 0; i < n; i++)
		must(!ibv_post_send(far.qp[i % PAIRS], &wr, &bad), "post_send");
	while (received < until) {
		poll_end(&far);
		poll_end(&near);
	}
}

static bool have_moved(int within_ms)
{
	uint64_t end = now_us() + (uint64_t)within_ms * 1000;

	do {
		poll_end(&far);
		poll_end(&near);
		if (sent == posted && count_connections(SHIFT_ST_ACTIVE, 1, 0) == 2ul * PAIRS)
			return true;
	} while (now_us() < end);
	return false;
}

/* One that has no twin yet comes back on its own NIC. */
static void move(void)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND};
	void (*null_break_qp)(struct ibv_qp *);

	*(void **)&null_break_qp = dlsym(RTLD_DEFAULT, "null_break_qp");
	ensure(null_break_qp, "null_break_qp");
	do {
		fences += PAIRS;
		post_receives(&far, PAIRS);
		for (int i = 0; i < PAIRS; i++) {
			null_break_qp(near.qp[i]);
			must(!ibv_post_send(near.qp[i], &wr, &bad), "post_send");
			posted++;
		}
	} while (!have_moved(MOVES_MS));
}

/* --- events ------------------------------------------------------------------------------------
 */

/* The next event within that time; false: none. When the descriptor is readable there is one, or
 * the NIC has raised one for the fence of a QP that was moved; or, once, the last one was taken
 * just when the waker rang. */
static bool event_within(int ms, struct ibv_async_event *event)
{
	struct epoll_event ev;
	uint64_t end = now_us() + (uint64_t)ms * 1000;

	do {
		poll_end(&near);
		if (epoll_wait(ep, &ev, 1, 1) < 1 && !polls)
			continue;
		if (!ibv_get_async_event(near.ctx, event))
			return true;
		ensure(errno == EAGAIN && (polls || empty++ < fences + 1),
		       "an event where the descriptor is readable");
	} while (now_us() < end);
	return false;
}

static void expect_none(void)
{
	struct ibv_async_event e;

	ensure(!event_within(NONE_MS, &e), "no event");
}

static void expect_limit(void)
{
	struct ibv_async_event e;

	ensure(event_within(COMES_MS, &e), "an event of the limit");
	ensure(e.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && e.element.srq == near.srq,
	       "that of the limit");
	ibv_ack_async_event(&e);
}

static void limits(void)
{
	struct ibv_srq_attr attr = {.srq_limit = LIMIT};

	post_receives(&near, RECEIVES);
	for (int i = 0; i < 3; i++) {
		must(!ibv_modify_srq(near.srq, &attr, IBV_SRQ_LIMIT), "modify_srq");
		messages(RECEIVES - LIMIT);
		expect_none();
		messages(1);
		expect_limit();
		messages(1);
		expect_none();
		post_receives(&near, RECEIVES - LIMIT + 2);
	}
}

static void expect_last_wqes(void)
{
	struct ibv_async_event e;
	unsigned int seen = 0;

	for (int i = 0; i < PAIRS; i++) {
		ensure(event_within(COMES_MS, &e), "an event of each QP");
		ensure(e.event_type == IBV_EVENT_QP_LAST_WQE_REACHED, "LAST_WQE_REACHED");
		for (unsigned int k = 0; k < PAIRS; k++)
			seen |= (unsigned int)(e.element.qp == near.qp[k]) << k;
		ibv_ack_async_event(&e);
	}
	ensure(seen == (1u << PAIRS) - 1, "each QP once");
	expect_none();
}

static void to_err(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "ERR");
}

static void end_all(void)
{
	for (int i = 0; i < PAIRS; i++)
		to_err(near.qp[i]);
	expect_last_wqes();
	for (int i = 0; i < PAIRS; i++)
		must(!ibv_destroy_qp(near.qp[i]), "destroy_qp");
	must(!ibv_destroy_srq(near.srq), "destroy_srq");
	must(!ibv_destroy_cq(near.cq) && !ibv_dealloc_pd(near.pd), "destroy_cq, dealloc_pd");
	must(!ibv_close_device(near.ctx), "close_device");
}

static void watch(void)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int fd = near.ctx->async_fd;

	ep = epoll_create1(EPOLL_CLOEXEC);
	must(ep >= 0 && !fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) &&
		     !epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev),
	     "epoll");
}

int main(int argc, char **argv)
{
	struct ibv_device **list;

	cli_begin("srq_events", EXIT_FAILURE);
	if (argc < 2 || (strcmp(argv[1], "moved") != 0 && strcmp(argv[1], "home") != 0))
		die(EXIT_USAGE, "usage: srq_events moved|home [polls]");
	polls = argc > 2;
	alarm(120);
	list = ibv_get_device_list(NULL);
	must(list && list[0] && list[1], "two NICs");
	open_end(&near, list[0]);
	open_end(&far, list[1]);
	watch();
	for (int i = 0; i < PAIRS; i++) {
		connect_qp(near.qp[i], &far.gid, far.qp[i]->qp_num);
		connect_qp(far.qp[i], &near.gid, near.qp[i]->qp_num);
	}
	await_connections(2ul * PAIRS, SHIFT_ST_ACTIVE, 0, 0);
	await_twins();
	if (!strcmp(argv[1], "moved"))
		move();
	limits();
	end_all();
	puts("done");
	fflush(stdout);
	_exit(0);
}
