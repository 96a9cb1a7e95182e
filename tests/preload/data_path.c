// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Posts and polls in ways that meet a connection at an awkward moment: pollers, refused, long,
 * errors, lives or kept; each must work as it does without shift. The program does not know of
 * shift.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "tests/preload/rc.h"

static _Atomic bool over;

static void pause_us(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* Each query has a look at the connection, which turns the data path away for that moment. */
static void *querier(void *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	while (!over) {
		expect(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "query_qp");
		pause_us(1);
	}
	return NULL;
}

static pthread_t start(void *(*fn)(void *), void *arg)
{
	pthread_t thread;

	expect(!pthread_create(&thread, NULL, fn, arg), "pthread_create");
	return thread;
}

/* --- pollers: two threads on one CQ ---------------------------------------------------------- */

#define MESSAGES 200000u
#define WINDOW	 128u

static _Atomic uint32_t sent, received;

/* Message i goes into receive i, whichever thread gets the completion. */
static void *poller(void *arg)
{
	struct ibv_wc wc[16];

	(void)arg;
	while (!over) {
		int n = ibv_poll_cq(cq, 16, wc);

		expect(n >= 0, "poll_cq");
		for (int i = 0; i < n; i++) {
			expect(wc[i].status == IBV_WC_SUCCESS, "a completion");
			if (!(wc[i].opcode & IBV_WC_RECV)) {
				atomic_fetch_add(&sent, 1);
				continue;
			}
			expect(wc[i].wr_id == wc[i].imm_data, "a message's own receive");
			atomic_fetch_add(&received, 1);
		}
	}
	return NULL;
}

static void send_message(struct ibv_qp *from, struct ibv_qp *to, uint32_t i)
{
	struct ibv_recv_wr *bad_recv, recv = {.wr_id = i};
	struct ibv_send_wr *bad, wr = {.wr_id = i,
				       .opcode = IBV_WR_SEND_WITH_IMM,
				       .send_flags = IBV_SEND_SIGNALED,
				       .imm_data = i};

	expect(!ibv_post_recv(to, &recv, &bad_recv), "post_recv");
	expect(!ibv_post_send(from, &wr, &bad), "post_send");
}

static void pollers(void)
{
	struct ibv_qp *a = create_qp(pd, WINDOW), *b = create_qp(pd, WINDOW);
	pthread_t thread[3];

	connect_to(a, b->qp_num);
	connect_to(b, a->qp_num);
	thread[0] = start(poller, NULL);
	thread[1] = start(poller, NULL);
	thread[2] = start(querier, b);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		while (i - sent >= WINDOW || i - received >= WINDOW)
			sched_yield();
		send_message(a, b, i);
	}
	while (sent < MESSAGES || received < MESSAGES)
		pause_us(100);
	over = true;
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	destroy(a);
	destroy(b);
}

/* --- refused: by the provider ---------------------------------------------------------------- */

#define POSTS 100000

static int post_one(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 8, mr->lkey};
	struct ibv_send_wr *bad = NULL, wr = {.wr_id = id,
					      .sg_list = &sge,
					      .num_sge = 1,
					      .opcode = opcode,
					      .send_flags = IBV_SEND_SIGNALED};
	int err;

	wr.wr.rdma.remote_addr = (uintptr_t)buffer + 8;
	wr.wr.rdma.rkey = mr->rkey;
	err = ibv_post_send(qp, &wr, &bad);
	expect(!err || bad == &wr, "which was refused");
	return err;
}

/* It refuses WRs that it cannot do or has no room for; none of those completes. */
static void refused(void)
{
	struct ibv_qp *qp = create_qp(pd, 8);
	struct ibv_wc wc;
	pthread_t thread;

	connect_to(qp, qp->qp_num ^ 0x800000); /* somebody elsewhere */
	thread = start(querier, qp);
	for (uint64_t i = 0; i < POSTS; i += 8) {
		for (uint64_t j = i; j < i + 8; j++) {
			expect(post_one(qp, IBV_WR_SEND_WITH_INV, j) == EINVAL,
			       "an opcode is refused");
			expect(!post_one(qp, IBV_WR_RDMA_WRITE, j), "post_send");
		}
		expect(post_one(qp, IBV_WR_RDMA_WRITE, i) == ENOMEM, "a full queue");
		for (uint64_t j = i; j < i + 8; j++)
			expect(completion().wr_id == j, "whose completion");
		expect(!ibv_poll_cq(cq, 1, &wc), "no more completions");
	}
	over = true;
	pthread_join(thread, NULL);
	destroy(qp);
}

/* --- long: lists longer than the queue ------------------------------------------------------- */

#define DEPTH	64u
#define LIST	(5 * DEPTH)
#define LONGEST 0x80000000u /* the longest message; its bytes are not read here */

static struct ibv_send_wr list[LIST];
static struct ibv_sge sges[LIST];

/* WRITEs with wr_id first, first + 1, ...; how many were taken. */
static unsigned int post_list(struct ibv_qp *qp, uint64_t first, unsigned int n, uint32_t length,
			      unsigned int flags)
{
	struct ibv_send_wr *bad = NULL;
	int err;

	for (unsigned int i = 0; i < n; i++) {
		sges[i] = (struct ibv_sge){(uintptr_t)buffer, length, mr->lkey};
		list[i] = (struct ibv_send_wr){.wr_id = first + i,
					       .next = i + 1 < n ? &list[i + 1] : NULL,
					       .sg_list = &sges[i],
					       .num_sge = 1,
					       .opcode = IBV_WR_RDMA_WRITE,
					       .send_flags = flags};
	}
	err = ibv_post_send(qp, list, &bad);
	expect(!err || (err == ENOMEM && bad), "what does not fit");
	return err ? (unsigned int)(bad - list) : n;
}

static void complete(uint64_t first, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		expect(completion().wr_id == first + i, "whose completion");
}

/* Three messages of 2^21 packets without a signal: the next completions come from the log. */
static void look_into_the_log(struct ibv_qp *qp)
{
	expect(post_list(qp, 0, 3, LONGEST, 0) == 3, "unsignaled WRITEs");
}

static void long_lists(void)
{
	struct ibv_qp *qp = create_qp(pd, DEPTH);
	struct ibv_wc wc;

	connect_to(qp, qp->qp_num ^ 0x800000); /* somebody elsewhere */
	/* Here WRs without a completion make room at once. */
	expect(post_list(qp, 0, LIST, 8, 0) == LIST, "an unsignaled list");
	expect(post_list(qp, 1000, LIST, 8, IBV_SEND_SIGNALED) == DEPTH, "a long list");
	complete(1000, 4);
	expect(post_list(qp, 2000, LIST, 8, IBV_SEND_SIGNALED) == 4, "a long list");
	expect(post_list(qp, 3000, LIST, 8, IBV_SEND_SIGNALED) == 0, "a full queue");
	complete(1004, 3);
	look_into_the_log(qp);
	complete(1007, DEPTH - 7);
	complete(2000, 4);
	expect(!ibv_poll_cq(cq, 1, &wc), "no more completions");
	expect(post_list(qp, 4000, LIST, 8, IBV_SEND_SIGNALED) == DEPTH, "a long list");
	complete(4000, DEPTH);
	destroy(qp);
}

/* --- errors: on an unprotected connection ---------------------------------------------------- */

#define BAD_RKEY 0xbad /* nullverbs refuses it */

static struct ibv_wc of[200]; /* by wr_id; status -1: none yet */

static void forget_completions(void)
{
	for (unsigned int i = 0; i < 200; i++)
		of[i].status = (enum ibv_wc_status) - 1;
}

static void post_write(struct ibv_qp *qp, uint64_t id, uint32_t rkey, unsigned int flags)
{
	struct ibv_send_wr *bad,
		wr = {.wr_id = id, .opcode = IBV_WR_RDMA_WRITE, .send_flags = flags};

	wr.wr.rdma.rkey = rkey;
	expect(!ibv_post_send(qp, &wr, &bad), "post_send");
}

static void post_receive(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = id};

	expect(!ibv_post_recv(qp, &wr, &bad), "post_recv");
}

/* Takes all that come within 20 ms, and none a second time. */
static unsigned int take_completions(void)
{
	unsigned int n = 0;
	struct ibv_wc wc;

	for (int i = 0; i < 20; i++) {
		while (ibv_poll_cq(cq, 1, &wc) == 1) {
			expect(wc.wr_id < 200 && of[wc.wr_id].status == (enum ibv_wc_status) - 1,
			       "one completion each");
			of[wc.wr_id] = wc;
			n++;
		}
		pause_us(1000);
	}
	return n;
}

static bool flushed(uint64_t id)
{
	return of[id].status == IBV_WC_WR_FLUSH_ERR;
}

/* first_error: the WR at which it would end fails before. */
static void end_by_err(bool first_error)
{
	struct ibv_qp *qp = create_qp(pd, 8);

	forget_completions();
	connect_to(qp, qp->qp_num ^ 0x800000); /* somebody elsewhere */
	for (uint64_t i = 100; i < 103; i++)
		post_receive(qp, i);
	if (first_error) {
		post_write(qp, 0, BAD_RKEY, IBV_SEND_SIGNALED);
		post_write(qp, 1, 1, 0);
		post_write(qp, 2, 1, IBV_SEND_SIGNALED);
		expect(take_completions() == 6, "what flushes");
		expect(of[0].status == IBV_WC_REM_ACCESS_ERR, "the error");
		expect(flushed(1) && flushed(2), "flushed sends");
	}
	modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, 0);
	expect(qp->state == IBV_QPS_ERR, "the state");
	expect(take_completions() == (first_error ? 0 : 3), "what flushes");
	expect(flushed(100) && flushed(101) && flushed(102), "flushed receives");
	post_write(qp, 3, 1, 0);
	post_receive(qp, 103);
	expect(take_completions() == 2 && flushed(3) && flushed(103), "what is posted flushes");
	destroy(qp);
}

static void errors(void)
{
	end_by_err(true);
	end_by_err(false);
}

/* --- lives: what is left of one ends with it -------------------------------------------------- */

static void expect_none(const char *what)
{
	expect(take_completions() == 0, what);
}

/* A WRITE that fails, and what flushes behind it. */
static void fail_with_six(struct ibv_qp *qp)
{
	for (uint64_t i = 100; i < 103; i++)
		post_receive(qp, i);
	post_write(qp, 0, BAD_RKEY, IBV_SEND_SIGNALED);
	post_write(qp, 1, 1, IBV_SEND_SIGNALED);
	post_write(qp, 2, 1, IBV_SEND_SIGNALED);
}

static void write_and_complete(struct ibv_qp *qp, uint64_t id)
{
	post_write(qp, id, 1, IBV_SEND_SIGNALED);
	expect(completion().wr_id == id, "whose completion");
	expect_none("no more completions");
}

/* polled: so many of the six; then it is RESET and connected again, or destroyed. Another QP on the
 * same CQ has its completions nevertheless. */
static void end_life(struct ibv_qp *other, int polled, bool again)
{
	struct ibv_qp *qp = create_qp(pd, 8);

	forget_completions();
	connect_to(qp, qp->qp_num ^ 0x800000); /* somebody elsewhere */
	fail_with_six(qp);
	post_write(other, 50, 1, IBV_SEND_SIGNALED);
	for (int i = 0; i < polled; i++)
		expect(any_completion().qp_num == qp->qp_num, "whose completion");
	if (again) {
		modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
		connect_to(qp, qp->qp_num ^ 0x800000);
	} else {
		destroy(qp);
	}
	expect(take_completions() == 1 && of[50].status == IBV_WC_SUCCESS, "only the other QP's");
	if (!again)
		return;
	write_and_complete(qp, 60);
	destroy(qp);
}

/* It never came to RTR. */
static void end_before_rtr(bool again)
{
	struct ibv_qp *qp = create_qp(pd, 8);

	to_init(qp);
	for (uint64_t i = 100; i < 103; i++)
		post_receive(qp, i);
	modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, 0);
	expect(any_completion().wr_id == 100, "whose completion");
	if (again)
		modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
	else
		destroy(qp);
	expect_none("no more completions");
	if (again)
		destroy(qp);
}

/* Of no RC QP, but on the CQ of one whose error makes us poll ahead of the program. */
static void end_passed(bool again)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq,
					.recv_cq = cq,
					.cap = {.max_send_wr = 8, .max_recv_wr = 8},
					.qp_type = IBV_QPT_UC};
	struct ibv_qp *qp = create_qp(pd, 8), *uc = ibv_create_qp(pd, &attr);

	expect(uc != NULL, "create_qp of UC");
	connect_to(qp, qp->qp_num ^ 0x800000);
	to_init(uc);
	for (uint64_t i = 110; i < 113; i++)
		post_receive(uc, i);
	fail_with_six(qp);
	modify(uc, (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, 0);
	expect(any_completion().qp_num == qp->qp_num, "whose completion");
	if (again)
		modify(uc, (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
	else
		destroy(uc);
	forget_completions();
	expect(take_completions() == 5, "only those of the RC QP");
	for (uint64_t i = 110; i < 113; i++)
		expect(of[i].status == (enum ibv_wc_status) - 1, "none of the UC QP");
	if (again)
		destroy(uc);
	destroy(qp);
}

static void end_lives(struct ibv_qp *other)
{
	for (int polled = 0; polled <= 6; polled++) {
		end_life(other, polled, false);
		end_life(other, polled, true);
	}
	end_before_rtr(false);
	end_before_rtr(true);
}

static void several_lives(void)
{
	struct ibv_qp *other = create_qp(pd, 8);

	connect_to(other, other->qp_num ^ 0x800000);
	end_lives(other);
	end_passed(false);
	end_passed(true);
	destroy(other);
}

/* The same over a NIC whose driver takes nothing back; without shift all of it would come. */
static void kept_lives(void)
{
	struct ibv_qp *other = create_qp(pd, 8);

	connect_to(other, other->qp_num ^ 0x800000);
	end_lives(other);
	destroy(other);
}

int main(int argc, char **argv)
{
	static const struct use uses[] = {{"pollers", pollers},	    {"refused", refused},
					  {"long", long_lists},	    {"errors", errors},
					  {"lives", several_lives}, {"kept", kept_lives}};

	return rc_main(argc, argv, uses, sizeof(uses) / sizeof(*uses));
}
