/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Turns messages of a dump into requests that restore what they describe. */
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <netlink/msg.h>
#include <string.h>

#include "faultinject/rtnl.h"

enum { USER_HZ = 100 }; /* of all architectures that have RDMA */

/* --- addresses ------------------------------------------------------------------------------- */

static uint32_t address_flags(struct nlmsghdr *h)
{
	const struct ifaddrmsg *a = nlmsg_data(h);
	const struct nlattr *flags = nlmsg_find_attr(h, sizeof(*a), IFA_FLAGS);

	return flags ? nla_get_u32(flags) : a->ifa_flags;
}

static void set_address_flags(struct nlmsghdr *h, uint32_t value)
{
	struct ifaddrmsg *a = nlmsg_data(h);
	struct nlattr *flags = nlmsg_find_attr(h, sizeof(*a), IFA_FLAGS);

	a->ifa_flags = (unsigned char)value;
	if (flags)
		*(uint32_t *)nla_data(flags) = value;
}

static int restore_request(struct nlmsghdr *h, int type, int flags, uint32_t address_flags_now)
{
	struct nl_msg *m = rtnl_message(type, flags, nlmsg_data(h), (size_t)nlmsg_datalen(h));

	if (type == RTM_NEWADDR)
		set_address_flags(nlmsg_hdr(m), address_flags_now);
	return rtnl_request(m);
}

/*
 * An IPv6 address is tentative while the kernel looks for duplicates of it, a second or more, and
 * no route may have it as its source meanwhile. This address has passed that test before: it is
 * added without one, and then gets the flags that it had.
 */
static int add_address(struct nlmsghdr *h)
{
	const struct ifaddrmsg *a = nlmsg_data(h);
	/* A dump has flags that the kernel has set itself; a request may have only those that users
	 * set. */
	const uint32_t passing = IFA_F_TENTATIVE | IFA_F_DADFAILED | IFA_F_DEPRECATED;
	uint32_t had = address_flags(h), flags = had & ~passing;
	bool was_sure = a->ifa_family == AF_INET6 && !(had & IFA_F_TENTATIVE);
	int err = restore_request(h, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL,
				  was_sure ? flags | IFA_F_NODAD : flags);

	if ((err && err != -EEXIST) || !was_sure || (flags & IFA_F_NODAD))
		return err;
	/* Also if it exists: whoever added it may have been killed before this. */
	return restore_request(h, RTM_NEWADDR, NLM_F_REPLACE, flags);
}

/* --- routes ---------------------------------------------------------------------------------- */

/* Flags that the kernel sets in a route's state, and refuses in a request. */
static void clean_route(struct nlmsghdr *h)
{
	const unsigned int passing = RTNH_F_DEAD | RTNH_F_LINKDOWN | RTNH_F_OFFLOAD | RTNH_F_TRAP |
				     RTNH_F_UNRESOLVED;
	struct rtmsg *r = nlmsg_data(h);
	struct nlattr *hops = nlmsg_find_attr(h, sizeof(*r), RTA_MULTIPATH);
	struct rtnexthop *hop = hops ? nla_data(hops) : NULL;
	int left = hops ? nla_len(hops) : 0;

	r->rtm_flags &= ~(passing | RTM_F_OFFLOAD | RTM_F_TRAP | RTM_F_OFFLOAD_FAILED);
	for (; hop && rtnl_hop_ok(hop, left);
	     left -= NLMSG_ALIGN(hop->rtnh_len), hop = RTNH_NEXT(hop))
		hop->rtnh_flags &= (unsigned char)~passing;
}

/* A route of a router's advertisement would stay for ever unless its lifetime is given. */
static void put_expiry(struct nl_msg *m, struct nlmsghdr *h)
{
	const struct nlattr *attr = nlmsg_find_attr(h, sizeof(struct rtmsg), RTA_CACHEINFO);
	const struct rta_cacheinfo *info = attr ? nla_data(attr) : NULL;

	if (info && (size_t)nla_len(attr) >= sizeof(*info) && info->rta_expires > 0)
		nla_put_u32(m, RTA_EXPIRES, ((uint32_t)info->rta_expires + USER_HZ - 1) / USER_HZ);
}

static int request_route(struct nlmsghdr *h, int type, int flags)
{
	struct nl_msg *m = rtnl_message(type, flags, nlmsg_data(h), (size_t)nlmsg_datalen(h));

	clean_route(nlmsg_hdr(m));
	if (((const struct rtmsg *)nlmsg_data(h))->rtm_family == AF_INET6 && type == RTM_NEWROUTE)
		put_expiry(m, h);
	return rtnl_request(m);
}

/*
 * Appended behind others to the same destination, which NLM_F_EXCL would refuse; the same route is
 * not added twice. An IPv6 route survives its source address, without it, and the kernel takes it
 * for the same route: so it is deleted and added.
 */
static int add_route(struct nlmsghdr *h)
{
	const struct rtmsg *r = nlmsg_data(h);
	int err = request_route(h, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_APPEND);

	if (err != -EEXIST || r->rtm_family != AF_INET6 ||
	    !nlmsg_find_attr(h, sizeof(*r), RTA_PREFSRC))
		return err;
	request_route(h, RTM_DELROUTE, 0);
	return request_route(h, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_APPEND);
}

/* --- all of them ----------------------------------------------------------------------------- */

static int restore_attribute(struct nlmsghdr *h)
{
	switch (h->nlmsg_type) {
	case RTM_NEWADDR: return add_address(h);
	case RTM_NEWROUTE: return add_route(h);
	case RTM_NEWNEIGH: /* one that was learned meanwhile gives way */
		return restore_request(h, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, 0);
	default: return -EINVAL;
	}
}

int rtnl_restore(struct nlmsghdr *h)
{
	int err = restore_attribute(h);

	return err == -EEXIST ? 0 : err;
}

int rtnl_restore_delete(struct nlmsghdr *h)
{
	int err = restore_request(h, RTM_DELADDR, 0, 0);

	return err == -ESRCH || err == -EADDRNOTAVAIL ? 0 : err;
}

static void renumber_route(struct nlmsghdr *h, unsigned int old, unsigned int ifindex)
{
	struct nlattr *oif = nlmsg_find_attr(h, sizeof(struct rtmsg), RTA_OIF),
		      *hops = nlmsg_find_attr(h, sizeof(struct rtmsg), RTA_MULTIPATH);
	struct rtnexthop *hop = hops ? nla_data(hops) : NULL;
	int left = hops ? nla_len(hops) : 0;

	if (oif && nla_get_u32(oif) == old)
		*(uint32_t *)nla_data(oif) = ifindex;
	for (; hop && rtnl_hop_ok(hop, left);
	     left -= NLMSG_ALIGN(hop->rtnh_len), hop = RTNH_NEXT(hop))
		if ((unsigned int)hop->rtnh_ifindex == old)
			hop->rtnh_ifindex = (int)ifindex;
}

void rtnl_renumber(struct nlmsghdr *h, unsigned int old, unsigned int ifindex)
{
	struct ifaddrmsg *a = nlmsg_data(h);
	struct ndmsg *n = nlmsg_data(h);

	if (h->nlmsg_type == RTM_NEWADDR && a->ifa_index == old)
		a->ifa_index = ifindex;
	else if (h->nlmsg_type == RTM_NEWNEIGH && (unsigned int)n->ndm_ifindex == old)
		n->ndm_ifindex = (int)ifindex;
	else if (h->nlmsg_type == RTM_NEWROUTE)
		renumber_route(h, old, ifindex);
}
