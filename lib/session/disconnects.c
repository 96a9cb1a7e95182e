/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/disconnects.h"

#include <stdlib.h>

#include "lib/session/job.h"
#include "lib/session/peer_paths.h"
#include "lib/verbs/cm_ids.h"

/* The kernel's own message goes first, where it can: what it takes when all is well, and what it
 * may take on a machine that has much to do. */
#define KERNEL_DEAD_NS 300000000ull
#define KERNEL_NS      3000000000ull

/* Who has not answered for so long does not run, or is not reached. */
#define TELL_NS 5000000000ull

/* Our program has disconnected, and the peer may not know. */
struct farewell {
	struct farewell *next;
	uint64_t nonce; /* of the peer's process */
	uint32_t mine, yours;
	uint32_t cm_number;
	bool kernel_dead;
	uint64_t end_ns;
	struct told told;
};

static void farewells_run(void *arg);

static struct farewell *farewells;
static struct bg_timer farewell_timer = {.fn = farewells_run};

static uint64_t kernel_ns(bool dead)
{
	return dead ? KERNEL_DEAD_NS : KERNEL_NS;
}

/* Is rail 0, over which the kernel speaks, out of use? */
static bool kernel_is_dead(struct vqp *v)
{
	uint8_t rail;

	pthread_mutex_lock(&v->lock);
	rail = vqp_rail(v);
	pthread_mutex_unlock(&v->lock);
	return rail || !vqp_rail_is_up(v, 0);
}

static void end_send(uint64_t nonce, bool answer, uint32_t mine, uint32_t yours)
{
	struct session_end end = {
		.kind = SESSION_END, .answer = answer, .mine = mine, .yours = yours};
	struct shift_msg m = session_msg(&end, sizeof(end));

	peer_paths_send(nonce, &m);
}

static void farewell_end(struct farewell **at, uint64_t now)
{
	struct farewell *f = *at;

	*at = f->next;
	cm_ended(f->cm_number, now + kernel_ns(f->kernel_dead));
	free(f);
}

static void farewells_run(void *arg)
{
	struct farewell **at = &farewells;
	uint64_t now = now_ns(), next = UINT64_MAX;

	(void)arg;
	while (*at) {
		struct farewell *f = *at;

		if (now >= f->end_ns) {
			farewell_end(at, now);
			continue;
		}
		if (told_due(&f->told, now)) {
			end_send(f->nonce, false, f->mine, f->yours);
			told_sent(&f->told, now, TOLD_LONGEST_NS);
		}
		next = f->told.next_ns < next ? f->told.next_ns : next;
		next = f->end_ns < next ? f->end_ns : next;
		at = &f->next;
	}
	bg_timer_set(&farewell_timer, next);
}

void disconnect_say(struct vqp *v, uint32_t cm_number)
{
	struct farewell *f = v->setup.met ? calloc(1, sizeof(*f)) : NULL;
	uint64_t now = now_ns();

	if (!f)
		return;
	*f = (struct farewell){.next = farewells,
			       .nonce = v->setup.peer_nonce,
			       .mine = v->id,
			       .yours = v->setup.peer_id,
			       .cm_number = cm_number,
			       .kernel_dead = kernel_is_dead(v),
			       .end_ns = now + TELL_NS};
	told_change(&f->told);
	farewells = f;
	farewells_run(NULL);
}

static void farewell_heard(const struct shift_msg *m, const struct session_end *end)
{
	for (struct farewell **at = &farewells; *at; at = &(*at)->next) {
		const struct farewell *f = *at;

		if (f->nonce != m->src_nonce || f->mine != end->yours || f->yours != end->mine)
			continue;
		farewell_end(at, now_ns());
		return;
	}
}

void disconnect_heard(const struct shift_msg *m, const struct session_end *end)
{
	struct vqp *v = vqp_by_id(end->yours);

	if (m->dst_nonce != job_nonce())
		return;
	if (end->answer) {
		farewell_heard(m, end);
		return;
	}
	end_send(m->src_nonce, true, end->yours, end->mine);
	if (v && v->setup.met && v->setup.peer_nonce == m->src_nonce &&
	    v->setup.peer_id == end->mine)
		disconnect_follows(v);
}

void disconnect_follows(struct vqp *v)
{
	uint32_t number = atomic_load(&v->cm_number);

	if (number)
		cm_ended(number, now_ns() + kernel_ns(kernel_is_dead(v)));
}
