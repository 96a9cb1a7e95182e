/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The control link: one UD QP per NIC of the process. It carries the messages of lib/core/msg.h
 * (doc/protocol.md, section 6), many connections in one datagram. It is unreliable: a sender that
 * needs an answer repeats its message. Each NIC's link has a lock of its own, a leaf.
 */
#ifndef SHIFT_NIC_CTRL_LINK_H
#define SHIFT_NIC_CTRL_LINK_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/core/msg.h"
#include "lib/nic/nic.h"

struct ctrl_link;

/* Where a process listens on one of its NICs. It is published, so its layout is fixed. */
struct ctrl_link_addr {
	union ibv_gid gid;
	uint32_t qpn;
	uint32_t qkey;
	uint16_t lid;
	uint16_t mtu_bytes; /* active MTU of that port */
};

/* Sets up the link of a NIC. For nic.c, on the NIC's worker, once. 0 or a negative errno. */
int ctrl_link_open(struct nic *nic);

/* Our own address on a ready NIC. Any thread. */
void ctrl_link_address(const struct nic *nic, struct ctrl_link_addr *addr);

/*
 * A peer process over one of our NICs. It keeps the address handle, and the datagram that is being
 * filled. nonce is that of the peer's process, for the envelope. The caller owns the peer and frees
 * it; nobody may send to it after that. Any thread. NULL: no memory.
 */
struct ctrl_link_peer *ctrl_link_peer_new(struct nic *nic, const struct ctrl_link_addr *addr,
					  uint64_t nonce);
void ctrl_link_peer_free(struct ctrl_link_peer *peer);

/* The peer listens elsewhere now. Any thread, any locks held. */
void ctrl_link_peer_move(struct ctrl_link_peer *peer, const struct ctrl_link_addr *addr);

/*
 * Appends a record to the peer's datagram, and sends a full one first. Any thread, any locks held
 * (leaf lock). It never waits for the NIC: a datagram that cannot be sent is dropped and counted.
 */
void ctrl_link_send(struct ctrl_link_peer *peer, const struct shift_msg *m);

/*
 * Sends the datagram of this peer, or those of all, as far as they are filled. Any thread. The
 * background thread flushes all by itself before it sleeps. Any other thread must flush what it has
 * appended, or it waits until the background thread wakes next. As long as there is no address
 * handle (it is made in the background) the newest datagram waits, and older ones are dropped.
 */
void ctrl_link_flush(struct ctrl_link_peer *peer);
void ctrl_link_flush_all(void);

/* ctrl_link_flush_all(), unless the caller is the background thread, which does it by itself. */
void ctrl_link_flush_unless_bg(void);

/* The nonce of this process and the key of the job. To be called once; before that nothing is sent,
 * and everything that comes is refused. */
void ctrl_link_set_identity(uint64_t nonce, const uint64_t key[2]);

/* Sets the function that is called on the background thread for each record of a datagram whose tag
 * and envelope are right. To be called once. */
void ctrl_link_on_message(void (*fn)(struct nic *nic, const struct shift_msg *m));

struct ctrl_link_stats {
	uint64_t sent, received; /* datagrams */
	uint64_t dropped;	 /* could not be sent */
	uint64_t refused;	 /* received, but malformed or with a wrong tag */
	uint64_t other_version;	 /* of these: for their version */
	uint64_t misaddressed; /* received for another process (dst_nonce is neither 0 nor ours) */
	uint64_t rebuilt;      /* times that the QP had fallen to an error state and was rebuilt */
};
/* The counters so far. Any thread. */
void ctrl_link_stats(const struct nic *nic, struct ctrl_link_stats *stats);

#endif
