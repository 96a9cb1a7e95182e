/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The file of collectives: written, read meanwhile, wrapped, torn, made up, after the end. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "collectives/coll_read.h"
#include "collectives/coll_ring.h"
#include "collectives/handle_map.h"

static char run_dir[] = "/tmp/shift-coll-XXXXXX";
static char path[256];

static int begin(void **state)
{
	(void)state;
	assert_true(coll_open("mpi", 3));
	return 0;
}

static int end(void **state)
{
	(void)state;
	coll_close();
	assert_int_equal(access(path, F_OK), -1);
	return 0;
}

static uint64_t launch(uint64_t seq)
{
	static const char dtype[COLL_DTYPE_BYTES] = "double";
	const struct coll_call call = {.comm = 1,
				       .coll_seq = seq,
				       .count = seq * 3,
				       .element_bytes = 8,
				       .root = COLL_NO_ROOT,
				       .op = COLL_ALLREDUCE,
				       .dtype = dtype};

	return coll_begin(&call);
}

static struct coll_copy read_now(void)
{
	struct coll_copy copy;

	assert_int_equal(coll_read_of(geteuid(), path, &copy), 0);
	return copy;
}

static void what_is_written_is_read(void **state)
{
	uint32_t hosts[] = {(uint32_t)coll_host("node1"), (uint32_t)coll_host("node2")};
	struct coll_copy copy;
	struct stat st;

	(void)state;
	assert_int_equal(coll_host("node1"), hosts[0]);
	assert_true(coll_comm_add(1, 2, 1, hosts, true));
	assert_true(coll_comm_add(9, 4, 0, NULL, false));
	coll_end(launch(1));
	launch(2);
	coll_forget(launch(3));
	coll_stranger();
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	copy = read_now();
	assert_int_equal(copy.life, STATS_RUNNING);
	assert_int_equal(copy.h.pid, getpid());
	assert_int_equal(copy.h.rank, 3);
	assert_string_equal(copy.h.job, "j");
	assert_string_equal(copy.h.source, "mpi");
	assert_int_equal(copy.h.strangers, 1);
	assert_int_equal(copy.op_count, 3);
	assert_int_equal(copy.op_lost, 0);
	assert_string_equal(coll_op_name(copy.ops[0].op), "allreduce");
	assert_string_equal(copy.ops[0].dtype, "double");
	assert_int_equal(copy.ops[0].count, 3);
	assert_true(copy.ops[0].end >= copy.ops[0].launch_ns);
	assert_true(copy.ops[0].end < copy.read_ns + 1);
	assert_true(copy.ops[1].end == (COLL_UNDER_WAY | 1));
	assert_int_equal(copy.ops[2].end, 0);
	assert_int_equal(copy.comm_count, 2);
	assert_string_equal(coll_member_host(&copy, copy.comms, 1), "node2");
	assert_null(coll_member_host(&copy, copy.comms, 2));
	assert_null(coll_member_host(&copy, copy.comms + 1, 0));
	coll_free(&copy);
}

static void the_oldest_are_written_over(void **state)
{
	uint64_t first = launch(1);
	struct coll_copy copy;

	(void)state;
	for (uint64_t i = 2; i <= COLL_OPS_MAX + 10; i++)
		coll_end(launch(i));
	/* Its entry is another's: that one's end stays. */
	coll_end(first);
	launch(COLL_OPS_MAX + 11);
	coll_end(first + 10);
	copy = read_now();
	assert_int_equal(copy.op_count, COLL_OPS_MAX);
	assert_int_equal(copy.op_lost, 11);
	for (size_t i = 0; i < copy.op_count; i++)
		assert_int_equal(copy.ops[i].coll_seq, i + 12);
	assert_true(copy.ops[COLL_OPS_MAX - 1].end & COLL_UNDER_WAY);
	assert_false(copy.ops[0].end & COLL_UNDER_WAY);
	coll_free(&copy);
}

/* At byte `at` of the file. */
static void scribble(uint64_t at, const void *bytes, size_t n)
{
	int fd = open(path, O_WRONLY);

	assert_int_equal(pwrite(fd, bytes, n, (off_t)at), n);
	close(fd);
}

static uint64_t entry_at(uint64_t n)
{
	return COLL_HEADER_BYTES + n * sizeof(struct coll_entry);
}

static void an_entry_amid_a_change(void **state)
{
	const uint64_t busy = COLL_BUSY;
	struct coll_copy copy;

	(void)state;
	for (uint64_t i = 1; i <= 3; i++)
		launch(i);
	scribble(entry_at(1), &busy, sizeof(busy));
	copy = read_now();
	assert_int_equal(copy.op_count, 2);
	assert_int_equal(copy.op_lost, 1);
	assert_int_equal(copy.ops[1].coll_seq, 3);
	coll_free(&copy);
	/* Whoever comes there next does not write into what another writes. */
	for (uint64_t i = 4; i <= COLL_OPS_MAX + 1; i++)
		launch(i);
	assert_int_equal(launch(COLL_OPS_MAX + 2), 0);
	copy = read_now();
	assert_int_equal(copy.h.lost, 1);
	assert_int_equal(copy.op_lost, 3);
	coll_free(&copy);
}

static void refused(int expected)
{
	struct coll_copy copy;

	assert_int_equal(coll_read_of(geteuid(), path, &copy), expected);
	if (!expected)
		coll_free(&copy);
}

static void what_is_no_such_file_is_refused(void **state)
{
	struct coll_header h;
	struct coll_copy copy = {0};
	int fd;

	(void)state;
	launch(1);
	fd = open(path, O_RDONLY);
	assert_int_equal(read(fd, &h, sizeof(h)), sizeof(h));
	close(fd);
	refused(0);
	for (size_t i = 0; i < h.tables; i++) {
		struct coll_header bad = h;

		bad.table[i].at = UINT64_MAX - 10;
		scribble(0, &bad, sizeof(bad));
		refused(-EBADMSG);
		bad = h;
		bad.table[i].entries = UINT64_MAX / 2;
		scribble(0, &bad, sizeof(bad));
		refused(-EBADMSG);
		bad = h;
		bad.table[i].entry_bytes = 0;
		scribble(0, &bad, sizeof(bad));
		refused(-EBADMSG);
		bad = h;
		bad.table[i].written = UINT64_MAX;
		scribble(0, &bad, sizeof(bad));
		refused(-EBADMSG);
	}
	scribble(0, "not shift", 8);
	refused(-EBADMSG);
	scribble(0, &h, sizeof(h));
	h.version = 7;
	scribble(0, &h, sizeof(h));
	refused(-EPROTONOSUPPORT);
	h.version = 0;
	scribble(0, &h, sizeof(h));
	refused(-EAGAIN);
	assert_int_equal(coll_read_of(geteuid() + 1, path, &copy), -EPERM);
}

/* Any bytes: it is refused, or read, and nothing is read beyond the file (valgrind, ASan). */
static void noise_does_no_harm(void **state)
{
	unsigned int seed = (unsigned int)time(NULL);
	struct coll_copy copy;

	(void)state;
	print_message("seed %u\n", seed);
	srand(seed);
	for (int i = 0; i < 2000; i++) {
		uint64_t at = (uint64_t)rand() % (i % 2 ? sizeof(struct coll_header) : 600000);
		uint64_t word = (uint64_t)rand() << (rand() % 40);

		scribble(at, &word, sizeof(word));
		if (!coll_read_of(geteuid(), path, &copy)) {
			for (size_t c = 0; c < copy.comm_count; c++)
				coll_member_host(&copy, copy.comms + c, (uint32_t)rand());
			coll_free(&copy);
		}
	}
}

enum { THREADS = 4, EACH = 20000 };

static void *write_many(void *arg)
{
	for (uint64_t i = 1; i <= EACH; i++)
		coll_end(launch((uint64_t)(uintptr_t)arg * 1000000 + i));
	return NULL;
}

/* What is read while four threads write is whole: count is thrice the sequence. */
static void readers_and_writers_at_once(void **state)
{
	pthread_t t[THREADS];
	struct coll_copy copy;
	size_t seen = 0;

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(t + i, NULL, write_many, (void *)i), 0);
	do {
		copy = read_now();
		for (size_t i = 0; i < copy.op_count; i++) {
			assert_int_equal(copy.ops[i].count, copy.ops[i].coll_seq * 3);
			assert_true(copy.ops[i].end & COLL_UNDER_WAY ||
				    copy.ops[i].end >= copy.ops[i].launch_ns);
		}
		seen = copy.op_count + copy.op_lost;
		coll_free(&copy);
	} while (seen < THREADS * EACH);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	copy = read_now();
	assert_int_equal(copy.op_count + copy.op_lost, THREADS * EACH);
	assert_true(copy.op_count + copy.h.lost >= COLL_OPS_MAX);
	coll_free(&copy);
}

/* Communicators that are freed make room, and those that are not are never thrown away. */
static void slots_of_communicators(void **state)
{
	uint32_t hosts[] = {0, 0, 0};
	struct coll_copy copy;

	(void)state;
	for (uint64_t i = 1; i <= COLL_COMMS_MAX; i++)
		assert_true(coll_comm_add(i, 3, 0, hosts, false));
	assert_false(coll_comm_add(1000, 3, 0, hosts, false));
	coll_comm_remove(7);
	assert_true(coll_comm_add(1001, 3, 2, hosts, false));
	copy = read_now();
	assert_int_equal(copy.comm_count, COLL_COMMS_MAX);
	assert_int_equal(copy.h.untold, 1);
	assert_int_equal(copy.comms[6].id, 1001);
	assert_int_equal(copy.comms[6].members, 3);
	assert_int_equal(copy.member_count, 3 * COLL_COMMS_MAX);
	coll_free(&copy);
}

/* It has the mapping, and does not write into it; its own exit leaves the file. */
static void a_child_is_not_the_parent(void **state)
{
	struct coll_copy copy;
	int status;
	pid_t pid;

	(void)state;
	launch(1);
	pid = fork();
	if (!pid) {
		bool recorded = launch(2);

		coll_close();
		_exit(recorded);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	copy = read_now();
	assert_int_equal(copy.op_count, 1);
	coll_free(&copy);
}

/* Its parent reads what it has left. */
static void after_death(void **state)
{
	char its[sizeof(path)];
	struct coll_copy copy;
	pid_t pid;

	(void)state;
	pid = fork();
	if (!pid) {
		if (coll_open("mpi", 0)) {
			coll_end(launch(1));
			launch(2);
		}
		raise(SIGKILL);
	}
	waitpid(pid, NULL, 0);
	snprintf(its, sizeof(its), "%s/j/%d.mpi.coll", run_dir, pid);
	assert_int_equal(coll_read_of(geteuid(), its, &copy), 0);
	assert_int_equal(copy.life, STATS_DEAD);
	assert_int_equal(copy.op_count, 2);
	assert_true(copy.ops[1].end & COLL_UNDER_WAY);
	coll_free(&copy);
	unlink(its);
}

static void without_a_place_nothing_happens(void **state)
{
	(void)state;
	coll_close();
	setenv("SHIFT_COLLECTIVES", "off", 1);
	assert_false(coll_open("mpi", 0));
	unsetenv("SHIFT_COLLECTIVES");
	setenv("SHIFT_RUN_DIR", "/proc/none", 1);
	assert_false(coll_open("mpi", 0));
	setenv("SHIFT_RUN_DIR", run_dir, 1);
	unsetenv("SHIFT_JOB");
	assert_false(coll_open("mpi", 0));
	setenv("SHIFT_JOB", "j", 1);
	assert_int_equal(launch(1), 0);
	coll_end(1);
	coll_stranger();
	assert_int_equal(coll_host("x"), -1);
	assert_false(coll_comm_add(1, 1, 0, NULL, false));
	coll_comm_remove(1);
}

static void handles(void **state)
{
	static struct handle_map m;

	(void)state;
	assert_true(handle_none(&m));
	for (uint64_t i = 1; i <= 200; i++)
		assert_true(handle_put(&m, i << 6, i));
	for (uint64_t i = 1; i <= 200; i += 2)
		assert_int_equal(handle_take(&m, i << 6), i);
	for (uint64_t i = 1; i <= 200; i++)
		assert_int_equal(handle_find(&m, i << 6) ? handle_find(&m, i << 6)->value : 0,
				 i % 2 ? 0 : i);
	assert_int_equal(handle_take(&m, 1 << 6), 0);
	assert_int_equal(handle_take(&m, 0), 0);
	assert_false(handle_put(&m, 0, 1));
	assert_int_equal(m.count, 100);
}

int main(void)
{
#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		WITH_FILE(what_is_written_is_read),
		WITH_FILE(the_oldest_are_written_over),
		WITH_FILE(an_entry_amid_a_change),
		WITH_FILE(what_is_no_such_file_is_refused),
		WITH_FILE(noise_does_no_harm),
		WITH_FILE(readers_and_writers_at_once),
		WITH_FILE(slots_of_communicators),
		WITH_FILE(a_child_is_not_the_parent),
		WITH_FILE(after_death),
		WITH_FILE(without_a_place_nothing_happens),
		cmocka_unit_test(handles),
	};
	int failed;

	if (!mkdtemp(run_dir))
		return 1;
	setenv("SHIFT_RUN_DIR", run_dir, 1);
	setenv("SHIFT_JOB", "j", 1);
	unsetenv("SHIFT_COLLECTIVES");
	snprintf(path, sizeof(path), "%s/j/%d.mpi.coll", run_dir, getpid());
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(run_dir);
	return failed;
}
