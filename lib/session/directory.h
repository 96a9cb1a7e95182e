/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Which processes of the job are behind a GID: the only thing that is in the rendezvous. A process
 * puts one record for each GID that its connections have on rail 0, and watches one prefix for each
 * GID that they are connected to, however many they are. A record bears a tag of the job's key
 * over its name and content. All else is said by messages. Background thread.
 */
#ifndef SHIFT_SESSION_DIRECTORY_H
#define SHIFT_SESSION_DIRECTORY_H

#include "kv/client.h"
#include "lib/nic/ctrl_link.h"

/* A process behind a GID, and where it listens there. */
struct process {
	struct process *next;
	uint64_t nonce;
	uint64_t number;    /* one that is found, or has moved, has a higher one than all before */
	bool other_version; /* of the protocol: it cannot be spoken to, and nothing else is known */
	struct ctrl_link_addr link;
};

/* A GID that is looked at. */
struct place {
	struct place *next; /* of the same hash */
	union ibv_gid gid;
	struct process *processes; /* by their numbers, ascending */
	unsigned int users;
	unsigned int others; /* processes of another version */
};

/* We are at that GID of a ready NIC of ours. May be called again and again. The job's key must be
 * known. */
void directory_enter(struct nic *nic, const union ibv_gid *gid);

/* The address of a NIC may have changed: puts what we have put again. */
void directory_refresh(void);

/* Looks at a GID from now on, until directory_leave() was called as often. NULL: no memory, or no
 * rendezvous. */
struct place *directory_look(const union ibv_gid *gid);
void directory_leave(struct place *p); /* NULL does nothing */

/* Is there somebody, and does nobody speak our version of the protocol? NULL: no. */
bool directory_only_other_version(const struct place *p);

/* The rendezvous says that a key has this value, or is gone (NULL). Returns the place where a
 * process is found by it, or has moved; NULL: nobody is to be told anything. */
struct place *directory_event(const char *key, const void *value, size_t bytes);

#endif
