/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/path_health.h"

#include "lib/base/log.h"
#include "lib/conn/conn_lock.h"
#include "lib/session/peer_paths.h"

#define SILENT_NS 10000000000ull /* a peer that has not answered for so long is gone */

enum { EXCUSES_MAX = 40 }; /* each is a probe's period: 1 s in all */

struct path_change {
	struct tracked_path *path;
	struct shift_event ev;
	bool all; /* tell all connections, not only those that are on the slow way */
};

/* Two, if the connection has a second QP on the same NIC, at both ends. */
static uint32_t conn_rails_over(const struct vqp *v, const struct tracked_path *path)
{
	uint32_t rails = 0;

	for (uint8_t i = 0; i < v->dev->rails; i++)
		if (v->rails.twin[i].path == &path->path)
			rails |= 1u << i;
	return rails;
}

static void conn_notify(struct vqp *v, void *arg)
{
	struct path_change *r = arg;

	uint32_t rails;

	if (!v->setup.met || (!r->all && !atomic_load(&v->hot.slow)))
		return;
	rails = conn_rails_over(v, r->path);
	if (!rails)
		return;
	for (r->ev.rail = 0; !(rails >> r->ev.rail & 1);)
		r->ev.rail++;
	r->ev.also = (uint8_t)(rails & ~(1u << r->ev.rail));
	vqp_enter(v);
	if (rails >> vqp_rail(v) & 1)
		stats_conn_fault(v->stats, r->path->health.misses ? r->path->health.missed_ns : 0,
				 now_ns());
	if (!pause_event(v, &r->ev))
		shift_conn_event(v->conn, &r->ev, now_ns());
	vqp_leave(v);
}

struct traffic {
	const struct tracked_path *path;
	bool used, waiting;
	uint64_t done;
};

static void conn_count_traffic(struct vqp *v, void *arg)
{
	struct traffic *t = arg;
	struct shift_conn_view view;

	if (!v->setup.met || !conn_rails_over(v, t->path)) /* others must not be slowed down */
		return;
	vqp_enter(v);
	shift_conn_view(v->conn, &view);
	if (view.state == SHIFT_ST_ACTIVE && v->rails.twin[view.r].path == &t->path->path) {
		t->used = true;
		t->waiting |= shift_conn_waits(v->conn);
		t->done += view.send_tail;
	}
	vqp_leave(v);
}

enum verdict { ANSWERED, EXCUSED, MISSED };

/*
 * A probe queues behind the traffic, so on a busy rail its answer may be hundreds of milliseconds
 * late. A WR that completes is as good as an answer. If none is waited for, the other end is the
 * one that waits, and it has its own probes. But the data of its READs takes our direction, so
 * misses are not excused for ever.
 */
static enum verdict judge_unanswered(struct tracked_path *p)
{
	struct traffic t = {.path = p};
	bool moved;

	if (!p->health.answered)
		return EXCUSED; /* the peer has not come yet */
	vqp_each(conn_count_traffic, &t);
	moved = t.done != p->health.done;
	p->health.done = t.done;
	if (t.waiting)
		return moved ? ANSWERED : MISSED;
	return t.used && ++p->health.excused < EXCUSES_MAX ? EXCUSED : MISSED;
}

static enum verdict judge_probe(struct tracked_path *p, bool answered)
{
	if (!answered)
		return judge_unanswered(p);
	p->health.excused = 0;
	return ANSWERED;
}

/* Connections are told of changes, not of each answer: while all is well, none is slowed down. */
void path_health_probed(void *arg, bool answered)
{
	struct tracked_path *p = arg;
	bool missed = p->health.misses, first = !p->health.answered, ok;
	struct path_change r = {.path = p};
	enum verdict verdict = judge_probe(p, answered);

	p->health.unheard = verdict == ANSWERED ? 0 : p->health.unheard + 1;
	if (verdict == EXCUSED) {
		p->health.missed_ns = now_ns(); /* misses before this were no fault */
		return;
	}
	ok = verdict == ANSWERED;
	p->health.answered = true;
	p->health.misses = ok ? 0 : p->health.misses + 1;
	if (p->health.misses == 1)
		p->health.missed_ns = now_ns();
	r.ev.type = ok ? SHIFT_EV_PROBE_OK : SHIFT_EV_PROBE_MISSED;
	r.all = first || !ok || missed || peer_paths_any_silent(p->nonce);
	if (p->health.misses == 3 || (ok && missed))
		log_debug("%s: probes are %s", p->path.nic->name,
			  ok ? "answered again" : "not answered");
	if (r.all || vqp_any_slow()) /* else each would be looked at, 40 times a second */
		vqp_each(conn_notify, &r);
}

bool path_health_answers(struct peer_path *path)
{
	const struct tracked_path *p = tracked_path(path);

	return p->health.answered && !p->health.misses;
}

bool path_health_keep_for_peer(struct peer_path *path)
{
	const struct tracked_path *p = tracked_path(path);
	bool silent = p->health.misses && now_ns() - p->health.missed_ns > SILENT_NS;

	return p->users == 1 && p->health.answered && !silent;
}
