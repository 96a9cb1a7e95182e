/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Traffic by epochs: written, read meanwhile, wrapped, torn, made up, after the end. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/shift-diag/collect_epochs.h"
#include "lib/stats/epoch_read.h"
#include "lib/stats/epochs.h"

#define US    1000ull
#define EPOCH (100 * US)

static char run_dir[] = "/tmp/shift-epochs-XXXXXX";
static char path[256];
static uint64_t t0; /* epoch 0 */

static struct epoch_copy read_now(void)
{
	struct epoch_copy copy;

	assert_int_equal(epoch_read_of(geteuid(), path, &copy), 0);
	return copy;
}

static int begin(void **state)
{
	struct epoch_copy copy;

	(void)state;
	assert_int_equal(epochs_open("j", EPOCH), 0);
	copy = read_now();
	t0 = copy.h.opened_ns;
	assert_int_equal(copy.count, 0);
	epoch_free(&copy);
	epochs_qp_created("mlx5_0", 7, 1, false);
	return 0;
}

static int end(void **state)
{
	(void)state;
	epochs_close();
	assert_int_equal(access(path, F_OK), -1);
	return 0;
}

static void post(uint32_t qpn, uint64_t bytes, bool signaled, uint64_t at)
{
	epochs_posting("mlx5_0", qpn, bytes, signaled, t0 + at);
	epochs_posted("mlx5_0", qpn, 1, 0, t0 + at);
}

static void complete(uint32_t qpn, uint64_t at)
{
	epochs_completed("mlx5_0", qpn, true, t0 + at);
}

/* What is told of a queue pair: *told is to be freed. */
static size_t tell(uint64_t *lost, struct told_epoch **told)
{
	struct epoch_copy copy = read_now();
	size_t n = epochs_tell(copy.runs, copy.count, EPOCHS_TOLD_MAX, told, lost);

	*lost += copy.lost + copy.h.unknown;
	epoch_free(&copy);
	return n;
}

/* For all queue pairs: "QP:EPOCH BYTES WR WC", with "; " between them. */
static const char *told(void)
{
	static char text[1 << 20];
	struct told_epoch *t;
	uint64_t lost;
	size_t n = tell(&lost, &t), at = 0;

	*text = 0;
	for (size_t i = 0; i < n && at < sizeof(text); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%llu:%llu %llu %llu %llu",
				       at ? "; " : "", (unsigned long long)t[i].qp,
				       (unsigned long long)t[i].epoch,
				       (unsigned long long)t[i].bytes, (unsigned long long)t[i].wr,
				       (unsigned long long)t[i].wc);
	free(t);
	assert_int_equal(lost, 0);
	return text;
}

static void what_is_sent_at_once_is_of_one_epoch(void **state)
{
	(void)state;
	post(7, 1000, true, 10 * US);
	complete(7, 20 * US);
	post(7, 500, true, 30 * US);
	complete(7, 90 * US);
	assert_string_equal(told(), "1:0 1500 2 2");
}

/* 50 us of epoch 0, all of 1 and 2, 50 us of 3. */
static void what_takes_long_is_spread(void **state)
{
	(void)state;
	post(7, 3000, true, 50 * US);
	complete(7, 350 * US);
	assert_string_equal(told(), "1:0 500 1 0; 1:1 1000 0 0; 1:2 1000 0 0; 1:3 500 0 1");
}

/* The second was not sent before the first had been. */
static void it_begins_where_the_one_before_has_ended(void **state)
{
	(void)state;
	post(7, 100, true, 0);
	post(7, 100, true, 0);
	complete(7, 150 * US);
	complete(7, 250 * US);
	assert_string_equal(told(), "1:0 66 2 0; 1:1 84 0 1; 1:2 50 0 1");
}

static void what_has_no_completion_ends_with_the_next_that_has(void **state)
{
	(void)state;
	post(7, 10, false, 0);
	post(7, 20, false, 0);
	assert_string_equal(told(), "1:0 0 2 0");
	post(7, 30, true, 0);
	post(7, 40, true, 0);
	complete(7, 10 * US);
	assert_string_equal(told(), "1:0 60 4 3");
}

static void with_sig_all_each_has_one(void **state)
{
	(void)state;
	epochs_qp_created("mlx5_0", 8, 2, true);
	post(8, 10, false, 0);
	post(8, 20, false, 0);
	complete(8, 10 * US);
	assert_string_equal(told(), "2:0 10 2 1");
}

static void what_is_refused_was_not_posted(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		epochs_posting("mlx5_0", 7, 10, true, t0);
	epochs_posted("mlx5_0", 7, 1, 2, t0);
	post(7, 7, true, 0);
	complete(7, 10 * US);
	complete(7, 10 * US);
	assert_string_equal(told(), "1:0 17 2 2");
}

static void what_has_failed_was_not_sent(void **state)
{
	(void)state;
	post(7, 10, true, 0);
	post(7, 10, true, 0);
	epochs_completed("mlx5_0", 7, false, t0 + 10 * US);
	post(7, 10, true, 20 * US);
	complete(7, 30 * US); /* none that it can be of */
	assert_string_equal(told(), "1:0 0 3 0");
	epochs_qp_reset("mlx5_0", 7);
	post(7, 25, true, 30 * US);
	complete(7, 30 * US);
	assert_string_equal(told(), "1:0 25 4 1");
}

static void a_reset_ends_what_is_outstanding(void **state)
{
	(void)state;
	post(7, 50, false, 0);
	post(7, 50, true, 0);
	epochs_qp_reset("mlx5_0", 7);
	post(7, 7, true, 0);
	complete(7, 0);
	assert_string_equal(told(), "1:0 7 3 1");
}

/* Each has as many bytes as its number, and an epoch of its own. */
static void any_number_is_outstanding(void **state)
{
	struct told_epoch *t;
	uint64_t lost;
	size_t n;

	(void)state;
	for (uint64_t i = 1; i <= 40; i++)
		post(7, i, true, 0);
	for (uint64_t i = 1; i <= 30; i++)
		complete(7, i * EPOCH);
	for (uint64_t i = 41; i <= 1000; i++)
		post(7, i, true, 31 * EPOCH - 1);
	for (uint64_t i = 31; i <= 1000; i++)
		complete(7, i * EPOCH);
	n = tell(&lost, &t);
	assert_int_equal(n, 1001);
	for (uint64_t i = 1; i < 1000; i++)
		assert_in_range(t[i - 1].bytes, i == 31 ? 0 : i - 1, i);
	free(t);
}

static void a_queue_pair_is_of_its_nic(void **state)
{
	(void)state;
	epochs_qp_created("mlx5_1", 7, 3, false);
	epochs_qp_created("mlx5_0", 7 + 1024, 4, false);
	epochs_posting("mlx5_1", 7, 11, true, t0);
	epochs_posted("mlx5_1", 7, 1, 0, t0);
	post(7 + 1024, 22, true, 0);
	post(7, 33, true, 0);
	epochs_completed("mlx5_1", 7, true, t0);
	complete(7 + 1024, 0);
	complete(7, 0);
	assert_string_equal(told(), "1:0 33 1 1; 3:0 11 1 1; 4:0 22 1 1");
}

/* The thread that destroys may say so after another has created the next one of that number. */
static void a_number_that_is_used_again_is_another(void **state)
{
	(void)state;
	post(7, 10, true, 0);
	epochs_qp_created("mlx5_0", 7, 5, false);
	epochs_qp_destroyed("mlx5_0", 7, 1);
	post(7, 20, true, 0);
	complete(7, 0);
	assert_string_equal(told(), "1:0 0 1 0; 5:0 20 1 1");
	epochs_qp_destroyed("mlx5_0", 7, 5);
	complete(7, 0);
	assert_string_equal(told(), "1:0 0 1 0; 5:0 20 1 1");
}

static void what_is_not_known_is_counted(void **state)
{
	struct epoch_copy copy;

	(void)state;
	post(9, 10, true, 0);
	copy = read_now();
	assert_int_equal(copy.h.unknown, 1);
	assert_int_equal(copy.count, 0);
	epoch_free(&copy);
}

/* A program that polls what we cannot see: the room for what is outstanding has an end. */
static void without_completions_memory_has_an_end(void **state)
{
	struct epoch_copy copy;

	(void)state;
	for (int i = 0; i < (1 << 16) + 10; i++)
		post(7, 1, true, 0);
	copy = read_now();
	assert_int_equal(copy.h.unknown, 10);
	epoch_free(&copy);
}

/* For the rest it stood still. */
static void nothing_is_spread_over_more_than_a_second(void **state)
{
	struct told_epoch *t;
	uint64_t lost, sum = 0;
	size_t n;

	(void)state;
	post(7, 10000, true, 0);
	complete(7, 60000000 * US);
	n = tell(&lost, &t);
	for (size_t i = 0; i < n; i++)
		sum += t[i].bytes;
	assert_int_equal(sum, 10000);
	assert_in_range(n, 10000, 10002);
	assert_int_equal(t[0].wr, 1);
	assert_true(t[0].bytes);
	assert_int_equal(t[n - 1].epoch, 600000);
	assert_int_equal(t[n - 1].bytes, 0);
	assert_int_equal(t[n - 1].wc, 1);
	free(t);
}

/* What is fast was 1,000,000 bytes in 100 us. */
static void what_is_polled_late_was_sent_before(void **state)
{
	(void)state;
	post(7, 1000000, true, 0);
	complete(7, 99 * US);
	post(7, 100, false, 200 * US); /* 16 times slower is 160 ns */
	post(7, 100, true, 5000 * US);
	complete(7, 9000 * US);
	post(7, 1000000, true, 9000 * US); /* 1.6 ms: it may have been so slow */
	complete(7, 9900 * US);
	assert_string_equal(told(),
			    "1:0 1000000 1 1; 1:2 100 1 0; 1:50 100 1 0; "
			    "1:90 111111 1 2; 1:91 111112 0 0; 1:92 111111 0 0; "
			    "1:93 111111 0 0; 1:94 111111 0 0; 1:95 111111 0 0; "
			    "1:96 111111 0 0; 1:97 111111 0 0; 1:98 111111 0 0; 1:99 0 0 1");
}

/* One that has always something outstanding: its rate is measured again and again. */
static void the_rate_is_that_of_a_busy_time(void **state)
{
	(void)state;
	post(7, 1, false, 0);
	for (uint64_t ms = 0; ms < 1000; ms += 100) {
		post(7, 1000, true, ms * 1000 * US);
		complete(7, (ms + 1) * 1000 * US);
		post(7, 1, false, (ms + 1) * 1000 * US);
	}
	post(7, 10, true, 1000000 * US);
	complete(7,
		 2000000 *
			 US); /* at 1,000 bytes a ms at best: 160 us at most, and what was before */
	post(7, 10, true, 3000000 * US);
	complete(7, 4000000 * US);
	assert_non_null(strstr(told(), "1:30000 6 1 0; 1:30001 4 0 0; 1:40000 0 0 1"));
}

/* Two that were posted together: the second has not taken the 20 us since the first. */
static void what_is_polled_late_was_not_fast(void **state)
{
	struct told_epoch *t;
	uint64_t lost;
	size_t n;

	(void)state;
	post(7, 1000, true, 0);
	post(7, 1000000, true, 0);
	complete(7, 100000 * US);
	complete(7, 100020 * US);
	post(7, 1000000, true, 200000 * US);
	complete(7, 260000 * US); /* at no more than half the rate */
	n = tell(&lost, &t);
	assert_int_equal(t[n - 2].epoch, 2599);
	assert_in_range(t[n - 2].bytes, 1000, 2000);
	free(t);
}

/* Clocks of two threads: the completion seems to come before its post. */
static void time_may_go_back(void **state)
{
	(void)state;
	post(7, 10, true, 250 * US);
	complete(7, 240 * US);
	assert_string_equal(told(), "1:2 10 1 1");
	post(7, 10, true, 0);
	complete(7, 10 * US);
	assert_string_equal(told(), "1:0 10 1 1; 1:2 10 1 1");
}

static void the_newest_are_kept(void **state)
{
	const uint64_t more = 1000;
	struct epoch_copy copy;

	(void)state;
	for (uint64_t i = 0; i < EPOCH_RUNS + more; i++)
		post(7, 0, true, 2 * i * EPOCH);
	copy = read_now();
	assert_int_equal(copy.count, EPOCH_RUNS - 1); /* one more may have begun */
	assert_int_equal(copy.lost, more + 1);
	assert_int_equal(copy.runs[0].first, 2 * (more + 1));
	assert_int_equal(copy.runs[copy.count - 1].first, 2 * (EPOCH_RUNS + more - 1));
	epoch_free(&copy);
}

/* A run that has been written over is not added to. */
static void a_run_is_left_when_its_place_is_anothers(void **state)
{
	struct epoch_copy copy;
	uint64_t wr = 0;

	(void)state;
	epochs_qp_created("mlx5_0", 8, 2, false);
	post(8, 0, true, 0);
	for (uint64_t i = EPOCH_RUNS; i-- > 0;) /* the last one is as its was */
		post(7, 0, true, 2 * i * EPOCH);
	post(8, 0, true, 0);
	copy = read_now();
	for (size_t i = 0; i < copy.count; i++) {
		assert_true(copy.runs[i].qp == 1 || i == copy.count - 1);
		wr += copy.runs[i].qp == 2 ? copy.runs[i].wr : 0;
	}
	assert_int_equal(wr, 1);
	epoch_free(&copy);
}

static void a_child_writes_nothing(void **state)
{
	pid_t child;
	int status;

	(void)state;
	child = fork();
	if (!child) {
		post(7, 10, true, 0);
		epochs_qp_created("mlx5_0", 8, 2, false);
		epochs_close();
		_exit(access(path, F_OK) ? 1 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_string_equal(told(), "");
	post(7, 10, true, 0);
	assert_string_equal(told(), "1:0 0 1 0");
}

static void *post_many(void *arg)
{
	uint32_t qpn = *(uint32_t *)arg;

	for (int i = 0; i < 20000; i++) {
		post(qpn, 3, true, (uint64_t)i * 10 * US);
		complete(qpn, (uint64_t)i * 10 * US + US);
	}
	return NULL;
}

static void threads_and_a_reader(void **state)
{
	static uint32_t qpn[2] = {7, 8};
	struct told_epoch *t;
	pthread_t thread[2];
	uint64_t lost, sum[3] = {0};
	size_t n;

	(void)state;
	epochs_qp_created("mlx5_0", 8, 2, false);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(thread + i, NULL, post_many, qpn + i), 0);
	for (int i = 0; i < 20; i++) {
		struct epoch_copy copy = read_now();

		for (size_t r = 0; r < copy.count; r++)
			assert_true(copy.runs[r].qp == 1 || copy.runs[r].qp == 2);
		epoch_free(&copy);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	n = tell(&lost, &t);
	for (size_t i = 0; i < n; i++) {
		sum[t[i].qp] += t[i].bytes;
		assert_int_equal(t[i].wr, 10);
		assert_int_equal(t[i].wc, 10);
	}
	free(t);
	assert_int_equal(sum[1], 60000);
	assert_int_equal(sum[2], 60000);
	assert_int_equal(lost, 0);
}

/* ---- the reader -------------------------------------------------------------------------------
 */

static void patch(const void *bytes, size_t n, off_t at)
{
	int fd = open(path, O_WRONLY);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, at), (ssize_t)n);
	close(fd);
}

static int read_result(void)
{
	struct epoch_copy copy;
	int err = epoch_read_of(geteuid(), path, &copy);

	if (!err)
		epoch_free(&copy);
	return err;
}

#define PATCH(field, value)                                        \
	patch(&(typeof(((struct epoch_header *)0)->field)){value}, \
	      sizeof(((struct epoch_header *)0)->field), offsetof(struct epoch_header, field))

static void what_is_no_such_file_is_refused(void **state)
{
	(void)state;
	PATCH(written, UINT64_MAX);
	assert_int_equal(read_result(), -EBADMSG);
	PATCH(written, 0);
	PATCH(epoch_ns, 0);
	assert_int_equal(read_result(), -EBADMSG);
	PATCH(epoch_ns, EPOCH);
	PATCH(runs, 12);
	assert_int_equal(read_result(), -EBADMSG);
	PATCH(runs, EPOCH_RUNS);
	PATCH(run_bytes, 48);
	assert_int_equal(read_result(), -EPROTONOSUPPORT);
	PATCH(run_bytes, sizeof(struct epoch_run));
	PATCH(version, 2);
	assert_int_equal(read_result(), -EPROTONOSUPPORT);
	PATCH(version, 0);
	assert_int_equal(read_result(), -EAGAIN);
	PATCH(version, EPOCH_VERSION);
	patch("x", 1, 0);
	assert_int_equal(read_result(), -EBADMSG);
	patch("s", 1, 0);
	assert_int_equal(read_result(), 0);
	PATCH(written, 5);
	assert_int_equal(truncate(path, EPOCH_HEADER_BYTES + 100), 0);
	assert_int_equal(read_result(), -EBADMSG);
	assert_int_equal(truncate(path, 100), 0);
	assert_int_equal(read_result(), -EBADMSG);
	assert_int_equal(truncate(path, EPOCH_HEADER_BYTES + (40ull << 20)), 0);
	assert_int_equal(read_result(), -EBADMSG);
	assert_int_equal(chown(path, 65534, 65534), geteuid() ? -1 : 0);
	assert_true(geteuid() || read_result() == -EPERM);
}

/* Somebody who deceives lets the number shrink while root reads: more than there is room for is
 * never taken. */
static void a_file_that_shrinks_while_it_is_read(void **state)
{
	static const uint64_t counts[] = {
		0, 1, EPOCH_RUNS - 1, EPOCH_RUNS, EPOCH_RUNS + 1, 2 * EPOCH_RUNS, INT64_MAX};
	uint64_t first;

	(void)state;
	for (size_t i = 0; i < 7; i++)
		for (size_t k = 0; k < 7; k++) {
			bool kept = epoch_runs_kept(counts[i], counts[k], &first);

			assert_true(kept == (k >= i));
			assert_true(!kept || first >= counts[i] || counts[i] - first < EPOCH_RUNS);
		}
	assert_true(epoch_runs_kept(EPOCH_RUNS + 5, EPOCH_RUNS + 7, &first));
	assert_int_equal(first, 8);
}

/* A user's file, which root reads: its claims are not more than there is memory for. */
static void more_epochs_than_there_is_room_for_are_left_out(void **state)
{
	struct epoch_run runs[3] = {{.qp = 1, .epochs = 1000, .wr = 1},
				    {.qp = 1, .first = 5, .epochs = UINT32_MAX, .bytes = 1},
				    {.qp = 1, .first = UINT64_MAX, .epochs = 2, .bytes = 3}};
	struct told_epoch *t;
	uint64_t lost;

	(void)state;
	assert_int_equal(epochs_tell(runs, 3, EPOCHS_TOLD_MAX, &t, &lost), 2);
	assert_int_equal(lost, 2);
	assert_int_equal(t[0].bytes + t[1].bytes, 3);
	free(t);
	assert_int_equal(epochs_tell(runs, 3, 1, &t, &lost), 0);
	assert_int_equal(lost, 3);
	free(t);
	assert_int_equal(epochs_tell(runs, 1, 1000, &t, &lost), 1000);
	assert_int_equal(lost, 0);
	free(t);
}

static void a_record_ends_at_a_gap_or_another_queue_pair(void **state)
{
	struct told_epoch t[5] = {{.qp = 1, .epoch = 3},
				  {.qp = 1, .epoch = 4},
				  {.qp = 1, .epoch = 4 + EPOCHS_GAP},
				  {.qp = 1, .epoch = 5 + 2 * EPOCHS_GAP},
				  {.qp = 2, .epoch = 6 + 2 * EPOCHS_GAP}};
	struct told_epoch *many = calloc(EPOCHS_RECORD_MAX + 5, sizeof(*many));

	(void)state;
	assert_int_equal(epochs_of_record(t, 5), 3);
	assert_int_equal(epochs_of_record(t + 3, 2), 1);
	assert_int_equal(epochs_of_record(t + 4, 1), 1);
	for (size_t i = 0; i < EPOCHS_RECORD_MAX + 5; i++)
		many[i].epoch = i;
	assert_int_equal(epochs_of_record(many, EPOCHS_RECORD_MAX + 5), EPOCHS_RECORD_MAX);
	free(many);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(what_is_sent_at_once_is_of_one_epoch),
		TEST(what_takes_long_is_spread),
		TEST(it_begins_where_the_one_before_has_ended),
		TEST(what_has_no_completion_ends_with_the_next_that_has),
		TEST(with_sig_all_each_has_one),
		TEST(what_is_refused_was_not_posted),
		TEST(what_has_failed_was_not_sent),
		TEST(a_reset_ends_what_is_outstanding),
		TEST(any_number_is_outstanding),
		TEST(a_queue_pair_is_of_its_nic),
		TEST(a_number_that_is_used_again_is_another),
		TEST(what_is_not_known_is_counted),
		TEST(without_completions_memory_has_an_end),
		TEST(nothing_is_spread_over_more_than_a_second),
		TEST(what_is_polled_late_was_sent_before),
		TEST(the_rate_is_that_of_a_busy_time),
		TEST(what_is_polled_late_was_not_fast),
		TEST(time_may_go_back),
		TEST(the_newest_are_kept),
		TEST(a_run_is_left_when_its_place_is_anothers),
		TEST(a_child_writes_nothing),
		TEST(threads_and_a_reader),
		TEST(what_is_no_such_file_is_refused),
		cmocka_unit_test(a_file_that_shrinks_while_it_is_read),
		cmocka_unit_test(more_epochs_than_there_is_room_for_are_left_out),
		cmocka_unit_test(a_record_ends_at_a_gap_or_another_queue_pair),
	};
	int failed;

	if (!mkdtemp(run_dir))
		return 1;
	setenv("SHIFT_RUN_DIR", run_dir, 1);
	snprintf(path, sizeof(path), "%s/j/%d.epochs", run_dir, getpid());
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(run_dir);
	return failed;
}
