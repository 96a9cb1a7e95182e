/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What is above lib/verbs and beside it: how two QPs find each other, the control link, what is
 * heard of links, probes, and the operator. All of it is on the background thread, as in
 * lib/session. Messages come late, twice or not at all.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/background.h"
#include "lib/base/env.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/base/worker.h"
#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/conn_timers.h"
#include "lib/conn/key_reuse.h"
#include "lib/conn/memlock.h"
#include "lib/conn/srq_all.h"
#include "lib/session/dispatch.h"
#include "lib/session/nic_events.h"
#include "lib/session/tombstones.h"
#include "lib/verbs/qp.h"
#include "tests/glue/glue.h"

#define NONCE	 0x123456789abcdefull
#define MEET_NS	 (3 * NS_MS)
#define PROBE_NS (25 * NS_MS)

/* A connection on its way to its peer, as lib/session/rendezvous.c has it. */
struct meeting {
	struct vqp *v;
	struct meeting *next;
	uint64_t published_at; /* the peer sees it from then on; 0: not yet */
	uint32_t id;
	struct rail_addr rail[RAILS_MAX];
	bool settled;
};

struct link {
	struct peer_path path; /* first */
	struct fake_nic *from;
};

struct letter {
	struct shift_msg m;
	struct fake_nic *from, *to;
	struct letter *next;
};

struct tomb {
	struct shift_tombstone stone;
	uint32_t id;
	struct tomb *next;
};

static struct nic library_nics[HOSTS][RAILS_MAX];
static struct link links[HOSTS][RAILS_MAX];
static struct meeting *meetings;
static struct letter *unsent, **unsent_tail = &unsent, *arrived, **arrived_tail = &arrived;
static struct tomb *tombs;
static struct bg_timer meet_timer, probe_timer;
static bool heard[HOSTS][RAILS_MAX]; /* what the probes of a path said last */
static bool link_news[HOSTS][RAILS_MAX], stopped;
static struct migration {
	bool asked;
	unsigned int pair, host;
} migration;

/* --- the control link ------------------------------------------------------------------------- */

void __wrap_ctrl_link_send(struct ctrl_link_peer *peer, const struct shift_msg *m);
void __wrap_ctrl_link_flush_unless_bg(void);
void __wrap_tombstone_answer(const struct nic *nic, const struct shift_msg *m);
struct nic *__wrap_nic_get(const char *name, uint8_t port);
struct nic *__wrap_nic_at(unsigned int index);
void __wrap_log_at(enum log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void __wrap_ctrl_link_send(struct ctrl_link_peer *peer, const struct shift_msg *m)
{
	const struct link *l = (void *)peer;
	struct letter *letter = calloc(1, sizeof(*letter));

	tally->keys_asked += m->type == SHIFT_MSG_KEY_ASK;
	letter->m = *m;
	letter->m.src_nonce = letter->m.dst_nonce = NONCE;
	letter->from = l->from;
	letter->to = &nics[!l->from->host][l->from->rail];
	*unsent_tail = letter;
	unsent_tail = &letter->next;
	trace("%s sends message %u: epoch %u, rail %u, for connection %u", l->from->nic->name,
	      m->type, m->epoch, m->rail, m->dst_conn);
}

static void letter_arrives(void *arg, uint64_t unused)
{
	struct letter *letter = arg;

	(void)unused;
	letter->next = NULL;
	*arrived_tail = letter;
	arrived_tail = &letter->next;
	background_wake();
}

static void letter_post(struct letter *letter)
{
	struct letter *again;

	if (!wire_passes(letter->from)) {
		free(letter);
		return;
	}
	if (one_in(50)) {
		again = malloc(sizeof(*again));
		*again = *letter;
		event_at(now + rnd() % (900 * NS_MS), letter_arrives, again, 0);
	}
	event_at(now + wire_delay() + (one_in(20) ? rnd_below(40 * NS_MS) : rnd_below(100 * NS_US)),
		 letter_arrives, letter, 0);
}

static void flush_letters(void)
{
	while (unsent) {
		struct letter *letter = unsent;

		unsent = letter->next;
		if (!unsent)
			unsent_tail = &unsent;
		letter_post(letter);
	}
}

void __wrap_ctrl_link_flush_unless_bg(void)
{
	if (!bg_is_self())
		flush_letters();
}

static bool is_tomb_of(const struct tomb *t, const struct shift_msg *m)
{
	return t->id == m->dst_conn && t->stone.answer.dst_conn == m->src_conn;
}

void __wrap_tombstone_answer(const struct nic *nic, const struct shift_msg *m)
{
	if (m->type != SHIFT_MSG_SWITCH && m->type != SHIFT_MSG_QUERY_PSN)
		return;
	for (struct tomb *t = tombs; t; t = t->next)
		for (unsigned int r = 0; is_tomb_of(t, m) && r < rails; r++)
			for (unsigned int h = 0; h < HOSTS; h++)
				if (nics[h][r].nic == nic)
					__wrap_ctrl_link_send(links[h][r].path.link,
							      &t->stone.answer);
}

/* --- finding each other ----------------------------------------------------------------------- */

static struct meeting *peer_of(const struct meeting *m)
{
	for (struct meeting *p = meetings; p; p = p->next)
		if (p->published_at && p->published_at <= now &&
		    p->rail[0].qpn == m->v->program.attr.dest_qp_num && p->v->dev != m->v->dev)
			return p;
	return NULL;
}

static unsigned int host_of(const struct vqp *v)
{
	return nic_of(v->dev->ctx)->host;
}

static bool publish(struct meeting *m)
{
	struct vqp *v = m->v;

	if (m->published_at)
		return true;
	for (uint8_t i = 1; i < v->dev->rails; i++)
		if (!vqp_rail_qp(v, i))
			return false;
	for (uint8_t i = 0; i < v->dev->rails; i++) {
		struct rail_addr *r = &m->rail[i];

		*r = (struct rail_addr){.qpn = vqp_rail_qp(v, i)->qp_num,
					.mtu_bytes = (uint16_t)v->dev->nic[i]->mtu_bytes,
					.flags = v->hot.srq ? RAIL_SRQ : 0};
		real.query_gid(v->dev->nic[i]->ctx, 1, i, &r->gid);
		pthread_mutex_lock(&v->lock);
		v->rails.twin[i].gid.value = r->gid;
		v->rails.twin[i].gid_index = i;
		pthread_mutex_unlock(&v->lock);
	}
	m->id = v->id;
	m->published_at = now + rnd_below(20 * NS_MS);
	return true;
}

static void say_hello(struct vqp *v)
{
	for (uint8_t i = 0; i < v->dev->rails; i++) {
		if (i)
			vqp_rail_await(v, i);
		if (!v->dev->nic[i]->link_up)
			vqp_rail_event(v, SHIFT_EV_LINK_DOWN, i);
		vqp_rail_event(v, SHIFT_EV_PROBE_OK, i);
	}
	vqp_rail_event(v, SHIFT_EV_RTS, 0);
}

static void match(struct meeting *m, const struct meeting *peer)
{
	struct vqp *v = m->v;
	unsigned int h = host_of(v);
	struct shift_conn_peer p = {
		.key = {1, 2}, .nonce = NONCE, .id = peer->id, .rails = v->dev->rails};
	struct shift_end ours = {.qpn = m->rail[0].qpn, .id = m->id, .nonce = NONCE};
	struct shift_end theirs = {.qpn = peer->rail[0].qpn, .id = peer->id, .nonce = NONCE};

	memcpy(ours.gid, m->rail[0].gid.raw, sizeof(ours.gid));
	memcpy(theirs.gid, peer->rail[0].gid.raw, sizeof(theirs.gid));
	p.conn = shift_conn_number(p.key, &ours, &theirs, &p.side);
	vqp_enter(v);
	if (shift_conn_meet(v->conn, &p)) {
		for (uint8_t i = 0; i < p.rails; i++)
			v->rails.twin[i].path = &links[h][i].path;
		v->setup.peer_nonce = NONCE;
		v->setup.peer_id = p.id;
		v->setup.peer_rails = p.rails;
		v->setup.met = true;
		say_hello(v);
	}
	vqp_leave(v);
}

static bool rails_ready(struct meeting *m, const struct meeting *peer)
{
	struct vqp *v = m->v;
	bool all = true;

	for (uint8_t i = 1; i < v->setup.peer_rails; i++) {
		struct twin *t = &v->rails.twin[i];

		if (t->clean)
			continue;
		if (!t->path || !atomic_load(&t->qp) || v->rails.jobs[i].stale) {
			all = false;
			continue;
		}
		vqp_enter(v);
		t->peer = peer->rail[i];
		t->mtu = v->dev->nic[i]->mtu_bytes;
		t->clean = true;
		memlock_update_rails(v);
		vqp_rail_open(v, i);
		vqp_leave(v);
	}
	return all;
}

static bool in_setup(struct vqp *v)
{
	struct shift_conn_view view;

	pthread_mutex_lock(&v->lock);
	shift_conn_view(v->conn, &view);
	pthread_mutex_unlock(&v->lock);
	return view.state == SHIFT_ST_SETUP;
}

static void meeting_step(struct meeting *m)
{
	const struct meeting *peer;
	struct vqp *v = m->v;

	if (!atomic_load(&v->life.started) || v->life.released || !publish(m))
		return;
	peer = peer_of(m);
	if (!peer)
		return;
	if (!in_setup(v)) {
		m->settled = rails_ready(m, peer);
	} else if (!v->setup.met || v->setup.peer_id != peer->id) {
		match(m, peer);
	} else {
		vqp_enter(v);
		vqp_rail_event(v, SHIFT_EV_RTS, 0);
		vqp_leave(v);
	}
}

static void meet(void *arg)
{
	bool waiting = false;

	(void)arg;
	for (struct meeting *m = meetings; m; m = m->next)
		if (!m->settled) {
			meeting_step(m);
			waiting |= !m->settled;
		}
	if (waiting)
		bg_timer_set(&meet_timer, now_ns() + MEET_NS);
}

static void meeting_add(void *arg)
{
	struct vqp *v = arg;
	struct meeting *m = calloc(1, sizeof(*m));

	m->v = v;
	m->next = meetings;
	meetings = m;
	v->setup.meeting = m;
	conn_looks_start();
	bg_timer_set(&meet_timer, now_ns());
}

static void session_begin(struct vqp *v)
{
	v->setup.begin_call.fn = meeting_add;
	v->setup.begin_call.arg = v;
	bg_call(&v->setup.begin_call);
}

static void leave_tombstone(struct vqp *v)
{
	struct tomb *t = calloc(1, sizeof(*t));

	pthread_mutex_lock(&v->lock);
	shift_conn_tombstone(v->conn, now_ns(), &t->stone);
	pthread_mutex_unlock(&v->lock);
	t->id = v->id;
	if (!t->stone.valid || !v->setup.met) {
		free(t);
		return;
	}
	t->next = tombs;
	tombs = t;
}

static void forget(struct vqp *v)
{
	struct meeting **p = &meetings, *m = v->setup.meeting;

	vqp_timers_stop(v);
	if (!m)
		return;
	while (*p != m)
		p = &(*p)->next;
	*p = m->next;
	free(m);
	v->setup.meeting = NULL;
	leave_tombstone(v);
	pthread_mutex_lock(&v->lock);
	for (uint8_t i = 0; i < SHIFT_RAILS_MAX; i++) {
		v->rails.twin[i].path = NULL;
		v->rails.twin[i].clean = false;
	}
	pthread_mutex_unlock(&v->lock);
}

struct forget_call {
	struct bg_call call;
	struct vqp *v;
	bool done;
};

static void forget_on_background(void *arg)
{
	struct forget_call *f = arg;

	forget(f->v);
	f->done = true;
}

static void session_end(struct vqp *v)
{
	struct forget_call f = {.call.fn = forget_on_background, .v = v};

	f.call.arg = &f;
	bg_call(&f.call);
	while (!f.done)
		thread_sleep(10 * NS_US);
}

/* --- links and probes ------------------------------------------------------------------------- */

void session_tell_link(struct fake_nic *n)
{
	link_news[n->host][n->rail] = true;
	background_wake();
}

static void tell_links(void)
{
	for (unsigned int h = 0; h < HOSTS; h++)
		for (unsigned int r = 0; r < rails; r++)
			if (link_news[h][r]) {
				link_news[h][r] = false;
				nics[h][r].nic->link_up = nics[h][r].carrier;
				nic_events_changed(nics[h][r].nic);
			}
}

static bool answers(const struct fake_nic *n)
{
	const struct fake_nic *peer = &nics[!n->host][n->rail];

	return wire_passes(n) && wire_passes(peer) && !peer->mute;
}

/* More than path_health_probed() tells: those on the slow way hear of each answer, others of some.
 */
static void tell_probe(struct vqp *v, void *arg)
{
	(void)arg;
	for (uint8_t i = 0; i < v->dev->rails && v->setup.met; i++) {
		bool ok = heard[host_of(v)][i];
		struct shift_event ev = {.type = ok ? SHIFT_EV_PROBE_OK : SHIFT_EV_PROBE_MISSED,
					 .rail = i};

		if (ok && !atomic_load(&v->hot.slow) && !one_in(20))
			continue;
		vqp_event(v, &ev);
	}
}

static void probe(void *arg)
{
	(void)arg;
	for (unsigned int h = 0; h < HOSTS; h++)
		for (unsigned int r = 0; r < rails; r++)
			heard[h][r] = answers(&nics[h][r]);
	vqp_each(tell_probe, NULL);
	if (!stopped)
		bg_timer_set(&probe_timer, now_ns() + PROBE_NS);
}

void session_stop(void)
{
	stopped = true;
}

/* --- the operator ----------------------------------------------------------------------------- */

void session_migrate(unsigned int pair, unsigned int host)
{
	migration = (struct migration){.asked = true, .pair = pair, .host = host};
	background_wake();
}

static void migrate(struct vqp *v, void *arg)
{
	struct vqp *wanted = prog_vqp(migration.pair, migration.host);
	struct shift_event ev = {.type = SHIFT_EV_MIGRATE};

	(void)arg;
	if (v != wanted)
		return;
	vqp_enter(v);
	ev.rail = (uint8_t)((vqp_rail(v) + 1 + rnd_below(rails - 1)) % rails);
	shift_conn_event(v->conn, &ev, now_ns());
	vqp_leave(v);
}

/* --- a turn of the background thread ---------------------------------------------------------- */

static void turn_ends(void)
{
	flush_letters();
}

void session_turn(void)
{
	while (arrived) {
		struct letter *letter = arrived;

		arrived = letter->next;
		if (!arrived)
			arrived_tail = &arrived;
		trace("%s gets message %u: epoch %u, rail %u, for connection %u",
		      letter->to->nic->name, letter->m.type, letter->m.epoch, letter->m.rail,
		      letter->m.dst_conn);
		dispatch_message(letter->to->nic, &letter->m);
		free(letter);
	}
	tell_links();
	if (migration.asked) {
		migration.asked = false;
		vqp_each(migrate, NULL);
	}
}

/* --- the start -------------------------------------------------------------------------------- */

struct nic *__wrap_nic_get(const char *name, uint8_t port)
{
	(void)port;
	for (unsigned int h = 0; h < HOSTS; h++)
		for (unsigned int r = 0; r < rails; r++)
			if (!strcmp(nics[h][r].nic->name, name))
				return nics[h][r].nic;
	return NULL;
}

struct nic *__wrap_nic_at(unsigned int index)
{
	return index < HOSTS * rails ? nics[index / rails][index % rails].nic : NULL;
}

void __wrap_log_at(enum log_level level, const char *format, ...)
{
	char line[1024];
	va_list ap;

	if (!opt.trace)
		return;
	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	trace_line("log %u: %s", level, line);
}

static void nic_begin(unsigned int h, unsigned int r)
{
	struct fake_nic *n = &nics[h][r];
	struct nic *nic = &library_nics[h][r];

	n->nic = nic;
	n->host = h;
	n->rail = r;
	n->carrier = true;
	snprintf(nic->name, sizeof(nic->name), "%c%u", 'a' + h, r);
	strcpy(n->device.name, nic->name);
	nic->port = 1;
	nic->index = (uint8_t)(h * rails + r);
	nic->worker = worker_new(nic->name, 1);
	nic->resolver = worker_new(nic->name, 1);
	nic->memory = worker_new(nic->name, 1);
	nic->fences = worker_new(nic->name, 2);
	nic->arms = worker_new(nic->name, 2);
	nic->ctx = &n->library_ctx;
	n->own_pd.context = nic->ctx;
	nic->pd = &n->own_pd;
	nic->port_attr.gid_tbl_len = 8;
	nic->mtu_bytes = 256;
	nic->is_rxe = n->is_rxe;
	nic->psn = STATS_PSN_LIVE;
	nic->psn_tried = nic->ready = nic->link_up = true;
	links[h][r] = (struct link){.path = {.nic = nic, .link = (void *)&links[h][r]}, .from = n};
	heard[h][r] = true;
}

static void rails_name(void)
{
	int at = 0;

	for (unsigned int h = 0; h < HOSTS; h++)
		for (unsigned int r = 0; r < rails; r++)
			at += snprintf(env.rails + at, sizeof(env.rails) - (size_t)at, "%s%s",
				       r == 0	? (h ? "," : "")
				       : r == 1 ? "="
						: "+",
				       nics[h][r].nic->name);
}

static void probe_begin(void *arg)
{
	(void)arg;
	for (unsigned int h = 0; h < HOSTS; h++)
		for (unsigned int r = 0; r < rails; r++)
			nic_events_changed(nics[h][r].nic);
	bg_timer_set(&probe_timer, now_ns());
}

void session_setup(void)
{
	static const struct memory_calls memory = {.is_short = memlock_is_short,
						   .refused = memlock_refused,
						   .registered = memlock_registered,
						   .lacking_changed = memlock_changed,
						   .key_gone = key_reuse_announce,
						   .key_reused = key_reuse_wait};
	const struct qp_session session = {
		.nonce = NONCE, .begin = session_begin, .end = session_end};
	static struct bg_call call = {.fn = probe_begin};
	static const struct srq_calls srqs = {.evict = srq_qps_evict, .feed = srq_qps_feed};
	bool same = one_in(2), rxe = one_in(2);

	env.exactly_once = env.link_events = true;
	env.failback = one_in(4) ? FAILBACK_NEVER : FAILBACK_AUTO;
	rails = 2 + one_in(3);
	for (unsigned int h = 0; h < HOSTS; h++)
		for (unsigned int r = 0; r < rails; r++) {
			nics[h][r].is_rxe = same ? rxe : one_in(2);
			nic_begin(h, r);
		}
	rails_name();
	meet_timer.fn = meet;
	probe_timer.fn = probe;
	memory_set_calls(&memory);
	qp_set_session(&session);
	vsrq_set_calls(&srqs);
	gate_start();
	if (bg_start())
		violation("test: bg_start");
	bg_before_sleep(turn_ends);
	bg_call(&call);
}
