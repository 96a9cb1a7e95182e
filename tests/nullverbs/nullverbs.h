/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A libibverbs.so.1 without RDMA, for tests: its devices are memory. Programs are linked with the
 * real one and find this one by LD_LIBRARY_PATH.
 *
 * RC work requests succeed at once and move no data. A SEND (or WRITE with immediate) to a QP of
 * the same process takes a receive there if one is posted. A QP that is moved to ERR flushes its
 * receives, and what is posted to it; so does one whose WRITE names NULL_BAD_RKEY. The data path is
 * as long as a real provider's: a spinlock, a WQE and a doorbell record are written, the CQE is
 * translated.
 *
 * An SRQ is as a real one: any of its QPs takes the oldest receive, and none flushes it.
 *
 * Posting by ibv_wr_* and polling by ibv_start_poll() lock the queue as a driver does, and a batch
 * is taken whole or not at all. Atomics and invalidations complete, and do nothing; the key 0 is
 * none.
 *
 * NULLVERBS_DEVICES: how many there are (mlx5_0, mlx5_1, ...); 2 if unset.
 * NULLVERBS_PSN: rq_psn stays what it was set to, as some drivers have it. With `live` RC is that
 * of a real one between two QPs of the process that are connected with each other: rq_psn counts
 * the packets of WRITEs, they move their data, and fail when the other QP is in ERR. With `lag`
 * the same, but a QP in ERR counts one packet too little; with `mute` all fail.
 * NULLVERBS_REG_MS: so long a registration takes on any device but the first.
 * NULLVERBS_MEMLOCK: bytes that may be registered at a time, as RLIMIT_MEMLOCK; no limit if unset.
 * NULLVERBS_CQ: with `kept` the completions of a QP stay in their CQ when the QP is RESET or
 * destroyed, as on soft-RoCE; else they are taken back, as on mlx5.
 * NULLVERBS_EVENTS: which asynchronous events are raised; none if unset. Words: limit, of an SRQ;
 * last_wqe, of a QP on an SRQ that goes to ERR; cq_err, for each completion that a CQ has no room
 * for.
 * NULLVERBS_NET, NULLVERBS_HOST: processes of the same NET (a word) are hosts 1 to 255 of a
 * network, each of which carries UD datagrams to the others and to itself. GIDs and QP numbers have
 * the host in them. RC stays within the process. Without a NET UD goes nowhere.
 * NULLVERBS_DROP: datagrams of this process with more bytes than that are lost.
 */
#ifndef SHIFT_NULLVERBS_H
#define SHIFT_NULLVERBS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define NULL_DEVICES_MAX 16
#define NULL_QPS_MAX	 4096
#define NULL_SGE_MAX	 16

/* An RDMA WRITE that names it fails with IBV_WC_REM_ACCESS_ERR, and its QP with it. */
#define NULL_BAD_RKEY 0xbad

/* An opcode that is newer than this libibverbs; it succeeds. */
#define NULL_WR_ATOMIC_WRITE 15

/* A call of a symbol of version IBVERBS_1.0 sets this, which shows that it came through. */
#define NULL_COMPAT_ERRNO ENOTUNIQ

struct null_events;

struct null_cqe {
	struct null_qp *qp; /* NULL: taken back */
	uint32_t index;	    /* of the WQE */
	uint32_t byte_len;
	uint32_t imm;
	uint8_t status;
	uint8_t opcode; /* IBV_WC_... */
	bool is_recv;
	bool from_srq; /* the wr_id is here, as its place may be taken again */
	uint64_t wr_id;
	bool has_imm;
	bool has_inv; /* imm is the key */
	bool solicited;
};

struct null_cq {
	union {
		struct ibv_cq base;
		struct ibv_cq_ex ex;
	};
	pthread_spinlock_t lock;
	uint32_t mask, head, tail; /* [tail, head) are there to be polled */
	bool armed, armed_solicited;
	struct null_cqe *ring;
	int qps;		    /* it is of so many queues */
	uint32_t errs_reported;	    /* CQ_ERR: so many were read */
	struct null_events *events; /* of its channel, or NULL */
	uint32_t reported;	    /* so many were read */
	/* Of ibv_create_cq_ex(): */
	bool has_poll_lock;
	pthread_mutex_t poll_lock; /* of those who poll; taken before `lock` */
	struct ibv_wc wc;	   /* that is being read */
};

struct null_wqe {
	uint32_t control[4];
	uint64_t remote_addr;
	uint32_t rkey, padding;
	uint64_t compare_add, swap;
	uint64_t addr;
	uint32_t length, lkey;
};

struct null_srq {
	struct ibv_srq base;
	pthread_spinlock_t lock;
	uint32_t mask, head, tail;
	struct ibv_srq_attr attr; /* srq_limit: 0: not armed */
	uint32_t doorbell;
	uint64_t *ids;
	int qps;
	uint32_t events_reported;
};

struct null_builder;

struct null_qp {
	union {
		struct ibv_qp base;
		struct ibv_qp_ex ex;
	};
	struct null_builder *builder; /* NULL: it was not asked for */
	struct ibv_qp_cap cap;
	struct ibv_qp_attr attr; /* as it was set */
	struct ibv_ece ece;
	bool all_signaled;
	_Atomic bool hangs;   /* null_hang() */
	struct null_qp *peer; /* the QP of this process that it is connected to */
	bool exact;	      /* NULLVERBS_PSN, and its peer is connected to it */
	struct null_qp *next; /* of those that are gone (NULLVERBS_CQ) */
	uint32_t events_reported;

	pthread_spinlock_t send_lock, recv_lock;
	uint32_t send_mask, send_head, send_tail;
	uint32_t send_freed; /* without a completion; under send_lock */
	uint32_t recv_mask, recv_head, recv_tail;
	uint32_t doorbell[2];
	struct null_wqe *send_ring;
	uint64_t *send_ids, *recv_ids;
	struct ibv_sge *recv_sges; /* of a UD QP: where its receives go */
};

/* channel.c: 0 or an errno; the CQ's context is set. null_detach() waits as the kernel's user does.
 */
int null_attach(struct null_cq *cq, struct ibv_comp_channel *channel);
void null_detach(struct null_cq *cq);
void null_add_event(struct null_cq *cq);

/* events.c: element: the QP, CQ or SRQ; reported: its count of those that were read. Drop: it is
 * destroyed, which waits until these are acknowledged, as the kernel's user does. */
void null_raise(struct ibv_context *ctx, enum ibv_event_type type, void *element,
		uint32_t *reported);
void null_drop_events(const void *element, const uint32_t *reported, const uint32_t *completed);

/* data.c */
int null_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int null_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int null_poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc);
/* Polls, nobody else is polling. */
int null_take(struct null_cq *cq, int entries, struct ibv_wc *wc);
int null_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int null_req_notify_cq(struct ibv_cq *cq, int solicited_only);
void null_flush_receives(struct null_qp *qp);
void null_complete_recv(struct null_qp *qp, const struct null_cqe *proto);
/* Under the lock of the send queue. The third does what the second, 0 or an errno, lets pass. */
uint32_t null_sends_outstanding(const struct null_qp *qp);
int null_refuse_send(const struct null_qp *qp, const struct ibv_send_wr *wr);
void null_execute_sends(struct null_qp *qp, const struct ibv_send_wr *wr, uint32_t n);
/* Its completions become those of the QP `to`; NULL: they are taken back. */
void null_hand_over(struct null_cq *cq, const struct null_qp *from, struct null_qp *to);

/* builder.c: the QP is posted to by ibv_wr_*, too. 0 or an errno; it is freed with the QP. */
int null_builder_add(struct ibv_qp *qp, uint64_t ops);
void null_builder_free(struct null_builder *b);
/* At RESET and RTS its wr_complete is set anew, as libmlx5 does (set_qp_operational_state()). */
void null_builder_set_state(struct null_qp *qp, enum ibv_qp_state state);

/* poll_ex.c: also a function of the context */
struct ibv_cq_ex *null_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr);

/* As a NIC that fails: the QP is in ERR, and neither the program nor a library between them was
 * asked. A program finds it by dlsym(). */
void null_break_qp(struct ibv_qp *qp);

/* A NIC that hangs in modify and query of the QP, until it does no more. Likewise. */
void null_hang(struct ibv_qp *qp, bool hangs);

/* The newest WR of its send queue, as the NIC has it. Likewise. */
struct null_sent {
	uint32_t opcode, flags, imm, rkey;
	uint64_t remote_addr, compare_add, swap;
	struct ibv_sge last; /* of its SGEs */
};
void null_newest_send(const struct ibv_qp *qp, struct null_sent *sent);

/* Bytes that are registered now. Likewise. */
uint64_t null_registered(void);

/* psn.c: a WRITE between QPs that are exact. */
bool null_is_exact(const struct null_qp *qp);
bool null_is_exact_by_peer(const struct null_qp *qp); /* its peer is connected after it */
bool null_write(struct null_qp *qp, const struct ibv_send_wr *wr, uint32_t length);
uint32_t null_rq_psn(const struct null_qp *qp);

/* srq.c: false if it has no receive. */
bool null_srq_take(struct null_srq *srq, uint64_t *wr_id);
int null_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* qp.c: NULL if there is none of that number. */
struct null_qp *null_find_qp(uint32_t qpn);
/* None is destroyed in between. */
void null_lock_qps(void);
void null_unlock_qps(void);

/* ud.c */
uint8_t null_host(void);
void null_net_start(void); /* also again */
void null_ud_send(const struct ibv_send_wr *wr);

/* Also a function of the context; features change nothing. */
struct ibv_qp *null_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);

/* Private to the real libibverbs too, but not in its headers. */
struct ibv_context *verbs_open_device(struct ibv_device *device, void *private_data);

#endif
