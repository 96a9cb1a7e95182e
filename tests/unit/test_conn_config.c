/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a connection may be made of, and what it learns later: configuration, start, meet. */
#include <stdlib.h>
#include <string.h>

#include "lib/core/psn.h"
#include "lib/core/siphash.h"
#include "tests/unit/fixture.h"

#define MS     1000000ull
#define SECOND 1000000000ull

/* --- the configuration ------------------------------------------------------------------------ */

static struct shift_conn_cfg smallest(void)
{
	return (struct shift_conn_cfg){.nonce = 1, .rails = 1, .sq_cap = 1, .mtu = {256}};
}

static struct shift_conn_cfg largest(void)
{
	struct shift_conn_cfg cfg = {.nonce = UINT64_MAX,
				     .rails = SHIFT_RAILS_MAX,
				     .side = 1,
				     .sq_cap = 1 << 20,
				     .rq_cap = 1 << 20,
				     .sq_sge_max = UINT8_MAX,
				     .rq_sge_max = UINT8_MAX,
				     .inline_max = 1 << 16};

	for (int i = 0; i < SHIFT_RAILS_MAX; i++)
		cfg.mtu[i] = 4096;
	return cfg;
}

#define REFUSED(base, field, value)                         \
	do {                                                \
		struct shift_conn_cfg cfg = base();         \
		assert_true(shift_conn_size(&cfg) > 0);     \
		cfg.field = value;                          \
		assert_int_equal(shift_conn_size(&cfg), 0); \
	} while (0)

static void a_configuration_has_bounds(void **state)
{
	(void)state;
	REFUSED(smallest, nonce, 0);
	REFUSED(smallest, rails, 0);
	REFUSED(smallest, sq_cap, 0);
	REFUSED(smallest, mtu[0], 255);
	REFUSED(largest, side, 2);
	REFUSED(largest, rails, SHIFT_RAILS_MAX + 1);
	REFUSED(largest, sq_cap, (1 << 20) + 1);
	REFUSED(largest, rq_cap, (1 << 20) + 1);
	REFUSED(largest, sq_sge_max, UINT8_MAX + 1);
	REFUSED(largest, rq_sge_max, UINT8_MAX + 1);
	REFUSED(largest, inline_max, (1 << 16) + 1);
	REFUSED(largest, sq_slots, 1);
	REFUSED(largest, sq_slots, 24);
	REFUSED(largest, mtu[0], 4097);
	REFUSED(largest, mtu[0], 255);
	REFUSED(largest, mtu[SHIFT_RAILS_MAX - 1], 4097);
	REFUSED(largest, mtu[SHIFT_RAILS_MAX - 1], 255);
}

static void rails_that_are_not_used_need_no_mtu(void **state)
{
	struct shift_conn_cfg cfg = largest();

	(void)state;
	cfg.rails = SHIFT_RAILS_MAX - 1;
	cfg.mtu[SHIFT_RAILS_MAX - 1] = 0;
	assert_true(shift_conn_size(&cfg) > 0);
}

static void each_default_is_written_where_nothing_is_said(void **state)
{
	struct shift_conn_cfg cfg = {0};

	(void)state;
	shift_conn_cfg_defaults(&cfg);
	assert_int_equal(cfg.rto_ns, 20 * MS);
	assert_int_equal(cfg.switch_timeout_ns, 500 * MS);
	assert_int_equal(cfg.quarantine_ns, SECOND);
	assert_int_equal(cfg.giveup_ns, 30 * SECOND);
	assert_int_equal(cfg.drain_ns, 200 * MS);
	assert_int_equal(cfg.hold_down_ns, SECOND);
	assert_int_equal(cfg.hold_down_max_ns, 300 * SECOND);
	assert_int_equal(cfg.hold_down_window_ns, 600 * SECOND);
	assert_int_equal(cfg.no_progress_ns, SECOND);
	assert_int_equal(cfg.tombstone_ns, 60 * SECOND);
	assert_int_equal(cfg.probe_misses, 3);
	assert_int_equal(cfg.no_progress_answers, 4);
	assert_int_equal(cfg.rails, 1);
	assert_int_equal(cfg.sq_slots, 128);
}

static void what_is_said_stays(void **state)
{
	struct shift_conn_cfg cfg = {.rto_ns = 1,
				     .switch_timeout_ns = 2,
				     .quarantine_ns = 3,
				     .giveup_ns = 4,
				     .drain_ns = 5,
				     .hold_down_ns = 6,
				     .hold_down_max_ns = 7,
				     .hold_down_window_ns = 8,
				     .no_progress_ns = 9,
				     .tombstone_ns = 10,
				     .probe_misses = 11,
				     .no_progress_answers = 12,
				     .sq_slots = 16,
				     .rails = 2};
	struct shift_conn_cfg before = cfg;

	(void)state;
	shift_conn_cfg_defaults(&cfg);
	assert_memory_equal(&cfg, &before, sizeof(cfg));
}

/* One byte too little, or not aligned, is no memory at all. */
static void memory_must_be_large_enough_and_aligned(void **state)
{
	struct shift_conn_cfg cfg = smallest();
	size_t need = shift_conn_size(&cfg);
	uint8_t *mem = aligned_alloc(64, (need + 127) & ~(size_t)63);

	(void)state;
	assert_non_null(mem);
	memset(mem, 0xaa, need);
	assert_null(shift_conn_init(mem, need - 1, &cfg, 0));
	assert_null(shift_conn_init(mem + 8, need, &cfg, 0));
	assert_ptr_equal(shift_conn_init(mem, need, &cfg, 0), mem);
	free(mem);
}

/* Its logs are full, and not a byte beside its memory has changed. */
static void it_keeps_to_its_memory(void **state)
{
	enum { CAP = 16, GUARD = 1 << 16 };
	struct shift_conn_cfg cfg = smallest();
	struct shift_sge sge[3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
	struct shift_recv_wr recv = {.sge = sge, .num_sge = 3}, got;
	struct shift_wr wr = {.opcode = SHIFT_OP_SEND, .sge = sge, .num_sge = 3};
	struct shift_conn *c;
	uint8_t *block;
	size_t need;
	int rail;

	(void)state;
	cfg.sq_cap = cfg.rq_cap = CAP;
	cfg.sq_sge_max = cfg.rq_sge_max = 3;
	need = shift_conn_size(&cfg);
	assert_int_equal(need % 64, 0);
	block = aligned_alloc(64, need + 2 * GUARD);
	memset(block, 0xa5, need + 2 * GUARD);
	c = shift_conn_init(block + GUARD, need, &cfg, 0);
	assert_non_null(c);
	for (uint64_t i = 0; i < CAP; i++) {
		wr.wr_id = recv.wr_id = i;
		assert_int_equal(shift_conn_post_recv(c, &recv, &rail), 0);
		assert_int_equal(shift_conn_post_send(c, &wr, &rail), 0);
	}
	for (uint64_t i = 0; i < CAP; i++) {
		shift_conn_recv_at(c, i, &got);
		assert_true(got.wr_id == i);
		assert_memory_equal(got.sge, sge, sizeof(sge));
	}
	for (size_t i = 0; i < GUARD; i++)
		assert_true(block[i] == 0xa5 && block[GUARD + need + i] == 0xa5);
	free(block);
}

/* What it ends with is room for actions that hardly ever come up. Untouched it costs nothing where
 * memory is taken page by page (lib/base/pages.h). */
static void the_end_of_its_memory_is_not_touched(void **state)
{
	enum { CAP = 128, UNTOUCHED = 7000 };
	struct shift_event rts = {.type = SHIFT_EV_RTS};
	struct shift_sge sge = {1, 2, 3};
	struct shift_recv_wr recv = {.sge = &sge, .num_sge = 1};
	struct shift_wr wr = {.opcode = SHIFT_OP_SEND, .sge = &sge, .num_sge = 1};
	struct shift_conn_cfg cfg = smallest();
	struct shift_action a;
	struct shift_conn *c;
	uint8_t *mem;
	size_t need;
	int rail;

	(void)state;
	cfg.sq_cap = cfg.rq_cap = CAP;
	need = shift_conn_size(&cfg);
	mem = aligned_alloc(64, need);
	memset(mem, 0xa5, need);
	c = shift_conn_init(mem, need, &cfg, 0);
	assert_non_null(c);
	shift_conn_event(c, &rts, 1);
	assert_true(shift_conn_action(c, &a));
	while (shift_conn_action(c, &a))
		;
	for (uint64_t i = 0; i < CAP; i++) {
		assert_int_equal(shift_conn_post_recv(c, &recv, &rail), 0);
		assert_int_equal(shift_conn_post_send(c, &wr, &rail), 0);
	}
	for (size_t i = need - UNTOUCHED; i < need; i++)
		assert_int_equal(mem[i], 0xa5);
	free(mem);
}

/* Nothing of what stood in the memory before shows. */
static void it_begins_from_nothing(void **state)
{
	struct shift_conn_cfg cfg = largest();
	static const struct shift_conn_stats none;
	struct shift_conn_view v;
	struct shift_action a;
	struct shift_conn *c;
	void *mem;

	(void)state;
	cfg.sq_cap = cfg.rq_cap = 1;
	cfg.rq_psn = 0xabcdef;
	mem = aligned_alloc(64, shift_conn_size(&cfg));
	memset(mem, 0xff, shift_conn_size(&cfg));
	c = shift_conn_init(mem, shift_conn_size(&cfg), &cfg, 5);
	assert_non_null(c);
	shift_conn_view(c, &v);
	assert_int_equal(v.state, SHIFT_ST_SETUP);
	assert_int_equal(v.reason, SHIFT_R_INIT);
	assert_int_equal(v.e + v.target_e + v.lastc + v.heard + v.rep_epoch, 0);
	assert_int_equal(v.rep_psn, 0xabcdef);
	assert_int_equal(v.r + v.target_r, 0);
	assert_false(v.protected_ || v.holding || v.planned);
	assert_int_equal(v.recv_cum + v.recv_posted + v.send_tail + v.send_sent + v.send_head, 0);
	assert_memory_equal(shift_conn_stats(c), &none, sizeof(none));
	assert_false(shift_conn_action(c, &a));
	assert_true(shift_conn_deadline(c) == UINT64_MAX);
	assert_true(shift_conn_fast(c));
	free(mem);
}

/* Who is confirmed by the caller needs no HELLO, and asks after its progress from then on. */
static void confirmed_it_is_protected_at_once(void **state)
{
	(void)state;
	assert_true(w_view(&w, 0).protected_);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(w.msgs, 0);
	assert_true(shift_conn_deadline(w.h[0].c) == w.now + SECOND);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	assert_int_equal(w.msgs, 0);
}

/* To it HELLO is heard: it says so to a peer that asks. */
static void confirmed_it_has_heard_hello(void **state)
{
	struct shift_msg m = {.src_nonce = 101,
			      .dst_nonce = 100,
			      .src_conn = 11,
			      .dst_conn = 10,
			      .type = SHIFT_MSG_HELLO,
			      .qpn = 21,
			      .dest_qpn = 20,
			      .sq_psn = 0xfffffe,
			      .rq_psn = 0x10,
			      .life = 1};
	struct shift_event ev = {.type = SHIFT_EV_MSG, .msg = &m};

	(void)state;
	give_event(0, &ev);
	assert_int_equal(w.msgs, 1);
	assert_int_equal(w.msg[0].m.heard, 1);
}

/* Also one that needs no HELLO has had lives before (7.34). */
static void confirmed_it_keeps_the_quarantine_of_its_past(void **state)
{
	static const struct shift_conn_cfg cfg = {.exactly_once = true,
						  .confirmed = true,
						  .past = {.peer = {{.qpn = 5}}, .armed = 1 << 1}};

	(void)state;
	again(&cfg);
	w.now += 4 * SECOND - 1;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w.now += 1;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_PREPARE);
}

/* --- what becomes known later ----------------------------------------------------------------- */

static const struct shift_conn_cfg unconfirmed = {.exactly_once = true};

static struct shift_conn_start start_of(int h)
{
	return (struct shift_conn_start){.qpn = h ? 31 : 30,
					 .dest_qpn = h ? 30 : 31,
					 .sq_psn = h ? 0x222222 : 0x111111,
					 .rq_psn = h ? 0x111111 : 0x222222,
					 .sq_psn_known = true,
					 .mtu = 1024,
					 .giveup_ns = 30 * SECOND};
}

static void start(int h, const struct shift_conn_start *s)
{
	shift_conn_start(w.h[h].c, s);
	w.h[h].qp[0].tx_psn = s->sq_psn & 0xffffff;
	w.h[h].qp[0].rx_psn = s->rq_psn & 0xffffff;
}

static void start_both(void)
{
	struct shift_conn_start s;

	again(&unconfirmed);
	for (int h = 0; h < 2; h++) {
		s = start_of(h);
		start(h, &s);
		w_event(&w, h, SHIFT_EV_RTS, 0);
	}
	w_run(&w, 0);
	assert_true(w_view(&w, 0).protected_ && w_view(&w, 1).protected_);
}

/* The newest SWITCH on its way to a host that proves something. */
static const struct shift_msg *proof_to(int h)
{
	for (uint32_t i = w.msgs; i-- > 0;)
		if (w.msg[i].to == h && w.msg[i].m.type == SHIFT_MSG_SWITCH &&
		    shift_switch_proves(&w.msg[i].m))
			return &w.msg[i].m;
	fail_msg("no SWITCH to host %d proves anything", h);
	return NULL;
}

/* Rule 2: nothing arrived here, so what is reported is where the program's QP began. */
static void the_report_begins_at_the_programs_rq_psn(void **state)
{
	(void)state;
	start_both();
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	finish_ops(0);
	assert_int_equal(proof_to(1)->rep_epoch, 0);
	assert_int_equal(proof_to(1)->rep_psn, 0x222222);
	assert_int_equal(w_view(&w, 0).rep_psn, 0x222222);
}

/* A SEND arrives at each end, its ACK does not: both PSNs map to it. */
static void both_psns_of_the_program_are_the_map(void **state)
{
	(void)state;
	start_both();
	for (int h = 0; h < 2; h++) {
		w_post(&w, h, SHIFT_OP_SEND, 2000, true);
		w_post(&w, h, SHIFT_OP_SEND, 2000, true);
		pass_packets(h, 0, 2);
	}
	w.data_cut[0] = w.ack_cut[0] = true;
	fail_over(0);
	for (int h = 0; h < 2; h++) {
		assert_int_equal(stats(h)->proved, 1);
		assert_int_equal(stats(h)->replayed, 1);
		assert_int_equal(w.h[h].completed, 2);
		assert_int_equal(w.h[h].errors, 0);
	}
}

static void only_24_bits_of_a_psn_count(void **state)
{
	struct shift_conn_start s = start_of(0);

	(void)state;
	again(&unconfirmed);
	s.sq_psn |= 0x7f000000;
	s.rq_psn |= 0x7f000000;
	start(0, &s);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	assert_int_equal(w.msg[0].m.sq_psn, 0x111111);
	assert_int_equal(w.msg[0].m.rq_psn, 0x222222);
	assert_int_equal(w.msg[0].m.qpn, 30);
	assert_int_equal(w.msg[0].m.dest_qpn, 31);
	assert_int_equal(w_view(&w, 0).rep_psn, 0x222222);
}

/* Rule 11 counts packets at the path MTU that modify_qp got. */
static void packets_are_counted_at_the_programs_mtu(void **state)
{
	struct shift_conn_start s = start_of(0);

	(void)state;
	again(&unconfirmed);
	s.mtu = 256;
	start(0, &s);
	w_post(&w, 0, SHIFT_OP_WRITE, 1025, true);
	assert_int_equal(w_view(&w, 0).packets_posted, 5);
}

/* And it is that MTU when the connection comes back to rail 0. */
static void packets_are_counted_at_it_after_a_return(void **state)
{
	struct shift_conn_start s;

	(void)state;
	again(&unconfirmed);
	for (int h = 0; h < 2; h++) {
		s = start_of(h);
		s.mtu = 256;
		start(h, &s);
		w_event(&w, h, SHIFT_EV_RTS, 0);
	}
	w_run(&w, 0);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	w.now += 2 * SECOND;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 0);
	assert_true(w_settle(&w, 50));
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_int_equal(w_view(&w, 0).packets_posted, 0);
	w_post(&w, 0, SHIFT_OP_WRITE, 1025, true);
	assert_int_equal(w_view(&w, 0).packets_posted, 5);
}

/* One packet arrived at a PSN just before the one that the configuration had: it is reported. */
static void the_psn_of_the_configuration_is_forgotten(void **state)
{
	struct shift_conn_start s;

	(void)state;
	again(&unconfirmed);
	for (int h = 0; h < 2; h++) {
		s = start_of(h);
		s.qpn = 20 + (uint32_t)h;
		s.dest_qpn = 20 + (uint32_t)!h;
		s.sq_psn = h ? 0xfffffd : 0x00000f;
		s.rq_psn = h ? 0x00000f : 0xfffffd;
		start(h, &s);
		w_event(&w, h, SHIFT_EV_RTS, 0);
	}
	w_run(&w, 0);
	for (int h = 0; h < 2; h++) {
		w_post(&w, h, SHIFT_OP_SEND, 10, true);
		pass_packets(h, 0, 1);
	}
	w.data_cut[0] = w.ack_cut[0] = true;
	fail_over(0);
	assert_int_equal(stats(0)->proved, 1);
	assert_int_equal(stats(1)->proved, 1);
	assert_int_equal(w.h[0].errors + w.h[1].errors, 0);
}

/* Which life it is depends on whom the lives before were connected to (7.33). */
static void the_gid_of_start_tells_the_life(void **state)
{
	static const struct shift_conn_cfg cfg = {
		.exactly_once = true, .past = {.peer = {{.gid = {1}, .qpn = 31, .lives = 3}}}};

	(void)state;
	for (uint8_t gid = 1; gid <= 2; gid++) {
		struct shift_conn_start s = start_of(0);

		again(&cfg);
		s.dest_gid[0] = gid;
		start(0, &s);
		w_event(&w, 0, SHIFT_EV_RTS, 0);
		assert_int_equal(w.msg[0].m.life, gid == 1 ? 4 : 1);
	}
}

/* The first to say it was RTR. RTS may say it once more; nothing after that. */
static void a_start_is_final_once_both_psns_are_known(void **state)
{
	struct shift_conn_start s = start_of(0);

	(void)state;
	again(&unconfirmed);
	s.sq_psn_known = false;
	start(0, &s);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	assert_int_equal(w.msgs, 0); /* the peer speaks first (7.29) */
	s.sq_psn_known = true;
	s.sq_psn = 0x333333;
	start(0, &s);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	assert_int_equal(w.msgs, 1);
	assert_int_equal(w.msg[0].m.sq_psn, 0x333333);
	s.sq_psn = 0x444444;
	s.qpn = 99;
	shift_conn_start(w.h[0].c, &s);
	w_run(&w, 1);
	assert_int_equal(w.msg[0].m.sq_psn, 0x333333);
	assert_int_equal(w.msg[0].m.qpn, 30);
}

static void a_protected_connection_is_not_started_again(void **state)
{
	struct shift_conn_start s = start_of(0);

	(void)state;
	s.rq_psn = 1;
	shift_conn_start(w.h[0].c, &s);
	assert_int_equal(w_view(&w, 0).rep_psn, 0xfffffe);
}

/* Its give-up time is the one of start. */
static void the_give_up_time_of_start_counts(void **state)
{
	struct shift_conn_start s;
	uint64_t before;

	(void)state;
	again(&unconfirmed);
	for (int h = 0; h < 2; h++) {
		s = start_of(h);
		s.giveup_ns = 7 * SECOND;
		start(h, &s);
		w_event(&w, h, SHIFT_EV_RTS, 0);
	}
	w_run(&w, 0);
	for (int i = 0; i < W_RAILS; i++)
		cut_rail(i, true);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	before = w.now;
	while (w_state(&w, 0) < SHIFT_ST_GIVEUP)
		w_run(&w, 1);
	assert_int_equal(w.now - before, 7 * SECOND);
}

/* --- the peer is met -------------------------------------------------------------------------- */

static struct shift_conn_peer peer_of(int h)
{
	return (struct shift_conn_peer){.key = {70, 71},
					.conn = 72,
					.nonce = 100 + (uint64_t)!h,
					.id = 10 + (uint32_t)!h,
					.rails = W_RAILS,
					.side = (uint8_t)h};
}

#define IMPOSSIBLE(field, value)                             \
	do {                                                 \
		struct shift_conn_peer p = peer_of(0);       \
		p.field = value;                             \
		assert_false(shift_conn_meet(w.h[0].c, &p)); \
	} while (0)

#define POSSIBLE(field, value)                              \
	do {                                                \
		struct shift_conn_peer p = peer_of(0);      \
		p.field = value;                            \
		assert_true(shift_conn_meet(w.h[0].c, &p)); \
	} while (0)

static void a_peer_has_bounds(void **state)
{
	struct shift_conn_peer more = peer_of(0);

	(void)state;
	again(&unconfirmed);
	more.rails = W_RAILS + 1;
	assert_false(shift_conn_meet(w.h[0].c, &more));
	IMPOSSIBLE(rails, 0);
	IMPOSSIBLE(rails, W_RAILS + 1);
	IMPOSSIBLE(side, 2);
	POSSIBLE(side, 1);
	POSSIBLE(rails, W_RAILS);
	POSSIBLE(rails, 1);
	POSSIBLE(rails, 2); /* the one that was met before may have had fewer */
}

static void a_peer_is_met_before_it_is_protected(void **state)
{
	struct shift_conn_peer p = peer_of(0);

	(void)state;
	assert_false(shift_conn_meet(w.h[0].c, &p));
}

/* Whatever is refused changes nothing: the peer of before is still the one. */
static void an_impossible_peer_changes_nothing(void **state)
{
	struct shift_conn_peer p = peer_of(0);

	(void)state;
	again(&unconfirmed);
	p.nonce = 4711;
	p.id = 4712;
	p.side = 2;
	assert_false(shift_conn_meet(w.h[0].c, &p));
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	w_event(&w, 1, SHIFT_EV_RTS, 0);
	w_run(&w, 0);
	assert_true(w_view(&w, 0).protected_ && w_view(&w, 1).protected_);
}

static void meet_both(uint8_t rails)
{
	again(&unconfirmed);
	for (int h = 0; h < 2; h++) {
		struct shift_conn_peer p = peer_of(h);

		p.rails = rails;
		assert_true(shift_conn_meet(w.h[h].c, &p));
		w_event(&w, h, SHIFT_EV_RTS, 0);
	}
	w_run(&w, 0);
	assert_true(w_view(&w, 0).protected_ && w_view(&w, 1).protected_);
}

static uint64_t packets_of(uint32_t length)
{
	uint64_t before = w_view(&w, 0).packets_posted;

	w_post(&w, 0, SHIFT_OP_WRITE, length, true);
	return w_view(&w, 0).packets_posted - before;
}

/* Of each backup rail the MTU is what the two ends have in common. Of rail 0 it is the program's,
 * also when the connection comes back to it. */
static void each_rail_has_the_mtu_that_was_agreed(void **state)
{
	(void)state;
	meet_both(W_RAILS);
	assert_int_equal(packets_of(4096), 4);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).r, 1);
	assert_int_equal(packets_of(4096), 8);
	assert_true(w_settle(&w, 50));
	w.now += 2 * SECOND;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	assert_true(w_settle(&w, 50));
	assert_int_equal(w_view(&w, 0).r, 2);
	assert_int_equal(packets_of(4096), 2);
	assert_true(w_settle(&w, 50));
	w.now += 2 * SECOND;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 0);
	assert_true(w_settle(&w, 50));
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_int_equal(packets_of(4096), 4);
}

/* The PSNs of an epoch are made of what was agreed: key, number and side (rule 7). */
static void the_psns_are_made_of_what_was_agreed(void **state)
{
	const uint64_t key[2] = {70, 71};

	(void)state;
	meet_both(W_RAILS);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	for (int h = 0; h < 2; h++) {
		uint32_t e = w_view(&w, h).e;

		assert_int_equal(w.h[h].qp[1].epoch, e);
		assert_int_equal(w.h[h].qp[1].rx_psn,
				 shift_psn_add(shift_h24(key, 72, e, !h), !!h));
		assert_int_equal(w.h[h].qp[1].tx_psn, shift_psn_add(shift_h24(key, 72, e, h), !h));
	}
}

static void rail_opens(int h, uint8_t rail, uint16_t mtu)
{
	struct shift_event ev = {.type = SHIFT_EV_RAIL_OPEN, .rail = rail, .mtu = mtu};

	shift_conn_event(w.h[h].c, &ev, w.now);
}

/* Of what the two ends found out, not of what one of them was configured with. */
static void each_rail_has_the_mtu_with_which_it_opened(void **state)
{
	(void)state;
	for (int rail = 1; rail < W_RAILS; rail++) {
		meet_both(W_RAILS);
		for (int h = 0; h < 2; h++) {
			rail_opens(h, 1, 256);
			rail_opens(h, 2, 4096);
			w_event(&w, h, SHIFT_EV_RAIL_VETO, rail);
			rail_opens(h, (uint8_t)rail, 0); /* whose it is does not change it */
		}
		assert_int_equal(packets_of(4096), 4); /* that of rail 0 */
		w_event(&w, 0, SHIFT_EV_MIGRATE, rail);
		assert_true(w_settle(&w, 50));
		assert_int_equal(w_view(&w, 0).r, rail);
		assert_int_equal(packets_of(4096), rail == 1 ? 16 : 1);
	}
}

/* Side 1 takes odd epochs (rule 3), and which side it is the meeting says. */
static void the_side_is_that_of_the_meeting(void **state)
{
	(void)state;
	again(&unconfirmed);
	for (int h = 0; h < 2; h++) {
		struct shift_conn_peer p = peer_of(h);

		p.side = (uint8_t)!h;
		assert_true(shift_conn_meet(w.h[h].c, &p));
		w_event(&w, h, SHIFT_EV_RTS, 0);
	}
	w_run(&w, 0);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).e, 1);
	assert_int_equal(w.h[0].completed, 1);
}

/* Who meets the same peer once more goes on calling it as before. */
static void the_same_peer_again_does_not_put_hello_back(void **state)
{
	struct shift_conn_peer p = peer_of(0);
	uint64_t at;

	(void)state;
	again(&unconfirmed);
	assert_true(shift_conn_meet(w.h[0].c, &p));
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	at = shift_conn_deadline(w.h[0].c);
	assert_true(at != UINT64_MAX);
	assert_true(shift_conn_meet(w.h[0].c, &p));
	assert_true(shift_conn_deadline(w.h[0].c) == at);
	p.nonce++;
	assert_true(shift_conn_meet(w.h[0].c, &p));
	assert_true(shift_conn_deadline(w.h[0].c) == UINT64_MAX);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	p.id++;
	assert_true(shift_conn_meet(w.h[0].c, &p));
	assert_true(shift_conn_deadline(w.h[0].c) == UINT64_MAX);
}

static void only_common_rails_are_used(void **state)
{
	(void)state;
	meet_both(1);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(a_configuration_has_bounds),
		WORLD_TEST(rails_that_are_not_used_need_no_mtu),
		WORLD_TEST(each_default_is_written_where_nothing_is_said),
		WORLD_TEST(what_is_said_stays),
		WORLD_TEST(memory_must_be_large_enough_and_aligned),
		WORLD_TEST(it_keeps_to_its_memory),
		WORLD_TEST(the_end_of_its_memory_is_not_touched),
		WORLD_TEST(it_begins_from_nothing),
		WORLD_TEST(confirmed_it_is_protected_at_once),
		WORLD_TEST(confirmed_it_has_heard_hello),
		WORLD_TEST(confirmed_it_keeps_the_quarantine_of_its_past),
		WORLD_TEST(the_report_begins_at_the_programs_rq_psn),
		WORLD_TEST(both_psns_of_the_program_are_the_map),
		WORLD_TEST(only_24_bits_of_a_psn_count),
		WORLD_TEST(packets_are_counted_at_the_programs_mtu),
		WORLD_TEST(packets_are_counted_at_it_after_a_return),
		WORLD_TEST(the_psn_of_the_configuration_is_forgotten),
		WORLD_TEST(the_gid_of_start_tells_the_life),
		WORLD_TEST(a_start_is_final_once_both_psns_are_known),
		WORLD_TEST(a_protected_connection_is_not_started_again),
		WORLD_TEST(the_give_up_time_of_start_counts),
		WORLD_TEST(a_peer_has_bounds),
		WORLD_TEST(a_peer_is_met_before_it_is_protected),
		WORLD_TEST(an_impossible_peer_changes_nothing),
		WORLD_TEST(each_rail_has_the_mtu_that_was_agreed),
		WORLD_TEST(each_rail_has_the_mtu_with_which_it_opened),
		WORLD_TEST(the_side_is_that_of_the_meeting),
		WORLD_TEST(the_same_peer_again_does_not_put_hello_back),
		WORLD_TEST(the_psns_are_made_of_what_was_agreed),
		WORLD_TEST(only_common_rails_are_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
