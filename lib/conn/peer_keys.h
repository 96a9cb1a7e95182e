/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The peer's keys on a backup rail. They are asked of the peer over the control link, and kept for
 * one epoch, or until the peer says that one is gone (doc/protocol.md, rule 23; exported_keys.h is
 * the peer's side). Any thread; all functions are called between vqp_enter() and vqp_leave().
 */
#ifndef SHIFT_CONN_PEER_KEYS_H
#define SHIFT_CONN_PEER_KEYS_H

#include "lib/conn/vqp.h"

/* The caller owns it. NULL: no memory. These two need no lock. */
struct peer_keys *peer_keys_new(void);
void peer_keys_free(struct peer_keys *k);

/* A new epoch begins: forgets all keys. */
void peer_keys_reset(struct peer_keys *k, uint32_t epoch, uint8_t rail);

/* Translates an rkey of the peer to the key on this rail. 0; -ENOENT: the peer has no such MR;
 * -EAGAIN: the peer was asked, and its answer makes vqp_leave() call repost_pump() again; -ENOMEM.
 */
int peer_keys_get(struct vqp *v, uint32_t rkey, uint32_t *twin);

/* The peer's messages KEY and KEY_GONE. */
void peer_keys_message(struct vqp *v, const struct shift_msg *m);

/* Asks again what was not answered. To be called at the deadline, ns (UINT64_MAX: never). */
void peer_keys_tick(struct vqp *v, uint64_t now);
uint64_t peer_keys_deadline(const struct peer_keys *k);

#endif
