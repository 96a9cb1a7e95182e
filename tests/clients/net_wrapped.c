/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The plugin of examples/nccl behind a later version of the interface (NET_VERSION, 9 or 10), for
 * the tests of what drives it. With NET_WRONG_AT=N one bit of the Nth message that is received is
 * wrong.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "examples/nccl/net_plugin.h"

enum { RECEIVES_MAX = 1024 };

#if NET_VERSION == 10
#define plugin ncclNetPlugin_v10
#else
#define plugin ncclNetPlugin_v9
#endif

extern struct net_plugin plugin;
static const struct net_plugin *inner;
static struct {
	void *request;
	unsigned char *data;
} receives[RECEIVES_MAX];
static long received;

static enum net_result wrapped_connect_v10(int device, struct net_config_v10 *config, void *handle,
					   void **comm, void **offload)
{
	if (config->traffic_class != NET_TRAFFIC_CLASS_UNDEFINED)
		return NET_INVALID_ARGUMENT;
	return inner->connect.v8(device, handle, comm, offload);
}

static enum net_result wrapped_properties(int device, struct net_properties_v9 *p)
{
	struct net_properties_v8 p8;
	enum net_result result = inner->properties.v8(device, &p8);

	*p = (struct net_properties_v9){.name = p8.name, .receives_max = p8.receives_max};
	return result;
}

static enum net_result wrapped_isend_v9(void *comm, void *data, size_t bytes, int tag, void *mr,
					void **request)
{
	return inner->isend.v8(comm, data, (int)bytes, tag, mr, request);
}

static enum net_result wrapped_isend_v10(void *comm, void *data, size_t bytes, int tag, void *mr,
					 void *profiled, void **request)
{
	return profiled ? NET_INVALID_ARGUMENT
			: wrapped_isend_v9(comm, data, bytes, tag, mr, request);
}

static enum net_result wrapped_irecv_v9(void *comm, int n, void **data, size_t *bytes, int *tags,
					void **mrs, void **request)
{
	int bytes_v8 = (int)*bytes, i = 0;
	enum net_result result = inner->irecv.v8(comm, n, data, &bytes_v8, tags, mrs, request);

	while (i < RECEIVES_MAX && receives[i].request)
		i++;
	if (*request && i < RECEIVES_MAX) {
		receives[i].request = *request;
		receives[i].data = data[0];
	}
	return result;
}

static enum net_result wrapped_irecv_v10(void *comm, int n, void **data, size_t *bytes, int *tags,
					 void **mrs, void **profiled, void **request)
{
	return profiled[0] ? NET_INVALID_ARGUMENT
			   : wrapped_irecv_v9(comm, n, data, bytes, tags, mrs, request);
}

static enum net_result wrapped_test(void *request, int *done, int *bytes)
{
	const char *at = getenv("NET_WRONG_AT");
	enum net_result result = inner->test(request, done, bytes);

	for (int i = 0; *done && i < RECEIVES_MAX; i++)
		if (receives[i].request == request) {
			receives[i].request = NULL;
			if (++received == (at ? atol(at) : 0))
				receives[i].data[*bytes - 1] ^= 1;
			break;
		}
	return result;
}

static enum net_result load(net_log_fn log)
{
	const char *path = getenv("NET_WRAPPED");
	void *handle = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

	inner = handle ? dlsym(handle, "ncclNetPlugin_v8") : NULL;
	if (!inner)
		return NET_SYSTEM_ERROR;
	plugin.devices = inner->devices;
	plugin.listen = inner->listen;
	plugin.accept = inner->accept;
	plugin.reg_mr = inner->reg_mr;
	plugin.dereg_mr = inner->dereg_mr;
	plugin.iflush = inner->iflush;
	plugin.close_send = inner->close_send;
	plugin.close_receive = inner->close_receive;
	plugin.close_listen = inner->close_listen;
	return inner->init.v8(log);
}

static enum net_result load_v10(net_log_fn log, net_profile_fn profile)
{
	return profile ? load(log) : NET_INVALID_ARGUMENT;
}

static enum net_result connect_v9(int device, void *handle, void **comm, void **offload)
{
	return inner->connect.v8(device, handle, comm, offload);
}

struct net_plugin plugin = {
	.name = "Wrapped", .properties.v9 = wrapped_properties, .test = wrapped_test};

__attribute__((constructor)) static void choose(void)
{
	if (NET_VERSION == 10) {
		plugin.init.v10 = load_v10;
		plugin.connect.v10 = wrapped_connect_v10;
		plugin.isend.v10 = wrapped_isend_v10;
		plugin.irecv.v10 = wrapped_irecv_v10;
	} else {
		plugin.init.v8 = load;
		plugin.connect.v8 = connect_v9;
		plugin.isend.v9 = wrapped_isend_v9;
		plugin.irecv.v9 = wrapped_irecv_v9;
	}
}
