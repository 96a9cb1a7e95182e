/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-ctl/ctl.h"

static const char text[] =
	"usage: shift-ctl events [options]\n"
	"What happened to connections: every change of state, every switch with its phases, error\n"
	"completions and asynchronous events.\n"
	"\n"
	"  -a, --all       also the life of every queue pair, protected or not\n"
	"  -f, --follow    go on until interrupted, or until the process of --pid ends\n"
	"  -J, --job NAME  only of this job\n"
	"  -p, --pid PID   only this process\n"
	"  -j, --json      for a program: one object per line\n"
	"      --help      this text\n";

int cmd_events(int argc, char **argv)
{
	struct ctl_options o;

	struct live_how how;

	ctl_options_parse(&o, "fa", text, argc, argv);
	how = (struct live_how){.json = o.json, .follow = o.follow, .lives = o.all};
	return live_events(&o.which, &how, EXIT_NONE) ? EXIT_OK : EXIT_FAILED;
}
