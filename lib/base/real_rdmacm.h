/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * librdmacm, which we do not depend on: the beginning of its structures, as its ABI has them, and
 * its functions. A program that calls them has loaded it, and only then are they looked up. Any
 * thread, no locks.
 */
#ifndef SHIFT_BASE_REAL_RDMACM_H
#define SHIFT_BASE_REAL_RDMACM_H

#include <infiniband/verbs.h>
#include <stdint.h>
#include <sys/socket.h>

struct rdma_event_channel {
	int fd;
};

struct rdma_cm_id { /* there is more */
	struct ibv_context *verbs;
	struct rdma_event_channel *channel;
	void *context;
	struct ibv_qp *qp; /* NULL: none, or the program has made it itself */
	struct rdma_cm_route {
		struct sockaddr_storage src, dst;
		struct {
			union ibv_gid sgid, dgid;
			__be16 pkey;
		} ib;
		void *path_rec;
		int num_paths;
	} route;
	int port_space;
	uint8_t port_num;
	struct rdma_cm_event *event; /* that librdmacm has read for the program, and acknowledges */
};

struct rdma_cm_event { /* there is more */
	struct rdma_cm_id *id, *listen_id;
	int event; /* enum cm_event_type */
	int status;
};

struct rdma_conn_param {
	const void *private_data;
	uint8_t private_data_len, responder_resources, initiator_depth, flow_control, retry_count,
		rnr_retry_count, srq;
	uint32_t qp_num; /* of a QP that the program has made itself */
};

enum cm_event_type { /* those that we know */
		     CM_EVENT_CONNECT_RESPONSE = 5,
		     CM_EVENT_UNREACHABLE = 7,
		     CM_EVENT_ESTABLISHED = 9,
		     CM_EVENT_DISCONNECTED = 10,
		     CM_EVENT_DEVICE_REMOVAL = 11,
		     CM_EVENT_ADDR_CHANGE = 14,
};

enum { CM_PORT_SPACE_TCP = 0x0106 };

/* Which we stand before, or use. All are of version RDMACM_1.0. */
#define REAL_RDMACM(X)                                                                             \
	X(connect, int, (struct rdma_cm_id * id, struct rdma_conn_param * param))                  \
	X(accept, int, (struct rdma_cm_id * id, struct rdma_conn_param * param))                   \
	X(disconnect, int, (struct rdma_cm_id * id))                                               \
	X(destroy_qp, void, (struct rdma_cm_id * id))                                              \
	X(destroy_id, int, (struct rdma_cm_id * id))                                               \
	X(destroy_ep, void, (struct rdma_cm_id * id))                                              \
	X(migrate_id, int, (struct rdma_cm_id * id, struct rdma_event_channel * channel))          \
	X(destroy_event_channel, void, (struct rdma_event_channel * channel))                      \
	X(get_cm_event, int, (struct rdma_event_channel * channel, struct rdma_cm_event * *event)) \
	X(ack_cm_event, int, (struct rdma_cm_event * event))                                       \
	X(create_id, int,                                                                          \
	  (struct rdma_event_channel * channel, struct rdma_cm_id * *id, void *context, int ps))   \
	X(resolve_addr, int,                                                                       \
	  (struct rdma_cm_id * id, struct sockaddr * src, struct sockaddr * dst, int timeout_ms))

struct real_rdmacm {
#define FIELD(name, type, args) type(*name) args;
	REAL_RDMACM(FIELD)
#undef FIELD
};

/* To be called before it is used. NULL: librdmacm is not loaded, or lacks one of them. */
const struct real_rdmacm *real_rdmacm(void);

#endif
