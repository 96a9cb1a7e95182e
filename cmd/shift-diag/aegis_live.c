/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/aegis_live.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/collect.h"
#include "common/cli.h"

/* With which lines begin: the writer is shift-diag collect -. */
static const char header[] = "{\"record\":\"header\"", end_mark[] = "{\"record\":\"end\"";

enum { HOSTS_MAX = 4096 };

/* Of two hosts, or of one whose clock was set. */
static const uint64_t same_clock_slack_ns = 1000000000, other_clock_slack_ns = 300000000000;

bool live_parse_hosts(struct live_request *q, const char *list, const char **why)
{
	char *rest = check_alloc(strdup(list)), *name;

	while ((name = strsep(&rest, ","))) {
		*why = "not a name of a host, or several with commas between them";
		if (!remote_is_host(name))
			return false;
		for (size_t i = 0; i < q->hosts; i++)
			if (!strcmp(q->host[i], name)) {
				*why = "the same host twice";
				return false;
			}
		*why = "too many hosts";
		if (q->hosts == HOSTS_MAX)
			return false;
		q->host = check_alloc(reallocarray(q->host, q->hosts + 1, sizeof(*q->host)));
		q->host[q->hosts++] = name;
	}
	return true;
}

/* ---- what a host says ----------------------------------------------------------------------- */

static void add_gap(struct live_answer *a, const char *host, const char *why)
{
	struct live_gap *g;

	a->gap = check_alloc(reallocarray(a->gap, a->gaps + 1, sizeof(*a->gap)));
	g = a->gap + a->gaps++;
	g->host = host;
	snprintf(g->why, sizeof(g->why), "%s", why);
}

/* One process. False: it cannot be used. */
static bool read_section(struct live_answer *a, const char *host, const char *text, size_t len)
{
	FILE *in = check_alloc(fmemopen((void *)(uintptr_t)text, len, "r"));
	char *name = check_alloc(malloc(strlen(host) + 32));
	int n;

	sprintf(name, "%s, a process", host);
	n = records_read_stream(in, name, &a->records);
	free(name);
	fclose(in);
	return n > 0;
}

/* The last line: how many processes there were, and whether these are all. */
static bool read_end(const char *line, size_t len, size_t files, bool *whole)
{
	cJSON *o = cJSON_ParseWithLength(line, len);
	const cJSON *said = cJSON_GetObjectItemCaseSensitive(o, "files");
	bool good = cJSON_IsNumber(said) && said->valuedouble == (double)files;

	*whole = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "whole"));
	cJSON_Delete(o);
	return good;
}

static bool begins(const char *line, size_t len, const char *with)
{
	return len >= strlen(with) && !memcmp(line, with, strlen(with));
}

enum answer { ANSWER_WHOLE, ANSWER_PARTLY, ANSWER_CUT };

static enum answer read_answer(struct live_answer *a, const char *host, const char *text,
			       size_t len)
{
	const char *section = NULL, *end = text + len, *line, *next;
	size_t files = 0, bad = 0;
	bool whole = true;

	for (line = text; line < end; line = next) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		size_t n = (size_t)((newline ? newline : end) - line);
		bool is_end = newline && begins(line, n, end_mark);

		next = newline ? newline + 1 : end;
		if (!is_end && !begins(line, n, header))
			continue;
		if (section)
			bad += !read_section(a, host, section, (size_t)(line - section));
		files += section != NULL;
		section = line;
		if (!is_end)
			continue;
		if (!read_end(line, n, files, &whole) || next != end)
			break;
		return bad || !whole ? ANSWER_PARTLY : ANSWER_WHOLE;
	}
	return ANSWER_CUT;
}

/* What is only a part of an answer would make healthy ranks look as if they hung. */
static void take_answer(struct live_answer *a, const char *host, const char *text, size_t len)
{
	size_t before = a->records.files;

	switch (read_answer(a, host, text, len)) {
	case ANSWER_WHOLE: a->seen++; break;
	case ANSWER_PARTLY:
		a->seen++;
		add_gap(a, host, "not all of its processes could be read");
		break;
	case ANSWER_CUT:
		while (a->records.files > before)
			records_drop_last(&a->records);
		add_gap(a, host,
			"its answer is cut off, or not that of this version of shift-diag");
		break;
	}
}

static void read_this_host(const struct live_request *q, struct live_answer *a)
{
	struct live_select which = {.job = q->job};
	struct collection all;
	char *text = NULL;
	size_t len = 0;
	FILE *out = check_alloc(open_memstream(&text, &len));

	collection_read(&all, &which);
	if (!collection_write(out, &all))
		check_alloc(NULL);
	fclose(out);
	collection_free(&all);
	a->hosts = 1;
	take_answer(a, "this host", text, len);
	free(text);
}

/* A job's name has nothing in it that a shell would see. */
static char *command_there(const struct live_request *q)
{
	char *command = check_alloc(malloc(128));

	snprintf(command, 128, "shift-diag collect%s%s -", q->job ? " --job " : "",
		 q->job ? q->job : "");
	return command;
}

static void read_hosts(const struct live_request *q, struct live_answer *a)
{
	struct remote *all = check_alloc(calloc(q->hosts, sizeof(*all)));
	char *command = command_there(q);

	for (size_t i = 0; i < q->hosts; i++)
		all[i].host = q->host[i];
	remote_run(all, q->hosts, command, q->timeout_ms);
	a->hosts = q->hosts;
	for (size_t i = 0; i < q->hosts; i++) {
		char why[REMOTE_SAID_BYTES + 64];

		snprintf(why, sizeof(why), "it has not answered: %s", all[i].said);
		if (*all[i].said)
			add_gap(a, q->host[i], why);
		else
			take_answer(a, q->host[i], all[i].text ? all[i].text : "", all[i].len);
		free(all[i].text);
	}
	free(command);
	free(all);
}

void live_read(const struct live_request *q, struct live_answer *a)
{
	*a = (struct live_answer){0};
	if (q->hosts)
		read_hosts(q, a);
	else
		read_this_host(q, a);
}

void live_answer_free(struct live_answer *a)
{
	records_free(&a->records);
	free(a->gap);
}

/* ---- jobs ----------------------------------------------------------------------------------- */

static bool is_running(const struct rec_file *f)
{
	return !f->died && !f->ended_ns;
}

/* When the first of those that run began, of one host or (NULL) of all; 0: none does. */
static uint64_t life_began(const struct records *r, const char *host)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < r->files; i++)
		if (is_running(r->file + i) && (!host || !strcmp(r->file[i].host, host)) &&
		    (!ns || r->file[i].began_ns < ns))
			ns = r->file[i].began_ns;
	return ns;
}

/* By the clock of its own host, if one of the job runs there; clocks of others may be wrong. */
static bool is_past(const struct rec_file *f, const struct records *r)
{
	uint64_t last = f->ended_ns ? f->ended_ns : f->read_ns, here = life_began(r, f->host);

	last = last > f->began_ns ? last : f->began_ns; /* it may have told nothing */
	if (is_running(f))
		return false;
	return here ? last + same_clock_slack_ns < here
		    : last + other_clock_slack_ns < life_began(r, NULL);
}

static void drop_past(struct live_job *j)
{
	struct rec_file *f = j->records.file;
	bool *past = check_alloc(calloc(j->records.files + 1, sizeof(*past)));
	size_t kept = 0;

	j->is_running = life_began(&j->records, NULL);
	for (size_t i = 0; i < j->records.files; i++)
		past[i] = is_past(f + i, &j->records);
	for (size_t i = 0; i < j->records.files; i++)
		if (!past[i])
			f[kept++] = f[i];
	j->records.files = kept;
	free(past);
}

static struct live_job *job_of(struct live_job **jobs, size_t *n, const char *name)
{
	for (size_t i = 0; i < *n; i++)
		if (!strcmp((*jobs)[i].name, name))
			return *jobs + i;
	*jobs = check_alloc(reallocarray(*jobs, *n + 1, sizeof(**jobs)));
	(*jobs)[*n] = (struct live_job){.name = name};
	return *jobs + (*n)++;
}

static int by_name(const void *a, const void *b)
{
	const struct live_job *x = a, *y = b;

	return strcmp(x->name, y->name);
}

struct live_job *live_jobs(const struct live_answer *a, size_t *n)
{
	struct live_job *jobs = NULL;

	*n = 0;
	for (size_t i = 0; i < a->records.files; i++) {
		struct rec_file *f = a->records.file + i;
		struct records *r = &job_of(&jobs, n, f->job)->records;

		r->file = check_alloc(reallocarray(r->file, r->files + 1, sizeof(*r->file)));
		r->file[r->files++] = *f;
	}
	for (size_t i = 0; i < *n; i++)
		drop_past(jobs + i);
	if (*n)
		qsort(jobs, *n, sizeof(*jobs), by_name);
	return jobs;
}

void live_jobs_free(struct live_job *jobs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(jobs[i].records.file);
	free(jobs);
}

/* ---- what is not known ---------------------------------------------------------------------- */

void live_tell_gaps(const struct live_answer *a, struct verdict *v)
{
	v->coverage.hosts_expected = (int)a->hosts;
	v->coverage.hosts_seen = (int)a->seen;
	for (size_t i = 0; i < a->gaps; i++)
		verdict_says(v, "%s: %s", a->gap[i].host, a->gap[i].why);
	if (!a->gaps)
		return;
	v->confidence *= a->seen < a->hosts ? (double)a->seen / (double)a->hosts : 0.9;
	if (v->class != CLASS_FINE)
		return;
	verdict_undecided(v);
	verdict_advises(v, "look at the hosts that have not told everything");
}
