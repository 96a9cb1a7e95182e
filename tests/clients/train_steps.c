/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A training job without a framework: each step computes (it sleeps), and then moves data both ways
 * between two hosts and waits for all of them, as an all-reduce does. Every few steps both sides
 * write a checkpoint; started again they go on from the last one that both have. All data are
 * checked, and the sum of a job that was restarted is that of one that was not.
 *
 * The client says "step N" when a step is done, and "checkpoint N", as shift-bench(1) wants it.
 *
 * Exit status: 0 all steps are done, 1 set-up failed, 2 bad usage, 3 an error completion, or the
 * peer left, 4 nothing completed for --stall seconds, 5 wrong data.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cli.h"
#include "tests/clients/rc_peer.h"
#include "tests/clients/tcp.h"

enum {
	EXIT_SETUP = 1,
	EXIT_USAGE = 2,
	EXIT_LOST = 3,
	EXIT_STALLED = 4,
	EXIT_WRONG = 5,
	DEPTH = 32,
	/* One packet: what soft-RoCE makes of longer ones after a long cut is not our matter. */
	MESSAGE = 4096,
	WORDS = MESSAGE / sizeof(uint64_t),
	LOOK_MS = 200,
	PAUSE_US = 20,
};

static const char help[] =
	"usage: train-steps [options] [PEER]\n"
	"Steps that move data both ways between two hosts, with checkpoints. The server has no "
	"PEER;\n"
	"both are given the same options. The client says \"step N\" and \"checkpoint N\".\n"
	"\n"
	"  --device NAME         RDMA device (mlx5_0)\n"
	"  --gid-index N         (0)\n"
	"  --port TCP-PORT       where the server listens (18518)\n"
	"  --steps N             until step N (100)\n"
	"  --compute-ms N        what a step computes (200)\n"
	"  --messages N          of 4 KB, of a step each way (64)\n"
	"  --checkpoint FILE     go on from there; written every few steps\n"
	"  --checkpoint-every N  steps (10)\n"
	"  --stall S             exit 4 when nothing completes for so long (30)\n"
	"  --tcp                 move the data by TCP: no NIC is needed, and none is tested\n"
	"  --help                this text\n";

static const char *device = "mlx5_0", *port = "18518", *file, *peer;
static bool by_tcp;
static long gid_index, steps = 100, compute_ms = 200, messages = 64, every = 10, stall_s = 30;

static const struct option options[] = {
	{"device", required_argument, NULL, 'd'},
	{"port", required_argument, NULL, 'p'},
	{"checkpoint", required_argument, NULL, 'c'},
	{"tcp", no_argument, NULL, 't'},
	{"help", no_argument, NULL, 'h'},
	{"gid-index", required_argument, NULL, 0},
	{"steps", required_argument, NULL, 0},
	{"compute-ms", required_argument, NULL, 0},
	{"messages", required_argument, NULL, 0},
	{"checkpoint-every", required_argument, NULL, 0},
	{"stall", required_argument, NULL, 0},
	{NULL, 0, NULL, 0},
};

static const struct number {
	const char *name;
	long *to, low, high;
} numbers[] = {
	{"gid-index", &gid_index, 0, 255},	  {"steps", &steps, 1, 1000000},
	{"compute-ms", &compute_ms, 0, 60000},	  {"messages", &messages, 1, 65536},
	{"checkpoint-every", &every, 1, 1000000}, {"stall", &stall_s, 1, 86400},
};

static void set_number(const char *name, const char *value)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		const struct number *n = &numbers[i];

		if (strcmp(n->name, name) != 0)
			continue;
		*n->to = parse_number(value, n->low, n->high);
		if (*n->to < 0)
			die(EXIT_USAGE, "--%s %s: a number from %ld to %ld", name, value, n->low,
			    n->high);
	}
}

static void parse(int argc, char **argv)
{
	int c, i;

	while ((c = getopt_long(argc, argv, "", options, &i)) != -1)
		switch (c) {
		case 0: set_number(options[i].name, optarg); break;
		case 'd': device = optarg; break;
		case 'p': port = optarg; break;
		case 'c': file = optarg; break;
		case 't': by_tcp = true; break;
		case 'h': print_and_exit(help);
		default: exit(EXIT_USAGE);
		}
	if (argc - optind > 1)
		die(EXIT_USAGE, "not understood: %s; see train-steps --help", argv[optind + 1]);
	peer = argv[optind];
}

/* ---- the data ------------------------------------------------------------------------------- */

struct job {
	struct rc_peer rc;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint64_t (*memory)[WORDS]; /* DEPTH to send, then DEPTH to receive */
	uint64_t sent, received;   /* messages since the start */
	uint64_t first;		   /* the number of the first message of this life */
	long step;		   /* done */
	uint64_t sum;		   /* of all that was received */
	int tcp;
};

/* splitmix64 */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* The first word is the message's number, so that a wrong one can be told from a spoilt one. */
static uint64_t word_of(uint64_t number, bool of_client, size_t i)
{
	return i ? mix(number * WORDS + i + (of_client ? UINT64_C(1) << 63 : 0)) : number;
}

static void fill(uint64_t message[WORDS], uint64_t number)
{
	for (size_t i = 0; i < WORDS; i++)
		message[i] = word_of(number, peer != NULL, i);
}

static void check(struct job *j, const uint64_t message[WORDS], uint64_t number)
{
	for (size_t i = 0; i < WORDS; i++)
		if (message[i] != word_of(number, peer == NULL, i))
			die(EXIT_WRONG, "message %" PRIu64 ", word %zu: %" PRIx64 ", not %" PRIx64,
			    number, i, message[i], word_of(number, peer == NULL, i));
	for (size_t i = 0; i < WORDS; i++)
		j->sum = mix(j->sum ^ message[i]);
}

/* ---- by RDMA -------------------------------------------------------------------------------- */

static struct ibv_sge sge_of(const struct job *j, size_t slot)
{
	return (struct ibv_sge){(uintptr_t)j->memory[slot], MESSAGE, j->mr->lkey};
}

static void post_receive(struct job *j, size_t slot)
{
	struct ibv_sge sge = sge_of(j, slot);
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(j->qp, &wr, &bad))
		die(EXIT_SETUP, "post_recv: %s", strerror(errno));
}

static void post_send(struct job *j)
{
	size_t slot = j->sent % DEPTH;
	struct ibv_sge sge = sge_of(j, slot);
	struct ibv_send_wr wr = {.wr_id = slot,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	fill(j->memory[slot], j->first + j->sent++);
	if (ibv_post_send(j->qp, &wr, &bad))
		die(EXIT_SETUP, "post_send: %s", strerror(errno));
}

static void rdma_open(struct job *j)
{
	size_t bytes = (size_t)2 * DEPTH * MESSAGE;

	rc_peer_open(&j->rc, j->tcp, device, (int)gid_index, 2 * DEPTH);
	j->memory = aligned_alloc(MESSAGE, bytes);
	if (!j->memory)
		die(EXIT_SETUP, "no memory");
	j->mr = ibv_reg_mr(j->rc.pd, j->memory, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!j->mr)
		die(EXIT_SETUP, "reg_mr: %s", strerror(errno));
	j->qp = rc_peer_connect(&j->rc, DEPTH);
	for (size_t slot = DEPTH; slot < (size_t)2 * DEPTH; slot++)
		post_receive(j, slot);
	rc_peer_meet(&j->rc);
}

static void complete(struct job *j, const struct ibv_wc *wc, uint64_t *acknowledged)
{
	if (wc->status != IBV_WC_SUCCESS)
		die(EXIT_LOST, "%s: %s", wc->wr_id < DEPTH ? "send" : "receive",
		    ibv_wc_status_str(wc->status));
	if (wc->wr_id < DEPTH) {
		++*acknowledged;
		return;
	}
	check(j, j->memory[wc->wr_id], j->first + j->received++);
	post_receive(j, wc->wr_id);
}

/* Nothing came: a peer that has died says so by TCP, and no completion comes for it. */
static void wait_a_moment(struct job *j, int64_t since_ms, int64_t *looked_ms)
{
	int64_t now = now_ms();

	usleep(PAUSE_US);
	if (now - *looked_ms < LOOK_MS)
		return;
	*looked_ms = now;
	if (tcp_left(j->tcp))
		die(EXIT_LOST, "the peer left");
	if (now - since_ms > stall_s * 1000)
		die(EXIT_STALLED, "nothing completed for %ld s", stall_s);
}

/* The peer may be a step ahead, so that more has come than this step needs. */
static void exchange(struct job *j)
{
	uint64_t from = j->sent, to = from + (uint64_t)messages, acknowledged = from;
	int64_t since_ms = now_ms(), looked_ms = since_ms;
	struct ibv_wc wc[DEPTH];

	while (acknowledged < to || j->received < to) {
		int n;

		while (j->sent < to && j->sent - acknowledged < DEPTH)
			post_send(j);
		n = ibv_poll_cq(j->rc.cq, DEPTH, wc);
		if (n < 0)
			die(EXIT_LOST, "poll_cq failed");
		for (int i = 0; i < n; i++)
			complete(j, &wc[i], &acknowledged);
		if (n)
			since_ms = now_ms();
		else
			wait_a_moment(j, since_ms, &looked_ms);
	}
}

/* ---- by TCP --------------------------------------------------------------------------------- */

static void exchange_by_tcp(struct job *j)
{
	uint64_t message[WORDS];

	for (long i = 0; i < messages; i++) {
		fill(message, j->first + j->sent++);
		if (!tcp_send(j->tcp, message, MESSAGE) || !tcp_receive(j->tcp, message, MESSAGE))
			die(EXIT_LOST, "the peer left");
		check(j, message, j->first + j->received++);
	}
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

static const char *older(void)
{
	return format_text("%s.old", file);
}

/* False: there is none. Before step 1 there is always one. */
static bool read_checkpoint(const char *path, long *step, uint64_t *sum)
{
	FILE *f = path ? fopen(path, "re") : NULL;
	bool whole;

	*step = 0;
	*sum = 0;
	if (!f)
		return false;
	whole = fscanf(f, "%ld %" SCNx64, step, sum) == 2;
	fclose(f);
	if (!whole)
		die(EXIT_SETUP, "%s: not a checkpoint", path);
	return true;
}

/* The one before stays: the peer may die before it has written this one. */
static void write_checkpoint(const struct job *j)
{
	const char *fresh = format_text("%s.new", file);
	FILE *f = fopen(fresh, "we");

	if (!f || fprintf(f, "%ld %" PRIx64 "\n", j->step, j->sum) < 0 || fflush(f) ||
	    fsync(fileno(f)) || fclose(f))
		die(EXIT_SETUP, "%s: %s", fresh, strerror(errno));
	if ((rename(file, older()) && errno != ENOENT) || rename(fresh, file))
		die(EXIT_SETUP, "%s: %s", file, strerror(errno));
}

/* The last one that both have. */
static void resume(struct job *j)
{
	long theirs;

	read_checkpoint(file, &j->step, &j->sum);
	if (!tcp_send(j->tcp, &j->step, sizeof(j->step)) ||
	    !tcp_receive(j->tcp, &theirs, sizeof(theirs)))
		die(EXIT_SETUP, "the peer left");
	if (theirs < j->step)
		read_checkpoint(older(), &j->step, &j->sum);
	if (theirs < j->step || (theirs > j->step && theirs - j->step != every))
		die(EXIT_SETUP, "the checkpoints are of steps %ld and %ld", j->step, theirs);
	j->first = (uint64_t)j->step * (uint64_t)messages;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void tell(const char *what, long number)
{
	if (!peer)
		return;
	printf("%s %ld\n", what, number);
	fflush(stdout);
}

static void run(struct job *j)
{
	while (j->step < steps) {
		usleep((useconds_t)compute_ms * 1000);
		if (by_tcp)
			exchange_by_tcp(j);
		else
			exchange(j);
		tell("step", ++j->step);
		if (file && j->step % every == 0) {
			write_checkpoint(j);
			tell("checkpoint", j->step);
		}
	}
}

int main(int argc, char **argv)
{
	struct job j = {0};

	cli_begin("train-steps", EXIT_SETUP);
	parse(argc, argv);
	j.tcp = tcp_open("train-steps", peer, port);
	resume(&j);
	if (!by_tcp)
		rdma_open(&j);
	else
		j.rc.tcp = j.tcp;
	run(&j);
	rc_peer_meet(&j.rc);
	if (peer)
		printf("sum %016" PRIx64 "\n", j.sum);
	return 0;
}
