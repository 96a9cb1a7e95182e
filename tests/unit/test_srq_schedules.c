/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Random schedules for the books of a shared receive queue (doc/srq.md, 8): QPs that move between
 * NICs which flush, lose or repeat what was cut, hang, and whose drainers fail. The NICs here know
 * which of them really has which buffer, so what the books promise is looked at where a NIC writes:
 *
 * P1, P3: it never writes into a buffer that the program has, nor do two write into one, and what
 *         is handed out is what it was.
 * P2, P4: when all is healed, every message arrives, and as many more as receives are posted. First
 *         some QPs stay in the middle of a message: those of all others must arrive.
 *
 * Usage: test_srq_schedules [--seeds FIRST..LAST | --seed N [--trace]]
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/srq_int.h"

#define MS 1000000ull

enum {
	NICS_MAX = 4,
	QPS_MAX = 12,
	CAP_MAX = 4096,
	CQES = 8192,
	STEPS = 800,
	HEALING = 400000,
};

/* --- the truth -------------------------------------------------------------------------------- */

struct buffer {
	bool posted;	/* else the program has it */
	uint32_t turns; /* how often it was posted: the wr_id has it */
	int writer;	/* QP that has taken it, or -1 */
};

struct posting {
	uint64_t id;
	uint32_t buf, turn;
};

struct cqe {
	uint64_t id;
	uint64_t at; /* visible from then on */
	int qp;
	uint32_t life; /* of the QP */
	bool ok;
};

enum after_cut { FLUSHES, DROPS, REPEATS, AFTER_CUTS };

struct fake_nic {
	struct posting queue[CAP_MAX];
	uint32_t n;
	struct cqe cqe[CQES];
	uint32_t cqe_head, cqe_tail;
	uint32_t drain;	  /* to be taken yet; 0: no drain under way */
	uint32_t drained; /* taken, of which the completion waits */
	uint64_t drained_id[128];
	enum after_cut cut;
	bool hangs, dead_drainer;
	bool seen_empty;      /* a drain ended so, and nothing was posted since */
	uint64_t drain_stuck; /* until then */
	uint64_t evicted;
};

enum qp_state { OUT, LIVE, FENCING, HUNG, GONE };

struct fake_qp {
	enum qp_state state;
	unsigned int nic;
	bool foreign; /* cannot be fenced: not protected */
	bool wants_away;
	bool holds;
	struct posting held;
	bool stalled; /* in the middle, and its peer sends nothing */
	uint32_t life;
	uint32_t packets; /* of the message in the middle, yet to come */
	uint32_t pending; /* messages that its peer has, the one in the middle included */
	uint64_t since;
	uint64_t waits;	   /* for a receive, since then; 0: it does not */
	uint64_t stale_id; /* soft-RoCE 6.12: the receive of a message that was cut */
};

static struct {
	uint64_t rng, now;
	unsigned int nics, qps;
	uint32_t cap, bufs;
	bool healing, trace, bad_keys;
	bool goes_on;	/* nobody is stalled any more */
	uint32_t batch; /* the program posts again when it has so many */
	struct buffer buf[2 * CAP_MAX];
	uint32_t own[2 * CAP_MAX], owned; /* buffers that the program has */
	struct fake_nic nic[NICS_MAX];
	struct fake_qp qp[QPS_MAX];
	uint32_t gone; /* receives, with QPs that the program has ended in the middle */
	uint64_t sent, arrived, steps;
} w;

static struct shift_srq s;
static unsigned long seed;
static struct shift_srq_stats seen;
static unsigned long times_alone;

static __attribute__((format(printf, 1, 2), noreturn)) void wrong(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "seed %lu, step %lu: ", seed, (unsigned long)w.steps);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	for (unsigned int k = 0; k < w.nics; k++)
		fprintf(stderr,
			"NIC %u: state %d live %u on %u cut %u held %u doubt %u ghosts %u, "
			"really %u%s%s%s%s\n",
			k, s.nic[k].state, s.nic[k].live, s.nic[k].on, s.nic[k].cut, s.nic[k].held,
			s.nic[k].doubt, s.nic[k].ghosts, w.nic[k].n, w.nic[k].hangs ? " hangs" : "",
			s.nic[k].draining ? " draining" : "", s.nic[k].failed ? " failed" : "",
			s.nic[k].refuses ? " refuses" : "");
	for (unsigned int q = 0; q < w.qps; q++)
		fprintf(stderr, "QP %u: state %d NIC %u pending %u%s%s\n", q, w.qp[q].state,
			w.qp[q].nic, w.qp[q].pending, w.qp[q].holds ? " holds" : "",
			w.qp[q].stalled	  ? " stalled"
			: w.qp[q].foreign ? " foreign"
					  : "");
	fprintf(stderr, "free %u of %u, the program has %u of %u, cap %u; alone %d, %u gone\n",
		s.free, shift_srq_total(&s), w.owned, w.bufs, w.cap, s.alone, w.gone);
	abort();
}

#define TRACE(...)                                               \
	do {                                                     \
		if (w.trace) {                                   \
			printf("%6lu ", (unsigned long)w.steps); \
			printf(__VA_ARGS__);                     \
			printf("\n");                            \
		}                                                \
	} while (0)

static uint32_t rnd(uint32_t n)
{
	w.rng ^= w.rng << 13;
	w.rng ^= w.rng >> 7;
	w.rng ^= w.rng << 17;
	return (uint32_t)((w.rng >> 11) % n);
}

/* A fault, once in so many, while there are any. */
static bool fault(uint32_t n)
{
	return !w.healing && !rnd(n);
}

/* --- what the library would do ---------------------------------------------------------------- */

/* No clock is read in the usual case. */
static uint64_t now_if_needed(void)
{
	return shift_srq_alone(&s) ? 0 : w.now;
}

static uint64_t wr_id_of(uint32_t buf)
{
	return (uint64_t)w.buf[buf].turns << 32 | buf;
}

static bool nic_gets(unsigned int k, uint64_t id, uint32_t buf)
{
	struct fake_nic *n = &w.nic[k];

	if (n->drain)
		wrong("posted to a NIC that is being drained");
	n->seen_empty = false;
	if (n->n == w.cap)
		return false;
	n->queue[n->n++] = (struct posting){.id = id, .buf = buf, .turn = w.buf[buf].turns};
	return true;
}

/* Some receives have no key on some NICs. */
static bool refuses(unsigned int k, uint32_t buf)
{
	return fault(100) || w.nic[k].hangs || (!w.healing && w.bad_keys && k == 1 && buf % 3 == 0);
}

static void drain_begins(unsigned int k, uint32_t count)
{
	struct fake_nic *n = &w.nic[k];

	TRACE("NIC %u: drain %u", k, count);
	if (n->drain || !count)
		wrong("two drains, or none");
	if (n->seen_empty && s.nic[k].state == SHIFT_SRQ_OPEN)
		wrong("NIC %u is known to be empty, and drained once more", k);
	n->drain = count;
	n->drain_stuck = fault(30) ? w.now + rnd(5000) * MS : 0;
}

static void evict(unsigned int k)
{
	TRACE("NIC %u: evict", k);
	w.nic[k].evicted = w.now;
	for (unsigned int j = 0; j < w.nics; j++)
		if (j != k && s.nic[j].state == SHIFT_SRQ_OPEN && srq_is_shut(&s.nic[j], w.now))
			wrong("NIC %u is shut, too", j);
	for (unsigned int q = 0; q < w.qps; q++)
		if (w.qp[q].state == LIVE && w.qp[q].nic == k)
			w.qp[q].wants_away = !w.qp[q].foreign;
}

static void carry_out(const struct shift_srq_action *a)
{
	uint32_t buf;

	switch (a->type) {
	case SHIFT_SRQ_ACT_POST:
		buf = (uint32_t)shift_srq_at(&s, a->id)->wr_id;
		if (refuses(a->nic, buf) || !nic_gets(a->nic, a->id, buf))
			shift_srq_refused(&s, a->id, w.now);
		return;
	case SHIFT_SRQ_ACT_DRAIN: drain_begins(a->nic, a->count); return;
	case SHIFT_SRQ_ACT_EVICT: evict(a->nic); return;
	case SHIFT_SRQ_ACT_COUNT: break;
	}
	wrong("no such action");
}

static void check(void)
{
	const char *what = w.cap < 256 || !rnd(50) ? shift_srq_check(&s) : NULL;

	if (what)
		wrong("%s", what);
}

static void act(void)
{
	struct shift_srq_action a;
	const char *what;

	check();
	while (shift_srq_action(&s, w.now, &a))
		carry_out(&a);
	check();
	what = shift_srq_rests(&s, w.now);
	if (what)
		wrong("%s", what);
}

static void act_unless_alone(void)
{
	check();
	if (shift_srq_alone(&s))
		times_alone++;
	else
		act();
}

/* --- the program ------------------------------------------------------------------------------ */

/* false: full. */
static bool post_one(uint32_t buf)
{
	struct shift_sge sge = {.addr = buf, .length = 1, .lkey = 1};
	struct shift_raw_recv wr = {.wr_id = wr_id_of(buf), .sge = &sge, .num_sge = buf % 3 > 0};
	bool alone = shift_srq_alone(&s);
	uint64_t id;
	int k = shift_srq_post(&s, &wr, now_if_needed(), &id);

	if (k == SHIFT_SRQ_NOWHERE)
		return true;
	if (k == -ENOMEM && shift_srq_total(&s) >= w.cap && !alone)
		return false;
	if (k < 0 || k >= (int)w.nics)
		wrong("a receive is refused: %d", k);
	if (!nic_gets((unsigned int)k, id, buf) || fault(200)) {
		w.nic[k].n -= w.nic[k].n && w.nic[k].queue[w.nic[k].n - 1].id == id;
		shift_srq_unpost(&s, id, now_if_needed());
		return false;
	}
	if (k && refuses((unsigned int)k, buf)) {
		w.nic[k].n--;
		shift_srq_refused(&s, id, w.now);
	}
	return true;
}

static void program_posts(void)
{
	while (w.owned) {
		uint32_t buf = w.own[--w.owned];

		w.buf[buf].turns++;
		w.buf[buf].posted = true;
		if (!post_one(buf)) {
			w.buf[buf].posted = false;
			w.own[w.owned++] = buf;
			break;
		}
		if (!w.healing && !rnd(10))
			break;
	}
	act_unless_alone();
}

static void program_gets(uint64_t wr_id)
{
	uint32_t buf = (uint32_t)wr_id;

	if (buf >= w.bufs || !w.buf[buf].posted || wr_id != wr_id_of(buf))
		wrong("a receive was handed out that the program has not posted");
	if (w.buf[buf].writer >= 0)
		wrong("a receive was handed out while it is written");
	w.buf[buf].posted = false;
	w.own[w.owned++] = buf;
	w.arrived++;
}

/* --- completions ------------------------------------------------------------------------------ */

static void nic_says(unsigned int k, int qp, uint64_t id, bool ok)
{
	struct fake_nic *n = &w.nic[k];

	if (n->cqe_head - n->cqe_tail == CQES)
		wrong("a CQ overruns");
	n->cqe[n->cqe_head++ % CQES] = (struct cqe){.id = id,
						    .at = w.now + (rnd(4) ? 0 : rnd(400000)),
						    .qp = qp,
						    .life = w.qp[qp].life,
						    .ok = ok};
}

/* Rule 26: only that of a QP which is there counts; 7.26: also while its fence hangs. */
static bool counts(const struct cqe *c, unsigned int k)
{
	const struct fake_qp *q = &w.qp[c->qp];

	return c->ok && c->life == q->life && q->nic == k &&
	       (q->state == LIVE || q->state == FENCING || q->state == HUNG);
}

static bool feed_one(unsigned int k, bool visible_only, bool *flush_named)
{
	struct fake_nic *n = &w.nic[k];
	struct cqe c = n->cqe[n->cqe_tail % CQES];
	uint64_t id = c.id;
	bool named = true;

	if (n->cqe_tail == n->cqe_head || (visible_only && c.at > w.now))
		return false;
	n->cqe_tail++;
	if (!counts(&c, k)) {
		named = shift_srq_back(&s, k, id, w.now);
		if (flush_named && !c.ok && named)
			*flush_named = true;
	} else if (shift_srq_done(&s, k, &id, now_if_needed())) {
		program_gets(id);
	} else {
		wrong("a message was executed, and its receive is not known");
	}
	return true;
}

/* --- QPs -------------------------------------------------------------------------------------- */

/* Its peer asks (QUERY_PSN), as nothing moves. */
static void qp_waits(struct fake_qp *q)
{
	if (!q->waits)
		q->waits = w.now;
	if (w.now - q->waits < 5 * MS || rnd(4))
		return;
	q->waits = w.now;
	shift_srq_look(&s, q->nic, w.now);
	act();
}

/* Others must not need what it holds. */
static bool may_hold_for_long(void)
{
	uint32_t n = w.gone + 1;

	for (unsigned int q = 0; q < w.qps; q++)
		n += w.qp[q].stalled;
	return n < w.cap;
}

static bool stays_stalled(const struct fake_qp *q)
{
	return w.healing ? !w.goes_on && !s.nic[q->nic].cut : rnd(60) > 0;
}

static void qp_takes(int i)
{
	struct fake_qp *q = &w.qp[i];
	struct fake_nic *n = &w.nic[q->nic];
	uint32_t at;

	if (!n->n) {
		qp_waits(q); /* RNR */
		return;
	}
	q->waits = 0;
	at = rnd(n->n < 3 ? n->n : 3);
	q->held = n->queue[at];
	memmove(n->queue + at, n->queue + at + 1, (--n->n - at) * sizeof(*n->queue));
	q->holds = true;
	q->packets = 1 + rnd(3);
	if (w.buf[q->held.buf].writer >= 0)
		wrong("two QPs write into a buffer");
	w.buf[q->held.buf].writer = i;
	q->stalled = fault(60) && may_hold_for_long();
}

static void qp_executes(int i)
{
	struct fake_qp *q = &w.qp[i];
	struct buffer *b;

	if (!q->pending)
		return;
	if (!q->holds)
		qp_takes(i);
	if (!q->holds)
		return;
	b = &w.buf[q->held.buf];
	if (!b->posted || b->turns != q->held.turn)
		wrong("NIC %u writes into a buffer that the program has", q->nic);
	q->stalled = q->stalled && stays_stalled(q);
	if (q->stalled || --q->packets)
		return;
	b->writer = -1;
	q->holds = false;
	q->pending--;
	nic_says(q->nic, i, q->held.id, true);
}

/* The NIC has stopped: what becomes of the receive of a message in the middle. */
static void qp_cut(int i)
{
	struct fake_qp *q = &w.qp[i];
	struct fake_nic *n = &w.nic[q->nic];

	if (q->stale_id)
		nic_says(q->nic, i, q->stale_id, false);
	q->stale_id = 0;
	if (!q->holds)
		return;
	q->holds = q->stalled = false;
	w.buf[q->held.buf].writer = -1;
	if (n->cut == FLUSHES)
		nic_says(q->nic, i, q->held.id, false);
	if (n->cut == REPEATS)
		q->stale_id = q->held.id;
}

static void qp_fenced(int i)
{
	struct fake_qp *q = &w.qp[i];
	bool named = false;

	qp_cut(i);
	while (feed_one(q->nic, false, &named)) /* V1 */
		;
	TRACE("QP %d left NIC %u%s", i, q->nic, named ? ", flushed" : "");
	shift_srq_leave(&s, q->nic, !named, w.now);
	q->state = OUT;
	q->wants_away = false;
	act();
}

/* The peer's SWITCH, and the quarantine: no packet comes any more. The connection is over. */
static void qp_quarantined(int i)
{
	struct fake_qp *q = &w.qp[i];

	if (q->holds)
		w.buf[q->held.buf].writer = -1;
	q->holds = q->stalled = false;
	for (uint32_t c = w.nic[q->nic].cqe_tail; c != w.nic[q->nic].cqe_head; c++)
		w.sent -= counts(&w.nic[q->nic].cqe[c % CQES], q->nic) &&
			  w.nic[q->nic].cqe[c % CQES].qp == i;
	q->state = GONE;
	w.sent -= q->pending;
	q->pending = 0;
	TRACE("QP %d is dead on NIC %u", i, q->nic);
	shift_srq_leave(&s, q->nic, true, w.now);
	act();
}

static void qp_arms(int i)
{
	struct fake_qp *q = &w.qp[i];
	unsigned int k = q->foreign || (w.healing && rnd(2)) ? 0 : rnd(w.nics);
	bool joins;

	if (w.nic[k].hangs)
		return;
	joins = shift_srq_join(&s, k, w.now);
	if (!joins && s.nic[k].state != SHIFT_SRQ_GHOSTS && w.now - w.nic[k].evicted >= 1000 * MS)
		wrong("NIC %u is shut for too long", k);
	if (joins) {
		q->state = LIVE;
		q->nic = k;
		q->since = w.now;
		TRACE("QP %d is live on NIC %u", i, k);
	}
	act();
}

static void qp_ends(int i)
{
	struct fake_qp *q = &w.qp[i];

	while (feed_one(q->nic, false, NULL))
		;
	if (q->holds) {
		w.buf[q->held.buf].writer = -1;
		w.gone++;
	}
	q->holds = q->stalled = false;
	q->state = GONE;
	w.sent -= q->pending;
	q->pending = 0;
	shift_srq_leave(&s, q->nic, false, w.now);
	act();
}

static void qp_begins_fence(int i)
{
	struct fake_qp *q = &w.qp[i];

	q->state = w.nic[q->nic].hangs ? HUNG : FENCING;
	q->since = w.now;
	TRACE("QP %d: fence on NIC %u%s", i, q->nic, q->state == HUNG ? " hangs" : "");
}

static void qp_step(int i)
{
	struct fake_qp *q = &w.qp[i];

	switch (q->state) {
	case OUT:
		if (w.healing || !rnd(4))
			qp_arms(i);
		return;
	case LIVE:
		if (!q->foreign && (q->wants_away || fault(40)))
			qp_begins_fence(i);
		else if ((q->foreign ? w.healing || fault(100) : fault(400)) &&
			 (!q->holds || may_hold_for_long()))
			qp_ends(i);
		else if (!w.nic[q->nic].hangs)
			qp_executes(i);
		return;
	case FENCING:
		if (!rnd(3))
			qp_executes(i);
		else if (!rnd(2))
			qp_fenced(i);
		return;
	case HUNG:
		if (!rnd(4))
			qp_executes(i);
		if (w.now - q->since > 1000 * MS)
			qp_quarantined(i);
		return;
	case GONE:
		if (w.healing || rnd(50))
			return;
		*q = (struct fake_qp){.life = q->life + 1, .foreign = i && !rnd(6)};
		return;
	}
}

/* --- the drainer ------------------------------------------------------------------------------ */

static void drain_ends(unsigned int k, enum shift_srq_drain how)
{
	struct fake_nic *n = &w.nic[k];

	for (uint32_t i = 0; i < n->drained; i++)
		shift_srq_drained(&s, k, n->drained_id[i], w.now);
	n->drained = n->drain = 0;
	if (how == SHIFT_SRQ_RNR && rnd(4))
		while (feed_one(k, true, NULL))
			;
	TRACE("NIC %u: drain ends %d", k, how);
	n->seen_empty = how == SHIFT_SRQ_RNR;
	shift_srq_drain_ends(&s, k, how, w.now);
	act();
}

static void drain_tells(unsigned int k)
{
	struct fake_nic *n = &w.nic[k];

	shift_srq_drained(&s, k, n->drained_id[--n->drained], w.now);
	act();
}

static void drain_fails(unsigned int k)
{
	struct fake_nic *n = &w.nic[k];
	bool sent = rnd(2);

	if (sent && n->n && fault(3)) /* taken, and never named */
		n->n--;
	drain_ends(k, sent ? SHIFT_SRQ_FAILED_SENT : SHIFT_SRQ_FAILED);
}

static void drain_step(unsigned int k)
{
	struct fake_nic *n = &w.nic[k];
	uint32_t at;

	if (!n->drain || w.now < n->drain_stuck)
		return;
	if (n->dead_drainer || n->hangs || fault(60)) {
		drain_fails(k);
		return;
	}
	for (int i = 0; i < 64 && n->drain && n->n && n->drained < 128; i++, n->drain--) {
		at = rnd(n->n < 3 ? n->n : 3);
		n->drained_id[n->drained++] = n->queue[at].id;
		memmove(n->queue + at, n->queue + at + 1, (--n->n - at) * sizeof(*n->queue));
	}
	while (n->drained && rnd(8) && (n->drained > 1 || n->drain))
		drain_tells(k);
	if (!n->drain)
		drain_ends(k, SHIFT_SRQ_TOOK_ALL);
	else if (!n->n)
		drain_ends(k, SHIFT_SRQ_RNR);
}

/* --- a schedule ------------------------------------------------------------------------------- */

static void nic_step(unsigned int k)
{
	struct fake_nic *n = &w.nic[k];

	drain_step(k);
	if (n->hangs)
		n->hangs = !w.healing && rnd(60);
	else
		n->hangs = fault(600);
	if (n->dead_drainer)
		n->dead_drainer = !w.healing && rnd(100);
	else
		n->dead_drainer = fault(300);
}

static void time_step(void)
{
	uint64_t at = shift_srq_deadline(&s);
	struct shift_srq_action a;

	w.now += rnd(20) ? rnd(2000000) : rnd(50) * MS;
	if (w.now >= at)
		act();
	else if (shift_srq_action(&s, w.now, &a))
		wrong("action %d is due before the time that was named", a.type);
	if (at != UINT64_MAX && at > w.now && !rnd(20)) {
		w.now = at;
		act();
	}
}

static void step(void)
{
	unsigned int k = rnd(w.nics), q = rnd(w.qps);

	w.steps++;
	switch (rnd(6)) {
	case 0: nic_step(k); return;
	case 1:
	case 2: qp_step((int)q); return;
	case 3:
		for (unsigned int n = rnd(4); n && feed_one(k, true, NULL); n--)
			;
		act_unless_alone();
		return;
	case 4:
		if (w.owned >= w.batch || (w.owned && !rnd(20)))
			program_posts();
		if (!w.healing && w.qp[q].state != GONE && !rnd(2)) {
			w.qp[q].pending++;
			w.sent++;
		}
		return;
	case 5: time_step(); return;
	}
}

/* Is the fence of one hung still? */
static bool any_hangs(void)
{
	for (unsigned int q = 0; q < w.qps; q++)
		if (w.qp[q].state == HUNG)
			return true;
	return false;
}

/* Messages of QPs that can go on, and have not arrived. */
static bool any_waits(void)
{
	for (unsigned int q = 0; q < w.qps; q++)
		if (w.qp[q].pending && !w.qp[q].stalled)
			return true;
	return false;
}

/* S23: although others hold some for ever. */
static void heal_but_stalled(void)
{
	for (int i = 0; any_waits(); i++) {
		if (i == HEALING)
			wrong("messages wait for ever, as others do");
		step();
	}
	w.goes_on = true;
}

static void heal_until_all_arrived(void)
{
	for (int i = 0; w.arrived < w.sent || any_hangs(); i++) {
		if (i == HEALING)
			wrong("%lu messages wait for ever", (unsigned long)(w.sent - w.arrived));
		step();
	}
}

/* A QP that can be moved, and lives. */
static int a_living_qp(void)
{
	if (w.qp[0].state == GONE)
		w.qp[0] = (struct fake_qp){.life = w.qp[0].life + 1};
	for (unsigned int q = 0; q < w.qps; q++)
		if (!w.qp[q].foreign && w.qp[q].state != GONE && w.qp[q].state != HUNG)
			return (int)q;
	wrong("no QP is left");
}

/* As many messages as receives are posted, with none posted meanwhile: none of them was lost. */
static void count_receives(void)
{
	uint32_t all;
	int q;

	program_posts();
	for (unsigned int i = 0; i < w.qps; i++)
		if (w.qp[i].foreign && w.qp[i].state != LIVE)
			w.qp[i].state = GONE;
	all = w.bufs < w.cap ? w.bufs : w.cap;
	while (shift_srq_total(&s) < all)
		program_posts();
	w.batch = UINT32_MAX;
	q = a_living_qp();
	all = shift_srq_total(&s) - w.gone;
	w.qp[q].pending += all;
	w.sent += all;
	for (int i = 0; w.arrived < w.sent; i++) {
		if (i == HEALING + (int)w.cap * 400)
			wrong("%lu receives are lost", (unsigned long)(w.sent - w.arrived));
		w.steps++;
		switch (rnd(4)) {
		case 0: nic_step(rnd(w.nics)); break;
		case 1: qp_step(rnd(2) ? q : (int)rnd(w.qps)); break;
		case 2:
			feed_one(rnd(w.nics), true, NULL);
			act_unless_alone();
			break;
		case 3: time_step(); break;
		}
	}
	if (shift_srq_total(&s) > w.gone)
		wrong("all were handed out, and the books have %u", shift_srq_total(&s));
}

static void set_up(void)
{
	static const uint32_t caps[] = {1, 1, 1, 2, 2, 3, 4, 8, 16, 64, 200, 1024, 4096};
	uint64_t salt = seed * 0x9e3779b97f4a7c15ull;
	bool trace = w.trace;

	memset(&w, 0, sizeof(w));
	w.trace = trace;
	w.rng = salt | 1;
	for (int i = 0; i < 20; i++)
		rnd(2);
	w.cap = caps[rnd(rnd(10) ? 10 : 13)];
	w.nics = 1 + rnd(NICS_MAX);
	w.nics += w.nics == 1 && rnd(8);
	w.qps = 1 + rnd(QPS_MAX);
	w.batch = 1 + rnd(rnd(2) ? 1 : w.cap);
	w.now = 1000000 * MS;
	w.bad_keys = !rnd(10);
	w.bufs = rnd(8) ? w.cap : w.cap + rnd(w.cap + 1);
	for (uint32_t b = 0; b < w.bufs; b++) {
		w.buf[b].writer = -1;
		w.own[w.owned++] = b;
	}
	for (unsigned int k = 0; k < w.nics; k++)
		w.nic[k].cut = (enum after_cut)rnd(AFTER_CUTS);
	for (unsigned int q = 1; q < w.qps; q++)
		w.qp[q].foreign = w.nics > 1 && !rnd(8);
}

static void schedule(void)
{
	struct shift_srq_cfg cfg;
	void *mem;

	set_up();
	cfg = (struct shift_srq_cfg){.cap = w.cap, .sge_max = 1, .nics = (uint8_t)w.nics};
	mem = calloc(1, shift_srq_size(w.cap, 1));
	if (!mem)
		abort();
	shift_srq_init(&s, mem, &cfg);
	for (int i = 0; i < STEPS; i++)
		step();
	w.healing = true;
	w.batch = 1;
	TRACE("heals");
	heal_but_stalled();
	heal_until_all_arrived();
	count_receives();
#define SEEN(name) seen.name += s.stats.name;
	SHIFT_SRQ_STATS(SEEN)
#undef SEEN
	free(mem);
}

int main(int argc, char **argv)
{
	unsigned long first = 1, last = 1500;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--trace"))
			w.trace = true;
		else if (i + 1 < argc && !strcmp(argv[i], "--seed"))
			first = last = strtoul(argv[++i], NULL, 10);
		else if (i + 1 < argc && !strcmp(argv[i], "--seeds") &&
			 sscanf(argv[++i], "%lu..%lu", &first, &last) == 2)
			;
		else
			return 2;
	}
	printf("1..1\n"); /* TAP: a schedule that fails ends the program */
	for (seed = first; seed <= last; seed++)
		schedule();
	printf("ok 1 - all schedules\n");
	printf("# %lu schedules; alone %lu", last - first + 1, times_alone);
#define SEEN(name) printf(", " #name " %lu", (unsigned long)seen.name);
	SHIFT_SRQ_STATS(SEEN)
#undef SEEN
	printf("\n");
	return 0;
}
