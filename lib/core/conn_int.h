/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The inside of a connection, shared by the files of lib/core that handle its events. */
#ifndef SHIFT_CORE_CONN_INT_H
#define SHIFT_CORE_CONN_INT_H

#include "lib/core/conn.h"
#include "lib/core/psn.h"
#include "lib/core/siphash.h"
#include "lib/core/wrlog.h"

#define NEVER	UINT64_MAX
#define NO_RAIL UINT8_MAX

enum { ACTIONS_NEAR = 8 }; /* of SHIFT_ACTIONS_MAX */

#ifdef SHIFT_CHECKED
#define COVER(cell) (shift_coverage.cell++)
#else
#define COVER(cell) ((void)0)
#endif

/* One rail of the connection and the QP on it. */
struct rail {
	uint32_t tag;	      /* epoch its QP was last armed for */
	uint32_t rx_psn;      /* where that arming starts to receive: P_rx(tag) */
	bool armed;	      /* the QP may accept packets */
	bool fencing;	      /* FENCE emitted, FENCE_DONE not seen */
	bool hung;	      /* its fence hit the deadline: the NIC may still be alive */
	bool counts;	      /* hung, and its completions still count: no receive of ours was
			       * posted elsewhere since */
	bool unaccounted;     /* some WR or CQE of its QP is not accounted for: no RESET */
	bool vetoed;	      /* RAIL_VETO by the caller */
	bool awaited;	      /* ... only because it has not come yet */
	bool apart;	      /* the peer's NIC there is not atomic with that of rail 0 */
	bool down;	      /* link */
	uint32_t tries;	      /* as a target, in this trouble */
	uint32_t misses;      /* consecutive missed probes */
	uint32_t witnessed;   /* misses that count (T6): with another rail answered in between */
	bool witness;	      /* another rail was answered since the last miss */
	uint64_t dirty_until; /* old packets of its QP live until then; NEVER: not proven fenced */
	uint64_t back_at;     /* its NIC hung, and is clean: not possible before (7.39); or 0 */
	uint64_t probe_ok_ns; /* last answered probe; 0: none yet */
	uint64_t miss_ns;     /* first miss of the present row */
	uint64_t silent_ns;   /* first found silent (rail_silent()) since its last answer; 0: not */
	uint64_t healthy_ns;  /* answered without a miss since; NEVER: not */
	uint64_t failed_ns;   /* last failover away from it; 0: never */
	uint64_t hold_down_ns; /* to wait before going back to it */
};

/* The switch under way, or planned. */
struct plan {
	uint32_t e;	 /* epoch to enter */
	uint8_t r;	 /* rail to enter it on, or NO_RAIL */
	bool planned;	 /* by the operator or fail-back */
	bool follower;	 /* in DRAIN: the peer will start */
	bool started;	 /* here, not joined */
	bool ready_sent; /* in DRAIN as follower */
	bool rnr;	 /* begun by an RNR error */
	uint8_t arm_r;	 /* ARM under way: rail and epoch; a newer plan waits for its answer */
	uint32_t arm_e;
	uint32_t serial;   /* planned: of my newest attempt */
	uint32_t followed; /* ... of the peer's newest attempt that I followed, or it withdrew */
	uint32_t hold_ms;  /* ... PREPARE: asked of the peer; DRAIN as follower: promised */
	uint64_t asked_ns; /* ... when PREPARE(serial) was sent first */
	uint64_t until;	   /* DRAIN: end of my promise; of the starter: to be fenced before it */
	uint32_t patience; /* timeouts waited out because the rail answers probes */
	uint64_t since;	   /* of the state for bounded waits */
	uint64_t trouble;  /* since when data has not moved; 0: no trouble */
	uint32_t backoff;  /* doublings of the switch timeout */
	uint32_t refusals; /* of a rail that the peer named, in this trouble */
	uint64_t refused_ns;
};

struct shift_conn {
	/* What the hot path reads. */
	uint8_t state;
	uint8_t r;
	bool holding;
	bool silent; /* the QP is over, without completions: it was reset or destroyed */
	bool quiet;  /* the peer's process has ended; an idle program is not told (7.47) */
	uint32_t e;
	struct shift_sendlog sq;
	struct shift_recvlog *rq; /* shift_hot.recvs */
	struct shift_hot own_hot; /* unless the caller has it (cfg.hot) */

	struct shift_conn_cfg cfg;
	struct rail rail[SHIFT_RAILS_MAX];
	struct plan plan;

	/* Protocol (rule 1). */
	uint32_t lastc;
	uint32_t sent_e;   /* newest epoch before lastc whose packets of ours may still live */
	uint32_t tx_psn;   /* P_tx(lastc) */
	uint32_t heard;	   /* newest epoch whose SWITCH I have */
	uint32_t seen_e;   /* newest epoch in any message of the peer */
	uint32_t proved_e; /* newest that it entered: its QPs of all older ones are fenced */
	uint32_t proved_committed; /* ... and its `committed` when it entered that */
	uint64_t proved_ns;
	uint32_t rep_epoch;
	uint32_t rep_psn;
	bool rep_unsure;	 /* something newer than rep may have been executed */
	struct shift_msg mine;	 /* my SWITCH(e), frozen */
	struct shift_msg theirs; /* newest SWITCH received that proves something */
	struct shift_msg closed; /* CLOSED received, to be used when fenced */
	uint32_t msg_rails;	 /* mask: their control link brought the message being handled */
	bool hello_heard;
	uint8_t rails_max;  /* as configured; cfg.rails: that both ends have */
	uint32_t peer_life; /* the number of its life, as its HELLO that matched says */
	bool hello_started;
	bool sq_psn_known; /* false: the QP is in RTR, and only receives so far */
	bool unprotected;  /* an error was passed through in SETUP: SETUP for good */

	/* Atomics (7.54). */
	bool atomic;	   /* one was posted to a NIC in this life */
	bool let_go;	   /* the peer has released its end */
	uint64_t waits_at; /* log index of the oldest that is held since it was posted, or NEVER */
	uint64_t waits_since; /* since when it waits in ACTIVE; 0: not looked at yet */

	/* Timers: absolute ns or NEVER. */
	uint64_t rto_at;
	uint64_t rto_ns;
	uint64_t timeout_at;
	uint64_t check_at;
	uint64_t active_ns; /* of the last COMMIT */
	uint64_t chosen_ns; /* of the last choice of a rail, by us or by the peer */
	uint32_t attempt;
	uint32_t in_vain;      /* planned switches abandoned since the last COMMIT */
	uint64_t abandoned_at; /* the latest of them */

	/* All sends before this index had completed at quiet_ns, or earlier; NEVER: not known. */
	uint64_t quiet_sent;
	uint64_t quiet_ns;

	/* No-progress question. */
	uint64_t check_done;
	uint32_t query_serial;
	uint32_t query_psn;
	uint32_t query_same;   /* answers in a row that said so */
	bool query_open;       /* the last question has had no answer yet */
	uint8_t query_rail;    /* whose control link it went over */
	uint32_t asked_serial; /* of the peer's question that is being answered, */
	uint32_t asked_rails;  /* and msg_rails of it */

	/* Errors. */
	uint64_t flushed;    /* error completions of sends in epoch lastc */
	uint32_t err_status; /* first error of the QP, or 0 */
	uint32_t err_vendor;
	uint32_t left_status; /* why the last rail was left, if its NIC named a cause; or 0 */
	bool err_recv;	      /* the program's own error, and of a receive */
	bool err_given;	      /* the first error completion went out */
	uint64_t recv_final;  /* receives consumed when the QP was over: flushes do not count */
	uint8_t end_reason;

	uint8_t reason;
	struct shift_conn_stats stats;
	uint32_t act_head, act_tail;
	bool overflowed; /* an action of this connection was lost, or the reserve was touched */
	struct shift_action act_lost; /* for those that find no room */
	struct shift_action act_near[ACTIONS_NEAR];
	/* The rest, at the end of the connection's memory, which hardly any connection ever
	 * touches.
	 */
	struct shift_action *act_far;
};

static inline struct shift_action *conn_action_at(struct shift_conn *c, uint32_t i)
{
	return i < ACTIONS_NEAR ? &c->act_near[i] : &c->act_far[i - ACTIONS_NEAR];
}

/* invariants.c: after each call, and with each action */
#ifdef SHIFT_CHECKED
void conn_check(const struct shift_conn *c);
void conn_check_post(const struct shift_conn *c);
void conn_check_emit(const struct shift_conn *c, enum shift_action_type type, uint8_t rail);
#else
static inline void conn_check(const struct shift_conn *c)
{
	(void)c;
}

static inline void conn_check_post(const struct shift_conn *c)
{
	(void)c;
}

static inline void conn_check_emit(const struct shift_conn *c, enum shift_action_type type,
				   uint8_t rail)
{
	(void)c;
	(void)type;
	(void)rail;
}
#endif

/* conn_state.c */
void conn_set_state(struct shift_conn *c, enum shift_state to, enum shift_reason reason);
struct shift_action *conn_emit(struct shift_conn *c, enum shift_action_type type, uint8_t rail);
void conn_send(struct shift_conn *c, struct shift_msg *m, uint8_t rail);
void conn_answer(struct shift_conn *c, struct shift_msg *m, uint32_t rails); /* a mask */
void conn_watch(struct shift_conn *c, uint64_t now);			     /* T8 begins anew */
void conn_hold(struct shift_conn *c);
void conn_release(struct shift_conn *c);
void conn_untrack(struct shift_conn *c);
void conn_offer_completions(struct shift_conn *c);
void conn_trouble_over(struct shift_conn *c);
uint32_t conn_psn(const struct shift_conn *c, uint32_t epoch, unsigned int side);
void conn_arm_rto(struct shift_conn *c, uint64_t now);
bool conn_switching(const struct shift_conn *c); /* FENCE .. SWITCHING */
bool conn_promised(const struct shift_conn *c, uint8_t rail, uint64_t now);

/* Receives are only logged: there is no QP that they could be posted to. */
static inline bool conn_recv_held(const struct shift_conn *c)
{
	return c->state >= SHIFT_ST_FENCE && c->state != SHIFT_ST_SWITCHING;
}

/* The peer was never told of this connection, so it cannot be protected there either. */
static inline bool conn_unknown_to_peer(const struct shift_conn *c)
{
	return !c->hello_started && !c->hello_heard;
}

/* The QP is over: what is posted flushes. */
static inline bool conn_flushing(const struct shift_conn *c)
{
	return c->state == SHIFT_ST_DEAD || c->state == SHIFT_ST_CLOSED;
}

/* How long ago. 0 if then is later than now: another thread read the clock later, but came in
 * first. */
static inline uint64_t conn_since(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

/* rails.c */
uint64_t rail_usable_at(const struct shift_conn *c, uint8_t i);
bool rail_usable(const struct shift_conn *c, uint8_t i, uint64_t now);
bool rail_possible(const struct shift_conn *c, uint8_t i);
uint8_t rail_choose(const struct shift_conn *c, uint64_t now);
void rail_tried(struct shift_conn *c, uint8_t i);
void rail_failed(struct shift_conn *c, uint8_t i, uint64_t now);
void rail_proof(struct shift_conn *c, const struct shift_msg *m, uint64_t now);
uint64_t rail_dirty_until(const struct shift_conn *c, uint32_t tag, uint64_t now);
uint32_t rail_live_epoch(const struct shift_conn *c, uint64_t now);
bool rail_answers(const struct shift_conn *c, uint8_t i);
bool rail_silent(const struct shift_conn *c, uint8_t i);
uint64_t rail_escape_at(const struct shift_conn *c);
uint64_t rails_back_at(const struct shift_conn *c);
void rails_come_back(struct shift_conn *c, uint64_t now);
void rail_tick(struct shift_conn *c, uint64_t now);
void rail_event(struct shift_conn *c, const struct shift_event *ev, uint64_t now);

/* fence.c */
void fence_rail(struct shift_conn *c, uint8_t i);
bool fence_pending(const struct shift_conn *c);
void fence_all(struct shift_conn *c);
void fence_done(struct shift_conn *c, const struct shift_event *ev, uint64_t now);

/* switch.c */
void switch_start(struct shift_conn *c, enum shift_reason reason, uint8_t rail, uint64_t now);
void switch_join(struct shift_conn *c, const struct shift_msg *m, uint64_t now);
void switch_fenced(struct shift_conn *c, uint64_t now);
void switch_armed(struct shift_conn *c, const struct shift_event *ev, uint64_t now);
void switch_arm_failed(struct shift_conn *c, const struct shift_event *ev, uint64_t now);
void switch_msg(struct shift_conn *c, const struct shift_msg *m, uint64_t now);
void switch_tick(struct shift_conn *c, uint64_t now);
uint64_t switch_settles_at(const struct shift_conn *c);
void switch_retarget(struct shift_conn *c, enum shift_reason reason, uint64_t now);

/* replay.c */
int replay_commit(struct shift_conn *c, const struct shift_msg *m);
void replay_closed(struct shift_conn *c, const struct shift_msg *m);
void replay_lost_check(struct shift_conn *c);

/* failback.c */
void failback_prepare(struct shift_conn *c, uint8_t rail, enum shift_reason reason, uint64_t now);
void failback_msg(struct shift_conn *c, const struct shift_msg *m, uint64_t now);
void failback_drained(struct shift_conn *c, uint64_t now);
void failback_tick(struct shift_conn *c, uint64_t now);
uint64_t failback_deadline(const struct shift_conn *c);
uint64_t failback_good_at(const struct shift_conn *c, uint8_t i);

/* atomics.c */
bool atomics_bar(const struct shift_conn *c, uint8_t i);
void atomics_post(struct shift_conn *c);
void atomics_unpost(struct shift_conn *c);
uint64_t atomics_end(struct shift_conn *c);
bool atomics_wait(const struct shift_conn *c);
uint64_t atomics_deadline(const struct shift_conn *c);
void atomics_tick(struct shift_conn *c, uint64_t now);

/* progress.c */
void progress_tick(struct shift_conn *c, uint64_t now);
void progress_msg(struct shift_conn *c, const struct shift_msg *m, uint64_t now);
void progress_psn(struct shift_conn *c, const struct shift_event *ev);

/* hello.c */
void hello_start(struct shift_conn *c, uint64_t now);
void hello_msg(struct shift_conn *c, const struct shift_msg *m, uint64_t now);
void hello_void(struct shift_conn *c);
void hello_tick(struct shift_conn *c, uint64_t now);

/* lives.c */
void life_say(const struct shift_conn *c, struct shift_msg *hello);
bool life_matches(const struct shift_conn *c, const struct shift_msg *hello);
bool life_is_past(const struct shift_conn *c, const struct shift_conn_peer *p);
void life_init_rails(struct shift_conn *c);
void life_matched(struct shift_conn *c, uint64_t now);

/* giveup.c */
void giveup_start(struct shift_conn *c, enum shift_reason reason, uint32_t status, uint32_t vendor);
void giveup_overflowed(struct shift_conn *c);
void giveup_no_key(struct shift_conn *c, const struct shift_event *ev);
uint32_t giveup_cause(const struct shift_conn *c);
void giveup_peer_left(struct shift_conn *c);
void giveup_break_quiet(struct shift_conn *c);
void giveup_close(struct shift_conn *c, uint8_t how);
void giveup_fenced(struct shift_conn *c);
void giveup_msg(struct shift_conn *c, const struct shift_msg *m);
void giveup_answer(const struct shift_conn *c, struct shift_msg *m);
bool giveup_due(const struct shift_conn *c, uint64_t now);

#endif
