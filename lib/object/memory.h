/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Protection domains and memory regions of the program, and their shadows on the backup NICs.
 * Memory knows nothing of connections: they say by memory_calls what must be asked of them.
 */
#ifndef SHIFT_OBJECT_MEMORY_H
#define SHIFT_OBJECT_MEMORY_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/object/device.h"
#include "lib/object/object.h"

/* What connections have to say to memory: given once, before the first domain. Any thread. */
struct memory_calls {
	bool (*is_short)(const struct nic *nic); /* no shadows are to be made there for now */
	void (*refused)(const struct nic *nic, int errnum); /* one could not be made there */
	void (*lacking_changed)(void); /* some vpd.lacking is 0 now, or not any more */
	void (*key_gone)(const struct nic *nic, uint32_t rkey);	  /* peers may know it */
	void (*key_reused)(const struct nic *nic, uint32_t rkey); /* the program is about to get it;
								   * may wait; nothing locked */
};
void memory_set_calls(const struct memory_calls *calls);

struct vpd {
	struct object obj;
	struct ibv_pd *pd;
	struct vdev *dev;
	_Atomic bool windows;			   /* it has, or had, memory windows: windows.c */
	_Atomic(struct ibv_pd *) shadow[NICS_MAX]; /* by nic->index; worker of that NIC */
	_Atomic uint32_t lacking[NICS_MAX]; /* MRs of it that have no shadow there, for good */
};

struct vmr {
	struct object obj;
	struct ibv_mr *mr;
	struct vpd *pd;
	uint64_t addr; /* or the offset in a dmabuf */
	size_t length;
	uint64_t iova;
	unsigned int access;
	bool dmabuf;
	int fd; /* of the dmabuf, ours; or -1 */
	uint32_t lkey, rkey;
	pthread_mutex_t lock;			   /* one registration at a time */
	_Atomic(struct ibv_mr *) shadow[NICS_MAX]; /* by nic->index */
	_Atomic uint64_t keys[NICS_MAX];	   /* of the shadow: lkey, rkey above it */
	_Atomic bool exported;			   /* some peer was told a key of it */
	bool lacks[NICS_MAX];			   /* under lock: refused there, or dropped */
	_Atomic bool gone; /* set under lock: the program has deregistered it */
};

struct vpd *vpd_find(const struct ibv_pd *pd);

/* The shadow's lkey of a program's lkey; registers it now if the background has not come to it
 * yet. -ENOENT: no such MR in this domain; -EAGAIN: the NIC refuses it. Any thread. */
int vmr_lkey(struct vpd *pd, struct nic *nic, uint32_t lkey, uint32_t *twin);
void memory_nic_ready(struct nic *nic); /* bg: make what could not be made before */
int vmr_rkey(struct vpd *pd, struct nic *nic, uint32_t rkey, uint32_t *twin);

/* Deregisters the shadows on a NIC, on its worker; waits for it at most so long. How many. */
unsigned int memory_drop_shadows(struct nic *nic, int timeout_ms);

/* --- hooks: the verbs of the program, on its threads; parameters and results are the verbs' ----
 */

struct ibv_pd *hook_alloc_pd(struct ibv_context *ctx);
int hook_dealloc_pd(struct ibv_pd *pd);
struct ibv_pd *hook_alloc_parent_domain(struct ibv_context *ctx,
					struct ibv_parent_domain_init_attr *attr);

/* After a real registration (any variant) that returned mr, which may be NULL; fd -1: not dmabuf.
 */
struct ibv_mr *hook_registered(struct ibv_mr *mr, uint64_t addr_or_offset, size_t length,
			       uint64_t iova, unsigned int access, int fd);
int hook_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access);
int hook_dereg_mr(struct ibv_mr *mr);

#endif
