/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A queue pair of the program, and, where it can be protected, the connection that moves it between
 * NICs. The program's QP is always the provider's own on the NIC that the program chose (rail 0);
 * a twin on each backup NIC (rails 1 and up) takes its place while the connection has moved.
 *
 * Locks, in this order: vcq.drain_lock or the tables of QPs (vqp_each, vqp_all), vqp.lock, then
 * leaves (vcq.delivered_lock, vmr.lock, the tables of memory, gates, the control link, a worker's
 * queue). A gate is never held while anything else is taken.
 */
#ifndef SHIFT_CONN_VQP_H
#define SHIFT_CONN_VQP_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/background.h"
#include "lib/base/gate.h"
#include "lib/conn/exported_keys.h"
#include "lib/conn/pause_points.h"
#include "lib/core/conn.h"
#include "lib/core/fast.h"
#include "lib/nic/ctrl_link.h"
#include "lib/nic/nic.h"
#include "lib/nic/peer_path.h"
#include "lib/object/cq.h"
#include "lib/object/device.h"
#include "lib/object/memory.h"
#include "lib/object/object.h"
#include "lib/stats/stats.h"

/* What the peer must know of one rail; in the rendezvous, so of fixed layout. */
struct rail_addr {
	struct ctrl_link_addr link; /* control link of the process on that NIC */
	union ibv_gid gid;	    /* of the QP on that NIC */
	uint32_t qpn;		    /* ... 0: there is none yet */
	uint16_t lid;
	uint16_t mtu_bytes; /* active MTU of the port */
	uint8_t nic;	    /* the process's number for it, for probes */
	uint8_t psn;	    /* enum stats_psn: may its rq_psn be believed? */
	uint8_t pad[2];
};

struct twin {
	_Atomic(struct ibv_qp *) qp; /* rails 1 and up; made and modified on the NIC's threads */
	bool failed;		     /* it cannot be made. Under vqp.lock */
	/* Written by the background thread: gid_index and gid until the rail is said clean, the
	 * rest under vqp.lock. */
	int gid_index;
	union ibv_gid gid;
	uint32_t mtu;		/* path MTU there, bytes */
	struct rail_addr peer;	/* frozen once the rail is said clean */
	bool clean;		/* RAIL_CLEAN was said */
	struct peer_path *path; /* control link and probes to the peer over this rail */
};

struct arming { /* what a twin is armed for */
	uint32_t epoch, tx_psn, rx_psn;
};

/* What runs for one rail's QP on its NIC's threads, at most one job of each kind at a time:
 * rail_jobs.h. Under vqp.lock, but for the atomics. */
struct rail_jobs {
	struct job fence, arms, query, breaks;
	struct vqp *v;
	uint8_t rail;
	_Atomic bool arming; /* on the resolver; a fence that is asked for meanwhile follows */
	bool fence_follows, querying, breaking;
	unsigned int under_way; /* asked for, and not ended */
	_Atomic bool stale;	/* these are of the life before RESET: nobody waits for them */
	struct arming arm;	/* the newest that was asked for */
	uint32_t fence_epoch, query_epoch, query_serial;
	_Atomic bool marker_seen;
	uint64_t fence_since, arm_since; /* bg_awake_ns; 0: none under way, or given up as hung */
};

/* Read and written by the program's threads inside the gates; written under vqp.lock while the
 * gates are shut. */
struct vqp_hot {
	_Atomic uint32_t slow; /* posts and completions go under the lock: its gates are shut */
	uint32_t rail0_epoch;  /* vqp_rails.armed_epoch[0] */
	uint64_t recv_mark;    /* wr_id of receives on rail 0, where one CQ serves both; 0: the
				* program's own */
	struct gate send_gate __attribute__((aligned(64)));
	struct shift_run run;	      /* inside send_gate; empty while the QP is slow */
	struct ibv_send_wr *fast_bad; /* inside send_gate; where to tell the program is its mark */
	struct gate recv_gate __attribute__((aligned(64)));
};

/* What the program has asked for, and must see. Under vqp.lock once the QP has started. */
struct vqp_program {
	struct ibv_qp_attr attr;    /* all that it has set */
	enum ibv_qp_state state;    /* as it must see it */
	enum stats_unprotected why; /* the QP is not protected: written only. At creation, by the
				     * background thread, or under vqp.lock */
};

/* Where a QP is between creation and destruction. Written under vqp.lock, but for `started`. */
struct vqp_life {
	_Atomic bool started;  /* RTR or RTS. By the thread that modifies the QP; any reads */
	_Atomic bool gone;     /* being destroyed: no more twins, timers, looks at its CQs */
	_Atomic bool released; /* not protected any more: vqp_release() */
	_Atomic bool
		bypassed; /* released, and nothing of it is logged or counted: lib/verbs/bypass.h */
	bool dead;	  /* over: what is posted flushes */
	bool closed;	  /* CLOSED came */
	pthread_cond_t closed_cond;
};

/* Work that is to be posted from the log, in order, and may have to wait for keys or for room:
 * repost.h. Under vqp.lock. */
struct vqp_repost {
	uint64_t tx_next, tx_end; /* the sends of the log that wait: [tx_next, tx_end) */
	uint32_t tx_epoch;
	uint8_t tx_rail;
	bool tx_stopped;   /* fenced: nothing more may go there */
	bool committing;   /* a commit's requests are not all posted yet */
	bool recv_refused; /* by rx_rail: to be told to the core */
	uint8_t rx_rail;
};

struct vqp_rails {
	struct twin twin[SHIFT_RAILS_MAX]; /* [0]: only peer, gid and path */
	struct rail_jobs jobs[SHIFT_RAILS_MAX];
	pthread_cond_t job_ended; /* with vqp.lock */
	/* Under vqp.lock. */
	uint32_t armed_epoch[SHIFT_RAILS_MAX]; /* for which its QP was armed last */
	uint32_t vetoed;  /* bits of rails that the operator has taken out of use */
	uint32_t unclean; /* ... whose last fence did not account for everything */
	uint32_t lacking; /* ... whose NIC lacks some memory of the domain: memlock.h */
};

/* Keys of memory on backup NICs. Under vqp.lock. */
struct vqp_keys {
	struct peer_keys *peer;	       /* the peer's, that we use */
	struct exported_keys exported; /* ours, that the peer was told */
};

/* How the peer was found. Background thread; what other threads read is written under vqp.lock. */
struct vqp_setup {
	struct meeting *meeting; /* lib/session/rendezvous.h */
	struct bg_call begin_call;
	bool met; /* the peer was found, HELLO under way or done */
	uint8_t peer_rails;
	uint32_t peer_id;
	uint64_t peer_nonce;
};

/* conn_timers.h. Background thread; the calls and `at`: any thread. */
struct vqp_timers {
	struct bg_timer tick, overdue;
	struct bg_call tick_call, overdue_call;
	_Atomic uint64_t tick_at; /* when tick is set for */
};

struct vqp {
	struct object obj;

	/* Constant while anybody can find it. First what every post reads. */
	struct ibv_qp *qp;
	struct shift_conn *conn; /* NULL: not protected, ever. What it points to: under lock */
	int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
	int (*post_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	struct vcq *send_cq, *recv_cq;

	struct vqp_hot hot;

	pthread_mutex_t lock __attribute__((aligned(64)));

	/* Constant while anybody can find it. */
	struct vdev *dev;
	struct vpd *pd;
	struct ibv_qp_init_attr init; /* as accepted */
	uint32_t id;		      /* of the connection in this process */
	uint32_t qpn;		      /* for who may outlive qp */
	uint64_t marker;	      /* wr_id of the marker behind a fence */
	int stats;		      /* slot in the statistics, or -1 */

	struct vqp_program program;
	struct vqp_life life;
	struct vqp_repost repost;
	struct vqp_rails rails;
	struct vqp_keys keys;
	struct vqp_setup setup;
	struct vqp_timers timers;
#ifdef SHIFT_TEST_HOOKS
	struct pause pause; /* under lock */
#endif
};

/* A post touches the first line, hot's, and that of its gate: no others. */
_Static_assert(offsetof(struct vqp, hot) == 64 && offsetof(struct vqp, hot.send_gate) == 128 &&
		       offsetof(struct vqp, hot.recv_gate) % 64 == 0 &&
		       offsetof(struct vqp, lock) % 64 == 0,
	       "the hot path reads as few cache lines as it can");

/* --- where they are found: any thread --------------------------------------------------------- */

struct vqp *vqp_find(const struct ibv_qp *qp);
struct vqp *vqp_by_id(uint32_t id);
void vqp_each(void (*fn)(struct vqp *v, void *arg), void *arg); /* all with a conn */
void vqp_all(void (*fn)(struct vqp *v, void *arg), void *arg);	/* and all without */

/* Into the tables. 0 or -ENOMEM. */
int vqp_publish(struct vqp *v);

/* Out of them, and out of the gates' and CQs' memories: waits until no drain still has it. */
void vqp_unpublish(struct vqp *v);

/* In the child of a fork(): out of them without a lock. */
void vqp_unpublish_forked(struct vqp *v);

/* A drain of its CQs may have found it in a table from which it was taken just now: waits until no
 * drain has. Nothing locked. */
void vqp_wait_drains(struct vqp *v);

/* By the number of a twin on a NIC: the QP, and the rail; NULL: none has that twin. */
struct vqp *vqp_by_twin(const struct nic *nic, uint32_t qpn, uint8_t *rail);
int vqp_publish_twin(struct vqp *v, const struct nic *nic, uint32_t qpn);    /* 0 or -ENOMEM */
void vqp_unpublish_twin(struct vqp *v, const struct nic *nic, uint32_t qpn); /* waits for drains */

/* --- its rails -------------------------------------------------------------------------------- */

/* The QP of a rail, whether the program's or a twin. */
static inline struct ibv_qp *vqp_rail_qp(struct vqp *v, uint8_t rail)
{
	return rail ? atomic_load(&v->rails.twin[rail].qp) : v->qp;
}

/* May the rq_psn of our NIC of that rail be believed? */
static inline enum stats_psn vqp_psn(const struct vqp *v, uint8_t rail)
{
	return pause_psn((enum stats_psn)v->dev->nic[rail]->psn);
}

bool vqp_is_protected(const struct vqp *v);
uint8_t vqp_rail(const struct vqp *v); /* that carries its traffic now, as far as it goes */
int vqp_rail_on(const struct vqp *v, const struct nic *nic); /* -1: none there */

#endif
