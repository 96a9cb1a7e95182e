/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/path_run.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

/* ---- ranks of the whole job ----------------------------------------------------------------- */

enum { NODES_MAX = 1 << 16, NODE_UNCLEAR = -2 };

/* Ranks by what the steps call them: a communicator's, or nodes of a simulation. */
struct rank_map {
	int *rank; /* PATH_NONE: not known; NODE_UNCLEAR: several */
};

static void map_add(struct rank_map *m, int name, int rank)
{
	if (name < 0 || name >= NODES_MAX || rank < 0)
		return;
	m->rank[name] = m->rank[name] == PATH_NONE || m->rank[name] == rank ? rank : NODE_UNCLEAR;
}

/* The authors' simulator: the address of node N is 11.x.y.1, where N = 256 x + y. */
static int node_of_flow(const char *flow)
{
	int x, y;

	if (sscanf(flow, "11.%d.%d.1:", &x, &y) != 2 || x < 0 || y < 0 || x > 255 || y > 255)
		return PATH_NONE;
	return 256 * x + y;
}

static bool map_has(const struct rank_map *m, int name)
{
	return name == PATH_NONE || (name >= 0 && name < NODES_MAX && m->rank[name] >= 0);
}

/* Who is awaited may be nobody that has sent something. */
static int mapped(const struct rank_map *m, int name)
{
	if (name == PATH_NONE)
		return PATH_NONE;
	return map_has(m, name) ? m->rank[name] : NODE_UNCLEAR;
}

/* All of them, or none. */
static bool map_apply(const struct rank_map *m, struct path_steps *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (!map_has(m, s->step[i].rank) || !map_has(m, s->step[i].peer))
			return false;
	for (size_t i = 0; i < s->n; i++) {
		s->step[i].rank = mapped(m, s->step[i].rank);
		s->step[i].peer = mapped(m, s->step[i].peer);
		s->step[i].wait_rank = mapped(m, s->step[i].wait_rank);
	}
	return true;
}

static int rank_of_member(const struct records *r, const char *comm, int member)
{
	for (size_t i = 0; i < r->files; i++)
		for (size_t k = 0; k < r->file[i].comm_n; k++)
			if (r->file[i].comm[k].rank == member &&
			    !strcmp(r->file[i].comm[k].comm, comm))
				return r->file[i].rank;
	return PATH_NONE;
}

/* Who sends nothing is known by what others send to it. */
static void map_receivers(struct rank_map *m, const struct records *r)
{
	for (size_t i = 0; i < r->files; i++)
		for (size_t k = 0; k < r->file[i].step_n; k++) {
			const struct rec_step *s = r->file[i].step + k;
			const char *to = strchr(s->flow, '>');
			int node = to ? node_of_flow(to + 1) : PATH_NONE;

			if (node >= 0 && m->rank[node] == PATH_NONE)
				map_add(m, node, rank_of_member(r, s->comm, s->peer));
		}
}

static bool name_ranks(const struct records *r, struct path_steps *s)
{
	struct rank_map m = {check_alloc(malloc(NODES_MAX * sizeof(*m.rank)))};
	bool named;

	for (int i = 0; i < NODES_MAX; i++)
		m.rank[i] = PATH_NONE;
	for (size_t i = 0; i < r->files; i++) {
		const struct rec_file *f = r->file + i;

		for (size_t k = 0; *s->comm && k < f->comm_n; k++)
			if (!strcmp(f->comm[k].comm, s->comm))
				map_add(&m, f->comm[k].rank, f->rank);
		for (size_t k = 0; !*s->comm && k < f->step_n; k++)
			map_add(&m, node_of_flow(f->step[k].flow), f->rank);
	}
	if (!*s->comm)
		map_receivers(&m, r);
	named = map_apply(&m, s);
	free(m.rank);
	return named;
}

/* ---- reading -------------------------------------------------------------------------------- */

static enum path_run job_steps(const char *dir, const struct path_request *o,
			       const struct records *records, struct path_result *r, char *why)
{
	if (path_read_telemetry(dir, &r->telemetry) < 0)
		return PATH_RUN_BAD;
	if (!path_take_records(records, o->comm, o->seq, &r->steps, &r->telemetry)) {
		snprintf(why, PATH_WHY_BYTES,
			 "no step of such a collective in %zu files of records", records->files);
		return PATH_RUN_NOTHING;
	}
	if (r->steps.n)
		return PATH_RUN_DONE;
	snprintf(why, PATH_WHY_BYTES, "no step of %.180s has ended; see shift-diag(1)",
		 r->steps.what);
	return PATH_RUN_OPEN;
}

static enum path_run read_job(const char *dir, const struct path_request *o, struct path_result *r,
			      char *why)
{
	struct records records = {0};
	enum path_run status;
	int files = records_read(dir, &records);

	if (files > 0) {
		status = job_steps(dir, o, &records, r, why);
	} else {
		status = PATH_RUN_NOTHING;
		snprintf(why, PATH_WHY_BYTES, "%s",
			 files < 0 ? strerror(-files)
				   : "neither *.records nor fct.txt is there; see shift-diag(1)");
	}
	records_free(&records);
	return status;
}

static enum path_run read_all(const char *dir, const struct path_request *o, struct path_result *r,
			      char *why)
{
	int status = path_read_simulator(dir, &r->steps, &r->telemetry);

	if (status < 0)
		return PATH_RUN_BAD;
	if (status && (o->comm || o->seq)) {
		snprintf(why, PATH_WHY_BYTES,
			 "files of a simulation name no communicator; leave out --comm and --seq");
		return PATH_RUN_BAD;
	}
	if (status)
		return PATH_RUN_DONE;
	return o->records ? job_steps(dir, o, o->records, r, why) : read_job(dir, o, r, why);
}

static enum path_run analyse(struct path_result *r, char *why)
{
	int rank = 0, step = 0, status = path_analyse(r, &rank, &step);

	if (status == -EEXIST)
		snprintf(why, PATH_WHY_BYTES,
			 "rank %d has step %d twice; are files of two runs mixed?", rank, step);
	else if (status)
		snprintf(why, PATH_WHY_BYTES,
			 "steps wait for each other, as rank %d's step %d; are files of two runs "
			 "mixed?",
			 rank, step);
	return status ? PATH_RUN_BAD : PATH_RUN_DONE;
}

enum path_run path_run(const char *dir, const struct path_request *o, struct path_result *r,
		       char why[PATH_WHY_BYTES])
{
	enum path_run status;
	DIR *d = opendir(dir);

	*why = '\0';
	if (!d) {
		snprintf(why, PATH_WHY_BYTES, "%s", strerror(errno));
		return PATH_RUN_BAD;
	}
	closedir(d);
	r->limits.window_ns = o->window_ns;
	status = read_all(dir, o, r, why);
	if (status != PATH_RUN_DONE)
		return status;
	r->strange_ranks = o->records && !name_ranks(o->records, &r->steps);
	if (o->all_lines)
		r->telemetry.last_line_counts = false;
	return analyse(r, why);
}
