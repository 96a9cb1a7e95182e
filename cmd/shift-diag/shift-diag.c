/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-diag: what is wrong, where, and is this host fit to start? */
#include <string.h>

#include "cmd/shift-diag/diag.h"

static const char text[] =
	"usage: shift-diag COMMAND [options]\n"
	"Finds out what is wrong with the RDMA NICs, paths and jobs of this host.\n"
	"\n"
	"  explain   a completion status, vendor error, event, reason or log line in plain words\n"
	"  rails     the NICs of this host, who backs whom, and why not\n"
	"  status    protected processes and their connections, with a verdict\n"
	"  top       the same live, with rates\n"
	"  events    what happened to connections\n"
	"  collect   what processes have recorded, as files for the analysers\n"
	"  export    counters of processes and NICs, for Prometheus\n"
	"  precheck  is this host fit to start a job?\n"
	"  ping      do datagrams of all sizes arrive at other hosts, and come back?\n"
	"  hang      which rank keeps the others of a job waiting? From what was recorded\n"
	"  fail      which host or NIC made a job fail?\n"
	"  slow      which rank, host or NIC makes a job slow?\n"
	"  path      what made a collective slow, and whose traffic did it\n"
	"  pulse     who stops or slows down a job, from records of its traffic\n"
	"  analyze   all five on one incident, and one answer: the culprits in order\n"
	"  rq-psn    do the NICs tell truly what they have received?\n"
	"\n"
	"  --help     this text; shift-diag COMMAND --help for a command's\n"
	"  --version  the version\n"
	"\n"
	"Exit status: 0 fine, 1 a warning, 2 a culprit was found, 3 could not decide;\n"
	"64 bad usage, 70 shift-diag itself failed.\n";

static const struct cli_command commands[] = {
	{"explain", cmd_explain}, {"rails", cmd_rails},	      {"rq-psn", cmd_rq_psn},
	{"ping", cmd_ping},	  {"precheck", cmd_precheck}, {"export", cmd_export},
	{"status", cmd_status},	  {"events", cmd_events},     {"top", cmd_top},
	{"hang", cmd_hang},	  {"fail", cmd_fail},	      {"slow", cmd_slow},
	{"collect", cmd_collect}, {"path", cmd_path},	      {"pulse", cmd_pulse},
	{"analyze", cmd_analyze},
};

int main(int argc, char **argv)
{
	int status;

	cli_begin("shift-diag", EXIT_FAILED);
	if (argc < 2)
		die(EXIT_BAD_USAGE, "a command is needed; see shift-diag --help");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		print_and_exit(text);
	if (!strcmp(argv[1], "--version"))
		print_version();
	if (!cli_run_command(commands, sizeof(commands) / sizeof(*commands), argc, argv, &status))
		die(EXIT_BAD_USAGE, "no command %s; see shift-diag --help", argv[1]);
	return status;
}
