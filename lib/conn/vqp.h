/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A queue pair of the program and, where it can be protected, the connection that moves it between
 * NICs. The program's QP is always the provider's own, on the NIC that the program chose (rail 0).
 * A twin on each backup NIC (rails 1 and up) takes its place while the connection has moved.
 *
 * A vqp is an object (object.h): the program's QP has a reference, and each job under way has one.
 *
 * Locks, in this order: vqp_life.modify_lock or wr_builder.lock, vcq.drain_lock or the tables of
 * QPs (vqp_each, vqp_all), vqp.lock, vcq.grow or vmr.lock, then leaves (vcq.delivered_lock, the
 * statistics, the tables of memory and of a device's QPs, the control link, a worker's queue):
 * doc/architecture.md, Locks. A gate is never held while anything else is taken.
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
#include "lib/nic/rq_psn.h"
#include "lib/object/cq.h"
#include "lib/object/device.h"
#include "lib/object/made_events.h"
#include "lib/object/memory.h"
#include "lib/object/object.h"
#include "lib/object/vsrq.h"
#include "lib/stats/stats.h"

/* What the peer must know of one rail. It travels (lib/session/session_msg.h), so its layout is
 * fixed. */
struct rail_addr {
	struct ctrl_link_addr link; /* control link of the process on that NIC */
	union ibv_gid gid;	    /* of the QP on that NIC */
	uint32_t qpn;		    /* of that QP; 0: there is none yet */
	uint16_t lid;
	uint16_t mtu_bytes; /* of its port; of a twin at most the program's; 0: not known yet */
	uint8_t nic;	    /* the process's number of that NIC, for probes */
	uint8_t psn;	    /* enum stats_psn: is its rq_psn live? */
	uint8_t atomic_cap; /* enum ibv_atomic_cap of that NIC; 0: not known */
	uint8_t flags;	    /* enum rail_flag */
};

enum rail_flag {
	RAIL_RELEASED = 1, /* of rail 0: this end is as without shift, for the rest of this life */
	RAIL_SRQ = 2,	   /* the QP takes its receives from an SRQ that shift moves */
};

struct twin {
	_Atomic(struct ibv_qp *) qp; /* rails 1 and up; created and modified on the NIC's threads */
	_Atomic bool failed;	     /* it cannot be created */
	/* Under vqp.lock. Written by the background thread only, which reads them without. */
	int gid_index;	       /* where its GID stood */
	struct nic_gid gid;    /* of our QP on that rail */
	uint32_t mtu;	       /* path MTU there, bytes; once clean */
	struct rail_addr peer; /* once clean only its address changes */
	bool clean; /* both twins are there: RAIL_OPEN was told, or another reason is against it */
	struct peer_path *path; /* control link and probes to the peer over this rail */
};

struct arming { /* the epoch that a twin is armed for, and its PSNs */
	uint32_t epoch, tx_psn, rx_psn;
};

/* The jobs for one rail's QP on its NIC's threads, at most one of each kind at a time: rail_jobs.h.
 * Under vqp.lock, but for the atomics. */
struct rail_jobs {
	struct job fence, arms, query, breaks;
	struct vqp *v;
	uint8_t rail;
	_Atomic bool arming; /* `arms` is under way; a fence asked for meanwhile follows it */
	bool modifying;	     /* a verb of the program's own changes the QP: rail0_lend() */
	bool fence_follows, querying, breaking;
	unsigned int under_way; /* jobs that were asked for and have not ended */
	_Atomic bool stale;	/* they are of the life before RESET: their results are ignored */
	struct arming arm;	/* the newest that was asked for */
	uint32_t fence_epoch, query_epoch, query_serial;
	struct fence_under_way {
		uint32_t epoch;
		bool flushed;
		struct rq_psn_looks looks;
	} fence_now; /* of the worker */
	_Atomic bool marker_seen;
	uint64_t fence_since, arm_since; /* bg_awake_ns(); 0: none, or taken for hung */
};

/* What the data path uses. The program's threads read and write it inside the gates. Other threads
 * do under vqp.lock while the gates are shut. */
struct vqp_hot {
	/* Of the connection. Inside the gate of the send CQ; inside recv_gate, and the gate of the
	 * receive CQ. */
	struct shift_hot log;
	_Atomic uint32_t slow; /* the gates are shut: posts and completions take vqp.lock */
	uint32_t rail0_epoch;  /* vqp_rails.armed_epoch[0] */
	struct vsrq *srq;      /* constant. NULL: none, or one that passes through */
	struct gate send_gate __attribute__((aligned(64)));
	struct shift_run run;	      /* inside send_gate; empty while the QP is slow */
	struct ibv_send_wr *fast_bad; /* inside send_gate; the mark is the program's `bad` */
	/* Inside send_gate: the NIC has refused so many sends, and the core does not know yet. */
	uint32_t refused_sends;
	bool refused;
	struct gate recv_gate __attribute__((aligned(64)));
	/* Our wr_id of receives on rail 0, if one CQ serves both queues; 0: they keep the
	 * program's. The rest of it is inside recv_gate: what goes to the NIC in place of one that
	 * comes alone. */
	struct ibv_recv_wr recv_marked;
	/* Inside recv_gate: the program's receive that is being posted. */
	struct ibv_recv_wr *recv_now, *recv_refused;
};

/* What the program has asked for, and what it must see. Under vqp.lock once the QP has started. */
struct vqp_program {
	struct ibv_qp_attr attr; /* all that the program has set */
	_Atomic enum ibv_qp_state
		state;	    /* as the program must see it; read without the lock, too */
	struct ibv_ece ece; /* as it was agreed with the peer, or wanted so far */
	bool has_ece;
	struct ibv_qp_rate_limit_attr rate; /* rate_limit 0: none */
	enum stats_unprotected why;	    /* why the QP cannot be protected. At creation only */
};

/* Where a QP is between creation and destruction. Written under vqp.lock, but for `started`. */
struct vqp_life {
	pthread_mutex_t modify_lock; /* one thread of the program at a time modifies the QP */
	_Atomic bool started;	     /* RTR or RTS. Written by the thread that modifies the QP */
	_Atomic bool gone;	/* being destroyed: no more twins, timers and draining of its CQs */
	_Atomic bool released;	/* not protected any more: vqp_release() */
	_Atomic bool bypassed;	/* released, and neither logged nor counted: lib/verbs/bypass.h */
	uint64_t started_ns;	/* when `started` was set; 0 once the set-up time was reported */
	bool dead;		/* the connection is over: what is posted flushes */
	struct shift_past past; /* the lives before this one, each of which ended with RESET */
	bool closed;		/* the action CLOSED has come; closed_cond is signalled */
	pthread_cond_t closed_cond;
};

/* Sends that are to be posted from the log, in order. They may have to wait for keys or for room:
 * repost.h. Under vqp.lock. */
struct vqp_repost {
	uint64_t tx_next, tx_end; /* the sends of the log that wait: [tx_next, tx_end) */
	uint32_t tx_epoch;
	uint8_t tx_rail;
	bool tx_stopped;	 /* tx_rail is fenced: nothing more may be posted there */
	bool committing;	 /* not all requests of a commit are posted yet */
	_Atomic bool wants_lkey; /* it waits for our memory to be registered on the rail */
	/* Receives of the log that wait for that: [rx_next, rx_end). */
	uint64_t rx_next, rx_end;
	uint8_t rx_to;
	bool recv_refused; /* rx_rail has refused a receive: the core is to be told. Also inside
			    * recv_gate */
	bool recv_no_key;  /* it was refused because rx_rail has no key for its memory */
	uint8_t rx_rail;
};

/* The rails of the connection. */
struct vqp_rails {
	struct twin twin[SHIFT_RAILS_MAX]; /* [0]: only peer, gid and path */
	struct rail_jobs jobs[SHIFT_RAILS_MAX];
	pthread_cond_t job_ended; /* with vqp.lock */
	/* Under vqp.lock. */
	__be16 pkey;			       /* the program's, by value; 0: not known */
	uint32_t armed_epoch[SHIFT_RAILS_MAX]; /* the tag: for which epoch its QP was armed last */
	/* Masks of rails: */
	uint32_t vetoed;  /* the operator has taken them out of use */
	uint32_t unclean; /* their last fence did not account for everything. lib/core knows that of
			   * its fences; a QP that begins another life needs it */
	uint32_t lacking; /* their NIC lacks some memory of the domain: memlock.h */
	/* lib/core was told in this life that their link is down. The background thread reads it
	 * without the lock. */
	_Atomic uint32_t down;
	/* Their twin has another address than the peer has heard of. Background thread. */
	uint32_t unheard;
	/* With an SRQ (srq_qps.h): where its QP is live, and where a flush has named its receive
	 * since. */
	_Atomic uint32_t joined, recv_flushed;
	_Atomic bool
		joins_late; /* to be live on rail 0 when it sends: a reason to keep send_gate shut
			     */
};

/* Keys of memory on backup NICs. Under vqp.lock, but for exported.n. */
struct vqp_keys {
	struct peer_keys *peer;	       /* the peer's keys, which we use */
	struct exported_keys exported; /* our keys, which the peer was told */
};

/* The QP that the program's was connected to in the newest of its lives in which HELLO has matched:
 * where its process listens on each rail. Background thread. */
struct last_peer {
	union ibv_gid gid; /* of that QP on rail 0, and */
	uint32_t qpn;	   /* its number, as the program has them */
	uint8_t rails;	   /* 0: there is none */
	uint64_t nonce;	   /* of its process */
	struct ctrl_link_addr link[SHIFT_RAILS_MAX];
};

/* How the peer was found. Background thread; what others read, and RESET, write under vqp.lock. */
struct vqp_setup {
	struct meeting *meeting;   /* lib/session/rendezvous.h */
	struct bg_call begin_call; /* written by the thread that begins a life */
	/* The life was released: the peer is to be told. fn: NULL before its meeting began. */
	struct bg_call released_call;
	bool peer_released; /* its end is as without shift */
	_Atomic bool met;   /* the peer was found; HELLO is under way or done */
	uint8_t peer_rails;
	uint32_t peer_id;
	uint64_t peer_nonce;
	struct last_peer last;
};

/* conn_timers.h. Background thread; the calls and tick_at: any thread. */
struct vqp_timers {
	struct bg_timer tick, overdue;
	struct bg_call tick_call, overdue_call;
	_Atomic uint64_t tick_at; /* when tick is set for */
	/* Under vqp.lock. What the last tick has found: */
	bool idle;	    /* there is nothing to look at, */
	uint8_t rail;	    /* data flows on that rail; UINT8_MAX: it does not, */
	uint64_t activity;  /* shift_conn_activity(), */
	uint64_t send_tail; /* shift_conn_view.send_tail */
};

enum self_state { SELF_OFF, SELF_ARMING, SELF_READY, SELF_LOST };

/* The QP of a rail of a QP that is connected with itself. */
struct self_rail {
	uint8_t state; /* enum self_state */
	bool wanted;   /* READs must go through it */
	bool leaves;   /* no more are posted there; those that were are waited for */
	bool used;     /* it was in RTS: it is emptied before it is armed again */
	uint32_t gen;  /* how often it was armed by us; in the wr_id */
	/* Indexes in the log: what is posted there next, and before which all has completed. */
	uint64_t next, done;
	uint64_t left_at;  /* the log's head when no data came there any more */
	uint64_t left_ns;  /* and when that was; 0: data comes there */
	uint64_t moved_ns; /* when its oldest READ became the oldest */
	uint64_t tried_ns; /* when it was armed, or lost, last */
};

/* A QP that is connected with itself: self_qp.h. Under vqp.lock, but for the atomics. */
struct vqp_self {
	_Atomic bool on;      /* it is one, and survives its NIC */
	_Atomic bool engaged; /* its READs are posted and completed by self_qp.c */
	bool failed;	      /* it was engaged, and is over: what is posted flushes */
	bool ends;	      /* its life does: nothing more is posted or armed */
	uint32_t follows;     /* how often data came to another rail */
	uint64_t tail;	      /* index of the oldest that the program has no completion of */
	uint64_t plain_end;   /* on rail 0 those before it were posted as the program has them */
	uint64_t waits_ns;    /* since when the oldest waits */
	uint64_t tick_at;     /* when self_qp_tick() is due; UINT64_MAX: never */
	struct self_rail rail[SHIFT_RAILS_MAX];
};

struct vqp {
	struct object obj;

	/* Constant while the vqp can be found. First what every post reads. */
	struct ibv_qp *qp;
	struct shift_conn *conn; /* NULL: never protected. What it points to: under lock with
				  * the gates shut (vqp_enter()), or inside a gate that is open */
	int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
	int (*post_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	struct vcq *send_cq, *recv_cq;

	struct vqp_hot hot;

	pthread_mutex_t lock __attribute__((aligned(64)));

	/* Constant while the vqp can be found. */
	struct vdev *dev;
	struct vpd *pd;
	struct ibv_qp_init_attr init; /* as accepted */
	uint32_t qpn;		      /* of qp, for jobs that may outlive it */
	uint64_t marker;	      /* wr_id of a fence's marker */
	int stats;		      /* slot in the statistics, or -1 */
	size_t conn_bytes;	      /* of conn */

	struct wr_builder *wr_builder; /* NULL: the program does not post by ibv_wr_* */
	/* Around RESET and RTS of rail 0's QP by a thread of ours. NULL: nothing is to be done.
	 * begin: 0; or an errno: it cannot be done now. */
	int (*rail0_setup_begin)(struct vqp *v);
	void (*rail0_setup_end)(struct vqp *v);

	uint32_t id; /* of the connection in this process, in this life: vqp_renew_id() */
	_Atomic bool switching;		 /* vqp_any_switching(). Written under lock */
	_Atomic uint32_t awaits_answers; /* mask of rails: vqp_await_answers() */
	_Atomic uint32_t cm_number;	 /* of its RDMA-CM id (lib/verbs/cm_ids.h); 0: none */

	struct vqp_program program;
	struct vqp_life life;
	struct vqp_repost repost;
	struct vqp_rails rails;
	struct vqp_keys keys;
	struct vqp_setup setup;
	struct vqp_timers timers;
	struct vqp_self self;
	struct made_event last_wqe; /* with an SRQ of ours: srq_qp_in_err() */
#ifdef SHIFT_TEST_HOOKS
	struct pause pause; /* under lock; asked[]: the NIC's threads */
#endif
};

/* A post touches the first cache line and those of its gate, that of a receive also the first of
 * `hot`. A completion touches one line of `hot`, of an SRQ both. */
_Static_assert(offsetof(struct vqp, hot) == 64 && offsetof(struct vqp, hot.send_gate) == 192 &&
		       offsetof(struct vqp, hot.recv_gate) % 64 == 0 &&
		       offsetof(struct vqp, lock) % 64 == 0,
	       "the hot path reads as few cache lines as it can");

/* --- where they are found: any thread --------------------------------------------------------- */

/* NULL: there is none. No reference is taken; vqp_unpublish() waits for those that may use it. */
struct vqp *vqp_find(const struct ibv_qp *qp);
struct vqp *vqp_by_id(uint32_t id);

/* An id for a connection: no other life of a QP of this process ever has it. */
uint32_t vqp_draw_id(void);

/* Calls fn for each vqp that has a connection, or for all. Under the lock of a table: fn may take
 * vqp.lock, and must not publish nor unpublish. */
void vqp_each(void (*fn)(struct vqp *v, void *arg), void *arg);
void vqp_all(void (*fn)(struct vqp *v, void *arg), void *arg);

/* Adds it to the tables. 0 or -ENOMEM. */
int vqp_publish(struct vqp *v);

/* RESET: a new life of the QP begins, under an id that this process has never used, so that what
 * was meant for the life before is told from what is meant for this one. The life before has left
 * its tombstone, and nobody looks for the new one yet. 0; or -ENOMEM: it cannot be found by its id,
 * and will not be protected. Nothing locked. */
int vqp_renew_id(struct vqp *v);

/* Removes it from the tables, and from what gates and CQs remember. Waits until no drain uses it.
 * Nothing locked. */
void vqp_unpublish(struct vqp *v);

/* The same in the child of a fork(), without taking a lock. */
void vqp_unpublish_forked(struct vqp *v);

/* A drain of its CQs may have found it in a table just before it was removed: waits until that
 * drain has ended. Nothing locked. */
void vqp_wait_drains(struct vqp *v);

/* The vqp and the rail of the twin that has this number on a NIC; NULL: there is no such twin. */
struct vqp *vqp_by_twin(const struct nic *nic, uint32_t qpn, uint8_t *rail);

/* 0 or -ENOMEM. */
int vqp_publish_twin(struct vqp *v, const struct nic *nic, uint32_t qpn);

/* Waits until no drain uses the twin. Nothing locked. */
void vqp_unpublish_twin(struct vqp *v, const struct nic *nic, uint32_t qpn);

/* --- its rails -------------------------------------------------------------------------------- */

/* The QP of a rail: the program's, or a twin; NULL: there is no twin. */
static inline struct ibv_qp *vqp_rail_qp(struct vqp *v, uint8_t rail)
{
	return rail ? atomic_load(&v->rails.twin[rail].qp) : v->qp;
}

/* Is the rq_psn of our NIC of that rail live? */
static inline enum stats_psn vqp_psn(const struct vqp *v, uint8_t rail)
{
	return pause_psn((enum stats_psn)v->dev->nic[rail]->psn);
}

bool vqp_is_protected(const struct vqp *v);

/* Can packets leave there, and be answered? The NIC's link is up, and it has the address of our QP,
 * which the peer knows. Background thread. */
bool vqp_rail_is_up(const struct vqp *v, uint8_t rail);

/* Whether it is up as lib/core knows it; and lib/core is being told, under vqp.lock. */
bool vqp_rail_was_up(const struct vqp *v, uint8_t rail);
void vqp_rail_note_up(struct vqp *v, uint8_t rail, bool up);

/* Has nothing been posted or received since a tick has found the connection idle? Then nothing is
 * outstanding that will have a completion. Under vqp.lock; the gates may be open. */
bool vqp_is_idle(const struct vqp *v);

/* The rail in use: the one that carries the traffic now, or did until a switch began. */
uint8_t vqp_rail(const struct vqp *v);

/* Mask of the rails that a message which came to this NIC may have come over: two may be on rail
 * 0's. Of those with the same path to the peer only the first. Background thread. */
uint32_t vqp_rails_heard(const struct vqp *v, const struct nic *nic);

/* The rail on that NIC that has a twin there; -1: there is none. */
int vqp_twin_rail_on(const struct vqp *v, const struct nic *nic);

/* --- answers: any thread, no lock --------------------------------------------------------------
 */

/*
 * The connection is to hear of the next answered probe of each of its rails, also where nothing
 * has changed. After a switch, a link that came back, or another path: lib/core knows a rail that
 * was left, or whose link was down, as good only from an answer on, and a switch may be over before
 * the next one comes.
 */
void vqp_await_answers(struct vqp *v);

/* How often that was. */
uint32_t vqp_times_answers_awaited(void);

#endif
