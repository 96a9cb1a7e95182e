/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <cjson/cJSON.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "testbed/testbed.h"

static const char text[] = "usage: shift-testbed down [options]\n"
			   "End a testbed: nothing of it is left. Returns when that is so.\n"
			   "\n"
			   "  -n, --name NAME  which testbed (default: default)\n"
			   "  -a, --all        all of yours\n"
			   "      --help       this text\n";

static const struct option options[] = {
	{"name", required_argument, NULL, 'n'},
	{"all", no_argument, NULL, 'a'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static void end_testbed(const char *name)
{
	struct chan c;

	client_connect(&c, name, EXIT_NOT_UP);
	cJSON_Delete(client_request(&c, client_op("down", NULL), 0));
	chan_close(&c);
}

int cmd_down(int argc, char **argv)
{
	const char *name = "default";
	char(*names)[64];
	bool all = false;
	int c, n;

	while ((c = getopt_long(argc, argv, "n:a", options, NULL)) != -1) {
		switch (c) {
		case 'n': name = optarg; break;
		case 'a': all = true; break;
		case 'h': print_and_exit(text);
		default: return EXIT_BAD_USAGE;
		}
	}
	if (optind < argc)
		die(EXIT_BAD_USAGE, "down: unexpected argument %s", argv[optind]);
	if (!all) {
		end_testbed(name);
		return EXIT_OK;
	}
	n = state_list(&names);
	for (int i = 0; i < n; i++)
		end_testbed(names[i]);
	free(names);
	return EXIT_OK;
}
