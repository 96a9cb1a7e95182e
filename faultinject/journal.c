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

enum { PATH_BYTES = 256, NAME_BYTES = 264, JOURNAL_BYTES_MAX = 256 << 20 };

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

static int refuse_directory(struct problem *p)
{
	return problem_set(p, INJECT_NO_PERMISSION, "%s: not a directory of this user alone",
			   directory_name());
}

/*
 * The directory of journals, or -1; without a status: there is none. Journals are carried out as
 * root: no other user may be able to write one, nor to lead here to somewhere else.
 */
static int open_directory(struct problem *p)
{
	int fd = check_journal_name(p)
			 ? -1
			 : open(directory_name(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && !p->status && (errno == ELOOP || errno == ENOTDIR))
		refuse_directory(p);
	else if (fd < 0 && !p->status && errno != ENOENT)
		problem_set(p, INJECT_NO_PERMISSION, "%s: %s; run it as root", directory_name(),
			    strerror(errno));
	if (fd < 0 ||
	    (!fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH))))
		return fd;
	close(fd);
	refuse_directory(p);
	return -1;
}

int journal_may_read(struct problem *p)
{
	int fd = open_directory(p);

	if (fd >= 0)
		close(fd);
	return p->status;
}

/* The same, made if there is none. -1 with p set if that is impossible. */
static int make_directory(struct problem *p)
{
	int fd;

	if (check_journal_name(p))
		return -1;
	if (mkdir(directory_name(), 0700) && errno != EEXIST) {
		problem_set(
			p, errno == EACCES || errno == EPERM ? INJECT_NO_PERMISSION : INJECT_FAILED,
			"%s: %s: journals have to be there", directory_name(), strerror(errno));
		return -1;
	}
	fd = open_directory(p);
	if (fd < 0)
		problem_set(p, INJECT_FAILED, "%s: %s", directory_name(), strerror(errno));
	return fd;
}

static int open_lock(struct problem *p)
{
	int directory = make_directory(p), fd;

	if (directory < 0)
		return -1;
	fd = openat(directory, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		problem_set(p, errno == EACCES ? INJECT_NO_PERMISSION : INJECT_FAILED,
			    "%s/lock: %s", directory_name(), strerror(errno));
	close(directory);
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

/* A new file, whatever stands there by that name. */
static int create_file(int directory, const char *name)
{
	if (unlinkat(directory, name, 0) && errno != ENOENT)
		return -1;
	return openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* Whole or not at all. */
static int write_file(int directory, const char *id, const char *text)
{
	char name[NAME_BYTES], next[NAME_BYTES + 8];
	int fd, err;

	snprintf(name, sizeof(name), "%s.json", id);
	snprintf(next, sizeof(next), "%s.new", name);
	fd = create_file(directory, next);
	err = fd < 0 ? -errno : write_all(fd, text);
	if (fd >= 0)
		close(fd);
	if (!err && renameat(directory, next, directory, name))
		err = -errno;
	if (err)
		unlinkat(directory, next, 0);
	return err;
}

int journal_write(struct injection *in, struct problem *p)
{
	int directory = make_directory(p), err;
	char *text;

	if (directory < 0)
		return p->status;
	text = cJSON_Print(in->journal);
	err = !text				 ? -ENOMEM
	      : strlen(text) > JOURNAL_BYTES_MAX ? -EFBIG
						 : write_file(directory, in->id, text);
	close(directory);
	free(text);
	if (!err)
		return 0;
	return problem_set(p, INJECT_FAILED, "%s/%s.json: %s: nothing is changed without it",
			   directory_name(), in->id, strerror(-err));
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
	struct problem unsaid = {0};
	int directory = open_directory(&unsaid);
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "%.250s.json", json_text(j, "id"));
	if (directory < 0)
		return;
	unlinkat(directory, name, 0);
	close(directory);
}

int journal_drop(const char *id, char *path, size_t bytes, struct problem *p)
{
	char from[NAME_BYTES], to[NAME_BYTES];
	int directory = open_directory(p), err = 0;

	if (directory < 0)
		return p->status;
	snprintf(from, sizeof(from), "%.250s.json", id);
	snprintf(to, sizeof(to), "%.250s.dropped", id);
	snprintf(path, bytes, "%s/%s", directory_name(), to);
	if (renameat(directory, from, directory, to) && errno != ENOENT)
		err = errno;
	close(directory);
	return err ? problem_set(p, INJECT_FAILED, "%s/%s: %s", directory_name(), from,
				 strerror(err))
		   : 0;
}

/* --- reading --------------------------------------------------------------------------------- */

/* NULL: the file can be believed; else why not. A FIFO would be waited for, a sparse file fill the
 * memory. */
static const char *why_not(int fd, size_t *bytes)
{
	struct stat st;

	if (fstat(fd, &st))
		return strerror(errno);
	*bytes = (size_t)st.st_size;
	if (!S_ISREG(st.st_mode))
		return "not a journal";
	if (st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return "another user may have written it";
	return *bytes > JOURNAL_BYTES_MAX ? "too large for a journal" : NULL;
}

/* The whole file, to be freed; NULL: there is none, or why it is not read. */
static char *read_text(int directory, const char *id, const char **why)
{
	char name[NAME_BYTES];
	size_t used = 0, bytes = 0;
	char *text = NULL;
	ssize_t n = 1;
	int fd;

	snprintf(name, sizeof(name), "%.250s.json", id);
	fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		*why = errno == ENOENT	? NULL
		       : errno == ELOOP ? "a symbolic link"
					: strerror(errno);
		return NULL;
	}
	*why = why_not(fd, &bytes);
	text = *why ? NULL : malloc(bytes + 1);
	while (text && used < bytes && n > 0) {
		n = read(fd, text + used, bytes - used);
		used += n > 0 ? (size_t)n : 0;
	}
	if (text)
		text[used] = 0;
	else if (!*why)
		*why = strerror(ENOMEM);
	close(fd);
	return text;
}

/* The journal is ours, but somebody may have edited it: the ID must be a plain name, not a path. */
static bool is_journal(const cJSON *j, const char *id)
{
	const cJSON *steps = cJSON_GetObjectItemCaseSensitive(j, "steps"), *step;

	if (strcmp(json_text(j, "id"), id) || !cJSON_IsArray(steps))
		return false;
	cJSON_ArrayForEach (step, steps)
		if (!cJSON_IsObject(step))
			return false;
	return true;
}

cJSON *journal_parse(const char *text, const char *id)
{
	cJSON *j = cJSON_Parse(text);

	if (is_journal(j, id))
		return j;
	cJSON_Delete(j);
	return NULL;
}

cJSON *journal_find(const char *id, struct problem *p)
{
	struct problem unsaid = {0};
	int directory;
	const char *why;
	char *text;
	cJSON *j;

	if (strchr(id, '/') || strlen(id) >= 250)
		return NULL;
	directory = open_directory(p ? p : &unsaid);
	if (directory < 0)
		return NULL;
	text = read_text(directory, id, &why);
	close(directory);
	j = text ? journal_parse(text, id) : NULL;
	if (!j && (text || why) && p)
		problem_set(p, INJECT_NOT_UNDONE,
			    "%s/%.100s.json: %s: what it undoes is not known; see to it, and "
			    "remove it",
			    directory_name(), id, text ? "not a journal" : why);
	free(text);
	return j;
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
	struct problem unsaid = {0};
	struct dirent *e;
	unsigned int n = 0;
	int directory = open_directory(broken ? broken : &unsaid);
	DIR *d = directory < 0 ? NULL : fdopendir(directory);
	char id[256];

	if (!d) {
		if (directory >= 0)
			close(directory);
		return 0;
	}
	while (n < max && (e = readdir(d)))
		if (!id_of(e->d_name, id) && (list[n] = journal_find(id, broken)))
			n++;
	closedir(d);
	qsort(list, n, sizeof(*list), by_start);
	return n;
}
