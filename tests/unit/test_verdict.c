/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What an analyser has found: exit status, JSON, text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/shift-diag/diag.h"
#include "cmd/shift-diag/verdict.h"

static struct verdict hang(void)
{
	struct verdict v = verdict_make("aegis", "fewer-launches");
	struct culprit *c = verdict_blame(&v);

	v.class = CLASS_STOPPED;
	v.component = COMPONENT_COMPUTATION;
	v.level = LEVEL_RANK;
	v.confidence = 0.75;
	v.first_seen_ns = 1795855608123456789u;
	v.coverage.ranks_expected = 4;
	v.coverage.ranks_seen = 3;
	c->rank = 2;
	c->pid = 4711;
	snprintf(c->host, sizeof(c->host), "node\x1b[2J");
	verdict_says(&v, "rank %d has launched %d of %d", 2, 6, 7);
	verdict_advises(&v, "old");
	verdict_advises(&v, "look at its stack");
	verdict_threshold(&v, "frozen_s", 10);
	return v;
}

static void the_status_follows(void **state)
{
	struct verdict v = verdict_make("aegis", "r");

	(void)state;
	assert_int_equal(verdict_status(&v), EXIT_FINE);
	v.class = CLASS_UNDECIDED;
	assert_int_equal(verdict_status(&v), EXIT_UNDECIDED);
	for (v.class = CLASS_STOPPED; v.class <= CLASS_FAILED; v.class ++)
		assert_int_equal(verdict_status(&v), EXIT_WARNING);
	verdict_blame(&v);
	for (v.class = CLASS_STOPPED; v.class <= CLASS_FAILED; v.class ++)
		assert_int_equal(verdict_status(&v), EXIT_CULPRIT);
	v.class = CLASS_UNDECIDED;
	assert_int_equal(verdict_status(&v), EXIT_UNDECIDED);
	verdict_free(&v);
}

static const char *text_of(const cJSON *o, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItem(o, name));
}

static double number_of(const cJSON *o, const char *name)
{
	const cJSON *n = cJSON_GetObjectItem(o, name);

	assert_true(cJSON_IsNumber(n));
	return n->valuedouble;
}

static void json_has_all(void **state)
{
	struct verdict v = hang();
	cJSON *o = verdict_json(&v), *c = cJSON_GetObjectItem(o, "culprits")->child,
	      *coverage = cJSON_GetObjectItem(o, "coverage");

	(void)state;
	assert_string_equal(text_of(o, "analyser"), "aegis");
	assert_string_equal(text_of(o, "class"), "stopped");
	assert_string_equal(text_of(o, "component"), "computation");
	assert_string_equal(text_of(o, "level"), "rank");
	assert_string_equal(text_of(o, "rule"), "fewer-launches");
	assert_string_equal(text_of(o, "first_seen_ns"), "1795855608123456789");
	assert_string_equal(text_of(o, "action"), "look at its stack");
	assert_true(number_of(o, "confidence") == 0.75);
	assert_true(number_of(c, "rank") == 2 && number_of(c, "pid") == 4711);
	assert_true(cJSON_IsNull(cJSON_GetObjectItem(c, "device")));
	assert_true(cJSON_IsNull(cJSON_GetObjectItem(c, "qpn")));
	assert_string_equal(cJSON_GetObjectItem(o, "evidence")->child->valuestring,
			    "rank 2 has launched 6 of 7");
	assert_true(number_of(cJSON_GetObjectItem(o, "thresholds"), "frozen_s") == 10);
	assert_true(number_of(coverage, "ranks_expected") == 4);
	assert_true(number_of(coverage, "ranks_seen") == 3);
	assert_true(cJSON_IsNull(cJSON_GetObjectItem(coverage, "clock_error_ns")));
	cJSON_Delete(o);
	verdict_free(&v);
}

static void json_says_what_is_not_known(void **state)
{
	struct verdict v = verdict_make("pulse", "none");
	cJSON *o = verdict_json(&v);

	(void)state;
	assert_string_equal(text_of(o, "class"), "fine");
	for (const char *const *name =
		     (const char *const[]){"component", "level", "first_seen_ns", "action", NULL};
	     *name; name++)
		assert_true(cJSON_IsNull(cJSON_GetObjectItem(o, *name)));
	assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(o, "culprits")), 0);
	assert_true(cJSON_IsNull(
		cJSON_GetObjectItem(cJSON_GetObjectItem(o, "coverage"), "ranks_expected")));
	cJSON_Delete(o);
}

/* What verdict_print() writes. */
static void printed(char *text, size_t bytes, const struct verdict *v)
{
	FILE *file = tmpfile();
	int own = dup(STDOUT_FILENO);
	size_t n;

	assert_non_null(file);
	fflush(stdout);
	dup2(fileno(file), STDOUT_FILENO);
	verdict_print(v);
	fflush(stdout);
	dup2(own, STDOUT_FILENO);
	close(own);
	rewind(file);
	n = fread(text, 1, bytes - 1, file);
	text[n] = 0;
	fclose(file);
}

static void text_is_for_people(void **state)
{
	struct verdict v = hang();
	char text[2048];

	(void)state;
	printed(text, sizeof(text), &v);
	assert_string_equal(text,
			    "it stands still, in computation (aegis: fewer-launches, confidence "
			    "0.75)\n"
			    "culprit, a rank: rank 2 host node\\x1b[2J pid 4711\n"
			    "  rank 2 has launched 6 of 7\n"
			    "  first seen: 2026-11-28 08:46:48.123 UTC\n"
			    "  rests on: 3 of 4 ranks\n"
			    "  do: look at its stack\n");
	verdict_free(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_status_follows),
		cmocka_unit_test(json_has_all),
		cmocka_unit_test(json_says_what_is_not_known),
		cmocka_unit_test(text_is_for_people),
	};

	cli_begin("test_verdict", EXIT_FAILED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
