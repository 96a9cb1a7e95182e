/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The answer as text and as JSON. */
#include <stdio.h>
#include <string.h>

#include "cmd/shift-diag/answer.h"
#include "common/cli.h"

/* ---- text ----------------------------------------------------------------------------------- */

static void print_head(const struct answer *a)
{
	const char *component = verdict_component_name(a->component);

	fputs(verdict_class_text(a->class), stdout);
	if (a->class == CLASS_FINE)
		fputs(": nothing is wrong that the analysers can see", stdout);
	else if (component)
		printf(", in %s", component);
	printf(" (confidence %.2f)\n", a->confidence);
}

/* The first in the order whom this verdict names. */
static size_t first_named(const struct answer *a, const struct verdict *v)
{
	for (size_t i = 0; i < a->culprits_n; i++)
		for (size_t k = 0; k < a->culprit[i].named_by_n; k++)
			if (a->culprit[i].named_by[k].verdict == v)
				return i;
	return 0;
}

static void print_for(const struct answer *a, const struct answer_vote *v, size_t culprit)
{
	size_t first = first_named(a, v->verdict);
	const char *component = verdict_component_name(v->verdict->component);

	printf("   + %s: %s%s%s (%s, confidence %.2f)\n", v->source->command,
	       verdict_class_name(v->verdict->class), component ? ", " : "",
	       component ? component : "", v->verdict->rule, v->verdict->confidence);
	if (first != culprit)
		printf("       evidence: that of %zu\n", first + 1);
	for (size_t i = 0; first == culprit && i < v->verdict->evidence_n; i++)
		printf("       %s\n", shown(v->verdict->evidence[i]));
}

static void print_against(const struct answer_vote *v)
{
	char text[CULPRIT_BYTES];

	printf("   - %s: ", v->source->command);
	if (v->verdict->class == CLASS_FINE) {
		printf("sees nothing wrong (confidence %.2f)\n", v->verdict->confidence);
	} else {
		culprit_describe(v->verdict->culprits, text, sizeof(text));
		printf("names %s instead (%s, confidence %.2f)\n", shown(text), v->verdict->rule,
		       v->verdict->confidence);
	}
}

static const char *standing(double confidence)
{
	if (confidence > ANSWER_BLAMED)
		return "culprit";
	return confidence >= ANSWER_SUSPECT ? "suspect" : "outvoted";
}

static void print_culprit(const struct answer *a, size_t number)
{
	const struct answer_culprit *c = a->culprit + number;
	const char *component = verdict_component_name(c->component);
	char text[CULPRIT_BYTES];

	culprit_describe(&c->who, text, sizeof(text));
	printf("%zu. %s, a %s: %s: %s%s%s (confidence %.2f)\n", number + 1, standing(c->confidence),
	       verdict_level_name(c->level), shown(text), verdict_class_name(c->class),
	       component ? ", " : "", component ? component : "", c->confidence);
	for (size_t i = 0; i < c->named_by_n; i++)
		print_for(a, c->named_by + i, number);
	for (size_t i = 0; i < c->against_n; i++)
		print_against(c->against + i);
}

static void print_sources(const struct answer *a)
{
	for (size_t i = 0; i < a->sources; i++) {
		const struct answer_source *s = a->source + i;

		if (s->why_not)
			printf("  %-5s not asked: %s\n", s->command, shown(s->why_not));
		for (size_t k = 0; k < s->n; k++)
			printf("  %-5s %s (%s, confidence %.2f)\n", s->command,
			       verdict_class_name(s->verdict[k].class), s->verdict[k].rule,
			       s->verdict[k].confidence);
	}
}

void answer_print(const struct answer *a)
{
	print_head(a);
	for (size_t i = 0; i < a->culprits_n; i++)
		print_culprit(a, i);
	print_sources(a);
	first_seen_print(a->first_seen_ns);
	coverage_print(&a->coverage);
	if (a->action)
		printf("  do: %s\n", shown(a->action));
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void add_votes(cJSON *o, const char *name, const struct answer_vote *v, size_t n)
{
	cJSON *array = check_alloc(cJSON_AddArrayToObject(o, name));

	for (size_t i = 0; i < n; i++) {
		cJSON *one = check_alloc(cJSON_CreateObject()), *evidence;
		const struct verdict *verdict = v[i].verdict;

		json_add_text(one, "command", v[i].source->command);
		json_add_text(one, "analyser", verdict->analyser);
		json_add_text(one, "class", verdict_class_name(verdict->class));
		json_add_text(one, "component", verdict_component_name(verdict->component));
		json_add_text(one, "rule", verdict->rule);
		json_add_known(one, "confidence", verdict->confidence, true);
		evidence = check_alloc(cJSON_AddArrayToObject(one, "evidence"));
		for (size_t k = 0; k < verdict->evidence_n; k++)
			cJSON_AddItemToArray(evidence,
					     check_alloc(cJSON_CreateString(verdict->evidence[k])));
		cJSON_AddItemToArray(array, one);
	}
}

static cJSON *ranked_json(const struct answer_culprit *c)
{
	cJSON *o = culprit_json(&c->who);

	json_add_text(o, "standing", standing(c->confidence));
	json_add_text(o, "level", verdict_level_name(c->level));
	json_add_text(o, "class", verdict_class_name(c->class));
	json_add_text(o, "component", verdict_component_name(c->component));
	json_add_known(o, "confidence", c->confidence, true);
	json_add_time(o, "first_seen_ns", c->first_seen_ns);
	add_votes(o, "named_by", c->named_by, c->named_by_n);
	add_votes(o, "against", c->against, c->against_n);
	json_add_text(o, "action", c->action);
	return o;
}

cJSON *answer_json(const struct answer *a)
{
	cJSON *o = check_alloc(cJSON_CreateObject()), *array;

	json_add_text(o, "class", verdict_class_name(a->class));
	json_add_text(o, "component", verdict_component_name(a->component));
	json_add_known(o, "confidence", a->confidence, true);
	array = check_alloc(cJSON_AddArrayToObject(o, "culprits"));
	for (size_t i = 0; i < a->culprits_n; i++)
		cJSON_AddItemToArray(array, ranked_json(a->culprit + i));
	json_add_time(o, "first_seen_ns", a->first_seen_ns);
	json_add_coverage(o, &a->coverage);
	json_add_text(o, "action", a->action);
	return o;
}
