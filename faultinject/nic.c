/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Finds the NIC that --nic names, and what stands on it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faultinject/inject.h"
#include "faultinject/rtnl.h"

enum { PATH_BYTES = 400, PORTS_MAX = 8, GIDS_MAX = 64, UPPERS_DEPTH = 8 };

const char *sys_root(void)
{
	const char *s = getenv("SHIFT_INJECT_SYS"); /* tests */

	return s && strlen(s) < 128 ? s : "/sys";
}

bool read_first_line(const char *path, char *line, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, line, bytes - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	line[n] = 0;
	line[strcspn(line, "\n")] = 0;
	return *line != 0;
}

/* The netdev of a port's GIDs: the first one, or wanted if one of them is on that. A VLAN's may be
 * among them, behind the port's own. */
static bool netdev_of_gids(const char *rdma, unsigned int port, const char *wanted,
			   char netdev[IFNAMSIZ])
{
	char path[PATH_BYTES];

	for (int i = 0; i < GIDS_MAX; i++) {
		snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/%u/gid_attrs/ndevs/%d",
			 sys_root(), rdma, port, i);
		if (read_first_line(path, netdev, IFNAMSIZ) && (!wanted || !strcmp(wanted, netdev)))
			return true;
	}
	return false;
}

/* An HCA whose link is down has no GIDs, but its netdevs beside it. */
static bool netdev_of_device(const char *rdma, unsigned int port, char netdev[IFNAMSIZ])
{
	char path[PATH_BYTES], number[16];
	struct dirent *e;
	bool found = false;
	DIR *d;

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/net", sys_root(), rdma);
	d = opendir(path);
	while (d && !found && (e = readdir(d))) {
		if (e->d_name[0] == '.' || strlen(e->d_name) >= IFNAMSIZ)
			continue;
		snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/net/%s/dev_port",
			 sys_root(), rdma, e->d_name);
		found = !read_first_line(path, number, sizeof(number)) ||
			(unsigned int)atoi(number) + 1 == port;
		if (found)
			strcpy(netdev, e->d_name);
	}
	if (d)
		closedir(d);
	return found;
}

/* soft-RoCE says its netdev itself, also when it is down and has no GIDs. */
static bool netdev_of(const char *rdma, unsigned int port, char netdev[IFNAMSIZ])
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/parent", sys_root(), rdma);
	return read_first_line(path, netdev, IFNAMSIZ) ||
	       netdev_of_gids(rdma, port, NULL, netdev) || netdev_of_device(rdma, port, netdev);
}

static bool device_has(const char *rdma, const char *what)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/%s", sys_root(), rdma, what);
	return !access(path, F_OK);
}

/* Calls fn for every RDMA device until it returns true. */
static bool each_rdma(bool (*fn)(struct target *t, const char *rdma), struct target *t)
{
	char path[PATH_BYTES];
	struct dirent *e;
	bool found = false;
	DIR *d;

	snprintf(path, sizeof(path), "%s/class/infiniband", sys_root());
	d = opendir(path);
	while (d && !found && (e = readdir(d)))
		found = e->d_name[0] != '.' && strlen(e->d_name) < sizeof(t->rdma) &&
			fn(t, e->d_name);
	if (d)
		closedir(d);
	return found;
}

static bool is_on_netdev(struct target *t, const char *rdma)
{
	char netdev[IFNAMSIZ];

	for (unsigned int port = 1; port <= PORTS_MAX; port++) {
		if ((!netdev_of(rdma, port, netdev) || strcmp(netdev, t->netdev)) &&
		    !netdev_of_gids(rdma, port, t->netdev, netdev))
			continue;
		snprintf(t->rdma, sizeof(t->rdma), "%s", rdma);
		t->port = port;
		return true;
	}
	return false;
}

static int find_netdev(struct target *t, const char *name, struct problem *p)
{
	struct link_state s;
	int err = rtnl_link_by_name(name, &s);

	if (err == -ENODEV || err == -EINVAL || err == -ERANGE)
		return problem_set(p, INJECT_NOT_FOUND,
				   "%s: neither an RDMA device nor a network interface", name);
	if (err)
		return problem_set(p, INJECT_FAILED, "%s: %s", name, rtnl_said(err));
	memcpy(t->netdev, s.name, sizeof(t->netdev));
	t->ifindex = s.ifindex;
	t->is_ethernet = s.arp_type == ARPHRD_ETHER;
	return 0;
}

/* NAME or NAME:PORT. */
static int split_port(const struct inject_options *o, char name[64], unsigned int *port,
		      struct problem *p)
{
	const char *colon = strchr(o->nic, ':');
	size_t n = colon ? (size_t)(colon - o->nic) : strlen(o->nic);
	char *end;

	*port = 1;
	if (!n || n >= 64 || memchr(o->nic, '/', n) || o->nic[0] == '.')
		return problem_set(p, INJECT_NOT_FOUND,
				   "%s: neither an RDMA device nor a network interface", o->nic);
	memcpy(name, o->nic, n);
	name[n] = 0;
	if (!colon)
		return 0;
	*port = (unsigned int)strtoul(colon + 1, &end, 10);
	if (*port && *port <= PORTS_MAX && !*end)
		return 0;
	return problem_set(p, INJECT_BAD_USAGE, "--nic %s: %s is no port", o->nic, colon + 1);
}

int target_find(const struct inject_options *o, struct target *t, struct problem *p)
{
	char name[64], netdev[IFNAMSIZ];
	unsigned int port;
	int status = split_port(o, name, &port, p);

	memset(t, 0, sizeof(*t));
	if (status)
		return status;
	if (device_has(name, "node_type") || device_has(name, "ports") ||
	    device_has(name, "parent")) {
		strcpy(t->rdma, name);
		t->port = port;
		if (!netdev_of(name, port, netdev))
			return problem_set(
				p, INJECT_NOT_FOUND,
				"%s: port %u has no network interface: not RoCE, or no such port",
				name, port);
		status = find_netdev(t, netdev, p);
	} else {
		status = find_netdev(t, name, p);
		if (!status)
			each_rdma(is_on_netdev, t);
	}
	t->bypasses = *t->rdma && device_has(t->rdma, "device");
	return status;
}

/* --- those that stand on it ------------------------------------------------------------------ */

static bool carries_within(const char *netdev, int depth, bool (*fn)(const char *netdev, void *arg),
			   void *arg)
{
	char path[PATH_BYTES];
	struct dirent *e;
	bool found = fn(netdev, arg);
	DIR *d;

	snprintf(path, sizeof(path), "/sys/class/net/%s", netdev);
	d = found || !depth ? NULL : opendir(path);
	while (d && !found && (e = readdir(d)))
		found = !strncmp(e->d_name, "upper_", 6) &&
			carries_within(e->d_name + 6, depth - 1, fn, arg);
	if (d)
		closedir(d);
	return found;
}

bool netdev_carries(const char *netdev, bool (*fn)(const char *netdev, void *arg), void *arg)
{
	return carries_within(netdev, UPPERS_DEPTH, fn, arg);
}

static bool is_named(const char *netdev, void *arg)
{
	return !strcmp(netdev, arg);
}

static bool stands_on(const char *upper, const char *lower)
{
	char name[IFNAMSIZ];

	snprintf(name, sizeof(name), "%s", upper);
	return netdev_carries(lower, is_named, name);
}

bool netdevs_are_stacked(const char *one, const char *other)
{
	return stands_on(one, other) || stands_on(other, one);
}

static bool is_under(const char *netdev, void *arg)
{
	return stands_on(netdev, arg);
}

bool netdevs_share_upper(const char *one, const char *other)
{
	char name[IFNAMSIZ];

	snprintf(name, sizeof(name), "%s", other);
	return netdev_carries(one, is_under, name);
}

/* A bond or a bridge counts too: the netdev is only a part of it. */
static bool is_master(const char *upper, const char *netdev)
{
	char path[PATH_BYTES], target[PATH_BYTES];
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/class/net/%s/master", netdev);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = 0;
	return n > 0 && !strcmp(basename(target), upper);
}

/* false: there are too many. */
static bool add_links(const char *netdev, bool masters, int depth, struct link_set *links)
{
	unsigned int ifindex = if_nametoindex(netdev);
	char path[PATH_BYTES];
	struct dirent *e;
	bool fits = true;
	DIR *d;

	for (unsigned int i = 0; i < links->count; i++)
		if (links->ifindex[i] == ifindex)
			return true;
	if (!ifindex || links->count == LINKS_MAX)
		return !ifindex;
	links->ifindex[links->count++] = ifindex;
	snprintf(path, sizeof(path), "/sys/class/net/%s", netdev);
	d = depth ? opendir(path) : NULL;
	while (d && fits && (e = readdir(d)))
		if (!strncmp(e->d_name, "upper_", 6) &&
		    (masters || !is_master(e->d_name + 6, netdev)))
			fits = add_links(e->d_name + 6, masters, depth - 1, links);
	if (d)
		closedir(d);
	return fits;
}

int target_links(const struct target *t, bool masters, struct link_set *links, struct problem *p)
{
	bool fits;

	links->count = 0;
	fits = add_links(t->netdev, masters, UPPERS_DEPTH, links);
	if (fits && links->count && links->ifindex[0] == t->ifindex)
		return 0;
	if (fits)
		return problem_set(p, INJECT_NOT_FOUND, "%s is gone", t->netdev);
	return problem_set(p, INJECT_REFUSED, "%s carries more than %d other interfaces", t->netdev,
			   LINKS_MAX - 1);
}

static bool is_other(const char *netdev, void *arg)
{
	return strcmp(netdev, arg) != 0;
}

bool target_has_upper(const struct target *t)
{
	char name[IFNAMSIZ];

	memcpy(name, t->netdev, sizeof(name));
	return carries_within(t->netdev, 1, is_other, name);
}
