/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "testbed/testbed.h"

static const char text[] =
	"usage: shift-testbed exec [options] HOST [options] -- COMMAND [ARGUMENT...]\n"
	"Run a command in host a or b; its input, output, signals and status are passed through.\n"
	"\n"
	"  -n, --name NAME     which testbed (default: default)\n"
	"  -e, --env K=V       set a variable there; K alone passes ours; may be repeated\n"
	"      --timeout TIME  end the command after TIME (90s, 5m) and exit with 124\n"
	"  -t, --tty           give it a terminal (for gdb, a shell)\n"
	"      --help          this text\n"
	"\n"
	"It runs as root in the current directory (if there is one of that name), with "
	"SHIFT_HOST,\n"
	"SHIFT_PEER, SHIFT_PEER_ADDR, SHIFT_HOST_RAILS and SHIFT_GID_INDEX set.\n"
	"Exit status: the command's; 124 it timed out, 125 we failed, 126 it cannot be run, 127 "
	"there\n"
	"is no such command, 128+N signal N ended it.\n";

static const struct option options[] = {
	{"name", required_argument, NULL, 'n'},	   {"env", required_argument, NULL, 'e'},
	{"timeout", required_argument, NULL, 'T'}, {"tty", no_argument, NULL, 't'},
	{"help", no_argument, NULL, 'h'},	   {NULL, 0, NULL, 0},
};

/* The word itself, or the one of our own environment that it names. */
static char *env_word(char *word)
{
	size_t n = strlen(word);

	if (*word == '=' || !n)
		die(EXIT_EXEC_FAILED, "--env %s: not K=V", word);
	if (strchr(word, '='))
		return word;
	for (char **e = environ; *e; e++)
		if (!strncmp(*e, word, n) && (*e)[n] == '=')
			return *e;
	die(EXIT_EXEC_FAILED, "--env %s: not set here", word);
}

static void exec_parse(struct exec_options *o, char **env, int *env_count, int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "+n:e:t", options, NULL)) != -1) {
		switch (c) {
		case 'n': o->name = optarg; break;
		case 'e': env[(*env_count)++] = env_word(optarg); break;
		case 't': o->tty = true; break;
		case 'h': print_and_exit(text);
		case 'T':
			o->timeout_ms = parse_ms(optarg);
			if (o->timeout_ms <= 0)
				die(EXIT_EXEC_FAILED, "--timeout %s: not a time (90s, 5m)", optarg);
			break;
		default: exit(EXIT_EXEC_FAILED);
		}
	}
}

int cmd_exec(int argc, char **argv)
{
	struct exec_options o = {.name = "default", .out = 1};
	char **env = calloc(argc + 1, sizeof(*env));
	int env_count = 0, status;

	exec_parse(&o, env, &env_count, argc, argv);
	if (optind < argc)
		o.host = argv[optind++];
	/* Options may come behind the host as well; getopt wants to see a program's name first. */
	if (o.host && optind < argc && argv[optind][0] == '-' && strcmp(argv[optind], "--")) {
		argv += optind - 1;
		argc -= optind - 1;
		optind = 0;
		exec_parse(&o, env, &env_count, argc, argv);
	} else if (optind < argc && !strcmp(argv[optind], "--")) {
		optind++;
	}
	if (!o.host || optind >= argc)
		die(EXIT_EXEC_FAILED, "exec needs HOST -- COMMAND; see shift-testbed exec --help");
	o.env = env;
	o.argv = argv + optind;
	status = client_exec(&o);
	free(env);
	return status;
}
