/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*-
 * shift-bench: what failover costs when nothing fails, and what it saves when something does.
 *
 * The rooms, from the bottom up; one file per command stands on top of them:
 *   stats       pure: median, percentiles, the interval of a ratio
 *   histogram   a distribution, in bins of one percent
 *   machine     what the machine itself was away
 *   sample      what was measured: cases and samples, as the tree that --json writes
 *   protection  pure: whether the report of a run shows its connections protected
 *   hosts       two hosts by shift-testbed; a program in one of them, or a server and its client
 *   perftest    its command lines, and what it prints
 *   idle        QPs that do nothing, beside perftest
 *   fault       shift-inject in a host; marks: when it and the switches were
 *   scene       the integrity client and one fault under it; outage and bins read what it leaves
 *   training    a job that says its progress, a fault, and restarts; progress reads what it says
 *   plan        warm-up, baseline and shift in turn, progress, saving
 *   table       the same on a terminal
 *   options     what all commands understand
 */
#include <string.h>

#include "cmd/shift-bench/bench.h"

#ifdef __SANITIZE_ADDRESS__
/* It ends wherever it must (die()), and what it holds then goes with the process: to look for leaks
 * would change the exit status. Other findings count. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

static const char text[] =
	"usage: shift-bench COMMAND [options]\n"
	"Measures programs with and without shift, in turn, between two hosts.\n"
	"\n"
	"  latency    ib_write_lat, ib_send_lat and ib_read_lat\n"
	"  bandwidth  ib_write_bw, ib_send_bw and ib_read_bw\n"
	"  failover   faults: outage, phases, messages lost, duplicated, reordered\n"
	"  timeline   throughput in bins of 100 ms, while a link goes down and up\n"
	"  setup      what connections cost until they are protected, and how long they take to "
	"move\n"
	"  training   the progress of a job while a NIC fails: standstill, restarts, lost steps\n"
	"  verbs      each verb by itself, as programs use it; needs no hosts\n"
	"  all        latency, bandwidth, failover, timeline and setup, into one file\n"
	"  compare    two files of --json: what has become worse or better\n"
	"  report     the page of --html from a file of --json\n"
	"\n"
	"  --help     this text; shift-bench COMMAND --help for a command's\n"
	"  --version  the version\n"
	"\n"
	"Exit status: 0 done, 1 a run failed, 2 bad usage, 3 a host is not up, 4 compare: "
	"something\n"
	"is worse; with --control: a difference was shown; 5 something needed is not installed,\n"
	"6 the hosts have different versions, 130 interrupted.\n";

static const struct cli_command commands[] = {
	{"latency", cmd_latency},   {"bandwidth", cmd_bandwidth},
	{"failover", cmd_failover}, {"timeline", cmd_timeline},
	{"setup", cmd_setup},	    {"training", cmd_training},
	{"verbs", cmd_verbs},	    {"all", cmd_all},
	{"compare", cmd_compare},   {"report", cmd_report},
};

int main(int argc, char **argv)
{
	int status;

	cli_begin("shift-bench", EXIT_FAILED);
	if (argc < 2)
		die(EXIT_BAD_USAGE, "a command is needed; see shift-bench --help");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		print_and_exit(text);
	if (!strcmp(argv[1], "--version"))
		print_version();
	if (!cli_run_command(commands, sizeof(commands) / sizeof(*commands), argc, argv, &status))
		die(EXIT_BAD_USAGE, "no command %s; see shift-bench --help", argv[1]);
	return status;
}
