/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Other processes of the job that we speak to before any of our connections has met one of theirs.
 * Each is one address handle on one of our NICs for one address of theirs, shared by all who speak,
 * and freed when nobody has spoken for a minute. Background thread.
 */
#ifndef SHIFT_SESSION_CONTACTS_H
#define SHIFT_SESSION_CONTACTS_H

#include "lib/nic/ctrl_link.h"

/* Sends a message from our NIC to the process with this nonce, which listens there. */
void contact_send(struct nic *nic, uint64_t nonce, const struct ctrl_link_addr *addr,
		  const struct shift_msg *m);

#endif
