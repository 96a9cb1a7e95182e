/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-ctl: looks at the protected processes of this host, and moves their connections. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "cmd/shift-ctl/ctl.h"

static const char text[] =
	"usage: shift-ctl COMMAND [options]\n"
	"The protected processes of this host: what they do, and the operator's hand.\n"
	"\n"
	"  status    processes and their connections\n"
	"  events    what happened: the flight recorder\n"
	"  migrate   move connections away from a NIC\n"
	"  failback  move connections back to the NIC that their program chose\n"
	"\n"
	"  --help     this text; shift-ctl COMMAND --help for a command's\n"
	"  --version  the version\n"
	"\n"
	"Exit status: 0 done, 1 failed or refused, 2 bad usage, 3 there is no such process.\n";

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{"status", cmd_status},
	{"events", cmd_events},
	{"migrate", cmd_migrate},
	{"failback", cmd_failback},
};

int main(int argc, char **argv)
{
	static char shown[64];

	if (argc < 2)
		die(EXIT_BAD_USAGE, "a command is needed; see shift-ctl --help");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		help(text);
	if (!strcmp(argv[1], "--version"))
		help("shift-ctl " PACKAGE_VERSION "\n");
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		/* getopt's messages begin with this */
		snprintf(shown, sizeof(shown), "shift-ctl: %s", argv[1]);
		argv[1] = shown;
		return commands[i].run(argc - 1, argv + 1);
	}
	die(EXIT_BAD_USAGE, "no command %s; see shift-ctl --help", argv[1]);
}
