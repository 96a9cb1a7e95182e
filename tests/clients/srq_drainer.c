/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/clients/srq_facts.h"

enum { UNTOUCHED = 0xa5 };

static const char *const kind_names[] = {"link-local", "IPv4"};

/* ---- 1: the drainer ------------------------------------------------------------------------ */

static bool untouched(const struct nic *n)
{
	for (int i = 0; i < SLOTS * SLOT_BYTES; i++)
		if ((unsigned char)n->memory[i] != UNTOUCHED)
			return false;
	return true;
}

static void time_drainer(int depth)
{
	enum { ALL = 1024 };
	struct ibv_srq *s = make_srq(&here, ALL, 0);
	struct end e = make_end(&here, s);
	struct drained d, all = {0};
	double us = 0;

	memset(here.memory, UNTOUCHED, SLOTS * SLOT_BYTES);
	connect_ends(&e, &e, &at_once);
	if (fill(&here, s, 7000, ALL) != ALL)
		fail("post_srq_recv");
	while (all.count < ALL) {
		drain(&e, depth, 10000, &d);
		us += d.us;
		all.wrong += d.wrong;
		if (d.count != depth)
			break;
		memcpy(all.id + all.count, d.id, depth * sizeof(*d.id));
		all.count += depth;
	}
	fact(1,
	     "\"drainer\": \"self\", \"depth\": %d, \"busy\": %s, \"taken\": %d, \"wrong\": %d, "
	     "\"in_order\": %s, \"untouched\": %s, \"us_per_receive\": %.1f",
	     depth, busy ? "true" : "false", all.count, all.wrong,
	     in_order(&all, 7000) ? "true" : "false", untouched(&here) ? "true" : "false",
	     us / ALL);
	drop_end(&e);
	drop_srq(s);
}

/* Receives that no message could be put into. */
static void drain_odd_receives(void)
{
	struct ibv_srq *s = make_srq(&here, 16, 0);
	struct drained d;

	post_receive(&here, s, 1, 0, 0);
	post_receive(&here, s, 2, 1, BAD_KEY);
	post_receive(&here, s, 3, 2, here.mr->lkey);
	drain_all(&here, s, &d);
	fact(1,
	     "\"drainer\": \"no SGE, bad key, two SGEs\", \"taken\": %d, \"wrong\": %d, "
	     "\"in_order\": %s",
	     d.count, d.wrong, in_order(&d, 1) ? "true" : "false");
	drop_srq(s);
}

void ask_drainer(void)
{
	static const int depths[] = {1, 64, 1024};

	for (int i = 0; i < 6; i++) {
		busy = i >= 3;
		time_drainer(depths[i % 3]);
	}
	busy = false;
	drain_odd_receives();
}

/* ---- 2: without a link --------------------------------------------------------------------- */

struct linked {
	enum kind kind;
	struct ibv_srq *srq;
	struct end before, again;
	int taken;
};

static void make_linked(struct linked *l, enum kind k)
{
	struct path p = at_once;

	p.kind = k;
	l->kind = k;
	l->srq = make_srq(&here, 64, 0);
	fill(&here, l->srq, 1, 64);
	l->before = make_end(&here, l->srq);
	l->again = make_end(&here, l->srq);
	connect_ends(&l->before, &l->before, &p);
	connect_ends(&l->again, &l->again, &p);
}

static void drop_linked(struct linked *l)
{
	drop_end(&l->before);
	drop_end(&l->again);
	drop_srq(l->srq);
}

static void try_drain(struct linked *l, struct end *e, const char *link, const char *which)
{
	struct drained d;

	drain(e, 4, 3000, &d);
	l->taken += d.count;
	fact(2,
	     "\"link\": \"%s\", \"gid\": \"%s\", \"drainer\": \"%s\", \"connect\": 0, \"taken\": "
	     "%d, \"wrong\": %d, \"status\": %d, \"us\": %.0f, \"state\": \"%s\"",
	     link, kind_names[l->kind], which, d.count, d.wrong, d.status, d.us, state_of(e));
}

static void try_connect(struct linked *l, struct end *e, const char *link, const char *which)
{
	struct path p = at_once;
	double start;
	const char *at;
	int err;

	p.kind = l->kind;
	to_state(e->qp, IBV_QPS_RESET);
	find_gids(&here);
	if (here.gid_index[l->kind] < 0) {
		fact(2,
		     "\"link\": \"%s\", \"gid\": \"%s\", \"drainer\": \"%s\", "
		     "\"connect\": -1, \"at\": \"GID\", \"taken\": 0",
		     link, kind_names[l->kind], which);
		return;
	}
	start = now_us();
	err = connect_end(e, e, next_psn(), &p, &at);
	if (!err) {
		try_drain(l, e, link, which);
		return;
	}
	fact(2,
	     "\"link\": \"%s\", \"gid\": \"%s\", \"drainer\": \"%s\", \"connect\": %d, \"at\": "
	     "\"%s\", \"us\": %.0f, \"taken\": 0",
	     link, kind_names[l->kind], which, err, at, now_us() - start);
}

static void try_link(struct linked *l, const char *link)
{
	struct end fresh = make_end(&here, l->srq);

	try_drain(l, &l->before, link, "connected before");
	try_connect(l, &l->again, link, "RESET and connected again");
	try_connect(l, &fresh, link, "new");
	drop_end(&fresh);
}

void set_link(bool up)
{
	shell("ip link set dev %s %s", here.netdev, up ? "up" : "down");
	/* The port's state follows a moment later, and an address comes back with it. */
	pause_ms(500);
}

static int carrier_of(const struct nic *n)
{
	char path[256], text[8] = "";
	int fd, got;

	snprintf(path, sizeof(path), "/sys/class/net/%s/carrier", n->netdev);
	fd = open(path, O_RDONLY);
	got = fd < 0 ? -1 : (int)read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	return got > 0 ? atoi(text) : -1;
}

/* The cable is pulled from outside. */
static void wait_carrier(int value, const char *please)
{
	printf("{\"please\": \"%s\"}\n", please);
	fflush(stdout);
	for (int i = 0; i < 600 && carrier_of(&here) != value; i++)
		pause_ms(100);
	if (carrier_of(&here) != value)
		fail(please);
	pause_ms(500);
}

static void with_each(void (*what)(struct linked *, const char *), struct linked *l,
		      const char *link)
{
	for (int k = 0; k < KINDS; k++)
		if (l[k].srq)
			what(&l[k], link);
}

/* Whoever was connected before the link went, when it is back. */
static void try_after(struct linked *l, const char *link)
{
	if (strcmp(state_of(&l->before), "ERR"))
		try_drain(l, &l->before, link, "connected before");
	try_connect(l, &l->again, link, "RESET and connected again");
}

static void admin_down(void)
{
	set_link(false);
}

static void admin_up(void)
{
	set_link(true);
}

static void pull(void)
{
	wait_carrier(0, "pull");
}

static void plug(void)
{
	wait_carrier(1, "plug");
}

/* The IPv4 address, of a network of 24 bits. */
static void change_address(const char *how)
{
	static uint8_t a[4];

	if (here.gid_index[IPV4] >= 0)
		memcpy(a, here.gid[IPV4].raw + 12, sizeof(a));
	if (a[0])
		shell("ip addr %s %d.%d.%d.%d/24 dev %s", how, a[0], a[1], a[2], a[3], here.netdev);
	pause_ms(500);
}

static void lose_address(void)
{
	change_address("del");
}

static void give_address(void)
{
	change_address("add");
}

static const struct fault {
	const char *link, *after;
	void (*begin)(void), (*end)(void);
} faults[] = {
	{"no carrier", "up after no carrier", pull, plug},
	{"admin down", "up after admin down", admin_down, admin_up},
	{"address gone", "address back", lose_address, give_address},
};

/* What no drainer has reported must still be there. */
static void count_left(struct linked *l, const char *link)
{
	struct drained d;

	drain_all(&here, l->srq, &d);
	fact(2, "\"link\": \"%s\", \"gid\": \"%s\", \"taken_in_all\": %d, \"left\": %d", link,
	     kind_names[l->kind], l->taken, d.count);
}

void ask_link(void)
{
	struct linked l[KINDS];

	for (int i = 0; i < 3; i++) {
		memset(l, 0, sizeof(l));
		find_gids(&here);
		for (int k = 0; k < KINDS; k++)
			if (here.gid_index[k] >= 0)
				make_linked(&l[k], k);
		with_each(try_link, l, "up");
		faults[i].begin();
		with_each(try_link, l, faults[i].link);
		faults[i].end();
		with_each(try_after, l, faults[i].after);
		with_each(count_left, l, faults[i].after);
		for (int k = 0; k < KINDS; k++)
			if (l[k].srq)
				drop_linked(&l[k]);
	}
	events_within(&here, 0);
}

/* ---- 3: RNR means empty -------------------------------------------------------------------- */

static void drain_empty(int min_rnr_timer)
{
	struct path p = {.retry = 3, .rnr_retry = 0, .min_rnr_timer = min_rnr_timer};
	struct ibv_srq *s = make_srq(&here, 64, 0);
	struct end e = make_end(&here, s);
	struct drained d;

	connect_ends(&e, &e, &p);
	drain(&e, 1, 5000, &d);
	fact(3,
	     "\"empty\": \"one send\", \"min_rnr_timer\": %d, \"status\": %d, \"us\": %.0f, "
	     "\"taken\": %d, \"state\": \"%s\"",
	     min_rnr_timer, d.status, d.us, d.count, state_of(&e));
	drop_end(&e);
	drop_srq(s);
}

/* A batch that is larger than what is there, again and again by one QP. */
static void drain_batches(int batch, int posted)
{
	enum { ROUNDS = 20 };
	struct ibv_srq *s = make_srq(&here, 64, 0);
	struct end e = make_end(&here, s);
	int right = 0, rnr = 0;
	double reset_us = 0, drain_us = 0, start;
	struct drained d;

	connect_ends(&e, &e, &at_once);
	for (int i = 0; i < ROUNDS; i++) {
		fill(&here, s, 100 * i, posted);
		drain(&e, batch, 5000, &d);
		right += d.count == posted && !d.wrong && in_order(&d, 100 * i);
		rnr += d.status == IBV_WC_RNR_RETRY_EXC_ERR;
		drain_us += d.us;
		start = now_us();
		to_state(e.qp, IBV_QPS_RESET);
		connect_ends(&e, &e, &at_once);
		reset_us += now_us() - start;
	}
	fact(3,
	     "\"empty\": \"batch\", \"batch\": %d, \"posted\": %d, \"rounds\": %d, \"all_taken\": "
	     "%d, \"rnr\": %d, \"drain_us\": %.0f, \"reset_to_rts_us\": %.0f",
	     batch, posted, ROUNDS, right, rnr, drain_us / ROUNDS, reset_us / ROUNDS);
	drop_end(&e);
	drop_srq(s);
	events_within(&here, 0);
}

void ask_rnr(void)
{
	drain_empty(12);
	drain_empty(0); /* the longest: 655 ms */
	drain_batches(64, 40);
	drain_batches(1, 0);
}
