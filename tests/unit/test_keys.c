// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The peer's keys and what it was told of ours: two ends, and a network that may lose and delay. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/log.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/exported_keys.h"
#include "lib/conn/key_reuse.h"
#include "lib/conn/peer_keys.h"

enum { ASKER, OWNER, ENDS, RAIL = 1, EPOCH = 3, RKEY = 0x100, OTHER = 0x200, QUEUE = 64 };

static struct nic nic[2];
static struct vdev dev;
static struct vqp v[ENDS];
static struct peer_path path[ENDS];
static struct ibv_qp qp;
static struct {
	struct shift_msg m;
	int to;
} queue[QUEUE];
static unsigned int queued, lost;
static uint32_t twin_of_rkey; /* 0: no such MR */
static int try_later;
static uint64_t now;
static bool deliver_in_time;
static unsigned int warnings;

/* --- the rest of the library ----------------------------------------------------------------- */

static void deliver(void);

uint64_t now_ns(void)
{
	now += 1000000;
	if (deliver_in_time)
		deliver();
	return now;
}

void log_at(enum log_level level, const char *format, ...)
{
	(void)format;
	warnings += level == LOG_WARN;
}

void vqp_each(void (*fn)(struct vqp *, void *), void *arg)
{
	fn(v + OWNER, arg);
}

void vqp_enter(struct vqp *q)
{
	(void)q;
}

void vqp_leave(struct vqp *q)
{
	(void)q;
}

int vmr_rkey(struct vpd *pd, struct nic *n, uint32_t rkey, uint32_t *twin)
{
	(void)pd;
	assert_ptr_equal(n, nic + RAIL);
	if (try_later || rkey != RKEY || !twin_of_rkey)
		return try_later ? -EAGAIN : -ENOENT;
	*twin = twin_of_rkey;
	return 0;
}

void ctrl_link_send(struct ctrl_link_peer *link, const struct shift_msg *m)
{
	if (lost) {
		lost--;
		return;
	}
	assert_true(queued < QUEUE);
	queue[queued].m = *m;
	queue[queued++].to = link == (void *)(v + ASKER) ? OWNER : ASKER;
}

static void take(const struct shift_msg *m, int to)
{
	if (m->type == SHIFT_MSG_KEY_ASK)
		exported_keys_asked(v + to, m);
	else if (m->type == SHIFT_MSG_KEY_FORGOT)
		exported_keys_forgotten(v + to, m);
	else
		peer_keys_message(v + to, m);
}

static void deliver(void)
{
	while (queued) {
		struct shift_msg m = queue[0].m;
		int to = queue[0].to;

		memmove(queue, queue + 1, sizeof(queue) - sizeof(queue[0]));
		queued--;
		take(&m, to);
	}
}

/* --- the tests ------------------------------------------------------------------------------- */

static int begin(void **state)
{
	(void)state;
	dev = (struct vdev){.rails = 2, .nic = {nic, nic + 1}};
	memset(v, 0, sizeof(v));
	for (int i = 0; i < ENDS; i++) {
		v[i].dev = &dev;
		v[i].qp = &qp;
		v[i].keys.peer = peer_keys_new();
		path[i].link = (void *)(v + i);
		v[i].rails.twin[RAIL].path = path + i;
		peer_keys_reset(v[i].keys.peer, EPOCH, RAIL);
		exported_keys_reset(&v[i].keys.exported, EPOCH, RAIL);
	}
	twin_of_rkey = 0x1111;
	queued = lost = warnings = 0;
	try_later = 0;
	deliver_in_time = false;
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < ENDS; i++) {
		peer_keys_free(v[i].keys.peer);
		exported_keys_free(&v[i].keys.exported);
	}
	return 0;
}

static uint32_t known(void)
{
	uint32_t twin = 0;
	int err = peer_keys_get(v + ASKER, RKEY, &twin);

	assert_true(err == 0 || err == -EAGAIN || err == -ENOENT);
	return twin;
}

static void learn(void)
{
	known();
	deliver();
	assert_int_equal(known(), twin_of_rkey);
}

static void pass(unsigned int ms)
{
	now += ms * 1000000ull;
	peer_keys_tick(v + ASKER, now);
	exported_keys_tick(v + OWNER, now);
}

static void a_key_is_asked_for_once_and_kept(void **state)
{
	(void)state;
	learn();
	assert_int_equal(known(), 0x1111);
	assert_int_equal(queued, 0);
	peer_keys_reset(v[ASKER].keys.peer, EPOCH + 2, RAIL);
	assert_int_equal(known(), 0);
}

static void questions_are_asked_again(void **state)
{
	(void)state;
	lost = 1;
	known();
	pass(30);
	lost = 1; /* the answer */
	deliver();
	pass(30);
	deliver();
	assert_int_equal(known(), 0x1111);
	assert_int_equal(peer_keys_deadline(v[ASKER].keys.peer) < UINT64_MAX, 1);
	pass(30);
	assert_int_equal(queued, 0);
	assert_true(peer_keys_deadline(v[ASKER].keys.peer) == UINT64_MAX);
}

static void what_is_not_there_yet_is_not_answered(void **state)
{
	(void)state;
	try_later = 1;
	known();
	deliver();
	assert_int_equal(v[OWNER].keys.exported.n, 0);
	try_later = 0;
	pass(30);
	deliver();
	assert_int_equal(known(), 0x1111);
}

static void an_unknown_key_is_said_to_be_unknown(void **state)
{
	uint32_t twin;

	(void)state;
	twin_of_rkey = 0;
	known();
	deliver();
	assert_int_equal(peer_keys_get(v + ASKER, RKEY, &twin), -ENOENT);
	assert_int_equal(v[OWNER].keys.exported.n, 0);
}

static void questions_of_another_epoch_or_rail_are_not_answered(void **state)
{
	struct shift_msg m = {
		.type = SHIFT_MSG_KEY_ASK, .rail = RAIL, .epoch = EPOCH - 1, .rkey = RKEY};

	(void)state;
	exported_keys_asked(v + OWNER, &m);
	m.epoch = EPOCH;
	m.rail = 0;
	exported_keys_asked(v + OWNER, &m);
	m.rail = RAIL + 1;
	exported_keys_asked(v + OWNER, &m);
	assert_int_equal(queued, 0);
}

/* The value of the key comes back with other memory behind it. */
static void a_key_that_is_gone_is_forgotten(void **state)
{
	(void)state;
	learn();
	key_gone(nic, RKEY);
	twin_of_rkey = 0x2222;
	assert_int_equal(known(), 0x1111); /* the word is under way */
	deliver_in_time = true;
	key_reuse_wait(nic, RKEY);
	assert_int_equal(warnings, 0);
	deliver_in_time = false;
	assert_int_equal(known(), 0);
	deliver();
	assert_int_equal(known(), 0x2222);
}

static void the_word_that_it_is_gone_is_said_again(void **state)
{
	(void)state;
	learn();
	lost = 2;
	key_gone(nic, RKEY);
	pass(30);
	assert_int_equal(queued, 0);
	assert_int_equal(known(), 0x1111);
	pass(30);
	lost = 1; /* KEY_FORGOT */
	deliver();
	pass(30);
	deliver();
	assert_int_equal(v[OWNER].keys.exported.n, 0);
	pass(30);
	assert_true(exported_keys_deadline(&v[OWNER].keys.exported) == UINT64_MAX);
}

/* An answer from before, that comes after the word that the key is gone. */
static void a_late_answer_is_not_believed(void **state)
{
	struct shift_msg late;

	(void)state;
	known();
	take(&queue[0].m, OWNER);
	late = queue[1].m;
	assert_int_equal(late.type, SHIFT_MSG_KEY);
	queued = 0;
	key_gone(nic, RKEY);
	deliver();
	twin_of_rkey = 0x2222;
	assert_int_equal(known(), 0); /* asks anew */
	take(&late, ASKER);
	assert_int_equal(known(), 0);
	deliver();
	assert_int_equal(known(), 0x2222);
}

/* A KEY_FORGOT of an earlier use of the same value. */
static void a_late_word_of_forgetting_does_not_count(void **state)
{
	struct shift_msg late;

	(void)state;
	learn();
	key_gone(nic, RKEY);
	take(&queue[0].m, ASKER);
	late = queue[1].m;
	assert_int_equal(late.type, SHIFT_MSG_KEY_FORGOT);
	queued = 0;
	learn(); /* it was handed out again: the wait was over */
	key_gone(nic, RKEY);
	take(&late, OWNER);
	assert_int_equal(v[OWNER].keys.exported.n, 1);
	deliver();
	assert_int_equal(v[OWNER].keys.exported.n, 0);
}

static void nobody_waits_for_ever(void **state)
{
	uint64_t start = now;

	(void)state;
	learn();
	lost = 1000;
	key_gone(nic, RKEY);
	key_reuse_wait(nic, RKEY);
	assert_int_equal(warnings, 1);
	assert_in_range(now - start, 1000000000ull, 1500000000ull);
}

static void nobody_waits_in_vain(void **state)
{
	(void)state;
	learn();
	now = 0;
	key_reuse_wait(nic, RKEY); /* valid */
	key_gone(nic, OTHER);	   /* never told */
	lost = 1000;
	key_gone(nic, RKEY);
	key_reuse_wait(nic, OTHER);
	key_reuse_wait(nic + 1, RKEY); /* of another device */
	v[OWNER].life.dead = true;
	key_reuse_wait(nic, RKEY);
	v[OWNER].life.dead = false;
	exported_keys_reset(&v[OWNER].keys.exported, EPOCH + 2, 0);
	key_reuse_wait(nic, RKEY);
	assert_true(now < 100000000);
	assert_int_equal(warnings, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_key_is_asked_for_once_and_kept),
		TEST(questions_are_asked_again),
		TEST(what_is_not_there_yet_is_not_answered),
		TEST(an_unknown_key_is_said_to_be_unknown),
		TEST(questions_of_another_epoch_or_rail_are_not_answered),
		TEST(a_key_that_is_gone_is_forgotten),
		TEST(the_word_that_it_is_gone_is_said_again),
		TEST(a_late_answer_is_not_believed),
		TEST(a_late_word_of_forgetting_does_not_count),
		TEST(nobody_waits_for_ever),
		TEST(nobody_waits_in_vain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
