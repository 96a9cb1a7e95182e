/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The NICs of this host, and which of them are whose backups. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/rails.h"
#include "lib/base/rail_list.h"
#include "lib/base/sysfs.h"

static const char devices_dir[] = "/sys/class/infiniband";

enum { DEVICES_MAX = 64 };

static bool is_device_name(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("_-.", s[i]))
			return false;
	return n && n < RAIL_NAME_MAX;
}

static bool list_has_name(const char *list, size_t bytes, const char *name, size_t n)
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

	if (!equal || !is_device_name(entry, equal - entry))
		return format_text("%.*s is not NIC=BACKUP[+BACKUP...]", (int)bytes, entry);
	for (b = equal + 1; b <= end; b += n + 1) {
		n = strcspn(b, "+,");
		if (!is_device_name(b, n))
			return format_text("%.*s: a backup without a name", (int)bytes, entry);
		if (list_has_name(equal + 1, b - equal - 1, b, n))
			return format_text("%.*s is named twice", (int)n, b);
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
				return format_text("%.*s has two lists", (int)strcspn(p, "="), p);
		if (!p[n])
			return NULL;
	}
}

const char *rails_missing(const char *words)
{
	static char name[RAIL_NAME_MAX];
	char path[PATH_MAX];
	size_t n;

	if (!words || !strcmp(words, "auto"))
		return NULL;
	for (const char *p = words; *p; p += n + !!p[n]) {
		n = strcspn(p, "=+,");
		snprintf(name, sizeof(name), "%.*s", (int)n, p);
		snprintf(path, sizeof(path), "%s/%s", devices_dir, name);
		if (access(path, F_OK))
			return name;
	}
	return NULL;
}

static void call_for_rail(void (*fn)(void *arg, const char *device, const char *backups), void *arg,
			  const char *device, char (*names)[RAIL_NAME_MAX], unsigned int n)
{
	char backups[DEVICES_MAX * RAIL_NAME_MAX];
	size_t used = 0;

	*backups = 0;
	for (unsigned int i = 0; i < n; i++)
		used += snprintf(backups + used, sizeof(backups) - used, "%s%s", i ? "+" : "",
				 names[i]);
	fn(arg, device, backups);
}

void rails_each(const char *words, void (*fn)(void *arg, const char *device, const char *backups),
		void *arg)
{
	struct rail_device d[DEVICES_MAX];
	char backups[DEVICES_MAX][RAIL_NAME_MAX], copy[1024], *save = NULL;
	unsigned int n;

	if (!words || !strcmp(words, "auto")) {
		n = sysfs_devices(devices_dir, d, DEVICES_MAX);
		rails_auto(d, n, "", backups, 0); /* sorts them */
		for (unsigned int i = 0; i < n; i++)
			call_for_rail(fn, arg, d[i].name, backups,
				      rails_auto(d, n, d[i].name, backups, DEVICES_MAX));
		return;
	}
	snprintf(copy, sizeof(copy), "%s", words);
	for (char *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		p[strcspn(p, "=")] = 0;
		call_for_rail(fn, arg, p, backups, rails_listed(words, p, backups, DEVICES_MAX));
	}
}
