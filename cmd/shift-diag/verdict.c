/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/verdict.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/shift-diag/diag.h"

const char *verdict_class_name(enum verdict_class c)
{
	switch (c) {
	case CLASS_FINE: return "fine";
	case CLASS_STOPPED: return "stopped";
	case CLASS_SLOW: return "slow";
	case CLASS_FAILED: return "failed";
	case CLASS_UNDECIDED: return "undecided";
	}
	return "undecided";
}

const char *verdict_component_name(enum verdict_component c)
{
	switch (c) {
	case COMPONENT_NONE: return NULL;
	case COMPONENT_COMPUTATION: return "computation";
	case COMPONENT_COMMUNICATION: return "communication";
	}
	return NULL;
}

const char *verdict_level_name(enum verdict_level l)
{
	switch (l) {
	case LEVEL_RANK: return "rank";
	case LEVEL_NIC: return "nic";
	case LEVEL_MACHINE: return "machine";
	case LEVEL_LINK: return "link";
	case LEVEL_PORT: return "port";
	case LEVEL_GROUP: return "group";
	case LEVEL_FLOW: return "flow";
	}
	return "group";
}

struct verdict verdict_make(const char *analyser, const char *rule)
{
	return (struct verdict){
		.analyser = analyser,
		.rule = rule,
		.coverage = {.ranks_expected = REC_NONE, .clock_error_ns = REC_NONE}};
}

void verdict_free(struct verdict *v)
{
	for (size_t i = 0; i < v->evidence_n; i++)
		free(v->evidence[i]);
	free(v->evidence);
	free(v->culprits);
	free(v->action);
	cJSON_Delete(v->thresholds);
	v->evidence = NULL;
	v->culprits = NULL;
	v->action = NULL;
	v->thresholds = NULL;
	v->evidence_n = v->culprits_n = 0;
}

struct culprit *verdict_blame(struct verdict *v)
{
	struct culprit *c;

	v->culprits = check_alloc(
		reallocarray(v->culprits, v->culprits_n + 1, sizeof(*v->culprits)));
	c = v->culprits + v->culprits_n++;
	*c = (struct culprit){.rank = REC_NONE};
	return c;
}

void verdict_says(struct verdict *v, const char *format, ...)
{
	char *text;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	va_end(ap);
	check_alloc(text);
	v->evidence = check_alloc(
		reallocarray(v->evidence, v->evidence_n + 1, sizeof(*v->evidence)));
	v->evidence[v->evidence_n++] = text;
}

void verdict_advises(struct verdict *v, const char *format, ...)
{
	va_list ap;

	free(v->action);
	va_start(ap, format);
	if (vasprintf(&v->action, format, ap) < 0)
		v->action = NULL;
	va_end(ap);
	check_alloc(v->action);
}

void verdict_undecided(struct verdict *v)
{
	v->class = CLASS_UNDECIDED;
	v->component = COMPONENT_NONE;
	v->confidence = 0;
}

void verdict_threshold(struct verdict *v, const char *name, double value)
{
	if (!v->thresholds)
		v->thresholds = check_alloc(cJSON_CreateObject());
	check_alloc(cJSON_AddNumberToObject(v->thresholds, name, value));
}

int verdict_status(const struct verdict *v)
{
	switch (v->class) {
	case CLASS_FINE: return EXIT_FINE;
	case CLASS_STOPPED:
	case CLASS_SLOW:
	case CLASS_FAILED: return v->culprits_n ? EXIT_CULPRIT : EXIT_WARNING;
	case CLASS_UNDECIDED: return EXIT_UNDECIDED;
	}
	return EXIT_UNDECIDED;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* NULL and "": null. */
void json_add_text(cJSON *o, const char *name, const char *text)
{
	if (text && *text)
		check_alloc(cJSON_AddStringToObject(o, name, text));
	else
		check_alloc(cJSON_AddNullToObject(o, name));
}

void json_add_known(cJSON *o, const char *name, double number, bool is_known)
{
	if (is_known && isfinite(number))
		check_alloc(cJSON_AddNumberToObject(o, name, number));
	else
		check_alloc(cJSON_AddNullToObject(o, name));
}

cJSON *culprit_json(const struct culprit *c)
{
	cJSON *o = check_alloc(cJSON_CreateObject());

	json_add_known(o, "rank", c->rank, c->rank != REC_NONE);
	json_add_text(o, "host", c->host);
	json_add_known(o, "pid", c->pid, c->pid);
	json_add_text(o, "device", c->nic);
	json_add_known(o, "qpn", c->qpn, c->qpn);
	json_add_text(o, "what", c->what);
	json_add_known(o, "score", c->score, c->score != 0);
	return o;
}

void json_add_coverage(cJSON *parent, const struct coverage *c)
{
	cJSON *o = check_alloc(cJSON_AddObjectToObject(parent, "coverage"));

	json_add_known(o, "ranks_expected", c->ranks_expected, c->ranks_expected != REC_NONE);
	json_add_known(o, "ranks_seen", c->ranks_seen, c->ranks_seen != REC_NONE);
	json_add_known(o, "dropped", (double)c->dropped, true);
	json_add_known(o, "clock_error_ns", (double)c->clock_error_ns,
		       c->clock_error_ns != REC_NONE);
	json_add_known(o, "hosts_expected", c->hosts_expected, c->hosts_expected);
	json_add_known(o, "hosts_seen", c->hosts_seen, c->hosts_expected);
}

/* A string: a double has not all its digits. */
void json_add_time(cJSON *o, const char *name, uint64_t t_ns)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, t_ns);
	json_add_text(o, name, t_ns ? text : NULL);
}

cJSON *verdict_json(const struct verdict *v)
{
	cJSON *o = check_alloc(cJSON_CreateObject()), *array;

	json_add_text(o, "analyser", v->analyser);
	json_add_text(o, "job", v->job);
	json_add_text(o, "class", verdict_class_name(v->class));
	json_add_text(o, "component", verdict_component_name(v->component));
	json_add_text(o, "level", v->culprits_n ? verdict_level_name(v->level) : NULL);
	array = check_alloc(cJSON_AddArrayToObject(o, "culprits"));
	for (size_t i = 0; i < v->culprits_n; i++)
		cJSON_AddItemToArray(array, culprit_json(v->culprits + i));
	json_add_known(o, "confidence", v->confidence, true);
	array = check_alloc(cJSON_AddArrayToObject(o, "evidence"));
	for (size_t i = 0; i < v->evidence_n; i++)
		cJSON_AddItemToArray(array, check_alloc(cJSON_CreateString(v->evidence[i])));
	json_add_text(o, "rule", v->rule);
	cJSON_AddItemToObject(o, "thresholds",
			      check_alloc(v->thresholds ? cJSON_Duplicate(v->thresholds, true)
							: cJSON_CreateObject()));
	json_add_time(o, "first_seen_ns", v->first_seen_ns);
	json_add_coverage(o, &v->coverage);
	json_add_text(o, "action", v->action);
	return o;
}

/* ---- text ----------------------------------------------------------------------------------- */

const char *verdict_class_text(enum verdict_class c)
{
	switch (c) {
	case CLASS_FINE: return "fine";
	case CLASS_UNDECIDED: return "could not decide";
	case CLASS_STOPPED: return "it stands still";
	case CLASS_SLOW: return "it is slow";
	case CLASS_FAILED: return "it has failed";
	}
	return "could not decide";
}

static void print_finding(const struct verdict *v)
{
	const char *component = verdict_component_name(v->component);

	if (*v->job)
		printf("job %s: ", shown(v->job));
	fputs(verdict_class_text(v->class), stdout);
	if (v->class == CLASS_FINE)
		printf(": nothing is wrong that %s can see", v->analyser);
	else if (component)
		printf(", in %s", component);
	printf(" (%s: %s, confidence %.2f)\n", v->analyser, v->rule, v->confidence);
}

void culprit_describe(const struct culprit *c, char *text, size_t bytes)
{
	FILE *f = check_alloc(fmemopen(text, bytes, "w"));

	*text = '\0';
	if (c->rank != REC_NONE)
		fprintf(f, " rank %d", c->rank);
	if (*c->host)
		fprintf(f, " host %s", c->host);
	if (c->pid)
		fprintf(f, " pid %d", c->pid);
	if (*c->nic)
		fprintf(f, " NIC %s", c->nic);
	if (c->qpn)
		fprintf(f, " QP 0x%" PRIx32, c->qpn);
	if (*c->what)
		fprintf(f, " %s", c->what);
	fclose(f);
	text[bytes - 1] = '\0';
	memmove(text, text + (*text == ' '), strlen(text) + (*text != ' '));
}

static void print_culprit(const struct verdict *v, const struct culprit *c)
{
	char text[CULPRIT_BYTES];

	culprit_describe(c, text, sizeof(text));
	printf("culprit, a %s: %s", verdict_level_name(v->level), shown(text));
	if (c->score != 0)
		printf(" (%.0f %%)", c->score * 100);
	putchar('\n');
}

void coverage_print(const struct coverage *c)
{
	printf("  rests on: ");
	if (c->ranks_expected != REC_NONE)
		printf("%d of %d ranks", c->ranks_seen, c->ranks_expected);
	else
		printf("%d ranks; how many there are is not known", c->ranks_seen);
	if (c->hosts_expected)
		printf(", %d of %d hosts", c->hosts_seen, c->hosts_expected);
	if (c->dropped)
		printf(", %" PRIu64 " records lost", c->dropped);
	if (c->clock_error_ns != REC_NONE)
		printf(", clocks to %.3f ms", (double)c->clock_error_ns / 1e6);
	putchar('\n');
}

void first_seen_print(uint64_t t_ns)
{
	time_t s = (time_t)(t_ns / 1000000000);
	struct tm tm;
	char text[32];

	if (!t_ns || !gmtime_r(&s, &tm) || !strftime(text, sizeof(text), "%F %T", &tm))
		return;
	printf("  first seen: %s.%03u UTC\n", text, (unsigned int)(t_ns / 1000000 % 1000));
}

void verdict_print(const struct verdict *v)
{
	print_finding(v);
	for (size_t i = 0; i < v->culprits_n; i++)
		print_culprit(v, v->culprits + i);
	for (size_t i = 0; i < v->evidence_n; i++)
		printf("  %s\n", shown(v->evidence[i]));
	first_seen_print(v->first_seen_ns);
	coverage_print(&v->coverage);
	if (v->action)
		printf("  do: %s\n", shown(v->action));
}
