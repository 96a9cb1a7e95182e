/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the parts of the example's plugin share: net_verbs.c carries data, net_connect.c connects.
 */
#ifndef EXAMPLES_NCCL_NET_VERBS_H
#define EXAMPLES_NCCL_NET_VERBS_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "examples/nccl/net_plugin.h"

enum { NICS_MAX = 16, QPS_MAX = 8 };

struct nic {
	char name[64], pci_path[256];
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint64_t guid;
	int port, speed_mbps;
	atomic_bool fatal; /* an asynchronous event has said so */
};

/* What the receiver writes into the sender's memory: where it wants its next message. */
struct wanted {
	uint64_t address;
	uint32_t rkey, bytes, tag, unused;
	uint64_t number; /* of the message, from 1; the last that arrives */
};

struct request {
	struct comm *comm;     /* NULL: free */
	unsigned int expected; /* completions that are still to come */
	uint32_t bytes;
};

/* What each end tells the other over TCP, in the machine's own layout. */
struct address {
	uint64_t cookie, wanted;
	union ibv_gid gid;
	uint32_t qpn[QPS_MAX], qps, wanted_rkey, mtu;
	uint16_t lid;
};

enum stage { CONNECTING, TELLING, HEARING, READY_TELLING, READY_HEARING, CONNECTED };

struct comm {
	struct nic *nic;
	bool sends;
	unsigned int qps;
	struct ibv_cq *cq;
	struct ibv_qp *qp[QPS_MAX], *flush_qp;
	struct wanted wanted[NET_REQUESTS_MAX]; /* of the sender: written by the receiver */
	char flushed;
	struct ibv_mr *mr; /* of this structure */
	struct request requests[NET_REQUESTS_MAX];
	uint64_t begun;

	/* while it is being connected */
	int fd;
	enum stage stage;
	size_t transferred;
	struct address own, peer;
	char ready;
};

struct listener {
	struct nic *nic;
	uint64_t cookie;
	int fd;
	struct comm *arriving;
};

extern net_log_fn net_log;
#define net_warn(...) net_log(NET_LOG_WARN, NET_LOG_NET, __FILE__, __LINE__, __VA_ARGS__)
#define net_info(...) net_log(NET_LOG_INFO, NET_LOG_NET, __FILE__, __LINE__, __VA_ARGS__)

/* The number in that variable of the environment, or, if there is none, the other. */
int net_setting(const char *name, int otherwise);

/* The ends of a connection. Each is called again until it gives a communicator (or an error). */
enum net_result connection_listen(struct nic *nic, void *handle, void **listener);
enum net_result connection_connect(struct nic *nic, void *handle, void **comm);
enum net_result connection_accept(struct listener *l, void **comm);
void connection_close_listen(struct listener *l);
void connection_close(struct comm *c);

#endif
