/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/live/live.h"
#include "lib/stats/summary.h"

static void show_life(const struct process *p)
{
	const struct stats_header *h = &p->copy.h;
	time_t opened = (time_t)(h->opened_real_ns / 1000000000);
	struct tm tm;
	char when[32] = "";

	if (localtime_r(&opened, &tm))
		strftime(when, sizeof(when), "%F %T", &tm);
	switch (p->copy.life) {
	case STATS_RUNNING: printf("since %s", when); return;
	case STATS_ENDED: printf("ENDED, began %s", when); return;
	case STATS_DEAD:
		printf("%s, began %s", p->is_crash ? "CRASH RECORD" : "DEAD, its file was left",
		       when);
		return;
	case STATS_UNKNOWN: break;
	}
	printf("of host %s, or in a container, began %s", shown(h->host), when);
}

const char *live_peer(char *to, size_t bytes, const struct stats_conn *c)
{
	static const uint8_t v4[12] = {[10] = 0xff, 0xff}, none[16];
	char address[INET6_ADDRSTRLEN] = "";

	if (!memcmp(c->peer_gid, v4, sizeof(v4)))
		inet_ntop(AF_INET, c->peer_gid + 12, address, sizeof(address));
	else if (memcmp(c->peer_gid, none, sizeof(none)))
		inet_ntop(AF_INET6, c->peer_gid, address, sizeof(address));
	if (!*address && !*c->peer_host && !c->peer_qpn)
		return "-";
	snprintf(to, bytes, "%s/%" PRIu32,
		 *c->peer_host ? shown(c->peer_host)
		 : *address    ? address
			       : "?",
		 c->peer_qpn);
	return to;
}

/* Why the connection is not protected, or how far the peer NIC's rq_psn can be trusted. */
static void show_protection(const struct stats_conn *c)
{
	if (!c->is_protected)
		printf("no: %s", stats_unprotected_text(c->unprotected));
	else if (c->state == SHIFT_ST_SETUP) /* others are protected only later */
		printf("yes, connected to itself");
	else
		printf("yes, rq_psn %s", stats_psn_name(c->psn[c->rail]));
}

static void show_conn(const struct stats_conn *c)
{
	char peer[128], rail[48], moves[48] = "0", outage[16];

	snprintf(rail, sizeof(rail), "%u %s", c->rail, shown(c->nic[c->rail]));
	if (c->moves)
		snprintf(moves, sizeof(moves), "%" PRIu64 ", <= %s", c->moves,
			 show_ns(outage, c->outage_max_ns));
	printf("  %-8" PRIu32 " %-22s %-11s %-10s %5" PRIu32 "  %-14s ", c->qpn,
	       live_peer(peer, sizeof(peer), c), rail, shift_state_name(c->state), c->epoch, moves);
	show_protection(c);
	putchar('\n');
}

static void show_bypass(const struct stats_now *now)
{
	for (int i = 0; i < STATS_BYPASS_MAX; i++)
		if (now->bypass[i].count)
			printf("  %" PRIu32 " not protected on %s: %s\n", now->bypass[i].count,
			       shown(now->bypass[i].nic),
			       stats_unprotected_text(now->bypass[i].reason));
	if (now->conns_refused)
		printf("  %" PRIu64 " more connections are not shown: its statistics had no room\n",
		       now->conns_refused);
}

/* "380 on mlx5_0 (12 queue pairs)"; *before is put before it, and is another for the next one. */
static void show_srq_nic(const struct stats_srq *q, unsigned int rail, const char **before)
{
	const struct stats_srq_nic *n = q->now.nic + rail;

	if (!n->receives && !n->live)
		return;
	fputs(*before, stdout);
	*before = ", ";
	printf("%" PRIu32 " on %s", n->receives, shown(q->nic[rail]));
	if (n->live)
		printf(" (%" PRIu32 " queue pair%s)", n->live, n->live == 1 ? "" : "s");
}

/* What is not as it should be there. */
static void show_srq_trouble(const struct stats_srq *q, unsigned int rail)
{
	const struct stats_srq_nic *n = q->now.nic + rail;
	const char *nic = shown(q->nic[rail]);

	if (n->held)
		printf("    %" PRIu32 " on %s that it does not give back\n", n->held, nic);
	if (n->stuck)
		printf("    %s gave nothing back when it was asked last; it is asked again\n", nic);
	if (n->ghosts)
		printf("    %" PRIu32
		       " old ones may still be in %s: no queue pair moves there before"
		       " they are out\n",
		       n->ghosts, nic);
}

static void show_srq(const struct stats_srq *q)
{
	const char *before = ": ";

	printf("  shared receive queue %" PRIu64 ": %" PRIu32 " receives posted, room for %" PRIu32,
	       q->id, q->now.posted, q->now.room);
	for (unsigned int i = 0; i < q->rails; i++)
		show_srq_nic(q, i, &before);
	if (q->now.waiting)
		printf("%s%" PRIu32 " wait for a NIC", before, q->now.waiting);
	putchar('\n');
	for (unsigned int i = 0; i < q->rails; i++)
		show_srq_trouble(q, i);
}

static void show_srqs(const struct stats_copy *copy)
{
	for (size_t i = 0; i < copy->srq_count; i++)
		show_srq(copy->srqs + i);
	if (copy->h.now.srqs_refused)
		printf("  %" PRIu64
		       " more shared receive queues are not shown: its statistics had no"
		       " room\n",
		       copy->h.now.srqs_refused);
}

static void process_show(const struct process *p)
{
	const struct stats_header *h = &p->copy.h;
	struct shift_conn_stats counters = stats_sum(&p->copy);
	char line[512];

	printf("job %s, process %" PRIu32 " %s, ", shown(h->job), h->pid, shown(h->comm));
	if (p->copy.owner != geteuid())
		printf("by user %u, ", p->copy.owner);
	show_life(p);
	printf("\n  %s\n", shown(h->command));
	if (p->copy.conn_count)
		printf("  %-8s %-22s %-11s %-10s %5s  %-14s %s\n", "QPN", "PEER", "RAIL", "STATE",
		       "EPOCH", "MOVES, OUTAGE", "PROTECTED");
	for (size_t i = 0; i < p->copy.conn_count; i++)
		show_conn(p->copy.conns + i);
	show_srqs(&p->copy);
	show_bypass(&h->now);
	if (stats_summary(line, sizeof(line), &h->now, &counters))
		printf("  %s\n", line);
	if (p->copy.torn)
		puts("  it died while it changed these statistics: a part of them may be wrong");
}

static void processes_show_json(const struct processes *found)
{
	cJSON *o = cJSON_CreateObject(), *processes;

	cJSON_AddNumberToObject(o, "schema_version", STATS_SCHEMA_VERSION);
	processes = cJSON_AddArrayToObject(o, "processes");
	for (const struct process *p = found->first; p; p = p->next) {
		cJSON *process = stats_json_process(&p->copy);

		cJSON_AddStringToObject(process, "file", p->path);
		cJSON_AddBoolToObject(process, "crash_record", p->is_crash);
		cJSON_AddItemToArray(processes, process);
	}
	processes_add_cut(o, &found->cut);
	live_print_json(o, false);
}

void live_show_status(const struct processes *found, const struct live_select *which, bool json)
{
	if (json)
		processes_show_json(found);
	else if (!found->first && !which->job && !which->pid)
		puts("no protected process runs here");
	else
		for (const struct process *p = found->first; p; p = p->next)
			process_show(p);
}

bool live_status(const struct live_select *which, bool json, int none_status)
{
	struct processes found = processes_read(which, false);

	live_show_status(&found, which, json);
	if (!found.first && (which->job || which->pid))
		die_none(which, none_status);
	processes_free(&found);
	return !fflush(stdout);
}
