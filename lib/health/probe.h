/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Probes (DESIGN 4.4 (6)): small RDMA WRITEs on an RC QP of our own per peer process and pair of
 * NICs. The peer's NIC answers, not its program: a stopped peer still does, and a lost ACK is a
 * lost probe. Sizes alternate between 0 bytes and one MTU, so that a path that loses only large
 * packets is found. Background thread only.
 */
#ifndef SHIFT_HEALTH_PROBE_H
#define SHIFT_HEALTH_PROBE_H

#include "lib/verbs/nic.h"

/* What the peer must know of our end; published, so it has a fixed layout. */
struct probe_addr {
	union ibv_gid gid;
	uint64_t remote_addr; /* scratch memory of one MTU */
	uint32_t rkey;
	uint32_t qpn;
	uint32_t psn;
	uint16_t lid;
	uint16_t mtu_bytes;
};

struct probe;

/*
 * Our end towards one peer process over one NIC (ready). The QP is created on the NIC's worker;
 * probe_address() says -EAGAIN until then. result: called on the background thread per probe,
 * answered or missed. NULL: no memory.
 */
struct probe *probe_new(struct nic *nic, void (*result)(void *arg, bool answered), void *arg);
void probe_free(struct probe *p); /* no result after it returns */

int probe_address(const struct probe *p, struct probe_addr *addr);

/* The peer's end is known: connect and begin. Called again with another address (the peer rebuilt
 * its end): connect anew. */
void probe_connect(struct probe *p, const struct probe_addr *peer);

/*
 * How often: a probe every period_ns; one that has no answer after deadline_ns is missed, and again
 * for each further period without an answer. A slow answer widens the deadline (smoothed
 * round trip plus four deviations, at most max_deadline_ns), so that a loaded machine is not taken
 * for a dead path. Zeros take the defaults: 25 ms, 50 ms, 150 ms.
 */
void probe_timing(struct probe *p, uint64_t period_ns, uint64_t deadline_ns,
		  uint64_t max_deadline_ns);

/* Smoothed round trip, ns; 0 if there was none yet. */
uint64_t probe_rtt_ns(const struct probe *p);

#endif
