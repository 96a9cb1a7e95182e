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

static const char text[] =
	"usage: shift-inject undo [--drop] ID... | --all\n"
	"End faults; return when everything is as it was before them.\n"
	"\n"
	"  -a, --all   all of them\n"
	"      --drop  what cannot be undone is given up: its journal is renamed\n"
	"      --help  this text\n"
	"\n"
	"shift-inject list shows the IDs.\n";

struct wanted {
	bool all, drop;
	char **ids;
	int count;
};

/* The journal as it is on disk now, to be deleted. NULL: the fault is over, or broken says why that
 * is not known. Another fault may have got its ID since. */
static cJSON *journal_reread(const cJSON *j, struct problem *broken)
{
	cJSON *now = journal_find(json_text(j, "id"), broken);

	if (!now || journal_is_same(now, j))
		return now;
	cJSON_Delete(now);
	return NULL;
}

static bool fault_is_over(const cJSON *j)
{
	struct problem broken = {0};
	cJSON *now = journal_reread(j, &broken);
	bool over = !now && !broken.status;

	cJSON_Delete(now);
	return over;
}

/* The fault's process undoes it, or else its guard: both are in the network namespace of the
 * change. One that is stopped is continued. */
static bool fault_ends(const cJSON *j, int sig)
{
	if (journal_owner_lives(j)) {
		kill(json_pid(j, "pid"), sig);
		kill(json_pid(j, "pid"), SIGCONT);
	}
	if (journal_guard_lives(j))
		kill(json_pid(j, "guard"), SIGCONT);
	for (int ms = 0; ms < WAIT_MS; ms += STEP_MS) {
		if (fault_is_over(j))
			return true;
		if (!journal_owner_lives(j) && !journal_guard_lives(j))
			return false;
		poll(NULL, 0, STEP_MS);
	}
	return false;
}

/* Drops a journal whose changes cannot be undone only if its ID was given. */
static int undo_it(const cJSON *j, bool by_id, const char **how, struct problem *p)
{
	char path[200];

	if (!by_id || journal_is_of_another_boot(j) || !journal_is_of_another_netns(j) ||
	    journal_netns_find(j, path, sizeof(path)))
		return undo_journal(j, p);
	*how = "dropped; its network namespace is gone, and what was changed there";
	return undo_of_gone_netns(j, p);
}

/* A listed fault may be over, and its NIC may have another one, before we get the lock. */
static int undo_left(const cJSON *j, bool by_id, const char **how, struct problem *p)
{
	int lock = journal_lock(p);
	cJSON *now = lock < 0 ? NULL : journal_reread(j, p);
	int status = now ? undo_it(now, by_id, how, p) : p->status;

	cJSON_Delete(now);
	journal_unlock(lock);
	return status;
}

/* The journal excludes no other fault any more, and can still be read to repair things by hand. */
static void give_journal_up(const char *id)
{
	struct problem p = {0};
	char path[512];

	if (journal_drop(id, path, sizeof(path), &p))
		say("%s", p.text);
	else
		printf("%s: given up; its journal is now %s\n", shown(id), shown(path));
}

static int undo_one(const cJSON *j, const struct wanted *w)
{
	bool over = !journal_is_of_another_boot(j) &&
		    (fault_ends(j, SIGTERM) || fault_ends(j, SIGKILL));
	struct problem p = {0};
	const char *how = "undone";
	int status = over ? 0 : undo_left(j, !w->all, &how, &p);

	if (!status)
		printf("%s: %s\n", shown(json_text(j, "id")), how);
	else
		say("%s", p.text);
	if (status == INJECT_NOT_UNDONE && w->drop)
		give_journal_up(json_text(j, "id"));
	return status;
}

static bool is_wanted(const cJSON *j, const struct wanted *w)
{
	for (int i = 0; i < w->count; i++)
		if (!strcmp(json_text(j, "id"), w->ids[i]))
			return true;
	return w->all;
}

static bool is_listed(const char *id, cJSON *const *list, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (!strcmp(json_text(list[i], "id"), id))
			return true;
	return false;
}

/* Reports each ID whose journal does not exist or cannot be read. Returns a status. */
static int check_ids(const struct wanted *w, cJSON *const *list, unsigned int n)
{
	int status = 0;

	for (int i = 0; i < w->count; i++) {
		const char *id = w->ids[i];
		struct problem p = {0};

		if (is_listed(id, list, n))
			continue;
		cJSON_Delete(journal_find(id, &p));
		problem_set(&p, INJECT_NOT_FOUND,
			    "undo: no fault %.100s is active; see shift-inject list", id);
		say("%s", p.text);
		if (p.status == INJECT_NOT_UNDONE && w->drop)
			give_journal_up(id);
		status = p.status;
	}
	return status;
}

static int undo_wanted(const struct wanted *w)
{
	cJSON *list[JOURNALS_MAX];
	struct problem broken = {0};
	unsigned int n = journal_list(list, JOURNALS_MAX, w->all ? &broken : NULL);
	int status = w->all ? broken.status : check_ids(w, list, n), one;

	if (broken.status)
		say("%s", broken.text);
	/* The latest first, as a fault may build on an earlier one. */
	while (n--) {
		if (is_wanted(list[n], w)) {
			one = undo_one(list[n], w);
			status = one ? one : status;
		}
		cJSON_Delete(list[n]);
	}
	return status;
}

int cmd_undo(int argc, char **argv)
{
	static const struct option options[] = {{"all", no_argument, NULL, 'a'},
						{"drop", no_argument, NULL, 'd'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	struct problem p = {0};
	struct wanted w = {0};
	int c;

	while ((c = getopt_long(argc, argv, "a", options, NULL)) != -1) {
		if (c == 'h')
			print_and_exit(text);
		if (c == '?')
			return INJECT_BAD_USAGE;
		if (c == 'a')
			w.all = true;
		else
			w.drop = true;
	}
	w.ids = argv + optind;
	w.count = argc - optind;
	if (w.all == (w.count > 0))
		die(INJECT_BAD_USAGE, "undo: either --all or the IDs of faults");
	if (w.all && w.drop)
		die(INJECT_BAD_USAGE, "undo: --drop wants the IDs of faults");
	if (journal_may_read(&p))
		die(p.status, "undo: %s", p.text);
	return undo_wanted(&w);
}
