/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Fuzzer of the reader of scenarios. A scenario that it accepts becomes command lines: only names,
 * options and values. Usage without libFuzzer: fuzz_scenario [runs [seed]]
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faultinject/scenario.h"
#include "tests/fuzz/mutate_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void check(const struct scenario *s)
{
	require(s->events > 0 && s->events <= SCENARIO_EVENTS_MAX);
	for (int i = 0; i < s->events; i++) {
		const struct scenario_event *e = s->event + i;

		require(e->at_ms >= 0 && (!i || e->at_ms >= e[-1].at_ms));
		require(!e->fault == !!*e->order);
		require(!e->fault || (e->count && !strcmp(e->words[0], e->fault->name)));
		require(*e->host != '-' && *e->process != '-' && *e->nic != '-');
		require(e->count < SCENARIO_WORDS_MAX);
	}
	for (int i = 0; i < s->expects; i++)
		require(s->expect[i].within_us >= 0 && *s->expect[i].text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct problem p = {0};
	struct scenario s;
	int status = scenario_parse((const char *)data, size, &s, &p);

	if (!status) {
		check(&s);
		scenario_free(&s);
		return 0;
	}
	/* "LINE: ..." */
	require(status == INJECT_BAD_USAGE && isdigit((unsigned char)*p.text) &&
		strchr(p.text, ':') && !s.event);
	return 0;
}

#ifndef SHIFT_LIBFUZZER
static const char good[] =
	"{\"name\": \"x\", \"about\": \"y\", \"without\": \"z\", \"hosts\": [\"a\", \"b\"],\n"
	" \"timeline\": [\n"
	"  {\"at\": \"1s\", \"fault\": \"loss\", \"host\": \"a\", \"nic\": \"mlx5_0\",\n"
	"   \"rate\": \"1%\", \"burst\": 5, \"for\": \"2s\"},\n"
	"  {\"at\": \"1.5s\", \"fault\": \"drop-larger\", \"size\": 1024, \"for\": \"2s\"},\n"
	"  {\"at\": \"2s\", \"do\": \"migrate\", \"nic\": \"mlx5_0\"},\n"
	"  {\"at\": \"3s\", \"fault\": \"sigstop\", \"process\": \"p\", \"for\": \"1s\"},\n"
	"  {\"at\": \"4s\", \"fault\": \"flap\", \"jitter\": true, \"count\": 3}],\n"
	" \"expect\": [\"failover within 100ms\", \"failback within 10s\", \"no-error\"]}\n";

static const char *const words[] = {"{",
				    "}",
				    "[",
				    "]",
				    "\"",
				    ",",
				    ":",
				    "null",
				    "true",
				    "-1",
				    "1e99",
				    "\"\"",
				    "\"at\"",
				    "\"fault\"",
				    "\"do\"",
				    "\"-x\"",
				    "\\",
				    "\n",
				    "\"timeline\": 1,",
				    NULL};

int main(int argc, char **argv)
{
	uint32_t runs = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 200000;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	static char text[4096];

	rng = seed * 0x9e3779b97f4a7c15u + 1;
	LLVMFuzzerTestOneInput((const uint8_t *)good, sizeof(good) - 1);
	for (uint32_t i = 0; i < runs; i++) {
		size_t len = sizeof(good) - 1;

		memcpy(text, good, len);
		for (uint32_t n = 1 + rnd(4); n; n--)
			len = mutate_text(text, len, sizeof(text), words);
		LLVMFuzzerTestOneInput((const uint8_t *)text, len);
	}
	printf("1..1\nok 1 - %" PRIu32 " mutated scenarios, seed %" PRIu64 "\n", runs, seed);
	return 0;
}
#endif
