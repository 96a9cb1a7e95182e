/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Fuzzer of what shift-diag path reads, and of the engine behind it: the simulator's files and
 * shift-telemetry(5). Usage without libFuzzer: fuzz_telemetry [runs [seed]]
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/path.h"
#include "common/cli.h"
#include "tests/fuzz/mutate_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char fct[] = "1 2 1 1 2 10 10 100 0 50 40\n2 1 1 1 1 10 10 100 0 60 40\n"
			  "1 2 2 2 2 10 10 100 60 50 40\n### 1 2 11 11 100 5 50 40\n";
static const char topology[] = "4 2 3\n0 3\n1 0 1 1 0\n2 3 1 1 0\n0 3 1 1 0\n";
static const char pfc[] = "5 0 1 2 1\n40 0 1 2 0\n";
static const char blocks[] =
	"time 20\n\nsignal\n\nepoch now\n\ntraffic meter form port 1 to port 2\nb\n9\n\n"
	"port telemetry data for port 2\nh\n9 1 9\n\nflow telemetry data for port 2\nh\n"
	"1 0b000101 0b000201 10 10 17 0 1 5 8 1\n2 0b000101 0b000201 11 11 17 0 1 4 8 0\n\nend\n";
static const char json[] =
	"{\"record\":\"header\",\"format\":\"shift-telemetry\",\"version\":1,\"began\":\"1\"}\n"
	"{\"record\":\"link\",\"switch\":\"0\",\"port\":\"2\",\"peer_host\":\"9\",\"peer_port\":"
	"\"1\"}\n"
	"{\"record\":\"equal\",\"switch\":\"0\",\"ports\":[\"1\",\"2\"]}\n"
	"{\"record\":\"pause\",\"switch\":\"0\",\"port\":\"2\",\"t_ns\":4,\"end_ns\":90}\n"
	"{\"record\":\"meter\",\"t_ns\":4,\"switch\":\"0\",\"port\":\"2\",\"from_switch\":\"1\","
	"\"from_port\":\"1\",\"bytes\":7}\n"
	"{\"record\":\"port\",\"t_ns\":9,\"switch\":\"0\",\"port\":\"2\",\"packets\":4,"
	"\"depth_packets\":4,\"flows\":[{\"flow\":\"1:10>2:10\",\"packets\":4,\"depth_packets\":9}]"
	"}\n";

enum { PARTS = 5, PART_BYTES = 4096 };

static const char *const good[PARTS] = {fct, topology, pfc, blocks, json};

static void require(bool ok)
{
	if (!ok)
		abort();
}

static int said;

static void listen(const char *line)
{
	(void)line;
	said++;
}

static void run_engine(struct path_steps *s, struct telemetry *t)
{
	struct signature_limits limits = SIGNATURE_LIMITS;
	struct findings f = {0};
	struct path_graph g;
	int rank, step;
	double *r;

	path_steps_expect(s);
	telemetry_sort(t);
	if (path_graph_build(s, &g, &rank, &step)) {
		path_graph_free(&g);
		return;
	}
	require(g.critical_n > 0 && g.visits <= 4 * s->n);
	limits.window_ns = 1000;
	r = rate_flows(t, s, &g, limits.window_ns);
	for (size_t i = 0; i < t->flow_n; i++)
		require(r[i] >= 0 && !isnan(r[i]));
	signatures_find_all(t, &limits, 0, 100000, &f);
	free(r);
	findings_free(&f);
	path_graph_free(&g);
}

/* Each part is parsed; what is refused is said. */
static void read_parts(char *const *part)
{
	struct sim_topology *made = NULL;
	struct path_steps s = {0};
	struct telemetry t = {.last_line_counts = true};
	int failed = 0;

	said = 0;
	failed += path_parse_fct("fct", part[0], &s, &t) < 0;
	failed += sim_topology_parse("topology", part[1], &t, &made) < 0;
	failed += path_parse_pfc("pfc", part[2], made, &t) < 0;
	failed += path_parse_blocks("blocks", part[3], 0, made, &t) < 0;
	failed += path_parse_telemetry("json", part[4], &t) < 0;
	require(said >= failed);
	run_engine(&s, &t);
	sim_topology_free(made);
	path_steps_free(&s);
	telemetry_free(&t);
}

/* The first byte says which part the others are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *part[PARTS];

	cli_messages_to(listen);
	for (int i = 0; i < PARTS; i++) {
		bool is_it = size && data[0] % PARTS == i;
		size_t n = is_it ? size - 1 : strlen(good[i]);

		part[i] = malloc(n + 1);
		require(part[i]);
		memcpy(part[i], is_it ? (const char *)data + 1 : good[i], n);
		part[i][n] = 0;
	}
	read_parts(part);
	for (int i = 0; i < PARTS; i++)
		free(part[i]);
	return 0;
}

#ifndef SHIFT_LIBFUZZER
static const char *const words[] = {
	"\n",  " ",  "0",    "-1",     "18446744073709551615", "end", "now", "\"", "{", "}",
	"###", "17", "1e99", "time 1", "4294967295",	       NULL};

int main(int argc, char **argv)
{
	uint32_t runs = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 5000;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	static char text[PART_BYTES];

	rng = seed * 0x9e3779b97f4a7c15u + 1;
	LLVMFuzzerTestOneInput(NULL, 0);
	require(!said);
	for (uint32_t i = 0; i < runs; i++) {
		uint32_t which = rnd(PARTS);
		size_t len = strlen(good[which]);

		text[0] = (char)which;
		memcpy(text + 1, good[which], len);
		for (uint32_t n = 1 + rnd(4); n && len > 31; n--)
			len = mutate_text(text + 1, len, sizeof(text) - 1, words);
		LLVMFuzzerTestOneInput((const uint8_t *)text, len + 1);
	}
	printf("1..1\nok 1 - %" PRIu32 " mutated inputs of path, seed %" PRIu64 "\n", runs, seed);
	return 0;
}
#endif
