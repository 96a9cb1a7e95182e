/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The functions of librdmacm that programs call by name. librdmacm is no dependency of ours: who
 * calls them has loaded it. Its own calls come here, too, through its PLT: what rdma_create_ep() or
 * a rsocket does for the program. But not those of Ubuntu's, which is linked with
 * -Bsymbolic-functions.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "lib/verbs/cm_ids.h"

#define EXPORT __attribute__((visibility("default")))

#define DECLARE(name, type, args) type rdma_##name args;
REAL_RDMACM(DECLARE)
#undef DECLARE

static void find_real(void)
{
	if (real_rdmacm())
		cm_set_real(real_rdmacm());
}

/* Without librdmacm it may be another library's function that has the same name. */
#define CALL_OTHER(none, name, ...)                                  \
	do {                                                         \
		__typeof__(&(name)) other = dlsym(RTLD_NEXT, #name); \
                                                                     \
		return other ? other(__VA_ARGS__) : (none);          \
	} while (0)

static bool is_missing(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_real);
	if (real_rdmacm())
		return false;
	errno = EOPNOTSUPP;
	return true;
}

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	if (is_missing())
		CALL_OTHER(-1, rdma_connect, id, param);
	hook_cm_connects(id, param);
	return real_rdmacm()->connect(id, param);
}

EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	if (is_missing())
		CALL_OTHER(-1, rdma_accept, id, param);
	hook_cm_connects(id, param);
	return real_rdmacm()->accept(id, param);
}

EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
	if (is_missing())
		CALL_OTHER(-1, rdma_disconnect, id);
	return hook_cm_disconnect(id);
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	if (is_missing())
		CALL_OTHER((void)0, rdma_destroy_qp, id);
	hook_cm_disconnects(id, false);
	real_rdmacm()->destroy_qp(id);
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	if (is_missing())
		CALL_OTHER(-1, rdma_destroy_id, id);
	hook_cm_disconnects(id, false);
	return hook_cm_destroy_id(id);
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (is_missing())
		CALL_OTHER((void)0, rdma_destroy_ep, id);
	hook_cm_disconnects(id, false);
	hook_cm_destroy_ep(id);
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	if (is_missing())
		CALL_OTHER(-1, rdma_migrate_id, id, channel);
	return hook_cm_migrate_id(id, channel);
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	if (is_missing())
		CALL_OTHER((void)0, rdma_destroy_event_channel, channel);
	hook_cm_destroys_channel(channel);
	real_rdmacm()->destroy_event_channel(channel);
}

/* It waits, and may be cancelled then. */
EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	if (is_missing())
		CALL_OTHER(-1, rdma_get_cm_event, channel, event);
	return hook_cm_get_event(channel, event);
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	if (is_missing())
		CALL_OTHER(-1, rdma_ack_cm_event, event);
	return hook_cm_ack_event(event);
}
