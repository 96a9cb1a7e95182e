/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <cjson/cJSON.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "testbed/testbed.h"

static const char text[] = "usage: shift-testbed status [options]\n"
			   "Show the testbeds that are up: hosts, rails, cables.\n"
			   "\n"
			   "  -n, --name NAME  only this one; exit with 3 if it is not up\n"
			   "  -j, --json       for a program: {\"testbeds\": [...]}\n"
			   "      --help       this text\n";

static const struct option options[] = {
	{"name", required_argument, NULL, 'n'},
	{"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static const char *status_text(const cJSON *json, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItem(json, key));

	return s ? s : "-";
}

static int status_number(const cJSON *json, const char *key)
{
	return cJSON_GetNumberValue(cJSON_GetObjectItem(json, key));
}

static void print_host(const cJSON *host)
{
	const cJSON *rail;

	printf("  host %s: %s", shown(status_text(host, "name")),
	       shown(status_text(host, "state")));
	if (cJSON_GetObjectItem(host, "failure"))
		printf(" (%s)", shown(status_text(host, "failure")));
	putchar('\n');
	cJSON_ArrayForEach (rail, cJSON_GetObjectItem(host, "rails"))
		printf("    rail %d: %s on %s, address %s, GID %d, cable %s\n",
		       status_number(rail, "rail"), shown(status_text(rail, "nic")),
		       shown(status_text(rail, "netdev")), shown(status_text(rail, "address")),
		       status_number(rail, "gid_index"), shown(status_text(rail, "cable")));
}

static void print_testbed(const cJSON *t)
{
	const cJSON *host;

	printf("%s: layout %s", status_text(t, "name"), status_text(t, "layout"));
	if (cJSON_GetObjectItem(t, "kernel"))
		printf(", kernel %s, %s", status_text(t, "kernel"), status_text(t, "accel"));
	printf(", up %d s", status_number(t, "uptime_s"));
	if (cJSON_GetObjectItem(t, "lease_left_s"))
		printf(", %d s of its lease left", status_number(t, "lease_left_s"));
	putchar('\n');
	cJSON_ArrayForEach (host, cJSON_GetObjectItem(t, "hosts"))
		print_host(host);
}

static cJSON *ask_testbed(const char *name)
{
	struct chan c;
	cJSON *reply;

	client_connect(&c, name, EXIT_NOT_UP);
	reply = client_request(&c, client_op("status", NULL), 0);
	chan_close(&c);
	return reply;
}

static cJSON *ask_testbeds(const char *name)
{
	cJSON *json = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(json, "testbeds");
	char(*names)[64] = NULL;
	int n;

	if (name) {
		cJSON_AddItemToArray(list, ask_testbed(name));
		return json;
	}
	n = state_list(&names);
	for (int i = 0; i < n; i++)
		cJSON_AddItemToArray(list, ask_testbed(names[i]));
	free(names);
	return json;
}

static void print_all(const cJSON *json)
{
	const cJSON *t, *list = cJSON_GetObjectItem(json, "testbeds");

	if (!cJSON_GetArraySize(list))
		puts("no testbed is up");
	cJSON_ArrayForEach (t, list)
		print_testbed(t);
}

int cmd_status(int argc, char **argv)
{
	const char *name = NULL;
	bool as_json = false;
	cJSON *json;
	int c;

	while ((c = getopt_long(argc, argv, "n:j", options, NULL)) != -1) {
		switch (c) {
		case 'n': name = optarg; break;
		case 'j': as_json = true; break;
		case 'h': print_and_exit(text);
		default: return EXIT_BAD_USAGE;
		}
	}
	if (optind < argc)
		die(EXIT_BAD_USAGE, "status: unexpected argument %s", argv[optind]);
	json = ask_testbeds(name);
	if (as_json)
		print_json_text(cJSON_Print(json));
	else
		print_all(json);
	cJSON_Delete(json);
	return fflush(stdout) ? EXIT_FAILED : EXIT_OK;
}
