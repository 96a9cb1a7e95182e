/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <string.h>

#include "cmd/shift-bench/fault.h"

enum { TOOL_MS = 60000, WORDS = 24 };

static const struct fault faults[] = {
	{"down:a", HOST_A, WORDS_OF("down")},
	{"down:b", HOST_B, WORDS_OF("down")},
	{"pull:a", HOST_A, NULL},
	{"pull:b", HOST_B, NULL},
	{"blackhole:b", HOST_B, WORDS_OF("blackhole", "--direction", "in")},
	{"ack-drop:b", HOST_B, WORDS_OF("ack-drop", "--direction", "out")},
	{"blackhole:a", HOST_A, WORDS_OF("blackhole", "--direction", "both")},
	{"loss:b", HOST_B, WORDS_OF("loss", "--rate", "20%", "--direction", "in")},
	{NULL, HOST_A, NULL},
};

const struct fault *fault_named(const char *name)
{
	for (const struct fault *f = faults; f->name; f++)
		if (!strcmp(f->name, name))
			return f;
	return NULL;
}

bool fault_start(struct run *run, const struct hosts *h, const struct fault *f, long after_ms,
		 long for_ms)
{
	const char *words[WORDS];
	size_t n = 0;

	words[n++] = h->shift_inject;
	for (size_t i = 0; f->words[i]; i++)
		words[n++] = f->words[i];
	words[n++] = "--nic";
	words[n++] = h->nic[f->host];
	words[n++] = "--after";
	words[n++] = format_text("%ldms", after_ms);
	if (for_ms) {
		words[n++] = "--for";
		words[n++] = format_text("%ldms", for_ms);
	}
	words[n++] = "--json";
	words[n] = NULL;
	return run_start(run, h, f->host, words, for_ms ? TOOL_MS : RUN_FOR_EVER_MS);
}
