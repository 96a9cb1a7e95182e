/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Shared by the clients of which both sides do the same: a device, and QPs connected to the peer's,
 * the n-th to its n-th. Whatever fails ends the process with status 1 after a line. */
#ifndef TESTS_CLIENTS_RC_PEER_H
#define TESTS_CLIENTS_RC_PEER_H

#include <infiniband/verbs.h>

struct rc_peer {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;   /* of all its QPs */
	struct ibv_srq *srq; /* likewise; NULL: they have queues of their own */
	int tcp, gid_index;
};

/* port 1. The caller has opened tcp, and begun by cli_begin(). */
void rc_peer_open(struct rc_peer *p, int tcp, const char *device, int gid_index, int cqe);

/* A QP in RTS; depth: of both queues. The peer's may not be yet: rc_peer_meet(). */
struct ibv_qp *rc_peer_connect(struct rc_peer *p, uint32_t depth);

/* Returns when the peer has called it, too. */
void rc_peer_meet(struct rc_peer *p);

#endif
