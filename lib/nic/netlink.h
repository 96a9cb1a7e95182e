/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Link events of netdevs, from rtnetlink. Background thread only. */
#ifndef SHIFT_NIC_NETLINK_H
#define SHIFT_NIC_NETLINK_H

#include <stdbool.h>

/*
 * Begin to listen (once; later calls do nothing). fn is called for a watched netdev whenever the
 * kernel says something of it, changed or not: up is set up by the administrator and with carrier;
 * one that is removed is down. 0 or negative errno.
 */
int netlink_start(void (*fn)(unsigned int ifindex, bool up));

/* Watch a netdev, and ask for its present state. One that this network namespace does not have is
 * never reported. At most 32. */
void netlink_watch(unsigned int ifindex);

#endif
