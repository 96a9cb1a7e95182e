/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How the two ends of a connection find each other. The rendezvous says which processes are behind
 * the GID that the program gave to ibv_modify_qp() (directory.h). Each of them is told, over the
 * control link, what our end is called, who we are and what we have on each rail; the one that has
 * the other end answers with the same. Then HELLO decides (doc/protocol.md, rule 22 and 7.42).
 * Background thread, unless stated; nothing locked.
 */
#ifndef SHIFT_SESSION_RENDEZVOUS_H
#define SHIFT_SESSION_RENDEZVOUS_H

#include "lib/session/session_msg.h"

/* A QP that may be protected was made, or was RESET and may be connected again. Any thread. */
void rendezvous_begin(struct vqp *v);

/* The QP is destroyed, or RESET: forgets it. Any thread but the background thread; waits until it
 * is done. */
void rendezvous_end(struct vqp *v);

/* Something that connections wait for may have come: looks at once. */
void rendezvous_wake(void);

/* A key that we look for in the rendezvous has this value, or is gone (NULL). */
void rendezvous_published(const char *key, const void *value, size_t bytes);

/* A process has told its end of a connection, over this NIC of ours. */
void rendezvous_heard(const struct nic *nic, uint64_t nonce, const struct session_conn *c);

/* Rails of the device are not spare any more: their connections tell their peers of the twins. */
void rendezvous_rails_made(const struct vdev *dev);

/* The link of a NIC of ours is up again: who could not be told before may be now. */
void rendezvous_link_up(const struct nic *nic);

/* The address of a NIC of ours has changed, or it is known now whether its rq_psn is live: all who
 * must know are told. */
void rendezvous_nic_changed(const struct nic *nic);

/* The NIC may have other GIDs than before: twins whose GID is gone get another one, if there is one
 * of its kind, and their peers are told. */
void rendezvous_follow_gids(const struct nic *nic);

#endif
