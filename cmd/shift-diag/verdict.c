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

static const char *class_name(enum verdict_class c)
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

static const char *component_name(enum verdict_component c)
{
	switch (c) {
	case COMPONENT_NONE: return NULL;
	case COMPONENT_COMPUTATION: return "computation";
	case COMPONENT_COMMUNICATION: return "communication";
	}
	return NULL;
}

static const char *level_name(enum verdict_level l)
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
static void add_text(cJSON *o, const char *name, const char *text)
{
	if (text && *text)
		check_alloc(cJSON_AddStringToObject(o, name, text));
	else
		check_alloc(cJSON_AddNullToObject(o, name));
}

static void add_known(cJSON *o, const char *name, double number, bool is_known)
{
	if (is_known && isfinite(number))
		check_alloc(cJSON_AddNumberToObject(o, name, number));
	else
		check_alloc(cJSON_AddNullToObject(o, name));
}

static void add_culprit(cJSON *array, const struct culprit *c)
{
	cJSON *o = check_alloc(cJSON_CreateObject());

	cJSON_AddItemToArray(array, o);
	add_known(o, "rank", c->rank, c->rank != REC_NONE);
	add_text(o, "host", c->host);
	add_known(o, "pid", c->pid, c->pid);
	add_text(o, "device", c->nic);
	add_known(o, "qpn", c->qpn, c->qpn);
	add_text(o, "what", c->what);
	add_known(o, "score", c->score, c->score != 0);
}

static void add_coverage(cJSON *parent, const struct coverage *c)
{
	cJSON *o = check_alloc(cJSON_AddObjectToObject(parent, "coverage"));

	add_known(o, "ranks_expected", c->ranks_expected, c->ranks_expected != REC_NONE);
	add_known(o, "ranks_seen", c->ranks_seen, c->ranks_seen != REC_NONE);
	add_known(o, "dropped", (double)c->dropped, true);
	add_known(o, "clock_error_ns", (double)c->clock_error_ns, c->clock_error_ns != REC_NONE);
	add_known(o, "hosts_expected", c->hosts_expected, c->hosts_expected);
	add_known(o, "hosts_seen", c->hosts_seen, c->hosts_expected);
}

/* A string: a double has not all its digits. */
static void add_time(cJSON *o, const char *name, uint64_t t_ns)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, t_ns);
	add_text(o, name, t_ns ? text : NULL);
}

cJSON *verdict_json(const struct verdict *v)
{
	cJSON *o = check_alloc(cJSON_CreateObject()), *array;

	add_text(o, "analyser", v->analyser);
	add_text(o, "job", v->job);
	add_text(o, "class", class_name(v->class));
	add_text(o, "component", component_name(v->component));
	add_text(o, "level", v->culprits_n ? level_name(v->level) : NULL);
	array = check_alloc(cJSON_AddArrayToObject(o, "culprits"));
	for (size_t i = 0; i < v->culprits_n; i++)
		add_culprit(array, v->culprits + i);
	add_known(o, "confidence", v->confidence, true);
	array = check_alloc(cJSON_AddArrayToObject(o, "evidence"));
	for (size_t i = 0; i < v->evidence_n; i++)
		cJSON_AddItemToArray(array, check_alloc(cJSON_CreateString(v->evidence[i])));
	add_text(o, "rule", v->rule);
	cJSON_AddItemToObject(o, "thresholds",
			      check_alloc(v->thresholds ? cJSON_Duplicate(v->thresholds, true)
							: cJSON_CreateObject()));
	add_time(o, "first_seen_ns", v->first_seen_ns);
	add_coverage(o, &v->coverage);
	add_text(o, "action", v->action);
	return o;
}

/* ---- text ----------------------------------------------------------------------------------- */

static void print_finding(const struct verdict *v)
{
	const char *component = component_name(v->component);

	if (*v->job)
		printf("job %s: ", shown(v->job));
	switch (v->class) {
	case CLASS_FINE: printf("fine: nothing is wrong that %s can see", v->analyser); break;
	case CLASS_UNDECIDED: printf("could not decide"); break;
	case CLASS_STOPPED: printf("it stands still"); break;
	case CLASS_SLOW: printf("it is slow"); break;
	case CLASS_FAILED: printf("it has failed"); break;
	}
	if (component && v->class != CLASS_FINE)
		printf(", in %s", component);
	printf(" (%s: %s, confidence %.2f)\n", v->analyser, v->rule, v->confidence);
}

static void print_culprit(const struct verdict *v, const struct culprit *c)
{
	printf("culprit, a %s:", level_name(v->level));
	if (c->rank != REC_NONE)
		printf(" rank %d", c->rank);
	if (*c->host)
		printf(" host %s", shown(c->host));
	if (c->pid)
		printf(" pid %d", c->pid);
	if (*c->nic)
		printf(" NIC %s", shown(c->nic));
	if (c->qpn)
		printf(" QP 0x%" PRIx32, c->qpn);
	if (*c->what)
		printf(" %s", shown(c->what));
	if (c->score != 0)
		printf(" (%.0f %%)", c->score * 100);
	putchar('\n');
}

static void print_coverage(const struct coverage *c)
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

static void print_time(uint64_t t_ns)
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
	print_time(v->first_seen_ns);
	print_coverage(&v->coverage);
	if (v->action)
		printf("  do: %s\n", shown(v->action));
}
