/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/nic/netlink.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/background.h"

enum { WATCHED_MAX = 32, READS_AT_ONCE = 64 };

#define ASK_AGAIN_NS 50000000ull

#ifndef IFF_LOWER_UP
#define IFF_LOWER_UP 0x10000 /* of linux/if.h, which cannot be included beside net/if.h */
#endif

static int fd = -1;
static void (*changed)(unsigned int ifindex, bool up);
static void (*moved)(unsigned int ifindex);
static unsigned int watched[WATCHED_MAX], watched_count;

static void ask_all(void *arg);
static struct bg_timer ask_timer = {.fn = ask_all};

/* Asks for one netdev at a time: a dump is refused while another is under way, and we do not need
 * most of it. */
static void netlink_ask(unsigned int ifindex)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg info;
	} m = {.head = {.nlmsg_len = sizeof(m),
			.nlmsg_type = RTM_GETLINK,
			.nlmsg_flags = NLM_F_REQUEST},
	       .info = {.ifi_family = AF_UNSPEC, .ifi_index = (int)ifindex}};

	if (send(fd, &m, sizeof(m), MSG_DONTWAIT) < 0)
		bg_timer_set(&ask_timer, now_ns() + ASK_AGAIN_NS);
}

static void ask_all(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < watched_count; i++)
		netlink_ask(watched[i]);
}

static bool is_watched(unsigned int ifindex)
{
	for (unsigned int i = 0; i < watched_count; i++)
		if (watched[i] == ifindex)
			return true;
	return false;
}

void netlink_watch(unsigned int ifindex)
{
	if (fd < 0)
		return;
	if (!is_watched(ifindex) && watched_count < WATCHED_MAX)
		watched[watched_count++] = ifindex;
	netlink_ask(ifindex);
}

static void address_message(const struct nlmsghdr *h)
{
	const struct ifaddrmsg *addr = NLMSG_DATA(h);

	if (h->nlmsg_len >= NLMSG_LENGTH(sizeof(*addr)) && is_watched(addr->ifa_index))
		moved(addr->ifa_index);
}

static void netlink_message(const struct nlmsghdr *h)
{
	const struct ifinfomsg *info = NLMSG_DATA(h);
	const unsigned int need = IFF_UP | IFF_RUNNING | IFF_LOWER_UP;

	if (h->nlmsg_type == RTM_NEWADDR || h->nlmsg_type == RTM_DELADDR)
		address_message(h);
	if (h->nlmsg_type != RTM_NEWLINK && h->nlmsg_type != RTM_DELLINK)
		return;
	/* Messages of AF_BRIDGE are about the bridge port, not about the device. */
	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*info)) || info->ifi_family != AF_UNSPEC)
		return;
	if (is_watched((unsigned int)info->ifi_index))
		changed((unsigned int)info->ifi_index,
			h->nlmsg_type == RTM_NEWLINK && (info->ifi_flags & need) == need);
}

/* false: there is nothing more to read. */
static bool read_some(void)
{
	/* Static, because it is too large for our small stack, and only one thread reads. */
	static union {
		struct nlmsghdr align;
		char bytes[32768];
	} buf;
	struct sockaddr_nl from = {0};
	socklen_t from_len = sizeof(from);
	ssize_t n = recvfrom(fd, &buf, sizeof(buf), MSG_DONTWAIT, (struct sockaddr *)&from,
			     &from_len);
	unsigned int left;

	if (n < 0 && errno == ENOBUFS) {
		ask_all(NULL); /* events were lost */
		return true;
	}
	if (n <= 0)
		return n < 0 && errno == EINTR;
	if (from.nl_pid)
		return true; /* not from the kernel */
	left = (unsigned int)n;
	for (const struct nlmsghdr *h = &buf.align; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left))
		netlink_message(h);
	return true;
}

static void netlink_readable(void *arg, uint32_t events)
{
	(void)arg;
	(void)events;
	for (int i = 0; i < READS_AT_ONCE && read_some(); i++)
		;
}

int netlink_start(void (*fn)(unsigned int ifindex, bool up), void (*address)(unsigned int ifindex))
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK,
				   .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR |
						RTMGRP_IPV6_IFADDR};
	int err;

	if (fd >= 0)
		return 0;
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (fd < 0)
		return -errno;
	err = bind(fd, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : 0;
	if (!err)
		err = bg_watch(fd, EPOLLIN, netlink_readable, NULL);
	if (err) {
		close(fd);
		fd = -1;
		return err;
	}
	changed = fn;
	moved = address;
	return 0;
}
