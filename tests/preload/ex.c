// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/preload/ex.h"

void pause_us(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

pthread_t start(void *(*fn)(void *), void *arg)
{
	pthread_t thread;

	expect(!pthread_create(&thread, NULL, fn, arg), "pthread_create");
	return thread;
}

/* --- QPs, which are queried ------------------------------------------------------------------- */

enum { QPS_MAX = 16 };

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_qp *listed[QPS_MAX];
static _Atomic bool over;

static void change_list(struct ibv_qp *from, struct ibv_qp *to)
{
	int i = 0;

	pthread_mutex_lock(&list_lock);
	while (i < QPS_MAX && listed[i] != from)
		i++;
	expect(i < QPS_MAX, "a place for the QP");
	listed[i] = to;
	pthread_mutex_unlock(&list_lock);
}

/* Each query has a look at the connection, which turns the data path away for that moment. */
void query_all(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	pthread_mutex_lock(&list_lock);
	for (int i = 0; i < QPS_MAX; i++)
		if (listed[i])
			expect(!ibv_query_qp(listed[i], &attr, IBV_QP_STATE, &init), "query_qp");
	pthread_mutex_unlock(&list_lock);
}

static void *querier(void *arg)
{
	(void)arg;
	while (!over) {
		query_all();
		pause_us(1);
	}
	return NULL;
}

struct ibv_qp_ex *create_of(uint32_t depth, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {.comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .pd = pd,
					   .send_cq = cq,
					   .recv_cq = cq,
					   .cap = {.max_send_wr = depth,
						   .max_recv_wr = depth,
						   .max_send_sge = SGES,
						   .max_recv_sge = 1,
						   .max_inline_data = INLINE},
					   .qp_type = IBV_QPT_RC,
					   .send_ops_flags = ops};
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &attr);
	struct ibv_qp_ex *ex = qp ? ibv_qp_to_qp_ex(qp) : NULL;

	expect(ex && &ex->qp_base == qp, "create_qp_ex");
	change_list(NULL, qp);
	return ex;
}

struct ibv_qp_ex *create(void)
{
	return create_of(DEPTH, ALL_OPS);
}

struct ibv_qp *base(struct ibv_qp_ex *ex)
{
	return &ex->qp_base;
}

/* To a QP that is somewhere else. */
struct ibv_qp_ex *connected(void)
{
	struct ibv_qp_ex *ex = create();

	connect_to(base(ex), base(ex)->qp_num ^ 0x800000);
	return ex;
}

void end(struct ibv_qp_ex *ex)
{
	change_list(base(ex), NULL);
	destroy(base(ex));
}

/* --- WRs -------------------------------------------------------------------------------------- */

char remote[4096];

void begin_wr(struct ibv_qp_ex *ex, uint64_t id, unsigned int flags)
{
	ex->wr_id = id;
	ex->wr_flags = flags;
}

/* Whatever comes after the call is of no account. */
void spoil(struct ibv_qp_ex *ex)
{
	ex->wr_id = 0xdead;
	ex->wr_flags = 0;
}

void build_write(struct ibv_qp_ex *ex, uint64_t id, unsigned int flags)
{
	begin_wr(ex, id, flags);
	ibv_wr_rdma_write(ex, remote_key, (uintptr_t)remote);
	spoil(ex);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)buffer, 8);
}

void nothing_more(void)
{
	struct ibv_wc wc;

	expect(!ibv_poll_cq(cq, 1, &wc), "no more completions");
}

void completes(uint64_t id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = completion();

	expect(wc.wr_id == id, "whose completion");
	expect(wc.opcode == opcode, "what has completed");
}

/* What a program does that meets an error: the QP goes on. */
void still_works(struct ibv_qp_ex *ex)
{
	nothing_more();
	ibv_wr_start(ex);
	build_write(ex, 77, IBV_SEND_SIGNALED);
	build_write(ex, 78, IBV_SEND_SIGNALED);
	expect(!ibv_wr_complete(ex), "a batch later");
	completes(77, IBV_WC_RDMA_WRITE);
	completes(78, IBV_WC_RDMA_WRITE);
	nothing_more();
}

int try_batch(struct ibv_qp_ex *ex, uint64_t first, unsigned int n)
{
	ibv_wr_start(ex);
	for (unsigned int i = 0; i < n; i++)
		build_write(ex, first + i, IBV_SEND_SIGNALED);
	return ibv_wr_complete(ex);
}

void writes_complete(uint64_t first, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		completes(first + i, IBV_WC_RDMA_WRITE);
}

void post_plain(struct ibv_qp *qp, uint64_t id)
{
	post(qp, IBV_WR_RDMA_WRITE, id);
	completes(id, IBV_WC_RDMA_WRITE);
}

pid_t fork_unqueried(void)
{
	pid_t pid;

	pthread_mutex_lock(&list_lock);
	pid = fork();
	pthread_mutex_unlock(&list_lock);
	return pid;
}

int ex_main(int argc, char **argv, const struct use *uses, unsigned int n)
{
	bool queried = getenv("QUERIED");
	pthread_t thread = pthread_self();
	int status;

	alarm(60);
	if (queried)
		thread = start(querier, NULL);
	status = rc_main(argc, argv, uses, n);
	over = true;
	if (queried)
		pthread_join(thread, NULL);
	return status;
}
