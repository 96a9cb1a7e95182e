/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Qdiscs and filters. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <netlink/msg.h>
#include <stdio.h>
#include <string.h>

#include "faultinject/rtnl.h"

struct qdisc_list {
	unsigned int ifindex;
	struct qdisc *list;
	int count, max;
};

/* Skips those of classes and queues: a NIC may have more of these than any list holds. */
static bool is_of_netdev(const struct tcmsg *t, unsigned int ifindex)
{
	return t->tcm_ifindex == (int)ifindex &&
	       (t->tcm_parent == TC_H_ROOT || t->tcm_parent == TC_H_CLSACT);
}

static void take_qdisc(void *arg, struct nlmsghdr *h)
{
	const struct tcmsg *t = nlmsg_data(h);
	struct nlattr *a[TCA_MAX + 1] = {0};
	struct qdisc_list *l = arg;
	struct qdisc *q;

	if (h->nlmsg_type != RTM_NEWQDISC || !is_of_netdev(t, l->ifindex) || l->count == l->max ||
	    nlmsg_parse(h, sizeof(*t), a, TCA_MAX, NULL) || !a[TCA_KIND])
		return;
	q = l->list + l->count++;
	snprintf(q->kind, sizeof(q->kind), "%s", nla_get_string(a[TCA_KIND]));
	q->handle = t->tcm_handle;
	q->parent = t->tcm_parent;
}

int rtnl_qdiscs(unsigned int ifindex, struct qdisc *list, int max)
{
	struct qdisc_list l = {.ifindex = ifindex, .list = list, .max = max};
	struct tcmsg t = {.tcm_ifindex = (int)ifindex};
	int err = rtnl_read(rtnl_message(RTM_GETQDISC, NLM_F_DUMP, &t, sizeof(t)), take_qdisc, &l);

	return err ? err : l.count;
}

struct nl_msg *rtnl_qdisc_message(int type, int flags, unsigned int ifindex, uint32_t parent,
				  uint32_t handle, const char *kind)
{
	struct tcmsg t = {.tcm_ifindex = (int)ifindex, .tcm_parent = parent, .tcm_handle = handle};
	struct nl_msg *m = rtnl_message(type, flags, &t, sizeof(t));

	nla_put_string(m, TCA_KIND, kind);
	return m;
}

int rtnl_qdisc_delete(unsigned int ifindex, uint32_t parent, uint32_t handle, const char *kind)
{
	int err = rtnl_request(rtnl_qdisc_message(RTM_DELQDISC, 0, ifindex, parent, handle, kind));

	/* EINVAL: there is one of another kind; ENOENT: there is none, or not with that handle. */
	return err == -ENOENT || err == -EINVAL ? 0 : err;
}

int rtnl_filter_add(unsigned int ifindex, uint32_t parent, int program, const char *name,
		    uint32_t classid)
{
	struct tcmsg t = {.tcm_ifindex = (int)ifindex,
			  .tcm_parent = parent,
			  .tcm_info = TC_H_MAKE(0, htons(ETH_P_ALL))};
	struct nl_msg *m = rtnl_message(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, &t, sizeof(t));
	struct nlattr *options;

	nla_put_string(m, TCA_KIND, "bpf");
	options = nla_nest_start(m, TCA_OPTIONS);
	nla_put_u32(m, TCA_BPF_FD, (uint32_t)program);
	nla_put_string(m, TCA_BPF_NAME, name);
	if (classid)
		nla_put_u32(m, TCA_BPF_CLASSID, classid);
	else
		nla_put_u32(m, TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
	nla_nest_end(m, options);
	return rtnl_request(m);
}

struct filter_search {
	const char *name;
	struct tcmsg found;
	int count;
};

static void take_filter(void *arg, struct nlmsghdr *h)
{
	const struct tcmsg *t = nlmsg_data(h);
	struct nlattr *a[TCA_MAX + 1] = {0}, *b[TCA_BPF_MAX + 1] = {0};
	struct filter_search *s = arg;

	/* A chain says itself as a message without a handle. */
	if (h->nlmsg_type != RTM_NEWTFILTER || !t->tcm_handle)
		return;
	s->count++;
	if (!s->name || nlmsg_parse(h, sizeof(*t), a, TCA_MAX, NULL) || !a[TCA_KIND] ||
	    strcmp(nla_get_string(a[TCA_KIND]), "bpf") || !a[TCA_OPTIONS] ||
	    nla_parse_nested(b, TCA_BPF_MAX, a[TCA_OPTIONS], NULL) || !b[TCA_BPF_NAME])
		return;
	if (!strcmp(nla_get_string(b[TCA_BPF_NAME]), s->name))
		s->found = *t;
}

static int read_filters(unsigned int ifindex, uint32_t parent, struct filter_search *s)
{
	struct tcmsg t = {.tcm_ifindex = (int)ifindex, .tcm_parent = parent};

	return rtnl_read(rtnl_message(RTM_GETTFILTER, NLM_F_DUMP, &t, sizeof(t)), take_filter, s);
}

int rtnl_filters(unsigned int ifindex, uint32_t parent)
{
	struct filter_search s = {0};
	int err = read_filters(ifindex, parent, &s);

	return err ? err : s.count;
}

int rtnl_filter_delete(unsigned int ifindex, uint32_t parent, const char *name)
{
	struct filter_search s = {.name = name};
	struct nl_msg *m;
	int err = read_filters(ifindex, parent, &s);

	if (err || !s.found.tcm_handle)
		return err == -EINVAL || err == -ENOENT || err == -EOPNOTSUPP ? 0 : err;
	m = rtnl_message(RTM_DELTFILTER, 0, &s.found, sizeof(s.found));
	nla_put_string(m, TCA_KIND, "bpf");
	return rtnl_request(m);
}
