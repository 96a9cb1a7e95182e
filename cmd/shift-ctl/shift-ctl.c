/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-ctl: looks at the protected processes of this host, and moves their connections. */
#include <string.h>

#include "cmd/shift-ctl/ctl.h"

static const char text[] =
	"usage: shift-ctl COMMAND [options]\n"
	"Shows the protected processes of this host, and moves their connections.\n"
	"\n"
	"  status    processes and their connections\n"
	"  events    what happened: the last changes of state and the last switches\n"
	"  migrate   move connections away from a NIC\n"
	"  failback  move connections back to the NIC that their program chose\n"
	"\n"
	"  --help     this text; shift-ctl COMMAND --help for a command's\n"
	"  --version  the version\n"
	"\n"
	"Exit status: 0 done, 1 failed or refused, 2 bad usage, 3 there is no such process.\n";

static const struct cli_command commands[] = {
	{"status", cmd_status},
	{"events", cmd_events},
	{"migrate", cmd_migrate},
	{"failback", cmd_failback},
};

int main(int argc, char **argv)
{
	int status;

	cli_begin("shift-ctl", EXIT_FAILED);
	if (argc < 2)
		die(EXIT_BAD_USAGE, "a command is needed; see shift-ctl --help");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		print_and_exit(text);
	if (!strcmp(argv[1], "--version"))
		print_version();
	if (!cli_run_command(commands, sizeof(commands) / sizeof(*commands), argc, argv, &status))
		die(EXIT_BAD_USAGE, "no command %s; see shift-ctl --help", argv[1]);
	return status;
}
