/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Does the model of a NIC do what a real one did? Each trace (tests/sim/traces/README) is a script
 * of one pair of QPs: the actions, and what was then seen. One line of JSON per step.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "tests/sim/sim.h"

struct world worlds[CONNS], *wp = worlds;
uint32_t conns = 1;
struct tally T;
uint8_t mem[CONNS][HOSTS][M_REGIONS][SLOTS * SLOT_BYTES] __attribute__((aligned(4096)));
static uint32_t seqs, recvs, down_status;
static const char *file;
static unsigned int line_no;

/* The model reports to the oracle and to the process; here there is neither. */
void ref_begin(unsigned int dst, const struct pkt *p)
{
	(void)dst;
	(void)p;
}

void ref_place(unsigned int dst, const struct pkt *p, uint64_t addr)
{
	(void)dst;
	(void)p;
	(void)addr;
}

void ref_executed(unsigned int dst, const struct pkt *p)
{
	(void)dst;
	(void)p;
}

void ref_back(unsigned int src, uint32_t seq)
{
	(void)src;
	(void)seq;
}

void ref_local(unsigned int src, uint32_t seq)
{
	(void)src;
	(void)seq;
}

void lives_msg(unsigned int src, unsigned int r, const uint8_t *bytes, uint32_t len)
{
	(void)src;
	(void)r;
	(void)bytes;
	(void)len;
}

void ref_unseen(unsigned int dst, const struct pkt *p)
{
	(void)dst;
	(void)p;
}

void fault_nic_dies(unsigned int h, unsigned int r)
{
	(void)h;
	(void)r;
}

const char *fault_name(unsigned int k)
{
	(void)k;
	return "";
}

void fault_inside(const struct pkt *p)
{
	(void)p;
}

/* No trace has an SRQ. */
bool srq_take(struct qp *q)
{
	(void)q;
	return false;
}

bool srq_may_write(const struct qp *q)
{
	(void)q;
	return false;
}

uint64_t srq_executed(struct qp *q)
{
	(void)q;
	return 0;
}

void srq_cut(struct qp *q, bool stopped)
{
	(void)q;
	(void)stopped;
}

void srq_stale(struct qp *q)
{
	(void)q;
}

void host_poll_soon(unsigned int h, uint64_t at)
{
	(void)h;
	(void)at;
}

static uint64_t num(const cJSON *o, const char *key, uint64_t dflt)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsNumber(v) ? (uint64_t)v->valuedouble : dflt;
}

static const char *str(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsString(v) ? v->valuestring : "";
}

static struct qp *qp_of(const cJSON *o)
{
	return &W.qp[num(o, "qp", 0) & 1][0];
}

static bool differs(const char *what, uint64_t model, uint64_t real)
{
	printf("# %s:%u: %s: the model says %lu, the NIC said %lu\n", file, line_no, what,
	       (unsigned long)model, (unsigned long)real);
	return false;
}

/* --- the script ------------------------------------------------------------------------------ */

/* The completions of sends and those of receives have no order between them. */
static struct queue {
	struct cqe c[SQ_MAX + RQ_MAX];
	unsigned int n, taken;
} seen[HOSTS][2];

static void poll_all(struct qp *q)
{
	struct cqe c;

	while (qp_poll(q, &c, true)) {
		struct queue *s = &seen[q->h][c.is_recv];

		if (s->taken == s->n)
			s->taken = s->n = 0;
		s->c[s->n++] = c;
	}
}

static void setup(const cJSON *o)
{
	struct rng g = {1};
	unsigned int h;

	memset(&W, 0, sizeof(W));
	net_setup(&g);
	W.g_net = W.g_nic = W.g_host = g;
	W.rail[0].dup_ppm = W.rail[0].late_ppm = W.rail[0].reorder_ppm = 0;
	W.rail[0].mtu = (uint32_t)num(o, "mtu", 1024);
	W.retry_cnt = (uint32_t)num(o, "retry", 6);
	W.rnr_retry = 7;
	W.down_status = down_status;
	W.rto_ns = 67 * NS_MS; /* timeout 14 */
	W.host[0].cfg.quarantine_ns = NS_MS;
	for (h = 0; h < HOSTS; h++) {
		struct qp *q = &W.qp[h][0];

		W.host[h].cfg.sq_cap = SQ_MAX;
		W.host[h].cfg.rq_cap = RQ_MAX;
		q->h = (uint8_t)h;
		qp_arm(q, 0, (uint32_t)num(o, h ? "psn1" : "psn0", 0),
		       (uint32_t)num(o, h ? "psn0" : "psn1", 0));
		q->retry_inf = W.retry_cnt == 7;
	}
	seqs = recvs = 0;
	memset(seen, 0, sizeof(seen));
}

static void post_send(const cJSON *o)
{
	uint64_t n = num(o, "n", 1), h = num(o, "qp", 0) & 1;
	const char *op = str(o, "op");

	while (n--) {
		struct shift_sge sge = {addr_of((unsigned int)h, M_SRC, seqs, 0),
					(uint32_t)num(o, "len", 64), 1};
		struct shift_wr wr = {
			.wr_id = num(o, "wr_id", 0) + seqs, .sge = &sge, .num_sge = 1};

		wr.opcode = !strcmp(op, "WRITE")  ? SHIFT_OP_WRITE
			    : !strcmp(op, "READ") ? SHIFT_OP_READ
						  : SHIFT_OP_SEND;
		wr.flags = num(o, "signaled", 1) ? SHIFT_F_SIGNALED : 0;
		wr.remote_addr = addr_of(1 - (unsigned int)h, M_DST, seqs, 0);
		W.host[h].p.wr[seqs % WRS].len = sge.length;
		qp_post_send(qp_of(o), &wr, seqs++ % WRS);
	}
}

static void post_recv(const cJSON *o)
{
	uint64_t n = num(o, "n", 1);

	while (n--) {
		struct shift_sge sge = {addr_of((unsigned int)num(o, "qp", 1), M_RCV, 0, 0),
					(uint32_t)num(o, "len", SLOT_BYTES), 1};
		struct shift_recv_wr wr = {.wr_id = recvs++, .sge = &sge, .num_sge = 1};

		qp_post_recv(qp_of(o), &wr);
	}
}

static void dispatch(const struct ev *e)
{
	struct qp *q = &W.qp[e->h][e->r];

	switch ((enum ev_type)e->type) {
	case EV_PKT:
		if (W.pkt[e->x].type == PK_REQ)
			qp_request(q, &W.pkt[e->x]);
		else
			qp_ack(q, &W.pkt[e->x]);
		pkt_put(&W.pkt[e->x]);
		break;
	case EV_TX: qp_tx(q); break;
	case EV_RTO: qp_rto(q); break;
	case EV_ACK: qp_send_ack(q); break;
	case EV_DRAINED: qp_drained(q); break;
	default: break;
	}
}

static void run_ms(uint64_t ms)
{
	uint64_t end = W.now + ms * NS_MS;
	struct ev e;

	ev_add(end, EV_CALM, 0, 0, 0);
	while (ev_pop(&e)) {
		W.now = e.at;
		if (e.type == EV_CALM)
			return;
		dispatch(&e);
	}
}

/* ERR only begins to flush; the recorder looks 50 ms later. */
static void move(const cJSON *o, bool err)
{
	if (err)
		qp_modify_err(qp_of(o));
	else
		qp_reset(qp_of(o));
	run_ms(50);
}

static bool action(const cJSON *o, const char *what)
{
	uint64_t h = num(o, "host", 0) & 1;
	struct rail *l = &W.rail[0];

	if (!strcmp(what, "setup"))
		setup(o);
	else if (!strcmp(what, "post_send"))
		post_send(o);
	else if (!strcmp(what, "post_recv"))
		post_recv(o);
	else if (!strcmp(what, "run"))
		run_ms(num(o, "ms", 1));
	else if (!strcmp(what, "drop_acks")) /* on the egress of that host */
		l->dir[h].ackdrop = (uint32_t)num(o, "on", 1);
	else if (!strcmp(what, "drop_all"))
		l->dir[h].cut = (uint32_t)num(o, "on", 1);
	else if (!strcmp(what, "link_down"))
		l->admin_down[h] = (uint32_t)num(o, "on", 1);
	else if (!strcmp(what, "err") || !strcmp(what, "reset"))
		move(o, *what == 'e');
	else
		return false;
	return true;
}

/* --- what was seen --------------------------------------------------------------------------- */

static bool expect_wc(const cJSON *o)
{
	uint64_t n = num(o, "n", 1), status = num(o, "status", 0);
	struct queue *s = &seen[num(o, "qp", 0) & 1][num(o, "recv", 0) & 1];

	poll_all(qp_of(o));
	for (; n; n--, s->taken++) {
		if (s->taken == s->n)
			return differs("completions left", 0, n);
		if (s->c[s->taken].status != status)
			return differs("status", s->c[s->taken].status, status);
	}
	return true;
}

static bool expect_no_wc(const cJSON *o)
{
	poll_all(qp_of(o));
	for (unsigned int i = 0; i < 2; i++) {
		const struct queue *s = &seen[num(o, "qp", 0) & 1][i];

		if (s->taken != s->n)
			return differs("a completion, status", s->c[s->taken].status, 999);
	}
	return true;
}

static bool expectation(const cJSON *o, const char *what)
{
	const struct qp *q = qp_of(o);
	const char *state = str(o, "state");
	uint8_t want = !strcmp(state, "ERR") ? QP_ERR : !strcmp(state, "RESET") ? QP_RESET : QP_RTS;

	if (!strcmp(what, "wc"))
		return expect_wc(o);
	if (!strcmp(what, "no_wc"))
		return expect_no_wc(o);
	if (*state && q->state != want)
		return differs("state", q->state, want);
	if (num(o, "rq_psn", UINT32_MAX) != UINT32_MAX && qp_rq_psn(q) != num(o, "rq_psn", 0))
		return differs("rq_psn", qp_rq_psn(q), num(o, "rq_psn", 0));
	return true;
}

/* Which NIC it was; kernels differ in one thing that we know of. */
static bool heading(const cJSON *o)
{
	const char *kernel = str(o, "kernel");

	down_status = !strncmp(kernel, "6.1.", 4) ? SHIFT_WC_LOC_QP_OP_ERR : SHIFT_WC_WR_FLUSH_ERR;
	return *kernel && *str(o, "nic");
}

static bool step(const char *line)
{
	cJSON *o = cJSON_Parse(line);
	bool good;

	if (!o) {
		printf("# %s:%u: not JSON\n", file, line_no);
		return false;
	}
	if (*str(o, "do"))
		good = action(o, str(o, "do"));
	else if (*str(o, "expect"))
		good = expectation(o, str(o, "expect"));
	else
		good = *str(o, "comment") || heading(o);
	cJSON_Delete(o);
	return good && !W.failed;
}

static bool replay(const char *name)
{
	char line[4096];
	FILE *f = fopen(name, "r");
	bool good = f != NULL;

	file = name;
	line_no = 0;
	while (good && fgets(line, sizeof(line), f)) {
		line_no++;
		good = step(line);
		if (!good)
			printf("# %s:%u: %s", name, line_no, line);
	}
	if (f)
		fclose(f);
	return good;
}

int main(int argc, char **argv)
{
	int i, bad = 0;

	printf("1..%d\n", argc - 1);
	for (i = 1; i < argc; i++) {
		bool good = replay(argv[i]);

		bad += !good;
		printf("%sok %d - the NIC model reproduces %s\n", good ? "" : "not ", i,
		       strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i]);
	}
	return bad ? 1 : 0;
}
