/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Two files of --json: has what shift costs changed? */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/compare.h"
#include "cmd/shift-bench/sample.h"

static const char help[] =
	"usage: shift-bench compare [options] OLD.json NEW.json\n"
	"What has become worse or better from the one file to the other, with the noise of both "
	"taken\n"
	"into account. Where both have a baseline, its change is taken out: another machine, or a\n"
	"busy one, is no regression.\n"
	"\n"
	"      --tolerance SHARE  smaller changes are not told, 0 to 1 (default 0.02)\n"
	"      --confidence P     of the intervals (default 0.99)\n"
	"      --seed N           of the bootstrap (default: that of NEW)\n"
	"      --absolute         compare the values with shift themselves\n"
	"      --help             this text\n"
	"\n"
	"Exit status: 0 nothing is worse, 4 something is, 2 the files cannot be compared.\n";

static const struct option options[] = {
	{"tolerance", required_argument, NULL, 't'},
	{"confidence", required_argument, NULL, 'C'},
	{"seed", required_argument, NULL, 'S'},
	{"absolute", no_argument, NULL, 'a'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static double share_of(const char *option, const char *s, double min, double max)
{
	char *end;
	double value = strtod(s, &end);

	if (end == s || *end || !(value >= min && value <= max))
		die(EXIT_BAD_USAGE, "--%s %s: from %g to %g", option, s, min, max);
	return value;
}

static void compare_parse(struct compare_options *o, int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 't': o->tolerance = share_of("tolerance", optarg, 0, 1); break;
		case 'C': o->confidence = share_of("confidence", optarg, 0.5, 0.9999); break;
		case 'S': o->seed = parse_seed(optarg), o->seeded = true; break;
		case 'a': o->absolute = true; break;
		case 'h': print_and_exit(help);
		default: exit(EXIT_BAD_USAGE);
		}
	}
	if (argc - optind != 2)
		die(EXIT_BAD_USAGE, "compare needs OLD.json and NEW.json");
}

static const char *const words[] = {
	[CHANGE_TOO_FEW] = "too few repetitions",
	[CHANGE_NONE] = "no change can be shown",
	[CHANGE_SMALL] = "within the tolerance",
	[CHANGE_BETTER] = "better",
	[CHANGE_WORSE] = "WORSE",
};

static void print_change(const char *id, const char *metric, const struct change *c)
{
	printf("%-34s %-12s", id, metric);
	if (isnan(c->ratio.ratio))
		printf(" %8s %20s", "-", "");
	else if (isnan(c->ratio.low))
		printf(" %8.3f %20s", c->ratio.ratio, "");
	else
		printf(" %8.3f %9.3f..%-9.3f", c->ratio.ratio, c->ratio.low, c->ratio.high);
	printf(" %s\n", words[c->kind]);
}

struct tally {
	size_t compared, worse, missing;
};

static void compare_case(struct tally *t, const struct compare_options *o, const cJSON *old_case,
			 const cJSON *new_case)
{
	const cJSON *m;

	cJSON_ArrayForEach (m, cJSON_GetObjectItemCaseSensitive(new_case, "metrics")) {
		const char *name = json_text(m, "name");
		struct change c = change_of(o, old_case, new_case, name,
					    !strcmp(json_text(m, "better"), "less"));

		print_change(json_text(new_case, "id"), name, &c);
		t->compared++;
		t->worse += c.kind == CHANGE_WORSE;
	}
}

static const cJSON *case_named(const cJSON *root, const char *id)
{
	const cJSON *c;

	cJSON_ArrayForEach (c, cJSON_GetObjectItemCaseSensitive(root, "cases"))
		if (!strcmp(json_text(c, "id"), id))
			return c;
	return NULL;
}

static struct tally compare_all(const struct compare_options *o, const cJSON *old, const cJSON *new)
{
	struct tally t = {0};
	const cJSON *c;

	cJSON_ArrayForEach (c, cJSON_GetObjectItemCaseSensitive(new, "cases")) {
		const cJSON *before = case_named(old, json_text(c, "id"));

		if (before)
			compare_case(&t, o, before, c);
	}
	/* What is not measured any more could hide what has become worse. */
	cJSON_ArrayForEach (c, cJSON_GetObjectItemCaseSensitive(old, "cases")) {
		if (case_named(new, json_text(c, "id")))
			continue;
		printf("%-34s only in the old file\n", json_text(c, "id"));
		t.missing++;
	}
	return t;
}

int cmd_compare(int argc, char **argv)
{
	struct compare_options o = {.tolerance = 0.02, .confidence = 0.99};
	struct tally t;
	cJSON *old, *new;

	compare_parse(&o, argc, argv);
	old = results_load(argv[optind]);
	new = results_load(argv[optind + 1]);
	if (strcmp(json_text(old, "command"), json_text(new, "command")))
		die(EXIT_BAD_USAGE, "the one is of %s, the other of %s", json_text(old, "command"),
		    json_text(new, "command"));
	if (!o.seeded)
		o.seed = strtoull(json_text(new, "seed"), NULL, 10);
	t = compare_all(&o, old, new);
	printf("%zu compared, %zu worse, %zu only in the old file; by chance alone about %.1f were "
	       "to be expected; seed %llu\n",
	       t.compared, t.worse, t.missing, (double)t.compared * (1 - o.confidence) / 2,
	       (unsigned long long)o.seed);
	cJSON_Delete(old);
	cJSON_Delete(new);
	if (!t.compared)
		die(EXIT_BAD_USAGE, "the files have no case in common");
	return t.worse ? EXIT_WORSE : EXIT_OK;
}
