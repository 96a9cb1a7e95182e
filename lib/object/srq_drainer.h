/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The drainer of an SRQ on one NIC (doc/srq.md, section 0): a QP of ours on that SRQ, connected
 * with itself, that sends 0 bytes to itself. Each message takes one receive out, and its completion
 * says which. It is made when it is first needed. On that NIC's worker, unless stated.
 */
#ifndef SHIFT_OBJECT_SRQ_DRAINER_H
#define SHIFT_OBJECT_SRQ_DRAINER_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/core/srq.h"
#include "lib/nic/nic.h"

/* At most so many messages are under way. */
enum { SRQ_DRAIN_MAX = 64 };

struct srq_drainer {
	struct ibv_cq *cq;
	_Atomic(struct ibv_qp *) qp; /* NULL: there is none (yet) */
	bool armed;		     /* it is in RTS, and nothing of it is outstanding */
};

/* The SRQ on that NIC, and where its drainer is made. */
struct srq_place {
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	struct ibv_context *ctx;
	const struct ibv_context_ops *ops; /* the provider's: in the program's context ours are */
	const struct nic *nic;
};

/* Takes `count` receives out, and tells each by took(), which returns false if no more are wanted:
 * a few may come nevertheless, and it ends as if it had taken all. Ends by itself, within two
 * seconds of the last one if the NIC answers at all. */
enum shift_srq_drain srq_drainer_run(struct srq_drainer *d, const struct srq_place *at,
				     uint32_t count, bool (*took)(void *arg, uint64_t id),
				     void *arg);

/* Destroys it. It can be run again. */
void srq_drainer_end(struct srq_drainer *d);

#endif
