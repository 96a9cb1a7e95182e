/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <cjson/cJSON.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testbed/testbed.h"

static const char text[] =
	"usage: shift-testbed link [options] HOST RAIL up|down\n"
	"Pull or plug the cable of a rail at one host, from outside: its carrier goes, its peer "
	"only\n"
	"hears nothing any more. HOST all: at both ends, as when the cable itself is cut.\n"
	"\n"
	"  -n, --name NAME  which testbed (default: default)\n"
	"      --help       this text\n";

static const struct option options[] = {
	{"name", required_argument, NULL, 'n'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

/* The supervisor has done it, or its answer is a command to run, in the host or here. */
static int carry_out(const char *name, const char *host, const char *state, const cJSON *reply)
{
	const char *local = cJSON_GetStringValue(cJSON_GetObjectItem(reply, "local"));
	const char *nic = cJSON_GetStringValue(cJSON_GetObjectItem(reply, "nic"));
	const cJSON *words = cJSON_GetObjectItem(reply, "exec"), *word;
	char *argv[16] = {NULL};
	struct exec_options o = {.name = name, .host = host, .argv = argv, .in = 0, .out = 2};
	int n = 0, status;

	if (local) {
		setenv("SHIFT_HOST", host, 1);
		setenv("SHIFT_NIC", nic, 1);
		setenv("SHIFT_LINK", state, 1);
		status = run_program((char *[]){"/bin/sh", "-c", (char *)local, NULL});
	} else if (words) {
		cJSON_ArrayForEach (word, words)
			argv[n++] = (char *)cJSON_GetStringValue(word);
		status = client_exec(&o);
	} else {
		return EXIT_OK;
	}
	if (status)
		die(EXIT_FAILED, "host %s: %s exited with %d", host, local ? local : argv[0],
		    status);
	return EXIT_OK;
}

static void set_link(const char *name, const char *host, long rail, const char *state)
{
	cJSON *request = client_op("link", host), *reply;
	struct chan c;

	cJSON_AddNumberToObject(request, "rail", rail);
	cJSON_AddStringToObject(request, "state", state);
	client_connect(&c, name, EXIT_NOT_UP);
	reply = client_request(&c, request, 0);
	chan_close(&c);
	carry_out(name, host, state, reply);
	cJSON_Delete(reply);
}

int cmd_link(int argc, char **argv)
{
	const char *name = "default", *host, *state;
	long rail;
	int c;

	while ((c = getopt_long(argc, argv, "n:", options, NULL)) != -1) {
		switch (c) {
		case 'n': name = optarg; break;
		case 'h': print_and_exit(text);
		default: return EXIT_BAD_USAGE;
		}
	}
	if (argc - optind != 3)
		die(EXIT_BAD_USAGE, "link needs HOST RAIL up|down");
	host = argv[optind];
	state = argv[optind + 2];
	rail = parse_number(argv[optind + 1], 0, 1000);
	if (rail < 0)
		die(EXIT_BAD_USAGE, "%s: not the number of a rail", argv[optind + 1]);
	if (strcmp(state, "up") && strcmp(state, "down"))
		die(EXIT_BAD_USAGE, "%s: a link is set up or down", state);
	if (strcmp(host, "all")) {
		set_link(name, host, rail, state);
	} else {
		set_link(name, "a", rail, state);
		set_link(name, "b", rail, state);
	}
	return EXIT_OK;
}
