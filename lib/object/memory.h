/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The program's protection domains and memory regions, and their shadows on the backup NICs. This
 * room knows nothing of connections: what it must ask of them it asks by memory_calls.
 *
 * vmr.lock and the tables of memory are leaves in the order of locks (lib/conn/vqp.h). Any thread,
 * unless stated.
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

/* What memory asks of the rooms above, or tells them. Set once, before the first domain is made;
 * called on any thread. lacking_changed is called with vmr.lock held; the others without any lock,
 * and key_reused may wait. */
struct memory_calls {
	bool (*is_short)(const struct nic *nic); /* must no shadows be made there for now? */
	void (*refused)(const struct nic *nic, int errnum); /* a shadow could not be made there */
	void (*registered)(void);      /* a shadow is there that was asked for */
	void (*lacking_changed)(void); /* a vpd.lacking has become 0, or is 0 no more */
	void (*key_gone)(const struct nic *nic, uint32_t rkey); /* a key that peers may know */
	/* The program is about to get this key. */
	void (*key_reused)(const struct nic *nic, uint32_t rkey);
};
void memory_set_calls(const struct memory_calls *calls);

struct vpd {
	struct object obj;
	struct ibv_pd *pd;
	struct vdev *dev;
	_Atomic bool windows; /* it has, or had, memory windows: lib/verbs/memory_windows.h */
	_Atomic(struct ibv_pd *) shadow[NICS_MAX]; /* by nic->index; written on its threads */
	_Atomic uint32_t lacking[NICS_MAX]; /* so many of its MRs were refused there, or dropped */
};

/* A provider's own way to register a dmabuf: the function, and its last parameter. */
struct direct_reg {
	struct ibv_mr *(*reg)(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
			      int fd, int access, int direct_access); /* NULL: ibv_reg_* */
	int access;
};

struct vmr {
	struct object obj;
	struct ibv_mr *mr;
	struct vpd *pd;
	/* Constant. */
	uint64_t addr; /* or the offset in a dmabuf */
	size_t length;
	uint64_t iova;
	unsigned int access;
	bool dmabuf;
	int fd; /* of the dmabuf, a duplicate of ours; or -1 */
	struct direct_reg direct;
	uint32_t lkey, rkey;

	pthread_mutex_t lock;			   /* held for moments only */
	_Atomic(struct ibv_mr *) shadow[NICS_MAX]; /* by nic->index; written under lock */
	_Atomic uint64_t keys[NICS_MAX]; /* of the shadow: the lkey, and the rkey above it */
	_Atomic bool exported;		 /* a peer was told a key of it */
	_Atomic bool lacks[NICS_MAX];	 /* written under lock: refused there, or dropped */
	bool begun[NICS_MAX];		 /* under lock: it is being registered or dropped there */
	_Atomic bool asked[NICS_MAX];	 /* somebody waits for the shadow */
	_Atomic bool gone;		 /* set under lock: the program has deregistered it */
};

/* NULL: the PD is not one of the program's, or passes through. */
struct vpd *vpd_find(const struct ibv_pd *pd);

/* Is it a parent domain with a thread domain? Then the provider takes no locks for QPs in it. */
bool pd_has_thread(const struct ibv_pd *pd);

/* The key of the shadow on a NIC, for a key of the program. 0; -ENOENT: there is no such MR in this
 * domain; -EAGAIN: the shadow is not there yet, is made now before all others, and `registered` is
 * called then; -ENOBUFS: the NIC has refused it, and is asked again. Any locks held. */
int vmr_lkey(struct vpd *pd, struct nic *nic, uint32_t lkey, uint32_t *twin);
int vmr_rkey(struct vpd *pd, struct nic *nic, uint32_t rkey, uint32_t *twin);

/* A NIC became ready, or has room again: makes the shadows there that are missing. */
void memory_nic_ready(struct nic *nic);

/* Deregisters all shadows on a NIC, on its thread, and waits for that at most timeout_ms. Returns
 * how many were deregistered by then. */
unsigned int memory_drop_shadows(struct nic *nic, int timeout_ms);

/* --- hooks: the verbs of the program, on its threads; parameters and results are the verbs' ----
 */

struct ibv_pd *hook_alloc_pd(struct ibv_context *ctx);
int hook_dealloc_pd(struct ibv_pd *pd);
struct ibv_pd *hook_alloc_parent_domain(struct ibv_context *ctx,
					struct ibv_parent_domain_init_attr *attr);

/* To be called after the real registration (any variant), which returned mr or NULL. Returns mr. fd
 * is -1 if it is no dmabuf. */
struct ibv_mr *hook_registered(struct ibv_mr *mr, uint64_t addr_or_offset, size_t length,
			       uint64_t iova, unsigned int access, int fd);

/* The same for a dmabuf that was registered by direct verbs. */
struct ibv_mr *hook_registered_direct(struct ibv_mr *mr, uint64_t offset, size_t length,
				      uint64_t iova, int fd, unsigned int access,
				      const struct direct_reg *direct);
int hook_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access);
int hook_dereg_mr(struct ibv_mr *mr);

#endif
