/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A real machine: the agent is copied there over ssh and run at once, on the same connection, so
 * that exec, cp and their signals and statuses are the same code as with a guest.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "testbed/machine.h"

static _Noreturn void exec_ssh(const struct ssh_host *h, size_t agent_bytes)
{
	char command[512], *argv[24];
	int n = 0;

	/* head takes exactly its bytes, what follows is the agent's. */
	snprintf(command, sizeof(command),
		 "f=$(mktemp /tmp/shift-testbed-agent.XXXXXX) && head -c %zu >\"$f\" && chmod 700 "
		 "\"$f\" && exec %s\"$f\" --stdio --unlink",
		 agent_bytes, h->sudo ? "sudo -n " : "");
	argv[n++] = "ssh";
	argv[n++] = "-oBatchMode=yes";
	argv[n++] = "-oConnectTimeout=15";
	argv[n++] = "-oServerAliveInterval=15";
	if (*h->user) {
		argv[n++] = "-l";
		argv[n++] = (char *)h->user;
	}
	if (*h->port) {
		argv[n++] = "-p";
		argv[n++] = (char *)h->port;
	}
	if (*h->identity) {
		argv[n++] = "-i";
		argv[n++] = (char *)h->identity;
	}
	argv[n++] = "--";
	argv[n++] = (char *)h->address;
	argv[n++] = command;
	argv[n] = NULL;
	execvp("ssh", argv);
	_exit(127);
}

int ssh_start(struct machine *m)
{
	char path[PATH_MAX], *agent;
	int channel[2], said[2];
	pid_t self = getpid();
	size_t bytes;

	own_file(path, "shift-testbed-agent");
	agent = read_whole_file(path, &bytes);
	if (!agent || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) ||
	    pipe2(said, O_CLOEXEC))
		return -errno;
	m->pid = fork();
	if (m->pid == 0) {
		machine_child(self);
		dup2(channel[1], 0);
		dup2(channel[1], 1);
		dup2(said[1], 2);
		exec_ssh(&m->plan->ssh[m->number], bytes);
	}
	close(channel[1]);
	close(said[1]);
	/* ssh's standard error goes where a guest's console goes. */
	m->console = said[0];
	fcntl(m->console, F_SETFL, O_NONBLOCK);
	chan_init(&m->agent, channel[0], channel[0]);
	buf_append(&m->agent.out, agent, bytes);
	free(agent);
	return m->pid < 0 ? -errno : 0;
}
