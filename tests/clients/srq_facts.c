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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/clients/srq_facts.h"

struct nic here, there;

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
	hold_one(&h, "retries", IBV_WR_SEND);
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
	post_receives(&here, e[PLAIN].qp, PLAIN * EACH, EACH);
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
	{"settle", ask_settle},
	{"reset", ask_reset},
	{"reset-plain", ask_reset_plain},
	{"destroy", ask_destroy},
	{"last-wqe", ask_last_wqe},
	{"limit", ask_limit},
	{"outlive", ask_outlive},
	{"sizes", ask_sizes},
	{"shrink", ask_shrink},
	{"owner", ask_owner_of_completions},
};
enum { QUESTIONS = sizeof(questions) / sizeof(questions[0]) };

static void mend(void)
{
	drop_the_rest(false);
}

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
