/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-inject/command.h"
#include "faultinject/scenario.h"

static const char text[] =
	"usage: shift-inject run FILE [options]\n"
	"Carry a scenario out: faults on a timeline over hosts and NICs, and what is expected of\n"
	"the protected programs that run there. Every fault is undone at its end.\n"
	"\n"
	"      --testbed NAME  its hosts are those of that testbed\n"
	"  -j, --json          the result, for a program\n"
	"      --dry-run       check the file and show the timeline\n"
	"      --help          this text\n"
	"\n"
	"Exit status: 0 all as expected, 1 not so, 2 the file is wrong.\n";

/* A whole file; NULL with errno. */
static char *read_file(const char *path, size_t *bytes)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
	char *s = f ? malloc(SCENARIO_BYTES_MAX + 1) : NULL;

	if (s)
		*bytes = fread(s, 1, SCENARIO_BYTES_MAX + 1, f);
	if (s && ferror(f)) {
		free(s);
		s = NULL;
	}
	if (f && f != stdin)
		fclose(f);
	return s;
}

/* The options of its faults, as the faults themselves would read them. */
static void check_options(const char *path, const struct scenario *s)
{
	char wrong[400], *words[SCENARIO_WORDS_MAX + 2];

	for (int i = 0; i < s->events; i++) {
		const struct scenario_event *e = s->event + i;
		int n = e->count;

		if (!e->fault)
			continue;
		memcpy(words, e->words, (size_t)n * sizeof(*words));
		if (*e->process)
			words[n++] = "--pid=2";
		words[n] = NULL;
		for (int w = 1; w < n; w++)
			if (!strncmp(words[w], "--he", 4) || !strncmp(words[w], "--ho", 4) ||
			    !strncmp(words[w], "--dry", 5))
				die(INJECT_BAD_USAGE, "%s:%d: timeline[%d]: %s has no place here",
				    path, e->line, i, words[w]);
		if (!options_try(e->fault, n, words, wrong, sizeof(wrong)))
			die(INJECT_BAD_USAGE, "%s:%d: timeline[%d]: %s", path, e->line, i, wrong);
	}
}

void scenario_load(const char *path, struct scenario *s)
{
	struct problem p = {0};
	size_t bytes = 0;
	char *content = read_file(path, &bytes);

	if (!content)
		die(INJECT_BAD_USAGE, "%s: %s", path, strerror(errno));
	if (scenario_parse(content, bytes, s, &p))
		die(INJECT_BAD_USAGE, "%s:%s", path, p.text);
	free(content);
	if (!*s->name)
		snprintf(s->name, sizeof(s->name), "scenario");
	check_options(path, s);
}

int cmd_run(int argc, char **argv)
{
	static const struct option options[] = {{"testbed", required_argument, NULL, 't'},
						{"json", no_argument, NULL, 'j'},
						{"dry-run", no_argument, NULL, 'd'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	struct play_options o = {0};
	struct scenario s;
	int c, status;

	while ((c = getopt_long(argc, argv, "j", options, NULL)) != -1) {
		switch (c) {
		case 't': o.testbed = optarg; break;
		case 'j': o.json = true; break;
		case 'd': o.dry_run = true; break;
		case 'h': help(text);
		default: return INJECT_BAD_USAGE;
		}
	}
	if (optind + 1 != argc)
		die(INJECT_BAD_USAGE, "run: the file of a scenario is needed");
	scenario_load(argv[optind], &s);
	status = play(&s, &o);
	scenario_free(&s);
	return status;
}
