/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The lock of a connection. Between vqp_enter() and vqp_leave() no other thread posts to it or
 * counts its completions, and lib/core may be called. Any thread; not inside a gate, nor with
 * another connection entered.
 */
#ifndef SHIFT_CONN_CONN_LOCK_H
#define SHIFT_CONN_CONN_LOCK_H

#include "lib/conn/vqp.h"

/* Takes vqp.lock, shuts the gates of its data path, and adds up what the data path has counted. */
void vqp_enter(struct vqp *v);

/* Carries out the actions that have come up (actions.h), posts the sends that wait (repost.h), sets
 * the timers, opens the gates if the fast way is possible again, and releases the lock. */
void vqp_leave(struct vqp *v);

/* Is any connection in a switch? Any thread, no lock; one that begins just now may be missed. */
bool vqp_any_switching(void);

/* The QP is destroyed, and vqp.life.gone: removes its reason from the gates of its CQs, and from
 * vqp_any_switching(). Nothing locked. */
void vqp_release_gates(struct vqp *v);

/* Tells lib/core an event: vqp_enter(), shift_conn_event(), vqp_leave(). */
void vqp_event(struct vqp *v, const struct shift_event *ev);

#endif
