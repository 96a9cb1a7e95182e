/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A command on many hosts at the same time, by ssh. One thread. */
#ifndef SHIFT_DIAG_REMOTE_H
#define SHIFT_DIAG_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { REMOTE_ANSWER_BYTES = 256 << 20, REMOTE_SAID_BYTES = 160 };

struct remote {
	const char *host;
	char *text; /* its standard output, with a NUL behind it; NULL: none */
	size_t len;
	/* Why it has not answered: "" if it has. Its last line, or what we found. */
	char said[REMOTE_SAID_BYTES];

	/* while it runs */
	pid_t pid;
	int out, err;
	int64_t deadline_ms;
	size_t room;
};

/* A name that ssh does not take for an option, and that fits into a line. */
bool remote_is_host(const char *name);

/*
 * Runs command there, for a shell, on all n hosts, and waits until all have ended, or were ended,
 * each timeout_ms after its start. A command that failed has not answered. Nothing is asked of
 * the terminal (BatchMode). What is in .host must be set, and the rest zero. The caller frees each
 * .text.
 */
void remote_run(struct remote *all, size_t n, const char *command, int64_t timeout_ms);

#endif
