/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The control link: one UD QP per NIC of the process. It carries datagrams of lib/core/msg.h
 * (SWITCH and the like for many connections, key lookups); unreliable: who needs an answer repeats.
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

/* Where a process listens on one of its NICs; this is published, so it has a fixed layout. */
struct ctrl_link_addr {
	union ibv_gid gid;
	uint32_t qpn;
	uint32_t qkey;
	uint16_t lid;
	uint16_t mtu_bytes; /* active MTU of that port */
};

/* Set up the link of a NIC (by nic.c, on its worker). 0 or negative errno. */
int ctrl_link_open(struct nic *nic);

/* Our own address on a ready NIC. Any thread. */
void ctrl_link_address(const struct nic *nic, struct ctrl_link_addr *addr);

/*
 * One peer process over one of our NICs: keeps the address handle and the datagram being
 * filled. nonce: of the peer's process, for the envelope. Any thread. NULL: no memory.
 */
struct ctrl_link_peer *ctrl_link_peer_new(struct nic *nic, const struct ctrl_link_addr *addr,
					  uint64_t nonce);
void ctrl_link_peer_free(struct ctrl_link_peer *peer);

/*
 * Append a record to the peer's datagram; a full one is sent first. Any thread, any locks held
 * (leaf lock). Nothing waits for the NIC: a datagram that cannot be sent is dropped and counted.
 */
void ctrl_link_send(struct ctrl_link_peer *peer, const struct shift_msg *m);

/*
 * Send what is waiting, to this peer, or to all. Any thread. What was begun on the background
 * thread goes out by itself before that thread sleeps; what another thread begins must be flushed,
 * or it waits until the background thread has something else to do. Until the peer's address handle
 * is there (it is looked up in the background) the newest datagram waits, older ones are dropped.
 */
void ctrl_link_flush(struct ctrl_link_peer *peer);
void ctrl_link_flush_all(void);

/* ctrl_link_flush_all(), but the background thread does that by itself. Any thread. */
void ctrl_link_flush_unless_bg(void);

/* Who we are, and the job's key: before anything is sent. */
void ctrl_link_set_identity(uint64_t nonce, const uint64_t key[2]);

/* Called on the background thread for each record of a datagram whose tag and envelope are right.
 */
void ctrl_link_on_message(void (*fn)(struct nic *nic, const struct shift_msg *m));

struct ctrl_link_stats {
	uint64_t sent, received; /* datagrams */
	uint64_t dropped;	 /* could not be sent */
	uint64_t refused;	 /* received, malformed or with a wrong tag */
	uint64_t misaddressed;	 /* received, for another process (dst_nonce neither 0 nor ours) */
	uint64_t rebuilt;	 /* the QP fell to an error state and was made anew */
};
void ctrl_link_stats(const struct nic *nic, struct ctrl_link_stats *stats);

#endif
