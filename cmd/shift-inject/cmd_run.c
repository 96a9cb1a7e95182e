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

/* A whole file, and a NUL behind it; NULL with errno. */
static char *read_scenario(const char *path, size_t *bytes)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
	char *s = f ? calloc(1, SCENARIO_BYTES_MAX + 2) : NULL;

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

struct file {
	const char *path, *content;
};

/* The name of the event's field from which this word was made. A word of no field is the
 * process's. */
static void field_of(const struct scenario_event *e, const char *word, char field[64])
{
	bool option = !strncmp(word, "--", 2), is_own = false;

	for (int i = 0; i < e->count; i++)
		is_own |= word == e->words[i];
	if (!is_own)
		strcpy(field, "process");
	else if (option)
		snprintf(field, 64, "%.*s", (int)strcspn(word + 2, "="), word + 2);
	else
		strcpy(field, "size");
}

/* At its line; word NULL: the event as such. */
static _Noreturn void wrong_event(const struct file *f, const struct scenario *s, int event,
				  const char *word, const char *what)
{
	char number[16], field[64] = "";
	const char *where[] = {"timeline", number, word ? field : NULL, NULL};

	snprintf(number, sizeof(number), "%d", event);
	if (word)
		field_of(s->event + event, word, field);
	die(INJECT_BAD_USAGE, "%s:%d: timeline[%d]%s%s: %s", f->path, json_line(f->content, where),
	    event, word ? "." : "", field, what);
}

static void check_option_name(const struct file *f, const struct scenario *s, int event,
			      const char *word)
{
	static const char *const elsewhere[] = {"help", "host", "dry-run"};
	char name[64];

	if (strncmp(word, "--", 2))
		return;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(*elsewhere); i++)
		if (!strcmp(name, elsewhere[i]))
			wrong_event(f, s, event, word, "has no place here");
	if (!fault_options_has(s->event[event].fault, name))
		wrong_event(f, s, event, word, "not an option of this fault");
}

/* Checks the options of all faults as the faults themselves would. */
static void check_options(const struct file *f, const struct scenario *s)
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
			check_option_name(f, s, i, words[w]);
		if (!fault_options_try(e->fault, n, words, wrong, sizeof(wrong)))
			wrong_event(f, s, i, fault_options_word(), wrong);
	}
}

void scenario_load(const char *path, struct scenario *s)
{
	struct problem p = {0};
	size_t bytes = 0;
	char *content = read_scenario(path, &bytes);

	if (!content)
		die(INJECT_BAD_USAGE, "%s: %s", path, strerror(errno));
	if (scenario_parse(content, bytes, s, &p))
		die(INJECT_BAD_USAGE, "%s:%s", path, p.text);
	if (!*s->name)
		snprintf(s->name, sizeof(s->name), "scenario");
	check_options(&(struct file){path, content}, s);
	free(content);
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
		case 'h': print_and_exit(text);
		default: return INJECT_BAD_USAGE;
		}
	}
	if (optind + 1 != argc)
		die(INJECT_BAD_USAGE, "run: the file of a scenario is needed");
	scenario_load(argv[optind], &s);
	status = scenario_play(&s, &o);
	scenario_free(&s);
	return status;
}
