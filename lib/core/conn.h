/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The connection: a program's RC QP together with its twins, moved between rails exactly once and
 * in order (doc/protocol.md). Events go in, actions come out.
 *
 * Pure: no verbs, no threads, no clock, no I/O, no allocation. Time comes in as now_ns, from any
 * monotonic clock. The caller serialises all calls for one connection, and after every call that
 * takes a struct shift_conn drains the actions (shift_conn_action) in order, and when told
 * SHIFT_ACT_COMPLETE the completions (shift_conn_completion), before the next call.
 *
 * One exception, for the hot path: from set-up until SHIFT_ACT_HOLD and again from the moment that
 * shift_conn_tracked is false, one thread may log sends, another receives, a third feed successful
 * completions at the same time, without a lock. Sends and receives write different cache lines.
 * Anything else, error completions included, first quiesces these three.
 *
 * One call emits at most SHIFT_ACTIONS_MAX actions: see there.
 */
#ifndef SHIFT_CORE_CONN_H
#define SHIFT_CORE_CONN_H

#include "lib/core/msg.h"
#include "lib/core/types.h"

struct shift_conn;

/* --- configuration -------------------------------------------------------------------------- */

/* A QP of a peer that lives of ours were connected to. */
struct shift_past_peer {
	uint8_t gid[16];
	uint32_t qpn;	/* 0: there is none */
	uint32_t lives; /* of ours, that were connected to it */
	uint32_t id;	/* of its life that the last of ours matched */
	uint64_t nonce; /* of its process; 0: that life of ours matched none */
};

enum { SHIFT_PAST_PEERS = 4 };

/* What a connection must know of the lives that its QP had before, each of which ended with RESET
 * (doc/protocol.md, 7.33, 7.34). All 0: there was none. shift_conn_past() writes it. */
struct shift_past {
	struct shift_past_peer peer[SHIFT_PAST_PEERS]; /* the last one first */
	uint64_t rail0_until; /* a life left rail 0 not long before its end: what the peer had sent
			       * there may arrive until then. The program's QP is not to be brought
			       * to RTR before */
	uint8_t armed; /* mask of the backup rails whose QPs were armed in one of them, less those
			* of which a later one has seen the quarantine pass */
	bool moved;    /* some of these were armed for another QP of a peer than the last */
};

struct shift_hot; /* lib/core/wrlog.h */

struct shift_conn_cfg {
	uint64_t key[2];	       /* of the job, for H24 */
	uint64_t conn;		       /* shift_conn_number(): the same on both sides */
	uint64_t nonce;		       /* this process */
	uint64_t peer_nonce;	       /* 0: learn it from HELLO */
	uint32_t id;		       /* allocated by this process, for this life only */
	uint32_t peer_id;	       /* allocated by the peer */
	uint32_t qpn;		       /* rail 0 */
	uint32_t dest_qpn;	       /* rail 0 */
	uint8_t dest_gid[16];	       /* rail 0 */
	struct shift_past past;	       /* the lives that the QP had before */
	uint32_t sq_psn;	       /* the program's own, rail 0, epoch 0 */
	uint32_t rq_psn;	       /* the program's own, rail 0, epoch 0 */
	uint32_t mtu[SHIFT_RAILS_MAX]; /* path MTU of each rail, bytes: 256 .. 4096; of a backup
					* until RAIL_OPEN says another */
	uint32_t sq_cap;	       /* send queue as the provider accepted it, WRs */
	uint32_t sq_slots;	       /* the log of sends begins with so many, a power of 2; 0: 128
					*/
	uint32_t rq_cap;	       /* receive queue as accepted; 0 with an SRQ */
	uint32_t sq_sge_max;	       /* as accepted */
	uint32_t rq_sge_max;	       /* as accepted */
	uint32_t inline_max;	       /* bytes, as accepted */
	uint8_t rails;		       /* 1 .. SHIFT_RAILS_MAX */
	uint8_t side;		       /* 0: smaller (gid, qpn); 1: the other */
	bool sq_sig_all;	       /* every send is signaled */
	bool srq;		       /* receives come from an SRQ: counted, not logged */
	bool exactly_once;	       /* false: replay all that is unacknowledged (the papers) */
	bool lost_atomic_continue;     /* SHIFT_LOST_ATOMIC=continue */
	/* Where the data path counts: memory of the caller, for the life of the connection. So the
	 * caller has it without reading a pointer. NULL: the connection's own. */
	struct shift_hot *hot;
	bool confirmed; /* skip HELLO: the caller has matched nonces and PSNs itself */

	/* Times in ns; 0 takes the default that shift_conn_cfg_defaults writes. */
	uint64_t rto_ns;	      /* first retransmission of a control message: 20 ms */
	uint64_t switch_timeout_ns;   /* no answer to SWITCH: try another epoch: 500 ms */
	uint64_t quarantine_ns;	      /* after the peer is fenced, old packets live on: 1 s */
	uint64_t giveup_ns;	      /* 30 s */
	uint64_t retries_ns;	      /* until a twin gives up a packet, at most; 0: not known */
	uint64_t drain_ns;	      /* planned switch: bounded wait, at first, whole ms: 200 ms */
	uint64_t hold_down_ns;	      /* first hold-down before fail-back: 1 s */
	uint64_t hold_down_max_ns;    /* 300 s */
	uint64_t hold_down_window_ns; /* failures further apart do not double it: 600 s */
	uint64_t no_progress_ns;      /* WRs outstanding without completion: ask: 1 s */
	uint64_t tombstone_ns;	      /* 60 s; for the caller, see shift_tombstone */
	uint32_t probe_misses;	      /* consecutive misses that count as silence: 3 */
	/* Answers in a row, none with a step forward, that mean a dead path: 4. soft-RoCE under
	 * full load lets a QP stand for up to 2 s, and it goes on by itself. */
	uint32_t no_progress_answers;
};

/* Fill every time and count that is 0, set rails >= 1. Touches nothing else. */
void shift_conn_cfg_defaults(struct shift_conn_cfg *cfg);

/* Bytes of memory one connection needs, aligned to 64; 0 if cfg is impossible. */
size_t shift_conn_size(const struct shift_conn_cfg *cfg);

/*
 * Set a connection up in the caller's memory (64-byte aligned, shift_conn_size(cfg) bytes; owned
 * by the caller, who frees it when done; nothing else is held). NULL if cfg is impossible or len
 * too small. State SHIFT_ST_SETUP, not protected: errors pass through until HELLO has matched,
 * or with cfg->confirmed at once SHIFT_ST_ACTIVE.
 */
struct shift_conn *shift_conn_init(void *mem, size_t len, const struct shift_conn_cfg *cfg,
				   uint64_t now_ns);

/*
 * For values that become known only later, as a caller must log receives from the moment the QP
 * exists. Both are for SHIFT_ST_SETUP. What is impossible is refused and changes nothing.
 *
 * shift_conn_start: with what the program gave to modify_qp, at RTR and at RTS, before the first
 * send. At RTR sq_psn is not known: the peer's HELLO says what it expects (7.29).
 * shift_conn_meet: the peer was found; before SHIFT_EV_RTS. Returns whether it is possible; a life
 * of the peer that a life of ours before this one has matched is not. rails may only become fewer
 * than in the configuration. If another is met than before, HELLO begins anew.
 */
struct shift_conn_start {
	uint32_t qpn, dest_qpn;
	uint8_t dest_gid[16];
	uint32_t sq_psn, rq_psn;
	bool sq_psn_known;
	uint32_t mtu;	     /* path MTU of rail 0, bytes */
	uint64_t giveup_ns;  /* as in the configuration, but not 0 */
	uint64_t retries_ns; /* as in the configuration */
};
void shift_conn_start(struct shift_conn *c, const struct shift_conn_start *s);

struct shift_conn_peer {
	uint64_t key[2];
	uint64_t conn;
	uint64_t nonce;
	uint32_t id;
	uint8_t rails;
	uint8_t side;
};
bool shift_conn_meet(struct shift_conn *c, const struct shift_conn_peer *p);

/* One end of a connection, in one life of its QP. */
struct shift_end {
	uint8_t gid[16]; /* of rail 0 */
	uint32_t qpn;	 /* likewise */
	uint32_t id;
	uint64_t nonce;
};

/* The number of the connection, which both sides compute alike and which no other connection of the
 * job has, not even another life of the same two QPs. *side: which of the two sides we are. */
uint64_t shift_conn_number(const uint64_t key[2], const struct shift_end *mine,
			   const struct shift_end *theirs, uint8_t *side);

/* When a life has ended (CLOSED, DEAD or never protected): what the next one must know. */
void shift_conn_past(const struct shift_conn *c, uint64_t now_ns, struct shift_past *past);

/* --- states --------------------------------------------------------------------------------- */

#define SHIFT_STATES(X)                                                                     \
	X(SETUP, "unprotected: HELLO not matched yet; errors pass through")                 \
	X(ACTIVE, "data flows on rail r, epoch e")                                          \
	X(PREPARE, "ACTIVE, and the peer is asked whether it could move (planned switch)")  \
	X(DRAIN, "planned switch: posts held, waiting for what should not be interrupted")  \
	X(FENCE, "entering an epoch: the old rail's QP is being fenced")                    \
	X(NO_RAIL, "fenced, and no rail to go to; waiting for one")                         \
	X(QUARANTINE, "fenced; the target, or our own dead NIC, may still see old packets") \
	X(ARM, "the target's twin is brought to RTS")                                       \
	X(SWITCHING, "SWITCH sent, the peer's of the same epoch not received")              \
	X(GIVEUP, "fencing every rail before the first error completion")                   \
	X(DEAD, "errors handed over; SWITCH is answered FAILED")                            \
	X(CLOSING, "the program ends the QP: fencing every rail before its call returns")   \
	X(CLOSED, "fenced; SWITCH is answered CLOSED")

enum shift_state {
#define SHIFT_STATE_ENUM(name, what) SHIFT_ST_##name,
	SHIFT_STATES(SHIFT_STATE_ENUM)
#undef SHIFT_STATE_ENUM
		SHIFT_ST_COUNT
};

/* Why a state changed. */
#define SHIFT_REASONS(X)                                                    \
	X(INIT, "set up")                                                   \
	X(HELLO, "HELLO matched")                                           \
	X(CQE_ERROR, "error completion that the network can cause")         \
	X(POST_FAILED, "the NIC refused a post")                            \
	X(LINK_DOWN, "link event on the rail")                              \
	X(PEER_SWITCH, "the peer's SWITCH")                                 \
	X(PROBES_LOST, "probes missed here and answered elsewhere")         \
	X(OPERATOR, "shift-ctl")                                            \
	X(FAIL_BACK, "a better rail has been healthy long enough")          \
	X(NO_PROGRESS, "the peer's rq_psn shows a dead path")               \
	X(TIMEOUT, "no answer in time")                                     \
	X(ARM_FAILED, "the twin could not be brought to RTS")               \
	X(FENCED, "the fence is done")                                      \
	X(ARMED, "the twin is in RTS, receives posted")                     \
	X(SETTLED, "quarantine over")                                       \
	X(RAIL_FOUND, "a rail became usable")                               \
	X(NO_RAIL, "no rail is usable")                                     \
	X(COMMIT, "SWITCH of the same epoch received")                      \
	X(PREPARED, "the peer is ready for the planned switch")             \
	X(ABANDONED, "the planned switch was given up; traffic goes on")    \
	X(GIVEUP_TIME, "give-up time passed")                               \
	X(PROGRAM_ERROR, "error completion that is the program's own")      \
	X(LOST_ATOMIC, "an executed atomic lost its result")                \
	X(PROOF_FAILED, "rq_psn or receive count contradicts what we know") \
	X(PROTOCOL, "the peer broke the protocol")                          \
	X(PEER_FAILED, "the peer gave up")                                  \
	X(PEER_CLOSED, "the peer closed its QP")                            \
	X(PEER_UNKNOWN, "the peer's process does not know the connection")  \
	X(PEER_DIED, "the peer's process is gone or was replaced")          \
	X(PEER_LEFT, "the peer's process has ended")                        \
	X(RELEASED, "the program does what cannot be moved")                \
	X(NO_KEY, "a request names memory that the NIC has no key for")     \
	X(ATOMICS, "an atomic that only another rail may execute")          \
	X(CLOSE, "destroy, reset or modify(ERR) by the program")            \
	X(OVERFLOW, "our own fault: more actions came up than the queue holds")

enum shift_reason {
#define SHIFT_REASON_ENUM(name, what) SHIFT_R_##name,
	SHIFT_REASONS(SHIFT_REASON_ENUM)
#undef SHIFT_REASON_ENUM
		SHIFT_R_COUNT
};

const char *shift_state_name(unsigned int state);
const char *shift_reason_name(unsigned int reason);
const char *shift_event_name(unsigned int type);
const char *shift_action_name(unsigned int type);

/* --- posting and completions: the hot path --------------------------------------------------- */

#define SHIFT_HELD (-1) /* instead of a rail: logged, not to be posted now */

/*
 * Log one send WR, before the real post. wr and its SGEs are borrowed; an inline payload is copied.
 * 0 and *rail: post it there now, or SHIFT_HELD: return success to the program, a later
 * SHIFT_ACT_POST_SEND will post it. 1: the same, but post it with IBV_SEND_SIGNALED although the
 * program did not ask (its completion is swallowed). -ENOMEM: the queue is full. -EINVAL: not a WR
 * we can log (too many SGEs, too long inline payload, unknown opcode). -EIO: the connection is
 * over: let the program's post fail or flush as its QP state says. A list longer than sq_cap must
 * be split.
 */
int shift_conn_post_send(struct shift_conn *c, const struct shift_wr *wr, int *rail);

/* The same for a receive. Not for an SRQ. Held receives are posted by SHIFT_ACT_POST_RECV. */
int shift_conn_post_recv(struct shift_conn *c, const struct shift_recv_wr *wr, int *rail);

/*
 * The provider refused the last n logged WRs with an error of the program's own making (ENOMEM,
 * EINVAL: bad_wr and after): forget them. Not for a NIC that is broken: SHIFT_EV_POST_FAILED.
 */
void shift_conn_unpost_send(struct shift_conn *c, uint32_t n);
void shift_conn_unpost_recv(struct shift_conn *c, uint32_t n);

/* A completion as it came from a NIC. */
struct shift_cqe {
	uint64_t wr_id; /* as the NIC reports it */
	uint32_t epoch; /* for which the QP was armed when it was posted (twins: in the wr_id) */
	uint32_t status;
	uint32_t vendor_err;
	uint32_t byte_len;
	uint8_t rail;
	bool is_recv;
};

/*
 * Take a completion, in the order of its CQ. true: deliver it to the program now, as it is but
 * with the wr_id written to *wc (nothing else of it is). false: swallow it; what the program must
 * see comes through SHIFT_ACT_COMPLETE. In the normal case on rail 0 this bumps one counter.
 */
bool shift_conn_cqe(struct shift_conn *c, const struct shift_cqe *cqe, struct shift_wc *wc,
		    uint64_t now_ns);

/*
 * Next completion that the core itself makes for the program, sends and receives each in order;
 * false when there is none now. To be called until false after SHIFT_ACT_COMPLETE.
 */
bool shift_conn_completion(struct shift_conn *c, struct shift_wc *wc);

/* --- events --------------------------------------------------------------------------------- */

#define SHIFT_EVENTS(X)                                                                            \
	X(POST_SEND, "shift_conn_post_send (not through shift_conn_event)")                        \
	X(POST_RECV, "shift_conn_post_recv (likewise)")                                            \
	X(CQE, "shift_conn_cqe (likewise)")                                                        \
	X(RTS, "the program's QP reached RTR or RTS: HELLO")                                       \
	X(FENCE_DONE, "rail, epoch, fence, psn, hung, clean: answer to ACT_FENCE; or clean later") \
	X(ARM_DONE, "rail, epoch: answer to ACT_ARM")                                              \
	X(ARM_FAILED, "rail, epoch: answer to ACT_ARM")                                            \
	X(MSG, "msg received on the control link of rail")                                         \
	X(TICK, "the deadline passed (early or late is harmless)")                                 \
	X(LINK_UP, "rail")                                                                         \
	X(LINK_DOWN, "rail: PORT_ERR, DEVICE_FATAL, carrier")                                      \
	X(RAIL_VETO, "rail, awaited: not to be used, for a reason of the caller's")                \
	X(RAIL_OPEN, "rail, mtu: the caller has no reason any more")                               \
	X(PROBE_OK, "rail")                                                                        \
	X(PROBE_MISSED, "rail")                                                                    \
	X(MIGRATE, "operator: planned switch to rail")                                             \
	X(PEER_DIED, "shift-kvd reports the peer's process gone, or another in its place")         \
	X(PEER_LEFT, "the peer's process has said that it ends")                                   \
	X(PEER_RELEASED, "the peer has released its end: shift_conn_release")                      \
	X(ATOMICS_APART, "rail: atomics there are not atomic with those on rail 0")                \
	X(CLOSE, "how: the program's destroy, reset or modify(ERR)")                               \
	X(POST_FAILED, "rail, epoch, count: the NIC refused a post or repost")                     \
	X(NO_KEY, "rail, epoch: what is to be posted names memory that has no key there")          \
	X(PSN, "rail, epoch, psn, fence, serial: answer to ACT_QUERY_PSN")

enum shift_event_type {
#define SHIFT_EVENT_ENUM(name, what) SHIFT_EV_##name,
	SHIFT_EVENTS(SHIFT_EVENT_ENUM)
#undef SHIFT_EVENT_ENUM
		SHIFT_EV_COUNT
};

enum shift_close {
	SHIFT_CLOSE_ERR, /* modify(ERR): what is outstanding flushes. In SETUP that is the caller's
			  * to do, after CLOSED, which comes at once: errors go on passing. */
	SHIFT_CLOSE_RESET, /* modify(RESET): no more completions */
	SHIFT_CLOSE_DESTROY,
};

struct shift_event {
	uint8_t type; /* enum shift_event_type */
	uint8_t rail;
	uint8_t fence; /* FENCE_DONE, PSN: enum shift_fence: SURE or UNSURE */
	bool hung;     /* FENCE_DONE, UNSURE: the NIC did not answer: its QP may still be alive.
			* false: the barrier held but this driver's rq_psn is not trusted */
	bool clean;   /* FENCE_DONE: every CQE of that QP has been fed in; it may be RESET. If it is
		       * not yet so, FENCE_DONE comes again with the same rail and epoch once it is */
	bool awaited; /* RAIL_VETO: for no other reason than that the rail has not come yet */
	uint8_t how;  /* CLOSE: enum shift_close */
	uint8_t also; /* LINK_UP, LINK_DOWN, PROBE_OK, PROBE_MISSED: mask of the other rails that it
		       * is said of, as they share the NIC, or the path to the peer, with `rail`.
		       * MSG: of those that it may have come over */
	uint16_t mtu; /* RAIL_OPEN: path MTU there, bytes; 0: as it was */
	uint32_t epoch;
	uint32_t psn; /* rq_psn */
	uint32_t serial;
	uint32_t count; /* POST_FAILED: newest sends that the NIC did not take (they stay logged);
			 * to be told before the FENCE_DONE of that QP;
			 * mind that *bad_wr == NULL may mean taken (V9).
			 * PSN, with an SRQ: receives of it that the NIC has (doc/srq.md, S14) */
	const struct shift_msg *msg; /* borrowed */
};

/* It is said of all these rails (a mask, not 0). */
static inline void shift_event_of(struct shift_event *ev, uint32_t rails)
{
	for (ev->rail = 0; !(rails >> ev->rail & 1);)
		ev->rail++;
	ev->also = (uint8_t)(rails & ~(1u << ev->rail));
}

/* Feed one event. Unexpected and repeated events are legal and ignored. */
void shift_conn_event(struct shift_conn *c, const struct shift_event *ev, uint64_t now_ns);

/* When a TICK is wanted next, ns; UINT64_MAX: never. Changes with every call. */
uint64_t shift_conn_deadline(const struct shift_conn *c);

/*
 * Idle: data flows, and nothing that was sent will still have a completion.
 * shift_conn_lazy_deadline is the deadline, but while the connection is idle without the check for
 * progress (T8), which has nothing to check. Who goes by it compares shift_conn_activity with its
 * value at the last TICK that left the connection idle, once in no_progress_ns, and gives a TICK if
 * it has changed.
 */
bool shift_conn_idle(const struct shift_conn *c);
uint64_t shift_conn_lazy_deadline(const struct shift_conn *c);

/* Changes with what is posted and received. Also beside the hot path, without quiescing it. */
uint64_t shift_conn_activity(const struct shift_conn *c);

/* --- actions -------------------------------------------------------------------------------- */

#define SHIFT_ACTIONS(X)                                                                          \
	X(FENCE, "rail, epoch: fence that QP (rule 24), feed its CQEs, answer FENCE_DONE")        \
	X(ARM, "rail, epoch, tx_psn, rx_psn: RESET -> RTS, answer ARM_DONE or ARM_FAILED")        \
	X(POST_RECV, "rail, epoch, first, count: post these receives, in order")                  \
	X(POST_SEND, "rail, epoch, first, count: post these sends (shift_conn_repost), in order") \
	X(SEND_MSG, "rail, msg: over that rail's control link")                                   \
	X(COMPLETE, "call shift_conn_completion until false")                                     \
	X(HOLD, "from now on posts are held: quiesce the posters")                                \
	X(RELEASE, "posts go straight to rail again")                                             \
	X(QP_ERR, "the program's (virtual) QP is in ERR")                                         \
	X(QUERY_PSN, "rail, epoch, serial: query the live QP's rq_psn, answer PSN")               \
	X(CLOSED, "every rail is fenced: destroy, reset or modify(ERR) may return")               \
	X(REPORT, "from, to, reason: the state changed (flight recorder)")

enum shift_action_type {
#define SHIFT_ACTION_ENUM(name, what) SHIFT_ACT_##name,
	SHIFT_ACTIONS(SHIFT_ACTION_ENUM)
#undef SHIFT_ACTION_ENUM
		SHIFT_ACT_COUNT
};

struct shift_action {
	uint8_t type; /* enum shift_action_type */
	uint8_t rail;
	uint8_t from, to, reason; /* REPORT */
	uint32_t epoch;
	uint32_t tx_psn, rx_psn; /* ARM: sq_psn and rq_psn of the twin */
	uint32_t serial;
	uint64_t first; /* log index */
	uint32_t count;
	struct shift_msg msg;
};

/*
 * Bound by construction: one call makes at most 8 state changes (REPORT), one FENCE per rail (8),
 * one ARM, one range of receives and one of sends, 8 messages, and one of each other kind. Beyond
 * that is a reserve, in which a connection that exceeds the bound all the same comes to its end
 * (doc/protocol.md, 7.40). It is counted in stats.overflow, and tests fail on that counter.
 */
#define SHIFT_ACTIONS_USUAL   32
#define SHIFT_ACTIONS_RESERVE 24
#define SHIFT_ACTIONS_MAX     (SHIFT_ACTIONS_USUAL + SHIFT_ACTIONS_RESERVE)

/* Take the next action; false when there is none. Valid until the next call. */
bool shift_conn_action(struct shift_conn *c, struct shift_action *a);

/*
 * The WRs of a POST_SEND range: *index goes from a->first; writes the next WR that must really be
 * posted (trimmed, if part of a WRITE was placed) and moves *index past it. false when the range
 * is exhausted. sge is room for sq_sge_max elements. Keys are those of the program (rail 0).
 */
bool shift_conn_repost(const struct shift_conn *c, uint64_t *index, uint64_t end,
		       struct shift_wr *wr, struct shift_sge *sge);

/* Receive at a log index of a POST_RECV range; the SGEs are borrowed from the log. */
void shift_conn_recv_at(const struct shift_conn *c, uint64_t index, struct shift_recv_wr *wr);

/*
 * The program is about to do what cannot be moved (memory windows, direct verbs). From here on the
 * connection works as without us, for good, and answers a newer SWITCH with FAILED. Only before the
 * first switch has begun, or if it is due; false: it is too late.
 */
bool shift_conn_release(struct shift_conn *c);

/*
 * Is it to be released now? The program has posted an atomic, and each rail that it could move to
 * is one of SHIFT_EV_ATOMICS_APART (doc/protocol.md, 7.54), or the peer has released its end. It is
 * due only where the connection can do without us: on rail 0, all that we have posted being done.
 * To be asked after each call.
 */
bool shift_conn_release_due(const struct shift_conn *c);

/* Might the first atomic make a release due? Then it is to be posted under the caller's
 * serialisation. Allowed on the hot path. */
bool shift_conn_atomic_releases(const struct shift_conn *c);

/* --- looking in ------------------------------------------------------------------------------ */

#define SHIFT_STATS(X)                                                                       \
	X(switches)	     /* commits */                                                   \
	X(failovers)	     /* of them unplanned, started here */                           \
	X(joins)	     /* of them started by the peer */                               \
	X(planned)	     /* of them planned, started here */                             \
	X(abandoned)	     /* planned switches given up */                                 \
	X(proved)	     /* WRs completed on the peer's word */                          \
	X(replayed)	     /* WRs reposted */                                              \
	X(trimmed)	     /* WRITEs resumed in the middle */                              \
	X(replayed_partial)  /* SEND and WRITE_IMM replayed whole after a part was placed */ \
	X(reissued_reads)    /* executed, data lost, asked again */                          \
	X(lost_atomics)	     /* executed, result lost */                                     \
	X(at_least_once)     /* commits decided by the receive count alone */                \
	X(maybe_twice)	     /* WRs replayed there that may have been executed */            \
	X(retransmits)	     /* control messages sent again */                               \
	X(stale_msgs)	     /* messages of another epoch, process or connection */          \
	X(stale_cqes)	     /* completions of an earlier arming, swallowed */               \
	X(hung_fences)	     /* fences that hit their deadline */                            \
	X(held_posts)	     /* sends held during switches */                                \
	X(no_progress_asked) /* QUERY_PSN sent */                                            \
	X(hello_mismatch)    /* the peer is not who the QP says */                           \
	X(secret_signals)    /* WRs we asked the caller to signal */                         \
	X(overflow)	     /* actions lost: always 0 */

struct shift_conn_stats {
#define SHIFT_STAT_FIELD(name) uint64_t name;
	SHIFT_STATS(SHIFT_STAT_FIELD)
#undef SHIFT_STAT_FIELD
};

/* A snapshot for traces, the flight recorder and shift-diag. */
struct shift_conn_view {
	enum shift_state state;
	enum shift_reason reason; /* of the last change */
	uint32_t e;		  /* newest epoch entered */
	uint32_t target_e;	  /* epoch being entered, or e */
	uint32_t lastc;		  /* newest epoch committed */
	uint32_t heard;
	uint32_t rep_epoch, rep_psn;
	uint32_t tag[SHIFT_RAILS_MAX];
	uint8_t r;
	uint8_t target_r;
	bool protected_;
	bool matched; /* HELLO has, in this life */
	bool holding;
	bool planned; /* the switch under way, or the last one, was planned with the peer */
	uint64_t recv_cum, recv_posted;
	uint64_t send_tail, send_sent, send_head;
	uint64_t packets_posted;
};

/*
 * May the hot path run (see the top)? It may while posts go to rail 0 and completions are only
 * counted. To be asked under the caller's serialisation; the answer may change with every call.
 */
bool shift_conn_fast(const struct shift_conn *c);

/*
 * Would this send, if it is unsignaled, have to be signaled in secret? That begins tracking. So the
 * hot path asks before it logs. If true, it quiesces and then calls shift_conn_post_send.
 */
bool shift_conn_secret_due(const struct shift_conn *c, const struct shift_wr *wr);

/* So many sends may be logged now before one is refused for want of room; UINT32_MAX: the provider
 * knows better. */
uint32_t shift_conn_send_room(const struct shift_conn *c);

/* Log index that the next send will have. */
uint64_t shift_conn_head(const struct shift_conn *c);

/* Is each completion matched with its WR (on twins, and around switches)? See the top. */
bool shift_conn_tracked(const struct shift_conn *c);

/* Is a send outstanding that will have a completion? Unsignaled sends have none. */
bool shift_conn_waits(const struct shift_conn *c);

void shift_conn_view(const struct shift_conn *c, struct shift_conn_view *v);

/* What of it no post and no completion changes: threads that log may go on meanwhile. */
enum shift_state shift_conn_state(const struct shift_conn *c);
uint8_t shift_conn_rail(const struct shift_conn *c);
bool shift_conn_protected(const struct shift_conn *c);
bool shift_conn_matched(const struct shift_conn *c); /* HELLO was heard */

/* The rails that carry its data, or are about to, as a mask; none before it is protected and once
 * it is over. It looks at nothing that the data path writes: the caller's lock is enough, and the
 * gates may be open. */
uint32_t shift_conn_data_rails(const struct shift_conn *c);
const struct shift_conn_stats *shift_conn_stats(const struct shift_conn *c);

/* One line of text for traces; returns what snprintf would. */
int shift_conn_dump(const struct shift_conn *c, char *buf, size_t len);

/* What a closed connection leaves: small enough to keep for 60 s after the QP is gone. */
struct shift_tombstone {
	struct shift_msg answer; /* CLOSED or FAILED, ready to be sent */
	uint64_t expires_ns;
	bool valid; /* false: not CLOSED or DEAD yet, nor released */
};

void shift_conn_tombstone(const struct shift_conn *c, uint64_t now_ns, struct shift_tombstone *t);

/* --- coverage -------------------------------------------------------------------------------- */

/* Process-wide counters, compiled in with -DSHIFT_CHECKED. Not for threads. */
struct shift_coverage {
	uint64_t event[SHIFT_ST_COUNT][SHIFT_EV_COUNT];
	uint64_t change[SHIFT_ST_COUNT][SHIFT_ST_COUNT][SHIFT_R_COUNT];
	uint64_t action[SHIFT_ACT_COUNT];
};

#ifdef SHIFT_CHECKED
extern struct shift_coverage shift_coverage;
#endif

#endif
