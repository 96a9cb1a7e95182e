/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The program's SRQs ("pools"), and the rules P1 to P4 of doc/srq.md: each receive is handed out at
 * most once; no NIC writes into a buffer that the program has, nor two NICs into one; none is lost.
 * A receive is known by its buffer: in some schedules all have the same wr_id.
 */
#include <errno.h>
#include <stdio.h>

#include "lib/object/vsrq.h"
#include "tests/glue/prog.h"

#define LIST_MAX 8

struct pool pools[HOSTS][POOLS_MAX];
unsigned int pool_count[HOSTS];
bool pool_no_posts;

static uint64_t state;

/* Of its own, so that schedules without SRQs stay what they were. */
static uint32_t pool_rnd(uint32_t n)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (uint32_t)(((z ^ (z >> 31)) >> 33) % n);
}

#define POOL_NAME     "%c: SRQ %u"
#define POOL_NAMED(p) 'a' + (p)->host, (p)->number

/* --- the start -------------------------------------------------------------------------------- */

static void pool_choose(struct pool *p, unsigned int h, unsigned int number, bool ends_early)
{
	static const uint32_t depths[] = {1, 2, 1, 2, 5, 5, 5, 64, 64, 64, 64, POOL_DEPTH_MAX};
	unsigned int from = ends_early ? 4 : 0; /* an end may take receives with it */

	p->host = h;
	p->number = number;
	p->depth = depths[from + pool_rnd(12 - from)];
	if (p->depth == POOL_DEPTH_MAX && pool_rnd(4)) /* they take long */
		p->depth = 64;
	p->equal_ids = !pool_rnd(3);
	p->credits = !ends_early && !pool_rnd(4);
	p->sges = 1 + pool_rnd(2);
	p->list_max = pool_rnd(2) ? 1 : LIST_MAX;
}

bool pool_setup(bool ends_early)
{
	state = opt.seed * 0x9fb21c651e98df25ull + 1;
	if (opt.no_srq || (pool_rnd(4) && !opt.srq))
		return false;
	for (unsigned int h = 0; h < HOSTS; h++) {
		for (unsigned int r = 0; r < rails; r++)
			nics[h][r].cut_how = pool_rnd(3);
		pool_count[h] = pool_rnd(4) ? 1 + pool_rnd(POOLS_MAX) : 0;
		for (unsigned int i = 0; i < pool_count[h]; i++)
			pool_choose(&pools[h][i], h, i, ends_early);
		for (unsigned int p = 0; p < pairs && pool_count[h]; p++)
			if (pool_rnd(4))
				sides[p][h].pool = &pools[h][pool_rnd(pool_count[h])];
		if (pool_count[h] && !pool_rnd(4) && !pools[h][0].credits)
			stray_choose(h, &pools[h][0]);
	}
	return true;
}

void pool_create(struct pool *p, struct ibv_pd *pd, uint32_t lkey)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = p->depth, .max_sge = 2}};

	p->lkey = lkey;
	p->srq = hook_created_srq(real_create_srq(pd, &attr), pd, &attr);
	trace(POOL_NAME " has %u, %s ids%s", POOL_NAMED(p), p->depth,
	      p->equal_ids ? "equal" : "own", p->credits ? ", credits" : "");
}

/* --- posting ---------------------------------------------------------------------------------- */

static uint8_t *memory_of(const struct pool *p, uint32_t i)
{
	return memory[p->host].srq[p->number][i];
}

static struct pool_buffer *free_buffer(struct pool *p)
{
	for (uint32_t k = 0; k < p->depth; k++) {
		uint32_t i = (p->look + k) % p->depth;

		if (!p->buffer[i].posted) {
			p->look = i + 1;
			return &p->buffer[i];
		}
	}
	return NULL;
}

static void fill_receive(struct pool *p, struct pool_buffer *b, uint32_t lkey,
			 struct ibv_recv_wr *wr, struct ibv_sge *sge)
{
	uint32_t i = (uint32_t)(b - p->buffer), cut = 1 + rnd_below(SLOT_BYTES - 1);
	uintptr_t at = (uintptr_t)memory_of(p, i);

	*b = (struct pool_buffer){.posted = true};
	b->wr_id = POOL_ID + (p->equal_ids ? 0 : (++p->generation << 12) + i);
	p->posted++;
	sge[0] = (struct ibv_sge){at, p->sges == 2 ? cut : SLOT_BYTES, lkey};
	sge[1] = (struct ibv_sge){at + cut, SLOT_BYTES - cut, lkey};
	*wr = (struct ibv_recv_wr){.wr_id = b->wr_id, .sg_list = sge, .num_sge = (int)p->sges};
}

static void take_back(struct pool *p, struct pool_buffer **b, uint32_t from, uint32_t n)
{
	for (uint32_t i = from; i < n; i++) {
		if (b[i]->landed || b[i]->holder)
			violation(POOL_NAME ": a receive that was refused is used", POOL_NAMED(p));
		b[i]->posted = false;
		p->posted--;
	}
}

/* A list of receives. false: the queue is full. */
bool pool_post(struct pool *p, uint32_t lkey)
{
	struct ibv_recv_wr wr[LIST_MAX], *bad = NULL;
	struct ibv_sge sge[LIST_MAX][2];
	struct pool_buffer *b[LIST_MAX];
	uint32_t n = 0, wanted = 1 + rnd_below(p->list_max), refusals = srq_refusals, good;
	int err;

	while (n < wanted && !pool_no_posts && (b[n] = free_buffer(p))) {
		fill_receive(p, b[n], lkey, &wr[n], sge[n]);
		if (n)
			wr[n - 1].next = &wr[n];
		n++;
	}
	if (!n)
		return false;
	err = ibv_post_srq_recv(p->srq, wr, &bad);
	good = err ? (uint32_t)(bad - wr) : n;
	if (err && (bad < wr || bad >= wr + n))
		violation(POOL_NAME ": a post fails with %d, and bad_wr is none of its requests",
			  POOL_NAMED(p), err);
	if (err && (err != ENOMEM || refusals == srq_refusals))
		violation(POOL_NAME ": a receive fails with %d, %u of %u are posted", POOL_NAMED(p),
			  err, p->posted, p->depth);
	trace(POOL_NAME ": posts %u, %u of %u are posted", POOL_NAMED(p), good, p->posted,
	      p->depth);
	take_back(p, b, good, n);
	p->granted += good;
	p->posts += good;
	return !err;
}

/* --- at the NICs ------------------------------------------------------------------------------ */

static struct pool_buffer *buffer_at(uint64_t addr, struct pool **of)
{
	for (unsigned int h = 0; h < HOSTS; h++) {
		uint64_t from = addr - (uintptr_t)memory[h].srq;

		if (from >= sizeof(memory[h].srq))
			continue;
		*of = &pools[h][from / sizeof(memory[h].srq[0])];
		return &(*of)->buffer[from % sizeof(memory[h].srq[0]) / SLOT_BYTES];
	}
	violation("a receive without a buffer of an SRQ is taken");
}

/* Has the program got it back, or will it? */
static bool is_landed(const struct pool_buffer *b)
{
	return b->landed && !b->landed->ended && !b->landed->closing;
}

void pool_taken(struct fake_qp *q)
{
	struct pool *p;
	struct pool_buffer *b = buffer_at(q->rqe.sge[0].addr, &p);
	uint32_t i = (uint32_t)(b - p->buffer);

	trace("%s: QP %#x takes receive %lx, buffer %u of SRQ %c%u", q->nic->nic->name,
	      q->qp.qp_num, (unsigned long)q->rqe.wr_id, i, POOL_NAMED(p));
	if (is_self_connected(q) && !q->stray)
		return;
	if (!b->posted)
		violation(POOL_NAME ": %s takes buffer %u, which the program has got back (P3)",
			  POOL_NAMED(p), q->nic->nic->name, i);
	if (is_landed(b))
		violation(POOL_NAME ": %s takes buffer %u, in which a message lies already",
			  POOL_NAMED(p), q->nic->nic->name, i);
	b->holder = q;
}

void pool_place(const struct side *s, const struct fake_qp *q)
{
	struct pool *p;
	struct pool_buffer *b = buffer_at(q->rqe.sge[0].addr, &p);
	uint32_t i = (uint32_t)(b - p->buffer);

	if (p != s->pool)
		violation(POOL_NAME ": a message of %c%u lies there", POOL_NAMED(p), 'a' + s->host,
			  s->pair);
	if (!b->posted || b->holder != q || is_landed(b))
		violation(POOL_NAME ": %s writes into buffer %u, which %s (P3)", POOL_NAMED(p),
			  q->nic->nic->name, i,
			  b->posted ? "another NIC has" : "the program has got back");
}

/* Its message has been executed. */
int pool_landed(const struct side *s, const struct fake_qp *q)
{
	struct pool *p;
	struct pool_buffer *b = buffer_at(q->rqe.sge[0].addr, &p);

	pool_place(s, q);
	b->holder = NULL;
	b->landed = s->closed ? NULL : s;
	p->lost += s->closed;
	return (int)(b - p->buffer);
}

/* As long as a QP that cannot be fenced is live on that NIC, nobody can tell whether that holds the
 * receive (doc/srq.md, S18): it may stay missing. */
void pool_cut(const struct fake_qp *q)
{
	struct pool *p;

	if (is_self_connected(q))
		return;
	buffer_at(q->rqe.sge[0].addr, &p);
	p->lost += !q->nic->rail && stray_is_on(p);
}

void pool_named(const struct rqe *r)
{
	struct pool *p;

	buffer_at(r->sge[0].addr, &p)->named = true;
}

/* --- at the program --------------------------------------------------------------------------- */

const uint8_t *pool_bytes(const struct side *s, int buffer)
{
	return memory_of(s->pool, (uint32_t)buffer);
}

static void hand_out(struct pool *p, struct pool_buffer *b)
{
	b->posted = b->named = false;
	b->landed = NULL;
	b->holder = NULL;
	p->posted--;
	p->granted--;
	p->promised -= p->promised != 0;
	tally->srq_receives++;
}

static struct pool_buffer *failed_buffer(struct pool *p, const struct ibv_wc *wc)
{
	for (uint32_t i = 0; i < p->depth; i++)
		if (p->buffer[i].posted && p->buffer[i].wr_id == wc->wr_id &&
		    (!p->equal_ids || p->buffer[i].named))
			return &p->buffer[i];
	violation(POOL_NAME ": an error names receive %lx, which is not posted (P1)", POOL_NAMED(p),
		  (unsigned long)wc->wr_id);
}

void pool_received(struct side *s, const struct ibv_wc *wc, int buffer)
{
	struct pool *p = s->pool;
	struct pool_buffer *b = buffer < 0 ? failed_buffer(p, wc) : &p->buffer[buffer];

	if (buffer >= 0 && (!b->posted || b->landed != s || b->wr_id != wc->wr_id))
		violation(POOL_NAME ": wr_id %lx completes, but the message of %c%u lies in %lx%s "
				    "(P1)",
			  POOL_NAMED(p), (unsigned long)wc->wr_id, 'a' + s->host, s->pair,
			  (unsigned long)b->wr_id, b->posted ? "" : ", which was handed out");
	hand_out(p, b);
}

/* After the QP was destroyed. */
void pool_received_late(struct side *s, const struct ibv_wc *wc, int buffer)
{
	struct pool_buffer *b = &s->pool->buffer[buffer];

	if (b->posted && b->wr_id == wc->wr_id)
		hand_out(s->pool, b);
}

/* What lay in the CQ for a QP that the program ends is lost, and so may be what the QP held. */
void pool_side_over(struct side *s, uint32_t unreceived)
{
	struct pool *p = s->pool;

	if (!p)
		return;
	for (uint32_t i = 0; i < p->depth && s->closed; i++)
		if (p->buffer[i].posted && p->buffer[i].landed == s) {
			p->buffer[i].landed = NULL;
			p->lost++;
			tally->srq_lost++;
		}
	if (s->pool_over)
		return;
	s->pool_over = true;
	p->lost += unreceived != 0;
	p->weak |= unreceived != 0;
	p->promised -= unreceived < p->promised ? unreceived : p->promised;
}

bool pool_starves(unsigned int h)
{
	for (unsigned int i = 0; i < pool_count[h]; i++) {
		const struct pool *p = &pools[h][i];

		/* Of the last messages, one for each receive, one has none now. */
		if (p->lost >= p->depth || (pool_no_posts && p->lost > p->lost_before))
			return true;
	}
	return false;
}

/* With credits a peer sends only what a receive is posted for: its rnr_retry is 0. */
bool pool_is_used(void)
{
	return pool_count[0] || pool_count[1];
}

bool pool_has_credit(const struct side *receiver)
{
	const struct pool *p = receiver->pool;

	return !p || !p->credits || p->granted > p->promised;
}

bool pool_rnr_is_fair(const struct side *receiver)
{
	return receiver->pool && receiver->pool->credits && receiver->pool->weak;
}

/* --- the end ---------------------------------------------------------------------------------- */

static uint32_t receivable(const struct pool *p)
{
	uint32_t n = p->posted - (p->lost < p->posted ? p->lost : p->posted);

	for (uint32_t i = 0; i < p->depth; i++)
		n -= n && p->buffer[i].posted && p->buffer[i].landed;
	return p->credits && p->weak ? 0 : n;
}

static bool takes_part(const struct side *s, const struct pool *p)
{
	return s->pool == p && !side_is_over(s) && !s->closing && !side_is_over(s->peer) &&
	       !s->peer->closing;
}

/* As many messages more as receives are outstanding, and nothing is posted meanwhile. */
static void pool_probe(struct pool *p)
{
	struct side *to[PAIRS_MAX];
	uint32_t n = receivable(p), count = 0;
	bool stray = stray_may_be_probed(p->host, p);

	p->lost_before = p->lost;
	for (unsigned int i = 0; i < pairs; i++)
		if (takes_part(&sides[i][p->host], p))
			to[count++] = &sides[i][p->host];
	trace(POOL_NAME ": %u are posted, %u may be lost, %u more messages come by %u QPs",
	      POOL_NAMED(p), p->posted, p->lost, n, count);
	for (uint32_t i = 0; count + stray && i < n; i++) {
		unsigned int to_whom = rnd_below(count + stray);
		struct side *from = to_whom < count ? to[to_whom]->peer : NULL;

		if (from ? from->total == WRS_MAX : !stray_may_be_probed(p->host, p))
			break;
		tally->srq_probed++;
		if (!from) {
			stray_add_probe(p->host);
			continue;
		}
		from->total++;
		from->probing = true;
	}
}

void pool_probe_all(unsigned int h)
{
	for (unsigned int i = 0; i < pool_count[h]; i++)
		pool_probe(&pools[h][i]);
}

int pool_hang(char *text, size_t bytes)
{
	int n = stray_hang(text, bytes);

	for (unsigned int h = 0; h < HOSTS; h++)
		for (unsigned int i = 0; i < pool_count[h]; i++) {
			const struct pool *p = &pools[h][i];

			n += snprintf(text + n, bytes - (size_t)n,
				      POOL_NAME ": %u of %u posted, %u lost; ", POOL_NAMED(p),
				      p->posted, p->depth, p->lost);
		}
	return n;
}
