/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/run_dir.h"
#include "lib/stats/places.h"

struct search {
	const char *job;
	pid_t pid;
	bool (*fn)(void *arg, const struct stats_place *place);
	void *arg;
	size_t found;
};

/* The name is PID.stats, or crash/PID-TIME.stats; JOB is the directory above. */
static void visit_place(struct search *s, const char *path, bool is_crash)
{
	struct stats_place place = {.path = path, .is_crash = is_crash};
	char copy[PATH_MAX], *job, *end;

	if (strlen(path) >= sizeof(copy))
		return;
	strcpy(copy, path);
	end = strrchr(copy, '/');
	place.pid = (pid_t)strtol(end + 1, NULL, 10);
	*end = 0;
	if (is_crash && (end = strrchr(copy, '/')))
		*end = 0;
	job = strrchr(copy, '/');
	place.job = job ? job + 1 : copy;
	if ((s->job && strcmp(s->job, place.job)) || (s->pid && s->pid != place.pid) ||
	    place.pid <= 0)
		return;
	s->found += s->fn(s->arg, &place);
}

static void glob_places(struct search *s, const char *base)
{
	static const char *const under[] = {"*/*.stats", "*/crash/*.stats"};
	char pattern[PATH_MAX];

	for (int i = 0; i < 2; i++) {
		glob_t g = {0};

		snprintf(pattern, sizeof(pattern), "%s/%s", base, under[i]);
		if (!glob(pattern, 0, NULL, &g))
			for (size_t n = 0; n < g.gl_pathc; n++)
				visit_place(s, g.gl_pathv[n], i);
		globfree(&g);
	}
}

size_t stats_each(const char *job, pid_t pid,
		  bool (*fn)(void *arg, const struct stats_place *place), void *arg)
{
	struct search s = {.job = job, .pid = pid, .fn = fn, .arg = arg};
	const char *own = getenv("SHIFT_RUN_DIR");
	char base[PATH_MAX];

	if (run_dir_path(base, sizeof(base)))
		return 0;
	glob_places(&s, base);
	if (geteuid() || (own && *own))
		return s.found;
	glob_places(&s, "/run/user/*/shift");
	glob_places(&s, "/tmp/shift-*");
	return s.found;
}
