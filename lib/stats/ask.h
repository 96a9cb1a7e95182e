/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The tools' end of a process's control socket (lib/verbs/control.h). */
#ifndef SHIFT_STATS_ASK_H
#define SHIFT_STATS_ASK_H

#include <stddef.h>

/*
 * Sends one line and waits for the answer, of which the text behind "ok " or "error " goes to
 * answer. 1: ok, 0: the process refused, or a negative errno: -ENOENT and -ECONNREFUSED if
 * there is no such socket or nobody behind it.
 */
int ask_process(const char *socket_path, const char *line, char *answer, size_t bytes,
		int timeout_ms);

#endif
