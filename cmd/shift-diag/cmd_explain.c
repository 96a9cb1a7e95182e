/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Codes and log lines in plain words. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/shift-diag/diag.h"
#include "cmd/shift-diag/explain.h"

static const char help[] =
	"usage: shift-diag explain [options] [WORD...]\n"
	"What a code or a message means, its likely causes, and what to look at next.\n"
	"\n"
	"A WORD is a completion status (RETRY_EXC_ERR, 12), a vendor error (0x81; \"vendor_err "
	"129\"),\n"
	"an asynchronous event (PORT_ERR), a reason or state of shift-ctl (NO_TWIN, LINK_DOWN), or "
	"a\n"
	"line of a log, in quotes. Without a WORD: all that is known.\n"
	"\n"
	"  -j, --json           short for --format json\n"
	"      --format FORMAT  text or json\n"
	"      --help           this text\n";

enum { FOUND_MAX = 32, TOKEN_MAX = 64, UNKNOWN_MAX = 16, NEAREST = 3 };

/* What a number is a number of, by the word before it. */
enum meaning { NUMBER_ALONE, NUMBER_STATUS, NUMBER_VENDOR };

struct found {
	enum explain_kind kind;
	const struct explanation *e;
};

struct search {
	struct found found[FOUND_MAX];
	size_t count;
	const char *unknown[UNKNOWN_MAX];
	size_t unknown_count;
	enum meaning next;
};

/* ---- looking up ----------------------------------------------------------------------------- */

static void found_add(struct search *s, enum explain_kind kind, const struct explanation *e)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->found[i].e == e)
			return;
	if (s->count < FOUND_MAX)
		s->found[s->count++] = (struct found){kind, e};
}

static bool is_vendor(enum explain_kind kind)
{
	return kind >= EXPLAIN_MLX5_VENDOR && kind <= EXPLAIN_IRDMA;
}

/* RETRY_EXC_ERR, IBV_WC_RETRY_EXC_ERR, ibv_wc_retry_exc: the prefix and _ERR may be missing. */
static bool name_is(const struct explain_table *t, const struct explanation *e, const char *word)
{
	size_t prefix = t->prefix ? strlen(t->prefix) : 0, n;

	if (prefix && !strncasecmp(word, t->prefix, prefix))
		word += prefix;
	n = strlen(word);
	return !strcasecmp(word, e->name) ||
	       (n + 4 == strlen(e->name) && !strncasecmp(word, e->name, n) &&
		!strcmp(e->name + n, "_ERR"));
}

static void find_name(struct search *s, const char *word)
{
	for (enum explain_kind k = 0; k < EXPLAIN_LOG; k++) {
		const struct explain_table *t = explain_table(k);

		for (size_t i = 0; i < t->count; i++)
			if (name_is(t, t->entries + i, word))
				found_add(s, k, t->entries + i);
	}
}

static bool kind_has_numbers(enum explain_kind kind, enum meaning meaning, bool is_hex)
{
	switch (meaning) {
	case NUMBER_STATUS: return kind == EXPLAIN_WC;
	case NUMBER_VENDOR: return is_vendor(kind);
	case NUMBER_ALONE: break;
	}
	return is_hex ? is_vendor(kind) : kind == EXPLAIN_WC;
}

static bool find_number(struct search *s, const char *word, enum meaning meaning)
{
	bool is_hex = !strncasecmp(word, "0x", 2);
	size_t before = s->count;
	char *end;
	long n = strtol(word, &end, is_hex ? 16 : 10);

	if (!isdigit((unsigned char)*word) || *end)
		return false;
	for (enum explain_kind k = 0; k < EXPLAIN_LOG; k++) {
		const struct explain_table *t = explain_table(k);

		for (size_t i = 0; kind_has_numbers(k, meaning, is_hex) && i < t->count; i++)
			if (t->entries[i].number == n)
				found_add(s, k, t->entries + i);
	}
	return s->count > before;
}

/* Messages, and the texts of reasons, are told by a part of the line. */
static void find_parts(struct search *s, const char *line)
{
	static const enum explain_kind kinds[] = {EXPLAIN_LOG, EXPLAIN_UNPROTECTED};

	for (size_t k = 0; k < 2; k++) {
		const struct explain_table *t = explain_table(kinds[k]);

		for (size_t i = 0; i < t->count; i++) {
			const struct explanation *e = t->entries + i;
			const char *part = e->means ? e->name : explain_means(kinds[k], e);

			if (strchr(part, ' ') && strcasestr(line, part))
				found_add(s, kinds[k], e);
		}
	}
}

/* "status=12", "vendor err 129", "syndrom 0x81" (perftest), "synd 0x15 vend 0x81" (UCX). */
static bool meaning_of(const char *token, enum meaning *meaning)
{
	static const char *const vendor[] = {"vendor",	"vendor_err", "vend_err", "vend",
					     "syndrom", "syndrome",   "synd"};

	if (!strcasecmp(token, "status") || !strcasecmp(token, "wc")) {
		*meaning = NUMBER_STATUS;
		return true;
	}
	for (size_t i = 0; i < sizeof(vendor) / sizeof(*vendor); i++)
		if (!strcasecmp(token, vendor[i])) {
			*meaning = NUMBER_VENDOR;
			return true;
		}
	return !strcasecmp(token, "err") && *meaning == NUMBER_VENDOR;
}

/* In a line of a log, ordinary words are no codes: SETUP is one, setup is not. */
static bool looks_like_code(const char *token)
{
	bool upper = false;

	for (const char *p = token; *p; p++) {
		if (islower((unsigned char)*p))
			return !strncasecmp(token, "ibv_", 4);
		upper |= isupper((unsigned char)*p) != 0;
	}
	return upper && strlen(token) > 2;
}

/* One word of an argument. Returns whether it is understood. */
static bool find_token(struct search *s, const char *token, bool in_line)
{
	enum meaning meaning = s->next;
	size_t before = s->count;

	if (meaning_of(token, &s->next))
		return true;
	s->next = NUMBER_ALONE;
	if ((!in_line || meaning != NUMBER_ALONE) && find_number(s, token, meaning))
		return true;
	if (!in_line || looks_like_code(token))
		find_name(s, token);
	return s->count > before;
}

static bool find_tokens(struct search *s, const char *argument, bool in_line)
{
	bool known = false;

	for (const char *p = argument; *p;) {
		size_t n = strcspn(p, " \t\n=:(),;/'\"[]");
		char token[TOKEN_MAX];

		if (n && n < sizeof(token)) {
			memcpy(token, p, n);
			token[n] = 0;
			known |= find_token(s, token, in_line);
		}
		p += n + (p[n] != 0);
	}
	return known;
}

static void find_argument(struct search *s, const char *argument)
{
	bool in_line = strpbrk(argument, " \t\n");
	size_t before = s->count;
	bool known = find_tokens(s, argument, in_line);

	if (in_line)
		find_parts(s, argument);
	if ((in_line ? s->count == before : !known) && s->unknown_count < UNKNOWN_MAX)
		s->unknown[s->unknown_count++] = argument;
}

/* ---- the nearest known ---------------------------------------------------------------------- */

/* Levenshtein's, without regard to case. Longer words than that are near nothing. */
static size_t distance(const char *a, const char *b)
{
	size_t row[TOKEN_MAX + 1], m = strlen(b);

	if (m > TOKEN_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= m; j++)
		row[j] = j;
	for (size_t i = 0; a[i]; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t j = 0; j < m; j++) {
			bool other = toupper((unsigned char)a[i]) != toupper((unsigned char)b[j]);
			size_t changed = diagonal + other;
			size_t added = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;

			diagonal = row[j + 1];
			row[j + 1] = changed < added ? changed : added;
		}
	}
	return row[m];
}

struct near {
	const char *name[NEAREST];
	size_t distance[NEAREST];
};

static void near_add(struct near *near, const char *name, size_t d)
{
	size_t at = 0;

	for (size_t i = 0; i < NEAREST; i++)
		if (near->name[i] && !strcmp(near->name[i], name))
			return;
	while (at < NEAREST && near->distance[at] <= d)
		at++;
	if (at == NEAREST)
		return;
	for (size_t i = NEAREST - 1; i > at; i--) {
		near->name[i] = near->name[i - 1];
		near->distance[i] = near->distance[i - 1];
	}
	near->name[at] = name;
	near->distance[at] = d;
}

static struct near find_near(const char *word)
{
	struct near near = {.distance = {SIZE_MAX, SIZE_MAX, SIZE_MAX}};

	for (enum explain_kind k = 0; k < EXPLAIN_LOG; k++) {
		const struct explain_table *t = explain_table(k);
		size_t prefix = t->prefix ? strlen(t->prefix) : 0;
		bool has_prefix = prefix && !strncasecmp(word, t->prefix, prefix);

		for (size_t i = 0; i < t->count; i++)
			near_add(&near, t->entries[i].name,
				 distance(has_prefix ? word + prefix : word, t->entries[i].name));
	}
	return near;
}

static void say_unknown(const char *word)
{
	struct near near = find_near(word);

	say("explain: nothing is known of %s; the nearest known: %s, %s, %s", word, near.name[0],
	    near.name[1], near.name[2]);
}

/* ---- showing -------------------------------------------------------------------------------- */

static void show_list(const char *title, const char *list)
{
	if (!list)
		return;
	printf("  %s\n", title);
	for (const char *p = list; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		printf("    - %.*s\n", (int)strcspn(p, "\n"), p);
	}
}

/* "IBV_WC_RETRY_EXC_ERR (completion status 12)" */
static void show_title(const struct found *f)
{
	const struct explain_table *t = explain_table(f->kind);

	if (f->kind == EXPLAIN_LOG) {
		printf("\"... %s ...\" (%s)\n", f->e->name, t->title);
		return;
	}
	printf("%s%s (%s", t->prefix ? t->prefix : "", f->e->name, t->title);
	if (f->kind == EXPLAIN_WC)
		printf(" %ld", f->e->number);
	else if (is_vendor(f->kind) && f->kind != EXPLAIN_MLX5_VENDOR)
		printf(" %#lx", f->e->number);
	puts(")");
}

static void show_found(const struct found *f)
{
	show_title(f);
	printf("  %s\n", explain_means(f->kind, f->e));
	show_list("Likely causes:", f->e->causes);
	show_list("Next:", f->e->checks);
}

static void json_add_list(cJSON *o, const char *name, const char *list)
{
	cJSON *array = cJSON_AddArrayToObject(o, name);

	for (const char *p = list; p; p = strchr(p, '\n')) {
		char *line;

		p += *p == '\n';
		line = check_alloc(strndup(p, strcspn(p, "\n")));
		cJSON_AddItemToArray(array, cJSON_CreateString(line));
		free(line);
	}
}

static void json_add_found(cJSON *array, const struct found *f)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddItemToArray(array, o);
	cJSON_AddStringToObject(o, "kind", explain_table(f->kind)->title);
	cJSON_AddStringToObject(o, "name", f->e->name);
	if (f->e->number >= 0)
		cJSON_AddNumberToObject(o, "number", (double)f->e->number);
	cJSON_AddStringToObject(o, "means", explain_means(f->kind, f->e));
	json_add_list(o, "causes", f->e->causes);
	json_add_list(o, "checks", f->e->checks);
}

static void show_json(const struct search *s)
{
	cJSON *o = diag_json(), *found = cJSON_AddArrayToObject(o, "found"),
	      *unknown = cJSON_AddArrayToObject(o, "unknown");

	for (size_t i = 0; i < s->count; i++)
		json_add_found(found, s->found + i);
	for (size_t i = 0; i < s->unknown_count; i++) {
		struct near near = find_near(s->unknown[i]);
		cJSON *u = cJSON_CreateObject();

		cJSON_AddItemToArray(unknown, u);
		cJSON_AddStringToObject(u, "word", s->unknown[i]);
		cJSON_AddItemToObject(u, "nearest", cJSON_CreateStringArray(near.name, NEAREST));
	}
	diag_print_json(o);
}

static void show_text(const struct search *s)
{
	for (size_t i = 0; i < s->count; i++) {
		if (i)
			putchar('\n');
		show_found(s->found + i);
	}
	fflush(stdout); /* before the messages */
	for (size_t i = 0; i < s->unknown_count; i++)
		say_unknown(s->unknown[i]);
}

static void show_all(void)
{
	for (enum explain_kind k = 0; k < EXPLAIN_KINDS; k++) {
		const struct explain_table *t = explain_table(k);

		printf("%s%s", k ? "\n" : "", t->title);
		if (t->prefix)
			printf(" (%s...)", t->prefix);
		puts(":");
		for (size_t i = 0; i < t->count; i++)
			printf("  %-30s %s\n", t->entries[i].name,
			       explain_means(k, t->entries + i));
	}
}

static void show_all_json(void)
{
	cJSON *o = diag_json(), *known = cJSON_AddArrayToObject(o, "known");

	for (enum explain_kind k = 0; k < EXPLAIN_KINDS; k++) {
		const struct explain_table *t = explain_table(k);

		for (size_t i = 0; i < t->count; i++)
			json_add_found(known, &(struct found){k, t->entries + i});
	}
	diag_print_json(o);
}

int cmd_explain(int argc, char **argv)
{
	const struct diag_syntax syntax = {.help = help, .formats = FORMAT_BIT(FORMAT_JSON)};
	enum diag_format format = diag_options_parse(&syntax, argc, argv);
	struct search s = {0};

	if (optind == argc) {
		(format == FORMAT_JSON ? show_all_json : show_all)();
		return fflush(stdout) ? EXIT_FAILED : EXIT_FINE;
	}
	for (int i = optind; i < argc; i++)
		find_argument(&s, argv[i]);
	if (!s.count && !s.unknown_count)
		die(EXIT_BAD_USAGE, "explain: %s: of what? a number is missing", argv[optind]);
	(format == FORMAT_JSON ? show_json : show_text)(&s);
	if (fflush(stdout))
		return EXIT_FAILED;
	return s.unknown_count ? EXIT_UNDECIDED : EXIT_FINE;
}
