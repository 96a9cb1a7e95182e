// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * The twelve cases of Pulse's table 3, and those of its appendix D, drawn after the figures and the
 * text: who sends when, and at what rate. The expected level and culprit are the paper's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/pulse_world.h"

/* 25 GB/s are 800,000 bytes in 32 us; an operation of a DP group has 100 ms of it. */
enum { RATE = 800000, MS = 1000, OP_US = 96 * MS, ITERATION_US = 500 * MS };

static const int group1[] = {0, 1, 2, 3}, group2[] = {4, 5, 6, 7};

static uint64_t volume(uint64_t us)
{
	return us / WORLD_EPOCH_US * RATE;
}

/* Of a ring allreduce each of four members sends 2 * bytes * 3 / 4. */
static uint64_t ring_bytes(uint64_t sent)
{
	return sent / 3 * 2;
}

static void expect(const struct verdict *v, enum verdict_class class,
		   enum verdict_component component, enum verdict_level level, int rank)
{
	assert_int_equal(v->class, class);
	assert_int_equal(v->component, component);
	assert_int_equal(v->level, level);
	assert_true(v->culprits_n > 0);
	assert_int_equal(v->culprits[0].rank, rank);
	if (level == LEVEL_MACHINE)
		assert_int_equal(v->culprits_n, 1);
}

/* ---- DP groups of GPT-2 --------------------------------------------------------------------- */

/* One rank's part in a ring allreduce that takes us. It sends at rate, in active of period epochs.
 */
struct way {
	uint64_t late_us, us;
	uint32_t rate;
	unsigned int active, period;
};

static const struct way as_usual = {0, OP_US, RATE, 0, 0};

static struct world two_groups(void)
{
	struct world w = world_make(8);

	world_comm(&w, "dp1", group1, 4);
	world_comm(&w, "dp2", group2, 4);
	return w;
}

static void iteration(struct world *w, uint64_t n, const char *comm, const int *rank,
		      const struct way *way)
{
	for (int i = 0; i < 4; i++) {
		uint64_t start = n * ITERATION_US + way[i].late_us + (uint64_t)i * 7;

		world_sends(w, rank[i], rank[(i + 1) % 4], start, way[i].us, way[i].rate,
			    way[i].active, way[i].period);
		world_coll(w, rank[i], comm, n, "allreduce", ring_bytes(volume(OP_US)), start,
			   start + way[i].us);
	}
}

/* The first group goes wrong in its third iteration, the second never. */
static struct verdict third_iteration_on(const struct way *way)
{
	const struct way usual[4] = {as_usual, as_usual, as_usual, as_usual};
	struct world w = two_groups();
	struct verdict v;

	for (uint64_t n = 1; n <= 6; n++) {
		iteration(&w, n, "dp1", group1, n < 3 ? usual : way);
		iteration(&w, n, "dp2", group2, usual);
	}
	world_until(&w, 7 * ITERATION_US, true);
	v = world_verdict(&w);
	world_free(&w);
	return v;
}

/* 7.2.1: a path of half the bandwidth. The straggler sends all the time at half the rate, the
 * others at full rate, with gaps of 40 us between slices; all take as long. */
static void network_congestion(void **state)
{
	const struct way gaps = {0, 2 * OP_US, RATE, 1, 2};
	const struct way way[4] = {{0, 2 * OP_US, RATE / 2, 0, 0}, gaps, gaps, gaps};
	struct verdict v = third_iteration_on(way);

	(void)state;
	expect(&v, CLASS_SLOW, COMPONENT_COMMUNICATION, LEVEL_MACHINE, 0);
	assert_string_equal(v.rule, "act");
	assert_int_equal(v.first_seen_ns / 1000000,
			 (WORLD_BEGAN + 3 * ITERATION_US * 1000ull) / 1000000);
	verdict_free(&v);
}

/* D.1, D.7: half of the PCIe bandwidth; and the mildest one of Table 4's, 80 % of it. */
static void pcie_downgrade(void **state)
{
	const struct way gaps = {0, OP_US / 4 * 5, RATE, 4, 5};
	const struct way way[4] = {gaps, gaps, {0, OP_US / 4 * 5, RATE / 5 * 4, 0, 0}, gaps};
	struct verdict v = third_iteration_on(way);

	(void)state;
	expect(&v, CLASS_SLOW, COMPONENT_COMMUNICATION, LEVEL_MACHINE, 2);
	verdict_free(&v);
}

/* D.2: the rate of the straggler goes up and down; only its time of sending tells. */
static void nic_gpu_cross_numa(void **state)
{
	const struct way usual[4] = {as_usual, as_usual, as_usual, as_usual};
	struct world w = two_groups();
	struct verdict v;

	(void)state;
	for (uint64_t n = 1; n <= 6; n++) {
		iteration(&w, n, "dp2", group2, usual);
		for (int i = 0; i < 4; i++) {
			uint64_t t = n * ITERATION_US;

			world_coll(&w, i, "dp1", n, "allreduce", ring_bytes(volume(OP_US)), t,
				   t + 3 * OP_US / 2);
			for (uint64_t k = 0; k < 3;
			     k++) /* of its 3/2: full, a quarter, a quarter */
				world_sends(&w, i, (i + 1) % 4, t + k * OP_US / 2, OP_US / 2,
					    i	? RATE
					    : k ? RATE / 2
						: RATE,
					    i ? 2 : 0, i ? 3 : 0);
		}
	}
	world_until(&w, 7 * ITERATION_US, true);
	v = world_verdict(&w);
	expect(&v, CLASS_SLOW, COMPONENT_COMMUNICATION, LEVEL_MACHINE, 0);
	verdict_free(&v);
	world_free(&w);
}

/* 7.2.2, D.3: the proxy threads of one node are slow. The whole group takes longer; starts and
 * times of sending are as usual, so it is computation, and which node cannot be told. */
static void cpu_contention(void **state)
{
	const struct way gaps = {0, 2 * OP_US, RATE, 1, 2}, way[4] = {gaps, gaps, gaps, gaps};
	struct verdict v = third_iteration_on(way);

	(void)state;
	expect(&v, CLASS_SLOW, COMPONENT_COMPUTATION, LEVEL_GROUP, 0);
	assert_int_equal(v.culprits_n, 4);
	assert_string_equal(v.rule, "duration");
	verdict_free(&v);
}

/* 7.2.3: the group hangs; node 1 has sent least, its successors went on with what they had. */
static void nic_down(void **state)
{
	const struct way usual[4] = {as_usual, as_usual, as_usual, as_usual};
	struct world w = two_groups();
	const uint64_t us[4] = {30 * MS, 32 * MS, 34 * MS, 36 * MS};
	struct verdict v;

	(void)state;
	for (uint64_t n = 1; n <= 2; n++) {
		iteration(&w, n, "dp1", group1, usual);
		iteration(&w, n, "dp2", group2, usual);
	}
	iteration(&w, 3, "dp2", group2, usual);
	for (int i = 0; i < 4; i++) {
		world_sends(&w, i, (i + 1) % 4, 3 * ITERATION_US, us[i], RATE, 0, 0);
		world_coll(&w, i, "dp1", 3, "allreduce", ring_bytes(volume(OP_US)),
			   3 * ITERATION_US, 0);
	}
	world_until(&w, 3 * ITERATION_US + 10000 * MS, false);
	v = world_verdict(&w);
	expect(&v, CLASS_STOPPED, COMPONENT_COMMUNICATION, LEVEL_MACHINE, 0);
	assert_string_equal(v.rule, "smallest-volume");
	assert_string_equal(v.culprits[0].nic, "mlx5_0");
	verdict_free(&v);
	world_free(&w);
}

/* ---- pipelines of GPT-2 --------------------------------------------------------------------- */

/* Forward through two stages of two pipelines, n microbatches; a stage computes for 20 ms. */
struct pipeline {
	const char *comm;
	int rank[2];
	uint64_t compute_us;
};

static void microbatch(struct world *w, const struct pipeline *p, uint64_t n)
{
	uint64_t period = p->compute_us + 10 * MS, sent = 1 + n * period;

	world_message(w, p->comm, p->rank, 0, 0, 1, 1 << 24, 1 << 24, sent, sent - p->compute_us,
		      sent + 10 * MS);
}

/* D.4: in pipeline 1 messages come later than in the others. */
static void gpu_throttling(void **state)
{
	struct world w = world_make(6);
	const struct pipeline p[] = {
		{"pp1", {0, 1}, 30 * MS}, {"pp2", {2, 3}, 20 * MS}, {"pp3", {4, 5}, 20 * MS}};
	struct verdict v;

	(void)state;
	for (int i = 0; i < 3; i++) {
		world_comm(&w, p[i].comm, p[i].rank, 2);
		for (uint64_t n = 1; n <= 8; n++)
			microbatch(&w, p + i, n);
	}
	world_until(&w, 1000 * MS, true);
	v = world_verdict(&w);
	expect(&v, CLASS_SLOW, COMPONENT_COMPUTATION, LEVEL_MACHINE, 0);
	verdict_free(&v);
	world_free(&w);
}

/* D.5: the third send-forward of a stage is the first that is missing; its receiver waits. */
static void gpu_execution_error(void **state)
{
	struct world w = world_make(4);
	const struct pipeline p[] = {{"pp1", {0, 1}, 20 * MS}, {"pp2", {2, 3}, 20 * MS}};
	struct verdict v;

	(void)state;
	for (int i = 0; i < 2; i++) {
		world_comm(&w, p[i].comm, p[i].rank, 2);
		for (uint64_t n = 1; n <= (i ? 8 : 2); n++)
			microbatch(&w, p + i, n);
	}
	world_message(&w, "pp1", p[0].rank, 0, 0, 1, 1 << 24, 0, 0, 70 * MS, 0);
	world_until(&w, 5000 * MS, false);
	v = world_verdict(&w);
	expect(&v, CLASS_STOPPED, COMPONENT_COMPUTATION, LEVEL_MACHINE, 0);
	assert_string_equal(v.rule, "missing-start");
	verdict_free(&v);
	world_free(&w);
}

/* ---- the all-to-all of Mixtral -------------------------------------------------------------- */

struct exchange {
	uint64_t start_us[4]; /* 0: this rank does not come */
	uint32_t rate[4];     /* that it has, over its three messages */
	unsigned int active[4], period[4];
	uint64_t us; /* 0: some do not end */
	int dead;    /* messages of this one do not end */
};

static void exchange(struct world *w, uint64_t group, const struct exchange *x)
{
	for (int from = 0; from < 4; from++)
		for (int to = 0; to < 4; to++) {
			bool stuck = x->dead >= 0 && (from == x->dead || to == x->dead);
			uint64_t us = stuck ? 1 * MS : 24 * MS, start = x->start_us[from];
			uint64_t bytes = 24 * MS / WORLD_EPOCH_US * RATE / 3;
			bool absent = !start || !x->start_us[to];

			if (from == to)
				continue;
			if (start && x->start_us[to])
				world_sends(w, from, to, start, x->us && !stuck ? x->us : us,
					    x->rate[from] / 3, x->active[from], x->period[from]);
			world_message(w, "ep", group1, group, from, to, bytes,
				      absent  ? 0
				      : stuck ? bytes / 24
					      : bytes,
				      start, x->start_us[to],
				      absent || stuck ? 0 : start + (x->us ? x->us : us));
		}
}

static struct world experts(void)
{
	struct world w = world_make(4);

	world_comm(&w, "ep", group1, 4);
	return w;
}

static const struct exchange even = {.rate = {RATE, RATE, RATE, RATE}, .us = 24 * MS, .dead = -1};

static struct exchange exchange_at(const struct exchange *x, uint64_t us)
{
	struct exchange y = *x;

	for (int i = 0; i < 4; i++)
		y.start_us[i] += us;
	return y;
}

/* 7.2.4: the experts of rank 1 get more tokens: it computes longer, and starts last. The others
 * have gaps meanwhile, which are nobody's slowness. */
static void moe_expert_imbalance(void **state)
{
	struct world w = experts();
	struct exchange late = even;
	struct verdict v;

	(void)state;
	late.start_us[1] = 15 * MS;
	for (int i = 0; i < 4; i += 1 + !i) { /* half of the others' time is gaps */
		late.active[i] = 1;
		late.period[i] = 2;
	}
	late.us = 48 * MS;
	for (uint64_t n = 1; n <= 10; n++) {
		struct exchange dispatch = exchange_at(&even, n * 200 * MS);
		struct exchange combine = exchange_at(&late, n * 200 * MS + 60 * MS);

		exchange(&w, 2 * n, &dispatch);
		exchange(&w, 2 * n + 1, &combine);
	}
	world_until(&w, 3000 * MS, true);
	v = world_verdict(&w);
	expect(&v, CLASS_SLOW, COMPONENT_COMPUTATION, LEVEL_MACHINE, 1);
	verdict_free(&v);
	world_free(&w);
}

/* 7.2.5: rank 3 sends at half the rate; rank 1 has larger gaps, and a lower observed rate. */
static void pcie_contention_moe(void **state)
{
	struct world w = experts();
	struct exchange x = even;
	struct verdict v;

	(void)state;
	x.rate[3] = RATE / 2;
	x.active[1] = 1;
	x.period[1] = 3;
	x.us = 48 * MS;
	for (uint64_t n = 1; n <= 12; n++) {
		struct exchange y = exchange_at(&x, n * 100 * MS);

		exchange(&w, n, &y);
	}
	world_until(&w, 2000 * MS, true);
	v = world_verdict(&w);
	expect(&v, CLASS_SLOW, COMPONENT_COMMUNICATION, LEVEL_MACHINE, 3);
	assert_string_equal(v.rule, "rate");
	verdict_free(&v);
	world_free(&w);
}

/* D.8: in the second all-to-all all messages of rank 2 are incomplete, and no others. */
static void nic_down_moe(void **state)
{
	struct world w = experts();
	struct exchange first = exchange_at(&even, 100 * MS), second = exchange_at(&even, 200 * MS);
	struct verdict v;

	(void)state;
	second.dead = 2;
	exchange(&w, 1, &first);
	exchange(&w, 2, &second);
	world_until(&w, 5000 * MS, false);
	v = world_verdict(&w);
	expect(&v, CLASS_STOPPED, COMPONENT_COMMUNICATION, LEVEL_MACHINE, 2);
	assert_string_equal(v.rule, "unfinished-p2p");
	verdict_free(&v);
	world_free(&w);
}

/* D.9, D.6: messages of rank 2 have no start at all. */
static void gpu_execution_error_moe(void **state)
{
	struct world w = experts();
	struct exchange first = exchange_at(&even, 100 * MS), second = exchange_at(&even, 200 * MS);
	struct verdict v;

	(void)state;
	second.start_us[2] = 0;
	exchange(&w, 1, &first);
	exchange(&w, 2, &second);
	world_until(&w, 5000 * MS, false);
	v = world_verdict(&w);
	expect(&v, CLASS_STOPPED, COMPONENT_COMPUTATION, LEVEL_MACHINE, 2);
	assert_string_equal(v.rule, "missing-start");
	verdict_free(&v);
	world_free(&w);
}

/* The same where the host had launched the group before its GPU failed: nothing has moved. */
static void gpu_execution_error_behind_launch(void **state)
{
	struct world w = experts();
	struct exchange first = exchange_at(&even, 100 * MS);
	struct verdict v;

	(void)state;
	exchange(&w, 1, &first);
	for (int from = 0; from < 4; from++)
		for (int to = 0; to < 4; to++) {
			bool stuck = from == 2 || to == 2;

			if (from == to)
				continue;
			if (!stuck)
				world_sends(&w, from, to, 200 * MS, 24 * MS, RATE / 3, 0, 0);
			world_message(&w, "ep", group1, 2, from, to, volume(24 * MS) / 3,
				      stuck ? 0 : volume(24 * MS) / 3, 200 * MS, 200 * MS,
				      stuck ? 0 : 224 * MS);
		}
	world_until(&w, 5000 * MS, false);
	v = world_verdict(&w);
	expect(&v, CLASS_STOPPED, COMPONENT_COMPUTATION, LEVEL_MACHINE, 2);
	verdict_free(&v);
	world_free(&w);
}

/* ---- other custom collectives --------------------------------------------------------------- */

/* D.10: each sends 1 GB to two neighbours; rank 1 at 60 % of the bandwidth. */
static void neighbor_exchange(void **state)
{
	struct world w = experts();
	struct verdict v;

	(void)state;
	for (int i = 0; i < 4; i++)
		for (int side = 1; side <= 3; side += 2) {
			int to = (i + side) % 4;
			uint64_t us = i == 1 ? 66 * MS : 40 * MS;

			world_sends(&w, i, to, 10 * MS, us, i == 1 ? RATE / 10 * 3 : RATE / 2, 0,
				    0);
			world_message(&w, "ep", group1, 1, i, to, volume(40 * MS) / 2,
				      volume(40 * MS) / 2, 10 * MS, 10 * MS, 10 * MS + us);
		}
	world_until(&w, 200 * MS, true);
	v = world_verdict(&w);
	expect(&v, CLASS_SLOW, COMPONENT_COMMUNICATION, LEVEL_MACHINE, 1);
	verdict_free(&v);
	world_free(&w);
}

/* D.11: three send 1 GB each to rank 0; rank 1 at 70 % of the rate of the others. */
static void all_to_one(void **state)
{
	struct world w = experts();
	struct verdict v;

	(void)state;
	for (int i = 1; i < 4; i++) {
		uint64_t us = i == 1 ? 171 * MS : 120 * MS;

		world_sends(&w, i, 0, 10 * MS, us, i == 1 ? RATE / 30 * 7 : RATE / 3, 0, 0);
		world_message(&w, "ep", group1, 1, i, 0, volume(40 * MS), volume(40 * MS), 10 * MS,
			      10 * MS, 10 * MS + us);
	}
	world_until(&w, 300 * MS, true);
	v = world_verdict(&w);
	expect(&v, CLASS_SLOW, COMPONENT_COMMUNICATION, LEVEL_MACHINE, 1);
	verdict_free(&v);
	world_free(&w);
}

/* D.12: rank 0 sends 1 GB to each other; the path to rank 1 has half of its bandwidth. */
static void one_to_all(void **state)
{
	struct world w = experts();
	struct verdict v;

	(void)state;
	for (int i = 1; i < 4; i++) {
		uint64_t us = i == 1 ? 240 * MS : 120 * MS;

		world_sends(&w, 0, i, 10 * MS, us, i == 1 ? RATE / 6 : RATE / 3, 0, 0);
		world_message(&w, "ep", group1, 1, 0, i, volume(40 * MS), volume(40 * MS), 10 * MS,
			      10 * MS, 10 * MS + us);
	}
	world_until(&w, 400 * MS, true);
	v = world_verdict(&w);
	expect(&v, CLASS_SLOW, COMPONENT_COMMUNICATION, LEVEL_MACHINE, 1);
	verdict_free(&v);
	world_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(network_congestion),
		cmocka_unit_test(pcie_downgrade),
		cmocka_unit_test(nic_gpu_cross_numa),
		cmocka_unit_test(cpu_contention),
		cmocka_unit_test(nic_down),
		cmocka_unit_test(gpu_throttling),
		cmocka_unit_test(gpu_execution_error),
		cmocka_unit_test(moe_expert_imbalance),
		cmocka_unit_test(pcie_contention_moe),
		cmocka_unit_test(nic_down_moe),
		cmocka_unit_test(gpu_execution_error_moe),
		cmocka_unit_test(gpu_execution_error_behind_launch),
		cmocka_unit_test(neighbor_exchange),
		cmocka_unit_test(all_to_one),
		cmocka_unit_test(one_to_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
