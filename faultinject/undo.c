/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How each kind of change is undone. Nothing here knows which fault made it. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/pkt_sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "faultinject/device.h"
#include "faultinject/inject.h"
#include "faultinject/rtnl.h"

enum { JOURNALS_MAX = 256 };

static unsigned int ifindex_of(const cJSON *step)
{
	return json_uint32(step, "ifindex");
}

/* A change of something that is gone needs no undoing. */
static int undo_result(const cJSON *step, int err, struct problem *p)
{
	if (!err || err == -ENODEV)
		return 0;
	return problem_set(p, INJECT_NOT_UNDONE, "%s: %s: %s", json_text(step, "netdev"),
			   json_text(step, "kind"), rtnl_said(err));
}

static int undo_filter(const cJSON *step, struct problem *p)
{
	return undo_result(step,
			   rtnl_filter_delete(ifindex_of(step), json_uint32(step, "parent"),
					      json_text(step, "name")),
			   p);
}

/* The last injection removes it, whichever made it. */
static int undo_clsact(const cJSON *step, struct problem *p)
{
	unsigned int ifindex = ifindex_of(step);
	struct link_state s;

	if (rtnl_link_get(ifindex, &s) ||
	    rtnl_filters(ifindex, TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)) > 0 ||
	    rtnl_filters(ifindex, TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS)) > 0)
		return 0;
	return undo_result(step, rtnl_qdisc_delete(ifindex, TC_H_CLSACT, 0, "clsact"), p);
}

static int undo_qdisc(const cJSON *step, struct problem *p)
{
	return undo_result(step,
			   rtnl_qdisc_delete(ifindex_of(step), TC_H_ROOT,
					     json_uint32(step, "handle"), json_text(step, "qdisc")),
			   p);
}

/* Is it still the process that we mean? */
static pid_t process_of(const cJSON *step)
{
	pid_t pid = json_pid(step, "pid");
	uint64_t began = process_began(pid);

	return began && (double)began == json_number(step, "began", 0) ? pid : 0;
}

static int undo_signal(const cJSON *step, struct problem *p)
{
	pid_t pid = process_of(step);
	int sig = (int)json_uint32(step, "signal");

	if (!pid || !kill(pid, sig) || errno == ESRCH)
		return 0;
	return problem_set(p, INJECT_NOT_UNDONE, "process %d: %s", pid, strerror(errno));
}

static const struct {
	const char *kind;
	int (*undo)(const cJSON *step, struct problem *p);
} kinds[] = {
	{"filter", undo_filter},   {"clsact", undo_clsact}, {"qdisc", undo_qdisc},
	{"link", link_restore},	   {"plug", pause_release}, {"signal", undo_signal},
	{"cgroup", throttle_undo}, {"driver", driver_undo}, {"pcie", pcie_undo},
};

static int undo_step(const cJSON *step, struct problem *p)
{
	const char *kind = json_text(step, "kind");

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].kind, kind))
			return kinds[i].undo(step, p);
	return problem_set(p, INJECT_NOT_UNDONE,
			   "the journal has a step \"%s\" that is not known here", kind);
}

/* In another network namespace the number of a netdev means another netdev. Process numbers are the
 * same everywhere. */
static bool is_of_netns(const cJSON *step)
{
	return cJSON_HasObjectItem(step, "ifindex");
}

static int say_where(const cJSON *j, struct problem *p)
{
	const char *id = json_text(j, "id");
	char path[200];

	if (journal_netns_find(j, path, sizeof(path)))
		return problem_set(p, INJECT_NOT_UNDONE,
				   "%s is in another network namespace; undo it there: "
				   "nsenter --net=%s shift-inject undo %s",
				   id, path, id);
	return problem_set(p, INJECT_NOT_UNDONE,
			   "%s: its network namespace is gone; shift-inject undo %s drops it", id,
			   id);
}

/* If a step fails, the journal is kept, and the other steps are undone all the same. */
static int undo_steps(const cJSON *j, bool netns_is_gone, struct problem *p)
{
	const cJSON *steps = cJSON_GetObjectItemCaseSensitive(j, "steps");
	bool elsewhere = journal_is_of_another_netns(j);
	int status = 0;

	for (int i = cJSON_GetArraySize(steps) - 1; i >= 0; i--) {
		const cJSON *step = cJSON_GetArrayItem(steps, i);
		int one = 0;

		if (!elsewhere || !is_of_netns(step))
			one = undo_step(step, p);
		else if (!netns_is_gone && !p->status)
			one = say_where(j, p);
		status = one ? INJECT_NOT_UNDONE : status;
	}
	return status;
}

static int undo_whole(const cJSON *j, bool netns_is_gone, struct problem *p)
{
	int status = journal_is_of_another_boot(j) ? 0 : undo_steps(j, netns_is_gone, p);

	if (!status)
		journal_remove(j);
	return status;
}

int undo_journal(const cJSON *j, struct problem *p)
{
	return undo_whole(j, false, p);
}

int undo_of_gone_netns(const cJSON *j, struct problem *p)
{
	return undo_whole(j, true, p);
}

static bool is_for_us(const cJSON *j)
{
	const cJSON *step;

	if (journal_owner_lives(j) || journal_guard_lives(j))
		return false;
	if (journal_is_of_another_boot(j) || !journal_is_of_another_netns(j))
		return true;
	cJSON_ArrayForEach (step, cJSON_GetObjectItemCaseSensitive(j, "steps"))
		if (is_of_netns(step))
			return false;
	return true;
}

int undo_abandoned(char *left, size_t bytes, struct problem *p)
{
	cJSON *list[JOURNALS_MAX];
	unsigned int n = journal_list(list, JOURNALS_MAX, p);
	int status = p->status;

	for (unsigned int i = 0; i < n; i++) {
		if (!status && is_for_us(list[i])) {
			snprintf(left + strlen(left), bytes - strlen(left), "%s%s",
				 *left ? ", " : "", json_text(list[i], "id"));
			status = undo_journal(list[i], p);
		}
		cJSON_Delete(list[i]);
	}
	return status;
}
