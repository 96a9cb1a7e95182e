/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/object/srq_limit.h"

#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/object/vsrq.h"

#define FEED_NS 10000000ull /* that late an event may be to a program that does not poll */

void srq_limit_init(struct vsrq *s, uint32_t armed)
{
	s->limit.armed = armed;
	s->limit.event.event = (struct ibv_async_event){.element.srq = s->srq,
							.event_type = IBV_EVENT_SRQ_LIMIT_REACHED};
}

/* Under the lock. */
static bool nic_counts(const struct vsrq *s)
{
	return shift_srq_alone(&s->books) && !s->limit.away;
}

static bool books_are_low(const struct vsrq *s)
{
	return s->limit.armed && shift_srq_total(&s->books) < s->limit.armed;
}

static unsigned int look_away(struct vsrq *s, uint64_t now)
{
	struct srq_limit *l = &s->limit;
	unsigned int todo = 0;

	l->away = true;
	if (books_are_low(s)) {
		l->armed = 0;
		l->made = true;
		todo = SRQ_LIMIT_RAISE;
	}
	if (!l->armed) {
		l->feed_at = 0;
	} else if (!l->feed_at) {
		l->feed_at = now + FEED_NS;
	} else if (now >= l->feed_at && !l->feeding) {
		l->feeding = true;
		l->feed_at = now + FEED_NS;
		todo |= SRQ_LIMIT_FEED;
	}
	return todo;
}

unsigned int srq_limit_look(struct vsrq *s, uint64_t now)
{
	struct srq_limit *l = &s->limit;

	if (s->ending || nic_counts(s))
		return 0;
	if (!shift_srq_alone(&s->books))
		return look_away(s, now);
	l->away = false;
	l->feed_at = 0;
	if (!l->armed)
		return 0;
	s->rail[0].has_drainer = true; /* destroy waits for that worker */
	return SRQ_LIMIT_REARM;
}

uint64_t srq_limit_deadline(const struct vsrq *s)
{
	const struct srq_limit *l = &s->limit;

	return l->feed_at && !l->feeding ? l->feed_at : UINT64_MAX;
}

static void srq_limit_feed(struct object *obj, struct nic *nic)
{
	struct vsrq *s = vsrq_of(obj);

	(void)nic;
	vsrq_feed(s);
	short_lock_take(&s->lock);
	s->limit.feeding = false;
	vsrq_act(s);
}

/* All receives are at home again. What was taken there before the NIC was armed it does not count,
 * and some say nothing when they are armed too late: so the books are looked at once more. */
static void srq_limit_rearm(struct object *obj, struct nic *nic)
{
	struct vsrq *s = vsrq_of(obj);
	struct ibv_srq_attr attr = {0};
	bool low;

	short_lock_take(&s->lock);
	attr.srq_limit = s->ending ? 0 : s->limit.armed;
	s->limit.again |= attr.srq_limit != 0;
	short_lock_give(&s->lock);
	if (!attr.srq_limit)
		return;
	if (real.modify_srq(s->srq, &attr, IBV_SRQ_LIMIT))
		log_debug("%s: the limit of an SRQ cannot be armed there again", nic->name);
	vsrq_feed(s);
	short_lock_take(&s->lock);
	low = !s->ending && books_are_low(s);
	if (low) {
		s->limit.armed = 0;
		s->limit.made = true;
	}
	short_lock_give(&s->lock);
	if (low)
		made_event_raise(s->dev, &s->limit.event);
}

/* No memory: it is tried again. */
static void feed_is_off(struct vsrq *s)
{
	short_lock_take(&s->lock);
	s->limit.feeding = false;
	short_lock_give(&s->lock);
}

/* Likewise. */
static void rearm_is_off(struct vsrq *s)
{
	short_lock_take(&s->lock);
	s->limit.away = true;
	s->limit.feed_at = now_ns() + FEED_NS;
	short_lock_give(&s->lock);
}

bool srq_limit_do(struct vsrq *s, unsigned int todo)
{
	bool off;

	if (todo & SRQ_LIMIT_RAISE)
		made_event_raise(s->dev, &s->limit.event);
	off = todo & SRQ_LIMIT_REARM && !object_job(&s->obj, s->dev->nic[0], srq_limit_rearm);
	if (off)
		rearm_is_off(s);
	/* The program's own NIC may be the one that hangs. */
	if (todo & SRQ_LIMIT_FEED && !object_job(&s->obj, s->dev->nic[1], srq_limit_feed))
		feed_is_off(s);
	return off;
}

uint32_t srq_limit_arm(struct vsrq *s, uint32_t armed)
{
	uint32_t was;

	short_lock_take(&s->lock);
	was = s->limit.armed;
	s->limit.armed = armed;
	s->limit.made = s->limit.again = false;
	vsrq_give(s);
	return was;
}

bool srq_limit_is_due(struct vsrq *s)
{
	bool due;

	short_lock_take(&s->lock);
	due = !s->limit.made && (s->limit.armed || !s->limit.again) &&
	      (nic_counts(s) || books_are_low(s));
	if (due)
		s->limit.armed = 0;
	vsrq_give(s);
	return due;
}
