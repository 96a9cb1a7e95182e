/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Who keeps the others waiting? Scenarios of section 4.2 of Aegis, and what a job may do else. */
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

/* Ten rounds of 100 ms behind them. */
static void begin(int ranks, int size)
{
	uint64_t compute[JOB_RANKS_MAX];

	j = job_make(ranks, 2, size);
	for (int i = 0; i < ranks; i++)
		compute[i] = 90 * JOB_MS;
	for (int i = 0; i < 10; i++)
		job_round(&j, "world", NULL, 0, compute, 10 * JOB_MS);
}

static void judge(uint64_t after_ns)
{
	job_read(&j, after_ns);
	v = aegis_hang(&j.r, &options);
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
	assert_non_null(v.action);
}

static void assert_culprit(enum verdict_component component, const char *rule, int rank)
{
	assert_int_equal(verdict_status(&v), EXIT_CULPRIT);
	assert_int_equal(v.class, CLASS_STOPPED);
	assert_int_equal(v.component, component);
	assert_string_equal(v.rule, rule);
	assert_int_equal(v.culprits_n, 1);
	assert_int_equal(v.culprits->rank, rank);
	assert_int_equal(v.culprits->pid, 1000 + rank);
	assert_true(v.evidence_n > 0);
}

static bool says(const char *text)
{
	for (size_t i = 0; i < v.evidence_n; i++)
		if (strstr(v.evidence[i], text))
			return true;
	return false;
}

/* Figure 7b: G2 fails to launch. */
static void who_does_not_launch_is_computation(void **state)
{
	(void)state;
	begin(4, 4);
	for (int i = 0; i < 4; i++)
		if (i != 2)
			job_enter(&j, "world", i, 11, 90 * JOB_MS);
	judge(60 * s_ns);
	assert_culprit(COMPONENT_COMPUTATION, "fewer-launches", 2);
	assert_string_equal(v.culprits->host, "h1");
	assert_true(v.confidence > 0.9);
	assert_true(v.first_seen_ns == job_rank(&j, 0)->coll[10].launch_ns);
}

static void the_first_that_waits_tells_since_when(void **state)
{
	(void)state;
	begin(4, 4);
	job_enter(&j, "world", 0, 11, 300 * JOB_MS);
	job_enter(&j, "world", 1, 11, 100 * JOB_MS);
	job_enter(&j, "world", 3, 11, 200 * JOB_MS);
	judge(60 * s_ns);
	assert_true(v.first_seen_ns == job_rank(&j, 1)->coll[10].launch_ns);
}

/* As the root of a broadcast may be. */
static void who_is_done_already_is_not_blamed(void **state)
{
	struct rec_coll *c;

	(void)state;
	begin(4, 4);
	for (int i = 1; i < 4; i++)
		c = job_enter(&j, "world", i, 11, JOB_MS);
	c->end_ns = c->launch_ns + JOB_MS;
	judge(60 * s_ns);
	assert_culprit(COMPONENT_COMPUTATION, "fewer-launches", 0);
}

static void a_member_of_a_small_communicator_may_be_missing(void **state)
{
	struct rec_comm *c;

	(void)state;
	begin(4, 4);
	c = rec_add_comm(job_rank(&j, 0));
	strcpy(c->comm, "other");
	c->size = 2;
	judge(JOB_MS);
	assert_undecided();
	assert_true(says("other: rank 1 "));
}

/* Figure 7c: all have launched, the requests of G1 do not complete. */
static void whose_requests_do_not_complete_is_communication(void **state)
{
	(void)state;
	begin(4, 4);
	for (int i = 0; i < 4; i++) {
		struct rec_coll *c = job_enter(&j, "world", i, 11, 90 * JOB_MS);

		c->wr = 8;
		c->wc = i == 1 ? 5 : 8;
	}
	judge(60 * s_ns);
	assert_culprit(COMPONENT_COMMUNICATION, "open-requests", 1);
	assert_non_null(strstr(v.action, "ping"));
}

static void the_queue_pair_is_named_if_epochs_tell(void **state)
{
	(void)state;
	begin(2, 2);
	for (int i = 0; i < 2; i++) {
		struct rec_file *f = job_rank(&j, i);
		struct rec_qp *qp;
		struct rec_epochs *e;

		job_enter(&j, "world", i, 11, 0)->wr = i ? 0 : 3;
		for (unsigned int n = 1; n <= 2; n++) {
			qp = rec_add_qp(f);
			qp->id = n;
			qp->qpn = 100 + n;
			strcpy(qp->nic, "mlx5_1");
			strcpy(qp->peer_host, "h9");
			e = rec_add_epochs(f);
			e->qp = n;
			e->n = 1;
			e->bytes = calloc(1, sizeof(*e->bytes));
			e->wr = calloc(1, sizeof(*e->wr));
			e->wc = calloc(1, sizeof(*e->wc));
			e->wr[0] = 4;
			e->wc[0] = n == 2 ? 1 : 4;
		}
	}
	judge(60 * s_ns);
	assert_culprit(COMPONENT_COMMUNICATION, "open-requests", 0);
	assert_int_equal(v.culprits->qpn, 102);
	assert_string_equal(v.culprits->nic, "mlx5_1");
	assert_true(says("h9"));
}

static void requests_that_hang_at_all_blame_none(void **state)
{
	(void)state;
	begin(4, 4);
	for (int i = 0; i < 4; i++)
		job_enter(&j, "world", i, 11, 0)->wr = 8;
	judge(60 * s_ns);
	assert_undecided();
	assert_int_equal(v.component, COMPONENT_COMMUNICATION);
}

static void nobody_stands_out(void **state)
{
	(void)state;
	begin(4, 4);
	for (int i = 0; i < 4; i++)
		job_enter(&j, "world", i, 11, 0);
	judge(60 * s_ns);
	assert_undecided();
}

/* Others are done with it: what it waits for was acknowledged by its NIC. */
static void the_only_one_that_is_not_done(void **state)
{
	uint64_t compute[4] = {0};

	(void)state;
	begin(4, 4);
	job_round(&j, "world", NULL, 0, compute, JOB_MS);
	job_rank(&j, 3)->coll[10].end_ns = 0;
	for (int i = 0; i < 3; i++)
		job_enter(&j, "world", i, 12, JOB_MS);
	judge(60 * s_ns);
	assert_culprit(COMPONENT_NONE, "alone-unfinished", 3);
}

/* It has not come to number 12, but for it stands in number 11, as others do. */
static void who_is_stuck_before_has_not_failed_in_computation(void **state)
{
	uint64_t compute[4] = {0};

	(void)state;
	begin(4, 4);
	job_round(&j, "world", NULL, 0, compute, JOB_MS);
	for (int i = 2; i < 4; i++)
		job_rank(&j, i)->coll[10].end_ns = 0;
	job_rank(&j, 3)->coll[10].wc = 1;
	for (int i = 0; i < 2; i++)
		job_enter(&j, "world", i, 12, JOB_MS);
	judge(60 * s_ns);
	assert_culprit(COMPONENT_COMMUNICATION, "open-requests", 3);
}

static void without_all_members_nothing_is_decided(void **state)
{
	(void)state;
	begin(4, 6);
	for (int i = 0; i < 4; i++)
		job_enter(&j, "world", i, 11, 0);
	judge(60 * s_ns);
	assert_undecided();
	assert_true(says("rank 4 ") && says("rank 5 "));
	assert_int_equal(v.coverage.ranks_seen, 4);
	assert_int_equal(v.coverage.ranks_expected, 6);
}

/* Rank 1 would be the culprit; rank 4 may be it as well. */
static void a_laggard_is_not_blamed_while_a_member_is_missing(void **state)
{
	(void)state;
	begin(4, 5);
	for (int i = 0; i < 4; i++)
		if (i != 1)
			job_enter(&j, "world", i, 11, 0);
	judge(60 * s_ns);
	assert_undecided();
}

static void a_member_without_records_is_never_fine(void **state)
{
	(void)state;
	begin(4, 5);
	judge(JOB_MS);
	assert_undecided();
	assert_true(says("rank 4 "));
}

static void who_is_only_slow_does_not_hang(void **state)
{
	(void)state;
	begin(4, 4);
	for (int i = 0; i < 4; i++)
		if (i != 2)
			job_enter(&j, "world", i, 11, 90 * JOB_MS);
	judge(9 * s_ns);
	assert_fine();
	verdict_free(&v);
	judge(11 * s_ns);
	assert_culprit(COMPONENT_COMPUTATION, "fewer-launches", 2);
}

/* A job that has paused for 20 s before may do so again. */
static void pauses_of_before_are_heeded(void **state)
{
	uint64_t compute[4];

	(void)state;
	begin(4, 4);
	for (int i = 0; i < 4; i++)
		compute[i] = 20 * s_ns;
	job_round(&j, "world", NULL, 0, compute, JOB_MS);
	for (int i = 0; i < 3; i++)
		job_enter(&j, "world", i, 12, 0);
	judge(55 * s_ns);
	assert_fine();
	verdict_free(&v);
	judge(65 * s_ns);
	assert_culprit(COMPONENT_COMPUTATION, "fewer-launches", 3);
}

/* Those of before the window are not: else each hang that was mended would hide the next one. */
static void pauses_of_long_ago_are_not(void **state)
{
	const struct aegis_options short_one = {.window_ns = 30 * s_ns};
	uint64_t compute[4];

	(void)state;
	begin(4, 4);
	for (int i = 0; i < 4; i++)
		compute[i] = 20 * s_ns;
	job_round(&j, "world", NULL, 0, compute, JOB_MS);
	for (int i = 0; i < 4; i++)
		compute[i] = s_ns;
	for (int n = 0; n < 40; n++)
		job_round(&j, "world", NULL, 0, compute, JOB_MS);
	for (int i = 0; i < 3; i++)
		job_enter(&j, "world", i, 52, 0);
	job_read(&j, 15 * s_ns);
	v = aegis_hang(&j.r, &options);
	assert_fine();
	verdict_free(&v);
	v = aegis_hang(&j.r, &short_one);
	assert_culprit(COMPONENT_COMPUTATION, "fewer-launches", 3);
}

/* Not all are read at one time: this one was 5 minutes before. The others may wait for it, or not.
 */
static void an_old_poll_decides_nothing(void **state)
{
	(void)state;
	begin(4, 4);
	for (int i = 0; i < 4; i++)
		if (i != 2)
			job_enter(&j, "world", i, 11, 0);
	job_read(&j, 300 * s_ns);
	job_rank(&j, 2)->read_ns = j.now[2] + JOB_MS;
	v = aegis_hang(&j.r, &options);
	assert_undecided();
}

/* Two polls of one process: the last counts. */
static void the_last_poll_counts(void **state)
{
	struct rec_file *f;

	(void)state;
	begin(2, 2);
	job_enter(&j, "world", 0, 11, 0);
	job_enter(&j, "world", 1, 11, 0);
	job_read(&j, 60 * s_ns);
	f = records_add(&j.r);
	strcpy(f->host, "h0");
	f->pid = 1001;
	f->rank = 1;
	f->began_ns = j.r.file[1].began_ns;
	f->read_ns = j.r.file[1].read_ns - 30 * s_ns;
	strcpy(rec_add_comm(f)->comm, "world");
	f->comm->size = 2;
	f->comm->rank = 1;
	v = aegis_hang(&j.r, &options);
	assert_undecided(); /* not rank 1, which had launched nothing in the other */
	assert_int_equal(v.coverage.ranks_seen, 2);
}

static void a_dead_member_is_named(void **state)
{
	(void)state;
	begin(4, 4);
	for (int i = 0; i < 3; i++)
		job_enter(&j, "world", i, 11, 0);
	job_rank(&j, 3)->died = true;
	job_read(&j, 60 * s_ns);
	job_rank(&j, 3)->read_ns = 0;
	v = aegis_hang(&j.r, &options);
	assert_culprit(COMPONENT_COMPUTATION, "fewer-launches", 3);
	assert_true(says("died"));
}

static void a_member_that_ended_too_early_is_named(void **state)
{
	(void)state;
	begin(4, 4);
	for (int i = 1; i < 4; i++)
		job_enter(&j, "world", i, 11, 0);
	job_read(&j, 60 * s_ns);
	job_rank(&j, 0)->ended_ns = j.now[0] + JOB_MS;
	v = aegis_hang(&j.r, &options);
	assert_culprit(COMPONENT_COMPUTATION, "fewer-launches", 0);
	assert_true(says("ended"));
}

static void a_dead_process_is_never_fine(void **state)
{
	(void)state;
	begin(4, 4);
	job_rank(&j, 3)->died = true;
	judge(JOB_MS);
	assert_undecided();
}

/* Tensor and data parallelism: 0, 1 and 2, 3 are groups of one kind, 0, 2 and 1, 3 of the other.
 * Rank 3 hangs; 2 waits for it, and 0 for 2. */
static void a_victim_in_another_communicator_is_not_blamed(void **state)
{
	static const int tp0[] = {0, 1}, tp1[] = {2, 3}, dp0[] = {0, 2}, dp1[] = {1, 3};
	uint64_t compute[2] = {JOB_MS, JOB_MS};

	(void)state;
	j = job_make(4, 1, 4);
	job_comm(&j, "tp0", tp0, 2);
	job_comm(&j, "tp1", tp1, 2);
	job_comm(&j, "dp0", dp0, 2);
	job_comm(&j, "dp1", dp1, 2);
	for (int i = 0; i < 5; i++) {
		job_round(&j, "tp0", tp0, 2, compute, JOB_MS);
		job_round(&j, "tp1", tp1, 2, compute, JOB_MS);
		job_round(&j, "dp0", dp0, 2, compute, JOB_MS);
		job_round(&j, "dp1", dp1, 2, compute, JOB_MS);
	}
	job_round(&j, "tp0", tp0, 2, compute, JOB_MS);
	job_enter(&j, "tp1", 2, 6, JOB_MS);
	job_enter(&j, "dp0", 0, 6, JOB_MS);
	job_enter(&j, "dp1", 1, 6, JOB_MS);
	judge(60 * s_ns);
	assert_culprit(COMPONENT_COMPUTATION, "fewer-launches", 3);
}

static void communicators_in_two_orders(void **state)
{
	static const int both[] = {0, 1};
	uint64_t compute[2] = {JOB_MS, JOB_MS};

	(void)state;
	j = job_make(2, 1, 2);
	job_comm(&j, "a", both, 2);
	job_comm(&j, "b", both, 2);
	job_round(&j, "a", both, 2, compute, JOB_MS);
	job_round(&j, "b", both, 2, compute, JOB_MS);
	job_enter(&j, "a", 0, 2, 0);
	job_enter(&j, "b", 1, 2, 0);
	judge(60 * s_ns);
	assert_int_equal(verdict_status(&v), EXIT_CULPRIT);
	assert_string_equal(v.rule, "order-of-collectives");
	assert_int_equal(v.level, LEVEL_GROUP);
	assert_int_equal(v.culprits_n, 2);
}

/* A message between stages of a pipeline: whom it waits for, is not followed. */
static void who_waits_for_a_message_is_not_blamed(void **state)
{
	struct rec_p2p *p;

	(void)state;
	begin(4, 4);
	for (int i = 0; i < 3; i++)
		job_enter(&j, "world", i, 11, 0);
	p = rec_add_p2p(job_rank(&j, 3));
	strcpy(p->comm, "world");
	p->launch_ns = j.now[3];
	judge(60 * s_ns);
	assert_undecided();
}

static void a_job_that_does_nothing_is_told(void **state)
{
	(void)state;
	begin(4, 4);
	judge(500 * s_ns);
	assert_fine();
	verdict_free(&v);
	judge(700 * s_ns);
	assert_int_equal(verdict_status(&v), EXIT_WARNING);
	assert_string_equal(v.rule, "idle");
}

static void a_job_that_ended_is_fine(void **state)
{
	(void)state;
	begin(4, 4);
	job_read(&j, 7000 * s_ns);
	for (int i = 0; i < 4; i++)
		job_rank(&j, i)->ended_ns = j.now[i];
	v = aegis_hang(&j.r, &options);
	assert_fine();
	assert_true(v.confidence == 1);
}

static void lost_records_lower_the_confidence(void **state)
{
	(void)state;
	begin(4, 4);
	for (int i = 0; i < 3; i++)
		job_enter(&j, "world", i, 11, 0);
	job_rank(&j, 3)->dropped = 5;
	judge(60 * s_ns);
	assert_culprit(COMPONENT_COMPUTATION, "fewer-launches", 3);
	assert_true(v.confidence <= 0.5);
	assert_int_equal(v.coverage.dropped, 5);
	verdict_free(&v);
	job_rank(&j, 3)->dropped = 0; /* of the culprit all is known */
	job_rank(&j, 0)->dropped = 5;
	judge(60 * s_ns);
	assert_true(v.confidence > 0.8 && v.confidence < 0.9);
}

static void how_far_it_was_read_must_be_known(void **state)
{
	(void)state;
	begin(2, 2);
	job_read(&j, JOB_MS);
	job_rank(&j, 1)->read_ns = 0;
	v = aegis_hang(&j.r, &options);
	assert_undecided();
}

static void no_communicators_no_verdict(void **state)
{
	struct rec_file *f;

	(void)state;
	f = records_add(&j.r);
	f->pid = 1;
	f->read_ns = 1;
	v = aegis_hang(&j.r, &options);
	assert_undecided();
	verdict_free(&v);
	records_free(&j.r);
	v = aegis_hang(&j.r, &options);
	assert_undecided();
}

/* At any moment, with any of them late or inside. */
static void healthy_jobs_have_no_culprit(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 1000; seed++) {
		uint64_t x = seed * 0x9e3779b97f4a7c15u, compute[16];
		int ranks = 2 + (int)job_random(&x, 15), rounds = (int)job_random(&x, 30);

		j = job_make(ranks, 1 + (int)job_random(&x, 4), ranks);
		for (int i = 0; i < rounds; i++) {
			for (int k = 0; k < ranks; k++)
				compute[k] = (100 + job_random(&x, 5000)) * JOB_MS;
			job_round(&j, "world", NULL, 0, compute, job_random(&x, 900) * JOB_MS);
		}
		for (int k = 0; k < ranks; k++)
			if (job_random(&x, 2))
				job_enter(&j, "world", k, (uint64_t)rounds + 1,
					  job_random(&x, 5000) * JOB_MS);
		judge(job_random(&x, 4000) * JOB_MS);
		if (v.class != CLASS_FINE)
			fail_msg("seed %llu: %s", (unsigned long long)seed,
				 v.evidence_n ? v.evidence[0] : v.rule);
		end(NULL);
	}
	j = job_make(0, 1, 0);
}

/* With any rank that does not come, or is not seen. */
static void random_hangs_are_found(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		uint64_t x = seed * 0x9e3779b97f4a7c15u;
		int ranks = 2 + (int)job_random(&x, 15), who = (int)job_random(&x, (uint64_t)ranks);
		bool missing = job_random(&x, 2);

		begin(ranks, ranks + missing);
		for (int k = 0; k < ranks; k++)
			if (k != who)
				job_enter(&j, "world", k, 11, job_random(&x, 3000) * JOB_MS);
		judge((20 + job_random(&x, 1000)) * s_ns);
		if (missing)
			assert_undecided();
		else
			assert_culprit(COMPONENT_COMPUTATION, "fewer-launches", who);
		end(NULL);
	}
	j = job_make(0, 1, 0);
}

#define T(f) cmocka_unit_test_teardown(f, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(who_does_not_launch_is_computation),
		T(the_first_that_waits_tells_since_when),
		T(who_is_done_already_is_not_blamed),
		T(a_member_of_a_small_communicator_may_be_missing),
		T(whose_requests_do_not_complete_is_communication),
		T(the_queue_pair_is_named_if_epochs_tell),
		T(requests_that_hang_at_all_blame_none),
		T(nobody_stands_out),
		T(the_only_one_that_is_not_done),
		T(who_is_stuck_before_has_not_failed_in_computation),
		T(without_all_members_nothing_is_decided),
		T(a_laggard_is_not_blamed_while_a_member_is_missing),
		T(a_member_without_records_is_never_fine),
		T(who_is_only_slow_does_not_hang),
		T(pauses_of_before_are_heeded),
		T(pauses_of_long_ago_are_not),
		T(an_old_poll_decides_nothing),
		T(the_last_poll_counts),
		T(a_dead_member_is_named),
		T(a_member_that_ended_too_early_is_named),
		T(a_dead_process_is_never_fine),
		T(a_victim_in_another_communicator_is_not_blamed),
		T(communicators_in_two_orders),
		T(who_waits_for_a_message_is_not_blamed),
		T(a_job_that_does_nothing_is_told),
		T(a_job_that_ended_is_fine),
		T(lost_records_lower_the_confidence),
		T(how_far_it_was_read_must_be_known),
		T(no_communicators_no_verdict),
		T(healthy_jobs_have_no_culprit),
		T(random_hangs_are_found),
	};

	cli_begin("test_aegis_hang", EXIT_FAILED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
