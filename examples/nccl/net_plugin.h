/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The interface between NCCL and its network plugins, versions 8 to 10, as far as it is needed
 * here: how memory is laid out and what is called with what. The names are ours. A plugin is a
 * shared library with a variable ncclNetPlugin_v8, _v9 or _v10, which is such a table.
 *
 * All calls come from one thread per communicator at a time, and none may wait for the peer.
 */
#ifndef EXAMPLES_NCCL_NET_PLUGIN_H
#define EXAMPLES_NCCL_NET_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

enum net_result {
	NET_SUCCESS = 0,
	NET_SYSTEM_ERROR = 2,
	NET_INTERNAL_ERROR = 3,
	NET_INVALID_ARGUMENT = 4,
	NET_REMOTE_ERROR = 6,
};

enum {
	NET_HANDLE_BYTES = 128,
	NET_REQUESTS_MAX = 32, /* of a communicator, at the same time */
	NET_POINTER_HOST = 1,
	NET_LOG_WARN = 2,
	NET_LOG_INFO = 3,
	NET_LOG_NET = 16, /* the subsystem */
	NET_DEVICES_OF_NIC = 4,
	NET_TRAFFIC_CLASS_UNDEFINED = -1,
};

typedef void (*net_log_fn)(int level, unsigned long subsystems, const char *file, int line,
			   const char *format, ...);
/* For a profiler's events; there is none here. */
typedef enum net_result (*net_profile_fn)(void **event, int type, void *of, int64_t plugin,
					  void *data);

struct net_properties_v8 {
	char *name, *pci_path;
	uint64_t guid;
	int pointers;	  /* NET_POINTER_... that regMr takes */
	int mr_is_global; /* not of one communicator */
	int speed_mbps, port;
	float latency_us; /* 0: not known */
	int communicators_max;
	int receives_max;		 /* of one irecv */
	int device_type, device_version; /* 0: sent by the host */
};

struct net_properties_v9 { /* and 10 */
	char *name, *pci_path;
	uint64_t guid;
	int pointers, mr_is_global, force_flush, speed_mbps, port;
	float latency_us;
	int communicators_max, receives_max, device_type, device_version;
	struct {
		int count, devices[NET_DEVICES_OF_NIC];
	} virtual_nic;
	size_t p2p_bytes_max, collective_bytes_max;
};

struct net_config_v10 {
	int traffic_class;
};

/*
 * connect() and accept() are called again until they give a communicator. isend() and irecv() give
 * no request if they cannot begin yet. The union's members are what the versions call.
 */
struct net_plugin {
	const char *name;
	union {
		enum net_result (*v8)(net_log_fn log);
		enum net_result (*v10)(net_log_fn log, net_profile_fn profile);
	} init;
	enum net_result (*devices)(int *count);
	union {
		enum net_result (*v8)(int device, struct net_properties_v8 *p);
		enum net_result (*v9)(int device, struct net_properties_v9 *p);
	} properties;
	enum net_result (*listen)(int device, void *handle, void **listener);
	union {
		enum net_result (*v8)(int device, void *handle, void **comm, void **offload);
		enum net_result (*v10)(int device, struct net_config_v10 *config, void *handle,
				       void **comm, void **offload);
	} connect;
	enum net_result (*accept)(void *listener, void **comm, void **offload);
	enum net_result (*reg_mr)(void *comm, void *data, size_t bytes, int pointer, void **mr);
	enum net_result (*reg_mr_dmabuf)(void *comm, void *data, size_t bytes, int pointer,
					 uint64_t offset, int fd, void **mr);
	enum net_result (*dereg_mr)(void *comm, void *mr);
	union {
		enum net_result (*v8)(void *comm, void *data, int bytes, int tag, void *mr,
				      void **request);
		enum net_result (*v9)(void *comm, void *data, size_t bytes, int tag, void *mr,
				      void **request);
		enum net_result (*v10)(void *comm, void *data, size_t bytes, int tag, void *mr,
				       void *profiled, void **request);
	} isend;
	union {
		enum net_result (*v8)(void *comm, int n, void **data, int *bytes, int *tags,
				      void **mrs, void **request);
		enum net_result (*v9)(void *comm, int n, void **data, size_t *bytes, int *tags,
				      void **mrs, void **request);
		enum net_result (*v10)(void *comm, int n, void **data, size_t *bytes, int *tags,
				       void **mrs, void **profiled, void **request);
	} irecv;
	enum net_result (*iflush)(void *comm, int n, void **data, int *bytes, void **mrs,
				  void **request);
	enum net_result (*test)(void *request, int *done, int *bytes);
	enum net_result (*close_send)(void *comm);
	enum net_result (*close_receive)(void *comm);
	enum net_result (*close_listen)(void *listener);
	enum net_result (*device_mr)(void *comm, void *mr, void **device_mr);
	enum net_result (*receive_consumed)(void *comm, int n, void *request);
	/* What versions 9 and 10 have behind this is not called here. */
};

#endif
