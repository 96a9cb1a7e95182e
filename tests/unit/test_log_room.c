/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The log of sends begins with few slots, and takes more when more is outstanding: nothing that may
 * have to be posted again is ever lost (lib/core/wrlog.c). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/core/wrlog.h"

enum { CAP = 64, SLOTS_MAX = 4 * CAP, INLINE = 48, SGES = 3 };

static _Alignas(64) uint8_t memory[1 << 16];
static struct shift_sendlog l;
static uint64_t sig_done;

static void new_log(uint32_t slots)
{
	assert_true(shift_sendlog_size(CAP, SGES, INLINE) <= sizeof(memory));
	memset(memory, 0, sizeof(memory));
	shift_sendlog_init(&l, memory, &sig_done, CAP, SGES, INLINE, 1024, false);
	shift_sendlog_begin_with(&l, slots);
}

/* Its bytes, or its SGEs, follow from its number. */
static void post(uint64_t id, uint8_t flags, uint32_t num_sge)
{
	char payload[INLINE];
	struct shift_sge sge[SGES];
	struct shift_wr wr = {.wr_id = id,
			      .opcode = SHIFT_OP_WRITE,
			      .flags = flags,
			      .sge = sge,
			      .num_sge = num_sge};

	memset(payload, (int)id, sizeof(payload));
	for (uint32_t i = 0; i < num_sge; i++)
		sge[i] = (struct shift_sge){id + i, 8, (uint32_t)id};
	if (flags & SHIFT_F_INLINE)
		sge[0] = (struct shift_sge){(uintptr_t)payload, sizeof(payload), 0};
	assert_int_equal(shift_sendlog_post(&l, &wr), 0);
}

/* The WR of that index is in the log as it was posted. */
static void is_kept(uint64_t i)
{
	struct shift_sge sge[SGES];
	struct shift_wr wr;

	shift_sendlog_repost(&l, i, &wr, sge);
	assert_int_equal(wr.wr_id, i);
	if (wr.flags & SHIFT_F_INLINE) {
		for (uint32_t k = 0; k < INLINE; k++)
			assert_int_equal(((const uint8_t *)(uintptr_t)sge[0].addr)[k], (uint8_t)i);
		return;
	}
	for (uint32_t k = 0; k < wr.num_sge; k++)
		assert_int_equal(sge[k].addr, i + k);
}

static void few_outstanding_need_few_slots(void **state)
{
	(void)state;
	new_log(8);
	for (uint64_t i = 0; i < 1000; i++) {
		post(i, SHIFT_F_SIGNALED, 1);
		if (i >= 3)
			++*l.sig_done;
		assert_int_equal(shift_sendlog_done_by_signal(&l), i < 3 ? 0 : i - 2);
	}
	assert_int_equal(l.mask, 7);
	for (size_t i = 8; i < SLOTS_MAX; i++)
		assert_int_equal(l.ring[i].wr_id, 0);
}

static void slots_are_not_more_than_the_memory(void **state)
{
	(void)state;
	new_log(4 * SLOTS_MAX);
	assert_int_equal(l.mask, 2 * CAP - 1); /* what a program needs that knows its queue */
	new_log(2);
	for (uint64_t i = 0; i < SLOTS_MAX; i++)
		post(i, SHIFT_F_SIGNALED, 1);
	assert_int_equal(l.mask, SLOTS_MAX - 1);
	for (uint64_t i = 0; i < SLOTS_MAX; i++)
		is_kept(i);
}

/* Also not for the one that the NIC refuses. */
static void a_full_queue_needs_no_more_slots(void **state)
{
	(void)state;
	new_log(SLOTS_MAX);
	for (uint64_t i = 0; i < 1000; i++) {
		post(i, SHIFT_F_SIGNALED, 1);
		if (i >= CAP)
			++*l.sig_done;
	}
	assert_int_equal(l.mask, 2 * CAP - 1);
}

/* A model of the queue: WRs are done when one behind them has completed, or they have. */
struct model {
	bool signaled[4096];
	uint64_t done, posted;
};

static void complete_one(struct model *m)
{
	uint64_t i = m->done;

	while (i < m->posted && !m->signaled[i])
		i++;
	if (i == m->posted)
		return;
	m->done = i + 1;
	++*l.sig_done;
}

static void post_some(struct model *m)
{
	bool is_inline = rand() % 4 == 0;
	uint32_t sges = is_inline ? 1 : (uint32_t)rand() % (SGES + 1);

	m->signaled[m->posted] = rand() % 3 == 0;
	post(m->posted,
	     (uint8_t)((m->signaled[m->posted] ? SHIFT_F_SIGNALED : 0) |
		       (is_inline ? SHIFT_F_INLINE : 0)),
	     sges);
	m->posted++;
}

static void run_model(unsigned int seed)
{
	struct model m = {.done = 0};
	int most;

	srand(seed);
	most = 1 + rand() % CAP;
	new_log(2u << rand() % 5);
	while (m.posted < 4000) {
		if (m.posted - m.done < (uint64_t)most)
			post_some(&m);
		if (m.posted - m.done >= (uint64_t)most || rand() % 2)
			complete_one(&m);
		if (m.posted - m.done >= (uint64_t)most && rand() % 8 == 0)
			most = 1 + rand() % CAP;
		if (m.posted - m.done >= CAP) { /* no signaled one: the provider is full for good */
			assert_int_equal(*l.sig_done, l.sig_posted);
			return;
		}
		assert_int_equal(shift_sendlog_done_by_signal(&l), m.done);
		for (uint64_t i = m.done; i < m.posted; i++)
			is_kept(i);
	}
}

static void what_is_outstanding_is_kept(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed <= 200; seed++)
		run_model(seed);
}

/* What was taken back, and had made the log larger, may come again in another way. */
static void what_is_taken_back_makes_no_room(void **state)
{
	(void)state;
	new_log(8);
	for (uint64_t i = 0; i < 6; i++)
		post(i, 0, 1);
	shift_sendlog_unpost(&l, 6);
	for (uint64_t i = 0; i < 30; i++) {
		post(i, SHIFT_F_SIGNALED, 1);
		*l.sig_done = 1;
		for (uint64_t k = 1; k <= i; k++)
			is_kept(k);
	}
}

/* The queue was full, and a list as long as it is refused: it had the places of what is done. */
static void a_refused_list_leaves_nothing_behind(void **state)
{
	(void)state;
	new_log(SLOTS_MAX);
	for (uint64_t i = 0; i < 2 * CAP; i++) {
		post(i, (i + 1) % CAP ? 0 : SHIFT_F_SIGNALED, 1);
		*l.sig_done = i >= CAP;
	}
	for (uint64_t i = 0; i < CAP; i++)
		post(i, 0, 1);
	shift_sendlog_unpost(&l, CAP);
	assert_int_equal(shift_sendlog_done_by_signal(&l), CAP);
	for (uint64_t i = CAP; i < 2 * CAP; i++)
		is_kept(i);
}

static int try_post(uint64_t id)
{
	struct shift_wr wr = {.wr_id = id, .opcode = SHIFT_OP_WRITE, .flags = SHIFT_F_SIGNALED};

	return shift_sendlog_post(&l, &wr);
}

/* Another thread has polled completions with errors, and the log does not know yet. The provider
 * has room, and the program fills it. */
static void nothing_outstanding_is_stored_over(void **state)
{
	(void)state;
	new_log(SLOTS_MAX);
	for (uint64_t i = 0; i < SLOTS_MAX; i++)
		post(i, SHIFT_F_SIGNALED, 1);
	for (uint64_t end = SLOTS_MAX; end < 1000; end++) {
		assert_int_equal(shift_sendlog_room(&l), 0);
		assert_int_equal(try_post(end), -ENOMEM);
		assert_int_equal(l.head, end);
		assert_int_equal(shift_sendlog_done_by_signal(&l), end - SLOTS_MAX);
		for (uint64_t i = end - SLOTS_MAX; i < end; i++)
			is_kept(i);
		++*l.sig_done;
		post(end, SHIFT_F_SIGNALED, 1);
	}
}

/* The newest that soft-RoCE's queue may hold are there. */
static void newest_are_kept(uint64_t head)
{
	uint64_t first = head < 2 * CAP ? 0 : head - (2 * CAP - 1);

	assert_true(shift_sendlog_done_by_signal(&l) <= first);
	for (uint64_t i = first; i < head; i++)
		is_kept(i);
}

/* Soft-RoCE takes them without end. Lists are logged, and refused while its queue is full. */
static void without_a_signaled_one_the_queue_tells_what_is_done(void **state)
{
	(void)state;
	for (uint32_t list = 0; list <= CAP; list += CAP / 4) {
		new_log(SLOTS_MAX);
		for (uint64_t i = 0; i < 1500; i++) {
			for (uint64_t k = 0; k < list; k++)
				post(i + k, 0, 1);
			shift_sendlog_unpost(&l, list);
			newest_are_kept(i);
			post(i, 0, 1);
			newest_are_kept(i + 1);
		}
	}
}

/* Its completion says what is done, and it may be the oldest for a while. */
static void a_signaled_one_is_never_done_without_its_completion(void **state)
{
	(void)state;
	new_log(SLOTS_MAX);
	for (uint64_t i = 0; i < 1000; i++)
		post(i, 0, 1);
	post(1000, SHIFT_F_SIGNALED, 1);
	for (uint64_t i = 1001; i < 1000 + SLOTS_MAX; i++) {
		post(i, 0, 1);
		is_kept(1000);
	}
	assert_int_equal(try_post(1000 + SLOTS_MAX), -ENOMEM);
	is_kept(1000);
	++*l.sig_done;
	post(1000 + SLOTS_MAX, 0, 1);
}

/* Its WRs flush, and errors are not counted. */
static void a_log_that_is_over_has_room_for_all(void **state)
{
	(void)state;
	new_log(SLOTS_MAX);
	for (uint64_t i = 0; i < SLOTS_MAX; i++)
		post(i, SHIFT_F_SIGNALED, 1);
	shift_sendlog_end(&l);
	for (uint64_t i = SLOTS_MAX; i < 1000; i++)
		post(i, SHIFT_F_SIGNALED, 1);
}

static void held_and_delivered_it_goes_on(void **state)
{
	(void)state;
	new_log(4);
	for (uint64_t i = 0; i < 3; i++)
		post(i, SHIFT_F_SIGNALED, 1);
	shift_sendlog_hold(&l);
	for (uint64_t i = 3; i < CAP; i++)
		post(i, SHIFT_F_SIGNALED, i % 4);
	for (uint64_t i = 0; i < CAP; i++)
		is_kept(i);
	shift_sendlog_release(&l);
	l.sent = l.head;
	for (uint64_t i = 0; i < CAP; i++)
		shift_sendlog_complete(&l);
	assert_int_equal(l.ready, CAP);
	l.tail = l.ready;
	*l.sig_done = l.sig_posted;
	l.tracked = false;
	for (uint64_t i = CAP; i < 2000; i++) {
		post(i, SHIFT_F_SIGNALED, 1);
		if (i >= CAP + 10)
			++*l.sig_done;
		for (uint64_t k = i < CAP + 10 ? CAP : i - 9; k <= i; k++)
			is_kept(k);
	}
	assert_int_equal(shift_sendlog_done_by_signal(&l), 1990);
}

/* In its place stands what was there before. */
static void what_is_done_has_no_place_in_a_larger_log(void **state)
{
	(void)state;
	new_log(4);
	for (uint64_t i = 0; i < 6; i++) {
		post(i, SHIFT_F_SIGNALED, 1);
		++*l.sig_done;
	}
	for (uint64_t i = 6; i < CAP; i++) {
		post(i, SHIFT_F_SIGNALED, 1);
		assert_int_equal(shift_sendlog_done_by_signal(&l), 6);
	}
}

/* Its completion has come, and the program has not had it yet. */
static void what_waits_for_its_delivery_is_kept(void **state)
{
	(void)state;
	new_log(4);
	for (uint64_t i = 0; i < 3; i++)
		post(i, SHIFT_F_SIGNALED, 1);
	shift_sendlog_track(&l);
	for (uint64_t i = 0; i < 3; i++)
		shift_sendlog_complete(&l);
	assert_int_equal(l.ready, 3);
	for (uint64_t i = 3; i < CAP; i++) {
		post(i, SHIFT_F_SIGNALED, 1);
		for (uint64_t k = 0; k <= i; k++)
			is_kept(k);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_outstanding_need_few_slots),
		cmocka_unit_test(slots_are_not_more_than_the_memory),
		cmocka_unit_test(what_is_outstanding_is_kept),
		cmocka_unit_test(what_is_taken_back_makes_no_room),
		cmocka_unit_test(a_refused_list_leaves_nothing_behind),
		cmocka_unit_test(nothing_outstanding_is_stored_over),
		cmocka_unit_test(without_a_signaled_one_the_queue_tells_what_is_done),
		cmocka_unit_test(a_signaled_one_is_never_done_without_its_completion),
		cmocka_unit_test(a_full_queue_needs_no_more_slots),
		cmocka_unit_test(a_log_that_is_over_has_room_for_all),
		cmocka_unit_test(held_and_delivered_it_goes_on),
		cmocka_unit_test(what_is_done_has_no_place_in_a_larger_log),
		cmocka_unit_test(what_waits_for_its_delivery_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
