/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The verbs of the libibverbs beneath us. Inside libshift.so a plain call of an exported verb would
 * reach our own, so call real.X instead. real_init() fills the table by dlvsym(RTLD_NEXT) with the
 * exact versions. A function that this libibverbs lacks stays NULL. The table is constant after
 * that: any thread may use it. Parameters, results and errors are those of the verbs.
 */
#ifndef SHIFT_BASE_REAL_VERBS_H
#define SHIFT_BASE_REAL_VERBS_H

#include <infiniband/verbs.h>

/* Name, version, return type, parameters. The library needs all of IBVERBS_1.0 and IBVERBS_1.1;
 * newer ones may be missing. */
#define REAL_VERBS(X)                                                                              \
	X(get_device_list, "IBVERBS_1.1", struct ibv_device **, (int *))                           \
	X(free_device_list, "IBVERBS_1.1", void, (struct ibv_device **))                           \
	X(open_device, "IBVERBS_1.1", struct ibv_context *, (struct ibv_device *))                 \
	X(import_device, "IBVERBS_1.10", struct ibv_context *, (int))                              \
	X(close_device, "IBVERBS_1.1", int, (struct ibv_context *))                                \
	X(get_async_event, "IBVERBS_1.1", int, (struct ibv_context *, struct ibv_async_event *))   \
	X(ack_async_event, "IBVERBS_1.1", void, (struct ibv_async_event *))                        \
	X(query_device, "IBVERBS_1.1", int, (struct ibv_context *, struct ibv_device_attr *))      \
	X(query_port, "IBVERBS_1.1", int,                                                          \
	  (struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *))                         \
	X(query_gid, "IBVERBS_1.1", int, (struct ibv_context *, uint8_t, int, union ibv_gid *))    \
	X(query_pkey, "IBVERBS_1.1", int, (struct ibv_context *, uint8_t, int, __be16 *))          \
	X(alloc_pd, "IBVERBS_1.1", struct ibv_pd *, (struct ibv_context *))                        \
	X(dealloc_pd, "IBVERBS_1.1", int, (struct ibv_pd *))                                       \
	X(reg_mr, "IBVERBS_1.1", struct ibv_mr *, (struct ibv_pd *, void *, size_t, int))          \
	X(reg_mr_iova, "IBVERBS_1.7", struct ibv_mr *,                                             \
	  (struct ibv_pd *, void *, size_t, uint64_t, int))                                        \
	X(reg_mr_iova2, "IBVERBS_1.8", struct ibv_mr *,                                            \
	  (struct ibv_pd *, void *, size_t, uint64_t, unsigned int))                               \
	X(reg_dmabuf_mr, "IBVERBS_1.12", struct ibv_mr *,                                          \
	  (struct ibv_pd *, uint64_t, size_t, uint64_t, int, int))                                 \
	X(rereg_mr, "IBVERBS_1.1", int,                                                            \
	  (struct ibv_mr *, int, struct ibv_pd *, void *, size_t, int))                            \
	X(dereg_mr, "IBVERBS_1.1", int, (struct ibv_mr *))                                         \
	X(create_comp_channel, "IBVERBS_1.0", struct ibv_comp_channel *, (struct ibv_context *))   \
	X(destroy_comp_channel, "IBVERBS_1.0", int, (struct ibv_comp_channel *))                   \
	X(create_cq, "IBVERBS_1.1", struct ibv_cq *,                                               \
	  (struct ibv_context *, int, void *, struct ibv_comp_channel *, int))                     \
	X(resize_cq, "IBVERBS_1.1", int, (struct ibv_cq *, int))                                   \
	X(destroy_cq, "IBVERBS_1.1", int, (struct ibv_cq *))                                       \
	X(get_cq_event, "IBVERBS_1.1", int,                                                        \
	  (struct ibv_comp_channel *, struct ibv_cq **, void **))                                  \
	X(ack_cq_events, "IBVERBS_1.1", void, (struct ibv_cq *, unsigned int))                     \
	X(create_srq, "IBVERBS_1.1", struct ibv_srq *,                                             \
	  (struct ibv_pd *, struct ibv_srq_init_attr *))                                           \
	X(modify_srq, "IBVERBS_1.1", int, (struct ibv_srq *, struct ibv_srq_attr *, int))          \
	X(destroy_srq, "IBVERBS_1.1", int, (struct ibv_srq *))                                     \
	X(create_qp, "IBVERBS_1.1", struct ibv_qp *, (struct ibv_pd *, struct ibv_qp_init_attr *)) \
	X(query_qp, "IBVERBS_1.1", int,                                                            \
	  (struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *))                 \
	X(modify_qp, "IBVERBS_1.1", int, (struct ibv_qp *, struct ibv_qp_attr *, int))             \
	X(destroy_qp, "IBVERBS_1.1", int, (struct ibv_qp *))                                       \
	X(qp_to_qp_ex, "IBVERBS_1.6", struct ibv_qp_ex *, (struct ibv_qp *))                       \
	X(set_ece, "IBVERBS_1.10", int, (struct ibv_qp *, struct ibv_ece *))                       \
	X(query_ece, "IBVERBS_1.10", int, (struct ibv_qp *, struct ibv_ece *))                     \
	X(create_ah, "IBVERBS_1.1", struct ibv_ah *, (struct ibv_pd *, struct ibv_ah_attr *))      \
	X(destroy_ah, "IBVERBS_1.1", int, (struct ibv_ah *))

struct real_verbs {
#define REAL_FIELD(name, version, type, args) type(*name) args;
	REAL_VERBS(REAL_FIELD)
#undef REAL_FIELD
	/* Private to libibverbs and its providers. Its version changes with every release. */
	struct ibv_context *(*verbs_open_device)(struct ibv_device *, void *);
};

extern struct real_verbs real;

/* Fills the table, the first time it is called; to be called before anything else of ours. 0, or
 * -ENOSYS if a verb that the library needs is missing: then everything passes through. Any thread;
 * errno is kept. */
int real_init(void);

#endif
