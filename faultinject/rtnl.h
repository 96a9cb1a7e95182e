/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* rtnetlink, one request at a time. Results are 0 or a negative errno; messages of the kernel's go
 * to rtnl_said(). */
#ifndef SHIFT_RTNL_H
#define SHIFT_RTNL_H

#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nl_msg;

/* The text of the last error: the kernel's, or that of the errno. */
const char *rtnl_said(int err);

/* After a fork: a socket of this process's own. */
void rtnl_renew(void);

/* Sends and frees m, and waits for the answer. */
int rtnl_request(struct nl_msg *m);

/* The same, for a dump or a get: every answer is shown. */
int rtnl_read(struct nl_msg *m, void (*fn)(void *arg, struct nlmsghdr *h), void *arg);

/* A message with room for its family's header, which is copied. Never NULL: ends the process
 * without memory. */
struct nl_msg *rtnl_message(int type, int flags, const void *header, size_t bytes);

/* --- links ----------------------------------------------------------------------------------- */

struct link_state {
	char name[16];
	unsigned int ifindex, flags, mtu, mtu_min, mtu_max, arp_type;
};

/* -ENODEV: there is none. */
int rtnl_link_by_name(const char *name, struct link_state *s);
int rtnl_link_get(unsigned int ifindex, struct link_state *s);
int rtnl_link_set_up(unsigned int ifindex, bool up);
int rtnl_link_set_mtu(unsigned int ifindex, unsigned int mtu);

/* A link and those that stand on it. */
enum { LINKS_MAX = 256 };
struct link_set {
	unsigned int count, ifindex[LINKS_MAX];
};

/*
 * Addresses, routes and neighbours that go with links when these are set down or lose their
 * addresses, as messages that bring them back. has_nexthops: so do nexthop objects, which these
 * messages do not. -EAGAIN: they changed meanwhile, and what was shown is to be forgotten.
 */
int rtnl_link_addrs(const struct link_set *links, bool *has_nexthops,
		    void (*fn)(void *arg, struct nlmsghdr *h), void *arg);
/* Restores what one of these messages describes. It may exist already. */
int rtnl_restore(struct nlmsghdr *h);
/* Deletes the address that a message describes. */
int rtnl_restore_delete(struct nlmsghdr *h);
/* Changes the number of a netdev in the message. */
void rtnl_renumber(struct nlmsghdr *h, unsigned int old, unsigned int ifindex);

/* RTNH_OK(), which looks into the hop behind the last one. */
static inline bool rtnl_hop_ok(const struct rtnexthop *hop, int left)
{
	return left >= (int)sizeof(*hop) && RTNH_OK(hop, left);
}

/* The link by which packets to that address (AF_INET or AF_INET6) leave; 0: there is none. */
unsigned int rtnl_link_to(int family, const void *address);

/* What leaves through a link, by the routes of all tables. */
struct way_out {
	unsigned int ifindex;
	bool has_default;
	/* Of all addresses of IPv4, of all global ones of IPv6, and the larger one of these. */
	double share4, share6, share;
	int widest_bits;
	char widest[64], host[48]; /* its widest route, a single host that has a route; or "" */
};
struct ways_out {
	struct way_out *list; /* to be freed */
	size_t count;
};
int rtnl_ways_out(struct ways_out *w);

/* A link; where its packets go if it is a tunnel. */
struct tunnel {
	char netdev[16];
	unsigned int ifindex, lower; /* the link that its packets are bound to, or 0 */
	int remote_family;	     /* of its other end; 0: not visible */
	unsigned char remote[16];
	bool is_opaque; /* a tunnel that does not show its other end */
};
int rtnl_tunnel_get(unsigned int ifindex, struct tunnel *t);

/* --- qdiscs and filters ---------------------------------------------------------------------- */

struct qdisc {
	char kind[16];
	uint32_t handle, parent;
};

/* The root's, and that of clsact or ingress; at most max. Returns how many. */
int rtnl_qdiscs(unsigned int ifindex, struct qdisc *list, int max);

/* A request of that type for a qdisc; its kind is in there, options are to follow. */
struct nl_msg *rtnl_qdisc_message(int type, int flags, unsigned int ifindex, uint32_t parent,
				  uint32_t handle, const char *kind);
int rtnl_qdisc_delete(unsigned int ifindex, uint32_t parent, uint32_t handle, const char *kind);

/* A filter that runs the program; classid 0: it decides itself what becomes of a packet. */
int rtnl_filter_add(unsigned int ifindex, uint32_t parent, int program, const char *name,
		    uint32_t classid);
/* Deletes the filter of this name, if there is one. */
int rtnl_filter_delete(unsigned int ifindex, uint32_t parent, const char *name);
/* The number of filters, of all owners. */
int rtnl_filters(unsigned int ifindex, uint32_t parent);

#endif
