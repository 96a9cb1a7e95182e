/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Deterministic simulator of two hosts, their NICs and the rails between them, around the real
 * object files of lib/core. One schedule is a function of its seed and options alone: no clock, no
 * allocation, no address matters. Everything of a connection lives in a static world, W. Several
 * connections have as many worlds, with the same NICs and the same time: W is the one whose event
 * it is. What they share besides are the SRQs (srq.c).
 *
 * Memory is real (the core copies inline payloads), but only the first word of each 64-byte cell
 * means something: a stamp that names the WR and the cell. So a packet of 1 KB costs 16 words, and
 * a cell that arrives twice, late or at the wrong place is noticed when it is placed.
 */
#ifndef SHIFT_TESTS_SIM_H
#define SHIFT_TESTS_SIM_H

#include "lib/core/conn.h"
#include "lib/core/fast.h"
#include "lib/core/srq.h"

#define HOSTS	     2
#define CONNS	     6u
#define RAILS	     4
#define CELL	     64u
#define SLOTS	     64u
#define SLOT_CELLS   64u
#define SLOT_BYTES   (SLOT_CELLS * CELL)
#define PKT_CELLS    16u
#define HUGE_PACKETS (1u << 18) /* in one piece: far below the 2^23 that may be in flight */
#define INLINE_CELLS 4u
#define SGES	     4u
#define WRS	     1024u /* of one side in one schedule */
#define RKEY_BAD     0xbadu
#define SQ_MAX	     64u
#define RQ_MAX	     64u
#define CQ_MAX	     512u
#define PKTS	     4096u
#define MSGS	     1024u
#define HEAP_MAX     32768u
#define TRACE_MAX    4096u
#define ATOMIC_CACHE 16u

#define NS_US 1000ull
#define NS_MS 1000000ull

/* --- random numbers: splitmix64; one stream per purpose, so that one does not shift another -- */

struct rng {
	uint64_t s;
};

static inline uint64_t rnd(struct rng *g)
{
	uint64_t z = (g->s += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* 0 .. n - 1 */
static inline uint32_t rnd_below(struct rng *g, uint32_t n)
{
	return (uint32_t)(((rnd(g) >> 32) * n) >> 32);
}

/* lo .. hi, both inclusive */
static inline uint64_t rnd_range(struct rng *g, uint64_t lo, uint64_t hi)
{
	return lo + rnd(g) % (hi - lo + 1);
}

/* true with probability ppm / 10^6 */
static inline bool rnd_ppm(struct rng *g, uint32_t ppm)
{
	return ppm && rnd_below(g, 1000000) < ppm;
}

/* --- events ---------------------------------------------------------------------------------- */

enum ev_type {
	EV_PKT,	     /* x: packet arrives */
	EV_TX,	     /* the NIC's send engine of a QP; x: its epoch, as for the next three */
	EV_RTO,	     /* retransmission timer of a QP */
	EV_ACK,	     /* coalesced ACK is due */
	EV_DRAINED,  /* a QP moved to ERR has really stopped */
	EV_FLUSH,    /* x: epoch << 8 | count of receives flushed late */
	EV_POLL,     /* the program polls */
	EV_MSG,	     /* x: control datagram arrives */
	EV_TICK,     /* deadline of the core */
	EV_PROBE,    /* probe result of a rail */
	EV_FENCE,    /* step of a fence */
	EV_ARM,	     /* the twin is (not) in RTS */
	EV_LINK,     /* link event reaches the process: the state as it is then */
	EV_PSNQ,     /* x: serial; answer to QUERY_PSN */
	EV_QPFATAL,  /* x: epoch; async event: a QP is in ERR */
	EV_CLEAN,    /* a fence was not clean, and is now */
	EV_POST,     /* the program posts sends */
	EV_RECV,     /* the program posts receives */
	EV_FAULT,    /* x: fault begins */
	EV_HEAL,     /* x: fault ends */
	EV_CALM,     /* no more faults */
	EV_CLOSE,    /* the program closes */
	EV_PEERDEAD, /* shift-kvd says that the peer's process is gone */
	EV_START,    /* workload begins */
	EV_LIFE,     /* x: enum life_step of the next life */
	EV_SRQ,	     /* x: enum srq_step */
	EV_TYPES
};

enum srq_step {
	SRQ_POSTS,  /* the program posts to its SRQ */
	SRQ_DRAINS, /* the drainer of a NIC takes some, or ends */
	SRQ_TICK,   /* deadline of the books */
	SRQ_EVICTS, /* QPs are asked to leave a NIC */
	SRQ_BURIES, /* the program destroys what is over */
};

enum life_step {
	LIFE_OVER, /* both programs have ended their QPs */
	LIFE_QP,   /* the QP of one is in RTS again */
	LIFE_WORK, /* workload, as soon as both are protected */
};

struct ev {
	uint64_t at;
	uint64_t seq; /* ties are broken by age */
	uint32_t x;
	uint8_t type;
	uint8_t h;
	uint8_t r;
	uint8_t life; /* in which it was made */
};

/* --- NIC ------------------------------------------------------------------------------------- */

enum qp_state { QP_RESET, QP_RTS, QP_ERR };

struct wqe {
	struct shift_wr wr; /* wr.sge points to sge */
	struct shift_sge sge[SGES];
	uint32_t inl[INLINE_CELLS];
	uint32_t epoch;
	uint32_t seq;	/* of the program: for the oracle */
	uint32_t len;	/* bytes */
	uint32_t off;	/* cells cut off by a trim: for the oracle */
	uint32_t first; /* packets since the QP was armed */
	uint32_t n;	/* packets */
	uint32_t got;	/* READ, atomic: response packets */
};

struct rqe {
	uint64_t wr_id;
	uint32_t epoch;
	uint32_t nsge;
	struct shift_sge sge[SGES];
};

/* In an SRQ: which buffer of the program that really is, and of which posting. */
struct posting {
	struct rqe e;
	uint32_t buf, turn;
};

struct cqe {
	uint64_t wr_id;
	uint64_t visible_at; /* the write of the CQE may lag behind rq_psn */
	uint32_t status;
	uint32_t byte_len;
	uint32_t epoch;
	uint32_t seq; /* receive: WR of the peer that filled it, for the oracle */
	uint32_t imm;
	uint32_t opcode; /* enum shift_wc_opcode, of a success */
	bool is_recv;
};

struct qp {
	uint8_t h, r, state, leak;
	bool tx_armed, rto_armed, ack_armed, nak_sent, retry_inf, rnr_inf, after_rnr;
	bool retried;	/* a NAK has made it send again, and nothing has moved since */
	uint32_t epoch; /* armed for: only the oracle and the glue look at it */
	uint32_t mtu;	/* bytes */
	/* requester */
	struct wqe sq[SQ_MAX];
	uint32_t sq_pi, sq_ci, sq_si, sq_k;	    /* posted, completed, sending, packet of it */
	uint32_t tx_psn, una, snd, snd_max, posted; /* packets since armed */
	uint64_t unsignaled; /* packets posted since the newest WR that has a completion */
	uint32_t retry, rnr;
	uint64_t rnr_until, tx_free, rto_at;
	/* responder */
	struct rqe rq[RQ_MAX];
	uint32_t rq_pi, rq_ci;
	uint32_t rx_psn, rx; /* first PSN; packets executed since armed */
	uint32_t msg_off;    /* cells placed of the message being received */
	uint32_t placed_seq,
		placed_cells; /* the newest payload was of that WR, up to there: for the oracle */
	uint64_t drained_at;
	bool holds; /* has taken a receive from an SRQ */
	bool lost;  /* and dropped it; not in the books yet */
	struct posting held;
	uint64_t stale_id; /* receive of a message that was cut, to be named by a later error */
	struct {
		uint32_t psn;
		uint64_t val;
	} atomic[ATOMIC_CACHE];
	uint32_t atomics;
	/* completion queue */
	struct cqe cq[CQ_MAX];
	uint32_t cq_pi, cq_ci;
	uint64_t cq_last;
};

enum pkt_type {
	PK_REQ,
	PK_ACK,
	PK_NAK_SEQ,
	PK_NAK_RNR,
	PK_NAK_ACCESS,
	PK_READ_RESP,
	PK_ATOMIC_RESP
};

struct pkt {
	uint8_t type, src, r, op;
	bool first, last, has_data, bad_key;
	uint8_t cells;
	uint32_t span; /* cells it stands for; more than it carries in a huge WRITE */
	uint32_t psn, epoch, seq, off, len, n, imm;
	uint64_t addr, a, b;
	uint32_t data[PKT_CELLS];
	uint32_t next; /* free list */
};

/* The faults of one direction of a rail, by sender. */
struct dirfault {
	uint32_t cut;	  /* counts faults that cut it */
	uint32_t ackdrop; /* drops transport ACKs and responses */
	uint32_t bigdrop; /* drops packets of more than `bigger` cells */
	uint32_t bigger;
	uint32_t qp_acks; /* drops ACKs of the program's QP, not of the probes */
	uint32_t qp_data; /* the same for its requests: another path, another queue */
	uint32_t loss_ppm;
	uint64_t slow_ns;
};

struct rail {
	uint32_t mtu;
	uint64_t latency_ns, jitter_ns, gap_ns;
	uint32_t dup_ppm, late_ppm, reorder_ppm;
	uint64_t last_at[HOSTS]; /* arrival of the last packet from that host */
	struct dirfault dir[HOSTS];
	uint32_t admin_down[HOSTS]; /* local link down: the NIC knows it */
	uint32_t no_carrier[HOSTS]; /* as the kernel reports it */
	bool dead[HOSTS];	    /* the NIC is gone: nothing moves, calls hang */
	bool dies[HOSTS];	    /* the NIC acknowledges one message more, and is gone */
	bool hung[HOSTS];	    /* its control path hangs, data flows */
	uint32_t hurt;		    /* faults that touch it now */
	uint64_t hurt_at;	    /* the last change of that, or the last failure of a QP */
};

/* How a host's NICs behave. */
enum flavour {
	NIC_RXE,   /* ERR leaks a packet, RESET is a barrier, rq_psn live, survives RESET */
	NIC_MLX,   /* ERR leaks a packet for a while, waiting is a barrier, receives flush */
	NIC_LAG,   /* like NIC_MLX, and rq_psn lags until the barrier */
	NIC_IRDMA, /* rq_psn is not live: it stays as modify(RTR) wrote it */
	NIC_STALE, /* rq_psn may lag behind for ever */
};

/* Worlds in which the operator moves the connection again and again, under atomics both ways. */
enum planned {
	PLANNED_NO,
	PLANNED_MIXED, /* among other faults */
	PLANNED_ONLY,  /* nothing else happens: nothing is an excuse */
};

/* --- hosts ----------------------------------------------------------------------------------- */

enum fence_step { FS_IDLE, FS_ERR, FS_BARRIER };

struct fence_op {
	uint8_t step;
	bool owed; /* it hung: the worker may come back */
	uint32_t epoch;
};

struct arm_op {
	bool busy;
	bool armed;	/* for its epoch: waits for a receive in its SRQ */
	uint64_t until; /* it waits for its SRQ no longer; 0: it does not */
	uint64_t join_end;
	uint32_t ghosts;
	uint32_t epoch, tx_psn, rx_psn;
};

/* A WR of the program, and what happened to it. */
struct ref_wr {
	uint8_t op;
	bool signaled, two_sided;
	uint8_t by;	/* the rail that executed it last */
	bool on_nic;	/* some NIC has had it */
	bool fenced;	/* waits for the READs and atomics in front of it */
	bool back;	/* READ, atomic: its result is here */
	uint32_t reads; /* this one's message says that all READs before that WR are done */
	uint32_t len;	/* bytes */
	uint32_t cells; /* placed so far */
	uint32_t imm;
	uint32_t execs;
	uint32_t allowed;     /* executions beyond the first: commits without a proof */
	uint64_t compare_add; /* atomic: operands, result */
	uint64_t swap;
	uint64_t expect;
	bool bad;      /* has a wrong rkey */
	bool unseen;   /* executed and acknowledged, but the receive's CQE was never written */
	bool late;     /* executed first when the peer's program had ended its QP: its NIC hangs */
	bool doubtful; /* under way at a commit without a proof */
};

struct prog {
	struct ref_wr wr[WRS];
	uint32_t total, posted, retired, two_sided;
	uint32_t sent; /* of posted: were handed to a NIC at least once */
	uint32_t since_signal;
	uint32_t next_cqe;   /* next WR whose completion may come */
	uint32_t nexec;	     /* WRs fully executed by the peer's NIC */
	uint32_t again;	     /* the same, since the latest commit without a proof */
	uint32_t two_exec;   /* of them two-sided */
	uint32_t fence_exec; /* index of the newest fenced WR that the peer executed */
	uint32_t reused;     /* READs before that WR: the peer has used their memory again */
	uint32_t err_from;   /* first WR completed in error, or UINT32_MAX */
	uint32_t recv_posted, recv_done, next_two;
	uint64_t counter_cas;	 /* the peer's word, if all atomics posted so far succeed */
	uint64_t counter_mem[2]; /* the peer's words after those that were executed */
	uint64_t lost;		 /* atomics that completed without a result */
	bool qp_err, recv_err, close_asked, closed;
	uint8_t how;	  /* enum shift_close */
	uint32_t mix[10]; /* weight of each opcode */
	uint32_t sig_ppm, inline_ppm, burst, big_ppm, late_ppm, bad_ppm, refuse_ppm;
	uint32_t fence_ppm;
	uint32_t run_ppm;  /* the next WR is like the last */
	uint32_t sig_each; /* in runs: of how many one is signaled */
	uint32_t run_len;
	uint8_t run_op, run_flags;
	uint64_t gap_ns;
};

/* What a SWITCH said that proves something, by epoch. */
struct said {
	uint32_t epoch, recv_avail;
	uint64_t recv_cum;
	bool unsure;
};
#define SAID  8u
#define LIVES 4u

/* The probes over one rail, as the process that sends them knows them. */
struct probed {
	bool known;	     /* one was answered, or missed */
	uint32_t misses;     /* in a row */
	uint32_t counted;    /* of them: had a witness since the last change */
	uint64_t counted_at; /* the last of those */
	uint64_t ok_at;	     /* the last answer */
};

struct host {
	struct shift_conn *c;
	struct shift_conn_cfg cfg;
	struct shift_run run; /* sends on the fast way that the log does not count yet */
	bool counts;	      /* completions of sends are only counted: one has come */
	bool fast;	      /* the gates of the data path are open */
	uint64_t recv_mark;   /* wr_id of receives on rail 0; 0: they keep the program's */
	uint32_t armed_epoch[RAILS];
	uint8_t flavour;
	bool retry_inf; /* retry_cnt 7 of the program, which its twins have, too */
	bool died;
	bool left;     /* died: it has said so itself */
	bool forgets;  /* died: another thread of the process still answers, UNKNOWN */
	bool in_doubt; /* its fences do not say what it executed last */
	uint32_t rep_epoch, rep_psn;
	struct said said[SAID];
	uint32_t said_n;
	uint64_t commit_at, stalled_until;
	uint64_t moved_at; /* its data */
	uint64_t state_at; /* its last change of state */

	uint64_t lost_atomics; /* of the core's count: those that were judged */
	bool abandoned;	       /* a planned switch, since the last commit */
	uint32_t e;	       /* newest epoch entered */
	uint32_t nic_said;     /* mask of the error statuses that its sends got from a NIC */
	bool excused;	       /* data left its last rail because of a fault */
	bool access_nak, rnr_exhausted;
	bool refused;	 /* the peer's NIC has refused a request of its, and died of it */
	bool failed;	 /* answers FAILED */
	uint32_t acts;	 /* actions of the core */
	bool ended_away; /* the life before ended on another rail than 0 */
	uint32_t tombs;
	uint32_t tomb_id[LIVES];
	struct shift_tombstone tomb[LIVES];
	uint64_t setup_until;
	uint64_t barred_from, barred_at; /* no receive, or no rail, could be had (outage.c) */
	bool was_hung[RAILS];		 /* a fence hung there: its QP may have lived on */
	uint8_t joined;	      /* mask of rails: is live there, say the books of its SRQ */
	uint8_t recv_flushed; /* likewise: a flush has named its receive */
	uint64_t stop_until, bg_until, app_until;
	uint64_t tick_at, poll_at;
	bool rts; /* the core knows that the program's QP is in RTS */
	bool post_armed, recv_armed, arm_fails;
	bool answering;	      /* a fence or an ARM is done, and the core is about to be told */
	uint32_t veto[RAILS]; /* counts what bars the rail */
	bool unclean[RAILS];  /* some WR or CQE of its QP is not accounted for */
	struct fence_op fence[RAILS];
	struct arm_op arm[RAILS];
	struct shift_msg frozen;   /* the newest SWITCH that carried a proof */
	uint64_t missed_at[RAILS]; /* last missed probe */
	struct probed probed[RAILS];
	uint8_t awaits_answers; /* mask of rails */
	uint8_t reason;		/* of the end */
	uint8_t change;		/* reason of the last change of state */
	uint8_t state;
	struct prog p;
};

struct msgbuf {
	uint8_t len, r, dst;
	uint8_t bytes[SHIFT_MSG_ENVELOPE + SHIFT_MSG_RECORD_MAX];
	uint32_t next;
};

/* --- faults ---------------------------------------------------------------------------------- */

#define FAULTS(X)                                                       \
	X(CABLE, "cable pulled: silent loss, carrier events")           \
	X(LOSS, "silent loss of everything")                            \
	X(ONEWAY, "one direction cut")                                  \
	X(ACKDROP, "transport ACKs and responses dropped")              \
	X(BIGDROP, "large packets dropped")                             \
	X(FLAP, "several short cuts")                                   \
	X(LOSSY, "random loss")                                         \
	X(SLOW, "latency spike")                                        \
	X(ADMIN, "local link down: the sender errors at once")          \
	X(BGSTALL, "the background thread stalls")                      \
	X(APPSTALL, "the program's thread stalls")                      \
	X(STOP, "SIGSTOP")                                              \
	X(NICDEAD, "a NIC dies")                                        \
	X(NICHUNG, "a NIC's control path hangs")                        \
	X(MIGRATE, "the operator moves the connection")                 \
	X(KILL, "a process dies")                                       \
	X(CLOSE, "a program ends its QP")                               \
	X(ALLRAILS, "every rail cut for longer than the give-up time")  \
	X(PATH, "one direction of the program's QP alone is dead")      \
	X(ARMFAIL, "a twin cannot be brought to RTS")                   \
	X(QPERR, "a QP falls into ERR by itself")                       \
	X(VETO, "a rail is barred: the operator, or memory not pinned") \
	X(RENEW, "both programs end their QPs and use them again")

enum fault_kind {
#define FAULT_ENUM(n, w) FK_##n,
	FAULTS(FAULT_ENUM)
#undef FAULT_ENUM
		FK_COUNT
};

struct fault {
	uint8_t kind, h, r, reps;
	uint64_t ns;
	uint32_t arg;
	bool inside; /* begins in the middle of a message */
	bool copied; /* the other connections have it, too */
};
#define FAULT_MAX 24

/* --- options, world --------------------------------------------------------------------------- */

struct options {
	uint64_t seed;
	uint64_t steps;	    /* 0: until the end */
	uint32_t no_faults; /* mask of fault kinds */
	uint32_t no_ops;    /* mask of enum shift_opcode */
	uint32_t wrs_max;   /* 0: no limit */
	bool planned, lives, one_nic, srq;
	uint32_t conns_max; /* 0: no limit */
	bool trace;
	bool huge; /* WRITEs of up to 2^21 packets in every schedule */
};

/* Where nothing is promised any more (doc/srq.md, 9): a message that waits for a receive may be
 * executed twice; a receive cannot be fetched. */
enum limit { LIMIT_TWICE, LIMIT_FETCH, LIMITS };

struct tally { /* of many schedules */
	uint64_t schedules, events, core_events, core_events_min, few, switched, second, cut, huge;
	uint64_t plan_met_atomics; /* schedules with a planned switch under atomics */
	uint64_t lives;		   /* schedules with a second life */
	uint64_t pause_ppm[2],
		pause_seed[2];	 /* the longest pause, of its bound: switching, ACTIVE */
	uint64_t srqs, conns;	 /* schedules with SRQs, connections in them */
	uint64_t limits[LIMITS]; /* schedules that ended there */
	struct shift_srq_stats srq;
	uint64_t fault[FK_COUNT], ended[SHIFT_R_COUNT], wrs, recvs, packets, fast_posts,
		writes_again;
	struct shift_conn_stats stats;
};

struct trace_rec {
	uint64_t at;
	const char *fmt;
	uint8_t h, conn;
	uint64_t a[4];
};

struct world {
	struct options opt;
	uint32_t conn; /* its number */
	uint64_t now, seq, steps, core_events;
	struct ev heap[HEAP_MAX];
	uint32_t heap_n;
	struct rng g_net, g_nic, g_host, g_prog[HOSTS], g_fault, g_life;
	uint32_t life, foreign_ppm, bag_ppm;
	enum planned planned;
	uint32_t plan_late_ppm; /* PREPARE and READY that come up to 2 s later */
	uint64_t plan_slot[HOSTS], plan_late_ns[HOSTS];
	bool plan_met_atomics; /* a planned switch began with atomics under way */
	bool over;	       /* the next life cannot begin */
	bool renewing; /* one life is over, or about to be, and the next has not begun its work */
	uint32_t apart[HOSTS]; /* mask of its NICs that are not atomic with that of rail 0 */
	uint32_t rails;
	uint32_t second_qp; /* the rail that is on the NICs of rail 0; 0: each has its own */
	struct rail rail[RAILS];
	struct qp qp[HOSTS][RAILS];
	struct host host[HOSTS];
	struct pkt pkt[PKTS];
	uint32_t pkt_free;
	struct msgbuf msg[MSGS];
	uint32_t msg_free;
	struct fault fault[FAULT_MAX];
	uint32_t faults, second_left;
	uint32_t inside; /* fault that waits for the middle of a message, or FAULT_MAX */
	uint32_t salt;	 /* of the stamps: what an earlier schedule left in memory matches none */
	bool huge;	 /* WRITEs of up to 2^21 packets */
	bool started, calm, calm_due, failed, second;
	bool limited; /* failed is set, but by known_limit() */
	bool silence; /* soon after calm probes stop: timers alone must bring data back */
	uint64_t all_cut_from, all_cut_until; /* every rail */
	uint64_t changed_at;		      /* the last time that a fault began or ended */
	uint64_t calm_at, ack_delay_ns, rto_ns, packets, fast_posts, writes_again;
	uint32_t ack_coalesce_ppm, retry_cnt, rnr_retry, ctl_loss_ppm, corrupt_ppm, cqe_late_ppm;
	uint32_t down_status; /* of work to send on a link that is down here */
	struct trace_rec tr[TRACE_MAX];
	uint64_t tr_n;
	char why[256];
};

extern struct world worlds[CONNS], *wp;
extern uint32_t conns;
#define W (*wp)
extern struct tally T;

/* The NICs, and what lies between them. The last rail may be a second QP on those of rail 0. */
static inline struct rail *rail_at(unsigned int r)
{
	return &W.rail[r == W.second_qp ? 0 : r];
}

/* Mask of the other rails on its NICs. */
static inline uint8_t rails_beside(unsigned int r)
{
	if (!W.second_qp || (r && r != W.second_qp))
		return 0;
	return (uint8_t)(r ? 1 : 1u << W.second_qp);
}

enum region { M_SRC, M_DST, M_RCV, M_RDS, M_ATM, M_REGIONS };
extern uint8_t mem[CONNS][HOSTS][M_REGIONS][SLOTS * SLOT_BYTES];

/* --- memory and stamps ------------------------------------------------------------------------ */

static inline uint64_t addr_of(unsigned int h, enum region m, uint32_t slot, uint32_t cell)
{
	/* A huge WRITE goes beyond its slot: only the addresses of its first cells are used. */
	return (uint64_t)(uintptr_t)&mem[W.conn][h][m][(slot % SLOTS) * SLOT_BYTES] +
	       (uint64_t)cell * CELL;
}

static inline uint32_t *cell_at(uint64_t addr)
{
	return (uint32_t *)(uintptr_t)addr;
}

static inline uint64_t *word_at(uint64_t addr)
{
	return (uint64_t *)(uintptr_t)addr;
}

static inline uint32_t cells_of(uint32_t bytes)
{
	return (bytes + CELL - 1) / CELL;
}

static inline uint32_t stamp(unsigned int h, uint32_t seq, uint32_t cell)
{
	return (h << 30 | seq << 6 | cell) ^ W.salt;
}

/* The content of the memory that READ seq of host h reads. */
static inline uint32_t read_stamp(unsigned int h, uint32_t seq, uint32_t cell)
{
	return stamp(h, seq, cell) ^ 0x80000000u;
}

static inline bool two_sided(uint8_t op)
{
	return op == SHIFT_OP_SEND || op == SHIFT_OP_SEND_IMM || op == SHIFT_OP_WRITE_IMM;
}

/* What libibverbs calls it in a completion. */
static inline uint32_t wc_opcode(uint8_t op)
{
	static const uint32_t of[] = {
		[SHIFT_OP_WRITE] = SHIFT_WC_RDMA_WRITE,
		[SHIFT_OP_WRITE_IMM] = SHIFT_WC_RDMA_WRITE,
		[SHIFT_OP_SEND] = SHIFT_WC_SEND,
		[SHIFT_OP_SEND_IMM] = SHIFT_WC_SEND,
		[SHIFT_OP_READ] = SHIFT_WC_RDMA_READ,
		[SHIFT_OP_CMP_SWAP] = SHIFT_WC_COMP_SWAP,
		[SHIFT_OP_FETCH_ADD] = SHIFT_WC_FETCH_ADD,
		[SHIFT_OP_LOCAL_INV] = SHIFT_WC_LOCAL_INV,
	};

	return of[op];
}

#define WC_RECV_IMM 129u /* IBV_WC_RECV_RDMA_WITH_IMM */

/* So long that its payload is only counted, and that a packet of the model stands for a great many.
 */
static inline bool is_huge(uint32_t bytes)
{
	return bytes > SLOT_BYTES;
}

/* At fences of that rail: nothing but the quarantine stops a packet of the old QPs (7.26). */
static inline bool both_have_hung_on(uint32_t r)
{
	return W.host[0].was_hung[r] && W.host[1].was_hung[r];
}

/* On some rail: its QPs live on, beside those of the rail that took over. */
static inline bool both_have_hung(void)
{
	for (uint32_t r = 0; r < RAILS; r++)
		if (both_have_hung_on(r))
			return true;
	return false;
}

static inline bool is_local(uint8_t op)
{
	return op == SHIFT_OP_LOCAL_INV;
}

static inline bool is_atomic(uint8_t op)
{
	return op == SHIFT_OP_CMP_SWAP || op == SHIFT_OP_FETCH_ADD;
}

/* By the peer's NIC, which may have died before it could tell; or by the own one: a local WR is
 * counted in nexec only when one behind it is executed. */
static inline bool was_executed(const struct prog *p, uint32_t i)
{
	return i < p->nexec || p->wr[i].unseen || (is_local(p->wr[i].op) && p->wr[i].execs);
}

/* heap.c */
void ev_add(uint64_t at, enum ev_type type, unsigned int h, unsigned int r, uint32_t x);
bool ev_pop(struct ev *e);
/* trace.c: formats of at most four unsigned long; the named ones are shown as words */
extern const char tr_state[], tr_send[], tr_got[], tr_fault[], tr_heal[];
void tr(unsigned int h, const char *fmt, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
void tr_show(uint32_t last);
void violation(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void known_limit(enum limit which);
/* net.c */
struct pkt *pkt_get(void);
void pkt_put(struct pkt *p);
void msg_put(uint32_t i);
void net_send(struct pkt *p);
void net_send_msg(unsigned int src, unsigned int r, const uint8_t *bytes, uint32_t len);
void net_msg_at(unsigned int src, unsigned int r, const uint8_t *bytes, uint32_t len, uint64_t at);
void net_setup(struct rng *g);
bool net_is_cut(unsigned int src, unsigned int r);
bool net_probe(unsigned int src, unsigned int r);
bool nic_dead(unsigned int h, unsigned int r);
/* nic.c: requester and verbs */
void qp_arm(struct qp *q, uint32_t epoch, uint32_t tx_psn, uint32_t rx_psn);
void qp_modify_err(struct qp *q);
void qp_reset(struct qp *q);
void qp_fatal(struct qp *q, uint32_t status);
int qp_post_send(struct qp *q, const struct shift_wr *wr, uint32_t seq);
int qp_post_recv(struct qp *q, const struct shift_recv_wr *wr);
uint32_t qp_rq_psn(const struct qp *q);
bool nic_is_trusted(unsigned int h);
void qp_tx(struct qp *q);
void qp_rto(struct qp *q);
void qp_ack(struct qp *q, const struct pkt *p);
void qp_cqe(struct qp *q, const struct cqe *c);
bool qp_poll(struct qp *q, struct cqe *c, bool all);
bool qp_peek(const struct qp *q, struct cqe *c);
/* nic_rx.c: responder */
void qp_request(struct qp *q, const struct pkt *p);
void qp_send_ack(struct qp *q);
void qp_drained(struct qp *q);
void qp_flush_recvs(struct qp *q, uint32_t epoch, uint32_t n);
/* host.c: takes the place of the library around lib/core */
void host_setup(unsigned int h, struct rng *g);
void host_live(unsigned int h);
void host_send(unsigned int h, unsigned int r, const struct shift_msg *m);
void host_event(const struct ev *e);
void host_give(unsigned int h, const struct shift_event *ev);
void host_drain(unsigned int h);
bool host_silent(unsigned int h, unsigned int r);
void host_probes_known(unsigned int h); /* a life begins: it is told what is known of the rails */
void host_post_failed(unsigned int h, unsigned int r, uint32_t epoch, uint32_t count);
void host_poll_soon(unsigned int h, uint64_t at);
void host_rts(unsigned int h);
void host_apart(unsigned int h);
void host_vetoes(unsigned int h);
void host_veto(unsigned int h, unsigned int r, int n);
void host_close(unsigned int h, enum shift_close how);
void host_kill(unsigned int h);
void host_unhang(unsigned int h, unsigned int r);
bool host_frozen(unsigned int h, const struct ev *e, uint64_t until);
bool host_feed(unsigned int h, struct qp *q, bool all, uint32_t budget);
void host_feed_nic(unsigned int h, unsigned int r);
void host_evict(unsigned int h, unsigned int r);
/* arm.c */
void arm_event(unsigned int h, unsigned int r);
/* post.c: the data path */
void post_enter(unsigned int h);
void post_leave(unsigned int h);
void post_on_nic(unsigned int h, struct qp *q, const struct shift_wr *wr, uint32_t seq);
bool post_recv_on_nic(unsigned int h, struct qp *q, const struct shift_recv_wr *wr);
void post_tag(unsigned int h, const struct qp *q, const struct cqe *c, struct shift_cqe *sc);
void post_count(unsigned int h, const struct cqe *c);
bool host_post(unsigned int h, const struct shift_wr *wr, uint32_t seq);
bool host_recv(unsigned int h, const struct shift_recv_wr *wr);
/* prog.c: the workload */
void prog_setup(unsigned int h, struct rng *g);
void prog_start(unsigned int h);
void prog_event(const struct ev *e);
void prog_wc(unsigned int h, const struct shift_wc *wc, const struct cqe *c);
bool prog_done(unsigned int h);
bool prog_owed(const struct prog *p);
/* cause.c: what was injected, and what it excuses */
void cause_rail(unsigned int r, int n);
void cause_detour(uint64_t until);
void cause_stall(unsigned int h, uint64_t until);
void cause_report(unsigned int h, const struct shift_action *a);
void cause_send_error(unsigned int h, uint32_t seq, const struct shift_wc *wc, bool first);
void cause_recv_error(unsigned int h, const struct shift_wc *wc);
/* srq.c: the SRQs, their NICs' and the library's part */
void srq_setup(const struct options *o);
void srq_start(void);
void srq_event(const struct ev *e);
bool srq_take(struct qp *q);
bool srq_may_write(const struct qp *q);
uint64_t srq_executed(struct qp *q);
void srq_cut(struct qp *q, bool stopped);
void srq_stale(struct qp *q);
bool srq_join(unsigned int h, unsigned int r);
void srq_leave(unsigned int h, unsigned int r, bool ended);
void srq_leave_others(unsigned int h, unsigned int r);
void srq_closed(unsigned int h);
void srq_killed(unsigned int h);
uint64_t srq_join_ns(unsigned int h);
bool srq_supplied(unsigned int h, unsigned int r);
void srq_look(unsigned int h, unsigned int r);
uint32_t srq_good(unsigned int h, unsigned int r);
uint32_t srq_ghosts(unsigned int h, unsigned int r);
bool srq_out_of_reach(unsigned int h);
bool srq_keeps_out(unsigned int h, unsigned int r);
bool srq_completed(unsigned int h, struct qp *q, struct shift_wc *wc, bool deliver);
uint64_t srq_buffer(unsigned int h, uint64_t wr_id);
void srq_end(void);
void srq_dump(void);
/* outage.c: data moves again in time */
void outage_timer(unsigned int h, uint64_t deadline);
void outage_moved(unsigned int h);
void outage_check(void);
bool outage_was_barred(unsigned int h);
/* lives.c: several lives, several connections */
void lives_setup(struct rng *g);
void lives_msg(unsigned int src, unsigned int r, const uint8_t *bytes, uint32_t len);
bool lives_is_foreign(unsigned int h, const struct shift_msg *m);
bool lives_tombstone(unsigned int h, unsigned int r, const struct shift_msg *m);
void lives_renew(unsigned int first);
void lives_closed(unsigned int h);
void lives_event(const struct ev *e);
/* doubt.c: what the fences prove */
void doubt_fenced(unsigned int h, const struct shift_event *ev, uint32_t rx_psn);
void doubt_said(unsigned int h, const struct shift_msg *m);
const struct said *doubt_find(unsigned int h, uint32_t epoch);
void doubt_commit(unsigned int h, uint32_t epoch);
/* ref.c: the oracle */
void ref_skip_doubtful(unsigned int src, uint32_t upto);
void ref_begin(unsigned int dst, const struct pkt *p);
void ref_place(unsigned int dst, const struct pkt *p, uint64_t addr);
void ref_executed(unsigned int dst, const struct pkt *p);
void ref_local(unsigned int src, uint32_t seq);
void ref_skip_local(unsigned int src, uint32_t upto);
void ref_back(unsigned int src, uint32_t seq);
void ref_unseen(unsigned int dst, const struct pkt *p);
void ref_step(void);
void ref_life(void);
void ref_end(void);
/* fault.c */
void fault_setup(struct rng *g);
void fault_event(const struct ev *e);
void fault_inside(const struct pkt *p);
void fault_on_state(unsigned int h, uint8_t to, uint8_t rail);
void fault_soon(enum fault_kind kind, unsigned int r);
void fault_nic_dies(unsigned int h, unsigned int r);
const char *fault_name(unsigned int k);
const char *fault_text(unsigned int k);
/* report.c */
void report_tally(double secs);
void report_add_tally(const struct tally *t);
void report_coverage(void);
#ifdef SHIFT_CHECKED
void report_add_coverage(const struct shift_coverage *c);
#endif
/* run.c */
bool run_schedule(const struct options *o);
bool run_protected(void);
bool run_refused(unsigned int h);
void run_memory(void);

#endif
