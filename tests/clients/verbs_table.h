/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The verbs as NCCL finds them: libibverbs.so.1 by dlopen(), each function by dlvsym(). A program
 * that uses this is not linked with libibverbs, and calls verbs.NAME() where others call
 * ibv_NAME().
 */
#ifndef TESTS_CLIENTS_VERBS_TABLE_H
#define TESTS_CLIENTS_VERBS_TABLE_H

#include <infiniband/verbs.h>

#define VERBS_TABLE(X)                                                                            \
	X(get_device_list, struct ibv_device **, (int *))                                         \
	X(free_device_list, void, (struct ibv_device **))                                         \
	X(get_device_name, const char *, (struct ibv_device *))                                   \
	X(open_device, struct ibv_context *, (struct ibv_device *))                               \
	X(close_device, int, (struct ibv_context *))                                              \
	X(query_port, int, (struct ibv_context *, uint8_t, struct ibv_port_attr *))               \
	X(query_gid, int, (struct ibv_context *, uint8_t, int, union ibv_gid *))                  \
	X(alloc_pd, struct ibv_pd *, (struct ibv_context *))                                      \
	X(dealloc_pd, int, (struct ibv_pd *))                                                     \
	X(reg_mr, struct ibv_mr *, (struct ibv_pd *, void *, size_t, int))                        \
	X(dereg_mr, int, (struct ibv_mr *))                                                       \
	X(create_cq, struct ibv_cq *,                                                             \
	  (struct ibv_context *, int, void *, struct ibv_comp_channel *, int))                    \
	X(destroy_cq, int, (struct ibv_cq *))                                                     \
	X(create_qp, struct ibv_qp *, (struct ibv_pd *, struct ibv_qp_init_attr *))               \
	X(modify_qp, int, (struct ibv_qp *, struct ibv_qp_attr *, int))                           \
	X(query_qp, int, (struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *)) \
	X(destroy_qp, int, (struct ibv_qp *))                                                     \
	X(get_async_event, int, (struct ibv_context *, struct ibv_async_event *))                 \
	X(ack_async_event, void, (struct ibv_async_event *))                                      \
	X(event_type_str, const char *, (enum ibv_event_type))

struct verbs_table {
#define X(name, type, arguments) type(*name) arguments;
	VERBS_TABLE(X)
#undef X
};

extern struct verbs_table verbs;

/* Returns NULL, or what is missing. */
const char *verbs_table_load(void);

#endif
