/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A plugin of any of the versions 8 to 10, called in one way. All calls end the process with a
 * message if the plugin returns an error. */
#ifndef EXAMPLES_NCCL_NET_ANY_H
#define EXAMPLES_NCCL_NET_ANY_H

#include <stdbool.h>

#include "examples/nccl/net_plugin.h"

struct net {
	const struct net_plugin *plugin;
	int version;
};

/* The newest of the versions that the library has. */
void net_load(struct net *net, const char *library, bool verbose);

int net_devices(const struct net *net);
const char *net_device_name(const struct net *net, int device);
void *net_listen(const struct net *net, int device, void *handle);

/* NULL: not yet; to be called again. */
void *net_connect(const struct net *net, int device, void *handle);
void *net_accept(const struct net *net, void *listener);

void *net_register(const struct net *net, void *comm, void *data, size_t bytes);
void net_deregister(const struct net *net, void *comm, void *mr);

/* The request, or NULL: not now. */
void *net_send(const struct net *net, void *comm, void *data, size_t bytes, int tag, void *mr);
void *net_receive(const struct net *net, void *comm, void *data, size_t bytes, int tag, void *mr);

/* The request, or NULL: the plugin needs none. */
void *net_flush(const struct net *net, void *comm, void *data, size_t bytes, void *mr);

/* Is it done, and of how many bytes was it? */
bool net_done(const struct net *net, void *request, size_t *bytes);

void net_close_send(const struct net *net, void *comm);
void net_close_receive(const struct net *net, void *comm);
void net_close_listen(const struct net *net, void *listener);

#endif
