/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A machine of the testbed: a QEMU guest or a real one reached by ssh. The supervisor sees both as
 * a process with a command channel; only the cables differ.
 */
#ifndef SHIFT_TESTBED_MACHINE_H
#define SHIFT_TESTBED_MACHINE_H

#include "testbed/testbed.h"

#define QEMU "qemu-system-x86_64"

struct machine {
	const struct plan *plan;
	int number; /* 0.. */
	pid_t pid;  /* 0: ended */
	struct chan agent;
	bool greeted, ready;
	int qmp, console; /* -1 for a real machine */
	int console_log;
	char console_path[PATH_MAX];
	size_t console_bytes;
	char failure[512]; /* why it is not there; empty while it is */
};

/*
 * The cables of all guests: each end is one descriptor, given to a QEMU. [0] is the management
 * network, [1 + r] rail r; the second index is the machine.
 */
struct cables {
	int end[1 + MAX_RAILS][MAX_HOSTS];
};

/* Packs the agent (as init) behind the modules of kernel_dir (NULL: none) into OUT. 0 or a status.
 */
int build_initrd(const char *kernel_dir, const char *out);

/* Starts guest m. Its ends of the cables are closed here. 0 or -errno. */
int qemu_start(struct machine *m, const struct cables *cables, const char *initrd);

/* Pulls or plugs rail r's cable at guest m: carrier changes, packets stop. 0 or -errno. */
int qemu_cable(struct machine *m, int rail, bool up);

/* Starts the agent on a real machine. 0 or -errno. */
int ssh_start(struct machine *m);

/* The agent's first task: script and words for FRAME_SETUP. */
void machine_setup(const struct machine *m, struct buf *words);

/* In a new child: its own process group and signals, and it ends when the supervisor does. */
void machine_child(pid_t supervisor);

/* Kills it and waits for it. */
void machine_stop(struct machine *m);

#endif
