/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <netlink/msg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faultinject/rtnl.h"

enum { MORE_BYTES = 8192 };

static char said[200];

struct exchange {
	bool over;
	int err;
	void (*fn)(void *arg, struct nlmsghdr *h);
	void *arg;
};

const char *rtnl_said(int err)
{
	return *said ? said : strerror(-err);
}

/* The text that goes with an error, if the kernel has one. */
static void keep_words(const struct nlmsghdr *h, const struct nlmsgerr *e)
{
	size_t skip = sizeof(*e);
	const struct nlattr *a;
	size_t left;

	if (!(h->nlmsg_flags & NLM_F_ACK_TLVS))
		return;
	if (!(h->nlmsg_flags & NLM_F_CAPPED))
		skip += e->msg.nlmsg_len - sizeof(e->msg);
	if (NLMSG_PAYLOAD(h, 0) < NLMSG_ALIGN(skip))
		return;
	a = (const void *)((const char *)NLMSG_DATA(h) + NLMSG_ALIGN(skip));
	left = NLMSG_PAYLOAD(h, 0) - NLMSG_ALIGN(skip);
	for (int rest = (int)left; nla_ok(a, rest); a = nla_next(a, &rest))
		if (nla_type(a) == NLMSGERR_ATTR_MSG)
			snprintf(said, sizeof(said), "%.*s", nla_len(a), (char *)nla_data(a));
}

static int on_netlink_error(struct sockaddr_nl *from, struct nlmsgerr *e, void *arg)
{
	struct exchange *x = arg;

	(void)from;
	/* e is the payload of its message: the header is right before it. */
	keep_words((const void *)((const char *)e - NLMSG_HDRLEN), e);
	x->err = e->error;
	x->over = true;
	return NL_STOP;
}

static int on_end(struct nl_msg *m, void *arg)
{
	struct exchange *x = arg;

	(void)m;
	x->over = true;
	return NL_STOP;
}

/* A dump that breaks off says so in its end. */
static int on_done(struct nl_msg *m, void *arg)
{
	struct nlmsghdr *h = nlmsg_hdr(m);
	struct exchange *x = arg;
	int result = 0;

	if ((size_t)nlmsg_datalen(h) >= sizeof(result))
		memcpy(&result, nlmsg_data(h), sizeof(result));
	if (result < 0)
		x->err = result;
	return on_end(m, arg);
}

/* The kernel's table changed during the dump: entries may be missing. */
static int on_interrupted(struct nl_msg *m, void *arg)
{
	struct exchange *x = arg;

	(void)m;
	x->err = -EAGAIN;
	return NL_OK;
}

static int on_netlink_message(struct nl_msg *m, void *arg)
{
	struct exchange *x = arg;

	if (x->fn)
		x->fn(x->arg, nlmsg_hdr(m));
	return NL_OK;
}

static struct nl_sock *own_socket;

void rtnl_renew(void)
{
	nl_socket_free(own_socket);
	own_socket = NULL;
}

static struct nl_sock *rtnl_socket(void)
{
	int one = 1;

	if (own_socket)
		return own_socket;
	own_socket = nl_socket_alloc();
	if (!own_socket || nl_connect(own_socket, NETLINK_ROUTE)) {
		nl_socket_free(own_socket);
		return own_socket = NULL;
	}
	nl_socket_set_buffer_size(own_socket, 1 << 20, 0);
	setsockopt(nl_socket_get_fd(own_socket), SOL_NETLINK, NETLINK_EXT_ACK, &one, sizeof(one));
	setsockopt(nl_socket_get_fd(own_socket), SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	return own_socket;
}

int rtnl_read(struct nl_msg *m, void (*fn)(void *arg, struct nlmsghdr *h), void *arg)
{
	struct exchange x = {.fn = fn, .arg = arg};
	struct nl_cb *cb = rtnl_socket() ? nl_cb_alloc(NL_CB_DEFAULT) : NULL;
	int err;

	*said = 0;
	if (!cb) {
		nlmsg_free(m);
		return -ENOMEM;
	}
	nl_cb_err(cb, NL_CB_CUSTOM, on_netlink_error, &x);
	nl_cb_set(cb, NL_CB_ACK, NL_CB_CUSTOM, on_end, &x);
	nl_cb_set(cb, NL_CB_FINISH, NL_CB_CUSTOM, on_done, &x);
	nl_cb_set(cb, NL_CB_DUMP_INTR, NL_CB_CUSTOM, on_interrupted, &x);
	nl_cb_set(cb, NL_CB_VALID, NL_CB_CUSTOM, on_netlink_message, &x);
	err = nl_send_auto(own_socket, m);
	while (err >= 0 && !x.over)
		err = nl_recvmsgs(own_socket, cb);
	nl_cb_put(cb);
	nlmsg_free(m);
	if (x.over)
		return x.err;
	snprintf(said, sizeof(said), "netlink: %s", nl_geterror(err));
	return -EIO;
}

int rtnl_request(struct nl_msg *m)
{
	nlmsg_hdr(m)->nlmsg_flags |= NLM_F_ACK;
	return rtnl_read(m, NULL, NULL);
}

struct nl_msg *rtnl_message(int type, int flags, const void *header, size_t bytes)
{
	/* A route may have a hundred ways, which is more than the page of libnl's own choice. */
	struct nl_msg *m = nlmsg_alloc_size(NLMSG_ALIGN(bytes) + MORE_BYTES);

	if (m && nlmsg_put(m, NL_AUTO_PORT, NL_AUTO_SEQ, type, 0, NLM_F_REQUEST | flags) &&
	    !nlmsg_append(m, (void *)(uintptr_t)header, bytes, NLMSG_ALIGNTO))
		return m;
	fputs("shift-inject: out of memory\n", stderr);
	abort();
}

/* --- links ----------------------------------------------------------------------------------- */

static void take_link(void *arg, struct nlmsghdr *h)
{
	const struct ifinfomsg *info = nlmsg_data(h);
	struct nlattr *a[IFLA_MAX + 1] = {0};
	struct link_state *s = arg;

	if (h->nlmsg_type != RTM_NEWLINK || nlmsg_parse(h, sizeof(*info), a, IFLA_MAX, NULL) ||
	    !a[IFLA_IFNAME])
		return;
	snprintf(s->name, sizeof(s->name), "%s", nla_get_string(a[IFLA_IFNAME]));
	s->ifindex = (unsigned int)info->ifi_index;
	s->flags = info->ifi_flags;
	s->arp_type = info->ifi_type;
	s->mtu = a[IFLA_MTU] ? nla_get_u32(a[IFLA_MTU]) : 0;
	s->mtu_min = a[IFLA_MIN_MTU] ? nla_get_u32(a[IFLA_MIN_MTU]) : 68;
	s->mtu_max = a[IFLA_MAX_MTU] ? nla_get_u32(a[IFLA_MAX_MTU]) : 0;
}

static int link_get(unsigned int ifindex, const char *name, struct link_state *s)
{
	struct ifinfomsg info = {.ifi_index = (int)ifindex};
	struct nl_msg *m = rtnl_message(RTM_GETLINK, NLM_F_ACK, &info, sizeof(info));
	int err;

	if (name)
		nla_put_string(m, IFLA_IFNAME, name);
	memset(s, 0, sizeof(*s));
	err = rtnl_read(m, take_link, s);
	return err ? err : s->ifindex ? 0 : -ENODEV;
}

int rtnl_link_by_name(const char *name, struct link_state *s)
{
	return strlen(name) < sizeof(s->name) ? link_get(0, name, s) : -ENODEV;
}

int rtnl_link_get(unsigned int ifindex, struct link_state *s)
{
	return link_get(ifindex, NULL, s);
}

int rtnl_link_set_up(unsigned int ifindex, bool up)
{
	struct ifinfomsg info = {
		.ifi_index = (int)ifindex, .ifi_flags = up ? IFF_UP : 0, .ifi_change = IFF_UP};

	return rtnl_request(rtnl_message(RTM_NEWLINK, 0, &info, sizeof(info)));
}

int rtnl_link_set_mtu(unsigned int ifindex, unsigned int mtu)
{
	struct ifinfomsg info = {.ifi_index = (int)ifindex};
	struct nl_msg *m = rtnl_message(RTM_NEWLINK, 0, &info, sizeof(info));

	nla_put_u32(m, IFLA_MTU, mtu);
	return rtnl_request(m);
}

/* --- ways ------------------------------------------------------------------------------------ */

static void take_way(void *arg, struct nlmsghdr *h)
{
	struct nlattr *oif;

	if (h->nlmsg_type != RTM_NEWROUTE)
		return;
	oif = nlmsg_find_attr(h, sizeof(struct rtmsg), RTA_OIF);
	if (oif)
		*(unsigned int *)arg = nla_get_u32(oif);
}

unsigned int rtnl_link_to(int family, const void *address)
{
	int bytes = family == AF_INET ? 4 : 16;
	struct rtmsg r = {.rtm_family = (unsigned char)family,
			  .rtm_dst_len = (unsigned char)(8 * bytes)};
	struct nl_msg *m = rtnl_message(RTM_GETROUTE, NLM_F_ACK, &r, sizeof(r));
	unsigned int ifindex = 0;

	nla_put(m, RTA_DST, bytes, address);
	return rtnl_read(m, take_way, &ifindex) ? 0 : ifindex;
}
