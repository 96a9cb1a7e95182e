/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A NIC of this host (RDMA device and port) that we have opened ourselves, beside the program. It
 * has our PD, the control link and the probes; the shadows of the program's objects are made in its
 * context. There is one struct nic per device name and port in a process, shared by all
 * connections. It is opened on its worker, and never closed or freed.
 *
 * Any thread may read what is constant once `ready` is true, and the atomics. The locks here are
 * leaves.
 */
#ifndef SHIFT_NIC_NIC_H
#define SHIFT_NIC_NIC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/worker.h"

#define NICS_MAX 16

/* A GID of a NIC. The same value may stand there several times: for RoCE v1 and v2, and, if it is
 * link-local, once for each VLAN. */
struct nic_gid {
	union ibv_gid value;
	uint32_t type; /* enum ibv_gid_type */
	uint16_t vlan; /* 0: none */
};

struct nic {
	char name[64]; /* mlx5_0 */
	uint8_t port;
	uint8_t index; /* in the process: nic_at(index) */
	/* Its threads. A switch waits for those of `fences` and `arms` alone; these have two each,
	 * as one command of a dying NIC may hang. */
	struct worker *worker;	 /* what is not said below */
	struct worker *resolver; /* verbs that resolve a neighbour's address (create_ah, modify of
				  * probes to RTR) wait a second or more for one that does not
				  * answer */
	struct worker *memory;	 /* registrations take as long as the memory is large */
	struct worker *fences; /* fences, and reading rq_psn; waking the program (event_waker.h) */
	struct worker *arms;   /* bringing twins to RTS, which resolves an address, too */
	/* Constant once `ready` is true. */
	struct ibv_context *ctx; /* ours, not the program's */
	struct ibv_pd *pd;	 /* for the control link and the probes */
	struct ibv_port_attr port_attr;
	uint32_t mtu_bytes; /* active MTU of the port: 256 .. 4096 */
	bool is_rxe;	    /* soft-RoCE: its fence barrier is RESET */
	/* enum ibv_atomic_cap: with what its atomics are atomic. Soft-RoCE says HCA, but one lock
	 * of the kernel serves all its devices: as with us nothing else is at stake, that is GLOB.
	 */
	uint8_t atomic_cap;
	/* enum stats_psn: is its rq_psn live? As measured (lib/nic/rq_psn.h; doc/protocol.md, A2),
	 * or not measured yet. That of soft-RoCE is LIVE until a measurement says otherwise,
	 * because recordings (tests/sim/traces) stand for it. */
	_Atomic uint8_t psn;
	_Atomic bool psn_tried; /* it was tried to measure psn: a result may still be far away */
	_Atomic bool ready;	/* the NIC is open, and its control link is up */
	/* How often its port was looked at: after each event of it. What is not there, as a GID,
	 * need not be looked for again before. */
	_Atomic uint32_t looks;
	_Atomic bool link_up;	/* by netlink and async events; stays false after DEVICE_FATAL */
	struct ctrl_link *link; /* lib/nic/ctrl_link.h */
};

/* The NIC of that device and port. If it is new, it is opened in the background: `ready` says when
 * it can be used. NULL: there are NICS_MAX already, or there is no memory or no thread. Any thread.
 */
struct nic *nic_get(const char *name, uint8_t port);

/* Opens the device alone, with a PD, for a NIC that only the caller knows: name and port are given;
 * ctx, pd and what the device and the port say of themselves are filled in. 0 or a negative errno,
 * and nothing is open. It may hang. */
int nic_open_verbs(struct nic *nic);
void nic_close_verbs(struct nic *nic);

/* The NIC of that number in the process; NULL past the last one. Any thread. */
struct nic *nic_at(unsigned int index);

/*
 * The GID of this NIC that goes with `like`, a GID of another NIC. It is of RoCE v2 and of the same
 * kind of address (IPv4-mapped, link-local, other IPv6). If there is none of that kind, any of RoCE
 * v2 is taken, then any at all; among equals the one with the lowest index. On InfiniBand it is
 * index 0. Returns the index or a negative errno. Makes system calls, so not on the program's data
 * path.
 */
int nic_gid_like(const struct nic *nic, const union ibv_gid *like, union ibv_gid *gid);

/* The same for a twin: that very GID if the NIC has it, else on its VLAN if there is one, else on a
 * VLAN if that one is, too. */
int nic_gid_for_twin(const struct nic *nic, const struct nic_gid *like, struct nic_gid *gid);

/* Are both IPv4-mapped, both link-local, or both neither? */
bool nic_gid_same_kind(const union ibv_gid *a, const union ibv_gid *b);

/* What stands at an index. 0 or a negative errno. Makes system calls. */
int nic_gid_at(const struct nic *nic, int index, struct nic_gid *gid);

/* Where that GID stands now, which is most likely at `hint`: indexes move when addresses come and
 * go. -EADDRNOTAVAIL: nowhere. Or another negative errno. Makes system calls. */
int nic_gid_find(const struct nic *nic, const struct nic_gid *gid, int hint);

/* Has the NIC no such GID any more? By what it said last, and false if it has said nothing yet.
 * Background thread. */
bool nic_gid_is_lost(const struct nic *nic, const struct nic_gid *gid);

/* Where a P_Key stands in the NIC's table: the same index may have another one there. -ENOENT:
 * nowhere. Makes system calls. */
int nic_pkey_index(const struct nic *nic, __be16 pkey);

/* The netdev (ifindex) under the NIC, 0 if it has none (InfiniBand). Makes system calls. */
unsigned int nic_ifindex(const struct nic *nic);

/*
 * Registers a function that is called on the background thread whenever a NIC becomes ready, its
 * link_up, its GIDs or psn change, or the address of its control link does. A NIC that is ready
 * already is not reported again. At most 8 functions, each once; there is no way to remove one. Any
 * thread.
 */
void nic_on_change(void (*fn)(struct nic *nic));

/* The same for each asynchronous event of nic->ctx (QP_FATAL of a twin). What the event says of the
 * port has been taken in before. The event is acknowledged when fn returns. */
void nic_on_event(void (*fn)(struct nic *nic, const struct ibv_async_event *event));

#endif
