/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The library's rooms above lib/core (lib/libshiftrooms.la), in a world that the test scripts: the
 * NICs' verbs, their threads, the clock, the control links, and lib/core itself. All that the rooms
 * ask of this world goes into a trace, one line each, with every field; so what reaches the NIC,
 * and what lib/core is told, is compared as a whole.
 */
#ifndef ROOMS_H
#define ROOMS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/env.h"
#include "lib/base/real_verbs.h"
#include "lib/conn/vqp.h"
#include "lib/core/fast.h"

enum { RAILS = 3, QPN = 0x10, TWIN_QPN = 0x20, SENDS = 8, RECEIVES = 4, MS = 1000000 };

#define START_NS 1000000000ull /* the clock, when a test begins */

/* --- the trace ----------------------------------------------------------------------------- */

void trace_add(const char *format, ...) __attribute__((format(printf, 1, 2)));
void trace_clear(void);
const char *trace_text(void);

/* The lines since the last look. */
#define assert_traced(lines)                              \
	do {                                              \
		assert_string_equal(trace_text(), lines); \
		trace_clear();                            \
	} while (0)

/* --- lib/core, by the test's script -------------------------------------------------------- */

enum { SCRIPT_MAX = 64 };

struct core_script {
	struct shift_conn_view view;
	struct shift_conn_stats stats;
	struct shift_action action[SCRIPT_MAX]; /* what it asks for */
	unsigned int actions, actions_taken;
	struct shift_wc completion[SCRIPT_MAX]; /* what it makes for the program */
	unsigned int completions, completions_taken;
	void (*on_event)(const struct shift_event *ev);
	uint64_t head;
	uint64_t deadline, activity;
	bool idle, waits;
	int post_result, post_rail;
	int post_ends_after; /* so many posts it takes, then -ENOMEM; -1: all */
	bool fast, delivers, releases, secret;
	bool release_due, atomic_releases;
	bool impossible; /* it will not meet the peer */
	struct shift_tombstone tombstone;
	struct shift_conn_cfg cfg; /* as it was given */
	struct shift_conn_start start;
	struct shift_conn_peer peer;
	struct shift_past past;
	bool no_rkey;	/* of what it posts again */
	bool no_bytes;	/* likewise */
	uint8_t opcode; /* likewise; 0: of each kind */
	bool no_memory;
	uint32_t run_takes; /* a run of so many may begin */
};
extern struct core_script core;

/* The core asks for this when it is asked for actions next. */
void core_asks(const struct shift_action *a);

/* --- the world ----------------------------------------------------------------------------- */

struct world {
	uint64_t now;
	struct nic nic[RAILS];
	struct vdev dev;
	struct vpd pd;
	struct ibv_pd real_pd, shadow_pd[RAILS];
	struct vcq send_cq, recv_cq;
	struct ibv_cq real_send_cq, real_recv_cq;
	struct ibv_context ctx[RAILS];
	struct ibv_device device;
	void (*on_wait)(void);	/* a thread waits for a condition; NULL: the NICs' jobs run */
	void (*on_sleep)(void); /* it sleeps */
	void (*on_sync)(struct gate *const *gates, unsigned int n); /* it waits for gates */
	void (*on_take)(struct vcq *cq);			    /* it takes completions */
	const pthread_cond_t *woken;				    /* what was signalled last */
	void (*on_modify)(void); /* a modify is under way; once */
	bool workers_stuck;	 /* who waits for jobs at most for a time waits in vain */
	uint64_t keys_deadline;	 /* when the peer is to be asked for keys again */
	uint64_t busy_since;	 /* of the NICs' threads; 0: they are at no job */
	/* What a verb answers. */
	int modify_fails_at; /* the n-th modify from now, from 1; 0: none */
	int destroy_err;     /* of QPs */
	int next_fails_at;   /* and then the n-th from there */
	int create_fails;    /* so many times */
	int ece_result;
	int resize_fails_at; /* the n-th resize from now */
	int post_result;
	int recv_posts;	   /* calls of the provider's post_recv */
	int post_fails_at; /* the n-th post from now, from 1; 0: each, if post_result is not 0 */
	bool post_without_bad; /* it failed, and says of none that it was refused */
	int lkey_result, rkey_result;
	int gid_at;	 /* where the GID of the NICs is in their tables */
	int query_mask;	 /* of the last query */
	int lost;	 /* mask of the NICs that have lost theirs */
	uint8_t own_gid; /* its last byte; 0: one more than the NIC's number */
	uint32_t psn;
	bool in_err;		      /* a QP that is asked for its rq_psn */
	bool at_rest, flushes;	      /* a marker comes back as soon as it is posted */
	uint64_t look_ns;	      /* that a look at rq_psn takes */
	unsigned int looks_moving;    /* so many looks find that rq_psn moves */
	struct ibv_wc wc[SCRIPT_MAX]; /* what the CQ of rail 0 has */
	unsigned int wcs, wcs_polled;
	int poll_fails;	       /* what a poll of an empty queue of rail 0 returns; 0: it is well */
	struct ibv_wc recv_wc; /* what that of the receives has */
	bool recv_has;
	void (*on_rest)(void);		   /* the responder comes to rest; once */
	struct ibv_wc twin_wc[SCRIPT_MAX]; /* what the shadow CQs have, of each NIC */
	unsigned int twin_wcs, twin_wcs_polled;
	unsigned int twin_wc_nic;
	bool untraced;	   /* too much happens */
	uint32_t qpn_more; /* the numbers of QPs that are made from now on are larger by this */
	/* A session speaks to another; NULL: it goes into the trace, too. */
	void (*on_send)(const char *link, const struct shift_msg *m);
};
extern struct world world;

/* cmocka's set-up and tear-down. */
int rooms_begin(void **state);
int rooms_end(void **state);

/* The program's QP, made by the library. Its twins are made by the jobs. */
struct vqp *rooms_create_qp(void);
struct ibv_qp_init_attr rooms_qp_attr(void);

/* rooms_end(), and destroys the program's QP before, whatever a test that failed has left of it. */
int rooms_end_qp(void **state, struct vqp *v);

/* The core asks the connection for this, and it is done. */
void rooms_act(struct vqp *v, const struct shift_action *a);

/* To be called before the QP is destroyed: a test that failed may have left locks behind. */
void rooms_unlock(struct vqp *v);

/* Brings the program's QP to RTR and RTS with attributes of which no two are alike. */
void rooms_start_qp(struct vqp *v);

/* Its gates open if lib/core allows the fast way, and shut if not. Clears the trace. */
void rooms_be_fast(struct vqp *v, bool fast);

/* Another thread does this, and lives on while this one does that. */
void rooms_beside(void (*other)(void), void (*mine)(void));

struct ibv_qp_attr rooms_attr(void);

/* Runs the jobs that the NICs' threads were given, in order; returns how many. */
unsigned int rooms_run_jobs(void);
bool rooms_run_job(void); /* one */

/* Time passes, and the timers that are due fire. */
void rooms_pass(uint64_t ns);

/* Runs the tests with gates that are shared, and then again with gates that are owned. One group,
 * as a program has one plan. Returns how many failed. */
int run_with_both_gates(const struct CMUnitTest *tests, size_t n);

#endif
