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
_Static_assert(offsetof(struct shift_wr_entry, rkey) ==
			       offsetof(struct shift_wr_entry, remote_addr) + 8 &&
		       offsetof(struct shift_wr_entry, opcode) ==
			       offsetof(struct shift_wr_entry, remote_addr) + 12,
	       "after the rkey comes what folding writes");

/* num_sge and opcode, flags and imm, as they lie in memory. */
static void take_apart(const struct shift_alike *a, uint32_t *num_sge, uint32_t *opcode,
		       uint32_t *flags, uint32_t *imm)
{
	memcpy(num_sge, &a->sge_op, 4);
	memcpy(opcode, (const char *)&a->sge_op + 4, 4);
	memcpy(flags, &a->flags_imm, 4);
	memcpy(imm, (const char *)&a->flags_imm + 4, 4);
}

static struct shift_wr_entry *ring_end(const struct shift_sendlog *l)
{
	return l->ring + l->mask + 1;
}

/* May WRs of this kind be in a run at all? */
static bool suits(const struct shift_raw_wr *wr)
{
	const uint32_t flags = SHIFT_F_FENCE | SHIFT_F_SIGNALED | SHIFT_F_SOLICITED;

	return wr->num_sge == 1 && wr->opcode <= SHIFT_OP_READ && !(wr->flags & ~flags);
}

static void describe(struct shift_alike *a, const struct shift_raw_wr *wr)
{
	memcpy(&a->sge_op, &wr->num_sge, 8);
	memcpy(&a->flags_imm, &wr->flags, 8);
	a->length = wr->sge->length;
}

static bool same(const struct shift_alike *a, const struct shift_alike *b)
{
	return a->sge_op == b->sge_op && a->flags_imm == b->flags_imm && a->length == b->length;
}

/* All but what each WR has of its own. */
static void common_entry(const struct shift_sendlog *l, const struct shift_alike *a,
			 struct shift_wr_entry *e)
{
	uint32_t num_sge, opcode, flags, imm;

	(void)l;
	memset(e, 0, sizeof(*e));
	take_apart(a, &num_sge, &opcode, &flags, &imm);
	e->imm = imm;
	e->length = a->length;
	e->opcode = (uint8_t)opcode;
	e->flags = (uint8_t)flags;
	e->num_sge = (uint8_t)num_sge;
}

static void fill(struct shift_wr_entry *e, const struct shift_wr_entry *common, uint64_t cum)
{
	e->cum = cum;
	e->trim = 0;
	e->imm = common->imm;
	e->compare_add = 0;
	e->opcode = common->opcode;
	e->flags = common->flags;
	e->num_sge = common->num_sge;
	e->state = SHIFT_WR_PENDING;
}

static void add(struct shift_sendlog *l, const struct shift_alike *alike, uint64_t n)
{
	uint64_t ring = (uint64_t)l->mask + 1, i = n > ring ? n - ring : 0;
	struct shift_wr_entry common;
	uint32_t packets;

	common_entry(l, alike, &common);
	packets = shift_wr_packets(&common, l->mtu);
	for (; i < n; i++)
		fill(shift_sendlog_at(l, l->head + i), &common, l->cum + (i + 1) * packets);
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
		add(&c->sq, &r->alike, n);
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
	struct shift_wr_entry common;

	common_entry(l, alike, &common);
	if (shift_sendlog_signaled(l, &common))
		return UINT64_MAX;
	if (unsignaled >= SHIFT_SECRET_MAX)
		return 0;
	return (SHIFT_SECRET_MAX - unsignaled) / shift_wr_packets(&common, l->mtu);
}

void shift_fast_arm(struct shift_conn *c, struct shift_run *r, const struct shift_raw_wr *wr)
{
	struct shift_alike alike = {0};

	if (suits(wr)) {
		describe(&alike, wr);
		/* Once may be an exception: the one in many that is signaled. */
		if (!r->known || same(&alike, &r->last)) {
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
