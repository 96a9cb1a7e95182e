/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The program's receives, on the fast way and on the slow one (lib/verbs/post_recv.c). */
#include "tests/unit/rooms.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>

#include "lib/conn/conn_lock.h"
#include "lib/verbs/post_recv.h"
#include "lib/verbs/post_send.h"

static struct vqp *v;
static struct ibv_sge sge[2] = {{.addr = 0x100, .length = 10, .lkey = 0xa},
				{.addr = 0x200, .length = 20, .lkey = 0xb}};
static struct ibv_recv_wr recv_wr[4], *recv_bad;

static void fill_lists(void)
{
	for (unsigned int i = 0; i < 4; i++)
		recv_wr[i] = (struct ibv_recv_wr){.wr_id = 0x30 + i,
						  .next = i < 3 ? recv_wr + i + 1 : NULL,
						  .sg_list = sge,
						  .num_sge = 2};
	recv_bad = NULL;
}

static int begin(void **state)
{
	rooms_begin(state);
	v = rooms_create_qp();
	rooms_start_qp(v);
	fill_lists();
	return 0;
}

static int begin_fast(void **state)
{
	begin(state);
	rooms_be_fast(v, true);
	return 0;
}

static int end(void **state)
{
	return rooms_end_qp(state, v);
}

/* --- receives ------------------------------------------------------------------------------ */

static int receive(unsigned int n)
{
	recv_wr[n - 1].next = NULL;
	return hot_post_recv(v->qp, recv_wr, &recv_bad);
}

#define RECEIVE(id)	"receive 0x10 id " id " [0x100 10 0xa] [0x200 20 0xb]\n"
#define LOG_RECEIVE(id) "log receive id " id " sges 2: 0\n"

/* Programs that expect no error pass NULL. */
static void without_an_error_bad_of_a_receive_may_be_null(void **state)
{
	(void)state;
	for (int n = 1; n <= 2; n++) {
		fill_lists();
		recv_wr[n - 1].next = NULL;
		assert_int_equal(hot_post_recv(v->qp, recv_wr, NULL), 0);
	}
}

static struct shift_recv_entry ring[4];

static int receive_alone(unsigned int i)
{
	recv_wr[i].next = NULL;
	return hot_post_recv(v->qp, recv_wr + i, &recv_bad);
}

/* Of one SGE or none, as most are. The first one makes the thread remember the QP. */
static void receives_alone(void)
{
	bool mark = v->hot.recv_marked.wr_id;

	trace_clear();
	v->hot.log.recvs = (struct shift_recvlog){
		.ring = ring, .next = ring, .stop = ring + 4, .mask = 3, .cap = 4};
	recv_wr[0].num_sge = recv_wr[2].num_sge = recv_wr[3].num_sge = 1;
	recv_wr[1].num_sge = 0;
	recv_wr[2].sg_list++;
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(receive_alone(i), 0);
	assert_traced(mark ? "receive 0x10 id 0x55 [0x100 10 0xa]\n"
			     "receive 0x10 id 0x55\n"
			     "receive 0x10 id 0x55 [0x200 20 0xb]\n"
			   : "receive 0x10 id 0x30 [0x100 10 0xa]\n"
			     "receive 0x10 id 0x31\n"
			     "receive 0x10 id 0x32 [0x200 20 0xb]\n");
	assert_int_equal(v->hot.log.recvs.posted, 3);
	assert_int_equal(ring[2].wr_id, 0x32);
	assert_int_equal(ring[2].sge.length, 20);
	assert_int_equal(ring[1].num_sge, 0);
	world.post_result = EINVAL;
	assert_int_equal(receive_alone(3), EINVAL);
	assert_ptr_equal(recv_bad, recv_wr + 3);
	assert_non_null(strstr(trace_text(), "unlog receive 1\n"));
	world.post_result = 0;
}

/* Each as one list: the fast log takes them, and the NIC gets them at once. */
static void receives_in_a_list(void)
{
	trace_clear();
	v->hot.log.recvs = (struct shift_recvlog){
		.ring = ring, .next = ring, .stop = ring + 4, .mask = 3, .cap = 4};
	for (unsigned int i = 0; i < 4; i++)
		recv_wr[i].num_sge = 1;
	assert_int_equal(receive_alone(0), 0);
	world.recv_posts = 0;
	assert_int_equal(hot_post_recv(v->qp, recv_wr + 1, &recv_bad), 0);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(ring[i].wr_id, 0x30 + i);
	assert_int_equal(v->hot.log.recvs.posted, 4);
	assert_int_equal(world.recv_posts, 1);
	assert_traced(v->hot.recv_marked.wr_id ? "receive 0x10 id 0x55 [0x100 10 0xa]\n"
						 "receive 0x10 id 0x55 [0x100 10 0xa]\n"
						 "receive 0x10 id 0x55 [0x100 10 0xa]\n"
						 "receive 0x10 id 0x55 [0x100 10 0xa]\n"
					       : "receive 0x10 id 0x30 [0x100 10 0xa]\n"
						 "receive 0x10 id 0x31 [0x100 10 0xa]\n"
						 "receive 0x10 id 0x32 [0x100 10 0xa]\n"
						 "receive 0x10 id 0x33 [0x100 10 0xa]\n");
}

static void receive_first(void)
{
	assert_int_equal(receive_alone(0), 0);
}

static void receives_of_one_sge_or_none(void **state)
{
	for (int what = 0; what < 8; what++) {
		void (*fn)(void) = what & 1 ? receives_alone : receives_in_a_list;

		begin_fast(state);
		v->hot.recv_marked.wr_id = what & 2 ? 0x55 : 0;
		if (what & 4)
			rooms_beside(receive_first, fn);
		else
			fn();
		v->hot.recv_marked.wr_id = 0;
		end(state);
	}
}

/* The gate is shut when this thread meets it for the first time. */
static void receive_while_shut(void)
{
	gate_shut(&v->hot.recv_gate);
	assert_int_equal(receive_alone(1), 0);
	gate_open(&v->hot.recv_gate);
	assert_int_equal(receive_alone(2), 0);
}

static void another_threads_receives_are_not_ones_own(void **state)
{
	(void)state;
	rooms_beside(receive_first, receive_while_shut);
	assert_true(v->hot.recv_gate.shut & GATE_SHARED);
}

static void receives_are_logged_then_posted_at_once(void **state)
{
	(void)state;
	world.recv_posts = 0;
	assert_int_equal(receive(2), 0);
	assert_traced(LOG_RECEIVE("0x30") LOG_RECEIVE("0x31") RECEIVE("0x30") RECEIVE("0x31"));
	assert_int_equal(world.recv_posts, 1);
	v->hot.recv_marked.wr_id = 0x55;
	fill_lists();
	assert_int_equal(receive(1), 0);
	assert_traced(LOG_RECEIVE("0x30") RECEIVE("0x55"));
	v->hot.recv_marked.wr_id = 0;
}

static void a_receive_that_rail_0_refuses_is_not_logged(void **state)
{
	(void)state;
	world.post_result = EINVAL;
	world.post_fails_at = 2;
	assert_int_equal(receive(3), EINVAL);
	assert_ptr_equal(recv_bad, recv_wr + 1);
	assert_traced(LOG_RECEIVE("0x30") LOG_RECEIVE("0x31") LOG_RECEIVE("0x32") RECEIVE("0x30")
			      RECEIVE("0x31") "unlog receive 2\n");
}

static void a_receive_queue_that_is_full(void **state)
{
	for (int fast = 0; fast < 2; fast++) {
		begin(state);
		rooms_be_fast(v, fast);
		core.post_ends_after = 1;
		assert_int_equal(receive(3), ENOMEM);
		assert_ptr_equal(recv_bad, recv_wr + 1);
		assert_traced(
			fast ? LOG_RECEIVE("0x30") "log receive id 0x31 sges 2: -12\n" RECEIVE(
				       "0x30")
			     : LOG_RECEIVE("0x30") RECEIVE("0x30") "log receive id 0x31 sges "
								   "2: -12\n");
		end(state);
	}
}

static void a_slow_receive(void **state)
{
	static const struct {
		int rail, log, err;
		bool unprotected;
		int result;
		const char *then;
	} cases[] = {
		{SHIFT_HELD, 0, 0, false, 0, ""},
		{0, 0, 0, false, 0, RECEIVE("0x30")},
		{1, 0, 0, false, 0,
		 "receive 0x21 id 0x600000001 [0x100 10 0x100a] [0x200 20 0x100b]\n"},
		{0, 0, EINVAL, false, EINVAL, RECEIVE("0x30") "unlog receive 1\n"},
		{0, 0, EIO, false, 0, RECEIVE("0x30") "event POST_FAILED rail 0\n"},
		{0, 0, EIO, true, EIO, RECEIVE("0x30") "unlog receive 1\n"},
		{1, 0, EINVAL, false, 0,
		 "receive 0x21 id 0x600000001 [0x100 10 0x100a] [0x200 20 0x100b]\n"
		 "event POST_FAILED rail 1 epoch 6\n"},
		{0, -EIO, 0, false, 0, ""},
		{0, -EINVAL, 0, false, EINVAL, ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ibv_wc wc;

		begin(state);
		v->rails.armed_epoch[1] = 6;
		core.post_rail = cases[i].rail;
		core.post_result = cases[i].log;
		core.view.protected_ = !cases[i].unprotected;
		world.post_result = cases[i].err;
		assert_int_equal(receive(1), cases[i].result);
		assert_string_equal(strchr(trace_text(), '\n') + 1, cases[i].then);
		if (cases[i].result)
			assert_ptr_equal(recv_bad, recv_wr);
		assert_int_equal(vcq_take(&world.recv_cq, 1, &wc), cases[i].log == -EIO);
		if (cases[i].log == -EIO) {
			assert_int_equal(wc.wr_id, 0x30);
			assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
			assert_int_equal(wc.opcode, IBV_WC_RECV);
		}
		world.post_result = 0;
		end(state);
	}
}

/* lib/core hears of the refusal before the next receive is posted, which must not take the place of
 * the one that was refused. All of the list was taken. */
static void behind_a_receive_that_was_refused(void **state)
{
	for (int fast = 0; fast < 2; fast++) {
		const char *told, *next;

		begin(state);
		rooms_be_fast(v, fast);
		world.post_result = EIO;
		world.post_fails_at = 1;
		trace_clear();
		assert_int_equal(receive(2), 0);
		told = strstr(trace_text(), "event POST_FAILED rail 0");
		assert_non_null(told);
		next = strstr(told, "log receive id 0x31 ");
		assert_non_null(next);
		if (fast) /* it was logged, and goes its way once more */
			assert_non_null(strstr(trace_text(), LOG_RECEIVE("0x31") RECEIVE(
								     "0x30") "unlog receive 1\n"));
		else
			assert_null(strstr(trace_text(), "unlog"));
		world.post_result = 0;
		end(state);
	}
}

/* --- receives, many at once ---------------------------------------------------------------- */

enum { MANY = 33, AT_ONCE = 16 };

static struct ibv_recv_wr many[MANY];

static int receive_many(void)
{
	for (unsigned int i = 0; i < MANY; i++)
		many[i] = (struct ibv_recv_wr){.wr_id = 0x100 + i,
					       .next = i + 1 < MANY ? many + i + 1 : NULL,
					       .sg_list = sge,
					       .num_sge = 1};
	world.recv_posts = 0;
	return hot_post_recv(v->qp, many, &recv_bad);
}

static unsigned int lines_with(const char *what)
{
	unsigned int n = 0;

	for (const char *p = trace_text(); (p = strstr(p, what)); p++)
		n++;
	return n;
}

static void a_long_list_of_receives(void **state)
{
	(void)state;
	for (uint64_t mark = 0; mark <= 0x55; mark += 0x55) {
		const char *at = trace_text();

		v->hot.recv_marked.wr_id = mark;
		assert_int_equal(receive_many(), 0);
		assert_int_equal(world.recv_posts, mark ? 3 : 1);
		for (unsigned int i = 0; i < MANY; i++) {
			char line[64];

			snprintf(line, sizeof(line), "log receive id %#x ", 0x100 + i);
			at = strstr(at, line);
			assert_non_null(at);
			snprintf(line, sizeof(line), "\nreceive 0x10 id %#x ",
				 mark ? (unsigned int)mark : 0x100 + i);
			assert_int_equal(lines_with(line), mark ? MANY : 1);
		}
		trace_clear();
	}
	v->hot.recv_marked.wr_id = 0;
}

/* How many the log has when the i-th is refused. */
static unsigned int logged_with(unsigned int i)
{
	unsigned int n = v->hot.recv_marked.wr_id ? (i / AT_ONCE + 1) * AT_ONCE : MANY;

	return n < MANY ? n : MANY;
}

static void the_program_is_told_which_was_refused(void **state)
{
	for (unsigned int i = 0; i < 2 * MANY; i++) {
		unsigned int at = i / 2;
		char line[64];

		begin_fast(state);
		v->hot.recv_marked.wr_id = i % 2 ? 0x55 : 0;
		world.post_result = EINVAL;
		world.post_fails_at = (int)at + 1;
		assert_int_equal(receive_many(), EINVAL);
		assert_ptr_equal(recv_bad, many + at);
		assert_int_equal(lines_with("log receive "), logged_with(at) + 1);
		assert_int_equal(lines_with("\nreceive 0x10 id "), at + 1);
		assert_int_equal(lines_with("\nreceive 0x10 id 0x55 "), i % 2 ? at + 1 : 0);
		snprintf(line, sizeof(line), "\nunlog receive %u\n", logged_with(at) - at);
		assert_non_null(strstr(trace_text(), line));
		v->hot.recv_marked.wr_id = 0;
		end(state);
	}
}

/* The log has room for some of them. */
static void a_long_list_of_which_a_part_is_logged(void **state)
{
	for (int i = 0; i < 2 * MANY; i++) {
		int takes = i / 2;

		begin_fast(state);
		v->hot.recv_marked.wr_id = i % 2 ? 0x55 : 0;
		core.post_ends_after = takes;
		assert_int_equal(receive_many(), ENOMEM);
		assert_ptr_equal(recv_bad, many + takes);
		assert_int_equal(world.recv_posts, i % 2 ? (takes + AT_ONCE - 1) / AT_ONCE : takes);
		assert_int_equal(lines_with("\nreceive 0x10 id "), takes);
		assert_int_equal(lines_with("unlog"), 0);
		v->hot.recv_marked.wr_id = 0;
		end(state);
	}
}

/* And of these the NIC refuses one. */
static void a_part_of_which_one_is_refused(void **state)
{
	for (int at = 0; at < 5; at++) {
		char line[64];

		begin_fast(state);
		core.post_ends_after = 5;
		world.post_result = EINVAL;
		world.post_fails_at = at + 1;
		assert_int_equal(receive_many(), EINVAL);
		assert_ptr_equal(recv_bad, many + at);
		snprintf(line, sizeof(line), "\nunlog receive %u\n", 5 - at);
		assert_non_null(strstr(trace_text(), line));
		end(state);
	}
}

static void nic_is_well_again(const struct shift_event *ev)
{
	if (ev->type == SHIFT_EV_POST_FAILED)
		world.post_result = 0;
}

/* The one that was refused is for another rail. Those behind it go their way once more. */
static void a_broken_nic_keeps_the_one_that_it_refused(void **state)
{
	for (unsigned int i = 0; i < MANY; i++) {
		char line[64];
		const char *told;

		begin_fast(state);
		core.on_event = nic_is_well_again;
		world.post_result = EIO;
		world.post_fails_at = (int)i + 1;
		assert_int_equal(receive_many(), 0);
		told = strstr(trace_text(), "event POST_FAILED rail 0\n");
		assert_non_null(told);
		snprintf(line, sizeof(line), "\nunlog receive %u\n", logged_with(i) - i - 1);
		assert_int_equal(lines_with(line), logged_with(i) > i + 1);
		assert_int_equal(lines_with("unlog receive "), logged_with(i) > i + 1);
		assert_null(strstr(told, "unlog"));
		for (unsigned int k = 0; k < MANY; k++) {
			snprintf(line, sizeof(line), "log receive id %#x ", 0x100 + k);
			assert_int_equal(!strstr(told, line), k <= i);
			snprintf(line, sizeof(line), "\nreceive 0x10 id %#x ", 0x100 + k);
			assert_int_equal(lines_with(line), 1);
		}
		core.on_event = NULL;
		end(state);
	}
}

/* Nobody knows how many the NIC has got: all stay in the log, and the rail is left. */
static void a_chain_that_fails_without_bad(void **state)
{
	(void)state;
	world.post_result = EINVAL;
	world.post_fails_at = 2;
	world.post_without_bad = true;
	assert_int_equal(receive(3), 0);
	assert_non_null(strstr(trace_text(), "event POST_FAILED rail 0\n"));
	assert_null(strstr(trace_text(), "unlog"));
	world.post_result = 0;
}

/* If there was only one, it was that one. */
static void a_receive_that_fails_without_bad(void **state)
{
	(void)state;
	world.post_result = EINVAL;
	world.post_fails_at = 1;
	world.post_without_bad = true;
	assert_int_equal(receive(1), EINVAL);
	assert_ptr_equal(recv_bad, recv_wr);
	assert_non_null(strstr(trace_text(), "unlog receive 1\n"));
	world.post_result = 0;
}

/* --- a broken NIC, and other threads ------------------------------------------------------- */

static _Atomic bool has_lock, was_shut;

static bool is_inside(struct gate *g)
{
	return atomic_load(&g->inside) != GATE_OUTSIDE || atomic_load(&g->locked);
}

/* Keeps the thread that posts from telling lib/core, and looks at its gate meanwhile. */
static void *look_at_the_gate(void *gate)
{
	struct gate *g = gate;

	pthread_mutex_lock(&v->lock);
	has_lock = true;
	while (__atomic_load_n(&world.post_fails_at, __ATOMIC_ACQUIRE) || is_inside(g))
		sched_yield();
	was_shut = (atomic_load(&g->shut) & ~GATE_SHARED) > GATE_OPEN;
	pthread_mutex_unlock(&v->lock);
	return NULL;
}

static int send_one(void)
{
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 2, .opcode = IBV_WR_SEND}, *bad;

	return hot_post_send(v->qp, &wr, &bad);
}

/* What it posted might be taken, in the place of what was refused. */
static void nobody_posts_until_lib_core_knows(void **state)
{
	for (int is_recv = 0; is_recv < 2; is_recv++) {
		pthread_t thread;

		begin_fast(state);
		core.on_event = nic_is_well_again;
		world.post_result = EIO;
		world.post_fails_at = 1;
		has_lock = was_shut = false;
		pthread_create(&thread, NULL, look_at_the_gate,
			       is_recv ? &v->hot.recv_gate : &v->hot.send_gate);
		while (!has_lock)
			sched_yield();
		assert_int_equal(is_recv ? receive(1) : send_one(), 0);
		pthread_join(thread, NULL);
		assert_true(was_shut);
		assert_non_null(strstr(trace_text(), "event POST_FAILED rail 0"));
		core.on_event = NULL;
		end(state);
	}
}

int main(void)
{
#define ALONE(name) cmocka_unit_test(name)
#define FAST(name)  cmocka_unit_test_setup_teardown(name, begin_fast, end)
	const struct CMUnitTest tests[] = {
		FAST(receives_are_logged_then_posted_at_once),
		FAST(without_an_error_bad_of_a_receive_may_be_null),
		ALONE(receives_of_one_sge_or_none),
		FAST(another_threads_receives_are_not_ones_own),
		FAST(a_receive_that_rail_0_refuses_is_not_logged),
		ALONE(a_receive_queue_that_is_full),
		ALONE(a_slow_receive),
		ALONE(behind_a_receive_that_was_refused),
		FAST(a_long_list_of_receives),
		ALONE(the_program_is_told_which_was_refused),
		ALONE(a_long_list_of_which_a_part_is_logged),
		ALONE(a_part_of_which_one_is_refused),
		ALONE(a_broken_nic_keeps_the_one_that_it_refused),
		FAST(a_chain_that_fails_without_bad),
		FAST(a_receive_that_fails_without_bad),
		ALONE(nobody_posts_until_lib_core_knows),
	};

	return run_with_both_gates(tests, sizeof(tests) / sizeof(*tests));
}
