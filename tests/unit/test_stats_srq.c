/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Shared receive queues in the statistics: what is written, and what a reader believes of it. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/stats/json.h"
#include "lib/stats/read.h"
#include "lib/stats/stats_file.h"
#include "lib/stats/totals.h"
#include "tests/unit/stats_world.h"

static const char *const nics[] = {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4",
				   "mlx5_5", "mlx5_6", "mlx5_7", "mlx5_8"};

static int begin(void **state)
{
	int err = world_begin(state);

	assert_int_equal(stats_open("job", 7, ""), 0);
	return err;
}

/* Every number is another one. */
static struct stats_srq_state some_state(void)
{
	uint64_t n = 1000;
	struct stats_srq_state s = {.room = 1023, .posted = 517, .waiting = 5};

	s.nic[0] = (struct stats_srq_nic){.receives = 380, .held = 3, .live = 12, .stuck = 1};
	s.nic[1] = (struct stats_srq_nic){.receives = 132, .ghosts = 16, .live = 4};
#define COUNT(name) s.counters.name = n++;
	SHIFT_SRQ_STATS(COUNT)
#undef COUNT
	return s;
}

/* All its counters are `factor` times those of some_state(). */
static void check_counters(const struct shift_srq_stats *s, uint64_t factor)
{
	uint64_t n = 1000;

#define CHECK(name) assert_int_equal(s->name, factor *n++);
	SHIFT_SRQ_STATS(CHECK)
#undef CHECK
}

static struct stats_copy copy_now(void)
{
	struct stats_copy copy;

	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_false(copy.torn);
	return copy;
}

static void a_new_one_has_its_nics_and_its_room(void **state)
{
	struct stats_copy copy;

	(void)state;
	assert_int_equal(stats_srq_add(2, nics, 1023), 0);
	assert_int_equal(stats_srq_add(1, nics + 1, 15), 1);
	copy = copy_now();
	assert_int_equal(copy.srq_count, 2);
	assert_int_equal(copy.srqs[0].id, 1);
	assert_int_equal(copy.srqs[1].id, 2);
	assert_int_equal(copy.srqs[0].rails, 2);
	assert_int_equal(copy.srqs[1].rails, 1);
	assert_string_equal(copy.srqs[0].nic[1], "mlx5_1");
	assert_string_equal(copy.srqs[1].nic[0], "mlx5_1");
	assert_int_equal(copy.srqs[0].now.room, 1023);
	assert_int_equal(copy.srqs[0].now.posted, 0);
	assert_int_equal(copy.h.now.srqs_ever, 2);
	assert_int_equal(copy.h.now.srqs_live, 2);
	assert_true(stats_copy_bytes(&copy) >= sizeof(copy) + 2 * sizeof(*copy.srqs));
	stats_free(&copy);
	assert_null(copy.srqs);
}

static void an_update_is_read_whole(void **state)
{
	struct stats_srq_state s = some_state();
	struct stats_copy copy;

	(void)state;
	stats_srq_add(2, nics, 15);
	stats_srq_add(2, nics, 15);
	stats_srq_update(1, &s);
	copy = copy_now();
	assert_memory_equal(&copy.srqs[1].now, &s, sizeof(s));
	assert_int_equal(copy.srqs[1].id, 2);
	assert_string_equal(copy.srqs[1].nic[1], "mlx5_1");
	assert_int_equal(copy.srqs[0].now.posted, 0);
	stats_free(&copy);
}

static void more_rails_than_there_can_be(void **state)
{
	struct stats_copy copy;

	(void)state;
	_Static_assert(sizeof(nics) / sizeof(*nics) > SHIFT_RAILS_MAX, "too few NICs here");
	stats_srq_add(sizeof(nics) / sizeof(*nics), nics, 15);
	copy = copy_now();
	assert_int_equal(copy.srqs[0].rails, SHIFT_RAILS_MAX);
	assert_string_equal(copy.srqs[0].nic[SHIFT_RAILS_MAX - 1], nics[SHIFT_RAILS_MAX - 1]);
	assert_int_equal(copy.srqs[0].now.room, 15);
	assert_int_equal(copy.srqs[0].now.posted, 0); /* names that do not fit would lie there */
	stats_free(&copy);
}

static void its_counters_outlive_it(void **state)
{
	struct stats_srq_state s = some_state();
	struct shift_srq_stats sum;
	struct stats_copy copy;

	(void)state;
	for (int i = 0; i < 3; i++)
		stats_srq_update(stats_srq_add(2, nics, 15), &s);
	stats_srq_remove(0);
	stats_srq_remove(1);
	copy = copy_now();
	assert_int_equal(copy.srq_count, 1);
	assert_int_equal(copy.srqs[0].id, 3);
	assert_int_equal(copy.h.now.srqs_live, 1);
	assert_int_equal(copy.h.now.srqs_ever, 3);
	check_counters(&copy.h.now.gone_srq_counters, 2);
	sum = stats_sum_srqs(&copy);
	check_counters(&sum, 3);
	stats_free(&copy);
}

static void a_slot_is_used_again_and_is_empty_then(void **state)
{
	struct stats_srq_state s = some_state();
	struct stats_copy copy;

	(void)state;
	stats_srq_update(stats_srq_add(3, nics, 15), &s);
	stats_srq_add(3, nics, 15);
	stats_srq_remove(0);
	assert_int_equal(stats_srq_add(1, nics, 31), 0);
	copy = copy_now();
	assert_int_equal(copy.srqs[0].id, 3);
	assert_int_equal(copy.srqs[0].now.room, 31);
	assert_int_equal(copy.srqs[0].now.posted, 0);
	assert_int_equal(copy.srqs[0].now.nic[1].ghosts, 0);
	assert_string_equal(copy.srqs[0].nic[1], "");
	stats_free(&copy);
}

static void calls_of_a_free_slot_do_nothing(void **state)
{
	struct stats_srq_state s = some_state();
	struct stats_copy copy;

	(void)state;
	stats_srq_add(2, nics, 15);
	stats_srq_remove(0);
	stats_srq_update(0, &s);
	stats_srq_remove(0);
	stats_file.srqs[1].id = 77; /* behind those in use */
	stats_srq_update(1, &s);
	assert_int_equal(stats_file.srqs[1].now.posted, 0);
	stats_srq_remove(STATS_SRQS_MAX);
	stats_srq_update(-1, &s);
	stats_srq_remove(-1);
	copy = copy_now();
	assert_int_equal(copy.srq_count, 0);
	assert_int_equal(copy.h.now.srqs_live, 0);
	check_counters(&copy.h.now.gone_srq_counters, 0);
	stats_free(&copy);
}

static void what_does_not_fit_is_counted(void **state)
{
	struct stats_copy copy;

	(void)state;
	for (int i = 0; i < STATS_SRQS_MAX; i++)
		assert_int_equal(stats_srq_add(1, nics, 15), i);
	assert_int_equal(stats_srq_add(1, nics, 15), -1);
	copy = copy_now();
	assert_int_equal(copy.srq_count, STATS_SRQS_MAX);
	assert_int_equal(copy.h.now.srqs_refused, 1);
	assert_int_equal(copy.h.now.srqs_ever, STATS_SRQS_MAX);
	assert_int_equal(copy.h.now.srqs_live, STATS_SRQS_MAX);
	assert_int_equal(copy.conn_count, 0);
	stats_free(&copy);
	stats_srq_remove(77);
	assert_int_equal(stats_srq_add(1, nics, 15), 77);
}

static void the_largest_is_not_in_the_way_of_connections(void **state)
{
	struct stats_srq_state s = some_state();
	struct stats_copy copy;

	(void)state;
	for (int i = 0; i < STATS_SRQS_MAX; i++)
		stats_srq_update(stats_srq_add(2, nics, 15), &s);
	world_conn(17);
	copy = copy_now();
	assert_int_equal(copy.srq_count, STATS_SRQS_MAX);
	for (int i = 0; i < STATS_SRQS_MAX; i++)
		assert_memory_equal(&copy.srqs[i].now, &s, sizeof(s));
	assert_int_equal(copy.conn_count, 1);
	assert_int_equal(copy.conns[0].qpn, 17);
	stats_free(&copy);
}

static void a_child_of_fork_has_none(void **state)
{
	struct stats_srq_state s = some_state();
	struct stats_copy copy;
	int status;
	pid_t pid;

	(void)state;
	stats_srq_add(2, nics, 15);
	pid = fork();
	if (!pid) {
		stats_srq_update(0, &s);
		stats_srq_remove(0);
		_exit(stats_srq_add(2, nics, 15) != -1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	copy = copy_now();
	assert_int_equal(copy.srq_count, 1);
	assert_int_equal(copy.srqs[0].now.posted, 0);
	stats_free(&copy);
}

static void without_a_file_nothing_happens(void **state)
{
	struct stats_srq_state s = some_state();

	(void)state;
	assert_null(stats_path());
	assert_int_equal(stats_srq_add(2, nics, 15), -1);
	stats_srq_update(0, &s);
	stats_srq_remove(0);
}

static void one_amid_a_change_is_shown_as_it_is(void **state)
{
	struct stats_copy copy;

	(void)state;
	stats_srq_add(2, nics, 15);
	stats_write_begin(&stats_file.srqs[0].sequence);
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_true(copy.torn);
	assert_int_equal(copy.srq_count, 1);
	stats_free(&copy);
	stats_write_end(&stats_file.srqs[0].sequence);
	copy = copy_now();
	stats_free(&copy);
}

/* So many reads of the table on, the SRQ in slot 0 looks as if its number had been read before a
 * change, and the rest after it. */
static int reads_until_change;

ssize_t __real_pread(int fd, void *to, size_t bytes, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t at)
{
	ssize_t n = __real_pread(fd, to, bytes, at);
	struct stats_srq *q = to;

	if (reads_until_change && at == (off_t)stats_file.h->table[3].at && !--reads_until_change)
		q->now.posted++;
	return n;
}

static void a_change_behind_the_number_is_seen(void **state)
{
	struct stats_srq_state s = some_state();
	struct stats_copy copy;

	(void)state;
	stats_srq_update(stats_srq_add(2, nics, 15), &s);
	for (int reads = 1; reads <= 2; reads++) {
		reads_until_change = reads;
		copy = copy_now();
		assert_int_equal(reads_until_change, 0);
		assert_int_equal(copy.srqs[0].now.posted, s.posted);
		stats_free(&copy);
	}
}

/* Numbers of another build could mean something else. */
static void its_counters_are_of_this_build(void **state)
{
	(void)state;
	assert_int_equal(stats_file.h->shape.srq_counters,
			 sizeof(struct shift_srq_stats) / sizeof(uint64_t));
}

static void what_it_claims_is_checked(void **state)
{
	struct stats_header *h = stats_file.h;
	struct stats_table was = h->table[3];
	struct stats_copy copy;

	(void)state;
	stats_srq_add(2, nics, 15);
	memset(stats_file.srqs[0].nic, 'x', sizeof(stats_file.srqs[0].nic));
	stats_file.srqs[0].rails = 200;
	h->now.srq_slots_used = UINT64_MAX;
	copy = copy_now();
	assert_int_equal(copy.srq_count, 1);
	assert_int_equal(copy.srqs[0].rails, SHIFT_RAILS_MAX);
	for (int i = 0; i < SHIFT_RAILS_MAX; i++)
		assert_int_equal(strlen(copy.srqs[0].nic[i]), STATS_NIC_BYTES - 1);
	stats_free(&copy);
	h->now.srq_slots_used = 1;
	h->table[3].entry_bytes -= 8;
	assert_int_equal(stats_read(stats_path(), &copy), -EBADMSG);
	h->table[3] = was;
	h->table[3].entries = STATS_SRQS_MAX + 1;
	assert_int_equal(stats_read(stats_path(), &copy), -EBADMSG);
	h->table[3] = was;
	h->table[3].kind = 99;
	assert_int_equal(stats_read(stats_path(), &copy), -EBADMSG);
	assert_null(copy.conns);
	h->table[3] = was;
}

static volatile bool stop;

static void *write_on(void *arg)
{
	struct stats_srq_state s = {0};

	for (uint32_t n = 1; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
		s.room = s.posted = s.nic[SHIFT_RAILS_MAX - 1].live = n;
		stats_srq_update(*(int *)arg, &s);
	}
	return NULL;
}

static void copies_are_consistent_while_it_is_written(void **state)
{
	static int slot;
	bool differ = false;
	struct stats_copy copy;
	pthread_t writer;
	uint32_t last = 0;

	(void)state;
	slot = stats_srq_add(2, nics, 0);
	stop = false;
	assert_int_equal(pthread_create(&writer, NULL, write_on, &slot), 0);
	for (int i = 0; i < 2000 && !differ; i++) {
		const struct stats_srq_state *now;

		if (stats_read(stats_path(), &copy))
			break;
		now = &copy.srqs[0].now;
		if (!copy.torn) {
			differ = now->room != now->posted ||
				 now->room != now->nic[SHIFT_RAILS_MAX - 1].live ||
				 now->room < last;
			last = now->room;
		}
		stats_free(&copy);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(writer, NULL);
	assert_false(differ);
	assert_true(last > 0);
}

static void totals_are_of_all_processes(void **state)
{
	struct stats_srq_state s = some_state();
	struct stats_totals totals = {0};
	struct stats_copy copy;

	(void)state;
	stats_srq_update(stats_srq_add(2, nics, 15), &s);
	stats_srq_update(stats_srq_add(2, nics, 15), &s);
	stats_srq_remove(0);
	stats_file.h->now.srqs_refused = 5;
	copy = copy_now();
	stats_totals_add(&totals, &copy);
	stats_totals_add(&totals, &copy);
	assert_int_equal(totals.now.srqs_ever, 4);
	assert_int_equal(totals.now.srqs_live, 2);
	assert_int_equal(totals.now.srqs_refused, 10);
	check_counters(&totals.srq_counters, 4);
	stats_free(&copy);
}

/* Prints a process, and frees it. The caller frees the text. */
static char *json_now(void)
{
	struct stats_copy copy = copy_now();
	cJSON *o = stats_json_process(&copy);
	char *text = cJSON_PrintUnformatted(o);

	cJSON_Delete(o);
	stats_free(&copy);
	return text;
}

static void as_json(void **state)
{
	struct stats_srq_state s = some_state();
	char *text;

	(void)state;
	stats_srq_update(stats_srq_add(2, nics, 15), &s);
	text = json_now();
	assert_non_null(strstr(text,
			       "\"shared_receive_queues\":[{\"queue\":1,\"room\":1023,"
			       "\"posted\":517,\"waiting\":5,\"nics\":["
			       "{\"nic\":\"mlx5_0\",\"receives\":380,\"held\":3,\"ghosts\":0,"
			       "\"queue_pairs\":12,\"gives_back\":false},"
			       "{\"nic\":\"mlx5_1\",\"receives\":132,\"held\":0,\"ghosts\":16,"
			       "\"queue_pairs\":4,\"gives_back\":true}],\"counters\":{"));
	assert_non_null(strstr(text, "\"shared_receive_queues\":{\"ever\":1,\"live\":1,"
				     "\"refused\":0,\"counters\":{"));
	free(text);
}

static void none_of_it_without_one(void **state)
{
	char *text = json_now();

	(void)state;
	assert_non_null(strstr(text, "\"shared_receive_queues\":[]"));
	assert_null(strstr(text, "\"shared_receive_queues\":{"));
	free(text);
	stats_file.h->now.srqs_refused = 1;
	text = json_now();
	assert_non_null(strstr(text, "\"shared_receive_queues\":{\"ever\":0,\"live\":0,"
				     "\"refused\":1,"));
	free(text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, world_end)
	static const struct CMUnitTest tests[] = {
		TEST(a_new_one_has_its_nics_and_its_room),
		TEST(an_update_is_read_whole),
		TEST(more_rails_than_there_can_be),
		TEST(its_counters_outlive_it),
		TEST(a_slot_is_used_again_and_is_empty_then),
		TEST(calls_of_a_free_slot_do_nothing),
		TEST(what_does_not_fit_is_counted),
		TEST(the_largest_is_not_in_the_way_of_connections),
		TEST(a_child_of_fork_has_none),
		cmocka_unit_test_setup_teardown(without_a_file_nothing_happens, world_begin,
						world_end),
		TEST(one_amid_a_change_is_shown_as_it_is),
		TEST(a_change_behind_the_number_is_seen),
		TEST(its_counters_are_of_this_build),
		TEST(what_it_claims_is_checked),
		TEST(copies_are_consistent_while_it_is_written),
		TEST(totals_are_of_all_processes),
		TEST(as_json),
		TEST(none_of_it_without_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
