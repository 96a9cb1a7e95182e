// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Pulse where all is well, and where records are bad: missing, dropped, too coarse, without hooks,
 * or by clocks that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/pulse_world.h"

enum { RUNS = 1000, RANKS = 4, RATE = 800000, MS = 1000, PERIOD_US = 40 * MS };

static const int all[] = {0, 1, 2, 3};
static uint64_t state = 1;

static uint64_t draw(uint64_t below)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 2685821657736338717u >> 33) % below;
}

static void seed_it(void)
{
	const char *seed = getenv("SEED");

	state = seed ? strtoull(seed, NULL, 10) : 20261128;
	printf("SEED=%llu\n", (unsigned long long)state);
	fflush(stdout);
}

/* A ring allreduce in which each sends for us; the start of each differs by up to jitter_us. */
static void ring(struct world *w, uint64_t seq, uint64_t us, uint64_t jitter_us, bool hooks)
{
	uint64_t t = seq * PERIOD_US;

	for (int i = 0; i < RANKS; i++) {
		uint64_t start = t + (jitter_us ? draw(jitter_us) : 0);

		world_sends(w, i, (i + 1) % RANKS, start, us, RATE, 0, 0);
		if (hooks)
			world_coll(w, i, "world", seq, "allreduce",
				   us / WORLD_EPOCH_US * RATE / 3 * 2, start, start + us + 20);
	}
}

static struct world healthy(uint64_t operations, bool hooks)
{
	struct world w = world_make(RANKS);

	if (hooks)
		world_comm(&w, "world", all, RANKS);
	for (uint64_t n = 1; n <= operations; n++)
		ring(&w, n, 9600, 60, hooks);
	world_until(&w, (operations + 1) * PERIOD_US, true);
	return w;
}

static void expect(struct world *w, enum verdict_class class, double least, double most)
{
	struct verdict v = world_verdict(w);

	assert_int_equal(v.class, class);
	assert_true(v.confidence >= least && v.confidence <= most);
	verdict_free(&v);
}

static void healthy_runs_have_no_verdict(void **unused)
{
	(void)unused;
	seed_it();
	for (int i = 0; i < RUNS; i++) {
		struct world w = world_make(RANKS);
		struct pulse_options o = pulse_defaults();
		uint64_t n = 1 + draw(12), us = (uint64_t)WORLD_EPOCH_US * (1 + draw(200));
		bool hooks = i % 4;
		struct verdict v;
		struct pulse p;

		if (hooks)
			world_comm(&w, "world", all, RANKS);
		for (uint64_t k = 1; k <= n; k++)
			ring(&w, k, us, 1 + draw(2 * MS), hooks); /* 7 % of what is computed */
		world_until(&w, (n + 1) * PERIOD_US, true);
		p = pulse_read(&w.r, &o);
		v = pulse_judge(&p);
		if (v.class != CLASS_FINE)
			verdict_print(&v);
		assert_int_equal(v.class, CLASS_FINE);
		assert_int_equal(verdict_status(&v), 0);
		if (hooks)
			assert_int_equal(p.disagreements, 0);
		verdict_free(&v);
		pulse_free(&p);
		world_free(&w);
	}
}

static void a_rank_without_records_is_not_well(void **unused)
{
	struct world w = healthy(4, true);

	(void)unused;
	free(w.r.file[3].path);
	w.r.file[3].path = NULL;
	w.r.files--; /* its file is lost; the communicator says that there are four */
	expect(&w, CLASS_UNDECIDED, 0, .7);
	w.r.files++;
	world_free(&w);
}

/* It is there, and says nothing of what it did. */
static void a_rank_with_empty_records_is_not_well(void **unused)
{
	struct world w = healthy(4, false);
	struct verdict v;

	(void)unused;
	w.r.file[3].epochs_n = 0;
	v = world_verdict(&w);
	assert_int_not_equal(v.class, CLASS_FINE);
	assert_int_equal(v.coverage.ranks_seen, 3);
	assert_int_equal(v.coverage.ranks_expected, 4);
	verdict_free(&v);
	w.r.file[3].epochs_n = 4;
	world_free(&w);
}

static void lost_records_lower_the_confidence(void **unused)
{
	struct world w = healthy(4, true);
	struct verdict v;

	(void)unused;
	expect(&w, CLASS_FINE, .85, 1);
	w.r.file[1].dropped = 7;
	v = world_verdict(&w);
	assert_int_equal(v.class, CLASS_FINE);
	assert_true(v.confidence < .7);
	assert_int_equal(v.coverage.dropped, 7);
	verdict_free(&v);
	world_free(&w);
}

/* A rank whose ring was full may have begun what it has no record of. */
static void a_lost_record_is_no_missing_start(void **unused)
{
	struct world w = healthy(4, true);
	struct verdict v;

	(void)unused;
	for (int i = 0; i < RANKS; i++)
		if (i != 2)
			world_coll(&w, i, "world", 5, "allreduce", 1 << 20, 5 * PERIOD_US, 0);
	world_until(&w, 9000 * MS, false);
	v = world_verdict(&w);
	assert_string_equal(v.rule, "missing-start");
	assert_int_equal(v.culprits[0].rank, 2);
	verdict_free(&v);
	w.r.file[2].dropped = 1;
	v = world_verdict(&w);
	assert_string_not_equal(v.rule, "missing-start");
	assert_int_not_equal(v.class, CLASS_FINE);
	verdict_free(&v);
	world_free(&w);
}

static void a_hang_with_an_unseen_rank_is_no_proof(void **unused)
{
	struct world w = healthy(4, true);
	struct verdict v;

	(void)unused;
	for (int i = 0; i < RANKS - 1; i++)
		world_coll(&w, i, "world", 5, "allreduce", 1 << 20, 5 * PERIOD_US, 0);
	world_until(&w, 9000 * MS, false);
	w.r.files--;
	v = world_verdict(&w);
	assert_string_equal(v.rule, "no-records");
	assert_int_equal(v.class, CLASS_UNDECIDED);
	assert_int_equal(v.component, COMPONENT_NONE);
	assert_int_equal(v.culprits[0].rank, 3);
	assert_true(v.confidence <= .4);
	verdict_free(&v);
	w.r.files++;
	world_free(&w);
}

/* Who waits in one operation cannot come to another: the one that is absent there is to blame. */
static void who_waits_elsewhere_is_not_to_blame(void **unused)
{
	static const int pair[] = {1, 2};
	struct world w = healthy(2, true);
	struct verdict v;

	(void)unused;
	world_comm(&w, "pair", pair, 2);
	world_coll(&w, 0, "world", 3, "allreduce", 1 << 20, 3 * PERIOD_US, 0);
	world_coll(&w, 3, "world", 3, "allreduce", 1 << 20, 3 * PERIOD_US, 0);
	world_coll(&w, 1, "pair", 1, "allreduce", 1 << 20, 3 * PERIOD_US + 5, 0);
	world_until(&w, 9000 * MS, false);
	v = world_verdict(&w);
	assert_string_equal(v.rule, "missing-start");
	assert_int_equal(v.culprits_n, 1);
	assert_int_equal(v.culprits[0].rank, 2);
	verdict_free(&v);
	world_free(&w);
}

static void one_process_is_gone(void **unused)
{
	struct world w = healthy(2, true);
	struct verdict v;

	(void)unused;
	for (int i = 0; i < RANKS; i++)
		world_coll(&w, i, "world", 3, "allreduce", 1 << 20, 3 * PERIOD_US, 0);
	world_until(&w, 9000 * MS, false);
	w.r.file[1].died = true;
	v = world_verdict(&w);
	assert_string_equal(v.rule, "process-gone");
	assert_int_equal(v.component, COMPONENT_COMPUTATION);
	assert_int_equal(v.culprits[0].rank, 1);
	verdict_free(&v);
	w.r.file[3].died = true; /* who came first is not known */
	v = world_verdict(&w);
	assert_string_not_equal(v.rule, "process-gone");
	verdict_free(&v);
	world_free(&w);
}

static void silence_is_not_well(void **unused)
{
	struct world w = healthy(4, true);

	(void)unused;
	world_until(&w, 9000 * MS, false);
	expect(&w, CLASS_UNDECIDED, 0, .6);
	world_free(&w);
}

static void what_is_under_way_does_not_stand_still(void **unused)
{
	struct world w = healthy(4, true);

	(void)unused;
	for (int i = 0; i < RANKS - 1; i++)
		world_coll(&w, i, "world", 5, "allreduce", 1 << 20, 5 * PERIOD_US, 0);
	world_until(&w, 6 * PERIOD_US, false);
	expect(&w, CLASS_FINE, .8, 1);
	world_free(&w);
}

/* 2 ms, as soft-RoCE might have: what is slow by half would not show, and it says so. */
static void epochs_that_are_too_long(void **unused)
{
	struct world w = healthy(4, true);
	struct pulse_options o = pulse_defaults();
	struct pulse p;
	struct verdict v;
	bool said = false;

	(void)unused;
	for (int i = 0; i < RANKS; i++)
		w.r.file[i].epoch_ns = 2000000;
	p = pulse_read(&w.r, &o);
	/* 1 MiB at 800,000 bytes in 2 ms takes 2.6 ms: 1.5 times as slow leaves gaps of 1.3 ms. */
	assert_in_range(pulse_epoch_max(&p, 1.5), 1310000, 1311000);
	pulse_free(&p);
	for (int i = 0; i < RANKS; i++)
		w.r.file[i].epoch_ns = 32000;
	o.slice_bytes = 65536; /* 2.6 us alone */
	p = pulse_read(&w.r, &o);
	v = pulse_judge(&p);
	assert_int_equal(v.class, CLASS_FINE);
	assert_true(v.confidence < .7);
	for (size_t i = 0; i < v.evidence_n; i++)
		said = said || strstr(v.evidence[i], "longer than 2.6 us");
	assert_true(said);
	verdict_free(&v);
	pulse_free(&p);
	world_free(&w);
}

/* Starts are compared by each rank's own clock: one that is wrong by seconds blames nobody. */
static void clocks_that_are_wrong(void **unused)
{
	struct world w = healthy(6, true);
	struct rec_file *f = w.r.file + 2;

	(void)unused;
	for (size_t i = 0; i < f->coll_n; i++) {
		f->coll[i].launch_ns += 3000000000u;
		f->coll[i].first_wr_ns += 3000000000u;
		f->coll[i].end_ns += 3000000000u;
	}
	for (size_t i = 0; i < f->epochs_n; i++)
		f->epochs[i].t_ns += 3000000000u;
	f->read_ns += 3000000000u;
	f->ended_ns += 3000000000u;
	f->clock_error_ns = 4000000000;
	expect(&w, CLASS_FINE, .5, 1);
	world_free(&w);
}

/* Two late starts of ten are a hiccup each, three are not. */
static void slow_is_what_is_so_three_times(void **unused)
{
	(void)unused;
	for (uint64_t times = 2; times <= 3; times++) {
		struct world w = healthy(10, true);
		struct rec_file *f = w.r.file + 2;
		struct verdict v;

		for (uint64_t k = 0; k < times; k++) {
			f->coll[2 + 3 * k].launch_ns += 15000000;
			f->coll[2 + 3 * k].first_wr_ns += 15000000;
			f->coll[2 + 3 * k].end_ns += 15000000;
			f->epochs[2 + 3 * k].t_ns += 15000000;
		}
		v = world_verdict(&w);
		assert_int_equal(v.class, times == 2 ? CLASS_FINE : CLASS_SLOW);
		assert_string_equal(v.rule, times == 2 ? "none" : "late-start");
		verdict_free(&v);
		world_free(&w);
	}
}

/* Of many operations each rank is slow in a tenth, and as much faster than the others in another:
 * that is how it is there, and no rank's fault. From slow_from on, rank 2 is always slow. */
static struct verdict varied(uint64_t seed, uint64_t operations, uint64_t slow_from)
{
	struct world w = world_make(RANKS);
	struct verdict v;

	state = seed;
	world_comm(&w, "world", all, RANKS);
	for (uint64_t n = 1; n <= operations; n++)
		for (int i = 0; i < RANKS; i++) {
			uint64_t of_ten = draw(10), start = n * PERIOD_US;
			uint64_t times = of_ten == 0 || (i == 2 && n >= slow_from) ? 4
					 : of_ten == 1				   ? 1
										   : 2;
			uint64_t us = (uint64_t)WORLD_EPOCH_US * 50 * times;

			world_sends(&w, i, (i + 1) % RANKS, start, us, (uint32_t)(RATE / times), 0,
				    0);
			world_coll(&w, i, "world", n, "allreduce", 50 * RATE / 3 * 2, start,
				   start + (uint64_t)WORLD_EPOCH_US * 200);
		}
	world_until(&w, (operations + 1) * PERIOD_US, true);
	v = world_verdict(&w);
	world_free(&w);
	return v;
}

static void who_only_varies_is_not_slow(void **unused)
{
	(void)unused;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct verdict v = varied(seed, 200, UINT64_MAX);

		assert_int_equal(v.class, CLASS_FINE);
		verdict_free(&v);
		v = varied(seed, 200, 180);
		assert_int_equal(v.class, CLASS_SLOW);
		assert_int_equal(v.culprits_n, 1);
		assert_int_equal(v.culprits[0].rank, 2);
		verdict_free(&v);
	}
}

/* ---- without hooks -------------------------------------------------------------------------- */

static void inferred_and_said_so(void **unused)
{
	struct world w = healthy(6, false);
	struct verdict v = world_verdict(&w);

	(void)unused;
	assert_int_equal(v.class, CLASS_FINE);
	assert_true(v.confidence < .7);
	assert_non_null(strstr(v.evidence[0], "6 operations of 1 communicators were inferred"));
	verdict_free(&v);
	world_free(&w);
}

/* As they are by the queue pairs' numbers, where records do not name the peers' ranks. */
static void peers_by_numbers(void **unused)
{
	struct world w = healthy(6, false);

	(void)unused;
	for (int i = 0; i < RANKS; i++)
		for (size_t k = 0; k < w.r.file[i].qp_n; k++)
			w.r.file[i].qp[k].peer_rank = REC_NONE;
	inferred_and_said_so(NULL);
	expect(&w, CLASS_FINE, .4, .7);
	world_free(&w);
}

static void inferred_stop(bool absent, const char *rule, int rank)
{
	struct world w = healthy(5, false);
	struct verdict v;

	for (int i = 0; i < RANKS; i++) {
		uint64_t us = i == rank ? 3200
					: 3200 + 640 * (uint64_t)((i - rank + RANKS) % RANKS);

		if (!absent || i != rank)
			world_sends(&w, i, (i + 1) % RANKS, 6 * PERIOD_US, us, RATE, 0, 0);
	}
	world_until(&w, 9000 * MS, false);
	v = world_verdict(&w);
	assert_int_equal(v.class, CLASS_STOPPED);
	assert_string_equal(v.rule, rule);
	assert_int_equal(v.culprits[0].rank, rank);
	assert_true(v.confidence < .7);
	verdict_free(&v);
	world_free(&w);
}

static void inferred_missing_start(void **unused)
{
	(void)unused;
	inferred_stop(true, "missing-start", 2);
}

static void inferred_smallest_volume(void **unused)
{
	(void)unused;
	inferred_stop(false, "smallest-volume", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(healthy_runs_have_no_verdict),
		cmocka_unit_test(a_rank_without_records_is_not_well),
		cmocka_unit_test(a_rank_with_empty_records_is_not_well),
		cmocka_unit_test(lost_records_lower_the_confidence),
		cmocka_unit_test(a_lost_record_is_no_missing_start),
		cmocka_unit_test(a_hang_with_an_unseen_rank_is_no_proof),
		cmocka_unit_test(who_waits_elsewhere_is_not_to_blame),
		cmocka_unit_test(one_process_is_gone),
		cmocka_unit_test(silence_is_not_well),
		cmocka_unit_test(what_is_under_way_does_not_stand_still),
		cmocka_unit_test(epochs_that_are_too_long),
		cmocka_unit_test(clocks_that_are_wrong),
		cmocka_unit_test(slow_is_what_is_so_three_times),
		cmocka_unit_test(who_only_varies_is_not_slow),
		cmocka_unit_test(inferred_and_said_so),
		cmocka_unit_test(peers_by_numbers),
		cmocka_unit_test(inferred_missing_start),
		cmocka_unit_test(inferred_smallest_volume),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
