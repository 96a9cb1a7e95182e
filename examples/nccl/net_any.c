/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "examples/nccl/net_any.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static bool logs_all;

static void log_line(int level, unsigned long subsystems, const char *file, int line,
		     const char *format, ...)
{
	va_list args;

	(void)subsystems;
	(void)file;
	(void)line;
	if (level > NET_LOG_WARN && !logs_all)
		return;
	va_start(args, format);
	flockfile(stderr);
	fputs(level > NET_LOG_WARN ? "plugin: " : "plugin: warning: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	funlockfile(stderr);
	va_end(args);
}

/* NCCL ends the communicator, and with it the job, at the first of these. */
static void must(enum net_result result, const char *what)
{
	static const char *const said[] = {"success",	       "CUDA error",	   "system error",
					   "internal error",   "invalid argument", "invalid usage",
					   "error of the peer"};

	if (!result)
		return;
	fprintf(stderr, "net-allreduce: the plugin's %s: %s (%d)\n", what,
		(unsigned int)result < sizeof(said) / sizeof(*said) ? said[result] : "error",
		result);
	exit(EXIT_FAILURE);
}

static enum net_result no_profile(void **event, int type, void *of, int64_t plugin, void *data)
{
	(void)event;
	(void)type;
	(void)of;
	(void)plugin;
	(void)data;
	return NET_SUCCESS;
}

void net_load(struct net *net, const char *library, bool verbose)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	char name[32];

	logs_all = verbose;
	if (!handle) {
		fprintf(stderr, "net-allreduce: %s\n", dlerror());
		exit(EXIT_FAILURE);
	}
	net->plugin = NULL;
	for (net->version = 10; net->version >= 8 && !net->plugin; net->version--) {
		snprintf(name, sizeof(name), "ncclNetPlugin_v%d", net->version);
		net->plugin = dlsym(handle, name);
		if (net->plugin)
			break;
	}
	if (!net->plugin) {
		fprintf(stderr, "net-allreduce: %s: no ncclNetPlugin_v8, _v9 or _v10 in it\n",
			library);
		exit(EXIT_FAILURE);
	}
	must(net->version == 10 ? net->plugin->init.v10(log_line, no_profile)
				: net->plugin->init.v8(log_line),
	     "init");
}

int net_devices(const struct net *net)
{
	int n = 0;

	must(net->plugin->devices(&n), "devices");
	return n;
}

const char *net_device_name(const struct net *net, int device)
{
	static struct net_properties_v8 p8;
	static struct net_properties_v9 p9;

	if (net->version > 8) {
		must(net->plugin->properties.v9(device, &p9), "getProperties");
		return p9.name;
	}
	must(net->plugin->properties.v8(device, &p8), "getProperties");
	return p8.name;
}

void *net_listen(const struct net *net, int device, void *handle)
{
	void *listener = NULL;

	must(net->plugin->listen(device, handle, &listener), "listen");
	return listener;
}

void *net_connect(const struct net *net, int device, void *handle)
{
	struct net_config_v10 config = {NET_TRAFFIC_CLASS_UNDEFINED};
	void *comm = NULL, *offload = NULL;

	must(net->version == 10 ? net->plugin->connect.v10(device, &config, handle, &comm, &offload)
				: net->plugin->connect.v8(device, handle, &comm, &offload),
	     "connect");
	return comm;
}

void *net_accept(const struct net *net, void *listener)
{
	void *comm = NULL, *offload = NULL;

	must(net->plugin->accept(listener, &comm, &offload), "accept");
	return comm;
}

void *net_register(const struct net *net, void *comm, void *data, size_t bytes)
{
	void *mr = NULL;

	must(net->plugin->reg_mr(comm, data, bytes, NET_POINTER_HOST, &mr), "regMr");
	return mr;
}

void net_deregister(const struct net *net, void *comm, void *mr)
{
	must(net->plugin->dereg_mr(comm, mr), "deregMr");
}

void *net_send(const struct net *net, void *comm, void *data, size_t bytes, int tag, void *mr)
{
	const struct net_plugin *p = net->plugin;
	enum net_result result;
	void *request = NULL;

	if (net->version == 10)
		result = p->isend.v10(comm, data, bytes, tag, mr, NULL, &request);
	else if (net->version == 9)
		result = p->isend.v9(comm, data, bytes, tag, mr, &request);
	else
		result = p->isend.v8(comm, data, (int)bytes, tag, mr, &request);
	must(result, "isend");
	return request;
}

void *net_receive(const struct net *net, void *comm, void *data, size_t bytes, int tag, void *mr)
{
	const struct net_plugin *p = net->plugin;
	enum net_result result;
	void *request = NULL, *profiled = NULL;
	int bytes_v8 = (int)bytes;

	if (net->version == 10)
		result = p->irecv.v10(comm, 1, &data, &bytes, &tag, &mr, &profiled, &request);
	else if (net->version == 9)
		result = p->irecv.v9(comm, 1, &data, &bytes, &tag, &mr, &request);
	else
		result = p->irecv.v8(comm, 1, &data, &bytes_v8, &tag, &mr, &request);
	must(result, "irecv");
	return request;
}

void *net_flush(const struct net *net, void *comm, void *data, size_t bytes, void *mr)
{
	void *request = NULL;
	int n = (int)bytes;

	must(net->plugin->iflush(comm, 1, &data, &n, &mr, &request), "iflush");
	return request;
}

bool net_done(const struct net *net, void *request, size_t *bytes)
{
	int done = 0, n = 0;

	must(net->plugin->test(request, &done, &n), "test");
	*bytes = n;
	return done;
}

void net_close_send(const struct net *net, void *comm)
{
	must(net->plugin->close_send(comm), "closeSend");
}

void net_close_receive(const struct net *net, void *comm)
{
	must(net->plugin->close_receive(comm), "closeRecv");
}

void net_close_listen(const struct net *net, void *listener)
{
	must(net->plugin->close_listen(listener), "closeListen");
}
