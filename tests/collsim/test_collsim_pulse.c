/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Pulse on simulated jobs, whose faults are known: how many it finds, and how many it invents.
 * PULSE_SEEDS=20 in the environment: that many seeds of each case; PULSE_FIRST=1000: from that one.
 * HEALTHY=1000: so many random jobs without a fault, HEALTHY_FIRST=1001: from that seed. The
 * table is printed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/shift-diag/pulse.h"
#include "tests/collsim/collsim.h"

/* Of the paper's table, with its bar: machine level in 10 of 12, precision above 90 %. */
static const char *const cases[] = {
	"pulse-congestion",	  "pulse-cpu-contention",  "pulse-nic-down",
	"pulse-expert-imbalance", "pulse-pcie-contention", "pulse-gpu-throttling",
	"pulse-gpu-error",	  "pulse-cuda-error",	   "pulse-cpu-throttling",
	"pulse-pcie-downgrade",	  "pulse-cross-numa",	   "pulse-alignment",
};

enum { CASES = sizeof(cases) / sizeof(*cases) };

struct score {
	int found, machine, missed, invented;
};

static unsigned int number_of(const char *name, unsigned int usual)
{
	const char *text = getenv(name);

	return text ? (unsigned int)atoi(text) : usual;
}

static unsigned int seeds(void)
{
	return number_of("PULSE_SEEDS", 2);
}

static unsigned int first_seed(void)
{
	return number_of("PULSE_FIRST", 1);
}

static bool is_one(const struct collsim_truth *t, const struct culprit *c)
{
	for (int i = 0; i < t->culprits; i++)
		if (t->culprit[i].rank == c->rank ||
		    (*c->host && !strcmp(t->culprit[i].host, c->host)))
			return true;
	return false;
}

static bool is_right(const struct collsim_truth *t, const struct verdict *v)
{
	static const char *const class[] = {"fine", "stopped", "slow", "failed", "undecided"};
	static const char *const component[] = {"none", "computation", "communication"};
	size_t hits = 0;

	for (size_t i = 0; i < v->culprits_n; i++)
		hits += is_one(t, v->culprits + i);
	return !strcmp(class[v->class], t -> class) &&
	       !strcmp(component[v->component], t->component) && hits &&
	       (hits == v->culprits_n || v->level == LEVEL_GROUP);
}

static bool blames(const struct verdict *v)
{
	return v->class == CLASS_STOPPED || v->class == CLASS_SLOW;
}

static void judge(const char *name, unsigned int seed, bool healthy, struct score *score)
{
	struct collsim_options o = {.name = name,
				    .seed = seed,
				    .healthy = healthy,
				    .no_telemetry = true,
				    .clock_ns = REC_NONE};
	struct pulse_options options = pulse_defaults();
	struct collsim *s = collsim_run(&o);
	struct records r = {0};
	struct verdict v;
	struct pulse p;
	bool right;

	assert_non_null(s);
	collsim_records(s, &r);
	p = pulse_read(&r, &options);
	v = pulse_judge(&p);
	right = healthy ? v.class == CLASS_FINE : is_right(collsim_truth(s), &v);
	score->found += right;
	score->machine += right && v.level != LEVEL_GROUP;
	score->missed += !right;
	score->invented += !right && blames(&v);
	if (!right)
		printf("# %s, seed %u: %s\n", collsim_truth(s)->name, seed, v.rule);
	verdict_free(&v);
	pulse_free(&p);
	records_free(&r);
	collsim_free(s);
}

static void faults_are_found(void **state)
{
	struct score sum = {0};
	int at_machine = 0;

	(void)state;
	for (size_t i = 0; i < CASES; i++) {
		struct score score = {0};

		for (unsigned int seed = first_seed(); seed < first_seed() + seeds(); seed++)
			judge(cases[i], seed, false, &score);
		printf("# %-24s %d of %u found, %d at a machine, %d wrong\n", cases[i], score.found,
		       seeds(), score.machine, score.invented);
		at_machine += 2 * score.machine > (int)seeds();
		sum.found += score.found;
		sum.missed += score.missed;
		sum.invented += score.invented;
	}
	printf("# recall %.3f, precision %.3f\n", (double)sum.found / (sum.found + sum.missed),
	       (double)sum.found / (sum.found + sum.invented));
	assert_true(at_machine >= 10);
	assert_true(10 * sum.found > 9 * (sum.found + sum.invented));
	assert_true(10 * sum.found > 9 * (sum.found + sum.missed));
}

static void none_is_invented(void **state)
{
	unsigned int runs = number_of("HEALTHY", 24), from = number_of("HEALTHY_FIRST", 1);
	struct score sum = {0};

	(void)state;
	for (unsigned int seed = from; seed < from + runs; seed++)
		judge(NULL, seed, true, &sum);
	judge(NULL, 54, true, &sum); /* a tree, whose rank 3 is slower by its place */
	printf("# %u healthy jobs: %d false positives, %d not called fine\n", runs, sum.invented,
	       sum.missed);
	assert_int_equal(sum.missed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_are_found),
		cmocka_unit_test(none_is_invented),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
