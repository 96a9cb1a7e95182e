/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What this host, and the user's session, are reached by. A fault of a NIC that carries it is
 * refused: its default route, or routes that do the same in parts, or the packets of a tunnel that
 * has one. All tables of routes count, as rules may lead to any.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faultinject/inject.h"
#include "faultinject/rtnl.h"

enum { TUNNELS_DEPTH = 8 };

/* So large a share of all addresses is a way out of this host; a private network is far smaller. */
static const double SHARE_OUT = 0.25;

/* --- the session ----------------------------------------------------------------------------- */

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

struct session {
	char client[64], server[64];
};

/* "client port server port"; sudo takes it out of the environment, so ancestors are asked too. */
static bool take_session(const char *text, struct session *s)
{
	return sscanf(text, "%63s %*s %63s", s->client, s->server) == 2;
}

static bool session_in(const char *environment, size_t bytes, struct session *found)
{
	static const char key[] = "SSH_CONNECTION=";

	for (const char *s = environment; s < environment + bytes; s += strlen(s) + 1)
		if (!strncmp(s, key, sizeof(key) - 1))
			return take_session(s + sizeof(key) - 1, found);
	return false;
}

static bool find_session(struct session *s)
{
	const char *own = getenv("SSH_CONNECTION");
	static char text[65536];
	pid_t pid = getppid();
	char path[64];

	if (own)
		return take_session(own, s);
	while (pid > 1) {
		FILE *f;
		size_t n;

		snprintf(path, sizeof(path), "/proc/%d/environ", pid);
		f = fopen(path, "re");
		n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
		text[n] = 0;
		if (f)
			fclose(f);
		if (session_in(text, n, s))
			return true;
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		if (!read_first_line(path, text, sizeof(text)) || !strrchr(text, ')') ||
		    sscanf(strrchr(text, ')'), ") %*c %d", &pid) != 1)
			break;
	}
	return false;
}

/* The zone of a link-local address, "%eth0", which is cut off; or "". */
static const char *cut_zone(char *address)
{
	char *zone = strchr(address, '%');

	if (!zone)
		return "";
	*zone = 0;
	return zone + 1;
}

/* The interface by which packets get to the client; 0: unknown. */
static unsigned int way_to(char *client)
{
	const char *zone = cut_zone(client);
	unsigned char address[16];

	if (*zone)
		return if_nametoindex(zone);
	if (inet_pton(AF_INET, client, address) == 1)
		return rtnl_link_to(AF_INET, address);
	return inet_pton(AF_INET6, client, address) == 1 ? rtnl_link_to(AF_INET6, address) : 0;
}

static bool has_number(const char *netdev, void *arg)
{
	return if_nametoindex(netdev) == *(unsigned int *)arg;
}

/* --- routes ---------------------------------------------------------------------------------- */

struct reach {
	const struct target *t;
	struct ways_out ways;
	struct problem *p;
};

static bool is_way_out(const struct way_out *w)
{
	return w->has_default || w->share >= SHARE_OUT;
}

static bool target_carries(const struct reach *r, unsigned int ifindex)
{
	return netdev_carries(r->t->netdev, has_number, &ifindex);
}

static int refuse_way(const struct reach *r, const struct way_out *w)
{
	if (w->has_default)
		return problem_set(r->p, INJECT_REFUSED,
				   "%s carries this host's default route; --yes-i-mean-it if so",
				   r->t->netdev);
	return problem_set(r->p, INJECT_REFUSED,
			   "%s carries %.0f %% of all addresses (%s), which is a default route in "
			   "parts; --yes-i-mean-it if so",
			   r->t->netdev, 100 * w->share, w->widest);
}

static int check_routes(const struct reach *r)
{
	for (size_t i = 0; i < r->ways.count; i++)
		if (is_way_out(r->ways.list + i) && target_carries(r, r->ways.list[i].ifindex))
			return refuse_way(r, r->ways.list + i);
	return 0;
}

/* --- tunnels --------------------------------------------------------------------------------- */

/* What is carried by the tunnel, for people. */
struct cargo {
	char netdev[IFNAMSIZ];
	const char *what;
};

static int refuse_tunnel(const struct reach *r, const struct cargo *c, const char *why)
{
	return problem_set(r->p, INJECT_REFUSED,
			   "%s carries the packets of %s%s, which has %s; --yes-i-mean-it if so",
			   r->t->netdev, c->netdev, why, c->what);
}

/* A VPN's client makes a route for its server alone. */
static int check_host_routes(const struct reach *r, unsigned int tunnel, const struct cargo *c,
			     bool *found)
{
	for (size_t i = 0; i < r->ways.count; i++) {
		const struct way_out *w = r->ways.list + i;
		char why[120];

		if (!*w->host || w->ifindex == tunnel)
			continue;
		*found = true;
		snprintf(why, sizeof(why), " (a route to %s alone, as to its other end)", w->host);
		if (target_carries(r, w->ifindex))
			return refuse_tunnel(r, c, why);
	}
	return 0;
}

static bool other_way_out(const struct reach *r, unsigned int tunnel)
{
	for (size_t i = 0; i < r->ways.count; i++)
		if (r->ways.list[i].ifindex != tunnel && is_way_out(r->ways.list + i))
			return true;
	return false;
}

static bool has_global_address(const char *netdev, void *arg)
{
	struct ifaddrs *list = NULL;
	bool found = false;

	(void)arg;
	if (getifaddrs(&list))
		return true;
	for (const struct ifaddrs *i = list; i && !found; i = i->ifa_next) {
		const struct sockaddr_in6 *six = (const void *)i->ifa_addr;

		if (!six || strcmp(i->ifa_name, netdev))
			continue;
		found = six->sin6_family == AF_INET ||
			(six->sin6_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr));
	}
	freeifaddrs(list);
	return found;
}

/*
 * A tunnel that does not say where its other end is (tun, wireguard): its packets leave by the
 * route to a single host, or by the default route of another table, which is refused by itself. If
 * there is neither, they may leave by any NIC that has an address.
 */
static int check_opaque(const struct reach *r, const struct tunnel *t, const struct cargo *c)
{
	bool found = false;
	int status = check_host_routes(r, t->ifindex, c, &found);

	if (status || found || other_way_out(r, t->ifindex) ||
	    !netdev_carries(r->t->netdev, has_global_address, NULL))
		return status;
	return problem_set(
		r->p, INJECT_REFUSED,
		"%s may carry the packets of %s, which has %s and does not say where its "
		"other end is; --yes-i-mean-it if so",
		r->t->netdev, c->netdev, c->what);
}

static int check_link(const struct reach *r, unsigned int ifindex, const struct cargo *c,
		      int depth);

/* The links on which a link stands: of a bond, a bridge, a VLAN. */
static int check_lower_links(const struct reach *r, const char *netdev, const struct cargo *c,
			     int depth)
{
	char path[64];
	struct dirent *e;
	int status = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/sys/class/net/%s", netdev);
	d = opendir(path);
	while (d && !status && (e = readdir(d)))
		if (!strncmp(e->d_name, "lower_", 6))
			status = check_link(r, if_nametoindex(e->d_name + 6), c, depth);
	if (d)
		closedir(d);
	return status;
}

static int check_tunnel(const struct reach *r, const struct tunnel *t, const struct cargo *c,
			int depth)
{
	int status = check_link(r, t->lower, c, depth);

	if (!status && t->remote_family)
		status = check_link(r, rtnl_link_to(t->remote_family, t->remote), c, depth);
	if (!status && t->is_opaque && !t->lower)
		status = check_opaque(r, t, c);
	return status;
}

/* Does the target carry that link's packets? */
static int check_link(const struct reach *r, unsigned int ifindex, const struct cargo *c, int depth)
{
	struct tunnel t;
	int status;

	if (!ifindex || !depth || rtnl_tunnel_get(ifindex, &t))
		return 0;
	if (target_carries(r, ifindex))
		return refuse_tunnel(r, c, "");
	status = check_lower_links(r, t.netdev, c, depth - 1);
	return status ? status : check_tunnel(r, &t, c, depth - 1);
}

static int check_tunnels(const struct reach *r, unsigned int ifindex, const char *what)
{
	struct cargo c = {.what = what};

	if (!if_indextoname(ifindex, c.netdev))
		return 0;
	return check_link(r, ifindex, &c, TUNNELS_DEPTH);
}

/* --- all of it ------------------------------------------------------------------------------- */

static int check_session(const struct reach *r)
{
	struct session s;
	unsigned int way;

	if (!find_session(&s))
		return 0;
	way = way_to(s.client);
	cut_zone(s.server);
	if ((way && target_carries(r, way)) || netdev_carries(r->t->netdev, has_address, s.server))
		return problem_set(r->p, INJECT_REFUSED,
				   "%s carries this ssh session (%s); --yes-i-mean-it if so",
				   r->t->netdev, s.client);
	return check_tunnels(r, way, "this ssh session");
}

static int check_ways(const struct reach *r)
{
	int status = check_routes(r);

	for (size_t i = 0; i < r->ways.count && !status; i++)
		if (is_way_out(r->ways.list + i))
			status = check_tunnels(r, r->ways.list[i].ifindex,
					       "this host's default route");
	return status ? status : check_session(r);
}

int target_is_safe(const struct target *t, struct problem *p)
{
	struct reach r = {.t = t, .p = p};
	int err = rtnl_ways_out(&r.ways), status;

	/* If the routes cannot be read, the NIC counts as one that is needed. */
	status = err ? problem_set(p, INJECT_REFUSED,
				   "%s: whether this host needs it is not known, as its routes "
				   "cannot be read: %s; --yes-i-mean-it if not",
				   t->netdev, rtnl_said(err))
		     : check_ways(&r);
	free(r.ways.list);
	return status;
}
