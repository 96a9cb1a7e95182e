/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-inject: network faults on command, always undone. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-inject/command.h"

static const char text[] =
	"\n"
	"  list            the faults that are active\n"
	"  undo            end one, or all\n"
	"  run             a scenario: faults on a timeline, and what is expected meanwhile\n"
	"  random          a scenario of chance\n"
	"\n"
	"  --help     this text; shift-inject COMMAND --help for a command's\n"
	"  --version  the version\n"
	"\n"
	"A fault lasts until it is interrupted, or for the time that --for says; then everything "
	"is as\n"
	"before, also if it is killed, or stopped when the time is over.\n"
	"\n"
	"Exit status: 0 done and undone, 1 failed, 2 bad usage, 3 no such NIC, process or fault,\n"
	"4 refused, 5 not permitted, 6 not (all) undone, 7 undone in time, but by its guard: the\n"
	"process itself stood still. Scenarios: 1 also if not all was as expected.\n";

static const struct cli_command commands[] = {
	{"list", cmd_list},
	{"undo", cmd_undo},
	{"run", cmd_run},
	{"random", cmd_random},
};

/* Keeps a fault's output and its messages in order where both go to one file. */
static void say_in_order(const char *line)
{
	fflush(stdout);
	cli_write_line(line);
}

/* The same words, without --host. */
static int run_there(const struct fault *fault, const struct inject_options *o, int argc,
		     char **argv)
{
	char **words = check_alloc(calloc((size_t)argc + 2, sizeof(*words)));
	struct host h;
	int n = 0, status;

	words[n++] = (char *)(uintptr_t)fault->name;
	for (int i = 1; i < argc; i++) {
		/* Or what getopt takes for it. */
		if (strncmp(argv[i], "--ho", 4))
			words[n++] = argv[i];
		else if (!strchr(argv[i], '='))
			i++;
	}
	host_find(o->host, &h);
	status = host_run(&h, words, o->until_eof);
	free(words);
	return status;
}

int cmd_fault(const struct fault *fault, int argc, char **argv)
{
	struct inject_options o;
	struct problem p = {0};
	int status;

	fault_options_parse(fault, &o, argc, argv);
	if (o.host)
		return run_there(fault, &o, argc, argv);
	status = fault_run(fault, &o, &p);
	if (p.status)
		say("%s", p.text);
	return status;
}

static _Noreturn void main_help(void)
{
	puts("usage: shift-inject FAULT [options]\n"
	     "       shift-inject COMMAND [options]\n"
	     "Network faults, on command and always undone.\n");
	for (const struct fault *f = faults; f->name; f++)
		printf("  %-14s  %s\n", f->name, f->summary);
	print_and_exit(text);
}

int main(int argc, char **argv)
{
	const struct fault *fault;
	int status;

	cli_begin("shift-inject", INJECT_FAILED);
	cli_messages_to(say_in_order);
	/* Some launchers leave SIGCHLD ignored: then no child could be waited for. */
	signal(SIGCHLD, SIG_DFL);
	if (argc < 2)
		die(INJECT_BAD_USAGE, "a fault or a command is needed; see shift-inject --help");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		main_help();
	if (!strcmp(argv[1], "--version"))
		print_version();
	if (cli_run_command(commands, sizeof(commands) / sizeof(*commands), argc, argv, &status))
		return status;
	fault = fault_find(argv[1]);
	if (!fault)
		die(INJECT_BAD_USAGE, "no fault or command %s; see shift-inject --help", argv[1]);
	cli_name_command(argv);
	return cmd_fault(fault, argc - 1, argv + 1);
}
