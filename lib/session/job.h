/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * This process as a member of its job: its nonce, the job's key, and its connection to this host's
 * shift-kvd, which says when a peer's process has died. Background thread, unless stated.
 */
#ifndef SHIFT_SESSION_JOB_H
#define SHIFT_SESSION_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "kv/client.h"

struct job_calls {
	void (*key_known)(void);	    /* the job's key has come */
	void (*published)(const char *key); /* somebody has published something that we look for */
};

/* A number that no other process of the job has. Drawn once, before anything else here; any thread
 * after that. */
void job_draw_nonce(void);
uint64_t job_nonce(void);

/* Connects to shift-kvd, now and whenever it comes. calls must live on. */
void job_join(const struct job_calls *calls);

/* At a clean exit: peers are not told of a death. */
void job_leave(void);

struct kv_client *job_client(void);	/* NULL: not joined, or left */
const uint64_t *job_key_if_known(void); /* two words; NULL: it has not come yet */
bool job_is_full(void); /* shift-kvd has refused something of ours, for want of room */

#endif
