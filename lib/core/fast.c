/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Runs of like WRs on their way into the log (fast.h). */
#include "lib/core/conn_int.h"
#include "lib/core/fast.h"

/* Copied with the SGE and with the remote address, in one piece each. */
_Static_assert(offsetof(struct shift_wr_entry, length) ==
			       offsetof(struct shift_wr_entry, addr) + 8 &&
		       offsetof(struct shift_wr_entry, lkey) ==
			       offsetof(struct shift_wr_entry, addr) + 12,
	       "an SGE must be a piece of the entry");
#define GAP(type, a, b) (offsetof(type, b) - offsetof(type, a))

_Static_assert(GAP(struct shift_wr_entry, imm, remote_addr) == 4 &&
		       GAP(struct shift_wr_entry, imm, rkey) == 12 &&
		       GAP(struct shift_raw_wr, imm, remote_addr) == 4 &&
		       GAP(struct shift_raw_wr, imm, rkey) == 12,
	       "imm, remote address and rkey are copied in one piece");
_Static_assert(GAP(struct shift_raw_wr, num_sge, opcode) == 4 &&
		       GAP(struct shift_raw_wr, num_sge, flags) == 8,
	       "compared in one piece");

static struct shift_wr_entry *ring_end(const struct shift_sendlog *l)
{
	return l->ring + l->mask + 1;
}

/* May WRs of this kind be in a run at all? */
static bool suits_run(const struct shift_raw_wr *wr)
{
	const uint32_t flags = SHIFT_F_FENCE | SHIFT_F_SIGNALED | SHIFT_F_SOLICITED;

	return wr->num_sge == 1 && wr->opcode <= SHIFT_OP_READ && !(wr->flags & ~flags);
}

static void set_alike(struct shift_alike *a, const struct shift_raw_wr *wr)
{
	*a = (struct shift_alike){
		.num_sge = wr->num_sge,
		.opcode = wr->opcode,
		.flags = wr->flags,
		.length = wr->sge->length,
	};
}

static bool same_alike(const struct shift_alike *a, const struct shift_alike *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* What is added when folding. */
static void fill_entry(struct shift_wr_entry *e, const struct shift_alike *a, uint64_t cum)
{
	e->cum = cum;
	e->trim = 0;
	e->swap = 0;
	e->length = a->length;
	e->opcode = (uint8_t)a->opcode;
	e->flags = (uint8_t)a->flags;
	e->num_sge = (uint8_t)a->num_sge;
	e->state = SHIFT_WR_PENDING;
}

static struct shift_wr_entry example_entry(const struct shift_alike *a)
{
	struct shift_wr_entry e;

	memset(&e, 0, sizeof(e));
	fill_entry(&e, a, 0);
	return e;
}

static void log_run(struct shift_sendlog *l, const struct shift_alike *alike, uint64_t n)
{
	uint64_t ring = (uint64_t)l->mask + 1, i = n > ring ? n - ring : 0;
	struct shift_wr_entry common = example_entry(alike);
	uint32_t packets = shift_wr_packets(&common, l->mtu);

	for (; i < n; i++)
		fill_entry(shift_sendlog_at(l, l->head + i), alike, l->cum + (i + 1) * packets);
	l->cum += n * packets;
	if (shift_sendlog_signaled(l, &common)) {
		l->sig_posted += n;
		l->cum_signal = l->cum;
	}
	if (shift_wr_two_sided(common.opcode))
		l->two_posted += n;
	l->head += n;
	l->sent = l->head;
}

void shift_fast_fold(struct shift_conn *c, struct shift_run *r)
{
	uint64_t n = r->before + (uint64_t)(r->next - r->first);

	if (n)
		log_run(&c->sq, &r->alike, n);
	r->first = r->next = r->stop = NULL;
	r->before = 0;
}

static void set_stop(const struct shift_sendlog *l, struct shift_run *r, uint64_t may)
{
	uint64_t lap = (uint64_t)(ring_end(l) - r->next);

	if (lap > may)
		lap = may;
	r->stop = r->next + lap;
	r->left = may - lap;
}

bool shift_fast_wrap(struct shift_conn *c, struct shift_run *r)
{
	if (!r->next || r->next != ring_end(&c->sq) || !r->left)
		return false;
	r->before += (uint64_t)(r->next - r->first);
	r->first = r->next = c->sq.ring;
	set_stop(&c->sq, r, r->left);
	return true;
}

/* How many of them may come before one must be signaled in secret. */
static uint64_t run_max(const struct shift_sendlog *l, const struct shift_alike *alike)
{
	uint64_t unsignaled = l->cum - l->cum_signal;
	struct shift_wr_entry common = example_entry(alike);

	if (shift_sendlog_signaled(l, &common))
		return UINT64_MAX;
	if (unsignaled >= SHIFT_SECRET_MAX)
		return 0;
	return (SHIFT_SECRET_MAX - unsignaled) / shift_wr_packets(&common, l->mtu);
}

void shift_fast_arm(struct shift_conn *c, struct shift_run *r, const struct shift_raw_wr *wr)
{
	struct shift_alike alike = {0};

	if (suits_run(wr)) {
		set_alike(&alike, wr);
		/* A single one may be an exception: the one in many that is signaled. */
		if (!r->known || same_alike(&alike, &r->last)) {
			r->alike = alike;
			r->known = true;
		}
		r->last = alike;
	}
	if (!r->known)
		return;
	r->first = r->next = shift_sendlog_at(&c->sq, c->sq.head);
	r->before = 0;
	set_stop(&c->sq, r, run_max(&c->sq, &r->alike));
}

uint64_t *shift_fast_done(struct shift_conn *c)
{
	return &c->sq.sig_done;
}
