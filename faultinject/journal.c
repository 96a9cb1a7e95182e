/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "faultinject/inject.h"

enum { PATH_BYTES = 256, JOURNAL_BYTES = 1 << 20 };

const char *json_text(const cJSON *o, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));

	return s ? s : "";
}

double json_number(const cJSON *o, const char *key, double none)
{
	const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsNumber(n) ? n->valuedouble : none;
}

static const char *dir(void)
{
	const char *s = getenv("SHIFT_INJECT_DIR");

	return s && *s ? s : "/run/shift-inject";
}

/* What stands in there is done as root: nobody else may have written it. */
static bool is_ours(struct problem *p)
{
	struct stat st;

	if (!stat(dir(), &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	    !(st.st_mode & S_IWOTH))
		return true;
	problem(p, INJECT_NO_PERMISSION, "%s: not a directory of this user alone", dir());
	return false;
}

int journal_may_read(struct problem *p)
{
	if (!access(dir(), R_OK | X_OK) || errno == ENOENT)
		return 0;
	return problem(p, INJECT_NO_PERMISSION, "%s: %s; run it as root", dir(), strerror(errno));
}

const char *journal_dir(struct problem *p)
{
	if (strlen(dir()) > 150) {
		problem(p, INJECT_FAILED, "SHIFT_INJECT_DIR is too long");
		return NULL;
	}
	if (!mkdir(dir(), 0700) || errno == EEXIST)
		return is_ours(p) ? dir() : NULL;
	problem(p, errno == EACCES || errno == EPERM ? INJECT_NO_PERMISSION : INJECT_FAILED,
		"%s: %s: journals have to be there", dir(), strerror(errno));
	return NULL;
}

int journal_lock(struct problem *p)
{
	char path[PATH_BYTES];
	int fd;

	if (!journal_dir(p))
		return -1;
	snprintf(path, sizeof(path), "%s/lock", dir());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && !flock(fd, LOCK_EX))
		return fd;
	problem(p, errno == EACCES ? INJECT_NO_PERMISSION : INJECT_FAILED, "%s: %s", path,
		strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

void journal_unlock(int lock)
{
	if (lock < 0)
		return;
	flock(lock, LOCK_UN); /* also if a child has it too */
	close(lock);
}

/* --- who and where --------------------------------------------------------------------------- */

static bool read_file(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, bytes - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return n >= 0;
}

uint64_t process_began(pid_t pid)
{
	char path[64], text[1024], *s;
	unsigned long long began = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (pid <= 0 || !read_file(path, text, sizeof(text)) || !(s = strrchr(text, ')')))
		return 0;
	/* The state is field 3, the time of its start field 22. */
	if (s[1] && (s[2] == 'Z' || s[2] == 'X'))
		return 0;
	for (int field = 2; s && field < 22; field++)
		s = strchr(s + 1, ' ');
	return s && sscanf(s, "%llu", &began) == 1 ? began : 0;
}

static void boot_id(char id[64])
{
	read_file("/proc/sys/kernel/random/boot_id", id, 64);
	id[strcspn(id, "\n")] = 0;
}

static double netns(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) ? 0 : (double)st.st_ino;
}

static bool lives(const cJSON *j, const char *pid, const char *began)
{
	uint64_t now = process_began((pid_t)json_number(j, pid, 0));

	return now && (double)now == json_number(j, began, 0);
}

bool journal_owner_lives(const cJSON *j)
{
	return lives(j, "pid", "pid_began");
}

bool journal_guard_lives(const cJSON *j)
{
	return lives(j, "guard", "guard_began");
}

bool journal_is_of_another_boot(const cJSON *j)
{
	char id[64];

	boot_id(id);
	return strcmp(id, json_text(j, "boot_id")) != 0;
}

bool journal_is_of_another_netns(const cJSON *j)
{
	return netns() != json_number(j, "netns", 0);
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

	snprintf(path, sizeof(path), "%s/%s.json", dir(), in->id);
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
	return problem(p, INJECT_FAILED, "%s: %s", path, strerror(-err));
}

int journal_begin(struct injection *in, struct problem *p)
{
	cJSON *j = cJSON_CreateObject();
	char boot[64];

	boot_id(boot);
	cJSON_AddStringToObject(j, "id", in->id);
	cJSON_AddStringToObject(j, "fault", in->fault->name);
	cJSON_AddStringToObject(j, "nic", in->t.rdma);
	cJSON_AddStringToObject(j, "netdev", in->t.netdev);
	cJSON_AddNumberToObject(j, "ifindex", in->t.ifindex);
	cJSON_AddNumberToObject(j, "process", in->o.pid);
	cJSON_AddNumberToObject(j, "resource", in->fault->resource);
	cJSON_AddNumberToObject(j, "pid", getpid());
	cJSON_AddNumberToObject(j, "pid_began", (double)process_began(getpid()));
	cJSON_AddStringToObject(j, "boot_id", boot);
	cJSON_AddNumberToObject(j, "netns", netns());
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

	snprintf(path, sizeof(path), "%s/%s.json", dir(), json_text(j, "id"));
	unlink(path);
}

/* --- reading --------------------------------------------------------------------------------- */

/* What is in there is ours, but the disk's owner may have had a hand in it: the id is a name only.
 */
static cJSON *read_journal(const char *name)
{
	size_t n = strlen(name), end = n - strlen(".json");
	char path[PATH_BYTES + 256], *text;
	cJSON *j = NULL;

	if (n <= strlen(".json") || strcmp(name + end, ".json") || *name == '.')
		return NULL;
	snprintf(path, sizeof(path), "%s/%s", dir(), name);
	text = malloc(JOURNAL_BYTES);
	if (text && read_file(path, text, JOURNAL_BYTES))
		j = cJSON_Parse(text);
	free(text);
	if (j && (strlen(json_text(j, "id")) != end || strncmp(json_text(j, "id"), name, end))) {
		cJSON_Delete(j);
		j = NULL;
	}
	return j;
}

static int by_start(const void *a, const void *b)
{
	double x = json_number(*(cJSON *const *)a, "started_unix_s", 0);
	double y = json_number(*(cJSON *const *)b, "started_unix_s", 0);

	return (x > y) - (x < y);
}

unsigned int journal_list(cJSON **list, unsigned int max)
{
	struct dirent *e;
	unsigned int n = 0;
	DIR *d = opendir(dir());

	if (!d)
		return 0;
	while (n < max && (e = readdir(d)))
		if ((list[n] = read_journal(e->d_name)))
			n++;
	closedir(d);
	qsort(list, n, sizeof(*list), by_start);
	return n;
}
