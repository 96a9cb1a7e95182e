/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Files: records as JSON Lines, the truth as JSON, and the texts of the recorded simulations. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/collsim/scenario.h"

static void add_text(cJSON *o, const char *name, const char *value)
{
	if (*value)
		cJSON_AddStringToObject(o, name, value);
}

static void add_number(cJSON *o, const char *name, double value)
{
	cJSON_AddNumberToObject(o, name, value);
}

/* A time; one that has not come is not written. */
static void add_time(cJSON *o, const char *name, const struct rec_file *f, uint64_t t)
{
	if (t)
		add_number(o, name, (double)(int64_t)(t - f->began_ns));
}

static void add_index(cJSON *o, const char *name, int value)
{
	if (value != REC_NONE)
		add_number(o, name, value);
}

static cJSON *record(const char *type)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "record", type);
	return o;
}

static void print_line(FILE *out, cJSON *o)
{
	char *text = cJSON_PrintUnformatted(o);

	if (!text)
		abort();
	fprintf(out, "%s\n", text);
	free(text);
	cJSON_Delete(o);
}

static void print_header(FILE *out, const struct rec_file *f)
{
	cJSON *o = record("header");
	char began[32];

	snprintf(began, sizeof(began), "%llu", (unsigned long long)f->began_ns);
	add_text(o, "format", "shift-records");
	add_number(o, "version", RECORDS_VERSION);
	add_text(o, "job", f->job);
	add_text(o, "host", f->host);
	add_text(o, "boot_id", f->boot_id);
	add_number(o, "pid", f->pid);
	add_text(o, "command", f->command);
	add_index(o, "rank", f->rank);
	add_text(o, "began", began);
	add_time(o, "read_ns", f, f->read_ns);
	add_time(o, "ended_ns", f, f->ended_ns);
	if (f->died)
		cJSON_AddTrueToObject(o, "died");
	add_number(o, "epoch_ns", f->epoch_ns);
	if (f->clock_error_ns != REC_NONE)
		add_number(o, "clock_error_ns", f->clock_error_ns);
	add_number(o, "dropped", f->dropped);
	print_line(out, o);
}

static void print_qp(FILE *out, const struct rec_file *f, const struct rec_qp *q)
{
	cJSON *o = record("qp");

	add_time(o, "t_ns", f, q->t_ns);
	add_number(o, "qp", q->id);
	add_number(o, "qpn", q->qpn);
	add_number(o, "peer_qpn", q->peer_qpn);
	add_text(o, "nic", q->nic);
	add_text(o, "state", q->state);
	add_text(o, "peer_host", q->peer_host);
	add_index(o, "peer_rank", q->peer_rank);
	print_line(out, o);
}

static void print_wcerr(FILE *out, const struct rec_file *f, const struct rec_wcerr *w)
{
	cJSON *o = record("wcerr");

	add_time(o, "t_ns", f, w->t_ns);
	add_number(o, "qp", w->qp);
	add_text(o, "nic", w->nic);
	add_text(o, "status", w->status);
	add_number(o, "vendor_err", w->vendor_err);
	add_text(o, "opcode", w->opcode);
	add_text(o, "peer_host", w->peer_host);
	add_index(o, "peer_rank", w->peer_rank);
	print_line(out, o);
}

static void print_async(FILE *out, const struct rec_file *f, const struct rec_async *a)
{
	cJSON *o = record("async");

	add_time(o, "t_ns", f, a->t_ns);
	add_text(o, "nic", a->nic);
	add_text(o, "event", a->event);
	print_line(out, o);
}

static void print_comm(FILE *out, const struct rec_comm *c)
{
	cJSON *o = record("comm"), *hosts;

	add_text(o, "comm", c->comm);
	add_number(o, "size", c->size);
	add_number(o, "rank", c->rank);
	hosts = cJSON_AddArrayToObject(o, "hosts");
	for (int i = 0; i < c->size; i++)
		cJSON_AddItemToArray(hosts, cJSON_CreateString(c->hosts[i]));
	print_line(out, o);
}

static void print_coll(FILE *out, const struct rec_file *f, const struct rec_coll *c)
{
	cJSON *o = record("coll");

	add_text(o, "comm", c->comm);
	add_number(o, "seq", c->seq);
	add_text(o, "op", c->op);
	add_text(o, "dtype", c->dtype);
	add_number(o, "count", c->count);
	add_number(o, "bytes", c->bytes);
	add_index(o, "root", c->root);
	add_time(o, "launch_ns", f, c->launch_ns);
	add_time(o, "first_wr_ns", f, c->first_wr_ns);
	add_time(o, "end_ns", f, c->end_ns);
	add_number(o, "wr", c->wr);
	add_number(o, "wc", c->wc);
	add_number(o, "sent_bytes", c->sent_bytes);
	print_line(out, o);
}

static void print_p2p(FILE *out, const struct rec_file *f, const struct rec_p2p *p)
{
	cJSON *o = record("p2p");

	add_text(o, "comm", p->comm);
	add_number(o, "group", p->group);
	add_number(o, "peer", p->peer);
	add_text(o, "direction", p->is_send ? "send" : "recv");
	add_number(o, "expected_bytes", p->expected_bytes);
	add_number(o, "actual_bytes", p->actual_bytes);
	add_time(o, "launch_ns", f, p->launch_ns);
	add_time(o, "end_ns", f, p->end_ns);
	print_line(out, o);
}

static void print_step(FILE *out, const struct rec_file *f, const struct rec_step *s)
{
	cJSON *o = record("step");

	add_text(o, "comm", s->comm);
	add_number(o, "seq", s->seq);
	add_number(o, "step", s->step);
	add_number(o, "peer", s->peer);
	add_number(o, "bytes", s->bytes);
	add_time(o, "start_ns", f, s->start_ns);
	add_time(o, "end_ns", f, s->end_ns);
	add_number(o, "expected_ns", s->expected_ns);
	add_index(o, "wait_rank", s->wait_rank);
	add_index(o, "wait_step", s->wait_step);
	add_index(o, "send_index", s->send_index);
	add_index(o, "recv_index", s->recv_index);
	add_text(o, "flow", s->flow);
	print_line(out, o);
}

/* By hand: there are many of them. */
static void print_numbers(FILE *out, const char *name, const uint32_t *number, size_t n)
{
	fprintf(out, ",\"%s\":[", name);
	for (size_t i = 0; i < n; i++)
		fprintf(out, i ? ",%u" : "%u", number[i]);
	fprintf(out, "]");
}

static void print_epochs(FILE *out, const struct rec_file *f, const struct rec_epochs *e)
{
	fprintf(out, "{\"record\":\"epochs\",\"qp\":%llu,\"t_ns\":%lld", (unsigned long long)e->qp,
		(long long)(e->t_ns - f->began_ns));
	print_numbers(out, "bytes", e->bytes, e->n);
	print_numbers(out, "wr", e->wr, e->n);
	print_numbers(out, "wc", e->wc, e->n);
	fprintf(out, "}\n");
}

static void print_file(FILE *out, const struct rec_file *f)
{
	print_header(out, f);
	for (size_t i = 0; i < f->comm_n; i++)
		print_comm(out, f->comm + i);
	for (size_t i = 0; i < f->qp_n; i++)
		print_qp(out, f, f->qp + i);
	for (size_t i = 0; i < f->coll_n; i++)
		print_coll(out, f, f->coll + i);
	for (size_t i = 0; i < f->p2p_n; i++)
		print_p2p(out, f, f->p2p + i);
	for (size_t i = 0; i < f->step_n; i++)
		print_step(out, f, f->step + i);
	for (size_t i = 0; i < f->wcerr_n; i++)
		print_wcerr(out, f, f->wcerr + i);
	for (size_t i = 0; i < f->async_n; i++)
		print_async(out, f, f->async + i);
	for (size_t i = 0; i < f->epochs_n; i++)
		print_epochs(out, f, f->epochs + i);
}

char *collsim_file_text(const struct rec_file *f)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		abort();
	print_file(out, f);
	fclose(out);
	return text;
}

static void add_ns(cJSON *o, const char *name, uint64_t ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)ns);
	cJSON_AddStringToObject(o, name, text);
}

static cJSON *culprit_json(const struct collsim_culprit *c)
{
	cJSON *o = cJSON_CreateObject();

	add_index(o, "rank", c->rank);
	add_text(o, "host", c->host);
	add_index(o, "nic", c->nic);
	add_text(o, "flow", c->flow);
	add_index(o, "node", c->node);
	add_index(o, "port", c->port);
	add_index(o, "by_node", c->by_node);
	add_index(o, "by_port", c->by_port);
	return o;
}

char *collsim_truth_text(const struct collsim_truth *t)
{
	cJSON *o = cJSON_CreateObject(), *culprits;
	char *text;

	add_text(o, "case", t->name);
	add_text(o, "kind", t->kind);
	add_text(o, "class", t->class);
	add_text(o, "component", t->component);
	add_text(o, "level", t->level);
	culprits = cJSON_AddArrayToObject(o, "culprits");
	for (int i = 0; i < t->culprits; i++)
		cJSON_AddItemToArray(culprits, culprit_json(t->culprit + i));
	/* Strings, as the times of headers are: numbers of JSON may have 53 bits only. */
	add_ns(o, "zero_ns", t->zero_ns);
	if (t->onset_ns)
		add_ns(o, "onset_ns", t->onset_ns);
	add_number(o, "healthy_ns", t->healthy_ns);
	if (t->took_ns)
		add_number(o, "took_ns", t->took_ns);
	add_number(o, "severity", t->severity);
	text = cJSON_Print(o);
	if (!text)
		abort();
	cJSON_Delete(o);
	return text;
}

static void print_pfc(const struct net *n, FILE *out)
{
	for (size_t i = 0; i < n->pfcs; i++) {
		const struct port *p = n->port + n->pfc[i].port;

		fprintf(out, "%.0f %d %d %d %d\n", n->pfc[i].t, p->node, p->node < n->switches,
			p->number, n->pfc[i].pause);
	}
}

/* One line for each step that is over: how many of its own, and of the data for it, a member has
 * then; and from whom the next of these comes. */
struct fct {
	double end;
	char line[160];
};

static int by_end(const void *a, const void *b)
{
	const struct fct *x = a, *y = b;

	return (x->end > y->end) - (x->end < y->end);
}

static const struct xfer *receive_number(const struct op *op, int member, int step)
{
	for (int i = 0; i < op->xfers; i++)
		if (op->xfer[i].dst == member && op->xfer[i].step == step)
			return op->xfer + i;
	return NULL;
}

static void fct_line(struct job *j, const struct op *op, const struct xfer *x, struct fct *to)
{
	const struct comm *comm = j->comm + op->comm;
	const struct conn *c = job_conn(j, comm->rank[x->src], comm->rank[x->dst], x->channel);
	const struct flow *f = j->topology.net.flow + c->flow;
	const struct xfer *r;
	int have = 1;

	while ((r = receive_number(op, x->src, have)) && r->took > 0 && r->took <= x->end)
		have++;
	to->end = x->end;
	snprintf(to->line, sizeof(to->line), "%d %d %d %d %d %d %d %.0f %.0f %.0f %.0f\n", f->src,
		 f->dst, x->step, have,
		 r ? j->topology.nic[j->rank[comm->rank[r->src]].nic].node : 0, f->sport, f->dport,
		 x->bytes, x->start, x->end - x->start, job_alone_ns(j, c, x->bytes));
}

static void print_background(const struct job *j, FILE *out)
{
	for (int i = 0; i < j->backgrounds; i++) {
		const struct background *b = j->background + i;
		const struct flow *f = j->topology.net.flow + b->flow;

		if (b->end > 0)
			fprintf(out, "### %d %d %d %d %.0f %.0f %.0f %.0f\n", f->src, f->dst,
				f->sport, f->dport, b->bytes, b->start, b->end - b->start,
				b->bytes / j->topology.net.port[f->path[0]].line + f->latency_ns);
	}
}

static void print_fct(struct collsim *s, FILE *out)
{
	struct job *j = &s->job;
	struct fct *list = NULL;
	int n = 0, xfers = 0;

	for (int i = 0; i < j->ops; i++)
		xfers += j->op[i].xfers;
	list = calloc(xfers + 1, sizeof(*list));
	if (!list)
		abort();
	for (int i = 0; i < j->ops; i++)
		for (int k = 0; k < j->op[i].xfers; k++)
			if (j->op[i].xfer[k].end > 0 && !j->comm[j->op[i].comm].quiet)
				fct_line(j, j->op + i, j->op[i].xfer + k, list + n++);
	qsort(list, n, sizeof(*list), by_end);
	for (int i = 0; i < n; i++)
		fputs(list[i].line, out);
	free(list);
	print_background(j, out);
}

char *collsim_text(struct collsim *s, const char *which)
{
	struct net *n = &s->job.topology.net;
	char *text = NULL;
	size_t bytes;
	int at = -1;
	FILE *out;

	if (sscanf(which, "telemetry_%d.txt", &at) == 1) {
		if (at < 0 || at >= n->switches || !n->telemetry)
			return NULL;
		return strdup(s->telemetry && s->telemetry[at] ? s->telemetry[at] : "");
	}
	out = open_memstream(&text, &bytes);
	if (!out)
		abort();
	if (!strcmp(which, "topology.txt"))
		topology_print(&s->job.topology, out);
	else if (!strcmp(which, "pfc.txt"))
		print_pfc(n, out);
	else if (!strcmp(which, "fct.txt"))
		print_fct(s, out);
	else
		at = -2;
	fclose(out);
	if (at != -2)
		return text;
	free(text);
	return NULL;
}

/* Frees the text. */
static int write_text(const char *dir, const char *name, char *text)
{
	char path[4096];
	FILE *out;
	int err = 0;

	if (!text)
		return 0;
	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path)) {
		free(text);
		return -ENAMETOOLONG;
	}
	out = fopen(path, "w");
	if (!out || fputs(text, out) < 0)
		err = -errno;
	if (out && fclose(out) && !err)
		err = -errno;
	free(text);
	return err;
}

static int write_records(struct collsim *s, const char *dir)
{
	struct records r = {0};
	int err = 0;

	collsim_records(s, &r);
	for (size_t i = 0; i < r.files && !err; i++) {
		char name[64];

		snprintf(name, sizeof(name), "rank%03d.records", r.file[i].rank);
		err = write_text(dir, name, collsim_file_text(r.file + i));
	}
	records_free(&r);
	return err;
}

int collsim_write(struct collsim *s, const char *dir)
{
	static const char *const names[] = {"topology.txt", "pfc.txt", "fct.txt"};
	int err = 0;

	if (mkdir(dir, 0777) && errno != EEXIST)
		return -errno;
	err = write_records(s, dir);
	for (int i = 0; i < 3 && !err && !s->options.no_telemetry; i++)
		err = write_text(dir, names[i], collsim_text(s, names[i]));
	for (int i = 0; i < s->job.topology.net.switches && !err; i++) {
		char name[64];

		snprintf(name, sizeof(name), "telemetry_%d.txt", i);
		err = write_text(dir, name, collsim_text(s, name));
	}
	return err ? err : write_text(dir, "truth.json", collsim_truth_text(&s->truth));
}
