/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "faultinject/inject.h"

enum { PATH_BYTES = 256 };

static int held = -1; /* this process's lock */

static const char *directory_name(void)
{
	const char *s = getenv("SHIFT_INJECT_DIR");

	return s && *s ? s : "/run/shift-inject";
}

/* Absolute, as the guard, whose working directory is another, must find the same one. */
static int check_journal_name(struct problem *p)
{
	if (*directory_name() != '/')
		return problem_set(p, INJECT_BAD_USAGE,
				   "SHIFT_INJECT_DIR=%.150s: not an absolute path",
				   directory_name());
	if (strlen(directory_name()) > 150)
		return problem_set(p, INJECT_BAD_USAGE, "SHIFT_INJECT_DIR is too long");
	return 0;
}

/* Journals are carried out as root: no other user may be able to write one. */
static bool journal_is_ours(struct problem *p)
{
	struct stat st;

	if (!stat(directory_name(), &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	    !(st.st_mode & (S_IWGRP | S_IWOTH)))
		return true;
	problem_set(p, INJECT_NO_PERMISSION, "%s: not a directory of this user alone",
		    directory_name());
	return false;
}

int journal_may_read(struct problem *p)
{
	if (check_journal_name(p))
		return p->status;
	if (!access(directory_name(), R_OK | X_OK) || errno == ENOENT)
		return 0;
	return problem_set(p, INJECT_NO_PERMISSION, "%s: %s; run it as root", directory_name(),
			   strerror(errno));
}

const char *journal_dir(struct problem *p)
{
	if (check_journal_name(p))
		return NULL;
	if (!mkdir(directory_name(), 0700) || errno == EEXIST)
		return journal_is_ours(p) ? directory_name() : NULL;
	problem_set(p, errno == EACCES || errno == EPERM ? INJECT_NO_PERMISSION : INJECT_FAILED,
		    "%s: %s: journals have to be there", directory_name(), strerror(errno));
	return NULL;
}

static int open_lock(struct problem *p)
{
	char path[PATH_BYTES];
	int fd;

	if (!journal_dir(p))
		return -1;
	snprintf(path, sizeof(path), "%s/lock", directory_name());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		problem_set(p, errno == EACCES ? INJECT_NO_PERMISSION : INJECT_FAILED, "%s: %s",
			    path, strerror(errno));
	return fd;
}

static int take_lock(int how, struct problem *p)
{
	int fd = open_lock(p);

	if (fd < 0)
		return -1;
	if (!flock(fd, how))
		return held = fd;
	if (errno != EWOULDBLOCK && errno != EINTR)
		problem_set(p, INJECT_FAILED, "%s/lock: %s", directory_name(), strerror(errno));
	close(fd);
	return -1;
}

int journal_try_lock(struct problem *p)
{
	return take_lock(LOCK_EX | LOCK_NB, p);
}

pid_t journal_lock_holder(void)
{
	char path[PATH_BYTES], line[256];
	unsigned long long inode;
	unsigned int major, minor;
	struct stat st;
	pid_t pid, found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/lock", directory_name());
	f = lstat(path, &st) ? NULL : fopen("/proc/locks", "re");
	while (f && !found && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*d: FLOCK %*s WRITE %d %x:%x:%llu", &pid, &major, &minor,
			   &inode) == 4 &&
		    inode == st.st_ino && major == major(st.st_dev) && minor == minor(st.st_dev))
			found = pid;
	if (f)
		fclose(f);
	return found;
}

/* A process that is stopped with the lock would be waited for in silence. */
static void say_stopped_holder(void)
{
	pid_t pid = journal_lock_holder();

	if (pid > 0 && process_is_stopped(pid))
		fprintf(stderr,
			"shift-inject: waiting for process %d, which is stopped and holds %s/lock; "
			"kill -CONT %d\n",
			pid, directory_name(), pid);
}

int journal_lock(struct problem *p)
{
	int lock = journal_try_lock(p);

	if (lock < 0 && !p->status)
		say_stopped_holder();
	while (lock < 0 && !p->status)
		lock = take_lock(LOCK_EX, p);
	return lock;
}

void journal_unlock(int lock)
{
	if (lock < 0)
		return;
	held = -1;
	flock(lock, LOCK_UN); /* also if a child has it too */
	close(lock);
}

void journal_wait(int ms)
{
	if (held >= 0)
		flock(held, LOCK_UN);
	poll(NULL, 0, ms);
	while (held >= 0 && flock(held, LOCK_EX) && errno == EINTR)
		;
}

/* --- writing --------------------------------------------------------------------------------- */

static double unix_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)(t.tv_nsec / 1000) / 1e6;
}

static int write_all(int fd, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t n = write(fd, text, left);

		if (n < 0)
			return -errno;
		text += n;
		left -= (size_t)n;
	}
	return fsync(fd) && errno != EINVAL ? -errno : 0;
}

/* Whole or not at all. */
int journal_write(struct injection *in, struct problem *p)
{
	char path[PATH_BYTES], next[PATH_BYTES + 8], *text = cJSON_Print(in->journal);
	int fd, err;

	snprintf(path, sizeof(path), "%s/%s.json", directory_name(), in->id);
	snprintf(next, sizeof(next), "%s.new", path);
	fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	err = fd < 0 ? -errno : !text ? -ENOMEM : write_all(fd, text);
	if (fd >= 0)
		close(fd);
	if (!err && rename(next, path))
		err = -errno;
	free(text);
	if (!err)
		return 0;
	unlink(next);
	return problem_set(p, INJECT_FAILED, "%s: %s", path, strerror(-err));
}

int journal_begin(struct injection *in, struct problem *p)
{
	cJSON *j = cJSON_CreateObject();

	cJSON_AddStringToObject(j, "id", in->id);
	cJSON_AddStringToObject(j, "fault", in->fault->name);
	cJSON_AddStringToObject(j, "nic", in->t.rdma);
	cJSON_AddStringToObject(j, "netdev", in->t.netdev);
	cJSON_AddNumberToObject(j, "ifindex", in->t.ifindex);
	cJSON_AddNumberToObject(j, "process", in->o.pid);
	cJSON_AddNumberToObject(j, "resource", in->fault->resource);
	journal_sign(j);
	cJSON_AddNumberToObject(j, "started_unix_s", unix_now());
	cJSON_AddNumberToObject(j, "for_ms", (double)in->o.for_ms);
	cJSON_AddNumberToObject(j, "seed", (double)in->o.seed);
	cJSON_AddArrayToObject(j, "steps");
	in->journal = j;
	return journal_write(in, p);
}

int journal_step(struct injection *in, const char *kind, cJSON *step, struct problem *p)
{
	if (in->o.dry_run) {
		cJSON_Delete(step);
		return 0;
	}
	cJSON_AddStringToObject(step, "kind", kind);
	cJSON_AddItemToArray(cJSON_GetObjectItem(in->journal, "steps"), step);
	return journal_write(in, p);
}

void journal_remove(const cJSON *j)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/%s.json", directory_name(), json_text(j, "id"));
	unlink(path);
}

int journal_drop(const char *id, char *path, size_t bytes, struct problem *p)
{
	char from[PATH_BYTES + 256];

	snprintf(from, sizeof(from), "%s/%.250s.json", directory_name(), id);
	snprintf(path, bytes, "%s/%.250s.dropped", directory_name(), id);
	if (!rename(from, path) || errno == ENOENT)
		return 0;
	return problem_set(p, INJECT_FAILED, "%s: %s", from, strerror(errno));
}

/* --- reading --------------------------------------------------------------------------------- */

/* The whole file, to be freed; NULL with errno. */
static char *read_text(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	size_t used = 0, room = 0;
	char *text = NULL, *more;
	ssize_t n = 1;

	while (fd >= 0 && n > 0) {
		if (used + 1 >= room) {
			room = room ? 2 * room : 1 << 14;
			more = realloc(text, room);
			if (!more)
				break;
			text = more;
		}
		n = read(fd, text + used, room - used - 1);
		used += n > 0 ? (size_t)n : 0;
	}
	if (fd < 0 || n)
		err = errno;
	if (fd >= 0)
		close(fd);
	if (!err)
		text[used] = 0;
	else
		free(text);
	errno = err;
	return err ? NULL : text;
}

/* The journal is ours, but somebody may have edited it: the ID must be a plain name, not a path. */
static bool is_journal(const cJSON *j, const char *id)
{
	return !strcmp(json_text(j, "id"), id) && cJSON_IsArray(cJSON_GetObjectItem(j, "steps"));
}

cJSON *journal_find(const char *id, struct problem *p)
{
	char path[PATH_BYTES + 256], *text;
	cJSON *j;

	if (strchr(id, '/') || strlen(id) >= 250)
		return NULL;
	snprintf(path, sizeof(path), "%s/%s.json", directory_name(), id);
	text = read_text(path);
	if (!text && errno == ENOENT)
		return NULL;
	j = text ? cJSON_Parse(text) : NULL;
	if (is_journal(j, id)) {
		free(text);
		return j;
	}
	if (p)
		problem_set(p, INJECT_NOT_UNDONE,
			    "%s: %s: what it undoes is not known; see to it, and remove it", path,
			    text ? "not a journal" : strerror(errno));
	free(text);
	cJSON_Delete(j);
	return NULL;
}

/* Takes the ID from a file's name. 0, or -1 if the file is not a journal. */
static int id_of(const char *name, char id[256])
{
	size_t n = strlen(name), suffix = strlen(".json");

	if (*name == '.' || n <= suffix || strcmp(name + n - suffix, ".json"))
		return -1;
	snprintf(id, 256, "%.*s", (int)(n - suffix), name);
	return 0;
}

static int by_start(const void *a, const void *b)
{
	double x = json_number(*(cJSON *const *)a, "started_unix_s", 0);
	double y = json_number(*(cJSON *const *)b, "started_unix_s", 0);

	return (x > y) - (x < y);
}

unsigned int journal_list(cJSON **list, unsigned int max, struct problem *broken)
{
	struct dirent *e;
	unsigned int n = 0;
	DIR *d = opendir(directory_name());
	char id[256];

	if (!d)
		return 0;
	while (n < max && (e = readdir(d)))
		if (!id_of(e->d_name, id) && (list[n] = journal_find(id, broken)))
			n++;
	closedir(d);
	qsort(list, n, sizeof(*list), by_start);
	return n;
}
