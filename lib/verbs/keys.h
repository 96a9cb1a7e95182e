/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The peer's keys on a backup rail: asked of the peer over the control link, kept for one epoch, or
 * until the peer says that one is gone (DESIGN 4.3, Keys; told.h is the peer's side). All under
 * vqp_enter.
 */
#ifndef SHIFT_VERBS_KEYS_H
#define SHIFT_VERBS_KEYS_H

#include "lib/verbs/vobj.h"

struct keys *keys_new(void);
void keys_free(struct keys *k);

/* A new epoch: what was known is not. */
void keys_reset(struct keys *k, uint32_t epoch, uint8_t rail);

/* 0 and the twin's rkey; -ENOENT: the peer has no such MR; -EAGAIN: asked for, vqp_pump() will be
 * called again; -ENOMEM. */
int keys_get(struct vqp *v, uint32_t rkey, uint32_t *twin);

/* KEY and KEY_GONE. */
void keys_message(struct vqp *v, const struct shift_msg *m);

/* Asks again what was not answered; to be called at the deadline, ns (UINT64_MAX: never). */
void keys_tick(struct vqp *v, uint64_t now);
uint64_t keys_deadline(const struct keys *k);

#endif
