/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What our end of a connection is called, on each of its NICs. Each answer takes several system
 * calls, and a program makes its connections by the hundred, at the moment when it has most to do
 * itself. So an answer is good for 50 ms, unless something has happened at the NIC since. What a
 * NIC does not have is looked for each time. Background thread.
 */
#ifndef SHIFT_SESSION_OWN_ADDRESS_H
#define SHIFT_SESSION_OWN_ADDRESS_H

#include "lib/nic/nic.h"

/* The GID at that index: 0, or a negative errno. */
int own_gid_at(const struct nic *nic, int index, struct nic_gid *gid);

/* The P_Key at that index of that port, by its value; 0 if it cannot be read. */
__be16 own_pkey_at(const struct nic *nic, uint8_t port, int index);

/* Where a NIC has that P_Key, and the GID for a twin of a QP with the GID `like`: the index, or a
 * negative errno. */
int own_pkey_index(const struct nic *nic, __be16 pkey);
int own_gid_for_twin(const struct nic *nic, const struct nic_gid *like, struct nic_gid *gid);

#endif
