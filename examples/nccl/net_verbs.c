/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A network plugin for NCCL in as few verbs as NCCL's own network code uses, for trying out what
 * carries it. It reads NCCL's settings: NCCL_IB_HCA, NCCL_IB_GID_INDEX, NCCL_IB_TIMEOUT,
 * NCCL_IB_RETRY_CNT, NCCL_IB_QPS_PER_CONNECTION, NCCL_IB_TC, NCCL_SOCKET_IFNAME.
 *
 * irecv WRITEs into the sender's memory where the message is wanted, and posts a receive without a
 * buffer on each QP. isend gives each QP a part of the message by WRITE_WITH_IMM. iflush READs a
 * byte of what was received over a QP that is connected to itself: on a GPU this makes what the NIC
 * has written visible. As with NCCL, one error completion or one asynchronous event that is fatal
 * ends it all.
 */
#include "examples/nccl/net_verbs.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PART_BYTES = 128, POLLED_AT_ONCE = 8 };
#define NO_REQUEST UINT64_MAX

net_log_fn net_log;
static struct nic nics[NICS_MAX];
static int nic_count;

int net_setting(const char *name, int otherwise)
{
	const char *s = getenv(name);

	return s && *s ? atoi(s) : otherwise;
}

/* --- NICs ------------------------------------------------------------------------------------- */

static bool is_fatal(enum ibv_event_type type)
{
	switch ((int)type) {
	case IBV_EVENT_DEVICE_FATAL:
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR: return true;
	}
	return false;
}

/* For as long as the process lives, as NCCL's does. */
static void *wait_for_events(void *arg)
{
	struct nic *nic = arg;
	struct ibv_async_event e;

	while (!ibv_get_async_event(nic->context, &e)) {
		net_warn("%s: %s", nic->name, ibv_event_type_str(e.event_type));
		if (is_fatal(e.event_type))
			nic->fatal = true;
		ibv_ack_async_event(&e);
	}
	return NULL;
}

/* NCCL_IB_HCA: names, or beginnings of names, with commas between them; "=" before: whole names. */
static bool is_chosen(const char *name)
{
	const char *s = getenv("NCCL_IB_HCA");
	bool exact = s && *s == '=';
	size_t n;

	if (!s || !*s)
		return true;
	for (s += exact; *s; s += n + (s[n] == ',')) {
		n = strcspn(s, ",");
		if (n && !strncmp(name, s, n) && (!exact || !name[n]))
			return true;
	}
	return false;
}

static int speed_mbps(const struct ibv_port_attr *port)
{
	static const int of_lane[] = {2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000};
	int lanes = port->active_width == 1    ? 1
		    : port->active_width == 16 ? 2
					       : port->active_width * 2;

	for (int i = 0; i < 8; i++)
		if (port->active_speed & 1 << i)
			return of_lane[i] * lanes;
	return of_lane[0] * lanes;
}

static bool nic_open(struct nic *nic, struct ibv_device *device)
{
	struct ibv_port_attr port;
	char path[sizeof(nic->name) + 40];
	pthread_t thread;

	snprintf(nic->name, sizeof(nic->name), "%s", ibv_get_device_name(device));
	nic->guid = ibv_get_device_guid(device);
	nic->port = 1;
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", nic->name);
	if (!realpath(path, nic->pci_path))
		*nic->pci_path = 0; /* soft-RoCE has none */
	nic->context = ibv_open_device(device);
	if (nic->context && !ibv_query_port(nic->context, nic->port, &port) &&
	    port.state == IBV_PORT_ACTIVE && (nic->pd = ibv_alloc_pd(nic->context))) {
		nic->speed_mbps = speed_mbps(&port);
		if (!pthread_create(&thread, NULL, wait_for_events, nic)) {
			pthread_detach(thread);
			return true;
		}
		ibv_dealloc_pd(nic->pd);
	}
	if (nic->context)
		ibv_close_device(nic->context);
	return false;
}

static enum net_result verbs_init(net_log_fn log)
{
	struct ibv_device **list;

	net_log = log;
	if (nic_count)
		return NET_SUCCESS;
	list = ibv_get_device_list(NULL);
	for (int i = 0; list && list[i] && nic_count < NICS_MAX; i++)
		if (is_chosen(ibv_get_device_name(list[i])) &&
		    nic_open(&nics[nic_count], list[i])) {
			net_info("NET/Verbs: %s, port %d", nics[nic_count].name,
				 nics[nic_count].port);
			nic_count++;
		}
	if (list)
		ibv_free_device_list(list);
	return nic_count ? NET_SUCCESS : NET_SYSTEM_ERROR;
}

static enum net_result verbs_devices(int *count)
{
	*count = nic_count;
	return NET_SUCCESS;
}

static enum net_result verbs_properties(int device, struct net_properties_v8 *p)
{
	struct nic *nic = &nics[device];

	*p = (struct net_properties_v8){.name = nic->name,
					.pci_path = *nic->pci_path ? nic->pci_path : NULL,
					.guid = nic->guid,
					.pointers = NET_POINTER_HOST,
					.mr_is_global = 1,
					.speed_mbps = nic->speed_mbps,
					.port = nic->port,
					.communicators_max = 65536,
					.receives_max = 1};
	return NET_SUCCESS;
}

static enum net_result verbs_listen(int device, void *handle, void **listener)
{
	return connection_listen(&nics[device], handle, listener);
}

static enum net_result verbs_connect(int device, void *handle, void **comm, void **offload)
{
	(void)offload;
	return connection_connect(&nics[device], handle, comm);
}

static enum net_result verbs_accept(void *listener, void **comm, void **offload)
{
	(void)offload;
	return connection_accept(listener, comm);
}

/* --- memory ----------------------------------------------------------------------------------- */

static enum net_result verbs_reg_mr(void *comm, void *data, size_t bytes, int pointer, void **mr)
{
	struct comm *c = comm;

	if (pointer != NET_POINTER_HOST)
		return NET_INTERNAL_ERROR;
	*mr = ibv_reg_mr(c->nic->pd, data, bytes,
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	return *mr ? NET_SUCCESS : NET_SYSTEM_ERROR;
}

static enum net_result verbs_dereg_mr(void *comm, void *mr)
{
	(void)comm;
	return ibv_dereg_mr(mr) ? NET_SYSTEM_ERROR : NET_SUCCESS;
}

/* --- data ------------------------------------------------------------------------------------- */

static struct request *request_begin(struct comm *c, unsigned int expected)
{
	for (int i = 0; i < NET_REQUESTS_MAX; i++)
		if (!c->requests[i].comm) {
			c->requests[i] = (struct request){.comm = c, .expected = expected};
			return &c->requests[i];
		}
	return NULL;
}

static enum net_result post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int error = ibv_post_send(qp, wr, &bad);

	if (error)
		net_warn("ibv_post_send: %s", strerror(error));
	return error ? NET_SYSTEM_ERROR : NET_SUCCESS;
}

static uint64_t index_of(const struct request *r)
{
	return r - r->comm->requests;
}

static enum net_result send_part(struct comm *c, unsigned int q, const struct wanted *to,
				 const char *data, const struct ibv_mr *mr, const struct request *r)
{
	uint32_t part = (r->bytes / c->qps + PART_BYTES) / PART_BYTES * PART_BYTES;
	uint32_t from = q * part < r->bytes ? q * part : r->bytes;
	uint32_t end = from + part < r->bytes ? from + part : r->bytes;
	struct ibv_sge sge = {
		.addr = (uintptr_t)data + from, .length = end - from, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.wr_id = index_of(r),
				 .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .imm_data = r->bytes,
				 .sg_list = &sge,
				 .num_sge = from < end ? 1 : 0,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = to->address + from, .rkey = to->rkey}};

	return post(c->qp[q], &wr);
}

static enum net_result verbs_isend(void *comm, void *data, int bytes, int tag, void *mr,
				   void **request)
{
	struct comm *c = comm;
	volatile struct wanted *w = &c->wanted[c->begun % NET_REQUESTS_MAX];
	struct wanted to;
	struct request *r;
	enum net_result result = NET_SUCCESS;

	*request = NULL;
	if (c->nic->fatal)
		return NET_SYSTEM_ERROR;
	if (w->number != c->begun + 1 || !(r = request_begin(c, c->qps)))
		return NET_SUCCESS;
	atomic_thread_fence(
		memory_order_acquire); /* the rest of it was written before its number */
	to = (struct wanted){.address = w->address, .rkey = w->rkey, .bytes = w->bytes};
	if (w->tag != (uint32_t)tag)
		return NET_INTERNAL_ERROR;
	c->begun++;
	r->bytes = (uint32_t)bytes < to.bytes ? (uint32_t)bytes : to.bytes;
	for (unsigned int q = 0; q < c->qps && !result; q++)
		result = send_part(c, q, &to, data, mr, r);
	*request = r;
	return result;
}

/* Where it is wanted. A completion now and then keeps the send queue from getting full. */
static enum net_result tell_wanted(struct comm *c, struct wanted *w)
{
	uint64_t at = c->begun % NET_REQUESTS_MAX;
	struct ibv_sge sge = {.addr = (uintptr_t)w, .length = sizeof(*w)};
	struct ibv_send_wr wr = {.wr_id = NO_REQUEST,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_INLINE | (at ? 0 : IBV_SEND_SIGNALED),
				 .wr.rdma = {.remote_addr = c->peer.wanted + at * sizeof(*w),
					     .rkey = c->peer.wanted_rkey}};

	return post(c->qp[0], &wr);
}

static enum net_result verbs_irecv(void *comm, int n, void **data, int *bytes, int *tags,
				   void **mrs, void **request)
{
	struct comm *c = comm;
	struct request *r;
	struct wanted w;

	*request = NULL;
	if (n != 1)
		return NET_INVALID_ARGUMENT;
	if (c->nic->fatal)
		return NET_SYSTEM_ERROR;
	r = request_begin(c, c->qps);
	if (!r)
		return NET_SUCCESS;
	for (unsigned int q = 0; q < c->qps; q++) {
		struct ibv_recv_wr wr = {.wr_id = index_of(r)}, *bad;

		if (ibv_post_recv(c->qp[q], &wr, &bad))
			return NET_SYSTEM_ERROR;
	}
	w = (struct wanted){.address = (uintptr_t)data[0],
			    .rkey = ((struct ibv_mr *)mrs[0])->rkey,
			    .bytes = bytes[0],
			    .tag = tags[0],
			    .number = c->begun + 1};
	*request = r;
	if (tell_wanted(c, &w))
		return NET_SYSTEM_ERROR;
	c->begun++;
	return NET_SUCCESS;
}

static enum net_result verbs_iflush(void *comm, int n, void **data, int *bytes, void **mrs,
				    void **request)
{
	struct comm *c = comm;
	struct ibv_sge sge = {.addr = (uintptr_t)&c->flushed, .length = 1, .lkey = c->mr->lkey};
	struct request *r = NULL;

	*request = NULL;
	if (n != 1 || !bytes[0])
		return NET_SUCCESS;
	r = request_begin(c, 1);
	if (!r)
		return NET_INTERNAL_ERROR;
	*request = r;
	return post(c->flush_qp,
		    &(struct ibv_send_wr){.wr_id = index_of(r),
					  .opcode = IBV_WR_RDMA_READ,
					  .sg_list = &sge,
					  .num_sge = 1,
					  .send_flags = IBV_SEND_SIGNALED,
					  .wr.rdma = {.remote_addr = (uintptr_t)data[0],
						      .rkey = ((struct ibv_mr *)mrs[0])->rkey}});
}

static enum net_result completed(struct comm *c, const struct ibv_wc *wc)
{
	struct request *r = wc->wr_id < NET_REQUESTS_MAX ? &c->requests[wc->wr_id] : NULL;

	if (wc->status) {
		net_warn("%s: QP %u: completion with status %d (%s), vendor error 0x%x",
			 c->nic->name, wc->qp_num, wc->status, ibv_wc_status_str(wc->status),
			 wc->vendor_err);
		return NET_REMOTE_ERROR;
	}
	if (!r)
		return NET_SUCCESS;
	if (!r->comm || !r->expected)
		return NET_INTERNAL_ERROR;
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		r->bytes = wc->imm_data;
	r->expected--;
	return NET_SUCCESS;
}

static enum net_result verbs_test(void *request, int *done, int *bytes)
{
	struct request *r = request;
	struct comm *c = r->comm;
	struct ibv_wc wcs[POLLED_AT_ONCE];
	enum net_result result = NET_SUCCESS;
	int n = 0;

	*done = 0;
	if (r->expected)
		n = ibv_poll_cq(c->cq, POLLED_AT_ONCE, wcs);
	if (n < 0 || c->nic->fatal)
		return NET_SYSTEM_ERROR;
	for (int i = 0; i < n && !result; i++)
		result = completed(c, &wcs[i]);
	if (result || r->expected)
		return result;
	*done = 1;
	if (bytes)
		*bytes = r->bytes;
	r->comm = NULL;
	return NET_SUCCESS;
}

static enum net_result verbs_close(void *comm)
{
	if (comm)
		connection_close(comm);
	return NET_SUCCESS;
}

static enum net_result verbs_close_listen(void *listener)
{
	if (listener)
		connection_close_listen(listener);
	return NET_SUCCESS;
}

/* What NCCL looks for. */
extern const struct net_plugin ncclNetPlugin_v8;
const struct net_plugin ncclNetPlugin_v8 = {.name = "Verbs",
					    .init.v8 = verbs_init,
					    .devices = verbs_devices,
					    .properties.v8 = verbs_properties,
					    .listen = verbs_listen,
					    .connect.v8 = verbs_connect,
					    .accept = verbs_accept,
					    .reg_mr = verbs_reg_mr,
					    .dereg_mr = verbs_dereg_mr,
					    .isend.v8 = verbs_isend,
					    .irecv.v8 = verbs_irecv,
					    .iflush = verbs_iflush,
					    .test = verbs_test,
					    .close_send = verbs_close,
					    .close_receive = verbs_close,
					    .close_listen = verbs_close_listen};
