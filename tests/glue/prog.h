/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The program's connections, as prog.c uses them and oracle.c judges them. */
#ifndef SHIFT_TESTS_GLUE_PROG_H
#define SHIFT_TESTS_GLUE_PROG_H

#include "tests/glue/glue.h"

/* A send, and what has happened to it. */
struct work {
	enum op op;
	uint32_t bytes, imm;
	bool signaled;
	uint64_t compare;    /* CMP_SWAP */
	uint32_t key_number; /* which registration of the peer it names */
	/* At the peer's NIC: */
	uint32_t placed; /* bytes */
	uint32_t executed;
	uint64_t result; /* of an atomic: what it must return */
	int buffer;	 /* of an SRQ, in which it lies */
};

/* A buffer of an SRQ. */
struct pool_buffer {
	uint64_t wr_id;
	bool posted;		      /* and the program has not got it back */
	bool named;		      /* a NIC has named it in an error */
	const struct side *landed;    /* whose message lies there, not yet received */
	const struct fake_qp *holder; /* for a message in its middle */
};

#define POOL_ID (1ull << 40) /* no send has such a wr_id */

/* An SRQ of the program. */
struct pool {
	struct ibv_srq *srq;
	unsigned int host, number;
	uint32_t depth, sges, list_max;
	bool equal_ids; /* all receives have the same wr_id */
	bool credits;	/* peers send only what a receive is posted for */
	bool weak;	/* a QP has ended: less is claimed */
	uint32_t lkey;
	uint32_t posted, granted, promised, lost, look;
	uint32_t lost_before; /* the last messages were counted */
	uint64_t posts, generation;
	struct pool_buffer buffer[POOL_DEPTH_MAX];
};

/* One end of a connection. */
struct side {
	struct ibv_qp *qp;
	unsigned int host, pair;
	struct side *peer;
	pthread_mutex_t lock; /* the program's: one thread posts at a time */
	uint32_t first_psn;
	struct pool *pool; /* NULL: it has receives of its own */
	bool pool_over, probing;
	uint8_t timeout, retries;

	struct work work[WRS_MAX];
	uint32_t total, posted, next_cqe; /* sends */
	uint32_t executed;		  /* by the peer's NIC, in order */
	uint32_t unsignaled;
	uint32_t receives, received;
	uint32_t next_two_sided; /* of the peer: whose receive completes next */
	uint64_t added, swapped; /* the peer's words in the end */
	bool closing, closed;	 /* the program resets or destroys it; it has returned */
	uint32_t destroyed_qpn;
	struct ibv_qp shown; /* its QP as the program's last verb has left it */
	bool at_verb;	     /* another verb is about to change that */
	bool resets;	     /* that verb is its RESET */
	bool ended;	     /* a completion had an error */
	uint32_t failed_at;  /* that one */
	uint8_t reason;	     /* why the connection ended: enum shift_reason */
	uint8_t state;
	uint64_t since; /* of that state */
};

/* What a NIC of a host may reach. */
struct memory {
	uint8_t local[PAIRS_MAX][SLOTS]
		     [SLOT_BYTES]; /* sources, and what READs and atomics return */
	uint8_t receive[PAIRS_MAX][SLOTS][SLOT_BYTES];
	uint8_t srq[POOLS_MAX][POOL_DEPTH_MAX][SLOT_BYTES];
	uint8_t stray[16][256];
	uint8_t write[PAIRS_MAX][SLOTS][SLOT_BYTES]; /* from here on the peer may write */
	uint8_t read[PAIRS_MAX][SLOTS][SLOT_BYTES];
	uint64_t word[PAIRS_MAX][2];
};

extern struct memory memory[HOSTS];
extern struct side sides[PAIRS_MAX][HOSTS];
extern unsigned int pairs;

static inline bool is_atomic(enum op op)
{
	return op == OP_CMP_SWAP || op == OP_FETCH_ADD;
}

static inline bool is_two_sided(enum op op)
{
	return op == OP_SEND || op == OP_SEND_IMM || op == OP_WRITE_IMM;
}

/* Byte i of a request's message. */
extern unsigned int pattern_life;

static inline uint8_t pattern(unsigned int host, unsigned int pair, uint32_t seq, uint32_t i)
{
	return (uint8_t)(seq * 131 + i * 7 + (i >> 8) * 13 + host * 59 + pair * 17 +
			 pattern_life * 101);
}

void side_begin(struct side *s, unsigned int life);
bool side_is_done(const struct side *s);
bool side_is_over(const struct side *s); /* its connection has ended */
bool side_is_owed(const struct side *s); /* the completion of a signaled send */
void side_count(const struct side *s);	 /* adds up its statistics */
void oracle_completion(struct side *s, const struct ibv_cq *cq, const struct ibv_wc *wc);
void oracle_end(unsigned int host);
void oracle_fill_read(const struct side *s, uint32_t seq); /* what a READ shall find */

uint32_t oracle_unreceived(const struct side *s); /* messages of the peer */

/* pool.c */
extern struct pool pools[HOSTS][POOLS_MAX];
extern unsigned int pool_count[HOSTS];
extern bool pool_no_posts;
bool pool_setup(bool ends_early); /* false: a schedule without SRQs */
void pool_create(struct pool *p, struct ibv_pd *pd, uint32_t lkey);
bool pool_post(struct pool *p, uint32_t lkey);
void pool_place(const struct side *s, const struct fake_qp *q);
int pool_landed(const struct side *s, const struct fake_qp *q); /* the buffer */
const uint8_t *pool_bytes(const struct side *s, int buffer);
void pool_received(struct side *s, const struct ibv_wc *wc, int buffer); /* -1: an error */
void pool_received_late(struct side *s, const struct ibv_wc *wc, int buffer);
void pool_side_over(struct side *s, uint32_t unreceived);
bool pool_starves(unsigned int h);
bool pool_has_credit(const struct side *receiver);
bool pool_rnr_is_fair(const struct side *receiver);
void pool_probe_all(unsigned int h);
int pool_hang(char *text, size_t bytes);

/* stray.c */
void stray_choose(unsigned int h, struct pool *p);
void stray_make(unsigned int h, struct ibv_pd *pd, struct ibv_cq *cq);
void stray_destroy(unsigned int h);
bool stray_is_done(unsigned int h);
bool stray_is_on(const struct pool *p);
bool stray_may_be_probed(unsigned int h, const struct pool *p);
void stray_add_probe(unsigned int h);
int stray_hang(char *text, size_t bytes);
void stray_post(unsigned int h);
bool stray_polled(unsigned int h, const struct ibv_wc *wc);

/* fault.c: from now on; no more. */
void fault_begin(void);
void fault_end(void);

#endif
