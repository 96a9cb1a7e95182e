/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The end of a life with --srq: is each receive that was posted still there? Both sides post all
 * they have, tell each other how many that is, and send as many messages. Each must meet one.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tests/clients/integrity/integrity.h"

enum { DRAIN_PAUSE_US = 20 };

struct drain {
	struct run *run;
	uint32_t *to_send; /* by lane */
	double progress_ms;
	bool told, peer_done; /* each side says once that it is done, or has given up */
};

static bool aborted(const struct run *r)
{
	return __atomic_load_n(&r->abort_status, __ATOMIC_ACQUIRE);
}

/* Does this side, or the other, send? */
static bool side_sends(bool other)
{
	return !opt.w.one_way || (opt.peer != NULL) != other;
}

/* The receives of an SRQ are dealt out to its lanes. */
static bool share_out(struct drain *d)
{
	for (uint32_t m = 0; m < opt.w.srqs; m++) {
		uint32_t own = d->run->srqs[m].posted, theirs = 0;

		if (!net_swap(d->run, &own, &theirs, sizeof(own)))
			return false;
		for (uint32_t n = 0, i = m; side_sends(false) && n < theirs; n++) {
			d->to_send[i]++;
			i += opt.w.srqs;
			if (i >= opt.w.qps)
				i = m;
		}
	}
	return true;
}

/* Those that are of this side, and not met yet. */
static uint32_t receives_left(const struct run *r)
{
	uint32_t n = 0;

	for (uint32_t m = 0; m < opt.w.srqs && side_sends(true); m++)
		n += r->srqs[m].posted;
	return n;
}

static void poll_all(struct drain *d)
{
	struct ibv_wc wcs[POLL_BATCH];
	bool busy = false;

	for (uint32_t t = 0; t < opt.threads; t++)
		for (uint32_t c = 0; c < opt.device_count; c++) {
			struct poller *p = &d->run->pollers[t];
			int n = cq_poll(p, &p->cqs[c], POLL_BATCH, wcs);
			double t_ms = now_ms();

			for (int i = 0; i < n; i++)
				traffic_completion(d->run, &wcs[i], t_ms);
			busy |= n > 0;
			if (n < 0)
				traffic_abort(d->run, EXIT_ERROR_WC);
		}
	if (busy)
		d->progress_ms = now_ms();
	else
		usleep(DRAIN_PAUSE_US);
}

/* Returns whether all is sent and complete. */
static bool send_all(struct drain *d)
{
	bool all = true;

	for (uint32_t i = 0; i < opt.w.qps; i++) {
		struct lane *l = &d->run->lanes[i];

		while (d->to_send[i] && post_message(d->run, l))
			d->to_send[i]--;
		all &= !d->to_send[i] && !outstanding(l);
	}
	return all;
}

static void tell(struct drain *d, bool gave_up)
{
	d->told = true;
	net_send(d->run, &gave_up, sizeof(gave_up));
}

static void hear(struct drain *d)
{
	bool gave_up = false;

	d->peer_done = true;
	if (!net_receive(d->run, &gave_up, sizeof(gave_up)))
		traffic_abort(d->run, EXIT_SETUP);
	else if (gave_up)
		traffic_abort(d->run, PEER_ABORTED);
}

/* The receives that are left will not be met, nor will messages of ours that are under way, if the
 * peer has lost some. */
static bool is_over(struct drain *d, bool sent)
{
	bool late = now_ms() - d->progress_ms > opt.stall_s * 1e3;

	if (!d->peer_done && net_pending(d->run, 0))
		hear(d);
	if (!d->told && (late || (sent && !receives_left(d->run))))
		tell(d, false);
	return d->told && d->peer_done;
}

static void count(struct run *r, const uint32_t *before)
{
	for (uint32_t m = 0; m < opt.w.srqs; m++) {
		struct srq *s = &r->srqs[m];

		s->n.drained += before[m] - s->posted;
		if (!side_sends(true) || !s->posted || aborted(r))
			continue;
		s->found.lost_receives += s->posted;
		fprintf(stderr, "integrity: srq %u: %u receives are lost\n", m, s->posted);
	}
}

/* What was sent in all: more than was told before. */
static bool tell_anew(struct run *r)
{
	for (uint32_t i = 0; i < opt.w.qps; i++) {
		uint32_t *theirs = &r->peer_totals[i].sent[MESSAGES];

		if (!net_swap(r, &r->lanes[i].next[MESSAGES], theirs, sizeof(*theirs)))
			return false;
	}
	return true;
}

static void run_drain(struct drain *d)
{
	struct run *r = d->run;
	uint32_t *before = calloc(opt.w.srqs, sizeof(*before));
	bool over = false;

	if (!before)
		fail("memory");
	for (uint32_t m = 0; m < opt.w.srqs; m++)
		before[m] = r->srqs[m].posted;
	d->progress_ms = now_ms();
	while (!over && !aborted(r)) {
		bool sent = send_all(d);

		poll_all(d);
		over = is_over(d, sent);
	}
	if (!d->told)
		tell(d, true);
	if (!d->peer_done)
		hear(d);
	count(r, before);
	free(before);
}

/* Both, or neither. */
void drain(struct run *r)
{
	struct drain d = {.run = r, .to_send = calloc(opt.w.qps, sizeof(*d.to_send))};
	bool own = !r->abort_status, peer = false;

	if (!d.to_send)
		fail("memory");
	if (!net_swap(r, &own, &peer, sizeof(own)) || !own || !peer) {
		free(d.to_send);
		return;
	}
	srqs_post_all(r);
	if (share_out(&d))
		run_drain(&d);
	else
		traffic_abort(r, EXIT_SETUP);
	if (!tell_anew(r))
		traffic_abort(r, EXIT_SETUP);
	free(d.to_send);
}
