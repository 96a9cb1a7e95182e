/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* When to probe, and what an answer or its absence means. All on the background thread. */
#include "lib/nic/probe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "lib/base/background.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/base/worker.h"
#include "lib/nic/ctrl_link.h"
#include "lib/nic/nic.h"
#include "lib/nic/probe_int.h"

enum { POLL_AT_ONCE = 16, POLLS_MAX = 64, SCRATCH_OFFSET = 4096 };

#define PERIOD_NS	   25000000ull
#define DEADLINE_NS	   50000000ull
#define MAX_DEADLINE_NS	   1000000000ull
#define PAUSE_FIRST_NS	   25000000ull /* before a dead requester is armed again; doubles */
#define PAUSE_LAST_NS	   400000000ull
#define PAUSE_LINK_DOWN_NS 10000000000ull
#define STUCK_NS	   3000000000ull /* beyond any retries of the NIC */

static struct probe_nic nics[NICS_MAX];

static void probe_start_job(struct probe *p);

/* ---- time ---------------------------------------------------------------------------------- */

static void probe_set_timer(struct probe *p)
{
	uint64_t at = p->post_ns < p->miss_ns ? p->post_ns : p->miss_ns;

	bg_timer_set(&p->timer, at < p->arm_ns ? at : p->arm_ns);
}

static uint64_t probe_deadline(const struct probe *p)
{
	uint64_t d = p->rtt_ns + 4 * p->deviation_ns;

	if (d < p->deadline_ns)
		return p->deadline_ns;
	return d < p->max_deadline_ns ? d : p->max_deadline_ns;
}

/* Smoothed as TCP does it (RFC 6298). An answer that took much longer than any deadline tells of
 * the end of an outage, not of a round trip. */
static void probe_measure_rtt(struct probe *p, uint64_t took_ns)
{
	uint64_t off = took_ns > p->rtt_ns ? took_ns - p->rtt_ns : p->rtt_ns - took_ns;

	if (took_ns > 2 * p->max_deadline_ns)
		return;
	if (!p->rtt_ns) {
		p->rtt_ns = took_ns;
		p->deviation_ns = took_ns / 2;
		return;
	}
	p->deviation_ns = p->deviation_ns - p->deviation_ns / 4 + off / 4;
	p->rtt_ns = p->rtt_ns - p->rtt_ns / 8 + took_ns / 8;
}

/* ---- the requester: sending, failing, sending again ------------------------------------------ */

/* Sets the deadline if none is running: a probe that cannot even be posted is missed like one
 * without an answer. */
static void probe_start_deadline(struct probe *p)
{
	if (p->connected && p->miss_ns == UINT64_MAX)
		p->miss_ns = now_ns() + probe_deadline(p);
}

static void probe_requester_failed(struct probe *p, const char *why)
{
	uint64_t pause = PAUSE_FIRST_NS << (p->failures < 8 ? p->failures : 8);

	if (!p->failures++)
		log_debug("%s: probe QP 0x%x failed: %s", p->nic->name, p->own.requester_qpn, why);
	if (pause > PAUSE_LAST_NS)
		pause = PAUSE_LAST_NS;
	/* Arming resolves the neighbour's address. If that fails, the kernel asks again only a
	 * second later, which is too late if the link comes up at once. probe_link_up() is faster.
	 */
	if (!p->nic->link_up)
		pause = PAUSE_LINK_DOWN_NS;
	probe_start_deadline(p);
	p->state = PROBE_FAILED;
	p->post_ns = UINT64_MAX;
	p->arm_ns = now_ns() + pause;
	probe_set_timer(p);
}

static void probe_post_new(struct probe *p, uint64_t now)
{
	int err;

	p->sent[p->out].at_ns = now;
	p->sent[p->out].large = p->large_next;
	p->sent[p->out].again = false;
	p->large_next = !p->large_next;
	if (!p->out++) {
		p->miss_ns = now + probe_deadline(p);
		p->oldest_posted_ns = now;
	}
	err = probe_post(p, 1);
	if (err)
		probe_requester_failed(p, strerror(err));
}

/* The requester is armed: sends the unanswered probes again, or begins. */
static void probe_resume(struct probe *p)
{
	uint64_t now = now_ns();
	int err;

	p->state = PROBE_LIVE;
	p->arm_ns = UINT64_MAX;
	p->oldest_posted_ns = now;
	p->post_ns = now + (p->out ? p->period_ns : 0);
	if (!p->out)
		p->miss_ns = UINT64_MAX;
	for (unsigned int i = 0; i < p->out; i++)
		p->sent[i].again = true;
	err = probe_post(p, p->out);
	if (err)
		probe_requester_failed(p, strerror(err));
	probe_set_timer(p);
}

static void probe_answered(struct probe *p, uint64_t now)
{
	if (!p->sent[0].again)
		probe_measure_rtt(p, now - p->sent[0].at_ns);
	p->psn = (p->psn + 1) & 0xffffff;
	p->sent[0] = p->sent[1];
	p->out--;
	p->failures = 0;
	p->oldest_posted_ns = now;
	/* The younger probe has its own deadline. If that is over, it gets another period, because
	 * its answer may be the next completion. */
	p->miss_ns = UINT64_MAX;
	if (p->out) {
		p->miss_ns = p->sent[0].at_ns + probe_deadline(p);
		if (p->miss_ns < now + p->period_ns)
			p->miss_ns = now + p->period_ns;
	}
	probe_set_timer(p);
	p->result(p->arg, true);
}

static void probe_completed(struct probe_nic *s, const struct ibv_wc *wc, uint64_t now)
{
	uint32_t slot = (uint32_t)(wc->wr_id >> 32);
	struct probe *p = slot < s->slot_count ? s->slots[slot] : NULL;

	if (!p || p->incarnation != (uint32_t)wc->wr_id || p->state != PROBE_LIVE || !p->out)
		return;
	if (wc->status == IBV_WC_SUCCESS)
		probe_answered(p, now);
	else
		probe_requester_failed(p, ibv_wc_status_str(wc->status));
}

static void probes_reap(struct probe_nic *s, struct ibv_cq *cq)
{
	struct ibv_wc wc[POLL_AT_ONCE];
	uint64_t now = now_ns();
	int n = POLL_AT_ONCE;

	for (int i = 0; i < POLLS_MAX && n == POLL_AT_ONCE; i++) {
		n = ibv_poll_cq(cq, POLL_AT_ONCE, wc);
		for (int j = 0; j < n; j++)
			probe_completed(s, &wc[j], now);
	}
}

static void probes_channel_ready(void *arg, uint32_t events)
{
	struct probe_nic *s = arg;
	struct ibv_cq *cq;
	void *context;

	while (!real.get_cq_event(s->channel, &cq, &context)) {
		real.ack_cq_events(cq, 1);
		ibv_req_notify_cq(cq, 0);
		probes_reap(s, cq);
	}
	if (events & (EPOLLERR | EPOLLHUP))
		bg_unwatch(s->channel->fd); /* the device was removed */
}

/* ---- the clock ------------------------------------------------------------------------------ */

/* The network is not to blame for time in which this thread did not run (a stop, a loaded machine),
 * and an answer may be waiting. Only that time is excused: on a machine that is late again and
 * again silence must count, too. */
static void excuse_sleep(struct probe *p, uint64_t now)
{
	if (p->miss_ns != UINT64_MAX && now > p->timer.at_ns + p->period_ns)
		p->miss_ns += now - p->timer.at_ns;
}

static void probe_tick(void *arg)
{
	struct probe *p = arg;
	uint64_t now = now_ns();

	excuse_sleep(p, now);
	if (p->created)
		probes_reap(p->shared, p->cq->cq);
	if (p->closing)
		return;
	now = now_ns(); /* later than the times that probes_reap() has noted */
	/* The NIC gives neither an answer nor an error. It may do so when the QP is armed again. */
	if (p->state == PROBE_LIVE && p->out && now - p->oldest_posted_ns > STUCK_NS)
		probe_requester_failed(p, "neither an answer nor an error");
	if (p->state == PROBE_LIVE && now >= p->post_ns) {
		p->post_ns = now + p->period_ns;
		if (p->out < PROBES_OUT_MAX)
			probe_post_new(p, now);
	}
	if (now >= p->arm_ns) {
		p->arm_ns = UINT64_MAX;
		p->arm_requester = p->connected;
		probe_start_job(p);
	}
	if (now >= p->miss_ns) {
		p->miss_ns = now + p->period_ns;
		probe_set_timer(p);
		p->result(p->arg, false);
		return;
	}
	probe_set_timer(p);
}

/* ---- work for the resolver ------------------------------------------------------------------- */

/* The first PSN of a requester towards the responder of that serial. Both peers compute it. */
static uint32_t first_psn(uint32_t psn, uint32_t serial)
{
	return (psn + serial * 0x2f1d37u) & 0xffffff;
}

static void probe_start_job(struct probe *p)
{
	bool arm = p->created && p->connected;

	if (p->busy)
		return;
	memset(&p->task, 0, sizeof(p->task));
	p->task.destroy = p->closing;
	p->task.create = !p->closing && !p->created;
	p->task.requester = !p->closing && arm && p->arm_requester;
	p->task.responder = !p->closing && arm && p->arm_responder;
	if (!p->task.destroy && !p->task.create && !p->task.requester && !p->task.responder)
		return;
	if (p->task.requester) {
		p->arm_requester = false;
		p->state = PROBE_ARMING;
		p->incarnation = ++p->shared->incarnations;
		p->post_ns = UINT64_MAX;
		probe_start_deadline(p);
		probe_set_timer(p);
	}
	if (p->task.responder)
		p->arm_responder = false;
	p->task.own = p->own;
	p->task.peer = p->peer;
	p->task.sq_psn = p->psn;
	p->task.rq_psn = first_psn(p->peer.psn, p->own.serial);
	p->busy = true;
	worker_submit(p->nic->resolver, &p->job);
}

static void probe_notify_address(struct probe *p)
{
	if (p->created && p->address_changed)
		p->address_changed(p->address_arg);
}

static void probe_read_address(struct probe *p)
{
	struct ctrl_link_addr addr;

	ctrl_link_address(p->nic, &addr);
	p->own.gid = addr.gid;
	p->own.lid = addr.lid;
	p->own.mtu_bytes = addr.mtu_bytes;
}

static void probe_created(struct probe *p)
{
	struct probe_nic *s = p->shared;

	p->created = true;
	p->arm_ns = UINT64_MAX;
	probe_read_address(p);
	p->own.remote_addr = (uintptr_t)s->memory + SCRATCH_OFFSET;
	p->own.rkey = s->mr->rkey;
	p->own.requester_qpn = p->requester->qp_num;
	p->own.responder_qpn = p->responder->qp_num;
	if (!s->watched)
		s->watched = !bg_watch(s->channel->fd, EPOLLIN, probes_channel_ready, s);
	probe_notify_address(p);
}

static void probe_job_done(void *arg)
{
	struct probe *p = arg;

	p->busy = false;
	if (p->task.destroy) {
		free(p);
		return;
	}
	if (p->closing) {
		probe_start_job(p);
		return;
	}
	if (p->task.err) {
		p->arm_responder |= p->task.responder;
		probe_requester_failed(p, strerror(-p->task.err));
	} else if (p->task.create) {
		probe_created(p);
	} else if (p->task.requester && !p->arm_requester) {
		probe_resume(p);
	}
	/* After a failure the timer starts the next job. */
	if (!p->task.err)
		probe_start_job(p);
}

/* ---- changes of address ---------------------------------------------------------------------- */

/* The responder must be armed again. Its first PSN changes, so the peer must hear of it. */
static void renew_responder(struct probe *p)
{
	p->own.serial++;
	p->arm_responder = true;
	probe_notify_address(p);
}

static void probes_nic_event(struct nic *nic, const struct ibv_async_event *event)
{
	struct probe_nic *s = &nics[nic->index];

	if (event->event_type != IBV_EVENT_QP_FATAL && event->event_type != IBV_EVENT_QP_REQ_ERR &&
	    event->event_type != IBV_EVENT_QP_ACCESS_ERR)
		return;
	for (uint32_t i = 0; i < s->slot_count; i++) {
		struct probe *p = s->slots[i];

		if (!p || !p->created || p->responder != event->element.qp)
			continue;
		renew_responder(p);
		probe_start_job(p);
	}
}

static void probe_link_up(struct probe *p)
{
	if (p->state == PROBE_FAILED) {
		p->arm_ns = now_ns();
		probe_set_timer(p);
	}
}

static void probes_nic_changed(struct nic *nic)
{
	struct probe_nic *s = &nics[nic->index];

	for (uint32_t i = 0; i < s->slot_count; i++) {
		struct probe *p = s->slots[i];
		union ibv_gid before;

		if (!p || !p->created)
			continue;
		before = p->own.gid;
		probe_read_address(p);
		if (memcmp(&before, &p->own.gid, sizeof(before))) {
			p->arm_requester = p->connected;
			renew_responder(p);
			probe_start_job(p);
		} else if (nic->link_up) {
			probe_link_up(p);
		}
	}
}

void probe_connect(struct probe *p, const struct probe_addr *peer)
{
	bool first = !p->connected;
	bool moved = memcmp(&peer->gid, &p->peer.gid, sizeof(peer->gid)) ||
		     peer->lid != p->peer.lid || peer->mtu_bytes != p->peer.mtu_bytes ||
		     peer->requester_qpn != p->peer.requester_qpn || peer->psn != p->peer.psn;
	bool restarted = first || peer->serial != p->peer.serial ||
			 peer->responder_qpn != p->peer.responder_qpn;

	if (!moved && !restarted)
		return;
	p->peer = *peer;
	p->connected = true;
	if (restarted) {
		p->psn = first_psn(p->own.psn, peer->serial);
		p->out = 0;
		p->miss_ns = UINT64_MAX;
	}
	p->arm_requester = true;
	if (first)
		p->arm_responder = true;
	else if (moved)
		renew_responder(p);
	probe_start_job(p);
	probe_set_timer(p);
}

/* ---- the rest of the interface ----------------------------------------------------------------
 */

static bool probe_take_slot(struct probe_nic *s, struct probe *p)
{
	struct probe **more;
	uint32_t i, count;

	for (i = 0; i < s->slot_count && s->slots[i]; i++)
		;
	if (i == s->slot_count) {
		count = 2 * s->slot_count + 16;
		more = realloc(s->slots, count * sizeof(*more));
		if (!more)
			return false;
		memset(more + i, 0, (count - i) * sizeof(*more));
		s->slots = more;
		s->slot_count = count;
	}
	s->slots[i] = p;
	p->slot = i;
	return true;
}

struct probe *probe_new(struct nic *nic, void (*result)(void *arg, bool answered), void *arg)
{
	struct probe *p = calloc(1, sizeof(*p));
	struct probe_nic *s = &nics[nic->index];

	if (!p || !probe_take_slot(s, p)) {
		free(p);
		return NULL;
	}
	nic_on_change(probes_nic_changed);
	nic_on_event(probes_nic_event);
	s->nic = nic;
	p->shared = s;
	p->nic = nic;
	p->result = result;
	p->arg = arg;
	p->job.fn = probe_job;
	p->done = (struct bg_call){.fn = probe_job_done, .arg = p};
	p->timer = (struct bg_timer){.fn = probe_tick, .arg = p};
	p->post_ns = p->miss_ns = p->arm_ns = UINT64_MAX;
	if (getrandom(&p->own.psn, sizeof(p->own.psn), GRND_NONBLOCK) < 0)
		p->own.psn = (uint32_t)now_ns();
	p->own.psn &= 0xffffff;
	probe_timing(p, 0, 0, 0);
	probe_start_job(p);
	return p;
}

void probe_free(struct probe *p)
{
	if (!p)
		return;
	p->closing = true;
	p->shared->slots[p->slot] = NULL;
	bg_timer_set(&p->timer, UINT64_MAX);
	p->post_ns = p->miss_ns = p->arm_ns = UINT64_MAX;
	probe_start_job(p);
}

int probe_address(const struct probe *p, struct probe_addr *addr)
{
	if (!p->created)
		return -EAGAIN;
	*addr = p->own;
	return 0;
}

void probe_on_address_change(struct probe *p, void (*fn)(void *arg), void *arg)
{
	p->address_changed = fn;
	p->address_arg = arg;
}

void probe_timing(struct probe *p, uint64_t period_ns, uint64_t deadline_ns,
		  uint64_t max_deadline_ns)
{
	p->period_ns = period_ns ? period_ns : PERIOD_NS;
	p->deadline_ns = deadline_ns ? deadline_ns : DEADLINE_NS;
	p->max_deadline_ns = max_deadline_ns ? max_deadline_ns : MAX_DEADLINE_NS;
	if (p->max_deadline_ns < p->deadline_ns)
		p->max_deadline_ns = p->deadline_ns;
}

uint64_t probe_rtt_ns(const struct probe *p)
{
	return p->rtt_ns;
}
