/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/object/vsrq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "lib/base/fork.h"
#include "lib/base/gate.h"
#include "lib/base/log.h"
#include "lib/base/pages.h"
#include "lib/base/post_errors.h"
#include "lib/base/real_verbs.h"
#include "lib/base/reentry.h"
#include "lib/base/uncancelled.h"

#define SUPPLY_NS 200000000ull

enum {
	SRQ_SGES_MAX = 64, /* more than NICs accept in practice */
	ENDED_KEPT = 8,
};

static struct table srqs = TABLE_INIT;	 /* by the program's pointer */
static struct table by_tag = TABLE_INIT; /* by the upper bits of ids */
static struct short_lock by_tag_lock;	 /* to change it, and to get a reference */
static struct srq_calls calls;

void vsrq_set_calls(const struct srq_calls *c)
{
	calls = *c;
}

struct vsrq *vsrq_find(const struct ibv_srq *srq)
{
	return table_get(&srqs, (uintptr_t)srq);
}

/* The one whose receive has that wr_id, with a reference: its QPs may be gone, and the program may
 * destroy it at any moment. NULL: it is no id of ours. */
static struct vsrq *hold_by_id(uint64_t wr_id)
{
	struct vsrq *s;

	if (!(wr_id >> 48) || !table_get(&by_tag, wr_id >> 48))
		return NULL;
	short_lock_take(&by_tag_lock);
	s = table_get(&by_tag, wr_id >> 48);
	if (s)
		object_get(&s->obj);
	short_lock_give(&by_tag_lock);
	return s;
}

/* After this nobody gets another reference by an id. */
static void forget_tag(const struct vsrq *s)
{
	short_lock_take(&by_tag_lock);
	table_remove(&by_tag, s->first_id >> 48);
	short_lock_give(&by_tag_lock);
}

/* Not by the tag alone: of a program's sends that bear random wr_ids one in 65536 has that. */
bool vsrq_owns(struct vsrq *s, uint64_t wr_id)
{
	bool owns;

	short_lock_take(&s->lock);
	owns = wr_id >= s->first_id && wr_id < s->books.next;
	short_lock_give(&s->lock);
	return owns;
}

struct drainer_search {
	const struct ibv_qp *qp;
	bool found;
};

static void is_its_drainer(void *value, void *arg)
{
	struct vsrq *s = value;
	struct drainer_search *search = arg;

	search->found |= atomic_load(&s->rail[0].drainer.qp) == search->qp;
}

bool vsrq_is_drainer(const struct ibv_qp *qp)
{
	struct drainer_search search = {.qp = qp};

	table_each(&srqs, is_its_drainer, &search);
	return search.found;
}

/* --- posting to a NIC ------------------------------------------------------------------------- */

/* The program's keys become those of the NIC. What has no byte needs none. 0 or a negative errno.
 */
static int translate_keys(struct vsrq *s, unsigned int k, struct ibv_sge *sge, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t key = 0;
		int err = sge[i].length ? vmr_lkey(s->pd, s->dev->nic[k], sge[i].lkey, &key) : 0;

		if (err)
			return err;
		sge[i].lkey = key;
	}
	return 0;
}

/* Under the lock. 0 or an errno. */
static int give_receive(struct vsrq *s, unsigned int k, uint64_t id)
{
	struct ibv_recv_wr *kept = (struct ibv_recv_wr *)&shift_srq_at(&s->books, id)->wr;
	struct ibv_sge sge[SRQ_SGES_MAX];
	struct ibv_recv_wr wr = *kept, *bad;
	int err;

	if (!k)
		return s->post(s->srq, kept, &bad);
	wr.sg_list = memcpy(sge, kept->sg_list, (size_t)kept->num_sge * sizeof(*sge));
	err = translate_keys(s, k, sge, (uint32_t)kept->num_sge);
	return err ? -err : ibv_post_srq_recv(atomic_load(&s->rail[k].srq), &wr, &bad);
}

/* --- actions ---------------------------------------------------------------------------------- */

static void take_action(struct vsrq *s, const struct shift_srq_action *a)
{
	switch (a->type) {
	case SHIFT_SRQ_ACT_POST:
		if (give_receive(s, a->nic, a->id))
			shift_srq_refused(&s->books, a->id, now_ns());
		return;
	case SHIFT_SRQ_ACT_DRAIN:
		s->rail[a->nic].to_drain = a->count;
		s->rail[a->nic].asked = s->rail[a->nic].has_drainer = true;
		return;
	case SHIFT_SRQ_ACT_EVICT: s->evict |= 1u << a->nic; return;
	case SHIFT_SRQ_ACT_COUNT: return;
	}
}

static void drain_job(struct object *obj, struct nic *nic);
static void drain_home_job(struct object *obj, struct nic *nic);

static void submit_drain(struct vsrq *s, unsigned int k)
{
	if (object_job(&s->obj, s->dev->nic[k], k ? drain_job : drain_home_job))
		return;
	short_lock_take(&s->lock);
	shift_srq_drain_ends(&s->books, k, SHIFT_SRQ_FAILED, now_ns());
	short_lock_give(&s->lock);
}

/* Wakes the background thread, which then looks at what is due. */
static void call_background(struct vsrq *s)
{
	if (atomic_exchange(&s->called, true))
		return;
	object_get(&s->obj);
	bg_call(&s->call);
}

/* Under the lock. */
static uint64_t vsrq_deadline(const struct vsrq *s)
{
	uint64_t at = shift_srq_deadline(&s->books), limit = srq_limit_deadline(s);

	return limit < at ? limit : at;
}

/* Under the lock. true: something is due before the background thread would look. */
static bool note_deadline(struct vsrq *s)
{
	uint64_t at = vsrq_deadline(s);

	if (at >= s->timer_at)
		return false;
	s->timer_at = at;
	return true;
}

/* Without the lock. The caller may be the program's post or poll, and those are no points of
 * cancellation. It may have other locks, that of a CQ for example. */
static void hand_on(struct vsrq *s, unsigned int todo, uint32_t drains, bool call)
{
	if (!todo && !drains && !call)
		return;
	uncancelled_begin();
	call |= srq_limit_do(s, todo);
	for (unsigned int k = 0; drains >> k; k++)
		if (drains >> k & 1)
			submit_drain(s, k);
	if (call)
		call_background(s);
	uncancelled_end();
}

/* Carries out what the books ask for, and gives the lock. */
void vsrq_act(struct vsrq *s)
{
	struct shift_srq_action a;
	unsigned int todo;
	uint32_t drains = 0;
	bool call;

	while (!s->ending && shift_srq_action(&s->books, now_ns(), &a))
		take_action(s, &a);
	for (unsigned int k = 0; k < s->dev->rails; k++) {
		drains |= (uint32_t)s->rail[k].asked << k;
		s->rail[k].asked = false;
	}
	todo = srq_limit_look(s, now_ns());
	call = !s->ending && (s->evict || note_deadline(s));
	short_lock_give(&s->lock);
	hand_on(s, todo, drains, call);
}

/* --- the background thread -------------------------------------------------------------------- */

static void set_timer(struct vsrq *s, uint64_t at)
{
	bool set = at != UINT64_MAX;

	if (set && !s->timer_set)
		object_get(&s->obj);
	bg_timer_set(&s->timer, at);
	if (!set && s->timer_set)
		object_put(&s->obj); /* the caller has another reference */
	s->timer_set = set;
}

static uint32_t take_evict(struct vsrq *s)
{
	uint32_t evict;

	short_lock_take(&s->lock);
	evict = s->evict;
	s->evict = 0;
	short_lock_give(&s->lock);
	return evict;
}

static void srq_look(struct vsrq *s)
{
	uint32_t evict = take_evict(s);
	uint64_t at;

	for (unsigned int k = 0; evict >> k; k++)
		if (evict >> k & 1)
			calls.evict(s, k);
	short_lock_take(&s->lock);
	/* At its end no action is taken, so one that is due would be due for ever. */
	at = s->timer_at = s->ending ? UINT64_MAX : vsrq_deadline(s);
	short_lock_give(&s->lock);
	set_timer(s, at);
}

static void srq_called(void *arg)
{
	struct vsrq *s = arg;

	atomic_store(&s->called, false);
	srq_look(s);
	object_put(&s->obj);
}

static void srq_tick(void *arg)
{
	struct vsrq *s = arg;

	object_get(&s->obj);
	set_timer(s, UINT64_MAX);
	short_lock_take(&s->lock);
	vsrq_act(s);
	srq_look(s);
	object_put(&s->obj);
}

void vsrq_feed(struct vsrq *s)
{
	calls.feed(s);
}

/* --- the drainers ----------------------------------------------------------------------------- */

struct drain_told {
	struct vsrq *s;
	unsigned int k;
};

/* The program may wait for this drain to end, to destroy its SRQ. */
static bool drain_took(void *arg, uint64_t id)
{
	const struct drain_told *t = arg;
	bool ending;

	short_lock_take(&t->s->lock);
	shift_srq_drained(&t->s->books, t->k, id, now_ns());
	ending = t->s->ending;
	short_lock_give(&t->s->lock);
	return !ending;
}

static bool drain_place(struct vsrq *s, unsigned int k, struct srq_place *at)
{
	struct nic *nic = s->dev->nic[k];

	*at = (struct srq_place){.nic = nic};
	if (!nic->ready)
		return false;
	if (k) {
		at->srq = atomic_load(&s->rail[k].srq);
		at->pd = atomic_load(&s->pd->shadow[nic->index]);
		at->ctx = nic->ctx;
		at->ops = &nic->ctx->ops;
	} else {
		at->srq = s->srq;
		at->pd = s->srq->pd;
		at->ctx = s->srq->context;
		at->ops = &s->dev->ops;
	}
	return at->srq && at->pd;
}

static void drain_rail(struct vsrq *s, unsigned int k)
{
	struct srq_drainer *d = &s->rail[k].drainer;
	struct drain_told told = {s, k};
	enum shift_srq_drain how = SHIFT_SRQ_FAILED;
	struct srq_place at;
	uint32_t count;
	bool ending;

	short_lock_take(&s->lock);
	count = s->rail[k].to_drain;
	ending = s->ending;
	short_lock_give(&s->lock);
	/* The program's may be gone by now. */
	if (!ending && drain_place(s, k, &at))
		how = srq_drainer_run(d, &at, count, drain_took, &told);
	log_debug("SRQ %p: drain of %u from %s: %d", (void *)s->srq, count, s->dev->nic[k]->name,
		  how);
	if (how == SHIFT_SRQ_RNR)
		vsrq_feed(s);
	short_lock_take(&s->lock);
	shift_srq_drain_ends(&s->books, k, how, now_ns());
	vsrq_act(s);
}

static void drain_job(struct object *obj, struct nic *nic)
{
	struct vsrq *s = vsrq_of(obj);

	for (unsigned int k = 1; k < s->dev->rails; k++)
		if (s->dev->nic[k] == nic)
			return drain_rail(s, k);
}

/* The program's own NIC. Its drainer would keep the program from destroying its SRQ. */
static void drain_home_job(struct object *obj, struct nic *nic)
{
	struct vsrq *s = vsrq_of(obj);

	(void)nic;
	drain_rail(s, 0);
}

/* --- completions ------------------------------------------------------------------------------ */

bool vsrq_back(struct vsrq *s, unsigned int k, uint64_t wr_id)
{
	bool ok;

	short_lock_take(&s->lock);
	ok = shift_srq_back(&s->books, k, wr_id, now_ns());
	vsrq_act(s);
	return ok;
}

void vsrq_came_late(const struct nic *nic, uint64_t wr_id)
{
	struct vsrq *s = hold_by_id(wr_id);

	if (!s)
		return;
	for (unsigned int k = 1; k < s->dev->rails; k++)
		if (s->dev->nic[k] == nic)
			vsrq_back(s, k, wr_id);
	object_put(&s->obj);
}

void vsrq_translate(struct ibv_wc *wc)
{
	struct vsrq *s = hold_by_id(wc->wr_id);

	if (!s)
		return;
	vsrq_done(s, 0, &wc->wr_id);
	object_put(&s->obj);
}

/* --- QPs -------------------------------------------------------------------------------------- */

bool vsrq_join(struct vsrq *s, unsigned int k)
{
	bool ok;

	short_lock_take(&s->lock);
	ok = shift_srq_join(&s->books, k, now_ns());
	vsrq_act(s);
	return ok;
}

uint32_t vsrq_ghosts(struct vsrq *s, unsigned int k)
{
	uint32_t n;

	short_lock_take(&s->lock);
	n = shift_srq_ghosts(&s->books, k);
	short_lock_give(&s->lock);
	return n;
}

void vsrq_leave(struct vsrq *s, unsigned int k, bool cut)
{
	short_lock_take(&s->lock);
	shift_srq_leave(&s->books, k, cut, now_ns());
	vsrq_act(s);
}

uint32_t vsrq_look(struct vsrq *s, unsigned int k)
{
	uint32_t good;

	short_lock_take(&s->lock);
	good = shift_srq_good(&s->books, k);
	shift_srq_look(&s->books, k, now_ns());
	vsrq_act(s);
	return good;
}

bool vsrq_supplied(struct vsrq *s, unsigned int k)
{
	bool ok;

	short_lock_take(&s->lock);
	ok = shift_srq_supplied(&s->books, k) ||
	     now_ns() - s->books.nic[k].empty_since >= SUPPLY_NS;
	short_lock_give(&s->lock);
	return ok;
}

/* --- shadows ---------------------------------------------------------------------------------- */

/* It must have room for all that SRQ 0 can have: some providers give more than they were asked for.
 */
struct ibv_srq *vsrq_shadow(struct vsrq *s, unsigned int k)
{
	const struct nic *nic = s->dev->nic[k];
	struct ibv_pd *pd = atomic_load(&s->pd->shadow[nic->index]);
	struct ibv_srq_init_attr attr = {
		.attr = {.max_wr = s->attr.max_wr, .max_sge = s->attr.max_sge}};
	struct ibv_srq *srq = atomic_load(&s->rail[k].srq);

	if (srq || !pd)
		return srq;
	srq = real.create_srq(pd, &attr);
	if (srq && (attr.attr.max_wr < s->attr.max_wr || attr.attr.max_sge < s->attr.max_sge)) {
		real.destroy_srq(srq);
		errno = EINVAL;
		return NULL;
	}
	atomic_store(&s->rail[k].srq, srq);
	return srq;
}

static void srq_unshadow(struct object *obj, struct nic *nic)
{
	struct vsrq *s = vsrq_of(obj);
	struct ibv_srq *srq;

	for (unsigned int k = 1; k < s->dev->rails; k++) {
		if (s->dev->nic[k] != nic)
			continue;
		srq_drainer_end(&s->rail[k].drainer);
		srq = atomic_exchange(&s->rail[k].srq, NULL);
		if (srq && real.destroy_srq(srq))
			log_debug("%s: a shadow SRQ is still in use", nic->name);
	}
}

/* --- statistics ------------------------------------------------------------------------------- */

static void add_stats(struct vsrq *s)
{
	const char *nics[SHIFT_RAILS_MAX];

	for (unsigned int k = 0; k < s->dev->rails; k++)
		nics[k] = s->dev->nic[k]->name;
	s->stats = stats_srq_add(s->dev->rails, nics, s->attr.max_wr);
}

static void read_books(struct vsrq *s, struct stats_srq_state *state)
{
	short_lock_take(&s->lock);
	*state = (struct stats_srq_state){.room = s->books.cfg.cap,
					  .posted = shift_srq_total(&s->books),
					  .waiting = s->books.free,
					  .counters = s->books.stats};
	for (unsigned int k = 0; k < s->dev->rails; k++) {
		const struct shift_srq_nic *n = &s->books.nic[k];

		state->nic[k].receives = n->on;
		state->nic[k].held = n->held > n->cut ? n->held : n->cut;
		state->nic[k].ghosts = n->ghosts;
		state->nic[k].live = n->live;
		state->nic[k].stuck = n->failed;
	}
	short_lock_give(&s->lock);
}

static void srq_tell(void *srq, void *arg)
{
	struct stats_srq_state state;
	struct vsrq *s = srq;

	(void)arg;
	read_books(s, &state);
	stats_srq_update(s->stats, &state);
}

void vsrq_tell_all(void)
{
	table_each(&srqs, srq_tell, NULL);
}

/* --- creation --------------------------------------------------------------------------------- */

static void vsrq_free(struct object *obj)
{
	struct vsrq *s = vsrq_of(obj);

	pages_put(s->memory, s->bytes);
	object_put(&s->pd->obj);
	free(s);
}

static struct vsrq *srq_new(struct ibv_srq *srq, struct vdev *dev, struct vpd *pd,
			    const struct ibv_srq_init_attr *attr)
{
	struct vsrq *s = aligned_alloc(64, (sizeof(*s) + 63) & ~(size_t)63);
	struct shift_srq_cfg cfg = {
		.cap = attr->attr.max_wr, .sge_max = attr->attr.max_sge, .nics = dev->rails};

	if (!s)
		return NULL;
	memset(s, 0, sizeof(*s));
	s->obj.refs = 1;
	s->obj.free = vsrq_free;
	s->srq = srq;
	s->dev = dev;
	s->pd = pd;
	s->attr = attr->attr;
	srq_limit_init(s, attr->attr.srq_limit);
	s->post = dev->ops.post_srq_recv;
	s->timer_at = UINT64_MAX;
	s->stats = -1;
	s->call = (struct bg_call){.fn = srq_called, .arg = s};
	s->timer = (struct bg_timer){.fn = srq_tick, .arg = s};
	object_get(&pd->obj);
	s->bytes = shift_srq_size(cfg.cap, cfg.sge_max);
	s->memory = s->bytes ? pages_get(s->bytes) : NULL;
	if (!s->memory || getrandom(&s->first_id, sizeof(s->first_id), 0) != sizeof(s->first_id)) {
		vsrq_free(&s->obj);
		return NULL;
	}
	s->first_id &= ~(1ull << 47); /* so that ids never run into the next tag */
	cfg.first_id = s->first_id;
	shift_srq_init(&s->books, s->memory, &cfg);
	return s;
}

/* Under a tag that no other SRQ has. */
static bool take_tag(struct vsrq *s, uint64_t tag)
{
	bool ok;

	short_lock_take(&by_tag_lock);
	ok = tag && !table_get(&by_tag, tag) && !table_put(&by_tag, tag, s);
	short_lock_give(&by_tag_lock);
	return ok;
}

static bool srq_publish(struct vsrq *s)
{
	uint64_t tag = s->first_id >> 48;

	if (!take_tag(s, tag))
		return false;
	if (!table_put(&srqs, (uintptr_t)s->srq, s))
		return true;
	forget_tag(s);
	return false;
}

/* Receives of an SRQ that we leave alone bear the program's wr_id, and its QPs are not protected.
 */
static bool can_manage(const struct vdev *dev, const struct ibv_pd *pd,
		       const struct ibv_srq_init_attr *attr)
{
	return dev && dev->rails > 1 && !pd_has_thread(pd) && vpd_find(pd) &&
	       dev->ops.post_srq_recv && real.destroy_srq && attr->attr.max_sge <= SRQ_SGES_MAX;
}

struct ibv_srq *hook_created_srq(struct ibv_srq *srq, struct ibv_pd *pd,
				 const struct ibv_srq_init_attr *attr)
{
	struct vdev *dev = srq ? vdev_find(pd->context) : NULL;
	struct vsrq *s = NULL;

	if (!srq || fork_in_child_warn() || !can_manage(dev, pd, attr))
		return srq;
	for (int tries = 0; !s && tries < 8; tries++) {
		s = srq_new(srq, dev, vpd_find(pd), attr);
		if (s && !srq_publish(s)) {
			object_put(&s->obj);
			s = NULL;
		}
	}
	if (s)
		add_stats(s);
	else
		log_warn("queue pairs on a shared receive queue are not protected: out of memory");
	return srq;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void end_home_drainer(struct object *obj, struct nic *nic)
{
	(void)nic;
	srq_drainer_end(&vsrq_of(obj)->rail[0].drainer);
}

/* Returns whether there may be a drainer on the program's NIC. */
static bool set_ending(struct vsrq *s, bool ending)
{
	short_lock_take(&s->lock);
	s->ending = ending;
	vsrq_act(s);
	return s->rail[0].has_drainer; /* while it is ending no drain begins */
}

/*
 * Where the NIC keeps the completions of a QP that is destroyed, the program may poll some when the
 * SRQ is gone, too, and their wr_ids are to be its own. And another thread may be just reading one.
 * So the last few SRQs are known by their ids still. Takes the reference.
 */
static void vsrq_bury(struct vsrq *s)
{
	static _Atomic(struct vsrq *) ended[ENDED_KEPT];
	static _Atomic unsigned int next;
	struct vsrq *old = atomic_exchange(&ended[atomic_fetch_add(&next, 1) % ENDED_KEPT], s);

	if (!old)
		return;
	forget_tag(old);
	object_put(&old->obj);
}

/* Our drainer would make the verb fail. If the program's own QPs do, it is made again when it is
 * needed. A drain may be under way that is about to make it: so this waits for the NIC's worker. If
 * the NIC hung for longer than that, it does not any more when the verb returns. */
static int destroy_at_home(struct vsrq *s)
{
	bool drains = set_ending(s, true);
	int err = EBUSY;

	for (int i = 0; i <= drains && err == EBUSY; i++) {
		if (drains)
			object_jobs_wait(&s->obj, &s->dev->nic[0], 1, end_home_drainer);
		err = quietly(real.destroy_srq(s->srq));
	}
	return err;
}

int hook_destroy_srq(struct ibv_srq *srq)
{
	struct vsrq *s = vsrq_find(srq);
	uint32_t events;
	int err;

	if (s && fork_in_child_warn()) {
		table_remove_forked(&srqs, (uintptr_t)srq);
		gate_forget_key(srq);
		s = NULL;
	}
	if (!s)
		return quietly(real.destroy_srq(srq));
	gate_forget_key(srq); /* after the verb another SRQ may be made at this address */
	events = made_event_end(s->dev, &s->limit.event);
	err = destroy_at_home(s);
	if (err) {
		made_event_resume(s->dev, &s->limit.event, events);
		set_ending(s, false);
		return err;
	}
	table_remove_value(&srqs, (uintptr_t)srq, s); /* another may be there by now */
	srq_tell(s, NULL);			      /* nobody else does any more */
	stats_srq_remove(s->stats);
	for (unsigned int k = 1; k < s->dev->rails; k++)
		object_job(&s->obj, s->dev->nic[k], srq_unshadow);
	vsrq_bury(s);
	return 0;
}

/* --- size ------------------------------------------------------------------------------------- */

/* On the NIC's worker. A shadow that cannot grow refuses what is too much for it, and that stays on
 * other NICs. */
static void grow_shadow(struct object *obj, struct nic *nic)
{
	struct vsrq *s = vsrq_of(obj);
	struct ibv_srq_attr attr = {.max_wr = s->attr.max_wr};

	for (unsigned int k = 1; k < s->dev->rails; k++) {
		struct ibv_srq *shadow = atomic_load(&s->rail[k].srq);

		if (s->dev->nic[k] == nic && shadow &&
		    real.modify_srq(shadow, &attr, IBV_SRQ_MAX_WR))
			log_warn("%s: the shared receive queue cannot grow there (%s)", nic->name,
				 strerror(errno));
	}
}

struct books_memory {
	void *memory;
	size_t bytes;
};

/* Under the lock. Returns what is not needed any more: another thread may have grown them further.
 */
static struct books_memory books_take(struct vsrq *s, struct books_memory m, uint32_t room)
{
	struct books_memory old = {s->memory, s->bytes};

	if (room <= s->attr.max_wr)
		return m;
	shift_srq_grow(&s->books, m.memory, room);
	s->memory = m.memory;
	s->bytes = m.bytes;
	s->attr.max_wr = room;
	return old;
}

/* The provider of the program's own NIC has room for so many now. */
static void books_grow(struct vsrq *s, uint32_t room)
{
	struct books_memory m = {.bytes = shift_srq_size(room, s->attr.max_sge)}, old;

	m.memory = m.bytes ? pages_get(m.bytes) : NULL;
	if (!m.memory) {
		log_error("out of memory: a shared receive queue stays as small as it was");
		return;
	}
	short_lock_take(&s->lock);
	old = books_take(s, m, room);
	short_lock_give(&s->lock);
	pages_put(old.memory, old.bytes);
	for (unsigned int k = 1; k < s->dev->rails && old.memory != m.memory; k++)
		object_job(&s->obj, s->dev->nic[k], grow_shadow);
}

int hook_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct vsrq *s = fork_in_child() ? NULL : vsrq_find(srq);
	uint32_t was = 0;
	int err;

	if (s && mask & IBV_SRQ_LIMIT) /* first: its event may come before the verb returns */
		was = srq_limit_arm(s, attr->srq_limit);
	err = quietly(real.modify_srq(srq, attr, mask));
	if (err && s && mask & IBV_SRQ_LIMIT)
		srq_limit_arm(s, was);
	if (!err && s && mask & IBV_SRQ_MAX_WR && attr->max_wr > s->attr.max_wr)
		books_grow(s, attr->max_wr);
	return err;
}

/* --- posting ---------------------------------------------------------------------------------- */

/* The NIC has refused a new receive. 0: it is not the program's mistake, and the receive waits for
 * another NIC. Under the lock. */
static int new_refused(struct vsrq *s, int nic, uint64_t id, int err)
{
	if (nic || !post_is_mistaken(err)) {
		shift_srq_refused(&s->books, id, now_ns());
		return 0;
	}
	shift_srq_unpost(&s->books, id, vsrq_now(s));
	return err;
}

/* Under the lock. */
static int post_new(struct vsrq *s, const struct ibv_recv_wr *wr)
{
	uint64_t id;
	int nic = shift_srq_post(&s->books, (const struct shift_raw_recv *)wr, vsrq_now(s), &id);
	int err;

	if (nic < 0)
		return -nic;
	if (nic == SHIFT_SRQ_NOWHERE)
		return 0;
	err = give_receive(s, (unsigned int)nic, id);
	return err ? new_refused(s, nic, id, err) : 0;
}

/* An entry's WR is alone but while it is posted. Returns the one that was behind it. */
static inline struct shift_raw_recv *chain_next(struct shift_raw_recv *at)
{
	struct shift_raw_recv *next = (struct shift_raw_recv *)at->next;

	at->next = NULL;
	return next;
}

/* The NIC has refused `refused` with err, and has not seen those behind it; those before it are in
 * its queue. *wr: where the program has the first of the chain; as post_chain(). If it is none of
 * the chain, nobody knows which the NIC has: they count as posted. Under the lock. */
static __attribute__((noinline)) int chain_refused(struct vsrq *s, struct shift_raw_recv *at,
						   const struct ibv_recv_wr *refused, int err,
						   struct ibv_recv_wr **wr)
{
	struct ibv_recv_wr *from = *wr;
	int told = 0;

	for (; at && (const void *)at != refused; at = chain_next(at))
		from = from->next;
	*wr = from;
	while (at) {
		uint64_t id = at->wr_id;

		at = chain_next(at);
		told = new_refused(s, 0, id, err);
		from = from->next;
	}
	if (!told)
		*wr = from;
	return told;
}

/* Posts to the program's own NIC what can go the usual way, at once: one doorbell. Moves *wr on to
 * the first that it has not taken; or returns what the program hears of that one. Under the lock.
 */
static int post_chain(struct vsrq *s, struct ibv_recv_wr **wr)
{
	struct ibv_recv_wr *one = *wr, *refused = NULL;
	struct shift_raw_recv first = {0}, *last = &first;
	struct shift_srq_entry *e;
	int err;

	for (; one; one = one->next) {
		e = shift_srq_post_usual(&s->books, (const struct shift_raw_recv *)one);
		if (!e)
			break;
		last->next = &e->wr;
		last = &e->wr;
	}
	if (!first.next)
		return 0;
	err = s->post(s->srq, (struct ibv_recv_wr *)first.next, &refused);
	if (err)
		return chain_refused(s, chain_next(&first), refused, err, wr);
	for (last = &first; last; last = chain_next(last))
		;
	*wr = one;
	return 0;
}

static __attribute__((noinline)) struct vsrq *srq_unknown(const struct ibv_srq *srq)
{
	struct vsrq *s = vsrq_find(srq);

	if (s)
		gate_remember(&gate_mine.srq, srq, s);
	return s;
}

/* All that is not usual. */
static __attribute__((noinline)) int post_list(struct ibv_srq *srq, struct ibv_recv_wr *wr,
					       struct ibv_recv_wr **bad)
{
	struct vsrq *s = gate_find(&gate_mine.srq, srq);
	int err = 0;

	if (!s)
		s = srq_unknown(srq);
	if (!s)
		return vdev_find(srq->context)->ops.post_srq_recv(srq, wr, bad);
	short_lock_take(&s->lock);
	for (; !err && wr; wr = err ? wr : wr->next) {
		err = post_chain(s, &wr);
		if (err || !wr)
			break;
		err = post_new(s, wr);
	}
	vsrq_give(s);
	if (err)
		*bad = wr;
	return err;
}

/* Under the lock, which it gives: the program's own NIC has refused the newest receive. */
static __attribute__((noinline)) int newest_refused(struct vsrq *s, int err)
{
	struct ibv_recv_wr *wr = s->now, **bad = s->bad;

	err = new_refused(s, 0, s->books.next - 1, err);
	vsrq_give(s);
	if (err)
		*bad = wr;
	return err;
}

/* One receive, which goes to the program's own NIC, as all do. What an error needs is kept in s, so
 * that nothing else has to be saved over the call. */
int hot_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vsrq *s = gate_find(&gate_mine.srq, srq);
	struct shift_srq_entry *e;
	int err;

	if (!s || !wr)
		return post_list(srq, wr, bad);
	if (wr->next || !short_lock_try(&s->lock))
		return post_list(srq, wr, bad);
	s->now = wr;
	s->bad = bad;
	e = shift_srq_post_usual(&s->books, (const struct shift_raw_recv *)wr);
	if (__builtin_expect(!e, 0)) {
		short_lock_give(&s->lock);
		return post_list(srq, wr, bad);
	}
	err = s->post(srq, (struct ibv_recv_wr *)&e->wr, &s->refused);
	if (__builtin_expect(err, 0))
		return newest_refused(s, err);
	__asm__("" : "+r"(err)); /* as in post_owned() */
	short_lock_give(&s->lock);
	return err;
}
