/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Checks expectations: compares what shift-ctl says of some hosts' programs before and after. */
#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/shift-inject/command.h"
#include "faultinject/scenario.h"

struct watch {
	const struct host *hosts;
	int count;
	cJSON *before[SCENARIO_HOSTS_MAX], *now[SCENARIO_HOSTS_MAX];
};

/* What is new since the beginning. */
struct totals {
	int processes, missing, failovers, failbacks, switches;
	double given_up, maybe_twice, crashed, outage_max_us;
};

char *ctl_path(const struct host *h)
{
	static char path[PATH_MAX + 64];
	char *slash;

	/* Beside this one where it is installed; else where the build has it. */
	program_path(path);
	slash = strrchr(path, '/');
	if (h->is_ssh || !slash)
		return strcpy(path, "shift-ctl");
	strcpy(slash, "/shift-ctl");
	if (access(path, X_OK))
		strcpy(slash, "/../shift-ctl/shift-ctl");
	return access(path, X_OK) ? strcpy(path, "shift-ctl") : path;
}

static cJSON *status_of(const struct host *h)
{
	char *words[] = {ctl_path(h), "status", "--json", NULL}, *text = host_output(h, words);
	cJSON *o = text ? cJSON_Parse(text) : NULL;

	free(text);
	return o;
}

static void read_hosts(struct watch *w, cJSON **to)
{
	for (int i = 0; i < w->count; i++) {
		cJSON_Delete(to[i]);
		to[i] = status_of(w->hosts + i);
	}
}

struct watch *watch_begin(const struct host *hosts, int count)
{
	struct watch *w = check_alloc(calloc(1, sizeof(*w)));

	w->hosts = hosts;
	w->count = count;
	read_hosts(w, w->before);
	return w;
}

void watch_free(struct watch *w)
{
	for (int i = 0; i < w->count; i++) {
		cJSON_Delete(w->before[i]);
		cJSON_Delete(w->now[i]);
	}
	free(w);
}

/* The first host for which shift-ctl failed; NULL: none. Such a host must not count as one without
 * protected programs. */
static const struct host *first_unseen(const struct watch *w, cJSON *const *then)
{
	for (int i = 0; i < w->count; i++)
		if (!then[i])
			return w->hosts + i;
	return NULL;
}

static const cJSON *processes_of(const cJSON *status)
{
	return cJSON_GetObjectItem(status, "processes");
}

static bool is_live(const cJSON *process)
{
	return !strcmp(json_text(process, "life"), "running");
}

bool watch_is_home(struct watch *w)
{
	const cJSON *p, *c;
	bool home;

	read_hosts(w, w->now);
	home = !first_unseen(w, w->now);
	for (int i = 0; i < w->count; i++)
		cJSON_ArrayForEach (p, processes_of(w->now[i]))
			cJSON_ArrayForEach (c, cJSON_GetObjectItem(p, "connections"))
				if (is_live(p) && cJSON_IsTrue(cJSON_GetObjectItem(c, "protected")))
					home &= json_number(c, "rail", 0) == 0 &&
						!strcmp(json_text(c, "state"), "ACTIVE");
	return home;
}

static const cJSON *same_process(const cJSON *list, const cJSON *process)
{
	const cJSON *p;

	cJSON_ArrayForEach (p, list)
		if (json_number(p, "pid", 0) == json_number(process, "pid", 0) &&
		    json_number(p, "unix_s", 0) == json_number(process, "unix_s", 0))
			return p;
	return NULL;
}

static double totals_difference(const cJSON *now, const cJSON *before, const char *key)
{
	return json_number(cJSON_GetObjectItem(now, "totals"), key, 0) -
	       json_number(cJSON_GetObjectItem(before, "totals"), key, 0);
}

static double maybe_twice(const cJSON *process)
{
	const cJSON *totals = cJSON_GetObjectItem(process, "totals");

	return json_number(cJSON_GetObjectItem(totals, "counters"), "maybe_twice", 0);
}

static double last_switch(const cJSON *process)
{
	const cJSON *s;
	double last = 0;

	cJSON_ArrayForEach (s, cJSON_GetObjectItem(process, "switches"))
		if (json_number(s, "unix_s", 0) > last)
			last = json_number(s, "unix_s", 0);
	return last;
}

static void add_switches(struct totals *t, const cJSON *now, const cJSON *before)
{
	double since = last_switch(before);
	const cJSON *s;

	cJSON_ArrayForEach (s, cJSON_GetObjectItem(now, "switches")) {
		bool failover = !strcmp(json_text(s, "kind"), "failover");

		if (json_number(s, "unix_s", 0) <= since ||
		    strcmp(json_text(s, "outcome"), "committed"))
			continue;
		t->switches++;
		t->failovers += failover;
		t->failbacks += !strcmp(json_text(s, "kind"), "fail-back");
		if (failover && json_number(s, "outage_us", 0) > t->outage_max_us)
			t->outage_max_us = json_number(s, "outage_us", 0);
	}
}

static struct totals watch_totals(struct watch *w)
{
	struct totals t = {0};
	const cJSON *p, *q;

	for (int i = 0; i < w->count; i++) {
		cJSON_ArrayForEach (p, processes_of(w->before[i])) {
			if (!is_live(p))
				continue;
			t.processes++;
			q = same_process(processes_of(w->now[i]), p);
			t.missing += !q;
			t.crashed += q && !is_live(q);
			t.given_up += totals_difference(q, p, "given_up");
			t.maybe_twice += maybe_twice(q) - maybe_twice(p);
			add_switches(&t, q, p);
		}
	}
	return t;
}

static bool check_failover(const struct totals *t, const struct expectation *e, char found[160])
{
	snprintf(found, 160, "%d failover%s, longest outage %.1f ms", t->failovers,
		 t->failovers == 1 ? "" : "s", t->outage_max_us / 1000);
	return t->failovers && (!e->within_us || t->outage_max_us <= (double)e->within_us);
}

static bool check_failback(const struct totals *t, const struct expectation *e, int64_t home_us,
			   char found[160])
{
	if (home_us < 0)
		snprintf(found, 160, "not all connections are back on rail 0");
	else
		snprintf(found, 160,
			 "%d fail-back%s, all back on rail 0 %.1f s after the last fault",
			 t->failbacks, t->failbacks == 1 ? "" : "s", (double)home_us / 1e6);
	return t->failbacks && home_us >= 0 && home_us <= e->within_us;
}

static bool all_hosts_seen(const struct watch *w, char found[160])
{
	const struct host *before = first_unseen(w, w->before), *now = first_unseen(w, w->now);

	if (before || now)
		snprintf(found, 160, "not known: shift-ctl failed on host %.63s at the %s",
			 before ? before->name : now->name, before ? "beginning" : "end");
	return !before && !now;
}

bool watch_check(struct watch *w, const struct expectation *e, int64_t home_us, char found[160])
{
	struct totals t = watch_totals(w);

	if (!all_hosts_seen(w, found))
		return false;
	if (!t.processes) {
		snprintf(found, 160, "no protected process ran at the beginning");
		return false;
	}
	switch (e->kind) {
	case EXPECT_FAILOVER: return check_failover(&t, e, found);
	case EXPECT_FAILBACK: return check_failback(&t, e, home_us, found);
	case EXPECT_NO_SWITCH:
		snprintf(found, 160, "%d switches", t.switches);
		return !t.switches && !t.missing;
	case EXPECT_NO_ERROR: break;
	}
	snprintf(found, 160,
		 "of %d processes %d ended, %.0f crashed; %.0f connections given up, "
		 "%.0f requests may have been executed twice",
		 t.processes, t.missing, t.crashed, t.given_up, t.maybe_twice);
	return !t.missing && !t.crashed && t.given_up <= 0 && t.maybe_twice <= 0;
}
