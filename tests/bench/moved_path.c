/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Messages over protected connections of this process with itself, on the null provider, while one
 * of them is moving or on its twin. tests/bench/moved-path counts what a message costs: the
 * instructions in messages(), and the locks that it takes.
 *
 * Both ends are here, on two NICs; each NIC is the other's backup. The one that moves is the first.
 */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/cli.h"
#include "lib/core/conn.h"
#include "tests/bench/ends.h"

enum { EXIT_USAGE = 2, PAIRS_MAX = 400, PAIRS = 9, DEPTH = 128 };

static const char help[] =
	"usage: moved_path [options]\n"
	"Messages over connections of which one is moving. To be run by tests/bench/moved-path.\n"
	"\n"
	"  --state STATE   of the first connection: home, moving or twin (home)\n"
	"  --over WHICH    the messages: first (connection) or others, in turn (others)\n"
	"  --two-sided     SENDs, and the receives that they need\n"
	"  --messages N    (4000)\n"
	"  --all N         N connections (1 to 400), and all queue pairs of one NIC break: says "
	"how "
	"long the first and the\n"
	"                  last WRITE that was outstanding took\n"
	"  --help          this text\n";

static const struct option options[] = {
	{"state", required_argument, NULL, 's'},
	{"over", required_argument, NULL, 'o'},
	{"two-sided", no_argument, NULL, '2'},
	{"messages", required_argument, NULL, 'm'},
	{"all", required_argument, NULL, 'a'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	union ibv_gid gid;
	struct ibv_qp *qp[PAIRS_MAX];
	char buffer[64];
};

static struct end near, far;
static int pairs = PAIRS;
static bool two_sided;
static long first, last; /* the connections that are used */

static struct ibv_qp *create_qp(const struct end *e)
{
	struct ibv_qp_init_attr attr = {.send_cq = e->cq,
					.recv_cq = e->cq,
					.cap = {.max_send_wr = DEPTH,
						.max_recv_wr = DEPTH,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};

	return ibv_create_qp(e->pd, &attr);
}

static void open_end(struct end *e, struct ibv_device *device)
{
	e->ctx = ibv_open_device(device);
	must(e->ctx, "open_device");
	e->pd = ibv_alloc_pd(e->ctx);
	e->cq = ibv_create_cq(e->ctx, 2 * PAIRS_MAX * DEPTH, NULL, NULL, 0);
	must(e->pd && e->cq, "create_cq");
	e->mr = ibv_reg_mr(e->pd, e->buffer, sizeof(e->buffer),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	must(e->mr && !ibv_query_gid(e->ctx, 1, 1, &e->gid), "reg_mr");
	for (int i = 0; i < pairs; i++) {
		e->qp[i] = create_qp(e);
		must(e->qp[i], "create_qp");
	}
}

/* --- messages -------------------------------------------------------------------------------- */

static void poll_one(const struct end *e)
{
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(e->cq, 1, &wc);
	} while (!n);
	must(n == 1 && wc.status == IBV_WC_SUCCESS, "poll_cq");
}

/* The completion of a message that has to move first. valgrind lets one thread run at a time, and a
 * loop that never sleeps keeps the library's from it for minutes. */
static void await_one(const struct end *e)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(e->cq, 1, &wc)))
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	must(n == 1 && wc.status == IBV_WC_SUCCESS, "poll_cq");
}

static void post_one(long i)
{
	struct ibv_sge sge = {(uintptr_t)near.buffer, 8, near.mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = two_sided ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
				       .send_flags = IBV_SEND_SIGNALED};

	wr.wr.rdma.remote_addr = (uintptr_t)far.buffer;
	wr.wr.rdma.rkey = far.mr->rkey;
	must(!ibv_post_send(near.qp[i], &wr, &bad), "post_send");
}

static void post_receive(long i)
{
	struct ibv_sge sge = {(uintptr_t)far.buffer, 8, far.mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	must(!ibv_post_recv(far.qp[i], &wr, &bad), "post_recv");
}

/* One after the other, each to its end. By this name they are measured. */
__attribute__((noinline)) void messages(long n);

void messages(long n)
{
	for (long i = first; n; n--, i = i == last ? first : i + 1) {
		if (two_sided)
			post_receive(i);
		post_one(i);
		poll_one(&near);
		if (two_sided)
			poll_one(&far);
	}
}

/* --- the first connection -------------------------------------------------------------------- */

static void *of_provider(const char *name)
{
	void *fn = dlsym(RTLD_DEFAULT, name);

	if (!fn)
		die(EXIT_FAILURE, "the provider has no %s", name);
	return fn;
}

/* Its NIC refuses it from now on. hangs: and does not answer the fence. */
static void break_first(bool hangs)
{
	void (*break_qp)(struct ibv_qp *), (*hang)(struct ibv_qp *, bool);
	struct ibv_wc wc;

	*(void **)&break_qp = of_provider("null_break_qp");
	*(void **)&hang = of_provider("null_hang");
	await_twins();
	break_qp(near.qp[0]);
	hang(near.qp[0], hangs);
	post_one(0);
	if (two_sided)
		post_receive(0);
	if (!hangs) {
		await_one(&near);
		if (two_sided)
			await_one(&far);
		await_connections(1, SHIFT_ST_ACTIVE, 1, near.qp[0]->qp_num);
		return;
	}
	must(!ibv_poll_cq(near.cq, 1, &wc), "a completion that nobody expects");
	await_connections(1, SHIFT_ST_FENCE, 0, near.qp[0]->qp_num);
}

/* All of the NIC. */
static void break_all(void)
{
	void (*break_qp)(struct ibv_qp *);
	uint64_t begin, took[2] = {0};

	*(void **)&break_qp = of_provider("null_break_qp");
	await_twins();
	for (int i = 0; i < pairs; i++)
		break_qp(near.qp[i]);
	begin = now_us();
	for (int i = 0; i < pairs; i++)
		post_one(i);
	for (int i = 0; i < pairs; i++) {
		poll_one(&near);
		took[i > 0] = now_us() - begin;
	}
	await_connections((size_t)pairs, SHIFT_ST_ACTIVE, 1, 0);
	printf("%d connections moved: the first WRITE took %.1f ms, the last %.1f ms\n", pairs,
	       (double)took[0] / 1000, (double)took[pairs > 1] / 1000);
}

static long messages_wanted = 4000;
static bool moving, twin, over_first, all;

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (c) {
		case 's':
			moving = !strcmp(optarg, "moving");
			twin = !strcmp(optarg, "twin");
			if (!moving && !twin && strcmp(optarg, "home") != 0)
				die(EXIT_USAGE, "%s is no state", optarg);
			break;
		case 'o':
			over_first = !strcmp(optarg, "first");
			if (!over_first && strcmp(optarg, "others") != 0)
				die(EXIT_USAGE, "%s: first or others", optarg);
			break;
		case '2': two_sided = true; break;
		case 'a':
			pairs = (int)parse_number(optarg, 1, PAIRS_MAX);
			all = true;
			break;
		case 'm': messages_wanted = parse_number(optarg, 1, 100000000); break;
		case 'h': print_and_exit(help);
		default: exit(EXIT_USAGE);
		}
	if (optind != argc || messages_wanted < 0 || pairs < 1 || (moving && over_first))
		die(EXIT_USAGE, "not understood; see moved_path --help");
}

int main(int argc, char **argv)
{
	struct ibv_device **list;

	cli_begin("moved_path", EXIT_FAILURE);
	parse(argc, argv);
	list = ibv_get_device_list(NULL);
	must(list && list[0] && list[1], "two NICs");
	open_end(&near, list[0]);
	open_end(&far, list[1]);
	for (int i = 0; i < pairs; i++) {
		connect_qp(near.qp[i], &far.gid, far.qp[i]->qp_num);
		connect_qp(far.qp[i], &near.gid, near.qp[i]->qp_num);
	}
	await_connections(2 * (size_t)pairs, SHIFT_ST_ACTIVE, 0, 0);
	first = 0;
	last = pairs - 1;
	messages(2 * pairs * DEPTH); /* each log once round */
	if (all) {
		break_all();
		exit(EXIT_SUCCESS);
	}
	if (moving || twin)
		break_first(moving);
	first = over_first ? 0 : 1;
	last = over_first ? 0 : pairs - 1;
	messages(4 * DEPTH);
	messages(messages_wanted);
	_exit(0); /* a NIC that hangs may hold up what destroys its QPs */
}
