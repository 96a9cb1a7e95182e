/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/path_health.h"

#include "lib/base/log.h"
#include "lib/conn/conn_lock.h"
#include "lib/session/peer_paths.h"

#define SILENT_NS 10000000000ull /* a peer that has not answered for so long is gone */

enum {
	EXCUSES_MAX = 40, /* each is a probe's period: 1 s in all */
	/* Three misses are silence, if another rail is answered before each but the first. After
	 * one more there is nothing new to tell, until a path of that peer changes. */
	COUNTED_MAX = 4,
	JUDGE_EVERY = 40, /* misses of a path of which all is told */
};

struct path_change {
	struct tracked_path *path;
	struct shift_event ev;
	bool all; /* tell all connections, not only those that are in a switch */
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

/* A miss counts as heard, too: the answer behind it is a change, of which all hear. */
static bool awaits(struct vqp *v, uint32_t rails)
{
	return atomic_load(&v->awaits_answers) & rails &&
	       atomic_fetch_and(&v->awaits_answers, ~rails) & rails;
}

static void conn_notify(struct vqp *v, void *arg)
{
	struct path_change *r = arg;
	uint32_t rails = v->setup.met ? conn_rails_over(v, r->path) : 0;

	if (!rails || (!awaits(v, rails) && !r->all && !atomic_load(&v->switching)))
		return;
	shift_event_of(&r->ev, rails);
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

/* An idle connection waits for nothing, and has completed what it had at its last tick. */
static bool count_idle(struct vqp *v, struct traffic *t)
{
	bool idle;

	pthread_mutex_lock(&v->lock);
	idle = vqp_is_idle(v);
	if (idle && v->timers.rail < v->dev->rails &&
	    v->rails.twin[v->timers.rail].path == &t->path->path) {
		t->used = true;
		t->done += v->timers.send_tail;
	}
	pthread_mutex_unlock(&v->lock);
	return idle;
}

static void conn_count_traffic(struct vqp *v, void *arg)
{
	struct traffic *t = arg;
	struct shift_conn_view view;

	/* Others must not be slowed down. */
	if (!v->setup.met || !conn_rails_over(v, t->path) || count_idle(v, t))
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

/* --- what is news ---------------------------------------------------------------------------- */

static bool all_is_told(const struct tracked_path *p)
{
	return p->health.misses && p->health.counted >= COUNTED_MAX;
}

static void begin_to_count(struct tracked_path *p, void *arg)
{
	(void)arg;
	p->health.counted = 0;
}

void path_health_tell_again(uint64_t nonce)
{
	peer_paths_each(nonce, begin_to_count, NULL);
}

struct witnesses {
	const struct tracked_path *path;
	bool missing, silence, answers;
};

static void find_missing(struct tracked_path *p, void *arg)
{
	struct witnesses *w = arg;
	const struct path_health *h = &p->health;

	w->missing |= p != w->path && h->answered && !h->misses &&
		      h->ok_ns <= w->path->health.counted_ns;
	w->answers |= p != w->path && h->answered && !h->misses;
	w->silence |= h->misses && !all_is_told(p);
}

/* Has each other path to the peer that answers done so since the last miss that counted? Whatever
 * rails a connection has, one of them is its witness then (T6). */
static bool is_witnessed(const struct tracked_path *p)
{
	struct witnesses w = {.path = p};

	peer_paths_each(p->nonce, find_missing, &w);
	return !w.missing;
}

/* Is there a path to the peer whose silence is not all told yet? Then answers of others matter. */
static bool silence_is_news(const struct tracked_path *p)
{
	struct witnesses w = {.path = p};

	peer_paths_each(p->nonce, find_missing, &w);
	return w.silence;
}

/* Silence beside another path that answers: the rail is lost, and not the peer. */
static bool is_lost(const struct tracked_path *p)
{
	struct witnesses w = {.path = p};

	peer_paths_each(p->nonce, find_missing, &w);
	return all_is_told(p) && w.answers;
}

static void note_rails(struct vdev *dev, void *arg)
{
	const struct tracked_path *p = arg;

	for (uint8_t i = 0; i < dev->rails; i++) {
		if (dev->nic[i] != p->path.nic)
			continue;
		if (is_lost(p))
			vdev_rail_lost(dev, i);
		else if (!p->health.misses)
			vdev_rail_found(dev, i);
	}
}

/* Takes the verdict in. Returns whether all connections must hear of it. */
static bool take_verdict(struct tracked_path *p, bool ok)
{
	struct path_health *h = &p->health;
	bool change = !h->answered || ok == (h->misses != 0), news;

	h->answered = true;
	h->misses = ok ? 0 : h->misses + 1;
	if (h->misses == 1)
		h->missed_ns = now_ns();
	if (ok)
		h->ok_ns = now_ns();
	if (change)
		path_health_tell_again(p->nonce);
	news = change || (ok ? silence_is_news(p) : !all_is_told(p));
	if (!ok && is_witnessed(p)) {
		h->counted++;
		h->counted_ns = now_ns();
	}
	if (change || h->counted == COUNTED_MAX)
		vdev_each(note_rails, p);
	return news;
}

/* --- probes ---------------------------------------------------------------------------------- */

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
	if (all_is_told(p) && ++p->health.unjudged % JUDGE_EVERY)
		return MISSED;
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

/* Does any connection wait for this answer, perhaps? */
static bool is_awaited(struct path_health *h)
{
	uint32_t before = h->awaited;

	h->awaited = vqp_times_answers_awaited();
	return h->awaited != before;
}

/* Connections are told of changes, not of each answer, nor of each miss of a path that stays
 * silent: while nothing changes, none is slowed down. */
void path_health_probed(void *arg, bool answered)
{
	struct tracked_path *p = arg;
	bool missed = p->health.misses, ok, awaited;
	struct path_change r = {.path = p};
	enum verdict verdict = judge_probe(p, answered);

	p->health.unheard = verdict == ANSWERED ? 0 : p->health.unheard + 1;
	if (verdict == EXCUSED) {
		p->health.missed_ns = now_ns(); /* misses before this were no fault */
		return;
	}
	ok = verdict == ANSWERED;
	r.all = take_verdict(p, ok);
	r.ev.type = ok ? SHIFT_EV_PROBE_OK : SHIFT_EV_PROBE_MISSED;
	if (p->health.misses == 3 || (ok && missed))
		log_debug("%s: probes are %s", p->path.nic->name,
			  ok ? "answered again" : "not answered");
	awaited = ok && is_awaited(&p->health);
	/* Else each would be looked at, 40 times a second. */
	if (r.all || awaited || vqp_any_switching())
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
