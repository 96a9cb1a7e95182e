/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Asynchronous events of QPs on a shared receive queue, to a thread that sleeps on the context's
 * descriptor and reads one event when it is woken, as UCX does. Both sides send until SIGUSR1; then
 * each takes its QPs to ERR, and waits for LAST_WQE_REACHED of each of them.
 *
 * Exit status: 0 each came once, 1 set-up failed or an error completion, 2 bad usage, 3 not so.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "common/cli.h"
#include "tests/clients/rc_peer.h"
#include "tests/clients/tcp.h"

enum {
	EXIT_USAGE = 2,
	EXIT_EVENTS = 3,
	QPS_MAX = 64,
	BYTES = 64,
	GID_INDEX_MAX = 255,
	COMES_MS = 5000,
	MORE_MS = 1000,
};

static const char help[] =
	"usage: srq_events [options] [PEER]\n"
	"\n"
	"  --device NAME    RDMA device (mlx5_0)\n"
	"  --gid-index N    (0)\n"
	"  --qps N          the same on both sides (4)\n"
	"  --port TCP-PORT  where the server listens (18518)\n"
	"  --sleep HOW      level (epoll), edge (likewise) or blocking (in ibv_get_async_event)\n"
	"  --help           this text\n";

static const struct option options[] = {
	{"device", required_argument, NULL, 'd'},
	{"gid-index", required_argument, NULL, 'g'},
	{"qps", required_argument, NULL, 'q'},
	{"port", required_argument, NULL, 'p'},
	{"sleep", required_argument, NULL, 's'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static const char *device = "mlx5_0", *port = "18518", *peer, *how = "level";
static long gid_index, qps = 4;
static volatile sig_atomic_t ends;

static struct rc_peer p;
static struct ibv_mr *mr;
static char memory[2 * BYTES];
static struct ibv_qp *qp[QPS_MAX];
static _Atomic unsigned int last_wqe[QPS_MAX], others, empty;

static _Noreturn void fail(const char *what)
{
	die(EXIT_FAILURE, "%s: %s", what, strerror(errno));
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (c) {
		case 'd': device = optarg; break;
		case 'g': gid_index = parse_number(optarg, 0, GID_INDEX_MAX); break;
		case 'q': qps = parse_number(optarg, 1, QPS_MAX); break;
		case 'p': port = optarg; break;
		case 's': how = optarg; break;
		case 'h': print_and_exit(help);
		default: exit(EXIT_USAGE);
		}
	if (gid_index < 0 || qps < 0 || argc - optind > 1 ||
	    (strcmp(how, "level") != 0 && strcmp(how, "edge") != 0 && strcmp(how, "blocking") != 0))
		die(EXIT_USAGE, "not understood; see srq_events --help");
	peer = argv[optind];
}

/* --- the thread that sleeps ------------------------------------------------------------------- */

static void note(const struct ibv_async_event *e)
{
	for (long i = 0; i < qps; i++)
		if (e->event_type == IBV_EVENT_QP_LAST_WQE_REACHED && e->element.qp == qp[i]) {
			last_wqe[i]++;
			return;
		}
	others++;
}

/* false: there is none. */
static bool read_event(void)
{
	struct ibv_async_event e;

	if (ibv_get_async_event(p.context, &e)) {
		empty += errno == EAGAIN;
		return false;
	}
	note(&e);
	ibv_ack_async_event(&e);
	return true;
}

static void *sleep_in_epoll(void *arg)
{
	bool edge = !strcmp(how, "edge");
	struct epoll_event ev = {.events = EPOLLIN | (edge ? EPOLLET : 0)};
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, p.context->async_fd, &ev))
		fail("epoll");
	for (;;) {
		if (epoll_wait(ep, &ev, 1, -1) != 1)
			continue;
		while (read_event() && edge)
			;
	}
	return arg;
}

static void *sleep_in_verb(void *arg)
{
	for (;;)
		read_event();
	return arg;
}

static void start_sleeper(void)
{
	bool blocking = !strcmp(how, "blocking");
	int fd = p.context->async_fd;
	pthread_t thread;

	if (!blocking && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		fail("async_fd");
	errno = pthread_create(&thread, NULL, blocking ? sleep_in_verb : sleep_in_epoll, NULL);
	if (errno)
		fail("pthread_create");
}

/* --- traffic ---------------------------------------------------------------------------------- */

static void post_receive(void)
{
	struct ibv_sge sge = {(uintptr_t)memory, BYTES, mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	errno = ibv_post_srq_recv(p.srq, &wr, &bad);
	if (errno)
		fail("post_srq_recv");
}

static void post_send(long i)
{
	struct ibv_sge sge = {(uintptr_t)memory + BYTES, BYTES, mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = (uint64_t)i + 1,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};

	errno = ibv_post_send(qp[i], &wr, &bad);
	if (errno)
		fail("post_send");
}

/* Returns how many of our sends have completed for good. */
static long poll_once(void)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(p.cq, 1, &wc);

	if (n < 0)
		fail("poll_cq");
	if (!n)
		return 0;
	if (wc.status)
		die(EXIT_FAILURE, "a completion with status %d", wc.status);
	if (!wc.wr_id)
		post_receive();
	else if (!ends)
		post_send((long)wc.wr_id - 1);
	else
		return 1;
	return 0;
}

static void traffic(void)
{
	const struct timespec ms = {.tv_nsec = 1000000};
	long left = qps;

	for (long i = 0; i < qps; i++)
		post_send(i);
	while (left) {
		left -= poll_once();
		nanosleep(&ms, NULL);
	}
}

static void serve_peer(void)
{
	struct pollfd fd = {.fd = p.tcp, .events = POLLIN};
	char byte = 0;

	if (!tcp_send(p.tcp, &byte, 1))
		fail("the peer left");
	while (!poll(&fd, 1, 1)) /* it may still send */
		poll_once();
	tcp_receive(p.tcp, &byte, 1);
}

/* --- the end ---------------------------------------------------------------------------------- */

static double clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static long came(void)
{
	long n = 0;

	for (long i = 0; i < qps; i++)
		n += last_wqe[i] > 0;
	return n;
}

static void all_to_err(void)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	for (long i = 0; i < qps; i++)
		if (ibv_modify_qp(qp[i], &err, IBV_QP_STATE))
			fail("modify_qp to ERR");
}

/* For all events, at most that long; and for more than there are to be. Returns when all were
 * there. */
static double await_events(double since)
{
	double took = -1;

	while (clock_ms() - since < COMES_MS && took < 0) {
		poll(NULL, 0, 1);
		if (came() == qps)
			took = clock_ms() - since;
	}
	poll(NULL, 0, MORE_MS);
	return took;
}

static int report(double took)
{
	unsigned int sum = 0;

	for (long i = 0; i < qps; i++)
		sum += last_wqe[i];
	printf("{\"qps\": %ld, \"came\": %ld, \"events\": %u, \"others\": %u, \"empty\": %u, "
	       "\"ms\": %.1f}\n",
	       qps, came(), sum, others, empty, took);
	fflush(stdout);
	return came() == qps && sum == qps && !others ? EXIT_SUCCESS : EXIT_EVENTS;
}

static void note_end(int signal)
{
	(void)signal;
	ends = 1;
}

static void open_all(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4 * QPS_MAX, .max_sge = 1}};

	rc_peer_open(&p, tcp_open("srq_events", peer, port), device, (int)gid_index, 16 * QPS_MAX);
	mr = ibv_reg_mr(p.pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	p.srq = ibv_create_srq(p.pd, &attr);
	if (!mr || !p.srq)
		fail("reg_mr, create_srq");
	for (long i = 0; i < 2 * qps; i++)
		post_receive();
	for (long i = 0; i < qps; i++)
		qp[i] = rc_peer_connect(&p, 4);
}

int main(int argc, char **argv)
{
	double began;
	int status;

	cli_begin("srq_events", EXIT_FAILURE);
	parse(argc, argv);
	signal(SIGUSR1, note_end);
	open_all();
	start_sleeper();
	rc_peer_meet(&p);
	fprintf(stderr, "srq_events: running\n");
	traffic();
	serve_peer();
	began = clock_ms();
	all_to_err();
	status = report(await_events(began));
	for (long i = 0; i < qps; i++)
		if (ibv_destroy_qp(qp[i]))
			fail("destroy_qp");
	errno = ibv_destroy_srq(p.srq);
	if (errno)
		fail("destroy_srq");
	rc_peer_meet(&p);
	return status;
}
