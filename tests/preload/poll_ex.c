// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Polls by ibv_start_poll() in every way in which programs do: blocks, refuses, fields, failed,
 * nested, pollers, channel, lives, child, single, timestamps. Each must work as it does without
 * shift. STAY in the environment: `stays` has a QP on a CQ that tells what every CQ does, and one
 * on a CQ with timestamps, until a line or the end comes on standard input. The program does not
 * know of shift.
 */
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/preload/ex.h"

enum { BAD_RKEY = 0xbad }; /* nullverbs refuses it */

static struct ibv_cq *plain_cq; /* of rc_main() */
static struct ibv_comp_channel *channel;

static struct ibv_cq_ex *create_cq(uint64_t wc_flags, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 512,
					   .cq_context = &attr,
					   .channel = channel,
					   .wc_flags = wc_flags,
					   .comp_mask = flags ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0,
					   .flags = flags};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(ctx, &attr);

	expect(ex && ex->cq_context == &attr && ex->channel == channel, "create_cq_ex");
	return ex;
}

/* QPs are made on it from now on. */
static struct ibv_cq_ex *use_cq(uint64_t wc_flags, uint32_t flags)
{
	struct ibv_cq_ex *ex = create_cq(wc_flags, flags);

	if (!plain_cq)
		plain_cq = cq;
	cq = ibv_cq_ex_to_cq(ex);
	return ex;
}

static void end_cq(struct ibv_cq_ex *ex)
{
	expect(!ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), "destroy_cq");
	cq = plain_cq;
}

static int start_poll(struct ibv_cq_ex *ex)
{
	struct ibv_poll_cq_attr attr = {0};

	return ibv_start_poll(ex, &attr);
}

static void empty(struct ibv_cq_ex *ex)
{
	expect(start_poll(ex) == ENOENT, "an empty CQ");
}

/* --- blocks: of all lengths --------------------------------------------------------------------
 */

static void at_id(struct ibv_cq_ex *ex, uint64_t id)
{
	expect(ex->status == IBV_WC_SUCCESS, "a success");
	expect(ex->wr_id == id, "whose completion");
	expect(ibv_wc_read_opcode(ex) == IBV_WC_RDMA_WRITE, "what has completed");
}

/* n of them are there. As many as `most` in a block. */
static void poll_blocks(struct ibv_cq_ex *ex, uint64_t first, unsigned int n, unsigned int most)
{
	unsigned int i = 0;

	while (i < n) {
		unsigned int in_block = 1;

		expect(!start_poll(ex), "start_poll");
		at_id(ex, first + i++);
		while (in_block < most && i < n) {
			expect(!ibv_next_poll(ex), "next_poll");
			at_id(ex, first + i++);
			in_block++;
		}
		if (i == n && in_block < most)
			expect(ibv_next_poll(ex) == ENOENT, "no more");
		ibv_end_poll(ex);
	}
	empty(ex);
}

static void blocks(void)
{
	struct ibv_cq_ex *ex = use_cq(IBV_WC_STANDARD_FLAGS, 0);
	struct ibv_qp_ex *qp = connected();

	empty(ex);
	empty(ex);
	for (unsigned int round = 0; round < 20; round++)
		for (unsigned int n = 1; n <= DEPTH; n++) {
			expect(!try_batch(qp, n, n), "wr_complete");
			poll_blocks(ex, n, n, 1 + (n + round) % 8);
			expect(!try_batch(qp, n, n), "wr_complete"); /* and the other way */
			writes_complete(n, n / 2);
			poll_blocks(ex, n + n / 2, n - n / 2, DEPTH);
		}
	still_works(qp);
	end(qp);
	end_cq(ex);
}

/* --- refuses: what it does not know ------------------------------------------------------------
 */

static void refuses(void)
{
	struct ibv_cq_ex *ex = use_cq(0, 0);
	struct ibv_qp_ex *qp = connected();
	struct ibv_poll_cq_attr attr = {.comp_mask = 1};

	expect(ibv_start_poll(ex, &attr) == EINVAL, "a mask that is not known");
	empty(ex); /* it is not locked */
	expect(!try_batch(qp, 1, 2), "wr_complete");
	attr.comp_mask = 0x80000000;
	expect(ibv_start_poll(ex, &attr) == EINVAL, "a mask that is not known");
	poll_blocks(ex, 1, 2, 2);
	end(qp);
	end_cq(ex);
}

/* --- fields: of sends and receives -------------------------------------------------------------
 */

static void post_receive(struct ibv_qp_ex *qp, uint64_t id)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = id};

	expect(!ibv_post_recv(base(qp), &wr, &bad), "post_recv");
}

static void sent_by(struct ibv_cq_ex *ex, const struct ibv_qp_ex *qp, uint64_t id)
{
	expect(ex->wr_id == id && ex->status == IBV_WC_SUCCESS, "whose completion");
	expect(ibv_wc_read_opcode(ex) == IBV_WC_SEND, "that of a SEND");
	expect(ibv_wc_read_qp_num(ex) == qp->qp_base.qp_num, "the number of the QP");
	expect(ibv_wc_read_vendor_err(ex) == 0, "no vendor error");
	expect(ibv_wc_read_wc_flags(ex) == 0, "flags of a send");
}

static void received_by(struct ibv_cq_ex *ex, const struct ibv_qp_ex *qp, uint64_t id,
			unsigned int flags)
{
	expect(ex->wr_id == id && ex->status == IBV_WC_SUCCESS, "whose completion");
	expect(ibv_wc_read_opcode(ex) == IBV_WC_RECV, "that of a receive");
	expect(ibv_wc_read_qp_num(ex) == qp->qp_base.qp_num, "the number of the QP");
	expect(ibv_wc_read_wc_flags(ex) == flags, "flags of a receive");
	expect(ibv_wc_read_byte_len(ex) == 8, "the length");
	if (flags == IBV_WC_WITH_IMM)
		expect(ibv_wc_read_imm_data(ex) == id, "the immediate");
	if (flags == IBV_WC_WITH_INV)
		expect(ibv_wc_read_invalidated_rkey(ex) == id, "the key");
}

static void send_one(struct ibv_qp_ex *from, struct ibv_qp_ex *to, uint64_t id, int how)
{
	post_receive(to, id);
	ibv_wr_start(from);
	begin_wr(from, id + 1, IBV_SEND_SIGNALED);
	if (how == 0)
		ibv_wr_send(from);
	else if (how == 1)
		ibv_wr_send_imm(from, (__be32)id);
	else
		ibv_wr_send_inv(from, (uint32_t)id);
	ibv_wr_set_sge(from, mr->lkey, (uintptr_t)buffer, 8);
	expect(!ibv_wr_complete(from), "wr_complete");
}

static void fields(void)
{
	static const unsigned int flags[3] = {0, IBV_WC_WITH_IMM, IBV_WC_WITH_INV};
	struct ibv_cq_ex *ex = use_cq(IBV_WC_STANDARD_FLAGS, 0);
	struct ibv_qp_ex *a = create(), *b = create();

	connect_to(base(a), base(b)->qp_num);
	connect_to(base(b), base(a)->qp_num);
	for (uint64_t i = 2; i < 5000; i += 2) {
		send_one(a, b, i, (int)(i / 2 % 3));
		expect(!start_poll(ex), "start_poll");
		received_by(ex, b, i, flags[i / 2 % 3]);
		expect(!ibv_next_poll(ex), "next_poll");
		sent_by(ex, a, i + 1);
		ibv_end_poll(ex);
		empty(ex);
	}
	end(a);
	end(b);
	end_cq(ex);
}

/* --- failed: error completions -----------------------------------------------------------------
 */

static void failed(void)
{
	struct ibv_cq_ex *ex = use_cq(0, 0);

	for (int i = 0; i < 50; i++) {
		struct ibv_qp_ex *qp = connected();

		post_receive(qp, 100);
		ibv_wr_start(qp);
		build_write(qp, 1, IBV_SEND_SIGNALED);
		begin_wr(qp, 2, 0);
		ibv_wr_rdma_write(qp, BAD_RKEY, (uintptr_t)remote);
		build_write(qp, 3, 0);
		expect(!ibv_wr_complete(qp), "wr_complete");
		expect(!start_poll(ex), "start_poll");
		at_id(ex, 1);
		for (uint64_t id = 2; id <= 3; id++) {
			do {
				expect(!ibv_next_poll(ex), "next_poll");
			} while (ex->wr_id == 100);
			expect(ex->wr_id == id, "whose completion");
			expect(ex->status ==
				       (id == 2 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR),
			       "the error");
		}
		ibv_end_poll(ex);
		end(qp);
		empty(ex);
	}
	end_cq(ex);
}

/* --- nested: two CQs at a time, and posts in between -------------------------------------------
 */

static void nested(void)
{
	struct ibv_cq_ex *ex[2];
	struct ibv_qp_ex *qp[2];

	for (int i = 0; i < 2; i++) {
		ex[i] = use_cq(0, 0);
		qp[i] = connected();
	}
	for (uint64_t i = 0; i < 5000; i++) {
		for (int k = 0; k < 2; k++)
			expect(!try_batch(qp[k], 10 * i, 3), "wr_complete");
		expect(!start_poll(ex[0]), "start_poll");
		at_id(ex[0], 10 * i);
		expect(!start_poll(ex[1]), "start_poll of another");
		at_id(ex[1], 10 * i);
		at_id(ex[0], 10 * i);
		expect(!ibv_next_poll(ex[0]), "next_poll");
		at_id(ex[0], 10 * i + 1);
		at_id(ex[1], 10 * i);
		expect(!try_batch(qp[0], 10 * i + 3, 1), "wr_complete");
		if (i % 3 == 0)
			query_all();
		ibv_end_poll(ex[i % 2]);
		expect(!ibv_next_poll(ex[1 - i % 2]), "next_poll");
		at_id(ex[1 - i % 2], 10 * i + (i % 2 ? 2 : 1));
		ibv_end_poll(ex[1 - i % 2]);
		poll_blocks(ex[0], 10 * i + (i % 2 ? 3 : 2), i % 2 ? 1 : 2, 2);
		poll_blocks(ex[1], 10 * i + (i % 2 ? 1 : 2), i % 2 ? 2 : 1, 2);
	}
	for (int i = 0; i < 2; i++) {
		end(qp[i]);
		end_cq(ex[i]);
	}
}

/* --- pollers: threads that poll one CQ, in both ways -------------------------------------------
 */

enum { MESSAGES = 200000 };

static struct ibv_cq_ex *polled;
static _Atomic uint32_t sent, received;
static _Atomic bool over;

/* Message i goes into receive i, whichever thread gets the completion. */
static void message(uint64_t id, enum ibv_wc_opcode opcode, uint32_t imm)
{
	if (opcode == IBV_WC_RECV)
		expect(id == imm, "a message's own receive");
	else
		expect(opcode == IBV_WC_SEND, "that of a SEND");
	atomic_fetch_add(opcode == IBV_WC_RECV ? &received : &sent, 1);
}

static void message_ex(void)
{
	enum ibv_wc_opcode opcode = ibv_wc_read_opcode(polled);
	uint64_t id = polled->wr_id;

	expect(polled->status == IBV_WC_SUCCESS, "a success");
	if (id % 512 == 0)
		sched_yield(); /* what is read is this thread's until it ends */
	message(id, opcode, opcode == IBV_WC_RECV ? ibv_wc_read_imm_data(polled) : 0);
	expect(polled->wr_id == id, "the same completion");
}

static void *poller_ex(void *arg)
{
	(void)arg;
	while (!over) {
		if (start_poll(polled)) {
			sched_yield();
			continue;
		}
		do {
			message_ex();
		} while (!ibv_next_poll(polled));
		ibv_end_poll(polled);
	}
	return NULL;
}

static void *poller(void *arg)
{
	struct ibv_wc wc[4];

	(void)arg;
	while (!over) {
		int n = ibv_poll_cq(ibv_cq_ex_to_cq(polled), 4, wc);

		expect(n >= 0, "poll_cq");
		if (!n)
			sched_yield();
		for (int i = 0; i < n; i++)
			message(wc[i].wr_id, wc[i].opcode, wc[i].imm_data);
	}
	return NULL;
}

static void exchange(struct ibv_qp_ex *a, struct ibv_qp_ex *b)
{
	for (uint32_t i = 0; i < MESSAGES; i++) {
		while (i - sent >= DEPTH || i - received >= DEPTH)
			sched_yield();
		post_receive(b, i);
		ibv_wr_start(a);
		begin_wr(a, i, IBV_SEND_SIGNALED);
		ibv_wr_send_imm(a, i);
		expect(!ibv_wr_complete(a), "wr_complete");
	}
	while (sent < MESSAGES || received < MESSAGES)
		pause_us(100);
}

static void pollers(void)
{
	struct ibv_qp_ex *a, *b;
	pthread_t thread[3];

	polled = use_cq(IBV_WC_STANDARD_FLAGS, 0);
	a = create();
	b = create();
	connect_to(base(a), base(b)->qp_num);
	connect_to(base(b), base(a)->qp_num);
	for (int i = 0; i < 3; i++)
		thread[i] = start(i < 2 ? poller_ex : poller, NULL);
	exchange(a, b);
	over = true;
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	expect(sent == MESSAGES && received == MESSAGES, "each once");
	empty(polled);
	end(a);
	end(b);
	end_cq(polled);
}

/* --- channel -----------------------------------------------------------------------------------
 */

/* All that are there: with shift there may be one too many. */
static void wait_event(struct ibv_cq_ex *ex)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};
	struct ibv_cq *of;
	void *context;

	do {
		expect(!ibv_get_cq_event(channel, &of, &context), "get_cq_event");
		expect(of == ibv_cq_ex_to_cq(ex) && context == ex->cq_context, "whose event");
		ibv_ack_cq_events(of, 1);
	} while (poll(&p, 1, 0) == 1);
}

static void events_of(uint64_t wc_flags)
{
	struct ibv_qp_ex *qp;
	struct ibv_cq_ex *ex;

	channel = ibv_create_comp_channel(ctx);
	expect(channel != NULL, "create_comp_channel");
	ex = use_cq(wc_flags, 0);
	qp = connected();
	for (uint64_t i = 0; i < 5000; i++) {
		expect(!ibv_req_notify_cq(ibv_cq_ex_to_cq(ex), 0), "req_notify_cq");
		expect(!try_batch(qp, i, 1 + (unsigned int)i % 3), "wr_complete");
		wait_event(ex);
		poll_blocks(ex, i, 1 + (unsigned int)i % 3, 2);
	}
	end(qp);
	end_cq(ex);
	expect(!ibv_destroy_comp_channel(channel), "destroy_comp_channel");
	channel = NULL;
}

static void on_channel(void)
{
	events_of(0);
	events_of(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
}

/* --- lives, child ------------------------------------------------------------------------------
 */

static void live(struct ibv_cq_ex *ex)
{
	struct ibv_qp_ex *qp = connected();

	for (unsigned int n = 1; n <= 8; n++) {
		expect(!try_batch(qp, n, n), "wr_complete");
		poll_blocks(ex, n, n, 3);
	}
	expect(!try_batch(qp, 50, 8), "wr_complete");
	expect(!start_poll(ex), "start_poll");
	at_id(ex, 50);
	ibv_end_poll(ex);
	modify(base(qp), (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
	empty(ex); /* they end with the life */
	connect_to(base(qp), base(qp)->qp_num ^ 0x800000);
	expect(!try_batch(qp, 60, 8), "wr_complete");
	poll_blocks(ex, 60, 8, 3);
	expect(!try_batch(qp, 70, 8), "wr_complete");
	end(qp);
	empty(ex);
}

/* Also at addresses that were those of others. */
static void lives(void)
{
	for (int i = 0; i < 200; i++) {
		struct ibv_cq_ex *ex = use_cq(0, 0);
		struct ibv_cq *other;

		live(ex);
		end_cq(ex);
		other = ibv_create_cq(ctx, 64, NULL, NULL, 0);
		expect(other != NULL, "create_cq");
		cq = other;
		end(connected());
		expect(!ibv_destroy_cq(other), "destroy_cq");
		cq = plain_cq;
	}
}

static void child(void)
{
	struct ibv_cq_ex *ex = use_cq(0, 0), *own;
	int status = 1;
	pid_t pid;

	live(ex);
	pid = fork_unqueried();
	if (!pid) {
		alarm(30);
		live(ex);
		own = use_cq(0, 0);
		live(own);
		end_cq(own);
		_exit(0);
	}
	expect(waitpid(pid, &status, 0) == pid && !status, "the child");
	live(ex);
	end_cq(ex);
}

/* --- other CQs ---------------------------------------------------------------------------------
 */

static void single(void)
{
	struct ibv_cq_ex *ex = use_cq(0, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);

	live(ex);
	end_cq(ex);
}

static void timestamps(void)
{
	struct ibv_cq_ex *ex = use_cq(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, 0);
	struct ibv_qp_ex *qp = connected();
	uint64_t last = 0;

	live(ex);
	for (uint64_t i = 0; i < 100; i++) {
		expect(!try_batch(qp, i, 1), "wr_complete");
		expect(!start_poll(ex), "start_poll");
		at_id(ex, i);
		expect(ibv_wc_read_completion_ts(ex) > last, "a timestamp");
		last = ibv_wc_read_completion_ts(ex);
		ibv_end_poll(ex);
	}
	end(qp);
	end_cq(ex);
}

static void stays(void)
{
	struct ibv_cq_ex *known = use_cq(IBV_WC_STANDARD_FLAGS, 0), *other;
	struct ibv_qp_ex *a = connected(), *b;

	other = use_cq(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, 0);
	b = connected();
	if (getenv("STAY"))
		getchar();
	end(a);
	end(b);
	end_cq(known);
	end_cq(other);
}

int main(int argc, char **argv)
{
	static const struct use uses[] = {
		{"blocks", blocks}, {"refuses", refuses},	{"fields", fields},
		{"failed", failed}, {"nested", nested},		{"pollers", pollers},
		{"lives", lives},   {"channel", on_channel},	{"child", child},
		{"single", single}, {"timestamps", timestamps}, {"stays", stays}};

	return ex_main(argc, argv, uses, sizeof(uses) / sizeof(*uses));
}
