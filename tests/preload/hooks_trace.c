// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Hooks that do the real verb and say so on standard output; linked with the real exports. */
#include <dlfcn.h>
#include <stdio.h>

#include "lib/base/real_verbs.h"
#include "lib/base/reentry.h"
#include "lib/conn/memlock.h"
#include "lib/object/cq.h"
#include "lib/object/memory.h"
#include "lib/object/vsrq.h"
#include "lib/session/start.h"
#include "lib/verbs/async_events.h"
#include "lib/verbs/bypass.h"
#include "lib/verbs/cm_ids.h"
#include "lib/verbs/completion_events.h"
#include "lib/verbs/context.h"
#include "lib/verbs/qp.h"
#include "lib/verbs/qp_ex.h"

static void say(const char *name)
{
	if (hooks_off)
		fputs("with hooks_off: ", stdout);
	puts(name);
}

/* As the library's own verbs would come back to its exports: not to be seen again. */
struct ibv_context *hook_opened(struct ibv_context *ctx)
{
	struct ibv_pd *(*alloc_pd)(struct ibv_context *) = dlsym(RTLD_DEFAULT, "ibv_alloc_pd");
	int (*dealloc_pd)(struct ibv_pd *) = dlsym(RTLD_DEFAULT, "ibv_dealloc_pd");

	say(ctx ? "opened" : "not opened");
	if (!ctx)
		return NULL;
	hooks_off = true;
	dealloc_pd(alloc_pd(ctx));
	hooks_off = false;
	return ctx;
}

int hook_close_device(struct ibv_context *ctx)
{
	say("close_device");
	return real.close_device(ctx);
}

int hook_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	say("get_async_event");
	return real.get_async_event(ctx, event);
}

void hook_ack_async_event(struct ibv_async_event *event)
{
	say("ack_async_event");
	real.ack_async_event(event);
}

struct ibv_pd *hook_alloc_pd(struct ibv_context *ctx)
{
	say("alloc_pd");
	return real.alloc_pd(ctx);
}

int hook_dealloc_pd(struct ibv_pd *pd)
{
	say("dealloc_pd");
	return real.dealloc_pd(pd);
}

unsigned int memlock_rooms_made(void)
{
	return 0;
}

bool memlock_make_room(struct ibv_context *ctx, unsigned int *seen)
{
	(void)ctx;
	(void)seen;
	return false;
}

struct ibv_mr *hook_registered(struct ibv_mr *mr, uint64_t addr_or_offset, size_t length,
			       uint64_t iova, unsigned int access, int fd)
{
	char line[128];

	snprintf(line, sizeof(line), "%s at %#llx, %zu bytes, iova %#llx, access %#x, %s",
		 mr ? "registered" : "not registered", (unsigned long long)addr_or_offset, length,
		 (unsigned long long)iova, access, fd < 0 ? "no fd" : "fd");
	say(line);
	return mr;
}

int hook_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access)
{
	say("rereg_mr");
	return real.rereg_mr(mr, flags, pd, addr, length, access);
}

int hook_dereg_mr(struct ibv_mr *mr)
{
	say("dereg_mr");
	return real.dereg_mr(mr);
}

struct ibv_comp_channel *hook_created_channel(struct ibv_comp_channel *channel)
{
	say("create_channel");
	return channel;
}

int hook_destroy_channel(struct ibv_comp_channel *channel)
{
	say("destroy_channel");
	return real.destroy_comp_channel(channel);
}

int hook_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	say("get_cq_event");
	return real.get_cq_event(channel, cq, cq_context);
}

void hook_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	printf("ack_cq_events of %u\n", n);
	real.ack_cq_events(cq, n);
}

struct ibv_comp_channel *channel_for_kernel(struct ibv_comp_channel *program)
{
	return program;
}

struct ibv_cq_init_attr_ex *channel_attr_for_kernel(const struct ibv_cq_init_attr_ex *attr,
						    struct ibv_cq_init_attr_ex *copy)
{
	return memcpy(copy, attr, sizeof(*copy));
}

struct ibv_cq_ex *channel_adopt_cq_ex(struct ibv_cq_ex *cq, struct ibv_comp_channel *program)
{
	(void)program;
	return cq;
}

void channel_adopt_cq(struct ibv_cq *cq, struct ibv_comp_channel *program)
{
	(void)cq;
	(void)program;
}

struct ibv_cq *hook_created_cq(struct ibv_cq *cq, struct ibv_comp_channel *channel)
{
	(void)channel;
	say("create_cq");
	return cq;
}

int hook_resize_cq(struct ibv_cq *cq, int cqe)
{
	say("resize_cq");
	return real.resize_cq(cq, cqe);
}

int hook_destroy_cq(struct ibv_cq *cq)
{
	say("destroy_cq");
	return real.destroy_cq(cq);
}

struct ibv_srq *hook_created_srq(struct ibv_srq *srq, struct ibv_pd *pd,
				 const struct ibv_srq_init_attr *attr)
{
	(void)pd;
	(void)attr;
	say("created_srq");
	return srq;
}

int hook_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	say("modify_srq");
	return real.modify_srq(srq, attr, mask);
}

int hook_destroy_srq(struct ibv_srq *srq)
{
	say("destroy_srq");
	return real.destroy_srq(srq);
}

struct ibv_qp *hook_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	say("create_qp");
	return real.create_qp(pd, attr);
}

int hook_init_direct_obj(struct ibv_qp *qp, struct ibv_cq *cq)
{
	say(qp && cq ? "init_obj of both" : qp ? "init_obj of a QP" : "init_obj of a CQ");
	return 0;
}

struct ibv_qp *hook_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr,
				 make_qp_fn *make, void *more, enum stats_unprotected why)
{
	say(why ? "created around" : "create_qp_ex");
	return make(c, attr, more);
}

void hook_created_devx_qp(struct ibv_context *c, const void *obj)
{
	(void)c;
	(void)obj;
	say("created by DevX");
}

int hook_destroy_devx(void *obj, int (*destroy)(void *obj))
{
	say("destroyed by DevX");
	return destroy(obj);
}

struct ibv_mr *hook_registered_direct(struct ibv_mr *mr, uint64_t offset, size_t length,
				      uint64_t iova, int fd, unsigned int access,
				      const struct direct_reg *direct)
{
	(void)offset;
	(void)length;
	(void)iova;
	(void)fd;
	(void)access;
	(void)direct;
	say("registered around");
	return mr;
}

int hook_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		  struct ibv_qp_init_attr *init_attr)
{
	say("query_qp");
	return real.query_qp(qp, attr, attr_mask, init_attr);
}

int hook_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	say("modify_qp");
	return real.modify_qp(qp, attr, attr_mask);
}

int hook_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	say("set_ece");
	return real.set_ece(qp, ece);
}

int hook_destroy_qp(struct ibv_qp *qp)
{
	say("destroy_qp");
	return real.destroy_qp(qp);
}

void cm_set_real(const struct real_rdmacm *rdmacm)
{
	(void)rdmacm;
}

void hook_cm_connects(struct rdma_cm_id *id, const struct rdma_conn_param *param)
{
	(void)id;
	(void)param;
	say("cm_connects");
}

void hook_cm_disconnects(struct rdma_cm_id *id, bool expects)
{
	(void)id;
	say(expects ? "cm_disconnects" : "cm_leaves");
}

int hook_cm_disconnect(struct rdma_cm_id *id)
{
	say("cm_disconnect");
	return real_rdmacm()->disconnect(id);
}

int hook_cm_destroy_id(struct rdma_cm_id *id)
{
	say("cm_destroy_id");
	return real_rdmacm()->destroy_id(id);
}

void hook_cm_destroy_ep(struct rdma_cm_id *id)
{
	(void)id;
	say("cm_destroy_ep");
}

void hook_cm_destroys_channel(struct rdma_event_channel *channel)
{
	(void)channel;
	say("cm_destroys_channel");
}

int hook_cm_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	say("cm_migrate_id");
	return real_rdmacm()->migrate_id(id, channel);
}

int hook_cm_get_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	say("cm_get_event");
	return real_rdmacm()->get_cm_event(channel, event);
}

int hook_cm_ack_event(struct rdma_cm_event *event)
{
	say("cm_ack_event");
	return real_rdmacm()->ack_cm_event(event);
}
