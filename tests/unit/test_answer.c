/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* One answer from several verdicts: who is the same, what makes surer, what contradicts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/shift-diag/answer.h"
#include "cmd/shift-diag/diag.h"

enum { HANG, FAIL, SLOW, PULSE, PATH, SOURCES };

/* What each has said; one verdict of each, or two of path. */
struct world {
	struct answer_source source[SOURCES];
	struct verdict verdict[SOURCES + 1];
	struct answer answer;
};

static struct world make(void)
{
	static const char *const commands[] = {"hang", "fail", "slow", "pulse", "path"};
	static const char *const analysers[] = {"aegis", "aegis", "aegis", "pulse", "vedrfolnir"};
	static const unsigned int sees[] = {CLASS_BIT(CLASS_STOPPED), CLASS_BIT(CLASS_FAILED),
					    CLASS_BIT(CLASS_SLOW),
					    CLASS_BIT(CLASS_STOPPED) | CLASS_BIT(CLASS_SLOW), 0};
	struct world w = {0};

	for (int i = 0; i < SOURCES; i++) {
		w.source[i] = (struct answer_source){.command = commands[i], .sees = sees[i]};
		w.verdict[i] = verdict_make(analysers[i], "r");
		w.verdict[i].confidence = 0.9;
		w.verdict[i].coverage.ranks_expected = w.verdict[i].coverage.ranks_seen = 4;
	}
	w.verdict[SOURCES] = verdict_make("vedrfolnir", "r");
	return w;
}

static struct verdict *says(struct world *w, int source, enum verdict_class class,
			    double confidence)
{
	struct verdict *v = w->verdict + source;

	v->class = class;
	v->confidence = confidence;
	return v;
}

static struct culprit *blames_rank(struct world *w, int source, enum verdict_class class,
				   double confidence, int rank)
{
	struct culprit *c = verdict_blame(says(w, source, class, confidence));

	c->rank = rank;
	return c;
}

static const struct answer *merge(struct world *w)
{
	for (int i = 0; i < SOURCES; i++) {
		w->source[i].verdict = w->source[i].why_not ? NULL : w->verdict + i;
		w->source[i].n = w->source[i].why_not ? 0 : 1;
	}
	w->source[PATH].n += w->source[PATH].n && w->verdict[SOURCES].culprits_n;
	w->answer = answer_make(w->source, SOURCES);
	return &w->answer;
}

static void end(struct world *w)
{
	answer_free(&w->answer);
	for (int i = 0; i <= SOURCES; i++)
		verdict_free(w->verdict + i);
}

static bool is_near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

static void all_fine(void **state)
{
	struct world w = make();
	const struct answer *a = merge(&w);

	(void)state;
	assert_int_equal(a->class, CLASS_FINE);
	assert_int_equal(answer_status(a), EXIT_FINE);
	assert_true(is_near(a->confidence, 0.9));
	assert_int_equal(a->culprits_n, 0);
	end(&w);
}

static void fine_needs_a_look_at_each_class(void **state)
{
	struct world w = make();

	(void)state;
	says(&w, SLOW, CLASS_UNDECIDED, 0); /* pulse has seen that nobody is slow */
	assert_int_equal(answer_status(merge(&w)), EXIT_FINE);
	answer_free(&w.answer);
	says(&w, PULSE, CLASS_UNDECIDED, 0);
	assert_int_equal(answer_status(merge(&w)), EXIT_UNDECIDED);
	end(&w);
}

static void only_the_path_was_asked(void **state)
{
	struct world w = make();

	(void)state;
	for (int i = 0; i < PATH; i++)
		w.source[i].why_not = "no records";
	assert_int_equal(answer_status(merge(&w)), EXIT_FINE);
	answer_free(&w.answer);
	says(&w, PATH, CLASS_UNDECIDED, 0);
	assert_int_equal(answer_status(merge(&w)), EXIT_UNDECIDED);
	end(&w);
}

static void agreement_makes_surer(void **state)
{
	struct world w = make();
	const struct answer *a;

	(void)state;
	blames_rank(&w, SLOW, CLASS_SLOW, 0.6, 3)->pid = 7;
	snprintf(blames_rank(&w, PULSE, CLASS_SLOW, 0.8, 3)->host, REC_NAME_BYTES, "h");
	a = merge(&w);
	assert_int_equal(answer_status(a), EXIT_CULPRIT);
	assert_int_equal(a->culprits_n, 1);
	assert_int_equal(a->culprit[0].named_by_n, 2);
	assert_string_equal(a->culprit[0].named_by[0].source->command, "pulse"); /* the surest */
	assert_true(is_near(a->confidence, 6.0 / 7)); /* 1.5 times 4 to 1 */
	/* Each knows a part of who it is. */
	assert_int_equal(a->culprit[0].who.pid, 7);
	assert_string_equal(a->culprit[0].who.host, "h");
	end(&w);
}

static void one_analyser_counts_once(void **state)
{
	struct world w = make();

	(void)state;
	blames_rank(&w, HANG, CLASS_STOPPED, 0.9, 3);
	blames_rank(&w, FAIL, CLASS_FAILED, 0.8, 3);
	says(&w, PULSE, CLASS_UNDECIDED, 0);
	assert_true(is_near(merge(&w)->confidence, 0.9));
	assert_int_equal(w.answer.culprits_n, 1);
	assert_int_equal(w.answer.class, CLASS_STOPPED);
	end(&w);
}

static void contradictions_are_told_and_weigh(void **state)
{
	struct world w = make();
	const struct answer *a;

	(void)state;
	blames_rank(&w, SLOW, CLASS_SLOW, 0.5, 1);
	blames_rank(&w, PULSE, CLASS_SLOW, 0.9, 2);
	a = merge(&w);
	assert_int_equal(a->culprits_n, 2);
	assert_int_equal(a->blamed, 1);
	assert_int_equal(a->culprit[0].who.rank, 2);
	assert_int_equal(a->culprit[0].against_n, 1);
	assert_string_equal(a->culprit[0].against[0].source->command, "slow");
	assert_true(is_near(a->confidence, 6.75 / 7.75)); /* 9 times 0.75 to 1 */
	assert_int_equal(a->culprit[1].who.rank, 1);
	assert_true(is_near(a->culprit[1].confidence, 0.55 / 1.55));
	end(&w);
}

static void who_sees_nothing_contradicts_only_what_it_could_see(void **state)
{
	struct world w = make();
	const struct answer *a;

	(void)state;
	blames_rank(&w, SLOW, CLASS_SLOW, 0.9, 1); /* hang and fail say nothing of slowness */
	a = merge(&w);
	assert_int_equal(a->culprit[0].against_n, 1);
	assert_string_equal(a->culprit[0].against[0].source->command, "pulse");
	assert_int_equal(answer_status(a), EXIT_CULPRIT);
	end(&w);
}

static void a_weak_finding_is_outvoted(void **state)
{
	struct world w = make();
	const struct answer *a;

	(void)state;
	blames_rank(&w, PATH, CLASS_SLOW, 0.5, 1);
	a = merge(&w);
	assert_int_equal(a->culprits_n, 1); /* it is told */
	assert_true(a->culprit[0].confidence < ANSWER_SUSPECT + 0.01);
	assert_int_equal(a->blamed, 0);
	says(&w, SLOW, CLASS_FINE, 1);
	answer_free(&w.answer);
	assert_int_equal(answer_status(merge(&w)), EXIT_FINE);
	/* With one of them only it stays a suspect. */
	says(&w, SLOW, CLASS_UNDECIDED, 0);
	answer_free(&w.answer);
	assert_int_equal(answer_status(merge(&w)), EXIT_UNDECIDED);
	end(&w);
}

static void a_host_is_that_of_its_ranks(void **state)
{
	struct world w = make();
	const struct answer *a;

	(void)state;
	snprintf(blames_rank(&w, FAIL, CLASS_FAILED, 0.6, REC_NONE)->host, REC_NAME_BYTES, "h1");
	snprintf(blames_rank(&w, HANG, CLASS_STOPPED, 0.9, 2)->host, REC_NAME_BYTES, "h1");
	snprintf(verdict_blame(w.verdict + FAIL)->host, REC_NAME_BYTES, "h2");
	a = merge(&w);
	assert_int_equal(a->culprits_n, 2);
	assert_int_equal(a->culprit[0].who.rank, 2);
	assert_int_equal(a->culprit[0].named_by_n, 2);
	assert_string_equal(a->culprit[1].who.host, "h2");
	end(&w);
}

static void what_stands_still_comes_first(void **state)
{
	struct world w = make();
	const struct answer *a;

	(void)state;
	blames_rank(&w, SLOW, CLASS_SLOW, 0.95, 1);
	blames_rank(&w, HANG, CLASS_STOPPED, 0.7, 2);
	says(&w, PULSE, CLASS_UNDECIDED, 0);
	a = merge(&w);
	assert_int_equal(a->blamed, 2);
	assert_int_equal(a->culprit[0].who.rank, 2);
	assert_int_equal(a->class, CLASS_STOPPED);
	assert_int_equal(a->culprit[0].against_n, 0); /* another kind of finding */
	end(&w);
}

static void flows_are_ordered_by_their_share(void **state)
{
	struct world w = make();
	const struct answer *a;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct culprit *c = blames_rank(&w, PATH, CLASS_SLOW, 0.9, REC_NONE);

		snprintf(c->what, sizeof(c->what), "flow%d", i);
		c->score = i == 1 ? 0.8 : 0.1;
	}
	w.verdict[PATH].level = LEVEL_FLOW;
	blames_rank(&w, PULSE, CLASS_SLOW, 0.42, 1);
	a = merge(&w);
	assert_int_equal(a->culprits_n, 4);
	assert_int_equal(a->blamed, 3);
	assert_string_equal(a->culprit[0].who.what, "flow1");
	/* A flow explains a slow rank: neither contradicts the other. */
	assert_int_equal(a->culprit[0].against_n, 0);
	assert_int_equal(a->culprit[3].who.rank, 1);
	assert_int_equal(a->culprit[3].against_n, 1);
	assert_string_equal(a->culprit[3].against[0].source->command, "slow");
	end(&w);
}

static void a_warning_without_a_culprit(void **state)
{
	struct world w = make();

	(void)state;
	says(&w, PATH, CLASS_SLOW, 0.8);
	assert_int_equal(answer_status(merge(&w)), EXIT_WARNING);
	assert_int_equal(w.answer.class, CLASS_SLOW);
	end(&w);
}

static void the_coverage_is_the_least(void **state)
{
	struct world w = make();

	(void)state;
	w.verdict[PULSE].coverage.ranks_seen = 3;
	w.verdict[SLOW].coverage.dropped = 5;
	w.verdict[PATH].coverage.ranks_expected = w.verdict[PATH].coverage.ranks_seen = 2;
	merge(&w);
	assert_int_equal(w.answer.coverage.ranks_expected, 4);
	assert_int_equal(w.answer.coverage.ranks_seen, 3);
	assert_int_equal(w.answer.coverage.dropped, 5);
	end(&w);
}

static void json_has_both_sides(void **state)
{
	struct world w = make();
	cJSON *o, *c;

	(void)state;
	blames_rank(&w, PULSE, CLASS_SLOW, 0.9, 2);
	verdict_says(w.verdict + PULSE, "it is late");
	o = answer_json(merge(&w));
	c = cJSON_GetObjectItem(o, "culprits")->child;
	assert_string_equal(cJSON_GetObjectItem(c, "standing")->valuestring, "culprit");
	c = cJSON_GetObjectItem(c, "named_by")->child;
	assert_string_equal(cJSON_GetObjectItem(c, "command")->valuestring, "pulse");
	assert_string_equal(cJSON_GetObjectItem(c, "evidence")->child->valuestring, "it is late");
	c = cJSON_GetObjectItem(cJSON_GetObjectItem(o, "culprits")->child, "against")->child;
	assert_string_equal(cJSON_GetObjectItem(c, "command")->valuestring, "slow");
	assert_string_equal(cJSON_GetObjectItem(c, "class")->valuestring, "fine");
	cJSON_Delete(o);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_fine),
		cmocka_unit_test(fine_needs_a_look_at_each_class),
		cmocka_unit_test(only_the_path_was_asked),
		cmocka_unit_test(agreement_makes_surer),
		cmocka_unit_test(one_analyser_counts_once),
		cmocka_unit_test(contradictions_are_told_and_weigh),
		cmocka_unit_test(who_sees_nothing_contradicts_only_what_it_could_see),
		cmocka_unit_test(a_weak_finding_is_outvoted),
		cmocka_unit_test(a_host_is_that_of_its_ranks),
		cmocka_unit_test(what_stands_still_comes_first),
		cmocka_unit_test(flows_are_ordered_by_their_share),
		cmocka_unit_test(a_warning_without_a_culprit),
		cmocka_unit_test(the_coverage_is_the_least),
		cmocka_unit_test(json_has_both_sides),
	};

	cli_begin("test_answer", EXIT_FAILED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
