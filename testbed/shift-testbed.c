/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-testbed: two hosts with soft-RoCE NICs, on any Linux machine. One file per command. */
#include <string.h>

#include "testbed/testbed.h"

static const char text[] =
	"usage: shift-testbed COMMAND [options]\n"
	"Two hosts with RDMA NICs (soft-RoCE in virtual machines, or two real machines by ssh).\n"
	"\n"
	"  up       start a testbed and wait until it is ready\n"
	"  exec     run a command in a host\n"
	"  cp       copy files to, from or between hosts\n"
	"  link     pull or plug the cable of a rail\n"
	"  console  a guest's serial console\n"
	"  status   what is up\n"
	"  down     end a testbed\n"
	"\n"
	"  --help     this text; shift-testbed COMMAND --help for a command's\n"
	"  --version  the version\n"
	"\n"
	"Exit status: 0 done, 1 failed, 2 bad usage, 3 not up, 4 the name is taken, 5 something "
	"needed\n"
	"is not installed, 6 no memory or disk; exec has its own.\n";

static const struct cli_command commands[] = {
	{"up", cmd_up},		  {"exec", cmd_exec},	  {"cp", cmd_cp},     {"link", cmd_link},
	{"console", cmd_console}, {"status", cmd_status}, {"down", cmd_down},
};

int main(int argc, char **argv)
{
	int status;

	cli_begin("shift-testbed", EXIT_FAILED);
	if (argc < 2)
		die(EXIT_BAD_USAGE, "a command is needed; see shift-testbed --help");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		print_and_exit(text);
	if (!strcmp(argv[1], "--version"))
		print_version();
	if (!cli_run_command(commands, sizeof(commands) / sizeof(*commands), argc, argv, &status))
		die(EXIT_BAD_USAGE, "no command %s; see shift-testbed --help", argv[1]);
	return status;
}
