/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Whether a NIC's link is up (doc/protocol.md, T3 and T4): from netlink's word on its netdev, and
 * from the NIC's own asynchronous events. And when its addresses are to be looked at again. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>

#include "lib/base/background.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/nic/ctrl_link_int.h"
#include "lib/nic/netlink.h"
#include "lib/nic/nic.h"
#include "lib/nic/nic_int.h"

enum { EVENTS_AT_ONCE = 64, LISTENERS_MAX = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held to add a listener */
static void (*_Atomic listeners[LISTENERS_MAX])(struct nic *nic,
						const struct ibv_async_event *event);

void nic_on_event(void (*fn)(struct nic *nic, const struct ibv_async_event *event))
{
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < LISTENERS_MAX; i++) {
		if (listeners[i] == fn)
			break;
		if (!listeners[i]) {
			listeners[i] = fn;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}

/* If we cannot see the netdev (another namespace, InfiniBand), the NIC's own events decide. */
void nic_update(struct nic_own *own)
{
	struct nic *nic = &own->nic;
	bool up = !own->fatal && !own->port_err && own->carrier != CARRIER_DOWN;

	if (up == nic->link_up)
		return;
	nic->link_up = up;
	log_info("%s: link %s", nic->name, up ? "up" : "down");
	if (up)
		nic_refresh(own); /* its addresses may have changed */
	nic_notify_change(nic);
}

static void netdev_changed(unsigned int ifindex, bool up)
{
	struct nic *nic;

	for (unsigned int i = 0; (nic = nic_at(i)); i++) {
		struct nic_own *own = nic_own(nic);
		enum carrier carrier = up ? CARRIER_UP : CARRIER_DOWN;

		if (!own->watched || own->ifindex != ifindex || own->carrier == carrier)
			continue;
		own->carrier = carrier;
		/* If we missed a PORT_ACTIVE, the link would otherwise count as down for ever. */
		if (up && own->port_err)
			nic_refresh(own);
		nic_update(own);
	}
}

/* How long the kernel may take to change the GIDs after an address. */
#define GIDS_FOLLOW_NS 100000000ull

static void look_again(void *arg)
{
	nic_refresh(arg);
}

/* The NIC's GID_CHANGE says the same, if it comes. */
static void netdev_moved(unsigned int ifindex)
{
	struct nic *nic;

	for (unsigned int i = 0; (nic = nic_at(i)); i++) {
		struct nic_own *own = nic_own(nic);

		if (!own->watched || own->ifindex != ifindex)
			continue;
		nic_refresh(own);
		bg_timer_set(&own->again, now_ns() + GIDS_FOLLOW_NS);
	}
}

/* May the port's tables have changed: GIDs, P_Keys, LIDs? */
static bool is_of_tables(enum ibv_event_type type)
{
	return type == IBV_EVENT_GID_CHANGE || type == IBV_EVENT_LID_CHANGE ||
	       type == IBV_EVENT_PKEY_CHANGE || type == IBV_EVENT_CLIENT_REREGISTER;
}

/* Takes in what an event says of the port. Events of QPs and CQs are not about the link. */
static void port_event(struct nic_own *own, enum ibv_event_type type)
{
	own->events++;
	if (type == IBV_EVENT_PORT_ERR)
		own->port_err = true;
	else if (type == IBV_EVENT_PORT_ACTIVE)
		own->port_err = false;
	else if (type == IBV_EVENT_DEVICE_FATAL)
		own->fatal = true;
	else if (is_of_tables(type))
		nic_refresh(own);
}

static void async_ready(void *arg, uint32_t events)
{
	struct nic_own *own = arg;
	struct ibv_async_event e;

	for (int i = 0; i < EVENTS_AT_ONCE; i++) {
		if (real.get_async_event(own->nic.ctx, &e))
			break;
		if (e.event_type == IBV_EVENT_DEVICE_FATAL || e.element.port_num == own->nic.port)
			port_event(own, e.event_type);
		for (unsigned int j = 0; j < LISTENERS_MAX && listeners[j]; j++)
			listeners[j](&own->nic, &e);
		real.ack_async_event(&e);
	}
	/* The device was removed. Its descriptor would wake the loop for ever. */
	if (events & (EPOLLERR | EPOLLHUP)) {
		bg_unwatch(own->nic.ctx->async_fd);
		own->fatal = true;
	}
	nic_update(own);
}

void nic_watch(struct nic_own *own)
{
	int fd = own->nic.ctx->async_fd;
	int err;

	own->again = (struct bg_timer){.fn = look_again, .arg = own};
	err = netlink_start(netdev_changed, netdev_moved);

	if (err)
		log_warn("%s: the kernel's link events cannot be received (netlink: %s); a link "
			 "that goes down is noticed later",
			 own->nic.name, strerror(-err));
	else if (own->ifindex)
		netlink_watch(own->ifindex);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	err = bg_watch(fd, EPOLLIN, async_ready, own);
	if (err)
		log_warn("%s: the NIC's asynchronous events cannot be received (%s); a port "
			 "that fails is noticed later",
			 own->nic.name, strerror(-err));
}
