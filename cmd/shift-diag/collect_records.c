/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a process has left, in the words of shift-records(5). */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/collect.h"
#include "cmd/shift-diag/collect_epochs.h"
#include "common/cli.h"
#include "common/printable.h"
#include "lib/stats/json.h"
#include "lib/stats/note_names.h"

/* The moment from which times are counted, by both clocks. */
struct origin {
	uint64_t mono_ns, real_ns;
};

struct writer {
	FILE *out;
	struct origin origin;
	struct told_epoch *told; /* the traffic */
	size_t told_count;
	uint64_t told_lost; /* runs that there was no room for */
};

static cJSON *new_record(const char *type)
{
	cJSON *o = check_alloc(cJSON_CreateObject());

	cJSON_AddStringToObject(o, "record", type);
	return o;
}

/* Prints and frees. */
static void put(const struct writer *w, cJSON *o)
{
	char *json = check_alloc(cJSON_PrintUnformatted(o)),
	     *text = check_alloc(printable_json(json));

	fprintf(w->out, "%s\n", text);
	free(text);
	free(json);
	cJSON_Delete(o);
}

/* Exact below 2^53, which is 104 days in ns. */
static void add_count(cJSON *o, const char *key, uint64_t n)
{
	cJSON_AddNumberToObject(o, key, (double)n);
}

/* 0: it is not known. */
static void add_time(const struct writer *w, cJSON *o, const char *key, uint64_t mono_ns)
{
	if (mono_ns)
		cJSON_AddNumberToObject(o, key, (double)(int64_t)(mono_ns - w->origin.mono_ns));
}

static void add_text(cJSON *o, const char *key, const char *text)
{
	if (*text)
		cJSON_AddStringToObject(o, key, text);
}

/* ---- the header -------------------------------------------------------------------------------
 */

static struct origin origin_of(const struct collected *c)
{
	struct origin first = {UINT64_MAX, 0};

	if (c->stats)
		first = (struct origin){c->stats->h.opened_ns, c->stats->h.opened_real_ns};
	for (unsigned int i = 0; i < c->colls; i++)
		if (c->coll[i]->h.opened_ns < first.mono_ns)
			first = (struct origin){c->coll[i]->h.opened_ns,
						c->coll[i]->h.opened_real_ns};
	if (c->epochs && c->epochs->h.opened_ns < first.mono_ns)
		first = (struct origin){c->epochs->h.opened_ns, c->epochs->h.opened_real_ns};
	return first;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Of a process that is gone: the newest that it has told. */
static uint64_t last_word(const struct collected *c)
{
	uint64_t ns = 0;

	for (size_t i = 0; c->stats && i < c->stats->event_count; i++)
		ns = later(ns, c->stats->events[i].time_ns);
	for (size_t i = 0; c->stats && i < c->stats->conn_count; i++)
		ns = later(ns, c->stats->conns[i].updated_ns);
	for (unsigned int i = 0; i < c->colls; i++)
		for (size_t n = 0; n < c->coll[i]->op_count; n++) {
			const struct coll_entry *e = c->coll[i]->ops + n;

			ns = later(ns, e->launch_ns);
			if (e->end < COLL_UNDER_WAY)
				ns = later(ns, e->end);
		}
	for (size_t i = 0; c->epochs && i < c->epochs->count; i++) {
		const struct epoch_run *r = c->epochs->runs + i;

		ns = later(ns,
			   c->epochs->h.opened_ns + (r->first + r->epochs) * c->epochs->h.epoch_ns);
	}
	return ns;
}

static uint64_t lost_of(const struct collected *c)
{
	uint64_t n = c->epochs ? c->epochs->h.unknown : 0;

	if (c->stats)
		n += (c->stats->events_written - c->stats->event_count) +
		     (c->stats->switches_written - c->stats->switch_count) +
		     (c->stats->errors.written - c->stats->errors.count) +
		     (c->stats->asyncs.written - c->stats->asyncs.count) +
		     (c->stats->lives.written - c->stats->lives.count);
	for (unsigned int i = 0; i < c->colls; i++)
		n += c->coll[i]->op_lost + c->coll[i]->h.untold;
	return n;
}

static bool is_unobserved(const struct stats_copy *s)
{
	bool found = false;

	for (int i = 0; s && i < STATS_BYPASS_MAX; i++)
		found |= s->h.now.bypass[i].count &&
			 s->h.now.bypass[i].reason == STATS_UNPROTECTED_POSTED_AROUND;
	for (size_t i = 0; s && i < s->conn_count; i++)
		found |= s->conns[i].unprotected == STATS_UNPROTECTED_POSTED_AROUND;
	return found;
}

static enum stats_life life_of(const struct collected *c)
{
	return c->stats ? c->stats->life : c->colls ? c->coll[0]->life : c->epochs->life;
}

static uint64_t closed_at(const struct collected *c)
{
	uint64_t ns = c->stats ? c->stats->h.now.closed_ns : 0;

	for (unsigned int i = 0; i < c->colls; i++)
		ns = later(ns, c->coll[i]->h.closed_ns);
	return c->epochs ? later(ns, c->epochs->h.closed_ns) : ns;
}

static void add_began(cJSON *o, const struct origin *origin)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, origin->real_ns);
	cJSON_AddStringToObject(o, "began", text);
}

struct collected_process collected_process(const struct collected *c)
{
#define PROCESS(h)                                                                           \
	(struct collected_process)                                                           \
	{                                                                                    \
		c->owner, (h).pid, (h).start_ticks, (h).pid_namespace, (h).boot_id, (h).job, \
			(h).host                                                             \
	}
	return c->stats	  ? PROCESS(c->stats->h)
	       : c->colls ? PROCESS(c->coll[0]->h)
			  : PROCESS(c->epochs->h);
#undef PROCESS
}

static void add_identity(cJSON *o, const struct collected *c)
{
	const struct collected_process p = collected_process(c);

	add_text(o, "job", p.job);
	add_text(o, "host", p.host);
	add_text(o, "boot_id", p.boot_id);
	add_count(o, "pid", p.pid);
	add_text(o, "command",
		 c->stats   ? c->stats->h.command
		 : c->colls ? c->coll[0]->h.command
			    : "");
	for (unsigned int i = 0; i < c->colls; i++)
		if (c->coll[i]->h.rank >= 0) {
			cJSON_AddNumberToObject(o, "rank", c->coll[i]->h.rank);
			break;
		}
}

/* How many operations were on communicators that are not known; without ring or reader at fault. */
static void add_strangers(cJSON *o, const struct collected *c)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < c->colls; i++)
		n += c->coll[i]->h.strangers;
	if (n)
		add_count(o, "strangers", n);
}

static void put_header(const struct writer *w, const struct collected *c, uint64_t read_ns)
{
	cJSON *o = new_record("header");

	cJSON_AddStringToObject(o, "format", "shift-records");
	cJSON_AddNumberToObject(o, "version", 1);
	add_identity(o, c);
	add_began(o, &w->origin);
	add_time(w, o, "read_ns", life_of(c) == STATS_DEAD ? last_word(c) : read_ns);
	if (life_of(c) == STATS_ENDED)
		add_time(w, o, "ended_ns", closed_at(c));
	if (life_of(c) == STATS_DEAD)
		cJSON_AddTrueToObject(o, "died");
	if (c->epochs) {
		add_count(o, "epoch_ns", c->epochs->h.epoch_ns);
		add_count(o, "epochs_dropped", c->epochs->lost + w->told_lost);
	}
	add_count(o, "dropped", lost_of(c));
	if (is_unobserved(c->stats))
		cJSON_AddTrueToObject(o, "unobserved");
	add_strangers(o, c);
	put(w, o);
}

/* ---- statistics -------------------------------------------------------------------------------
 */

static void put_qp_state(const struct writer *w, const struct stats_conn *c, const char *state,
			 uint64_t time_ns)
{
	cJSON *o = new_record("qp");

	add_time(w, o, "t_ns", time_ns);
	add_count(o, "qp", c->id);
	add_count(o, "qpn", c->qpn);
	if (c->peer_qpn)
		add_count(o, "peer_qpn", c->peer_qpn);
	add_text(o, "nic", c->nic[0]);
	cJSON_AddStringToObject(o, "state", state);
	add_text(o, "peer_host", c->peer_host);
	put(w, o);
}

static bool has_life(const struct stats_copy *s, const struct stats_conn *c)
{
	for (size_t i = 0; i < s->lives.count; i++)
		if (s->lives.note[i].qp == c->id)
			return true;
	return false;
}

/* What is known of one whose life has been overwritten in its ring. */
static void put_qp(const struct writer *w, const struct stats_conn *c)
{
	put_qp_state(w, c, "RESET", c->created_ns);
	if (c->was_protected || c->send_posted)
		put_qp_state(w, c, "RTS", 0);
}

/* What all notes have. */
static cJSON *new_note(const struct writer *w, const char *type, const struct stats_note *n)
{
	cJSON *o = new_record(type);

	add_time(w, o, "t_ns", n->time_ns);
	if (n->qp)
		add_count(o, "qp", n->qp);
	add_text(o, "nic", n->nic);
	return o;
}

static void add_peer_host(cJSON *o, const struct stats_copy *s, const struct stats_note *n)
{
	const struct stats_conn *c = stats_conn_of(s, n);

	if (c)
		add_text(o, "peer_host", c->peer_host);
}

static void put_life(const struct writer *w, const struct stats_copy *s, const struct stats_note *n)
{
	cJSON *o = new_note(w, "qp", n);

	add_count(o, "qpn", n->qpn);
	if (n->peer_qpn)
		add_count(o, "peer_qpn", n->peer_qpn);
	cJSON_AddStringToObject(
		o, "state", n->what == STATS_QP_CREATED ? "RESET" : stats_qp_state_name(n->what));
	add_peer_host(o, s, n);
	put(w, o);
}

static void put_error(const struct writer *w, const struct stats_copy *s,
		      const struct stats_note *n)
{
	cJSON *o = new_note(w, "wcerr", n);

	cJSON_AddStringToObject(o, "status", stats_status_name(n->what));
	add_count(o, "vendor_err", n->vendor_err);
	if (n->opcode != STATS_OPCODE_UNKNOWN)
		cJSON_AddStringToObject(o, "opcode", stats_opcode_name(n->opcode));
	if (n->fate == STATS_FATE_HIDDEN)
		cJSON_AddTrueToObject(o, "hidden");
	add_peer_host(o, s, n);
	put(w, o);
}

static void put_async(const struct writer *w, const struct stats_note *n)
{
	cJSON *o = new_note(w, "async", n);

	cJSON_AddStringToObject(o, "event", stats_async_name(n->what));
	put(w, o);
}

static void put_notes(const struct writer *w, const struct stats_copy *s)
{
	for (size_t i = 0; i < s->lives.count; i++)
		if (s->lives.note[i].qp)
			put_life(w, s, s->lives.note + i);
	for (size_t i = 0; i < s->errors.count; i++)
		put_error(w, s, s->errors.note + i);
	for (size_t i = 0; i < s->asyncs.count; i++)
		put_async(w, s->asyncs.note + i);
}

static void put_move(const struct writer *w, const struct stats_switch *s)
{
	cJSON *o = new_record("move");

	add_time(w, o, "t_ns", s->begin_ns);
	add_time(w, o, "end_ns", s->end_ns);
	add_count(o, "qp", s->conn);
	add_text(o, "from", s->from_nic);
	add_text(o, "to", s->nic);
	cJSON_AddStringToObject(o, "cause", shift_reason_name(s->cause));
	cJSON_AddStringToObject(o, "outcome", stats_outcome_name(s->outcome));
	if (s->end_ns)
		add_count(o, "outage_ns", s->outage_ns);
	put(w, o);
}

static void put_event(const struct writer *w, const struct stats_event *e)
{
	cJSON *o = new_record("event");

	add_time(w, o, "t_ns", e->time_ns);
	add_count(o, "qp", e->conn);
	add_text(o, "nic", e->nic);
	cJSON_AddStringToObject(o, "from", shift_state_name(e->from));
	cJSON_AddStringToObject(o, "to", shift_state_name(e->to));
	cJSON_AddStringToObject(o, "reason", shift_reason_name(e->reason));
	put(w, o);
}

static void put_stats(const struct writer *w, const struct stats_copy *s)
{
	for (size_t i = 0; i < s->conn_count; i++)
		if (!has_life(s, s->conns + i))
			put_qp(w, s->conns + i);
	put_notes(w, s);
	for (size_t i = 0; i < s->switch_count; i++)
		put_move(w, s->switches + i);
	for (size_t i = 0; i < s->conn_count; i++)
		if (s->conns[i].now.begin_ns)
			put_move(w, &s->conns[i].now);
	for (size_t i = 0; i < s->event_count; i++)
		put_event(w, s->events + i);
}

/* ---- collectives ------------------------------------------------------------------------------
 */

/* The text of a communicator; "world" is that of MPI. */
static void add_comm(cJSON *o, const struct coll_copy *copy, uint64_t id)
{
	char text[48];

	if (!strcmp(copy->h.source, "mpi") && id == 1)
		snprintf(text, sizeof(text), "world");
	else
		snprintf(text, sizeof(text), "%s-%016" PRIx64, copy->h.source, id);
	cJSON_AddStringToObject(o, "comm", text);
}

static void put_comm(const struct writer *w, const struct coll_copy *copy,
		     const struct coll_comm *c)
{
	cJSON *o = new_record("comm"), *hosts;

	add_comm(o, copy, c->id);
	add_count(o, "size", c->size);
	cJSON_AddNumberToObject(o, "rank", c->rank);
	if (c->size && c->members == c->size && coll_member_host(copy, c, c->size - 1)) {
		hosts = cJSON_AddArrayToObject(o, "hosts");
		for (uint32_t i = 0; i < c->size; i++) {
			const char *host = coll_member_host(copy, c, i);

			cJSON_AddItemToArray(hosts,
					     host ? cJSON_CreateString(host) : cJSON_CreateNull());
		}
	}
	put(w, o);
}

static bool is_launch_only(const struct coll_entry *e)
{
	return e->flags & COLL_LAUNCH_ONLY || !e->end;
}

static void put_coll(const struct writer *w, const struct coll_copy *copy,
		     const struct coll_entry *e)
{
	cJSON *o = new_record("coll");

	add_comm(o, copy, e->comm);
	add_count(o, "seq", e->coll_seq);
	cJSON_AddStringToObject(o, "op", coll_op_name(e->op));
	add_text(o, "dtype", e->dtype);
	add_count(o, "count", e->count);
	if (e->element_bytes || !e->count)
		add_count(o, "bytes", e->count * e->element_bytes);
	if (e->root != COLL_NO_ROOT)
		cJSON_AddNumberToObject(o, "root", e->root);
	if (e->group)
		add_count(o, "group", e->group);
	add_time(w, o, "launch_ns", e->launch_ns);
	if (is_launch_only(e))
		cJSON_AddTrueToObject(o, "launch_only");
	else if (e->end < COLL_UNDER_WAY)
		add_time(w, o, "end_ns", e->end);
	put(w, o);
}

static void put_colls(const struct writer *w, const struct coll_copy *copy)
{
	for (size_t i = 0; i < copy->comm_count; i++)
		put_comm(w, copy, copy->comms + i);
	for (size_t i = 0; i < copy->op_count; i++)
		put_coll(w, copy, copy->ops + i);
}

/* ---- traffic ----------------------------------------------------------------------------------
 */

enum told_what { TOLD_BYTES, TOLD_WR, TOLD_WC };

static uint64_t told_value(const struct told_epoch *t, enum told_what what)
{
	return what == TOLD_BYTES ? t->bytes : what == TOLD_WR ? t->wr : t->wc;
}

/* Also of the epochs between them, without traffic. */
static void add_epochs(cJSON *o, const char *key, const struct told_epoch *t, size_t n,
		       enum told_what what)
{
	cJSON *to = cJSON_AddArrayToObject(o, key);

	for (size_t i = 0; i < n; i++) {
		for (uint64_t e = i ? t[i - 1].epoch + 1 : t->epoch; e < t[i].epoch; e++)
			cJSON_AddItemToArray(to, cJSON_CreateNumber(0));
		cJSON_AddItemToArray(to, cJSON_CreateNumber((double)told_value(t + i, what)));
	}
}

static void put_epochs(const struct writer *w, const struct epoch_header *h)
{
	const struct told_epoch *t = w->told;

	for (size_t i = 0, n; i < w->told_count; i += n, t += n) {
		cJSON *o = new_record("epochs");

		n = epochs_of_record(t, w->told_count - i);
		add_count(o, "qp", t->qp);
		add_time(w, o, "t_ns", h->opened_ns + t->epoch * h->epoch_ns);
		add_epochs(o, "bytes", t, n, TOLD_BYTES);
		add_epochs(o, "wr", t, n, TOLD_WR);
		add_epochs(o, "wc", t, n, TOLD_WC);
		put(w, o);
	}
}

bool collect_write(FILE *out, const struct collected *c, size_t epochs_max)
{
	struct writer w = {.out = out, .origin = origin_of(c)};
	uint64_t read_ns = (uint64_t)now_ms() * 1000000;

	for (unsigned int i = 0; i < c->colls; i++) /* what came later may be missing in one */
		read_ns = c->coll[i]->read_ns < read_ns ? c->coll[i]->read_ns : read_ns;
	if (c->epochs) {
		read_ns = c->epochs->read_ns < read_ns ? c->epochs->read_ns : read_ns;
		w.told_count = epochs_tell(c->epochs->runs, c->epochs->count, epochs_max, &w.told,
					   &w.told_lost);
	}
	put_header(&w, c, read_ns);
	if (c->stats)
		put_stats(&w, c->stats);
	for (unsigned int i = 0; i < c->colls; i++)
		put_colls(&w, c->coll[i]);
	if (c->epochs)
		put_epochs(&w, &c->epochs->h);
	free(w.told);
	return !fflush(out) && !ferror(out);
}

bool collection_write(FILE *out, const struct collection *all)
{
	unsigned long files = 0;
	bool ok = true;

	for (const struct collected *c = all->first; c && ok; c = c->next, files++)
		ok = collect_write(out, c, EPOCHS_STREAM_MAX);
	fprintf(out, "{\"record\":\"end\",\"files\":%lu,\"whole\":%s}\n", files,
		collection_is_whole(all) ? "true" : "false");
	return ok && !fflush(out) && !ferror(out);
}
