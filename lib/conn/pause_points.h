/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Pause points, for tests: a connection stands still in a phase of its switch, while the world goes
 * on. They exist only with SHIFT_TEST_HOOKS (libshift-hooks.so, or --enable-test-hooks); without,
 * nothing of this is compiled.
 *
 * SHIFT_PAUSE=PHASE[@N]:TIME|FILE,... with the phases of a report (STATS_PHASES). The connection
 * stops when it comes to that phase for the Nth time (the first), for the TIME (500ms, 2s) or until
 * there is the FILE (at most 60 s), or until the phase is over by something that is not held back.
 *
 * No thread ever waits. What would end the phase is held back instead: in fence and arm what the
 * NIC is to do; in prepare, drain, wait and handshake the peer's messages and the connection's own
 * timers; in repost the posting again; in detect the first word of a fault by link or peer, and
 * what follows, but not an error completion.
 *
 * SHIFT_HANG=fence|arm[@N]:TIME,... the NIC takes that long over its Nth fence or arming of a
 * connection; the thread that asked it waits.
 *
 * SHIFT_PSN=live|stale|unmeasured: what is believed of every NIC of ours, whatever was measured.
 *
 * All functions but pause_hang and pause_psn: under enter of the connection.
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
	bool holds;		  /* an action: */
	struct shift_action held; /* FENCE or ARM, for the end */
	bool links;		  /* link events were held back: to be said again */
	uint8_t times[STATS_PHASE_COUNT], asked[STATS_PHASE_COUNT];
};

void pause_read(void); /* the environment; once, before all others */

/* A change of state: a pause begins or ends with it. */
void pause_change(struct vqp *v, const struct shift_action *report);

/* true: not now. */
bool pause_action(struct vqp *v, const struct shift_action *a); /* it is carried out at the end */
bool pause_event(struct vqp *v, const struct shift_event *ev);	/* the core must not see it */
bool pause_repost(const struct vqp *v);
bool pause_tick(struct vqp *v); /* ends a pause whose time has come */

uint64_t pause_deadline(const struct vqp *v, uint64_t at_ns); /* of the connection's timer */

/* On the thread that is about to ask a NIC for a fence or an arming. */
void pause_hang(struct vqp *v, enum stats_phase phase);

/* Any thread. */
enum stats_psn pause_psn(enum stats_psn measured);

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
