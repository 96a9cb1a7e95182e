// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Several threads post to one QP by ibv_wr_*, a fourth polls: threads, mixed (some of them by
 * ibv_post_send()), crowded (more than there is room for). Each must work as it does without shift:
 * nothing is lost, doubled or out of order, and a batch stays together. `moved` needs shift: READs
 * through a QP that is connected with itself, and breaks now and then. The program does not know of
 * shift.
 */
#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/preload/ex.h"

enum { WRS = 200000, THREADS = 3, MOST = DEPTH / THREADS };

static struct {
	_Atomic uint32_t posted, completed;
} thread_of[THREADS];

static struct ibv_qp_ex *shared;
static bool some_plain, crowded;

static void post_list(struct ibv_qp *qp, uint64_t first, unsigned int n)
{
	struct ibv_send_wr *bad, wr[DEPTH];
	struct ibv_sge sge = {(uintptr_t)buffer, 8, mr->lkey};

	for (unsigned int i = 0; i < n; i++) {
		wr[i] = (struct ibv_send_wr){.wr_id = first + i,
					     .next = i + 1 < n ? &wr[i + 1] : NULL,
					     .sg_list = &sge,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_WRITE,
					     .send_flags = IBV_SEND_SIGNALED};
		wr[i].wr.rdma.remote_addr = (uintptr_t)remote;
		wr[i].wr.rdma.rkey = remote_key;
	}
	expect(!ibv_post_send(qp, wr, &bad), "post_send");
}

/* wr_id: the length of its batch, its thread, and which it is. */
static bool post_some(uint64_t me, unsigned int n)
{
	uint64_t first = (uint64_t)n << 48 | me << 32 | thread_of[me].posted;
	int err;

	if (some_plain && (me == 1 || (me == 2 && n % 2))) {
		post_list(base(shared), first, n);
		return true;
	}
	err = try_batch(shared, first, n);
	expect(!err || (crowded && err == ENOMEM), "wr_complete");
	return !err;
}

static void *poster(void *arg)
{
	uint64_t me = (uintptr_t)arg;
	unsigned int seed = (unsigned int)me + 1;
	uint32_t sent = 0;

	while (sent < WRS) {
		unsigned int n = (unsigned int)rand_r(&seed) % (crowded ? DEPTH : MOST) + 1;

		if (n > WRS - sent)
			n = WRS - sent;
		while (!crowded && sent + n - thread_of[me].completed > MOST)
			sched_yield();
		if (!post_some(me, n)) {
			sched_yield();
			continue;
		}
		sent += n;
		thread_of[me].posted = sent;
	}
	return NULL;
}

struct sequence {
	uint64_t batch; /* the upper part of its wr_ids */
	uint32_t left;
};

static void completed(struct sequence *s, const struct ibv_wc *wc)
{
	uint64_t thread = wc->wr_id >> 32 & 0xffff;

	expect(wc->status == IBV_WC_SUCCESS, "a success");
	if (!s->left) {
		s->batch = wc->wr_id >> 32;
		s->left = (uint32_t)(s->batch >> 16);
	}
	s->left--;
	expect(wc->wr_id >> 32 == s->batch, "a batch stays together");
	expect((uint32_t)wc->wr_id == thread_of[thread].completed, "the next");
	thread_of[thread].completed++;
}

static void poll_all(void)
{
	struct sequence s = {0, 0};
	uint32_t all = 0;
	struct ibv_wc wc[4];
	int n;

	while (all < THREADS * WRS) {
		n = ibv_poll_cq(cq, 4, wc);
		expect(n >= 0, "poll_cq");
		if (!n)
			sched_yield();
		for (int i = 0; i < n; i++, all++)
			completed(&s, &wc[i]);
	}
}

static void run(void)
{
	pthread_t thread[THREADS];

	shared = connected();
	for (uintptr_t i = 0; i < THREADS; i++)
		thread[i] = start(poster, (void *)i);
	poll_all();
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		expect(thread_of[i].completed == WRS, "each once");
	}
	still_works(shared);
	end(shared);
}

static void mixed(void)
{
	some_plain = true;
	run();
}

static void crowd(void)
{
	crowded = true;
	run();
}

/* --- while the NIC fails -----------------------------------------------------------------------
 */

static void break_qp(struct ibv_qp *qp)
{
	void (*null_break_qp)(struct ibv_qp *);

	*(void **)&null_break_qp = dlsym(RTLD_DEFAULT, "null_break_qp");
	expect(null_break_qp != NULL, "null_break_qp");
	null_break_qp(qp);
}

/* More than there is room for, so that what does not fit is refused, or waits. */
static unsigned int read_some(uint64_t first, unsigned int n, bool breaks)
{
	int err;

	ibv_wr_start(shared);
	for (unsigned int i = 0; i < n; i++) {
		begin_wr(shared, first + i, IBV_SEND_SIGNALED);
		ibv_wr_rdma_read(shared, mr->rkey, (uintptr_t)buffer + 8);
		spoil(shared);
		ibv_wr_set_sge(shared, mr->lkey, (uintptr_t)buffer, 8);
		if (breaks && i == n / 2)
			break_qp(base(shared));
	}
	err = ibv_wr_complete(shared);
	expect(!err || err == ENOMEM, "wr_complete");
	return err ? 0 : n;
}

enum { MOVED = 12, READS = 20000 };

static void *read_poller(void *arg)
{
	struct ibv_wc wc;

	(void)arg;
	for (uint64_t last = 0; last < READS;) {
		int n = ibv_poll_cq(cq, 1, &wc);

		expect(n >= 0, "poll_cq");
		if (!n) {
			sched_yield();
			continue;
		}
		expect(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_READ, "a success");
		if (wc.wr_id != last + 1)
			printf("%llu after %llu\n", (unsigned long long)wc.wr_id,
			       (unsigned long long)last);
		expect(wc.wr_id == last + 1, "the next");
		last = wc.wr_id;
	}
	return NULL;
}

/* wr_ids from 1 on. */
static void read_all(unsigned int *seed)
{
	uint64_t breaks_at = (uint64_t)rand_r(seed) % READS;
	pthread_t thread = start(read_poller, NULL);

	for (uint64_t posted = 0; posted < READS;) {
		unsigned int n = (unsigned int)rand_r(seed) % DEPTH + 1;

		if (n > READS - posted)
			n = (unsigned int)(READS - posted);
		n = read_some(posted + 1, n, breaks_at >= posted && breaks_at < posted + n);
		posted += n;
		if (!n)
			sched_yield();
	}
	pthread_join(thread, NULL);
	nothing_more();
}

/* Twice: the second time they have come home. */
static void moved(void)
{
	struct ibv_qp_ex *qp[MOVED];
	unsigned int seed = 1;

	for (int i = 0; i < MOVED; i++) {
		qp[i] = create();
		connect_to(base(qp[i]), base(qp[i])->qp_num);
	}
	pause_us(500000); /* twins */
	for (int i = 0; i < 2 * MOVED; i++) {
		if (i == MOVED)
			sleep(2); /* the NIC is tried again each second */
		shared = qp[i % MOVED];
		read_all(&seed);
	}
	for (int i = 0; i < MOVED; i++)
		end(qp[i]);
}

int main(int argc, char **argv)
{
	static const struct use uses[] = {
		{"threads", run}, {"mixed", mixed}, {"crowded", crowd}, {"moved", moved}};

	return ex_main(argc, argv, uses, sizeof(uses) / sizeof(*uses));
}
