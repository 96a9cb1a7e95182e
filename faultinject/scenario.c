/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faultinject/scenario.h"

struct reader {
	const char *text;
	struct scenario *s;
	struct problem *p;
};

/* --- where something stands ------------------------------------------------------------------ */

static const char *skip_space(const char *s)
{
	while (*s && strchr(" \t\r\n", *s))
		s++;
	return s;
}

static const char *skip_string(const char *s)
{
	for (s++; *s && *s != '"'; s++)
		if (*s == '\\' && s[1])
			s++;
	return *s ? s + 1 : s;
}

/* To what is behind a value, of any depth. */
static const char *skip_value(const char *s)
{
	int depth = 0;

	do {
		s = skip_space(s);
		if (*s == '"')
			s = skip_string(s);
		else if (*s == '{' || *s == '[')
			depth++, s++;
		else if (*s == '}' || *s == ']')
			depth--, s++;
		else if (*s == ',' || *s == ':')
			s++;
		else
			while (*s && !strchr(" \t\r\n,:]}", *s))
				s++;
	} while (*s && depth > 0);
	return s;
}

/* From the beginning of an object or array to the beginning of one of its values. NULL: there is no
 * such value. */
static const char *enter_value(const char *s, const char *key)
{
	bool object = *s == '{';
	long index = object ? 0 : strtol(key, NULL, 10);

	if (!object && *s != '[')
		return NULL;
	s = skip_space(s + 1);
	while (*s && *s != '}' && *s != ']') {
		const char *name = s;
		size_t n = 0;

		if (object) {
			s = skip_string(s);
			n = (size_t)(s - name) - 2;
			s = skip_space(s);
			s = skip_space(*s == ':' ? s + 1 : s);
		}
		if (object ? n == strlen(key) && !strncmp(name + 1, key, n) : !index--)
			return s;
		s = skip_space(skip_value(s));
		if (*s == ',')
			s = skip_space(s + 1);
	}
	return NULL;
}

static int line_of(const char *text, const char *at)
{
	int line = 1;

	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

int json_line(const char *text, const char *const *path)
{
	/* A byte order mark is no space. */
	const char *at = skip_space(strncmp(text, "\xef\xbb\xbf", 3) ? text : text + 3), *deeper;

	while (*path && (deeper = enter_value(at, *path))) {
		at = deeper;
		path++;
	}
	return line_of(text, at);
}

/* "LINE: timeline[3].rate: what"; index -1 or key NULL: there is none. */
static int wrong_value(const struct reader *r, const char *list, int index, const char *key,
		       const char *what)
{
	char number[16] = "", field[160];
	const char *path[4] = {list, NULL, NULL, NULL};

	snprintf(number, sizeof(number), "%d", index);
	if (list && index >= 0) {
		path[1] = number;
		path[2] = key;
		snprintf(field, sizeof(field), "%s[%d]%s%.100s", list, index, key ? "." : "",
			 key ? key : "");
	} else {
		snprintf(field, sizeof(field), "%.100s", list ? list : "the whole");
	}
	return problem_set(r->p, INJECT_BAD_USAGE, "%d: %s: %s", json_line(r->text, path), field,
			   what);
}

/* --- values ---------------------------------------------------------------------------------- */

/* A name, for a host, NIC or process: it becomes a word of a command line. */
static bool is_plain_name(const char *s, size_t bytes)
{
	size_t n = strlen(s);

	return n && n < bytes && *s != '-' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:@/") ==
		       n;
}

static int take_name(const struct reader *r, const cJSON *item, char *to, size_t bytes,
		     const char *list, int index)
{
	const char *s = cJSON_GetStringValue(item);

	if (!s || !is_plain_name(s, bytes))
		return wrong_value(r, list, index, item->string, "not a name");
	snprintf(to, bytes, "%s", s);
	return 0;
}

/* --- the timeline ---------------------------------------------------------------------------- */

/* Joined. */
static void add_scenario_word(struct scenario_event *e, const char *a, const char *b, const char *c,
			      const char *d)
{
	size_t bytes = strlen(a) + strlen(b) + strlen(c) + strlen(d) + 1;
	char *word = malloc(bytes);

	if (!word)
		abort();
	snprintf(word, bytes, "%s%s%s%s", a, b, c, d);
	e->words[e->count++] = word;
}

/* As one would type it: without an exponent where a double is a whole number for sure. */
static void number_text(double n, char text[32])
{
	bool whole = n >= 0 && n <= 9007199254740992.0 && (double)(uint64_t)n - n >= 0;

	snprintf(text, 32, whole ? "%.0f" : "%.10g", n);
}

/* Any other field is an option of the fault; a size is the word behind its name. */
static int take_event_option(const struct reader *r, struct scenario_event *e, const cJSON *item,
			     int index)
{
	const char *key = item->string, *value = cJSON_GetStringValue(item);
	char number[32];

	if (!e->fault)
		return wrong_value(r, "timeline", index, key,
				   "not a field of migrate and failback");
	if (e->count > SCENARIO_WORDS_MAX - 2)
		return wrong_value(r, "timeline", index, key, "too many options");
	if (!*key || strspn(key, "abcdefghijklmnopqrstuvwxyz-") != strlen(key))
		return wrong_value(r, "timeline", index, key, "not an option of this fault");
	if (cJSON_IsNumber(item)) {
		number_text(item->valuedouble, number);
		value = number;
	}
	if (cJSON_IsTrue(item))
		add_scenario_word(e, "--", key, "", "");
	else if (!value || !*value || strlen(value) > 100)
		return wrong_value(r, "timeline", index, key, "neither a text, a number nor true");
	else if (!strcmp(key, "size"))
		add_scenario_word(e, value, "", "", "");
	else
		add_scenario_word(e, "--", key, "=", value);
	return 0;
}

static int take_kind(const struct reader *r, struct scenario_event *e, const cJSON *o, int index)
{
	const cJSON *fault = cJSON_GetObjectItemCaseSensitive(o, "fault"),
		    *order = cJSON_GetObjectItemCaseSensitive(o, "do");
	const char *name = cJSON_GetStringValue(fault ? fault : order);

	if (!fault == !order)
		return wrong_value(r, "timeline", index, NULL,
				   "either \"fault\" or \"do\" is needed");
	if (fault) {
		e->fault = name ? fault_find(name) : NULL;
		if (!e->fault)
			return wrong_value(r, "timeline", index, "fault", "no such fault");
		add_scenario_word(e, name, "", "", "");
		return 0;
	}
	if (!name || (strcmp(name, "migrate") && strcmp(name, "failback")))
		return wrong_value(r, "timeline", index, "do", "neither migrate nor failback");
	snprintf(e->order, sizeof(e->order), "%s", name);
	return 0;
}

static int take_at(const struct reader *r, struct scenario_event *e, const cJSON *o, int index)
{
	const cJSON *at = cJSON_GetObjectItemCaseSensitive(o, "at");
	const char *s = cJSON_GetStringValue(at);
	int64_t us;

	if (!at)
		return wrong_value(r, "timeline", index, NULL, "\"at\" is needed");
	if (!s || parse_us(s, &us))
		return wrong_value(r, "timeline", index, "at", "not a time (10s, 500ms)");
	e->at_ms = us / 1000;
	return 0;
}

/* The end of the event. The fault's own options tell whether its texts are times. */
static void take_end(struct scenario_event *e, const cJSON *o)
{
	const char *length = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "for")),
		   *after = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "after"));
	int64_t us, after_us = 0;

	if (length && !parse_us(length, &us) && (!after || !parse_us(after, &after_us)))
		e->for_ms = (after_us + us) / 1000;
}

static int take_event_field(const struct reader *r, struct scenario_event *e, const cJSON *item,
			    int index)
{
	const char *key = item->string;

	if (!strcmp(key, "at") || !strcmp(key, "fault") || !strcmp(key, "do"))
		return 0;
	if (!strcmp(key, "host"))
		return take_name(r, item, e->host, sizeof(e->host), "timeline", index);
	if (!strcmp(key, "process"))
		return take_name(r, item, e->process, sizeof(e->process), "timeline", index);
	if (!strcmp(key, "nic")) {
		int status = take_name(r, item, e->nic, sizeof(e->nic), "timeline", index);

		if (!status && e->fault)
			add_scenario_word(e, "--nic=", e->nic, "", "");
		return status;
	}
	return take_event_option(r, e, item, index);
}

static int take_event(const struct reader *r, const cJSON *o, int index)
{
	struct scenario_event *e = r->s->event + r->s->events++;
	const cJSON *item;
	int status;

	if (!cJSON_IsObject(o))
		return wrong_value(r, "timeline", index, NULL, "not an object");
	status = take_at(r, e, o, index);
	if (!status)
		status = take_kind(r, e, o, index);
	cJSON_ArrayForEach (item, o)
		if (!status)
			status = take_event_field(r, e, item, index);
	take_end(e, o);
	if (!status && !strcmp(e->order, "migrate") && !*e->nic)
		status = wrong_value(r, "timeline", index, NULL, "\"nic\" is needed");
	if (!status && e->fault && !e->fault->once && !cJSON_HasObjectItem(o, "for") &&
	    !cJSON_HasObjectItem(o, "count"))
		status = wrong_value(r, "timeline", index, NULL,
				     "\"for\" is needed, or it has no end");
	if (!status && index && e->at_ms < e[-1].at_ms)
		status = wrong_value(r, "timeline", index, "at", "before the one above it");
	return status;
}

static int take_timeline(const struct reader *r, const cJSON *list)
{
	int n = cJSON_GetArraySize(list), index = 0, status = 0;
	const cJSON *o;

	if (!cJSON_IsArray(list) || !n)
		return wrong_value(r, "timeline", -1, NULL, "not an array of at least one object");
	if (n > SCENARIO_EVENTS_MAX)
		return wrong_value(r, "timeline", -1, NULL, "too long");
	r->s->event = calloc((size_t)n, sizeof(*r->s->event));
	if (!r->s->event)
		abort();
	cJSON_ArrayForEach (o, list)
		if (!status)
			status = take_event(r, o, index++);
	return status;
}

/* --- the rest -------------------------------------------------------------------------------- */

static int take_expectation(const struct reader *r, const cJSON *item, int index)
{
	static const struct {
		const char *words;
		enum expect_kind kind;
		bool timed;
	} kinds[] = {{"failover within ", EXPECT_FAILOVER, true},
		     {"failback within ", EXPECT_FAILBACK, true},
		     {"failover", EXPECT_FAILOVER, false},
		     {"no-error", EXPECT_NO_ERROR, false},
		     {"no-switch", EXPECT_NO_SWITCH, false}};
	struct expectation *e = r->s->expect + r->s->expects;
	const char *s = cJSON_GetStringValue(item);

	for (size_t i = 0; s && strlen(s) < sizeof(e->text) && i < sizeof(kinds) / sizeof(*kinds);
	     i++) {
		size_t n = strlen(kinds[i].words);

		if (strncmp(s, kinds[i].words, n) || (!kinds[i].timed && s[n]))
			continue;
		e->kind = kinds[i].kind;
		if (kinds[i].timed && (parse_us(s + n, &e->within_us) || !e->within_us))
			return wrong_value(r, "expect", index, NULL,
					   "not a time behind \"within\"");
		strcpy(e->text, s);
		r->s->expects++;
		return 0;
	}
	return wrong_value(
		r, "expect", index, NULL,
		"none of \"failover within TIME\", \"failback within TIME\", \"failover\", "
		"\"no-error\", \"no-switch\"");
}

static int take_expect(const struct reader *r, const cJSON *list)
{
	int index = 0, status = 0;
	const cJSON *item;

	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > SCENARIO_EXPECT_MAX)
		return wrong_value(r, "expect", -1, NULL, "not an array of at most 16 texts");
	cJSON_ArrayForEach (item, list)
		if (!status)
			status = take_expectation(r, item, index++);
	return status;
}

static int take_hosts(const struct reader *r, const cJSON *list)
{
	int index = 0, status = 0;
	const cJSON *item;

	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > SCENARIO_HOSTS_MAX)
		return wrong_value(r, "hosts", -1, NULL, "not an array of at most 8 names");
	cJSON_ArrayForEach (item, list) {
		const char *s = cJSON_GetStringValue(item);

		if (!status && (!s || !is_plain_name(s, sizeof(r->s->hosts[0]))))
			status = wrong_value(r, "hosts", index, NULL, "not a name");
		if (!status)
			snprintf(r->s->hosts[r->s->host_count++], sizeof(r->s->hosts[0]), "%s", s);
		index++;
	}
	return status;
}

static int take_text(const struct reader *r, const cJSON *item, char *to, size_t bytes)
{
	const char *s = cJSON_GetStringValue(item);

	if (!s || strlen(s) >= bytes)
		return wrong_value(r, item->string, -1, NULL, "not a text, or too long");
	strcpy(to, s);
	for (; *to; to++)
		if (iscntrl((unsigned char)*to))
			*to = ' ';
	return 0;
}

static int take_all(const struct reader *r, const cJSON *o)
{
	struct scenario *s = r->s;
	const cJSON *item;
	int status = 0;

	if (!cJSON_IsObject(o))
		return wrong_value(r, NULL, -1, NULL, "not an object");
	cJSON_ArrayForEach (item, o) {
		const char *key = item->string;

		if (status)
			break;
		if (!strcmp(key, "name"))
			status = take_text(r, item, s->name, sizeof(s->name));
		else if (!strcmp(key, "about"))
			status = take_text(r, item, s->about, sizeof(s->about));
		else if (!strcmp(key, "without"))
			status = take_text(r, item, s->without, sizeof(s->without));
		else if (!strcmp(key, "hosts") && !s->host_count)
			status = take_hosts(r, item);
		else if (!strcmp(key, "expect") && !s->expects)
			status = take_expect(r, item);
		else if (!strcmp(key, "timeline") && !s->event)
			status = take_timeline(r, item);
		else
			status = wrong_value(r, key, -1, NULL, "not a field of a scenario");
	}
	if (!status && !s->event)
		status = wrong_value(r, NULL, -1, NULL, "\"timeline\" is needed");
	return status;
}

int scenario_parse(const char *text, size_t bytes, struct scenario *s, struct problem *p)
{
	struct reader r = {.s = s, .p = p};
	const char *end = NULL;
	char *copy;
	cJSON *o;
	int status;

	memset(s, 0, sizeof(*s));
	if (bytes > SCENARIO_BYTES_MAX)
		return problem_set(p, INJECT_BAD_USAGE, "1: too large");
	copy = malloc(bytes + 1);
	if (!copy)
		abort();
	memcpy(copy, text, bytes);
	copy[bytes] = 0;
	r.text = copy;
	o = cJSON_ParseWithOpts(copy, &end, true);
	if (!o)
		status = problem_set(p, INJECT_BAD_USAGE, "%d: not JSON",
				     line_of(copy, end ? end : copy));
	else
		status = take_all(&r, o);
	cJSON_Delete(o);
	free(copy);
	if (status)
		scenario_free(s);
	return status;
}

void scenario_free(struct scenario *s)
{
	for (int i = 0; i < s->events; i++)
		for (int w = 0; w < s->event[i].count; w++)
			free(s->event[i].words[w]);
	free(s->event);
	memset(s, 0, sizeof(*s));
}
