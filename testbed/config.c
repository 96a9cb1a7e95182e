/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The configuration of real machines: an ini file, one section a host. */
#include <errno.h>
#include <ini.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "testbed/testbed.h"

struct key {
	const char *name;
	size_t offset, size;
};

#define KEY(field)                                                                              \
	{                                                                                       \
#field, offsetof(struct ssh_host, field), sizeof(((struct ssh_host *)0)->field) \
	}

static const struct key keys[] = {
	KEY(address), KEY(user),       KEY(port),      KEY(identity),  KEY(rails),   KEY(netdevs),
	KEY(path),    KEY(management), KEY(gid_index), KEY(link_down), KEY(link_up),
};

struct parse {
	struct ssh_host *ssh;
	const char *file, *problem;
	char what[128];
};

static bool set_key(struct ssh_host *h, const char *name, const char *value)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		if (strcmp(keys[i].name, name))
			continue;
		return (size_t)snprintf((char *)h + keys[i].offset, keys[i].size, "%s", value) <
		       keys[i].size;
	}
	if (strcmp(name, "sudo"))
		return false;
	h->sudo = !strcmp(value, "yes");
	return h->sudo || !strcmp(value, "no");
}

/* inih: 0 makes it report the line. Sections of hosts that are not asked for are only checked. */
static int on_value(void *user, const char *section, const char *name, const char *value)
{
	struct parse *p = user;
	struct ssh_host unused, *h = &unused;

	for (int i = 0; i < MAX_HOSTS; i++)
		if (!strcmp(p->ssh[i].name, section))
			h = &p->ssh[i];
	if (set_key(h, name, value))
		return 1;
	if (!p->problem) {
		snprintf(p->what, sizeof(p->what), "%.40s = %.40s", name, value);
		p->problem = p->what;
	}
	return 0;
}

static void split_hosts(struct ssh_host ssh[MAX_HOSTS], const char *hosts)
{
	const char *comma = strchr(hosts, ',');

	memset(ssh, 0, MAX_HOSTS * sizeof(*ssh));
	if (!comma || comma == hosts || !comma[1] || strchr(comma + 1, ',') ||
	    comma - hosts >= (int)sizeof(ssh->name) || strlen(comma + 1) >= sizeof(ssh->name))
		die(EXIT_BAD_USAGE, "--ssh %s: two hosts are needed: --ssh hostA,hostB", hosts);
	snprintf(ssh[0].name, sizeof(ssh[0].name), "%.*s", (int)(comma - hosts), hosts);
	snprintf(ssh[1].name, sizeof(ssh[1].name), "%s", comma + 1);
	if (!strcmp(ssh[0].name, ssh[1].name))
		die(EXIT_BAD_USAGE, "--ssh %s: the same host twice", hosts);
	for (int i = 0; i < MAX_HOSTS; i++) {
		/* ssh would take it for an option */
		if (*ssh[i].name == '-')
			die(EXIT_BAD_USAGE, "--ssh %s: not a host name", hosts);
		snprintf(ssh[i].address, sizeof(ssh[i].address), "%s", ssh[i].name);
	}
}

void config_load(struct ssh_host ssh[MAX_HOSTS], const char *hosts, const char *file)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	struct parse p = {.ssh = ssh};
	char own[PATH_MAX];
	int line;

	split_hosts(ssh, hosts);
	snprintf(own, sizeof(own), "%s%s/shift/testbed.conf",
		 xdg	? xdg
		 : home ? home
			: "/etc",
		 !xdg && home ? "/.config" : "");
	if (!file && access(own, F_OK))
		return;
	p.file = file ? file : own;
	line = ini_parse(p.file, on_value, &p);
	if (line < 0)
		die(EXIT_BAD_USAGE, "%s: %s", p.file, strerror(errno));
	if (line > 0)
		die(EXIT_BAD_USAGE, "%s:%d: not understood: %s", p.file, line,
		    p.problem ? p.problem : "not a [host] or a key = value");
}
