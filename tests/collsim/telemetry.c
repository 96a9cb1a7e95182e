/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What switches have counted, in the form of the recorded data. They are asked as Vedrfolnir does:
 * a message whose round trip takes more than 120 % of what it takes in an idle network asks the
 * switches of its way, three times at most, each a third of its duration after the last; from a
 * port that is paused the question goes on to the switch that pauses it. What a step has left of
 * these three goes to the step that its rank then waits for, as in the paper's figure 7.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/collsim/scenario.h"

static const double RTT_FACTOR = 1.2;

enum { POLLS = 3 };

static int64_t epoch_now(const struct net *n)
{
	return (int64_t)(n->now / NET_TELEMETRY_NS);
}

/* The counts of a flow at a hop in the present epoch, or the one before; NULL: none. */
static const struct hop_count *counted(const struct flow *f, int h, int64_t epoch)
{
	if (f->now && f->now[h].bytes > 0 && f->now[h].epoch == epoch)
		return f->now + h;
	if (f->last && f->last[h].bytes > 0 && f->last[h].epoch == epoch)
		return f->last + h;
	return NULL;
}

static void print_flow(FILE *out, const struct flow *f, const struct hop_count *c)
{
	uint64_t key = rng_mix(f->src * 65536 + f->sport, f->dst * 65536 + f->dport) % 4096;

	fprintf(out, "%d 0b%04x01 0b%04x01 %d %d 17 %.0f %.0f %.0f %.0f %.0f\n", (int)key, f->src,
		f->dst, f->sport, f->dport, c->first, c->last, ceil(c->bytes / NET_PACKET_BYTES),
		c->ahead, c->paused / NET_PACKET_BYTES);
}

static bool was_paused(const struct net *n, int port)
{
	return n->port[port].paused || n->now - n->port[port].paused_at < 2 * NET_TELEMETRY_NS;
}

/* As in the recorded data: only of ports that are halted, and of the present epoch. */
static void print_meters(FILE *out, const struct net *n, int port, int64_t epoch)
{
	for (int from = 0; from < n->ports; from++) {
		double bytes = 0;

		if (n->port[from].peer != n->port[port].node || n->port[from].back == NET_NONE ||
		    !was_paused(n, from))
			continue;
		for (int i = 0; i < n->flows; i++)
			for (int h = 1; h < n->flow[i].hops; h++)
				if (n->flow[i].path[h] == port && n->flow[i].path[h - 1] == from &&
				    counted(n->flow + i, h, epoch))
					bytes += counted(n->flow + i, h, epoch)->bytes;
		if (bytes > 0)
			fprintf(out,
				"traffic meter form port %d to port %d\nportToPortBytes\n%.0f\n\n",
				n->port[n->port[from].back].number, n->port[port].number, bytes);
	}
}

static void print_port(FILE *out, const struct net *n, int port, int64_t epoch)
{
	int number = n->port[port].number;
	double ahead = 0, paused = 0, packets = 0;

	for (int pass = 0; pass < 2; pass++) {
		if (pass)
			fprintf(out,
				"port telemetry data for port %d\n"
				"enqQdepth pfcPausedPacketNum packetNum\n%.0f %.0f %.0f\n\n"
				"flow telemetry data for port %d\n"
				"flowIdx srcIp dstIp srcPort dstPort protocol minSeq maxSeq "
				"packetNum enqQdepth pfcPausedPacketNum\n",
				number, ahead, paused, packets, number);
		for (int i = 0; i < n->flows; i++)
			for (int h = 1; h < n->flow[i].hops; h++) {
				const struct hop_count *c = counted(n->flow + i, h, epoch);

				if (n->flow[i].path[h] != port || !c)
					continue;
				if (pass)
					print_flow(out, n->flow + i, c);
				ahead += c->ahead;
				paused += c->paused / NET_PACKET_BYTES;
				packets += ceil(c->bytes / NET_PACKET_BYTES);
			}
	}
	fprintf(out, "\n");
}

static void print_block(struct collsim *s, FILE *out, const int *port, int ports, bool signal)
{
	const struct net *n = &s->job.topology.net;

	fprintf(out, "time %.0f\n\n%s\n\n", n->now, signal ? "signal" : "polling");
	for (int back = 0; back < 2; back++) {
		fprintf(out, "epoch %s\n\n", back ? "last" : "now");
		for (int i = 0; i < ports; i++) {
			if (signal && !back)
				print_meters(out, n, port[i], epoch_now(n));
			print_port(out, n, port[i], epoch_now(n) - back);
		}
	}
	fprintf(out, "end\n\n");
}

static void add_text(struct collsim *s, int at, const char *text, size_t bytes)
{
	int switches = s->job.topology.net.switches;

	if (!s->telemetry) {
		s->telemetry = calloc(switches, sizeof(*s->telemetry));
		s->telemetry_bytes = calloc(switches, sizeof(*s->telemetry_bytes));
	}
	if (!s->telemetry || !s->telemetry_bytes)
		abort();
	s->telemetry[at] = realloc(s->telemetry[at], s->telemetry_bytes[at] + bytes + 1);
	if (!s->telemetry[at])
		abort();
	memcpy(s->telemetry[at] + s->telemetry_bytes[at], text, bytes + 1);
	s->telemetry_bytes[at] += bytes;
}

static void ask(struct collsim *s, int at, const int *port, int ports, bool signal)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		abort();
	print_block(s, out, port, ports, signal);
	fclose(out);
	add_text(s, at, text, bytes);
	free(text);
}

/* Has something come from the port from to this one lately? */
static bool feeds(const struct net *n, int from, int port)
{
	for (int i = 0; i < n->flows; i++)
		for (int h = 1; h < n->flow[i].hops; h++)
			if (n->flow[i].path[h] == port && n->flow[i].path[h - 1] == from &&
			    (n->flow[i].queue[h] > 0 || counted(n->flow + i, h, epoch_now(n)) ||
			     counted(n->flow + i, h, epoch_now(n) - 1)))
				return true;
	return false;
}

/* The switch behind a paused port: which of its ports took what came from there, and so on. */
static void follow(struct collsim *s, int paused, int depth)
{
	const struct net *n = &s->job.topology.net;
	int at = n->port[paused].peer, found[64] = {0}, founds = 0;

	if (at >= n->switches || depth > 6)
		return;
	for (int i = 0; i < n->ports && founds < 64; i++)
		if (n->port[i].node == at && feeds(n, paused, i))
			found[founds++] = i;
	ask(s, at, found, founds, true);
	for (int i = 0; i < founds; i++)
		if (was_paused(n, found[i]))
			follow(s, found[i], depth + 1);
}

static void ask_all(struct collsim *s, const struct flow *f)
{
	const struct net *n = &s->job.topology.net;

	for (int h = 1; h < f->hops; h++) {
		if (n->port[f->path[h]].node >= n->switches)
			continue;
		ask(s, n->port[f->path[h]].node, f->path + h, 1, false);
	}
	for (int h = 0; h < f->hops; h++)
		if (n->port[f->path[h]].number && was_paused(n, f->path[h]))
			follow(s, f->path[h], 0);
}

/* The longest that a packet of the flow has waited at a port lately. Each is acknowledged, so none
 * is missed. */
static double waited(const struct net *n, const struct flow *f, int h)
{
	const struct port *p = n->port + f->path[h];
	double wait = p->queue / port_rate(p);

	for (int back = 0; back < 2; back++) {
		const struct hop_count *c = counted(f, h, epoch_now(n) - back);

		if (c)
			wait = fmax(wait, c->most / port_rate(p));
	}
	return p->paused ? INFINITY : wait;
}

static bool is_late(const struct net *n, const struct flow *f)
{
	double wait = f->sunk || n->port[f->path[0]].paused ? INFINITY : 0;

	for (int h = 1; h < f->hops; h++)
		wait += waited(n, f, h);
	return wait > (RTT_FACTOR - 1) * 2 * f->latency_ns;
}

void telemetry_poll(struct job *j, int conn, int message, int began)
{
	struct collsim *s = j->arg;
	const struct conn *c = j->conn + conn;
	const struct net *n = &j->topology.net;
	const struct flow *f = n->flow + c->flow;
	int *polls = &j->op[c->message[message].op].xfer[c->message[message].xfer].polls;
	double begin = message ? c->message[message - 1].end : 0;
	double alone = (c->message[message].end - begin) / n->port[f->path[0]].line,
	       next = alone / 40;

	if (began)
		*polls += POLLS;
	if (c->delivered > message)
		return;
	if (*polls && c->message[message].posted < n->now && is_late(n, f)) {
		ask_all(s, f);
		--*polls;
		next = alone / POLLS;
	}
	job_at(j, n->now + next, EVENT_POLL, conn, message, 0);
}

/* What the rank's next step needs and has not got; NULL: nothing. */
static struct xfer *waits_for(const struct op *op, const struct xfer *x)
{
	for (int i = 0; i < op->xfers; i++) {
		const struct xfer *next = op->xfer + i;

		if (next->src != x->src || next->step != x->step + 1)
			continue;
		for (int d = 0; d < next->deps; d++)
			if (op->xfer[next->dep[d]].taken < op->xfer[next->dep[d]].slices)
				return op->xfer + next->dep[d];
	}
	return NULL;
}

void telemetry_step_over(struct job *j, int conn, int message)
{
	const struct message *m = j->conn[conn].message + message;
	const struct op *op = j->op + m->op;
	struct xfer *mine = op->xfer + m->xfer, *other = waits_for(op, mine);

	if (other)
		other->polls += mine->polls;
	mine->polls = 0;
}
