/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Random schedules over the small world: a quick companion of tests/sim for make check.
 * Usage: test_conn_random [first seed [seeds]]; WORLD_TRACE=1 prints what happens.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/world.h"

#define STEPS  1500
#define ROUNDS 400

static struct world w;

static void post_something(int h)
{
	static const uint8_t ops[] = {SHIFT_OP_WRITE, SHIFT_OP_WRITE,	  SHIFT_OP_WRITE,
				      SHIFT_OP_SEND,  SHIFT_OP_SEND,	  SHIFT_OP_WRITE_IMM,
				      SHIFT_OP_READ,  SHIFT_OP_FETCH_ADD, SHIFT_OP_READ};
	uint8_t op = ops[w_random(&w, sizeof(ops))];
	uint32_t len = op == SHIFT_OP_FETCH_ADD ? 8 : w_random(&w, 5000);

	w_post(&w, h, (enum shift_opcode)op, len, w_random(&w, 2));
}

static void nic_step(int h)
{
	for (int r = 0; r < W_RAILS; r++) {
		w_packet(&w, h, r);
		if (w_random(&w, 2))
			w_ack(&w, h, r);
	}
}

static void message_step(void)
{
	uint32_t i;

	if (!w.msgs)
		return;
	i = w_random(&w, w.msgs);
	switch (w_random(&w, 8)) {
	case 0: w.msg[i] = w.msg[--w.msgs]; return; /* lost */
	case 1:
		if (w.msgs < W_MSGS)
			w.msg[w.msgs++] = w.msg[i]; /* duplicated */
		return;
	}
	w_msg(&w, i);
}

static void flip(bool *cut)
{
	if (!w_random(&w, 6))
		*cut = !*cut;
}

static void fault_step(int h, int r)
{
	switch (w_random(&w, 9)) {
	case 0:
		if (!w_random(&w, 3))
			w_break(&w, h, r);
		return;
	case 1: flip(&w.data_cut[r]); return;
	case 2: flip(&w.ack_cut[r]); return;
	case 3: flip(&w.ctl_cut[r]); return;
	case 4: flip(&w.arm_fails[r]); return;
	case 5:
		w_event(&w, h, w_random(&w, 6) ? SHIFT_EV_PROBE_OK : SHIFT_EV_PROBE_MISSED, r);
		return;
	case 6: w_event(&w, h, w_random(&w, 8) ? SHIFT_EV_LINK_UP : SHIFT_EV_LINK_DOWN, r); return;
	case 7:
		w_event(&w, h, w_random(&w, 8) ? SHIFT_EV_RAIL_OPEN : SHIFT_EV_RAIL_VETO, r);
		return;
	case 8:
		if (!w_random(&w, 8))
			w_event(&w, h, SHIFT_EV_MIGRATE, r);
		return;
	}
}

static void step(void)
{
	int h = (int)w_random(&w, 2);

	switch (w_random(&w, 9)) {
	case 0:
	case 1: post_something(h); return;
	case 2: w_recv(&w, h); return;
	case 3:
	case 4: nic_step(h); return;
	case 5: w_cqe(&w, h); return;
	case 6: w_op(&w, h); return;
	case 7: message_step(); return;
	case 8:
		if (w_random(&w, 4)) {
			fault_step(h, (int)w_random(&w, W_RAILS));
			return;
		}
		w.now += w_random(&w, 20) * 1000000ull * (w_random(&w, 8) ? 1 : 20);
		w_tick(&w, h);
		return;
	}
}

/* A fence that hung ends at last, if the QP has not been armed again. */
static void fence_comes_back(int h, int r)
{
	struct shift_event ev = {.type = SHIFT_EV_FENCE_DONE,
				 .rail = (uint8_t)r,
				 .epoch = w.h[h].qp[r].epoch,
				 .clean = true};

	while (w_cqe(&w, h))
		;
	if (!w.h[h].qp[r].err || w.h[h].ops) /* or it would answer a fence that has just begun */
		return;
	shift_conn_event(w.h[h].c, &ev, w.now);
	w_tick(&w, h);
}

static void heal(void)
{
	for (int r = 0; r < W_RAILS; r++) {
		w.data_cut[r] = w.ack_cut[r] = w.ctl_cut[r] = w.arm_fails[r] = false;
		for (int h = 0; h < 2; h++) {
			w_event(&w, h, SHIFT_EV_LINK_UP, r);
			w_event(&w, h, SHIFT_EV_RAIL_OPEN, r);
			while (w_op(&w, h))
				;
			fence_comes_back(h, r);
		}
	}
}

/*
 * A lost atomic ends its connection; the peer learns by FAILED or, if that was lost, when it has
 * something to send. Anything else must end well once the network is healed.
 */
static bool ended_well(void)
{
	bool atomic = w.h[0].first_vendor == SHIFT_VENDOR_ATOMIC ||
		      w.h[1].first_vendor == SHIFT_VENDOR_ATOMIC;
	struct shift_conn_view v;

	for (int h = 0; h < 2 && atomic; h++) {
		shift_conn_view(w.h[h].c, &v);
		atomic = v.state == SHIFT_ST_DEAD || w.h[h].qp[v.r].head == w.h[h].qp[v.r].tail;
	}
	return atomic;
}

/* A quarter of the seeds: NICs that lie or hang, programs that close. The run must end cleanly. */
static void rough_step(void)
{
	int h = (int)w_random(&w, 2);

	switch (w_random(&w, 400)) {
	case 0: w.fence_unsure[h] = !w.fence_unsure[h]; break;
	case 1: w.fence_hung[h] = !w.fence_hung[h]; break;
	case 2:
		if (!w_random(&w, 8))
			w_close(&w, h, (enum shift_close)w_random(&w, 3));
		break;
	case 3:
		if (!w_random(&w, 8))
			w_event(&w, h, SHIFT_EV_PEER_DIED, 0);
		break;
	case 4:
	case 5:
	case 6: fence_comes_back(h, (int)w_random(&w, W_RAILS)); break;
	}
	step();
}

static bool over(int h)
{
	enum shift_state s = w_state(&w, h);

	return s == SHIFT_ST_DEAD || s == SHIFT_ST_CLOSED;
}

static bool run(uint64_t seed)
{
	bool rough = seed % 4 == 3;

	struct shift_conn_cfg cfg = {.exactly_once = true, .confirmed = true};
	bool ok = false;

	cfg.giveup_ns = 3600000000000ull;
	w_init(&w, &cfg, seed);
	w.at_least_once_ok = rough;
	for (int i = 0; i < STEPS && !w.bad; i++)
		if (rough)
			rough_step();
		else
			step();
	w.fence_hung[0] = w.fence_hung[1] = false;
	heal();
	for (int i = 0; i < ROUNDS && !ok && !w.bad; i++) {
		for (int n = 0; n < W_RQ; n++) {
			w_recv(&w, 0);
			w_recv(&w, 1);
		}
		ok = w_settle(&w, 1) || ended_well() || (rough && (over(0) || over(1)));
	}
	return ok && !w.bad;
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 0) : 5000;
	uint64_t switches = 0;
	char line[256];

	printf("1..1\n");
	for (uint64_t seed = first; seed < first + n; seed++) {
		if (!run(seed)) {
			printf("not ok 1 - seed %llu\n", (unsigned long long)seed);
			for (int h = 0; h < 2; h++) {
				shift_conn_dump(w.h[h].c, line, sizeof(line));
				printf("# %s\n", line);
			}
			return 1;
		}
		switches += shift_conn_stats(w.h[0].c)->switches;
		w_free(&w);
	}
	printf("ok 1 - seeds %llu..%llu, %llu switches\n", (unsigned long long)first,
	       (unsigned long long)(first + n - 1), (unsigned long long)switches);
	return 0;
}
