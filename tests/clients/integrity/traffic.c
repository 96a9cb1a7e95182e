/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The threads, from the first post until both sides have nothing left; and the last checks. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/clients/integrity/integrity.h"

enum { BITES = 32, LEFT = -2, IDLE_PASSES = 4, IDLE_US = 50 };

struct worker {
	struct run *run;
	struct poller *poller;
	uint32_t index;
	double looked_ms; /* when it last polled */
	double served_ms; /* when it was last through with all its lanes */
	double quiet_ms;  /* for how long nothing has come since both sides are done */
	pthread_t thread;
};

void traffic_abort(struct run *r, int status)
{
	int none = 0;

	__atomic_compare_exchange_n(&r->abort_status, &none, status, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
}

static bool aborted(const struct run *r)
{
	return __atomic_load_n(&r->abort_status, __ATOMIC_ACQUIRE);
}

static bool stopped(const struct run *r)
{
	return __atomic_load_n(&r->stop, __ATOMIC_ACQUIRE);
}

/* ---- a thread ------------------------------------------------------------------------------ */

static void error_completion(struct run *r, struct lane *l, const struct ibv_wc *wc, double t_ms)
{
	l->n.error_completions++;
	if (!__atomic_exchange_n(&r->error.taken, 1, __ATOMIC_ACQ_REL)) {
		r->error.status = wc->status;
		r->error.vendor_err = wc->vendor_err;
		r->error.lane = l->index;
		r->error.on_receive = wc->wr_id >> 63;
		r->error.at_ms = t_ms - r->start_ms;
	}
	traffic_abort(r, EXIT_ERROR_WC);
}

/* How long did this thread not look? A gap is no longer the network's if the machine was away. */
static void note_pause(struct worker *w, double t_ms)
{
	double paused_ms = t_ms - w->looked_ms;

	for (uint32_t i = w->index; i < opt.w.qps; i += opt.threads)
		if (paused_ms > w->run->lanes[i].paused_ms)
			w->run->lanes[i].paused_ms = paused_ms;
	w->looked_ms = t_ms;
}

static struct lane *lane_of_id(const struct run *r, const struct ibv_wc *wc)
{
	uint32_t index = wc->wr_id >> 32 & 0x7fffffff;

	if (index < opt.w.qps)
		return &r->lanes[index];
	fprintf(stderr, "integrity: a completion of what was never posted\n");
	exit(EXIT_VIOLATED);
}

/* A receive of an SRQ does not say whose it is. */
static struct lane *lane_of_qp(const struct run *r, const struct ibv_wc *wc)
{
	for (uint32_t i = 0; i < opt.w.qps; i++)
		if (r->lanes[i].qp->qp_num == wc->qp_num)
			return &r->lanes[i];
	fprintf(stderr, "integrity: a completion of no QP of ours\n");
	exit(EXIT_VIOLATED);
}

static struct lane *lane_of(const struct run *r, const struct ibv_wc *wc)
{
	return opt.w.srqs && wc->wr_id >> 63 ? lane_of_qp(r, wc) : lane_of_id(r, wc);
}

void traffic_completion(struct run *r, const struct ibv_wc *wc, double t_ms)
{
	struct lane *l = lane_of(r, wc);

	if (wc->qp_num != l->qp->qp_num)
		l->n.bad_completions++;
	if (wc->status != IBV_WC_SUCCESS)
		error_completion(r, l, wc, t_ms);
	else if (wc->wr_id >> 63)
		receive(r, l, wc);
	else
		retire(r, l, wc, t_ms);
}

static bool poll_cq(struct worker *w, struct cq *c)
{
	struct run *r = w->run;
	struct ibv_wc wcs[POLL_BATCH];
	bool asleep = c->phase == CQ_ASLEEP;
	int n = asleep && !cq_overslept(c, stopped(r)) ? 0 : cq_poll(w->poller, c, POLL_BATCH, wcs);
	double t_ms = now_ms();

	note_pause(w, t_ms);
	if (n < 0)
		traffic_abort(r, EXIT_ERROR_WC);
	for (int i = 0; i < n; i++)
		traffic_completion(r, &wcs[i], t_ms);
	if (asleep && n > 0)
		lane_of(r, wcs)->n.lost_wakeups += !cq_wakes(w->poller, c);
	return n > 0;
}

/* Until it is asleep, if events wake it; but the memory is to be looked at, too. */
static bool drain_cq(struct worker *w, struct cq *c)
{
	bool busy = poll_cq(w, c);

	for (int i = 1; i < BITES && opt.events != EVENTS_NONE && c->phase != CQ_ASLEEP; i++)
		busy |= poll_cq(w, c);
	return busy;
}

static bool poll_cqs(struct worker *w)
{
	bool busy = false;

	for (uint32_t d = 0; d < opt.device_count; d++)
		busy |= drain_cq(w, &w->poller->cqs[d]);
	return busy;
}

/* SIGINT, SIGTERM: no more is posted; the rest is finished and verified. SIGUSR1: all is left. */
static atomic_int enough, leave;
static atomic_int lives_ended; /* SIGUSR2: that many lives are over */

static void on_signal(int number)
{
	if (number == SIGUSR2) {
		lives_ended++;
		return;
	}
	enough = 1;
	leave |= number == SIGUSR1;
}

static bool may_post(const struct run *r, const struct lane *l)
{
	if (!l->sends)
		return false;
	if (breaker_midway(l))
		return true;
	if (enough || (uint32_t)lives_ended > r->life)
		return false;
	if (opt.w.count)
		return l->data_posted < opt.w.count;
	return now_ms() - r->life_ms < opt.w.seconds * 1e3;
}

static void post(struct run *r, struct lane *l)
{
	if (!l->finished) {
		while (may_post(r, l) && post_data(r, l))
			;
		l->finished = !may_post(r, l);
	}
	if (l->finished && !l->final_status)
		l->final_status = post_status(r, l, true);
	else
		post_status(r, l, false);
	post_begun(r, l);
}

static void look_at(struct run *r, struct lane *l)
{
	if (l->drained && !outstanding(l))
		return;
	if (l->final_status && !outstanding(l)) {
		l->drained = true;
		if (__atomic_add_fetch(&r->drained, 1, __ATOMIC_ACQ_REL) == opt.w.qps)
			r->duration_ms = now_ms() - r->start_ms;
	} else if (now_ms() - l->progress_ms > opt.stall_s * 1e3) {
		fprintf(stderr, "integrity: qp %u: no completion for %u s\n", l->index,
			opt.stall_s);
		traffic_abort(r, EXIT_STALLED);
	}
}

/* A time in which this thread did not run (a loaded machine) counts little: its completions are
 * still to be polled. */
static void note_quiet(struct worker *w, bool busy)
{
	double t_ms = now_ms(), took_ms = t_ms - w->served_ms;

	w->served_ms = t_ms;
	if (busy || !stopped(w->run))
		w->quiet_ms = 0;
	else
		w->quiet_ms += took_ms < LOOK_COUNTS ? took_ms : LOOK_COUNTS;
}

/* All that the peer has sent is here, or its time to show is over. */
static bool settled(struct run *r, struct worker *w)
{
	bool all = true, none_out = true;

	if (!stopped(r))
		return false;
	for (uint32_t i = w->index; i < opt.w.qps; i += opt.threads) {
		all &= r->lanes[i].messages.next >= r->peer_totals[i].sent[MESSAGES];
		none_out &= !outstanding(&r->lanes[i]);
	}
	return none_out && (all || w->quiet_ms > LATE_REPORTS);
}

static void start_lane(struct lane *l)
{
	l->last_completion_ms = l->progress_ms = now_ms();
	if (!l->sends)
		l->finished = true;
}

static void serve_lane(struct run *r, struct lane *l)
{
	slots_poll(r, l);
	receives_post(r, l, stopped(r));
	if (!stopped(r))
		post(r, l);
	look_at(r, l);
}

/*
 * Nothing has come for so many passes. A soft NIC works on the same processors as we do: polling
 * without a pause would starve it.
 */
static void rest(int idle)
{
	if (idle > IDLE_PASSES)
		usleep(IDLE_US);
	else if (idle)
		sched_yield();
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct run *r = w->run;
	int idle = 0;

	w->looked_ms = w->served_ms = now_ms();
	poller_wake(w->poller);
	for (uint32_t i = w->index; i < opt.w.qps; i += opt.threads)
		start_lane(&r->lanes[i]);
	while (!aborted(r) && !settled(r, w)) {
		bool busy = poll_cqs(w);

		for (uint32_t i = w->index; i < opt.w.qps && !aborted(r); i += opt.threads)
			serve_lane(r, &r->lanes[i]);
		note_quiet(w, busy);
		idle = busy ? 0 : idle + 1;
		if (opt.events == EVENTS_NONE)
			rest(idle);
		else
			poller_sleep(w->poller);
	}
	/* An aborted run ends in a gap, too: how long had nothing moved? */
	for (uint32_t i = w->index; i < opt.w.qps; i += opt.threads)
		if (outstanding(&r->lanes[i]))
			note_gap(r, &r->lanes[i], now_ms());
	return NULL;
}

/* ---- the other side ------------------------------------------------------------------------ */

static void totals_of(const struct lane *l, struct totals *t)
{
	memcpy(t->sent, l->next, sizeof(t->sent));
	t->swap_value = swap_value(side_own(), l->index, l->next[SWAPS]);
}

/* Tells the peer how much was sent to it, and whether more will follow. A peer that has left is
 * noticed afterwards. */
static void tell(struct run *r, bool gave_up)
{
	struct totals t;
	bool there = net_send(r, &gave_up, sizeof(gave_up));

	for (uint32_t i = 0; i < opt.w.qps && there; i++) {
		totals_of(&r->lanes[i], &t);
		there = net_send(r, &t, sizeof(t));
	}
}

static void hear_totals(struct run *r)
{
	bool gave_up = false;

	r->peer_told = net_receive(r, &gave_up, sizeof(gave_up)) &&
		       net_receive(r, r->peer_totals, opt.w.qps * sizeof(*r->peer_totals));
	if (!r->peer_told) {
		fprintf(stderr, "integrity: the peer left\n");
		traffic_abort(r, EXIT_SETUP);
	} else if (gave_up) {
		traffic_abort(r, PEER_ABORTED);
	}
}

/* Until both have nothing left to send, or one has given up. Returns whether the peer was told. */
static bool supervise(struct run *r)
{
	bool told = false;

	while (!aborted(r) && !(told && r->peer_told)) {
		if (leave)
			traffic_abort(r, LEFT);
		if (!told && __atomic_load_n(&r->drained, __ATOMIC_ACQUIRE) == opt.w.qps) {
			tell(r, false);
			told = true;
		}
		if (r->peer_told)
			usleep(1000);
		else if (net_pending(r, 1))
			hear_totals(r);
	}
	__atomic_store_n(&r->stop, true, __ATOMIC_RELEASE);
	return told;
}

/* Runs it all. Afterwards abort_status is 0, an exit status, or negative if one side left. */
void traffic(struct run *r)
{
	struct worker *workers = calloc(opt.threads, sizeof(*workers));
	struct timespec wall;
	bool told;

	if (!workers)
		fail("memory");
	r->life_ms = now_ms();
	if (!r->life) {
		clock_gettime(CLOCK_REALTIME, &wall);
		r->started_unix_ms = wall.tv_sec * UINT64_C(1000) + wall.tv_nsec / 1000000;
		r->start_ms = r->life_ms;
		signal(SIGINT, on_signal);
		signal(SIGTERM, on_signal);
		signal(SIGUSR1, on_signal);
		signal(SIGUSR2, on_signal);
	}
	for (uint32_t t = 0; t < opt.threads; t++) {
		workers[t] = (struct worker){.run = r, .poller = &r->pollers[t], .index = t};
		errno = pthread_create(&workers[t].thread, NULL, work, &workers[t]);
		if (errno)
			fail("pthread_create");
	}
	told = supervise(r);
	for (uint32_t t = 0; t < opt.threads; t++)
		pthread_join(workers[t].thread, NULL);
	/* Given up, and nothing is sent any more. */
	if (!told)
		tell(r, true);
	if (!r->peer_told && !leave)
		hear_totals(r);
	if (!r->duration_ms)
		r->duration_ms = now_ms() - r->start_ms;
	free(workers);
}

bool traffic_left(void)
{
	return leave;
}

/* One life is over. Do both sides want another? */
bool traffic_next_life(struct run *r)
{
	bool own, peer = false;

	if (opt.w.lives == 1)
		return false;
	own = !r->abort_status && !enough && r->life + 1 < opt.w.lives;
	if (!net_swap(r, &own, &peer, sizeof(own)) || !own || !peer)
		return false;
	r->life++;
	r->duration_ms = 0;
	r->drained = 0;
	r->stop = r->peer_told = false;
	return true;
}

/* ---- the last checks ----------------------------------------------------------------------- */

/* Returns how many were executed. */
static uint64_t verify_adds(const struct run *r, struct lane *l, uint64_t sent)
{
	uint64_t adds = memory_load(l->memory + r->layout.add);

	if (adds > sent)
		l->n.duplicated += adds - sent;
	return adds;
}

static void verify_lane(struct run *r, struct lane *l, const struct totals *sent)
{
	uint64_t adds = verify_adds(r, l, sent->sent[ADDS]);

	slots_close(r, l, sent);
	sequence_close(&l->messages, sent->sent[MESSAGES], &l->n);
	if (adds < sent->sent[ADDS])
		l->n.lost += sent->sent[ADDS] - adds;
	if (memory_load(l->memory + r->layout.swap) != sent->swap_value)
		l->n.bad_bytes += 8;
	l->n.bad_completions += outstanding(l);
}

/* Compares what the peer says it has sent with what has arrived. After an abort losses cannot be
 * told, but executions beyond those that were sent can. */
void verify(struct run *r)
{
	for (uint32_t i = 0; i < opt.w.qps && r->peer_told; i++)
		if (!r->abort_status)
			verify_lane(r, &r->lanes[i], &r->peer_totals[i]);
		else
			verify_adds(r, &r->lanes[i], r->peer_totals[i].sent[ADDS]);
}
