// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/nullverbs/nullverbs.h"

#undef ibv_query_port

static struct ibv_device devices[NULL_DEVICES_MAX];

static int count_devices(void)
{
	const char *text = getenv("NULLVERBS_DEVICES");
	int n = text ? atoi(text) : 2;

	return n < 0 ? 0 : n > NULL_DEVICES_MAX ? NULL_DEVICES_MAX : n;
}

struct ibv_device **ibv_get_device_list(int *num)
{
	int n = count_devices();
	struct ibv_device **list = calloc((size_t)n + 1, sizeof(struct ibv_device *));

	for (int i = 0; list && i < n; i++) {
		devices[i].node_type = IBV_NODE_CA;
		devices[i].transport_type = IBV_TRANSPORT_IB;
		snprintf(devices[i].name, sizeof(devices[i].name), "mlx5_%d", i);
		snprintf(devices[i].dev_name, sizeof(devices[i].dev_name), "uverbs%d", i);
		list[i] = &devices[i];
	}
	if (num)
		*num = list ? n : 0;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return (__be64)(device - devices) + 1;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx;
	memset(attr, 0, sizeof(*attr));
	attr->max_mr_size = UINT64_MAX;
	attr->max_qp = NULL_QPS_MAX;
	attr->max_qp_wr = 32768;
	attr->max_sge = NULL_SGE_MAX;
	attr->max_cq = 65536;
	attr->max_cqe = 1 << 22;
	attr->max_mr = 1 << 24;
	attr->max_pd = 1 << 20;
	attr->max_qp_rd_atom = 16;
	attr->max_qp_init_rd_atom = 16;
	attr->max_srq = 1024;
	attr->max_srq_wr = 32768;
	attr->max_srq_sge = NULL_SGE_MAX;
	attr->atomic_cap = IBV_ATOMIC_HCA;
	attr->max_ah = 65536;
	attr->max_pkeys = 1;
	attr->phys_port_cnt = 1;
	return 0;
}

static int query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	(void)input;
	memset(attr, 0, size);
	return ibv_query_device(ctx, &attr->orig_attr);
}

static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr,
		      size_t size)
{
	struct ibv_port_attr all = {
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = 2,
		.max_msg_sz = UINT32_C(1) << 31,
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.active_width = 2,
		.active_speed = 64,
		.phys_state = 5,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};

	(void)ctx;
	if (port != 1)
		return EINVAL;
	memcpy(attr, &all, size < sizeof(all) ? size : sizeof(all));
	return 0;
}

/* The structure of old callers is the head of today's; link_layer follows flags there. */
int ibv_query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return query_port(ctx, port, (struct ibv_port_attr *)attr,
			  offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* ::ffff:10.0.DEVICE.HOST, as RoCE v1 and v2. */
int ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (port != 1 || index < 0 || index > 1)
		return -1;
	gid->raw[10] = gid->raw[11] = 0xff;
	gid->raw[12] = 10;
	gid->raw[14] = (uint8_t)(ctx->device - devices);
	gid->raw[15] = null_host();
	return 0;
}

int ibv_query_pkey(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey)
{
	(void)ctx;
	*pkey = 0xffff;
	return port == 1 && !index ? 0 : -1;
}

int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	if (flags || size < sizeof(*entry))
		return EINVAL;
	memset(entry, 0, size);
	if (ibv_query_gid(ctx, (uint8_t)port, (int)index, &entry->gid))
		return ENODATA;
	entry->gid_index = index;
	entry->port_num = port;
	entry->gid_type = index ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *entries, size_t max,
			     uint32_t flags, size_t size)
{
	ssize_t n = 0;

	if (flags || size < sizeof(*entries))
		return -EINVAL;
	while (n < 2 && (size_t)n < max) {
		struct ibv_gid_entry *e = (struct ibv_gid_entry *)((char *)entries +
								   n * (ssize_t)size);

		if (_ibv_query_gid_ex(ctx, 1, (uint32_t)n, e, 0, size))
			break;
		n++;
	}
	return n;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw = calloc(1, sizeof(*mw));

	if (mw)
		*mw = (struct ibv_mw){.context = pd->context, .pd = pd, .type = type};
	return mw;
}

static int dealloc_mw(struct ibv_mw *mw)
{
	free(mw);
	return 0;
}

static struct ibv_td *alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *attr)
{
	struct ibv_td *td = calloc(1, sizeof(*td));

	(void)attr;
	if (td)
		td->context = ctx;
	return td;
}

static int dealloc_td(struct ibv_td *td)
{
	free(td);
	return 0;
}

static struct ibv_pd *alloc_parent_domain(struct ibv_context *ctx,
					  struct ibv_parent_domain_init_attr *attr)
{
	struct ibv_pd *pd = attr->pd ? calloc(1, sizeof(*pd)) : NULL;

	if (pd)
		*pd = (struct ibv_pd){.context = ctx, .handle = attr->pd->handle};
	return pd;
}

static void set_ops(struct verbs_context *v)
{
	v->context.ops.post_send = null_post_send;
	v->context.ops.post_recv = null_post_recv;
	v->context.ops.post_srq_recv = null_post_srq_recv;
	v->context.ops.poll_cq = null_poll_cq;
	v->context.ops.req_notify_cq = null_req_notify_cq;
	v->context.ops.alloc_mw = alloc_mw;
	v->context.ops.dealloc_mw = dealloc_mw;
	v->context.ops.bind_mw = null_bind_mw;
	v->query_port = query_port;
	v->query_device_ex = query_device_ex;
	v->create_qp_ex = null_create_qp_ex;
	v->create_cq_ex = null_create_cq_ex;
	v->alloc_td = alloc_td;
	v->dealloc_td = dealloc_td;
	v->alloc_parent_domain = alloc_parent_domain;
	v->sz = sizeof(*v);
}

struct ibv_context *verbs_open_device(struct ibv_device *device, void *private_data)
{
	struct verbs_context *v = calloc(1, sizeof(*v));

	(void)private_data;
	if (!v)
		return NULL;
	null_net_start();
	set_ops(v);
	v->context.device = device;
	v->context.cmd_fd = -1;
	v->context.async_fd = eventfd(0, EFD_CLOEXEC);
	v->context.num_comp_vectors = 1;
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&v->context.mutex, NULL);
	return &v->context;
}

/* Through the PLT, as the real one does. */
struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	return verbs_open_device(device, NULL);
}

/* Any file but the standard ones is the first device's. */
struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct ibv_context *ctx;

	if (cmd_fd <= STDERR_FILENO) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	ctx = verbs_open_device(&devices[0], NULL);
	if (ctx)
		ctx->cmd_fd = cmd_fd;
	return ctx;
}

int ibv_close_device(struct ibv_context *ctx)
{
	close(ctx->async_fd);
	if (ctx->cmd_fd >= 0)
		close(ctx->cmd_fd);
	free(verbs_get_ctx(ctx));
	return 0;
}

struct ibv_context *open_device_1_0(void *device);
struct ibv_context *open_device_1_0(void *device)
{
	(void)device;
	errno = NULL_COMPAT_ERRNO;
	return NULL;
}
__asm__(".symver open_device_1_0, ibv_open_device@IBVERBS_1.0");
