/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <cjson/cJSON.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/shift-inject/command.h"

enum { JOURNALS_MAX = 256, WAIT_MS = 10000, STEP_MS = 20 };

static const char text[] = "usage: shift-inject undo ID... | --all\n"
			   "End faults; return when everything is as it was before them.\n"
			   "\n"
			   "  -a, --all   all of them\n"
			   "      --help  this text\n"
			   "\n"
			   "shift-inject list shows the IDs.\n";

static bool is_there(const char *id)
{
	cJSON *list[JOURNALS_MAX];
	unsigned int n = journal_list(list, JOURNALS_MAX);
	bool found = false;

	for (unsigned int i = 0; i < n; i++) {
		found |= !strcmp(json_text(list[i], "id"), id);
		cJSON_Delete(list[i]);
	}
	return found;
}

/* It undoes itself; or else its guard does. */
static bool ended(const cJSON *j, int sig)
{
	const char *id = json_text(j, "id");

	if (journal_owner_lives(j))
		kill((pid_t)json_number(j, "pid", 0), sig);
	for (int ms = 0; ms < WAIT_MS; ms += STEP_MS) {
		if (!is_there(id))
			return true;
		if (!journal_owner_lives(j) && !journal_guard_lives(j))
			return false;
		poll(NULL, 0, STEP_MS);
	}
	return false;
}

static int undo_one(const cJSON *j)
{
	struct problem p = {0};
	int lock, status;

	if (!journal_is_of_another_boot(j) && !journal_is_of_another_netns(j) &&
	    (ended(j, SIGTERM) || ended(j, SIGKILL))) {
		printf("%s: undone\n", json_text(j, "id"));
		return 0;
	}
	lock = journal_lock(&p);
	status = lock < 0 ? p.status : undo_journal(j, &p);
	journal_unlock(lock);
	if (status)
		complain("%s", p.text);
	else
		printf("%s: undone\n", json_text(j, "id"));
	return status;
}

static bool is_wanted(const cJSON *j, char **ids, int count)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(json_text(j, "id"), ids[i]))
			return true;
	return false;
}

static int undo_all(bool all, char **ids, int count)
{
	cJSON *list[JOURNALS_MAX];
	unsigned int n = journal_list(list, JOURNALS_MAX);
	int status = 0, found = 0, one;

	/* The latest first, as they may stand on each other. */
	while (n--) {
		if (all || is_wanted(list[n], ids, count)) {
			found++;
			one = undo_one(list[n]);
			status = one ? one : status;
		}
		cJSON_Delete(list[n]);
	}
	if (found >= count)
		return status;
	complain("undo: no such fault is active; see shift-inject list");
	return INJECT_NOT_FOUND;
}

int cmd_undo(int argc, char **argv)
{
	static const struct option options[] = {
		{"all", no_argument, NULL, 'a'}, {"help", no_argument, NULL, 'h'}, {0}};
	struct problem p = {0};
	bool all = false;
	int c;

	while ((c = getopt_long(argc, argv, "a", options, NULL)) != -1) {
		if (c == 'h')
			help(text);
		if (c == '?')
			return INJECT_BAD_USAGE;
		all = true;
	}
	if (all == (optind < argc))
		die(INJECT_BAD_USAGE, "undo: either --all or the IDs of faults");
	if (journal_may_read(&p))
		die(p.status, "undo: %s", p.text);
	return undo_all(all, argv + optind, argc - optind);
}
