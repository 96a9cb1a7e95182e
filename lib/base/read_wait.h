/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * To wait for a descriptor of ours where the program expects a read(2) that blocks: signals and
 * cancellation are as with that.
 *
 * The kernel restarts a read that is interrupted by a handler with SA_RESTART, which is what
 * signal(3) sets, but it never restarts poll(2), and which handler has run nobody knows. So the
 * signals whose handlers end a read are blocked while the thread sleeps, and a signalfd wakes it;
 * what interrupts poll then is one of the others.
 */
#ifndef SHIFT_BASE_READ_WAIT_H
#define SHIFT_BASE_READ_WAIT_H

/* 0: fd is readable, or has an error. -1: with errno, EINTR where a read would have been
 * interrupted. Handlers have run when this returns. A cancellation point. Any thread. */
int read_wait(int fd);

#endif
