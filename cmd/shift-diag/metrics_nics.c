/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Metrics of NICs, from sysfs alone: a NIC that hangs must not hold up whoever collects. */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/metrics.h"
#include "lib/base/sysfs.h"

enum { COUNTERS_MAX = 512, NAME_BYTES = 96 };

/* A file below ports/PORT/counters or ports/PORT/hw_counters. */
struct counter_name {
	char dir[16], file[64];
	char metric[NAME_BYTES];
	double scale;
};

struct counter_names {
	struct counter_name name[COUNTERS_MAX];
	size_t count;
};

/* Those of the InfiniBand specification whose unit or name is no good as it is: data comes in words
 * of four bytes. The names are those of node_exporter. */
static const struct known {
	const char *file, *metric;
	double scale;
} known[] = {
	{"port_rcv_data", "port_data_received_bytes", 4},
	{"port_xmit_data", "port_data_transmitted_bytes", 4},
	{"port_rcv_packets", "port_packets_received", 1},
	{"port_xmit_packets", "port_packets_transmitted", 1},
	{"unicast_rcv_packets", "unicast_packets_received", 1},
	{"unicast_xmit_packets", "unicast_packets_transmitted", 1},
	{"multicast_rcv_packets", "multicast_packets_received", 1},
	{"multicast_xmit_packets", "multicast_packets_transmitted", 1},
	{"port_rcv_errors", "port_errors_received", 1},
	{"port_xmit_discards", "port_discards_transmitted", 1},
};

static void name_metric(struct counter_name *c)
{
	const char *middle = strcmp(c->dir, "counters") ? "hw_" : "", *name = c->file;
	size_t n;

	c->scale = 1;
	for (size_t i = 0; !*middle && i < sizeof(known) / sizeof(*known); i++)
		if (!strcmp(known[i].file, c->file)) {
			name = known[i].metric;
			c->scale = known[i].scale;
		}
	n = (size_t)snprintf(c->metric, sizeof(c->metric), "shift_infiniband_%s%s", middle, name);
	for (size_t i = 0; i < n; i++)
		c->metric[i] = isalnum((unsigned char)c->metric[i])
				       ? (char)tolower((unsigned char)c->metric[i])
				       : '_';
}

static int names_compare(const void *a, const void *b)
{
	return strcmp(((const struct counter_name *)a)->metric,
		      ((const struct counter_name *)b)->metric);
}

static bool names_have(const struct counter_names *names, const struct counter_name *c)
{
	for (size_t i = 0; i < names->count; i++)
		if (!strcmp(names->name[i].metric, c->metric))
			return true;
	return false;
}

/* Not `lifespan`, which is a setting of the counters beside it. */
static void names_add(struct counter_names *names, const char *dir, const char *file)
{
	struct counter_name c;

	if (*file == '.' || !strcmp(file, "lifespan") || strlen(file) >= sizeof(c.file))
		return;
	snprintf(c.dir, sizeof(c.dir), "%s", dir);
	snprintf(c.file, sizeof(c.file), "%.63s", file);
	name_metric(&c);
	if (names->count < COUNTERS_MAX && !names_have(names, &c))
		names->name[names->count++] = c;
}

static void path_of(char path[PATH_MAX], const struct diag_nic *n, const char *dir,
		    const char *file)
{
	snprintf(path, PATH_MAX, "/sys/class/infiniband/%s/ports/%u/%s/%s", n->rail.name,
		 n->nic.port, dir, file);
}

static void names_gather(struct counter_names *names, const struct diag_nic *n, const char *dir)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d;

	path_of(path, n, dir, "");
	d = opendir(path);
	while (d && (e = readdir(d)))
		names_add(names, dir, e->d_name);
	if (d)
		closedir(d);
}

static void counter_put(struct metrics *m, const struct diag_nics *nics,
			const struct counter_name *c)
{
	char path[PATH_MAX], line[64], port[8], help[128], *end;

	snprintf(help, sizeof(help), "The kernel's %s/%s%s.", c->dir, c->file,
		 c->scale > 1 ? ", in bytes" : "");
	metric_begin(m, c->metric, METRIC_COUNTER, help);
	for (unsigned int i = 0; i < nics->count; i++) {
		const struct diag_nic *n = nics->nic + i;
		unsigned long long value;

		path_of(path, n, c->dir, c->file);
		if (!sysfs_read_line(path, line, sizeof(line)))
			continue;
		value = strtoull(line, &end, 10);
		if (end == line || *end) /* "N/A (no PMA)" */
			continue;
		snprintf(port, sizeof(port), "%u", n->nic.port);
		metric_sample(m, (double)value * c->scale, "device", n->rail.name, "port", port,
			      NULL);
	}
}

static void put_states(struct metrics *m, const struct diag_nics *nics)
{
	char port[8];

	metric_begin(m, "shift_infiniband", METRIC_INFO, "A port of an RDMA device.");
	for (unsigned int i = 0; i < nics->count; i++) {
		const struct diag_nic *n = nics->nic + i;

		snprintf(port, sizeof(port), "%u", n->nic.port);
		metric_sample(m, 1, "device", n->rail.name, "port", port, "netdev", n->netdev,
			      "driver", n->driver, "firmware", n->firmware, "board", n->board,
			      NULL);
	}
	metric_begin(m, "shift_infiniband_port_active", METRIC_GAUGE,
		     "Is the state of the port ACTIVE?");
	for (unsigned int i = 0; i < nics->count; i++) {
		snprintf(port, sizeof(port), "%u", nics->nic[i].nic.port);
		metric_sample(m, !strcmp(nics->nic[i].state, "ACTIVE"), "device",
			      nics->nic[i].rail.name, "port", port, NULL);
	}
	metric_begin(m, "shift_infiniband_rate_bytes_per_second", METRIC_GAUGE,
		     "Rate of the port.");
	for (unsigned int i = 0; i < nics->count; i++) {
		snprintf(port, sizeof(port), "%u", nics->nic[i].nic.port);
		metric_sample(m, nics->nic[i].rate_gbps * 1e9 / 8, "device", nics->nic[i].rail.name,
			      "port", port, NULL);
	}
}

void metrics_of_nics(struct metrics *m, const struct diag_nics *nics)
{
	struct counter_names *names = check_alloc(calloc(1, sizeof(*names)));

	put_states(m, nics);
	for (unsigned int i = 0; i < nics->count; i++) {
		names_gather(names, nics->nic + i, "counters");
		names_gather(names, nics->nic + i, "hw_counters");
	}
	qsort(names->name, names->count, sizeof(*names->name), names_compare);
	for (size_t i = 0; i < names->count; i++)
		counter_put(m, nics, names->name + i);
	free(names);
}
