// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * A NIC hangs in a verb for a QP: query, attributes or err. Meanwhile another QP, which is
 * connected with itself, moves to another NIC, and a third is destroyed, which needs the library's
 * background thread. The program does not know of shift.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "tests/preload/rc.h"

enum { TOO_LONG_S = 30 };

static struct ibv_qp *hangs;
static int (*verb)(void);
static _Atomic bool has_returned;

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void *nullverb(const char *name)
{
	void *fn = dlsym(RTLD_DEFAULT, name);

	expect(fn != NULL, name);
	return fn;
}

static void nic_hangs(bool in_verbs)
{
	void (*fn)(struct ibv_qp *, bool);

	*(void **)&fn = nullverb("null_hang");
	fn(hangs, in_verbs);
}

static void break_qp(struct ibv_qp *qp)
{
	void (*fn)(struct ibv_qp *);

	*(void **)&fn = nullverb("null_break_qp");
	fn(qp);
}

static int query_qp(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(hangs, &attr, IBV_QP_STATE, &init);
}

static int modify_attributes(void)
{
	struct ibv_qp_attr attr = {.min_rnr_timer = 7};

	return ibv_modify_qp(hangs, &attr, IBV_QP_MIN_RNR_TIMER);
}

static int modify_to_err(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	return ibv_modify_qp(hangs, &attr, IBV_QP_STATE);
}

static void *caller(void *arg)
{
	(void)arg;
	expect(!verb(), "the verb, when the NIC has answered");
	has_returned = true;
	return NULL;
}

static void others_go_on(int (*in)(void))
{
	struct ibv_qp *itself = create_qp(pd, 4), *third = create_qp(pd, 4);
	pthread_t thread;

	hangs = create_qp(pd, 4);
	pause_ms(500); /* twins */
	connect_to(itself, itself->qp_num);
	connect_to(third, itself->qp_num);
	connect_to(hangs, itself->qp_num);
	verb = in;
	nic_hangs(true);
	expect(!pthread_create(&thread, NULL, caller, NULL), "pthread_create");
	alarm(TOO_LONG_S);
	break_qp(itself);
	for (uint64_t i = 0; i < 20; i++) {
		post(itself, IBV_WR_RDMA_READ, i);
		expect(completion().wr_id == i, "a READ on another NIC");
		pause_ms(100); /* the background thread looks where the data of the domain is */
	}
	destroy(third);
	expect(!has_returned, "it hung");
	nic_hangs(false);
	pthread_join(thread, NULL);
	destroy(hangs);
	destroy(itself);
}

static void query(void)
{
	others_go_on(query_qp);
}

static void attributes(void)
{
	others_go_on(modify_attributes);
}

static void err(void)
{
	others_go_on(modify_to_err);
}

int main(int argc, char **argv)
{
	static const struct use uses[] = {
		{"query", query}, {"attributes", attributes}, {"err", err}};

	return rc_main(argc, argv, uses, 3);
}
