/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What --nic names, and whether anybody can afford to lose it. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faultinject/inject.h"
#include "faultinject/rtnl.h"

enum { PATH_BYTES = 400, PORTS_MAX = 8, GIDS_MAX = 64, UPPERS_DEPTH = 8 };

static const char *sys(void)
{
	const char *s = getenv("SHIFT_INJECT_SYS"); /* tests */

	return s && strlen(s) < 128 ? s : "/sys";
}

static bool first_line(const char *path, char *line, size_t bytes)
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
			 sys(), rdma, port, i);
		if (first_line(path, netdev, IFNAMSIZ) && (!wanted || !strcmp(wanted, netdev)))
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

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/net", sys(), rdma);
	d = opendir(path);
	while (d && !found && (e = readdir(d))) {
		if (e->d_name[0] == '.' || strlen(e->d_name) >= IFNAMSIZ)
			continue;
		snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/net/%s/dev_port", sys(),
			 rdma, e->d_name);
		found = !first_line(path, number, sizeof(number)) ||
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

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/parent", sys(), rdma);
	return first_line(path, netdev, IFNAMSIZ) || netdev_of_gids(rdma, port, NULL, netdev) ||
	       netdev_of_device(rdma, port, netdev);
}

static bool exists(const char *rdma, const char *what)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/%s", sys(), rdma, what);
	return !access(path, F_OK);
}

/* Calls fn for every RDMA device until it returns true. */
static bool each_rdma(bool (*fn)(struct target *t, const char *rdma), struct target *t)
{
	char path[PATH_BYTES];
	struct dirent *e;
	bool found = false;
	DIR *d;

	snprintf(path, sizeof(path), "%s/class/infiniband", sys());
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
		return problem(p, INJECT_NOT_FOUND,
			       "%s: neither an RDMA device nor a network interface", name);
	if (err)
		return problem(p, INJECT_FAILED, "%s: %s", name, rtnl_said(err));
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
		return problem(p, INJECT_NOT_FOUND,
			       "%s: neither an RDMA device nor a network interface", o->nic);
	memcpy(name, o->nic, n);
	name[n] = 0;
	if (!colon)
		return 0;
	*port = (unsigned int)strtoul(colon + 1, &end, 10);
	if (*port && *port <= PORTS_MAX && !*end)
		return 0;
	return problem(p, INJECT_BAD_USAGE, "--nic %s: %s is no port", o->nic, colon + 1);
}

int target_find(const struct inject_options *o, struct target *t, struct problem *p)
{
	char name[64], netdev[IFNAMSIZ];
	unsigned int port;
	int status = split_port(o, name, &port, p);

	memset(t, 0, sizeof(*t));
	if (status)
		return status;
	if (exists(name, "node_type") || exists(name, "ports") || exists(name, "parent")) {
		strcpy(t->rdma, name);
		t->port = port;
		if (!netdev_of(name, port, netdev))
			return problem(
				p, INJECT_NOT_FOUND,
				"%s: port %u has no network interface: not RoCE, or no such port",
				name, port);
		status = find_netdev(t, netdev, p);
	} else {
		status = find_netdev(t, name, p);
		if (!status)
			each_rdma(is_on_netdev, t);
	}
	t->bypasses = *t->rdma && exists(t->rdma, "device");
	return status;
}

/* --- what this host is reached by ------------------------------------------------------------ */

/* Does fn hold for the netdev or one that stands on it: a bond, a bridge, a VLAN? */
static bool carries(const char *netdev, int depth, bool (*fn)(const char *netdev, void *arg),
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
			carries(e->d_name + 6, depth - 1, fn, arg);
	if (d)
		closedir(d);
	return found;
}

static bool has_default_route(const char *netdev, void *arg)
{
	unsigned int ifindex = if_nametoindex(netdev);

	(void)arg;
	return ifindex && rtnl_has_default_route(ifindex);
}

static bool has_address(const char *netdev, void *arg)
{
	const char *wanted = arg;
	char text[INET6_ADDRSTRLEN];
	struct ifaddrs *list = NULL;
	bool found = false;

	if (getifaddrs(&list))
		return false;
	for (const struct ifaddrs *i = list; i && !found; i = i->ifa_next) {
		if (!i->ifa_addr || strcmp(i->ifa_name, netdev))
			continue;
		if (i->ifa_addr->sa_family == AF_INET)
			inet_ntop(AF_INET, &((const struct sockaddr_in *)i->ifa_addr)->sin_addr,
				  text, sizeof(text));
		else if (i->ifa_addr->sa_family == AF_INET6)
			inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr,
				  text, sizeof(text));
		else
			continue;
		found = !strcmp(text, wanted);
	}
	freeifaddrs(list);
	return found;
}

/* "client port server port"; sudo takes it out of the environment, so ancestors are asked too. */
static bool ssh_in(const char *environment, size_t bytes, char address[64])
{
	static const char key[] = "SSH_CONNECTION=";

	for (const char *s = environment; s < environment + bytes; s += strlen(s) + 1)
		if (!strncmp(s, key, sizeof(key) - 1))
			return sscanf(s + sizeof(key) - 1, "%*s %*s %63s", address) == 1;
	return false;
}

static bool ssh_address(char address[64])
{
	const char *own = getenv("SSH_CONNECTION");
	static char text[65536];
	pid_t pid = getppid();
	char path[64];

	if (own)
		return sscanf(own, "%*s %*s %63s", address) == 1;
	while (pid > 1) {
		FILE *f;
		size_t n;

		snprintf(path, sizeof(path), "/proc/%d/environ", pid);
		f = fopen(path, "re");
		n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
		text[n] = 0;
		if (f)
			fclose(f);
		if (ssh_in(text, n, address))
			return true;
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		if (!first_line(path, text, sizeof(text)) || !strrchr(text, ')') ||
		    sscanf(strrchr(text, ')'), ") %*c %d", &pid) != 1)
			break;
	}
	return false;
}

int target_is_safe(const struct target *t, struct problem *p)
{
	char address[64];

	if (carries(t->netdev, UPPERS_DEPTH, has_default_route, NULL))
		return problem(p, INJECT_REFUSED,
			       "%s carries this host's default route; --yes-i-mean-it if so",
			       t->netdev);
	if (ssh_address(address) && carries(t->netdev, UPPERS_DEPTH, has_address, address))
		return problem(p, INJECT_REFUSED,
			       "%s carries this ssh session (%s); --yes-i-mean-it if so", t->netdev,
			       address);
	return 0;
}
