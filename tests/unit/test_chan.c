/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The command channel of the testbed: frames over a stream that is cut anywhere. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "testbed/chan.h"
#include "testbed/wire.h"

struct pair {
	struct chan a, b;
};

static int make_pair(void **state)
{
	struct pair *p = malloc(sizeof(*p));
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	chan_init(&p->a, fd[0], fd[0]);
	chan_init(&p->b, fd[1], fd[1]);
	*state = p;
	return 0;
}

static int drop_pair(void **state)
{
	struct pair *p = *state;

	chan_close(&p->a);
	chan_close(&p->b);
	free(p);
	return 0;
}

static void test_frames_arrive_whole_and_in_order(void **state)
{
	struct pair *p = *state;
	const uint8_t *payload;
	struct frame f;

	for (uint32_t i = 0; i < 1000; i++)
		chan_send(&p->a, FRAME_STDOUT, i, &i, sizeof(i));
	assert_int_equal(chan_flush(&p->a), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		assert_int_equal(chan_wait(&p->b, &f, &payload, 1000), 0);
		assert_int_equal(f.stream, i);
		assert_int_equal(f.type, FRAME_STDOUT);
		assert_memory_equal(payload, &i, sizeof(i));
	}
	assert_int_equal(chan_wait(&p->b, &f, &payload, 0), -ETIMEDOUT);
}

static void test_a_frame_cut_anywhere_waits_for_its_rest(void **state)
{
	struct pair *p = *state;
	const struct frame sent = {.bytes = 5, .stream = 7, .type = FRAME_STDERR};
	uint8_t wire[sizeof(sent) + 5];
	const uint8_t *payload;
	struct frame f;

	memcpy(wire, &sent, sizeof(sent));
	memcpy(wire + sizeof(sent), "hello", 5);
	for (size_t cut = 1; cut < sizeof(wire); cut++) {
		assert_int_equal(write(p->a.wfd, wire, cut), cut);
		assert_int_equal(chan_fill(&p->b), 0);
		assert_int_equal(chan_next(&p->b, &f, &payload), 0);
		assert_int_equal(write(p->a.wfd, wire + cut, sizeof(wire) - cut),
				 sizeof(wire) - cut);
		assert_int_equal(chan_fill(&p->b), 0);
		assert_int_equal(chan_next(&p->b, &f, &payload), 1);
		assert_int_equal(f.stream, 7);
		assert_memory_equal(payload, "hello", 5);
	}
}

static void test_what_is_no_frame_is_refused(void **state)
{
	struct pair *p = *state;
	const struct frame too_long = {.bytes = FRAME_MAX_BYTES + 1, .type = FRAME_STDIN};
	const uint8_t *payload;
	struct frame f;

	assert_int_equal(write(p->a.wfd, &too_long, sizeof(too_long)), sizeof(too_long));
	assert_int_equal(chan_wait(&p->b, &f, &payload, 1000), -EPROTO);
}

static void test_the_longest_frame_passes(void **state)
{
	struct pair *p = *state;
	uint8_t *data = malloc(FRAME_MAX_BYTES);
	const uint8_t *payload;
	struct frame f;
	int got = 0;

	for (int i = 0; i < FRAME_MAX_BYTES; i++)
		data[i] = i * 31;
	chan_send(&p->a, FRAME_OPEN, 1, data, FRAME_MAX_BYTES);
	/* More than a socket holds: both ends have to move. */
	while (!got) {
		assert_int_equal(chan_flush(&p->a), 0);
		assert_int_equal(chan_fill(&p->b), 0);
		got = chan_next(&p->b, &f, &payload);
	}
	assert_int_equal(got, 1);
	assert_memory_equal(payload, data, FRAME_MAX_BYTES);
	free(data);
}

static void test_the_end_is_seen(void **state)
{
	struct pair *p = *state;
	const uint8_t *payload;
	struct frame f;

	chan_send(&p->a, FRAME_READY, 0, "x", 1);
	chan_flush(&p->a);
	chan_close(&p->a);
	assert_int_equal(chan_wait(&p->b, &f, &payload, 1000), 0);
	assert_int_equal(chan_wait(&p->b, &f, &payload, 1000), -EPIPE);
}

static void test_strings_end_where_they_end(void **state)
{
	struct buf b = {0};
	const uint8_t *at, *end;

	(void)state;
	strings_put(&b, "one");
	strings_put(&b, "");
	buf_append(&b, "cut", 3); /* not terminated */
	at = b.data + b.start;
	end = at + buf_bytes(&b);
	assert_string_equal(strings_next(&at, end), "one");
	assert_string_equal(strings_next(&at, end), "");
	assert_null(strings_next(&at, end));
	buf_free(&b);
}

#define T(name) cmocka_unit_test_setup_teardown(name, make_pair, drop_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_frames_arrive_whole_and_in_order),
		T(test_a_frame_cut_anywhere_waits_for_its_rest),
		T(test_what_is_no_frame_is_refused),
		T(test_the_longest_frame_passes),
		T(test_the_end_is_seen),
		cmocka_unit_test(test_strings_end_where_they_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
