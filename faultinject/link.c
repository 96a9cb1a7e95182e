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
#include <time.h>

#include "faultinject/inject.h"
#include "faultinject/rtnl.h"

/* --- what goes with a link that goes down ---------------------------------------------------- */

static void keep(void *arg, struct nlmsghdr *h)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = h->nlmsg_len;
	char *hex = malloc(2 * n + 1);

	if (!hex)
		abort();
	for (size_t i = 0; i < n; i++) {
		hex[2 * i] = digits[((unsigned char *)h)[i] >> 4];
		hex[2 * i + 1] = digits[((unsigned char *)h)[i] & 15];
	}
	hex[2 * n] = 0;
	cJSON_AddItemToArray(arg, cJSON_CreateString(hex));
	free(hex);
}

/* NULL: not one of keep()'s. To be freed. */
static struct nlmsghdr *message_of(const cJSON *item)
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

/* The same netdev: by its number, or by its name if it has been away with its driver. */
static unsigned int find_again(const cJSON *step)
{
	unsigned int ifindex = (unsigned int)json_number(step, "ifindex", 0);
	struct link_state s;

	if (rtnl_link_get(ifindex, &s) == -ENODEV &&
	    !rtnl_link_by_name(json_text(step, "netdev"), &s))
		return s.ifindex;
	return ifindex;
}

/* A message about a netdev that has another number now. */
static void renumber(struct nlmsghdr *h, unsigned int ifindex)
{
	struct nlattr *oif;

	if (h->nlmsg_type == RTM_NEWADDR) {
		((struct ifaddrmsg *)nlmsg_data(h))->ifa_index = ifindex;
		return;
	}
	oif = nlmsg_find_attr(h, sizeof(struct rtmsg), RTA_OIF);
	if (oif)
		*(uint32_t *)nla_data(oif) = ifindex;
}

/* A route may need another one that stands behind it: so twice. */
static void bring_back(const cJSON *belongings, unsigned int ifindex)
{
	const cJSON *item;

	for (int pass = 0; pass < 2; pass++) {
		cJSON_ArrayForEach (item, belongings) {
			struct nlmsghdr *h = message_of(item);

			if (h) {
				renumber(h, ifindex);
				rtnl_replay(h, h->nlmsg_type);
			}
			free(h);
		}
	}
}

int link_restore(const cJSON *step, struct problem *p)
{
	unsigned int ifindex = find_again(step);
	bool up = cJSON_IsTrue(cJSON_GetObjectItem(step, "up"));
	const cJSON *mtu = cJSON_GetObjectItem(step, "mtu"),
		    *belongings = cJSON_GetObjectItem(step, "belongings"), *item;
	int err = cJSON_IsNumber(mtu) ? rtnl_link_set_mtu(ifindex, (unsigned int)mtu->valueint) : 0;

	if (!err)
		err = rtnl_link_set_up(ifindex, up);
	if (err == -ENODEV)
		return 0;
	if (err)
		return problem(p, INJECT_NOT_UNDONE, "%s: %s", json_text(step, "netdev"),
			       rtnl_said(err));
	/* What stood in for an address goes before the address comes back: it has taken its place
	 * among the GIDs. */
	cJSON_ArrayForEach (item, cJSON_GetObjectItem(step, "remove")) {
		struct nlmsghdr *h = message_of(item);

		if (h)
			rtnl_replay(h, RTM_DELADDR);
		free(h);
	}
	if (up)
		bring_back(belongings, ifindex);
	return 0;
}

static int keep_link(struct injection *in, const cJSON *remove, struct problem *p)
{
	cJSON *step = cJSON_CreateObject(),
	      *belongings = cJSON_AddArrayToObject(step, "belongings");
	struct link_state s;
	int err = rtnl_link_get(in->t.ifindex, &s);

	if (err) {
		cJSON_Delete(step);
		return problem(p, INJECT_FAILED, "%s: %s", in->t.netdev, rtnl_said(err));
	}
	rtnl_link_belongings(in->t.ifindex, keep, belongings);
	cJSON_AddNumberToObject(step, "ifindex", in->t.ifindex);
	cJSON_AddStringToObject(step, "netdev", in->t.netdev);
	cJSON_AddBoolToObject(step, "up", s.flags & IFF_UP);
	cJSON_AddNumberToObject(step, "mtu", s.mtu);
	if (remove)
		cJSON_AddItemToObject(step, "remove", cJSON_Duplicate(remove, true));
	return journal_step(in, "link", step, p);
}

int link_keep(struct injection *in, struct problem *p)
{
	return keep_link(in, NULL, p);
}

static int failed(struct injection *in, int err, struct problem *p)
{
	if (!err)
		return 0;
	return problem(p, err == -EPERM ? INJECT_NO_PERMISSION : INJECT_FAILED, "%s: %s",
		       in->t.netdev, rtnl_said(err));
}

static int set_up(struct injection *in, bool up, struct problem *p)
{
	if (dry_run(in, "set link %s %s", in->t.netdev, up ? "up" : "down"))
		return 0;
	return failed(in, rtnl_link_set_up(in->t.ifindex, up), p);
}

int down_begin(struct injection *in, struct problem *p)
{
	int status = keep_link(in, NULL, p);

	return status ? status : set_up(in, false, p);
}

int up_begin(struct injection *in, struct problem *p)
{
	int status = keep_link(in, NULL, p);

	return status ? status : set_up(in, true, p);
}

/* What keep_link() has found. */
static const cJSON *kept(const struct injection *in)
{
	const cJSON *steps = cJSON_GetObjectItem(in->journal, "steps");

	return cJSON_GetObjectItem(cJSON_GetArrayItem(steps, 0), "belongings");
}

int flap_wave(struct injection *in, bool on, struct problem *p)
{
	int status = 0;

	if (!kept(in))
		status = keep_link(in, NULL, p);
	if (!status)
		status = set_up(in, !on, p);
	/* As after a cable that was out for a moment: everything is there again. */
	if (!status && !on && !in->o.dry_run)
		bring_back(kept(in), in->t.ifindex);
	return status;
}

/* --- MTU ------------------------------------------------------------------------------------- */

int mtu_check(struct injection *in, struct problem *p)
{
	struct link_state s;
	int err = rtnl_link_get(in->t.ifindex, &s);

	if (err)
		return failed(in, err, p);
	if (in->o.size < s.mtu_min || (s.mtu_max && in->o.size > s.mtu_max))
		return problem(p, INJECT_BAD_USAGE, "mtu %u: %s takes %u to %u", in->o.size,
			       in->t.netdev, s.mtu_min, s.mtu_max);
	snprintf(in->detail, sizeof(in->detail), "MTU %u instead of %u", in->o.size, s.mtu);
	return 0;
}

int mtu_begin(struct injection *in, struct problem *p)
{
	int status = keep_link(in, NULL, p);

	if (status || dry_run(in, "set link %s mtu %u", in->t.netdev, in->o.size))
		return status;
	return failed(in, rtnl_link_set_mtu(in->t.ifindex, in->o.size), p);
}

/* --- addresses ------------------------------------------------------------------------------- */

/* The addresses of which GIDs are made, in their order. */
static void keep_address(void *arg, struct nlmsghdr *h)
{
	const struct ifaddrmsg *a = nlmsg_data(h);

	if (h->nlmsg_type == RTM_NEWADDR && (a->ifa_family == AF_INET || a->ifa_family == AF_INET6))
		keep(arg, h);
}

int addr_move_check(struct injection *in, struct problem *p)
{
	cJSON *list = cJSON_CreateArray();
	int n;

	rtnl_link_belongings(in->t.ifindex, keep_address, list);
	n = cJSON_GetArraySize(list);
	cJSON_Delete(list);
	if (!n)
		return problem(p, INJECT_REFUSED, "%s has no address that could move",
			       in->t.netdev);
	snprintf(in->detail, sizeof(in->detail),
		 "%d address%s away for %lld ms, back at another GID index", n, n == 1 ? "" : "es",
		 (long long)(in->o.time_us / 1000));
	return 0;
}

/* An address that takes the place of another among the GIDs: of a network for documentation. */
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

static void replay_all(const cJSON *list, int type)
{
	const cJSON *item;

	cJSON_ArrayForEach (item, list) {
		struct nlmsghdr *h = message_of(item);

		if (h)
			rtnl_replay(h, type);
		free(h);
	}
}

/*
 * Addresses go, others take their places, they come back behind those, which go. What undo removes
 * is both: the addresses then come back to the first free places, which are their old ones.
 */
int addr_move_begin(struct injection *in, struct problem *p)
{
	cJSON *own = cJSON_CreateArray(), *others = cJSON_CreateArray(), *remove, *item;
	struct timespec away = {in->o.time_us / 1000000, in->o.time_us % 1000000 * 1000};
	int status, n = 0;

	rtnl_link_belongings(in->t.ifindex, keep_address, own);
	cJSON_ArrayForEach (item, own) {
		struct nlmsghdr *h = message_of(item), *other = h ? stand_in(h, n++) : NULL;

		if (other)
			keep(others, other);
		free(h);
		free(other);
	}
	remove = cJSON_Duplicate(own, true);
	cJSON_ArrayForEach (item, others)
		cJSON_AddItemToArray(remove, cJSON_Duplicate(item, true));
	status = keep_link(in, remove, p);
	if (!status &&
	    !dry_run(in,
		     "remove %d addresses of %s, add %d others, add them again, remove the others",
		     n, in->t.netdev, n)) {
		replay_all(own, RTM_DELADDR);
		replay_all(others, RTM_NEWADDR);
		nanosleep(&away, NULL);
		replay_all(own, RTM_NEWADDR);
		replay_all(others, RTM_DELADDR);
		/* The routes that went with them. */
		bring_back(kept(in), in->t.ifindex);
	}
	cJSON_Delete(own);
	cJSON_Delete(others);
	cJSON_Delete(remove);
	return status;
}
