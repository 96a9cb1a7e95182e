/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-inject: network faults on command, always undone. */
#include "config.h"

#include <getopt.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
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
	"before, also if it is killed.\n"
	"\n"
	"Exit status: 0 done and undone, 1 failed, 2 bad usage, 3 no such NIC, process or fault,\n"
	"4 refused, 5 not permitted, 6 not (all) undone. Scenarios: 1 also if not all was as "
	"expected.\n";

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{"list", cmd_list},
	{"undo", cmd_undo},
	{"run", cmd_run},
	{"random", cmd_random},
};

static void vcomplain(const char *fmt, va_list ap)
{
	fflush(stdout);
	fputs("shift-inject: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

void complain(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vcomplain(fmt, ap);
	va_end(ap);
}

/* While options are only tried, what would end the process ends the trying. */
static struct {
	jmp_buf back;
	char *text;
	size_t bytes;
} trial;

void die(int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (trial.text) {
		vsnprintf(trial.text, trial.bytes, fmt, ap);
		va_end(ap);
		longjmp(trial.back, 1);
	}
	vcomplain(fmt, ap);
	va_end(ap);
	exit(status);
}

void options_bad(void)
{
	if (trial.text)
		longjmp(trial.back, 1);
	exit(INJECT_BAD_USAGE);
}

bool options_try(const struct fault *fault, int argc, char **argv, char *wrong, size_t bytes)
{
	struct inject_options o;

	trial.text = wrong;
	trial.bytes = bytes;
	opterr = 0;
	if (!setjmp(trial.back)) {
		snprintf(wrong, bytes, "not an option of this fault, or without a value");
		options_parse(fault, &o, argc, argv);
		*wrong = 0;
	}
	trial.text = NULL;
	opterr = 1;
	return !*wrong;
}

void help(const char *s)
{
	fputs(s, stdout);
	exit(fflush(stdout) ? INJECT_FAILED : INJECT_OK);
}

/* The same words, without --host. */
static int run_there(const struct fault *fault, const struct inject_options *o, int argc,
		     char **argv)
{
	char **words = calloc((size_t)argc + 2, sizeof(*words));
	struct host h;
	int n = 0, status;

	if (!words)
		die(INJECT_FAILED, "out of memory");
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

	options_parse(fault, &o, argc, argv);
	if (o.host)
		return run_there(fault, &o, argc, argv);
	status = fault_run(fault, &o, &p);
	if (p.status)
		complain("%s", p.text);
	return status;
}

static _Noreturn void main_help(void)
{
	puts("usage: shift-inject FAULT [options]\n"
	     "       shift-inject COMMAND [options]\n"
	     "Network faults, on command and always undone.\n");
	for (const struct fault *f = faults; f->name; f++)
		printf("  %-14s  %s\n", f->name, f->summary);
	help(text);
}

int main(int argc, char **argv)
{
	static char shown[64];
	const struct fault *fault;

	/* Ignored, as some launchers leave it, no child could be waited for. */
	signal(SIGCHLD, SIG_DFL);
	if (argc < 2)
		die(INJECT_BAD_USAGE, "a fault or a command is needed; see shift-inject --help");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		main_help();
	if (!strcmp(argv[1], "--version"))
		help("shift-inject " PACKAGE_VERSION "\n");
	fault = fault_find(argv[1]);
	/* getopt's messages begin with this */
	snprintf(shown, sizeof(shown), "shift-inject: %s", argv[1]);
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		argv[1] = shown;
		return commands[i].run(argc - 1, argv + 1);
	}
	if (!fault)
		die(INJECT_BAD_USAGE, "no fault or command %s; see shift-inject --help", argv[1]);
	argv[1] = shown;
	return cmd_fault(fault, argc - 1, argv + 1);
}
