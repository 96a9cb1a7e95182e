/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Deterministic simulation of the library around lib/core: the real object files of lib/base,
 * lib/object, lib/conn and lib/verbs at both ends of a connection, in one process and on one thread
 * of the system. The library's threads and the program's are coroutines (sched.c), which are
 * switched at every lock, wait, sleep and verb; the clock is the schedule's. Beneath are NICs that
 * the test has (nic.c, verbs.c) and a network (wire.c). session.c takes the place of the
 * rendezvous.
 *
 * A schedule is a function of its seed and options alone, and runs in a process of its own.
 */
#ifndef SHIFT_TESTS_GLUE_H
#define SHIFT_TESTS_GLUE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/conn/vqp.h"

enum {
	HOSTS = 2,
	RAILS_MAX = 3,
	PAIRS_MAX = 2, /* connections */
	SLOTS = 64,    /* of memory: more than WRs can be outstanding */
	SLOT_BYTES = 2048,
	WRS_MAX = 2048,
	POOLS_MAX = 3, /* SRQs of a host */
	POOL_DEPTH_MAX = 1024,
	NS_US = 1000,
	NS_MS = 1000000
};

/* --- options and verdict: main.c -------------------------------------------------------------- */

struct options {
	uint64_t seed;
	uint32_t without, only; /* masks of enum fault_kind; only: 0: all */
	bool trace;
	bool srq, no_srq; /* all schedules with SRQs, or none */
};

extern struct options opt;

#define FAULTS(X)                                                                  \
	X(CUT, "nothing leaves a NIC after some packets more, and nobody is told") \
	X(CABLE, "the same, and both ends hear of it")                             \
	X(ACKS, "ACKs and responses of one direction are lost")                    \
	X(LOSSY, "random loss")                                                    \
	X(QPERR, "a QP falls into ERR by itself")                                  \
	X(HANG, "a NIC's verbs hang, its data flows")                              \
	X(BROKEN, "a NIC refuses posts, and some of them it takes nevertheless")   \
	X(MIGRATE, "the operator moves a connection")                              \
	X(STALL, "a thread stands still")

enum fault_kind {
#define FAULT_ENUM(name, text) FAULT_##name,
	FAULTS(FAULT_ENUM)
#undef FAULT_ENUM
		FAULT_COUNT
};

/* Counted over all schedules; what is 0 in the end was not tried. */
#define TALLY(X)               \
	X(schedules)           \
	X(steps)               \
	X(switches_of_threads) \
	X(sends)               \
	X(receives)            \
	X(packets)             \
	X(faults)              \
	X(switched)            \
	X(commits)             \
	X(replayed)            \
	X(trimmed)             \
	X(proved)              \
	X(reissued_reads)      \
	X(refused_posts)       \
	X(keys_asked)          \
	X(hung_fences)         \
	X(planned)             \
	X(lives)               \
	X(ended_by_atomic)     \
	X(destroyed_in_switch) \
	X(destroyed_alone)     \
	X(rekeys)              \
	X(abandoned)           \
	X(held_posts)          \
	X(leaked_packets)      \
	X(srq_receives)        \
	X(srq_drained)         \
	X(srq_cuts)            \
	X(srq_named_late)      \
	X(srq_probed)          \
	X(srq_strays)          \
	X(srq_lost)

struct tally {
#define TALLY_FIELD(name) uint64_t name;
	TALLY(TALLY_FIELD)
#undef TALLY_FIELD
};

extern struct tally *tally;

/* The schedule has failed: says why, and ends the process of the schedule. */
void violation(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#define trace(...)                               \
	do {                                     \
		if (opt.trace)                   \
			trace_line(__VA_ARGS__); \
	} while (0)
void trace_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- random numbers: splitmix64 --------------------------------------------------------------- */

uint64_t rnd(void);
uint32_t rnd_below(uint32_t n); /* 0 .. n - 1 */
uint64_t rnd_range(uint64_t lo, uint64_t hi);
bool rnd_ppm(uint32_t ppm);
bool one_in(uint32_t n);

/* --- threads and time: sched.c ---------------------------------------------------------------- */

extern uint64_t now;

void sched_setup(void);

/* Starts a thread: a coroutine. */
void thread_begin(const char *name, void *(*fn)(void *), void *arg);

/* The rest on a thread. Here another one may run. */
void thread_step(void);
void thread_sleep(uint64_t ns);

/* Waits until thread_wake(on) or until that time. false: it is that time. */
bool thread_wait(const void *on, uint64_t until);

/* Any context. */
void thread_wake(const void *on, bool all);
const char *thread_name(void);

/* Any thread but the background thread may be made to stand still. */
void threads_stall(uint64_t ns);

/* fn(a, b) at that time, on no thread: it must not call the library. */
void event_at(uint64_t at, void (*fn)(void *a, uint64_t b), void *a, uint64_t b);

/* Runs threads and events until *done. */
void sched_run(const bool *done);

/* The background thread is to look for messages, or to run calls. */
void background_wake(void);

/* --- NICs: nic.c ------------------------------------------------------------------------------ */

enum op { OP_WRITE, OP_WRITE_IMM, OP_SEND, OP_SEND_IMM, OP_READ, OP_CMP_SWAP, OP_FETCH_ADD };

struct fake_nic {
	struct nic *nic; /* the library's */
	unsigned int host, rail;
	bool is_rxe;
	bool hung;	       /* its verbs do not return */
	bool broken;	       /* it refuses posts */
	bool cut;	       /* nothing leaves it */
	uint32_t last_packets; /* so many leave it, and then nothing; 0: no such limit */
	enum { CUT_FLUSHED, CUT_DROPPED, CUT_NAMED_LATE } cut_how; /* receives of an SRQ */
	bool mute; /* its ACKs and responses do not leave it */
	bool carrier;
	uint32_t loss_ppm;
	struct ibv_device device;
	struct ibv_context program_ctx, library_ctx;
	struct ibv_pd own_pd; /* the library's */
	uint64_t last_arrival;
};

extern struct fake_nic nics[HOSTS][RAILS_MAX];
extern unsigned int rails;

struct fake_cq {
	struct ibv_cq cq;
	struct fake_nic *nic;
	struct cq_entry {
		struct ibv_wc wc;
		uint64_t visible_at; /* the NIC writes it some time after rq_psn has moved */
		const struct fake_qp *qp;
	} * entry;
	uint32_t head, tail, size;
	uint32_t qps;
	uint64_t newest;
	/* Of its channel; NULL: it has none. */
	const struct ibv_comp_channel *channel;
	bool armed;
	uint64_t event_at; /* the kernel has an event from then on; 0: none */
	uint32_t reported;
	struct fake_cq *next; /* on any channel */
};

struct wqe {
	uint64_t wr_id;
	enum op op;
	uint8_t flags;
	uint32_t num_sge, imm, rkey, length;
	uint64_t remote, compare_add, swap;
	struct ibv_sge sge[4];
	uint32_t first, packets; /* since the QP was armed */
	uint32_t got;		 /* READ, atomic: responses */
	bool marker;		 /* of a fence: it must never leave the NIC */
};

struct rqe {
	uint64_t wr_id;
	uint32_t num_sge;
	struct ibv_sge sge[4];
};

struct fake_srq {
	struct ibv_srq srq;
	struct fake_nic *nic;
	struct rqe *rq;
	uint32_t max, posted, taken;
	uint32_t held; /* by messages that have begun */
	uint32_t qps, refuse_ppm;
	bool any_order;
};

struct fake_qp {
	struct ibv_qp qp;
	struct fake_nic *nic;
	bool program; /* the program's own, on rail 0 */
	enum ibv_qp_state state;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	uint32_t life; /* counts RESETs */
	uint32_t mtu;
	/* requester */
	struct wqe *sq;
	uint32_t sq_posted, sq_done, sq_sending, sq_packet;
	uint32_t tx_psn, una, next, next_max, all; /* packets since armed */
	uint32_t retries;
	uint64_t rto_at, rnr_until;
	uint32_t rnrs, rnrs_at;
	bool tx_set, rto_set;
	/* responder */
	struct rqe *rq;
	uint32_t rq_posted, rq_done;
	uint32_t rx_psn, rx, offset;
	struct fake_srq *srq;
	struct rqe rqe; /* that it has taken from the SRQ, if it holds one */
	bool holds;
	struct rqe late; /* that was cut with it, to be named in a later life */
	bool is_late, stray;
	uint32_t late_life;
	bool nak_sent, leaks;
	uint64_t leak_until;
	struct {
		uint32_t psn;
		uint64_t value;
	} atomic[16];
	uint32_t atomics;
	struct fake_qp *next_qp;
};

struct fake_mr {
	struct ibv_mr mr;
	struct fake_nic *nic;
	struct fake_mr *next;
};

struct packet {
	enum packet_type {
		REQUEST,
		ACK,
		NAK_SEQUENCE,
		NAK_RNR,
		NAK_ACCESS,
		READ_DATA,
		ATOMIC_DATA
	} type;
	struct fake_nic *to;
	uint32_t qpn, psn;
	enum op op;
	bool first, last;
	bool to_itself, stray;
	uint32_t rkey, imm, packets, length, bytes, offset;
	uint64_t remote, a, b;
	unsigned int life;
	uint64_t source; /* address of the first SGE: for the oracle */
	uint8_t data[];
};

struct fake_nic *nic_of(const struct ibv_context *ctx);
struct fake_qp *qp_of_number(const struct fake_nic *n, uint32_t qpn);
void nic_setup(void);
struct fake_qp *nic_create_qp(struct ibv_pd *pd, const struct ibv_qp_init_attr *attr);
void nic_destroy_qp(struct fake_qp *q);
int nic_modify_qp(struct fake_qp *q, const struct ibv_qp_attr *attr, int mask);
uint32_t nic_send_room(const struct fake_qp *q); /* WRs */
int nic_post_send(struct fake_qp *q, const struct ibv_send_wr *wr);
int nic_post_recv(struct fake_qp *q, const struct ibv_recv_wr *wr);
int nic_poll(struct fake_cq *cq, int n, struct ibv_wc *wc);
void nic_notify(struct fake_cq *cq); /* of the next completion */
void nic_fail_qp(struct fake_qp *q); /* it falls into ERR by itself */
void nic_receive(struct packet *p);  /* from the wire */
void nic_forget_entries(struct fake_cq *cq, const struct fake_qp *q);
struct fake_qp *nic_some_qp(const struct fake_nic *n);
void nic_check_keys(const struct fake_nic *nic, const struct ibv_sge *sge, uint32_t n);
void nic_completes(struct ibv_cq *cq, const struct fake_qp *q, const struct ibv_wc *wc);

static inline bool is_self_connected(const struct fake_qp *q)
{
	return q->srq && q->attr.dest_qp_num == q->qp.qp_num;
}

/* --- shared receive queues: nic_srq.c --------------------------------------------------------- */

extern uint32_t srq_refusals; /* of posts, by any NIC */
bool srq_is_empty(const struct fake_srq *s);
void srq_take(struct fake_qp *q); /* into q->rqe; it is not empty */
void srq_release(struct fake_qp *q);
void srq_flush(struct fake_qp *q);
void srq_reset(struct fake_qp *q);
struct ibv_srq *real_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int real_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int real_destroy_srq(struct ibv_srq *srq);
int op_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* --- the network: wire.c ---------------------------------------------------------------------- */

struct packet *packet_new(const struct fake_qp *from, enum packet_type type, uint32_t psn,
			  uint32_t bytes);
void wire_send(struct fake_nic *from, struct packet *p); /* frees it in the end */
bool wire_passes(const struct fake_nic *from); /* would a datagram of that NIC arrive now? */
uint64_t wire_delay(void);
void wire_setup(void);

/* --- verbs: verbs.c --------------------------------------------------------------------------- */

void verbs_setup(void);

/* A list on the way to the program's NIC: all or none, as of ibv_wr_complete(). */
int verbs_post_all(struct vqp *v, const struct ibv_send_wr *wr);
unsigned int verbs_objects(void); /* that exist, of the provider */
void verbs_made(int n);
void verbs_ask(const struct fake_nic *n, uint64_t max_ns); /* a system call */
struct fake_mr *mr_find(const struct fake_nic *n, uint32_t key, uint64_t addr, uint64_t bytes);

/* --- what takes the place of lib/session: session.c ------------------------------------------- */

void session_setup(void);
void session_tell_link(struct fake_nic *n); /* on no thread: the background thread hears of it */
void session_migrate(unsigned int pair, unsigned int host);
void session_stop(void); /* no more probes */
void session_turn(void); /* the background thread: messages have come */

/* --- the program and its oracle: prog.c ------------------------------------------------------- */

void prog_setup(void);
void *prog_main(void *arg);
extern bool prog_is_over;
extern bool calm;					    /* no more faults */
unsigned int prog_life(void);				    /* how often the QPs were RESET */
struct vqp *prog_vqp(unsigned int pair, unsigned int host); /* NULL: not now */
void prog_unsure(unsigned int host); /* that host's fences may prove nothing from now on */

/* The NIC has been asked to post. Is it the last request of the program's list? */
void prog_asked(const struct ibv_qp *qp, bool is_last, int err);
bool prog_is_last(const struct ibv_qp *qp, uint64_t wr_id);

/* Is the program about to RESET that QP? */
bool prog_resets(const struct ibv_qp *qp);

/* The oracle sees every packet that the NIC of a host executes. */
void oracle_execute(unsigned int host, const struct fake_qp *q, const struct packet *p);
const char *oracle_hang(void); /* who waits for what */

/* The program's SRQs (pool.c): a QP of a NIC has taken a receive; a NIC names one in an error. */
bool pool_is_used(void); /* by this schedule */
void pool_taken(struct fake_qp *q);
void pool_named(const struct rqe *r);
void pool_cut(const struct fake_qp *q);	     /* it takes its receive with it */
void stray_execute(const struct fake_qp *q); /* a message of a QP that is not protected */

/* --- faults: fault.c -------------------------------------------------------------------------- */

void fault_setup(void);
const char *fault_name(unsigned int kind);
const char *fault_text(unsigned int kind);

#endif
