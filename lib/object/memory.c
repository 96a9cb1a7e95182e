/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/object/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/base/reentry.h"
#include "lib/base/table.h"
#include "lib/base/worker.h"
#include "lib/nic/nic.h"
#include "lib/object/device.h"
#include "lib/object/object.h"

static struct memory_calls calls;
static struct table pds = TABLE_INIT;
static struct table threaded = TABLE_INIT; /* parent domains with a thread domain */
static struct table mrs = TABLE_INIT;	   /* by address */
static struct table by_lkey = TABLE_INIT;  /* by device and key, see key_of() */
static struct table by_rkey = TABLE_INIT;

void memory_set_calls(const struct memory_calls *c)
{
	calls = *c;
}

/* Two devices may give the same key, so the device is part of it. */
static uint64_t key_of(const struct vpd *pd, uint32_t key)
{
	return ((uint64_t)(uintptr_t)pd->dev << 32 ^ key) | 1ull << 63;
}

/* --- protection domains ---------------------------------------------------------------------- */

static void pd_free(struct object *obj)
{
	free(obj);
}

/* The shadow on a NIC, which is made if it is not there; NULL: it cannot be. Two threads of the NIC
 * may come here at once, and one verb that hangs must not stop the other. */
static struct ibv_pd *pd_shadow_get(struct vpd *pd, struct nic *nic)
{
	struct ibv_pd *have = atomic_load(&pd->shadow[nic->index]), *made;

	if (have || !nic->ready)
		return have;
	made = real.alloc_pd(nic->ctx);
	if (!made || atomic_compare_exchange_strong(&pd->shadow[nic->index], &have, made))
		return made;
	real.dealloc_pd(made);
	return have;
}

static void pd_shadow(struct object *obj, struct nic *nic)
{
	pd_shadow_get((struct vpd *)obj, nic);
}

static void pd_unshadow(struct object *obj, struct nic *nic)
{
	struct vpd *pd = (struct vpd *)obj;
	struct ibv_pd *shadow = atomic_exchange(&pd->shadow[nic->index], NULL);

	if (shadow && real.dealloc_pd(shadow))
		log_debug("%s: a shadow PD is still in use", nic->name);
}

/* Behind all that is still to be done with its memory, and then with its QPs. */
static void pd_unshadow_behind(struct object *obj, struct nic *nic)
{
	object_job(obj, nic, pd_unshadow);
}

struct vpd *vpd_find(const struct ibv_pd *pd)
{
	return table_get(&pds, (uintptr_t)pd);
}

struct ibv_pd *hook_alloc_pd(struct ibv_context *ctx)
{
	struct vdev *dev = vdev_find(ctx);
	struct ibv_pd *real_pd = quietly(real.alloc_pd(ctx));
	struct vpd *pd;

	if (!real_pd || !dev || fork_in_child_warn())
		return real_pd;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return real_pd;
	pd->obj.refs = 1;
	pd->obj.free = pd_free;
	pd->pd = real_pd;
	pd->dev = dev;
	if (table_put(&pds, (uintptr_t)real_pd, pd)) {
		free(pd);
		return real_pd;
	}
	for (uint8_t i = 1; i < dev->rails; i++)
		if (!vdev_rail_is_spare(dev, i))
			object_job(&pd->obj, dev->nic[i], pd_shadow);
	return real_pd;
}

bool pd_has_thread(const struct ibv_pd *pd)
{
	return table_get(&threaded, (uintptr_t)pd);
}

/* A parent domain is another name of its protection domain: memory of one may be used with QPs of
 * the other. Memory for rings that it adds concerns rail 0 alone. A thread domain says that one
 * thread at a time uses its QPs, which share doorbells without a lock: our threads must not post.
 */
struct ibv_pd *hook_alloc_parent_domain(struct ibv_context *ctx,
					struct ibv_parent_domain_init_attr *attr)
{
	struct ibv_pd *parent = quietly(vdev_find(ctx)->alloc_parent_domain(ctx, attr));
	struct vpd *pd = parent && !hooks_off && !fork_in_child_warn() ? vpd_find(attr->pd) : NULL;

	if (!pd)
		return parent;
	object_get(&pd->obj);
	if ((attr->td && table_put(&threaded, (uintptr_t)parent, pd)) ||
	    table_put(&pds, (uintptr_t)parent, pd))
		object_put(&pd->obj);
	return parent;
}

int hook_dealloc_pd(struct ibv_pd *real_pd)
{
	struct vpd *pd, *with_thread;
	int err;

	if (fork_in_child_warn()) {
		table_remove_forked(&pds, (uintptr_t)real_pd);
		return quietly(real.dealloc_pd(real_pd));
	}
	pd = table_remove(&pds, (uintptr_t)real_pd);
	with_thread = table_remove(&threaded, (uintptr_t)real_pd);
	err = quietly(real.dealloc_pd(real_pd));
	if (!pd)
		return err;
	if (err) {
		if (with_thread)
			table_put(&threaded, (uintptr_t)real_pd, pd);
		table_put(&pds, (uintptr_t)real_pd, pd);
		return err;
	}
	for (unsigned int i = 1; pd->pd == real_pd && i < pd->dev->rails; i++)
		object_memory_job(&pd->obj, pd->dev->nic[i], pd_unshadow_behind, false);
	object_put(&pd->obj);
	return 0;
}

/* --- memory regions -------------------------------------------------------------------------- */

static void mr_free(struct object *obj)
{
	struct vmr *mr = (struct vmr *)obj;

	if (mr->fd >= 0)
		close(mr->fd);
	pthread_mutex_destroy(&mr->lock);
	object_put(&mr->pd->obj);
	free(mr);
}

/* NULL rather than a shadow of other memory, or at another address. */
static struct ibv_mr *register_on(struct vmr *mr, struct ibv_pd *pd)
{
	errno = EOPNOTSUPP;
	if (mr->direct.reg)
		return mr->fd >= 0 ? mr->direct.reg(pd, mr->addr, mr->length, mr->iova, mr->fd,
						    (int)mr->access, mr->direct.access)
				   : NULL;
	if (mr->dmabuf)
		return real.reg_dmabuf_mr && mr->fd >= 0
			       ? real.reg_dmabuf_mr(pd, mr->addr, mr->length, mr->iova, mr->fd,
						    (int)mr->access)
			       : NULL;
	if (mr->iova != mr->addr)
		return real.reg_mr_iova ? real.reg_mr_iova(pd, (void *)(uintptr_t)mr->addr,
							   mr->length, mr->iova, (int)mr->access)
					: NULL;
	return real.reg_mr(pd, (void *)(uintptr_t)mr->addr, mr->length, (int)mr->access);
}

/* Under mr->lock. */
static void mr_set_lacking(struct vmr *mr, unsigned int nic, bool lacks)
{
	_Atomic uint32_t *lacking = &mr->pd->lacking[nic];

	if (mr->lacks[nic] == lacks)
		return;
	mr->lacks[nic] = lacks;
	if (lacks ? !atomic_fetch_add(lacking, 1) : atomic_fetch_sub(lacking, 1) == 1)
		calls.lacking_changed();
}

/* false: the shadow is there, or not wanted any more. */
static bool mr_begin_shadow(struct vmr *mr, unsigned int nic)
{
	bool begins;

	pthread_mutex_lock(&mr->lock);
	begins = !mr->gone && !mr->shadow[nic];
	mr->begun[nic] = begins;
	pthread_mutex_unlock(&mr->lock);
	return begins;
}

/* Under mr->lock. NULL: it was refused. */
static void mr_set_shadow(struct vmr *mr, unsigned int nic, struct ibv_mr *shadow)
{
	if (shadow)
		atomic_store(&mr->keys[nic], (uint64_t)shadow->rkey << 32 | shadow->lkey);
	atomic_store(&mr->shadow[nic], shadow);
	mr_set_lacking(mr, nic, !shadow);
}

/* On the NIC's thread for registrations, which is the only one that does: so nothing is locked
 * while the NIC works. */
static void mr_shadow(struct object *obj, struct nic *nic)
{
	struct vmr *mr = (struct vmr *)obj;
	struct ibv_mr *shadow;
	struct ibv_pd *pd;
	bool gone;

	if (!mr_begin_shadow(mr, nic->index))
		return;
	pd = pd_shadow_get(mr->pd, nic);
	errno = ENOMEM;
	shadow = !pd || calls.is_short(nic) ? NULL : register_on(mr, pd);
	if (pd && !shadow)
		calls.refused(nic, errno);
	pthread_mutex_lock(&mr->lock);
	mr->begun[nic->index] = false;
	gone = mr->gone; /* the program has deregistered it meanwhile */
	if (pd && !gone)
		mr_set_shadow(mr, nic->index, shadow);
	pthread_mutex_unlock(&mr->lock);
	if (gone && shadow)
		real.dereg_mr(shadow);
}

/* A connection waits for the shadow. It goes on as soon as it is there. */
static void mr_shadow_asked(struct object *obj, struct nic *nic)
{
	struct vmr *mr = (struct vmr *)obj;

	mr_shadow(obj, nic);
	atomic_store(&mr->asked[nic->index], false);
	if (atomic_load(&mr->shadow[nic->index]))
		calls.registered();
}

/* Any lock may be held: it is registered elsewhere, before all memory that nobody waits for. */
static void mr_ask_shadow(struct vmr *mr, struct nic *nic)
{
	if (!atomic_exchange(&mr->asked[nic->index], true) &&
	    !object_memory_job(&mr->obj, nic, mr_shadow_asked, true))
		atomic_store(&mr->asked[nic->index], false);
}

static void mr_unshadow(struct object *obj, struct nic *nic)
{
	struct vmr *mr = (struct vmr *)obj;
	struct ibv_mr *shadow;

	pthread_mutex_lock(&mr->lock);
	shadow = atomic_exchange(&mr->shadow[nic->index], NULL);
	pthread_mutex_unlock(&mr->lock);
	if (shadow)
		real.dereg_mr(shadow);
}

static _Atomic unsigned int dropped[NICS_MAX];

static void mr_drop_shadow(struct object *obj, struct nic *nic)
{
	struct vmr *mr = (struct vmr *)obj;
	struct ibv_mr *shadow;

	pthread_mutex_lock(&mr->lock);
	shadow = atomic_exchange(&mr->shadow[nic->index], NULL);
	if (shadow && !mr->gone)
		mr_set_lacking(mr, nic->index, true);
	mr->begun[nic->index] = shadow; /* mr_retire() waits for what goes on here */
	pthread_mutex_unlock(&mr->lock);
	if (!shadow)
		return;
	if (!real.dereg_mr(shadow))
		atomic_fetch_add(&dropped[nic->index], 1);
	pthread_mutex_lock(&mr->lock);
	mr->begun[nic->index] = false;
	pthread_mutex_unlock(&mr->lock);
}

static struct vmr *mr_new(struct ibv_mr *real_mr, struct vpd *pd)
{
	struct vmr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->obj.refs = 1;
	mr->obj.free = mr_free;
	mr->mr = real_mr;
	mr->pd = pd;
	mr->lkey = real_mr->lkey;
	mr->rkey = real_mr->rkey;
	mr->fd = -1;
	pthread_mutex_init(&mr->lock, NULL);
	object_get(&pd->obj);
	return mr;
}

static void mr_publish(struct vmr *mr)
{
	if (table_put(&mrs, (uintptr_t)mr->mr, mr) ||
	    table_put(&by_lkey, key_of(mr->pd, mr->lkey), mr) ||
	    table_put(&by_rkey, key_of(mr->pd, mr->rkey), mr))
		log_error("out of memory: a connection that uses memory region %#x breaks when it "
			  "moves to another NIC",
			  mr->lkey);
	for (uint8_t i = 1; i < mr->pd->dev->rails; i++)
		if (!vdev_rail_is_spare(mr->pd->dev, i))
			object_memory_job(&mr->obj, mr->pd->dev->nic[i], mr_shadow, false);
}

/* The parameters of a registration. */
struct region {
	uint64_t addr; /* or the offset in a dmabuf */
	size_t length;
	uint64_t iova;
	unsigned int access;
	bool dmabuf;
	int fd; /* the caller's */
	struct direct_reg direct;
};

static void region_registered(struct ibv_mr *real_mr, const struct region *r)
{
	struct vpd *pd = real_mr ? vpd_find(real_mr->pd) : NULL;
	struct vmr *mr;
	int saved = errno;

	if (!pd || pd->dev->rails < 2 || fork_in_child_warn())
		return;
	calls.key_reused(pd->dev->nic[0], real_mr->rkey);
	mr = mr_new(real_mr, pd);
	if (!mr)
		return;
	mr->addr = r->addr;
	mr->length = r->length;
	mr->iova = r->iova;
	mr->access = r->access;
	mr->dmabuf = r->dmabuf;
	mr->direct = r->direct;
	if (r->fd >= 0)
		mr->fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 3);
	mr_publish(mr);
	errno = saved;
}

struct ibv_mr *hook_registered(struct ibv_mr *real_mr, uint64_t addr_or_offset, size_t length,
			       uint64_t iova, unsigned int access, int fd)
{
	struct region r = {.addr = addr_or_offset,
			   .length = length,
			   .iova = iova,
			   .access = access,
			   .dmabuf = fd >= 0,
			   .fd = fd};

	region_registered(real_mr, &r);
	return real_mr;
}

struct ibv_mr *hook_registered_direct(struct ibv_mr *real_mr, uint64_t offset, size_t length,
				      uint64_t iova, int fd, unsigned int access,
				      const struct direct_reg *direct)
{
	struct region r = {.addr = offset,
			   .length = length,
			   .iova = iova,
			   .access = access,
			   .dmabuf = true,
			   .fd = fd,
			   .direct = *direct};

	region_registered(real_mr, &r);
	return real_mr;
}

/* Removes it from the tables. The shadows are gone before this returns, so that no peer can reach
 * the memory any more. */
static void mr_retire(struct vmr *mr)
{
	struct nic *nic[NICS_MAX];
	unsigned int n = 0;

	table_remove(&mrs, (uintptr_t)mr->mr);
	table_remove(&by_lkey, key_of(mr->pd, mr->lkey));
	table_remove(&by_rkey, key_of(mr->pd, mr->rkey));
	pthread_mutex_lock(&mr->lock);
	atomic_store(&mr->gone, true);
	for (unsigned int i = 0; i < NICS_MAX; i++)
		mr_set_lacking(mr, i, false);
	for (unsigned int i = 1; i < mr->pd->dev->rails; i++) {
		struct nic *backup = mr->pd->dev->nic[i];

		if (mr->shadow[backup->index] || mr->begun[backup->index])
			nic[n++] = backup;
	}
	pthread_mutex_unlock(&mr->lock);
	if (atomic_load(&mr->exported))
		calls.key_gone(mr->pd->dev->nic[0], mr->rkey);
	object_memory_jobs_wait(&mr->obj, nic, n, mr_unshadow);
}

int hook_dereg_mr(struct ibv_mr *real_mr)
{
	struct vmr *mr = table_get(&mrs, (uintptr_t)real_mr);

	if (!mr || fork_in_child_warn())
		return quietly(real.dereg_mr(real_mr));
	mr_retire(mr);
	object_put(&mr->obj);
	return quietly(real.dereg_mr(real_mr));
}

/* With a descriptor of its own, because the MR closes its descriptor. */
static struct region region_of(const struct vmr *mr)
{
	return (struct region){.addr = mr->addr,
			       .length = mr->length,
			       .iova = mr->iova,
			       .access = mr->access,
			       .dmabuf = mr->dmabuf,
			       .direct = mr->direct,
			       .fd = mr->fd < 0 ? -1 : fcntl(mr->fd, F_DUPFD_CLOEXEC, 3)};
}

/* The region after ibv_rereg_mr(). A new translation is plain memory at its own address. */
static struct region region_changed(const struct region *old, int flags, void *addr, size_t length,
				    int access)
{
	struct region r = *old;

	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		r.addr = r.iova = (uintptr_t)addr;
		r.length = length;
		r.dmabuf = false;
		r.direct.reg = NULL;
		r.fd = -1;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		r.access = (unsigned int)access;
	return r;
}

int hook_rereg_mr(struct ibv_mr *real_mr, int flags, struct ibv_pd *real_pd, void *addr,
		  size_t length, int access)
{
	struct vmr *mr = table_get(&mrs, (uintptr_t)real_mr);
	struct region r;
	int ret;

	if (!mr || fork_in_child_warn())
		return quietly(real.rereg_mr(real_mr, flags, real_pd, addr, length, access));
	r = region_of(mr);
	mr_retire(mr);
	object_put(&mr->obj);
	ret = quietly(real.rereg_mr(real_mr, flags, real_pd, addr, length, access));
	/* After an error other than a refused input the state of the MR is unknown. Then it gets no
	 * shadow. */
	if (!ret || ret == IBV_REREG_MR_ERR_INPUT) {
		struct region now = ret ? r : region_changed(&r, flags, addr, length, access);

		region_registered(real_mr, &now);
	}
	if (r.fd >= 0)
		close(r.fd);
	return ret;
}

/* --- keys ------------------------------------------------------------------------------------ */

static void mr_get(void *value)
{
	object_get(&((struct vmr *)value)->obj);
}

/* The lkey and rkey of a shadow. Nothing is registered here, as the caller may hold a lock of the
 * data path, or be the background thread. A thread that deregisters the MR meanwhile sets `gone`
 * first, then reads `exported`. */
static int shadow_keys(struct vmr *mr, struct vpd *pd, struct nic *nic, uint64_t *keys)
{
	bool there = atomic_load(&mr->shadow[nic->index]);

	if (mr->pd != pd || atomic_load(&mr->gone))
		return -ENOENT;
	*keys = atomic_load(&mr->keys[nic->index]);
	if (there)
		return 0;
	mr_ask_shadow(mr, nic);
	return atomic_load(&mr->lacks[nic->index]) ? -ENOBUFS : -EAGAIN;
}

int vmr_lkey(struct vpd *pd, struct nic *nic, uint32_t lkey, uint32_t *twin)
{
	struct vmr *mr = table_take(&by_lkey, key_of(pd, lkey), mr_get);
	uint64_t keys = 0;
	int err = mr ? shadow_keys(mr, pd, nic, &keys) : -ENOENT;

	if (!err)
		*twin = (uint32_t)keys;
	if (mr)
		object_put(&mr->obj);
	return err;
}

int vmr_rkey(struct vpd *pd, struct nic *nic, uint32_t rkey, uint32_t *twin)
{
	struct vmr *mr = table_take(&by_rkey, key_of(pd, rkey), mr_get);
	uint64_t keys = 0;
	int err = -ENOENT;

	if (mr) {
		atomic_store(&mr->exported, true);
		err = shadow_keys(mr, pd, nic, &keys);
		object_put(&mr->obj);
	}
	if (!err)
		*twin = (uint32_t)(keys >> 32);
	return err;
}

/* --- a NIC became ready ---------------------------------------------------------------------- */

static void pd_shadow_again(void *value, void *arg)
{
	struct vpd *pd = value;

	if (vdev_backed_by(pd->dev, arg))
		object_job(&pd->obj, arg, pd_shadow);
}

static void mr_shadow_again(void *value, void *arg)
{
	struct vmr *mr = value;

	if (vdev_backed_by(mr->pd->dev, arg))
		object_memory_job(&mr->obj, arg, mr_shadow, false);
}

void memory_nic_ready(struct nic *nic)
{
	table_each(&pds, pd_shadow_again, nic);
	table_each(&mrs, mr_shadow_again, nic);
}

/* --- room for the program -------------------------------------------------------------------- */

static void mr_drop_job(void *value, void *arg)
{
	struct vmr *mr = value;

	if (vdev_backed_by(mr->pd->dev, arg))
		object_memory_job(&mr->obj, arg, mr_drop_shadow, false);
}

unsigned int memory_drop_shadows(struct nic *nic, int timeout_ms)
{
	unsigned int before = atomic_load(&dropped[nic->index]);

	table_each(&mrs, mr_drop_job, nic);
	worker_drain(nic->memory, timeout_ms);
	return atomic_load(&dropped[nic->index]) - before;
}
