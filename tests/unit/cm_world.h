/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The world of lib/verbs/cm_ids.c. librdmacm and the kernel are faked: a channel is a pipe with a
 * byte for each event, and to destroy an id waits until its events are acknowledged. It asserts
 * that nobody can be cancelled where somebody else would wait for ever.
 */
#ifndef SHIFT_TESTS_UNIT_CM_WORLD_H
#define SHIFT_TESTS_UNIT_CM_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/base/worker.h"
#include "lib/conn/conn_lock.h"
#include "lib/verbs/cm_ids.h"

enum { EVENTS_MAX = 16, CM_EVENT_ADDR_RESOLVED = 0, CM_EVENT_ADDR_ERROR = 1 };

/* A program that gets no event for so long hangs; and a test. */
enum { FOR_EVER_MS = 5000, HANGS_S = 15 };

enum { OURS = 77 }; /* the port_num of an id that is ours */

struct channel {
	struct rdma_event_channel channel; /* first */
	int write_end;
	struct rdma_cm_event *queue[EVENTS_MAX];
	unsigned int first, end;
};

/* The connection: an id on `channel`, with a QP on mlx5_0. */
extern struct rdma_cm_id id;
extern struct channel channel, other;
extern struct ibv_context ctx;
extern struct vdev dev;
extern struct ibv_qp qp;
extern struct vqp v;
extern enum shift_state state;
extern uint8_t rail;
extern bool alone; /* its NIC is the only one */

/* Another NIC, with a QP of the same number, and so another connection. */
extern struct ibv_context ctx2;
extern struct ibv_qp qp2;
extern struct vqp v2;
extern enum shift_state state2;

extern uint64_t now;
extern struct bg_timer *timer;
extern bool jobs_wait; /* the worker does not come to them */
extern struct job *job_waits;
void run_job(struct job *job);

extern _Atomic int ids;	 /* of ours, not destroyed */
extern int said, hidden; /* to the session; counted */
extern uint32_t said_number;
extern bool resolve_fails; /* with the id's address */
extern bool resolve_errs;  /* with any, later */
extern bool resolve_fails_always;
extern bool create_fails;
extern int resolved, migrate_result, disconnect_result;
extern int destroy_result; /* of an id of the program */
extern int said_before_the_kernel;

/* What happens meanwhile; after_get: once, when the kernel has given an event to a thread. */
extern void (*during_migration)(void), (*during_create)(void);
extern void (*during_destroy)(struct rdma_cm_id *of), (*after_get)(void);

int begin(void **st);
int end(void **st);

void raise_event(struct channel *on, struct rdma_cm_id *of, int type, int status);
void get_unhooked(struct channel *c, struct rdma_cm_event **event); /* librdmacm, for itself */
bool has_event(const struct channel *c);
void time_passes(uint64_t ns);
void destroy(struct rdma_cm_id *of);
void never_blocks(struct channel *c);
void expect_event(struct channel *c, int type); /* of `id`; and acknowledges it */
void expect_none(struct channel *c);

/* Runs one(), and when that is at its n-th step (it has released the lock, or librdmacm has done
 * something), another() in a second thread, until that has ended, waits, or is at its m-th step.
 * Then the first goes on. false: one() has no so many steps, and another() has come behind it. */
bool race_at(unsigned int n, unsigned int m, void (*one)(void), void (*another)(void));
bool race_another_stood(void); /* it has so many steps */

/* The connection is over, and the program is to hear so now. */
void the_peer_ends(void);

/* The program has our DISCONNECTED, and has not acknowledged it. Returns the id of ours that the
 * kernel has told it of. */
struct rdma_cm_id *read_the_end(struct rdma_cm_event **e);

#endif
