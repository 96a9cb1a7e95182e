/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/collsim/collsim.h"

static const char help[] =
	"usage: collsim --case NAME --seed N --out DIR [OPTION]...\n"
	"A simulated training job with a fault: what its processes record, and what was wrong.\n"
	"  --case NAME      which fault, in which job; --list has them\n"
	"  --random         the case that the seed chooses\n"
	"  --healthy        the same job without the fault\n"
	"  --seed N         default 1\n"
	"  --ranks N        default: as many as the case likes\n"
	"  --iterations N   length of the program; default: as the case likes\n"
	"  --no-epochs      no epochs of traffic: much smaller files\n"
	"  --epoch NS       length of an epoch; default 32000\n"
	"  --no-telemetry   nothing from switches\n"
	"  --hold MS        a job that hangs is recorded for so long; default 30000\n"
	"  --clock NS       clocks of hosts are wrong by so much at most; default 50000\n"
	"  --out DIR        where to write RANK.records, truth.json, and what switches say\n"
	"  --list           the cases\n"
	"  --help\n";

enum {
	OPT_CASE = 1,
	OPT_RANDOM,
	OPT_HEALTHY,
	OPT_SEED,
	OPT_RANKS,
	OPT_ITERATIONS,
	OPT_NO_EPOCHS,
	OPT_EPOCH,
	OPT_NO_TELEMETRY,
	OPT_HOLD,
	OPT_CLOCK,
	OPT_OUT,
	OPT_LIST,
	OPT_HELP
};

static const struct option options[] = {{"case", required_argument, NULL, OPT_CASE},
					{"random", no_argument, NULL, OPT_RANDOM},
					{"healthy", no_argument, NULL, OPT_HEALTHY},
					{"seed", required_argument, NULL, OPT_SEED},
					{"ranks", required_argument, NULL, OPT_RANKS},
					{"iterations", required_argument, NULL, OPT_ITERATIONS},
					{"no-epochs", no_argument, NULL, OPT_NO_EPOCHS},
					{"epoch", required_argument, NULL, OPT_EPOCH},
					{"no-telemetry", no_argument, NULL, OPT_NO_TELEMETRY},
					{"hold", required_argument, NULL, OPT_HOLD},
					{"clock", required_argument, NULL, OPT_CLOCK},
					{"out", required_argument, NULL, OPT_OUT},
					{"list", no_argument, NULL, OPT_LIST},
					{"help", no_argument, NULL, OPT_HELP},
					{0}};

static uint64_t number(const char *name, const char *text, uint64_t least, uint64_t most)
{
	char *end;
	uint64_t n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || n < least || n > most) {
		fprintf(stderr, "collsim: %s: %s: it wants a number from %llu to %llu\n", name,
			text, (unsigned long long)least, (unsigned long long)most);
		exit(2);
	}
	return n;
}

static void list(void)
{
	for (int i = 0; collsim_case_name(i); i++)
		printf("%-28s %s\n", collsim_case_name(i), collsim_case_text(i));
}

/* Returns where to write. */
static const char *read_arguments(int argc, char **argv, struct collsim_options *o)
{
	const char *out = NULL;
	bool random = false;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case OPT_CASE: o->name = optarg; break;
		case OPT_RANDOM: random = true; break;
		case OPT_HEALTHY: o->healthy = true; break;
		case OPT_SEED: o->seed = number("--seed", optarg, 0, UINT64_MAX); break;
		case OPT_RANKS: o->ranks = number("--ranks", optarg, 2, 64); break;
		case OPT_ITERATIONS: o->iterations = number("--iterations", optarg, 1, 1000); break;
		case OPT_NO_EPOCHS: o->no_epochs = true; break;
		case OPT_EPOCH: o->epoch_ns = number("--epoch", optarg, 1000, 1000000000); break;
		case OPT_NO_TELEMETRY: o->no_telemetry = true; break;
		case OPT_HOLD: o->hold_ns = number("--hold", optarg, 1, 86400000) * 1000000; break;
		case OPT_CLOCK: o->clock_ns = number("--clock", optarg, 0, 5000000); break;
		case OPT_OUT: out = optarg; break;
		case OPT_LIST: list(); exit(0);
		case OPT_HELP: fputs(help, stdout); exit(0);
		default: exit(2);
		}
	}
	if (optind < argc || !out || random == (o->name != NULL)) {
		fprintf(stderr, "collsim: it wants --out DIR, and --case NAME or --random; see "
				"--help\n");
		exit(2);
	}
	return out;
}

int main(int argc, char **argv)
{
	struct collsim_options o = {.seed = 1, .clock_ns = REC_NONE};
	const char *out = read_arguments(argc, argv, &o);
	struct collsim *s = collsim_run(&o);
	int err;

	if (!s) {
		fprintf(stderr,
			"collsim: %s: there is no such case, or not with so many ranks; see "
			"--list\n",
			o.name ? o.name : "--random");
		return 2;
	}
	err = collsim_write(s, out);
	if (err)
		fprintf(stderr, "collsim: %s: %s\n", out, strerror(-err));
	collsim_free(s);
	return err ? 1 : 0;
}
