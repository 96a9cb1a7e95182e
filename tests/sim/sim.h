/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Deterministic simulator of two hosts, their NICs and the rails between them, around the real
 * object files of lib/core. One schedule is a function of its seed and options alone: no clock, no
 * allocation, no address matters. Everything lives in one static world, W.
 *
 * Memory is real (the core copies inline payloads), but only the first word of each 64-byte cell
 * means something: a stamp that names the WR and the cell. So a packet of 1 KB costs 16 words, and
 * a cell that arrives twice, late or at the wrong place is noticed when it is placed.
 */
#ifndef SHIFT_TESTS_SIM_H
#define SHIFT_TESTS_SIM_H

#include "lib/core/conn.h"

#define HOSTS	     2
#define RAILS	     4
#define CELL	     64u
#define SLOTS	     64u
#define SLOT_CELLS   32u
#define SLOT_BYTES   (SLOT_CELLS * CELL)
#define PKT_CELLS    16u
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
	EV_TYPES
};

struct ev {
	uint64_t at;
	uint64_t seq; /* ties are broken by age */
	uint32_t x;
	uint8_t type;
	uint8_t h;
	uint8_t r;
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

struct cqe {
	uint64_t wr_id;
	uint64_t visible_at; /* the write of the CQE may lag behind rq_psn */
	uint32_t status;
	uint32_t byte_len;
	uint32_t epoch;
	uint32_t seq; /* receive: WR of the peer that filled it, for the oracle */
	bool is_recv;
};

struct qp {
	uint8_t h, r, state, leak;
	bool tx_armed, rto_armed, ack_armed, nak_sent, retry_inf;
	uint32_t epoch; /* armed for: only the oracle and the glue look at it */
	uint32_t mtu;	/* bytes */
	/* requester */
	struct wqe sq[SQ_MAX];
	uint32_t sq_pi, sq_ci, sq_si, sq_k;	    /* posted, completed, sending, packet of it */
	uint32_t tx_psn, una, snd, snd_max, posted; /* packets since armed */
	uint32_t retry, rnr;
	uint64_t rnr_until, tx_free, rto_at;
	/* responder */
	struct rqe rq[RQ_MAX];
	uint32_t rq_pi, rq_ci;
	uint32_t rx_psn, rx; /* first PSN; packets executed since armed */
	uint32_t msg_off;    /* cells placed of the message being received */
	uint64_t drained_at;
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
	bool hung[HOSTS];	    /* its control path hangs, data flows */
};

/* How a host's NICs behave. */
enum flavour {
	NIC_RXE,   /* ERR leaks a packet, RESET is a barrier, rq_psn live, survives RESET */
	NIC_MLX,   /* ERR leaks a packet for a while, waiting is a barrier, receives flush */
	NIC_IRDMA, /* rq_psn is not live */
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
	uint32_t epoch, tx_psn, rx_psn;
};

/* A WR of the program, and what happened to it. */
struct ref_wr {
	uint8_t op;
	bool signaled, two_sided;
	uint32_t len;	/* bytes */
	uint32_t cells; /* placed so far */
	uint32_t imm;
	uint32_t execs;
	uint64_t expect; /* atomic: result */
};

struct prog {
	struct ref_wr wr[WRS];
	uint32_t total, posted, retired, two_sided;
	uint32_t since_signal;
	uint32_t next_cqe; /* next WR whose completion may come */
	uint32_t nexec;	   /* WRs fully executed by the peer's NIC */
	uint32_t err_from; /* first WR completed in error, or UINT32_MAX */
	uint32_t recv_posted, recv_done, next_two;
	uint64_t counter, counter_cas; /* the peer's words after this side's atomics */
	bool qp_err, recv_err, close_asked, closed;
	bool bad;	  /* posted a WR with a wrong rkey */
	uint32_t mix[10]; /* weight of each opcode */
	uint32_t sig_ppm, inline_ppm, burst, big_ppm, late_ppm, bad_ppm, refuse_ppm;
	uint64_t gap_ns;
};

struct host {
	struct shift_conn *c;
	struct shift_conn_cfg cfg;
	uint8_t flavour;
	bool died;
	bool forgets;	   /* died: another thread of the process still answers, UNKNOWN */
	bool said_unsure;  /* its newest SWITCH proves nothing */
	uint32_t doubtful; /* WRs of the peer below it may have been replayed in doubt */
	bool unsure;	   /* ever reported a fence that proves nothing, or has a dead NIC */
	uint64_t stop_until, bg_until, app_until;
	uint64_t tick_at, poll_at;
	bool post_armed, recv_armed, draining, arm_fails;
	struct fence_op fence[RAILS];
	struct arm_op arm[RAILS];
	struct shift_msg frozen;   /* the newest SWITCH that carried a proof */
	uint64_t missed_at[RAILS]; /* last missed probe */
	uint8_t reason;		   /* of the end */
	uint8_t change;		   /* reason of the last change of state */
	uint8_t state;
	struct prog p;
};

struct msgbuf {
	uint8_t len, r, dst;
	uint8_t bytes[SHIFT_MSG_ENVELOPE + SHIFT_MSG_RECORD_MAX];
	uint32_t next;
};

/* --- faults ---------------------------------------------------------------------------------- */

#define FAULTS(X)                                                      \
	X(CABLE, "cable pulled: silent loss, carrier events")          \
	X(LOSS, "silent loss of everything")                           \
	X(ONEWAY, "one direction cut")                                 \
	X(ACKDROP, "transport ACKs and responses dropped")             \
	X(BIGDROP, "large packets dropped")                            \
	X(FLAP, "several short cuts")                                  \
	X(LOSSY, "random loss")                                        \
	X(SLOW, "latency spike")                                       \
	X(ADMIN, "local link down: the sender errors at once")         \
	X(BGSTALL, "the background thread stalls")                     \
	X(APPSTALL, "the program's thread stalls")                     \
	X(STOP, "SIGSTOP")                                             \
	X(NICDEAD, "a NIC dies")                                       \
	X(NICHUNG, "a NIC's control path hangs")                       \
	X(MIGRATE, "the operator moves the connection")                \
	X(KILL, "a process dies")                                      \
	X(CLOSE, "a program ends its QP")                              \
	X(ALLRAILS, "every rail cut for longer than the give-up time") \
	X(PATH, "one direction of the program's QP alone is dead")     \
	X(ARMFAIL, "a twin cannot be brought to RTS")                  \
	X(QPERR, "a QP falls into ERR by itself")

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
};
#define FAULT_MAX 24

/* --- options, world --------------------------------------------------------------------------- */

struct options {
	uint64_t seed;
	uint64_t steps;	    /* 0: until the end */
	uint32_t no_faults; /* mask of fault kinds */
	uint32_t no_ops;    /* mask of enum shift_opcode */
	uint32_t wrs_max;   /* 0: no limit */
	bool trace;
};

struct tally { /* of many schedules */
	uint64_t schedules, events, core_events, core_events_min, few, switched, second;
	uint64_t fault[FK_COUNT], ended[SHIFT_R_COUNT], wrs, recvs, packets;
	struct shift_conn_stats stats;
};

struct trace_rec {
	uint64_t at;
	const char *fmt;
	uint8_t h;
	uint64_t a[4];
};

struct world {
	struct options opt;
	uint64_t now, seq, steps, core_events;
	struct ev heap[HEAP_MAX];
	uint32_t heap_n;
	struct rng g_net, g_nic, g_host, g_prog[HOSTS], g_fault;
	uint32_t rails;
	struct rail rail[RAILS];
	struct qp qp[HOSTS][RAILS];
	struct host host[HOSTS];
	struct pkt pkt[PKTS];
	uint32_t pkt_free;
	struct msgbuf msg[MSGS];
	uint32_t msg_free;
	struct fault fault[FAULT_MAX];
	uint32_t faults, second_left;
	bool started, calm, failed, second, may_end, gave_up_ok;
	uint64_t calm_at, ack_delay_ns, rto_ns, packets;
	uint32_t ack_coalesce_ppm, retry_cnt, rnr_retry, ctl_loss_ppm, corrupt_ppm;
	uint32_t down_status; /* of work to send on a link that is down here */
	struct trace_rec tr[TRACE_MAX];
	uint64_t tr_n;
	char why[256];
};

extern struct world W;
extern struct tally T;

enum region { M_SRC, M_DST, M_RCV, M_RDS, M_ATM, M_REGIONS };
extern uint8_t mem[HOSTS][M_REGIONS][SLOTS * SLOT_BYTES];

/* --- memory and stamps ------------------------------------------------------------------------ */

static inline uint64_t addr_of(unsigned int h, enum region m, uint32_t slot, uint32_t cell)
{
	return (uint64_t)(uintptr_t)&mem[h][m][(slot % SLOTS) * SLOT_BYTES + cell * CELL];
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
	return (h << 30 | seq << 6 | cell) + 1;
}

/* The content of the memory that READs read. */
static inline uint32_t read_stamp(unsigned int h, uint32_t slot, uint32_t cell)
{
	return 0x80000000u | stamp(h, slot % SLOTS, cell);
}

static inline bool two_sided(uint8_t op)
{
	return op == SHIFT_OP_SEND || op == SHIFT_OP_SEND_IMM || op == SHIFT_OP_WRITE_IMM;
}

static inline bool is_atomic(uint8_t op)
{
	return op == SHIFT_OP_CMP_SWAP || op == SHIFT_OP_FETCH_ADD;
}

/* heap.c */
void ev_add(uint64_t at, enum ev_type type, unsigned int h, unsigned int r, uint32_t x);
bool ev_pop(struct ev *e);
/* trace.c: formats of at most four unsigned long; the named ones are shown as words */
extern const char tr_state[], tr_send[], tr_got[], tr_fault[], tr_heal[];
void tr(unsigned int h, const char *fmt, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
void tr_show(uint32_t last);
void violation(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* net.c */
struct pkt *pkt_get(void);
void pkt_put(struct pkt *p);
void msg_put(uint32_t i);
void net_send(struct pkt *p);
void net_send_msg(unsigned int src, unsigned int r, const uint8_t *bytes, uint32_t len);
void net_setup(struct rng *g);
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
void qp_tx(struct qp *q);
void qp_rto(struct qp *q);
void qp_ack(struct qp *q, const struct pkt *p);
void qp_cqe(struct qp *q, const struct cqe *c);
bool qp_poll(struct qp *q, struct cqe *c, bool all);
/* nic_rx.c: responder */
void qp_request(struct qp *q, const struct pkt *p);
void qp_send_ack(struct qp *q);
void qp_drained(struct qp *q);
void qp_flush_recvs(struct qp *q, uint32_t epoch, uint32_t n);
/* host.c: takes the place of the library around lib/core */
void host_setup(unsigned int h, struct rng *g);
void host_event(const struct ev *e);
void host_give(unsigned int h, const struct shift_event *ev);
void host_poll_soon(unsigned int h, uint64_t at);
bool host_post(unsigned int h, const struct shift_wr *wr, uint32_t seq);
bool host_recv(unsigned int h, const struct shift_recv_wr *wr);
void host_close(unsigned int h, enum shift_close how);
void host_kill(unsigned int h);
void host_unhang(unsigned int h, unsigned int r);
bool host_frozen(unsigned int h, const struct ev *e, uint64_t until);
/* prog.c: the workload */
void prog_setup(unsigned int h, struct rng *g);
void prog_start(unsigned int h);
void prog_event(const struct ev *e);
void prog_wc(unsigned int h, const struct shift_wc *wc, const struct cqe *c);
bool prog_done(unsigned int h);
/* ref.c: the oracle */
void ref_skip_doubtful(unsigned int src, uint32_t upto);
void ref_begin(unsigned int dst, const struct pkt *p);
void ref_place(unsigned int dst, const struct pkt *p, uint64_t addr);
void ref_executed(unsigned int dst, const struct pkt *p);
void ref_step(void);
void ref_end(void);
/* fault.c */
void fault_setup(struct rng *g);
void fault_event(const struct ev *e);
void fault_on_state(unsigned int h, uint8_t to, uint8_t rail);
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

#endif
