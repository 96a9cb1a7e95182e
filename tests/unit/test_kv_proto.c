/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The protocol of shift-kvd: there and back, cut anywhere, and what is no frame. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "kv/proto.h"

static const uint8_t value[] = {0, 255, 'v', 0, 10};

static const struct kv_msg messages[] = {
	{.type = KV_HELLO,
	 .version = KV_VERSION,
	 .job = {"job-1", 5},
	 .nonce = 0x1122334455667788,
	 .pid = 4711},
	{.type = KV_WELCOME,
	 .version = 65535,
	 .lease = KV_LEASE_HELD,
	 .job_key = "0123456789abcde"},
	{.type = KV_PUT, .key = {"conn/1", 6}, .value = {value, sizeof(value)}},
	{.type = KV_PUT, .key = {"k", 1}},
	{.type = KV_GET, .key = {"conn/1", 6}},
	{.type = KV_WATCH, .key = {"conn/", 5}},
	{.type = KV_WATCH},
	{.type = KV_EVENT, .event = KV_EVENT_PUT, .key = {"a", 1}, .value = {"xyz", 3}},
	{.type = KV_EVENT, .event = KV_EVENT_DELETE, .key = {"a", 1}},
	{.type = KV_EVENT, .event = KV_EVENT_SYNCED},
	{.type = KV_DELETE, .key = {"conn/1", 6}},
	{.type = KV_PEER_DIED, .nonce = UINT64_MAX},
	{.type = KV_STATUS, .text = {"{}", 2}},
	{.type = KV_STATUS},
	{.type = KV_ERROR, .code = KV_ERROR_FULL, .text = {"no room", 7}},
	{.type = KV_BYE},
	{.type = KV_HOLD},
	{.type = KV_UNGET, .key = {"conn/1", 6}},
};

enum { MESSAGES = sizeof(messages) / sizeof(*messages) };

static void assert_same_bytes(const struct kv_bytes *a, const struct kv_bytes *b)
{
	assert_int_equal(a->bytes, b->bytes);
	if (a->bytes)
		assert_memory_equal(a->data, b->data, a->bytes);
}

static void assert_same(const struct kv_msg *a, const struct kv_msg *b)
{
	assert_int_equal(a->type, b->type);
	assert_int_equal(a->version, b->version);
	assert_int_equal(a->code, b->code);
	assert_int_equal(a->event, b->event);
	assert_int_equal(a->lease, b->lease);
	assert_int_equal(a->pid, b->pid);
	assert_true(a->nonce == b->nonce);
	assert_memory_equal(a->job_key, b->job_key, sizeof(a->job_key));
	assert_same_bytes(&a->job, &b->job);
	assert_same_bytes(&a->key, &b->key);
	assert_same_bytes(&a->value, &b->value);
	assert_same_bytes(&a->text, &b->text);
}

/* A copy of exactly that size, so that AddressSanitizer sees a read behind it. */
static uint8_t *copy_of(const uint8_t *data, size_t bytes)
{
	uint8_t *copy = malloc(bytes ? bytes : 1);

	memcpy(copy, data, bytes);
	return copy;
}

static void test_there_and_back(void **state)
{
	uint8_t out[256], *in;
	struct kv_msg m;

	(void)state;
	for (int i = 0; i < MESSAGES; i++) {
		int n = kv_encode(&messages[i], out, sizeof(out));

		assert_true(n >= 5);
		in = copy_of(out, n);
		assert_int_equal(kv_decode(in, n, &m), n);
		assert_same(&messages[i], &m);
		free(in);
	}
}

static void test_cut_at_each_byte(void **state)
{
	uint8_t out[256], *in;
	struct kv_msg m;

	(void)state;
	for (int i = 0; i < MESSAGES; i++) {
		int n = kv_encode(&messages[i], out, sizeof(out));

		for (int cut = 0; cut < n; cut++) {
			in = copy_of(out, cut);
			assert_int_equal(kv_decode(in, cut, &m), 0);
			free(in);
			assert_int_equal(kv_encode(&messages[i], out, cut), -EMSGSIZE);
		}
		assert_int_equal(kv_encode(&messages[i], out, n), n);
	}
}

/* The length says that it ends there, the fields say otherwise. */
static void test_shortened_and_lengthened_frames_are_refused(void **state)
{
	uint8_t out[256], *in;
	struct kv_msg m;

	(void)state;
	for (int i = 0; i < MESSAGES; i++) {
		int n = kv_encode(&messages[i], out, sizeof(out) - 1);

		for (int rest = 0; rest < n - 4; rest++) {
			in = copy_of(out, n);
			in[0] = rest;
			assert_int_equal(kv_decode(in, n, &m), -EPROTO);
			free(in);
		}
		out[0]++;
		out[n] = 'x';
		assert_int_equal(kv_decode(out, n + 1, &m), -EPROTO);
	}
}

static void test_bounds(void **state)
{
	static uint8_t out[KV_FRAME_MAX], big[KV_TEXT_MAX + 1];
	struct kv_msg m = {.type = KV_PUT, .key = {big, KV_KEY_MAX}, .value = {big, KV_VALUE_MAX}};

	(void)state;
	memset(big, 'x', sizeof(big));
	assert_int_equal(kv_encode(&m, out, sizeof(out)), 5 + 2 + KV_KEY_MAX + 2 + KV_VALUE_MAX);
	m.key.bytes++;
	assert_int_equal(kv_encode(&m, out, sizeof(out)), -EINVAL);
	m.key.bytes = 0;
	assert_int_equal(kv_encode(&m, out, sizeof(out)), -EINVAL);
	m.key.bytes = 1;
	m.value.bytes++;
	assert_int_equal(kv_encode(&m, out, sizeof(out)), -EINVAL);
	m = (struct kv_msg){.type = KV_STATUS, .text = {big, KV_TEXT_MAX}};
	assert_true(kv_encode(&m, out, sizeof(out)) > 0);
	m.text.bytes++;
	assert_int_equal(kv_encode(&m, out, sizeof(out)), -EINVAL);
	m = (struct kv_msg){.type = KV_HELLO, .job = {big, KV_JOB_MAX + 1}, .nonce = 1};
	assert_int_equal(kv_encode(&m, out, sizeof(out)), -EINVAL);
	m.job.bytes--;
	assert_true(kv_encode(&m, out, sizeof(out)) > 0);
	m.nonce = 0;
	assert_int_equal(kv_encode(&m, out, sizeof(out)), -EINVAL);
	assert_int_equal(kv_encode(&(struct kv_msg){.type = KV_TYPE_END}, out, 64), -EINVAL);
	assert_int_equal(kv_encode(&(struct kv_msg){0}, out, 64), -EINVAL);
}

static void test_names(void **state)
{
	(void)state;
	assert_true(kv_job_is_valid("a.b-c_1", 7));
	assert_false(kv_job_is_valid("", 0));
	assert_false(kv_job_is_valid(".x", 2));
	assert_false(kv_job_is_valid("-x", 2));
	assert_false(kv_job_is_valid("a/b", 3));
	assert_false(kv_job_is_valid("a\0b", 3));
	assert_true(kv_key_is_valid("conn/fe80::1/17", 15));
	assert_false(kv_key_is_valid("a b", 3));
	assert_false(kv_key_is_valid("a\0b", 3));
	assert_false(kv_key_is_valid("\xc3\xa4", 2));
}

/* Any bytes get an answer, and no read is behind them. SEED in the environment repeats a run. */
static void test_garbage(void **state)
{
	const char *given = getenv("SEED");
	unsigned int seed = given ? strtoul(given, NULL, 0) : (unsigned int)time(NULL);
	uint8_t out[256], *in;
	struct kv_msg m;

	(void)state;
	print_message("seed %u\n", seed);
	srandom(seed);
	for (int i = 0; i < 200000; i++) {
		int n = kv_encode(&messages[random() % MESSAGES], out, sizeof(out)), used;

		for (int k = random() % 4; k >= 0; k--)
			out[random() % n] = random();
		in = copy_of(out, n);
		used = kv_decode(in, n, &m);
		assert_true(used == 0 || used == -EPROTO || (used >= 5 && used <= n));
		if (used > 0)
			assert_int_equal(kv_encode(&m, out, sizeof(out)), used);
		free(in);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_cut_at_each_byte),
		cmocka_unit_test(test_shortened_and_lengthened_frames_are_refused),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_garbage),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
