/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Faults of the link itself: administrative state, MTU, addresses. */
#include <arpa/inet.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <netlink/msg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faultinject/link_state.h"
#include "faultinject/rtnl.h"

/* With a smaller MTU the kernel removes the protocol from the link, with all its settings. */
enum { IPV4_MTU_MIN = 68, IPV6_MTU_MIN = 1280 };

static int link_failed(const struct injection *in, int err, struct problem *p)
{
	if (!err)
		return 0;
	return problem_set(p, err == -EPERM ? INJECT_NO_PERMISSION : INJECT_FAILED, "%s: %s",
			   in->t.netdev, rtnl_said(err));
}

static int set_link_up(struct injection *in, bool up, struct problem *p)
{
	if (dry_run(in, "set link %s %s", in->t.netdev, up ? "up" : "down"))
		return 0;
	return link_failed(in, rtnl_link_set_up(in->t.ifindex, up), p);
}

int down_begin(struct injection *in, struct problem *p)
{
	int status = link_state_keep(in, KEEP_ALL, NULL, p);

	return status ? status : set_link_up(in, false, p);
}

int up_begin(struct injection *in, struct problem *p)
{
	int status = link_state_keep(in, KEEP_ALL, NULL, p);

	return status ? status : set_link_up(in, true, p);
}

int flap_wave(struct injection *in, bool on, struct problem *p)
{
	struct problem unsaid = {0};
	int status = 0;

	if (!link_state_kept(in))
		status = link_state_keep(in, KEEP_ALL, NULL, p);
	if (!status)
		status = set_link_up(in, !on, p);
	/* As after a cable that was out for a moment, everything is restored. Undo tries again, and
	 * reports, what cannot be restored now. */
	if (!status && !on && !in->o.dry_run)
		link_addrs_restore(link_state_kept(in), &unsaid);
	return status;
}

/* --- MTU ------------------------------------------------------------------------------------- */

static bool has_ipv6(const char *netdev)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s", netdev);
	return !access(path, F_OK);
}

/* Also of those that stand on it, which follow. */
static int check_protocols(const struct injection *in, struct problem *p)
{
	struct link_state s;
	struct link_set links;
	int status = target_links(&in->t, true, &links, p);

	for (unsigned int i = 0; i < links.count && !status; i++) {
		if (rtnl_link_get(links.ifindex[i], &s) || s.mtu <= in->o.size)
			continue;
		if (in->o.size < IPV4_MTU_MIN)
			status = problem_set(p, INJECT_REFUSED,
					     "mtu %u: below %u IPv4 is taken off %s for good",
					     in->o.size, IPV4_MTU_MIN, s.name);
		else if (in->o.size < IPV6_MTU_MIN && has_ipv6(s.name))
			status = problem_set(p, INJECT_REFUSED,
					     "mtu %u: below %u IPv6 is taken off %s for good",
					     in->o.size, IPV6_MTU_MIN, s.name);
	}
	return status;
}

int mtu_check(struct injection *in, struct problem *p)
{
	struct link_state s;
	int err = rtnl_link_get(in->t.ifindex, &s);

	if (err)
		return link_failed(in, err, p);
	if (in->o.size < s.mtu_min || (s.mtu_max && in->o.size > s.mtu_max))
		return problem_set(p, INJECT_BAD_USAGE, "mtu %u: %s takes %u to %u", in->o.size,
				   in->t.netdev, s.mtu_min, s.mtu_max);
	snprintf(in->detail, sizeof(in->detail), "MTU %u instead of %u", in->o.size, s.mtu);
	return check_protocols(in, p);
}

int mtu_begin(struct injection *in, struct problem *p)
{
	int status = link_state_keep(in, KEEP_MTU, NULL, p);

	if (status || dry_run(in, "set link %s mtu %u", in->t.netdev, in->o.size))
		return status;
	return link_failed(in, rtnl_link_set_mtu(in->t.ifindex, in->o.size), p);
}

/* --- addresses ------------------------------------------------------------------------------- */

/* The addresses of which GIDs are made, in their order. */
static cJSON *own_addresses(const struct injection *in, struct problem *p)
{
	struct link_set one = {.count = 1, .ifindex = {in->t.ifindex}};
	bool has_nexthops;
	int err;
	cJSON *list = link_addrs_read(&one, &has_nexthops, &err), *item, *next;

	if (!list) {
		link_failed(in, err, p);
		return NULL;
	}
	for (item = list->child; item; item = next) {
		struct nlmsghdr *h = message_of(item);
		const struct ifaddrmsg *a = h ? nlmsg_data(h) : NULL;

		next = item->next;
		if (!h || h->nlmsg_type != RTM_NEWADDR ||
		    (a->ifa_family != AF_INET && a->ifa_family != AF_INET6))
			cJSON_Delete(cJSON_DetachItemViaPointer(list, item));
		free(h);
	}
	return list;
}

int addr_move_check(struct injection *in, struct problem *p)
{
	cJSON *list = own_addresses(in, p);
	int n = cJSON_GetArraySize(list);

	cJSON_Delete(list);
	if (!list)
		return p->status;
	if (!n)
		return problem_set(p, INJECT_REFUSED, "%s has no address that could move",
				   in->t.netdev);
	snprintf(in->detail, sizeof(in->detail),
		 "%d address%s away for %lld ms, back at another GID index", n, n == 1 ? "" : "es",
		 (long long)(in->o.time_us / 1000));
	return 0;
}

/* A substitute takes the place of an address in the GID table. It is from a network for
 * documentation. */
static struct nlmsghdr *stand_in(const struct nlmsghdr *h, int number)
{
	const struct ifaddrmsg *like = nlmsg_data(h);
	struct ifaddrmsg a = *like;
	struct nl_msg *m;
	struct nlmsghdr *copy;
	char text[64];
	unsigned char address[16];
	size_t bytes = like->ifa_family == AF_INET ? 4 : 16;

	snprintf(text, sizeof(text), bytes == 4 ? "198.51.100.%d" : "2001:db8:5f1f::%d",
		 number + 1);
	inet_pton(like->ifa_family, text, address);
	a.ifa_prefixlen = bytes == 4 ? 32 : 128;
	a.ifa_scope = RT_SCOPE_UNIVERSE;
	a.ifa_flags = IFA_F_NODAD;
	m = rtnl_message(RTM_NEWADDR, 0, &a, sizeof(a));
	nla_put(m, IFA_LOCAL, (int)bytes, address);
	nla_put(m, IFA_ADDRESS, (int)bytes, address);
	copy = malloc(nlmsg_hdr(m)->nlmsg_len);
	if (!copy)
		abort();
	memcpy(copy, nlmsg_hdr(m), nlmsg_hdr(m)->nlmsg_len);
	nlmsg_free(m);
	return copy;
}

/* Applies fn to the messages from..to - 1 of the list. */
static void replay_messages(const cJSON *list, int from, int to, int (*fn)(struct nlmsghdr *h))
{
	for (int i = from; i < to; i++) {
		struct nlmsghdr *h = message_of(cJSON_GetArrayItem(list, i));

		if (h)
			fn(h);
		free(h);
	}
}

/* Behind the addresses, as many others. */
static void add_stand_ins(cJSON *list, int n)
{
	for (int i = 0; i < n; i++) {
		struct nlmsghdr *h = message_of(cJSON_GetArrayItem(list, i)),
				*other = h ? stand_in(h, i) : NULL;

		if (other)
			message_add(list, other);
		free(h);
		free(other);
	}
}

/*
 * The addresses are deleted, substitutes take their places in the GID table, the addresses are
 * added again behind them, and the substitutes are deleted. Undo removes both kinds first: the
 * addresses then get the first free places, which are their old ones.
 */
int addr_move_begin(struct injection *in, struct problem *p)
{
	cJSON *both = own_addresses(in, p);
	int n = cJSON_GetArraySize(both), status;

	if (!both)
		return p->status;
	add_stand_ins(both, n);
	status = link_state_keep(in, KEEP_ALL, both, p);
	if (!status &&
	    !dry_run(in,
		     "remove %d addresses of %s, add %d others, add them again, remove the others",
		     n, in->t.netdev, n)) {
		replay_messages(both, 0, n, rtnl_restore_delete);
		replay_messages(both, n, 2 * n, rtnl_restore);
	}
	cJSON_Delete(both);
	return status;
}

int addr_move_finish(struct injection *in, struct problem *p)
{
	const cJSON *step = link_state_kept(in), *both = cJSON_GetObjectItem(step, "remove");
	struct problem missing = {0};
	int n = cJSON_GetArraySize(both) / 2;

	replay_messages(both, 0, n, rtnl_restore);
	replay_messages(both, n, 2 * n, rtnl_restore_delete);
	/* The routes that went with them. */
	return link_addrs_restore(step, &missing)
		       ? problem_set(p, INJECT_FAILED, "%s", missing.text)
		       : 0;
}
