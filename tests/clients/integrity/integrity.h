/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * integrity: all of RC, both ways at once, every byte and every result checked.
 *
 * A lane is one QP with all that is checked on it. Each operation belongs to a stream that counts
 * from 0; what a message looks like (length, bytes) follows from seed, side, lane, stream and
 * number, so the receiver knows what must come next without being told.
 *
 *   messages   SEND, SEND_WITH_IMM, WRITE_WITH_IMM: order and bytes checked when received.
 *   writes     WRITE into a slot; announced later by the sender's status block, then checked and
 *              cleared: a slot that is set again was written twice.
 *   flags      WRITE into a slot whose first and last word are flags: polled in memory, cleared as
 *              soon as seen, and never to be set again.
 *   reads      READ of memory that never changes.
 *   adds       FETCH_AND_ADD of 1: the value that comes back is the number of those before.
 *   swaps      CMP_AND_SWP along a chain of values: what comes back is the link before.
 *
 * The status block is a small WRITE with which each side says how many writes are announced and
 * how many slots are free again. Messages need no credit: without a receive the NIC waits (RNR).
 *
 * With --srq the lanes share their receives: lane i takes them from SRQ i % M. Each receive has a
 * buffer that is posted or free, and comes back once for each time it was posted. Where the NIC may
 * not wait (--rnr-retry below 7) messages do need credit: each receive that is posted is granted to
 * one lane, and the status block says so. At the end of a life no more are posted, and each side
 * sends as many messages as the other's SRQs have receives: all must be met (drain.c).
 */
#ifndef INTEGRITY_H
#define INTEGRITY_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	PEER_ABORTED = -1, /* as abort_status */
	EXIT_SETUP = 1,
	EXIT_USAGE = 2,
	EXIT_ERROR_WC = 3,
	EXIT_STALLED = 4,
	EXIT_VIOLATED = 5,
	EXIT_LEFT = 6,
};

enum {
	SLOTS = 8,	    /* of writes and of flags, per lane */
	WINDOW = 1024,	    /* how far back a late message is told from a repeated one */
	PIECES_MAX = 3,	    /* scatter-gather entries of a work request */
	PIECE_GAP = 64,	    /* unused bytes between two pieces */
	INLINE_MAX = 128,   /* bytes */
	GAPS_KEPT = 2048,   /* the longest, per lane: a second on a busy machine has several */
	SECONDS_KEPT = 600, /* of the run, in which completions are counted one by one */
	DEVICES_MAX = 2,
	BREAK_AT = 20,	    /* the number in its stream at which --break strikes */
	LATE_REPORTS = 250, /* ms in which none of the last receive completions shows: lost */
	LOOK_COUNTS = 10,   /* ms of them at most between two looks */
	POLL_BATCH = 16,    /* completions */
	RTR_TRIES = 100,    /* of a QP that is used again: its port may come up only now */
	RTR_PAUSE_US = 100000,
};

enum op {
	OP_SEND,
	OP_SEND_IMM,
	OP_WRITE,
	OP_WRITE_IMM,
	OP_FLAG,
	OP_READ,
	OP_ADD,
	OP_SWAP,
	OPS_TO_CHOOSE,
	OP_STATUS = OPS_TO_CHOOSE,
	OPS,
};

enum stream { MESSAGES, WRITES, FLAGS, READS, ADDS, SWAPS, STREAMS };

enum break_kind { BREAK_NOTHING, BREAK_DUPLICATE, BREAK_LOSE, BREAK_REORDER, BREAK_CORRUPT };

/* Of an SRQ: one is not posted that counts as posted; a completion of one counts twice. */
enum break_receive { BREAK_NO_RECEIVE, BREAK_LOST_RECEIVE, BREAK_REPEATED_RECEIVE };

/* How a thread learns that there are completions: it polls all the time, or sleeps until an event
 * makes the completion channel readable (level: poll(2); edge: epoll and a descriptor that does not
 * block), or ends ibv_get_cq_event(). */
enum events { EVENTS_NONE, EVENTS_LEVEL, EVENTS_EDGE, EVENTS_BLOCKING };

/* What both sides must agree on: the side that connects decides. */
struct workload {
	uint64_t seed;
	uint32_t qps, depth, inflight, receives, hold_ms, size, ops, count, seconds, lives;
	uint32_t srqs, srq_depth; /* --srq: 0 of them: none */
	uint8_t fixed_size, signal_all, one_way, prompt_receives, fence;
	uint8_t credits, same_ids; /* of SRQs */
};

struct options {
	const char *peer, *port, *devices[DEVICES_MAX]; /* QPs are dealt out to them */
	uint32_t device_count;
	uint32_t gid_index, ib_port, mtu, threads, stall_s;
	uint32_t timeout, retry, rnr_retry, min_rnr_timer, rd_atomic;
	enum break_kind break_kind;
	enum stream break_stream;
	bool json, allow_lost_results;
	bool wr_api, cq_ex;	       /* the way in which this side uses verbs */
	bool rxe_44_post, rxe_44_poll; /* only what rxe of rdma-core 44 does right: see --help */
	bool break_unarmed;
	enum break_receive break_receive;
	uint32_t srq_limit;
	enum events events;
	bool rdma_cm;
	bool by_dlopen, lazy; /* how libibverbs is loaded */
	struct workload w;
};

/* All numbers of one side, or of one lane. */
struct counters {
	uint64_t posted[OPS];
	uint64_t bytes_sent, completions, receives;
	uint64_t lost, duplicated, reordered, bad_bytes;
	uint64_t bad_completions; /* none, two or out of order for one signaled WR */
	uint64_t lost_results;	  /* atomics whose result buffer was not written */
	uint64_t error_completions;
	uint64_t lost_wakeups; /* a CQ was asleep, had completions, and no event came */
	uint64_t bad_events;   /* of RDMA-CM: one that is no program's, or none of its end */
	/* Of SRQs: */
	uint64_t bad_receives;	/* one came back that was not posted, or came back twice */
	uint64_t lost_receives; /* one was posted, and no message meets it */
	uint64_t late_writes;	/* into the buffer of one that is not posted */
	uint64_t lost_limits;	/* fewer than the limit were left, and no event came */
};

struct gap {
	double at_ms, ms; /* since the traffic began; -1: none */
	double paused_ms; /* the longest time in it in which this side itself did not look */
	uint32_t lane;
};

/* Tells what is lost, repeated or out of order in a stream of numbers. */
struct sequence {
	uint32_t next;
	bool missing[WINDOW];
	uint32_t missing_count;
};

struct pieces {
	int n;
	uint32_t offset[PIECES_MAX], length[PIECES_MAX]; /* in the memory of the lane */
};

struct record { /* a posted send WR */
	enum op op;
	bool signaled;
	uint32_t seq, length, read_offset;
	uint64_t expected;
	struct pieces pieces;
};

/* Where things lie in the memory of a lane: the same on both sides. */
struct layout {
	uint32_t status, add, swap, slots[STREAMS], imm, read, send, receive, total;
	uint32_t slot_stride, imm_slots, imm_stride, read_bytes, buffer_stride;
};

/* Words that can be read while a NIC writes them: see word_encode. */
struct status_block {
	uint64_t announced, writes_free, flags_free;
	uint64_t granted; /* messages, from the first on, for which there are receives */
	uint64_t last;	  /* 0: more will follow; else 1 more than the messages that were sent */
};

struct address { /* over TCP, in the machine's own layout: both are the same program */
	uint32_t qpn, psn, rkey;
	uint16_t lid, mtu;
	uint64_t memory;
	union ibv_gid gid;
};

struct totals { /* what a side says it has done to the other, per lane */
	uint32_t sent[STREAMS];
	uint64_t swap_value;
};

struct lane {
	uint32_t index;
	struct device *device;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qp_ex; /* with --wr-api */
	struct rdma_cm_id *id;	 /* with --rdma-cm */
	bool disconnected;
	struct ibv_mr *mr;
	uint8_t *memory;
	uint8_t *scratch, *expected; /* of the thread: one message each */
	struct address own, peer;
	uint64_t random;
	bool sends; /* other than status blocks */

	struct record *records;
	uint32_t posted, retired, unsignaled_run, data_posted;
	uint32_t batch_left;	/* WRs until ibv_wr_complete(); 0: none is begun */
	uint32_t next[STREAMS]; /* number of the next of each stream */
	int64_t add_skew;
	struct status_block told;		     /* last posted, as plain numbers */
	uint32_t announced, writes_free, flags_free; /* heard from the peer */
	uint32_t credit, last;			     /* likewise: `granted` and `last` */
	int break_phase;
	bool finished, final_status, drained;

	struct pieces *receive_pieces;
	uint32_t receives_posted, receives_completed;
	double receives_held_until_ms;
	struct srq *srq;  /* NULL: its receives are its own */
	uint32_t granted; /* to the peer's messages; under the lock of the SRQ */
	struct sequence messages, slots[STREAMS];
	bool front_seen;

	struct counters n;
	struct gap gaps[GAPS_KEPT];
	uint32_t by_second[SECONDS_KEPT]; /* completions */
	double last_completion_ms, progress_ms, paused_ms;
};

struct device {
	struct ibv_context *context;
	struct ibv_pd *pd;
};

enum cq_phase { CQ_POLLED, CQ_ARMED, CQ_ASLEEP };

struct srq_buffer {
	bool posted;
	uint16_t life; /* how often it was posted */
	struct pieces pieces;
};

/* Its lanes may be of several threads. */
struct srq {
	uint32_t index;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint8_t *memory;
	pthread_mutex_t lock; /* of all that follows */
	struct srq_buffer *buffers;
	uint32_t *free, free_count; /* buffers that are not posted, and that nobody reads */
	uint32_t posted;	    /* now */
	uint64_t random;
	double held_until_ms;
	uint32_t ungranted, turn; /* receives that are posted; the lane that is granted the next */
	/* Of --srq-limit: it is armed; an event has come; since when there are fewer. */
	bool armed, low, overdue;
	double below_ms;
	struct srq_counters {
		uint64_t posts, posted, handed_out, drained, limit_events, late_limits;
	} n;
	struct counters found; /* those of SRQs only */
};

struct cq {
	struct ibv_cq *cq;
	struct ibv_cq_ex *ex;		  /* the same, with --cq-ex */
	struct ibv_comp_channel *channel; /* with --events; this CQ's alone */
	int fd;				  /* readable: there are events */
	enum cq_phase phase;
	double looked_ms; /* when it was last found empty */
	uint64_t events;
	unsigned int unacked;
	pthread_t helper; /* with --events blocking */
	bool stop;	  /* helper, please; with atomics */
};

struct poller { /* of a thread: a CQ of each device */
	struct cq cqs[DEVICES_MAX];
	int epoll;
	uint64_t random;
};

/* All of one side. Lanes belong to their thread while the traffic runs. */
struct run {
	struct device devices[DEVICES_MAX];
	struct poller *pollers; /* one per thread */
	struct layout layout;
	struct lane *lanes;
	struct srq *srqs;
	pthread_t limit_thread; /* of --srq-limit */
	bool limit_stop;	/* with atomics */
	int tcp;
	uint32_t life;		      /* from 0: how often the QPs were RESET */
	double start_ms, duration_ms; /* of all lives */
	double life_ms;		      /* when this one began */
	uint64_t started_unix_ms;
	double set_up_ms; /* from the opening of the devices to RTS of all QPs, and the peer's */
	struct totals *peer_totals;
	bool peer_told; /* they are what it said */
	/* Written by any thread, with atomics. */
	int abort_status;
	bool stop;
	uint32_t drained;
	struct { /* the first error completion, written once */
		int taken;
		enum ibv_wc_status status;
		uint32_t vendor_err, lane;
		double at_ms;
		bool on_receive;
	} error;
};

struct verdict {
	int status;
	struct counters n;
};

extern struct options opt;

/* options.c */
void options_parse(int argc, char **argv);
const char *op_name(enum op op);
const char *events_name(enum events events);

/* pattern.c */
extern uint32_t pattern_life; /* which life the messages are of */
double now_ms(void);
uint64_t mix(uint64_t x);
uint32_t pick(struct lane *l, uint32_t below);
uint32_t pick_by(uint64_t *random, uint32_t below);
uint64_t word_encode(uint32_t value);
bool word_decode(uint64_t word, uint32_t *value);
uint64_t memory_load(const uint8_t *p);
void memory_store(uint8_t *p, uint64_t value);
int side_own(void);
uint64_t message_key(int side, uint32_t lane, enum stream s, uint32_t seq);
uint32_t message_length(int side, uint32_t lane, enum stream s, uint32_t seq);
void message_fill(uint8_t *to, uint64_t key, uint32_t from_byte, uint32_t length);
void message_build(uint8_t *to, uint64_t key, uint32_t seq, uint32_t length);
void slot_build(uint8_t *to, uint64_t key, uint32_t seq, uint32_t length);
uint64_t swap_value(int side, uint32_t lane, uint32_t seq);
/* How many of a message's bytes are not as expected; the first few messages are told of. */
uint64_t bytes_bad(const struct lane *l, const char *what, uint32_t seq, const uint8_t *got,
		   const uint8_t *expected, uint32_t length);
void pieces_cut(uint64_t *random, struct pieces *p, uint32_t at, uint32_t length);
void pieces_scatter(uint8_t *memory, const struct pieces *p, const uint8_t *from);
void pieces_gather(const uint8_t *memory, const struct pieces *p, uint8_t *to, uint32_t length);
int pieces_sges(const struct ibv_mr *mr, const struct pieces *p, struct ibv_sge *sges);

/* sequence.c */
void sequence_note(struct sequence *s, uint32_t seq, struct counters *n);
void sequence_skip(struct sequence *s, uint32_t to, struct counters *n);
void sequence_close(struct sequence *s, uint32_t sent, struct counters *n);
void gap_note(struct gap *gaps, struct gap g);

/* net.c */
_Noreturn void fail(const char *what);
void net_open(struct run *r);
void net_agree(struct run *r);
bool net_swap(struct run *r, const void *own, void *peer, size_t bytes);
bool net_send(struct run *r, const void *own, size_t bytes);
bool net_receive(struct run *r, void *peer, size_t bytes);
bool net_pending(struct run *r, int timeout_ms);

/* device.c */
void device_open(struct run *r);
void device_connect(struct run *r);
void device_reuse(struct run *r);
void device_close(struct run *r);

/* cm.c: --rdma-cm. NULL in integrity-dlopen: librdmacm would load libibverbs before that does. */
extern const struct cm_calls {
	void (*open)(struct run *r, struct device *d);
	void (*create_qp)(struct lane *l, struct ibv_qp_init_attr_ex *attr);
	void (*connect)(struct lane *l);
	void (*disconnect)(struct run *r); /* all that is verified must be over */
	void (*close_lane)(struct lane *l);
	void (*close)(void);
} *const cm;

/* cq.c */
void poller_create(struct run *r, uint32_t thread, int entries);
void poller_destroy(struct poller *p);
void poller_wake(struct poller *p);
void poller_sleep(struct poller *p); /* a moment, or until an event: if all its CQs are asleep */
uint64_t poller_events(const struct poller *p);
int cq_poll(struct poller *p, struct cq *c, int max, struct ibv_wc *wcs);
bool cq_overslept(const struct cq *c, bool at_end);
/* A CQ was asleep and had completions, which were polled. Does their event come? Wakes it. */
bool cq_wakes(struct poller *p, struct cq *c);

/* wr_api.c */
uint64_t wr_api_flags(void); /* IBV_QP_EX_WITH_... of what is posted */
/* These return 0 or what ibv_wr_complete() says. */
int wr_api_post(struct lane *l, const struct ibv_send_wr *wr);
int wr_api_complete(struct lane *l);

/* post.c */
void post_begun(struct run *r, struct lane *l); /* completes a batch that is begun */
bool post_data(struct run *r, struct lane *l);
bool post_message(struct run *r, struct lane *l); /* one more, whatever the credit; signaled */
bool post_status(struct run *r, struct lane *l, bool always);
uint32_t outstanding(const struct lane *l);

/* breaker.c */
bool breaker_ready(const struct lane *l, enum stream s, uint32_t credit);
bool breaker_midway(const struct lane *l);
uint32_t breaker_writes(const struct lane *l);
uint32_t breaker_next(struct lane *l, enum stream s);
void breaker_corrupt(struct lane *l, enum stream s, uint8_t *message, uint32_t length);

/* retire.c */
void note_gap(struct run *r, struct lane *l, double t_ms);
void retire(struct run *r, struct lane *l, const struct ibv_wc *wc, double t_ms);

/* receive.c */
void receives_post(struct run *r, struct lane *l, bool all);
void receive(struct run *r, struct lane *l, const struct ibv_wc *wc);

/* srq.c: --srq. Those of a lane are called by its thread. */
void srqs_create(struct run *r);
void srqs_post_all(struct run *r);
void srqs_reuse(struct run *r); /* a new life: nothing is granted */
void srqs_destroy(struct run *r);
uint32_t srq_buffers(void);
uint32_t srq_receives(void); /* of all SRQs */
/* Those that are free; or none, some or all of them, and sometimes none for a while. */
void srq_post(struct run *r, struct srq *s, bool all);
/* The buffer of a completion, which nobody else uses until it is put back; NULL: it is of none that
 * is posted, which was counted. With --srq-same-ids: any, and nothing is in it. */
struct srq_buffer *srq_take(struct srq *s, uint64_t wr_id);
void srq_put_back(struct srq *s, struct srq_buffer *b);
uint32_t srq_granted(struct run *r, struct lane *l);
void srq_last_heard(struct lane *l); /* the peer says how many messages it has sent in all */

/* srq_limit.c: --srq-limit */
void srq_limit_start(struct run *r);
void srq_limit_stop(struct run *r);
/* Under the lock of the SRQ: may receives be posted? And: they have been. */
bool srq_limit_due(struct srq *s);
void srq_limit_arm(struct srq *s);

/* drain.c: the end of a life. Until each receive of both sides has met a message, or cannot. */
void drain(struct run *r);

/* slots.c */
void slots_poll(struct run *r, struct lane *l);
void slots_close(struct run *r, struct lane *l, const struct totals *sent);

/* traffic.c */
void traffic(struct run *r);
void traffic_abort(struct run *r, int status);
void traffic_completion(struct run *r, const struct ibv_wc *wc, double t_ms);
bool traffic_left(void); /* it was told to leave all as it is */
bool traffic_next_life(struct run *r);
void verify(struct run *r);

/* report.c */
void counters_add(struct counters *to, const struct counters *from);
bool violated(const struct counters *n);
void report(struct run *r, const struct counters *n, const struct verdict *peer, int status);

#endif
