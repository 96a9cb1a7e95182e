/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Link and address events of netdevs, from rtnetlink. Background thread only; no locks. */
#ifndef SHIFT_NIC_NETLINK_H
#define SHIFT_NIC_NETLINK_H

#include <stdbool.h>

/*
 * Begins to listen; later calls do nothing. fn is called for a watched netdev whenever the kernel
 * says something of it, changed or not. `up` means: set up by the administrator, and with carrier.
 * A netdev that is removed is down. `address` is called when an address of a watched netdev comes
 * or goes. 0 or a negative errno.
 */
int netlink_start(void (*fn)(unsigned int ifindex, bool up), void (*address)(unsigned int ifindex));

/* Watches a netdev, and asks for its present state. A netdev that is not in this network namespace
 * is never reported. At most 32 are watched. */
void netlink_watch(unsigned int ifindex);

#endif
