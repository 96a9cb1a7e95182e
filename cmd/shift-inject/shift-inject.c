/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-inject: network faults on command, always undone. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-inject/command.h"

static const char text[] =
	"\n"
	"  list            the faults that are active\n"
	"  undo            end one, or all\n"
	"\n"
	"  --help     this text; shift-inject COMMAND --help for a command's\n"
	"  --version  the version\n"
	"\n"
	"A fault lasts until it is interrupted, or for the time that --for says; then everything "
	"is as\n"
	"before, also if it is killed.\n"
	"\n"
	"Exit status: 0 done and undone, 1 failed, 2 bad usage, 3 no such NIC, process or fault,\n"
	"4 refused, 5 not permitted, 6 not (all) undone.\n";

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{"list", cmd_list},
	{"undo", cmd_undo},
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

void die(int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vcomplain(fmt, ap);
	va_end(ap);
	exit(status);
}

void help(const char *s)
{
	fputs(s, stdout);
	exit(fflush(stdout) ? INJECT_FAILED : INJECT_OK);
}

int cmd_fault(const struct fault *fault, int argc, char **argv)
{
	struct inject_options o;
	struct problem p = {0};
	int status;

	options_parse(fault, &o, argc, argv);
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
