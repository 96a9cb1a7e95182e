/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The contexts that the program has opened, and the NICs that back them up. Any thread, any locks
 * held (leaf lock). */
#ifndef SHIFT_OBJECT_DEVICE_H
#define SHIFT_OBJECT_DEVICE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lib/base/table.h"
#include "lib/core/conn.h"
#include "lib/nic/nic.h"
#include "lib/object/made_events.h"

/* A context that the program has opened. Constant, but for the atomics; never freed. */
struct vdev {
	struct ibv_context *ctx;
	struct ibv_context_ops ops; /* the provider's */
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *, struct ibv_qp_init_attr_ex *);
	struct ibv_qp *(*open_qp)(struct ibv_context *, struct ibv_qp_open_attr *);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *, struct ibv_cq_init_attr_ex *);
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *, struct ibv_srq_init_attr_ex *);
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *,
					      struct ibv_parent_domain_init_attr *);
	int (*modify_qp_rate_limit)(struct ibv_qp *, struct ibv_qp_rate_limit_attr *);
	uint8_t rails; /* 1: nothing to move to */
	/* [0]: this device, which we have opened, too. One of the others may be the same: twins are
	 * made in our context, as on any backup, so memory has other keys there. */
	struct nic *nic[SHIFT_RAILS_MAX];
	/* Masks of rails. Spare: no shadows and no twins are made there (yet). Lost: a connection
	 * had to leave it, or its probes are not answered, and it has not come back. */
	_Atomic uint32_t spare, lost;
	uint32_t was_spare; /* of these nothing is made yet. Background thread */
	uint64_t opened_ns;
	struct table qps;		/* the program's QPs that have a connection, by QPN */
	struct vdev *closed;		/* the one that was closed before this one */
	_Atomic uint32_t devx_qps;	/* QPs that are objects of the firmware: not in any table */
	_Atomic bool port_err_hidden;	/* the program was not told of a PORT_ERR */
	_Atomic bool events_waited_for; /* a thread of the program has blocked for an event */
	struct made_events made;	/* events of ours that wait for the program */
};

/* For a context that the program has opened: finds its rails and adds it to the table. NULL: there
 * is no memory, or no NIC of ours for it. Then everything on it passes through. */
struct vdev *vdev_new(struct ibv_context *ctx);

/* The program closes the context: removes it from the table. It stays in memory (some hundred bytes
 * each), because jobs of its PDs may still use it. */
void vdev_retire(struct ibv_context *ctx);

/* NULL: the context is not one of the program's, or passes through. */
struct vdev *vdev_find(const struct ibv_context *ctx);

/* Is the NIC a backup of the device, and not spare? It may be its own. */
bool vdev_backed_by(const struct vdev *dev, const struct nic *nic);

/* Calls fn for each context that the program has opened, with no lock. At most 64. */
void vdev_each(void (*fn)(struct vdev *dev, void *arg), void *arg);

/* --- which backups are made: all that SHIFT_RAILS lists; of `auto` the best, and others when one
 * is lost (lib/session/spare_rails.h) --- */

static inline bool vdev_rail_is_spare(const struct vdev *dev, uint8_t rail)
{
	return atomic_load(&dev->spare) >> rail & 1;
}

/* Sets what is called on the background thread after a device was opened, and after each of the
 * following that changes something. Once. */
void vdev_on_rails_changed(void (*fn)(void *arg));

void vdev_rail_lost(struct vdev *dev, uint8_t rail);
void vdev_rail_found(struct vdev *dev, uint8_t rail);

/* From now on the rail is not spare. The function above has its shadows and twins made. */
void vdev_rail_take(struct vdev *dev, uint8_t rail);

/* Has the device no backup, or none but itself? */
bool vdev_is_alone(const struct vdev *dev);

#endif
