// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Pulse's parts: Algorithm 1, expected volumes (appendix B), algorithms by active peers, time of
 * sending, parallelism. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/pulse_world.h"

enum { SEQUENCES = 1000, EPOCH = 32000, DELTA = 1000000 };

static uint64_t state = 1;

/* xorshift64* */
static uint64_t draw(uint64_t below)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 2685821657736338717u >> 33) % below;
}

static void seed_it(void)
{
	const char *seed = getenv("SEED");

	state = seed ? strtoull(seed, NULL, 10) : 20261128;
	printf("SEED=%llu\n", (unsigned long long)state);
	fflush(stdout);
}

/* ---- Algorithm 1 ---------------------------------------------------------------------------- */

struct sequence {
	struct pulse_sample *s;
	size_t n;
	uint64_t size[32], start[32], end[32];
	size_t ops;
	uint64_t t;
};

static void send_epoch(struct sequence *q, uint64_t bytes)
{
	q->s[q->n++] = (struct pulse_sample){q->t, bytes, 1};
	q->t += EPOCH;
}

/* Sends at least its size, 0 to 5 % more: headers, synchronization, retransmission. Gaps within are
 * of us; those of more than delta are before the last tenth is sent. */
static void one_operation(struct sequence *q)
{
	uint64_t size = 100000 + draw(20000000), goal = size + size / 20 * draw(101) / 100,
		 sent = 0;

	q->size[q->ops] = size;
	q->start[q->ops] = q->t;
	while (sent < goal) {
		uint64_t bytes = 20000 + draw(800000);

		bytes = bytes < goal - sent ? bytes : goal - sent;
		send_epoch(q, bytes);
		sent += bytes;
		q->end[q->ops] = q->t - EPOCH;
		if (sent < goal && !draw(4))
			q->t += EPOCH * draw(20);
		if (sent < size / 10 * 9 && !draw(20))
			q->t += DELTA + draw(5 * DELTA);
	}
	q->ops++;
	q->t += DELTA + draw(100 * (uint64_t)DELTA);
}

static void segmentation_of_random_sequences(void **unused)
{
	(void)unused;
	seed_it();
	for (int i = 0; i < SEQUENCES; i++) {
		struct sequence q = {.s = calloc(100000, sizeof(*q.s)), .t = DELTA};
		struct pulse_segment *segment;
		size_t n, ops = 1 + draw(30);

		assert_non_null(q.s);
		while (q.ops < ops)
			one_operation(&q);
		n = pulse_segment(q.s, q.n, q.size, q.ops, DELTA, &segment);
		assert_int_equal(n, ops);
		for (size_t k = 0; k < n; k++) {
			assert_int_equal(segment[k].start_ns, q.start[k]);
			assert_int_equal(segment[k].end_ns, q.end[k]);
			assert_true(segment[k].complete);
		}
		free(segment);
		free(q.s);
	}
}

/* Volume without time would end at the first epoch here, time without volume at the gap. */
static void both_conditions_end_an_operation(void **unused)
{
	const struct pulse_sample s[] = {{0, 50, 1},	      {EPOCH, 60, 1},
					 {2 * EPOCH, 10, 1},  {2 * EPOCH + DELTA, 90, 1},
					 {10 * DELTA, 20, 1}, {20 * DELTA, 5, 1}};
	const uint64_t size[] = {100, 100};
	struct pulse_segment *segment;

	(void)unused;
	assert_int_equal(pulse_segment(s, 6, size, 2, DELTA, &segment), 3);
	assert_int_equal(segment[0].bytes, 120);
	assert_int_equal(segment[0].end_ns, 2 * EPOCH);
	assert_int_equal(segment[1].start_ns, 2 * EPOCH + DELTA);
	assert_int_equal(segment[1].bytes, 110);
	assert_true(segment[1].complete);
	assert_int_equal(segment[2].start_ns, 20 * DELTA);
	assert_false(segment[2].complete);
	free(segment);
	assert_int_equal(pulse_segment(s, 0, size, 2, DELTA, &segment), 0);
	free(segment);
}

/* The last one is closed by the end of the records, and has not sent what it should. */
static void the_last_operation_may_be_incomplete(void **unused)
{
	const struct pulse_sample s[] = {{0, 100, 1}, {5 * DELTA, 30, 1}};
	const uint64_t size[] = {100};
	struct pulse_segment *segment;

	(void)unused;
	assert_int_equal(pulse_segment(s, 2, size, 1, DELTA, &segment), 2);
	assert_true(segment[0].complete);
	assert_false(segment[1].complete);
	free(segment);
}

/* ---- algorithms ----------------------------------------------------------------------------- */

static void expected_volume(void **unused)
{
	(void)unused;
	assert_int_equal(pulse_expected_bytes("allreduce", ALGORITHM_RING, 4000, 4), 6000);
	assert_int_equal(pulse_expected_bytes("allreduce", ALGORITHM_TREE, 4000, 4), 4000);
	assert_int_equal(pulse_expected_bytes("allreduce", ALGORITHM_DOUBLE_TREE, 4000, 4), 2000);
	assert_int_equal(pulse_expected_bytes("allgather", ALGORITHM_RING, 1000, 4), 3000);
	assert_int_equal(pulse_expected_bytes("reducescatter", ALGORITHM_RING, 1000, 8), 7000);
	assert_int_equal(pulse_expected_bytes("allreduce", ALGORITHM_UNKNOWN, 4000, 4), 0);
	assert_int_equal(pulse_expected_bytes("barrier", ALGORITHM_RING, 4000, 4), 0);
}

enum { SIZE = 8 };

static enum pulse_algorithm match(const int (*link)[2], int links, bool both_ways)
{
	bool active[SIZE * SIZE] = {0};

	for (int i = 0; i < links; i++) {
		active[link[i][0] * SIZE + link[i][1]] = true;
		if (both_ways)
			active[link[i][1] * SIZE + link[i][0]] = true;
	}
	return pulse_match(active, SIZE);
}

static void algorithm_by_active_peers(void **unused)
{
	static const int ring[][2] = {{0, 3}, {3, 1}, {1, 2}, {2, 5},
				      {5, 4}, {4, 7}, {7, 6}, {6, 0}};
	static const int tree[][2] = {{0, 1}, {0, 2}, {1, 3}, {1, 4}, {2, 5}, {2, 6}, {3, 7}};
	static const int second[][2] = {{7, 6}, {7, 5}, {6, 4}, {6, 3}, {5, 2}, {5, 1}, {4, 0},
					{0, 1}, {0, 2}, {1, 3}, {1, 4}, {2, 5}, {2, 6}, {3, 7}};
	static const int halving[][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {0, 2}, {1, 3},
					 {4, 6}, {5, 7}, {0, 4}, {1, 5}, {2, 6}, {3, 7}};
	static const int two_rings[][2] = {{0, 1}, {1, 2}, {2, 3}, {3, 0},
					   {4, 5}, {5, 6}, {6, 7}, {7, 4}};
	bool mesh[SIZE * SIZE];

	(void)unused;
	assert_int_equal(match(ring, 8, false), ALGORITHM_RING);
	assert_int_equal(match(ring, 7, false), ALGORITHM_RING); /* one has no records */
	assert_int_equal(match(tree, 7, true), ALGORITHM_TREE);
	assert_int_equal(match(second, 14, true), ALGORITHM_DOUBLE_TREE);
	assert_int_equal(match(halving, 12, true), ALGORITHM_HALVING);
	assert_int_equal(match(two_rings, 8, false), ALGORITHM_UNKNOWN);
	assert_int_equal(match(ring, 0, false), ALGORITHM_UNKNOWN);
	for (int i = 0; i < SIZE * SIZE; i++)
		mesh[i] = i / SIZE != i % SIZE;
	assert_int_equal(pulse_match(mesh, SIZE), ALGORITHM_MESH);
}

/* ---- time of sending ------------------------------------------------------------------------ */

/* Two queue pairs at once count once; gaps do not; of an epoch at an edge the part that was used.
 */
static void time_of_sending(void **unused)
{
	struct world w = world_make(3);
	struct pulse_curve c;
	struct pulse_traffic t;
	const bool to_1[3] = {false, true, false};

	(void)unused;
	world_sends(&w, 0, 1, 320, 320, 1000, 0, 0);   /* 10 epochs */
	world_sends(&w, 0, 2, 320, 640, 1000, 0, 0);   /* these, and 10 more */
	world_sends(&w, 0, 2, 3200, 32, 1000, 0, 0);   /* after a gap */
	world_sends(&w, 0, 1, 32000, 320, 1000, 1, 2); /* every other epoch */
	world_sends(&w, 0, 1, 64000, 320, 1000, 0, 0);
	world_sends(&w, 0, 1, 64320, 32, 500, 0, 0); /* half of one */
	c = pulse_curve(&w.r, w.r.file);
	t = pulse_traffic(&c, NULL, 3, WORLD_BEGAN, WORLD_BEGAN + 5000000);
	assert_int_equal(t.cv, 31000);
	assert_int_equal(t.first_ns, WORLD_BEGAN + 320000);
	assert_int_equal(t.last_ns, WORLD_BEGAN + 3200000);
	t = pulse_traffic(&c, to_1, 3, WORLD_BEGAN, WORLD_BEGAN + 5000000);
	assert_int_equal(t.act_ns, 10 * EPOCH);
	assert_int_equal(t.cv, 10000);
	t = pulse_traffic(&c, NULL, 3, WORLD_BEGAN + 32000000, WORLD_BEGAN + 33000000);
	assert_int_equal(t.act_ns, 5 * EPOCH);
	t = pulse_traffic(&c, NULL, 3, WORLD_BEGAN + 64000000, WORLD_BEGAN + 65000000);
	assert_int_equal(t.act_ns, 10 * EPOCH + EPOCH / 2);
	t = pulse_traffic(&c, NULL, 3, WORLD_BEGAN + 90000000, WORLD_BEGAN + 95000000);
	assert_int_equal(t.act_ns, 0);
	pulse_curve_free(&c);
	world_free(&w);
}

/* ---- parallelism ---------------------------------------------------------------------------- */

static void many(struct world *w, const char *comm, const int *rank, uint64_t times, uint64_t bytes)
{
	for (uint64_t i = 1; i <= times; i++)
		for (int m = 0; m < 2; m++)
			world_coll(w, rank[m], comm, i, "allreduce", bytes, 1000 * i,
				   1000 * i + 500);
}

static void parallelism(void **unused)
{
	static const int a[] = {0, 1}, b[] = {2, 3}, four[] = {0, 1, 2, 3};
	static const enum pulse_parallelism expected[] = {PARALLEL_DP, PARALLEL_TP, PARALLEL_NONE,
							  PARALLEL_PP, PARALLEL_EP};
	static const char *const names[] = {"gradients", "layers", "loss", "stages", "experts"};
	struct world w = world_make(4);
	struct pulse_options o = pulse_defaults();
	enum pulse_parallelism result[8];
	struct pulse p;

	(void)unused;
	world_comm(&w, "gradients", a, 2);
	world_comm(&w, "layers", b, 2);
	world_comm(&w, "loss", a, 2);
	world_comm(&w, "stages", four, 4);
	world_comm(&w, "experts", four, 4);
	many(&w, "gradients", a, 2, 1 << 22); /* a small model: the ratio tells */
	many(&w, "layers", b, 80, 1 << 20);
	many(&w, "loss", a, 4, 8);
	for (int i = 0; i < 3; i++) {
		uint64_t t = 1000 * (uint64_t)(i + 1);

		world_message(&w, "stages", four, 0, i, i + 1, 1 << 20, 1 << 20, t, t, t + 500);
		world_message(&w, "stages", four, 0, i + 1, i, 1 << 20, 1 << 20, 9000 - t, 9000 - t,
			      9500 - t);
	}
	for (int i = 0; i < 16; i++)
		if (i / 4 != i % 4)
			world_message(&w, "experts", four, 7, i / 4, i % 4, 4096, 4096, 20000,
				      20000, 20500);
	world_until(&w, 100000, true);
	p = pulse_read(&w.r, &o);
	pulse_parallelism(&p, result);
	assert_int_equal(p.comms, 5);
	for (size_t i = 0; i < p.comms; i++)
		for (int k = 0; k < 5; k++)
			if (!strcmp(p.comm[i].name, names[k]))
				assert_int_equal(result[i], expected[k]);
	pulse_free(&p);
	world_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segmentation_of_random_sequences),
		cmocka_unit_test(both_conditions_end_an_operation),
		cmocka_unit_test(the_last_operation_may_be_incomplete),
		cmocka_unit_test(expected_volume),
		cmocka_unit_test(algorithm_by_active_peers),
		cmocka_unit_test(time_of_sending),
		cmocka_unit_test(parallelism),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
