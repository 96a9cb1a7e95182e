/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the program sends, on the fast way and on the slow one, and what is posted again
 * from the log (lib/verbs/post_send.c, lib/conn/repost.c). */
#include "tests/unit/rooms.h"

#include <errno.h>
#include <stdio.h>

#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/repost.h"
#include "lib/verbs/post_send.h"
#include "lib/verbs/qp.h"

static struct vqp *v;
static struct ibv_sge sge[2] = {{.addr = 0x100, .length = 10, .lkey = 0xa},
				{.addr = 0x200, .length = 20, .lkey = 0xb}};
static struct ibv_send_wr wr[16], *bad;
static struct ibv_recv_wr recv_wr[4], *recv_bad;

static void fill_lists(void)
{
	memset(wr, 0, sizeof(wr));
	for (unsigned int i = 0; i < 16; i++) {
		wr[i] = (struct ibv_send_wr){.wr_id = 0x10 + i,
					     .next = i < 15 ? wr + i + 1 : NULL,
					     .sg_list = sge,
					     .num_sge = 2,
					     .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					     .send_flags = IBV_SEND_SOLICITED | IBV_SEND_SIGNALED,
					     .imm_data = 0x90 + i,
					     .wr.rdma = {.remote_addr = 0x7000 + i, .rkey = 0x700}};
	}
	for (unsigned int i = 0; i < 4; i++)
		recv_wr[i] = (struct ibv_recv_wr){.wr_id = 0x30 + i,
						  .next = i < 3 ? recv_wr + i + 1 : NULL,
						  .sg_list = sge,
						  .num_sge = 2};
	bad = (struct ibv_send_wr *)&bad;
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

static int post(unsigned int first, unsigned int n)
{
	wr[first + n - 1].next = NULL;
	return hot_post_send(v->qp, wr + first, &bad);
}

/* One line each of what the log is told and the NIC gets of wr[i]. */
#define LOG(i, id, result)                                          \
	"log id 0x1" id " op 1 flags 0x6 imm 0x9" id " to 0x700" id \
	" 0x700 compare 0 swap 0 sges "                             \
	"2: " result "\n"
#define POST(id)                                                                                   \
	"post 0x10 id 0x1" id " op 1 flags 0x6 imm 0x9" id " to 0x700" id " 0x700 [0x100 10 0xa] " \
	"[0x200 20 0xb]\n"

/* --- sends, the fast way ------------------------------------------------------------------- */

static void a_list_is_logged_then_posted_as_it_is(void **state)
{
	(void)state;
	assert_int_equal(post(0, 2), 0);
	assert_traced(LOG(0, "0", "0") LOG(1, "1", "0") POST("0") POST("1"));
	assert_ptr_equal(bad, &bad); /* as before: it is written after an error only */
	assert_int_equal(v->hot.slow, 0);
}

/* Programs that expect no error pass NULL, and stock providers do not notice. */
static void without_an_error_bad_may_be_null(void **state)
{
	(void)state;
	for (int n = 1; n <= 3; n++) {
		fill_lists();
		wr[n - 1].next = NULL;
		assert_int_equal(hot_post_send(v->qp, wr, NULL), 0);
	}
	core.fast = false;
	vqp_enter(v);
	vqp_leave(v);
	assert_int_equal(v->hot.slow, 1);
	assert_int_equal(hot_post_send(v->qp, wr, NULL), 0);
}

static void atomics_are_logged_with_both_operands(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		wr[i].opcode = i ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
		wr[i].wr.atomic.remote_addr = 0x8000;
		wr[i].wr.atomic.compare_add = 3;
		wr[i].wr.atomic.swap = 4;
		wr[i].wr.atomic.rkey = 0x800;
	}
	assert_int_equal(post(0, 2), 0);
	assert_traced("log id 0x10 op 5 flags 0x6 imm 0x90 to 0x8000 0x800 compare 3 swap 4 "
		      "sges 2: 0\nlog id 0x11 op 6 flags 0x6 imm 0x91 to 0x8000 0x800 compare 3 "
		      "swap 4 sges 2: 0\npost 0x10 id 0x10 op 5 flags 0x6 imm 0x90 to 0x8000 0x800 "
		      "compare 3 swap 4 [0x100 10 0xa] [0x200 20 0xb]\npost 0x10 id 0x11 op 6 "
		      "flags 0x6 imm 0x91 to 0x8000 0x800 compare 3 swap 4 [0x100 10 0xa] [0x200 "
		      "20 0xb]\n");
}

static void an_empty_list_is_no_post(void **state)
{
	(void)state;
	assert_int_equal(hot_post_send(v->qp, NULL, &bad), 0);
	assert_traced("");
}

/* What the log has no room for goes the slow way, behind what was posted. */
static void a_list_that_the_log_does_not_take_whole(void **state)
{
	(void)state;
	core.post_ends_after = 1;
	assert_int_equal(post(0, 3), ENOMEM);
	assert_ptr_equal(bad, wr + 1);
	assert_traced(LOG(0, "0", "0") LOG(1, "1", "-12") POST("0") "fold\n" LOG(1, "1", "-12"));
}

/* Of a QP that the thread does not remember; and of one that it does, by runs (fast.h). */
static void the_rest_of_a_long_list_goes_the_slow_way(void **state)
{
	char *slow;

	(void)state;
	for (int i = 0; i < 2; core.run_takes = 2, i++, trace_clear()) {
		assert_int_equal(post(0, SENDS + 1), 0);
		slow = strstr(trace_text(), "fold\n" LOG(8, "8", "0"));
		assert_non_null(slow);
		*slow = 0;
		assert_true(strstr(trace_text(), POST("7")) && !strstr(trace_text(), "id 0x18"));
	}
}

static void what_is_to_be_signaled_in_secret_goes_the_slow_way(void **state)
{
	(void)state;
	core.secret = true;
	core.post_result = 1; /* signal it: not an error */
	assert_int_equal(post(0, 1), 0);
	assert_null(strstr(strstr(trace_text(), "log id ") + 1, "log id ")); /* it is logged once */
	assert_non_null(strstr(trace_text(), "fold\n" LOG(0, "0", "1") "post 0x10"));
}

/* --- the NIC refuses ----------------------------------------------------------------------- */

static void what_the_program_did_wrong_it_is_told(void **state)
{
	static const int errs[] = {ENOMEM, EINVAL, EOPNOTSUPP, EIO};

	for (int i = 0; i < 4; i++) {
		begin_fast(state);
		core.view.protected_ = errs[i] != EIO; /* else no other rail would take it */
		world.post_result = errs[i];
		world.post_fails_at = 2;
		assert_int_equal(post(0, 3), errs[i]);
		assert_ptr_equal(bad, wr + 1);
		assert_traced(LOG(0, "0", "0") LOG(1, "1", "0") LOG(2, "2", "0") POST("0")
				      POST("1") "fold\nunlog 2\n");
		end(state);
	}
}

static void what_the_nic_did_wrong_lib_core_is_told(void **state)
{
	(void)state;
	v->hot.rail0_epoch = 4;
	world.post_result = EIO;
	world.post_fails_at = 2;
	assert_int_equal(post(0, 3), 0);
	assert_non_null(strstr(trace_text(),
			       POST("0") POST("1") "fold\nfold\nevent POST_FAILED rail 0 "
						   "epoch 4 count 2\n"));
	assert_null(strstr(trace_text(), "unlog"));
	assert_ptr_equal(bad, &bad); /* the program hears of nothing */
}

/* Of one alone, and of a list. */
static void of_what_is_hidden_bad_may_be_null(void **state)
{
	for (unsigned int n = 1; n <= 2; n++) {
		begin_fast(state);
		world.post_result = EIO;
		wr[n - 1].next = NULL;
		core.run_takes = n == 1;
		assert_int_equal(hot_post_send(v->qp, wr, NULL), 0);
		end(state);
	}
}

/* V9: without bad all was queued, and the doorbell did not ring. */
static void without_bad_nothing_was_refused(void **state)
{
	(void)state;
	world.post_result = EINVAL;
	world.post_without_bad = true;
	assert_int_equal(post(0, 2), 0);
	assert_traced(LOG(0, "0", "0") LOG(1, "1", "0") POST("0") "fold\nfold\nevent "
								  "POST_FAILED rail 0\n");
}

static void behind_a_refusal_the_rest_of_the_list_is_held(void **state)
{
	(void)state;
	world.post_result = EIO;
	world.post_fails_at = 1;
	core.post_ends_after = 2;
	core.post_rail = SHIFT_HELD;
	assert_int_equal(post(0, 3), ENOMEM); /* it, too, has no room */
	assert_ptr_equal(bad, wr + 2);
	assert_traced(LOG(0, "0", "0") LOG(1, "1", "0") LOG(2, "2", "-12") POST(
		"0") "fold\nfold\nevent POST_FAILED rail 0 count 2\nfold\n" LOG(2, "2", "-12"));
}

/* Posted one by one, as only its begin was logged. */
static void a_list_that_was_logged_in_part_is_posted_in_part(void **state)
{
	(void)state;
	world.post_result = EINVAL;
	world.post_fails_at = 2;
	core.post_ends_after = 3;
	assert_int_equal(post(0, 4), EINVAL);
	assert_ptr_equal(bad, wr + 1);
	assert_non_null(strstr(trace_text(), POST("0") POST("1") "fold\nunlog 2\n"));
}

static void a_list_in_part_without_bad(void **state)
{
	(void)state;
	world.post_result = EIO;
	world.post_fails_at = 2;
	world.post_without_bad = true;
	core.post_ends_after = 3;
	assert_int_equal(post(0, 4), ENOMEM);
	assert_non_null(strstr(trace_text(),
			       POST("0")
				       POST("1") "fold\nfold\nevent POST_FAILED rail 0 count 1\n"));
}

/* --- sends, the slow way ------------------------------------------------------------------- */

static void slow_sends_are_posted_one_by_one(void **state)
{
	(void)state;
	core.head = 1; /* the log's own say, of index 1, what is posted */
	assert_int_equal(post(0, 1), 0);
	assert_traced(LOG(0, "0", "0") "post 0x10 id 0x1 op 5 flags 0x2 imm 0x90 to 0x7001 0x700 "
				       "compare 71 swap 81 [0x101 10 0xa] [0x201 20 0xb]\n");
	assert_int_equal(v->repost.tx_next, 2);
	assert_int_equal(v->repost.tx_end, 2);
}

static void sends_on_a_twin_bear_its_keys_and_epoch(void **state)
{
	(void)state;
	core.post_rail = 1;
	v->rails.armed_epoch[1] = 6;
	v->hot.rail0_epoch = 5;
	assert_int_equal(post(0, 3), 0);
	assert_traced(LOG(0, "0", "0") LOG(1, "1", "0") LOG(
		2, "2",
		"0") "post 0x21 id 0x600000000 op 1 flags 0x2 imm 0x90 to 0x7000 0x5700 [0x100 10 "
		     "0x100a] [0x200 20 0x100b]\n"
		     "post 0x21 id 0x600000000 op 5 flags 0x2 imm 0x90 to 0x7001 0x5700 compare 71 "
		     "swap 81 [0x101 10 0x100a] [0x201 20 0x100b]\n"
		     "post 0x21 id 0x600000000 op 4 flags 0x2 imm 0x90 to 0x7002 0x5700 [0x102 10 "
		     "0x100a] [0x202 20 0x100b]\n");
	assert_int_equal(v->repost.tx_epoch, 6);
	assert_int_equal(v->repost.tx_rail, 1);
}

/* Of each opcode: which keys are the twin's, and where an atomic's operands go. */
static void each_opcode_is_posted_from_the_log(void **state)
{
	static const char *const lines[] = {
		"op 3 flags 0x2 imm 0x90 to 0x7005 0x700 [0x105 10 0x100a] [0x205 20 0x100b]\n",
		"op 2 flags 0x2 imm 0x90 to 0x7004 0x700 [0x104 10 0x100a] [0x204 20 0x100b]\n",
		"op 6 flags 0x2 imm 0x90 to 0x7003 0x5700 compare 73 swap 83 [0x103 10 0x100a] "
		"[0x203 20 0x100b]\n",
		"op 0 flags 0x2 imm 0x90 to 0x7006 0x5700 [0x106 10 0x100a] [0x206 20 0x100b]\n",
		"op 0 flags 0xa imm 0x90 to 0x7007 0x5700 [0x107 10 0xa] [0x207 20 0xb]\n",
	};

	(void)state;
	core.post_rail = 1;
	core.head = 3;
	assert_int_equal(post(0, 5), 0);
	for (int i = 0; i < 5; i++)
		assert_non_null(strstr(trace_text(), lines[i]));
	trace_clear();
	core.no_rkey = core.no_bytes = true;
	world.rkey_result = -EAGAIN; /* it would be asked for */
	fill_lists();
	assert_int_equal(post(0, 1), 0);
	assert_non_null(strstr(trace_text(), "op 1 flags 0x2 imm 0x90 to 0x7008 0 "));
}

static void a_send_that_is_held_is_not_posted(void **state)
{
	(void)state;
	core.post_rail = SHIFT_HELD;
	assert_int_equal(post(0, 2), 0);
	assert_traced(LOG(0, "0", "0") LOG(1, "1", "0"));
	assert_int_equal(v->repost.tx_end, 0);
}

static void after_the_end_a_send_flushes(void **state)
{
	struct ibv_wc wc;

	(void)state;
	core.post_result = -EIO;
	assert_int_equal(post(0, 1), 0);
	assert_traced(LOG(0, "0", "-5"));
	assert_int_equal(vcq_take(&world.send_cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 0x10);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
}

static void other_errors_of_the_log_are_the_programs(void **state)
{
	(void)state;
	core.post_result = -EINVAL;
	assert_int_equal(post(0, 2), EINVAL);
	assert_ptr_equal(bad, wr);
	assert_traced(LOG(0, "0", "-22"));
}

/* So many wait in the log that the queue counts as full. */
static void sends_that_wait_fill_the_queue(void **state)
{
	(void)state;
	v->repost.tx_stopped = true;
	for (uint32_t waiting = SENDS - 1; waiting <= SENDS; waiting++) {
		v->repost.tx_next = 100;
		v->repost.tx_end = core.head = 100 + waiting;
		trace_clear();
		fill_lists();
		assert_int_equal(post(0, 1), waiting < SENDS ? 0 : ENOMEM);
		assert_traced(waiting < SENDS ? LOG(0, "0", "0") : "");
		assert_int_equal(v->repost.tx_next, 100); /* it goes behind them */
		assert_int_equal(v->repost.tx_end, 100 + SENDS);
	}
	v->repost.tx_next = v->repost.tx_end = 0;
}

/* The commit has found the first of them done, and the program posts in its place. */
static void sends_that_are_done_leave_room(void **state)
{
	(void)state;
	v->repost.tx_stopped = true;
	for (uint64_t done = 0; done < 2; done++) {
		v->repost.tx_next = 100;
		v->repost.tx_end = core.head = 100 + SENDS;
		core.view.send_tail = 100 + done;
		fill_lists();
		assert_int_equal(post(0, 1), done ? 0 : ENOMEM);
	}
	v->repost.tx_next = v->repost.tx_end = 0;
}

static void a_slow_send_that_rail_0_refuses(void **state)
{
	static const struct {
		int err;
		bool without_bad, is_protected;
		int result;
		const char *then;
	} cases[] = {
		{EINVAL, false, true, EINVAL, "unlog 1\n"},
		{EINVAL, true, true, 0, "event POST_FAILED rail 0\n"}, /* it was taken (V9) */
		{EIO, false, true, 0, "event POST_FAILED rail 0 count 1\n"},
		{EIO, true, true, 0, "event POST_FAILED rail 0\n"},
		{EIO, false, false, EIO, "unlog 1\n"},
		{EIO, true, false, 0, "event POST_FAILED rail 0\n"},
		{ENOMEM, false, true, ENOMEM, "unlog 1\n"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *posted;

		begin(state);
		core.head = 2;
		world.post_result = cases[i].err;
		world.post_without_bad = cases[i].without_bad;
		core.view.protected_ = cases[i].is_protected;
		assert_int_equal(post(0, 1), cases[i].result);
		posted = strchr(strstr(trace_text(), "post "), '\n') + 1;
		assert_string_equal(posted, cases[i].then);
		assert_int_equal(v->repost.tx_next, v->repost.tx_end);
		world.post_result = 0;
		end(state);
	}
}

static void a_bypassed_qp_is_posted_to_directly(void **state)
{
	(void)state;
	v->life.bypassed = true;
	post(0, 1);
	assert_traced(POST("0"));
	v->life.bypassed = false;
}

/* --- binds of memory windows --------------------------------------------------------------- */

static void a_bind_releases_and_is_posted(void **state)
{
	(void)state;
	wr[0].opcode = IBV_WR_BIND_MW;
	assert_int_equal(post(0, 1), EOPNOTSUPP); /* it has moved: it cannot be released */
	assert_ptr_equal(bad, wr);
	assert_traced("fold\nrelease\n");
	core.releases = true;
	world.post_result = EINVAL;
	assert_int_equal(post(0, 1), EINVAL);
	assert_non_null(strstr(trace_text(), "log id 0x10 op 8"));
	assert_non_null(strstr(trace_text(), "\npost 0x10 id 0x10 op 8"));
	assert_non_null(strstr(trace_text(), "\nunlog 1\n"));
	world.post_result = 0;
	trace_clear();
	v->repost.tx_end = 1;
	v->repost.tx_stopped = true;
	vqp_enter(v);
	vqp_leave(v); /* a send waits: the gates are shut */
	trace_clear();
	assert_int_equal(post(0, 1), ENOMEM);
	assert_traced("");
	v->repost.tx_end = 0;
}

static void a_bind_of_a_released_qp_goes_the_fast_way(void **state)
{
	(void)state;
	wr[0].opcode = IBV_WR_BIND_MW;
	v->life.released = true;
	assert_int_equal(post(0, 1), 0);
	assert_true(!strncmp(trace_text(), "log id 0x10 op 8", 16));
}

/* --- from the log -------------------------------------------------------------------------- */

static void ask_to_post(uint8_t rail, uint32_t epoch, uint64_t first, uint32_t n)
{
	vqp_enter(v);
	core_asks(&(struct shift_action){.type = SHIFT_ACT_POST_SEND,
					 .rail = rail,
					 .epoch = epoch,
					 .first = first,
					 .count = n});
	vqp_leave(v);
}

static unsigned int posts(void)
{
	unsigned int n = 0;

	for (const char *p = trace_text(); (p = strstr(p, "post 0x")); p++)
		n++;
	trace_clear();
	return n;
}

static void on_rail_0_the_log_posts_as_the_program_did(void **state)
{
	(void)state;
	ask_to_post(0, 3, 0, 1);
	assert_traced(
		"post 0x10 id 0 op 1 flags 0x2 imm 0x90 to 0x7000 0x700 [0x100 10 0xa] [0x200 "
		"20 0xb]\n");
}

/* A key that is asked for, or a queue that is full, will be there later. */
static void what_must_wait_goes_on_where_it_stopped(void **state)
{
	for (int what = 0; what < 3; what++) {
		begin(state);
		if (what == 0)
			world.lkey_result = -EAGAIN;
		if (what == 1)
			world.rkey_result = -EAGAIN;
		if (what == 2)
			world.post_result = ENOMEM, world.post_fails_at = 2;
		ask_to_post(1, 3, 2, 3);
		assert_null(strstr(trace_text(), "POST_FAILED"));
		assert_int_equal(posts(), what == 2 ? 2 : 0);
		assert_int_equal(v->repost.tx_next, what == 2 ? 3 : 2);
		core.fast = true;
		vqp_enter(v);
		world.lkey_result = -EAGAIN;
		vqp_leave(v);
		assert_int_equal(v->hot.slow, 1); /* they go first */
		world.lkey_result = world.rkey_result = world.post_result = 0;
		vqp_enter(v);
		vqp_leave(v);
		assert_int_equal(posts(), what == 2 ? 2 : 3);
		assert_int_equal(v->repost.tx_next, 5);
		end(state);
	}
}

/* Memory that is not on this NIC: the key of rail 0 might be that of other memory there. */
static void a_key_of_rail_0_is_never_posted_on_a_twin(void **state)
{
	for (int what = 0; what < 2; what++) {
		begin(state);
		*(what ? &world.rkey_result : &world.lkey_result) = -ENOENT;
		ask_to_post(1, 3, 0, 2);
		assert_traced("event NO_KEY rail 1 epoch 3\n");
		v->repost.tx_next = v->repost.tx_end;
		end(state);
	}
}

/* A key of 0 is one, too. */
static void a_key_of_0_is_asked_for(void **state)
{
	(void)state;
	core.no_rkey = true;
	world.rkey_result = -EAGAIN;
	ask_to_post(1, 3, 0, 1);
	assert_int_equal(posts(), 0);
	world.rkey_result = 0;
	vqp_enter(v);
	vqp_leave(v);
	assert_int_equal(posts(), 1);
}

/* It touches no memory, and so no key is looked at. */
static void what_has_no_byte_needs_no_key(void **state)
{
	(void)state;
	world.lkey_result = world.rkey_result = -EAGAIN; /* it would wait for an answer */
	core.no_bytes = true;
	ask_to_post(1, 3, 0, 1);
	assert_traced("post 0x21 id 0x300000000 op 1 flags 0x2 imm 0x90 to 0x7000 0 [0x100 0 0] "
		      "[0x200 0 0]\n");
}

/* What it invalidates is a memory window, of which a twin has none. */
static void an_invalidation_is_not_posted_on_a_twin(void **state)
{
	static const uint8_t opcodes[] = {SHIFT_OP_LOCAL_INV, SHIFT_OP_SEND_INV};

	for (int i = 0; i < 2; i++) {
		begin(state);
		core.opcode = opcodes[i];
		ask_to_post(1, 3, 0, 1);
		assert_traced("event NO_KEY rail 1 epoch 3\n");
		v->repost.tx_next = v->repost.tx_end;
		end(state);
	}
}

static void a_receive_without_a_key_is_not_posted(void **state)
{
	(void)state;
	world.lkey_result = -ENOENT;
	v->rails.armed_epoch[1] = 3;
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_POST_RECV,
					    .rail = 1,
					    .epoch = 3,
					    .first = 3,
					    .count = 4});
	assert_traced("event NO_KEY rail 1 epoch 3\n");
	world.lkey_result = -ENOBUFS;
	rooms_act(v, &(struct shift_action){
			     .type = SHIFT_ACT_POST_RECV, .rail = 1, .epoch = 3, .count = 4});
	assert_traced("event POST_FAILED rail 1 epoch 3\n");
}

static void while_its_rail_is_fenced_nothing_is_posted(void **state)
{
	(void)state;
	ask_to_post(1, 3, 0, 1);
	trace_clear();
	vqp_enter(v);
	v->repost.tx_next = 4;
	v->repost.tx_end = 6;
	v->repost.tx_stopped = true;
	vqp_leave(v);
	assert_traced("");
	ask_to_post(1, 4, 4, 2); /* the next epoch */
	assert_int_equal(posts(), 2);
	assert_false(v->repost.tx_stopped);
}

/* Those of the same rail and epoch that wait go first; others are in the new range again. */
static void a_new_range_begins_with_what_waits(void **state)
{
	static const struct {
		uint64_t next, end;
		uint8_t rail;
		uint32_t epoch;
		uint64_t first;
	} cases[] = {
		{4, 6, 1, 3, 4},
		{6, 6, 1, 3, 8},
		{4, 6, 2, 3, 8},
		{4, 6, 1, 2, 8},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		world.lkey_result = -EAGAIN;
		vqp_enter(v);
		v->repost.tx_next = cases[i].next;
		v->repost.tx_end = cases[i].end;
		v->repost.tx_rail = cases[i].rail;
		v->repost.tx_epoch = cases[i].epoch;
		repost_sends(v,
			     &(struct shift_action){.rail = 1, .epoch = 3, .first = 8, .count = 3});
		assert_int_equal(v->repost.tx_next, cases[i].first);
		assert_int_equal(v->repost.tx_end, 11);
		assert_int_equal(v->repost.tx_rail, 1);
		assert_int_equal(v->repost.tx_epoch, 3);
		v->repost.tx_next = v->repost.tx_end;
		vqp_leave(v);
	}
}

static void a_fence_withdraws_what_waits_for_its_rail(void **state)
{
	static const struct {
		uint64_t next;
		uint8_t rail;
		uint32_t epoch;
		bool told;
	} cases[] = {{4, 1, 3, true}, {6, 1, 3, false}, {4, 2, 3, false}, {4, 1, 2, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		v->repost.tx_next = cases[i].next;
		v->repost.tx_end = 6;
		v->repost.tx_rail = 1;
		v->repost.tx_epoch = 3;
		repost_withdraw(v, cases[i].rail, cases[i].epoch);
		assert_traced(cases[i].told ? "event POST_FAILED rail 1 epoch 3 count 2\n" : "");
		assert_int_equal(v->repost.tx_next, cases[i].told ? 6 : cases[i].next);
	}
	v->repost.tx_next = v->repost.tx_end;
}

/* Posted and then failed without bad: it was taken, and those behind it were not. */
static void a_repost_that_fails_without_bad_was_taken(void **state)
{
	(void)state;
	world.post_result = EIO;
	world.post_without_bad = true;
	ask_to_post(1, 3, 4, 3);
	assert_non_null(strstr(trace_text(), "event POST_FAILED rail 1 epoch 3 count 2\n"));
	assert_int_equal(posts(), 1);
}

static void what_is_the_programs_mistake(void **state)
{
	static const int mistakes[] = {ENOMEM, EINVAL, EOPNOTSUPP, ENOTSUP};

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_true(repost_is_for_program(v, mistakes[i]));
	assert_false(repost_is_for_program(v, EIO));
	assert_false(repost_is_for_program(v, EFAULT));
	core.view.protected_ = false;
	assert_true(repost_is_for_program(v, EIO));
}

static void receives_are_posted_again_in_order(void **state)
{
	(void)state;
	v->rails.armed_epoch[2] = 7;
	vqp_enter(v);
	repost_recvs(v, &(struct shift_action){.rail = 2, .epoch = 7, .first = 3, .count = 2});
	vqp_leave(v);
	assert_traced("receive 0x22 id 0x700000001 [0x300 30 0x200c] [0x400 40 0x200d]\n"
		      "receive 0x22 id 0x700000001 [0x300 30 0x200c] [0x400 40 0x200d]\n");
	vqp_enter(v);
	repost_recvs(v, &(struct shift_action){.rail = 0, .first = 3, .count = 2});
	vqp_leave(v);
	assert_traced("receive 0x10 id 0x3 [0x300 30 0xc] [0x400 40 0xd]\n"
		      "receive 0x10 id 0x4 [0x300 30 0xc] [0x400 40 0xd]\n");
	v->hot.recv_marked.wr_id = 0x55;
	vqp_enter(v);
	repost_recvs(v, &(struct shift_action){.rail = 0, .first = 3, .count = 1});
	vqp_leave(v);
	assert_traced("receive 0x10 id 0x55 [0x300 30 0xc] [0x400 40 0xd]\n");
	v->hot.recv_marked.wr_id = 0;
}

/* Its memory is not registered there yet. Those behind it wait, too, also new ones: they complete
 * in order. */
static void a_receive_waits_for_its_memory(void **state)
{
	const char *line = "receive 0x21 id 0x700000001 [0x300 30 0x100c] [0x400 40 0x100d]\n";
	char lines[256];

	snprintf(lines, sizeof(lines), "%s%s%s", line, line, line);
	for (int fenced = 0; fenced < 2; fenced++) {
		begin(state);
		v->rails.armed_epoch[1] = 7;
		world.lkey_result = -EAGAIN;
		rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_POST_RECV,
						    .rail = 1,
						    .epoch = 7,
						    .first = 3,
						    .count = 2});
		assert_false(v->repost.recv_refused);
		assert_true(v->repost.wants_lkey);
		world.lkey_result = 0;
		vqp_enter(v);
		assert_int_equal(
			repost_new_recv(v, 1, &(struct shift_recv_wr){.wr_id = 5, .num_sge = 0}),
			0);
		assert_traced("");
		repost_withdraw_recvs(v, fenced ? 1 : 2);
		vqp_leave(v);
		assert_traced(fenced ? "" : lines);
		assert_int_equal(v->repost.rx_next, v->repost.rx_end);
		end(state);
	}
}

/* Behind one that was refused none is posted: they complete in order. */
static void a_receive_that_is_refused_ends_the_range(void **state)
{
	for (int what = 0; what < 2; what++) {
		begin(state);
		world.post_result = what ? EIO : 0;
		world.post_fails_at = 2;
		world.lkey_result = what ? 0 : -ENOBUFS;
		vqp_enter(v);
		repost_recvs(v, &(struct shift_action){.rail = 1, .first = 3, .count = 4});
		assert_true(v->repost.recv_refused);
		assert_int_equal(v->repost.rx_rail, 1);
		vqp_leave(v);
		if (what)
			assert_traced("receive 0x21 id 0x1 [0x300 30 0x100c] [0x400 40 0x100d]\n"
				      "receive 0x21 id 0x1 [0x300 30 0x100c] [0x400 40 0x100d]\n"
				      "event POST_FAILED rail 1\n");
		else
			assert_traced("event POST_FAILED rail 1\n");
		end(state);
	}
}

/* --- two threads --------------------------------------------------------------------------- */

static void post_first(void)
{
	assert_int_equal(post(0, 1), 0);
}

/* The gate is shut when this thread meets it for the first time. */
static void post_while_shut(void)
{
	gate_shut(&v->hot.send_gate);
	assert_int_equal(post(1, 1), 0);
	gate_open(&v->hot.send_gate);
	assert_int_equal(post(2, 1), 0);
}

/* It was turned away, and the gate is shared from then on. */
static void another_threads_gate_is_not_entered_as_ones_own(void **state)
{
	(void)state;
	rooms_beside(post_first, post_while_shut);
	assert_true(v->hot.send_gate.shut & GATE_SHARED);
}

/* What is alike and what is not, alone and in lists; each is logged once. */
static void post_where_another_thread_has_posted(void)
{
	trace_clear();
	core.run_takes = 2;
	assert_int_equal(post(1, 1), 0); /* the thread remembers the QP */
	assert_int_equal(post(2, 1), 0);
	assert_traced("turn\n" POST("1") POST("2"));
	wr[3].opcode = IBV_WR_SEND_WITH_IMM;
	assert_int_equal(post(3, 1), 0);
	assert_traced("turn\npost 0x10 id 0x13 op 3 flags 0x6 imm 0x93 to 0x7003 0x700 "
		      "[0x100 10 0xa] [0x200 20 0xb]\n");
	core.run_takes = 3;
	assert_int_equal(post(4, 2), 0);
	assert_traced("turn\n" POST("4") POST("5"));
	assert_ptr_equal(bad, &bad);
	world.post_result = EINVAL;
	assert_int_equal(post(6, 1), EINVAL);
	assert_ptr_equal(bad, wr + 6);
	assert_traced(POST("6") "fold\nunlog 1\n");
	world.post_result = 0;
	core.run_takes = 0;
	assert_int_equal(post(7, 1), 0); /* the run has a place left */
	assert_traced(POST("7"));
	assert_int_equal(post(8, 1), 0);
	assert_traced(LOG(8, "8", "0") POST("8"));
	assert_int_equal(v->hot.slow, 0);
}

static void sends_beside_another_thread(void **state)
{
	(void)state;
	rooms_beside(post_first, post_where_another_thread_has_posted);
}

/* --- runs ---------------------------------------------------------------------------------- */

/* The owner of the gate posts what is alike without lib/core. */
static void a_run_goes_straight_to_the_nic(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		wr[i].next = NULL;
	core.run_takes = 2;
	assert_int_equal(hot_post_send(v->qp, wr, &bad), 0);
	core.run_takes = 0;
	assert_int_equal(hot_post_send(v->qp, wr + 1, &bad), 0);
	assert_traced("turn\n" POST("0") POST("1"));
	assert_int_equal(hot_post_send(v->qp, wr + 2, &bad), 0); /* the run's end */
	assert_traced(LOG(2, "2", "0") POST("2"));
}

static void a_list_goes_into_a_run(void **state)
{
	(void)state;
	core.run_takes = 2;
	assert_int_equal(post(0, 3), 0);
	assert_traced("turn\nturn\n" POST("0") POST("1") POST("2"));
	/* The run has room for the head of the next one. */
	assert_int_equal(post(3, 2), 0);
	assert_traced("turn\n" POST("3") POST("4"));
}

static const char *line_of(const char *format, unsigned int i)
{
	char line[32];

	snprintf(line, sizeof(line), format, 0x10 + i);
	return strstr(trace_text(), line);
}

/* Those that are too long for a run are logged by themselves, once, and count with the others. */
static void a_long_list_in_which_some_are_too_long(void **state)
{
	struct ibv_sge long_sge[2] = {{.length = SHIFT_FAST_BYTES_MAX + 1}};

	for (unsigned int which = 0; which < 1u << (SENDS + 1); which += 3) {
		begin_fast(state);
		core.run_takes = 2;
		for (unsigned int i = 0; i <= SENDS; i++)
			if (which & 1u << i)
				wr[i].sg_list = long_sge;
		assert_int_equal(post(0, SENDS + 2), 0);
		assert_non_null(line_of("post 0x10 id %#x ", SENDS - 1)); /* as it was given */
		assert_null(line_of("post 0x10 id %#x ", SENDS));
		for (unsigned int i = 0; i < SENDS + 2; i++) {
			const char *at = line_of("log id %#x ", i);

			assert_int_equal(!!at, i >= SENDS || which & 1u << i);
			assert_true(!at || (at < line_of("post 0x10 id %#x ", 0)) == (i < SENDS));
		}
		end(state);
	}
}

/* It is logged once, into the same run. */
static void one_of_another_kind_alone(void **state)
{
	(void)state;
	core.run_takes = 2;
	assert_int_equal(post(0, 1), 0); /* the thread remembers the QP */
	wr[1].opcode = wr[2].opcode = IBV_WR_SEND_WITH_IMM;
	for (unsigned int i = 1; i < 3; i++)
		assert_int_equal(post(i, 1), 0);
	assert_traced("turn\n" POST(
		"0") "post 0x10 id 0x11 op 3 flags 0x6 imm 0x91 to 0x7001 0x700 [0x100 10 0xa] "
		     "[0x200 20 0xb]\n"
		     "turn\n"
		     "post 0x10 id 0x12 op 3 flags 0x6 imm 0x92 to 0x7002 0x700 [0x100 10 0xa] "
		     "[0x200 20 0xb]\n");
}

/* A run may begin, but this one is too long for any. */
static void too_long_for_a_run(void **state)
{
	(void)state;
	core.run_takes = 2;
	wr[0].sg_list[0].length = SHIFT_FAST_BYTES_MAX + 1;
	assert_int_equal(post(0, 1), 0);
	wr[0].sg_list[0].length = 10;
	assert_true(!strncmp(trace_text(), "turn\nfold\nlog id 0x10", 21));
}

/* The run is folded first: lib/core forgets the newest. */
static void a_run_that_the_nic_refuses(void **state)
{
	for (int what = 0; what < 3; what++) {
		begin_fast(state);
		wr[0].next = NULL;
		core.run_takes = 2;
		v->hot.rail0_epoch = 4;
		world.post_result = what ? EIO : EINVAL;
		world.post_without_bad = what == 2;
		assert_int_equal(hot_post_send(v->qp, wr, &bad), what ? 0 : EINVAL);
		assert_ptr_equal(bad, what ? (struct ibv_send_wr *)&bad : wr);
		assert_null(v->hot.fast_bad);
		assert_traced(
			what == 0 ? "turn\n" POST("0") "fold\nunlog 1\n"
			: what == 1
				? "turn\n" POST("0") "fold\nfold\nevent POST_FAILED rail 0 epoch 4 "
						     "count 1\n"
				: "turn\n" POST("0") "fold\nfold\nevent POST_FAILED rail 0 epoch "
						     "4\n");
		core.run_takes = 0;
		world.post_result = 0;
		end(state);
	}
}

int main(void)
{
#define ALONE(name) cmocka_unit_test(name)
#define SLOW(name)  cmocka_unit_test_setup_teardown(name, begin, end)
#define FAST(name)  cmocka_unit_test_setup_teardown(name, begin_fast, end)
	const struct CMUnitTest tests[] = {
		FAST(a_list_is_logged_then_posted_as_it_is),
		FAST(atomics_are_logged_with_both_operands),
		FAST(an_empty_list_is_no_post),
		FAST(a_list_that_the_log_does_not_take_whole),
		FAST(the_rest_of_a_long_list_goes_the_slow_way),
		FAST(what_is_to_be_signaled_in_secret_goes_the_slow_way),
		ALONE(what_the_program_did_wrong_it_is_told),
		FAST(what_the_nic_did_wrong_lib_core_is_told),
		ALONE(of_what_is_hidden_bad_may_be_null),
		FAST(without_an_error_bad_may_be_null),
		FAST(another_threads_gate_is_not_entered_as_ones_own),
		FAST(sends_beside_another_thread),
		FAST(without_bad_nothing_was_refused),
		FAST(behind_a_refusal_the_rest_of_the_list_is_held),
		FAST(a_list_that_was_logged_in_part_is_posted_in_part),
		FAST(a_list_in_part_without_bad),
		SLOW(slow_sends_are_posted_one_by_one),
		SLOW(sends_on_a_twin_bear_its_keys_and_epoch),
		SLOW(each_opcode_is_posted_from_the_log),
		SLOW(a_send_that_is_held_is_not_posted),
		SLOW(after_the_end_a_send_flushes),
		SLOW(other_errors_of_the_log_are_the_programs),
		SLOW(sends_that_wait_fill_the_queue),
		SLOW(sends_that_are_done_leave_room),
		ALONE(a_slow_send_that_rail_0_refuses),
		SLOW(a_bypassed_qp_is_posted_to_directly),
		FAST(a_bind_releases_and_is_posted),
		FAST(a_bind_of_a_released_qp_goes_the_fast_way),
		SLOW(on_rail_0_the_log_posts_as_the_program_did),
		ALONE(what_must_wait_goes_on_where_it_stopped),
		ALONE(a_key_of_rail_0_is_never_posted_on_a_twin),
		SLOW(a_key_of_0_is_asked_for),
		SLOW(what_has_no_byte_needs_no_key),
		ALONE(an_invalidation_is_not_posted_on_a_twin),
		SLOW(a_receive_without_a_key_is_not_posted),
		SLOW(while_its_rail_is_fenced_nothing_is_posted),
		SLOW(a_new_range_begins_with_what_waits),
		SLOW(a_fence_withdraws_what_waits_for_its_rail),
		SLOW(a_repost_that_fails_without_bad_was_taken),
		SLOW(what_is_the_programs_mistake),
		SLOW(receives_are_posted_again_in_order),
		ALONE(a_receive_that_is_refused_ends_the_range),
		ALONE(a_receive_waits_for_its_memory),
		FAST(a_run_goes_straight_to_the_nic),
		FAST(a_list_goes_into_a_run),
		FAST(too_long_for_a_run),
		ALONE(a_long_list_in_which_some_are_too_long),
		FAST(one_of_another_kind_alone),
		ALONE(a_run_that_the_nic_refuses),
	};

	return run_with_both_gates(tests, sizeof(tests) / sizeof(*tests));
}
