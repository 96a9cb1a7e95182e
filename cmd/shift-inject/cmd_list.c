/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <cjson/cJSON.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cmd/shift-inject/command.h"

enum { JOURNALS_MAX = 256 };

static const char text[] = "usage: shift-inject list [options]\n"
			   "The faults that are active on this host.\n"
			   "\n"
			   "  -j, --json  for a program: {\"faults\": [...]}\n"
			   "      --help  this text\n";

static const char *state_of(const cJSON *j)
{
	if (journal_is_of_another_boot(j))
		return "gone with a reboot";
	if (journal_owner_lives(j))
		return cJSON_IsTrue(cJSON_GetObjectItem(j, "waiting")) ? "waiting" : "active";
	return journal_guard_lives(j) ? "being undone" : "left behind";
}

static bool counters_of(const cJSON *j, uint64_t *matched, uint64_t *hit)
{
	int fd = packet_state_by_id(json_uint32(j, "state"));
	bool found = fd >= 0 && packet_counters(fd, matched, hit);

	if (fd >= 0)
		close(fd);
	return found;
}

static void fault_show(const cJSON *j)
{
	time_t started = (time_t)json_uint32(j, "started_unix_s");
	const char *nic = json_text(j, "nic"), *netdev = json_text(j, "netdev");
	uint64_t matched, hit;
	char when[32] = "";
	struct tm tm;

	if (localtime_r(&started, &tm))
		strftime(when, sizeof(when), "%F %T", &tm);
	printf("%-20s %-10s %-14s since %s: %s", shown(json_text(j, "id")),
	       shown(*nic ? nic : netdev), state_of(j), when, shown(json_text(j, "detail")));
	if (counters_of(j, &matched, &hit))
		printf("; %llu of %llu packets hit", (unsigned long long)hit,
		       (unsigned long long)matched);
	putchar('\n');
}

static cJSON *fault_json(cJSON *j)
{
	cJSON *o = cJSON_Duplicate(j, true);
	uint64_t matched, hit;

	cJSON_AddStringToObject(o, "state", state_of(j));
	cJSON_DeleteItemFromObject(o, "resource");
	if (counters_of(j, &matched, &hit)) {
		cJSON_AddNumberToObject(o, "matched", (double)matched);
		cJSON_AddNumberToObject(o, "hit", (double)hit);
	}
	return o;
}

int cmd_list(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
	cJSON *list[JOURNALS_MAX], *all = cJSON_CreateObject(),
				   *faults_json = cJSON_AddArrayToObject(all, "faults");
	struct problem p = {0};
	unsigned int n;
	bool json = false;
	int c;

	while ((c = getopt_long(argc, argv, "j", options, NULL)) != -1) {
		if (c == 'h')
			print_and_exit(text);
		if (c == '?')
			return INJECT_BAD_USAGE;
		json = true;
	}
	if (optind < argc)
		die(INJECT_BAD_USAGE, "list: unexpected argument %s", argv[optind]);
	if (journal_may_read(&p))
		die(p.status, "list: %s", p.text);
	n = journal_list(list, JOURNALS_MAX, &p);
	for (unsigned int i = 0; i < n; i++) {
		if (json)
			cJSON_AddItemToArray(faults_json, fault_json(list[i]));
		else
			fault_show(list[i]);
		cJSON_Delete(list[i]);
	}
	if (!n && !json && !p.status)
		puts("no fault is active");
	if (json)
		print_json_text(cJSON_Print(all));
	cJSON_Delete(all);
	if (p.status)
		say("list: %s", p.text);
	return fflush(stdout) ? INJECT_FAILED : p.status;
}
