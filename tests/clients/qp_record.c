/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * qp_record: records what a real NIC does, to check the simulator's model of a NIC.
 *
 * Carries a scenario out (the "do" lines of tests/sim/traces/README) on one pair of QPs of two NICs
 * that this one host has (layout single of the testbed), and prints it again with what was seen
 * after each step as "expect" lines: completions in order, the QPs' states, rq_psn.
 *
 * usage: qp_record NIC0 NETDEV0 NIC1 NETDEV1 <scenario >trace
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tests/clients/rc_device.h"
#include "tests/clients/shell.h"

enum { SIDES = 2, DEPTH = 256, SLOT_BYTES = 16384, TIMEOUT = 14 };

struct side {
	const char *nic, *netdev;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq; /* between the two there is no order to record */
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	union ibv_gid gid;
	char *memory;
	uint64_t posted;
	bool drops, down; /* to be undone at the next set-up */
};

static struct side sides[SIDES];

_Noreturn void fail(const char *what)
{
	fprintf(stderr, "qp_record: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int number(const cJSON *o, const char *key, int otherwise)
{
	const cJSON *v = cJSON_GetObjectItem(o, key);

	return cJSON_IsNumber(v) ? (int)v->valuedouble : otherwise;
}

static const char *text(const cJSON *o, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItem(o, key));

	return s ? s : "";
}

static struct side *side_of(const cJSON *o, const char *key)
{
	return &sides[number(o, key, 0) & 1];
}

/* ---- faults, as a network makes them ------------------------------------------------------- */

/* GID 0 is IPv6: UDP to port 4791, and the BTH's opcode behind it (0x11: RC acknowledge). */
static void drop(struct side *at, const char *hook, const char *only)
{
	if (!at->drops)
		shell("tc qdisc add dev %s clsact", at->netdev);
	at->drops = true;
	shell("tc filter add dev %s %s protocol ipv6 u32 match u8 17 0xff at 6 "
	      "match u16 0x12b7 0xffff at 42 %s action drop",
	      at->netdev, hook, only);
}

static void undrop(struct side *at)
{
	if (at->drops)
		shell("tc qdisc del dev %s clsact", at->netdev);
	at->drops = false;
}

static void set_link(struct side *s, bool up)
{
	shell("ip link set dev %s %s", s->netdev, up ? "up" : "down");
	s->down = !up;
	/* The port's state follows a moment later, and an address comes back with it. */
	poll(NULL, 0, 300);
}

/* ---- queue pairs --------------------------------------------------------------------------- */

static void open_side(struct side *s)
{
	s->context = rc_device_open(s->nic);
	s->memory = calloc(DEPTH, SLOT_BYTES);
	s->pd = s->context ? ibv_alloc_pd(s->context) : NULL;
	s->mr = s->pd ? ibv_reg_mr(s->pd, s->memory, (size_t)DEPTH * SLOT_BYTES,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					   IBV_ACCESS_REMOTE_READ)
		      : NULL;
	if (!s->mr || ibv_query_gid(s->context, 1, 0, &s->gid))
		fail(s->nic);
}

static void fresh_qp(struct side *s)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = DEPTH,
						.max_recv_wr = DEPTH,
						.max_send_sge = 1,
						.max_recv_sge = 1}};

	if (s->qp)
		ibv_destroy_qp(s->qp);
	if (s->send_cq)
		ibv_destroy_cq(s->send_cq);
	if (s->recv_cq)
		ibv_destroy_cq(s->recv_cq);
	attr.send_cq = s->send_cq = ibv_create_cq(s->context, 2 * DEPTH, NULL, NULL, 0);
	attr.recv_cq = s->recv_cq = ibv_create_cq(s->context, 2 * DEPTH, NULL, NULL, 0);
	s->qp = s->send_cq && s->recv_cq ? ibv_create_qp(s->pd, &attr) : NULL;
	if (!s->qp)
		fail("create_qp");
}

static enum ibv_mtu mtu_of(int bytes)
{
	enum ibv_mtu m = IBV_MTU_256;

	while (128 << m < bytes)
		m++;
	return m;
}

static void connect_side(struct side *s, const struct side *peer, const cJSON *o, int psn,
			 int peer_psn)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						      IBV_ACCESS_REMOTE_READ};
	struct ibv_qp_attr rtr = {.path_mtu = mtu_of(number(o, "mtu", 1024)),
				  .dest_qp_num = peer->qp->qp_num,
				  .rq_psn = peer_psn,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 12,
				  .ah_attr = {.is_global = 1,
					      .port_num = 1,
					      .grh = {.dgid = peer->gid, .hop_limit = 64}}};
	struct ibv_qp_attr rts = {.sq_psn = psn,
				  .timeout = TIMEOUT,
				  .retry_cnt = number(o, "retry", 6),
				  .rnr_retry = 7,
				  .max_rd_atomic = 1};

	if (ibv_modify_qp(s->qp, &init,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ||
	    rc_device_rtr(s->qp, &rtr) || rc_device_rts(s->qp, &rts))
		fail("modify_qp");
}

static void set_up(const cJSON *o)
{
	int psn[SIDES] = {number(o, "psn0", 0), number(o, "psn1", 0)};

	for (int i = 0; i < SIDES; i++) {
		undrop(&sides[i]);
		if (sides[i].down)
			set_link(&sides[i], true);
		fresh_qp(&sides[i]);
	}
	for (int i = 0; i < SIDES; i++)
		connect_side(&sides[i], &sides[1 - i], o, psn[i], psn[1 - i]);
}

static void post_send(struct side *s, const cJSON *o)
{
	const struct side *peer = &sides[s == &sides[0] ? 1 : 0];
	const char *op = text(o, "op");

	for (int i = 0; i < number(o, "n", 1); i++) {
		uint64_t offset = s->posted++ % DEPTH * SLOT_BYTES;
		struct ibv_sge sge = {.addr = (uintptr_t)s->memory + offset,
				      .length = number(o, "len", 64),
				      .lkey = s->mr->lkey};
		struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

		wr.opcode = !strcmp(op, "WRITE")  ? IBV_WR_RDMA_WRITE
			    : !strcmp(op, "READ") ? IBV_WR_RDMA_READ
						  : IBV_WR_SEND;
		wr.send_flags = number(o, "signaled", 1) ? IBV_SEND_SIGNALED : 0;
		wr.wr.rdma.remote_addr = (uintptr_t)peer->memory + offset;
		wr.wr.rdma.rkey = peer->mr->rkey;
		if (ibv_post_send(s->qp, &wr, &bad))
			fail("post_send");
	}
}

static void post_recv(struct side *s, const cJSON *o)
{
	for (int i = 0; i < number(o, "n", 1); i++) {
		struct ibv_sge sge = {.addr = (uintptr_t)s->memory,
				      .length = number(o, "len", SLOT_BYTES),
				      .lkey = s->mr->lkey};
		struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

		if (ibv_post_recv(s->qp, &wr, &bad))
			fail("post_recv");
	}
}

static void move(struct side *s, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state};

	if (ibv_modify_qp(s->qp, &a, IBV_QP_STATE))
		fail("modify_qp");
	/* On rxe ERR only schedules the flush. */
	poll(NULL, 0, 50);
}

/* ---- what was seen ------------------------------------------------------------------------- */

static void print_group(int qp, int n, int status, bool recv)
{
	if (n)
		printf("{\"expect\": \"wc\", \"qp\": %d, \"n\": %d, \"status\": %d, \"recv\": "
		       "%d}\n",
		       qp, n, status, recv);
}

static void print_completions(struct ibv_cq *cq, int qp, bool recv)
{
	int n = 0, status = 0;
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0) {
		if (n && (int)wc.status != status) {
			print_group(qp, n, status, recv);
			n = 0;
		}
		status = wc.status;
		n++;
	}
	print_group(qp, n, status, recv);
}

static void print_qp(const struct side *s, int qp)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	if (ibv_query_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_RQ_PSN, &init))
		fail("query_qp");
	printf("{\"expect\": \"query\", \"qp\": %d, \"state\": \"%s\", \"rq_psn\": %u}\n", qp,
	       a.qp_state < 7 ? names[a.qp_state] : "UNKNOWN", a.rq_psn);
}

static void print_seen(void)
{
	for (int i = 0; i < SIDES; i++) {
		print_completions(sides[i].send_cq, i, false);
		print_completions(sides[i].recv_cq, i, true);
		printf("{\"expect\": \"no_wc\", \"qp\": %d}\n", i);
		print_qp(&sides[i], i);
	}
	fflush(stdout);
}

/* ---- the scenario -------------------------------------------------------------------------- */

/* Returns whether there is something to be seen after it. */
static bool carry_out(const cJSON *o, const char *what)
{
	struct side *host = side_of(o, "host");
	bool on = number(o, "on", 1);

	if (!strcmp(what, "setup")) {
		set_up(o);
	} else if (!strcmp(what, "post_send")) {
		post_send(side_of(o, "qp"), o);
	} else if (!strcmp(what, "post_recv")) {
		post_recv(side_of(o, "qp"), o);
	} else if (!strcmp(what, "drop_acks")) {
		if (on)
			drop(host, "egress", "match u8 0x11 0xff at 48");
		else
			undrop(host);
	} else if (!strcmp(what, "drop_all")) {
		/* Packets of this host are dropped at the other's ingress: rxe notices its own
		 * failed sends. */
		struct side *other = &sides[host == &sides[0] ? 1 : 0];

		if (on)
			drop(other, "ingress", "");
		else
			undrop(other);
	} else if (!strcmp(what, "link_down")) {
		set_link(host, !on);
	} else if (!strcmp(what, "run")) {
		poll(NULL, 0, number(o, "ms", 1));
		return true;
	} else if (!strcmp(what, "err") || !strcmp(what, "reset")) {
		move(side_of(o, "qp"), *what == 'e' ? IBV_QPS_ERR : IBV_QPS_RESET);
		return true;
	} else {
		errno = EINVAL;
		fail(what);
	}
	return false;
}

static void print_heading(void)
{
	char parent[256];
	struct utsname u;

	uname(&u);
	snprintf(parent, sizeof(parent), "/sys/class/infiniband/%s/parent", sides[0].nic);
	printf("{\"nic\": \"%s\", \"kernel\": \"%s\"}\n",
	       access(parent, F_OK) ? "hardware" : "soft-RoCE", u.release);
}

int main(int argc, char **argv)
{
	char line[4096];

	if (argc != 5) {
		fputs("usage: qp_record NIC0 NETDEV0 NIC1 NETDEV1 <scenario >trace\n", stderr);
		return 2;
	}
	for (int i = 0; i < SIDES; i++) {
		sides[i].nic = argv[1 + 2 * i];
		sides[i].netdev = argv[2 + 2 * i];
		open_side(&sides[i]);
	}
	print_heading();
	while (fgets(line, sizeof(line), stdin)) {
		cJSON *o = cJSON_Parse(line);

		if (*text(o, "expect")) {
			cJSON_Delete(o);
			continue;
		}
		fputs(line, stdout);
		if (*text(o, "do") && carry_out(o, text(o, "do")))
			print_seen();
		cJSON_Delete(o);
	}
	for (int i = 0; i < SIDES; i++) {
		undrop(&sides[i]);
		if (sides[i].down)
			set_link(&sides[i], true);
	}
	return 0;
}
