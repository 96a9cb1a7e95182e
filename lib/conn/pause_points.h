/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Pause points, for tests: a connection stays in a phase of its switch, while everything else goes
 * on. They exist only with SHIFT_TEST_HOOKS (libshift-hooks.so, or --enable-test-hooks). Without it
 * nothing of this is compiled.
 *
 * SHIFT_PAUSE=PHASE[@N]:TIME|FILE,... with the phases of a report (STATS_PHASES). The connection
 * pauses when it comes to that phase for the Nth time (default: the first). It pauses for the TIME
 * (500ms, 2s), or until the FILE exists (at most 60 s), or until the phase is ended by something
 * that is not held back.
 *
 * No thread ever waits. What would end the phase is held back instead: in fence and arm the NIC's
 * job; in prepare, drain, wait and handshake the peer's messages and the connection's own timers;
 * in repost the posting; in detect the first sign of a fault from link or peer, and what follows,
 * but not an error completion.
 *
 * SHIFT_HANG=fence|arm[@N]:TIME,... the NIC takes that long over its Nth fence or arming of a
 * connection. The NIC's thread waits.
 *
 * SHIFT_PSN=live|stale|unmeasured: every NIC of ours counts as that, whatever was measured.
 *
 * SHIFT_SLOW_POST=2us: every post of sends takes that much longer, for tests of
 * shift-bench, which must notice.
 *
 * All functions but pause_read, pause_hang, pause_psn and pause_post_ns are called between
 * vqp_enter() and vqp_leave().
 */
#ifndef SHIFT_CONN_PAUSE_POINTS_H
#define SHIFT_CONN_PAUSE_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/core/conn.h"
#include "lib/stats/layout.h"

struct vqp;

#ifdef SHIFT_TEST_HOOKS

struct pause_point;

struct pause {
	const struct pause_point *point; /* NULL: not paused */
	uint64_t until_ns;
	bool holds;		  /* an action is held back: */
	bool over;		  /* ... and is to be carried out now */
	struct shift_action held; /* FENCE or ARM */
	bool links;		  /* link events were held back: to be told at the end, */
	uint8_t next_link;	  /* from this rail on */
	uint8_t times[STATS_PHASE_COUNT], asked[STATS_PHASE_COUNT];
};

/* Reads the environment. Once, before all others. */
void pause_read(void);

/* The state has changed: a pause may begin or end. */
void pause_change(struct vqp *v, const struct shift_action *report);

/* These return true if something is held back: */
bool pause_action(struct vqp *v, const struct shift_action *a); /* an action, until the end */
bool pause_event(struct vqp *v,
		 const struct shift_event *ev); /* an event: the core must not see it */
bool pause_repost(const struct vqp *v);		/* posting from the log */
bool pause_tick(struct vqp *v); /* the core's timer; ends a pause whose time has come */

/* After pause_change() and pause_tick(): the action that the pause has held back, to be carried out
 * now. false: none. */
bool pause_take_held(struct vqp *v, struct shift_action *a);

/* After pause_tick(), until false: what the core must be told of links, if link events were held
 * back. */
bool pause_next_link(struct vqp *v, struct shift_event *ev);

/* When the connection's timer must fire, which the core wants at at_ns. */
uint64_t pause_deadline(const struct vqp *v, uint64_t at_ns);

/* On the NIC's thread, before a fence or an arming; nothing locked. May wait (SHIFT_HANG). */
void pause_hang(struct vqp *v, enum stats_phase phase);

/* What counts instead of what was measured (SHIFT_PSN). Any thread. */
enum stats_psn pause_psn(enum stats_psn measured);

/* How much longer a post takes (SHIFT_SLOW_POST); usually 0. Any thread. */
uint64_t pause_post_ns(void);

#else

static inline void pause_read(void)
{
}

static inline void pause_change(struct vqp *v, const struct shift_action *report)
{
	(void)v;
	(void)report;
}

static inline bool pause_action(struct vqp *v, const struct shift_action *a)
{
	(void)v;
	(void)a;
	return false;
}

static inline bool pause_event(struct vqp *v, const struct shift_event *ev)
{
	(void)v;
	(void)ev;
	return false;
}

static inline bool pause_repost(const struct vqp *v)
{
	(void)v;
	return false;
}

static inline bool pause_tick(struct vqp *v)
{
	(void)v;
	return false;
}

static inline bool pause_take_held(struct vqp *v, struct shift_action *a)
{
	(void)v;
	(void)a;
	return false;
}

static inline bool pause_next_link(struct vqp *v, struct shift_event *ev)
{
	(void)v;
	(void)ev;
	return false;
}

static inline uint64_t pause_deadline(const struct vqp *v, uint64_t at_ns)
{
	(void)v;
	return at_ns;
}

static inline void pause_hang(struct vqp *v, enum stats_phase phase)
{
	(void)v;
	(void)phase;
}

static inline enum stats_psn pause_psn(enum stats_psn measured)
{
	return measured;
}

#endif
#endif
