/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Commands of a client in its guest: faults, as a network makes them. */
#ifndef TESTS_CLIENTS_SHELL_H
#define TESTS_CLIENTS_SHELL_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* The client's: says what it could not do, and ends. */
_Noreturn void fail(const char *what);

__attribute__((format(printf, 1, 2))) static inline void shell(const char *fmt, ...)
{
	char command[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	if (system(command))
		fail(command);
}

#endif
