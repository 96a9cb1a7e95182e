/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/kvd.h"
#include "lib/core/siphash.h"

static const char dead_prefix[] = "dead/";

uint64_t death_of_key(const char *key)
{
	const char *name = key + sizeof(dead_prefix) - 1;

	if (strncmp(key, dead_prefix, sizeof(dead_prefix) - 1) || strlen(name) != 16 ||
	    strspn(name, "0123456789abcdef") != 16)
		return 0;
	return strtoull(name, NULL, 16);
}

static uint64_t load_word(const uint8_t *p)
{
	uint64_t w = 0;

	for (int i = 0; i < 8; i++)
		w |= (uint64_t)p[i] << (8 * i);
	return w;
}

/* The number keeps the halves of a tag apart; the words keep them apart from all else that the key
 * authenticates, and the prefix from other jobs of the same key file. */
static uint64_t half_tag(const struct kvd *k, const char *key, int half)
{
	uint64_t words[2] = {load_word(k->session.job_key), load_word(k->session.job_key + 8)};
	char text[64 + sizeof(k->session.prefix) + KV_KEY_MAX];
	int n = snprintf(text, sizeof(text), "shift record of a death %d %s%s", half,
			 k->session.prefix, key);

	return shift_siphash(words, text, n);
}

void death_tag(const struct kvd *k, const char *key, char tag[DEATH_TAG_CHARS + 1])
{
	snprintf(tag, DEATH_TAG_CHARS + 1, "%016llx%016llx",
		 (unsigned long long)half_tag(k, key, 1), (unsigned long long)half_tag(k, key, 2));
}

bool death_is_proved(const struct kvd *k, const char *key, const void *value, size_t bytes)
{
	char tag[DEATH_TAG_CHARS + 1];
	unsigned char differs = 0;

	if (!k->session.has_key || bytes != DEATH_TAG_CHARS)
		return false;
	death_tag(k, key, tag);
	/* The time tells nothing of how much of a guess was right. */
	for (int i = 0; i < DEATH_TAG_CHARS; i++)
		differs |= (unsigned char)tag[i] ^ ((const unsigned char *)value)[i];
	return !differs;
}
