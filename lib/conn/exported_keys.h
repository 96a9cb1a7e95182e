/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the peer was told of our keys on a backup rail, in this epoch (doc/protocol.md, rule 23;
 * peer_keys.h is the peer's side). A registration may return the value of an rkey again after a
 * deregistration. So the peer is told that the key is gone (KEY_GONE), and the program does not get
 * the value back before the peer has said that it forgot it (KEY_FORGOT).
 *
 * Any thread. All functions are called between vqp_enter() and vqp_leave(), unless stated.
 */
#ifndef SHIFT_CONN_EXPORTED_KEYS_H
#define SHIFT_CONN_EXPORTED_KEYS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/core/msg.h"

struct vqp;
struct nic;

struct exported_keys {
	uint32_t epoch;
	uint8_t rail;
	uint32_t serial;
	uint64_t said_ns;   /* when the newest KEY_GONE without an answer was sent; 0: none */
	_Atomic uint32_t n; /* also read without the lock */
	uint32_t room;	    /* entries that `key` has memory for */
	struct exported_key *key;
};

/* A new epoch begins: forgets all keys, as the peer does. */
void exported_keys_reset(struct exported_keys *t, uint32_t epoch, uint8_t rail);

/* Frees the memory inside. The connection is over: no lock. */
void exported_keys_free(struct exported_keys *t);

/* The peer's messages KEY_ASK and KEY_FORGOT. */
void exported_keys_asked(struct vqp *v, const struct shift_msg *m);
void exported_keys_forgotten(struct vqp *v, const struct shift_msg *m);

/* Sends every KEY_GONE without an answer again. To be called at the deadline, ns (UINT64_MAX:
 * never). */
void exported_keys_tick(struct vqp *v, uint64_t now);

#define EXPORTED_KEYS_AGAIN_NS 20000000ull

static inline uint64_t exported_keys_deadline(const struct exported_keys *t)
{
	return t->said_ns ? t->said_ns + EXPORTED_KEYS_AGAIN_NS : UINT64_MAX;
}

/* A key of ours is gone: tells the peer, if the peer was told the key. */
void exported_keys_say_gone(struct vqp *v, uint32_t rkey);

/* Is the key gone, and the peer has not said yet that it forgot it? */
bool exported_keys_remembered(struct vqp *v, uint32_t rkey);

/* Is there such a key on any connection? Any thread, no lock. */
bool exported_keys_any_unforgotten(void);

#endif
