/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * RUNDIR/JOB/PID.stats: what one process tells of its connections. The library writes it through a
 * shared mapping. shift-ctl, shift-kvd, shift-run and shift-diag read it, also after the process
 * has died. It is a sparse file with room for the maximum: nothing in it ever moves.
 *
 * A header comes first, then tables. A reader finds a table by its kind and skips kinds that it
 * does not know. An entry may have more fields than it knows, not fewer. It refuses another
 * version, and other enumerations (`shape`). Numbers have the byte order of the machine. Times are
 * CLOCK_MONOTONIC, in ns; the header has one moment by both clocks.
 *
 * The file may be read while it is written. What changes in place (header.now, a connection, an
 * SRQ) has a sequence number that is odd during a change. Tables of events, switches and notes are
 * rings: entry n is at n % entries and its `seq` is n + 1. The oldest of the newest `entries` may
 * just be overwritten.
 *
 * The functions below are for any thread and take no lock.
 */
#ifndef SHIFT_STATS_LAYOUT_H
#define SHIFT_STATS_LAYOUT_H

#include "lib/core/conn.h"
#include "lib/core/srq.h"

#define STATS_MAGIC "shiftST"

enum {
	STATS_VERSION = 3,
	STATS_HEADER_BYTES = 8192, /* the first table begins there */
	STATS_TABLES_MAX = 16,
	STATS_NIC_BYTES = 24, /* longer names are cut */
	STATS_CONNS_MAX = 16384,
	STATS_EVENTS = 1024,
	STATS_SWITCHES = 256,
	STATS_ERRORS = 1024,   /* notes of error completions, */
	STATS_ASYNCS = 128,    /* of asynchronous events, */
	STATS_QP_LIVES = 1024, /* of the life of QPs */
	STATS_BYPASS_MAX = 32,
	STATS_SRQS_MAX = 128,
};

/* Why a connection is not protected. */
#define STATS_UNPROTECTED(X)                                                        \
	X(NONE, "protected")                                                        \
	X(SETUP, "not connected yet, or its peer has not answered yet")             \
	X(NOT_RC, "not a reliable connection (UD, UC, XRC, raw)")                   \
	X(SRQ, "receives come from a shared receive queue")                         \
	X(MEMORY_WINDOW, "memory windows")                                          \
	X(WR_API, "made for requests of ibv_wr_* that cannot be moved")             \
	X(CQ_EX, "completion queue with timestamps or the like")                    \
	X(CHANNEL, "completion channel")                                            \
	X(POSTED_AROUND, "the program posts around libibverbs (mlx5dv, DevX)")      \
	X(IMPORTED, "imported from another process")                                \
	X(NO_PEER_LIBRARY, "the peer runs without shift, or in another job")        \
	X(NO_BACKUP_NIC, "this host has no other NIC for it")                       \
	X(PEER_NO_BACKUP_NIC, "the peer's host has no other NIC for it")            \
	X(NO_TWIN, "no twin could be made on any backup NIC")                       \
	X(NO_SHADOW, "memory could not be registered on the backup NICs")           \
	X(NO_RENDEZVOUS, "shift-kvd cannot be reached")                             \
	X(RENDEZVOUS_FULL, "shift-kvd has no room for this process")                \
	X(LOOPBACK, "connected to itself, or to the same process and NIC")          \
	X(ATTRIBUTES, "made or connected in a way that shift does not know")        \
	X(TOO_LARGE, "queues or requests beyond what shift can log")                \
	X(OTHER_VERSION, "the peer's shift speaks another version of the protocol") \
	X(MISMATCH, "the peer is not who the connection says")                      \
	X(THREAD_DOMAIN, "the program alone may post to it (thread domain)")        \
	X(ATOMICS, "atomics, and the peer's NICs are not atomic with each other")   \
	X(PEER_RELEASED, "the peer's end is not protected any more")                \
	X(NO_MEMORY, "out of memory")                                               \
	X(OVER, "given up or closed")                                               \
	X(OTHER, "see the log")

enum stats_unprotected {
#define STATS_UNPROTECTED_ENUM(name, what) STATS_UNPROTECTED_##name,
	STATS_UNPROTECTED(STATS_UNPROTECTED_ENUM)
#undef STATS_UNPROTECTED_ENUM
		STATS_UNPROTECTED_COUNT
};

/* Whether a NIC's rq_psn may be believed (doc/protocol.md, A2). */
enum stats_psn { STATS_PSN_UNMEASURED, STATS_PSN_LIVE, STATS_PSN_STALE };

/* Where the time of a switch goes. */
#define STATS_PHASES(X)                                                        \
	X(DETECT, detect, "from the fault to the start of the switch")         \
	X(PREPARE, prepare, "planned: asking the peer; data flows")            \
	X(DRAIN, drain, "planned: waiting for what should not be interrupted") \
	X(FENCE, fence, "the old QP is made unable to take packets")           \
	X(WAIT, wait, "no rail, or packets may be about still")                \
	X(ARM, arm, "the twin is brought to RTS")                              \
	X(HANDSHAKE, handshake, "until the peer's SWITCH of the same epoch")   \
	X(REPOST, repost, "until the last request is posted again")

enum stats_phase {
#define STATS_PHASE_ENUM(name, word, what) STATS_PHASE_##name,
	STATS_PHASES(STATS_PHASE_ENUM)
#undef STATS_PHASE_ENUM
		STATS_PHASE_COUNT
};

enum stats_outcome {
	STATS_UNDER_WAY,
	STATS_COMMITTED,
	STATS_ABANDONED, /* planned; the data stays on the old rail */
	STATS_GIVEN_UP,	 /* the program got errors */
	STATS_CLOSED,	 /* the program ended the connection meanwhile */
};

enum stats_kind { STATS_FAILOVER, STATS_MIGRATION, STATS_FAILBACK };

/* What a switch decided about single requests, and what it cost: some of SHIFT_STATS. */
#define STATS_SWITCH_COUNTERS(X) \
	X(proved)                \
	X(replayed)              \
	X(trimmed)               \
	X(replayed_partial)      \
	X(reissued_reads)        \
	X(lost_atomics)          \
	X(at_least_once)         \
	X(maybe_twice)           \
	X(retransmits)           \
	X(stale_msgs)            \
	X(stale_cqes)            \
	X(hung_fences)           \
	X(held_posts)

struct stats_switch {
	uint64_t seq;
	uint64_t conn; /* stats_conn.id */
	uint64_t begin_ns, end_ns;
	uint64_t fault_ns;  /* when the fault began; 0: not known */
	uint64_t hold_ns;   /* since when no data flows; 0: data flows */
	uint64_t outage_ns; /* from the fault (or hold_ns) until all was posted again */
	uint64_t phase_ns[STATS_PHASE_COUNT];
#define STATS_SWITCH_FIELD(name) uint64_t name;
	STATS_SWITCH_COUNTERS(STATS_SWITCH_FIELD)
#undef STATS_SWITCH_FIELD
	uint32_t qpn;
	uint32_t from_epoch, epoch;
	uint32_t attempts; /* epochs entered */
	uint8_t from_rail, rail;
	uint8_t cause;	 /* enum shift_reason that began it */
	uint8_t ended;	 /* enum shift_reason that ended it */
	uint8_t outcome; /* enum stats_outcome */
	uint8_t kind;	 /* enum stats_kind */
	uint8_t planned;
	uint8_t joined; /* started by the peer */
	char from_nic[STATS_NIC_BYTES], nic[STATS_NIC_BYTES];
};

/* The flight recorder: a change of state. */
struct stats_event {
	uint64_t seq;
	uint64_t time_ns;
	uint64_t conn;
	uint32_t qpn;
	uint32_t epoch;
	uint8_t from, to; /* enum shift_state */
	uint8_t reason;	  /* enum shift_reason */
	uint8_t rail;
	uint32_t kind; /* 0 */
	char nic[STATS_NIC_BYTES];
};

/* What became of an error completion, or of an asynchronous event. */
#define STATS_FATES(X)                                                 \
	X(HIDDEN, hidden, "kept from the program")                     \
	X(GIVEN, given, "given to the program")                        \
	X(MADE, made, "given to the program by shift, not by the NIC") \
	X(WATCHED, watched, "seen by shift, which watches the NIC itself")

enum stats_fate {
#define STATS_FATE_ENUM(name, word, what) STATS_FATE_##name,
	STATS_FATES(STATS_FATE_ENUM)
#undef STATS_FATE_ENUM
		STATS_FATE_COUNT
};

/* Beyond those of enum ibv_qp_state: IBV_QPS_UNKNOWN is the last one there. */
enum { STATS_QP_CREATED = 0x40, STATS_QP_DESTROYED };

/* Which queue of a QP. An error completion of a NIC does not tell (its opcode is undefined). */
enum stats_queue { STATS_QUEUE_UNKNOWN, STATS_QUEUE_SEND, STATS_QUEUE_RECV };

enum { STATS_OPCODE_UNKNOWN = 0xff };

/*
 * The flight recorder, too: what happened to queue pairs, also to those that are not protected. It
 * has a ring for each kind, so that many of one kind do not push out the others.
 *
 * Of an error completion the first of a run is noted. The others that have the same fate, the same
 * status or WR_FLUSH_ERR, and the same epoch are counted there, as long as no second passes
 * without one. `last_ns` and the counts change in place, without `seq`.
 */
struct stats_note {
	uint64_t seq;
	uint64_t time_ns;
	uint64_t last_ns; /* of the run */
	uint64_t qp;	  /* stats_conn.id, or a number of that kind; 0: of the NIC, or not known */
	uint32_t more;	  /* of the run, not flushed */
	uint32_t flushed; /* of the run, besides the first */
	uint32_t qpn, peer_qpn; /* peer_qpn 0: not known */
	/* enum ibv_wc_status, ibv_event_type; of a life enum ibv_qp_state or STATS_QP_CREATED... */
	uint32_t what;
	uint32_t vendor_err;
	uint32_t epoch;
	uint8_t fate;	/* enum stats_fate */
	uint8_t queue;	/* enum stats_queue */
	uint8_t opcode; /* enum ibv_wc_opcode, or STATS_OPCODE_UNKNOWN */
	uint8_t from;	/* of a life: the state before */
	uint8_t is_protected;
	uint8_t unprotected; /* enum stats_unprotected, if it is not */
	uint8_t rail;
	uint8_t port; /* of an event of a port; else 0 */
	uint8_t unused[4];
	uint8_t peer_gid[16];	   /* zeros: not known */
	char nic[STATS_NIC_BYTES]; /* where it happened */
};

struct stats_conn {
	uint64_t sequence;
	uint64_t id; /* unique in the process, from 1; 0: a free slot */
	uint64_t created_ns, changed_ns, updated_ns;
	uint64_t setup_ns; /* from the program's RTR or RTS until it was protected; 0: never yet */
	uint64_t peer_nonce;
	uint8_t gid[16], peer_gid[16]; /* of rail 0 */
	uint32_t qpn, peer_qpn;	       /* the program's, rail 0 */
	uint32_t peer_pid;	       /* 0: not known */
	uint32_t epoch, target_epoch, committed_epoch;
	uint32_t next_free; /* of a free slot: another, + 1 */
	uint8_t rails;
	uint8_t rail, target_rail;
	uint8_t state, reason; /* enum shift_state, enum shift_reason */
	uint8_t is_protected, was_protected;
	uint8_t unprotected; /* enum stats_unprotected */
	uint8_t holding;
	uint8_t met_failure; /* while it was not protected */
	uint8_t unused[2];
	uint8_t psn[SHIFT_RAILS_MAX]; /* enum stats_psn */
	char nic[SHIFT_RAILS_MAX][STATS_NIC_BYTES];
	char peer_host[64];
	uint64_t send_posted, send_done; /* requests logged, and accounted for */
	uint64_t recv_posted, recv_done;
	uint64_t moves; /* switches committed */
	uint64_t outage_last_ns, outage_max_ns, outage_total_ns;
	uint64_t last_switch; /* index + 1 in the ring; 0: none */
	struct shift_conn_stats counters;
	struct stats_switch now; /* under way if begin_ns is not 0 */
	uint64_t fault_seen_ns;	 /* when now.fault_ns was last reported */
};

/* A NIC of a shared receive queue. */
struct stats_srq_nic {
	uint32_t receives; /* of the program, that lie there */
	uint32_t held;	   /* of them, that may be missing: it does not give them back */
	uint32_t ghosts;   /* postings of the past that it may still have */
	uint32_t live;	   /* queue pairs that may take receives there */
	uint32_t stuck;	   /* it gives nothing back: the last drain failed */
	uint32_t unused;
};

/* What changes of a shared receive queue (doc/srq.md). */
struct stats_srq_state {
	uint32_t room;	  /* for so many receives */
	uint32_t posted;  /* the program's, wherever they lie */
	uint32_t waiting; /* of them, that lie on no NIC */
	uint32_t unused;
	struct stats_srq_nic nic[SHIFT_RAILS_MAX];
	struct shift_srq_stats counters;
};

struct stats_srq {
	uint64_t sequence;
	uint64_t id; /* unique in the process, from 1; 0: a free slot */
	uint8_t rails, unused[7];
	char nic[SHIFT_RAILS_MAX][STATS_NIC_BYTES];
	struct stats_srq_state now;
};

/* The part of the header that changes, under one sequence number. */
struct stats_now {
	uint64_t sequence;
	uint64_t closed_ns;				/* clean end; 0: it runs, or crashed */
	uint64_t conns_ever, conns_live, conns_refused; /* refused: the table was full */
	uint64_t slots_used;  /* slots 0 .. slots_used - 1 were ever used */
	uint64_t free_slot;   /* + 1; 0: none */
	uint64_t conns_moved; /* at least once */
	uint64_t committed, failovers, migrations, failbacks, abandoned, given_up;
	uint64_t given_up_for[SHIFT_R_COUNT];	       /* given_up, by the reason */
	uint64_t met_failure[STATS_UNPROTECTED_COUNT]; /* unprotected connections, by the reason */
	uint64_t outage_max_ns, outage_total_ns;
	uint64_t events_hidden; /* asynchronous events that the program did not see */
	/* Whether a note was written of it or not: error completions, those of them that are
	 * flushes, and asynchronous events that the program has asked for, by their fate. */
	uint64_t errors[STATS_FATE_COUNT], flushes[STATS_FATE_COUNT], asyncs[STATS_FATE_COUNT];
	uint64_t errors_unprotected; /* of errors[]: of QPs that were not protected then */
	/* Of connections that are gone. */
	uint64_t gone, gone_protected;
	uint64_t gone_unprotected[STATS_UNPROTECTED_COUNT];
	struct shift_conn_stats gone_counters;
	/* Shared receive queues. */
	uint64_t srqs_ever, srqs_live, srqs_refused; /* as for connections */
	uint64_t srq_slots_used;
	struct shift_srq_stats gone_srq_counters; /* of those that are gone */
	/* QPs without a slot, counted by NIC and reason. */
	struct stats_bypass {
		char nic[STATS_NIC_BYTES];
		uint32_t reason, count;
		uint32_t met_failure, unused; /* of count */
	} bypass[STATS_BYPASS_MAX];
};

enum stats_table_kind {
	STATS_TABLE_CONNS = 1,
	STATS_TABLE_EVENTS,
	STATS_TABLE_SWITCHES,
	STATS_TABLE_SRQS,
	/* Of notes: */
	STATS_TABLE_ERRORS,
	STATS_TABLE_ASYNCS,
	STATS_TABLE_QP_LIVES,
};

struct stats_table {
	uint32_t kind, entry_bytes;
	uint64_t at, entries;
	uint64_t written; /* rings: entries ever written */
};

/* How many values the enumerations above and those of lib/core have. Two builds mean the same by a
 * number only if all of these are equal. */
struct stats_shape {
	uint16_t states, reasons, counters, unprotected, phases, switch_counters;
	uint16_t srq_counters, fates;
};

struct stats_header {
	char magic[8];
	uint32_t version, header_bytes;
	struct stats_shape shape;
	uint32_t pid, tables;
	uint64_t start_ticks;	/* /proc/PID/stat, field 22: a pid may be used again */
	uint64_t pid_namespace; /* st_ino of /proc/self/ns/pid: whose pid that is */
	uint64_t nonce;
	uint64_t opened_ns, opened_real_ns;
	char boot_id[40];
	char job[72], host[64], comm[16], command[256], report_dir[256];
	struct stats_table table[STATS_TABLES_MAX];
	struct stats_now now;
};

_Static_assert(sizeof(struct stats_header) <= STATS_HEADER_BYTES, "the header has grown");
_Static_assert(sizeof(struct stats_now) % 8 == 0 && sizeof(struct stats_conn) % 8 == 0 &&
		       sizeof(struct stats_srq) % 8 == 0 && sizeof(struct stats_switch) % 8 == 0 &&
		       sizeof(struct stats_event) == 64 && sizeof(struct stats_note) == 112,
	       "entries are read in words of 8 bytes");

/* Of this build. */
struct stats_shape stats_shape(void);

const char *stats_unprotected_name(unsigned int reason); /* NO_BACKUP_NIC */
const char *stats_unprotected_text(unsigned int reason); /* this host has no other NIC for it */
const char *stats_psn_name(unsigned int psn);		 /* unmeasured, live, stale */
const char *stats_phase_name(unsigned int phase);	 /* detect */
const char *stats_outcome_name(unsigned int outcome);	 /* committed */
const char *stats_kind_name(unsigned int kind);		 /* failover, migration, fail-back */
const char *stats_fate_name(unsigned int fate);		 /* hidden, given, made */
const char *stats_fate_text(unsigned int fate);		 /* kept from the program */

#endif
