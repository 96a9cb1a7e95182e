/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The rules of exactly once: of every packet that a NIC executes, and of every completion that the
 * program gets. A request is known by the buffer that it names.
 */
#include <stdio.h>
#include <string.h>

#include "lib/stats/stats.h"
#include "tests/glue/prog.h"

#define FENCE_MAX_NS 4000000000ull  /* a deadline of 1 s, and jobs before it */
#define ARM_MAX_NS   12000000000ull /* of 5 s */

unsigned int pattern_life;
static bool unsure[HOSTS]; /* its fences may prove nothing: less is claimed (doc/protocol.md, 1) */

void prog_unsure(unsigned int host)
{
	unsure[host] = true;
}

static uint8_t read_pattern(unsigned int host, unsigned int pair, uint32_t slot, uint32_t i)
{
	return (uint8_t)(slot * 29 + i * 3 + (i >> 8) * 5 + host * 91 + pair * 7 + 1);
}

#define NAME	 "%c%u"
#define NAMED(s) 'a' + (s)->host, (s)->pair

/* --- a connection's life ---------------------------------------------------------------------- */

void side_begin(struct side *s, unsigned int n)
{
	struct memory *m = &memory[s->host];

	pattern_life = n;
	s->total = 8 + rnd_below(50);
	s->posted = s->next_cqe = s->executed = s->unsignaled = 0;
	s->receives = s->received = s->next_two_sided = 0;
	s->added = s->swapped = 0;
	s->closing = s->closed = s->ended = false;
	s->pool_over = s->probing = false;
	s->failed_at = UINT32_MAX;
	s->reason = s->state = 0;
	m->word[s->pair][0] = m->word[s->pair][1] = 0;
}

void oracle_fill_read(const struct side *s, uint32_t seq)
{
	uint32_t slot = seq % SLOTS;

	for (uint32_t i = 0; i < s->work[seq].bytes; i++)
		memory[!s->host].read[s->pair][slot][i] = read_pattern(!s->host, s->pair, slot, i);
}

static uint32_t two_sided_posted(const struct side *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->posted; i++)
		n += is_two_sided(s->work[i].op);
	return n;
}

uint32_t oracle_unreceived(const struct side *s)
{
	return two_sided_posted(s->peer) - s->received;
}

bool side_is_owed(const struct side *s)
{
	for (uint32_t i = s->next_cqe; i < s->posted; i++)
		if (s->work[i].signaled)
			return true;
	return false;
}

/* A QP on an SRQ flushes no receive: a program that sends nothing more may never hear of its end.
 */
static bool is_over_unheard(const struct side *s)
{
	return s->pool && (s->state == SHIFT_ST_GIVEUP || s->state == SHIFT_ST_DEAD);
}

bool side_is_over(const struct side *s)
{
	return s->ended || is_over_unheard(s);
}

bool side_is_done(const struct side *s)
{
	if (s->closed || s->peer->closed)
		return true;
	if (side_is_over(s) || side_is_over(s->peer))
		return !side_is_owed(s) && side_is_over(s);
	return s->posted == s->total && s->next_cqe == s->total &&
	       s->peer->posted == s->peer->total && s->received == two_sided_posted(s->peer);
}

static bool is_open_atomic(const struct side *s)
{
	uint32_t end = unsure[!s->host] ? s->posted : s->executed;

	for (uint32_t i = s->next_cqe; i < end; i++)
		if (is_atomic(s->work[i].op))
			return true;
	return false;
}

static bool has_ended(const struct side *s)
{
	return s->ended || s->closing || s->state == SHIFT_ST_GIVEUP || s->state == SHIFT_ST_DEAD;
}

static bool end_is_justified(const struct side *s, unsigned int reason)
{
	switch (reason) {
	case SHIFT_R_LOST_ATOMIC: return is_open_atomic(s);
	case SHIFT_R_PROOF_FAILED: return unsure[!s->host];
	case SHIFT_R_PEER_FAILED: return has_ended(s->peer);
	case SHIFT_R_PEER_CLOSED: return s->peer->closing;
	case SHIFT_R_CLOSE: return s->closing;
	default: return s->state == SHIFT_ST_GIVEUP || s->state == SHIFT_ST_CLOSING;
	}
}

/* However long a NIC hangs, a switch does not wait for it. */
static void check_duration(struct side *s, unsigned int from)
{
	uint64_t max = from == SHIFT_ST_FENCE ? FENCE_MAX_NS
		       : from == SHIFT_ST_ARM ? ARM_MAX_NS
					      : UINT64_MAX;

	if (now - s->since > max)
		violation(NAME ": %s takes %.3f s", NAMED(s), shift_state_name(from),
			  (double)(now - s->since) / 1e9);
	s->since = now;
}

static struct side *side_of(const struct shift_conn_stats *stats)
{
	for (unsigned int p = 0; p < pairs; p++)
		for (unsigned int h = 0; h < HOSTS; h++) {
			const struct vqp *v = prog_vqp(p, h);

			if (v && v->conn && shift_conn_stats(v->conn) == stats)
				return &sides[p][h];
		}
	return NULL;
}

/* The library reports each change of a connection's state here. */
void __wrap_stats_conn_change(int slot, const struct shift_action *a,
			      const struct shift_conn_view *view,
			      const struct shift_conn_stats *stats, uint64_t at);

void __wrap_stats_conn_change(int slot, const struct shift_action *a,
			      const struct shift_conn_view *view,
			      const struct shift_conn_stats *stats, uint64_t at)
{
	struct side *s = side_of(stats);

	(void)slot;
	(void)view;
	(void)at;
	if (!s)
		return;
	trace(NAME ": %s -> %s (%s), rail %u, epoch %u", NAMED(s), shift_state_name(a->from),
	      shift_state_name(a->to), shift_reason_name(a->reason), a->rail, a->epoch);
	check_duration(s, a->from);
	if (a->to == SHIFT_ST_GIVEUP || a->to == SHIFT_ST_DEAD) {
		if (!end_is_justified(s, a->reason))
			violation(NAME ": the connection ends (%s -> %s) for no good reason: %s",
				  NAMED(s), shift_state_name(a->from), shift_state_name(a->to),
				  shift_reason_name(a->reason));
		s->reason = s->reason ? s->reason : a->reason;
	}
	s->state = a->to;
	if (is_over_unheard(s))
		pool_side_over(s, 1);
}

void side_count(const struct side *s)
{
	const struct vqp *v = vqp_find(s->qp);
	const struct shift_conn_stats *st = shift_conn_stats(v->conn);

	if (st->overflow)
		violation(NAME ": the core has lost actions", NAMED(s));
	tally->commits += st->switches;
	tally->replayed += st->replayed;
	tally->trimmed += st->trimmed;
	tally->proved += st->proved;
	tally->reissued_reads += st->reissued_reads;
	tally->hung_fences += st->hung_fences;
	tally->planned += st->planned;
	tally->held_posts += st->held_posts;
	tally->abandoned += st->abandoned;
	tally->switched += st->switches != 0;
	tally->ended_by_atomic += s->reason == SHIFT_R_LOST_ATOMIC;
}

/* --- at the NICs ------------------------------------------------------------------------------ */

/* Whose request the packet belongs to, and at what place in its message the packet is. */
static struct side *sender(const struct packet *p, uint32_t *seq, uint32_t *at)
{
	for (unsigned int h = 0; h < HOSTS; h++) {
		uint64_t start = (uintptr_t)memory[h].local, from = p->source - start;
		struct side *s;

		if (p->source < start || from >= sizeof(memory[h].local))
			continue;
		s = &sides[from / sizeof(memory[h].local[0])][h];
		*seq = (uint32_t)(from / SLOT_BYTES % SLOTS);
		*at = (uint32_t)(from % SLOT_BYTES) + p->offset;
		while (*seq + SLOTS < s->posted)
			*seq += SLOTS;
		return s;
	}
	violation("a packet of no request");
}

static void placed(struct side *s, uint32_t seq, uint32_t at, const struct packet *p)
{
	struct work *w = &s->work[seq];

	for (uint32_t i = 0; i < p->bytes; i++)
		if (p->data[i] != pattern(s->host, s->pair, seq, at + i))
			violation(NAME ": request %u arrives with wrong data at byte %u", NAMED(s),
				  seq, at + i);
	if ((w->op == OP_WRITE || w->op == OP_WRITE_IMM) &&
	    p->remote != (uintptr_t)memory[!s->host].write[s->pair][seq % SLOTS] + at)
		violation(NAME ": request %u is written to a wrong place", NAMED(s), seq);
	if (is_two_sided(w->op) && !at)
		w->placed = 0;
	if (at != w->placed && !unsure[!s->host])
		violation(NAME ": byte %u of request %u is placed, %u is next", NAMED(s), at, seq,
			  w->placed);
	w->placed = at + p->bytes;
}

static void executed(struct side *s, uint32_t seq)
{
	struct work *w = &s->work[seq];

	if (!is_atomic(w->op) && w->op != OP_READ && w->placed != w->bytes)
		violation(NAME ": request %u ends after %u of %u bytes", NAMED(s), seq, w->placed,
			  w->bytes);
	if (is_atomic(w->op) && seq == s->executed)
		w->result = memory[!s->host].word[s->pair][w->op == OP_FETCH_ADD];
	if (seq == s->executed)
		s->executed++;
	w->executed++;
	trace("%c: the NIC has executed request %u of " NAME, 'a' + !s->host, seq, NAMED(s));
}

void oracle_execute(unsigned int host, const struct fake_qp *q, const struct packet *p)
{
	uint32_t seq, at;
	struct side *s = sender(p, &seq, &at);
	const struct work *w = &s->work[seq];
	bool weak = unsure[host] && !is_two_sided(w->op);

	if (s->host == host || (p->qpn != q->qp.qp_num))
		violation("%c executes a packet of its own", 'a' + host);
	if (seq >= s->posted)
		violation(NAME ": request %u is executed before it is posted", NAMED(s), seq);
	if (s->peer->closed && !unsure[host])
		violation(NAME ": request %u is executed after the peer's QP was closed", NAMED(s),
			  seq);
	if (p->op != w->op)
		violation(NAME ": request %u arrives as opcode %u, was %u", NAMED(s), seq, p->op,
			  w->op);
	if ((p->op == OP_SEND_IMM || p->op == OP_WRITE_IMM) && p->imm != w->imm)
		violation(NAME ": request %u arrives with a wrong immediate", NAMED(s), seq);
	if (seq > s->executed)
		violation(NAME ": gap: request %u is executed, %u is next", NAMED(s), seq,
			  s->executed);
	if (seq < s->executed && p->op != OP_READ && !weak)
		violation(NAME ": request %u is executed again, %u is next", NAMED(s), seq,
			  s->executed);
	if (seq < s->next_cqe && p->op == OP_READ && !s->ended && !weak)
		violation(NAME ": READ %u is executed again after its completion", NAMED(s), seq);
	if (p->op != OP_READ && !is_atomic(p->op))
		placed(s, seq, at, p);
	if (q->srq && (p->op == OP_SEND || p->op == OP_SEND_IMM))
		pool_place(s->peer, q);
	if (p->last)
		executed(s, seq);
	if (q->srq && p->last && is_two_sided(w->op))
		s->work[seq].buffer = pool_landed(s->peer, q);
}

/* --- at the program --------------------------------------------------------------------------- */

static void check_bytes(const struct side *s, uint32_t seq, const uint8_t *data, const char *what)
{
	for (uint32_t i = 0; i < s->work[seq].bytes; i++)
		if (data[i] != pattern(s->host, s->pair, seq, i))
			violation(NAME ": request %u: %s is wrong at byte %u", NAMED(s), seq, what,
				  i);
}

static void check_result(const struct side *s, uint32_t seq)
{
	const struct work *w = &s->work[seq];
	uint32_t slot = seq % SLOTS;
	const uint8_t *here = memory[s->host].local[s->pair][slot];
	uint64_t value;

	if (w->op == OP_WRITE || w->op == OP_WRITE_IMM)
		check_bytes(s, seq, memory[!s->host].write[s->pair][slot], "what was written");
	for (uint32_t i = 0; w->op == OP_READ && i < w->bytes; i++)
		if (here[i] != read_pattern(!s->host, s->pair, slot, i))
			violation(NAME ": READ %u completes without its data, byte %u", NAMED(s),
				  seq, i);
	memcpy(&value, here, sizeof(value));
	if (is_atomic(w->op) && value != w->result && !unsure[!s->host])
		violation(NAME ": atomic %u returns %lx, should be %lx", NAMED(s), seq,
			  (unsigned long)value, (unsigned long)w->result);
}

static void first_error(struct side *s, const char *what, uint64_t wr_id, unsigned int status)
{
	if (!s->reason && !s->closing &&
	    !(status == IBV_WC_RNR_RETRY_EXC_ERR && pool_rnr_is_fair(s->peer)))
		violation(NAME ": %s %lu fails with %u on a living connection", NAMED(s), what,
			  (unsigned long)wr_id, status);
	s->ended = true;
	pool_side_over(s, 1);
}

static void send_completion(struct side *s, const struct ibv_wc *wc)
{
	uint32_t seq = (uint32_t)wc->wr_id;

	if (wc->wr_id >= s->posted || seq < s->next_cqe)
		violation(NAME ": request %lu completes, %u is next of %u", NAMED(s),
			  (unsigned long)wc->wr_id, s->next_cqe, s->posted);
	if (wc->status) {
		if (s->failed_at == UINT32_MAX) {
			first_error(s, "request", wc->wr_id, wc->status);
			s->failed_at = seq;
		} else if (seq != s->next_cqe) {
			violation(NAME ": request %u flushes, %u is next", NAMED(s), seq,
				  s->next_cqe);
		}
		s->next_cqe = seq + 1;
		return;
	}
	if (s->failed_at != UINT32_MAX || !s->work[seq].signaled)
		violation(NAME ": request %u completes %s", NAMED(s), seq,
			  s->work[seq].signaled ? "after an error" : "and is not signaled");
	for (uint32_t i = s->next_cqe; i < seq; i++)
		if (s->work[i].signaled)
			violation(NAME ": request %u completes before %u", NAMED(s), seq, i);
	if (seq >= s->executed && !unsure[!s->host])
		violation(NAME ": request %u completes, %u were executed", NAMED(s), seq,
			  s->executed);
	for (; s->next_cqe <= seq; s->next_cqe++)
		check_result(s, s->next_cqe);
}

static const uint8_t *received_bytes(const struct side *s, const struct work *w)
{
	if (s->pool)
		return pool_bytes(s, w->buffer);
	return memory[s->host].receive[s->pair][(s->received - 1) % SLOTS];
}

static void receive_completion(struct side *s, const struct ibv_wc *wc)
{
	const struct side *peer = s->peer;
	const struct work *w;
	uint32_t seq;

	if (!s->pool && (wc->wr_id != s->received || s->received == s->receives))
		violation(NAME ": receive %lu completes, %u is next of %u", NAMED(s),
			  (unsigned long)wc->wr_id, s->received, s->receives);
	s->received++;
	tally->receives++;
	if (wc->status) {
		first_error(s, "receive", wc->wr_id, wc->status);
		if (s->pool)
			pool_received(s, wc, -1);
		return;
	}
	while (s->next_two_sided < peer->posted && !is_two_sided(peer->work[s->next_two_sided].op))
		s->next_two_sided++;
	seq = s->next_two_sided++;
	w = &peer->work[seq];
	if (seq >= peer->executed)
		violation(NAME ": a receive completes for request %u, %u were executed", NAMED(s),
			  seq, peer->executed);
	if (w->op != OP_WRITE_IMM)
		check_bytes(peer, seq, received_bytes(s, w), "what was received");
	if (s->pool)
		pool_received(s, wc, w->buffer);
	if (wc->byte_len != w->bytes)
		violation(NAME ": receive %u has %u bytes, request %u %u", NAMED(s),
			  s->received - 1, wc->byte_len, seq, w->bytes);
	if (w->op != OP_SEND && (!(wc->wc_flags & IBV_WC_WITH_IMM) || wc->imm_data != w->imm))
		violation(NAME ": receive %u has a wrong immediate", NAMED(s), s->received - 1);
}

/* The opcode of an error says nothing. A receive that flushes follows those before it. */
static bool is_receive(const struct side *s, const struct ibv_cq *cq, const struct ibv_wc *wc)
{
	if (wc->status && s->pool)
		return wc->wr_id >= POOL_ID;
	if (!wc->status || s->qp->send_cq == s->qp->recv_cq)
		return wc->opcode & IBV_WC_RECV;
	return cq == s->qp->recv_cq;
}

void oracle_completion(struct side *s, const struct ibv_cq *cq, const struct ibv_wc *wc)
{
	trace(NAME ": wr_id %lu, status %u, opcode %u", NAMED(s), (unsigned long)wc->wr_id,
	      wc->status, wc->opcode);
	if (is_receive(s, cq, wc))
		receive_completion(s, wc);
	else
		send_completion(s, wc);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void side_ends(const struct side *s)
{
	const uint64_t *word = memory[!s->host].word[s->pair];

	if (side_is_over(s) || side_is_over(s->peer) || s->closing || s->peer->closing)
		return;
	if (s->executed != s->total)
		violation(NAME ": %u of %u requests were executed", NAMED(s), s->executed,
			  s->total);
	if (unsure[!s->host])
		return;
	for (uint32_t i = 0; i < s->total; i++)
		if (s->work[i].executed != 1 && s->work[i].op != OP_READ)
			violation(NAME ": request %u was executed %u times", NAMED(s), i,
				  s->work[i].executed);
	if (word[1] != s->added || word[0] != s->swapped)
		violation(NAME ": the peer's words are %lx %lx", NAMED(s), (unsigned long)word[0],
			  (unsigned long)word[1]);
}

void oracle_end(unsigned int host)
{
	for (unsigned int p = 0; p < pairs; p++)
		side_ends(&sides[p][host]);
}

const char *oracle_hang(void)
{
	static char text[1024];
	int n = pool_hang(text, sizeof(text));

	for (unsigned int p = 0; p < pairs; p++)
		for (unsigned int h = 0; h < HOSTS; h++) {
			const struct side *s = &sides[p][h];

			n += snprintf(
				text + n, sizeof(text) - (size_t)n,
				NAME
				" %s: posted %u of %u, completed %u, executed %u, received %u; ",
				NAMED(s), shift_state_name(s->state), s->posted, s->total,
				s->next_cqe, s->executed, s->received);
		}
	return text;
}
