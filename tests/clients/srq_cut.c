/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/clients/rc_device.h"
#include "tests/clients/srq_facts.h"

enum { BIG = 8192 }; /* bytes of a message of several packets */

/* ---- 4: a message that is cut in the middle ------------------------------------------------ */

static bool drops;

/*
 * Of a message only the first packet gets in: opcodes 1 and 2 are middle and last of a SEND, 7 and
 * 9 those of a WRITE with immediate data. GID 0 is IPv6.
 */
void drop_the_rest(bool on)
{
	if (on == drops)
		return;
	if (on)
		shell("tc qdisc add dev %s clsact && for op in 0x01 0x02 0x07 0x09; do "
		      "tc filter add dev %s ingress protocol ipv6 u32 match u8 17 0xff at 6 "
		      "match u16 0x12b7 0xffff at 42 match u8 $op 0xff at 48 action drop; done",
		      here.netdev, here.netdev);
	else
		shell("tc qdisc del dev %s clsact", here.netdev);
	drops = on;
}

struct cut {
	const char *peer;  /* "retries", "ERR", "destroyed"; "link down": at the responder */
	int delay_ms;	   /* between the responder's ERR and its end; -1: no ERR */
	bool destroy;	   /* the end: destroy instead of RESET */
	bool send_between; /* a good SEND in the next life, before the error */
	enum ibv_wr_opcode opcode;
};

/* Returns false if the first packet did not come. */
bool hold_one(struct held *h, const char *peer, enum ibv_wr_opcode opcode)
{
	uint32_t psn;

	h->srq = make_srq(&here, 64, 0);
	fill(&here, h->srq, 100, 8);
	h->responder = make_end(&here, h->srq);
	h->peer = make_end(&there, NULL);
	psn = connect_ends(&h->responder, &h->peer, &usual);
	drop_the_rest(true);
	if (opcode == IBV_WR_SEND ? send_bytes(&h->peer, there.memory, BIG)
				  : write_imm(&h->peer, &here, BIG))
		fail("post_send");
	for (int i = 0; i < 200 && rq_psn_of(&h->responder) == psn; i++)
		pause_ms(10);
	if (!strcmp(peer, "ERR"))
		to_state(h->peer.qp, IBV_QPS_ERR);
	else if (!strcmp(peer, "destroyed"))
		drop_qp(&h->peer);
	else if (!strcmp(peer, "link down"))
		set_link(false);
	return rq_psn_of(&h->responder) == psn + 1;
}

static void print_ids(const char *what, const struct ibv_wc *wc, int n)
{
	printf(", \"%s\": [", what);
	for (int i = 0; i < n; i++)
		printf("%s{\"wr_id\": %lu, \"status\": %d}", i ? ", " : "",
		       (unsigned long)wc[i].wr_id, wc[i].status);
	printf("]");
}

static void show(const char *what, struct ibv_cq *cq, int wait_ms)
{
	struct ibv_wc wc[8];

	print_ids(what, wc, take(cq, wc, 8, wait_ms));
}

/* The responder lives again with a new peer. What does its first error complete? */
static void live_again(struct held *h, const struct cut *c)
{
	struct end peer = make_end(&there, NULL);

	connect_ends(&h->responder, &peer, &usual);
	if (c->send_between) {
		send_bytes(&peer, there.memory, 64);
		show("good_send", h->responder.recv_cq, 200);
	}
	write_wrongly(&peer);
	show("next_life_error", h->responder.recv_cq, 300);
	drop_end(&peer);
}

static void cut_once(const struct cut *c)
{
	struct held h;
	struct drained d;
	bool came = hold_one(&h, c->peer, c->opcode);

	printf("{\"question\": 4, \"peer\": \"%s\", \"delay_ms\": %d, \"end\": \"%s\", "
	       "\"opcode\": \"%s\", \"send_between\": %s, \"first_came\": %s",
	       c->peer, c->delay_ms, c->destroy ? "destroy" : "RESET",
	       c->opcode == IBV_WR_SEND ? "SEND" : "WRITE_IMM", c->send_between ? "true" : "false",
	       came ? "true" : "false");
	if (c->delay_ms >= 0) {
		to_state(h.responder.qp, IBV_QPS_ERR);
		pause_ms(c->delay_ms);
	}
	if (c->destroy)
		drop_qp(&h.responder);
	else
		to_state(h.responder.qp, IBV_QPS_RESET);
	show("flushed", h.responder.recv_cq, 100);
	if (h.peer.qp)
		drop_qp(&h.peer);
	drop_the_rest(false);
	if (!strcmp(c->peer, "link down"))
		set_link(true);
	if (!c->destroy)
		live_again(&h, c);
	drain_all(&here, h.srq, &d);
	printf(", \"left\": %d, \"first_left\": %lu}\n", d.count,
	       d.count ? (unsigned long)d.id[0] : 0);
	fflush(stdout);
	drop_end(&h.responder);
	drop_end(&h.peer);
	drop_srq(h.srq);
	events_within(&here, 0);
}

void ask_cut(void)
{
	static const int delays[] = {-1, 0, 1, 100};
	static const char *const peers[] = {"retries", "ERR", "destroyed", "link down"};

	for (int p = 0; p < 4; p++)
		for (int d = 0; d < 4; d++)
			for (int destroy = 0; destroy < 2; destroy++)
				cut_once(&(struct cut){.peer = peers[p],
						       .delay_ms = delays[d],
						       .destroy = destroy,
						       .opcode = IBV_WR_SEND});
	cut_once(&(struct cut){
		.peer = "ERR", .delay_ms = 100, .send_between = true, .opcode = IBV_WR_SEND});
	cut_once(&(struct cut){
		.peer = "ERR", .delay_ms = 100, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM});
}

/* ---- 4: when all completions of a responder are there -------------------------------------- */

enum { STREAM = 1000, ROUNDS = 30 };

struct settled {
	int cut; /* rounds in which the stream did not end before */
	int late, after_event, wrong_at_return, wrong_at_end;
	double late_us;
};

/* By a thread of its own, as the kernel may carry much of it out in the call. */
static void *send_stream(void *peer)
{
	if (send_nothing(peer, STREAM))
		fail("post_send");
	return NULL;
}

enum way { ERR = 1, RESET = 2, DESTROY = 4, NO_SRQ = 8 };

/* A stream of messages of one packet; in the middle the responder goes that way. */
static void settle_once(int way, struct settled *s)
{
	static struct ibv_wc wc[CQ_DEPTH];
	struct ibv_srq *srq = make_srq(&here, 1023, 0);
	struct end e = make_end(&here, way & NO_SRQ ? NULL : srq), peer = make_end(&there, NULL);
	uint32_t psn = connect_ends(&e, &peer, &usual);
	pthread_t sender;
	bool event = false;
	double start;
	int n, got;

	if (way & NO_SRQ)
		post_receives(&here, e.qp, 0, STREAM);
	else
		fill(&here, srq, 0, STREAM);
	pthread_create(&sender, NULL, send_stream, &peer);
	n = take(e.recv_cq, wc, 100, 2000);
	if (way & ERR)
		to_state(e.qp, IBV_QPS_ERR);
	if (way & RESET)
		to_state(e.qp, IBV_QPS_RESET);
	if (way & DESTROY)
		drop_qp(&e);
	start = now_us();
	n += take(e.recv_cq, wc, CQ_DEPTH, 0);
	if (e.qp)
		s->wrong_at_return += n != (int)(rq_psn_of(&e) - psn);
	while (now_us() < start + 100e3) {
		/* What comes behind the event is found by a poll behind the one that follows it. */
		bool before = event;

		event |= events_within(&here, 0).last_wqe > 0;
		got = take(e.recv_cq, wc, CQ_DEPTH, 0);
		n += got;
		s->late += got;
		if (got)
			s->late_us = now_us() - start;
		if (before)
			s->after_event += got;
	}
	if (e.qp)
		s->wrong_at_end += n != (int)(rq_psn_of(&e) - psn);
	s->cut += n < STREAM;
	pthread_join(sender, NULL);
	drop_end(&e);
	drop_end(&peer);
	drop_srq(srq);
	events_within(&here, 0);
}

static bool is_there(const struct nic *n)
{
	struct ibv_context *c = rc_device_open(n->name);

	if (c)
		ibv_close_device(c);
	return c;
}

static void settle(int way, const char *name)
{
	struct settled s = {0};
	int round = 0;

	while (round++ < ROUNDS && is_there(&here))
		settle_once(way, &s);
	fact(4,
	     "\"settle\": \"%s\", \"rounds\": %d, \"cut\": %d, \"late\": %d, "
	     "\"last_late_us\": %.0f, \"behind_last_wqe\": %d, \"not_rq_psn_at_return\": %d, "
	     "\"not_rq_psn_at_end\": %d, \"nic_is_there\": %s",
	     name, round - 1, s.cut, s.late, s.late_us, s.after_event, s.wrong_at_return,
	     s.wrong_at_end, is_there(&here) ? "true" : "false");
}

void ask_settle(void)
{
	settle(ERR, "ERR");
	settle(ERR | RESET, "ERR, RESET");
}

void ask_reset(void)
{
	settle(RESET, "RESET");
}

void ask_reset_plain(void)
{
	settle(RESET | NO_SRQ, "RESET, without an SRQ");
}

void ask_destroy(void)
{
	settle(DESTROY, "destroy");
}
