/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How the two ends of a connection find each other. Background thread, unless stated. */
#ifndef SHIFT_SESSION_RENDEZVOUS_H
#define SHIFT_SESSION_RENDEZVOUS_H

#include "lib/conn/vqp.h"

/* A QP that may be protected was made, or begins a new life after RESET. Any thread. */
void rendezvous_begin(struct vqp *v);

/* It is being destroyed, or RESET: forget it. Any thread but the background thread; waits. */
void rendezvous_end(struct vqp *v);

/* Something to look for may have come. */
void rendezvous_wake(void);

/* Somebody has published this key. A peer that does so after all was settled has measured a NIC. */
void rendezvous_published(const char *key);

/* Whether the rq_psn of a NIC of ours may be believed is known now: publishes it. */
void rendezvous_psn_changed(const struct nic *nic);

#endif
