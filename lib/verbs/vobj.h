/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Our side of the program's verbs objects. The program's object is always the provider's own on
 * the NIC it chose (rail 0); each of ours hangs beside it in a table and keeps the shadows: the
 * same object once more on each backup NIC, made in the background on that NIC's worker.
 *
 * Locks, in this order: vcq.digest or the tables of QPs (vqp_each, vqp_all), vqp.lock, then leaves
 * (vcq.out_lock, vmr.lock, the tables of memory, gates, the control link, the worker's queue). A
 * gate is never held while anything else is taken.
 */
#ifndef SHIFT_VERBS_VOBJ_H
#define SHIFT_VERBS_VOBJ_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lib/core/conn.h"
#include "lib/core/fast.h"
#include "lib/stats/stats.h"
#include "lib/verbs/bg.h"
#include "lib/verbs/gate.h"
#include "lib/verbs/link.h"
#include "lib/verbs/nic.h"
#include "lib/verbs/pause.h"
#include "lib/verbs/table.h"
#include "lib/verbs/told.h"

/* --- lifetimes -------------------------------------------------------------------------------- */

/* Counts the owner and each job under way; the last one frees. */
struct vobj {
	_Atomic int refs;
	void (*free)(struct vobj *obj);
};

void vobj_get(struct vobj *obj);
void vobj_put(struct vobj *obj);

/* Run fn(obj, nic) on the worker of a NIC, after what was submitted there before. Holds a reference
 * until it has run. false: no memory, it will not run. */
bool vobj_job(struct vobj *obj, struct nic *nic, void (*fn)(struct vobj *obj, struct nic *nic));

/* Like vobj_job() on each of the NICs, then wait until all have run, at most 2 s (a NIC may be
 * dead; then the jobs go on without us). */
void vobj_jobs_wait(struct vobj *obj, struct nic *const *nics, unsigned int n,
		    void (*fn)(struct vobj *obj, struct nic *nic));

/* --- devices ---------------------------------------------------------------------------------- */

/* A context that the program has opened. */
struct vdev {
	struct ibv_context *ctx;
	struct ibv_context_ops ops; /* the provider's */
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *, struct ibv_qp_init_attr_ex *);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *, struct ibv_cq_init_attr_ex *);
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *,
					      struct ibv_parent_domain_init_attr *);
	uint8_t rails;			  /* 1: nothing to move to */
	struct nic *nic[SHIFT_RAILS_MAX]; /* [0]: this device, opened by ourselves too */
	struct table qps;		  /* by QPN */
	struct vdev *closed;		  /* another, closed before */
	_Atomic bool port_err_hidden;	  /* from the program */
	_Atomic bool events_waited_for;	  /* by a thread of it that has nothing else to do */
};

struct vdev *vdev_find(const struct ibv_context *ctx);		    /* NULL: not the program's */
bool vdev_backed_by(const struct vdev *dev, const struct nic *nic); /* on a rail but the first */

/* --- protection domains and memory ------------------------------------------------------------ */

struct vpd {
	struct vobj obj;
	struct ibv_pd *pd;
	struct vdev *dev;
	_Atomic bool windows;			   /* it has, or had, memory windows: windows.c */
	_Atomic(struct ibv_pd *) shadow[NICS_MAX]; /* by nic->index; worker of that NIC */
	_Atomic uint32_t lacking[NICS_MAX]; /* MRs of it that have no shadow there, for good */
};

struct vmr {
	struct vobj obj;
	struct ibv_mr *mr;
	struct vpd *pd;
	uint64_t addr; /* or the offset in a dmabuf */
	size_t length;
	uint64_t iova;
	unsigned int access;
	bool dmabuf;
	int fd; /* of the dmabuf, ours; or -1 */
	uint32_t lkey, rkey;
	pthread_mutex_t lock;			   /* one registration at a time */
	_Atomic(struct ibv_mr *) shadow[NICS_MAX]; /* by nic->index */
	_Atomic uint64_t keys[NICS_MAX];	   /* of the shadow: lkey, rkey above it */
	_Atomic bool told;			   /* some peer: told.h */
	bool lacks[NICS_MAX];			   /* under lock: refused there, or dropped */
	_Atomic bool gone; /* set under lock: the program has deregistered it */
};

struct vpd *vpd_find(const struct ibv_pd *pd);

/* The shadow's lkey of a program's lkey; registers it now if the background has not come to it
 * yet. -ENOENT: no such MR in this domain; -EAGAIN: the NIC refuses it. Any thread. */
int vmr_lkey(struct vpd *pd, struct nic *nic, uint32_t lkey, uint32_t *twin);
void memory_nic_ready(struct nic *nic); /* bg: make what could not be made before */
int vmr_rkey(struct vpd *pd, struct nic *nic, uint32_t rkey, uint32_t *twin);

/* Deregisters the shadows on a NIC, on its worker; waits for it at most so long. How many. */
unsigned int memory_drop(struct nic *nic, int timeout_ms);

/* scarce.c: memory that has no shadow. Any thread. */
bool scarce_on(const struct nic *nic);			/* none are to be made there for now */
void scarce_refused(const struct nic *nic, int errnum); /* one could not be made: later again */
void scarce_changed(void);				/* lacking is 0 now, or not any more */

/* --- completion queues ------------------------------------------------------------------------ */

struct wc_ring {
	struct ibv_wc *wc;
	uint32_t mask, head, tail; /* free running */
};

#define STASH_MIN 256 /* completions; it grows for a program that polls more at once */

/* What the completions of one QP's sends have in common. */
struct cqe_alike {
	uint32_t status, opcode;
	uint32_t qpn; /* 0: of none */
	uint32_t zero;
} __attribute__((aligned(16)));

struct vcq {
	struct vobj obj;
	/* Read by every poll. */
	struct ibv_cq *cq;
	int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
	struct vdev *dev;
	struct cqe_alike alike; /* of the QP counted last */
	struct gate gate; /* who polls the program's CQ; shut, to go through digest and out, for
			   * each QP of it that is slow, and a stash or an out that is not empty */
	uint64_t done;	  /* sends of last that are not added to its connection yet */
	struct vqp *last;

	/* Slow. */
	pthread_mutex_t digest; /* one thread at a time feeds completions, in their order */
	struct ibv_wc *stash;	/* under gate: polled by the fast way, to be fed first */
	uint32_t stash_at, stash_n, stash_size;
	pthread_mutex_t out_lock;
	struct wc_ring out; /* for the program, in order */

	pthread_mutex_t grow; /* sizes, under it: */
	uint32_t wanted;      /* completions that its QPs may have outstanding */
	struct {
		_Atomic(struct ibv_cq *) cq;
		uint32_t wanted;
	} shadow[NICS_MAX];
	bool has_channel;    /* events: not supported yet, its QPs are not protected */
	_Atomic bool around; /* the program has the queue itself: around.c */
};

struct vcq *vcq_find(const struct ibv_cq *cq);
void vcq_out(struct vcq *cq, const struct ibv_wc *wc);	/* leaf: any locks held */
void vcq_digest(struct vcq *cq);			/* under cq->digest: feed all there is */
void vcq_forget(struct vcq *cq, const struct vqp *v);	/* no poll looks at it any more */
void vcq_add_done(struct vcq *cq, const struct vqp *v); /* no poll is inside: sends of v counted */
bool vcq_attach(struct vcq *cq, uint32_t n);		/* a QP needs room for n more */
void vcq_detach(struct vcq *cq, uint32_t n);

/* Shadow CQ on a NIC with room for n more completions, made if need be (its worker only). */
struct ibv_cq *vcq_shadow(struct vcq *cq, struct nic *nic, uint32_t n);

/* --- queue pairs ------------------------------------------------------------------------------ */

/* What the peer must know of one rail; in the rendezvous, so of fixed layout. */
struct rail_addr {
	struct link_addr link; /* control link of the process on that NIC */
	union ibv_gid gid;     /* of the QP on that NIC */
	uint32_t qpn;	       /* ... 0: there is none yet */
	uint16_t lid;
	uint16_t mtu_bytes; /* active MTU of the port */
	uint8_t nic;	    /* the process's number for it, for probes */
	uint8_t psn;	    /* enum stats_psn: may its rq_psn be believed? */
	uint8_t pad[2];
};

struct twin {
	_Atomic(struct ibv_qp *) qp; /* rails 1..; made and modified on the NIC's worker */
	int gid_index;
	union ibv_gid gid;
	uint32_t mtu;		/* path MTU there, bytes */
	struct rail_addr peer;	/* bg; frozen for a rail once it is told clean */
	bool clean;		/* bg: RAIL_CLEAN was said */
	bool failed;		/* it cannot be made */
	struct peer_path *path; /* control link and probes to the peer over this rail */
};

struct arming { /* what a twin is armed for */
	uint32_t epoch, tx_psn, rx_psn;
};

struct rail_jobs { /* at most one of each under way per rail: jobs.c */
	struct job fence, arms, query, breaks;
	struct vqp *v;
	uint8_t rail;
	_Atomic bool arming; /* on the resolver; a fence that is asked for meanwhile follows */
	bool fence_follows, querying, breaking;
	unsigned int under_way; /* under v->lock: asked for, and not ended */
	_Atomic bool stale;	/* these are of the life before RESET: nobody waits for them */
	struct arming arm;	/* the newest that was asked for */
	uint32_t fence_epoch, query_epoch, query_serial;
	_Atomic bool marker_seen;
	uint64_t fence_since, arm_since; /* bg_awake_ns; 0: none under way, or given up as hung */
};

struct vqp {
	struct vobj obj;
	/* Read by every post. */
	struct ibv_qp *qp;
	struct shift_conn *conn; /* NULL: not protected, ever */
	int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
	int (*post_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	_Atomic uint32_t slow; /* posts and completions go under the lock: its gates are shut */
	uint32_t rail0_epoch;  /* rail_epoch[0], for the hot path */
	uint64_t recv_mark;    /* wr_id of receives on rail 0, where one CQ serves both; 0: the
				* program's own */
	struct vcq *send_cq, *recv_cq;
	struct gate send_gate __attribute__((aligned(64)));
	struct shift_run run;	      /* inside send_gate; empty while v is slow */
	struct ibv_send_wr *fast_bad; /* inside send_gate; where to tell the program is its mark */
	struct gate recv_gate __attribute__((aligned(64)));

	/* Slow. */
	pthread_mutex_t lock __attribute__((aligned(64)));
	struct vdev *dev;
	struct vpd *pd;
	struct ibv_qp_init_attr init; /* as accepted */
	struct ibv_qp_attr attr;      /* all that the program has set, by attr_mask */
	int attr_mask;
	enum ibv_qp_state state;    /* as the program must see it */
	enum stats_unprotected why; /* it is not protected */
	uint32_t id;		    /* of the connection in this process */
	uint32_t qpn;		    /* for who may outlive qp */
	_Atomic bool
		gone; /* being destroyed: no more twins, timers, and looks at the program's CQs */
	bool dead;    /* over: what is posted flushes */
	_Atomic bool released; /* not protected any more: vqp_release() */
	_Atomic bool around;   /* released, and nothing of it is logged or counted: around.c */
	bool closed;	       /* CLOSED came */
	pthread_cond_t closed_cond;
	pthread_cond_t job_ended;
	uint64_t marker; /* wr_id of the marker behind a fence */

	/* What is to be posted from the log, in order, and may have to wait for keys or room. */
	uint64_t tx_next, tx_end;
	uint8_t tx_rail;
	uint32_t tx_epoch;
	bool tx_stopped;		      /* fenced: nothing more may go there */
	uint32_t rail_epoch[SHIFT_RAILS_MAX]; /* for which its QP was armed last */
	bool recv_refused;		      /* by rx_rail: to be told to the core */
	uint8_t rx_rail;

	struct twin twin[SHIFT_RAILS_MAX]; /* [0]: only peer, gid and path */
	struct rail_jobs jobs[SHIFT_RAILS_MAX];
	struct keys *keys; /* keys.h */
	struct told told;

	/* Background thread only. */
	struct bg_timer timer, overdue_timer;
	struct bg_call timer_call, overdue_call;
	_Atomic uint64_t timer_at; /* when it is set for */
	struct meeting *meeting;   /* meet.c */
	_Atomic bool started;	   /* RTS */
	bool met;		   /* the peer was found, HELLO under way or done */
	uint64_t peer_nonce;
	uint32_t peer_id;
	uint8_t peer_rails;
	uint32_t vetoed;  /* rails that the operator has taken out of use */
	uint32_t unclean; /* rails whose last fence did not account for everything */
	uint32_t keyless; /* rails that do not know all memory of its domain */
	struct bg_call meet_call;
	bool reposting; /* a commit's requests are not all posted yet */
	int stats;	/* slot in the statistics, or -1 */
#ifdef SHIFT_TEST_HOOKS
	struct pause pause;
#endif
};

struct vqp *vqp_find(const struct ibv_qp *qp);
struct vqp *vqp_by_id(uint32_t id);
void vqp_each(void (*fn)(struct vqp *v, void *arg), void *arg); /* all with a conn */
void vqp_all(void (*fn)(struct vqp *v, void *arg), void *arg);	/* and all without */

/* The QP of a rail, whether the program's or a twin. */
static inline struct ibv_qp *vqp_rail_qp(struct vqp *v, uint8_t rail)
{
	return rail ? atomic_load(&v->twin[rail].qp) : v->qp;
}

bool vqp_is_protected(const struct vqp *v);

/* May the rq_psn of our NIC of that rail be believed? */
static inline enum stats_psn vqp_psn(const struct vqp *v, uint8_t rail)
{
	return pause_psn((enum stats_psn)v->dev->nic[rail]->psn);
}

uint8_t vqp_rail(const struct vqp *v); /* that carries its traffic now, as far as it goes */
int vqp_rail_on(const struct vqp *v, const struct nic *nic); /* -1: none there */

/* Who feeds a CQ of it may have found it in a table that it has been taken from just now: waits
 * until none does. */
void vqp_unfound(struct vqp *v);

/* jobs.c: one is asked for, under v->lock; and it has ended, which may free v. */
void rail_job_begins(struct rail_jobs *j);
void rail_job_ends(struct rail_jobs *j);

/* It is closed. Of rail 0, whose QP is the program's again, none is under way after this; those of
 * other rails end when their NICs let them, and change nothing any more. */
void rail_jobs_stop(struct vqp *v);

/* twin.c: on the worker of its NIC. */
void twin_create(struct vobj *v, struct nic *nic);
void twin_destroy(struct vobj *v, struct nic *nic);
enum ibv_mtu mtu_enum(uint32_t bytes); /* the largest that is not larger */
struct vqp *twin_find(const struct nic *nic, uint32_t qpn, uint8_t *rail);

/* --- entering a connection ------------------------------------------------------------------- */

/*
 * Between the two the caller owns the connection: nobody posts to it or counts its completions, and
 * lib/core may be called. leave() carries out the actions that have come up. Not with a gate or
 * another connection entered.
 */
void vqp_enter(struct vqp *v);
void vqp_leave(struct vqp *v);

/* vqp_enter, shift_conn_event, vqp_leave. */
void vqp_event(struct vqp *v, const struct shift_event *ev);

/* Carry out the actions, under enter: to be called after each call of lib/core but the last before
 * leave(). */
void vqp_act(struct vqp *v);

/* Under enter: from here on as without us, for good. false: it is too late, it has moved. */
bool vqp_release(struct vqp *v, enum stats_unprotected why);

/* Of a rail, under enter. Clean: unless something else still speaks against it. */
void vqp_rail_say(struct vqp *v, enum shift_event_type type, uint8_t rail);
void vqp_rail_clean(struct vqp *v, uint8_t rail);

/* scarce.c, under enter: which rails do not know its memory, and whether it is protected so. */
void scarce_look(struct vqp *v);
void scarce_report(struct vqp *v);

void vqp_timers_init(struct vqp *v);
void vqp_timers_stop(struct vqp *v); /* bg */

/* post.c, under enter: what waits to be posted, and the actions that say so. */
void vqp_pump(struct vqp *v);
void post_sends(struct vqp *v, const struct shift_action *a);
void post_recvs(struct vqp *v, const struct shift_action *a);
void post_unsent(struct vqp *v, uint8_t rail, uint32_t epoch); /* before a FENCE_DONE */

/* wr_id on a twin: the epoch, and whether it is a receive. */
#define TWIN_EPOCH_SHIFT 32
#define TWIN_RECV	 1ull

/* A completion of a rail's QP, in order, under that CQ's digest. cq: where the program expects it.
 */
void vqp_completion(struct vqp *v, struct vcq *cq, uint8_t rail, struct ibv_wc *wc);

/* arm.c: on a worker. Errors as ibv_modify_qp. The program sees nothing of it in qp->state. */
int vqp_modify(struct vqp *v, uint8_t rail, struct ibv_qp_attr *attr, int mask);
int vqp_to_state(struct vqp *v, uint8_t rail, enum ibv_qp_state state);

/* fence.c: that a NIC takes too long over a fence, or over an arming (which may wait 3 s for a
 * neighbour), is noticed by this timer, which goes on while one is under way. */
#define OVERDUE_TICK_NS 100000000ull
void jobs_overdue(void *vqp);

/* fence.c, arm.c: actions that run on a worker. */
void fence_start(struct vqp *v, const struct shift_action *a);
void arm_start(struct vqp *v, const struct shift_action *a);
void query_start(struct vqp *v, const struct shift_action *a);

/* The hot path, put into the program's contexts. */
int hot_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int hot_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int hot_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
#ifdef __x86_64__
int hot_post_send_sse41(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int hot_poll_cq_sse41(struct ibv_cq *cq, int n, struct ibv_wc *wc);
#endif

/* windows.c: memory windows, which have no twin */
struct ibv_mw *windows_alloc(struct ibv_pd *pd, enum ibv_mw_type type);
int windows_bind(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
void windows_look(struct vqp *v); /* it has become a new connection */

/* around.c: QPs that the program posts to by itself */
void around_look(struct vqp *v);  /* it has become a new connection */
void around_reset(struct vqp *v); /* ... around: what it had outstanding is gone */

/* operator.c: the control socket, bg */
void operator_start(void);

/* meet.c */
void meet_init(void);
void meet_new(struct vqp *v);  /* a QP that may be protected was made; any thread */
void meet_gone(struct vqp *v); /* it is being destroyed: forget it; any thread, waits */
uint64_t meet_nonce(void);
void meet_soon(void); /* bg: something to look up has come */

/* What has been said is sent: at once, but by the background thread at the end of its turn. */
void link_flush_if_not_bg(void);

/* Send over the control link of the rail; any thread. */
void path_send(struct peer_path *path, const struct shift_msg *m);

#endif
