/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Owning a connection. Between vqp_enter() and vqp_leave() nobody posts to it or counts its
 * completions, and lib/core may be called. Any thread; not with a gate or another connection
 * entered.
 */
#ifndef SHIFT_CONN_CONN_LOCK_H
#define SHIFT_CONN_CONN_LOCK_H

#include "lib/conn/vqp.h"

/* Takes vqp.lock, shuts the gates of its data path, and adds up what the data path has counted. */
void vqp_enter(struct vqp *v);

/* Carries out the actions that have come up (actions.h), posts what waits (repost.h), sets the
 * timer, opens the gates again if nothing is out of the ordinary, and releases the lock. */
void vqp_leave(struct vqp *v);

/* vqp_enter, shift_conn_event, vqp_leave. */
void vqp_event(struct vqp *v, const struct shift_event *ev);

#endif
