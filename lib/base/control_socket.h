/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The control socket of a process, PID.sock beside its statistics: shift-ctl and shift-inject talk
 * to the library there. One command per line, one line of answer, "ok TEXT" or "error TEXT":
 *
 *   ping | version | migrate NIC | failback [NIC] | qp-error QPN
 *
 * Mode 0600, and only this user and root are served. Background thread only, unless stated.
 */
#ifndef SHIFT_BASE_CONTROL_SOCKET_H
#define SHIFT_BASE_CONTROL_SOCKET_H

#include <stddef.h>
#include <stdint.h>

/*
 * What the commands do: on the background thread, without waiting for anything. They write a line
 * (without a newline, as of snprintf) for who asked: "2 connections move", or what is wrong. 0, or
 * negative: the answer is an error. NULL: not possible here.
 */
struct control_calls {
	/* Connections are to leave this NIC of ours: it will be taken out of service. That there
	 * are none is no error: many processes are asked. */
	int (*migrate)(const char *nic, char *answer, size_t bytes);
	/* Connections go home to rail 0; nic: only those whose rail 0 that is, or NULL. */
	int (*failback)(const char *nic, char *answer, size_t bytes);
	/* The QP that carries the connection of the program's QP number now is put into ERR, as
	 * a defect of the NIC would. */
	int (*qp_error)(uint32_t qpn, char *answer, size_t bytes);
};

/* stats_path: that of stats.h. calls must live on. 0 or a negative errno. Uses bg_watch(). */
int control_open(const char *stats_path, const struct control_calls *calls);

/* Hangs up, closes and removes the socket. */
void control_close(void);

/* Any thread, at the end of the process: only removes the name. Not in a child of fork(). */
void control_remove(void);

#endif
