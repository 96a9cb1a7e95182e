/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Whose process listens at a port of this host, as /proc/net/tcp and tcp6 tell. No state. */
#ifndef SHIFT_KV_LISTENER_H
#define SHIFT_KV_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

bool address_is_loopback(const struct sockaddr *a);

/* Is that an address of this host? */
bool address_is_here(const struct sockaddr *a);

/*
 * True: that port is not to be believed, as another user than this one and root listens at it, or
 * as nobody can be seen to; writes why. False also where the address is another host's. address: in
 * numbers, without brackets.
 */
bool listener_is_refused(char *why, size_t bytes, const char *address, const char *port);

#endif
