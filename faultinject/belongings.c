/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Addresses and routes. A link that is set down loses its IPv6 addresses and most of its routes,
 * which nobody brings back when it is up again: they are read before, as the kernel's own messages,
 * and sent back to it afterwards.
 */
#include <errno.h>
#include <linux/if_addr.h>
#include <netlink/msg.h>
#include <string.h>

#include "faultinject/rtnl.h"

struct search {
	unsigned int ifindex;
	void (*fn)(void *arg, struct nlmsghdr *h);
	void *arg;
	bool found;
};

static void see_address(void *arg, struct nlmsghdr *h)
{
	const struct ifaddrmsg *a = nlmsg_data(h);
	struct search *s = arg;

	if (h->nlmsg_type == RTM_NEWADDR && a->ifa_index == s->ifindex)
		s->fn(s->arg, h);
}

static bool leaves_through(struct nlattr *const *a, unsigned int ifindex)
{
	const struct rtnexthop *hop;
	int left;

	if (a[RTA_OIF] && nla_get_u32(a[RTA_OIF]) == ifindex)
		return true;
	if (!a[RTA_MULTIPATH])
		return false;
	hop = nla_data(a[RTA_MULTIPATH]);
	left = nla_len(a[RTA_MULTIPATH]);
	for (; RTNH_OK(hop, left); left -= NLMSG_ALIGN(hop->rtnh_len), hop = RTNH_NEXT(hop))
		if ((unsigned int)hop->rtnh_ifindex == ifindex)
			return true;
	return false;
}

/* Those that the kernel makes itself, of addresses, come back by themselves. */
static void see_route(void *arg, struct nlmsghdr *h)
{
	struct nlattr *a[RTA_MAX + 1] = {0};
	const struct rtmsg *r = nlmsg_data(h);
	struct search *s = arg;

	if (h->nlmsg_type != RTM_NEWROUTE || nlmsg_parse(h, sizeof(*r), a, RTA_MAX, NULL))
		return;
	if (r->rtm_protocol != RTPROT_KERNEL && !(r->rtm_flags & RTM_F_CLONED) &&
	    leaves_through(a, s->ifindex))
		s->fn(s->arg, h);
}

static void see_default(void *arg, struct nlmsghdr *h)
{
	struct nlattr *a[RTA_MAX + 1] = {0};
	const struct rtmsg *r = nlmsg_data(h);
	struct search *s = arg;

	if (h->nlmsg_type != RTM_NEWROUTE || nlmsg_parse(h, sizeof(*r), a, RTA_MAX, NULL))
		return;
	if (!r->rtm_dst_len && r->rtm_type == RTN_UNICAST && leaves_through(a, s->ifindex))
		s->found = true;
}

static void routes(unsigned char family, void (*fn)(void *arg, struct nlmsghdr *h),
		   struct search *s)
{
	struct rtmsg r = {.rtm_family = family};

	rtnl_read(rtnl_message(RTM_GETROUTE, NLM_F_DUMP, &r, sizeof(r)), fn, s);
}

void rtnl_link_belongings(unsigned int ifindex, void (*fn)(void *arg, struct nlmsghdr *h),
			  void *arg)
{
	struct search s = {.ifindex = ifindex, .fn = fn, .arg = arg};
	struct ifaddrmsg a = {.ifa_family = AF_UNSPEC};

	rtnl_read(rtnl_message(RTM_GETADDR, NLM_F_DUMP, &a, sizeof(a)), see_address, &s);
	routes(AF_INET, see_route, &s);
	routes(AF_INET6, see_route, &s);
}

bool rtnl_has_default_route(unsigned int ifindex)
{
	struct search s = {.ifindex = ifindex};

	routes(AF_INET, see_default, &s);
	routes(AF_INET6, see_default, &s);
	return s.found;
}

/* A dump tells what an address went through; only what was asked for once may be asked for again.
 */
static void clean_address(struct nlmsghdr *h)
{
	struct ifaddrmsg *a = nlmsg_data(h);
	struct nlattr *flags = nlmsg_find_attr(h, sizeof(*a), IFA_FLAGS);
	const uint32_t passing = IFA_F_TENTATIVE | IFA_F_DADFAILED | IFA_F_DEPRECATED;

	a->ifa_flags &= (unsigned char)~passing;
	if (flags)
		*(uint32_t *)nla_data(flags) &= ~passing;
}

int rtnl_replay(const struct nlmsghdr *h, int type)
{
	bool add = type == RTM_NEWADDR || type == RTM_NEWROUTE;
	struct nl_msg *m;
	int err;

	m = rtnl_message(type, add ? NLM_F_CREATE | NLM_F_EXCL : 0, nlmsg_data(h),
			 (size_t)nlmsg_datalen(h));
	if (type == RTM_NEWADDR)
		clean_address(nlmsg_hdr(m));
	err = rtnl_request(m);
	if (add && err == -EEXIST)
		return 0;
	return !add && (err == -ESRCH || err == -EADDRNOTAVAIL) ? 0 : err;
}
