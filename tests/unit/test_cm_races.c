// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Two threads at the ids and channels of RDMA-CM, the one at each of the other's steps. Whatever
 * the order, nothing hangs, nothing of ours stays, and the program gets what it should.
 */
#include <stdlib.h>

#include "tests/unit/cm_world.h"

enum { CM_EVENT_TIMEWAIT_EXIT = 15 };

static _Atomic int ends; /* DISCONNECTED, as the program has read it */
static struct rdma_cm_event *event_held;
static struct rdma_cm_id *ours_held;

/* --- what a thread does ----------------------------------------------------------------------- */

static void reads_on(struct channel *c)
{
	struct rdma_cm_event *e = NULL;

	never_blocks(c);
	while (!hook_cm_get_event(&c->channel, &e)) {
		assert_ptr_equal(e->id, &id);
		if (e->event != CM_EVENT_TIMEWAIT_EXIT)
			assert_int_equal(e->event, CM_EVENT_DISCONNECTED);
		ends += e->event == CM_EVENT_DISCONNECTED;
		assert_int_equal(hook_cm_ack_event(e), 0);
	}
}

static void reads(void)
{
	reads_on(&channel);
}

static void destroys(void)
{
	destroy(&id);
}

static void destroys_channel(void)
{
	hook_cm_destroys_channel(&channel.channel);
}

static void migrates(void)
{
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), migrate_result);
}

static void acknowledges(void)
{
	assert_int_equal(hook_cm_ack_event(event_held), 0);
}

static void is_told(void)
{
	run_job(job_waits);
}

/* librdmacm may put it where the last one was. */
static void gets_another(void)
{
	raise_event(&channel, &id, CM_EVENT_TIMEWAIT_EXIT, 0);
	reads_on(&channel);
}

/* --- what is before --------------------------------------------------------------------------- */

static void ended_twice(void)
{
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	the_peer_ends();
}

static void ended_and_stays(void)
{
	the_peer_ends();
	migrate_result = -1;
}

static void has_read_it(void)
{
	never_blocks(&channel);
	ours_held = read_the_end(&event_held);
}

static void ends_soon(void)
{
	jobs_wait = true;
	the_peer_ends();
}

static void ends_soon_by_the_kernel_too(void)
{
	ends_soon();
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
}

static void ends_soon_unheard(void)
{
	ends_soon();
	resolve_fails_always = true;
}

/* --- both ------------------------------------------------------------------------------------- */

struct pair {
	void (*before)(void), (*one)(void), (*another)(void);
	int ends_min, ends_max;
	bool waits;    /* `another` does, for `one` */
	bool may_leak; /* what librdmacm could not destroy without the channel */
};

enum { TO_ITS_END = 1000 }; /* steps */

static bool races_at(const struct pair *p, unsigned int n, unsigned int m, bool swapped, void **st)
{
	bool had;

	begin(st);
	ends = 0;
	p->before();
	had = swapped ? race_at(n, m, p->another, p->one) : race_at(n, m, p->one, p->another);
	reads_on(&channel);
	reads_on(&other);
	assert_in_range(ends, p->ends_min, p->ends_max);
	if (p->may_leak && ids == 1) {
		free(ours_held);
		ids = 0;
	}
	end(st);
	return had;
}

static void races_everywhere(const struct pair *p, void **st)
{
	unsigned int n = 0;

	while (races_at(p, n, TO_ITS_END, false, st))
		n++;
	assert_int_not_equal(n, 0);
	for (n = 0; !p->waits && races_at(p, n, TO_ITS_END, true, st);)
		n++;
}

/* The second thread, too, stops once. */
static void races_to_and_fro(const struct pair *p, void **st)
{
	for (unsigned int n = 0, m = 0; races_at(p, n, m, false, st);) {
		n += !race_another_stood();
		m = race_another_stood() ? m + 1 : 0;
	}
}

#define RACE(name, min, max, ...)                                           \
	static void name(void **st)                                         \
	{                                                                   \
		static const struct pair pair = {                           \
			.ends_min = (min), .ends_max = (max), __VA_ARGS__}; \
                                                                            \
		races_everywhere(&pair, st);                                \
		races_to_and_fro(&pair, st);                                \
	}

#define PAIR(b, o, a) .before = (b), .one = (o), .another = (a)

RACE(test_read_and_destroyed, 0, 1, PAIR(the_peer_ends, reads, destroys))
RACE(test_read_and_migrated, 1, 1, PAIR(the_peer_ends, reads, migrates))
RACE(test_read_and_not_migrated, 1, 1, PAIR(ended_and_stays, reads, migrates))
RACE(test_read_by_two, 1, 1, PAIR(ended_twice, reads, reads))
RACE(test_both_read_and_destroyed, 0, 1, PAIR(ended_twice, reads, destroys))
RACE(test_both_read_and_migrated, 1, 1, PAIR(ended_twice, reads, migrates))
RACE(test_told_and_destroyed, 0, 0, PAIR(ends_soon, is_told, destroys))
RACE(test_told_and_migrated, 1, 1, PAIR(ends_soon, is_told, migrates))
RACE(test_told_and_channel_destroyed, 0, 0, PAIR(ends_soon, is_told, destroys_channel))
RACE(test_told_by_both, 1, 1, PAIR(ends_soon_by_the_kernel_too, is_told, reads))
RACE(test_not_told_and_destroyed, 0, 0, PAIR(ends_soon_unheard, is_told, destroys))
RACE(test_not_told_and_migrated, 0, 0, PAIR(ends_soon_unheard, is_told, migrates))
RACE(test_not_told_and_channel_destroyed, 0, 0, PAIR(ends_soon_unheard, is_told, destroys_channel))
RACE(test_acknowledged_and_destroyed, 0, 0, PAIR(has_read_it, acknowledges, destroys),
     .waits = true)
RACE(test_acknowledged_and_migrated, 0, 0, PAIR(has_read_it, acknowledges, migrates), .waits = true)
RACE(test_acknowledged_and_another, 0, 0, PAIR(has_read_it, acknowledges, gets_another))
RACE(test_acknowledged_and_channel_destroyed, 0, 0,
     PAIR(has_read_it, acknowledges, destroys_channel), .may_leak = true)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_and_destroyed),
		cmocka_unit_test(test_read_and_migrated),
		cmocka_unit_test(test_read_and_not_migrated),
		cmocka_unit_test(test_read_by_two),
		cmocka_unit_test(test_both_read_and_destroyed),
		cmocka_unit_test(test_both_read_and_migrated),
		cmocka_unit_test(test_told_and_destroyed),
		cmocka_unit_test(test_told_and_migrated),
		cmocka_unit_test(test_told_and_channel_destroyed),
		cmocka_unit_test(test_told_by_both),
		cmocka_unit_test(test_not_told_and_destroyed),
		cmocka_unit_test(test_not_told_and_migrated),
		cmocka_unit_test(test_not_told_and_channel_destroyed),
		cmocka_unit_test(test_acknowledged_and_destroyed),
		cmocka_unit_test(test_acknowledged_and_migrated),
		cmocka_unit_test(test_acknowledged_and_another),
		cmocka_unit_test(test_acknowledged_and_channel_destroyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
