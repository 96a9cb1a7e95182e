/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Shared by probe.c (what to send when, and what an answer means) and probe_qp.c (the verbs). */
#ifndef SHIFT_NIC_PROBE_INT_H
#define SHIFT_NIC_PROBE_INT_H

#include "lib/nic/probe.h"
#include "lib/base/background.h"

enum { PROBES_OUT_MAX = 2 };

enum probe_state {
	PROBE_NEW,    /* no QPs yet, or no peer */
	PROBE_ARMING, /* the requester is being armed */
	PROBE_LIVE,
	PROBE_FAILED, /* the requester's QP failed: armed again after a pause */
};

/* A CQ for some of a NIC's probes. */
struct probe_cq {
	struct ibv_cq *cq;
	unsigned int users;
	struct probe_cq *next;
};

/* What the probes of a NIC share; never freed. */
struct probe_nic {
	/* Resolver only, once there is one; read by others after a job is done. */
	struct ibv_comp_channel *channel;
	struct ibv_mr *mr; /* the page that is sent, then the page that is written to */
	uint8_t *memory;
	struct probe_cq *cqs;
	/* Background thread. */
	struct nic *nic;
	bool watched;
	struct probe **slots;
	uint32_t slot_count;
	uint32_t incarnations;
};

struct probe {
	struct probe_nic *shared;
	struct nic *nic;
	void (*result)(void *arg, bool answered);
	void *arg;
	void (*address_changed)(void *arg);
	void *address_arg;
	uint32_t slot;

	/* Work for the resolver, one at a time. */
	struct job job;
	struct bg_call done;
	bool busy, closing;
	bool arm_requester, arm_responder; /* wanted */
	/* What the job was given, and its answer. */
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
	bool connected; /* there is a peer */

	enum probe_state state;
	uint32_t incarnation; /* of the requester: completions of an earlier one are void */
	uint32_t psn;	      /* of the oldest unanswered probe */
	unsigned int out;     /* unanswered probes, oldest first */
	struct {
		uint64_t at_ns;
		bool large, again; /* sent again: its answer tells no round trip */
	} sent[PROBES_OUT_MAX];
	bool large_next;
	unsigned int failures;	   /* since the last answer */
	uint64_t oldest_posted_ns; /* since when the oldest is posted, or posted again */

	uint64_t period_ns, deadline_ns, max_deadline_ns;
	uint64_t rtt_ns, deviation_ns;
	struct bg_timer timer;
	uint64_t post_ns, miss_ns, arm_ns; /* when next; UINT64_MAX: not */
};

/* probe_qp.c. The memory of `shared` is zeroed; 0 or negative errno. */
void probe_job(struct job *job); /* on the resolver */
/* Post the last n of sent[]. 0 or an errno. Background thread. */
int probe_post(struct probe *p, unsigned int n);
uint32_t probe_path_bytes(const struct probe_addr *a, const struct probe_addr *b);

#endif
