/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Two connections wired back to back over a small model of RC: enough to try each rule by hand.
 * (The faithful one is in tests/sim.) Everything that is wrong is counted in world.bad and printed.
 */
#ifndef TESTS_UNIT_WORLD_H
#define TESTS_UNIT_WORLD_H

#include "lib/core/conn.h"

#define W_RAILS 3
#define W_SQ	16
#define W_RQ	16
#define W_WRS	20000
#define W_MSGS	256
#define W_CQES	1024
#define W_OPS	32

struct w_wqe {
	uint64_t id;
	uint32_t first_psn, packets, executed;
	uint32_t length, offset;
	uint8_t opcode;
	bool signaled, acked;
};

struct w_qp {
	bool up;  /* RTS */
	bool err; /* ERR: accepts nothing */
	uint32_t epoch, tx_psn, rx_psn;
	uint32_t head, tail; /* of sq: posted, acknowledged */
	uint32_t freed;	     /* ... whose slots the program's polling has given back */
	struct w_wqe sq[4 * W_SQ];
	uint64_t recv_id[4 * W_RQ];
	uint32_t recv_head, recv_tail;
};

struct w_msg {
	struct shift_msg m;
	uint8_t rail, to;
};

struct w_host {
	struct shift_conn *c;
	void *mem;
	struct shift_conn_cfg cfg;    /* of the life that the QP is in */
	struct shift_tombstone stone; /* of the life before */
	struct w_qp qp[W_RAILS];
	struct shift_cqe cq[W_CQES];
	uint32_t cq_head, cq_tail;
	struct shift_action op[W_OPS]; /* FENCE, ARM, QUERY_PSN not executed yet */
	uint32_t ops;
	/* The program. */
	uint64_t posted, recv_posted;
	uint64_t completed; /* next id whose completion may come */
	uint64_t recv_completed, executed_two, flushes, errors;
	uint32_t first_error, first_vendor;
	uint8_t opcode[W_WRS];
	bool signaled[W_WRS];
	uint32_t length[W_WRS];
	uint32_t placed[W_WRS];	   /* bytes of WRITE placed at the peer, in order */
	uint8_t times[W_WRS];	   /* executions of SEND, WRITE_IMM, atomics */
	uint64_t two_order[W_WRS]; /* ids of two-sided WRs in the order posted */
	uint64_t twos;
	bool qp_err, closed, send_failed;
};

struct world {
	struct w_host h[2];
	bool data_cut[W_RAILS], ack_cut[W_RAILS], ctl_cut[W_RAILS];
	bool ack_cut_from[2]; /* on every rail, ACKs sent by this host */
	bool frozen_fence, frozen_arm, at_least_once_ok, overflow_ok;
	int fence_bias; /* added to the rq_psn that fences report */
	bool fence_unsure[2], fence_hung[2], arm_fails[W_RAILS];
	struct w_msg msg[W_MSGS];
	uint32_t msgs;
	uint64_t now;
	uint64_t rng;
	unsigned int bad;
	bool trace;
};

/* cfg: NULL for the usual; side, ids and PSNs are filled in. */
void w_init(struct world *w, const struct shift_conn_cfg *cfg, uint64_t seed);
/* The same with receives posted on both sides, from which most tests start. */
#define W_READY_RECVS 8
void w_init_ready(struct world *w, const struct shift_conn_cfg *cfg);
void w_free(struct world *w);

/* The program. */
bool w_post(struct world *w, int h, enum shift_opcode op, uint32_t len, bool signaled);
bool w_post_flags(struct world *w, int h, enum shift_opcode op, uint32_t len, unsigned int flags);
bool w_recv(struct world *w, int h);
void w_close(struct world *w, int h, enum shift_close how);

/* The program RESETs its QP, which ends its life, and brings it to RTS again with the same PSNs: as
 * lib/verbs does it. The next life has that id. */
void w_next_life(struct world *w, int h, uint32_t id);

/* Host h finds what the peer has published: the life that its QP is in now. As lib/session does it.
 * false: that life is none that could be met. */
bool w_meet(struct world *w, int h);

/* One step of one kind each; false if there was nothing to do. */
bool w_packet(struct world *w, int h, int rail); /* next packet of h reaches the peer's NIC */
bool w_ack(struct world *w, int h, int rail);	 /* oldest executed WR of h is acknowledged */
bool w_break(struct world *w, int h, int rail);	 /* retries exhausted: h's QP fails */
bool w_cqe(struct world *w, int h);		 /* the oldest completion reaches the core */
bool w_op(struct world *w, int h);		 /* the oldest fence, arm, query is done */
bool w_msg(struct world *w, uint32_t i);	 /* deliver and remove message i */
void w_event(struct world *w, int h, enum shift_event_type type, int rail);
void w_tick(struct world *w, int h);

/* Everything that can happen without time passing, then time up to the next deadline; n rounds. */
void w_run(struct world *w, unsigned int n);
/* Until both are ACTIVE and all WRs completed, or n rounds. */
bool w_settle(struct world *w, unsigned int n);

uint32_t w_random(struct world *w, uint32_t n);
enum shift_state w_state(const struct world *w, int h);

static inline struct shift_conn_view w_view(const struct world *w, int h)
{
	struct shift_conn_view v;

	shift_conn_view(w->h[h].c, &v);
	return v;
}

#endif
