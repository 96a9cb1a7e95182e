/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * --srq-limit: receives are posted only when the SRQ says that fewer than so many are left.
 *
 * The event must come when a receive is taken and fewer than the limit are there. If it is armed
 * when none is left, soft-RoCE says nothing until one is posted and taken. So a first wait in vain
 * is late, and all that are free are posted; a second one, with the same arming, is a lost event.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "tests/clients/integrity/integrity.h"

enum { LIMIT_WAIT_MS = 1000, LOOK_MS = 10 };

bool srq_limit_due(struct srq *s)
{
	if (s->low || !s->armed)
		return true;
	if (s->posted >= opt.srq_limit) {
		s->below_ms = 0;
		return false;
	}
	if (!s->below_ms)
		s->below_ms = now_ms();
	return now_ms() - s->below_ms > LIMIT_WAIT_MS;
}

static void arm(struct srq *s)
{
	struct ibv_srq_attr attr = {.srq_limit = opt.srq_limit};

	s->armed = true;
	s->low = s->overdue = false;
	errno = ibv_modify_srq(s->srq, &attr, IBV_SRQ_LIMIT);
	if (errno)
		fail("modify_srq, the limit");
}

void srq_limit_arm(struct srq *s)
{
	s->below_ms = 0;
	if (!s->armed || s->low) {
		arm(s);
	} else if (!s->overdue) {
		s->overdue = true;
		s->n.late_limits++;
	} else {
		s->found.lost_limits++;
		fprintf(stderr, "integrity: srq %u: no event of its limit\n", s->index);
		arm(s);
	}
}

/* It may be of an arming that another has followed: early is allowed. */
static void note(struct run *r, const struct ibv_async_event *e)
{
	for (uint32_t i = 0; i < opt.w.srqs; i++) {
		struct srq *s = &r->srqs[i];

		if (e->event_type != IBV_EVENT_SRQ_LIMIT_REACHED || e->element.srq != s->srq)
			continue;
		pthread_mutex_lock(&s->lock);
		s->low = true;
		s->n.limit_events++;
		pthread_mutex_unlock(&s->lock);
	}
}

/* The descriptor may be readable and have nothing for us. */
static void *listen(void *arg)
{
	struct run *r = arg;
	struct ibv_context *context = r->devices[0].context;
	struct pollfd p = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event e;

	while (!__atomic_load_n(&r->limit_stop, __ATOMIC_ACQUIRE)) {
		if (poll(&p, 1, LOOK_MS) <= 0 || ibv_get_async_event(context, &e))
			continue;
		note(r, &e);
		ibv_ack_async_event(&e);
	}
	return NULL;
}

void srq_limit_start(struct run *r)
{
	int fd = r->devices[0].context->async_fd;

	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		fail("async_fd");
	errno = pthread_create(&r->limit_thread, NULL, listen, r);
	if (errno)
		fail("pthread_create");
}

void srq_limit_stop(struct run *r)
{
	__atomic_store_n(&r->limit_stop, true, __ATOMIC_RELEASE);
	pthread_join(r->limit_thread, NULL);
}
