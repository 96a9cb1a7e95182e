/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * --rdma-cm: the QPs are connected by librdmacm, over the device and GID that the options name. The
 * program hears what a program should: each connection is established once, and is disconnected
 * once, at its end. Any other event is a violation.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "tests/clients/integrity/integrity.h"

enum { RESOLVE_MS = 5000, EVENT_MS = 30000, BACKLOG = 1024 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener, *first; /* of the server; of the client, for lane 0 */
static struct sockaddr_storage own, peer;

/* The address whose GID is the one that the options name. */
static void own_address(const struct device *d, struct sockaddr_storage *to)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
	struct sockaddr_in *in = (struct sockaddr_in *)to;
	union ibv_gid gid;

	if (ibv_query_gid(d->context, opt.ib_port, opt.gid_index, &gid))
		fail("query_gid");
	memset(to, 0, sizeof(*to));
	if (IN6_IS_ADDR_V4MAPPED((struct in6_addr *)gid.raw)) {
		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, gid.raw + 12, 4);
	} else {
		in6->sin6_family = AF_INET6;
		memcpy(&in6->sin6_addr, gid.raw, 16);
	}
}

/* NULL: there is none for so long. */
static struct rdma_cm_event *event_get(int timeout_ms)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};
	double until_ms = now_ms() + timeout_ms;
	struct rdma_cm_event *e;

	for (;;) {
		double left_ms = until_ms - now_ms();

		if (!rdma_get_cm_event(channel, &e))
			return e;
		if (errno != EAGAIN)
			fail("rdma_get_cm_event");
		if (left_ms <= 0)
			return NULL;
		poll(&p, 1, (int)left_ms + 1);
	}
}

/* Of any id, while connections are made. Acknowledges it. */
static struct rdma_cm_id *event_expect(enum rdma_cm_event_type type, uint32_t *lane)
{
	struct rdma_cm_event *e = event_get(EVENT_MS);
	struct rdma_cm_id *id;

	if (!e || e->event != type) {
		fprintf(stderr, "integrity: %s, not %s\n", e ? rdma_event_str(e->event) : "nothing",
			rdma_event_str(type));
		errno = e && e->status < 0 ? -e->status : EPROTO;
		fail("RDMA-CM");
	}
	id = e->id;
	if (lane && e->param.conn.private_data_len >= sizeof(*lane))
		memcpy(lane, e->param.conn.private_data, sizeof(*lane));
	rdma_ack_cm_event(e);
	return id;
}

static void open_channel(void)
{
	channel = rdma_create_event_channel();
	if (!channel)
		fail("rdma_create_event_channel");
	fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
}

static struct rdma_cm_id *id_new(void)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		fail("rdma_create_id");
	return id;
}

static struct rdma_cm_id *id_resolved(void)
{
	struct rdma_cm_id *id = id_new();

	if (rdma_resolve_addr(id, (struct sockaddr *)&own, (struct sockaddr *)&peer, RESOLVE_MS))
		fail("rdma_resolve_addr");
	event_expect(RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	return id;
}

/* librdmacm has a context of its own. */
static void cm_open(struct run *r, struct device *d)
{
	own_address(d, &own);
	ibv_close_device(d->context);
	open_channel();
	if (!opt.peer) {
		listener = id_new();
		if (rdma_bind_addr(listener, (struct sockaddr *)&own) ||
		    rdma_listen(listener, BACKLOG))
			fail("rdma_listen");
		own = *(struct sockaddr_storage *)rdma_get_local_addr(listener);
		if (!net_send(r, &own, sizeof(own)))
			fail("the peer left");
	} else {
		if (!net_receive(r, &peer, sizeof(peer)))
			fail("the peer left");
		first = id_resolved();
	}
	d->context = opt.peer ? first->verbs : listener->verbs;
}

static struct rdma_conn_param param_of(const struct lane *l)
{
	return (struct rdma_conn_param){.private_data = &l->index,
					.private_data_len = sizeof(l->index),
					.responder_resources = opt.rd_atomic,
					.initiator_depth = opt.rd_atomic,
					.retry_count = opt.retry,
					.rnr_retry_count = opt.rnr_retry};
}

static struct rdma_cm_id *id_of(const struct lane *l)
{
	struct rdma_cm_id *id = first;
	uint32_t lane = UINT32_MAX;

	if (!opt.peer) {
		id = event_expect(RDMA_CM_EVENT_CONNECT_REQUEST, &lane);
		if (lane != l->index)
			fail("another connection's request");
		return id;
	}
	first = NULL;
	return id ? id : id_resolved();
}

/* The client asks for the connection at once. */
static void cm_create_qp(struct lane *l, struct ibv_qp_init_attr_ex *attr)
{
	struct rdma_conn_param param = param_of(l);
	uint8_t timeout = opt.timeout;

	l->id = id_of(l);
	rdma_set_option(l->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			sizeof(timeout));
	if (opt.peer && rdma_resolve_route(l->id, RESOLVE_MS))
		fail("rdma_resolve_route");
	if (opt.peer)
		event_expect(RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	if (opt.wr_api ? rdma_create_qp_ex(l->id, attr)
		       : rdma_create_qp(l->id, attr->pd, (struct ibv_qp_init_attr *)attr))
		fail("rdma_create_qp");
	l->qp = l->id->qp;
	if (opt.peer && rdma_connect(l->id, &param))
		fail("rdma_connect");
}

/* The connection manager has a timer of its own for receivers that are not ready: 655 ms. */
static void cm_connect(struct lane *l)
{
	struct ibv_qp_attr attr = {.min_rnr_timer = opt.min_rnr_timer};
	struct rdma_conn_param param = param_of(l);

	if (!opt.peer && rdma_accept(l->id, &param))
		fail("rdma_accept");
	if (event_expect(RDMA_CM_EVENT_ESTABLISHED, NULL) != l->id)
		fail("another connection is established");
	if (ibv_modify_qp(l->qp, &attr, IBV_QP_MIN_RNR_TIMER))
		fail("modify_qp, the RNR timer");
}

static struct lane *lane_of(struct run *r, const struct rdma_cm_id *id)
{
	for (uint32_t i = 0; i < opt.w.qps; i++)
		if (r->lanes[i].id == id)
			return &r->lanes[i];
	fprintf(stderr, "integrity: an event of no connection\n");
	return &r->lanes[0];
}

/* Returns whether it is the first DISCONNECTED of a connection; what else it is, is counted. */
static bool event_ends(struct run *r, struct rdma_cm_event *e, bool may_end)
{
	struct lane *l = lane_of(r, e->id);
	bool ends = may_end && e->event == RDMA_CM_EVENT_DISCONNECTED && !l->disconnected;

	if (!ends) {
		l->n.bad_events++;
		fprintf(stderr, "integrity: qp %u: %s, %d\n", l->index, rdma_event_str(e->event),
			e->status);
	}
	l->disconnected |= ends;
	rdma_ack_cm_event(e);
	return ends;
}

static void disconnect_all(struct run *r)
{
	for (uint32_t i = 0; i < opt.w.qps; i++)
		rdma_disconnect(r->lanes[i].id);
}

/* All connections are alive, and nobody has said anything else. The client ends them, and both
 * sides hear so. */
static void cm_disconnect(struct run *r)
{
	struct rdma_cm_event *e;
	uint32_t ended = 0;
	char byte = 0;

	while ((e = event_get(0)))
		event_ends(r, e, false);
	if (!net_swap(r, &byte, &byte, 1))
		return; /* it has left, which is told elsewhere */
	if (opt.peer)
		disconnect_all(r);
	while (ended < opt.w.qps && (e = event_get(EVENT_MS)))
		ended += event_ends(r, e, true);
	for (uint32_t i = 0; i < opt.w.qps; i++)
		if (!r->lanes[i].disconnected) {
			fprintf(stderr, "integrity: qp %u: no DISCONNECTED\n", i);
			r->lanes[i].n.bad_events++;
		}
	if (!opt.peer)
		disconnect_all(r);
}

static void cm_close_lane(struct lane *l)
{
	rdma_destroy_qp(l->id);
	rdma_destroy_id(l->id);
}

static void cm_close(void)
{
	if (listener)
		rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
}

static const struct cm_calls calls = {.open = cm_open,
				      .create_qp = cm_create_qp,
				      .connect = cm_connect,
				      .disconnect = cm_disconnect,
				      .close_lane = cm_close_lane,
				      .close = cm_close};

const struct cm_calls *const cm = &calls;
