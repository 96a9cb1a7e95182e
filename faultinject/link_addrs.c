/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Addresses, routes, neighbours. A link that is set down loses its IPv6 addresses, most of its
 * routes and all of its neighbours, and the kernel does not restore them when it is up again. So
 * they are read before, as the kernel's own messages, and sent back afterwards (rtnl_restore.c).
 */
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/nexthop.h>
#include <netlink/msg.h>
#include <stdlib.h>
#include <string.h>

#include "faultinject/rtnl.h"

struct address {
	unsigned char family, bytes[16];
};

struct search {
	const struct link_set *links;
	void (*fn)(void *arg, struct nlmsghdr *h);
	void *arg;
	struct address *addresses; /* of these links */
	size_t count;
	bool nexthops;
};

static bool is_of_links(const struct search *s, unsigned int ifindex)
{
	for (unsigned int i = 0; i < s->links->count; i++)
		if (s->links->ifindex[i] == ifindex)
			return true;
	return false;
}

static size_t address_bytes(unsigned char family)
{
	return family == AF_INET ? 4 : family == AF_INET6 ? 16 : 0;
}

static bool take_address(struct address *a, unsigned char family, const struct nlattr *attr)
{
	size_t bytes = address_bytes(family);

	if (!attr || !bytes || (size_t)nla_len(attr) != bytes)
		return false;
	memset(a, 0, sizeof(*a));
	a->family = family;
	memcpy(a->bytes, nla_data(attr), bytes);
	return true;
}

static void remember_address(struct search *s, struct nlmsghdr *h)
{
	const struct ifaddrmsg *msg = nlmsg_data(h);
	struct nlattr *a[IFA_MAX + 1] = {0};
	struct address *more;

	if (nlmsg_parse(h, sizeof(*msg), a, IFA_MAX, NULL))
		return;
	more = realloc(s->addresses, (s->count + 1) * sizeof(*more));
	if (!more)
		abort();
	s->addresses = more;
	s->count += take_address(&more[s->count], msg->ifa_family,
				 a[IFA_LOCAL] ? a[IFA_LOCAL] : a[IFA_ADDRESS]);
}

static void see_address(void *arg, struct nlmsghdr *h)
{
	const struct ifaddrmsg *a = nlmsg_data(h);
	struct search *s = arg;

	if (h->nlmsg_type != RTM_NEWADDR || !is_of_links(s, a->ifa_index))
		return;
	remember_address(s, h);
	s->fn(s->arg, h);
}

static bool leaves_through(struct nlattr *const *a, const struct search *s)
{
	const struct rtnexthop *hop;
	int left;

	if (a[RTA_OIF] && is_of_links(s, nla_get_u32(a[RTA_OIF])))
		return true;
	if (!a[RTA_MULTIPATH])
		return false;
	hop = nla_data(a[RTA_MULTIPATH]);
	left = nla_len(a[RTA_MULTIPATH]);
	for (; rtnl_hop_ok(hop, left); left -= NLMSG_ALIGN(hop->rtnh_len), hop = RTNH_NEXT(hop))
		if (is_of_links(s, (unsigned int)hop->rtnh_ifindex))
			return true;
	return false;
}

/* A route of any link is lost with the address that is its source address. */
static bool comes_from(struct nlattr *const *a, unsigned char family, const struct search *s)
{
	struct address source;

	if (!take_address(&source, family, a[RTA_PREFSRC]))
		return false;
	for (size_t i = 0; i < s->count; i++)
		if (!memcmp(&s->addresses[i], &source, sizeof(source)))
			return true;
	return false;
}

/* The kernel makes some routes itself, from addresses, and makes them again with these. */
static void see_route(void *arg, struct nlmsghdr *h)
{
	struct nlattr *a[RTA_MAX + 1] = {0};
	const struct rtmsg *r = nlmsg_data(h);
	struct search *s = arg;

	if (h->nlmsg_type != RTM_NEWROUTE || nlmsg_parse(h, sizeof(*r), a, RTA_MAX, NULL))
		return;
	if (r->rtm_protocol == RTPROT_KERNEL || (r->rtm_flags & RTM_F_CLONED) ||
	    (!leaves_through(a, s) && !comes_from(a, r->rtm_family, s)))
		return;
	s->nexthops |= a[RTA_NH_ID] != NULL;
	s->fn(s->arg, h);
}

/* All other neighbours are learned again. */
static void see_neighbour(void *arg, struct nlmsghdr *h)
{
	const struct ndmsg *n = nlmsg_data(h);
	struct search *s = arg;

	if (h->nlmsg_type == RTM_NEWNEIGH && address_bytes(n->ndm_family) &&
	    is_of_links(s, (unsigned int)n->ndm_ifindex) &&
	    ((n->ndm_state & NUD_PERMANENT) || (n->ndm_flags & NTF_PROXY)))
		s->fn(s->arg, h);
}

static void see_nexthop(void *arg, struct nlmsghdr *h)
{
	struct nlattr *a[NHA_MAX + 1] = {0};
	struct search *s = arg;

	if (h->nlmsg_type == RTM_NEWNEXTHOP &&
	    !nlmsg_parse(h, sizeof(struct nhmsg), a, NHA_MAX, NULL) && a[NHA_OIF] &&
	    is_of_links(s, nla_get_u32(a[NHA_OIF])))
		s->nexthops = true;
}

static int read_routes(unsigned char family, void (*fn)(void *arg, struct nlmsghdr *h),
		       struct search *s)
{
	struct rtmsg r = {.rtm_family = family};

	return rtnl_read(rtnl_message(RTM_GETROUTE, NLM_F_DUMP, &r, sizeof(r)), fn, s);
}

static int read_neighbours(unsigned char flags, struct search *s)
{
	struct ndmsg n = {.ndm_family = AF_UNSPEC, .ndm_flags = flags};

	return rtnl_read(rtnl_message(RTM_GETNEIGH, NLM_F_DUMP, &n, sizeof(n)), see_neighbour, s);
}

static int read_nexthops(struct search *s)
{
	struct nhmsg n = {.nh_family = AF_UNSPEC};
	int err = rtnl_read(rtnl_message(RTM_GETNEXTHOP, NLM_F_DUMP, &n, sizeof(n)), see_nexthop,
			    s);

	return err == -EOPNOTSUPP ? 0 : err; /* before Linux 5.3 there are none */
}

int rtnl_link_addrs(const struct link_set *links, bool *has_nexthops,
		    void (*fn)(void *arg, struct nlmsghdr *h), void *arg)
{
	struct search s = {.links = links, .fn = fn, .arg = arg};
	struct ifaddrmsg a = {.ifa_family = AF_UNSPEC};
	int err;

	err = rtnl_read(rtnl_message(RTM_GETADDR, NLM_F_DUMP, &a, sizeof(a)), see_address, &s);
	if (!err)
		err = read_routes(AF_INET, see_route, &s);
	if (!err)
		err = read_routes(AF_INET6, see_route, &s);
	if (!err)
		err = read_neighbours(0, &s);
	if (!err)
		err = read_neighbours(NTF_PROXY, &s);
	if (!err)
		err = read_nexthops(&s);
	free(s.addresses);
	*has_nexthops = s.nexthops;
	return err;
}
