/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/bye.h"

#include <time.h>

#include "lib/base/background.h"
#include "lib/conn/conn_lock.h"
#include "lib/session/disconnects.h"
#include "lib/session/job.h"
#include "lib/session/peer_paths.h"

#define SAY_MAX_NS 20000000ull
#define GRACE_NS   50000000ull
#define LOOK_NS	   10000000ull

/* Nobody answers. A datagram may be lost, and so it is said more than once. */
enum { ROUNDS = 3, PAUSE_NS = 1000000 };

/* --- ours ------------------------------------------------------------------------------------ */

/* Who has met no peer, or has been RESET since, has no path. */
static void conn_mark_paths(struct vqp *v, void *arg)
{
	(void)arg;
	for (uint8_t i = 0; i < SHIFT_RAILS_MAX; i++)
		if (v->rails.twin[i].path)
			tracked_path(v->rails.twin[i].path)->bye = true;
}

void bye_say(void)
{
	static const struct session_bye bye = {.kind = SESSION_BYE};
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	struct shift_msg m = session_msg(&bye, sizeof(bye));
	uint64_t end = now_ns() + SAY_MAX_NS;

	vqp_each(conn_mark_paths, NULL);
	for (int round = 0; round < ROUNDS && peer_paths_say_bye(&m, end); round++)
		nanosleep(&pause, NULL);
}

/* --- the peers' ------------------------------------------------------------------------------ */

static void leaves_run(void *arg);

static struct bg_timer leave_timer = {.fn = leaves_run};

struct look {
	uint64_t now;
	bool again;
};

/* A path is one process's, so any of them tells whether the connection's peer has left. */
static uint64_t conn_left_ns(const struct vqp *v)
{
	for (uint8_t i = 0; i < SHIFT_RAILS_MAX; i++)
		if (v->rails.twin[i].path && tracked_path(v->rails.twin[i].path)->left_ns)
			return tracked_path(v->rails.twin[i].path)->left_ns;
	return 0;
}

static void conn_of_left(struct vqp *v, void *arg)
{
	struct shift_event ev = {.type = SHIFT_EV_PEER_LEFT};
	struct look *look = arg;
	uint64_t left_ns = conn_left_ns(v);

	if (left_ns && look->now - left_ns >= GRACE_NS) {
		disconnect_follows(v);
		vqp_event(v, &ev);
	} else {
		look->again |= left_ns != 0;
	}
}

/* One look at all connections for all who have left: a whole job ends at once. */
static void leaves_run(void *arg)
{
	struct look look = {.now = now_ns()};

	(void)arg;
	vqp_each(conn_of_left, &look);
	bg_timer_set(&leave_timer, look.again ? look.now + LOOK_NS : UINT64_MAX);
}

/*
 * Only to us: a datagram that names no receiver could be sent again to another life of a process.
 * What the peer's NICs had sent before may come later, as it takes other ways. So the connections
 * end some time after: an ACK in that time still counts, as it would without us.
 */
void bye_heard(const struct shift_msg *m)
{
	uint64_t now = now_ns();

	if (m->dst_nonce != job_nonce() || !peer_paths_leave(m->src_nonce, now))
		return;
	if (!leave_timer.heap_at)
		bg_timer_set(&leave_timer, now + GRACE_NS);
}
