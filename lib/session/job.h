/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * This process as a member of its job: its nonce, the job's key, and its connection to this host's
 * shift-kvd, which also tells when a peer's process has died. Background thread, unless stated; no
 * locks held.
 */
#ifndef SHIFT_SESSION_JOB_H
#define SHIFT_SESSION_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "kv/client.h"

struct job_calls {
	void (*key_known)(void); /* the job's key has come */
	/* A key that we look for has this value, or is gone (NULL). */
	void (*published)(const char *key, const void *value, size_t bytes);
	/* A process is said to be dead. Once for each, until job_refute_death(). */
	void (*died)(uint64_t nonce);
};

/* Draws the nonce, a random number that no other process of the job has. Once, before anything else
 * here. */
void job_draw_nonce(void);

/* The nonce; 0: not drawn yet. Any thread. */
uint64_t job_nonce(void);

/* Connects to shift-kvd, and again whenever the connection is lost. calls must live on. */
void job_join(const struct job_calls *calls);

/* At a clean exit: shift-kvd then does not report a death to the peers. */
void job_leave(void);

/* The client of shift-kvd, which stays job.c's; NULL: not joined, or left. */
struct kv_client *job_client(void);

/* The job's key, two words; NULL: it has not come yet. */
const uint64_t *job_key_if_known(void);

/* Nothing more follows from the report that it is dead: the next such report is passed on, too. */
void job_refute_death(uint64_t nonce);

/* Has shift-kvd refused something of ours because it has no room? Until it has some again: after
 * job_has_room(), or a new connection to it. */
bool job_is_full(void);
void job_has_room(void);

#endif
