/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The NICs of this host, and which of them are whose backups. */
#include "run.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char devices_dir[] = "/sys/class/infiniband";

enum { NAME_MAX_BYTES = 63, DEVICES_MAX = 64 };

struct device {
	char name[NAME_MAX_BYTES + 1];
	int numa;
};

static bool is_name(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("_-.", s[i]))
			return false;
	return n && n <= NAME_MAX_BYTES;
}

static bool names(const char *list, size_t bytes, const char *name, size_t n)
{
	for (const char *p = list; p < list + bytes; p += strcspn(p, "+,") + 1)
		if (strcspn(p, "+,") == n && !strncmp(p, name, n))
			return true;
	return false;
}

/* "mlx5_0=mlx5_1+mlx5_2" */
static char *entry_refusal(const char *entry, size_t bytes)
{
	const char *equal = memchr(entry, '=', bytes), *end = entry + bytes, *b;
	size_t n;

	if (!equal || !is_name(entry, equal - entry))
		return format("%.*s is not NIC=BACKUP[+BACKUP...]", (int)bytes, entry);
	for (b = equal + 1; b <= end; b += n + 1) {
		n = strcspn(b, "+,");
		if (!is_name(b, n))
			return format("%.*s: a backup without a name", (int)bytes, entry);
		if (n == (size_t)(equal - entry) && !strncmp(b, entry, n))
			return format("%.*s is its own backup", (int)n, entry);
		if (names(equal + 1, b - equal - 1, b, n))
			return format("%.*s is named twice", (int)n, b);
	}
	return NULL;
}

char *rails_refusal(const char *words)
{
	const char *p = words;
	size_t n;

	if (!strcmp(words, "auto"))
		return NULL;
	for (;; p += n + 1) {
		char *why;

		n = strcspn(p, ",");
		why = entry_refusal(p, n);
		if (why)
			return why;
		for (const char *q = words; q < p; q += strcspn(q, ",") + 1)
			if (!strncmp(q, p, strcspn(p, "=") + 1))
				return format("%.*s has two lists", (int)strcspn(p, "="), p);
		if (!p[n])
			return NULL;
	}
}

static int numa_of(const char *name)
{
	char path[PATH_MAX];
	int node = -1;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s/device/numa_node", devices_dir, name);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%d", &node) != 1)
		node = -1;
	fclose(f);
	return node;
}

static int by_name(const void *a, const void *b)
{
	return strverscmp(((const struct device *)a)->name, ((const struct device *)b)->name);
}

static int list_devices(struct device *d)
{
	DIR *dir = opendir(devices_dir);
	struct dirent *e;
	int n = 0;

	while (dir && n < DEVICES_MAX && (e = readdir(dir))) {
		if (*e->d_name == '.' || strlen(e->d_name) > NAME_MAX_BYTES)
			continue;
		strcpy(d[n].name, e->d_name);
		d[n].numa = numa_of(e->d_name);
		n++;
	}
	if (dir)
		closedir(dir);
	qsort(d, n, sizeof(*d), by_name);
	return n;
}

static void check_exists(const char *name, size_t n)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%.*s", devices_dir, (int)n, name);
	if (access(path, F_OK))
		die(EXIT_OURS, "%.*s: no such RDMA device; see rdma link", (int)n, name);
}

void rails_check(const char *words)
{
	struct device d[DEVICES_MAX];
	size_t n;

	if (!words || !strcmp(words, "auto")) {
		if (list_devices(d) == 1)
			say("%s is the only RDMA device here: its connections have nowhere to go",
			    d[0].name);
		return;
	}
	for (const char *p = words; *p; p += n + !!p[n]) {
		n = strcspn(p, "=+,");
		check_exists(p, n);
	}
}

/* The others in name order after it, those of its NUMA node first. */
static void automatic(const struct device *d, int n, int i, char *backups, size_t size)
{
	size_t used = 0;

	*backups = 0;
	for (int other_node = 0; other_node < 2; other_node++) {
		for (int k = 1; k < n; k++) {
			const struct device *b = &d[(i + k) % n];

			if ((b->numa != d[i].numa) != other_node || used >= size)
				continue;
			used += snprintf(backups + used, size - used, "%s%s", used ? "+" : "",
					 b->name);
		}
	}
}

void rails_each(const char *words, void (*fn)(void *arg, const char *device, const char *backups),
		void *arg)
{
	char copy[1024], backups[DEVICES_MAX * (NAME_MAX_BYTES + 1)], *save = NULL;
	struct device d[DEVICES_MAX];
	int n;

	if (!words || !strcmp(words, "auto")) {
		n = list_devices(d);
		for (int i = 0; i < n; i++) {
			automatic(d, n, i, backups, sizeof(backups));
			fn(arg, d[i].name, backups);
		}
		return;
	}
	snprintf(copy, sizeof(copy), "%s", words);
	for (char *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		char *equal = strchr(p, '=');

		*equal = 0;
		fn(arg, p, equal + 1);
	}
}
