/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The state of a link, saved in the journal and restored from there: flags, MTU, addresses, routes,
 * neighbours. The links on top of it (VLANs, macvlans) are saved too, as the kernel sets them down,
 * or reduces their MTU, along with it.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <netlink/msg.h>
#include <stdio.h>
#include <stdlib.h>

#include "faultinject/link_state.h"
#include "faultinject/rtnl.h"

enum { DUMPS_MAX = 20, PASSES = 2 };

static cJSON *message_text(const struct nlmsghdr *h)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = h->nlmsg_len;
	char *hex = malloc(2 * n + 1);
	cJSON *text;

	if (!hex)
		abort();
	for (size_t i = 0; i < n; i++) {
		hex[2 * i] = digits[((const unsigned char *)h)[i] >> 4];
		hex[2 * i + 1] = digits[((const unsigned char *)h)[i] & 15];
	}
	hex[2 * n] = 0;
	text = cJSON_CreateString(hex);
	free(hex);
	return text;
}

void message_add(cJSON *list, const struct nlmsghdr *h)
{
	cJSON_AddItemToArray(list, message_text(h));
}

struct nlmsghdr *message_of(const cJSON *item)
{
	const char *hex = cJSON_GetStringValue(item);
	size_t n = hex ? strlen(hex) / 2 : 0;
	struct nlmsghdr *h = calloc(1, n + sizeof(*h));
	unsigned int byte;

	for (size_t i = 0; h && i < n; i++) {
		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			n = 0;
		else
			((unsigned char *)h)[i] = (unsigned char)byte;
	}
	if (h && n >= sizeof(*h) && h->nlmsg_len == n)
		return h;
	free(h);
	return NULL;
}

/* --- keeping --------------------------------------------------------------------------------- */

struct keeper {
	cJSON *list, *ipv6, *others;
};

static void keep_message(void *arg, struct nlmsghdr *h)
{
	const struct ifaddrmsg *a = nlmsg_data(h);
	struct keeper *k = arg;

	if (h->nlmsg_type != RTM_NEWADDR)
		message_add(k->others, h);
	else
		message_add(a->ifa_family == AF_INET6 ? k->ipv6 : k->list, h);
}

/* The kernel puts a new IPv6 address before the others, and dumps it first. So they are restored in
 * reverse, which gives them, and their GIDs, the old order. */
static cJSON *in_order(struct keeper *k)
{
	for (int n = cJSON_GetArraySize(k->ipv6); n; n--)
		cJSON_AddItemToArray(k->list, cJSON_DetachItemFromArray(k->ipv6, n - 1));
	while (k->others->child)
		cJSON_AddItemToArray(k->list, cJSON_DetachItemFromArray(k->others, 0));
	return k->list;
}

cJSON *link_addrs_read(const struct link_set *links, bool *has_nexthops, int *err)
{
	*err = -EAGAIN;
	for (int i = 0; i < DUMPS_MAX && *err == -EAGAIN; i++) {
		struct keeper k = {cJSON_CreateArray(), cJSON_CreateArray(), cJSON_CreateArray()};
		cJSON *list;

		*err = rtnl_link_addrs(links, has_nexthops, keep_message, &k);
		list = in_order(&k);
		cJSON_Delete(k.ipv6);
		cJSON_Delete(k.others);
		if (!*err)
			return list;
		cJSON_Delete(list);
	}
	return NULL;
}

static int keep_state(cJSON *o, unsigned int ifindex, enum keep what)
{
	struct link_state s;
	int err = rtnl_link_get(ifindex, &s);

	if (err)
		return err;
	cJSON_AddNumberToObject(o, "ifindex", ifindex);
	cJSON_AddStringToObject(o, "netdev", s.name);
	cJSON_AddNumberToObject(o, "mtu", s.mtu);
	if (what != KEEP_MTU)
		cJSON_AddBoolToObject(o, "up", s.flags & IFF_UP);
	return 0;
}

static int keep_states(const struct injection *in, cJSON *step, const struct link_set *links,
		       enum keep what, struct problem *p)
{
	cJSON *uppers = cJSON_AddArrayToObject(step, "uppers");
	int err = 0;

	for (unsigned int i = 0; i < links->count && !err; i++) {
		cJSON *o = i ? cJSON_CreateObject() : step;

		err = keep_state(o, links->ifindex[i], what);
		if (i)
			cJSON_AddItemToArray(uppers, o);
	}
	return err ? problem_set(p, INJECT_FAILED, "%s: %s", in->t.netdev, rtnl_said(err)) : 0;
}

static int keep_addrs(const struct injection *in, cJSON *step, const struct link_set *links,
		      struct problem *p)
{
	bool has_nexthops = false;
	int err;
	cJSON *belongings = link_addrs_read(links, &has_nexthops, &err);

	if (!belongings)
		return problem_set(p, INJECT_FAILED,
				   "%s: its addresses and routes cannot be read: %s", in->t.netdev,
				   rtnl_said(err));
	cJSON_AddItemToObject(step, "belongings", belongings);
	if (!has_nexthops)
		return 0;
	return problem_set(p, INJECT_REFUSED,
			   "%s has nexthop objects (ip nexthop), which would not come back",
			   in->t.netdev);
}

static int find_links(const struct injection *in, enum keep what, struct link_set *links,
		      struct problem *p)
{
	int status = target_links(&in->t, what == KEEP_MTU, links, p);

	if (status || what != KEEP_FOR_RETURN || !target_has_upper(&in->t))
		return status;
	return problem_set(
		p, INJECT_REFUSED,
		"%s is part of another interface, or carries one, which would be gone for good",
		in->t.netdev);
}

int link_state_keep(struct injection *in, enum keep what, const cJSON *remove, struct problem *p)
{
	cJSON *step = cJSON_CreateObject();
	struct link_set links;
	int status = find_links(in, what, &links, p);

	if (!status)
		status = keep_states(in, step, &links, what, p);
	if (!status && what != KEEP_MTU)
		status = keep_addrs(in, step, &links, p);
	if (status) {
		cJSON_Delete(step);
		return status;
	}
	if (what == KEEP_FOR_RETURN)
		cJSON_AddTrueToObject(step, "returns");
	if (remove)
		cJSON_AddItemToObject(step, "remove", cJSON_Duplicate(remove, true));
	return journal_step(in, "link", step, p);
}

const cJSON *link_state_kept(const struct injection *in)
{
	return cJSON_GetArrayItem(cJSON_GetObjectItem(in->journal, "steps"), 0);
}

/* --- bringing back --------------------------------------------------------------------------- */

/* Finds the netdev again by its number. By its name only if it was lost with its driver: otherwise
 * a netdev of that name is a new one, which somebody else has made. */
static unsigned int find_again(const cJSON *step)
{
	unsigned int ifindex = json_uint32(step, "ifindex");
	struct link_state s;

	if (cJSON_IsTrue(cJSON_GetObjectItem(step, "returns")) &&
	    rtnl_link_get(ifindex, &s) == -ENODEV &&
	    !rtnl_link_by_name(json_text(step, "netdev"), &s))
		return s.ifindex;
	return ifindex;
}

/* Sets only what differs: a bridge whose MTU is set no longer follows the MTU of its ports. */
static int restore_state(const cJSON *o, unsigned int ifindex)
{
	const cJSON *up = cJSON_GetObjectItem(o, "up");
	unsigned int mtu = json_uint32(o, "mtu");
	struct link_state s;
	int err = rtnl_link_get(ifindex, &s);

	if (!err && mtu && s.mtu != mtu)
		err = rtnl_link_set_mtu(ifindex, mtu);
	if (!err && cJSON_IsBool(up) && !(s.flags & IFF_UP) != !cJSON_IsTrue(up))
		err = rtnl_link_set_up(ifindex, cJSON_IsTrue(up));
	return err;
}

static int restore_uppers(const cJSON *step, struct problem *p)
{
	const cJSON *upper;
	int status = 0;

	cJSON_ArrayForEach (upper, cJSON_GetObjectItem(step, "uppers")) {
		int err = restore_state(upper, json_uint32(upper, "ifindex"));

		if (err && err != -ENODEV)
			status = problem_set(p, INJECT_NOT_UNDONE, "%s: %s",
					     json_text(upper, "netdev"), rtnl_said(err));
	}
	return status;
}

static const char *message_noun(int type)
{
	return type == RTM_NEWADDR    ? "an address"
	       : type == RTM_NEWROUTE ? "a route"
				      : "a neighbour";
}

/* A route may also need a link that is gone, or that another fault has set down, which then
 * restores the route. */
static bool is_anothers(const struct nlmsghdr *h, int err)
{
	return h->nlmsg_type == RTM_NEWROUTE && (err == -ENODEV || err == -ENETDOWN);
}

static int restore_one(const cJSON *step, unsigned int ifindex, struct nlmsghdr *h,
		       struct problem *p)
{
	int err;

	rtnl_renumber(h, json_uint32(step, "ifindex"), ifindex);
	err = rtnl_restore(h);
	if (!err || is_anothers(h, err))
		return 0;
	return problem_set(p, INJECT_NOT_UNDONE, "%s: %s did not come back: %s",
			   json_text(step, "netdev"), message_noun(h->nlmsg_type), rtnl_said(err));
}

/* A route may need another one that comes later in the list, so those that fail are tried again. */
static int restore_addrs(const cJSON *step, unsigned int ifindex, struct problem *p)
{
	cJSON *left = cJSON_Duplicate(cJSON_GetObjectItem(step, "belongings"), true), *item, *next;
	int status = 0;

	for (int pass = 1; pass <= PASSES; pass++) {
		for (item = left ? left->child : NULL; item; item = next) {
			struct nlmsghdr *h = message_of(item);
			struct problem unsaid = {0};

			next = item->next;
			if (!h || !restore_one(step, ifindex, h, pass < PASSES ? &unsaid : p))
				cJSON_Delete(cJSON_DetachItemViaPointer(left, item));
			free(h);
		}
	}
	if (cJSON_GetArraySize(left))
		status = INJECT_NOT_UNDONE;
	cJSON_Delete(left);
	return status;
}

int link_addrs_restore(const cJSON *step, struct problem *p)
{
	int status = restore_uppers(step, p);

	return restore_addrs(step, find_again(step), p) ? INJECT_NOT_UNDONE : status;
}

int link_restore(const cJSON *step, struct problem *p)
{
	int err = restore_state(step, find_again(step));
	const cJSON *item;

	if (err == -ENODEV)
		return 0;
	if (err)
		return problem_set(p, INJECT_NOT_UNDONE, "%s: %s", json_text(step, "netdev"),
				   rtnl_said(err));
	/* A substitute is removed before its address is restored, as it has the address's place in
	 * the GID table. */
	cJSON_ArrayForEach (item, cJSON_GetObjectItem(step, "remove")) {
		struct nlmsghdr *h = message_of(item);

		if (h)
			rtnl_restore_delete(h);
		free(h);
	}
	return link_addrs_restore(step, p);
}
