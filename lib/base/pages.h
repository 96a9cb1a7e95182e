/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Memory of which only what is used takes room: it comes from the kernel as it is touched, page by
 * page. For what is large and may never be needed. Two system calls to get it; any thread.
 */
#ifndef SHIFT_BASE_PAGES_H
#define SHIFT_BASE_PAGES_H

#include <stddef.h>

/* It begins with a cache line, and holds zeros. NULL: there is no memory, errno says why. */
void *pages_get(size_t bytes);

/* The same number of bytes; NULL is none. */
void pages_put(void *memory, size_t bytes);

#endif
