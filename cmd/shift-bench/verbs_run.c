/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-bench/verbs_run.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/shift-bench/hosts.h"
#include "cmd/shift-bench/plan.h"

enum { RUN_MS = 120000, COUNT_MS = 600000, TREE_DEPTH = 8 };

/* ---- what is needed ------------------------------------------------------------------------- */

/* In the build tree, or where it is installed. */
static const char *find_part(const char *in_build_tree, const char *installed)
{
	char self[PATH_MAX], path[PATH_MAX], found[PATH_MAX];
	int n;

	if (program_path(self))
		die(EXIT_FAILED, "/proc/self/exe cannot be read; /proc is needed");
	*strrchr(self, '/') = 0;
	n = snprintf(path, sizeof(path), "%s/%s", self, in_build_tree);
	if (n < (int)sizeof(path) && realpath(path, found))
		return format_text("%s", found);
	if (realpath(installed, found))
		return format_text("%s", found);
	die(EXIT_MISSING, "%s is missing: is shift installed?", installed);
}

static const char *find_valgrind(void)
{
	const char *path = getenv("PATH");
	char *copy = check_alloc(strdup(path ? path : "")), *rest = copy, *directory;
	const char *found = NULL;

	while (!found && (directory = strsep(&rest, ":"))) {
		found = format_text("%s/valgrind", directory);
		if (access(found, X_OK))
			found = NULL;
	}
	free(copy);
	return found;
}

static const char *make_directory(void)
{
	const char *tmp = getenv("TMPDIR");
	char *path = format_text("%s/shift-bench.XXXXXX", tmp && *tmp ? tmp : "/tmp");

	if (!mkdtemp(path))
		die(EXIT_FAILED, "%s: cannot make a temporary directory", path);
	return path;
}

void verbs_place_find(struct verbs_place *p, const char *library)
{
	if (library && access(library, R_OK))
		die(EXIT_BAD_USAGE, "--library %s: there is no such file", library);
	p->library = library ? absolute_path(library)
			     : find_part("../../lib/.libs/libshift.so", PKGLIBDIR "/libshift.so");
	p->client = find_part("verbs_client/verbs-client", PKGLIBEXECDIR "/verbs-client");
	p->null_directory = find_part("../../tests/nullverbs/.libs", PKGLIBDIR "/null");
	p->valgrind = find_valgrind();
	p->directory = make_directory();
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	remove(path);
	return 0;
}

void verbs_place_leave(struct verbs_place *p)
{
	nftw(p->directory, remove_one, TREE_DEPTH, FTW_DEPTH | FTW_PHYS);
}

/* ---- a run ---------------------------------------------------------------------------------- */

struct words {
	char **at; /* NULL at the end */
	size_t n;
};

static void add(struct words *w, const char *word)
{
	w->at = check_alloc(realloc(w->at, (w->n + 2) * sizeof(*w->at)));
	w->at[w->n++] = (char *)(uintptr_t)word;
	w->at[w->n] = NULL;
}

/* The library is told that it is under a launcher, and of a second NIC, so that it logs and
 * counts. Nobody else is in its job. */
static void add_shift(struct words *w, const struct verbs_place *p)
{
	add(w, format_text("LD_PRELOAD=%s", p->library));
	add(w, format_text("SHIFT_RUN_DIR=%s", p->directory));
	add(w, "SHIFT_JOB=shift-bench");
	add(w, p->nic ? "SHIFT_RAILS=auto" : "SHIFT_RAILS=mlx5_0=mlx5_1,mlx5_1=mlx5_0");
	add(w, "SHIFT_LOG=error");
	add(w, "SHIFT_SUMMARY=0");
	for (const char **e = p->environment; e && *e; e++)
		add(w, *e);
}

static char *callgrind_file(const struct verbs_place *p)
{
	return format_text("%s/callgrind.out", p->directory);
}

static void add_callgrind(struct words *w, const struct verbs_place *p)
{
	add(w, p->valgrind);
	add(w, "-q");
	add(w, "--tool=callgrind");
	add(w, format_text("--callgrind-out-file=%s", callgrind_file(p)));
	add(w, "--collect-atstart=no");
	add(w, "--toggle-collect=collect_*");
	add(w, "--zero-before=collect_begin");
}

static void add_client(struct words *w, const struct verbs_place *p, bool counting,
		       const char *const *words)
{
	add(w, p->client);
	if (p->nic) {
		add(w, "--device");
		add(w, p->nic);
	} else {
		add(w, "--elsewhere");
	}
	if (p->gid_index) {
		add(w, "--gid-index");
		add(w, p->gid_index);
	}
	if (counting)
		add(w, "--counting");
	if (counting && p->nic) {
		add(w, "--settle-us");
		add(w, "500");
	}
	while (*words)
		add(w, *words++);
}

static const char *last_line(char *text)
{
	char *end = text + strlen(text);

	while (end > text && end[-1] == '\n')
		*--end = 0;
	return strrchr(text, '\n') ? strrchr(text, '\n') + 1 : text;
}

static void note_end(struct verbs_outcome *out, struct run *run, bool in_time)
{
	char *err = run_errors(run);
	const char *line = last_line(err);

	out->text = run_output(run);
	if (!in_time)
		out->failure = "not done in time";
	else if (run->status)
		out->failure = *line ? format_text("%s", line)
				     : format_text("the client ended with status %d", run->status);
	free(err);
}

int verbs_run(const struct verbs_place *p, bool with_shift, bool counting, const char *const *words,
	      struct verbs_outcome *out)
{
	struct processor_time none[PLACES] = {0};
	struct words w = {0};
	struct watch watch;
	struct run run;
	int64_t until;
	bool started;

	memset(out, 0, sizeof(*out));
	add(&w, "/usr/bin/env");
	if (!p->nic)
		add(&w, format_text("LD_LIBRARY_PATH=%s", p->null_directory));
	if (with_shift)
		add_shift(&w, p);
	if (counting)
		add_callgrind(&w, p);
	add_client(&w, p, counting, words);
	watch_begin(&watch, none);
	started = process_start(&run, w.at);
	free(w.at);
	if (!started)
		return EXIT_FAILED;
	until = run.deadline_ms = now_ms() + (counting ? COUNT_MS : RUN_MS);
	run_wait(&run);
	out->away = watch_end(&watch);
	note_end(out, &run, now_ms() < until);
	run_free(&run);
	if (counting && !out->failure && !callgrind_read(callgrind_file(p), out->instructions))
		out->failure = "callgrind has counted nothing";
	return interrupted() ? EXIT_INTERRUPTED : EXIT_OK;
}

void verbs_outcome_free(struct verbs_outcome *out)
{
	free(out->text);
	memset(out, 0, sizeof(*out));
}

double verbs_number(const struct verbs_outcome *out, const char *name)
{
	size_t n = strlen(name);

	for (const char *line = out->text; line && *line; line = strchr(line, '\n') + 1) {
		if (!strncmp(line, name, n) && line[n] == ' ')
			return strtod(line + n, NULL);
		if (!strchr(line, '\n'))
			break;
	}
	return NAN;
}
