/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/nics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cmd/shift-diag/diag.h"
#include "lib/base/real_verbs.h"
#include "lib/base/sysfs.h"
#include "lib/nic/nic_int.h"
#include "common/standin.h"

static const char root[] = "/sys/class/infiniband";

/* ---- what sysfs says ------------------------------------------------------------------------ */

/* Of the device, or of its port: "fw_ver", "ports/1/rate". */
static bool read_of(const struct diag_nic *n, const char *file, char *to)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s/%s", root, n->rail.name, file);
	*to = 0;
	return sysfs_read_line(path, to, DIAG_TEXT_BYTES);
}

static void read_of_port(const struct diag_nic *n, const char *file, char *to)
{
	char path[DIAG_TEXT_BYTES];

	snprintf(path, sizeof(path), "ports/%u/%s", n->nic.port, file);
	read_of(n, path, to);
}

/* "4: ACTIVE" */
static void drop_number(char *text)
{
	char *colon = strstr(text, ": ");

	if (colon)
		memmove(text, colon + 2, strlen(colon + 2) + 1);
}

/* Virtual devices have no driver link. Which of them it is, the directory of their netdev does not
 * tell; the type of the HCA does not either. */
static void find_driver(struct diag_nic *n)
{
	char path[PATH_MAX], target[PATH_MAX];
	struct utsname u;
	ssize_t length;

	snprintf(path, sizeof(path), "%s/%s/device/driver", root, n->rail.name);
	length = readlink(path, target, sizeof(target) - 1);
	if (length > 0) {
		target[length] = 0;
		snprintf(n->driver, sizeof(n->driver), "%.63s", strrchr(target, '/') + 1);
	} else if (!n->err && n->nic.is_rxe) {
		strcpy(n->driver, "rdma_rxe");
	}
	snprintf(path, sizeof(path), "/sys/module/%s/version", n->driver);
	if (!*n->driver || sysfs_read_line(path, n->driver_version, sizeof(n->driver_version)))
		return;
	if (!uname(&u)) /* a driver of the kernel has its version */
		snprintf(n->driver_version, sizeof(n->driver_version), "%.63s", u.release);
}

static void find_netdev(struct diag_nic *n)
{
	unsigned int ifindex = n->err ? 0 : nic_ifindex(&n->nic);
	char name[IF_NAMESIZE];

	if (ifindex && if_indextoname(ifindex, name))
		snprintf(n->netdev, sizeof(n->netdev), "%s", name);
	else if (!read_of(n, "parent", n->netdev))
		read_of_port(n, "gid_attrs/ndevs/0", n->netdev);
}

static void read_sysfs(struct diag_nic *n)
{
	read_of_port(n, "state", n->state);
	read_of_port(n, "phys_state", n->phys_state);
	read_of_port(n, "rate", n->rate);
	read_of(n, "fw_ver", n->firmware);
	read_of(n, "board_id", n->board);
	drop_number(n->state);
	drop_number(n->phys_state);
	n->rate_gbps = strtod(n->rate, NULL);
	find_netdev(n);
	find_driver(n);
}

/* ---- what the device says ------------------------------------------------------------------- */

static void find_gid(struct diag_nic *n)
{
	union ibv_gid value;

	n->gid_index = nic_gid_own(&n->nic, &value);
	if (n->gid_index >= 0 && nic_gid_at(&n->nic, n->gid_index, &n->gid))
		n->gid_index = -EADDRNOTAVAIL;
}

static void nic_look(struct diag_nic *n, const struct rail_device *rail, uint8_t port, bool open)
{
	n->rail = *rail;
	n->nic.port = port;
	n->gid_index = -ENODEV;
	snprintf(n->nic.name, sizeof(n->nic.name), "%.63s", rail->name);
	n->err = open ? nic_open_verbs(&n->nic) : -ENODEV;
	if (!n->err)
		n->err = -real.query_device(n->nic.ctx, &n->attr);
	if (!n->err)
		find_gid(n);
	read_sysfs(n);
}

static bool port_exists(const struct rail_device *rail, unsigned int port)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%.63s/ports/%u", root, rail->name, port);
	return !access(path, F_OK);
}

static struct diag_nics nics_find(bool open)
{
	struct diag_nics nics = {.nic = check_alloc(calloc(DIAG_NICS_MAX, sizeof(*nics.nic)))};
	struct rail_device d[DIAG_NICS_MAX];
	char none[1][RAIL_NAME_MAX];
	unsigned int n = sysfs_devices(root, d, DIAG_NICS_MAX);

	standin_log_level = LOG_WARN;
	standin_init();
	rails_auto(d, n, "", none, 0); /* sorts them */
	for (unsigned int i = 0; i < n; i++)
		for (unsigned int port = 1; port_exists(d + i, port); port++)
			if (nics.count < DIAG_NICS_MAX)
				nic_look(nics.nic + nics.count++, d + i, (uint8_t)port, open);
	return nics;
}

struct diag_nics diag_nics_open(void)
{
	return nics_find(true);
}

struct diag_nics diag_nics_list(void)
{
	return nics_find(false);
}

void diag_nics_close(struct diag_nics *nics)
{
	for (unsigned int i = 0; i < nics->count; i++)
		if (nics->nic[i].nic.ctx)
			nic_close_verbs(&nics->nic[i].nic);
	free(nics->nic);
}

struct diag_nic *diag_nic_find(const struct diag_nics *nics, const char *device)
{
	for (unsigned int i = 0; i < nics->count; i++)
		if (!strcmp(nics->nic[i].rail.name, device))
			return nics->nic + i;
	return NULL;
}

/* ---- texts ---------------------------------------------------------------------------------- */

const char *diag_gid_text(const union ibv_gid *gid)
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
	static char texts[8][INET6_ADDRSTRLEN];
	static unsigned int next;
	char *text = texts[next++ % 8];

	if (!memcmp(gid->raw, v4, sizeof(v4)))
		inet_ntop(AF_INET, gid->raw + 12, text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, gid->raw, text, INET6_ADDRSTRLEN);
	return text;
}

const char *diag_gid_type(const struct nic_gid *gid)
{
	switch (gid->type) {
	case IBV_GID_TYPE_IB: return "IB";
	case IBV_GID_TYPE_ROCE_V1: return "RoCE v1";
	case IBV_GID_TYPE_ROCE_V2: return "RoCE v2";
	default: return "?";
	}
}

bool diag_nic_is_active(const struct diag_nic *n)
{
	return !n->err && n->nic.port_attr.state == IBV_PORT_ACTIVE;
}

const char *diag_nic_trouble(const struct diag_nic *n)
{
	if (n->err)
		return format_text("it cannot be opened: %s", strerror(-n->err));
	if (!diag_nic_is_active(n))
		return format_text("its port is %s", *n->state ? n->state : "not active");
	if (n->gid_index < 0)
		return "it has no GID";
	if (n->nic.port_attr.link_layer == IBV_LINK_LAYER_ETHERNET &&
	    n->gid.type != IBV_GID_TYPE_ROCE_V2)
		return "it has no GID of RoCE v2: give its netdev an address";
	return NULL;
}

static void add_text(cJSON *o, const char *name, const char *text)
{
	if (*text)
		cJSON_AddStringToObject(o, name, text);
	else
		cJSON_AddNullToObject(o, name);
}

static void add_gid(cJSON *o, const struct diag_nic *n)
{
	cJSON *gid;

	if (n->gid_index < 0) {
		cJSON_AddNullToObject(o, "gid");
		return;
	}
	gid = cJSON_AddObjectToObject(o, "gid");
	cJSON_AddNumberToObject(gid, "index", n->gid_index);
	cJSON_AddStringToObject(gid, "address", diag_gid_text(&n->gid.value));
	cJSON_AddStringToObject(gid, "type", diag_gid_type(&n->gid));
	cJSON_AddNumberToObject(gid, "vlan", n->gid.vlan);
}

cJSON *diag_nic_json(const struct diag_nic *n)
{
	const char *trouble = diag_nic_trouble(n);
	cJSON *o = check_alloc(cJSON_CreateObject());

	cJSON_AddStringToObject(o, "device", n->rail.name);
	cJSON_AddNumberToObject(o, "port", n->nic.port);
	cJSON_AddStringToObject(o, "link_layer",
				n->rail.link_layers & RAIL_ETHERNET ? "Ethernet" : "InfiniBand");
	add_text(o, "state", n->state);
	add_text(o, "phys_state", n->phys_state);
	add_text(o, "rate", n->rate);
	cJSON_AddNumberToObject(o, "rate_bits_per_second", n->rate_gbps * 1e9);
	cJSON_AddNumberToObject(o, "mtu_bytes", n->err ? 0 : n->nic.mtu_bytes);
	cJSON_AddNumberToObject(o, "numa_node", n->rail.numa_node);
	add_text(o, "netdev", n->netdev);
	add_text(o, "driver", n->driver);
	add_text(o, "driver_version", n->driver_version);
	add_text(o, "firmware", n->firmware);
	add_text(o, "board", n->board);
	add_gid(o, n);
	if (trouble)
		cJSON_AddStringToObject(o, "trouble", trouble);
	else
		cJSON_AddNullToObject(o, "trouble");
	return o;
}
