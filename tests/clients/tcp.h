/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Shared by the clients: the TCP connection over which two sides agree. */
#ifndef TESTS_CLIENTS_TCP_H
#define TESTS_CLIENTS_TCP_H

#include <stdbool.h>
#include <stddef.h>

/* Connects to HOST, which may still be starting, or waits for one that connects (HOST is NULL).
 * Ends the process with status 1 and a message that begins with the name of the program if that
 * fails. */
int tcp_open(const char *program, const char *host, const char *port);

/* All of it. False, with errno set, when the peer has left. */
bool tcp_send(int fd, const void *bytes, size_t n);
bool tcp_receive(int fd, void *bytes, size_t n);

/* Has the peer said something, or left? */
bool tcp_pending(int fd, int timeout_ms);

/* Has it left? What it has said before stays to be received. */
bool tcp_left(int fd);

#endif
