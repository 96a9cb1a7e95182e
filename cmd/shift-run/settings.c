/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The library's settings (lib/base/env.h). The library takes the default for an invalid value;
 * shift-run refuses it. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-run/run.h"

enum { VALUE_MAX = 1023, FILE_MAX = 255 }; /* bytes; of struct env */

static char *convert_give_up(const char *words)
{
	int64_t ms = parse_ms(words);

	if (!strcmp(words, "never"))
		return format_text("%s", words);
	return ms > 0 ? format_text("%lld", (long long)ms) : NULL;
}

static char *convert_file(const char *path)
{
	char *full = *path ? absolute_path(path) : NULL;

	return full && strlen(full) <= FILE_MAX ? full : NULL;
}

static char *convert_rails(const char *words)
{
	char *why = strlen(words) > VALUE_MAX ? format_text("too long") : rails_refusal(words);

	if (why)
		die(EXIT_OURS, "--rails %s: %s", words, why);
	return format_text("%s", words);
}

static bool is_ms(const char *value)
{
	size_t digits = strspn(value, "0123456789");

	return !strcmp(value, "never") || (digits && digits < 16 && !value[digits]);
}

/* As lib/base/env.c takes it. */
static bool is_trace(const char *value)
{
	size_t digits;

	if (!strcmp(value, "off") || !strcmp(value, "epochs"))
		return true;
	if (strncmp(value, "epochs,", 7))
		return false;
	digits = strspn(value + 7, "0123456789");
	return digits && digits < 8 && !strcmp(value + 7 + digits, "us") && atol(value + 7) > 0 &&
	       atol(value + 7) <= 10000;
}

static char *convert_trace(const char *words)
{
	return is_trace(words) ? format_text("%s", words) : NULL;
}

/* choice: the words that are allowed. Without: convert() turns the option's words into the value;
 * NULL: invalid. */
static const struct {
	const char *option, *variable, *choice, *otherwise;
	char *(*convert)(const char *words);
	bool (*is_value)(const char *value); /* of the variable */
	const char *expected;
} table[SETTINGS] = {
	[SET_RAILS] = {"rails", "SHIFT_RAILS", NULL, "auto", convert_rails, NULL},
	[SET_GIVE_UP] = {"give-up", "SHIFT_GIVE_UP_MS", NULL, "0", convert_give_up, is_ms,
			 "milliseconds, or never"},
	[SET_FAILBACK] = {"failback", "SHIFT_FAILBACK", "auto|manual|never", "auto", NULL, NULL},
	[SET_LOG_LEVEL] = {"log-level", "SHIFT_LOG", "error|warn|info|debug", "warn", NULL, NULL},
	[SET_LOG_FILE] = {"log-file", "SHIFT_LOG_FILE", NULL, "", convert_file, NULL},
	[SET_LOST_ATOMIC] = {"lost-atomic", "SHIFT_LOST_ATOMIC", "error|continue", "error", NULL,
			     NULL},
	[SET_ATOMICS] = {"atomics", "SHIFT_ATOMICS", "stay|move", "stay", NULL, NULL},
	[SET_COLLECTIVES] = {"collectives", "SHIFT_COLLECTIVES", "auto|mpi|mpich|nccl|off", "auto",
			     NULL, NULL},
	[SET_TRACE] = {"trace", "SHIFT_TRACE", NULL, "off", convert_trace, is_trace,
		       "off, epochs, or epochs,32us with 1 to 10000 us"},
};

static const char *given[SETTINGS];

static bool is_among(const char *word, const char *choice)
{
	size_t n = strlen(word);

	for (const char *p = choice; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
		if (n && strcspn(p, "|") == n && !strncmp(p, word, n))
			return true;
	return false;
}

void setting_give(enum setting s, const char *words)
{
	const char *choice = table[s].choice;

	if (choice && !is_among(words, choice))
		die(EXIT_OURS, "--%s %s: not one of %s", table[s].option, words, choice);
	given[s] = choice ? words : table[s].convert(words);
	if (!given[s])
		die(EXIT_OURS, "--%s %s: not understood (%s)", table[s].option, words,
		    table[s].expected ? table[s].expected : "see shift-run --help");
}

static const char *from_environment(enum setting s)
{
	const char *value = getenv(table[s].variable);

	return value && *value ? value : NULL;
}

void settings_check(void)
{
	for (int s = 0; s < SETTINGS; s++) {
		const char *value = given[s] ? NULL : from_environment(s);
		char *why = NULL;

		if (!value)
			continue;
		if (table[s].choice && !is_among(value, table[s].choice))
			die(EXIT_OURS, "%s=%s: not one of %s", table[s].variable, value,
			    table[s].choice);
		if (table[s].is_value && !table[s].is_value(value))
			die(EXIT_OURS, "%s=%s: not understood (expected: %s)", table[s].variable,
			    value, table[s].expected);
		if (s == SET_RAILS && (why = rails_refusal(value)))
			die(EXIT_OURS, "%s=%s: %s", table[s].variable, value, why);
		if (s == SET_LOG_FILE)
			given[s] = convert_file(value);
		if (strlen(value) > VALUE_MAX || (s == SET_LOG_FILE && !given[s]))
			die(EXIT_OURS, "%s: too long", table[s].variable);
	}
}

const char *setting_value(enum setting s)
{
	return given[s] ? given[s] : from_environment(s);
}

const char *setting_variable(enum setting s)
{
	return table[s].variable;
}

const char *settings_conflict(void)
{
	for (int s = 0; s < SETTINGS; s++) {
		const char *here = from_environment(s);

		if (given[s] && strcmp(given[s], here ? here : table[s].otherwise))
			return table[s].option;
	}
	return NULL;
}
