/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* One question to a host's shift-kvd, for the commands that have no kv_client. Blocks. */
#ifndef SHIFT_KV_ASK_H
#define SHIFT_KV_ASK_H

#include <sys/types.h>

#include "kv/proto.h"

/*
 * Asks the daemon behind a socket: KV_STATUS, or KV_HOLD (it stays while this process lives, also
 * after exec). *text is the answer, its state as JSON, to be freed. 0 or a negative errno: -ENOENT
 * or -ECONNREFUSED: there is none; -EPERM: it is another user's; -ETIMEDOUT.
 *
 * *pid, unless pid is NULL: the daemon as the kernel knows it, by its number here; 0: it cannot be
 * seen from here.
 */
int kv_ask(const char *path, enum kv_type type, int timeout_ms, char **text, pid_t *pid);

#endif
