// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * QPs that are connected with themselves, while their NIC fails again and again: four threads post
 * READs and use their QPs again after a RESET, with READs outstanding or not; a fifth polls; the
 * main thread moves QPs to ERR behind the library's back. Each READ has one completion, in order
 * and a success, and none comes of a life that is over. The program does not know of shift.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/preload/rc.h"

enum { QPS = 4, DEPTH = 16, READS = 1000, SECONDS = 90 };

static const unsigned int lives = 40;

static struct user {
	struct ibv_qp *qp;
	pthread_mutex_t modifying; /* or being broken, */
	bool connected;		   /* which it can only be then */
	uint64_t life;		   /* under `polling` */
	_Atomic uint32_t posted, completed;
} user[QPS];

static pthread_mutex_t polling = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned int at_work;
static _Atomic bool over;

static void pause_us(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static struct user *user_of(uint32_t qpn)
{
	int i = 0;

	while (i < QPS - 1 && user[i].qp->qp_num != qpn)
		i++;
	return &user[i];
}

static void completed(const struct ibv_wc *wc)
{
	struct user *u = user_of(wc->qp_num);

	expect(u->qp->qp_num == wc->qp_num, "the number of a QP");
	expect(wc->wr_id >> 32 == u->life, "a completion of this life");
	expect((uint32_t)wc->wr_id == u->completed, "the next completion");
	if (wc->status)
		fprintf(stderr, "QP %#x: status %d at %u of life %u\n", wc->qp_num, wc->status,
			(unsigned int)u->completed, (unsigned int)u->life);
	expect(wc->status == IBV_WC_SUCCESS, "a success");
	expect(wc->opcode == IBV_WC_RDMA_READ, "the completion of a READ");
	u->completed++;
}

static void *poller(void *arg)
{
	struct ibv_wc wc[8];
	int n;

	(void)arg;
	while (!over) {
		pthread_mutex_lock(&polling);
		n = ibv_poll_cq(cq, 8, wc);
		expect(n >= 0, "poll_cq");
		for (int i = 0; i < n; i++)
			completed(&wc[i]);
		pthread_mutex_unlock(&polling);
		if (!n)
			sched_yield();
	}
	return NULL;
}

static void live(struct user *u, bool leave_some)
{
	pthread_mutex_lock(&u->modifying);
	connect_to(u->qp, u->qp->qp_num);
	u->connected = true;
	pthread_mutex_unlock(&u->modifying);
	while (u->posted < READS) {
		if (u->posted - u->completed >= DEPTH) {
			sched_yield();
			continue;
		}
		post(u->qp, IBV_WR_RDMA_READ, u->life << 32 | u->posted);
		u->posted++;
	}
	while (!leave_some && u->completed < READS)
		pause_us(100);
}

static void *owner(void *arg)
{
	struct user *u = arg;

	for (unsigned int i = 0; i < lives; i++) {
		live(u, i % 2);
		pthread_mutex_lock(&u->modifying);
		u->connected = false;
		modify(u->qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
		pthread_mutex_unlock(&u->modifying);
		pthread_mutex_lock(&polling);
		u->life++;
		u->posted = u->completed = 0;
		pthread_mutex_unlock(&polling);
	}
	at_work--;
	return NULL;
}

/* The NIC's driver is called around the library, and the program's QP does not show it. */
static void break_qp(struct user *u)
{
	static void (*null_break_qp)(struct ibv_qp *);

	if (!null_break_qp)
		*(void **)&null_break_qp = dlsym(RTLD_DEFAULT, "null_break_qp");
	expect(null_break_qp != NULL, "null_break_qp");
	pthread_mutex_lock(&u->modifying);
	if (u->connected)
		null_break_qp(u->qp);
	pthread_mutex_unlock(&u->modifying);
}

static void reads(void)
{
	pthread_t thread[QPS + 1];
	unsigned int seed = 1;

	for (int i = 0; i < QPS; i++) {
		pthread_mutex_init(&user[i].modifying, NULL);
		user[i].qp = create_qp(pd, DEPTH);
	}
	pause_us(500000); /* twins */
	at_work = QPS;
	for (int i = 0; i < QPS; i++)
		expect(!pthread_create(&thread[i], NULL, owner, &user[i]), "pthread_create");
	expect(!pthread_create(&thread[QPS], NULL, poller, NULL), "pthread_create");
	for (time_t end = time(NULL) + SECONDS; at_work && time(NULL) < end;) {
		pause_us(1000);
		break_qp(&user[rand_r(&seed) % QPS]);
	}
	expect(!at_work, "all READs, in time");
	over = true;
	for (int i = 0; i <= QPS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < QPS; i++)
		destroy(user[i].qp);
}

int main(int argc, char **argv)
{
	static const struct use uses[] = {{"reads", reads}};

	return rc_main(argc, argv, uses, 1);
}
