/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-bench/verbs_client/client.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

struct client client = {.gid_index = 1, .wrs = 200000, .settle_us = 0};

static const char usage[] =
	"usage: verbs_client --pattern NAME | --mix SEED | --controls [options]\n"
	"A part of shift-bench(1), which calls it.\n"
	"\n"
	"      --device NAME     the NIC (the first)\n"
	"      --gid-index N     of its GID (1)\n"
	"      --elsewhere       on the null provider: the peer has another address\n"
	"      --wrs N           work requests, about (200000); --controls: rounds\n"
	"      --qps N           QPs, not as many as the pattern says\n"
	"      --counting        for callgrind: threads take turns\n"
	"      --settle-us N     and completions are given that time, outside of what is counted\n";

void client_fail(const char *what)
{
	int err = errno;

	if (err)
		die(1, "%s failed: %s", what, strerror(err));
	die(1, "%s failed", what);
}

void client_print(const char *name, double value)
{
	printf("%s %.10g\n", name, value);
}

/* splitmix64 */
uint64_t client_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static long number(const char *option, const char *text, long min, long max)
{
	long n = parse_number(text, min, max);

	if (n < 0)
		die(2, "%s: %s is no number from %ld to %ld", option, text, min, max);
	return n;
}

static const struct option options[] = {{"pattern", required_argument, NULL, 'p'},
					{"mix", required_argument, NULL, 'm'},
					{"controls", no_argument, NULL, 'c'},
					{"device", required_argument, NULL, 'd'},
					{"gid-index", required_argument, NULL, 'x'},
					{"elsewhere", no_argument, NULL, 'e'},
					{"wrs", required_argument, NULL, 'n'},
					{"qps", required_argument, NULL, 'q'},
					{"counting", no_argument, NULL, 'C'},
					{"settle-us", required_argument, NULL, 's'},
					{"help", no_argument, NULL, 'h'},
					{0}};

struct wanted {
	struct verbs_pattern pattern;
	uint64_t seed;
	int what; /* the option's letter */
};

static void parse_pattern(struct wanted *w, const char *name)
{
	const struct verbs_pattern *p = verbs_pattern_find(name);

	if (!p)
		die(2, "there is no pattern %s", name);
	w->pattern = *p;
}

static void parse_option(struct wanted *w, int c)
{
	if (c == 'p' || c == 'm' || c == 'c')
		w->what = c;
	if (c == 'p')
		parse_pattern(w, optarg);
	else if (c == 'm')
		w->seed = (uint64_t)number("--mix", optarg, 0, LONG_MAX);
	else if (c == 'd')
		client.device = optarg;
	else if (c == 'x')
		client.gid_index = (int)number("--gid-index", optarg, 0, 255);
	else if (c == 'e')
		client.elsewhere = true;
	else if (c == 'n')
		client.wrs = (uint64_t)number("--wrs", optarg, 1, 1000000000);
	else if (c == 'q')
		w->pattern.qps = (uint32_t)number("--qps", optarg, 1, VERBS_QPS_MAX);
	else if (c == 'C')
		client.counting = true;
	else if (c == 's')
		client.settle_us = (uint32_t)number("--settle-us", optarg, 0, 1000000);
	else if (c == 'h')
		print_and_exit(usage);
	else if (c != 'c')
		exit(2);
}

int main(int argc, char **argv)
{
	struct wanted w = {0};
	int c;

	cli_begin("shift-bench", 1);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		parse_option(&w, c);
	if (!w.what || optind < argc)
		die(2, "verbs_client: one of --pattern, --mix, --controls, and nothing else");
	errno = 0;
	if (w.what == 'p')
		client_pattern(&w.pattern);
	else if (w.what == 'm')
		client_mix(w.seed);
	else
		client_controls();
	client_end_threads();
	return fflush(stdout) ? 1 : 0;
}
