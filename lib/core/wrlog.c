/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <string.h>

#include "lib/core/psn.h"
#include "lib/core/wrlog.h"

#define LENGTH_MAX 0x80000000u /* IB spec 9.7.1: a message has at most 2^31 bytes */

static uint32_t pow2_at_least(uint64_t n)
{
	uint32_t p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

static size_t round_up_64(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

/* More than the provider's queue holds: soft-RoCE of Linux 6.1 says cap and takes up to 2 * cap
 * - 1.
 */
#define QUEUES_AT_NIC 2

/*
 * Beside these a list of WRs is logged before it is posted, so the log can be ahead of what the
 * provider accepts by one queue. And a completion that a thread has polled, and not counted yet,
 * has made room at the provider already. What no program needs is never touched.
 */
static uint32_t send_slots(uint32_t cap)
{
	return pow2_at_least((QUEUES_AT_NIC + 2) * (uint64_t)cap);
}

static uint32_t send_stride(uint32_t sge_max, uint32_t inline_max)
{
	uint32_t sges = sge_max > 1 ? sge_max * (uint32_t)sizeof(struct shift_sge) : 0;
	uint32_t n = sges > inline_max ? sges : inline_max;

	return (n + 15) & ~15u;
}

size_t shift_sendlog_size(uint32_t cap, uint32_t sge_max, uint32_t inline_max)
{
	size_t slots = send_slots(cap);

	return slots * sizeof(struct shift_wr_entry) +
	       round_up_64(slots * send_stride(sge_max, inline_max));
}

void shift_sendlog_init(struct shift_sendlog *l, void *mem, uint64_t *sig_done, uint32_t cap,
			uint32_t sge_max, uint32_t inline_max, uint32_t mtu, bool sig_all)
{
	uint32_t slots = send_slots(cap);

	memset(l, 0, sizeof(*l));
	l->ring = mem;
	l->side = (uint8_t *)mem + (size_t)slots * sizeof(struct shift_wr_entry);
	l->mask = l->mask_max = slots - 1;
	l->room_end = slots;
	l->sig_done = sig_done;
	*sig_done = 0;
	l->cap = cap;
	l->mtu = mtu;
	l->side_stride = send_stride(sge_max, inline_max);
	l->sge_max = sge_max ? sge_max : 1;
	l->inline_max = inline_max;
	l->sig_all = sig_all;
	l->lost = UINT64_MAX;
}

static inline bool is_signaled(const struct shift_sendlog *l, const struct shift_wr_entry *e)
{
	return l->sig_all || (e->flags & (SHIFT_F_SIGNALED | SHIFT_F_SECRET));
}

/* --- room ------------------------------------------------------------------------------------- */

/* All of its memory is in use. */
static bool is_full_size(const struct shift_sendlog *l)
{
	return l->mask == l->mask_max;
}

static void set_room_end(struct shift_sendlog *l)
{
	l->room_end = l->kept + l->mask + 1;
}

void shift_sendlog_begin_with(struct shift_sendlog *l, uint32_t slots)
{
	uint32_t most = pow2_at_least(2 * (uint64_t)l->cap);

	l->mask = (slots < most ? slots : most) - 1;
	set_room_end(l);
}

void shift_sendlog_end(struct shift_sendlog *l)
{
	l->room_end = UINT64_MAX;
}

/* The oldest that the log still shows. */
static uint64_t oldest_shown(const struct shift_sendlog *l)
{
	uint64_t ring = (uint64_t)l->mask + 1;
	uint64_t low = l->head > ring ? l->head - ring : 0;

	if (low < l->kept)
		low = l->kept;
	return low < l->tail ? l->tail : low;
}

static void move_entry(struct shift_sendlog *l, uint64_t from, uint64_t to)
{
	struct shift_wr_entry *e = &l->ring[from];

	l->ring[to] = *e;
	if ((e->flags & SHIFT_F_INLINE) || e->num_sge > 1)
		memcpy(l->side + to * l->side_stride, l->side + from * l->side_stride,
		       l->side_stride);
}

/* Twice the slots. An entry stays where it is, or goes where none has been yet. */
static void use_more_slots(struct shift_sendlog *l)
{
	uint32_t mask = 2 * l->mask + 1;

	for (uint64_t i = l->kept; i < l->head; i++)
		if ((i & mask) != (i & l->mask))
			move_entry(l, i & l->mask, i & mask);
	l->mask = mask;
}

/* The newest send, and so each, has completed. */
static inline bool all_have_completed(const struct shift_sendlog *l)
{
	return l->sig_posted == __atomic_load_n(l->sig_done, __ATOMIC_RELAXED) &&
	       is_signaled(l, shift_sendlog_at(l, l->head - 1));
}

/* Of WRs that are not signaled no completion says that they are done. Soft-RoCE takes more of them
 * than its queue holds, one after the other, and then all but the newest are done. Those of a list
 * are logged before the provider refuses them. */
static uint64_t done_without_signal(const struct shift_sendlog *l)
{
	uint64_t end = l->head - (QUEUES_AT_NIC + 1) * (uint64_t)l->cap;
	uint64_t i = l->kept;

	while (i < end && !is_signaled(l, shift_sendlog_at(l, i)))
		i++;
	return i;
}

/* With more than half of the slots in use one would have to look all the time. */
static __attribute__((noinline)) uint64_t find_room(struct shift_sendlog *l)
{
	l->kept = l->tracked ? l->tail : shift_sendlog_done_by_signal(l);
	while (l->head - l->kept > (l->mask + 1) / 2 && !is_full_size(l))
		use_more_slots(l);
	if (!l->tracked && l->head - l->kept > l->mask)
		l->kept = done_without_signal(l);
	set_room_end(l);
	return l->room_end - l->head;
}

uint64_t shift_sendlog_room(struct shift_sendlog *l)
{
	if (l->head < l->room_end)
		return l->room_end - l->head;
	/* What is tracked may have completed, and still wait for its delivery. */
	if (l->tracked || !all_have_completed(l))
		return find_room(l);
	l->kept = l->head;
	l->room_end = l->head + l->mask + 1;
	return l->mask + 1;
}

/* --- sends ------------------------------------------------------------------------------------ */

static bool known_opcode(uint8_t opcode)
{
	return opcode <= SHIFT_OP_SEND_INV;
}

uint64_t shift_sendlog_store_inline(const struct shift_sendlog *l, struct shift_wr_entry *e,
				    const struct shift_sge *sge, uint32_t n)
{
	uint8_t *side = shift_sendlog_side(l, e), *to = side;
	uint64_t room = l->inline_max;

	if (n > UINT8_MAX)
		return UINT64_MAX;
	for (; n; n--, sge++) {
		if (sge->length > room)
			return UINT64_MAX;
		room -= sge->length;
		if (sge->length)
			to = (uint8_t *)memcpy(to, (const void *)(uintptr_t)sge->addr,
					       sge->length) +
			     sge->length;
	}
	e->addr = 0;
	e->lkey = 0;
	e->num_sge = to != side;
	return (uint64_t)(to - side);
}

bool shift_sendlog_signaled(const struct shift_sendlog *l, const struct shift_wr_entry *e)
{
	return is_signaled(l, e);
}

bool shift_sendlog_visible(const struct shift_sendlog *l, const struct shift_wr_entry *e)
{
	return l->sig_all || (e->flags & SHIFT_F_SIGNALED);
}

uint32_t shift_wr_packets(const struct shift_wr_entry *e, uint32_t mtu)
{
	uint32_t trim = e->opcode == SHIFT_OP_WRITE ? e->trim : 0;

	return shift_psn_packets(e->opcode, e->length - trim, mtu);
}

/*
 * Must we signal this unsignaled WR ourselves? Yes, if else too many packets would be unsignaled
 * for the PSN window (doc/protocol.md, A8, 7.38). And where completions are matched anyway, if it
 * is an atomic: a planned switch has to know that none is in flight (7.25).
 */
static bool needs_secret(const struct shift_sendlog *l, const struct shift_wr_entry *e)
{
	if (shift_sendlog_visible(l, e))
		return false;
	if (l->tracked && shift_wr_atomic(e->opcode))
		return true;
	return l->cum - l->cum_signal > SHIFT_SECRET_MAX;
}

static void set_secret(struct shift_sendlog *l, struct shift_wr_entry *e)
{
	if (!l->tracked)
		shift_sendlog_track(l);
	e->flags |= SHIFT_F_SECRET;
	l->special_end = l->head + 1;
}

int shift_sendlog_post(struct shift_sendlog *l, const struct shift_wr *wr)
{
	struct shift_wr_entry *e;
	uint64_t length;

	if ((l->held || l->tracked) && l->head - l->tail >= l->cap)
		return -ENOMEM; /* before anything is stored: the entry may be the oldest one's */
	if (!shift_sendlog_room(l))
		return -ENOMEM;
	e = shift_sendlog_at(l, l->head);
	length = wr->flags & SHIFT_F_INLINE ? shift_sendlog_store_inline(l, e, wr->sge, wr->num_sge)
					    : shift_sendlog_store(l, e, wr->sge, wr->num_sge);
	if (length > LENGTH_MAX || !known_opcode(wr->opcode))
		return -EINVAL;
	e->wr_id = wr->wr_id;
	e->remote_addr = wr->remote_addr;
	if (shift_wr_atomic(wr->opcode)) {
		e->imm = (uint32_t)wr->compare_add;
		e->trim = (uint32_t)(wr->compare_add >> 32);
		e->swap = wr->swap;
	} else {
		e->imm = wr->imm;
		e->trim = 0;
	}
	e->length = (uint32_t)length;
	e->rkey = wr->rkey;
	e->opcode = wr->opcode;
	e->flags = wr->flags & ~SHIFT_F_SECRET;
	e->state = SHIFT_WR_PENDING;
	l->cum += shift_wr_packets(e, l->mtu);
	e->cum = l->cum;
	if (needs_secret(l, e))
		set_secret(l, e);
	if (is_signaled(l, e)) {
		l->sig_posted++;
		l->cum_signal = l->cum;
	}
	l->two_posted += shift_wr_two_sided(e->opcode);
	shift_count_set(&l->head, l->head + 1);
	if (!l->held)
		l->sent = l->head;
	return (e->flags & SHIFT_F_SECRET) != 0;
}

void shift_sendlog_hold(struct shift_sendlog *l)
{
	if (l->held)
		return;
	shift_sendlog_track(l); /* from here on we, not the provider, refuse what exceeds cap */
	l->held = true;
	l->sent = l->head;
	l->cum_sent = l->cum;
}

void shift_sendlog_send(struct shift_sendlog *l, uint64_t end)
{
	if (end == l->sent)
		return;
	l->sent = end;
	l->cum_sent = shift_sendlog_at(l, end - 1)->cum;
}

void shift_sendlog_release(struct shift_sendlog *l)
{
	l->held = false;
}

void shift_sendlog_unsend(struct shift_sendlog *l, uint32_t n)
{
	while (n && l->sent > l->tail) {
		const struct shift_wr_entry *e = shift_sendlog_at(l, --l->sent);

		if (e->state != SHIFT_WR_PENDING)
			continue;
		l->cum_sent = e->cum - shift_wr_packets(e, l->mtu);
		n--;
	}
}

/* Packets up to the newest WR in the log whose completion will come. If there is none: before the
 * oldest WR that the log still shows. What is done may have had its completion in another epoch. */
static uint64_t cum_of_last_signal(const struct shift_sendlog *l)
{
	uint64_t low = oldest_shown(l);
	uint64_t cum = l->cum;

	for (uint64_t i = l->head; i > low; i--) {
		const struct shift_wr_entry *e = shift_sendlog_at(l, i - 1);

		if (e->state != SHIFT_WR_PENDING)
			continue;
		if (is_signaled(l, e))
			return e->cum;
		cum = e->cum - shift_wr_packets(e, l->mtu);
	}
	return cum;
}

void shift_sendlog_unpost(struct shift_sendlog *l, uint32_t n)
{
	bool signaled = false;

	while (n-- && l->head > l->tail) {
		struct shift_wr_entry *e = shift_sendlog_at(l, l->head - 1);

		shift_count_set(&l->head, l->head - 1);
		signaled |= is_signaled(l, e);

		l->cum -= shift_wr_packets(e, l->mtu);
		l->sig_posted -= is_signaled(l, e);
		l->two_posted -= shift_wr_two_sided(e->opcode);
	}
	if (l->sent > l->head)
		l->sent = l->head;
	if (signaled)
		l->cum_signal = cum_of_last_signal(l);
}

/* The same of a WR that is newly logged; most have one. */
static inline uint64_t packets_of_new(const struct shift_sendlog *l, const struct shift_wr_entry *e)
{
	return e->opcode <= SHIFT_OP_READ && e->length <= l->mtu ? 1 : shift_wr_packets(e, l->mtu);
}

uint64_t shift_sendlog_unsignaled(const struct shift_sendlog *l)
{
	const struct shift_wr_entry *e;
	uint64_t packets = 0;

	for (uint64_t i = l->head; !is_signaled(l, e = shift_sendlog_at(l, i - 1)); i--)
		packets += packets_of_new(l, e);
	return packets;
}

void shift_sendlog_number(struct shift_sendlog *l, uint64_t n)
{
	uint64_t low = oldest_shown(l), cum = l->cum;

	for (uint64_t i = l->head; n && i > low; i--, n--) {
		struct shift_wr_entry *e = shift_sendlog_at(l, i - 1);

		e->cum = cum;
		cum -= packets_of_new(l, e);
	}
}

uint64_t shift_sendlog_done_by_signal(const struct shift_sendlog *l)
{
	/* The poster may ask while another thread counts. */
	uint64_t open = l->sig_posted - __atomic_load_n(l->sig_done, __ATOMIC_RELAXED);
	uint64_t low = oldest_shown(l);
	uint64_t i = l->head;

	while (i > low) {
		if (is_signaled(l, shift_sendlog_at(l, i - 1)) && open-- == 0)
			break;
		i--;
	}
	return i;
}

uint64_t shift_sendlog_cum_before(const struct shift_sendlog *l, uint64_t i)
{
	while (i < l->sent) {
		const struct shift_wr_entry *e = shift_sendlog_at(l, i);

		if (e->state == SHIFT_WR_PENDING)
			return e->cum - shift_wr_packets(e, l->mtu);
		i++;
	}
	return shift_sendlog_cum_sent(l); /* nothing pending */
}

void shift_sendlog_track(struct shift_sendlog *l)
{
	if (!l->tracked) {
		l->tail = shift_sendlog_done_by_signal(l);
		l->ready = l->tail;
		l->scan = l->tail;
		l->tracked = true;
	}
	l->special_end = l->head;
}

void shift_sendlog_advance(struct shift_sendlog *l)
{
	while (l->ready < l->sent && shift_sendlog_at(l, l->ready)->state == SHIFT_WR_DONE)
		l->ready++;
	if (l->scan < l->ready)
		l->scan = l->ready;
}

void shift_sendlog_complete(struct shift_sendlog *l)
{
	while (l->scan < l->sent) {
		struct shift_wr_entry *e = shift_sendlog_at(l, l->scan++);
		bool pending = e->state == SHIFT_WR_PENDING;

		if (pending)
			e->state = SHIFT_WR_DONE;
		if (pending && is_signaled(l, e))
			break;
	}
	shift_sendlog_advance(l);
}

/* Walk back over as many unfinished WRs as flushed. */
static uint64_t done_by_flush(const struct shift_sendlog *l, uint64_t low, uint64_t flushed)
{
	uint64_t i = l->sent;

	while (i > low && flushed) {
		i--;
		flushed -= shift_sendlog_at(l, i)->state == SHIFT_WR_PENDING;
	}
	return i;
}

uint64_t shift_sendlog_settle(struct shift_sendlog *l, uint64_t flushed, bool exact)
{
	uint64_t acked, i;

	shift_sendlog_track(l);
	acked = exact ? done_by_flush(l, l->scan, flushed) : l->scan;
	for (i = l->scan; i < acked; i++) {
		struct shift_wr_entry *e = shift_sendlog_at(l, i);

		/* A signaled WR without its completion was not acknowledged, whatever the flush
		 * count says: some provider does not flush unsignaled WRs. */
		if (e->state == SHIFT_WR_PENDING && is_signaled(l, e))
			break;
		e->state = SHIFT_WR_DONE;
	}
	l->scan = i;
	shift_sendlog_advance(l);
	return i;
}

/* One that is posted again, and takes its place behind what was posted before. Returns whether it
 * is signaled in secret from now on. */
static bool renumber_pending(struct shift_sendlog *l, struct shift_wr_entry *e)
{
	bool secret;

	l->cum += shift_wr_packets(e, l->mtu);
	secret = !is_signaled(l, e) && l->cum - l->cum_signal > SHIFT_SECRET_MAX;
	if (secret) {
		e->flags |= SHIFT_F_SECRET;
		l->sig_posted++;
	}
	if (is_signaled(l, e))
		l->cum_signal = l->cum;
	return secret;
}

uint32_t shift_sendlog_renumber(struct shift_sendlog *l, uint32_t mtu, uint64_t end)
{
	uint32_t secret = 0;

	l->mtu = mtu;
	l->cum = l->cum_signal = 0;
	for (uint64_t i = l->tail; i < end; i++) {
		struct shift_wr_entry *e = shift_sendlog_at(l, i);

		if (e->state == SHIFT_WR_PENDING)
			secret += renumber_pending(l, e);
		e->cum = l->cum;
	}
	l->sent = end;
	l->cum_sent = l->cum;
	l->scan = l->ready;
	return secret;
}

/* The SGEs that are left behind the first trim bytes. */
static uint32_t trim_sges(const struct shift_sge *from, uint32_t n, uint32_t trim,
			  struct shift_sge *to)
{
	uint32_t out = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t skip = trim < from[i].length ? trim : from[i].length;

		trim -= skip;
		if (skip && skip == from[i].length)
			continue;
		to[out].addr = from[i].addr + skip;
		to[out].length = from[i].length - skip;
		to[out].lkey = from[i].lkey;
		out++;
	}
	return out;
}

void shift_sendlog_repost(const struct shift_sendlog *l, uint64_t i, struct shift_wr *wr,
			  struct shift_sge *sge)
{
	const struct shift_wr_entry *e = shift_sendlog_at(l, i);
	bool atomic = shift_wr_atomic(e->opcode);
	uint32_t trim = e->opcode == SHIFT_OP_WRITE ? e->trim : 0;
	struct shift_sge one = {.addr = e->addr, .length = e->length, .lkey = e->lkey};
	const struct shift_sge *from = &one;

	if (e->flags & SHIFT_F_INLINE)
		one.addr = (uintptr_t)shift_sendlog_side(l, e);
	else if (e->num_sge > 1)
		from = (const struct shift_sge *)(const void *)shift_sendlog_side(l, e);
	memset(wr, 0, sizeof(*wr));
	wr->wr_id = e->wr_id;
	wr->remote_addr = e->remote_addr + trim;
	wr->compare_add = atomic ? (uint64_t)e->trim << 32 | e->imm : 0;
	wr->swap = atomic ? e->swap : 0;
	wr->imm = atomic ? 0 : e->imm;
	wr->rkey = e->rkey;
	wr->opcode = e->opcode;
	wr->flags = e->flags & ~SHIFT_F_SECRET;
	if (e->flags & SHIFT_F_SECRET)
		wr->flags |= SHIFT_F_SIGNALED;
	wr->num_sge = trim_sges(from, e->num_sge, trim, sge);
	wr->sge = sge;
}

/* --- receives -------------------------------------------------------------------------------- */

size_t shift_recvlog_size(uint32_t cap, uint32_t sge_max)
{
	size_t slots = pow2_at_least(cap);

	return round_up_64(slots * sizeof(struct shift_recv_entry)) +
	       (sge_max > 1 ? round_up_64(slots * sge_max * sizeof(struct shift_sge)) : 0);
}

void shift_recvlog_init(struct shift_recvlog *l, void *mem, uint32_t cap, uint32_t sge_max)
{
	uint32_t slots = pow2_at_least(cap);
	size_t ring = round_up_64((size_t)slots * sizeof(struct shift_recv_entry));

	memset(l, 0, sizeof(*l));
	l->ring = mem;
	l->side = (struct shift_sge *)(void *)((uint8_t *)mem + ring);
	l->mask = slots - 1;
	l->cap = cap;
	l->sge_max = sge_max;
}

int shift_recvlog_post(struct shift_recvlog *l, const struct shift_recv_wr *wr)
{
	struct shift_recv_entry *e = shift_recvlog_at(l, l->posted);
	uint64_t open, room, lap;

	if (wr->num_sge > (l->sge_max ? l->sge_max : 1))
		return -EINVAL;
	open = l->posted - __atomic_load_n(&l->done, __ATOMIC_ACQUIRE); /* was read */
	if (open >= l->cap) /* with an SRQ `done` is ahead of `posted` */
		return -ENOMEM;
	room = l->cap - open;
	e->wr_id = wr->wr_id;
	e->num_sge = wr->num_sge;
	if (wr->num_sge == 1)
		e->sge = wr->sge[0];
	else if (wr->num_sge > 1)
		memcpy(l->side + (size_t)(l->posted & l->mask) * l->sge_max, wr->sge,
		       wr->num_sge * sizeof(*wr->sge));
	shift_count_publish(&l->posted, l->posted + 1);
	lap = (uint64_t)(l->ring + l->mask + 1 - e);
	l->next = e + 1;
	l->stop = e + (room < lap ? room : lap);
	return 0;
}

void shift_recvlog_unpost(struct shift_recvlog *l, uint64_t n)
{
	shift_count_set(&l->posted, l->posted - n);
	l->next = l->stop = NULL;
}
