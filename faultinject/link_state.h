/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The state of a link, saved in the journal (step "link") and restored from there. */
#ifndef SHIFT_INJECT_LINK_STATE_H
#define SHIFT_INJECT_LINK_STATE_H

#include "faultinject/inject.h"

struct link_set;
struct nlmsghdr;

enum keep {
	KEEP_MTU,	 /* nothing else is changed */
	KEEP_ALL,	 /* up or down, MTU, addresses, routes, neighbours */
	KEEP_FOR_RETURN, /* the same, of a netdev that goes with its driver, and has another number
			    when it is back */
};

/* Writes the step of the journal. remove: addresses that undo must delete first, or NULL. */
int link_state_keep(struct injection *in, enum keep what, const struct cJSON *remove,
		    struct problem *p);

/* That step, if it is the first one. NULL: there is none. */
const struct cJSON *link_state_kept(const struct injection *in);

/* All but the link's own state. INJECT_NOT_UNDONE: not all of it. */
int link_addrs_restore(const struct cJSON *step, struct problem *p);

/* Its addresses, routes and neighbours. NULL and a negative errno: they cannot be read. */
struct cJSON *link_addrs_read(const struct link_set *links, bool *has_nexthops, int *err);

/* The kernel's messages as the journal has them: in hexadecimal. */
void message_add(struct cJSON *list, const struct nlmsghdr *h);
/* NULL: not one of these. To be freed. */
struct nlmsghdr *message_of(const struct cJSON *item);

#endif
