/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "common/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ESCAPE_BYTES = sizeof("\\xNN") - 1,
	JSON_ESCAPE_BYTES = sizeof("\\uNNNN") - 1,
	NO_CHARACTER = 0xfffd,
};

static bool is_printable(unsigned char c)
{
	return c >= 0x20 && c <= 0x7e;
}

const char *printable(char *buf, size_t size, const char *s)
{
	static const char digits[] = "0123456789abcdef";
	char *to = buf, *end = buf + size - 1;

	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (end - to < (is_printable(c) ? 1 : ESCAPE_BYTES))
			break;
		if (is_printable(c)) {
			*to++ = *s;
			continue;
		}
		*to++ = '\\';
		*to++ = 'x';
		*to++ = digits[c >> 4];
		*to++ = digits[c & 15];
	}
	*to = 0;
	return buf;
}

/* The character that begins at *s, of which more than ASCII is wanted; *s moves behind it. */
static uint32_t take_character(const unsigned char **s)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned char c = *(*s)++;
	int bytes = c >= 0xf0 && c < 0xf8 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
	uint32_t code = c & (0xffu >> (bytes + 1));

	if (c < 0x80)
		return c;
	if (bytes == 1 || c >= 0xf8)
		return NO_CHARACTER;
	for (int i = 1; i < bytes; i++) {
		if ((**s & 0xc0) != 0x80)
			return NO_CHARACTER;
		code = code << 6 | (*(*s)++ & 0x3fu);
	}
	if (code < least[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return NO_CHARACTER;
	return code;
}

static char *put_escape(char *to, uint32_t unit)
{
	return to + sprintf(to, "\\u%04x", (unsigned int)unit);
}

static char *put_character(char *to, uint32_t code)
{
	if (code < 0x10000)
		return put_escape(to, code);
	to = put_escape(to, 0xd800 + ((code - 0x10000) >> 10));
	return put_escape(to, 0xdc00 + ((code - 0x10000) & 0x3ff));
}

char *printable_json(const char *json)
{
	const unsigned char *s = (const unsigned char *)json;
	/* A byte makes at most one escape: a pair of them comes from four bytes. */
	char *text = json ? malloc(strlen(json) * JSON_ESCAPE_BYTES + 1) : NULL, *to = text;

	if (!text)
		return NULL;
	while (*s) {
		if (is_printable(*s) || *s == '\n' || *s == '\t')
			*to++ = (char)*s++;
		else
			to = put_character(to, take_character(&s));
	}
	*to = 0;
	return text;
}
