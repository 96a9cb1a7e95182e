/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The control socket of a process, PID.sock beside its statistics: shift-ctl and shift-inject talk
 * to the library there. A command is a line, and so is its answer, "ok TEXT" or "error TEXT":
 *
 *   ping | version | migrate NIC | failback [NIC] | qp-error QPN
 *
 * The mode of the socket is 0600, and only this user and root are served. Background thread only,
 * unless stated; no locks.
 */
#ifndef SHIFT_BASE_CONTROL_SOCKET_H
#define SHIFT_BASE_CONTROL_SOCKET_H

#include <stddef.h>
#include <stdint.h>

/*
 * What the commands do. They run on the background thread and must not wait for anything. Each
 * writes a line (without a newline, as of snprintf) for the person who asked: what happens now, or
 * what is wrong. They return 0, or a negative number if the answer is an error. A NULL pointer
 * means that the command is not possible here.
 */
struct control_calls {
	/* Moves all connections away from this NIC of ours, which will be taken out of service. It
	 * is no error if there are none, because many processes are asked. */
	int (*migrate)(const char *nic, char *answer, size_t bytes);
	/* Moves connections back to rail 0: all, or those whose rail 0 is this NIC. */
	int (*failback)(const char *nic, char *answer, size_t bytes);
	/* Moves the QP that carries the connection now to ERR, as a defect of the NIC would. qpn is
	 * the number of the program's QP. */
	int (*qp_error)(uint32_t qpn, char *answer, size_t bytes);
};

/* Opens the socket beside the statistics file of that path. calls must live on. 0 or a negative
 * errno. */
int control_open(const char *stats_path, const struct control_calls *calls);

/* Hangs up on all clients, closes and removes the socket. */
void control_close(void);

/* At the end of the process: only removes the socket's name. Any thread. Does nothing in the child
 * of a fork(). */
void control_remove(void);

#endif
