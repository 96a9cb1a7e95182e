/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Algorithm 1 of Aegis. Corrected: one or two hosts with distributed errors, not "at most two",
 * which is none as well; ConfigCheck or NetDiag repair what they have found, not what they have
 * not.
 *
 * A host has distributed errors if it reports them or they are about it: of a host that died,
 * others report. Configuration and network are checked by commands on the hosts, so here their
 * place is an advice, after the procedure-aware rules were tried.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/aegis.h"
#include "common/cli.h"

static const uint64_t first_ns = 1000000000; /* of errors, from which the root is found */
static const double root_share = 0.9;
enum { FEW_HOSTS = 2 };

/* What one end says of a connection; peer "": it does not say. */
struct edge {
	uint64_t t_ns;
	const char *host, *peer;
	int pid, peer_rank;
	const char *what;
};

struct critical {
	uint64_t t_ns;
	const struct rec_file *file; /* NULL: from a log */
	const char *host, *nic, *means;
};

struct failure {
	struct edge *edge;
	size_t edges;
	struct critical *critical;
	size_t criticals;
	const char **host; /* with distributed errors, each once */
	size_t hosts;
	size_t benign, old;
	uint64_t end_ns, window_ns;
	struct verdict *v;
};

/* ---- what errors there are ------------------------------------------------------------------ */

/* Statuses that are of a connection; a flushed request follows from another error. */
static bool is_distributed(const char *status)
{
	static const char *const all[] = {"RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "REM_ACCESS_ERR",
					  "REM_OP_ERR",	   "REM_ABORT_ERR",	"RESP_TIMEOUT_ERR"};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!strcmp(status, all[i]))
			return true;
	return false;
}

static void see_time(struct failure *f, uint64_t t_ns)
{
	if (t_ns > f->end_ns)
		f->end_ns = t_ns;
}

static bool recorded(const struct records *r)
{
	for (size_t i = 0; i < r->files; i++)
		if (r->file[i].coll_n || r->file[i].wcerr_n || r->file[i].async_n)
			return true;
	return false;
}

/* The last sign of the job, or if nothing is recorded, the last error of a log. */
static void find_end(struct failure *f, const struct records *r, const struct logs *logs)
{
	for (size_t i = 0; i < r->files; i++) {
		const struct rec_file *file = r->file + i;

		for (size_t j = 0; j < file->coll_n; j++) {
			see_time(f, file->coll[j].launch_ns);
			see_time(f, file->coll[j].end_ns);
		}
		for (size_t j = 0; j < file->wcerr_n; j++)
			see_time(f, file->wcerr[j].t_ns);
		for (size_t j = 0; j < file->async_n; j++)
			see_time(f, file->async[j].t_ns);
	}
	/* A log's clock may be anything: it must not make what is recorded old. */
	for (size_t i = 0; !recorded(r) && logs && i < logs->hits; i++)
		if (logs->hit[i].severity != LOG_BENIGN)
			see_time(f, logs->hit[i].t_ns);
}

/* One whose time is not known may be of this failure. */
static bool is_recent(struct failure *f, uint64_t t_ns)
{
	if (!t_ns || t_ns + f->window_ns >= f->end_ns)
		return true;
	f->old++;
	return false;
}

static void add_critical(struct failure *f, struct critical c)
{
	if (!is_recent(f, c.t_ns))
		return;
	f->critical = check_alloc(
		reallocarray(f->critical, f->criticals + 1, sizeof(*f->critical)));
	f->critical[f->criticals++] = c;
}

static void add_host(struct failure *f, const char *host)
{
	if (!*host)
		return;
	for (size_t i = 0; i < f->hosts; i++)
		if (!strcmp(f->host[i], host))
			return;
	f->host = check_alloc(reallocarray(f->host, f->hosts + 1, sizeof(*f->host)));
	f->host[f->hosts++] = host;
}

static void add_edge(struct failure *f, struct edge e)
{
	if (!is_recent(f, e.t_ns))
		return;
	f->edge = check_alloc(reallocarray(f->edge, f->edges + 1, sizeof(*f->edge)));
	f->edge[f->edges++] = e;
	add_host(f, e.host);
	add_host(f, e.peer);
}

/* A port that came back, or a device that only said so later, is no longer down. */
static bool came_back(const struct rec_file *file, const struct rec_async *down)
{
	for (size_t i = 0; i < file->async_n; i++)
		if (file->async[i].t_ns >= down->t_ns && !strcmp(file->async[i].nic, down->nic) &&
		    !strcmp(file->async[i].event, "PORT_ACTIVE"))
			return true;
	return false;
}

/* Something of its program has gone on by another NIC since. */
static bool was_moved_away(const struct rec_file *file, const struct rec_async *down)
{
	for (size_t i = 0; i < file->move_n; i++) {
		const struct rec_move *m = file->move + i;

		if (!strcmp(m->from, down->nic) && !strcmp(m->outcome, "committed") &&
		    m->end_ns >= down->t_ns)
			return true;
	}
	return false;
}

static void look_at_event(struct failure *f, const struct rec_file *file, const struct rec_async *a)
{
	const char *means = NULL;

	if (!strcmp(a->event, "DEVICE_FATAL"))
		means = "the device failed";
	else if (!strcmp(a->event, "PORT_ERR") && !came_back(file, a) && !was_moved_away(file, a))
		means = "the link is down";
	if (means)
		add_critical(f, (struct critical){a->t_ns, file, file->host, a->nic, means});
}

static const char *peer_of(const struct rec_file *file, const struct rec_wcerr *e)
{
	if (*e->peer_host)
		return e->peer_host;
	for (size_t i = 0; i < file->qp_n; i++)
		if (e->qp && file->qp[i].id == e->qp && *file->qp[i].peer_host)
			return file->qp[i].peer_host;
	return "";
}

/* The connection went on by another NIC, and its program saw no error. */
static bool has_survived(const struct rec_file *file, const struct rec_wcerr *e)
{
	if (e->hidden)
		return true;
	for (size_t i = 0; i < file->move_n; i++) {
		const struct rec_move *m = file->move + i;

		if (e->qp && m->qp == e->qp && !strcmp(m->outcome, "committed") &&
		    m->end_ns >= e->t_ns)
			return true;
	}
	return false;
}

static void look_at_completion(struct failure *f, const struct rec_file *file,
			       const struct rec_wcerr *e)
{
	if (!strcmp(e->status, "FATAL_ERR"))
		add_critical(f, (struct critical){e->t_ns, file, file->host, e->nic,
						  "the device failed"});
	else if (is_distributed(e->status) && !has_survived(file, e))
		add_edge(f, (struct edge){e->t_ns, file->host, peer_of(file, e), file->pid,
					  e->peer_rank, e->status});
}

static void look_at_logs(struct failure *f, const struct logs *logs)
{
	for (size_t i = 0; logs && i < logs->hits; i++) {
		const struct log_hit *h = logs->hit + i;

		if (h->severity == LOG_BENIGN)
			f->benign++;
		else if (h->severity == LOG_CRITICAL)
			add_critical(f, (struct critical){h->t_ns, NULL, h->host, "", h->means});
		else
			add_edge(f, (struct edge){h->t_ns, h->host, "", 0, REC_NONE, h->means});
	}
}

static int by_time(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	return (x->t_ns > y->t_ns) - (x->t_ns < y->t_ns);
}

static int critical_by_time(const void *a, const void *b)
{
	const struct critical *x = a, *y = b;

	return (x->t_ns > y->t_ns) - (x->t_ns < y->t_ns);
}

static void find_errors(struct failure *f, const struct records *r, const struct logs *logs)
{
	find_end(f, r, logs);
	for (size_t i = 0; i < r->files; i++) {
		const struct rec_file *file = r->file + i;

		for (size_t j = 0; j < file->async_n; j++)
			look_at_event(f, file, file->async + j);
		for (size_t j = 0; j < file->wcerr_n; j++)
			look_at_completion(f, file, file->wcerr + j);
	}
	look_at_logs(f, logs);
	if (f->edges)
		qsort(f->edge, f->edges, sizeof(*f->edge), by_time);
	if (f->criticals)
		qsort(f->critical, f->criticals, sizeof(*f->critical), critical_by_time);
}

/* ---- CriticalError -------------------------------------------------------------------------- */

static void blame_critical(struct failure *f)
{
	f->v->rule = "critical-error";
	f->v->level = LEVEL_MACHINE;
	f->v->confidence = 0.95;
	for (size_t i = 0; i < f->criticals; i++) {
		const struct critical *c = f->critical + i;
		struct culprit *who = NULL;

		for (size_t j = 0; j < f->v->culprits_n && !who; j++)
			if (!strcmp(f->v->culprits[j].host, c->host) &&
			    !strcmp(f->v->culprits[j].nic, c->nic))
				who = f->v->culprits + j;
		if (who)
			continue; /* each process of the host tells of it */
		who = verdict_blame(f->v);
		snprintf(who->host, sizeof(who->host), "%s", c->host);
		snprintf(who->nic, sizeof(who->nic), "%s", c->nic);
		verdict_says(f->v, "%s%s%s: %s", c->host, *c->nic ? " " : "", c->nic, c->means);
		if (!f->v->first_seen_ns)
			f->v->first_seen_ns = c->t_ns;
		if (!c->t_ns)
			f->v->confidence = 0.7; /* perhaps of another day */
	}
	if (f->v->culprits_n == 1 && *f->v->culprits->nic)
		f->v->level = LEVEL_NIC;
	verdict_advises(f->v, "isolate what is named, and start the job again; then repair it");
}

/* ---- DistError, RootDiag -------------------------------------------------------------------- */

static void blame_few(struct failure *f)
{
	f->v->rule = "few-hosts";
	f->v->level = f->hosts == 1 ? LEVEL_MACHINE : LEVEL_LINK;
	f->v->component = COMPONENT_COMMUNICATION;
	f->v->confidence = f->hosts == 1 ? 0.7 : 0.6;
	for (size_t i = 0; i < f->hosts; i++)
		snprintf(verdict_blame(f->v)->host, REC_NAME_BYTES, "%s", f->host[i]);
	verdict_advises(f->v,
			"isolate %s and start the job again; which end, or the path between, "
			"shift-diag ping tells",
			f->hosts == 1 ? "it" : "both");
}

static bool is_same_edge(const struct edge *a, const struct edge *b)
{
	return a->pid == b->pid && a->peer_rank == b->peer_rank && !strcmp(a->host, b->host) &&
	       !strcmp(a->peer, b->peer);
}

/* Those of the first second, each once: a connection that reports again says nothing new. */
static size_t first_edges(const struct failure *f, const struct edge **first)
{
	uint64_t begin = 0, slack = 0;
	size_t n = 0;

	if (f->v->coverage.clock_error_ns != REC_NONE)
		slack = 2 * (uint64_t)f->v->coverage.clock_error_ns;
	for (size_t i = 0; i < f->edges; i++) {
		const struct edge *e = f->edge + i;
		bool seen = false;

		if (!begin)
			begin = e->t_ns;
		if (begin && e->t_ns && e->t_ns > begin + first_ns + slack)
			break;
		for (size_t j = 0; j < n && !seen; j++)
			seen = is_same_edge(first[j], e);
		if (!seen)
			first[n++] = e;
	}
	return n;
}

static size_t incident(const struct edge *const *first, size_t n, const char *host)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += !strcmp(first[i]->host, host) || !strcmp(first[i]->peer, host);
	return count;
}

/* The one host that has nearly all of the first errors at one of their ends. NULL: none, or
 * several. */
static const char *root_of(const struct failure *f, double *share)
{
	const struct edge **first = check_alloc(calloc(f->edges, sizeof(*first)));
	size_t n = first_edges(f, first);
	const char *root = NULL;
	bool unique = true;

	for (size_t i = 0; i < f->hosts; i++) {
		double part = (double)incident(first, n, f->host[i]) / (double)n;

		if (part < root_share)
			continue;
		unique = !root;
		root = f->host[i];
		*share = part;
	}
	free(first);
	return unique ? root : NULL;
}

static void blame_root(struct failure *f, const char *host, double share)
{
	struct culprit *c = verdict_blame(f->v);

	f->v->rule = "common-host";
	f->v->level = LEVEL_MACHINE;
	f->v->confidence = 0.9 * share;
	c->score = share;
	snprintf(c->host, sizeof(c->host), "%s", host);
	verdict_says(f->v,
		     "%s is an end of %.0f %% of the connections that failed in the first "
		     "second, no other host is",
		     host, share * 100);
	verdict_advises(f->v, "check %s, isolate it, and start the job again", host);
}

/* ---- together ------------------------------------------------------------------------------- */

static void tell_distributed(struct failure *f)
{
	f->v->first_seen_ns = f->edge->t_ns;
	verdict_says(f->v, "%zu errors between hosts, of %zu hosts; the first: %s of %s%s%s",
		     f->edges, f->hosts, f->edge->what, f->edge->host, *f->edge->peer ? " to " : "",
		     f->edge->peer);
}

static void leave_undecided(struct failure *f)
{
	f->v->class = CLASS_UNDECIDED;
	f->v->confidence = 0;
	verdict_advises(f->v, "compare the hosts' configuration (shift-diag precheck), then the "
			      "network (shift-diag ping, all sizes); else isolate the hosts with "
			      "errors, and halve the job");
}

/* No errors, or they have nothing in common: who keeps the others waiting? */
static void ask_procedure(struct failure *f, const struct records *r, const struct aegis_options *o)
{
	struct verdict hang = aegis_hang(r, o);

	if (!hang.culprits_n && !f->edges) {
		/* Without errors, what hang says is all there is. */
		verdict_free(f->v);
		*f->v = hang;
		if (hang.class == CLASS_FINE && f->benign)
			verdict_says(f->v, "%zu lines of logs look like errors, and end no job",
				     f->benign);
		return;
	}
	if (!hang.culprits_n) {
		verdict_free(&hang);
		leave_undecided(f);
		return;
	}
	for (size_t i = 0; i < f->v->evidence_n; i++)
		verdict_says(&hang, "%s", f->v->evidence[i]);
	verdict_free(f->v);
	*f->v = hang;
	f->v->class = CLASS_FAILED;
	f->v->confidence *= 0.9;
}

/* What is not seen may be the root; a critical error is one anyway. */
static void lower_confidence(struct failure *f, const struct records *r)
{
	struct aegis_view view = aegis_view_make(r, f->window_ns);

	f->v->coverage = view.coverage;
	if (view.processes && !f->criticals)
		f->v->confidence *= aegis_coverage(&view);
	aegis_view_free(&view);
}

static void judge(struct failure *f, const struct records *r, const struct aegis_options *o)
{
	const char *root = NULL;
	double share = 0;

	f->v->class = CLASS_FAILED;
	if (f->criticals) {
		blame_critical(f);
		return;
	}
	if (f->edges)
		tell_distributed(f);
	if (f->hosts > FEW_HOSTS)
		root = root_of(f, &share);
	if (f->hosts && f->hosts <= FEW_HOSTS)
		blame_few(f);
	else if (root)
		blame_root(f, root, share);
	else
		ask_procedure(f, r, o);
}

struct verdict aegis_fail(const struct records *r, const struct logs *logs,
			  const struct aegis_options *o)
{
	struct verdict v = verdict_make("aegis", "critical-error");
	struct failure f = {.window_ns = o->window_ns, .v = &v};

	lower_confidence(&f, r); /* for the clocks */
	find_errors(&f, r, logs);
	verdict_threshold(&v, "window_s", (double)o->window_ns / 1e9);
	verdict_threshold(&v, "first_s", (double)first_ns / 1e9);
	verdict_threshold(&v, "root_share", root_share);
	if (!r->files && (!logs || !logs->files))
		leave_undecided(&f);
	else
		judge(&f, r, o);
	if (f.old)
		verdict_says(&v, "%zu errors are older than the window, and left out", f.old);
	if (f.criticals || f.edges)
		lower_confidence(&f, r);
	free(f.edge);
	free(f.critical);
	free(f.host);
	return v;
}
