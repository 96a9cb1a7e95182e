/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The agent: what runs in a host. boot.c makes a bare kernel a host; jobs.c runs commands in it. */
#ifndef SHIFT_TESTBED_AGENT_H
#define SHIFT_TESTBED_AGENT_H

#include <poll.h>
#include <signal.h>

#include "testbed/chan.h"

enum { AGENT_MAX_JOBS = 64 };

/*
 * Turns the initramfs into a host: modules, the machine's root file system under an overlay.
 * Ends the process (and so the guest) with a message on the console if that fails.
 * Returns the descriptor of the command channel. With shift.probe on the kernel's command line
 * it only says that the kernel runs, and powers off.
 */
int boot_host(void);

/* Mounts share number i of the testbed at the path it has on the machine. 0 or -errno. */
int boot_mount_share(int i, const char *path);

/* A root shell on the console, started by the first key. */
void boot_console_shell(void);

/* Runs the command of a FRAME_OPEN; its answers go to the channel. */
void jobs_open(struct chan *c, uint16_t stream, const uint8_t *payload, size_t bytes);

/* Hands a client's frame to its job; frames of a job that has ended meanwhile are dropped. */
void jobs_frame(struct chan *c, const struct frame *f, const uint8_t *payload);

/* Adds what the jobs wait for; returns how many entries of p (room for 3 * AGENT_MAX_JOBS). */
int jobs_poll(struct pollfd *p);

/* Milliseconds until a job's deadline, -1 if there is none. */
int jobs_timeout_ms(void);

/* Moves data and deadlines on; call after every poll. */
void jobs_run(struct chan *c);

/* Reaps all children that have ended, ours and (as PID 1) orphans. */
void jobs_reap(void);

/* The client side is gone for good: kill every command. */
void jobs_kill_all(void);

/* Restores the signals that the agent has blocked, in each child. */
void child_restore_signals(void);

#endif
