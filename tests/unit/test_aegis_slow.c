/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What makes the job slow? Section 5 of Aegis. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/shift-diag/aegis.h"
#include "cmd/shift-diag/diag.h"
#include "tests/unit/diag_job.h"

static const struct aegis_options options = {.window_ns = 600000000000u};
static const uint64_t s_ns = 1000000000u;
static struct job j;
static struct verdict v;

/* n rounds, in which all compute 100 ms, and `late` ranks from `first` on so many ms more. */
static void run(int ranks, int per_host, int size, int n, int first, int late, uint64_t more_ms)
{
	uint64_t compute[JOB_RANKS_MAX];

	j = job_make(ranks, per_host, size);
	for (int i = 0; i < ranks; i++)
		compute[i] = (100 + (i >= first && i < first + late ? more_ms : 0)) *
			     (uint64_t)JOB_MS;
	for (int i = 0; i < n; i++)
		job_round(&j, "world", NULL, 0, compute, 20 * JOB_MS);
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

static void assert_fine(void)
{
	assert_int_equal(v.class, CLASS_FINE);
	assert_int_equal(v.culprits_n, 0);
}

static void assert_undecided(void)
{
	assert_int_equal(verdict_status(&v), EXIT_UNDECIDED);
	assert_int_equal(v.culprits_n, 0);
}

static void assert_culprits(enum verdict_component component, const char *rule, size_t n)
{
	assert_int_equal(verdict_status(&v), EXIT_CULPRIT);
	assert_int_equal(v.class, CLASS_SLOW);
	assert_int_equal(v.component, component);
	assert_string_equal(v.rule, rule);
	assert_int_equal(v.culprits_n, n);
}

/* Figure 9a: the end is common, so who computes longer is in the collective for less time. */
static void who_comes_late_is_computation(void **state)
{
	(void)state;
	run(4, 1, 4, 20, 2, 1, 100);
	judge();
	assert_culprits(COMPONENT_COMPUTATION, "shorter-collectives", 1);
	assert_int_equal(v.culprits->rank, 2);
	assert_string_equal(v.culprits->host, "h2");
	assert_true(v.culprits->score > 0.3 && v.culprits->score < 0.5);
}

static void of_two_ranks_too(void **state)
{
	(void)state;
	run(2, 1, 2, 20, 1, 1, 100);
	judge();
	assert_culprits(COMPONENT_COMPUTATION, "shorter-collectives", 1);
	assert_int_equal(v.culprits->rank, 1);
}

static void all_ranks_of_a_host_are_named(void **state)
{
	(void)state;
	run(8, 2, 8, 20, 4, 2, 100);
	judge();
	assert_culprits(COMPONENT_COMPUTATION, "shorter-collectives", 2);
	assert_string_equal(v.culprits[0].host, "h2");
	assert_string_equal(v.culprits[1].host, "h2");
}

/* Of TD 20 ms and 20 + x: late are those below 0.8 of the mean. */
static void the_threshold_is_four_fifths_of_the_mean(void **state)
{
	(void)state;
	run(4, 1, 4, 20, 2, 1, 5); /* 20 of 23.75 */
	judge();
	assert_fine();
	end(NULL);
	run(4, 1, 4, 20, 2, 1, 8); /* 20 of 26 */
	judge();
	assert_culprits(COMPONENT_COMPUTATION, "shorter-collectives", 1);
}

static void what_costs_nothing_is_not_slow(void **state)
{
	uint64_t compute[4] = {100 * JOB_MS, 100 * JOB_MS, 100 * JOB_MS, 101 * JOB_MS};

	(void)state;
	j = job_make(4, 1, 4);
	for (int i = 0; i < 20; i++)
		job_round(&j, "world", NULL, 0, compute, JOB_MS / 10);
	judge();
	assert_fine();
}

static void late_once_is_not_slow(void **state)
{
	uint64_t compute[4] = {100 * JOB_MS, 100 * JOB_MS, 100 * JOB_MS, 100 * JOB_MS};

	(void)state;
	run(4, 1, 4, 19, 0, 0, 0);
	compute[2] += 100 * JOB_MS;
	job_round(&j, "world", NULL, 0, compute, 20 * JOB_MS);
	judge();
	assert_int_equal(v.culprits_n, 0);
}

/* One has less to do, as the last stage of a pipeline: nobody is a straggler. */
static void one_that_is_early_accuses_nobody(void **state)
{
	(void)state;
	run(4, 1, 4, 20, 0, 3, 200);
	judge();
	assert_int_equal(v.culprits_n, 0);
	assert_int_equal(verdict_status(&v), EXIT_WARNING);
}

static void a_balanced_job_is_fine(void **state)
{
	(void)state;
	run(4, 1, 4, 20, 0, 0, 0);
	judge();
	assert_fine();
	assert_true(v.confidence == 1);
}

static void a_member_without_records_is_never_fine(void **state)
{
	(void)state;
	run(4, 1, 5, 20, 0, 0, 0);
	judge();
	assert_undecided();
	end(NULL);
	run(4, 1, 5, 20, 1, 1, 100); /* it may be that the other comes later still */
	judge();
	assert_culprits(COMPONENT_COMPUTATION, "shorter-collectives", 1);
	assert_true(v.confidence < 0.7);
}

static void too_little_is_undecided(void **state)
{
	(void)state;
	run(4, 1, 4, 4, 2, 1, 100);
	judge();
	assert_undecided();
	end(NULL);
	j = job_make(0, 1, 0);
	judge();
	assert_undecided();
}

static void what_is_older_than_the_window_does_not_count(void **state)
{
	const struct aegis_options narrow = {.window_ns = 2 * s_ns};
	uint64_t compute[4] = {100 * JOB_MS, 100 * JOB_MS, 100 * JOB_MS, 100 * JOB_MS};

	(void)state;
	run(4, 1, 4, 100, 2, 1, 100);
	for (int i = 0; i < 20; i++)
		job_round(&j, "world", NULL, 0, compute, 20 * JOB_MS);
	job_read(&j, JOB_MS);
	v = aegis_slow(&j.r, &narrow);
	assert_fine();
}

/* ---- time per byte -------------------------------------------------------------------------- */

/* Epochs of 1 ms in each collective: so many with traffic, of so many bytes. */
static void traffic(int rank, unsigned int active, uint32_t bytes)
{
	struct rec_file *f = job_rank(&j, rank);

	f->epoch_ns = JOB_MS;
	for (size_t i = 0; i < f->coll_n; i++) {
		struct rec_epochs *e = rec_add_epochs(f);

		assert_non_null(e);
		e->t_ns = f->coll[i].end_ns - 20 * JOB_MS;
		e->qp = 1;
		e->n = 20; /* the others are pauses */
		e->bytes = calloc(e->n, sizeof(*e->bytes));
		for (unsigned int k = 0; k < active; k++)
			e->bytes[k] = bytes;
	}
}

/* Figure 9b. The ring goes at the pace of the slowest: all take as long, but others pause. */
static void who_needs_longer_for_a_byte_is_communication(void **state)
{
	(void)state;
	run(4, 1, 4, 20, 0, 0, 0);
	for (int i = 0; i < 4; i++)
		traffic(i, i == 1 ? 20 : 5, i == 1 ? 500 : 2000);
	judge();
	assert_culprits(COMPONENT_COMMUNICATION, "time-per-byte", 1);
	assert_int_equal(v.culprits->rank, 1);
}

/* The paper's text would flag the fast one: its throughput is the largest. */
static void who_is_fast_is_not_blamed(void **state)
{
	(void)state;
	run(4, 1, 4, 20, 0, 0, 0);
	for (int i = 0; i < 4; i++)
		traffic(i, i == 1 ? 5 : 20, i == 1 ? 2000 : 500);
	judge();
	assert_fine();
}

/* N > 1.5 of the mean: of 1, 1, 1 and x, x above 1.8. */
static void the_threshold_is_one_and_a_half_of_the_mean(void **state)
{
	(void)state;
	run(4, 1, 4, 20, 0, 0, 0);
	for (int i = 0; i < 4; i++)
		traffic(i, 10, i == 1 ? 1000 * 10 / 17 : 1000);
	judge();
	assert_fine();
	end(NULL);
	run(4, 1, 4, 20, 0, 0, 0);
	for (int i = 0; i < 4; i++)
		traffic(i, 10, i == 1 ? 1000 * 10 / 19 : 1000);
	judge();
	assert_culprits(COMPONENT_COMMUNICATION, "time-per-byte", 1);
}

static void the_common_peer_of_the_slow_is_the_root(void **state)
{
	(void)state;
	run(8, 1, 8, 20, 0, 0, 0);
	for (int i = 0; i < 8; i++) {
		struct rec_qp *qp = rec_add_qp(job_rank(&j, i));

		traffic(i, 10, i == 1 || i == 2 ? 250 : 1000);
		strcpy(qp->peer_host, i == 1 || i == 2 ? "h5" : "h6");
	}
	judge();
	assert_culprits(COMPONENT_COMMUNICATION, "time-per-byte", 1);
	assert_string_equal(v.culprits->host, "h5");
}

/* ---- metrics -------------------------------------------------------------------------------- */

/* A counter that grows by so much in a second, for 100 s. */
static void counter(int rank, const char *nic, const char *name, double step, bool grows)
{
	struct rec_file *f = job_rank(&j, rank);
	double value = grows ? 0 : step;

	for (int i = 0; i <= 100; i++) {
		struct rec_counter *c = rec_add_counter(f);

		assert_non_null(c);
		c->t_ns = f->began_ns + (uint64_t)i * s_ns;
		c->value = value;
		strcpy(c->nic, nic);
		strcpy(c->name, name);
		value += grows ? step : 0;
	}
}

/* Figure 8: ECN of one NIC rises from zero to 10-30 thousand a second. */
static void a_nic_that_stands_out_is_named(void **state)
{
	(void)state;
	j = job_make(5, 1, 5);
	for (int i = 0; i < 5; i++)
		counter(i, "mlx5_0", "np_ecn_marked_roce_packets", i == 3 ? 20000 : 3, true);
	judge();
	assert_culprits(COMPONENT_COMMUNICATION, "metric-outlier", 1);
	assert_string_equal(v.culprits->host, "h3");
	assert_string_equal(v.culprits->nic, "mlx5_0");
	assert_int_equal(v.level, LEVEL_NIC);
}

/* Computed: over the same n hosts the largest z is sqrt(n-1), so 2..5 hosts never exceed 2. */
static void an_outlier_of_few_is_found(void **state)
{
	(void)state;
	j = job_make(0, 1, 0);
	for (size_t n = 3; n <= 5; n++) {
		const double value[] = {1000, 0, 0, 0, 0};
		double mean = 1000.0 / (double)n;
		double z = (1000 - mean) /
			   sqrt(((1000 - mean) * (1000 - mean) + (double)(n - 1) * mean * mean) /
				(double)n);

		assert_true(z <= 2 + 1e-9);
		assert_true(aegis_is_outlier(value, n, 0, 1));
		assert_false(aegis_is_outlier(value, n, 1, 1));
	}
	assert_false(aegis_is_outlier((const double[]){1000, 0}, 2, 0, 1));
}

static void the_floor_keeps_noise_off(void **state)
{
	(void)state;
	j = job_make(0, 1, 0);
	assert_false(aegis_is_outlier((const double[]){115, 100, 100, 100}, 4, 0, 1));
	assert_true(aegis_is_outlier((const double[]){125, 100, 100, 100}, 4, 0, 1));
	assert_false(aegis_is_outlier((const double[]){1.9, 0, 0, 0}, 4, 0, 1));
	assert_true(aegis_is_outlier((const double[]){2.1, 0, 0, 0}, 4, 0, 1));
	/* deviation of 90, 100, 110 is 8.2, of which 10 is taken */
	assert_false(aegis_is_outlier((const double[]){119, 90, 100, 110}, 4, 0, 1));
	assert_true(aegis_is_outlier((const double[]){121, 90, 100, 110}, 4, 0, 1));
	/* 50, 100, 150: 40.8 */
	assert_false(aegis_is_outlier((const double[]){180, 50, 100, 150}, 4, 0, 1));
	assert_true(aegis_is_outlier((const double[]){183, 50, 100, 150}, 4, 0, 1));
}

/* What should be zero needs no others to compare with. */
static void retransmissions_of_two_hosts(void **state)
{
	(void)state;
	j = job_make(2, 1, 2);
	counter(0, "mlx5_0", "packet_seq_err", 0, true);
	counter(1, "mlx5_0", "packet_seq_err", 11, true);
	judge();
	assert_culprits(COMPONENT_COMMUNICATION, "metric-outlier", 1);
	assert_string_equal(v.culprits->host, "h1");
	end(NULL);
	j = job_make(2, 1, 2);
	counter(0, "mlx5_0", "packet_seq_err", 0, true);
	counter(1, "mlx5_0", "packet_seq_err", 9, true);
	judge();
	assert_fine();
}

static void what_is_wrong_everywhere_blames_none(void **state)
{
	(void)state;
	j = job_make(4, 1, 4);
	for (int i = 0; i < 4; i++)
		counter(i, "mlx5_0", "packet_seq_err", 500, true);
	judge();
	assert_int_equal(verdict_status(&v), EXIT_WARNING);
	assert_int_equal(v.culprits_n, 0);
}

static void a_hot_host_is_computation(void **state)
{
	(void)state;
	j = job_make(4, 1, 4);
	for (int i = 0; i < 4; i++)
		counter(i, "", "gpu0_temperature", i == 2 ? 92 : 60 + i, false);
	judge();
	assert_culprits(COMPONENT_COMPUTATION, "metric-outlier", 1);
	assert_string_equal(v.culprits->host, "h2");
	assert_int_equal(v.level, LEVEL_MACHINE);
}

/* "For the lasting T". */
static void what_passes_is_no_outlier(void **state)
{
	(void)state;
	j = job_make(4, 1, 4);
	for (int i = 0; i < 4; i++)
		counter(i, "mlx5_0", "packet_seq_err", 0, true);
	for (size_t i = 50; i <= 100; i++)
		job_rank(&j, 1)->counter[i].value = 100000;
	judge();
	assert_fine();
}

static void other_metrics_are_not_judged(void **state)
{
	(void)state;
	j = job_make(4, 1, 4);
	for (int i = 0; i < 4; i++)
		counter(i, "mlx5_0", "port_xmit_data", i ? 1 : 1e9, true);
	judge();
	assert_undecided();
}

/* ---- degradation ---------------------------------------------------------------------------- */

static void degradation_is_the_share_above(void **state)
{
	const double even[] = {10, 10, 10, 10}, odd[] = {10, 10, 10, 30};

	(void)state;
	j = job_make(0, 1, 0);
	assert_true(aegis_degradation(even, 4) == 0);
	/* mean 15, limit 18: 12 of 60 */
	assert_true(fabs(aegis_degradation(odd, 4) - 0.2) < 1e-12);
	assert_true(aegis_degradation(NULL, 0) == 0);
}

/* Every fourth round all take thrice as long. */
static void a_job_that_stutters_is_told(void **state)
{
	uint64_t compute[4];

	(void)state;
	j = job_make(4, 1, 4);
	for (int i = 0; i < 400; i++) {
		for (int k = 0; k < 4; k++)
			compute[k] = (i % 16 < 12 ? 100 : 400) * (uint64_t)JOB_MS;
		job_round(&j, "world", NULL, 0, compute, 20 * JOB_MS);
	}
	judge();
	assert_int_equal(verdict_status(&v), EXIT_WARNING);
	assert_string_equal(v.rule, "degradation");
}

/* Every fifth collective needs four times as long, in each second. */
static void noise_of_milliseconds_is_no_stutter(void **state)
{
	uint64_t compute[4];

	(void)state;
	j = job_make(4, 1, 4);
	for (int i = 0; i < 1500; i++) {
		for (int k = 0; k < 4; k++)
			compute[k] = (i % 5 ? 10 : 100) * (uint64_t)JOB_MS;
		job_round(&j, "world", NULL, 0, compute, 20 * JOB_MS);
	}
	judge();
	assert_fine();
}

static void healthy_jobs_have_no_culprit(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 1000; seed++) {
		uint64_t x = seed * 0x9e3779b97f4a7c15u, compute[16];
		int ranks = 2 + (int)job_random(&x, 15);
		uint64_t rounds = 20 + job_random(&x, 30), together = 1 + job_random(&x, 50);

		j = job_make(ranks, 1 + (int)job_random(&x, 4), ranks);
		for (uint64_t i = 0; i < rounds; i++) {
			for (int k = 0; k < ranks; k++)
				compute[k] = 100 * JOB_MS + job_random(&x, 10 * JOB_MS);
			job_round(&j, "world", NULL, 0, compute, together * JOB_MS);
		}
		for (int k = 0; k < ranks; k++) {
			traffic(k, 10, 900 + (uint32_t)job_random(&x, 200));
			counter(k, "mlx5_0", "np_cnp_sent", (double)job_random(&x, 40), true);
			counter(k, "mlx5_0", "packet_seq_err", job_random(&x, 10) / 10.0, true);
			counter(k, "", "temperature", 60 + (double)job_random(&x, 8), false);
		}
		judge();
		if (v.class != CLASS_FINE)
			fail_msg("seed %llu: %s", (unsigned long long)seed,
				 v.evidence_n ? v.evidence[0] : v.rule);
		end(NULL);
	}
	j = job_make(0, 1, 0);
}

#define T(f) cmocka_unit_test_teardown(f, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(who_comes_late_is_computation),
		T(of_two_ranks_too),
		T(all_ranks_of_a_host_are_named),
		T(the_threshold_is_four_fifths_of_the_mean),
		T(what_costs_nothing_is_not_slow),
		T(late_once_is_not_slow),
		T(one_that_is_early_accuses_nobody),
		T(a_balanced_job_is_fine),
		T(a_member_without_records_is_never_fine),
		T(too_little_is_undecided),
		T(what_is_older_than_the_window_does_not_count),
		T(who_needs_longer_for_a_byte_is_communication),
		T(who_is_fast_is_not_blamed),
		T(the_threshold_is_one_and_a_half_of_the_mean),
		T(the_common_peer_of_the_slow_is_the_root),
		T(a_nic_that_stands_out_is_named),
		T(an_outlier_of_few_is_found),
		T(the_floor_keeps_noise_off),
		T(retransmissions_of_two_hosts),
		T(what_is_wrong_everywhere_blames_none),
		T(a_hot_host_is_computation),
		T(what_passes_is_no_outlier),
		T(other_metrics_are_not_judged),
		T(degradation_is_the_share_above),
		T(a_job_that_stutters_is_told),
		T(noise_of_milliseconds_is_no_stutter),
		T(healthy_jobs_have_no_culprit),
	};

	cli_begin("test_aegis_slow", EXIT_FAILED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
