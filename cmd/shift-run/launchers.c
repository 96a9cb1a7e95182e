/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A launcher that gives its ranks on other hosts nothing of its environment: Open MPI's mpirun. It
 * starts a daemon of its own on each host, and can be told by what: here by a shift-run, so that
 * the host has a shift-kvd, and the ranks there have the variables that the daemon has.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-run/run.h"

static const char agent_variable[] = "OMPI_MCA_orte_launch_agent";

/* mpirun splits the command at blanks, and a remote shell may read it. */
static bool is_plain(const char *text)
{
	return !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789_-+=.,:/@%[]")];
}

/* The library's path and the reports' directory are this host's; a password is not for command
 * lines, and its user without it would end the shift-run there. */
static bool goes_along(const char *name)
{
	return strcmp(name, "LD_PRELOAD") && strcmp(name, "SHIFT_REPORT_DIR") &&
	       strcmp(name, "SHIFT_KV_USER") && strcmp(name, "SHIFT_KV_PASSWORD");
}

static bool reaches_other_hosts(const struct meeting *m)
{
	return m->kind != MEET_HERE && !endpoint_is_local(m->urls);
}

struct variable mpirun_variable(const struct variable *v, const struct meeting *m)
{
	char *agent = "env";

	if (!reaches_other_hosts(m) || getenv(agent_variable))
		return (struct variable){0};
	for (; v->name; v++) {
		if (!goes_along(v->name))
			continue;
		if (!is_plain(v->value))
			return (struct variable){0};
		agent = format_text("%s %s=%s", agent, v->name, v->value);
	}
	if (!is_plain(own_directory(EXIT_OURS)))
		return (struct variable){0};
	agent = format_text("%s %s/shift-run -- orted", agent, own_directory(EXIT_OURS));
	return (struct variable){agent_variable, agent};
}
