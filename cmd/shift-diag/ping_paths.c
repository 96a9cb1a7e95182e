/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The pinger: meets responders, sends probes on all paths in turn, collects echoes. */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "cmd/shift-diag/ping.h"

enum { CONTROL_S = 10, RAILS_MAX = DIAG_NICS_MAX };

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- meeting -------------------------------------------------------------------------------- */

/* HOST, HOST:PORT, [ADDRESS]:PORT */
static void split_place(const char *place, char host[256], char port[16])
{
	const char *colon = strrchr(place, ':');
	bool has_port = colon && (strchr(place, ':') == colon || colon[-1] == ']');
	size_t n = has_port ? (size_t)(colon - place) : strlen(place);

	if (*place == '[' && n > 1 && place[n - 1] == ']') {
		place++;
		n -= 2;
	}
	snprintf(host, 256, "%.*s", (int)n, place);
	snprintf(port, 16, "%s", has_port ? colon + 1 : PING_PORT);
}

static int connect_one(const struct addrinfo *a)
{
	const struct timeval limit = {.tv_sec = CONTROL_S};
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)); /* of connect, too */
	if (!connect(fd, a->ai_addr, a->ai_addrlen))
		return fd;
	err = errno;
	close(fd);
	errno = err == EINPROGRESS ? ETIMEDOUT : err;
	return -1;
}

static FILE *connect_to(const char *place)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list = NULL;
	char host[256], port[16];
	int fd = -1, err;

	split_place(place, host, port);
	err = getaddrinfo(host, port, &hints, &list);
	if (err) {
		say("ping: %s: %s", place, gai_strerror(err));
		return NULL;
	}
	for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
		fd = connect_one(a);
	freeaddrinfo(list);
	if (fd >= 0)
		return check_alloc(fdopen(fd, "r+"));
	say("ping: %s: %s; is shift-diag ping --listen running there?", place, strerror(errno));
	return NULL;
}

struct peer_rail {
	char name[RAIL_NAME_MAX];
	union ibv_gid gid;
	uint16_t lid;
	uint32_t mtu, qpn, qkey;
};

/* Of one host. */
struct peer {
	const char *place;
	char host[256];
	FILE *control;
	struct peer_rail rail[RAILS_MAX];
	unsigned int rails;
};

static bool read_rail(struct peer *p, const char *line)
{
	struct peer_rail *r = p->rail + p->rails;
	char gid[33];

	if (p->rails == RAILS_MAX ||
	    sscanf(line, "rail %63s %32s %" SCNu16 " %" SCNu32 " %" SCNu32 " %" SCNu32, r->name,
		   gid, &r->lid, &r->mtu, &r->qpn, &r->qkey) != 6 ||
	    !ping_gid_read(gid, &r->gid) || r->mtu < 256 || r->mtu > 4096)
		return false;
	p->rails++;
	return true;
}

static bool read_greeting(struct peer *p)
{
	char line[PING_LINE_BYTES];

	if (!fgets(line, sizeof(line), p->control) ||
	    sscanf(line, "shift-ping 1 %255s", p->host) != 1)
		return false;
	while (fgets(line, sizeof(line), p->control)) {
		if (!strcmp(line, "end\n"))
			return true;
		if (!read_rail(p, line))
			return false;
	}
	return false;
}

/* Those that belong together: of the same name, or else at the same place. */
static bool belong_together(const struct ping_mesh *m, const struct ping_end *e,
			    const struct peer *p, unsigned int rail)
{
	unsigned int place = 0;

	for (unsigned int i = 0; i < p->rails; i++)
		if (!strcmp(p->rail[i].name, e->nic->rail.name))
			return i == rail;
	for (const struct ping_end *o = m->end; o < e; o++)
		place += o->nic != NULL;
	return place == rail;
}

/* Asks the responder; false: there is no answer. One that has gone does not end us by SIGPIPE. */
static bool ask(FILE *control, char line[PING_LINE_BYTES], const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static bool ask(FILE *control, char line[PING_LINE_BYTES], const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, PING_LINE_BYTES, fmt, ap);
	va_end(ap);
	return send(fileno(control), line, (size_t)n, MSG_NOSIGNAL) == n &&
	       fgets(line, PING_LINE_BYTES, control);
}

static const char *path_join(struct ping_path *path)
{
	char line[PING_LINE_BYTES], gid[33], *end;
	int err = ping_to_make(&path->to, path->end, &path->gid, path->lid);

	if (err)
		return format_text("%s cannot reach %s: %s", path->end->nic->rail.name,
				   diag_gid_text(&path->gid), strerror(-err));
	ping_gid_write(gid, &path->end->nic->gid.value);
	if (!ask(path->control, line, "pair %s %s %u %u %u\n", path->rail, gid,
		 path->end->nic->nic.port_attr.lid, path->end->qp->qp_num, path->end->qkey))
		return "the responder does not answer";
	if (sscanf(line, "session %" SCNu32, &path->session) == 1)
		return NULL;
	end = strchr(line, '\n');
	if (end)
		*end = 0;
	return format_text("%s", strncmp(line, "error ", 6) ? "an answer that is not understood"
							    : line + 6);
}

static void path_add(struct ping_mesh *m, struct ping_end *e, const struct peer *p,
		     const struct peer_rail *r)
{
	size_t messages = (size_t)m->plan->sizes * m->plan->count;
	struct ping_path *path = check_alloc(calloc(1, sizeof(*path))), **at = &m->paths;
	uint32_t own = e->nic->nic.mtu_bytes;

	path->end = e;
	path->gid = r->gid;
	path->lid = r->lid;
	path->to = (struct ping_to){.qpn = r->qpn, .qkey = r->qkey};
	path->mtu = own < r->mtu ? own : r->mtu;
	path->other_mtu = own == r->mtu ? 0 : r->mtu;
	path->control = p->control;
	snprintf(path->rail, sizeof(path->rail), "%s", r->name);
	snprintf(path->host, sizeof(path->host), "%.255s", p->place);
	snprintf(path->peer_host, sizeof(path->peer_host), "%s", p->host);
	path->sent_ns = check_alloc(calloc(messages, sizeof(*path->sent_ns)));
	path->parts = check_alloc(calloc(messages, sizeof(*path->parts)));
	for (unsigned int s = 0; s < m->plan->sizes; s++)
		path->result[s].rtt_ns = check_alloc(calloc(m->plan->count, sizeof(uint64_t)));
	path->error = path_join(path);
	while (*at)
		at = &(*at)->next;
	*at = path;
}

static bool path_has(const struct ping_mesh *m, const FILE *control)
{
	for (const struct ping_path *p = m->paths; p; p = p->next)
		if (p->control == control)
			return true;
	return false;
}

bool ping_meet(struct ping_mesh *m, const char *place)
{
	struct peer *p = check_alloc(calloc(1, sizeof(*p)));
	bool ok;

	p->place = place;
	p->control = connect_to(place);
	ok = p->control && read_greeting(p);
	if (p->control && !ok)
		say("ping: %s: what answers there is no shift-diag ping --listen of this version",
		    place);
	for (unsigned int i = 0; ok && i < m->nics.count; i++)
		for (unsigned int k = 0; m->end[i].nic && k < p->rails; k++)
			if (m->plan->cross || belong_together(m, m->end + i, p, k))
				path_add(m, m->end + i, p, p->rail + k);
	m->incomplete |= !ok;
	if (p->control && (!ok || !path_has(m, p->control)))
		fclose(p->control);
	free(p);
	return ok;
}

/* ---- probes --------------------------------------------------------------------------------- */

static uint32_t parts_of(const struct ping_path *path, uint32_t bytes)
{
	return (bytes + path->mtu - 1) / path->mtu;
}

/* The last part has what is left, but at least the least. */
static uint32_t part_bytes(const struct ping_path *path, uint32_t bytes, uint32_t part)
{
	uint32_t left = bytes - part * path->mtu;

	return left > path->mtu ? path->mtu : left < PING_BYTES_MIN ? PING_BYTES_MIN : left;
}

static void take_echo(struct ping_mesh *m, const struct ping_head *head)
{
	const struct ping_plan *plan = m->plan;
	uint64_t now = clock_ns();

	/* Whoever knows the queue pair can send what was never sent there. */
	if (head->kind != PING_ECHO || head->size >= plan->sizes ||
	    head->seq / plan->count != head->size)
		return;
	for (struct ping_path *p = m->paths; p; p = p->next) {
		struct ping_result *r = p->result + head->size;

		if (p->error || p->session != head->session)
			continue;
		r->echoed++;
		if (++p->parts[head->seq] == parts_of(p, plan->size[head->size]) &&
		    r->messages < plan->count)
			r->rtt_ns[r->messages++] = now - p->sent_ns[head->seq];
		return;
	}
}

static void take_echoes(struct ping_mesh *m)
{
	struct ping_head head;
	uint32_t bytes;

	for (unsigned int i = 0; i < m->nics.count; i++)
		while (m->end[i].nic && ping_take(m->end + i, &head, &bytes))
			take_echo(m, &head);
}

/* RTTs are read off while polling: a sleep would add to them. Others may want the processor, the
 * responder on the same host for one. */
static void take_until(struct ping_mesh *m, uint64_t until_ns)
{
	do {
		take_echoes(m);
		sched_yield();
	} while (clock_ns() < until_ns);
}

static void send_message(struct ping_mesh *m, struct ping_path *p, unsigned int size,
			 unsigned int i)
{
	struct ping_head head = {.magic = PING_MAGIC,
				 .session = p->session,
				 .seq = size * m->plan->count + i,
				 .size = size,
				 .kind = PING_PROBE};
	uint32_t bytes = m->plan->size[size];

	if (p->end->broken)
		ping_end_mend(p->end);
	p->sent_ns[head.seq] = clock_ns();
	for (head.part = 0; head.part < parts_of(p, bytes); head.part++) {
		p->result[size].sent++; /* what the NIC refuses is lost, too */
		if (!ping_send(p->end, &p->to, &head, part_bytes(p, bytes, head.part)))
			take_echoes(m);
	}
}

/* Has all come back that was sent? */
static bool is_complete(const struct ping_mesh *m)
{
	for (const struct ping_path *p = m->paths; p; p = p->next)
		for (unsigned int s = 0; !p->error && s < m->plan->sizes; s++)
			if (p->result[s].echoed < p->result[s].sent)
				return false;
	return true;
}

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* What the responder got. */
static const char *read_counts(struct ping_path *p, unsigned int sizes)
{
	char line[PING_LINE_BYTES], *at = line + strlen("counts");

	if (!ask(p->control, line, "counts %" PRIu32 "\n", p->session) ||
	    strncmp(line, "counts ", 7))
		return "the responder does not answer any more";
	for (unsigned int s = 0; s < sizes; s++)
		p->result[s].arrived = (uint32_t)strtoul(at, &at, 10);
	return NULL;
}

void ping_run(struct ping_mesh *m)
{
	const struct ping_plan *plan = m->plan;
	uint64_t last;

	for (unsigned int i = 0; i < plan->count; i++)
		for (unsigned int size = 0; size < plan->sizes; size++)
			for (struct ping_path *p = m->paths; p; p = p->next) {
				if (p->error)
					continue;
				send_message(m, p, size, i);
				take_until(m, clock_ns() + (uint64_t)plan->interval_us * 1000);
			}
	last = clock_ns() + (uint64_t)plan->wait_ms * 1000000;
	while (!is_complete(m) && clock_ns() < last)
		take_until(m, 0);
	for (struct ping_path *p = m->paths; p; p = p->next) {
		if (!p->error)
			p->error = read_counts(p, plan->sizes);
		for (unsigned int s = 0; s < plan->sizes; s++)
			qsort(p->result[s].rtt_ns, p->result[s].messages, sizeof(uint64_t),
			      compare_ns);
	}
}
