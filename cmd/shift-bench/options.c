/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/shift-bench/bench.h"
#include "cmd/shift-bench/plot.h"

enum { OPTION_MAX = 48, MAX_REPETITIONS = 10000, FIRST_OWN = 1000, QUICK_REPETITIONS = 6 };

static const struct option common[] = {
	{"repetitions", required_argument, NULL, 'r'},
	{"warmup", required_argument, NULL, 'w'},
	{"confidence", required_argument, NULL, 'C'},
	{"seed", required_argument, NULL, 'S'},
	{"control", no_argument, NULL, 'a'},
	{"env", required_argument, NULL, 'e'},
	{"quick", no_argument, NULL, 'q'},
	{"json", required_argument, NULL, 'j'},
	{"html", required_argument, NULL, 'm'},
	{"help", no_argument, NULL, 'h'},
};

static const struct option of_hosts[] = {
	{"testbed", required_argument, NULL, 't'}, {"layout", required_argument, NULL, 'l'},
	{"kernel", required_argument, NULL, 'k'},  {"hosts", required_argument, NULL, 'H'},
	{"config", required_argument, NULL, 'c'},
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

long option_number(const char *option, const char *s, long min, long max)
{
	long n = parse_number(s, min, max);

	if (n < 0)
		die(EXIT_BAD_USAGE, "--%s %s: a number from %ld to %ld", option, s, min, max);
	return n;
}

static double confidence_of(const char *s)
{
	char *end;
	double p = strtod(s, &end);

	if (end == s || *end || !(p >= 0.5 && p <= 0.9999))
		die(EXIT_BAD_USAGE, "--confidence %s: from 0.5 to 0.9999", s);
	return p;
}

uint64_t parse_seed(const char *s)
{
	char *end;
	uint64_t seed;

	errno = 0;
	seed = strtoull(s, &end, 0);
	if (end == s || *end || errno || strchr(s, '-'))
		die(EXIT_BAD_USAGE, "--seed %s: not a number", s);
	return seed;
}

static const char *word_of(const char *option, const char *s, const char *one, const char *other)
{
	if (strcmp(s, one) && strcmp(s, other))
		die(EXIT_BAD_USAGE, "--%s %s: %s or %s", option, s, one, other);
	return s;
}

static void add_environment(struct bench_options *o, const char *s)
{
	size_t n = 0;

	if (!strchr(s, '=') || *s == '=')
		die(EXIT_BAD_USAGE, "--env %s: not K=V", s);
	while (o->environment[n])
		n++;
	o->environment[n] = s; /* there is room for as many as there are words */
	o->environment[n + 1] = NULL;
}

static void set_common(struct bench_options *o, const char *help, int c)
{
	switch (c) {
	case 'r':
		o->repetitions = option_number("repetitions", optarg, 1, MAX_REPETITIONS);
		o->repetitions_given = true;
		break;
	case 'w':
		o->warmup = option_number("warmup", optarg, 0, MAX_REPETITIONS);
		o->warmup_given = true;
		break;
	case 'C':
		o->confidence = confidence_of(optarg);
		o->confidence_given = true;
		break;
	case 'S': o->seed = parse_seed(optarg); break;
	case 'a': o->control = true; break;
	case 'e': add_environment(o, optarg); break;
	case 'q': o->quick = true; break;
	case 'j': o->json = optarg; break;
	case 'm': o->html = optarg; break;
	case 't': o->testbed = optarg; break;
	case 'l': o->layout = word_of("layout", optarg, "pair", "single"); break;
	case 'k': o->kernel = word_of("kernel", optarg, "6.1", "6.12"); break;
	case 'H': o->hosts = optarg; break;
	case 'c': o->config = optarg; break;
	case 'h': print_and_exit(help);
	default: exit(EXIT_BAD_USAGE);
	}
}

static void check_hosts(const struct bench_options *o)
{
	if (o->testbed && o->hosts)
		die(EXIT_BAD_USAGE, "--testbed and --hosts: one of them");
	if ((o->testbed || o->hosts) && (o->layout || o->kernel))
		die(EXIT_BAD_USAGE, "--layout and --kernel are for a testbed that is started here");
	if (o->config && !o->hosts)
		die(EXIT_BAD_USAGE, "--config is for --hosts");
}

/* As many repetitions as give an interval at 95 %. */
static void make_quick(struct bench_options *o)
{
	if (!o->quick)
		return;
	if (!o->repetitions_given)
		o->repetitions = o->quick_repetitions ? o->quick_repetitions : QUICK_REPETITIONS;
	if (!o->confidence_given)
		o->confidence = 0.95;
}

static void add_options(struct option *all, size_t *n, const struct option *more, size_t count)
{
	memcpy(all + *n, more, count * sizeof(*all));
	*n += count;
}

void options_parse(struct bench_options *o, const char *help, bool needs_hosts,
		   const struct own_option *own, int argc, char **argv)
{
	struct option all[OPTION_MAX + 1] = {0};
	size_t n = 0;
	int c;

	if (!o->confidence)
		o->confidence = 0.99;
	o->seed = (uint64_t)time(NULL);
	o->environment = check_alloc(calloc((size_t)argc + 1, sizeof(*o->environment)));
	add_options(all, &n, common, COUNT(common));
	if (needs_hosts)
		add_options(all, &n, of_hosts, COUNT(of_hosts));
	for (int i = 0; own && own[i].name && n < OPTION_MAX; i++)
		all[n++] = (struct option){own[i].name, own[i].has_value, NULL, FIRST_OWN + i};
	while ((c = getopt_long(argc, argv, "", all, NULL)) != -1) {
		if (c >= FIRST_OWN)
			own[c - FIRST_OWN].set(optarg);
		else
			set_common(o, help, c);
	}
	make_quick(o);
	if (optind < argc)
		die(EXIT_BAD_USAGE, "%s: unexpected argument %s", argv[0] + strlen("shift-bench: "),
		    argv[optind]);
	check_hosts(o);
	if (o->html)
		plots_need(); /* now, not when all has been measured */
}

static long size_of(const char *s, char **end)
{
	unsigned long n = strtoul(s, end, 10);
	int shift = 0;

	if (*s < '0' || *s > '9')
		return -1;
	if (**end == 'K' || **end == 'k')
		shift = 10;
	else if (**end == 'M' || **end == 'm')
		shift = 20;
	*end += shift > 0;
	return n > LONG_MAX >> 20 ? -1 : (long)(n << shift);
}

long *parse_sizes(const char *option, const char *list, long min, long max, size_t *count)
{
	long *sizes = check_alloc(calloc(strlen(list) + 1, sizeof(*sizes)));
	const char *s = list;
	char *end;

	*count = 0;
	for (;; s = end + 1) {
		sizes[*count] = size_of(s, &end);
		if (sizes[*count] < min || sizes[*count] > max || (*end && *end != ','))
			die(EXIT_BAD_USAGE, "--%s %s: numbers from %ld to %ld, as 1,4K,64K", option,
			    list, min, max);
		++*count;
		if (!*end)
			return sizes;
	}
}

static bool is_among(const char *word, size_t length, const char *allowed)
{
	for (const char *s = allowed; s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL)
		if (strcspn(s, ",") == length && !strncmp(s, word, length))
			return true;
	return false;
}

const char **parse_words(const char *option, const char *list, const char *allowed, size_t *count)
{
	const char **words = check_alloc(calloc(strlen(list) + 2, sizeof(*words)));
	const char *s = list;

	*count = 0;
	for (;;) {
		size_t length = strcspn(s, ",");

		if (!is_among(s, length, allowed))
			die(EXIT_BAD_USAGE, "--%s %s: a list of %s", option, list, allowed);
		words[(*count)++] = format_text("%.*s", (int)length, s);
		if (!s[length])
			return words;
		s += length + 1;
	}
}
