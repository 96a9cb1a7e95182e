/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which GID of a NIC to use. Indexes move when addresses come and go, so each call looks them up.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/nic/nic.h"
#include "lib/nic/nic_int.h"

enum kind { IPV4_MAPPED, GLOBAL, LINK_LOCAL };

/* The best rank is 0. Of our own GIDs the rank of RoCE v2 is its kind, in the order of enum kind.
 */
enum { RANK_OTHER_V2 = 3, RANK_ANY = 4, RANK_NONE = 5 };

static enum kind gid_kind(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (!memcmp(gid->raw, mapped, sizeof(mapped)))
		return IPV4_MAPPED;
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80 ? LINK_LOCAL : GLOBAL;
}

/* The number of valid entries of the port, or a negative errno. The caller frees *entries. */
static ssize_t gid_table(const struct nic *nic, struct ibv_gid_entry **entries)
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

static unsigned int rank_like(const struct ibv_gid_entry *e, const union ibv_gid *like)
{
	if (e->gid_type != IBV_GID_TYPE_ROCE_V2)
		return RANK_ANY;
	return gid_kind(&e->gid) == gid_kind(like) ? 0 : RANK_OTHER_V2;
}

/* The lowest index of the best rank. If `like` is NULL, the ranks are those of our own GIDs. */
static int gid_choose(const struct nic *nic, const union ibv_gid *like, union ibv_gid *gid)
{
	unsigned int best = RANK_NONE, rank;
	struct ibv_gid_entry *entries;
	ssize_t n = gid_table(nic, &entries);
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
		*gid = e->gid;
	}
	if (n >= 0)
		free(entries);
	return index;
}

int nic_gid_like(const struct nic *nic, const union ibv_gid *like, union ibv_gid *gid)
{
	return gid_choose(nic, like, gid);
}

int nic_gid_own(const struct nic *nic, union ibv_gid *gid)
{
	return gid_choose(nic, NULL, gid);
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
	union ibv_gid own;
	ssize_t n;

	if (nic->port_attr.link_layer == IBV_LINK_LAYER_INFINIBAND)
		return 0;
	n = gid_table(nic, &entries);
	if (gid_choose(nic, NULL, &own) < 0)
		memset(&own, 0, sizeof(own));
	for (ssize_t i = 0; i < n; i++) {
		bool ours = !memcmp(&entries[i].gid, &own, sizeof(own));

		if (entries[i].ndev_ifindex && (ours || !found))
			found = entries[i].ndev_ifindex;
		if (ours && found)
			break;
	}
	if (n >= 0)
		free(entries);
	return found ? found : ifindex_of_parent(nic);
}
