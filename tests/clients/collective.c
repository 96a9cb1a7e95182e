/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * collective: two sides that use verbs as NCCL's network code does, and check every byte.
 *
 * A channel is a connection in each direction, each of some QPs that share a CQ. The receiver says
 * in the sender's FIFO, with a WRITE, which buffer it wants filled, and posts receives without a
 * buffer. The sender deals the message out to the QPs: a chain of WRITEs, and a WRITE_WITH_IMM that
 * says the length. When all QPs have said it, the receiver READs a byte of the buffer over a QP
 * that is connected to itself (on a GPU that makes what the NIC has written visible), and looks at
 * the message only when that has completed.
 *
 * One thread does all this without waiting; another waits for asynchronous events. As with NCCL,
 * one event of the fatal kind, or one error completion, and the program ends.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/clients/tcp.h"
#include "tests/clients/verbs_table.h"

enum {
	EXIT_SETUP = 1,
	EXIT_USAGE = 2,
	EXIT_ERROR_WC = 3,
	EXIT_STALLED = 4,
	EXIT_VIOLATED = 5,
	EXIT_EVENT = 6,
};

enum {
	STEPS = 8, /* buffers of a connection, and messages under way */
	CHANNELS_MAX = 32,
	QPS_MAX = 8,
	ALIGN_BYTES = 128, /* of the part that a QP has of a message */
	CLEARED = 0xee,	   /* what a buffer holds before it is filled */
	POLLED_AT_ONCE = 4,
	EVENTS_KEPT = 32,
};

/* What a receiver writes into the sender's FIFO. */
struct wanted {
	uint64_t address;
	uint32_t rkey;
	uint32_t length;
	uint64_t number; /* of the message, from 1: what the sender waits for */
};

struct address { /* over TCP, in the machine's own layout: both are the same program */
	uint32_t qpn[QPS_MAX];
	uint32_t fifo_rkey;
	uint64_t fifo;
	union ibv_gid gid;
	uint16_t lid;
};

struct message {
	uint32_t length;
	uint8_t qps_done;
	bool flushing;
};

struct connection {
	uint32_t index;
	bool sends;
	struct ibv_cq *cq;
	struct ibv_qp *qps[QPS_MAX], *flush_qp;
	struct ibv_mr *mr;
	uint8_t *memory; /* STEPS buffers, behind them the FIFO, and 8 bytes for what a flush reads
			  */
	volatile struct wanted *fifo;
	struct address own, peer;
	struct message messages[STEPS];
	uint64_t begun, done;
};

struct verdict {
	int status;
	uint64_t messages[CHANNELS_MAX]; /* that this side has sent */
};

static struct {
	const char *device, *port, *peer;
	uint32_t gid_index, ib_port, channels, qps, bytes, seconds, stall_s, timeout, retry;
	uint64_t seed;
	bool json;
} opt = {.device = "mlx5_0",
	 .port = "18516",
	 .ib_port = 1,
	 .channels = 4,
	 .qps = 2,
	 .bytes = 128 << 10,
	 .seconds = 5,
	 .stall_s = 30,
	 .timeout = 20,
	 .retry = 7,
	 .seed = 1};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct connection connections[2 * CHANNELS_MAX];
static uint32_t connection_count;
static int tcp;
static volatile sig_atomic_t told_to_stop;
static uint64_t bytes_received, flushes, wrong_messages;
static double longest_gap_ms, last_progress_ms;
static struct ibv_wc first_error;

/* Of the thread that waits for events. */
static enum ibv_event_type events[EVENTS_KEPT];
static atomic_uint event_count, fatal_events;

static const char *const help =
	"usage: collective [options] [PEER]\n"
	"Uses verbs as NCCL's network code does, in both directions, and checks every byte.\n"
	"The server has no PEER; the client says what is done.\n"
	"\n"
	"  --device NAME       RDMA device (mlx5_0)\n"
	"  --gid-index N       (0)    --ib-port N (1)    --port TCP-PORT (18516)\n"
	"  --timeout N         local ACK timeout (20)    --retry N (7)\n"
	"  --stall S           exit 4 when nothing completes for so long (30)\n"
	"  --json              one JSON object on standard output\n"
	"Of the client, for both:\n"
	"  --channels N        connections in each direction (4)    --qps N   of each (2)\n"
	"  --size BYTES        longest message (131072)    --seconds S (5)    --seed N (1)\n"
	"\n"
	"SIGINT or SIGTERM: no more is sent, and both sides end as usual.\n"
	"\n"
	"Exit status, the worse one of both sides: 0 all right, 1 set-up failed or the peer left,\n"
	"2 bad usage, 3 an error completion, 4 stalled, 5 a message was wrong, 6 a fatal event.\n";

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "collective: %s: %s\n", what, strerror(errno));
	exit(EXIT_SETUP);
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

/* --- what a message looks like
 * -------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15;
	return x ^ (x >> 29);
}

/* Of a connection's message; the same on both sides, as the sending connection of one has the
 * receiving one's index. */
static uint64_t message_key(const struct connection *c, uint64_t number)
{
	bool from_client = c->sends == !!opt.peer;

	return mix(mix(opt.seed * 2 + from_client) ^ c->index << 20) ^ mix(number);
}

static uint32_t message_length(const struct connection *c, uint64_t number)
{
	return (message_key(c, number) >> 20) % (opt.bytes / 8) * 8 + 8;
}

static void fill(const struct connection *c, uint64_t number, uint64_t *words, uint32_t bytes)
{
	uint64_t key = message_key(c, number);

	for (uint32_t i = 0; i < bytes / 8; i++)
		words[i] = mix(key + i);
}

static bool is_right(const struct connection *c, uint64_t number, const uint8_t *buffer,
		     uint32_t bytes)
{
	const uint64_t *words = (const uint64_t *)buffer;
	uint64_t key = message_key(c, number);

	for (uint32_t i = 0; i < bytes / 8; i++)
		if (words[i] != mix(key + i))
			return false;
	for (uint32_t i = bytes; i < opt.bytes; i++)
		if (buffer[i] != CLEARED)
			return false;
	return true;
}

static uint8_t *buffer_of(const struct connection *c, uint64_t number)
{
	return c->memory + number % STEPS * opt.bytes;
}

/* --- the device
 * ----------------------------------------------------------------------------------- */

static void device_open(void)
{
	struct ibv_device **list = verbs.get_device_list(NULL);

	errno = ENODEV;
	for (int i = 0; list && list[i] && !context; i++)
		if (!strcmp(verbs.get_device_name(list[i]), opt.device))
			context = verbs.open_device(list[i]);
	if (!context)
		fail(opt.device);
	verbs.free_device_list(list);
	pd = verbs.alloc_pd(context);
	if (!pd)
		fail("alloc_pd");
}

/* Everything that NCCL takes for the end of its device. */
static bool is_fatal(enum ibv_event_type type)
{
	switch ((int)type) {
	case IBV_EVENT_DEVICE_FATAL:
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_SRQ_ERR: return true;
	}
	return false;
}

static void ask_qp(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	if (!verbs.query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN, &init))
		fprintf(stderr, "collective: QP %u to %u is in state %d\n", qp->qp_num,
			attr.dest_qp_num, attr.qp_state);
}

static void *wait_for_events(void *unused)
{
	struct ibv_async_event e;

	(void)unused;
	while (!verbs.get_async_event(context, &e)) {
		uint32_t n = event_count;

		fprintf(stderr, "collective: event %s\n", verbs.event_type_str(e.event_type));
		if (n < EVENTS_KEPT)
			events[n] = e.event_type;
		event_count = n + 1;
		if (is_fatal(e.event_type))
			fatal_events++;
		if (e.event_type == IBV_EVENT_QP_FATAL || e.event_type == IBV_EVENT_QP_REQ_ERR ||
		    e.event_type == IBV_EVENT_QP_ACCESS_ERR || e.event_type == IBV_EVENT_COMM_EST)
			ask_qp(e.element.qp);
		verbs.ack_async_event(&e);
	}
	return NULL;
}

/* As NCCL does: for as long as the process lives. */
static void start_waiting(void)
{
	pthread_t thread;

	errno = pthread_create(&thread, NULL, wait_for_events, NULL);
	if (errno)
		fail("pthread_create");
	pthread_detach(thread);
}

/* --- connections
 * ---------------------------------------------------------------------------------- */

static struct ibv_qp *make_qp(struct connection *c, int access)
{
	struct ibv_qp_init_attr init = {
		.send_cq = c->cq,
		.recv_cq = c->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 8 * STEPS,
			.max_recv_wr = STEPS,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = sizeof(struct wanted)},
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = opt.ib_port, .qp_access_flags = access};
	struct ibv_qp *qp = verbs.create_qp(pd, &init);

	if (!qp)
		fail("create_qp");
	errno = verbs.modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (errno)
		fail("INIT");
	return qp;
}

/* PSNs are 0 in both directions, as all of NCCL's are. */
static void connect_qp(struct ibv_qp *qp, uint32_t qpn, const struct address *to,
		       const struct ibv_port_attr *port)
{
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
				  .path_mtu = port->active_mtu,
				  .dest_qp_num = qpn,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 12,
				  .ah_attr = {.dlid = to->lid, .port_num = opt.ib_port}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = opt.timeout,
				  .retry_cnt = opt.retry,
				  .rnr_retry = 7,
				  .max_rd_atomic = 1};

	rtr.ah_attr.is_global = 1;
	rtr.ah_attr.grh.dgid = to->gid;
	rtr.ah_attr.grh.sgid_index = opt.gid_index;
	rtr.ah_attr.grh.hop_limit = 255;
	errno = verbs.modify_qp(qp, &rtr,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER);
	if (errno)
		fail("RTR");
	errno = verbs.modify_qp(qp, &rts,
				IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (errno)
		fail("RTS");
}

static size_t memory_bytes(void)
{
	return (size_t)STEPS * opt.bytes + STEPS * sizeof(struct wanted) + 8;
}

static void make_memory(struct connection *c)
{
	c->memory = aligned_alloc(4096, (memory_bytes() + 4095) / 4096 * 4096);
	if (!c->memory)
		fail("memory");
	memset(c->memory, CLEARED, (size_t)STEPS * opt.bytes);
	memset(c->memory + STEPS * opt.bytes, 0, memory_bytes() - (size_t)STEPS * opt.bytes);
	c->fifo = (volatile struct wanted *)(c->memory + STEPS * opt.bytes);
	c->mr = verbs.reg_mr(pd, c->memory, memory_bytes(),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				     IBV_ACCESS_REMOTE_READ);
	if (!c->mr)
		fail("reg_mr");
}

static void make_connection(struct connection *c, const struct ibv_port_attr *port)
{
	c->cq = verbs.create_cq(context, 64 * STEPS, NULL, NULL, 0);
	if (!c->cq)
		fail("create_cq");
	make_memory(c);
	for (uint32_t i = 0; i < opt.qps; i++) {
		c->qps[i] = make_qp(c, IBV_ACCESS_REMOTE_WRITE);
		c->own.qpn[i] = c->qps[i]->qp_num;
	}
	c->own.lid = port->lid;
	c->own.fifo = (uintptr_t)c->fifo;
	c->own.fifo_rkey = c->mr->rkey;
	if (verbs.query_gid(context, opt.ib_port, opt.gid_index, &c->own.gid))
		fail("query_gid");
	if (c->sends)
		return;
	c->flush_qp = make_qp(c, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	connect_qp(c->flush_qp, c->flush_qp->qp_num, &c->own, port);
}

/* Connection 2 i of the client sends to connection 2 i of the server; 2 i + 1 is the way back. */
static void make_connections(void)
{
	struct ibv_port_attr port;

	errno = verbs.query_port(context, opt.ib_port, &port);
	if (errno)
		fail("query_port");
	connection_count = 2 * opt.channels;
	for (uint32_t i = 0; i < connection_count; i++) {
		struct connection *c = &connections[i];

		c->index = i;
		c->sends = (i % 2 == 0) == !!opt.peer;
		make_connection(c, &port);
		if (!tcp_send(tcp, &c->own, sizeof(c->own)) ||
		    !tcp_receive(tcp, &c->peer, sizeof(c->peer)))
			fail("the peer left");
		for (uint32_t q = 0; q < opt.qps; q++)
			connect_qp(c->qps[q], c->peer.qpn[q], &c->peer, &port);
	}
}

static void end_connections(void)
{
	for (uint32_t i = 0; i < connection_count; i++) {
		struct connection *c = &connections[i];

		for (uint32_t q = 0; q < opt.qps; q++)
			if (verbs.destroy_qp(c->qps[q]))
				fail("destroy_qp");
		if ((c->flush_qp && verbs.destroy_qp(c->flush_qp)) || verbs.destroy_cq(c->cq) ||
		    verbs.dereg_mr(c->mr))
			fail("the end of a connection");
		free(c->memory);
	}
}

/* --- sending and receiving
 * ------------------------------------------------------------------------ */

static void post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;

	errno = ibv_post_send(qp, wr, &bad);
	if (errno)
		fail("post_send");
}

/* Two WRITEs and a WRITE_WITH_IMM, which carries the rest or nothing. */
static void send_part(struct connection *c, uint64_t number, uint32_t q, const struct wanted *to)
{
	uint32_t length = message_length(c, number);
	uint32_t part = (length / opt.qps + ALIGN_BYTES) / ALIGN_BYTES * ALIGN_BYTES;
	uint32_t from = q * part < length ? q * part : length;
	uint32_t end = from + part < length ? from + part : length;
	uint32_t cuts[4] = {from, from + (end - from) / 3, from + (end - from) / 2,
			    number % 2 ? end : from + (end - from) / 2};
	struct ibv_send_wr wrs[3] = {0};
	struct ibv_sge sges[3];

	cuts[2] = number % 2 ? cuts[2] : end;
	cuts[3] = end;
	for (int i = 0; i < 3; i++) {
		sges[i] = (struct ibv_sge){.addr = (uintptr_t)buffer_of(c, number) + cuts[i],
					   .length = cuts[i + 1] - cuts[i],
					   .lkey = c->mr->lkey};
		wrs[i].opcode = IBV_WR_RDMA_WRITE;
		wrs[i].sg_list = &sges[i];
		wrs[i].num_sge = sges[i].length ? 1 : 0;
		wrs[i].wr.rdma.remote_addr = to->address + cuts[i];
		wrs[i].wr.rdma.rkey = to->rkey;
		wrs[i].next = i < 2 ? &wrs[i + 1] : NULL;
	}
	wrs[2].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wrs[2].imm_data = length;
	wrs[2].send_flags = IBV_SEND_SIGNALED;
	wrs[2].wr_id = number;
	post(c->qps[q], wrs);
}

/* The next message, if the receiver wants it and its buffer is free. */
static bool send_next(struct connection *c)
{
	volatile struct wanted *w = &c->fifo[c->begun % STEPS];
	struct wanted to;

	if (c->begun - c->done == STEPS || w->number != c->begun + 1)
		return false;
	atomic_thread_fence(memory_order_acquire);
	to = (struct wanted){.address = w->address, .rkey = w->rkey};
	c->messages[c->begun % STEPS] = (struct message){.length = message_length(c, c->begun)};
	fill(c, c->begun, (uint64_t *)buffer_of(c, c->begun), message_length(c, c->begun));
	for (uint32_t q = 0; q < opt.qps; q++)
		send_part(c, c->begun, q, &to);
	c->begun++;
	return true;
}

/* Says which buffer is to be filled next. */
static void want(struct connection *c)
{
	struct wanted *w = (struct wanted *)&c->fifo[c->begun % STEPS];
	uint32_t place = c->begun % STEPS;
	struct ibv_sge sge = {.addr = (uintptr_t)w, .length = sizeof(*w)};
	struct ibv_send_wr wr = {.wr_id = UINT64_MAX,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_INLINE | (place ? 0 : IBV_SEND_SIGNALED),
				 .wr.rdma = {.remote_addr = c->peer.fifo + place * sizeof(*w),
					     .rkey = c->peer.fifo_rkey}};

	*w = (struct wanted){.address = (uintptr_t)buffer_of(c, c->begun),
			     .rkey = c->mr->rkey,
			     .length = opt.bytes,
			     .number = c->begun + 1};
	post(c->qps[0], &wr);
}

static bool receive_next(struct connection *c)
{
	struct ibv_recv_wr wr = {.wr_id = c->begun}, *bad = NULL;

	if (c->begun - c->done == STEPS)
		return false;
	c->messages[c->begun % STEPS] = (struct message){0};
	memset(buffer_of(c, c->begun), CLEARED, opt.bytes);
	for (uint32_t q = 0; q < opt.qps; q++) {
		errno = ibv_post_recv(c->qps[q], &wr, &bad);
		if (errno)
			fail("post_recv");
	}
	want(c);
	c->begun++;
	return true;
}

static void flush(struct connection *c, uint64_t number)
{
	struct ibv_sge sge = {.addr = (uintptr_t)&c->fifo[STEPS], .length = 1, .lkey = c->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = number,
		.opcode = IBV_WR_RDMA_READ,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)buffer_of(c, number), .rkey = c->mr->rkey}};

	c->messages[number % STEPS].flushing = true;
	post(c->flush_qp, &wr);
}

/* What the flush has made visible is looked at, in the order of the messages. */
static void take(struct connection *c, uint64_t number)
{
	const struct message *m = &c->messages[number % STEPS];

	flushes++;
	if (number != c->done || m->length != message_length(c, number) ||
	    !is_right(c, number, buffer_of(c, number), m->length)) {
		fprintf(stderr, "collective: message %" PRIu64 " of connection %u is wrong\n",
			number, c->index);
		wrong_messages++;
	}
	bytes_received += m->length;
	c->done++;
}

static void part_received(struct connection *c, const struct ibv_wc *wc)
{
	struct message *m = &c->messages[wc->wr_id % STEPS];

	if ((m->qps_done && m->length != wc->imm_data) || wc->wr_id < c->done ||
	    wc->wr_id >= c->begun || m->qps_done == opt.qps) {
		fprintf(stderr, "collective: a completion of connection %u is wrong\n", c->index);
		wrong_messages++;
	}
	m->length = wc->imm_data;
	m->qps_done++;
}

/* One message at a time is flushed, when all of it is there. */
static void flush_next(struct connection *c)
{
	struct message *m = &c->messages[c->done % STEPS];

	if (c->done < c->begun && m->qps_done == opt.qps && !m->flushing)
		flush(c, c->done);
}

static void completed(struct connection *c, const struct ibv_wc *wc)
{
	struct message *m = &c->messages[wc->wr_id % STEPS];

	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		part_received(c, wc);
	else if (wc->opcode == IBV_WC_RDMA_READ)
		take(c, wc->wr_id);
	else if (wc->wr_id != UINT64_MAX && wc->wr_id >= c->done && wc->wr_id < c->begun)
		m->qps_done++;
	else if (wc->wr_id != UINT64_MAX)
		wrong_messages++;
	/* In the order in which they were begun, whichever QP is first. */
	while (c->sends && c->done < c->begun && c->messages[c->done % STEPS].qps_done == opt.qps)
		c->done++;
}

static bool poll_connection(struct connection *c)
{
	struct ibv_wc wcs[POLLED_AT_ONCE];
	int n = ibv_poll_cq(c->cq, POLLED_AT_ONCE, wcs);

	if (n < 0)
		fail("poll_cq");
	for (int i = 0; i < n && !first_error.status; i++) {
		if (wcs[i].status)
			first_error = wcs[i];
		else
			completed(c, &wcs[i]);
	}
	if (!c->sends)
		flush_next(c);
	return n > 0;
}

static void progressed(void)
{
	double now = now_ms();

	if (now - last_progress_ms > longest_gap_ms)
		longest_gap_ms = now - last_progress_ms;
	last_progress_ms = now;
}

/* A turn over all connections. */
static void turn(bool stopping)
{
	for (uint32_t i = 0; i < connection_count; i++) {
		struct connection *c = &connections[i];

		if (poll_connection(c))
			progressed();
		if (c->sends && !stopping)
			send_next(c);
		else if (!c->sends)
			receive_next(c);
	}
}

/* Has the peer everything that this side has sent, and the other way round? */
static bool all_done(const struct verdict *peer)
{
	for (uint32_t i = 0; i < connection_count; i++) {
		const struct connection *c = &connections[i];

		if (c->sends ? c->done < c->begun : c->done < peer->messages[i])
			return false;
	}
	return true;
}

static int trouble(void)
{
	if (wrong_messages)
		return EXIT_VIOLATED;
	if (first_error.status)
		return EXIT_ERROR_WC;
	if (fatal_events)
		return EXIT_EVENT;
	return now_ms() - last_progress_ms > opt.stall_s * 1e3 ? EXIT_STALLED : 0;
}

static void tell(int status)
{
	struct verdict own = {.status = status};

	for (uint32_t i = 0; i < connection_count; i++)
		own.messages[i] = connections[i].sends ? connections[i].begun : 0;
	if (!tcp_send(tcp, &own, sizeof(own)))
		fprintf(stderr, "collective: the peer left\n");
}

/* What the peer said last: how much it has sent once it sends no more, and then, in its status, how
 * it ended (-1: well). */
static bool hear(struct verdict *peer, bool *heard)
{
	*heard = true;
	return tcp_receive(tcp, peer, sizeof(*peer));
}

/* Either side may end it: it says how much it has sent, sends no more, and takes what the peer has
 * sent. */
static int run_until(double end_ms, struct verdict *peer)
{
	bool told = false, heard = false;
	int status;

	last_progress_ms = now_ms();
	while (!(status = trouble()) && !(told && heard && all_done(peer))) {
		turn(told);
		if (tcp_pending(tcp, 0) && !hear(peer, &heard))
			return EXIT_SETUP;
		if (peer->status > 0)
			break;
		if (!told && (heard || told_to_stop || (opt.peer && now_ms() > end_ms))) {
			tell(0);
			told = true;
		}
	}
	return status;
}

/* The last word of both; the peer's may have come already. */
static int agree(int status, struct verdict *peer)
{
	bool heard;

	tell(status ? status : -1);
	while (!peer->status)
		if (!hear(peer, &heard))
			return status ? status : EXIT_SETUP;
	return status > peer->status ? status : peer->status > 0 ? peer->status : 0;
}

static void report(int status, double ms)
{
	uint64_t sent = 0, received = 0;

	for (uint32_t i = 0; i < connection_count; i++)
		*(connections[i].sends ? &sent : &received) += connections[i].done;
	if (first_error.status)
		fprintf(stderr, "collective: completion with error %d, vendor_err 0x%x\n",
			first_error.status, first_error.vendor_err);
	if (!opt.json) {
		printf("%s: %" PRIu64 " messages sent, %" PRIu64 " received (%" PRIu64
		       " MB) in %.1f s, longest gap %.0f ms\n",
		       status ? "FAILED" : "all right", sent, received, bytes_received >> 20,
		       ms / 1e3, longest_gap_ms);
		return;
	}
	printf("{\"status\": %d, \"duration_ms\": %.0f, \"sent\": %" PRIu64
	       ", \"received\": %" PRIu64 ", \"bytes_received\": %" PRIu64 ", \"flushes\": %" PRIu64
	       ", \"wrong_messages\": %" PRIu64 ", \"longest_gap_ms\": %.1f, \"error\": ",
	       status, ms, sent, received, bytes_received, flushes, wrong_messages, longest_gap_ms);
	if (first_error.status)
		printf("{\"code\": %d, \"vendor_err\": %u}", first_error.status,
		       first_error.vendor_err);
	else
		printf("null");
	printf(", \"fatal_events\": %u, \"events\": [", fatal_events);
	for (uint32_t i = 0; i < event_count && i < EVENTS_KEPT; i++)
		printf("%s%d", i ? ", " : "", events[i]);
	printf("]}\n");
}

/* --- options
 * -------------------------------------------------------------------------------------- */

static _Noreturn void bad(const char *option, const char *value)
{
	fprintf(stderr, "collective: %s: '%s' is not allowed; see --help\n", option, value);
	exit(EXIT_USAGE);
}

static const struct number {
	const char *name;
	uint32_t *to, low, high;
} numbers[] = {
	{"gid-index", &opt.gid_index, 0, 255},
	{"ib-port", &opt.ib_port, 1, 255},
	{"channels", &opt.channels, 1, CHANNELS_MAX / 2},
	{"qps", &opt.qps, 1, QPS_MAX},
	{"size", &opt.bytes, 64, 16 << 20},
	{"seconds", &opt.seconds, 1, 864000},
	{"stall", &opt.stall_s, 1, 86400},
	{"timeout", &opt.timeout, 0, 31},
	{"retry", &opt.retry, 0, 7},
};

static bool take_number(const char *name, const char *value)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		char *end;
		unsigned long n;

		if (strcmp(name, numbers[i].name))
			continue;
		n = strtoul(value, &end, 10);
		if (!*value || *end || n < numbers[i].low || n > numbers[i].high)
			bad(name, value);
		*numbers[i].to = n;
		return true;
	}
	return false;
}

static void take_option(const char *name, const char *value)
{
	if (!strcmp(name, "device"))
		opt.device = value;
	else if (!strcmp(name, "port"))
		opt.port = value;
	else if (!strcmp(name, "seed"))
		opt.seed = strtoull(value, NULL, 0);
	else if (!strcmp(name, "json"))
		opt.json = true;
	else
		take_number(name, value);
}

static void parse(int argc, char **argv)
{
	static const char *const names[] = {"gid-index", "ib-port", "channels", "qps",	 "size",
					    "seconds",	 "stall",   "timeout",	"retry", "device",
					    "port",	 "seed",    "json",	"help"};
	struct option options[sizeof(names) / sizeof(*names) + 1] = {0};
	int c, at;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		options[i] = (struct option){.name = names[i],
					     .has_arg = strcmp(names[i], "json") &&
							strcmp(names[i], "help")};
	while ((c = getopt_long(argc, argv, "", options, &at)) != -1) {
		if (c == '?')
			exit(EXIT_USAGE);
		if (!strcmp(names[at], "help")) {
			fputs(help, stdout);
			exit(0);
		}
		take_option(names[at], optarg);
	}
	if (argc - optind > 1)
		bad("more than one PEER", argv[optind + 1]);
	opt.peer = argv[optind];
	opt.bytes = opt.bytes / 8 * 8;
}

/* The side that connects says what is to be done. */
static void agree_on_options(void)
{
	struct {
		uint64_t seed;
		uint32_t channels, qps, bytes;
	} w = {opt.seed, opt.channels, opt.qps, opt.bytes};

	if (opt.peer ? !tcp_send(tcp, &w, sizeof(w)) : !tcp_receive(tcp, &w, sizeof(w)))
		fail("the peer left");
	opt.seed = w.seed;
	opt.channels = w.channels;
	opt.qps = w.qps;
	opt.bytes = w.bytes;
}

static void stop(int signal)
{
	(void)signal;
	told_to_stop = 1;
}

int main(int argc, char **argv)
{
	struct verdict peer = {0};
	const char *missing;
	double start_ms;
	int status;

	parse(argc, argv);
	missing = verbs_table_load();
	if (missing) {
		fprintf(stderr, "collective: there is no %s\n", missing);
		return EXIT_SETUP;
	}
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	tcp = tcp_open("collective", opt.peer, opt.port);
	agree_on_options();
	device_open();
	start_waiting();
	make_connections();
	fprintf(stderr, "collective: running\n");
	start_ms = now_ms();
	status = run_until(start_ms + opt.seconds * 1e3, &peer);
	status = agree(status, &peer);
	report(status, now_ms() - start_ms);
	end_connections();
	return status;
}
