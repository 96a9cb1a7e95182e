/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Has communication itself become slower, and between which hosts? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/shift-diag/aegis.h"
#include "cmd/shift-diag/diag.h"
#include "tests/unit/diag_job.h"

static const struct aegis_options options = {.window_ns = 600000000000u};
static struct job j;
static struct verdict v;

/* n rounds of a communicator; NULL: of world. */
static void rounds(const char *comm, const int *ranks, int ranks_n, int n, uint64_t compute_ms,
		   uint64_t together_ms)
{
	uint64_t compute[JOB_RANKS_MAX];

	for (int i = 0; i < n; i++) {
		for (int k = 0; k < JOB_RANKS_MAX; k++)
			compute[k] = (compute_ms + (uint64_t)((i + k) % 3)) * JOB_MS;
		job_round(&j, comm ? comm : "world", ranks, ranks_n, compute, together_ms * JOB_MS);
	}
}

static void judge(void)
{
	job_read(&j, JOB_MS);
	v = aegis_slow(&j.r, &options);
}

static int end(void **state)
{
	(void)state;
	verdict_free(&v);
	job_free(&j);
	return 0;
}

static void assert_network(enum verdict_level level, size_t n)
{
	assert_string_equal(v.rule, "slower-network");
	assert_int_equal(v.class, CLASS_SLOW);
	assert_int_equal(v.component, COMPONENT_COMMUNICATION);
	assert_int_equal(v.culprits_n, n);
	assert_int_equal(verdict_status(&v), n ? EXIT_CULPRIT : EXIT_WARNING);
	if (n)
		assert_int_equal(v.level, level);
}

static void assert_not_network(void)
{
	assert_string_not_equal(v.rule, "slower-network");
	assert_int_equal(v.culprits_n, 0);
}

static void the_way_between_two_hosts(void **state)
{
	(void)state;
	j = job_make(4, 2, 4);
	rounds(NULL, NULL, 0, 150, 100, 20);
	rounds(NULL, NULL, 0, 60, 100, 100);
	judge();
	assert_network(LEVEL_LINK, 2);
	assert_string_equal(v.culprits[0].host, "h0");
	assert_string_equal(v.culprits[1].host, "h1");
	assert_true(v.culprits[0].score > 0.3 && v.culprits[0].score < 0.5);
}

/* Each one's clock says something else; a collective is compared within one host. */
static void clocks_do_not_matter(void **state)
{
	(void)state;
	j = job_make(4, 2, 4);
	rounds(NULL, NULL, 0, 150, 100, 20);
	rounds(NULL, NULL, 0, 60, 100, 100);
	for (int k = 2; k < 4; k++)
		for (size_t i = 0; i < job_rank(&j, k)->coll_n; i++) {
			job_rank(&j, k)->coll[i].launch_ns += 3000000000u;
			job_rank(&j, k)->coll[i].first_wr_ns += 3000000000u;
			job_rank(&j, k)->coll[i].end_ns += 3000000000u;
		}
	job_read(&j, 4000000000u);
	v = aegis_slow(&j.r, &options);
	assert_network(LEVEL_LINK, 2);
}

/* Of pairs of hosts: two of three are slow, and have one end in common. */
static void the_host_at_the_end_of_all_that_is_slow(void **state)
{
	static const int ab[] = {0, 1}, bc[] = {1, 2}, ac[] = {0, 2};

	(void)state;
	j = job_make(3, 1, 3);
	job_comm(&j, "ab", ab, 2);
	job_comm(&j, "bc", bc, 2);
	job_comm(&j, "ac", ac, 2);
	for (int i = 0; i < 210; i++) {
		uint64_t slow = i < 150 ? 20 : 100;

		rounds("ab", ab, 2, 1, 50, slow);
		rounds("bc", bc, 2, 1, 50, slow);
		rounds("ac", ac, 2, 1, 50, 20);
	}
	judge();
	assert_network(LEVEL_MACHINE, 1);
	assert_string_equal(v.culprits->host, "h1");
}

static void what_works_well_is_not_blamed(void **state)
{
	static const int ab[] = {0, 1}, ac[] = {0, 2}, all[] = {0, 1, 2};

	(void)state;
	j = job_make(3, 1, 3);
	job_comm(&j, "ab", ab, 2);
	job_comm(&j, "ac", ac, 2);
	for (int i = 0; i < 210; i++) {
		rounds("ab", ab, 2, 1, 50, 20);
		rounds("ac", ac, 2, 1, 50, 20);
		rounds(NULL, all, 3, 1, 50, i < 150 ? 20 : 100);
	}
	judge();
	assert_network(LEVEL_LINK, 2);
	assert_string_equal(v.culprits[0].host, "h1");
	assert_string_equal(v.culprits[1].host, "h2");
}

static void within_one_host(void **state)
{
	static const int first[] = {0, 1}, second[] = {2, 3};

	(void)state;
	j = job_make(4, 2, 4);
	job_comm(&j, "first", first, 2);
	job_comm(&j, "second", second, 2);
	for (int i = 0; i < 210; i++) {
		rounds("first", first, 2, 1, 50, i < 150 ? 20 : 100);
		rounds("second", second, 2, 1, 50, 20);
	}
	judge();
	assert_network(LEVEL_MACHINE, 1);
	assert_string_equal(v.culprits->host, "h0");
}

static void of_three_hosts_none_stands_out(void **state)
{
	(void)state;
	j = job_make(3, 1, 3);
	rounds(NULL, NULL, 0, 150, 100, 20);
	rounds(NULL, NULL, 0, 60, 100, 100);
	judge();
	assert_network(LEVEL_LINK, 0);
}

static void computation_is_not_the_network(void **state)
{
	(void)state;
	j = job_make(4, 2, 4);
	rounds(NULL, NULL, 0, 150, 100, 20);
	rounds(NULL, NULL, 0, 60, 500, 20);
	judge();
	assert_not_network();
}

static void larger_operations_take_longer(void **state)
{
	(void)state;
	j = job_make(4, 2, 4);
	rounds(NULL, NULL, 0, 150, 100, 20);
	rounds(NULL, NULL, 0, 60, 100, 100);
	for (int k = 0; k < 4; k++)
		for (size_t i = 150; i < 210; i++)
			job_rank(&j, k)->coll[i].bytes *= 5;
	judge();
	assert_not_network();
}

static void what_has_passed_is_not_told(void **state)
{
	(void)state;
	j = job_make(4, 2, 4);
	rounds(NULL, NULL, 0, 150, 100, 20);
	rounds(NULL, NULL, 0, 30, 100, 100);
	rounds(NULL, NULL, 0, 100, 100, 20);
	judge();
	assert_not_network();
}

static void what_costs_little_or_is_not_twice_as_long_is_not_told(void **state)
{
	(void)state;
	j = job_make(4, 2, 4);
	rounds(NULL, NULL, 0, 150, 100, 1);
	rounds(NULL, NULL, 0, 120, 100, 4);
	judge();
	assert_not_network();
	end(NULL);
	j = job_make(4, 2, 4);
	rounds(NULL, NULL, 0, 150, 100, 20);
	rounds(NULL, NULL, 0, 80, 100, 38);
	judge();
	assert_not_network();
}

static void without_a_past_nothing_is_told(void **state)
{
	(void)state;
	j = job_make(4, 2, 4);
	rounds(NULL, NULL, 0, 9, 100, 20);
	rounds(NULL, NULL, 0, 60, 100, 100);
	judge();
	assert_not_network();
}

#define T(f) cmocka_unit_test_teardown(f, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_way_between_two_hosts),
		T(clocks_do_not_matter),
		T(the_host_at_the_end_of_all_that_is_slow),
		T(what_works_well_is_not_blamed),
		T(within_one_host),
		T(of_three_hosts_none_stands_out),
		T(computation_is_not_the_network),
		T(larger_operations_take_longer),
		T(what_has_passed_is_not_told),
		T(what_costs_little_or_is_not_twice_as_long_is_not_told),
		T(without_a_past_nothing_is_told),
	};

	cli_begin("test_aegis_network", EXIT_FAILED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
