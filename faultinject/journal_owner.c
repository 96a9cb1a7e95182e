/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which process made a journal, and in which boot. A process number is reused, so the time at which
 * the process began goes with it. */
#include <cjson/cJSON.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "faultinject/inject.h"

static bool read_proc_file(const char *path, char *text, size_t bytes)
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
	if (pid <= 0 || !read_proc_file(path, text, sizeof(text)) || !(s = strrchr(text, ')')))
		return 0;
	/* The state is field 3, the time of its start field 22. */
	if (s[1] && (s[2] == 'Z' || s[2] == 'X'))
		return 0;
	for (int field = 2; s && field < 22; field++)
		s = strchr(s + 1, ' ');
	return s && sscanf(s, "%llu", &began) == 1 ? began : 0;
}

bool process_is_stopped(pid_t pid)
{
	char path[64], text[1024], *s;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	s = read_proc_file(path, text, sizeof(text)) ? strrchr(text, ')') : NULL;
	return s && (!strncmp(s, ") T", 3) || !strncmp(s, ") t", 3));
}

static void boot_id(char id[64])
{
	read_proc_file("/proc/sys/kernel/random/boot_id", id, 64);
	id[strcspn(id, "\n")] = 0;
}

static bool process_lives(const cJSON *j, const char *pid, const char *began)
{
	uint64_t now = process_began(json_pid(j, pid));

	return now && (double)now == json_number(j, began, 0);
}

bool journal_owner_lives(const cJSON *j)
{
	return process_lives(j, "pid", "pid_began");
}

bool journal_guard_lives(const cJSON *j)
{
	return process_lives(j, "guard", "guard_began");
}

bool journal_is_of_another_boot(const cJSON *j)
{
	char id[64];

	boot_id(id);
	return strcmp(id, json_text(j, "boot_id")) != 0;
}

bool journal_is_same(const cJSON *a, const cJSON *b)
{
	return !strcmp(json_text(a, "id"), json_text(b, "id")) &&
	       !strcmp(json_text(a, "boot_id"), json_text(b, "boot_id")) &&
	       json_number(a, "pid_began", 0) == json_number(b, "pid_began", 0);
}

void journal_sign(cJSON *j)
{
	char boot[64];

	boot_id(boot);
	cJSON_AddNumberToObject(j, "pid", getpid());
	cJSON_AddNumberToObject(j, "pid_began", (double)process_began(getpid()));
	cJSON_AddStringToObject(j, "boot_id", boot);
	netns_sign(j);
}
