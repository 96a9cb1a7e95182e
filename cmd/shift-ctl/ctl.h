/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-ctl: what its commands share. */
#ifndef SHIFT_CTL_H
#define SHIFT_CTL_H

#include <stdbool.h>

#include "cmd/live/live.h"

/* Documented in shift-ctl(1). */
enum exit_status {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_BAD_USAGE = 2,
	EXIT_NONE = 3,
};

struct ctl_options {
	struct live_select which;
	const char *nic; /* NULL: none was named */
	bool json, follow, all;
};

/*
 * --job, --pid, --json and --help for every command; allowed: "f" --follow, "a" --all, "n"
 * --nic. Ends the process on anything else.
 */
void ctl_options_parse(struct ctl_options *o, const char *allowed, const char *text, int argc,
		       char **argv);

/* Sends a line to every running process, and prints the answers. Returns an exit status. */
int ask_all(const struct ctl_options *o, const char *line);

int cmd_status(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_migrate(int argc, char **argv);
int cmd_failback(int argc, char **argv);

#endif
