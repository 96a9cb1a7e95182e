/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Root looks into directories that other users made, who may replace anything in them at any
 * moment by a link to elsewhere. What holds is this: the owner of the run directory is found once,
 * and what does not belong to that user is not believed, wherever a link leads.
 */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/run_dir.h"
#include "lib/stats/places.h"

enum { OTHERS_MAX = 1024 }; /* names in a directory of another user, and files in all */

struct search {
	const char *job;
	pid_t pid;
	bool (*fn)(void *arg, const struct stats_place *place);
	void *arg;
	size_t found;
	size_t others_left;
};

/* The names in a directory, sorted. */
struct names {
	char **name;
	size_t count, room;
};

static bool names_add(struct names *n, const char *name)
{
	if (n->count == n->room) {
		size_t room = n->room ? 2 * n->room : 64;
		char **more = realloc(n->name, room * sizeof(*more));

		if (!more)
			return false;
		n->name = more;
		n->room = room;
	}
	n->name[n->count] = strdup(name);
	return n->name[n->count] && ++n->count;
}

static int name_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_read(struct names *n, const char *path, size_t max)
{
	DIR *dir = opendir(path);
	const struct dirent *e;

	memset(n, 0, sizeof(*n));
	while (dir && n->count < max && (e = readdir(dir)))
		if (*e->d_name != '.' && !names_add(n, e->d_name))
			break;
	if (dir)
		closedir(dir);
	if (n->count)
		qsort(n->name, n->count, sizeof(*n->name), name_compare);
}

static void names_free(struct names *n)
{
	for (size_t i = 0; i < n->count; i++)
		free(n->name[i]);
	free(n->name);
}

static size_t names_max(uid_t owner)
{
	return owner && owner != geteuid() ? OTHERS_MAX : SIZE_MAX;
}

/* The name is PID.stats, or PID-TIME.stats of a crash record. */
static void visit_file(struct search *s, const char *dir, const char *name,
		       const struct stats_place *job)
{
	const char *end = strrchr(name, '.');
	struct stats_place place = *job;
	char path[PATH_MAX];

	place.pid = (pid_t)strtol(name, NULL, 10);
	place.path = path;
	if (!end || strcmp(end, ".stats") || place.pid <= 0 || (s->pid && s->pid != place.pid) ||
	    (size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path))
		return;
	if (place.owner != geteuid() && !s->others_left)
		return;
	s->others_left -= place.owner != geteuid();
	s->found += s->fn(s->arg, &place);
}

static void visit_job(struct search *s, const char *dir, const struct stats_place *job)
{
	struct names names;

	names_read(&names, dir, names_max(job->owner));
	for (size_t i = 0; i < names.count; i++)
		visit_file(s, dir, names.name[i], job);
	names_free(&names);
}

/* Its jobs that belong to that user; (uid_t)-1: to anybody. */
static void visit_jobs(struct search *s, const char *base, uid_t base_owner, uid_t owner,
		       bool is_crash)
{
	struct names names;
	struct stat st;

	names_read(&names, base, names_max(base_owner));
	for (size_t i = 0; i < names.count; i++) {
		struct stats_place job = {.job = names.name[i], .is_crash = is_crash};
		char dir[PATH_MAX];

		if ((s->job && strcmp(s->job, job.job)) ||
		    (size_t)snprintf(dir, sizeof(dir), "%s/%s", base, job.job) >= sizeof(dir) ||
		    lstat(dir, &st) || !S_ISDIR(st.st_mode) ||
		    (owner != (uid_t)-1 && st.st_uid != owner))
			continue;
		job.owner = st.st_uid;
		if (is_crash && strlen(dir) + sizeof("/crash") > sizeof(dir))
			continue;
		visit_job(s, is_crash ? strcat(dir, "/crash") : dir, &job);
	}
	names_free(&names);
}

static void visit_base(struct search *s, const char *base, uid_t base_owner, uid_t owner)
{
	s->others_left = OTHERS_MAX;
	visit_jobs(s, base, base_owner, owner, false);
	visit_jobs(s, base, base_owner, owner, true);
}

/* The run directories of other users. One that root owns is none of them: it could be reached by a
 * link that a user made. */
static void visit_others(struct search *s, const char *pattern)
{
	struct stat st;
	glob_t g = {0};

	if (!glob(pattern, 0, NULL, &g))
		for (size_t i = 0; i < g.gl_pathc; i++)
			if (!lstat(g.gl_pathv[i], &st) && S_ISDIR(st.st_mode) && st.st_uid)
				visit_base(s, g.gl_pathv[i], st.st_uid, st.st_uid);
	globfree(&g);
}

size_t stats_each(const char *job, pid_t pid,
		  bool (*fn)(void *arg, const struct stats_place *place), void *arg)
{
	struct search s = {.job = job, .pid = pid, .fn = fn, .arg = arg};
	const char *own = getenv("SHIFT_RUN_DIR");
	char base[PATH_MAX];
	struct stat st;

	if (run_dir_path(base, sizeof(base)))
		return 0;
	if (!stat(base, &st))
		visit_base(&s, base, st.st_uid, geteuid() ? geteuid() : (uid_t)-1);
	if (geteuid() || (own && *own))
		return s.found;
	visit_others(&s, "/run/user/*/shift");
	visit_others(&s, "/tmp/shift-*");
	visit_others(&s, "/var/tmp/shift-*");
	return s.found;
}
