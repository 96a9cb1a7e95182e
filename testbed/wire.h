/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Lists of NUL-terminated strings, packed one behind the other: what FRAME_SETUP and FRAME_OPEN
 * carry. */
#ifndef SHIFT_TESTBED_WIRE_H
#define SHIFT_TESTBED_WIRE_H

#include <string.h>

#include "testbed/chan.h"

static inline void strings_put(struct buf *b, const char *s)
{
	buf_append(b, s, strlen(s) + 1);
}

/* The next string, or NULL at the end or where the last one is not terminated. */
static inline const char *strings_next(const uint8_t **at, const uint8_t *end)
{
	const uint8_t *s = *at, *nul = s < end ? memchr(s, 0, end - s) : NULL;

	if (!nul)
		return NULL;
	*at = nul + 1;
	return (const char *)s;
}

/*
 * FRAME_OPEN: this, then the strings: working directory, env_count of "K=V", argv_count of words.
 * timeout_ms 0: none. With tty the command gets a terminal of rows x columns.
 */
struct open_request {
	uint32_t timeout_ms;
	uint16_t env_count, argv_count;
	uint16_t rows, columns;
	uint8_t tty, reserved[3];
};

#endif
