/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A NIC of this host (RDMA device and port) that we have opened ourselves, beside the program: its
 * PD, where the shadows live, its control link and probes. There is one per device name and
 * process, shared by all connections; opened on its worker, never closed before the process ends.
 */
#ifndef SHIFT_NIC_NIC_H
#define SHIFT_NIC_NIC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/worker.h"

#define NICS_MAX 16

struct nic {
	char name[64]; /* mlx5_0 */
	uint8_t port;
	uint8_t index; /* in the process: nic_at(index) */
	struct worker *worker;
	struct worker *resolver; /* for verbs that look a neighbour up: create_ah, modify to RTR.
				  * They wait a second or more for one that does not answer, and
				  * would hold up a fence on the worker. */
	struct ibv_context *ctx; /* ours; not the program's */
	struct ibv_pd *pd;	 /* for the control link and probes */
	struct ibv_port_attr port_attr;
	uint32_t mtu_bytes; /* active MTU of the port: 256 .. 4096 */
	bool is_rxe;	    /* soft-RoCE: its fence barrier is RESET */
	/* enum stats_psn: may its rq_psn be believed? As measured (lib/nic/rq_psn.h), or not yet.
	 * Soft-RoCE's is LIVE until proven otherwise: recordings (tests/sim/traces) stand for it.
	 */
	_Atomic uint8_t psn;
	_Atomic bool psn_tried; /* to measure that: it may take long until it is known */
	_Atomic bool ready;	/* everything above is there, and the control link is up */
	_Atomic bool link_up;	/* by netlink and async events; never again after DEVICE_FATAL */
	struct ctrl_link *link; /* control link (link.h) */
};

/* The NIC, opened in the background if it was not known: look at ready. NULL: NICS_MAX reached or
 * no memory. Any thread. */
struct nic *nic_get(const char *name, uint8_t port);

struct nic *nic_at(unsigned int index); /* NULL past the end */

/*
 * The GID of this NIC that belongs with `like` (which is a GID of another NIC of this host): RoCE
 * v2 and the same kind of address (IPv4-mapped, link-local, other IPv6), lowest index; if there is
 * none of that kind, any RoCE v2, then any. On InfiniBand: index 0. Reads sysfs: not on the
 * program's threads. Returns the index or a negative errno.
 */
int nic_gid_like(const struct nic *nic, const union ibv_gid *like, union ibv_gid *gid);

/* The netdev (ifindex) under a GID index of a device, 0 if it has none (InfiniBand). Reads sysfs.
 */
unsigned int nic_ifindex(const struct nic *nic);

/*
 * Called on the background thread whenever a NIC becomes ready, its link_up or psn changes, or the
 * address of its control link does. At most 8 functions; any thread. NICs that are ready already
 * are not reported again.
 */
void nic_on_change(void (*fn)(struct nic *nic));

/* Called on the background thread for each asynchronous event of nic->ctx (QP_FATAL of a twin);
 * what it says of the port has been dealt with. At most 8 functions; any thread. */
void nic_on_event(void (*fn)(struct nic *nic, const struct ibv_async_event *event));

#endif
