/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Notes of queue pairs: error completions, asynchronous events, lives. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/stats/json.h"
#include "lib/stats/note_names.h"
#include "lib/stats/stats_file.h"
#include "tests/unit/stats_world.h"

#define S 1000000000ull

static const uint8_t gid[16] = {[10] = 0xff, 0xff, 10, 0, 1, 2};

static int begin(void **state)
{
	int err = world_begin(state);

	assert_int_equal(stats_open("job", 7, ""), 0);
	return err;
}

static struct stats_copy copy_now(void)
{
	struct stats_copy copy;

	assert_int_equal(stats_read(stats_path(), &copy), 0);
	return copy;
}

static void error_at(uint32_t qpn, uint32_t status, enum stats_fate fate, uint32_t epoch,
		     uint64_t now_ns)
{
	struct stats_error e = {.nic = "mlx5_0",
				.qpn = qpn,
				.status = status,
				.vendor_err = 0x81,
				.is_flush = status == IBV_WC_WR_FLUSH_ERR,
				.epoch = epoch,
				.opcode = STATS_OPCODE_UNKNOWN,
				.queue = STATS_QUEUE_SEND,
				.fate = fate};

	stats_wc_error(&e, now_ns);
}

static void connect_qp(uint32_t qpn, uint64_t now_ns)
{
	struct stats_peer peer = {.peer_gid = gid, .peer_qpn = qpn + 1};

	stats_qp_state("mlx5_0", qpn, IBV_QPS_INIT, NULL, now_ns);
	stats_qp_state("mlx5_0", qpn, IBV_QPS_RTR, &peer, now_ns + 1);
	stats_qp_state("mlx5_0", qpn, IBV_QPS_RTS, NULL, now_ns + 2);
}

/* --- lives ------------------------------------------------------------------------------------ */

static void a_life_from_its_beginning_to_its_end(void **state)
{
	static const uint32_t what[] = {STATS_QP_CREATED, IBV_QPS_INIT, IBV_QPS_RTR,
					IBV_QPS_RTS,	  IBV_QPS_ERR,	STATS_QP_DESTROYED};
	struct stats_copy copy;
	uint64_t number;

	(void)state;
	stats_qp_created("mlx5_0", 17, -1, STATS_UNPROTECTED_NOT_RC, 100);
	connect_qp(17, 200);
	stats_qp_state("mlx5_0", 17, IBV_QPS_ERR, NULL, 300);
	number = stats_qp_number("mlx5_0", 17);
	assert_true(number);
	stats_qp_destroyed("mlx5_0", 17, number, 400);
	assert_int_equal(stats_qp_number("mlx5_0", 17), 0);
	copy = copy_now();
	assert_int_equal(copy.lives.count, 6);
	for (size_t i = 0; i < 6; i++) {
		const struct stats_note *n = copy.lives.note + i;

		assert_int_equal(n->what, what[i]);
		assert_int_equal(n->from, i < 2 ? i ? 0 : STATS_QP_CREATED : what[i - 1]);
		assert_int_equal(n->qp, number);
		assert_int_equal(n->qpn, 17);
		assert_string_equal(n->nic, "mlx5_0");
		assert_int_equal(n->peer_qpn, i < 2 ? 0 : 18);
		assert_int_equal(n->unprotected, STATS_UNPROTECTED_NOT_RC);
		assert_false(n->is_protected);
	}
	assert_memory_equal(copy.lives.note[2].peer_gid, gid, 16);
	stats_free(&copy);
}

/* All QPs of a process have numbers of one kind. */
static void numbers_are_those_of_connections(void **state)
{
	struct world_conn c = world_conn(17);
	uint64_t other;

	(void)state;
	stats_qp_created("mlx5_0", 17, c.slot, STATS_UNPROTECTED_NONE, 100);
	stats_qp_created("mlx5_0", 18, -1, STATS_UNPROTECTED_NOT_RC, 100);
	stats_qp_created("mlx5_1", 18, -1, STATS_UNPROTECTED_NOT_RC, 100);
	assert_int_equal(stats_qp_number("mlx5_0", 17), stats_file.conns[c.slot].id);
	other = stats_qp_number("mlx5_0", 18);
	assert_true(other && other != stats_qp_number("mlx5_0", 17));
	assert_true(stats_qp_number("mlx5_1", 18) != other);
	assert_int_equal(stats_qp_number("mlx5_1", 17), 0);
	assert_true(stats_file.conns[world_conn(19).slot].id > other);
}

/* The thread that has destroyed the old one comes late. */
static void a_number_is_used_again_at_once(void **state)
{
	struct stats_copy copy;
	uint64_t old, new;

	(void)state;
	stats_qp_created("mlx5_0", 17, -1, STATS_UNPROTECTED_NOT_RC, 100);
	old = stats_qp_number("mlx5_0", 17);
	stats_qp_created("mlx5_0", 17, -1, STATS_UNPROTECTED_NOT_RC, 200);
	new = stats_qp_number("mlx5_0", 17);
	assert_true(new > old);
	stats_qp_destroyed("mlx5_0", 17, old, 201);
	assert_int_equal(stats_qp_number("mlx5_0", 17), new);
	copy = copy_now();
	assert_int_equal(copy.lives.count, 3);
	assert_int_equal(copy.lives.note[1].what, STATS_QP_DESTROYED);
	assert_int_equal(copy.lives.note[1].qp, old);
	assert_int_equal(copy.lives.note[2].qp, new);
	stats_free(&copy);
}

/* More than buckets; some share one. */
static void many_queue_pairs(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= 3000; i++)
		stats_qp_created("mlx5_0", i, -1, STATS_UNPROTECTED_SRQ, i);
	for (uint32_t i = 1; i <= 3000; i += 2)
		stats_qp_destroyed("mlx5_0", i, stats_qp_number("mlx5_0", i), i);
	for (uint32_t i = 1; i <= 3000; i++)
		assert_int_equal(stats_qp_number("mlx5_0", i), i % 2 ? 0 : i);
}

static void a_reset_begins_another_life(void **state)
{
	struct stats_copy copy;

	(void)state;
	stats_qp_created("mlx5_0", 17, -1, STATS_UNPROTECTED_NOT_RC, 100);
	connect_qp(17, 200);
	error_at(17, IBV_WC_WR_FLUSH_ERR, STATS_FATE_GIVEN, 0, 300);
	stats_qp_state("mlx5_0", 17, IBV_QPS_RESET, NULL, 301);
	error_at(17, IBV_WC_WR_FLUSH_ERR, STATS_FATE_GIVEN, 0, 302);
	copy = copy_now();
	assert_int_equal(copy.errors.count, 2);
	assert_int_equal(copy.errors.note[0].peer_qpn, 18);
	assert_int_equal(copy.errors.note[1].peer_qpn, 0);
	assert_int_equal(copy.errors.note[1].peer_gid[15], 0);
	stats_free(&copy);
}

/* --- error completions ------------------------------------------------------------------------ */

static void what_follows_an_error_is_counted(void **state)
{
	struct world_conn c = world_conn(17);
	struct stats_copy copy;
	const struct stats_note *n;

	(void)state;
	stats_qp_created("mlx5_0", 17, c.slot, STATS_UNPROTECTED_NONE, 100);
	connect_qp(17, 200);
	error_at(17, IBV_WC_RETRY_EXC_ERR, STATS_FATE_HIDDEN, 3, S);
	error_at(17, IBV_WC_RETRY_EXC_ERR, STATS_FATE_HIDDEN, 3, S + 1);
	for (uint64_t i = 0; i < 5000; i++)
		error_at(17, IBV_WC_WR_FLUSH_ERR, STATS_FATE_HIDDEN, 3, S + 2 + i);
	copy = copy_now();
	assert_int_equal(copy.errors.count, 1);
	n = copy.errors.note;
	assert_int_equal(n->what, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(n->vendor_err, 0x81);
	assert_int_equal(n->more, 1);
	assert_int_equal(n->flushed, 5000);
	assert_int_equal(n->time_ns, S);
	assert_int_equal(n->last_ns, S + 5001);
	assert_int_equal(n->epoch, 3);
	assert_int_equal(n->queue, STATS_QUEUE_SEND);
	assert_int_equal(n->peer_qpn, 18);
	assert_true(n->is_protected);
	assert_int_equal(copy.h.now.errors[STATS_FATE_HIDDEN], 5002);
	assert_int_equal(copy.h.now.flushes[STATS_FATE_HIDDEN], 5000);
	assert_int_equal(copy.h.now.errors[STATS_FATE_GIVEN], 0);
	assert_int_equal(copy.h.now.errors_unprotected, 0);
	stats_free(&copy);
}

static void another_run_has_a_note_of_its_own(void **state)
{
	static const struct {
		uint32_t qpn, status;
		enum stats_fate fate;
		uint32_t epoch;
		uint64_t now_ns;
	} e[] = {
		{17, IBV_WC_WR_FLUSH_ERR, STATS_FATE_HIDDEN, 1, S},
		/* A cause behind it is not its kind. */
		{17, IBV_WC_RETRY_EXC_ERR, STATS_FATE_HIDDEN, 1, S},
		{17, IBV_WC_RNR_RETRY_EXC_ERR, STATS_FATE_HIDDEN, 1, S},
		{17, IBV_WC_RNR_RETRY_EXC_ERR, STATS_FATE_GIVEN, 1, S},
		{18, IBV_WC_RNR_RETRY_EXC_ERR, STATS_FATE_GIVEN, 1, S},
		{17, IBV_WC_WR_FLUSH_ERR, STATS_FATE_GIVEN, 2, S},
		{17, IBV_WC_WR_FLUSH_ERR, STATS_FATE_GIVEN, 2, 2 * S + 1},
		/* A QP that is not known: each. */
		{99, IBV_WC_WR_FLUSH_ERR, STATS_FATE_GIVEN, 2, 2 * S + 1},
		{99, IBV_WC_WR_FLUSH_ERR, STATS_FATE_GIVEN, 2, 2 * S + 1},
	};
	const size_t count = sizeof(e) / sizeof(*e);
	struct stats_copy copy;

	(void)state;
	stats_qp_created("mlx5_0", 17, -1, STATS_UNPROTECTED_NOT_RC, 100);
	stats_qp_created("mlx5_0", 18, -1, STATS_UNPROTECTED_NOT_RC, 100);
	for (size_t i = 0; i < count; i++)
		error_at(e[i].qpn, e[i].status, e[i].fate, e[i].epoch, e[i].now_ns);
	/* A second is no gap. */
	error_at(17, IBV_WC_WR_FLUSH_ERR, STATS_FATE_GIVEN, 2, 3 * S + 1);
	copy = copy_now();
	assert_int_equal(copy.errors.count, count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(copy.errors.note[i].what, e[i].status);
		assert_int_equal(copy.errors.note[i].qpn, e[i].qpn);
		assert_int_equal(copy.errors.note[i].flushed, i == 6);
	}
	assert_int_equal(copy.errors.note[7].qp, 0);
	assert_int_equal(copy.h.now.errors_unprotected, count + 1);
	stats_free(&copy);
}

/* A storm over many QPs: how many are lost is told, and the other rings keep what they have. */
static void a_storm_pushes_out_only_its_kind(void **state)
{
	struct world_conn c = world_conn(1);
	struct stats_copy copy;

	(void)state;
	world_move(&c, SHIFT_R_LINK_DOWN, 1, 1000);
	for (uint32_t i = 1; i <= 500; i++)
		stats_qp_created("mlx5_0", i, -1, STATS_UNPROTECTED_SRQ, i);
	stats_async_event(&(struct stats_async){.nic = "mlx5_0",
						.event = IBV_EVENT_PORT_ERR,
						.port = 1,
						.fate = STATS_FATE_WATCHED},
			  1000);
	for (uint64_t i = 0; i < 3 * STATS_ERRORS; i++)
		error_at((uint32_t)(i % 500) + 1, IBV_WC_RETRY_EXC_ERR, STATS_FATE_GIVEN, 0,
			 2 * S * i);
	copy = copy_now();
	assert_int_equal(copy.errors.written, 3 * STATS_ERRORS);
	assert_int_equal(copy.errors.count, STATS_ERRORS - 1);
	assert_int_equal(copy.errors.note[STATS_ERRORS - 2].seq, 3 * STATS_ERRORS);
	assert_int_equal(copy.event_count, 5);
	assert_int_equal(copy.switch_count, 1);
	assert_int_equal(copy.lives.count, 500);
	assert_int_equal(copy.asyncs.count, 1);
	assert_int_equal(copy.asyncs.note->what, IBV_EVENT_PORT_ERR);
	assert_int_equal(copy.asyncs.note->port, 1);
	assert_int_equal(copy.h.now.asyncs[STATS_FATE_WATCHED], 1);
	assert_true(stats_copy_bytes(&copy) > (STATS_ERRORS + 500) * sizeof(struct stats_note));
	stats_free(&copy);
}

/* The note that a run counts in was overwritten: what is counted goes to no other's. */
static void a_run_whose_note_is_gone(void **state)
{
	struct stats_copy copy;

	(void)state;
	for (uint32_t i = 1; i <= STATS_ERRORS + 1; i++)
		stats_qp_created("mlx5_0", i, -1, STATS_UNPROTECTED_SRQ, i);
	for (uint32_t i = 1; i <= STATS_ERRORS + 1; i++)
		error_at(i, IBV_WC_RETRY_EXC_ERR, STATS_FATE_GIVEN, 0, S);
	error_at(1, IBV_WC_WR_FLUSH_ERR, STATS_FATE_GIVEN, 0, S);
	copy = copy_now();
	assert_int_equal(copy.errors.written, STATS_ERRORS + 2);
	for (size_t i = 0; i < copy.errors.count; i++)
		assert_int_equal(copy.errors.note[i].flushed, 0);
	stats_free(&copy);
}

static void a_connection_that_is_gone_has_no_protection(void **state)
{
	struct world_conn c = world_conn(17);
	struct stats_copy copy;

	(void)state;
	stats_qp_created("mlx5_0", 17, c.slot, STATS_UNPROTECTED_NONE, 100);
	stats_conn_protect(c.slot, false, STATS_UNPROTECTED_OVER);
	error_at(17, IBV_WC_RETRY_EXC_ERR, STATS_FATE_MADE, 0, S);
	stats_conn_remove(c.slot, S);
	world_conn(18); /* in its slot */
	error_at(17, IBV_WC_RETRY_EXC_ERR, STATS_FATE_GIVEN, 0, S);
	copy = copy_now();
	assert_int_equal(copy.errors.count, 2);
	assert_int_equal(copy.errors.note[0].unprotected, STATS_UNPROTECTED_OVER);
	assert_false(copy.errors.note[1].is_protected);
	assert_null(stats_conn_of(&copy, copy.errors.note + 1));
	stats_free(&copy);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void what_is_read_is_made_safe(void **state)
{
	struct stats_note *n = stats_file.notes[STATS_NOTE_ERROR];
	struct stats_table *t = &stats_file.h->table[TABLE_NOTES];
	struct stats_copy copy;

	(void)state;
	error_at(17, 9999, STATS_FATE_GIVEN, 0, S);
	memset(n->nic, 'x', sizeof(n->nic));
	n->rail = n->fate = n->queue = n->unprotected = 0xff;
	copy = copy_now();
	assert_int_equal(copy.errors.count, 1);
	assert_int_equal(strlen(copy.errors.note->nic), STATS_NIC_BYTES - 1);
	assert_true(copy.errors.note->rail < SHIFT_RAILS_MAX);
	assert_true(copy.errors.note->fate < STATS_FATE_COUNT);
	assert_string_equal(stats_status_name(copy.errors.note->what), "?");
	stats_free(&copy);
	t->entries = STATS_ERRORS + 1;
	assert_int_equal(stats_read(stats_path(), &copy), -EBADMSG);
	t->entries = STATS_ERRORS;
	t->entry_bytes -= 8;
	assert_int_equal(stats_read(stats_path(), &copy), -EBADMSG);
	t->entry_bytes += 8;
	t->kind = 99;
	assert_int_equal(stats_read(stats_path(), &copy), -EBADMSG);
	t->kind = STATS_TABLE_ERRORS;
	stats_file.h->shape.fates++;
	assert_int_equal(stats_read(stats_path(), &copy), -EPROTONOSUPPORT);
	stats_file.h->shape.fates--;
}

static bool stop;

static void *storm(void *arg)
{
	(void)arg;
	for (uint64_t i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		error_at(17, i % 4 ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR, i / 64 % 2,
			 (uint32_t)(i / 8), S);
		if (i % 50 == 0)
			stats_qp_state("mlx5_0", 17, i / 50 % 2 ? IBV_QPS_ERR : IBV_QPS_RESET, NULL,
				       i);
	}
	return NULL;
}

/* Of each note the status and the queue are those that were written with it. */
static void notes_are_consistent_while_they_are_written(void **state)
{
	uint64_t written = 0;
	pthread_t thread;
	bool ok = true;

	(void)state;
	stats_qp_created("mlx5_0", 17, -1, STATS_UNPROTECTED_NOT_RC, 100);
	stop = false;
	assert_int_equal(pthread_create(&thread, NULL, storm, NULL), 0);
	for (int i = 0; i < 300 && ok; i++) {
		struct stats_copy copy = copy_now();

		for (size_t k = 0; k < copy.errors.count; k++) {
			const struct stats_note *n = copy.errors.note + k;

			ok &= n->qpn == 17 && n->vendor_err == 0x81 && n->flushed <= 8 &&
			      (!k || n->seq > n[-1].seq) &&
			      (n->what == IBV_WC_RETRY_EXC_ERR || n->what == IBV_WC_WR_FLUSH_ERR);
		}
		ok &= copy.errors.written >= written;
		written = copy.errors.written;
		stats_free(&copy);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	assert_true(ok);
	assert_true(written > 0);
}

static void names_are_those_of_libibverbs(void **state)
{
	(void)state;
	assert_string_equal(stats_status_name(IBV_WC_RETRY_EXC_ERR), "RETRY_EXC_ERR");
	assert_string_equal(stats_status_name(IBV_WC_TM_RNDV_INCOMPLETE), "TM_RNDV_INCOMPLETE");
	assert_string_equal(stats_status_name(IBV_WC_TM_RNDV_INCOMPLETE + 1), "?");
	for (unsigned int i = 0; i <= IBV_WC_TM_RNDV_INCOMPLETE; i++)
		assert_string_not_equal(stats_status_name(i), "?");
	for (unsigned int i = 0; i <= IBV_EVENT_WQ_FATAL; i++)
		assert_string_not_equal(stats_async_name(i), "?");
	assert_string_equal(stats_async_name(IBV_EVENT_PORT_ERR), "PORT_ERR");
	for (unsigned int i = 0; i <= IBV_QPS_ERR; i++)
		assert_string_not_equal(stats_qp_state_name(i), "?");
	assert_string_equal(stats_qp_state_name(STATS_QP_DESTROYED), "destroyed");
	assert_string_equal(stats_qp_state_name(STATS_QP_DESTROYED + 1), "?");
	assert_string_equal(stats_qp_state_name(20), "?");
	assert_string_equal(stats_opcode_name(IBV_WC_RECV), "RECV");
	assert_string_equal(stats_opcode_name(STATS_OPCODE_UNKNOWN), "?");
	assert_string_equal(stats_queue_name(STATS_QUEUE_UNKNOWN), "?");
}

/* --- JSON ------------------------------------------------------------------------------------- */

static const char *text_of(const cJSON *o, const char *key)
{
	return cJSON_GetStringValue(cJSON_GetObjectItem(o, key));
}

static void json_of_a_process(void **state)
{
	struct world_conn c = world_conn(17);
	struct stats_peer peer = {.peer_qpn = 18, .peer_gid = gid, .peer_host = "node2"};
	struct stats_copy copy;
	const cJSON *list, *n;
	cJSON *o;

	(void)state;
	stats_conn_peer(c.slot, &peer);
	stats_qp_created("mlx5_0", 17, c.slot, STATS_UNPROTECTED_NONE, 100);
	connect_qp(17, 200);
	error_at(17, IBV_WC_RETRY_EXC_ERR, STATS_FATE_HIDDEN, 3, S);
	error_at(17, IBV_WC_WR_FLUSH_ERR, STATS_FATE_HIDDEN, 3, S + 5000);
	copy = copy_now();
	o = stats_json_process(&copy);
	stats_json_add_notes(o, &copy);
	list = cJSON_GetObjectItem(o, "error_completions");
	assert_int_equal(cJSON_GetArraySize(list), 1);
	n = cJSON_GetArrayItem(list, 0);
	assert_string_equal(text_of(n, "status"), "RETRY_EXC_ERR");
	assert_string_equal(text_of(n, "fate"), "hidden");
	assert_string_equal(text_of(n, "queue"), "send");
	assert_true(cJSON_IsNull(cJSON_GetObjectItem(n, "opcode")));
	assert_true(cJSON_IsTrue(cJSON_GetObjectItem(n, "protected")));
	assert_string_equal(text_of(cJSON_GetObjectItem(n, "peer"), "host"), "node2");
	assert_int_equal(cJSON_GetObjectItem(n, "flushed")->valueint, 1);
	assert_int_equal(cJSON_GetObjectItem(n, "lasted_us")->valueint, 5);
	assert_int_equal(cJSON_GetObjectItem(o, "error_completions_lost")->valueint, 0);
	list = cJSON_GetObjectItem(o, "queue_pairs");
	assert_int_equal(cJSON_GetArraySize(list), 4);
	assert_string_equal(text_of(cJSON_GetArrayItem(list, 2), "state"), "RTR");
	n = cJSON_GetObjectItem(cJSON_GetObjectItem(o, "totals"), "error_completions");
	assert_int_equal(cJSON_GetObjectItem(n, "hidden")->valueint, 2);
	assert_int_equal(cJSON_GetObjectItem(n, "flushes")->valueint, 1);
	assert_int_equal(cJSON_GetObjectItem(n, "unprotected")->valueint, 0);
	cJSON_Delete(o);
	stats_free(&copy);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, world_end)
	const struct CMUnitTest tests[] = {
		TEST(a_life_from_its_beginning_to_its_end),
		TEST(numbers_are_those_of_connections),
		TEST(a_number_is_used_again_at_once),
		TEST(many_queue_pairs),
		TEST(a_reset_begins_another_life),
		TEST(what_follows_an_error_is_counted),
		TEST(another_run_has_a_note_of_its_own),
		TEST(a_storm_pushes_out_only_its_kind),
		TEST(a_run_whose_note_is_gone),
		TEST(a_connection_that_is_gone_has_no_protection),
		TEST(what_is_read_is_made_safe),
		TEST(notes_are_consistent_while_they_are_written),
		cmocka_unit_test(names_are_those_of_libibverbs),
		TEST(json_of_a_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
