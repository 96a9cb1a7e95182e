/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The format: a call is three lines,
 *
 *   cfn=(12) collect_poll_cq     the name stands behind its number only the first time
 *   calls=1000 32                how often, and where
 *   128 119119                   the line of the call, the cost of all these calls
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/verbs_run.h"

static const char *const names[CALLS] = {"collect_post_send", "collect_post_recv",
					 "collect_post_srq_recv", "collect_poll_cq"};

struct reader {
	long id[CALLS]; /* its number in the file; 0: not seen */
	int called;	/* of the last cfn; CALLS: another function */
	bool cost_is_next;
};

/* "fn=(12) name" or "cfn=(12)". Which of ours it is, or CALLS. */
static int function_of(struct reader *r, const char *line)
{
	const char *open = strchr(line, '(');
	char *end;
	long id = open ? strtol(open + 1, &end, 10) : 0;

	if (id <= 0 || *end != ')')
		return CALLS;
	for (int i = 0; i < CALLS; i++) {
		if (end[1] == ' ' && !strncmp(end + 2, names[i], strlen(names[i])))
			r->id[i] = id;
		if (r->id[i] == id)
			return i;
	}
	return CALLS;
}

static void read_line(struct reader *r, const char *line, double instructions[CALLS])
{
	const char *last = strrchr(line, ' ');

	if (r->cost_is_next) {
		r->cost_is_next = false;
		if (r->called < CALLS && last)
			instructions[r->called] += strtod(last, NULL);
	} else if (!strncmp(line, "cfn=", 4)) {
		r->called = function_of(r, line);
	} else if (!strncmp(line, "fn=", 3)) {
		function_of(r, line);
	} else if (!strncmp(line, "calls=", 6)) {
		r->cost_is_next = true;
	}
}

bool callgrind_read(const char *path, double instructions[CALLS])
{
	FILE *f = fopen(path, "re");
	struct reader r = {.called = CALLS};
	size_t size = 0;
	char *line = NULL;
	ssize_t n;

	memset(instructions, 0, CALLS * sizeof(*instructions));
	while (f && (n = getline(&line, &size, f)) > 0) {
		line[strcspn(line, "\n")] = 0;
		read_line(&r, line, instructions);
	}
	free(line);
	if (f)
		fclose(f);
	return instructions[CALL_POST_SEND] + instructions[CALL_POLL] > 0;
}
