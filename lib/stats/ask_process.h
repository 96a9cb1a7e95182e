/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The tools' end of a process's control socket. For any thread, no lock; blocks up to timeout_ms.
 */
#ifndef SHIFT_STATS_ASK_PROCESS_H
#define SHIFT_STATS_ASK_PROCESS_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Sends one line and waits for the answer. The text behind its "ok " or "error " goes to answer; it
 * may contain anything. owner: the user whose socket it must be (lib/stats/places.h). Returns 1:
 * ok; 0: the process refused; or a negative errno: -ENOENT: there is no such socket, -ECONNREFUSED:
 * no process listens there, -EPERM: it, or who listens, is another user's, -ENOTSOCK: it is a link,
 * or no socket. Nothing was sent then.
 */
int ask_process(uid_t owner, const char *socket_path, const char *line, char *answer, size_t bytes,
		int timeout_ms);

#endif
