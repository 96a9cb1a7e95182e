/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the peer was told of our keys on a backup rail, in this epoch (peer_keys.h is its side). The
 * value of an rkey may be used again after a deregistration: the peer is told that the key is gone,
 * and the program gets no such value back before the peer has said that it forgot it.
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
	uint64_t said_ns;   /* newest KEY_GONE without an answer; 0: none */
	_Atomic uint32_t n; /* read without the lock too */
	uint32_t room;
	struct exported_key *key;
};

/* Under vqp_enter. A new epoch: what was told before is of no use to anybody. */
void exported_keys_reset(struct exported_keys *t, uint32_t epoch, uint8_t rail);
void exported_keys_free(struct exported_keys *t);

/* Under vqp_enter: KEY_ASK, KEY_FORGOT. */
void exported_keys_asked(struct vqp *v, const struct shift_msg *m);
void exported_keys_forgotten(struct vqp *v, const struct shift_msg *m);

/* Says again what was not answered; at the deadline, ns (UINT64_MAX: never). */
void exported_keys_tick(struct vqp *v, uint64_t now);

#define EXPORTED_KEYS_AGAIN_NS 20000000ull

static inline uint64_t exported_keys_deadline(const struct exported_keys *t)
{
	return t->said_ns ? t->said_ns + EXPORTED_KEYS_AGAIN_NS : UINT64_MAX;
}

/* Under vqp_enter: a key of ours is gone, says so to the peer if it was told of it. */
void exported_keys_say_gone(struct vqp *v, uint32_t rkey);

/* Under vqp_enter: it is gone, and the peer has not said that it forgot it. */
bool exported_keys_remembered(struct vqp *v, uint32_t rkey);

/* Is there such a key on any connection? Any thread. */
bool exported_keys_any_unforgotten(void);

#endif
