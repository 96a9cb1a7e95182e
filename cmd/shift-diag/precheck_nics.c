/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cmd/shift-diag/precheck.h"
#include "common/rails.h"
#include "lib/base/sysfs.h"

void check_devices(struct precheck *p)
{
	for (unsigned int i = 0; i < p->nics.count; i++) {
		const struct diag_nic *n = p->nics.nic + i;
		const char *trouble = diag_nic_trouble(n);

		if (trouble)
			p->tell(p, "nic", CHECK_FAIL, "%s: %s", n->rail.name, trouble);
		else
			p->tell(p, "nic", CHECK_PASS, "%s: port %u active, %s %s", n->rail.name,
				n->nic.port, diag_gid_type(&n->gid), diag_gid_text(&n->gid.value));
	}
	if (!p->nics.count)
		p->tell(p, "nic", CHECK_FAIL, "no RDMA device: is the driver loaded? rdma link");
}

/* Another NIC that works? */
static void check_backup(void *arg, const char *device, const char *backups)
{
	struct precheck *p = arg;
	char name[RAIL_NAME_MAX];
	const struct diag_nic *b;
	bool itself = false;
	size_t n;

	for (const char *at = backups; *at; at += n + (at[n] == '+')) {
		n = strcspn(at, "+");
		snprintf(name, sizeof(name), "%.*s", (int)n, at);
		b = diag_nic_find(&p->nics, name);
		itself |= !strcmp(name, device);
		if (!b || !strcmp(name, device) || diag_nic_trouble(b))
			continue;
		p->tell(p, "backup", CHECK_PASS, "%s: %s backs it up", device, name);
		return;
	}
	p->tell(p, "backup", CHECK_WARN, "%s: %s; see shift-diag rails", device,
		itself ? "no other NIC backs it up, only itself" : "no NIC that works backs it up");
}

void check_backups(struct precheck *p)
{
	if (!p->nics.count)
		p->tell(p, "backup", CHECK_SKIP, "no RDMA device");
	rails_each(NULL, check_backup, p);
}

void check_mtu(struct precheck *p)
{
	uint32_t least = UINT32_MAX, most = 0;

	for (unsigned int i = 0; i < p->nics.count; i++) {
		if (p->nics.nic[i].err)
			continue;
		if (p->nics.nic[i].nic.mtu_bytes < least)
			least = p->nics.nic[i].nic.mtu_bytes;
		if (p->nics.nic[i].nic.mtu_bytes > most)
			most = p->nics.nic[i].nic.mtu_bytes;
	}
	if (!most)
		p->tell(p, "mtu", CHECK_SKIP, "no RDMA device can be opened");
	else if (least != most)
		p->tell(p, "mtu", CHECK_WARN,
			"the NICs have %u to %u bytes: connections keep the smaller one after a "
			"move",
			least, most);
	else if (most < 4096)
		p->tell(p, "mtu", CHECK_WARN,
			"%u bytes: 4096 need an MTU of 4200 or more at netdevs and switches", most);
	else
		p->tell(p, "mtu", CHECK_PASS, "%u bytes; the other end's: shift-diag ping HOST",
			most);
}

/* One driver may have several kinds of cards: firmware is compared within a kind. */
void check_drivers(struct precheck *p)
{
	const struct diag_nic *first = p->nics.nic;

	if (!p->nics.count) {
		p->tell(p, "driver", CHECK_SKIP, "no RDMA device");
		return;
	}
	for (unsigned int i = 1; i < p->nics.count; i++) {
		const struct diag_nic *n = p->nics.nic + i;

		for (unsigned int k = 0; k < i; k++) {
			const struct diag_nic *o = p->nics.nic + k;

			if (strcmp(n->driver, o->driver) || strcmp(n->board, o->board) ||
			    !strcmp(n->firmware, o->firmware))
				continue;
			p->tell(p, "driver", CHECK_WARN, "%s has firmware %s, %s has %s",
				o->rail.name, o->firmware, n->rail.name, n->firmware);
			return;
		}
	}
	p->tell(p, "driver", *first->driver ? CHECK_PASS : CHECK_SKIP, "%s %s, firmware %s",
		*first->driver ? first->driver : "the kernel does not name it",
		first->driver_version, *first->firmware ? first->firmware : "unknown");
}

static bool device_line(const struct diag_nic *n, const char *file, char line[DIAG_TEXT_BYTES])
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/%s", n->rail.name, file);
	return sysfs_read_line(path, line, DIAG_TEXT_BYTES) && *line;
}

static void check_link(struct precheck *p, const struct diag_nic *n)
{
	char speed[DIAG_TEXT_BYTES], speed_max[DIAG_TEXT_BYTES], width[DIAG_TEXT_BYTES],
		width_max[DIAG_TEXT_BYTES];

	if (!device_line(n, "current_link_speed", speed) ||
	    !device_line(n, "max_link_speed", speed_max) ||
	    !device_line(n, "current_link_width", width) ||
	    !device_line(n, "max_link_width", width_max))
		p->tell(p, "pcie", CHECK_SKIP, "%s: not on PCIe, or it does not say", n->rail.name);
	else if (strcmp(speed, speed_max) || strcmp(width, width_max))
		p->tell(p, "pcie", CHECK_WARN,
			"%s: x%s at %s, it could have x%s at %s: seat, slot, riser", n->rail.name,
			width, speed, width_max, speed_max);
	else
		p->tell(p, "pcie", CHECK_PASS, "%s: x%s at %s", n->rail.name, width, speed);
}

void check_pcie(struct precheck *p)
{
	for (unsigned int i = 0; i < p->nics.count; i++)
		if (p->nics.nic[i].nic.port == 1)
			check_link(p, p->nics.nic + i);
}

/* mlx5 shows for each priority whether the NIC reacts to marks of congestion. */
static void check_ecn_of(struct precheck *p, const struct diag_nic *n)
{
	char path[PATH_MAX], line[DIAG_TEXT_BYTES], on[32] = "";
	bool known = false;

	for (unsigned int prio = 0; prio < 8; prio++) {
		snprintf(path, sizeof(path), "/sys/class/net/%s/ecn/roce_rp/enable/%u", n->netdev,
			 prio);
		if (!*n->netdev || !sysfs_read_line(path, line, sizeof(line)))
			continue;
		known = true;
		if (!strcmp(line, "1"))
			snprintf(on + strlen(on), sizeof(on) - strlen(on), " %u", prio);
	}
	if (!known)
		p->tell(p, "ecn", CHECK_SKIP, "%s: its driver does not show it", n->rail.name);
	else if (!*on)
		p->tell(p, "ecn", CHECK_WARN, "%s: off on all priorities of %s", n->rail.name,
			n->netdev);
	else
		p->tell(p, "ecn", CHECK_PASS, "%s: on, priorities%s of %s", n->rail.name, on,
			n->netdev);
}

void check_ecn(struct precheck *p)
{
	for (unsigned int i = 0; i < p->nics.count; i++)
		if (p->nics.nic[i].rail.link_layers & RAIL_ETHERNET)
			check_ecn_of(p, p->nics.nic + i);
}
