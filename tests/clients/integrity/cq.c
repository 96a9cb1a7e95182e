/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The CQs of a thread: plain or extended, polled all the time or only when an event has come.
 *
 * With events a CQ is polled until it is empty, armed, polled until it is empty again, and then
 * asleep: each completion from then on has an event, which is there already or still to come. The
 * thread has other things to look at (memory, clocks), so it sleeps for SLEEP_MS at most; but a CQ
 * that is asleep is left alone meanwhile. Only when it has slept for long it is looked at, since
 * its wake-up may be lost: it is if there are completions, and no event comes even now.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/clients/integrity/integrity.h"

enum {
	SLEEP_MS = 1,
	OVERSLEPT_MS = 1000,	/* a CQ is looked at that has been asleep for so long */
	OVERSLEPT_END_MS = 100, /* at the end: before what is not here counts as lost */
	EVENT_WAITS = 100,	/* for the event of a completion that is here; */
	EVENT_WAIT_MS = 10,	/* counted, as a machine that was away had no time for it */
	ACK_BULK = 32,		/* events that are acknowledged at once */
	NUDGE_US = 1000,
};

/* ---- events -------------------------------------------------------------------------------- */

static void check_event(const struct cq *c, const struct ibv_cq *cq, const void *context)
{
	if (cq == c->cq && context == c)
		return;
	fprintf(stderr, "integrity: an event of another CQ, or with another's cq_context\n");
	exit(EXIT_VIOLATED);
}

/* 0; or EAGAIN or EINTR. */
static int get_event(const struct cq *c)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;

	if (!ibv_get_cq_event(c->channel, &cq, &context)) {
		check_event(c, cq, context);
		return 0;
	}
	if (errno != EAGAIN && errno != EINTR)
		fail("get_cq_event");
	return errno;
}

/* Waits in ibv_get_cq_event() itself, as a thread that does nothing else. */
static void *helper(void *arg)
{
	struct cq *c = arg;
	const uint64_t one = 1;

	while (!__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE))
		if (!get_event(c) && write(c->fd, &one, sizeof(one)) != sizeof(one))
			fail("eventfd");
	return NULL;
}

static void on_nudge(int number)
{
	(void)number;
}

static void start_helper(struct cq *c)
{
	struct sigaction nudge = {.sa_handler = on_nudge}; /* without SA_RESTART */

	c->fd = eventfd(0, EFD_NONBLOCK);
	if (c->fd < 0 || sigaction(SIGALRM, &nudge, NULL))
		fail("eventfd");
	errno = pthread_create(&c->helper, NULL, helper, c);
	if (errno)
		fail("pthread_create");
}

/* Once may be too early: just before it waits. It is not cancelled, as it may have an event. */
static void stop_helper(struct cq *c)
{
	__atomic_store_n(&c->stop, true, __ATOMIC_RELEASE);
	while (pthread_tryjoin_np(c->helper, NULL)) {
		pthread_kill(c->helper, SIGALRM);
		usleep(NUDGE_US);
	}
	close(c->fd);
}

static uint64_t events_of_helper(const struct cq *c)
{
	uint64_t n = 0;

	return read(c->fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

/* Those that are there now; level: the first, and poll(2) tells of others. */
static uint64_t events_here(const struct cq *c)
{
	uint64_t n = 0;

	if (opt.events == EVENTS_BLOCKING)
		return events_of_helper(c);
	while (!get_event(c)) {
		n++;
		if (opt.events == EVENTS_LEVEL)
			break;
	}
	return n;
}

static void acknowledge(struct cq *c)
{
	if (c->unacked)
		ibv_ack_cq_events(c->cq, c->unacked);
	c->unacked = 0;
}

/* Something has come: it is to be polled, and armed anew. */
static bool take_events(struct cq *c)
{
	uint64_t n = events_here(c);

	if (!n)
		return false;
	c->events += n;
	c->unacked += n;
	if (c->unacked >= ACK_BULK)
		acknowledge(c);
	c->phase = CQ_POLLED;
	return true;
}

static void wait_by_poll(struct poller *p, int limit_ms)
{
	struct pollfd fds[DEVICES_MAX];

	for (uint32_t d = 0; d < opt.device_count; d++)
		fds[d] = (struct pollfd){.fd = p->cqs[d].fd, .events = POLLIN};
	if (poll(fds, opt.device_count, limit_ms) <= 0)
		return;
	for (uint32_t d = 0; d < opt.device_count; d++)
		if (fds[d].revents)
			take_events(&p->cqs[d]);
}

static void wait_by_epoll(struct poller *p, int limit_ms)
{
	struct epoll_event came[DEVICES_MAX];
	int n = epoll_wait(p->epoll, came, DEVICES_MAX, limit_ms);

	for (int i = 0; i < n; i++)
		take_events(came[i].data.ptr);
}

static void wait_for_events(struct poller *p, int limit_ms)
{
	if (opt.events == EVENTS_EDGE)
		wait_by_epoll(p, limit_ms);
	else
		wait_by_poll(p, limit_ms);
}

void poller_sleep(struct poller *p)
{
	for (uint32_t d = 0; d < opt.device_count; d++)
		if (p->cqs[d].phase != CQ_ASLEEP)
			return;
	wait_for_events(p, SLEEP_MS);
}

bool cq_overslept(const struct cq *c, bool at_end)
{
	return now_ms() - c->looked_ms > (at_end ? OVERSLEPT_END_MS : OVERSLEPT_MS);
}

bool cq_wakes(struct poller *p, struct cq *c)
{
	for (int i = 0; i < EVENT_WAITS && c->phase == CQ_ASLEEP; i++)
		wait_for_events(p, EVENT_WAIT_MS);
	if (c->phase != CQ_ASLEEP)
		return true;
	c->phase = CQ_POLLED;
	return false;
}

/* --break unarmed: once not. */
static void arm(struct cq *c)
{
	if (opt.break_unarmed && c->events > BREAK_AT) {
		opt.break_unarmed = false;
		return;
	}
	if (ibv_req_notify_cq(c->cq, 0))
		fail("req_notify_cq");
}

/* Nothing is there. */
static void doze(struct cq *c)
{
	c->looked_ms = now_ms();
	if (c->phase == CQ_POLLED) {
		arm(c);
		c->phase = CQ_ARMED;
	} else {
		c->phase = CQ_ASLEEP;
	}
}

/* ---- polling ------------------------------------------------------------------------------- */

static void read_completion(struct ibv_cq_ex *ex, struct ibv_wc *wc)
{
	*wc = (struct ibv_wc){
		.wr_id = ex->wr_id, .status = ex->status, .qp_num = ibv_wc_read_qp_num(ex)};
	if (wc->status != IBV_WC_SUCCESS) {
		wc->vendor_err = ibv_wc_read_vendor_err(ex);
		return;
	}
	wc->opcode = ibv_wc_read_opcode(ex);
	wc->wc_flags = ibv_wc_read_wc_flags(ex);
	wc->byte_len = ibv_wc_read_byte_len(ex);
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		wc->imm_data = ibv_wc_read_imm_data(ex);
}

static uint32_t bite(struct poller *p, uint32_t max)
{
	p->random++;
	return opt.rxe_44_poll ? 1 : 1 + mix(p->random) % max;
}

static int poll_ex(struct cq *c, int max, struct ibv_wc *wcs)
{
	struct ibv_poll_cq_attr attr = {0};
	int n = 0, err = ibv_start_poll(c->ex, &attr);

	if (err)
		return err == ENOENT ? 0 : -1;
	for (; !err; err = n < max ? ibv_next_poll(c->ex) : ENOENT)
		read_completion(c->ex, &wcs[n++]);
	ibv_end_poll(c->ex);
	return err == ENOENT ? n : -1;
}

int cq_poll(struct poller *p, struct cq *c, int max, struct ibv_wc *wcs)
{
	int n = c->ex ? poll_ex(c, bite(p, max), wcs) : ibv_poll_cq(c->cq, max, wcs);

	if (!n && c->channel)
		doze(c);
	return n;
}

/* ---- creation ------------------------------------------------------------------------------ */

static void create_channel(struct poller *p, struct cq *c, struct ibv_context *context)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = c};

	c->channel = ibv_create_comp_channel(context);
	if (!c->channel)
		fail("create_comp_channel");
	c->fd = c->channel->fd;
	if (opt.events == EVENTS_EDGE &&
	    (fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK) ||
	     epoll_ctl(p->epoll, EPOLL_CTL_ADD, c->fd, &event)))
		fail("epoll of a completion channel");
}

static void create_ex(struct cq *c, struct ibv_context *context, int entries)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = entries,
					   .cq_context = c,
					   .channel = c->channel,
					   .wc_flags = IBV_WC_STANDARD_FLAGS};

	c->ex = ibv_create_cq_ex(context, &attr);
	c->cq = c->ex ? ibv_cq_ex_to_cq(c->ex) : NULL;
}

static void create(struct poller *p, struct cq *c, struct ibv_context *context, int entries)
{
	if (opt.events != EVENTS_NONE)
		create_channel(p, c, context);
	if (opt.cq_ex)
		create_ex(c, context, entries);
	else
		c->cq = ibv_create_cq(context, entries, c, c->channel, 0);
	if (!c->cq)
		fail("create_cq");
	if (opt.events == EVENTS_BLOCKING)
		start_helper(c);
}

void poller_create(struct run *r, uint32_t thread, int entries)
{
	struct poller *p = &r->pollers[thread];

	p->random = mix(opt.w.seed ^ thread);
	p->epoll = epoll_create1(0);
	if (p->epoll < 0)
		fail("epoll_create1");
	for (uint32_t d = 0; d < opt.device_count; d++)
		create(p, &p->cqs[d], r->devices[d].context, entries);
}

/* All that was asleep is looked at first. */
void poller_wake(struct poller *p)
{
	for (uint32_t d = 0; d < opt.device_count; d++)
		p->cqs[d].phase = CQ_POLLED;
}

uint64_t poller_events(const struct poller *p)
{
	uint64_t n = 0;

	for (uint32_t d = 0; d < opt.device_count; d++)
		n += p->cqs[d].events;
	return n;
}

static void destroy(struct cq *c)
{
	if (opt.events == EVENTS_BLOCKING) {
		take_events(c);
		stop_helper(c);
	}
	acknowledge(c);
	ibv_destroy_cq(c->cq);
	if (c->channel)
		ibv_destroy_comp_channel(c->channel);
}

void poller_destroy(struct poller *p)
{
	for (uint32_t d = 0; d < opt.device_count; d++)
		destroy(&p->cqs[d]);
	close(p->epoll);
}
