/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How two ends of the example's plugin find each other: over TCP, in steps that never wait. The
 * sender connects to where the receiver listens; each tells the other its QPs; and the sender says
 * when its QPs can receive, as the first RDMA of a connection goes to the sender.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "examples/nccl/net_verbs.h"

/* In the NET_HANDLE_BYTES that NCCL carries from the receiver to the sender. */
struct handle {
	uint64_t cookie;
	struct sockaddr_in at;
	struct comm *comm; /* of the sender, between two calls of connect */
};

_Static_assert(sizeof(struct handle) <= NET_HANDLE_BYTES, "NCCL has no room for more");

/* --- QPs -------------------------------------------------------------------------------------- */

static struct ibv_qp *make_qp(struct comm *c, int access)
{
	struct ibv_qp_init_attr init = {.send_cq = c->cq,
					.recv_cq = c->cq,
					.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 2 * NET_REQUESTS_MAX,
						.max_recv_wr = NET_REQUESTS_MAX,
						.max_send_sge = 1,
						.max_recv_sge = 1,
						.max_inline_data = sizeof(struct wanted)}};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = c->nic->port, .qp_access_flags = access};
	struct ibv_qp *qp = ibv_create_qp(c->nic->pd, &init);

	if (qp &&
	    ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) {
		ibv_destroy_qp(qp);
		qp = NULL;
	}
	return qp;
}

static bool connect_qp(const struct comm *c, struct ibv_qp *qp, uint32_t qpn,
		       const struct address *to)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = to->mtu < c->own.mtu ? to->mtu : c->own.mtu,
		.dest_qp_num = qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.dlid = to->lid,
			    .port_num = c->nic->port,
			    .is_global = 1,
			    .grh = {.dgid = to->gid,
				    .sgid_index = net_setting("NCCL_IB_GID_INDEX", 0),
				    .hop_limit = 255,
				    .traffic_class = net_setting("NCCL_IB_TC", 0)}}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = net_setting("NCCL_IB_TIMEOUT", 20),
				  .retry_cnt = net_setting("NCCL_IB_RETRY_CNT", 7),
				  .rnr_retry = 7,
				  .max_rd_atomic = 1};

	return !ibv_modify_qp(qp, &rtr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER) &&
	       !ibv_modify_qp(qp, &rts,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static bool make_qps(struct comm *c)
{
	for (c->qps = 0; c->qps < c->own.qps; c->qps++) {
		c->qp[c->qps] = make_qp(c, IBV_ACCESS_REMOTE_WRITE);
		if (!c->qp[c->qps])
			return false;
		c->own.qpn[c->qps] = c->qp[c->qps]->qp_num;
	}
	if (c->sends)
		return true;
	c->flush_qp = make_qp(c, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	return c->flush_qp && connect_qp(c, c->flush_qp, c->flush_qp->qp_num, &c->own);
}

/* --- a communicator --------------------------------------------------------------------------- */

void connection_close(struct comm *c)
{
	for (unsigned int i = 0; i < c->qps; i++)
		ibv_destroy_qp(c->qp[i]);
	if (c->flush_qp)
		ibv_destroy_qp(c->flush_qp);
	if (c->mr)
		ibv_dereg_mr(c->mr);
	if (c->cq)
		ibv_destroy_cq(c->cq);
	if (c->fd >= 0)
		close(c->fd);
	free(c);
}

static struct comm *comm_new(struct nic *nic, bool sends, int fd, uint64_t cookie)
{
	struct ibv_port_attr port;
	struct comm *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return NULL;
	}
	*c = (struct comm){.nic = nic, .sends = sends, .fd = fd};
	c->own.cookie = cookie;
	c->own.qps = net_setting("NCCL_IB_QPS_PER_CONNECTION", 1);
	c->cq = ibv_create_cq(nic->context, 4 * NET_REQUESTS_MAX * QPS_MAX, NULL, NULL, 0);
	c->mr = ibv_reg_mr(nic->pd, c, sizeof(*c),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (c->own.qps < 1 || c->own.qps > QPS_MAX || !c->cq || !c->mr ||
	    ibv_query_port(nic->context, nic->port, &port) ||
	    ibv_query_gid(nic->context, nic->port, net_setting("NCCL_IB_GID_INDEX", 0),
			  &c->own.gid))
		goto failed;
	c->own.mtu = port.active_mtu;
	c->own.lid = port.lid;
	c->own.wanted = (uintptr_t)c->wanted;
	c->own.wanted_rkey = c->mr->rkey;
	if (make_qps(c))
		return c;
failed:
	net_warn("%s: no connection can be made: %s", nic->name, strerror(errno));
	connection_close(c);
	return NULL;
}

/* --- its steps -------------------------------------------------------------------------------- */

/* As much as can be sent or received without waiting. Negative: the peer has left. 1: all of it. */
static int transfer(struct comm *c, void *bytes, size_t n, bool send_it)
{
	while (c->transferred < n) {
		char *at = (char *)bytes + c->transferred;
		ssize_t done = send_it ? send(c->fd, at, n - c->transferred, MSG_NOSIGNAL)
				       : recv(c->fd, at, n - c->transferred, 0);

		if (done < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (done <= 0)
			return -1;
		c->transferred += done;
	}
	c->transferred = 0;
	return 1;
}

static int has_connected(const struct comm *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLOUT};
	socklen_t n = sizeof(errno);
	int error = 0;

	if (!poll(&p, 1, 0))
		return 0;
	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &n) || error) {
		errno = error ? error : errno;
		return -1;
	}
	return 1;
}

static int connect_qps(const struct comm *c)
{
	if (c->peer.cookie != c->own.cookie || c->peer.qps != c->qps) {
		errno = EPROTO;
		return -1;
	}
	for (unsigned int i = 0; i < c->qps; i++)
		if (!connect_qp(c, c->qp[i], c->peer.qpn[i], &c->peer))
			return -1;
	return 1;
}

/* 0: not now. Negative: this connection comes to nothing. 1: it has made this step. */
static int step(struct comm *c)
{
	int done = 1;

	switch (c->stage) {
	case CONNECTING: return c->sends ? has_connected(c) : 1;
	case TELLING: return transfer(c, &c->own, sizeof(c->own), true);
	case HEARING:
		done = transfer(c, &c->peer, sizeof(c->peer), false);
		return done > 0 ? connect_qps(c) : done;
	case READY_TELLING: return c->sends ? transfer(c, &c->ready, 1, true) : 1;
	case READY_HEARING: return c->sends ? 1 : transfer(c, &c->ready, 1, false);
	case CONNECTED: break;
	}
	return done;
}

static enum net_result advance(struct comm **connecting, void **comm)
{
	struct comm *c = *connecting;
	int done = 1;

	while (c->stage != CONNECTED && (done = step(c)) > 0)
		c->stage++;
	if (done > 0)
		*comm = c;
	if (done < 0) {
		net_warn("%s: connecting: %s", c->nic->name, strerror(errno));
		connection_close(c);
	}
	if (done)
		*connecting = NULL;
	return done < 0 ? NET_REMOTE_ERROR : NET_SUCCESS;
}

/* --- TCP -------------------------------------------------------------------------------------- */

/* The address of the interface in NCCL_SOCKET_IFNAME, or of the first one that is up. */
static bool own_address(struct sockaddr_in *own)
{
	const char *wanted = getenv("NCCL_SOCKET_IFNAME");
	struct ifaddrs *all, *i;
	bool found = false;

	if (getifaddrs(&all))
		return false;
	for (i = all; i && !found; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP) ||
		    (!wanted && i->ifa_flags & IFF_LOOPBACK) ||
		    (wanted && strncmp(i->ifa_name, wanted, strlen(wanted))))
			continue;
		memcpy(own, i->ifa_addr, sizeof(*own));
		own->sin_port = 0;
		found = true;
	}
	freeifaddrs(all);
	errno = ENODEV;
	return found;
}

enum net_result connection_listen(struct nic *nic, void *handle, void **listener)
{
	struct handle *h = handle;
	socklen_t n = sizeof(h->at);
	struct listener *l = calloc(1, sizeof(*l));

	if (!l)
		return NET_SYSTEM_ERROR;
	memset(h, 0, sizeof(*h));
	*l = (struct listener){.nic = nic, .fd = -1};
	if (own_address(&h->at) &&
	    getrandom(&l->cookie, sizeof(l->cookie), 0) == sizeof(l->cookie) &&
	    (l->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) >= 0 &&
	    !bind(l->fd, (struct sockaddr *)&h->at, n) && !listen(l->fd, 8) &&
	    !getsockname(l->fd, (struct sockaddr *)&h->at, &n)) {
		h->cookie = l->cookie;
		*listener = l;
		return NET_SUCCESS;
	}
	net_warn("listening: %s", strerror(errno));
	connection_close_listen(l);
	return NET_SYSTEM_ERROR;
}

void connection_close_listen(struct listener *l)
{
	if (l->arriving)
		connection_close(l->arriving);
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}

enum net_result connection_connect(struct nic *nic, void *handle, void **comm)
{
	struct handle *h = handle;
	int fd;

	*comm = NULL;
	if (!h->comm) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return NET_SYSTEM_ERROR;
		if (connect(fd, (struct sockaddr *)&h->at, sizeof(h->at)) && errno != EINPROGRESS) {
			net_warn("connecting: %s", strerror(errno));
			close(fd);
			return NET_REMOTE_ERROR;
		}
		h->comm = comm_new(nic, true, fd, h->cookie);
	}
	return h->comm ? advance(&h->comm, comm) : NET_SYSTEM_ERROR;
}

enum net_result connection_accept(struct listener *l, void **comm)
{
	int fd;

	*comm = NULL;
	if (!l->arriving) {
		fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return errno == EAGAIN ? NET_SUCCESS : NET_SYSTEM_ERROR;
		l->arriving = comm_new(l->nic, false, fd, l->cookie);
	}
	return l->arriving ? advance(&l->arriving, comm) : NET_SYSTEM_ERROR;
}
