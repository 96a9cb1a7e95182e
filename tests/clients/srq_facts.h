/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The questions of srq_facts that have a file of their own, and what these share. */
#ifndef TESTS_CLIENTS_SRQ_FACTS_H
#define TESTS_CLIENTS_SRQ_FACTS_H

#include "tests/clients/srq_lab.h"

/* The NIC with the SRQ, and that of the peers. */
extern struct nic here, there;

/* The netdev of here, administratively; waits until the port's state and the addresses follow. */
void set_link(bool up);

/* srq_drainer.c: 1, 2 and 3 */
void ask_drainer(void);
void ask_link(void);
void ask_rnr(void);

/* A responder that holds a receive, as only the first packet of a message has come. */
struct held {
	struct ibv_srq *srq;
	struct end responder, peer;
};

/*
 * srq_cut.c. hold_one() makes it; then the peer: "retries", is in "ERR" or "destroyed", or the
 * responder's netdev is down: "link down". Returns false if the first packet did not come. Packets
 * are dropped until drop_the_rest(false).
 */
bool hold_one(struct held *h, const char *peer, enum ibv_wr_opcode opcode);
void drop_the_rest(bool on);

/* 4, and when the receives of a QP in a stream are all completed: after ERR, after RESET without it
 */
void ask_cut(void);
void ask_settle(void);
/* These may cost the NIC on 6.1. */
void ask_reset(void);
void ask_reset_plain(void);
void ask_destroy(void);

#endif
