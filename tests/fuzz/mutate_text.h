/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Changes of a text in JSON, where no libFuzzer makes them. */
#ifndef SHIFT_FUZZ_MUTATE_TEXT_H
#define SHIFT_FUZZ_MUTATE_TEXT_H

#include <stddef.h>
#include <string.h>

#include "tests/fuzz/rnd.h"

/* A byte or a digit changed, one of the words (they end with NULL) or a piece of the text put in, a
 * piece left out. The text has more than 30 bytes. Returns its length. */
static inline size_t mutate_text(char *text, size_t len, size_t room, const char *const *words)
{
	size_t at = rnd((uint32_t)len), n = 1 + rnd(20);
	uint32_t words_n = 0;
	const char *word;

	while (words[words_n])
		words_n++;
	word = words[rnd(words_n)];
	switch (rnd(5)) {
	case 0: text[at] = (char)rnd(256); return len;
	case 1: text[at] = "0123456789abcdef"[rnd(16)]; return len;
	case 2: word = text + rnd((uint32_t)len - 30); break;
	case 3:
		n = n < len - at ? n : len - at;
		memmove(text + at, text + at + n, len - at - n);
		return len - n;
	default: n = strlen(word); break;
	}
	if (len + n >= room)
		return len;
	memmove(text + at + n, text + at, len - at);
	memmove(text + at, word, n);
	return len + n;
}

#endif
