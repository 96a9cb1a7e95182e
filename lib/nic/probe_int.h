/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the two files of the probes share: probe.c decides what to send when, and what an answer
 * means (background thread); probe_qp.c calls the verbs (mostly on the resolver). The functions at
 * the end are of probe_qp.c.
 */
#ifndef SHIFT_NIC_PROBE_INT_H
#define SHIFT_NIC_PROBE_INT_H

#include "lib/nic/probe.h"
#include "lib/base/background.h"

enum { PROBES_OUT_MAX = 2 };

enum probe_state {
	PROBE_NEW,    /* no QPs yet, or no peer */
	PROBE_ARMING, /* the requester is being armed */
	PROBE_LIVE,
	PROBE_FAILED, /* the requester's QP has failed, and is armed again after a pause */
};

/* A CQ that some of a NIC's probes share. probe_qp.c, on the resolver. */
struct probe_cq {
	struct ibv_cq *cq;
	unsigned int users;
	struct probe_cq *next;
};

/* What the probes of a NIC share; never freed. */
struct probe_nic {
	/* Written on the resolver only. Other threads read it after the job that made it is done.
	 */
	struct ibv_comp_channel *channel;
	struct ibv_mr *mr; /* two pages: the one that is sent, the one that peers write to */
	uint8_t *memory;
	struct probe_cq *cqs;
	/* Background thread only. */
	struct nic *nic;
	bool watched;
	struct probe **slots;
	uint32_t slot_count;
	uint32_t incarnations;
};

/* Background thread only, but for `task`, `cq` and the QPs: while a job is busy, they are its own.
 */
struct probe {
	struct probe_nic *shared;
	struct nic *nic;
	void (*result)(void *arg, bool answered);
	void *arg;
	void (*address_changed)(void *arg);
	void *address_arg;
	uint32_t slot;

	/* Work for the resolver, one job at a time. */
	struct job job;
	struct bg_call done;
	bool busy, closing;
	bool arm_requester, arm_responder; /* to be done by the next job */
	/* The job's orders, and its answer. */
	struct {
		bool create, requester, responder, destroy;
		struct probe_addr own, peer;
		uint32_t sq_psn, rq_psn;
		int err;
	} task;
	struct probe_cq *cq;
	struct ibv_qp *requester, *responder;
	bool created;

	struct probe_addr own, peer;
	bool connected; /* probe_connect() was called */

	enum probe_state state;
	uint32_t incarnation; /* of the requester: completions of an earlier one are ignored */
	uint32_t psn;	      /* of the oldest unanswered probe */
	unsigned int out;     /* unanswered probes, oldest first */
	struct {
		uint64_t at_ns;
		bool large, again; /* it was sent again, so its answer tells no round trip */
	} sent[PROBES_OUT_MAX];
	bool large_next;
	unsigned int failures;	   /* of the requester since the last answer */
	uint64_t oldest_posted_ns; /* when the oldest unanswered one was posted (again) */

	uint64_t period_ns, deadline_ns, max_deadline_ns;
	uint64_t rtt_ns, deviation_ns;
	struct bg_timer timer;
	uint64_t post_ns, miss_ns, arm_ns; /* when to do each next; UINT64_MAX: not at all */
};

/* Carries out p->task. On the resolver. */
void probe_job(struct job *job);

/* Posts the last n of sent[]. 0 or a positive errno. Background thread. */
int probe_post(struct probe *p, unsigned int n);

/* The MTU of the path between two ends, bytes. */
uint32_t probe_path_bytes(const struct probe_addr *a, const struct probe_addr *b);

#endif
