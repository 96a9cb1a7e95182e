/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the exported verbs (exports.c) and the pointers in an opened context call: one function per
 * verb that concerns us, with the verb's own parameters and return value. Each does the real verb
 * and then whatever we owe. An object that is not the program's, or not known, passes straight
 * through.
 */
#ifndef SHIFT_VERBS_HOOKS_H
#define SHIFT_VERBS_HOOKS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* true while this thread calls verbs on our own behalf: everything passes through. */
extern _Thread_local bool hooks_off;

/* A real verb on a thread of the program: what it calls in its turn is no call of the program's. */
#define quietly(call)                            \
	({                                       \
		bool was_off = hooks_off;        \
		hooks_off = true;                \
		__typeof__(call) result_ = call; \
		hooks_off = was_off;             \
		result_;                         \
	})

/* The child of a fork() has none of our threads: its verbs are the real ones, and what it destroys
 * or resets is no longer ours. Warns the first time. */
bool hook_forked(void);

/* A context the program has got, by whatever way (open, import, mlx5dv). ctx may be NULL. */
struct ibv_context *hook_opened(struct ibv_context *ctx);
int hook_close_device(struct ibv_context *ctx);

int hook_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event);

struct ibv_pd *hook_alloc_pd(struct ibv_context *ctx);
int hook_dealloc_pd(struct ibv_pd *pd);
struct ibv_pd *hook_alloc_parent_domain(struct ibv_context *ctx,
					struct ibv_parent_domain_init_attr *attr);

/*
 * A real verb of that device has failed with ENOMEM, in errno: our shadows may have taken what the
 * program may lock. true: some are gone, try again. seen: hook_rooms() before the first try.
 */
unsigned int hook_rooms(void);
bool hook_make_room(struct ibv_context *ctx, unsigned int *seen);

/* A pointer that such a verb returns. */
#define with_room(ctx, call)                                      \
	({                                                        \
		unsigned int seen_ = hook_rooms();                \
		__typeof__(call) got_;                            \
		do {                                              \
			got_ = quietly(call);                     \
		} while (!got_ && hook_make_room((ctx), &seen_)); \
		got_;                                             \
	})

/* After a real registration (any variant) that returned mr, which may be NULL; fd -1: not dmabuf.
 */
struct ibv_mr *hook_registered(struct ibv_mr *mr, uint64_t addr_or_offset, size_t length,
			       uint64_t iova, unsigned int access, int fd);
int hook_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access);
int hook_dereg_mr(struct ibv_mr *mr);

struct ibv_cq *hook_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			      struct ibv_comp_channel *channel, int comp_vector);
int hook_resize_cq(struct ibv_cq *cq, int cqe);
int hook_destroy_cq(struct ibv_cq *cq);

struct ibv_qp *hook_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
/* Before the program gets the queues of a QP or CQ themselves; either may be NULL. 0, or EBUSY: it
 * cannot have them any more. */
int hook_init_obj(struct ibv_qp *qp, struct ibv_cq *cq);
/* After a QP was made by direct verbs. */
void hook_created_around(struct ibv_qp *qp);
int hook_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		  struct ibv_qp_init_attr *init_attr);
int hook_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
int hook_destroy_qp(struct ibv_qp *qp);

#endif
