/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Probes (doc/protocol.md, T6): small RDMA WRITEs on an RC QP of our own per peer process and pair
 * of NICs. The peer's NIC answers, not its program: a stopped peer still does, and a lost ACK is a
 * lost probe. Sizes alternate between 0 bytes and one MTU, so that a path that loses only large
 * packets is found. Background thread only.
 */
#ifndef SHIFT_NIC_PROBE_H
#define SHIFT_NIC_PROBE_H

#include "lib/nic/nic.h"

/*
 * How it recovers without anybody's help. Each end has two QPs: a requester, whose WRITEs go to the
 * peer's responder. A requester that dies of a dead path loses nothing that matters: each probe is
 * one packet, so it is armed anew at the PSN of its oldest unanswered probe and sends again exactly
 * what was unanswered, as a NIC's own retry would. The peer's responder, which never sends
 * and so never times out, takes that for a retransmission: it executes what it has not, and
 * acknowledges the rest again. Nothing has to be published for it.
 *
 * Only when a responder itself has to be made anew (an error in it, another GID of ours or the
 * peer's) the peers must agree on a new first PSN: it follows from the requester's psn and the
 * responder's serial. The serial changes, the owner hears of it (probe_on_address_change),
 * publishes the address, and the peer calls probe_connect again.
 */

/* What the peer must know of our end; published, so it has a fixed layout. */
struct probe_addr {
	union ibv_gid gid;
	uint64_t remote_addr; /* scratch memory of one MTU */
	uint32_t rkey;
	uint32_t requester_qpn;
	uint32_t responder_qpn;
	uint32_t psn;	 /* of the requester, for as long as it lives */
	uint32_t serial; /* of the responder: how often it was made */
	uint16_t lid;
	uint16_t mtu_bytes;
};

struct probe;

/*
 * Our end towards one peer process over one NIC (ready). The QPs are created on the NIC's resolver
 * (connecting looks a neighbour up); probe_address() says -EAGAIN until then, and
 * probe_on_address_change tells when. result: called on the background thread per probe, answered
 * or missed; an answer that comes after its probe was reported as missed is reported too. NULL: no
 * memory.
 */
struct probe *probe_new(struct nic *nic, void (*result)(void *arg, bool answered), void *arg);
void probe_free(struct probe *p); /* no result after it returns; may be called by result */

int probe_address(const struct probe *p, struct probe_addr *addr);

/* fn is called on the background thread when probe_address() has something to say for the first
 * time, and whenever it says something else. It may call anything here but probe_free. */
void probe_on_address_change(struct probe *p, void (*fn)(void *arg), void *arg);

/* The peer's end is known: connect and begin. Called again with another address (the peer rebuilt
 * its end): connect anew; with the same: nothing. */
void probe_connect(struct probe *p, const struct probe_addr *peer);

/*
 * How often: a probe every period_ns; one that has no answer after deadline_ns is missed, and again
 * for each further period without an answer. A slow answer widens the deadline (smoothed
 * round trip plus four deviations, at most max_deadline_ns), so that a loaded machine is not taken
 * for a dead path. Zeros take the defaults: 25 ms, 50 ms, 1 s. At most two probes are
 * unanswered at a time: then none is added. If this thread itself did not run for more than
 * a period (stopped, machine asleep) deadlines are later by that time: that was not the network.
 */
void probe_timing(struct probe *p, uint64_t period_ns, uint64_t deadline_ns,
		  uint64_t max_deadline_ns);

/* Smoothed round trip, ns; 0 if there was none yet. */
uint64_t probe_rtt_ns(const struct probe *p);

#endif
