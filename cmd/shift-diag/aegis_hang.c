/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Procedure-aware diagnosis (section 4.2): who has not launched the collective in which the others
 * wait, and if all have, whose work requests do not complete.
 *
 * Beyond the paper: a rank that has not come may itself wait in another communicator; then the
 * answer is there. And a rank that is slow is no rank that hangs: nothing is said before the
 * communicator has stood still for some time, of all its members.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/aegis.h"
#include "common/cli.h"

/* A communicator stands still if nothing happened for so long, and for so many times the longest
 * pause that it has made before. */
static const uint64_t still_ns = 10000000000u;
enum { STILL_PAUSES = 3 };

enum stand {
	STANDS_NOT,	/* nobody waits, or it goes on */
	STANDS_PARTLY,	/* somebody waits, but not all that is needed is known */
	STANDS_LAGGARD, /* somebody has not come */
	STANDS_INSIDE,	/* all have come */
};

struct standing {
	const struct aegis_comm *comm;
	enum stand stand;
	uint64_t seq, since_ns;
};

struct search {
	const struct aegis_view *view;
	struct standing *of; /* each communicator */
	struct verdict *v;
};

static bool is_gone(const struct rec_file *f)
{
	return f->died || f->ended_ns;
}

static uint64_t still_for(const struct aegis_comm *c)
{
	uint64_t need = still_ns;

	for (size_t i = 0; i < c->members; i++)
		if (c->member[i].longest_ns * STILL_PAUSES > need)
			need = c->member[i].longest_ns * STILL_PAUSES;
	return need;
}

/* A member that is gone does not come back; of another it must be known that it has not moved. */
static bool is_frozen(const struct aegis_member *m, uint64_t ns)
{
	uint64_t active = m->active_ns ? m->active_ns : m->file->began_ns;

	return is_gone(m->file) || m->file->read_ns >= active + ns;
}

/* Of operations on a GPU's stream only launches are known. Where they have stopped and differ, some
 * wait; where they are the same, all may. */
static void look_at_launches(const struct aegis_comm *c, struct standing *s)
{
	bool unended = false, all_ended = true;

	for (size_t i = 0; i < c->members; i++) {
		const struct aegis_member *m = c->member + i;

		all_ended = all_ended && m->file->ended_ns;
		unended = unended || (m->unended && !m->file->ended_ns);
		s->seq = m->launched > s->seq ? m->launched : s->seq;
		if (m->unended && (!s->since_ns || m->active_ns > s->since_ns))
			s->since_ns = m->active_ns;
	}
	if (!unended || all_ended)
		s->seq = s->since_ns = 0;
}

/* Others wait for long, and the file of one that has not come ends before that is known of it. */
static bool is_stale(const struct aegis_member *m, const struct standing *s, uint64_t need)
{
	return !is_gone(m->file) && m->launched < s->seq && m->file->read_ns < s->since_ns + need;
}

static bool has_stale(const struct aegis_comm *c, const struct standing *s, uint64_t need)
{
	bool stale = false;

	for (size_t i = 0; i < c->members; i++) {
		if (c->member[i].open && !is_frozen(c->member + i, need))
			return false;
		stale = stale || is_stale(c->member + i, s, need);
	}
	return stale;
}

static struct standing standing_of(const struct aegis_comm *c)
{
	struct standing s = {.comm = c};
	uint64_t need = still_for(c);
	bool all_frozen = true, laggard = false;

	for (size_t i = 0; i < c->members; i++) {
		const struct rec_coll *open = c->member[i].open;

		all_frozen = all_frozen && is_frozen(c->member + i, need);
		if (!open)
			continue;
		if (!s.seq || open->seq < s.seq)
			s.seq = open->seq;
		if (!s.since_ns || open->launch_ns < s.since_ns)
			s.since_ns = open->launch_ns;
	}
	if (!s.seq && all_frozen)
		look_at_launches(c, &s);
	for (size_t i = 0; i < c->members; i++)
		laggard = laggard || c->member[i].launched < s.seq;
	if (!s.seq)
		return s;
	if (!all_frozen)
		s.stand = c->members < (size_t)c->size || has_stale(c, &s, need) ? STANDS_PARTLY
										 : STANDS_NOT;
	else if (c->members < (size_t)c->size)
		s.stand = STANDS_PARTLY;
	else
		s.stand = laggard ? STANDS_LAGGARD : STANDS_INSIDE;
	return s;
}

/* Whether a process waits in a communicator that stands still, or for a message. */
static bool is_waiting(const struct search *s, const struct rec_file *f)
{
	for (size_t i = 0; i < s->view->comms; i++) {
		const struct aegis_comm *c = s->view->comm + i;

		if (s->of[i].stand == STANDS_NOT)
			continue;
		for (size_t m = 0; m < c->members; m++)
			if (c->member[m].file == f && c->member[m].open)
				return true;
	}
	for (size_t i = 0; i < f->p2p_n; i++)
		if (!f->p2p[i].end_ns)
			return true;
	return false;
}

static bool is_blamed(const struct verdict *v, const struct rec_file *f)
{
	for (size_t i = 0; i < v->culprits_n; i++)
		if (v->culprits[i].pid == f->pid && v->culprits[i].rank == f->rank &&
		    !strcmp(v->culprits[i].host, f->host))
			return true;
	return false;
}

static void conclude(struct search *s, enum verdict_component component, const char *rule,
		     double confidence, const struct standing *at)
{
	s->v->class = CLASS_STOPPED;
	s->v->component = component;
	s->v->rule = rule;
	s->v->confidence = confidence * aegis_coverage(s->view);
	if (!s->v->first_seen_ns || at->since_ns < s->v->first_seen_ns)
		s->v->first_seen_ns = at->since_ns;
}

/* ---- somebody has not come ------------------------------------------------------------------ */

static const char *why_gone(const struct rec_file *f)
{
	return f->died ? "; it has died" : f->ended_ns ? "; it has ended" : "";
}

static void blame_laggards(struct search *s, const struct standing *at)
{
	for (size_t i = 0; i < at->comm->members; i++) {
		const struct aegis_member *m = at->comm->member + i;

		if (m->launched >= at->seq || is_waiting(s, m->file))
			continue;
		verdict_says(s->v,
			     "%s: rank %d on %s has launched %llu collectives, others wait in "
			     "number %llu%s",
			     at->comm->name, m->rank, m->file->host,
			     (unsigned long long)m->launched, (unsigned long long)at->seq,
			     why_gone(m->file));
		if (!is_blamed(s->v, m->file))
			aegis_blame(s->v, m->file);
		/* Of a ring that was full, the last launches may be missing. */
		conclude(s, COMPONENT_COMPUTATION, "fewer-launches", m->file->dropped ? 0.5 : 0.95,
			 at);
	}
}

/* Those that have not come, and wait elsewhere. */
static void tell_victims(struct search *s, const struct standing *at)
{
	for (size_t i = 0; i < at->comm->members; i++) {
		const struct aegis_member *m = at->comm->member + i;

		if (m->launched < at->seq && is_waiting(s, m->file))
			verdict_says(s->v,
				     "%s: rank %d on %s has not come to number %llu, as it "
				     "waits elsewhere itself",
				     at->comm->name, m->rank, m->file->host,
				     (unsigned long long)at->seq);
	}
}

/* ---- all have come -------------------------------------------------------------------------- */

static const struct rec_coll *inside(const struct aegis_member *m, const struct standing *at)
{
	return m->open && m->open->seq == at->seq ? m->open : NULL;
}

static uint64_t missing_completions(const struct aegis_member *m, const struct standing *at)
{
	const struct rec_coll *c = inside(m, at);

	return c && c->wr > c->wc ? c->wr - c->wc : 0;
}

static int64_t balance(const struct rec_file *f, uint64_t qp)
{
	int64_t n = 0;

	for (size_t i = 0; i < f->epochs_n; i++) {
		const struct rec_epochs *e = f->epochs + i;

		for (size_t j = 0; e->qp == qp && e->wr && e->wc && j < e->n; j++)
			n += (int64_t)e->wr[j] - e->wc[j];
	}
	return n;
}

/* The QP whose requests do not complete, if the epochs tell, and it is one. */
static const struct rec_qp *stuck_qp(const struct rec_file *f)
{
	const struct rec_qp *found = NULL;

	for (size_t i = 0; i < f->qp_n; i++) {
		if (balance(f, f->qp[i].id) <= 0)
			continue;
		if (found && found->id != f->qp[i].id)
			return NULL;
		found = f->qp + i; /* its last state */
	}
	return found;
}

static void blame_requests(struct search *s, const struct standing *at,
			   const struct aegis_member *m)
{
	const struct rec_coll *c = inside(m, at);
	const struct rec_qp *qp = stuck_qp(m->file);
	struct culprit *who;

	verdict_says(s->v,
		     "%s: rank %d on %s has posted %llu work requests in number %llu, %llu "
		     "have completed",
		     at->comm->name, m->rank, m->file->host, (unsigned long long)c->wr,
		     (unsigned long long)c->seq, (unsigned long long)c->wc);
	if (is_blamed(s->v, m->file))
		return;
	who = aegis_blame(s->v, m->file);
	if (!qp)
		return;
	who->qpn = qp->qpn;
	snprintf(who->nic, sizeof(who->nic), "%s", qp->nic);
	if (*qp->peer_host)
		verdict_says(s->v, "they are of QP 0x%x on %s, to %s", qp->qpn, qp->nic,
			     qp->peer_host);
}

/* The only one that is not done: its peers' sends were acknowledged. */
static const struct aegis_member *alone_inside(const struct standing *at)
{
	const struct aegis_member *alone = NULL;

	for (size_t i = 0; i < at->comm->members; i++)
		if (inside(at->comm->member + i, at)) {
			if (alone)
				return NULL;
			alone = at->comm->member + i;
		}
	return at->comm->members > 1 ? alone : NULL;
}

static void judge_alive(struct search *s, const struct standing *at)
{
	const struct aegis_member *alone = alone_inside(at);
	size_t n = 0;

	for (size_t i = 0; i < at->comm->members; i++)
		n += missing_completions(at->comm->member + i, at) > 0;
	/* If it is so at all of them, it tells nobody apart. */
	if (n && n < at->comm->members) {
		for (size_t i = 0; i < at->comm->members; i++)
			if (missing_completions(at->comm->member + i, at))
				blame_requests(s, at, at->comm->member + i);
		conclude(s, COMPONENT_COMMUNICATION, "open-requests", n == 1 ? 0.85 : 0.6, at);
		verdict_advises(s->v, "shift-diag ping between the culprit's host and its peers, "
				      "with all sizes; errors of NICs and switches on that way");
	} else if (!n && alone) {
		verdict_says(s->v, "%s: only rank %d on %s has not completed number %llu",
			     at->comm->name, alone->rank, alone->file->host,
			     (unsigned long long)at->seq);
		if (!is_blamed(s->v, alone->file))
			aegis_blame(s->v, alone->file);
		conclude(s, COMPONENT_NONE, "alone-unfinished", 0.6, at);
	} else {
		verdict_says(s->v, "%s: all members wait in number %llu, and none stands out",
			     at->comm->name, (unsigned long long)at->seq);
		s->v->component = COMPONENT_COMMUNICATION;
	}
}

/* Some have died inside, and the others wait for them. */
static bool blame_dead(struct search *s, const struct standing *at)
{
	size_t dead = 0;

	for (size_t i = 0; i < at->comm->members; i++)
		dead += at->comm->member[i].file->died;
	if (!dead || dead == at->comm->members)
		return false;
	for (size_t i = 0; i < at->comm->members; i++) {
		const struct aegis_member *m = at->comm->member + i;

		if (!m->file->died)
			continue;
		verdict_says(s->v, "%s: rank %d on %s has died, others wait in number %llu",
			     at->comm->name, m->rank, m->file->host, (unsigned long long)at->seq);
		if (!is_blamed(s->v, m->file))
			aegis_blame(s->v, m->file);
	}
	conclude(s, COMPONENT_NONE, "process-gone", dead == 1 ? 0.9 : 0.6, at);
	verdict_advises(s->v, "why did it end? Its output, and the kernel log of its host");
	return true;
}

static void judge_inside(struct search *s, const struct standing *at)
{
	if (blame_dead(s, at))
		return;
	judge_alive(s, at);
}

/* ---- together ------------------------------------------------------------------------------- */

static bool has(const struct search *s, enum stand stand)
{
	for (size_t i = 0; i < s->view->comms; i++)
		if (s->of[i].stand == stand)
			return true;
	return false;
}

/* All that have not come wait for one another: in which order a rank launches differs. */
static void judge_order(struct search *s)
{
	for (size_t i = 0; i < s->view->comms; i++) {
		const struct standing *at = s->of + i;

		if (at->stand != STANDS_LAGGARD)
			continue;
		for (size_t m = 0; m < at->comm->members; m++)
			if (at->comm->member[m].launched < at->seq &&
			    !is_blamed(s->v, at->comm->member[m].file))
				aegis_blame(s->v, at->comm->member[m].file);
		tell_victims(s, at);
		conclude(s, COMPONENT_COMPUTATION, "order-of-collectives", 0.7, at);
	}
	s->v->level = LEVEL_GROUP;
	verdict_advises(s->v, "do all ranks launch the collectives of different communicators in "
			      "one order?");
}

static void tell_stale(const struct search *s)
{
	for (size_t i = 0; i < s->view->comms; i++) {
		const struct standing *at = s->of + i;

		if (at->stand != STANDS_PARTLY)
			continue;
		if (at->comm->members < (size_t)at->comm->size) {
			verdict_says(s->v, "%s: those that are seen wait in number %llu",
				     at->comm->name, (unsigned long long)at->seq);
			s->v->first_seen_ns = at->since_ns;
		}
		for (size_t m = 0; m < at->comm->members; m++)
			if (is_stale(at->comm->member + m, at, still_for(at->comm)))
				verdict_says(s->v,
					     "%s: others wait in number %llu; the file of rank %d "
					     "on %s ends before that is known of it",
					     at->comm->name, (unsigned long long)at->seq,
					     at->comm->member[m].rank,
					     at->comm->member[m].file->host);
	}
}

static void undecided(struct search *s, const char *do_what)
{
	s->v->class = CLASS_UNDECIDED;
	s->v->confidence = 0;
	verdict_advises(s->v, "%s", do_what);
}

static bool has_open_p2p(const struct aegis_view *v)
{
	for (size_t i = 0; i < v->processes; i++)
		for (size_t j = 0; j < v->process[i]->p2p_n; j++)
			if (!v->process[i]->p2p[j].end_ns)
				return true;
	return false;
}

static void judge_standing(struct search *s)
{
	for (size_t i = 0; i < s->view->comms; i++)
		if (s->of[i].stand == STANDS_LAGGARD)
			blame_laggards(s, s->of + i);
	if (s->v->culprits_n) {
		verdict_advises(s->v, "look at what these processes do: gdb -p, py-spy dump");
		return;
	}
	for (size_t i = 0; i < s->view->comms; i++)
		if (s->of[i].stand == STANDS_INSIDE)
			judge_inside(s, s->of + i);
	for (size_t i = 0; i < s->view->comms; i++)
		if (s->of[i].stand == STANDS_PARTLY)
			aegis_tell_missing(s->v, s->of[i].comm);
	if (s->v->culprits_n)
		return;
	/* Who waits for whom is known of collectives only. */
	if (has(s, STANDS_LAGGARD) && !has(s, STANDS_INSIDE) && !has(s, STANDS_PARTLY) &&
	    !has_open_p2p(s->view)) {
		judge_order(s);
		return;
	}
	for (size_t i = 0; i < s->view->comms; i++)
		if (s->of[i].stand == STANDS_LAGGARD)
			tell_victims(s, s->of + i);
	tell_stale(s);
	undecided(
		s,
		has(s, STANDS_PARTLY)
			? "get the records of all ranks; look at those that have none first"
			: "shift-diag ping between the hosts, with all sizes; then halve the job");
}

/* Nobody waits, and nobody does anything: not in communication. */
static bool is_idle(const struct aegis_view *v, uint64_t window_ns, uint64_t *since)
{
	*since = 0;
	for (size_t i = 0; i < v->comms; i++)
		for (size_t m = 0; m < v->comm[i].members; m++) {
			const struct aegis_member *of = v->comm[i].member + m;

			if (of->open || is_gone(of->file) || !of->active_ns ||
			    !is_frozen(of, window_ns) ||
			    !is_frozen(of, STILL_PAUSES * of->longest_ns))
				return false;
			if (of->active_ns > *since)
				*since = of->active_ns;
		}
	return *since;
}

static const struct rec_file *dead_one(const struct aegis_view *v)
{
	for (size_t i = 0; i < v->processes; i++)
		if (v->process[i]->died)
			return v->process[i];
	return NULL;
}

static bool has_launched(const struct aegis_view *v)
{
	for (size_t i = 0; i < v->comms; i++)
		for (size_t m = 0; m < v->comm[i].members; m++)
			if (v->comm[i].member[m].launched || is_gone(v->comm[i].member[m].file) ||
			    !is_frozen(v->comm[i].member + m, still_ns))
				return true; /* or it may soon */
	return false;
}

static bool all_stand_still(const struct aegis_view *v)
{
	for (size_t i = 0; i < v->comms; i++)
		for (size_t m = 0; m < v->comm[i].members; m++)
			if (!is_frozen(v->comm[i].member + m, still_ns))
				return false;
	return true;
}

static void judge_moving(struct search *s, const struct aegis_options *o)
{
	const struct aegis_view *view = s->view;
	const struct rec_file *dead = dead_one(view);
	uint64_t since;

	if (dead) {
		verdict_says(s->v, "process %d on %s has died, and nobody is seen to wait for it",
			     dead->pid, dead->host);
		undecided(s, "shift-diag fail of the same records");
	} else if (!view->comms) {
		verdict_says(s->v, "there are no communicators in the records");
		undecided(s, "record the job's collectives");
	} else if (!aegis_is_complete(view)) {
		for (size_t i = 0; i < view->comms; i++)
			aegis_tell_missing(s->v, view->comm + i);
		verdict_says(s->v, "the records are of %d ranks of %d", view->coverage.ranks_seen,
			     view->coverage.ranks_expected);
		undecided(s, "get the records of all ranks");
	} else if (has_open_p2p(view) && all_stand_still(view)) {
		verdict_says(s->v,
			     "messages are under way, and whom they wait for is not followed");
		undecided(s, "shift-diag pulse of the same records");
	} else if (!has_launched(view)) {
		verdict_says(s->v, "no collective has been launched yet");
		undecided(s, "what do the processes do? gdb -p, py-spy dump");
	} else if (is_idle(view, o->window_ns, &since)) {
		s->v->class = CLASS_STOPPED;
		s->v->rule = "idle";
		s->v->confidence = 0.5 * aegis_coverage(view);
		s->v->first_seen_ns = since;
		verdict_says(s->v, "all ranks have launched the same, and none waits for another, "
				   "nor launches anything");
		verdict_advises(s->v, "what do they all need? Look at storage and data loaders");
	} else {
		s->v->confidence = aegis_coverage(view);
	}
}

/* Nothing may be called fine of which it is not known how far it was read. */
static bool is_read(const struct aegis_view *v)
{
	for (size_t i = 0; i < v->processes; i++)
		if (!v->process[i]->read_ns && !is_gone(v->process[i]))
			return false;
	return true;
}

struct verdict aegis_hang(const struct records *r, const struct aegis_options *o)
{
	struct verdict v = verdict_make("aegis", "fewer-launches");
	struct aegis_view view = aegis_view_make(r, o->window_ns);
	struct search s = {.view = &view, .v = &v};
	bool moving = true;

	s.of = check_alloc(calloc(view.comms + 1, sizeof(*s.of)));
	v.coverage = view.coverage;
	v.level = LEVEL_RANK;
	verdict_threshold(&v, "still_s", (double)still_ns / 1e9);
	verdict_threshold(&v, "still_pauses", STILL_PAUSES);
	for (size_t i = 0; i < view.comms; i++) {
		s.of[i] = standing_of(view.comm + i);
		moving = moving && s.of[i].stand == STANDS_NOT;
	}
	if (!is_read(&view)) {
		verdict_says(&v, "a file does not say until when it was recorded (read_ns)");
		undecided(&s, "record again");
	} else if (moving) {
		judge_moving(&s, o);
	} else {
		judge_standing(&s);
	}
	free(s.of);
	aegis_view_free(&view);
	return v;
}
