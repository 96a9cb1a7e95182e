// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Asynchronous events. The descriptor of a context is readable as long as it has one. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "tests/nullverbs/nullverbs.h"

struct null_event {
	struct null_event *next;
	struct ibv_context *ctx;
	struct ibv_async_event event;
	uint32_t *reported;
};

static struct null_event *events; /* of all contexts, the oldest first */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *name_of(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_QP_LAST_WQE_REACHED: return "last_wqe";
	case IBV_EVENT_CQ_ERR: return "cq_err";
	case IBV_EVENT_SRQ_LIMIT_REACHED: return "limit";
	default: return "none";
	}
}

static bool is_raised(enum ibv_event_type type)
{
	const char *which = getenv("NULLVERBS_EVENTS");

	return which && strstr(which, name_of(type));
}

/* Under the lock. */
static struct null_event **first_of(const struct ibv_context *ctx)
{
	struct null_event **at = &events;

	while (*at && (*at)->ctx != ctx)
		at = &(*at)->next;
	return at;
}

static void set_readable(const struct ibv_context *ctx, bool readable)
{
	eventfd_t value;

	if (readable)
		eventfd_write(ctx->async_fd, 1);
	else
		eventfd_read(ctx->async_fd, &value);
}

void null_raise(struct ibv_context *ctx, enum ibv_event_type type, void *element,
		uint32_t *reported)
{
	struct null_event *e = is_raised(type) ? malloc(sizeof(*e)) : NULL;
	struct null_event **at;

	if (!e)
		return;
	*e = (struct null_event){.ctx = ctx,
				 .event = {.event_type = type, .element.qp = element},
				 .reported = reported};
	pthread_mutex_lock(&lock);
	if (!*first_of(ctx))
		set_readable(ctx, true);
	for (at = &events; *at;)
		at = &(*at)->next;
	*at = e;
	pthread_mutex_unlock(&lock);
}

/* Under the lock. */
static void remove_event(struct null_event **at)
{
	struct null_event *e = *at;

	*at = e->next;
	if (!*first_of(e->ctx))
		set_readable(e->ctx, false);
	free(e);
}

void null_drop_events(const void *element, const uint32_t *reported, const uint32_t *completed)
{
	const struct timespec ms = {.tv_nsec = 1000000};
	struct null_event **at;

	pthread_mutex_lock(&lock);
	for (at = &events; *at;) {
		if ((*at)->event.element.qp == element)
			remove_event(at);
		else
			at = &(*at)->next;
	}
	pthread_mutex_unlock(&lock);
	while (__atomic_load_n(completed, __ATOMIC_ACQUIRE) !=
	       __atomic_load_n(reported, __ATOMIC_ACQUIRE))
		nanosleep(&ms, NULL);
}

static bool take_event(const struct ibv_context *ctx, struct ibv_async_event *event)
{
	struct null_event **at;
	bool any;

	pthread_mutex_lock(&lock);
	at = first_of(ctx);
	any = *at;
	if (any) {
		*event = (*at)->event;
		__atomic_fetch_add((*at)->reported, 1, __ATOMIC_ACQ_REL);
		remove_event(at);
	}
	pthread_mutex_unlock(&lock);
	return any;
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	struct pollfd p = {.fd = ctx->async_fd, .events = POLLIN};

	while (!take_event(ctx, event)) {
		if (fcntl(ctx->async_fd, F_GETFL) & O_NONBLOCK) {
			errno = EAGAIN;
			return -1;
		}
		if (poll(&p, 1, -1) < 0)
			return -1;
	}
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	uint32_t *completed;

	switch (event->event_type) {
	case IBV_EVENT_QP_LAST_WQE_REACHED: completed = &event->element.qp->events_completed; break;
	case IBV_EVENT_CQ_ERR: completed = &event->element.cq->async_events_completed; break;
	case IBV_EVENT_SRQ_LIMIT_REACHED: completed = &event->element.srq->events_completed; break;
	default: return;
	}
	__atomic_fetch_add(completed, 1, __ATOMIC_ACQ_REL);
}
