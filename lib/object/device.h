/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The contexts that the program has opened, and the NICs that back them up. Any thread. */
#ifndef SHIFT_OBJECT_DEVICE_H
#define SHIFT_OBJECT_DEVICE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lib/base/table.h"
#include "lib/core/conn.h"
#include "lib/nic/nic.h"

/* A context that the program has opened. */
struct vdev {
	struct ibv_context *ctx;
	struct ibv_context_ops ops; /* the provider's */
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *, struct ibv_qp_init_attr_ex *);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *, struct ibv_cq_init_attr_ex *);
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *,
					      struct ibv_parent_domain_init_attr *);
	uint8_t rails;			  /* 1: nothing to move to */
	struct nic *nic[SHIFT_RAILS_MAX]; /* [0]: this device, opened by ourselves too */
	struct table qps;		  /* by QPN */
	struct vdev *closed;		  /* another, closed before */
	_Atomic bool port_err_hidden;	  /* from the program */
	_Atomic bool events_waited_for;	  /* by a thread of it that has nothing else to do */
};

/* A context that the program has opened: finds its rails and puts it into the table. NULL: no
 * memory, or no NIC of ours for it; it passes through then. */
struct vdev *vdev_new(struct ibv_context *ctx);

/* It is being closed: out of the table. It stays in memory, as jobs of its PDs may still look at it
 * (some hundred bytes per open). A later context at the same address takes its place. */
void vdev_retire(struct ibv_context *ctx);

struct vdev *vdev_find(const struct ibv_context *ctx);		    /* NULL: not the program's */
bool vdev_backed_by(const struct vdev *dev, const struct nic *nic); /* on a rail but the first */

#endif
