/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Reading statistics: while they are written, torn, of other versions, and made up. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/stats/read.h"
#include "lib/stats/stats_file.h"
#include "tests/unit/stats_world.h"

static int begin(void **state)
{
	int err = world_begin(state);

	assert_int_equal(stats_open("job", 7, ""), 0);
	return err;
}

static void everything_is_read(void **state)
{
	struct world_conn a = world_conn(17), b = world_conn(18);
	struct stats_copy copy;

	(void)state;
	world_move(&a, SHIFT_R_LINK_DOWN, 1, 1000);
	stats_conn_remove(b.slot, 5000);
	b = world_conn(19);
	stats_conn_psn(b.slot, 1, STATS_PSN_STALE);
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_int_equal(copy.life, STATS_RUNNING);
	assert_false(copy.torn);
	assert_int_equal(copy.h.pid, getpid());
	assert_string_equal(copy.h.job, "job");
	assert_non_null(strstr(copy.h.command, "test_stats_read"));
	assert_int_equal(copy.conn_count, 2);
	assert_int_equal(copy.conns[0].qpn, 17);
	assert_int_equal(copy.conns[1].psn[1], STATS_PSN_STALE);
	assert_int_equal(copy.event_count, 7);
	assert_int_equal(copy.switch_count, 1);
	assert_int_equal(stats_sum(&copy).replayed, 7);
	assert_int_equal(stats_real_ns(&copy, copy.h.opened_ns + 5), copy.h.opened_real_ns + 5);
	stats_free(&copy);
}

static void a_slot_amid_a_change(void **state)
{
	struct stats_copy copy;

	(void)state;
	world_conn(17);
	world_conn(18);
	stats_write_begin(&stats_file.conns[0].sequence);
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_true(copy.torn);
	assert_int_equal(copy.conn_count, 2); /* as far as it goes */
	stats_free(&copy);
	stats_write_end(&stats_file.conns[0].sequence);
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_false(copy.torn);
	stats_free(&copy);
}

static volatile bool stop;
static pthread_t writers[4];
static int writer_count;

static void start_writer(void *(*write)(void *), void *arg)
{
	stop = false;
	assert_int_equal(pthread_create(writers + writer_count, NULL, write, arg), 0);
	writer_count++;
}

/* Also of a test that failed: the next one is not to be written over. Returns what failed. */
static void *stop_writers(void)
{
	void *failed, *any = NULL;

	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	while (writer_count) {
		pthread_join(writers[--writer_count], &failed);
		any = failed ? failed : any;
	}
	return any;
}

static int end(void **state)
{
	stop_writers();
	return world_end(state);
}

/* Every number of a connection is the same one, and grows. */
static void *write_on(void *arg)
{
	struct world_conn *c = arg;

	for (uint64_t n = 1; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
		c->view.send_head = c->view.send_tail = c->view.recv_posted = n;
		c->view.recv_cum = c->stats.proved = c->stats.overflow = n;
		stats_conn_update(c->slot, &c->view, &c->stats, n);
		if (n % 64 == 0)
			world_move(c, n % 128 ? SHIFT_R_LINK_DOWN : SHIFT_R_FAIL_BACK, n % 128 != 0,
				   n);
	}
	return NULL;
}

static void check_steady(const struct stats_conn *c)
{
	assert_int_equal(c->send_posted, c->send_done);
	assert_int_equal(c->send_posted, c->recv_posted);
	assert_int_equal(c->send_posted, c->recv_done);
	assert_int_equal(c->send_posted, c->counters.overflow);
}

static void copies_are_consistent_while_it_is_written(void **state)
{
	static struct world_conn c; /* the writer may outlive an assertion */
	uint64_t last = 0, events = 0;
	struct stats_copy copy;
	int torn = 0;

	(void)state;
	c = world_conn(17);
	start_writer(write_on, &c);
	for (int i = 0; i < 3000; i++) {
		assert_int_equal(stats_read(stats_path(), &copy), 0);
		assert_int_equal(copy.conn_count, 1);
		if (copy.torn) { /* the writer was away from its processor for longer than our
				    patience */
			torn++;
			stats_free(&copy);
			continue;
		}
		check_steady(copy.conns);
		assert_true(copy.conns[0].send_posted >= last);
		last = copy.conns[0].send_posted;
		for (size_t e = 1; e < copy.event_count; e++) {
			assert_true(copy.events[e].seq > copy.events[e - 1].seq);
			assert_int_equal(copy.events[e].from, copy.events[e - 1].to);
		}
		for (size_t s = 0; s < copy.switch_count; s++)
			assert_int_equal(copy.switches[s].begin_ns, 64 * copy.switches[s].seq);
		assert_true(copy.events_written >= events);
		events = copy.events_written;
		stats_free(&copy);
	}
	stop_writers();
	assert_true(last > 0);
	assert_true(torn < 100);
}

/* Each with a connection of its own, which comes and goes. */
static void *come_and_go(void *arg)
{
	for (uint64_t n = 1; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
		struct world_conn c = world_conn(*(uint32_t *)arg);

		if (c.slot < 0)
			return arg;
		world_move(&c, SHIFT_R_LINK_DOWN, 1, 1000 * n);
		stats_bypass("mlx5_0", STATS_UNPROTECTED_SRQ);
		stats_conn_remove(c.slot, 1000 * n + 999);
	}
	return NULL;
}

static void several_threads(void **state)
{
	static uint32_t qpn[4] = {17, 18, 19, 20};
	struct stats_copy copy;

	(void)state;
	for (int i = 0; i < 4; i++)
		start_writer(come_and_go, qpn + i);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(stats_read(stats_path(), &copy), 0);
		assert_true(copy.conn_count <= 4);
		for (size_t s = 0; s < copy.switch_count; s++)
			assert_int_equal(copy.switches[s].outcome, STATS_COMMITTED);
		stats_free(&copy);
	}
	assert_null(stop_writers());
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_int_equal(copy.h.now.conns_live, 0);
	assert_int_equal(copy.h.now.gone, copy.h.now.committed);
	assert_int_equal(copy.h.now.gone, copy.h.now.bypass[0].count);
	assert_int_equal(copy.h.now.gone_counters.replayed, 7 * copy.h.now.gone);
	stats_free(&copy);
}

static void rings_keep_the_newest(void **state)
{
	struct world_conn c = world_conn(17);
	struct stats_copy copy;

	(void)state;
	for (uint64_t i = 0; i < 300; i++)
		world_move(&c, SHIFT_R_LINK_DOWN, i % 2 == 0, 10000 * (i + 1));
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_int_equal(copy.events_written, 1201);
	assert_int_equal(copy.event_count, STATS_EVENTS - 1);
	assert_int_equal(copy.events[STATS_EVENTS - 2].seq, 1201);
	assert_int_equal(copy.switch_count, STATS_SWITCHES - 1);
	assert_int_equal(copy.switches[STATS_SWITCHES - 2].begin_ns, 3000000);
	stats_free(&copy);
}

static void expect_error(int err)
{
	struct stats_copy copy;

	assert_int_equal(stats_read(stats_path(), &copy), err);
	assert_null(copy.conns);
}

static void another_version(void **state)
{
	struct stats_header *h = stats_file.h;

	(void)state;
	h->version++;
	expect_error(-EPROTONOSUPPORT);
	h->version = 0;
	expect_error(-EAGAIN);
	h->version = STATS_VERSION;
	h->shape.reasons++;
	expect_error(-EPROTONOSUPPORT);
	h->shape.reasons--;
	h->shape.srq_counters++;
	expect_error(-EPROTONOSUPPORT);
	h->shape.srq_counters--;
	h->header_bytes += 8;
	expect_error(-EPROTONOSUPPORT);
	h->header_bytes -= 8;
	h->magic[0] ^= 1;
	expect_error(-EBADMSG);
}

static void tables_that_cannot_be(void **state)
{
	struct stats_table *t = stats_file.h->table, was = t[2];

	(void)state;
	t[2].at = UINT64_MAX - 8;
	expect_error(-EBADMSG);
	t[2] = was;
	t[2].entries = UINT64_MAX / t[2].entry_bytes + 2;
	expect_error(-EBADMSG);
	t[2] = was;
	t[2].entry_bytes = 0;
	expect_error(-EBADMSG);
	t[2].entry_bytes = sizeof(struct stats_conn) - 8; /* a small file, and much memory */
	expect_error(-EBADMSG);
	t[2] = was;
	t[2].kind = 99;
	expect_error(-EBADMSG);
	t[2] = was;
	was = t[0];
	t[0].written = UINT64_MAX;
	expect_error(-EBADMSG);
	t[0] = was;
	stats_file.h->tables = STATS_TABLES_MAX + 1;
	expect_error(-EBADMSG);
	stats_file.h->tables = TABLES;
}

/* The file of a later build: its additional entries are left out. */
static void tables_of_another_kind_are_passed_over(void **state)
{
	struct stats_table *t = stats_file.h->table;
	struct stats_copy copy;

	(void)state;
	world_conn(17);
	t[TABLES] = t[TABLE_CONNS];
	t[2] = (struct stats_table){.kind = 77, .entry_bytes = 3, .at = 1, .entries = 1};
	stats_file.h->tables = TABLES + 1;
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_int_equal(copy.conn_count, 1);
	stats_free(&copy);
}

static void a_file_cut_short(void **state)
{
	char path[128];

	(void)state;
	strcpy(path, stats_path());
	assert_int_equal(truncate(path, STATS_HEADER_BYTES), 0);
	expect_error(-EBADMSG);
	assert_int_equal(truncate(path, 100), 0);
	expect_error(-EBADMSG);
	assert_int_equal(truncate(path, 0), 0);
	expect_error(-EBADMSG);
	/* The mapping has lost its pages: nothing may touch it any more. */
	assert_int_equal(truncate(path, 1 << 24), 0);
}

static int64_t clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* 1 TB, of holes. */
static void a_file_too_large_is_refused_at_once(void **state)
{
	struct stats_table *t = stats_file.h->table;
	int64_t begun_ms = clock_ms();

	(void)state;
	assert_int_equal(truncate(stats_path(), 1LL << 40), 0);
	expect_error(-EBADMSG);
	assert_int_equal(truncate(stats_path(), (1 << 26)), 0);
	t[0].entries = 1 << 16;
	t[0].entry_bytes = 512;
	expect_error(-EBADMSG);
	assert_true(clock_ms() - begun_ms < 500);
}

/* All slots are in use by the header's word, and there is nothing in them. */
static void a_table_of_holes_takes_no_memory(void **state)
{
	struct stats_copy copy;

	(void)state;
	stats_file.h->now.slots_used = STATS_CONNS_MAX;
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_int_equal(copy.conn_count, 0);
	assert_true(malloc_usable_size(copy.conns) <= 8192);
	assert_true(malloc_usable_size(copy.events) <= 8192);
	assert_true(malloc_usable_size(copy.switches) <= 8192);
	stats_free(&copy);
	stats_file.h->now.slots_used = 0;
}

/* A read may cost as much as a slot that is amid a change, but not for each of them. */
static void many_slots_amid_a_change(void **state)
{
	int64_t begun_ms;
	struct stats_copy copy;

	(void)state;
	for (uint32_t i = 0; i < 512; i++)
		stats_write_begin(&stats_file.conns[world_conn(i + 1).slot].sequence);
	begun_ms = clock_ms();
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_true(clock_ms() - begun_ms < 5000);
	assert_true(copy.torn);
	assert_int_equal(copy.conn_count, 512);
	assert_int_equal(copy.conns[511].qpn, 512);
	stats_free(&copy);
}

/* A process that lives is not taken for dead because there is no descriptor to look at it. */
static void no_descriptor_says_nothing_of_the_process(void **state)
{
	struct rlimit was, one;
	struct stats_copy copy;
	int fd = open("/dev/null", O_RDONLY);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	one = was;
	one.rlim_cur = (rlim_t)fd + 1;
	close(fd);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &one), 0);
	assert_int_equal(stats_read(stats_path(), &copy), -EMFILE);
	assert_int_equal(stats_read_header(stats_path(), &copy), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_int_equal(copy.life, STATS_RUNNING);
	stats_free(&copy);
}

static void a_file_of_another_user_is_not_believed(void **state)
{
	struct stats_copy copy;
	char other[128];

	(void)state;
	if (geteuid()) {
		puts("skipped: needs root");
		return;
	}
	assert_int_equal(stats_read_of(1, stats_path(), &copy), -EPERM);
	assert_int_equal(chown(stats_path(), 65534, 65534), 0);
	expect_error(-EPERM);
	/* It claims this process, which is root's. */
	assert_int_equal(stats_read_of(65534, stats_path(), &copy), -ESRCH);
	stats_file.h->start_ticks++;
	assert_int_equal(stats_read_of(65534, stats_path(), &copy), 0);
	assert_int_equal(copy.life, STATS_DEAD);
	assert_int_equal(copy.owner, 65534);
	stats_free(&copy);
	snprintf(other, sizeof(other), "%s.link", stats_path());
	assert_int_equal(symlink(stats_path(), other), 0);
	assert_int_equal(stats_read_of(65534, other, &copy), -ELOOP);
	unlink(other);
}

static void texts_end_and_numbers_are_in_range(void **state)
{
	struct stats_copy copy;

	(void)state;
	world_conn(17);
	strcpy(stats_file.h->comm, "a\033[2Jb");
	memset(stats_file.h->host, 'x', sizeof(stats_file.h->host));
	memset(stats_file.conns[0].nic[3], 1, STATS_NIC_BYTES);
	stats_file.conns[0].rails = 200;
	stats_file.conns[0].rail = 255;
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_string_equal(copy.h.comm, "a\033[2Jb");
	assert_int_equal(strlen(copy.h.host), sizeof(copy.h.host) - 1);
	assert_int_equal(copy.conns[0].rails, SHIFT_RAILS_MAX);
	assert_int_equal(copy.conns[0].rail, SHIFT_RAILS_MAX - 1);
	assert_int_equal(strlen(copy.conns[0].nic[3]), STATS_NIC_BYTES - 1);
	assert_int_equal(copy.life, STATS_UNKNOWN);
	stats_free(&copy);
}

static void whether_its_process_lives(void **state)
{
	struct stats_copy copy;
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(0);
	/* A zombie has all the marks of the process but that. */
	waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOWAIT);
	stats_file.h->start_ticks++;
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_int_equal(copy.life, STATS_DEAD);
	stats_free(&copy);
	stats_file.h->pid = (uint32_t)pid;
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_int_equal(copy.life, STATS_DEAD);
	stats_free(&copy);
	waitpid(pid, NULL, 0);
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_int_equal(copy.life, STATS_DEAD);
	stats_free(&copy);
	stats_file.h->pid_namespace++;
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_int_equal(copy.life, STATS_UNKNOWN);
	stats_free(&copy);
	strcpy(stats_file.h->boot_id, "of an earlier boot");
	assert_int_equal(stats_read(stats_path(), &copy), 0);
	assert_int_equal(copy.life, STATS_DEAD);
	stats_free(&copy);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(everything_is_read),
		TEST(a_slot_amid_a_change),
		TEST(copies_are_consistent_while_it_is_written),
		TEST(several_threads),
		TEST(rings_keep_the_newest),
		TEST(another_version),
		TEST(tables_that_cannot_be),
		TEST(tables_of_another_kind_are_passed_over),
		TEST(a_file_cut_short),
		TEST(a_file_too_large_is_refused_at_once),
		TEST(a_table_of_holes_takes_no_memory),
		TEST(many_slots_amid_a_change),
		TEST(no_descriptor_says_nothing_of_the_process),
		TEST(a_file_of_another_user_is_not_believed),
		TEST(texts_end_and_numbers_are_in_range),
		TEST(whether_its_process_lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
