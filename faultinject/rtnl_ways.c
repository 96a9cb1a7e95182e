/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The ways by which packets leave this host: routes of all tables, and tunnels. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/if_tunnel.h>
#include <netlink/msg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faultinject/rtnl.h"

enum { DUMPS_MAX = 20, BITS_MAX = 16 };

/* --- routes ---------------------------------------------------------------------------------- */

/* 2000::/3 is what is routed worldwide: the share of IPv6 addresses is one of these. */
enum { GLOBAL_BYTE = 0x20, GLOBAL_BITS = 3 };

static double share_of_bits(int bits)
{
	double share = 1;

	for (; bits > 0; bits--)
		share /= 2;
	return share;
}

/* Multicast has routes of its own, which may be wide. */
static double share_of(const struct rtmsg *r, const unsigned char *dst)
{
	int bits = r->rtm_dst_len;
	int wide = bits < GLOBAL_BITS ? bits : GLOBAL_BITS;

	if (bits > BITS_MAX)
		return 0;
	if (r->rtm_family == AF_INET)
		return dst[0] >= 224 ? 0 : share_of_bits(bits);
	if ((dst[0] ^ GLOBAL_BYTE) >> (8 - wide))
		return 0;
	return share_of_bits(bits - wide);
}

static struct way_out *way_for(struct ways_out *w, unsigned int ifindex)
{
	struct way_out *more;

	for (size_t i = 0; i < w->count; i++)
		if (w->list[i].ifindex == ifindex)
			return w->list + i;
	more = realloc(w->list, (w->count + 1) * sizeof(*more));
	if (!more)
		abort();
	w->list = more;
	more += w->count++;
	*more = (struct way_out){.ifindex = ifindex, .widest_bits = BITS_MAX + 1};
	return more;
}

static void add_route(struct ways_out *w, const struct rtmsg *r, const unsigned char *dst,
		      unsigned int ifindex)
{
	bool is_host = r->rtm_dst_len == (r->rtm_family == AF_INET ? 32 : 128) &&
		       r->rtm_protocol != RTPROT_KERNEL;
	double share = share_of(r, dst);
	struct way_out *way;
	char text[INET6_ADDRSTRLEN] = "";

	if (share <= 0 && !is_host)
		return;
	way = way_for(w, ifindex);
	inet_ntop(r->rtm_family, dst, text, sizeof(text));
	way->has_default |= !r->rtm_dst_len;
	*(r->rtm_family == AF_INET ? &way->share4 : &way->share6) += share;
	way->share = way->share4 > way->share6 ? way->share4 : way->share6;
	if (share > 0 && r->rtm_dst_len < way->widest_bits) {
		way->widest_bits = r->rtm_dst_len;
		snprintf(way->widest, sizeof(way->widest), "%s/%u", text, r->rtm_dst_len);
	}
	if (is_host)
		snprintf(way->host, sizeof(way->host), "%s", text);
}

static void see_way(void *arg, struct nlmsghdr *h)
{
	struct nlattr *a[RTA_MAX + 1] = {0};
	const struct rtmsg *r = nlmsg_data(h);
	const struct rtnexthop *hop;
	unsigned char dst[16] = {0};
	int left;

	if (h->nlmsg_type != RTM_NEWROUTE || nlmsg_parse(h, sizeof(*r), a, RTA_MAX, NULL) ||
	    r->rtm_type != RTN_UNICAST || (r->rtm_flags & RTM_F_CLONED))
		return;
	if (a[RTA_DST])
		memcpy(dst, nla_data(a[RTA_DST]),
		       nla_len(a[RTA_DST]) < 16 ? (size_t)nla_len(a[RTA_DST]) : 16);
	if (a[RTA_OIF])
		add_route(arg, r, dst, nla_get_u32(a[RTA_OIF]));
	if (!a[RTA_MULTIPATH])
		return;
	hop = nla_data(a[RTA_MULTIPATH]);
	left = nla_len(a[RTA_MULTIPATH]);
	for (; rtnl_hop_ok(hop, left); left -= NLMSG_ALIGN(hop->rtnh_len), hop = RTNH_NEXT(hop))
		add_route(arg, r, dst, (unsigned int)hop->rtnh_ifindex);
}

static int read_ways(unsigned char family, struct ways_out *w)
{
	struct rtmsg r = {.rtm_family = family};

	return rtnl_read(rtnl_message(RTM_GETROUTE, NLM_F_DUMP, &r, sizeof(r)), see_way, w);
}

int rtnl_ways_out(struct ways_out *w)
{
	int err = -EAGAIN;

	*w = (struct ways_out){0};
	for (int i = 0; i < DUMPS_MAX && err == -EAGAIN; i++) {
		w->count = 0;
		err = read_ways(AF_INET, w);
		if (!err)
			err = read_ways(AF_INET6, w);
	}
	return err;
}

/* --- tunnels --------------------------------------------------------------------------------- */

/* Where a tunnel's own attributes say what it stands on, and where its other end is; 0: they do
 * not. */
static const struct {
	const char *kind;
	int lower, remote, remote6;
} kinds[] = {
	{"vxlan", IFLA_VXLAN_LINK, IFLA_VXLAN_GROUP, IFLA_VXLAN_GROUP6},
	{"geneve", 0, IFLA_GENEVE_REMOTE, IFLA_GENEVE_REMOTE6},
	{"gre", IFLA_GRE_LINK, IFLA_GRE_REMOTE, 0},
	{"gretap", IFLA_GRE_LINK, IFLA_GRE_REMOTE, 0},
	{"erspan", IFLA_GRE_LINK, IFLA_GRE_REMOTE, 0},
	{"ip6gre", IFLA_GRE_LINK, IFLA_GRE_REMOTE, 0},
	{"ip6gretap", IFLA_GRE_LINK, IFLA_GRE_REMOTE, 0},
	{"ip6erspan", IFLA_GRE_LINK, IFLA_GRE_REMOTE, 0},
	{"ipip", IFLA_IPTUN_LINK, IFLA_IPTUN_REMOTE, 0},
	{"sit", IFLA_IPTUN_LINK, IFLA_IPTUN_REMOTE, 0},
	{"ip6tnl", IFLA_IPTUN_LINK, IFLA_IPTUN_REMOTE, 0},
	{"vti", IFLA_VTI_LINK, IFLA_VTI_REMOTE, 0},
	{"vti6", IFLA_VTI_LINK, IFLA_VTI_REMOTE, 0},
	{"xfrm", IFLA_XFRM_LINK, 0, 0},
	{"tun", 0, 0, 0},
	{"wireguard", 0, 0, 0},
	{"amneziawg", 0, 0, 0},
	{"ovpn", 0, 0, 0},
	{"ovpn-dco", 0, 0, 0},
	{"ppp", 0, 0, 0},
};

enum { KINDS = sizeof(kinds) / sizeof(*kinds), DATA_MAX = 63 };

static void take_remote(struct tunnel *t, const struct nlattr *a)
{
	static const unsigned char none[16];
	size_t bytes = a ? (size_t)nla_len(a) : 0;

	if ((bytes != 4 && bytes != 16) || !memcmp(nla_data(a), none, bytes))
		return;
	t->remote_family = bytes == 4 ? AF_INET : AF_INET6;
	memcpy(t->remote, nla_data(a), bytes);
}

static void take_data(struct tunnel *t, size_t kind, struct nlattr *data)
{
	struct nlattr *a[DATA_MAX + 1] = {0};

	if (!data || nla_parse_nested(a, DATA_MAX, data, NULL))
		return;
	if (kinds[kind].lower && a[kinds[kind].lower] && nla_len(a[kinds[kind].lower]) >= 4)
		t->lower = nla_get_u32(a[kinds[kind].lower]);
	if (kinds[kind].remote)
		take_remote(t, a[kinds[kind].remote]);
	if (kinds[kind].remote6 && !t->remote_family)
		take_remote(t, a[kinds[kind].remote6]);
}

/* Without a kind, old drivers of tunnels show themselves by their type. */
static void take_kind(struct tunnel *t, const struct ifinfomsg *info, struct nlattr *link_info)
{
	struct nlattr *a[IFLA_INFO_MAX + 1] = {0};
	bool is_tunnel = info->ifi_type == ARPHRD_PPP || info->ifi_type == ARPHRD_NONE;

	if (link_info)
		nla_parse_nested(a, IFLA_INFO_MAX, link_info, NULL);
	for (size_t i = 0; a[IFLA_INFO_KIND] && i < KINDS; i++) {
		if (strcmp(kinds[i].kind, nla_get_string(a[IFLA_INFO_KIND])))
			continue;
		take_data(t, i, a[IFLA_INFO_DATA]);
		is_tunnel = true;
	}
	t->is_opaque = is_tunnel && !t->remote_family;
}

static void take_tunnel(void *arg, struct nlmsghdr *h)
{
	const struct ifinfomsg *info = nlmsg_data(h);
	struct nlattr *a[IFLA_MAX + 1] = {0};
	struct tunnel *t = arg;

	if (h->nlmsg_type != RTM_NEWLINK || nlmsg_parse(h, sizeof(*info), a, IFLA_MAX, NULL) ||
	    !a[IFLA_IFNAME])
		return;
	snprintf(t->netdev, sizeof(t->netdev), "%s", nla_get_string(a[IFLA_IFNAME]));
	t->ifindex = (unsigned int)info->ifi_index;
	take_kind(t, info, a[IFLA_LINKINFO]);
}

int rtnl_tunnel_get(unsigned int ifindex, struct tunnel *t)
{
	struct ifinfomsg info = {.ifi_index = (int)ifindex};
	int err;

	memset(t, 0, sizeof(*t));
	err = rtnl_read(rtnl_message(RTM_GETLINK, NLM_F_ACK, &info, sizeof(info)), take_tunnel, t);
	return err ? err : t->ifindex ? 0 : -ENODEV;
}
