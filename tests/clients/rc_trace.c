/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * rc_trace: one RC connection in plain verbs, written down.
 *
 * One side sends messages one by one, the other receives them; each side prints, as JSON lines,
 * what the verbs tell it: completions, asynchronous events, and at the end the QP's state and PSNs,
 * also after it was moved to ERR and RESET. It shows what happens to a program without shift (an
 * error completion with a finite retry count, a stall with 7), and its records of real NICs are
 * what the simulator's NIC is held against.
 *
 * Exit status: 0 all sent and received, 1 set-up failed, 2 bad usage, 3 an error completion, 4 no
 * completion for --stall seconds.
 */
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/clients/rc_device.h"

enum { DEPTH = 16, EXIT_SETUP = 1, EXIT_USAGE = 2, EXIT_ERROR_WC = 3, EXIT_STALLED = 4 };

static struct {
	const char *device, *peer, *port, *until;
	int gid_index, count, interval_ms, stall_s, timeout, retry;
	uint32_t size, first_psn;
	bool leave;
} opt = {.device = "mlx5_0",
	 .port = "18515",
	 .count = 100,
	 .interval_ms = 0,
	 .stall_s = 30,
	 .timeout = 14,
	 .retry = 6,
	 .size = 1024,
	 .first_psn = 0x1000};

/* The sides exchange this over TCP, in the machine's own layout: both are the same program. */
struct address {
	uint32_t qpn, psn;
	uint16_t lid, mtu;
	union ibv_gid gid;
};

struct connection {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *memory;
	struct ibv_port_attr port;
	struct address own, peer;
	int tcp;
	int posted, completed;
	bool failed;
};

static double now_ms(void)
{
	static struct timespec start;
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	if (!start.tv_sec)
		start = t;
	return (t.tv_sec - start.tv_sec) * 1e3 + (t.tv_nsec - start.tv_nsec) / 1e6;
}

static void record(const char *event, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void record(const char *event, const char *fmt, ...)
{
	va_list ap;

	printf("{\"t_ms\": %.3f, \"side\": \"%s\", \"event\": \"%s\"", now_ms(),
	       opt.peer ? "sender" : "receiver", event);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	puts("}");
	fflush(stdout);
}

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "rc_trace: %s: %s\n", what, strerror(errno));
	exit(EXIT_SETUP);
}

/* ---- set-up -------------------------------------------------------------------------------- */

static void create(struct connection *c)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	size_t bytes = (size_t)DEPTH * opt.size;

	c->context = rc_device_open(opt.device);
	if (!c->context)
		fail(opt.device);
	if (ibv_query_port(c->context, 1, &c->port))
		fail("query_port");
	c->pd = ibv_alloc_pd(c->context);
	c->cq = ibv_create_cq(c->context, 4 * DEPTH, NULL, NULL, 0);
	c->memory = calloc(1, bytes);
	c->mr = c->pd ? ibv_reg_mr(c->pd, c->memory, bytes, IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!c->cq || !c->mr)
		fail("create_cq, reg_mr");
	attr.send_cq = attr.recv_cq = c->cq;
	c->qp = ibv_create_qp(c->pd, &attr);
	if (!c->qp || ibv_query_gid(c->context, 1, opt.gid_index, &c->own.gid))
		fail("create_qp, query_gid");
	c->own.qpn = c->qp->qp_num;
	c->own.psn = opt.first_psn;
	c->own.lid = c->port.lid;
	c->own.mtu = c->port.active_mtu;
}

static void exchange(struct connection *c)
{
	struct addrinfo *a, hints = {.ai_family = AF_INET,
				     .ai_socktype = SOCK_STREAM,
				     .ai_flags = opt.peer ? 0 : AI_PASSIVE};
	int on = 1;

	c->tcp = socket(AF_INET, SOCK_STREAM, 0);
	if (c->tcp < 0 || getaddrinfo(opt.peer, opt.port, &hints, &a))
		fail("getaddrinfo");
	setsockopt(c->tcp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (opt.peer) {
		/* The other side may still be starting. */
		for (int i = 0; connect(c->tcp, a->ai_addr, a->ai_addrlen); i++) {
			if (i == 200)
				fail("connect");
			poll(NULL, 0, 50);
			close(c->tcp);
			c->tcp = socket(AF_INET, SOCK_STREAM, 0);
		}
	} else {
		if (bind(c->tcp, a->ai_addr, a->ai_addrlen) || listen(c->tcp, 1))
			fail("listen");
		c->tcp = accept(c->tcp, NULL, NULL);
	}
	freeaddrinfo(a);
	if (write(c->tcp, &c->own, sizeof(c->own)) != sizeof(c->own) ||
	    recv(c->tcp, &c->peer, sizeof(c->peer), MSG_WAITALL) != sizeof(c->peer))
		fail("exchange");
}

static void connect_qp(struct connection *c)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_attr rtr = {
		.path_mtu = c->own.mtu < c->peer.mtu ? c->own.mtu : c->peer.mtu,
		.dest_qp_num = c->peer.qpn,
		.rq_psn = c->peer.psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .dlid = c->peer.lid,
			    .port_num = 1,
			    .grh = {.dgid = c->peer.gid,
				    .sgid_index = opt.gid_index,
				    .hop_limit = 64}},
	};
	struct ibv_qp_attr rts = {.sq_psn = c->own.psn,
				  .timeout = opt.timeout,
				  .retry_cnt = opt.retry,
				  .rnr_retry = 7,
				  .max_rd_atomic = 1};

	if (ibv_modify_qp(c->qp, &init,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ||
	    rc_device_rtr(c->qp, &rtr) || rc_device_rts(c->qp, &rts))
		fail("modify_qp");
	record("connected",
	       ", \"qpn\": %u, \"psn\": %u, \"path_mtu\": %d, \"timeout\": %d, \"retry_cnt\": %d, "
	       "\"size\": %u",
	       c->own.qpn, c->own.psn, 128 << rtr.path_mtu, opt.timeout, opt.retry, opt.size);
}

/* ---- traffic ------------------------------------------------------------------------------- */

static void post(struct connection *c)
{
	struct ibv_sge sge = {.addr = (uintptr_t)c->memory + (c->posted % DEPTH) * opt.size,
			      .length = opt.size,
			      .lkey = c->mr->lkey};
	struct ibv_send_wr send = {
		.wr_id = c->posted, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_recv_wr recv = {.wr_id = c->posted, .sg_list = &sge, .num_sge = 1};
	struct ibv_send_wr *bad_send;
	struct ibv_recv_wr *bad_recv;
	int err = opt.peer ? ibv_post_send(c->qp, &send, &bad_send)
			   : ibv_post_recv(c->qp, &recv, &bad_recv);

	record("post", ", \"wr_id\": %d, \"errno\": %d", c->posted, err);
	c->posted++;
}

static void async_events(struct connection *c)
{
	struct pollfd p = {.fd = c->context->async_fd, .events = POLLIN};
	struct ibv_async_event e;

	while (poll(&p, 1, 0) > 0 && !ibv_get_async_event(c->context, &e)) {
		record("async", ", \"type\": \"%s\"", ibv_event_type_str(e.event_type));
		ibv_ack_async_event(&e);
	}
}

static int completions(struct connection *c)
{
	struct ibv_wc wc;
	int n = 0;

	while (ibv_poll_cq(c->cq, 1, &wc) > 0) {
		record("wc", ", \"wr_id\": %" PRIu64 ", \"status\": \"%s\", \"vendor_err\": %u",
		       wc.wr_id, ibv_wc_status_str(wc.status), wc.vendor_err);
		c->failed |= wc.status != IBV_WC_SUCCESS;
		c->completed += wc.status == IBV_WC_SUCCESS;
		n++;
	}
	return n;
}

static bool peer_left(struct connection *c)
{
	struct pollfd p = {.fd = c->tcp, .events = POLLIN};

	return !opt.peer && poll(&p, 1, 0) > 0;
}

/* Is the file of --until there? It is looked for every 100 ms. */
static bool enough(void)
{
	static double next_ms;
	static bool seen;

	if (opt.until && !seen && now_ms() >= next_ms) {
		seen = !access(opt.until, F_OK);
		next_ms = now_ms() + 100;
	}
	return seen;
}

/* The peer has left, and may have seen the file before. */
static bool enough_soon(void)
{
	for (int i = 0; opt.until && i < 20 && !enough(); i++)
		poll(NULL, 0, 100);
	return enough();
}

/* Keeps the queue as full as the sending interval allows. */
static void top_up(struct connection *c, double *next_ms)
{
	int room = opt.peer ? (opt.interval_ms ? 1 : DEPTH) : DEPTH;

	while (!c->failed && !(opt.peer && enough()) && c->posted < opt.count &&
	       c->posted - c->completed < room && (!opt.peer || now_ms() >= *next_ms)) {
		post(c);
		*next_ms = now_ms() + opt.interval_ms;
	}
}

static int traffic(struct connection *c)
{
	double next_ms = 0, progress_ms = now_ms();

	while (c->completed < opt.count) {
		if (enough() && (opt.peer ? c->completed == c->posted : opt.leave))
			return 0;
		top_up(c, &next_ms);
		async_events(c);
		if (completions(c)) {
			progress_ms = now_ms();
			continue;
		}
		if (c->failed)
			return EXIT_ERROR_WC;
		if (peer_left(c) && !completions(c))
			return enough_soon() ? 0 : EXIT_ERROR_WC;
		if (now_ms() - progress_ms > opt.stall_s * 1e3)
			return EXIT_STALLED;
		poll(NULL, 0, 1);
	}
	return 0;
}

/* ---- the end ------------------------------------------------------------------------------- */

static const char *state_name(enum ibv_qp_state s)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return s < sizeof(names) / sizeof(*names) ? names[s] : "UNKNOWN";
}

static void record_qp(struct connection *c, const char *after)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	if (ibv_query_qp(c->qp, &a, IBV_QP_STATE | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN, &init))
		fail("query_qp");
	record("qp", ", \"after\": \"%s\", \"state\": \"%s\", \"rq_psn\": %u, \"sq_psn\": %u",
	       after, state_name(a.qp_state), a.rq_psn, a.sq_psn);
}

static void move(struct connection *c, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state};

	if (ibv_modify_qp(c->qp, &a, IBV_QP_STATE))
		fail("modify_qp");
	poll(NULL, 0, 20);
	completions(c);
	async_events(c);
	record_qp(c, state_name(state));
}

static void usage(FILE *f)
{
	fputs("usage: rc_trace [options] [PEER]\n"
	      "Receive (without PEER) or send over one RC connection; print what verbs say, as "
	      "JSON.\n"
	      "  --device NAME  --gid-index N  --port TCP-PORT  --count N  --size BYTES\n"
	      "  --interval MS  (between messages)  --stall S  --timeout N  --retry N  --psn N\n"
	      "  --until FILE  (stop before --count, when the file is there)\n"
	      "  --leave  (exit after --count, with the connection as it is)\n",
	      f);
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"device", 1, NULL, 'd'}, {"gid-index", 1, NULL, 'x'}, {"port", 1, NULL, 'p'},
		{"count", 1, NULL, 'n'},  {"size", 1, NULL, 's'},      {"interval", 1, NULL, 'i'},
		{"stall", 1, NULL, 'S'},  {"timeout", 1, NULL, 't'},   {"retry", 1, NULL, 'r'},
		{"psn", 1, NULL, 'P'},	  {"leave", 0, NULL, 'l'},     {"until", 1, NULL, 'u'},
		{"help", 0, NULL, 'h'},	  {NULL, 0, NULL, 0},
	};
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (o) {
		case 'd': opt.device = optarg; break;
		case 'x': opt.gid_index = atoi(optarg); break;
		case 'p': opt.port = optarg; break;
		case 'n': opt.count = atoi(optarg); break;
		case 's': opt.size = atoi(optarg); break;
		case 'i': opt.interval_ms = atoi(optarg); break;
		case 'S': opt.stall_s = atoi(optarg); break;
		case 't': opt.timeout = atoi(optarg); break;
		case 'r': opt.retry = atoi(optarg); break;
		case 'P': opt.first_psn = strtoul(optarg, NULL, 0) & 0xffffff; break;
		case 'u': opt.until = optarg; break;
		case 'l': opt.leave = true; break;
		case 'h': usage(stdout); exit(0);
		default: usage(stderr); exit(EXIT_USAGE);
		}
	}
	opt.peer = argv[optind];
}

int main(int argc, char **argv)
{
	struct connection c = {0};
	int status;

	parse(argc, argv);
	create(&c);
	exchange(&c);
	connect_qp(&c);
	status = traffic(&c);
	if (opt.leave)
		exit(status);
	record_qp(&c, "traffic");
	move(&c, IBV_QPS_ERR);
	move(&c, IBV_QPS_RESET);
	record("end", ", \"posted\": %d, \"completed\": %d, \"exit\": %d", c.posted, c.completed,
	       status);
	close(c.tcp);
	ibv_destroy_qp(c.qp);
	ibv_dereg_mr(c.mr);
	ibv_destroy_cq(c.cq);
	ibv_dealloc_pd(c.pd);
	ibv_close_device(c.context);
	free(c.memory);
	return status;
}
