/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testbed/testbed.h"

/* The end of the log: a panic, the oops that led to it and what they print about themselves. */
enum { PANIC_BYTES = 32 << 10 };

/* How the kernel's reports of its own bugs begin. */
static const char *const mistakes[] = {
	"BUG: ",
	"kernel BUG at ",
	"Oops: ",
	"general protection fault",
	"Out of memory and no killable",
};

/* Appends the rest of the line from at on to text. Returns the new length. */
static size_t add_line(char *text, size_t size, size_t used, const char *before, const char *at)
{
	int n;

	if (used >= size)
		return used;
	n = snprintf(text + used, size - used, "%s%.*s", before, (int)strcspn(at, "\r\n"), at);
	return used + (n > 0 ? n : 0);
}

static const char *first_of(const char *log, const char *const *words, size_t n)
{
	const char *first = NULL;

	for (size_t i = 0; i < n; i++) {
		const char *at = strstr(log, words[i]);

		if (at && (!first || at < first))
			first = at;
	}
	return first;
}

/* "Kernel panic - not syncing: WHY; BUG: WHAT; RIP: WHERE". False: there was no panic. */
static bool panic_text(const char *log, char *text, size_t size)
{
	const char *panic = strstr(log, "Kernel panic"), *mistake, *where;
	size_t used;

	if (!panic)
		return false;
	used = add_line(text, size, 0, "", panic);
	mistake = first_of(log, mistakes, sizeof(mistakes) / sizeof(*mistakes));
	if (mistake && mistake < panic) {
		used = add_line(text, size, used, "; ", mistake);
		where = strstr(mistake, "RIP: ");
		if (where && where < panic)
			add_line(text, size, used, "; ", where);
	}
	return true;
}

void panic_log_read(const char *path, char *text, size_t size)
{
	size_t bytes;
	char *log = read_whole_file(path, &bytes), *tail, *end, *line;

	*text = 0;
	if (!log)
		return;
	for (end = log + bytes; end > log && strchr("\r\n ", end[-1]); end--)
		end[-1] = 0;
	tail = end - log > PANIC_BYTES ? end - PANIC_BYTES : log;
	if (!panic_text(tail, text, size)) {
		line = strrchr(tail, '\n');
		snprintf(text, size, "%s", line ? line + 1 : tail);
	}
	free(log);
}
