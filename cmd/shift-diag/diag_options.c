/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_FORMAT = 1000 };

static const char *const format_names[] = {
	[FORMAT_TEXT] = "text",
	[FORMAT_JSON] = "json",
	[FORMAT_OPENMETRICS] = "openmetrics",
	[FORMAT_PROMETHEUS] = "prometheus",
	[FORMAT_NPD] = "npd",
};

static const char *command_of(char **argv)
{
	return argv[0] + strlen("shift-diag: ");
}

static enum diag_format parse_format(const struct diag_syntax *s, const char *name, char **argv)
{
	char known[128] = "";

	for (unsigned int i = 0; i < sizeof(format_names) / sizeof(*format_names); i++) {
		if (!((s->formats | FORMAT_BIT(s->otherwise)) & FORMAT_BIT(i)))
			continue;
		if (!strcmp(name, format_names[i]))
			return i;
		strcat(known, *known ? ", " : "");
		strcat(known, format_names[i]);
	}
	die(EXIT_BAD_USAGE, "%s: --format %s: not one of %s", command_of(argv), name, known);
}

/* Getopt's tables: what all have, then the command's own. */
static void options_list(const struct diag_syntax *s, struct option *list, char *letters)
{
	*list++ = (struct option){"help", no_argument, NULL, 'h'};
	if (s->formats) {
		*list++ = (struct option){"format", required_argument, NULL, OPTION_FORMAT};
	}
	if (s->formats & FORMAT_BIT(FORMAT_JSON)) {
		*list++ = (struct option){"json", no_argument, NULL, 'j'};
		*letters++ = 'j';
	}
	for (const struct diag_option *o = s->own; o->name; o++) {
		*list++ = (struct option){o->name, o->has_value ? required_argument : no_argument,
					  NULL, o->letter};
		if (o->letter > 255)
			continue;
		*letters++ = (char)o->letter;
		if (o->has_value)
			*letters++ = ':';
	}
}

enum diag_format diag_options_parse(const struct diag_syntax *s, int argc, char **argv)
{
	struct option list[DIAG_OPTIONS_MAX + 4] = {0};
	char letters[2 * DIAG_OPTIONS_MAX + 4] = "";
	enum diag_format format = s->otherwise;
	int c;

	options_list(s, list, letters);
	while ((c = getopt_long(argc, argv, letters, list, NULL)) != -1) {
		switch (c) {
		case 'h': print_and_exit(s->help);
		case '?': exit(EXIT_BAD_USAGE);
		case 'j': format = parse_format(s, "json", argv); break;
		case OPTION_FORMAT: format = parse_format(s, optarg, argv); break;
		default: s->take(s->arg, c, optarg);
		}
	}
	return format;
}

void diag_no_arguments(int argc, char **argv)
{
	if (optind < argc)
		die(EXIT_BAD_USAGE, "%s: unexpected argument %s", command_of(argv), argv[optind]);
}

cJSON *diag_json(void)
{
	cJSON *o = check_alloc(cJSON_CreateObject());

	cJSON_AddNumberToObject(o, "schema_version", DIAG_SCHEMA_VERSION);
	return o;
}

void diag_print_json(cJSON *o)
{
	print_json_text(cJSON_Print(o));
	cJSON_Delete(o);
}

int diag_worse(int a, int b)
{
	static const int order[] = {EXIT_CULPRIT, EXIT_UNDECIDED, EXIT_WARNING};

	for (int i = 0; i < 3; i++)
		if (a == order[i] || b == order[i])
			return order[i];
	return EXIT_FINE;
}
