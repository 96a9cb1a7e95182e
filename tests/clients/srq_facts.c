/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * srq_facts: what a real NIC does with shared receive queues (SRQs), question by question.
 *
 * A receive that lies in an SRQ cannot be recalled, but a "drainer" can consume it: a QP on that
 * SRQ, connected to itself, that sends 0 bytes to itself. Each of its receive completions names one
 * receive, whose buffer is untouched. This measures whether that holds, and what else shift has to
 * know before it moves QPs with an SRQ. All on one host with two NICs on one network (layout single
 * of the testbed); one JSON object a line. What it means: doc/soft-roce.md.
 *
 * usage: srq_facts NIC NETDEV PEER_NIC PEER_NETDEV QUESTION...
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/clients/srq_lab.h"

enum {
	BIG = 8192, /* bytes of a message of several packets */
	UNTOUCHED = 0xa5,
};

static const char *const kind_names[] = {"link-local", "IPv4"};

static struct nic here, there;

/* ---- 1: the drainer ------------------------------------------------------------------------ */

static bool untouched(const struct nic *n)
{
	for (int i = 0; i < SLOTS * SLOT_BYTES; i++)
		if ((unsigned char)n->memory[i] != UNTOUCHED)
			return false;
	return true;
}

static void time_drainer(int depth)
{
	enum { ALL = 1024 };
	struct ibv_srq *s = make_srq(&here, ALL, 0);
	struct end e = make_end(&here, s);
	struct drained d, all = {0};
	double us = 0;

	memset(here.memory, UNTOUCHED, SLOTS * SLOT_BYTES);
	connect_ends(&e, &e, &at_once);
	if (fill(&here, s, 7000, ALL) != ALL)
		fail("post_srq_recv");
	while (all.count < ALL) {
		drain(&e, depth, 10000, &d);
		us += d.us;
		all.wrong += d.wrong;
		if (d.count != depth)
			break;
		memcpy(all.id + all.count, d.id, depth * sizeof(*d.id));
		all.count += depth;
	}
	fact(1,
	     "\"drainer\": \"self\", \"depth\": %d, \"busy\": %s, \"taken\": %d, \"wrong\": %d, "
	     "\"in_order\": %s, \"untouched\": %s, \"us_per_receive\": %.1f",
	     depth, busy ? "true" : "false", all.count, all.wrong,
	     in_order(&all, 7000) ? "true" : "false", untouched(&here) ? "true" : "false",
	     us / ALL);
	drop_end(&e);
	drop_srq(s);
}

/* Receives that no message could be put into. */
static void drain_odd_receives(void)
{
	struct ibv_srq *s = make_srq(&here, 16, 0);
	struct drained d;

	post_receive(&here, s, 1, 0, 0);
	post_receive(&here, s, 2, 1, BAD_KEY);
	post_receive(&here, s, 3, 2, here.mr->lkey);
	drain_all(&here, s, &d);
	fact(1,
	     "\"drainer\": \"no SGE, bad key, two SGEs\", \"taken\": %d, \"wrong\": %d, "
	     "\"in_order\": %s",
	     d.count, d.wrong, in_order(&d, 1) ? "true" : "false");
	drop_srq(s);
}

static void ask_drainer(void)
{
	static const int depths[] = {1, 64, 1024};

	for (int i = 0; i < 6; i++) {
		busy = i >= 3;
		time_drainer(depths[i % 3]);
	}
	busy = false;
	drain_odd_receives();
}

/* ---- 2: without a link --------------------------------------------------------------------- */

struct linked {
	enum kind kind;
	struct ibv_srq *srq;
	struct end before, again;
};

static void make_linked(struct linked *l, enum kind k)
{
	struct path p = at_once;

	p.kind = k;
	l->kind = k;
	l->srq = make_srq(&here, 64, 0);
	fill(&here, l->srq, 1, 64);
	l->before = make_end(&here, l->srq);
	l->again = make_end(&here, l->srq);
	connect_ends(&l->before, &l->before, &p);
	connect_ends(&l->again, &l->again, &p);
}

static void drop_linked(struct linked *l)
{
	drop_end(&l->before);
	drop_end(&l->again);
	drop_srq(l->srq);
}

static void try_drain(struct linked *l, struct end *e, const char *link, const char *which)
{
	struct drained d;

	drain(e, 4, 3000, &d);
	fact(2,
	     "\"link\": \"%s\", \"gid\": \"%s\", \"drainer\": \"%s\", \"connect\": 0, \"taken\": "
	     "%d, \"wrong\": %d, \"status\": %d, \"us\": %.0f, \"state\": \"%s\"",
	     link, kind_names[l->kind], which, d.count, d.wrong, d.status, d.us, state_of(e));
}

static void try_connect(struct linked *l, struct end *e, const char *link, const char *which)
{
	struct path p = at_once;
	double start;
	const char *at;
	int err;

	p.kind = l->kind;
	to_state(e->qp, IBV_QPS_RESET);
	find_gids(&here);
	if (here.gid_index[l->kind] < 0) {
		fact(2,
		     "\"link\": \"%s\", \"gid\": \"%s\", \"drainer\": \"%s\", "
		     "\"connect\": -1, \"at\": \"GID\", \"taken\": 0",
		     link, kind_names[l->kind], which);
		return;
	}
	start = now_us();
	err = connect_end(e, e, next_psn(), &p, &at);
	if (!err) {
		try_drain(l, e, link, which);
		return;
	}
	fact(2,
	     "\"link\": \"%s\", \"gid\": \"%s\", \"drainer\": \"%s\", \"connect\": %d, \"at\": "
	     "\"%s\", \"us\": %.0f, \"taken\": 0",
	     link, kind_names[l->kind], which, err, at, now_us() - start);
}

static void try_link(struct linked *l, const char *link)
{
	struct end fresh = make_end(&here, l->srq);

	try_drain(l, &l->before, link, "connected before");
	try_connect(l, &l->again, link, "RESET and connected again");
	try_connect(l, &fresh, link, "new");
	drop_end(&fresh);
}

/* Administratively. */
static void set_link(bool up)
{
	shell("ip link set dev %s %s", here.netdev, up ? "up" : "down");
	/* The port's state follows a moment later, and an address comes back with it. */
	pause_ms(500);
}

static int carrier_of(const struct nic *n)
{
	char path[256], text[8] = "";
	int fd, got;

	snprintf(path, sizeof(path), "/sys/class/net/%s/carrier", n->netdev);
	fd = open(path, O_RDONLY);
	got = fd < 0 ? -1 : (int)read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	return got > 0 ? atoi(text) : -1;
}

/* The cable is pulled from outside. */
static void wait_carrier(int value, const char *please)
{
	printf("{\"please\": \"%s\"}\n", please);
	fflush(stdout);
	for (int i = 0; i < 600 && carrier_of(&here) != value; i++)
		pause_ms(100);
	if (carrier_of(&here) != value)
		fail(please);
	pause_ms(500);
}

static void with_each(void (*what)(struct linked *, const char *), struct linked *l,
		      const char *link)
{
	for (int k = 0; k < KINDS; k++)
		if (l[k].srq)
			what(&l[k], link);
}

/* Whoever was connected before the link went, when it is back. */
static void try_after(struct linked *l, const char *link)
{
	if (strcmp(state_of(&l->before), "ERR"))
		try_drain(l, &l->before, link, "connected before");
	try_connect(l, &l->again, link, "RESET and connected again");
}

static void ask_link(void)
{
	struct linked l[KINDS];

	for (int round = 0; round < 2; round++) {
		const char *down = round ? "admin down" : "no carrier";

		memset(l, 0, sizeof(l));
		for (int k = 0; k < KINDS; k++)
			if (here.gid_index[k] >= 0)
				make_linked(&l[k], k);
		with_each(try_link, l, "up");
		if (round) {
			set_link(false);
		} else {
			wait_carrier(0, "pull");
		}
		with_each(try_link, l, down);
		if (round) {
			set_link(true);
		} else {
			wait_carrier(1, "plug");
		}
		with_each(try_after, l, round ? "up after admin down" : "up after no carrier");
		for (int k = 0; k < KINDS; k++)
			if (l[k].srq)
				drop_linked(&l[k]);
	}
	events_within(&here, 0);
}

/* ---- 3: RNR means empty -------------------------------------------------------------------- */

static void drain_empty(int min_rnr_timer)
{
	struct path p = {.retry = 3, .rnr_retry = 0, .min_rnr_timer = min_rnr_timer};
	struct ibv_srq *s = make_srq(&here, 64, 0);
	struct end e = make_end(&here, s);
	struct drained d;

	connect_ends(&e, &e, &p);
	drain(&e, 1, 5000, &d);
	fact(3,
	     "\"empty\": \"one send\", \"min_rnr_timer\": %d, \"status\": %d, \"us\": %.0f, "
	     "\"taken\": %d, \"state\": \"%s\"",
	     min_rnr_timer, d.status, d.us, d.count, state_of(&e));
	drop_end(&e);
	drop_srq(s);
}

/* A batch that is larger than what is there, again and again by one QP. */
static void drain_batches(int batch, int posted)
{
	enum { ROUNDS = 20 };
	struct ibv_srq *s = make_srq(&here, 64, 0);
	struct end e = make_end(&here, s);
	int right = 0, rnr = 0;
	double reset_us = 0, drain_us = 0, start;
	struct drained d;

	connect_ends(&e, &e, &at_once);
	for (int i = 0; i < ROUNDS; i++) {
		fill(&here, s, 100 * i, posted);
		drain(&e, batch, 5000, &d);
		right += d.count == posted && !d.wrong && in_order(&d, 100 * i);
		rnr += d.status == IBV_WC_RNR_RETRY_EXC_ERR;
		drain_us += d.us;
		start = now_us();
		to_state(e.qp, IBV_QPS_RESET);
		connect_ends(&e, &e, &at_once);
		reset_us += now_us() - start;
	}
	fact(3,
	     "\"empty\": \"batch\", \"batch\": %d, \"posted\": %d, \"rounds\": %d, \"all_taken\": "
	     "%d, \"rnr\": %d, \"drain_us\": %.0f, \"reset_to_rts_us\": %.0f",
	     batch, posted, ROUNDS, right, rnr, drain_us / ROUNDS, reset_us / ROUNDS);
	drop_end(&e);
	drop_srq(s);
	events_within(&here, 0);
}

static void ask_rnr(void)
{
	drain_empty(12);
	drain_empty(0); /* the longest: 655 ms */
	drain_batches(64, 40);
	drain_batches(1, 0);
}

/* ---- 4: a message that is cut in the middle ------------------------------------------------ */

static bool drops;

/* Of SENDs only the first packet gets in: opcodes 1 and 2 are middle and last. GID 0 is IPv6. */
static void drop_the_rest(bool on)
{
	if (on == drops)
		return;
	if (on)
		shell("tc qdisc add dev %s clsact && for op in 0x01 0x02; do "
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
};

struct held {
	struct ibv_srq *srq;
	struct end responder, peer;
};

/* Returns false if the first packet did not come. */
static bool hold_one(struct held *h, const char *peer)
{
	uint32_t psn;

	h->srq = make_srq(&here, 64, 0);
	fill(&here, h->srq, 100, 8);
	h->responder = make_end(&here, h->srq);
	h->peer = make_end(&there, NULL);
	psn = connect_ends(&h->responder, &h->peer, &usual);
	drop_the_rest(true);
	if (send_bytes(&h->peer, there.memory, BIG))
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
	bool held = hold_one(&h, c->peer);

	printf("{\"question\": 4, \"peer\": \"%s\", \"delay_ms\": %d, \"end\": \"%s\", "
	       "\"send_between\": %s, \"held\": %s",
	       c->peer, c->delay_ms, c->destroy ? "destroy" : "RESET",
	       c->send_between ? "true" : "false", held ? "true" : "false");
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

static void mend(void)
{
	drop_the_rest(false);
}

static void ask_cut(void)
{
	static const int delays[] = {-1, 0, 1, 100};
	static const char *const peers[] = {"retries", "ERR", "destroyed", "link down"};

	for (int p = 0; p < 4; p++)
		for (int d = 0; d < 4; d++)
			for (int destroy = 0; destroy < 2; destroy++)
				cut_once(&(struct cut){.peer = peers[p],
						       .delay_ms = delays[d],
						       .destroy = destroy});
	cut_once(&(struct cut){.peer = "ERR", .delay_ms = 100, .send_between = true});
}

/* ---- 5: LAST_WQE_REACHED ------------------------------------------------------------------- */

static void count_events(const char *when)
{
	struct events e = events_within(&here, 200);

	fact(5, "\"when\": \"%s\", \"last_wqe\": %d, \"other\": %d, \"first_us\": %.0f", when,
	     e.last_wqe, e.other, e.first_us);
}

static void count_in_life(void)
{
	struct ibv_srq *s = make_srq(&here, 64, 0);
	struct end e = make_end(&here, s), peer = make_end(&there, NULL);

	fill(&here, s, 1, 8);
	events_within(&here, 0);
	connect_ends(&e, &peer, &usual);
	to_state(e.qp, IBV_QPS_ERR);
	count_events("RTS to ERR");
	to_state(e.qp, IBV_QPS_ERR);
	count_events("ERR to ERR");
	send_bytes(&peer, there.memory, 64);
	count_events("packets come in ERR");
	post_receive(&here, s, 50, 1, here.mr->lkey);
	count_events("receive posted in ERR");
	to_state(e.qp, IBV_QPS_RESET);
	count_events("ERR to RESET");
	to_state(peer.qp, IBV_QPS_RESET);
	connect_ends(&e, &peer, &usual);
	to_state(e.qp, IBV_QPS_RESET);
	count_events("RTS to RESET");
	to_init(e.qp);
	to_state(e.qp, IBV_QPS_ERR);
	count_events("INIT to ERR");
	to_state(e.qp, IBV_QPS_RESET);
	to_state(peer.qp, IBV_QPS_RESET);
	connect_ends(&e, &peer, &usual);
	write_wrongly(&peer);
	count_events("an error of its own");
	drop_qp(&e);
	count_events("destroyed in ERR");
	drop_end(&e);
	drop_end(&peer);
	drop_srq(s);
}

static void count_rest(void)
{
	struct ibv_srq *s = make_srq(&here, 64, 0);
	struct end e = make_end(&here, s);
	struct held h;
	struct drained d;

	connect_ends(&e, &e, &at_once);
	drop_qp(&e);
	count_events("destroyed in RTS");
	drop_end(&e);
	e = make_end(&here, s);
	connect_ends(&e, &e, &at_once);
	drain(&e, 1, 2000, &d);
	count_events("RNR of a drainer");
	drop_end(&e);
	e = make_end(&here, s);
	connect_ends(&e, &e, &at_once);
	to_state(e.qp, IBV_QPS_ERR);
	drop_end(&e);
	count_events("ERR and destroyed at once");
	drop_srq(s);
	hold_one(&h, "retries");
	to_state(h.responder.qp, IBV_QPS_ERR);
	count_events("to ERR with a receive held, which is not flushed before");
	drop_the_rest(false);
	drop_end(&h.responder);
	drop_end(&h.peer);
	drop_srq(h.srq);
}

static void ask_last_wqe(void)
{
	count_in_life();
	count_rest();
}

/* ---- 6: SRQ_LIMIT_REACHED ------------------------------------------------------------------ */

static int arm(struct ibv_srq *s, int limit)
{
	return ibv_modify_srq(s, &(struct ibv_srq_attr){.srq_limit = limit}, IBV_SRQ_LIMIT);
}

static int limit_of(struct ibv_srq *s)
{
	struct ibv_srq_attr a = {0};

	return ibv_query_srq(s, &a) ? -1 : (int)a.srq_limit;
}

struct limits {
	struct ibv_srq *srq;
	struct end drainer;
	int left;
};

/* Takes one after the other; says at how many left the event came, and how often. */
static void step_down(struct limits *l, const char *what, int armed, int err, int until)
{
	struct events e = events_within(&here, 50);
	int at = e.limit ? l->left : -1, times = e.limit;
	struct drained d;

	while (l->left > until) {
		drain(&l->drainer, 1, 2000, &d);
		l->left--;
		e = events_within(&here, 20);
		if (e.limit && at < 0)
			at = l->left;
		times += e.limit;
	}
	fact(6,
	     "\"limit\": \"%s\", \"armed_at\": %d, \"err\": %d, \"raised_at\": %d, \"times\": %d, "
	     "\"left\": %d, \"query\": %d",
	     what, armed, err, at, times, l->left, limit_of(l->srq));
}

static void more(struct limits *l, int count)
{
	l->left += fill(&here, l->srq, 1, count);
}

static void start_limits(struct limits *l, int limit)
{
	*l = (struct limits){.srq = make_srq(&here, 63, limit)};
	l->drainer = make_end(&here, l->srq);
	connect_ends(&l->drainer, &l->drainer, &usual);
	more(l, 20);
	events_within(&here, 0);
}

static void end_limits(struct limits *l)
{
	drop_end(&l->drainer);
	drop_srq(l->srq);
}

static void ask_limit(void)
{
	struct limits l;

	start_limits(&l, 0);
	step_down(&l, "armed at 10", 20, arm(l.srq, 10), 6);
	step_down(&l, "not armed again", 6, 0, 2);
	more(&l, 18);
	step_down(&l, "armed again", 20, arm(l.srq, 10), 6);
	step_down(&l, "armed while below", 6, arm(l.srq, 10), 4);
	more(&l, 4);
	step_down(&l, "as many as are left", 8, arm(l.srq, 8), 6);
	step_down(&l, "more than are posted", 6, arm(l.srq, 40), 4);
	step_down(&l, "max_wr", 4, arm(l.srq, 63), 3);
	step_down(&l, "more than max_wr", 3, arm(l.srq, 64), 2);
	arm(l.srq, 2);
	step_down(&l, "disarmed by 0", 2, arm(l.srq, 0), 0);
	end_limits(&l);
	start_limits(&l, 10);
	step_down(&l, "of create_srq", 20, 0, 6);
	end_limits(&l);
}

/* ---- 7: completions of a life that is over ------------------------------------------------- */

static int count_of(struct ibv_cq *cq, uint32_t qpn)
{
	static struct ibv_wc wc[CQ_DEPTH];
	int right = 0, n = take(cq, wc, CQ_DEPTH, 50);

	for (int i = 0; i < n; i++)
		right += wc[i].qp_num == qpn && !wc[i].status;
	return right;
}

static void outlive(const char *end)
{
	struct ibv_srq *s = make_srq(&here, 64, 0);
	struct end e = make_end(&here, s), peer = make_end(&there, NULL);
	uint32_t qpn = e.qp->qp_num, peer_qpn = peer.qp->qp_num;
	struct ibv_wc wc[8];

	fill(&here, s, 1, 16);
	connect_ends(&e, &peer, &usual);
	for (int i = 0; i < 8; i++)
		send_bytes(&peer, there.memory, 64);
	take(peer.send_cq, wc, 8, 2000); /* acknowledged: the receives are completed */
	send_bytes(&peer, there.memory, 64);
	pause_ms(100);
	if (!strcmp(end, "destroy")) {
		drop_qp(&e);
		drop_qp(&peer);
	} else {
		if (!strcmp(end, "ERR, RESET"))
			to_state(e.qp, IBV_QPS_ERR);
		to_state(e.qp, IBV_QPS_RESET);
		to_state(peer.qp, IBV_QPS_RESET);
	}
	fact(7,
	     "\"end\": \"%s\", \"receives_done\": 9, \"receives_survive\": %d, \"sends_done\": 1, "
	     "\"sends_survive\": %d",
	     end, count_of(e.recv_cq, qpn), count_of(peer.send_cq, peer_qpn));
	drop_end(&e);
	drop_end(&peer);
	drop_srq(s);
}

/* How many QPs are made and destroyed until a number comes again. */
static void reuse_qpn(const char *what, int bound)
{
	struct ibv_cq *cq = make_cq(&here);
	struct ibv_srq *s = make_srq(&here, 1, 0);
	uint32_t first = 0, highest = 0;
	int n;

	for (n = 0; n < bound; n++) {
		struct ibv_qp *qp = make_qp(&here, s, cq, cq);
		uint32_t qpn = qp->qp_num;

		ibv_destroy_qp(qp);
		if (n && qpn <= first)
			break;
		first = n ? first : qpn;
		highest = qpn > highest ? qpn : highest;
	}
	fact(7, "\"qpn\": \"%s\", \"made\": %d, \"reused\": %s, \"first\": %u, \"highest\": %u",
	     what, n, n < bound ? "true" : "false", first, highest);
	drop_srq(s);
	ibv_destroy_cq(cq);
}

static void ask_outlive(void)
{
	outlive("RESET");
	outlive("ERR, RESET");
	outlive("destroy");
	reuse_qpn("one at a time", 200);
}

static void ask_qpn_wrap(void)
{
	reuse_qpn("until one comes again", 200000);
}

/* ---- 8: sizes ------------------------------------------------------------------------------ */

static void ask_one_size(unsigned int asked)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = asked, .max_sge = 1}};
	struct ibv_srq *s = ibv_create_srq(here.pd, &attr);
	struct ibv_srq_attr q = {0};
	int err = errno;

	if (!s) {
		fact(8, "\"size\": \"create\", \"asked\": %u, \"err\": %d", asked, err);
		return;
	}
	ibv_query_srq(s, &q);
	err = fill(&here, s, 1, asked * 2 + 10);
	fact(8,
	     "\"size\": \"create\", \"asked\": %u, \"err\": 0, \"granted\": %u, \"query\": %u, "
	     "\"max_sge\": %u, \"query_sge\": %u, \"posted\": %d",
	     asked, attr.attr.max_wr, q.max_wr, attr.attr.max_sge, q.max_sge, err);
	drop_srq(s);
}

static void resize(struct ibv_srq *s, int posted, unsigned int to)
{
	struct ibv_srq_attr a = {.max_wr = to}, q = {0};
	int err = ibv_modify_srq(s, &a, IBV_SRQ_MAX_WR), accepted;
	struct drained d;

	ibv_query_srq(s, &q);
	accepted = fill(&here, s, posted + 1, 1000);
	drain_all(&here, s, &d);
	fact(8,
	     "\"size\": \"resize\", \"posted\": %d, \"to\": %u, \"err\": %d, \"granted\": %u, "
	     "\"query\": %u, \"query_limit\": %u, \"more_accepted\": %d, \"drained\": %d, "
	     "\"in_order\": %s",
	     posted, to, err, a.max_wr, q.max_wr, q.srq_limit, accepted, d.count,
	     in_order(&d, 1) ? "true" : "false");
}

static void ask_resize(void)
{
	static const unsigned int to[] = {200, 60, 50, 5};

	/* 5 is below the limit that is armed. */
	for (int i = 0; i < 4; i++) {
		struct ibv_srq *s = make_srq(&here, 100, 0);

		arm(s, 10);
		fill(&here, s, 1, 50);
		resize(s, 50, to[i]);
		drop_srq(s);
	}
}

/* Smaller than what is posted; apart, as the kernel may not survive it. */
static void ask_shrink(void)
{
	struct ibv_srq *s = make_srq(&here, 100, 0);
	struct ibv_srq_attr a = {.max_wr = 20}, q = {0};
	int err, query;

	fill(&here, s, 1, 50);
	err = ibv_modify_srq(s, &a, IBV_SRQ_MAX_WR);
	fact(8, "\"size\": \"shrink below what is posted\", \"err\": %d", err);
	query = ibv_query_srq(s, &q);
	fact(8, "\"size\": \"after it\", \"query_err\": %d, \"query\": %u, \"accepted\": %d", query,
	     q.max_wr, fill(&here, s, 51, 10));
	drop_srq(s);
	fact(8, "\"size\": \"destroyed after it\", \"err\": 0");
}

static void ask_lists(void)
{
	struct ibv_srq *s = make_srq(&here, 7, 0);
	struct ibv_recv_wr *bad = NULL, wr[16] = {0};
	struct ibv_sge sge[4] = {0};
	struct drained d;
	int err;

	for (int i = 0; i < 16; i++)
		wr[i] = (struct ibv_recv_wr){
			.wr_id = i + 1, .sg_list = sge, .next = i < 15 ? &wr[i + 1] : NULL};
	wr[2].num_sge = 3;
	err = ibv_post_srq_recv(s, wr, &bad);
	drain_all(&here, s, &d);
	fact(8, "\"list\": \"too many SGEs in the third\", \"err\": %d, \"bad\": %d, \"taken\": %d",
	     err, bad ? (int)(bad - wr) : -1, d.count);
	wr[2].num_sge = 0;
	err = ibv_post_srq_recv(s, wr, &bad);
	drain_all(&here, s, &d);
	fact(8, "\"list\": \"16 into 7, no SGE\", \"err\": %d, \"bad\": %d, \"taken\": %d", err,
	     bad ? (int)(bad - wr) : -1, d.count);
	drop_srq(s);
}

static void ask_owners(void)
{
	struct ibv_srq *s = make_srq(&here, 15, 0);
	struct end e = make_end(&here, s);
	struct ibv_pd *other = ibv_alloc_pd(here.context);
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.srq = s,
					.send_cq = e.send_cq,
					.recv_cq = e.recv_cq,
					.cap = {.max_send_wr = 1, .max_send_sge = 1}};
	struct ibv_qp *stranger = ibv_create_qp(other, &attr);
	int stranger_err = stranger ? 0 : errno, accepted, busy_err;
	struct drained d;

	if (stranger)
		ibv_destroy_qp(stranger);
	ibv_dealloc_pd(other);
	connect_ends(&e, &e, &usual);
	to_state(e.qp, IBV_QPS_ERR);
	pause_ms(50);
	accepted = fill(&here, s, 1, 5);
	drain_all(&here, s, &d);
	busy_err = ibv_destroy_srq(s);
	fact(8,
	     "\"owner\": \"QP in ERR\", \"accepted\": %d, \"drained\": %d, "
	     "\"destroy_srq_with_qp\": %d, \"qp_of_another_pd\": %d",
	     accepted, d.count, busy_err, stranger_err);
	drop_end(&e);
	drop_srq(s);
}

static void ask_sizes(void)
{
	static const unsigned int asked[] = {1, 10, 63, 64, 100, 1000};
	struct ibv_device_attr a;

	if (ibv_query_device(here.context, &a))
		fail("query_device");
	fact(8, "\"device\": \"%s\", \"max_srq\": %d, \"max_srq_wr\": %d, \"max_srq_sge\": %d",
	     here.name, a.max_srq, a.max_srq_wr, a.max_srq_sge);
	for (int i = 0; i < 6; i++)
		ask_one_size(asked[i]);
	ask_one_size(a.max_srq_wr + 1);
	ask_one_size(0);
	ask_resize();
	ask_lists();
	ask_owners();
}

/* ---- 9: whose completion is it ------------------------------------------------------------- */

struct letter {
	uint32_t sender, seq;
};

static void post_plain_receives(struct nic *n, struct ibv_qp *qp, uint64_t first, int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_sge sge = {.addr = (uintptr_t)slot_of(n, first + i),
				      .length = SLOT_BYTES,
				      .lkey = n->mr->lkey};
		struct ibv_recv_wr *bad, wr = {.wr_id = first + i, .sg_list = &sge, .num_sge = 1};

		if (ibv_post_recv(qp, &wr, &bad))
			fail("post_recv");
	}
}

static void ask_owner_of_completions(void)
{
	enum { QPS = 4, EACH = 12, PLAIN = QPS - 1 };
	struct ibv_srq *s = make_srq(&here, 64, 0);
	struct ibv_cq *cq = make_cq(&here);
	struct end e[QPS], peer[QPS];
	struct ibv_wc wc[QPS * EACH];
	uint32_t next[QPS] = {0};
	int n, wrong = 0, disorder = 0, unclaimed = 0;

	for (int i = 0; i < QPS; i++) {
		e[i] = (struct end){.nic = &here, .send_cq = cq, .recv_cq = cq};
		e[i].qp = make_qp(&here, i == PLAIN ? NULL : s, cq, cq);
		peer[i] = make_end(&there, NULL);
		connect_ends(&e[i], &peer[i], &usual);
	}
	fill(&here, s, 0, PLAIN * EACH);
	post_plain_receives(&here, e[PLAIN].qp, PLAIN * EACH, EACH);
	for (uint32_t k = 0; k < QPS * EACH; k++) {
		struct letter *l = (struct letter *)slot_of(&there, k);

		*l = (struct letter){.sender = k % QPS, .seq = k / QPS};
		send_bytes(&peer[k % QPS], (char *)l, sizeof(*l));
	}
	n = take(cq, wc, QPS * EACH, 3000);
	for (int i = 0; i < n; i++) {
		struct letter *l = (struct letter *)slot_of(&here, wc[i].wr_id);

		if (wc[i].qp_num != e[l->sender % QPS].qp->qp_num)
			wrong++;
		disorder += l->seq != next[l->sender % QPS]++;
		unclaimed += (l->sender == PLAIN) != (wc[i].wr_id >= PLAIN * EACH);
	}
	fact(9,
	     "\"qps_on_srq\": %d, \"qps_without\": 1, \"completions\": %d, \"wrong_qp_num\": %d, "
	     "\"out_of_order_in_qp\": %d, \"of_the_wrong_queue\": %d",
	     PLAIN, n, wrong, disorder, unclaimed);
	for (int i = 0; i < QPS; i++) {
		drop_qp(&e[i]);
		drop_end(&peer[i]);
	}
	ibv_destroy_cq(cq);
	drop_srq(s);
}

/* -------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*ask)(void);
} questions[] = {
	{"drainer", ask_drainer},
	{"link", ask_link},
	{"rnr", ask_rnr},
	{"cut", ask_cut},
	{"last-wqe", ask_last_wqe},
	{"limit", ask_limit},
	{"outlive", ask_outlive},
	{"qpn-wrap", ask_qpn_wrap},
	{"sizes", ask_sizes},
	{"shrink", ask_shrink},
	{"owner", ask_owner_of_completions},
};
enum { QUESTIONS = sizeof(questions) / sizeof(questions[0]) };

static int ask(const char *name)
{
	for (int i = 0; i < QUESTIONS; i++)
		if (!strcmp(questions[i].name, name)) {
			questions[i].ask();
			return 0;
		}
	fprintf(stderr, "srq_facts: no question %s\n", name);
	return 2;
}

int main(int argc, char **argv)
{
	int status = 0;

	if (argc < 6) {
		fputs("usage: srq_facts NIC NETDEV PEER_NIC PEER_NETDEV QUESTION...\n", stderr);
		for (int i = 0; i < QUESTIONS; i++)
			fprintf(stderr, "  %s\n", questions[i].name);
		return 2;
	}
	open_nic(&here, argv[1], argv[2]);
	open_nic(&there, argv[3], argv[4]);
	atexit(mend);
	for (int i = 5; i < argc && !status; i++)
		status = ask(argv[i]);
	return status;
}
