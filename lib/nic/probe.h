/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Probes (doc/protocol.md, T6): small RDMA WRITEs on an RC QP of our own, for each peer process and
 * pair of NICs. The peer's NIC answers, not its program. So a stopped peer still answers, and a
 * lost ACK is a lost probe. Sizes alternate between 0 bytes and one MTU, so that a path that loses
 * only large packets is found. Background thread only; no locks.
 */
#ifndef SHIFT_NIC_PROBE_H
#define SHIFT_NIC_PROBE_H

#include "lib/nic/nic.h"

/*
 * How probes recover when a path comes back. Each end has two QPs: its requester sends WRITEs to
 * the peer's responder. A requester that fails because the path is dead loses nothing that matters:
 * each probe is one packet, so the requester is armed again at the PSN of its oldest unanswered
 * probe and sends exactly the unanswered ones again, as a NIC's own retry would. The peer's
 * responder never sends, so it never times out. It takes this for a retransmission, executes what
 * it has not executed, and acknowledges the rest again. Nothing has to be told.
 *
 * A responder itself must be armed again only if it has an error, or if a GID at either end has
 * changed. Then the peers must agree on a new first PSN, which follows from the requester's psn and
 * the responder's serial. The serial changes, the owner is called (probe_on_address_change) and
 * tells the address, and the peer calls probe_connect() again.
 */

/* What the peer must know of our end. It travels, so its layout is fixed. */
struct probe_addr {
	union ibv_gid gid;
	uint64_t remote_addr; /* scratch memory of one MTU */
	uint32_t rkey;
	uint32_t requester_qpn;
	uint32_t responder_qpn;
	uint32_t psn;	 /* of the requester, constant */
	uint32_t serial; /* of the responder: how often it was armed again with a new PSN */
	uint16_t lid;
	uint16_t mtu_bytes;
};

struct probe;

/*
 * Our end towards one peer process over one NIC, which must be ready. The caller owns it. The QPs
 * are created on the NIC's resolver. Until they are there, probe_address() returns -EAGAIN; the
 * function of probe_on_address_change() says when they are. `result` is called for each probe that
 * was answered or missed. An answer that comes after its probe was reported as missed is reported,
 * too. NULL: no memory.
 */
struct probe *probe_new(struct nic *nic, void (*result)(void *arg, bool answered), void *arg);

/* No result is reported after it returns. `result` may call it. */
void probe_free(struct probe *p);

/* Our end, to be told to the peer. 0; or -EAGAIN: it is not known yet. */
int probe_address(const struct probe *p, struct probe_addr *addr);

/* fn is called when probe_address() has an answer for the first time, and whenever the answer
 * changes. It may call anything here but probe_free(). */
void probe_on_address_change(struct probe *p, void (*fn)(void *arg), void *arg);

/* Connects to the peer's end and begins to probe. With another address (the peer has armed its end
 * again) it connects again; with the same one it does nothing. */
void probe_connect(struct probe *p, const struct probe_addr *peer);

/*
 * Sets how often to probe: every period_ns. A probe without an answer after deadline_ns is missed,
 * and is reported as missed again after each further period. Slow answers widen the deadline
 * (smoothed round trip plus four deviations, at most max_deadline_ns), so that a loaded machine is
 * not taken for a dead path. Zeros take the defaults: 25 ms, 50 ms, 1 s. While two probes are
 * unanswered none is added. If this thread itself did not run for more than a period (stopped,
 * machine asleep), the deadlines are later by that time, as the network was not to blame.
 */
void probe_timing(struct probe *p, uint64_t period_ns, uint64_t deadline_ns,
		  uint64_t max_deadline_ns);

/* The smoothed round trip, ns; 0 if there was none yet. */
uint64_t probe_rtt_ns(const struct probe *p);

#endif
