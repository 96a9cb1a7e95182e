/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The books of a shared receive queue, rule by rule (doc/srq.md): receives, lives, the usual way.
 */
#include "tests/unit/srq_books.h"

/* --- S1, S2, S3: receives --------------------------------------------------------------------- */

static void a_receive_comes_once(void **state)
{
	uint64_t id, wr_id;

	(void)state;
	join(0);
	post(1);
	id = wr_id = nic[0].id[0];
	assert_true(shift_srq_done(&s, 0, &wr_id, now));
	assert_int_equal(wr_id, 100);
	wr_id = id;
	assert_false(shift_srq_done(&s, 0, &wr_id, now));
	assert_int_equal(wr_id, id);
	assert_false(shift_srq_back(&s, 0, id, now));
	assert_int_equal(s.stats.stale, 2);
	assert_int_equal(shift_srq_total(&s), 0);
	run();
}

static void an_id_is_never_used_again(void **state)
{
	uint64_t first, wr_id;

	(void)state;
	join(0);
	post(1);
	first = takes(0);
	wr_id = first;
	shift_srq_done(&s, 0, &wr_id, now);
	for (int i = 0; i < 100; i++) {
		post(1);
		assert_true(nic[0].id[0] > first);
		wr_id = first;
		assert_false(shift_srq_done(&s, 0, &wr_id, now));
		assert_true(completes(0));
	}
}

static void zero_is_no_id(void **state)
{
	uint64_t wr_id = 0;

	(void)state;
	join(0);
	assert_false(shift_srq_done(&s, 0, &wr_id, now));
	assert_false(shift_srq_back(&s, 0, 0, now));
	run();
}

static void an_id_counts_on_its_nic_only(void **state)
{
	uint64_t wr_id;

	(void)state;
	join(0);
	join(1);
	post(2);
	assert_int_equal(nic[1].n, 1);
	wr_id = nic[1].id[0];
	assert_false(shift_srq_done(&s, 0, &wr_id, now));
	assert_true(shift_srq_done(&s, 1, &wr_id, now));
	run();
}

static void one_that_does_not_count_comes_back(void **state)
{
	uint64_t id;

	(void)state;
	join(0);
	post(1);
	id = takes(0);
	assert_true(shift_srq_back(&s, 0, id, now));
	run();
	assert_int_equal(nic[0].n, 1); /* posted anew */
	assert_true(nic[0].id[0] != id);
	assert_int_equal(s.stats.back, 1);
	assert_false(shift_srq_back(&s, 0, id, now));
}

static void wrs_are_kept(void **state)
{
	(void)state;
	join(0);
	for (uint32_t sges = 0; sges <= 4; sges++)
		assert_int_equal(post_wr(sges, sges), 0);
	assert_int_equal(post_wr(9, 5), -EINVAL);
	run();
	for (uint32_t i = 0; i <= 4; i++) {
		const struct shift_srq_entry *e = shift_srq_at(&s, nic[0].id[i]);

		assert_int_equal(e->wr_id, i);
		assert_int_equal(e->wr.wr_id, nic[0].id[i]);
		assert_null(e->wr.next);
		assert_int_equal(e->wr.num_sge, i);
		for (uint32_t n = 0; n < i; n++)
			assert_int_equal(e->wr.sge[n].lkey, 3 + 3 * n);
	}
}

static void sizes(void **state)
{
	(void)state;
	assert_int_equal(shift_srq_size(0, 1), 0);
	assert_int_equal(shift_srq_size(1u << 23, 1), 0);
	assert_int_equal(shift_srq_size(8, 70000), 0);
	assert_int_equal(shift_srq_size(1, 1), 4 * 64);
	assert_int_equal(shift_srq_size(1, 0), 4 * 64);
	assert_int_equal(shift_srq_size(9, 1), 32 * 64);
	assert_int_equal(shift_srq_size(8, 2), 16 * (64 + 16));
}

/* --- room, and what a NIC will not have (S22) --------------------------------------------------
 */

static void full(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(CAP);
	assert_int_equal(post_wr(1, 1), -ENOMEM);
	assert_true(completes(0));
	assert_int_equal(post_wr(1, 1), 0);
	assert_int_equal(post_wr(1, 1), -ENOMEM);
	run();
}

/* Soft-RoCE has room again when a receive is taken, not when it is polled. */
static void alone_the_provider_decides(void **state)
{
	(void)state;
	join(0);
	for (int i = 0; i < 2 * CAP; i++)
		assert_int_equal(post_wr(1, 1), 0);
	assert_int_equal(post_wr(1, 1), -ENOMEM);
	assert_int_equal(nic[0].n, 2 * CAP);
	assert_true(completes(0));
	assert_int_equal(post_wr(1, 1), 0);
}

static void what_is_too_much_waits(void **state)
{
	(void)state;
	join(0);
	post(2 * CAP);
	leave(0, true);
	join(1);
	assert_int_equal(nic[1].n, CAP);
	assert_int_equal(s.free, CAP);
	assert_int_equal(post_wr(1, 1), -ENOMEM);
	assert_true(completes(1));
	assert_int_equal(nic[1].n, CAP);
	assert_int_equal(s.free, CAP - 1);
}

static void a_post_says_where(void **state)
{
	struct shift_raw_recv wr = {.wr_id = 1};
	uint64_t id;

	(void)state;
	join(0);
	join(1);
	assert_int_equal(shift_srq_post(&s, &wr, now, &id), 0);
	assert_int_equal(shift_srq_post(&s, &wr, now, &id), 1);
	assert_true(shift_srq_done(&s, 1, &id, now));
	run();
}

static void those_that_wait_are_not_passed(void **state)
{
	struct shift_raw_recv wr = {.wr_id = 1};
	uint64_t id;

	(void)state;
	join(0);
	join(1);
	post(1);
	shift_srq_back(&s, 0, takes(0), now);
	assert_int_equal(shift_srq_post(&s, &wr, now, &id), SHIFT_SRQ_NOWHERE);
	assert_int_equal(s.free, 2);
	run();
	assert_int_equal(nic[0].n + nic[1].n, 2);
}

static void alone_what_is_refused_waits(void **state)
{
	(void)state;
	join(0);
	post(1);
	shift_srq_refused(&s, takes(0), now);
	assert_false(shift_srq_alone(&s));
	run();
	assert_int_equal(nic[0].n, 0);
	assert_int_equal(s.free, 1);
	assert_int_equal(shift_srq_deadline(&s), now + 100 * MS);
	now += 50 * MS;
	post(1); /* another one is not put off */
	assert_int_equal(nic[0].n, 1);
	shift_srq_refused(&s, takes(0), now);
	run();
	assert_int_equal(shift_srq_deadline(&s), now + 50 * MS);
	now = shift_srq_deadline(&s);
	run();
	assert_int_equal(nic[0].n, 2);
	assert_true(shift_srq_alone(&s));
}

static void another_nic_has_what_one_refuses(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(1);
	shift_srq_refused(&s, takes(0), now);
	run();
	assert_int_equal(nic[1].n, 1);
	post(1);
	assert_int_equal(nic[0].n, 1);
	shift_srq_back(&s, 1, takes(1), now);
	run();
	assert_int_equal(nic[1].n, 1); /* that one still not to NIC 0 */
	assert_true(completes(1));
	assert_true(completes(0));
	post(1);
	assert_int_equal(nic[0].n + nic[1].n, 1);
}

static void a_refusal_ends_with_the_life(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(1);
	shift_srq_refused(&s, takes(0), now);
	run();
	leave(0, false);
	join(0);
	leave(1, false);
	assert_int_equal(nic[0].n, 1);
}

/* What NIC 1 will not have need not be taken from NIC 0 again and again. */
static void nothing_is_taken_for_who_refuses(void **state)
{
	(void)state;
	join(0);
	post(4);
	join(1);
	drains(0);
	shift_srq_refused(&s, takes(1), now);
	shift_srq_refused(&s, takes(1), now);
	run();
	assert_int_equal(nic[0].n, 4);
	assert_int_equal(nic[0].drain, 0);
	now = shift_srq_deadline(&s);
	run();
	assert_int_equal(nic[0].drain, 2);
}

static void turns_wait_for_who_refuses(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(1);
	now += 20 * MS;
	run();
	drains(0);
	shift_srq_refused(&s, takes(1), now);
	run();
	assert_int_equal(nic[0].n, 1);
	now += 99 * MS;
	run();
	assert_int_equal(nic[0].drain, 0);
	now += MS;
	run();
	assert_int_equal(nic[0].drain, 1);
}

static void a_mistake_is_forgotten(void **state)
{
	(void)state;
	join(0);
	post(2);
	shift_srq_unpost(&s, takes(0), 0);
	assert_int_equal(shift_srq_total(&s), 1);
	run();
	shift_srq_unpost(&s, 12345, 0);
	assert_int_equal(shift_srq_total(&s), 1);
	join(1);
	post(1);
	assert_int_equal(nic[1].n, 1);
	shift_srq_unpost(&s, takes(1), now);
	assert_int_equal(shift_srq_total(&s), 1);
	run();
}

/* --- S4 to S7: lives -------------------------------------------------------------------------- */

static void receives_lie_at_home_before_there_are_qps(void **state)
{
	(void)state;
	post(3);
	assert_int_equal(nic[0].n, 3);
	join(0);
	assert_true(completes(0));
	leave(0, false);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_OPEN); /* as with stock verbs */
	join(0);
	assert_true(completes(0));
	assert_int_equal(s.stats.lives, 0);
}

static void all_move(void **state)
{
	uint64_t wr_id;

	(void)state;
	join(0);
	join(0);
	post(4);
	leave(0, true);
	assert_int_equal(nic[0].n, 4); /* the other may take them */
	assert_int_equal(s.free, 0);
	leave(0, true);
	assert_int_equal(s.free, 4);
	assert_int_equal(s.nic[0].ghosts, 4);
	join(1);
	join(1);
	assert_int_equal(nic[1].n, 4);
	wr_id = nic[0].id[0];
	assert_false(shift_srq_done(&s, 0, &wr_id, now)); /* too late */
	for (int i = 0; i < 4; i++)
		assert_true(completes(1));
}

static void the_first_armed_ends_the_life_of_an_idle_home(void **state)
{
	(void)state;
	post(2);
	join(1);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_GHOSTS);
	assert_int_equal(nic[1].n, 2);
}

static void nobody_joins_ghosts(void **state)
{
	(void)state;
	join(0);
	post(4);
	leave(0, true);
	join(1);
	assert_false(shift_srq_join(&s, 0, now));
	assert_int_equal(nic[0].drain, 4);
	drains(0);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_EMPTY);
	join(0);
	assert_int_equal(s.stats.ghosts, 4);
}

/* One was cut, and the NIC has dropped it: only RNR says that no more will come. */
static void rnr_proves_empty(void **state)
{
	(void)state;
	join(0);
	post(4);
	takes(0);
	leave(0, true);
	join(1);
	assert_int_equal(nic[1].n, 4); /* the one that was cut, too */
	drains(0);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_EMPTY);
	assert_int_equal(s.stats.ghosts, 3);
}

static void less_than_all_proves_nothing(void **state)
{
	(void)state;
	join(0);
	post(4);
	leave(0, true);
	shift_srq_drained(&s, 0, takes(0), now);
	drain_ends(0, SHIFT_SRQ_TOOK_ALL);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_GHOSTS);
	assert_int_equal(nic[0].drain, 3); /* at once */
	drains(0);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_OPEN); /* at home */
}

static void a_drain_that_fails_proves_nothing(void **state)
{
	(void)state;
	join(0);
	post(4);
	leave(0, true);
	drain_ends(0, SHIFT_SRQ_FAILED);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_GHOSTS);
	assert_int_equal(nic[0].drain, 0);
	assert_int_equal(shift_srq_deadline(&s), now + 100 * MS);
	now += 100 * MS;
	run();
	assert_int_equal(nic[0].drain, 4);
}

/* A late completion of another QP says nothing of what is left. */
static void only_the_drainer_counts_ghosts(void **state)
{
	uint64_t wr_id;

	(void)state;
	join(0);
	post(2);
	leave(0, true);
	join(1);
	for (int i = 0; i < 2; i++) {
		wr_id = nic[0].id[0];
		assert_false(shift_srq_done(&s, 0, &wr_id, now));
		assert_false(shift_srq_back(&s, 0, nic[0].id[0], now));
	}
	assert_int_equal(s.nic[0].ghosts, 2);
}

/* What the drainer takes of a life that is over is no receive any more: that lies elsewhere. */
static void a_ghost_is_not_given_again(void **state)
{
	(void)state;
	join(0);
	join(0);
	join(1);
	post(1);
	leave(1, false);
	post(3);
	leave(0, true);
	leave(0, true);
	shift_srq_drained(&s, 0, takes(0), now);
	assert_int_equal(shift_srq_total(&s), 4);
	assert_int_equal(s.free, 4);
	join(2);
	assert_int_equal(nic[2].n, 4);
	assert_int_equal(shift_srq_total(&s), 4);
}

static void a_drain_outlives_its_life(void **state)
{
	(void)state;
	join(0);
	post(8);
	join(1);
	assert_int_equal(nic[0].drain, 4); /* for NIC 1 */
	shift_srq_drained(&s, 0, takes(0), now);
	run();
	assert_int_equal(nic[1].n, 1);
	leave(0, true);
	assert_int_equal(s.nic[0].ghosts, 7);
	assert_int_equal(nic[1].n, 8);
	shift_srq_drained(&s, 0, takes(0), now);
	assert_int_equal(s.nic[0].ghosts, 6);
	drain_ends(0, SHIFT_SRQ_TOOK_ALL);
	assert_int_equal(nic[0].drain, 6);
	drains(0);
}

static void an_empty_nic_needs_no_drain(void **state)
{
	(void)state;
	join(0);
	post(1);
	assert_true(completes(0));
	leave(0, true);
	assert_true(shift_srq_join(&s, 0, now));
}

static void home_is_opened_again(void **state)
{
	(void)state;
	join(0);
	leave(0, false);
	join(1);
	post(2);
	assert_int_equal(nic[1].n, 2);
	leave(1, false);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_OPEN);
	assert_int_equal(nic[0].n, 2);
	assert_int_equal(nic[1].drain, 2);
	drains(1);
	assert_true(shift_srq_alone(&s));
}

/* --- S24: the usual way ----------------------------------------------------------------------- */

static void the_usual_way(void **state)
{
	uint64_t id, wr_id;

	(void)state;
	join(0);
	assert_int_equal(post_wr(7, 1), 0);
	assert_int_equal(post_wr(8, 0), 0);
	assert_int_equal(post_wr(9, 2), 0);
	assert_int_equal(post_wr(10, 5), -EINVAL);
	assert_true(shift_srq_alone(&s));
	assert_int_equal(shift_srq_total(&s), 3);
	assert_int_equal(s.nic[0].on, 3);
	assert_int_equal(shift_srq_at(&s, nic[0].id[0])->wr.sge[0].lkey, 3);
	assert_int_equal(shift_srq_at(&s, nic[0].id[1])->wr.num_sge, 0);
	assert_int_equal(shift_srq_at(&s, nic[0].id[2])->wr.sge[1].lkey, 6);
	for (int i = 0; i < 3; i++) {
		id = wr_id = nic[0].id[i];
		assert_false(shift_srq_done(&s, 1, &wr_id, 0)); /* of another NIC */
		wr_id = id + 2ull * CAP;			/* of that slot, but not yet */
		assert_false(shift_srq_done(&s, 0, &wr_id, 0));
		wr_id = id;
		assert_true(shift_srq_done(&s, 0, &wr_id, 0));
		assert_int_equal(wr_id, 7 + i);
		wr_id = id;
		assert_false(shift_srq_done(&s, 0, &wr_id, 0));
		assert_int_equal(wr_id, id);
		wr_id = 0;
		assert_false(shift_srq_done(&s, 0, &wr_id, 0));
		wr_id = SHIFT_SRQ_NO_ID;
		assert_false(shift_srq_done(&s, 0, &wr_id, 0));
		holds();
	}
	assert_int_equal(shift_srq_total(&s), 0);
	assert_int_equal(s.stats.stale, 15);
	run();
}

static void the_usual_way_passes_slots_in_use(void **state)
{
	uint64_t parked;

	(void)state;
	join(0);
	post(1);
	parked = nic[0].id[0];
	for (int i = 0; i < 200; i++) {
		assert_int_equal(post_wr(2, 1), 0);
		assert_true(nic[0].id[1] > parked);
		assert_true(completes(0));
	}
	assert_true(shift_srq_alone(&s));
	assert_true(completes(0));
	assert_int_equal(s.stats.stale, 0);
}

static void what_is_not_usual(void **state)
{
	(void)state;
	join(0);
	post(4);
	assert_true(shift_srq_alone(&s));
	join(1);
	assert_false(shift_srq_alone(&s));
	drains(0);
	leave(1, true);
	assert_true(shift_srq_alone(&s)); /* NIC 1 is drained meanwhile */
	assert_true(nic[1].drain > 0);
	drains(1);
	assert_int_equal(s.nic[1].state, SHIFT_SRQ_EMPTY);
	join(1);
	leave(1, false);
	assert_false(shift_srq_alone(&s)); /* the drain for NIC 1 */
	drains(0);
	assert_true(shift_srq_alone(&s));
}

static void a_drain_that_failed_is_no_reason(void **state)
{
	(void)state;
	join(0);
	post(4);
	join(1);
	drain_ends(0, SHIFT_SRQ_FAILED_SENT);
	leave(1, false);
	assert_int_equal(s.nic[0].cut, 1);
	assert_true(shift_srq_alone(&s));
}

/* As long as there are more than may be missing nobody looks for these. */
static void suspects_in_the_usual_way(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(3);
	leave(0, true);
	assert_true(shift_srq_alone(&s));
	for (int i = 0; i < 2; i++) {
		uint64_t wr_id = takes(0);

		assert_true(shift_srq_done(&s, 0, &wr_id, 0));
		holds();
	}
	assert_false(shift_srq_alone(&s));
	run();
	assert_int_equal(nic[0].drain, 1);
	drains(0); /* it was there */
	assert_true(shift_srq_alone(&s));
	takes(0);
	join(0);
	leave(0, true);
	drains(0);
	assert_false(shift_srq_alone(&s));
}

/* NIC 1 has refused it, and its life is over: nothing of that is left in the slot. */
static void a_slot_forgets_refusals(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(2);
	shift_srq_refused(&s, takes(1), now);
	run();
	assert_int_equal(nic[0].n, 2);
	leave(1, true);
	assert_true(shift_srq_alone(&s));
	assert_true(completes(0));
	join(1);
	post(1);
	assert_int_equal(nic[1].n, 1);
}

static void no_sges_at_all(void **state)
{
	struct shift_srq_cfg cfg = {.cap = CAP, .nics = NICS};

	(void)state;
	shift_srq_init(&s, mem, &cfg);
	assert_int_equal(post_wr(1, 0), 0);
	assert_int_equal(post_wr(1, 2), -EINVAL);
	assert_int_equal(post_wr(1, 1), 0); /* its NIC says no */
}

/* --- what the check sees ---------------------------------------------------------------------- */

static void wrong_is(const char *what)
{
	const char *says = shift_srq_check(&s);

	if (!says || !strstr(says, what))
		fail_msg("%s, and not: %s", says ? says : "nothing is wrong", what);
}

static void the_check_sees_a_post_to_a_drained_nic(void **state)
{
	(void)state;
	join(0);
	post(4);
	join(1);
	s.nic[0].drain_id = nic[0].id[3];
	wrong_is("S11");
}

static void the_check_sees_a_list_that_is_wrong(void **state)
{
	uint32_t second;

	(void)state;
	start(32);
	join(0);
	post(12);
	join(1);
	leave(0, true);
	leave(1, true);
	s.nic[0].state = SHIFT_SRQ_GHOSTS; /* all are free */
	assert_true(s.free > 4);
	holds();
	second = shift_srq_at(&s, s.free_first)->next_free;
	shift_srq_at(&s, second)->next_free = s.free_first;
	wrong_is("list");
	s.free_last = s.free % 2 ? s.free_first : second;
	wrong_is("list");
}

static void the_check_sees_counts_that_are_wrong(void **state)
{
	(void)state;
	join(0);
	post(2);
	s.alone = false;
	wrong_is("S24");
	s.alone = true;
	s.nic[0].held++;
	wrong_is("S23");
	s.nic[0].held--;
	shift_srq_at(&s, nic[0].id[0])->refused = 2;
	wrong_is("S22");
}

static void growing(void **state)
{
	const struct shift_srq_entry *last;
	void *old = mem;

	(void)state;
	post(3);
	join(1); /* all free, then on NIC 1 */
	leave(1, true);
	assert_int_equal(nic[1].drain, 3);
	assert_int_equal(post_wr(55, 4), 0);
	shift_srq_drained(&s, 1, takes(1), now);
	assert_int_equal(s.free, 4);
	mem = calloc(1, shift_srq_size(4 * CAP, 4));
	shift_srq_grow(&s, mem, 4 * CAP);
	free(old);
	nic[0].n = 0; /* ghosts */
	run();
	drains(0);
	assert_int_equal(nic[0].n, 4);
	assert_int_equal(shift_srq_total(&s), 4);
	last = shift_srq_at(&s, nic[0].id[3]);
	assert_int_equal(last->wr_id, 55);
	assert_ptr_equal(last->wr.sge, last->sge); /* not in the old memory */
	assert_int_equal(last->wr.sge[3].lkey, 12);
	for (int i = 0; i < 4; i++)
		assert_true(completes(0));
	post(4 * CAP);
}

static void growing_in_the_usual_case(void **state)
{
	void *old = mem;

	(void)state;
	join(0);
	post(3);
	mem = calloc(1, shift_srq_size(4 * CAP, 4));
	shift_srq_grow(&s, mem, 4 * CAP);
	holds();
	free(old);
	post(4 * CAP);
	for (int i = 0; i < 4 * CAP + 3; i++)
		assert_true(completes(0));
	assert_int_equal(shift_srq_total(&s), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOOKS_TEST(a_receive_comes_once),
		BOOKS_TEST(an_id_is_never_used_again),
		BOOKS_TEST(zero_is_no_id),
		BOOKS_TEST(an_id_counts_on_its_nic_only),
		BOOKS_TEST(one_that_does_not_count_comes_back),
		BOOKS_TEST(wrs_are_kept),
		BOOKS_TEST(sizes),
		BOOKS_TEST(receives_lie_at_home_before_there_are_qps),
		BOOKS_TEST(all_move),
		BOOKS_TEST(the_first_armed_ends_the_life_of_an_idle_home),
		BOOKS_TEST(nobody_joins_ghosts),
		BOOKS_TEST(rnr_proves_empty),
		BOOKS_TEST(less_than_all_proves_nothing),
		BOOKS_TEST(a_drain_that_fails_proves_nothing),
		BOOKS_TEST(only_the_drainer_counts_ghosts),
		BOOKS_TEST(a_ghost_is_not_given_again),
		BOOKS_TEST(a_drain_outlives_its_life),
		BOOKS_TEST(an_empty_nic_needs_no_drain),
		BOOKS_TEST(home_is_opened_again),
		BOOKS_TEST(full),
		BOOKS_TEST(alone_the_provider_decides),
		BOOKS_TEST(what_is_too_much_waits),
		BOOKS_TEST(a_post_says_where),
		BOOKS_TEST(those_that_wait_are_not_passed),
		BOOKS_TEST(alone_what_is_refused_waits),
		BOOKS_TEST(another_nic_has_what_one_refuses),
		BOOKS_TEST(a_refusal_ends_with_the_life),
		BOOKS_TEST(nothing_is_taken_for_who_refuses),
		BOOKS_TEST(turns_wait_for_who_refuses),
		BOOKS_TEST(a_mistake_is_forgotten),
		BOOKS_TEST(the_usual_way),
		BOOKS_TEST(the_usual_way_passes_slots_in_use),
		BOOKS_TEST(what_is_not_usual),
		BOOKS_TEST(a_drain_that_failed_is_no_reason),
		BOOKS_TEST(suspects_in_the_usual_way),
		BOOKS_TEST(a_slot_forgets_refusals),
		BOOKS_TEST(no_sges_at_all),
		BOOKS_TEST(the_check_sees_a_post_to_a_drained_nic),
		BOOKS_TEST(the_check_sees_a_list_that_is_wrong),
		BOOKS_TEST(the_check_sees_counts_that_are_wrong),
		BOOKS_TEST(growing),
		BOOKS_TEST(growing_in_the_usual_case),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
