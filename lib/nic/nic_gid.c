/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which GID of a NIC to use. Indexes move when addresses come and go, so each call looks them up.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/real_verbs.h"
#include "lib/nic/nic.h"
#include "lib/nic/nic_int.h"

enum kind { IPV4_MAPPED, GLOBAL, LINK_LOCAL };

/* The best rank is 0. Of our own GIDs the rank of RoCE v2 is its kind, in the order of enum kind.
 * Of those like another it is by the VLAN: the same, or both have one, or neither of it; but first
 * comes that GID itself, for a second QP on its NIC. */
enum {
	RANK_ITSELF,
	RANK_SAME_VLAN,
	RANK_BOTH_TAGGED,
	RANK_OTHER_VLAN,
	RANK_OTHER_V2,
	RANK_ANY,
	RANK_NONE,
};

static enum kind gid_kind(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (!memcmp(gid->raw, mapped, sizeof(mapped)))
		return IPV4_MAPPED;
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80 ? LINK_LOCAL : GLOBAL;
}

ssize_t nic_gid_table(const struct nic *nic, struct ibv_gid_entry **entries)
{
	/* For all ports. A longer table does not fit the length field of the kernel's attribute,
	 * and the call would fail with EINVAL. */
	const size_t max = UINT16_MAX / sizeof(**entries);
	ssize_t n, kept = 0;

	*entries = calloc(max, sizeof(**entries));
	if (!*entries)
		return -ENOMEM;
	n = ibv_query_gid_table(nic->ctx, *entries, max, 0);
	if (n < 0) {
		free(*entries);
		*entries = NULL;
		return n;
	}
	for (ssize_t i = 0; i < n; i++)
		if ((*entries)[i].port_num == nic->port)
			(*entries)[kept++] = (*entries)[i];
	return kept;
}

static unsigned int rank_own(const struct ibv_gid_entry *e)
{
	return e->gid_type == IBV_GID_TYPE_ROCE_V2 ? gid_kind(&e->gid) : RANK_ANY;
}

bool nic_gid_same_kind(const union ibv_gid *a, const union ibv_gid *b)
{
	return gid_kind(a) == gid_kind(b);
}

static bool gid_is(const struct ibv_gid_entry *e, const struct nic_gid *gid)
{
	return e->gid_type == gid->type && !memcmp(&e->gid, &gid->value, sizeof(e->gid));
}

static unsigned int rank_like(const struct ibv_gid_entry *e, const struct nic_gid *like)
{
	bool other_type = e->gid_type != IBV_GID_TYPE_ROCE_V2, itself = gid_is(e, like);
	uint16_t vlan;

	if (other_type && !itself)
		return RANK_ANY;
	if (!nic_gid_same_kind(&e->gid, &like->value))
		return RANK_OTHER_V2;
	vlan = nic_vlan(e->ndev_ifindex);
	if (vlan == like->vlan)
		return itself ? RANK_ITSELF : RANK_SAME_VLAN;
	if (other_type)
		return RANK_ANY;
	return vlan && like->vlan ? RANK_BOTH_TAGGED : RANK_OTHER_VLAN;
}

static void gid_take(const struct ibv_gid_entry *e, struct nic_gid *gid)
{
	gid->value = e->gid;
	gid->type = e->gid_type;
	gid->vlan = nic_vlan(e->ndev_ifindex);
}

/* The lowest index of the best rank. If `like` is NULL, the ranks are those of our own GIDs. */
static int gid_choose(const struct nic *nic, const struct nic_gid *like, struct nic_gid *gid)
{
	unsigned int best = RANK_NONE, rank;
	struct ibv_gid_entry *entries;
	ssize_t n = nic_gid_table(nic, &entries);
	int index = n < 0 ? (int)n : -ENOENT;

	for (ssize_t i = 0; i < n; i++) {
		const struct ibv_gid_entry *e = &entries[i];

		if (nic->port_attr.link_layer == IBV_LINK_LAYER_INFINIBAND && e->gid_index)
			continue;
		rank = like ? rank_like(e, like) : rank_own(e);
		if (rank > best || (rank == best && (int)e->gid_index >= index))
			continue;
		best = rank;
		index = (int)e->gid_index;
		gid_take(e, gid);
	}
	if (n >= 0)
		free(entries);
	return index;
}

int nic_gid_like(const struct nic *nic, const union ibv_gid *like, union ibv_gid *gid)
{
	const struct nic_gid wanted = {.value = *like};
	struct nic_gid found;
	int index = gid_choose(nic, &wanted, &found);

	if (index >= 0)
		*gid = found.value;
	return index;
}

int nic_gid_for_twin(const struct nic *nic, const struct nic_gid *like, struct nic_gid *gid)
{
	return gid_choose(nic, like, gid);
}

int nic_gid_own(const struct nic *nic, union ibv_gid *gid)
{
	struct nic_gid found;
	int index = gid_choose(nic, NULL, &found);

	if (index >= 0)
		*gid = found.value;
	return index;
}

int nic_gid_at(const struct nic *nic, int index, struct nic_gid *gid)
{
	struct ibv_gid_entry e;
	int err = ibv_query_gid_ex(nic->ctx, nic->port, (uint32_t)index, &e, 0);

	if (!err)
		gid_take(&e, gid);
	return -err;
}

static bool gid_stands_there(const struct ibv_gid_entry *e, const struct nic_gid *gid)
{
	return gid_is(e, gid) && nic_vlan(e->ndev_ifindex) == gid->vlan;
}

/* Most of the time it is where it was. Each switch asks, so the whole table is read only if not. */
int nic_gid_find(const struct nic *nic, const struct nic_gid *gid, int hint)
{
	struct ibv_gid_entry *entries, there;
	ssize_t n;
	int index;

	if (hint >= 0 && !ibv_query_gid_ex(nic->ctx, nic->port, (uint32_t)hint, &there, 0) &&
	    gid_stands_there(&there, gid))
		return hint;
	n = nic_gid_table(nic, &entries);
	index = n < 0 ? (int)n : -EADDRNOTAVAIL;
	for (ssize_t i = 0; i < n; i++)
		if (index < 0 && gid_stands_there(&entries[i], gid))
			index = (int)entries[i].gid_index;
	if (n >= 0)
		free(entries);
	return index;
}

static bool same_gids(const struct nic_own *own)
{
	if (own->gids_found_n != own->gids_n)
		return false;
	for (ssize_t i = 0; i < own->gids_n; i++)
		if (own->gids[i].gid_type != own->gids_found[i].gid_type ||
		    memcmp(&own->gids[i].gid, &own->gids_found[i].gid, sizeof(union ibv_gid)))
			return false;
	return true;
}

bool nic_gids_take(struct nic_own *own)
{
	bool first = !own->gids;

	if (own->gids_found_n < 0)
		return false;
	if (!first && same_gids(own)) {
		free(own->gids_found);
		return false;
	}
	free(own->gids);
	own->gids = own->gids_found;
	own->gids_n = own->gids_found_n;
	return !first;
}

bool nic_gid_is_lost(const struct nic *nic, const struct nic_gid *gid)
{
	const struct nic_own *own = (const struct nic_own *)nic;

	for (ssize_t i = 0; i < own->gids_n; i++)
		if (gid_is(&own->gids[i], gid))
			return false;
	return own->gids;
}

/* Over Ethernet all have the default P_Key at index 0, and nothing else. To read it in sysfs would
 * cost every switch as much as to bring a QP to RTR. */
static bool is_default_pkey(const struct nic *nic, __be16 pkey)
{
	return nic->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET && pkey == 0xffff;
}

int nic_pkey_index(const struct nic *nic, __be16 pkey)
{
	__be16 have;

	if (is_default_pkey(nic, pkey))
		return 0;
	for (int i = 0; i < nic->port_attr.pkey_tbl_len; i++)
		if (!real.query_pkey(nic->ctx, nic->port, i, &have) && have == pkey)
			return i;
	return -ENOENT;
}

/* In sysfs, soft-RoCE names its netdev in `parent`. */
static unsigned int ifindex_of_parent(const struct nic *nic)
{
	char path[128], name[IF_NAMESIZE + 1] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/parent", nic->name);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%16s", name) != 1)
		name[0] = 0;
	fclose(f);
	return name[0] ? if_nametoindex(name) : 0;
}

unsigned int nic_ifindex(const struct nic *nic)
{
	struct ibv_gid_entry *entries;
	unsigned int found = 0;
	struct nic_gid own;
	ssize_t n;

	if (nic->port_attr.link_layer == IBV_LINK_LAYER_INFINIBAND)
		return 0;
	n = nic_gid_table(nic, &entries);
	if (gid_choose(nic, NULL, &own) < 0)
		memset(&own, 0, sizeof(own));
	for (ssize_t i = 0; i < n; i++) {
		bool ours = !memcmp(&entries[i].gid, &own.value, sizeof(own.value));

		if (entries[i].ndev_ifindex && (ours || !found))
			found = entries[i].ndev_ifindex;
		if (ours && found)
			break;
	}
	if (n >= 0)
		free(entries);
	return found ? found : ifindex_of_parent(nic);
}
