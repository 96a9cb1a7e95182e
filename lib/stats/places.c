/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Root looks into directories that other users made, who may replace anything in them at any
 * moment by a link to elsewhere. What holds is this: the owner of the run directory is found once,
 * and what does not belong to that user is not believed, wherever a link leads.
 *
 * What is spent on a user is counted by the owner of files, in all directories together: a user can
 * make any number of directories, and several users can share one.
 */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/run_dir.h"
#include "lib/stats/dir_names.h"
#include "lib/stats/places.h"

enum { USERS_MAX = 64 };

/* Where run directories of other users are: parent/PREFIXuid/suffix. */
struct common_place {
	const char *parent, *prefix, *suffix;
};

static const struct common_place common_places[] = {
	{"/run/user", "", "/shift"},
	{"/tmp", "shift-", ""},
	{"/var/tmp", "shift-", ""},
};

/* What may still be spent on a user. */
struct budget {
	uid_t uid;
	size_t names, bytes;
	int64_t ns;
};

struct search {
	const char *ending, *job;
	pid_t pid;
	bool (*fn)(void *arg, const struct stats_place *place);
	void *arg;
	size_t found;
	struct stats_cut *cut;
	struct budget budget[USERS_MAX];
	size_t budgets;
	/* What is looked at now. */
	const struct common_place *common;
	const char *dir;
	uid_t uid;
	struct budget *spent; /* NULL: of our own, without a limit */
	int64_t since_ns;
};

static int64_t places_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* NULL: no limit. A user too many shares the last place. */
static struct budget *budget_of(struct search *s, uid_t uid)
{
	struct budget *b = s->budget;

	if (uid == geteuid())
		return NULL;
	while (b < s->budget + s->budgets && b->uid != uid)
		b++;
	if (b < s->budget + s->budgets)
		return b;
	if (s->budgets == USERS_MAX)
		return s->budget + USERS_MAX - 1;
	s->budgets++;
	*b = (struct budget){uid, STATS_OTHERS_NAMES, STATS_OTHERS_BYTES,
			     STATS_OTHERS_MS * 1000000LL};
	return b;
}

static void note_cut(struct stats_cut *cut, uid_t uid)
{
	for (size_t i = 0; i < cut->users; i++)
		if (cut->uid[i] == uid)
			return;
	if (cut->users == STATS_CUT_USERS)
		cut->has_more = true;
	else
		cut->uid[cut->users++] = uid;
}

static bool spend_name(struct search *s, uid_t uid)
{
	struct budget *b = budget_of(s, uid);

	if (!b)
		return true;
	if (!b->names) {
		note_cut(s->cut, uid);
		return false;
	}
	b->names--;
	return true;
}

/* (uid_t)-1: a directory that several users share. */
static void begin_user(struct search *s, uid_t uid)
{
	s->uid = uid;
	s->spent = uid == (uid_t)-1 ? NULL : budget_of(s, uid);
	s->since_ns = places_now_ns();
}

/* Spends the time since the last call. False: no more of this user. */
static bool may_go_on(struct search *s)
{
	int64_t now_ns;

	if (!s->spent)
		return true;
	now_ns = places_now_ns();
	s->spent->ns -= now_ns - s->since_ns;
	s->since_ns = now_ns;
	if (s->spent->ns > 0 && s->spent->bytes)
		return true;
	note_cut(s->cut, s->uid);
	return false;
}

/* A directory that has gone, or is closed to us, has nothing for us. A lack of our own is said. */
static void read_dir(struct search *s, struct dir_names *names, const char *dir,
		     enum dir_choice (*choose)(void *arg, const char *name))
{
	int err;

	s->dir = dir;
	err = dir_names_read(names, dir, choose, s);
	if (err == -EMFILE || err == -ENFILE || err == -ENOMEM)
		s->cut->err = err;
}

/* The name is PID.stats, or PID-TIME.stats of a crash record; or the same with another ending. */
static enum dir_choice choose_file(void *arg, const char *name)
{
	struct search *s = arg;
	const char *end = strrchr(name, '.');
	long pid = strtol(name, NULL, 10);

	if (!may_go_on(s))
		return DIR_STOP;
	if (!end || strcmp(end, s->ending) || pid <= 0 || (s->pid && s->pid != pid))
		return DIR_SKIP;
	return spend_name(s, s->uid) ? DIR_KEEP : DIR_STOP;
}

static void visit_file(struct search *s, const char *dir, const char *name,
		       const struct stats_place *job)
{
	struct stats_place place = *job;
	char path[PATH_MAX];
	size_t kept = 0;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path))
		return;
	place.pid = (pid_t)strtol(name, NULL, 10);
	place.path = path;
	place.kept_bytes = &kept;
	s->found += s->fn(s->arg, &place);
	if (s->spent)
		s->spent->bytes -= kept < s->spent->bytes ? kept : s->spent->bytes;
}

static void visit_job(struct search *s, const char *dir, const struct stats_place *job)
{
	struct dir_names names;

	begin_user(s, job->owner);
	read_dir(s, &names, dir, choose_file);
	for (size_t i = 0; i < names.count && may_go_on(s); i++)
		visit_file(s, dir, names.name[i], job);
	dir_names_free(&names);
}

/* The directory dir/name, if it is one that belongs to that user; (uid_t)-1: to anybody. */
static bool find_dir(char *path, size_t bytes, const char *dir, const char *name, uid_t *owner)
{
	struct stat st;

	if ((size_t)snprintf(path, bytes, "%s/%s", dir, name) >= bytes || lstat(path, &st) ||
	    !S_ISDIR(st.st_mode) || (*owner != (uid_t)-1 && st.st_uid != *owner))
		return false;
	*owner = st.st_uid;
	return true;
}

static enum dir_choice choose_job(void *arg, const char *name)
{
	struct search *s = arg;
	uid_t owner = s->uid;
	char path[PATH_MAX];

	if (!may_go_on(s))
		return DIR_STOP;
	if ((s->job && strcmp(s->job, name)) || !find_dir(path, sizeof(path), s->dir, name, &owner))
		return DIR_SKIP;
	return spend_name(s, owner) ? DIR_KEEP : DIR_SKIP;
}

static void visit_jobs(struct search *s, const char *base, uid_t owner,
		       const struct dir_names *jobs, bool is_crash)
{
	for (size_t i = 0; i < jobs->count; i++) {
		struct stats_place job = {
			.job = jobs->name[i], .owner = owner, .is_crash = is_crash};
		char dir[PATH_MAX];

		if (!find_dir(dir, sizeof(dir), base, job.job, &job.owner) ||
		    strlen(dir) + sizeof("/crash") > sizeof(dir))
			continue;
		visit_job(s, is_crash ? strcat(dir, "/crash") : dir, &job);
	}
}

/* The jobs in it that belong to that user; (uid_t)-1: to anybody. */
static void visit_base(struct search *s, const char *base, uid_t owner)
{
	struct dir_names jobs;

	begin_user(s, owner);
	read_dir(s, &jobs, base, choose_job);
	visit_jobs(s, base, owner, &jobs, false);
	visit_jobs(s, base, owner, &jobs, true);
	dir_names_free(&jobs);
}

/* The user in a name, "shift-1000"; 0: in no such name. */
static uid_t uid_in_name(const char *name, const char *prefix)
{
	char again[64];
	unsigned int uid = 0;

	if (!strncmp(name, prefix, strlen(prefix)))
		uid = (unsigned int)strtoul(name + strlen(prefix), NULL, 10);
	snprintf(again, sizeof(again), "%s%u", prefix, uid);
	return strcmp(name, again) || uid == (uid_t)-1 ? 0 : uid;
}

static bool find_base(char *base, size_t bytes, const struct common_place *c, const char *name)
{
	uid_t uid = uid_in_name(name, c->prefix);
	char in_parent[128];

	return uid && uid != geteuid() &&
	       (size_t)snprintf(in_parent, sizeof(in_parent), "%s%s", name, c->suffix) <
		       sizeof(in_parent) &&
	       find_dir(base, bytes, c->parent, in_parent, &uid);
}

static enum dir_choice choose_base(void *arg, const char *name)
{
	const struct search *s = arg;
	char base[PATH_MAX];

	return find_base(base, sizeof(base), s->common, name) ? DIR_KEEP : DIR_SKIP;
}

/* Anybody can make any name there. A user has but one, and it is taken only if it is that user's,
 * so not if it is root's: that could be reached by a link. */
static void visit_others(struct search *s, const struct common_place *c)
{
	struct dir_names names;
	char base[PATH_MAX];

	s->common = c;
	read_dir(s, &names, c->parent, choose_base);
	for (size_t i = 0; i < names.count; i++)
		if (find_base(base, sizeof(base), c, names.name[i]))
			visit_base(s, base, uid_in_name(names.name[i], c->prefix));
	dir_names_free(&names);
}

void stats_each_own(const char *job, bool (*fn)(void *arg, const struct stats_place *place),
		    void *arg)
{
	struct stats_cut unused = {0};
	struct search s = {.ending = ".stats", .job = job, .fn = fn, .arg = arg, .cut = &unused};
	char base[PATH_MAX];

	if (!run_dir_path(base, sizeof(base)))
		visit_base(&s, base, geteuid());
}

size_t stats_each_of_ending(const char *ending, const char *job, pid_t pid,
			    bool (*fn)(void *arg, const struct stats_place *place), void *arg,
			    struct stats_cut *cut)
{
	struct stats_cut unused;
	struct search s = {.ending = ending,
			   .job = job,
			   .pid = pid,
			   .fn = fn,
			   .arg = arg,
			   .cut = cut ? cut : &unused};
	const char *own = getenv("SHIFT_RUN_DIR");
	char base[PATH_MAX];

	memset(s.cut, 0, sizeof(*s.cut));
	if (run_dir_path(base, sizeof(base)))
		return 0;
	visit_base(&s, base, geteuid() ? geteuid() : (uid_t)-1);
	if (geteuid() || (own && *own))
		return s.found;
	for (size_t i = 0; i < sizeof(common_places) / sizeof(*common_places); i++)
		visit_others(&s, common_places + i);
	return s.found;
}

size_t stats_each(const char *job, pid_t pid,
		  bool (*fn)(void *arg, const struct stats_place *place), void *arg,
		  struct stats_cut *cut)
{
	return stats_each_of_ending(".stats", job, pid, fn, arg, cut);
}
