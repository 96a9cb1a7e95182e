/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How the two ends of a connection find each other. Each end publishes, under the address of its QP
 * on rail 0, who it is and what it has on each rail. The other end looks there, because that is the
 * address that its program gave to ibv_modify_qp(). Then HELLO over the control link decides
 * (doc/protocol.md, rule 22). Background thread, unless stated; nothing locked.
 */
#ifndef SHIFT_SESSION_RENDEZVOUS_H
#define SHIFT_SESSION_RENDEZVOUS_H

#include "lib/conn/vqp.h"

/* A QP that may be protected was made, or was RESET and may be connected again. Any thread. */
void rendezvous_begin(struct vqp *v);

/* The QP is destroyed, or RESET: forgets it. Any thread but the background thread; waits until it
 * is done. */
void rendezvous_end(struct vqp *v);

/* Something that connections wait for may have come: looks at once. */
void rendezvous_wake(void);

/* A process has published this key. A peer that does so when all is settled has measured a NIC. */
void rendezvous_published(const char *key);

/* It is known now whether the rq_psn of a NIC of ours is live: publishes it. */
void rendezvous_psn_changed(const struct nic *nic);

#endif
