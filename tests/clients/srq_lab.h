/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What srq_facts asks with: NICs, SRQs, QPs, and a drainer, which is a QP on an SRQ that is
 * connected to itself and sends 0 bytes to itself. Errors end the program; errors that are an
 * answer are returned.
 */
#ifndef TESTS_CLIENTS_SRQ_LAB_H
#define TESTS_CLIENTS_SRQ_LAB_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/clients/shell.h"

enum {
	SLOTS = 64, /* the memory of a NIC; a receive's wr_id modulo SLOTS is its slot */
	SLOT_BYTES = 16384,
	CQ_DEPTH = 4096,
	MAX_IDS = 2048,
	BAD_KEY = 0x7fffff00,
};

enum kind { LINK_LOCAL, IPV4, KINDS };

struct nic {
	const char *name, *netdev;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	char *memory;
	union ibv_gid gid[KINDS];
	int gid_index[KINDS]; /* -1: none of this kind */
};

/* A QP with CQs of its own. */
struct end {
	struct nic *nic;
	struct ibv_qp *qp; /* NULL after drop_qp() */
	struct ibv_cq *send_cq, *recv_cq;
};

struct path {
	enum kind kind;
	int retry, rnr_retry, min_rnr_timer;
};

extern const struct path usual;	  /* both retries for ever */
extern const struct path at_once; /* rnr_retry 0, retry 3: 0.3 s */

/* Completions are polled for without giving the processor away. */
extern bool busy;

/* One line of the answer to a question; fmt makes the inside of a JSON object. */
void fact(int question, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

double now_us(void);
void pause_ms(int ms);

/* Looks again at which GIDs there are. */
void find_gids(struct nic *n);
void open_nic(struct nic *n, const char *name, const char *netdev);

struct events {
	int last_wqe, limit, other;
	double first_us; /* until the first came */
};

/* All asynchronous events that come within that time; it waits to its end. */
struct events events_within(struct nic *n, int wait_ms);

struct ibv_srq *make_srq(struct nic *n, int max_wr, int limit);
void drop_srq(struct ibv_srq *s);

char *slot_of(struct nic *n, uint64_t id);

/* Returns what ibv_post_srq_recv() does. */
int post_receive(struct nic *n, struct ibv_srq *s, uint64_t id, int sges, uint32_t lkey);

/* With wr_ids from first on; returns how many were accepted. */
int fill(struct nic *n, struct ibv_srq *s, uint64_t first, int count);

/* To a QP without an SRQ. */
void post_receives(struct nic *n, struct ibv_qp *qp, uint64_t first, int count);

struct ibv_cq *make_cq(struct nic *n);
struct ibv_qp *make_qp(struct nic *n, struct ibv_srq *s, struct ibv_cq *send_cq,
		       struct ibv_cq *recv_cq);
struct end make_end(struct nic *n, struct ibv_srq *s);
void drop_qp(struct end *e);
void drop_end(struct end *e);

/* These return 0 or the error; at: the state for which it came. */
int to_state(struct ibv_qp *qp, enum ibv_qp_state state);
int to_init(struct ibv_qp *qp);
int connect_end(struct end *e, const struct end *peer, uint32_t psn, const struct path *p,
		const char **at);

/* What is late of a life before must not be taken for the next. */
uint32_t next_psn(void);

/* Both from RESET to RTS; a and b may be the same. Returns the PSN of both directions. */
uint32_t connect_ends(struct end *a, struct end *b, const struct path *p);

const char *state_of(const struct end *e);
uint32_t rq_psn_of(const struct end *e);

/* A list of SENDs of 0 bytes, 1024 at most; only the last is signaled. */
int send_nothing(struct end *e, int count);
int send_bytes(struct end *e, char *from, uint32_t bytes);

/* A WRITE with immediate data, to the beginning of that NIC's memory. */
int write_imm(struct end *e, const struct nic *to, uint32_t bytes);

/* A WRITE to memory that does not exist: an error of the responder. */
int write_wrongly(struct end *e);

/* Up to max completions, or what comes within the time; returns how many. */
int take(struct ibv_cq *cq, struct ibv_wc *wc, int max, int wait_ms);

struct drained {
	int count, status; /* status: of the send that ended it; -1: none came */
	int wrong;	   /* receive completions that are not a success of 0 bytes */
	double us;
	uint64_t id[MAX_IDS];
};

/* Lets the drainer take up to count receives (1024 at most) at once; it errs where there are fewer.
 */
void drain(struct end *e, int count, int wait_ms, struct drained *d);

/* What is left in the SRQ, by a fresh drainer, until RNR proves it empty. */
void drain_all(struct nic *n, struct ibv_srq *s, struct drained *all);

bool in_order(const struct drained *d, uint64_t first);

#endif
