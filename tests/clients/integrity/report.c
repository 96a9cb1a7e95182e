/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The result: lines for a reader, or one JSON object. */
#include <inttypes.h>
#include <sys/resource.h>

#include "tests/clients/integrity/integrity.h"

void counters_add(struct counters *to, const struct counters *from)
{
	for (int op = 0; op < OPS; op++)
		to->posted[op] += from->posted[op];
	to->bytes_sent += from->bytes_sent;
	to->completions += from->completions;
	to->receives += from->receives;
	to->lost += from->lost;
	to->duplicated += from->duplicated;
	to->reordered += from->reordered;
	to->bad_bytes += from->bad_bytes;
	to->bad_completions += from->bad_completions;
	to->lost_results += from->lost_results;
	to->error_completions += from->error_completions;
	to->lost_wakeups += from->lost_wakeups;
	to->bad_events += from->bad_events;
	to->bad_receives += from->bad_receives;
	to->lost_receives += from->lost_receives;
	to->late_writes += from->late_writes;
	to->lost_limits += from->lost_limits;
}

bool violated(const struct counters *n)
{
	return n->lost || n->duplicated || n->reordered || n->bad_bytes || n->bad_completions ||
	       n->lost_wakeups || n->bad_events || n->bad_receives || n->lost_receives ||
	       n->late_writes || n->lost_limits || (n->lost_results && !opt.allow_lost_results);
}

static void merge_gaps(const struct run *r, struct gap *gaps)
{
	for (int i = 0; i < GAPS_KEPT; i++)
		gaps[i] = (struct gap){.ms = -1};
	for (uint32_t l = 0; l < opt.w.qps; l++)
		for (int i = 0; i < GAPS_KEPT; i++)
			gap_note(gaps, r->lanes[l].gaps[i]);
}

static void integrity_json(const char *name, const struct counters *n)
{
	printf(", \"%s\": {\"lost\": %" PRIu64 ", \"duplicated\": %" PRIu64
	       ", \"reordered\": %" PRIu64 ", \"bad_bytes\": %" PRIu64
	       ", \"bad_completions\": %" PRIu64 ", \"lost_results\": %" PRIu64
	       ", \"error_completions\": %" PRIu64 ", \"lost_wakeups\": %" PRIu64
	       ", \"bad_events\": %" PRIu64 ", \"bad_receives\": %" PRIu64
	       ", \"lost_receives\": %" PRIu64 ", \"late_writes\": %" PRIu64
	       ", \"lost_limits\": %" PRIu64 "}",
	       name, n->lost, n->duplicated, n->reordered, n->bad_bytes, n->bad_completions,
	       n->lost_results, n->error_completions, n->lost_wakeups, n->bad_events,
	       n->bad_receives, n->lost_receives, n->late_writes, n->lost_limits);
}

static void gaps_json(const struct gap *gaps)
{
	printf(", \"longest_gap_ms\": %.3f, \"longest_gap_at_ms\": %.3f, \"gaps\": [",
	       gaps[0].ms < 0 ? 0 : gaps[0].ms, gaps[0].at_ms);
	for (int i = 0; i < GAPS_KEPT && gaps[i].ms >= 0; i++)
		printf("%s{\"ms\": %.3f, \"at_ms\": %.3f, \"paused_ms\": %.3f, \"qp\": %u}",
		       i ? ", " : "", gaps[i].ms, gaps[i].at_ms, gaps[i].paused_ms, gaps[i].lane);
	printf("]");
}

/* Of whole seconds: the last, begun, one would look like a slow one. */
static void seconds_json(const struct run *r)
{
	printf(", \"by_second\": [");
	for (int s = 0; s < SECONDS_KEPT && s < (int)(r->duration_ms / 1e3); s++) {
		uint32_t completions = 0;

		for (uint32_t l = 0; l < opt.w.qps; l++)
			completions += r->lanes[l].by_second[s];
		printf("%s%u", s ? ", " : "", completions);
	}
	printf("]");
}

static void error_json(const struct run *r)
{
	if (r->error.taken)
		printf(", \"error\": {\"status\": \"%s\", \"code\": %d, \"vendor_err\": %u, "
		       "\"qp\": %u, \"at_ms\": %.3f, \"receive\": %s}",
		       ibv_wc_status_str(r->error.status), r->error.status, r->error.vendor_err,
		       r->error.lane, r->error.at_ms, r->error.on_receive ? "true" : "false");
	else
		printf(", \"error\": null");
}

/* How this side has used verbs. */
static void verbs_json(const struct run *r)
{
	uint64_t taken = 0;

	for (uint32_t t = 0; t < opt.threads; t++)
		taken += poller_events(&r->pollers[t]);
	printf(", \"wr_api\": %s, \"cq_ex\": %s, \"events\": \"%s\", \"events_taken\": %" PRIu64
	       ", \"rdma_cm\": %s, \"dlopen\": %s",
	       opt.wr_api ? "true" : "false", opt.cq_ex ? "true" : "false", events_name(opt.events),
	       taken, opt.rdma_cm ? "true" : "false",
	       opt.by_dlopen ? opt.lazy ? "\"lazy\"" : "\"now\"" : "null");
}

static void srq_json(const struct run *r)
{
	struct srq_counters n = {0};

	for (uint32_t i = 0; i < opt.w.srqs; i++) {
		const struct srq_counters *s = &r->srqs[i].n;

		n.posts += s->posts;
		n.posted += s->posted;
		n.handed_out += s->handed_out;
		n.drained += s->drained;
		n.limit_events += s->limit_events;
		n.late_limits += s->late_limits;
	}
	printf(", \"srqs\": %u, \"srq\": {\"depth\": %u, \"credits\": %s, \"same_ids\": %s"
	       ", \"limit\": %u, \"posts\": %" PRIu64 ", \"posted\": %" PRIu64
	       ", \"handed_out\": %" PRIu64 ", \"drained\": %" PRIu64 ", \"limit_events\": %" PRIu64
	       ", \"late_limits\": %" PRIu64 "}",
	       opt.w.srqs, opt.w.srq_depth, opt.w.credits ? "true" : "false",
	       opt.w.same_ids ? "true" : "false", opt.srq_limit, n.posts, n.posted, n.handed_out,
	       n.drained, n.limit_events, n.late_limits);
}

static void report_json(const struct run *r, const struct counters *n, const struct verdict *peer,
			int status, const struct gap *gaps)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	printf("{\"side\": \"%s\", \"device\": \"%s\", \"seed\": %" PRIu64
	       ", \"qps\": %u, \"threads\": %u, \"exit\": %d, \"peer_exit\": %d"
	       ", \"started_unix_ms\": %" PRIu64 ", \"duration_ms\": %.1f, \"lives\": %u"
	       ", \"set_up_ms\": %.3f, \"max_rss_kb\": %ld"
	       ", \"posted\": {",
	       opt.peer ? "client" : "server", opt.devices[0], opt.w.seed, opt.w.qps, opt.threads,
	       status, peer->status, r->started_unix_ms, r->duration_ms, r->life + 1, r->set_up_ms,
	       usage.ru_maxrss);
	for (int op = 0; op < OPS; op++)
		printf("%s\"%s\": %" PRIu64, op ? ", " : "", op_name((enum op)op), n->posted[op]);
	printf("}, \"completions\": %" PRIu64 ", \"receives\": %" PRIu64
	       ", \"bytes_sent\": %" PRIu64 ", \"throughput_mb_s\": %.3f",
	       n->completions, n->receives, n->bytes_sent, n->bytes_sent / r->duration_ms / 1e3);
	integrity_json("found", n);
	integrity_json("peer_found", &peer->n);
	verbs_json(r);
	if (opt.w.srqs)
		srq_json(r);
	error_json(r);
	gaps_json(gaps);
	seconds_json(r);
	printf("}\n");
}

static void counts(const char *who, const struct counters *n)
{
	printf("%s: %" PRIu64 " lost, %" PRIu64 " duplicated, %" PRIu64 " reordered, %" PRIu64
	       " bad bytes, %" PRIu64 " bad completions, %" PRIu64 " results lost, %" PRIu64
	       " error completions, %" PRIu64 " wake-ups lost, %" PRIu64 " bad events, %" PRIu64
	       " bad receives, %" PRIu64 " receives lost, %" PRIu64 " late writes, %" PRIu64
	       " limits lost\n",
	       who, n->lost, n->duplicated, n->reordered, n->bad_bytes, n->bad_completions,
	       n->lost_results, n->error_completions, n->lost_wakeups, n->bad_events,
	       n->bad_receives, n->lost_receives, n->late_writes, n->lost_limits);
}

static void report_lines(const struct run *r, const struct counters *n, const struct verdict *peer,
			 int status, const struct gap *gaps)
{
	printf("seed %" PRIu64 ", %u qps, %u threads, %.1f s, %.3f MB/s sent", opt.w.seed,
	       opt.w.qps, opt.threads, r->duration_ms / 1e3, n->bytes_sent / r->duration_ms / 1e3);
	if (r->life)
		printf(", %u lives", r->life + 1);
	printf("\nposted:");
	for (int op = 0; op < OPS; op++)
		if (n->posted[op])
			printf(" %s %" PRIu64, op_name((enum op)op), n->posted[op]);
	printf("\n");
	counts("found here", n);
	counts("found by the peer", &peer->n);
	if (r->error.taken)
		printf("first error: %s, vendor_err %u, qp %u, %.3f ms into the run\n",
		       ibv_wc_status_str(r->error.status), r->error.vendor_err, r->error.lane,
		       r->error.at_ms);
	if (gaps[0].ms >= 0)
		printf("longest gap between completions: %.3f ms, %.3f ms into the run, qp %u; "
		       "itself away for %.3f ms of it\n",
		       gaps[0].ms, gaps[0].at_ms, gaps[0].lane, gaps[0].paused_ms);
	printf("%s\n", status ? "FAILED" : "ok");
}

void report(struct run *r, const struct counters *n, const struct verdict *peer, int status)
{
	struct gap gaps[GAPS_KEPT];

	merge_gaps(r, gaps);
	(opt.json ? report_json : report_lines)(r, n, peer, status, gaps);
}
