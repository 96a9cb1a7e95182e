/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The responder. A client that sends nonsense is dropped; clients and sessions are bounded. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/live/live.h"
#include "cmd/shift-diag/ping.h"

enum { CLIENTS_MAX = 64, SESSIONS_MAX = 64, MEND_MS = 100 };

/* A path of a client. */
struct session {
	uint32_t id;
	struct ping_end *end;
	struct ping_to to;
	uint32_t arrived[PING_SIZES_MAX];
};

struct client {
	int fd; /* 0: free */
	char line[PING_LINE_BYTES];
	size_t have;
	struct session session[SESSIONS_MAX];
	unsigned int sessions;
};

struct responder {
	int fd;
	struct ping_end end[DIAG_NICS_MAX];
	unsigned int ends;
	struct client client[CLIENTS_MAX];
};

/* ---- the control connection ----------------------------------------------------------------- */

static void client_drop(struct client *c)
{
	for (unsigned int i = 0; i < c->sessions; i++)
		ibv_destroy_ah(c->session[i].to.ah);
	close(c->fd);
	memset(c, 0, sizeof(*c));
}

/* The answer is short, and a client that does not read it is dropped. */
static void answer(struct client *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void answer(struct client *c, const char *fmt, ...)
{
	char line[PING_LINE_BYTES];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (c->fd && send(c->fd, line, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) != n)
		client_drop(c);
}

static void greet(struct responder *r, struct client *c)
{
	char host[256] = "?", gid[33];

	gethostname(host, sizeof(host) - 1);
	answer(c, "shift-ping 1 %s\n", host);
	for (unsigned int i = 0; i < r->ends; i++) {
		const struct ping_end *e = r->end + i;

		ping_gid_write(gid, &e->nic->gid.value);
		answer(c, "rail %s %s %u %u %u %u\n", e->nic->rail.name, gid,
		       e->nic->nic.port_attr.lid, e->nic->nic.mtu_bytes, e->qp->qp_num, e->qkey);
	}
	answer(c, "end\n");
}

static struct ping_end *end_named(struct responder *r, const char *name)
{
	for (unsigned int i = 0; i < r->ends; i++)
		if (!strcmp(r->end[i].nic->rail.name, name))
			return r->end + i;
	return NULL;
}

static void obey_pair(struct responder *r, struct client *c, const char *line)
{
	struct session s = {0};
	char name[RAIL_NAME_MAX], text[33];
	union ibv_gid gid;
	uint16_t lid;
	int err;

	if (sscanf(line, "pair %63s %32s %" SCNu16 " %" SCNu32 " %" SCNu32, name, text, &lid,
		   &s.to.qpn, &s.to.qkey) != 5 ||
	    !ping_gid_read(text, &gid) || c->sessions == SESSIONS_MAX ||
	    !(s.end = end_named(r, name))) {
		answer(c, "error no such NIC, or too many paths\n");
		return;
	}
	err = ping_to_make(&s.to, s.end, &gid, lid);
	if (err) {
		answer(c, "error %s cannot reach %s: %s\n", name, diag_gid_text(&gid),
		       strerror(-err));
		return;
	}
	if (getrandom(&s.id, sizeof(s.id), 0) != sizeof(s.id))
		s.id = (uint32_t)now_ms();
	c->session[c->sessions++] = s;
	answer(c, "session %" PRIu32 "\n", s.id);
}

static void obey_counts(struct client *c, const char *line)
{
	char text[PING_SIZES_MAX * 12] = "";
	size_t n = 0;
	uint32_t id;

	if (sscanf(line, "counts %" SCNu32, &id) != 1) {
		client_drop(c);
		return;
	}
	for (unsigned int i = 0; i < c->sessions; i++) {
		if (c->session[i].id != id)
			continue;
		for (int k = 0; k < PING_SIZES_MAX; k++)
			n += (size_t)sprintf(text + n, " %" PRIu32, c->session[i].arrived[k]);
		answer(c, "counts%s\n", text);
		return;
	}
	client_drop(c);
}

static void client_obey(struct responder *r, struct client *c)
{
	if (!strncmp(c->line, "pair ", 5))
		obey_pair(r, c, c->line);
	else if (!strncmp(c->line, "counts ", 7))
		obey_counts(c, c->line);
	else
		client_drop(c);
}

static void client_read(struct responder *r, struct client *c)
{
	ssize_t n = recv(c->fd, c->line + c->have, sizeof(c->line) - 1 - c->have, MSG_DONTWAIT);
	char *end;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || c->have + (size_t)n >= sizeof(c->line) - 1) {
		client_drop(c);
		return;
	}
	c->have += (size_t)n;
	c->line[c->have] = 0;
	/* One request at a time: the next comes behind its answer. */
	end = strchr(c->line, '\n');
	if (!end)
		return;
	*end = 0;
	c->have = 0;
	client_obey(r, c);
}

static void client_accept(struct responder *r)
{
	int fd = accept4(r->fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (!r->client[i].fd) {
			r->client[i].fd = fd;
			greet(r, r->client + i);
			return;
		}
	close(fd);
}

/* ---- datagrams ------------------------------------------------------------------------------ */

static struct session *session_of(struct responder *r, const struct ping_end *e, uint32_t id)
{
	for (int i = 0; i < CLIENTS_MAX; i++)
		for (unsigned int k = 0; k < r->client[i].sessions; k++)
			if (r->client[i].session[k].id == id && r->client[i].session[k].end == e)
				return r->client[i].session + k;
	return NULL;
}

static void end_serve(struct responder *r, struct ping_end *e)
{
	struct ping_head head;
	struct session *s;
	uint32_t bytes;

	while (ping_take(e, &head, &bytes)) {
		s = session_of(r, e, head.session);
		if (!s || head.kind != PING_PROBE || head.size >= PING_SIZES_MAX)
			continue;
		s->arrived[head.size]++;
		head.kind = PING_ECHO;
		ping_send(e, &s->to, &head, bytes);
	}
}

static void end_ready(struct responder *r, struct ping_end *e)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(e->channel, &cq, &context))
		return;
	ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(cq, 0);
	end_serve(r, e);
}

/* ---- */

static int socket_listen(const char *address, const char *port)
{
	const struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
	struct addrinfo *list, *a;
	int fd = -1, on = 1, off = 0, err = getaddrinfo(address, port, &hints, &list);

	if (err)
		die(EXIT_BAD_USAGE, "ping: --bind %s: %s", address ? address : "",
		    gai_strerror(err));
	for (a = list; a && a->ai_family != AF_INET6 && a->ai_next; a = a->ai_next)
		; /* one that takes both families, if there is one */
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (a->ai_family == AF_INET6)
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	}
	if (fd < 0 || bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, CLIENTS_MAX))
		die(EXIT_FAILED, "ping: port %s: %s", port, strerror(errno));
	freeaddrinfo(list);
	return fd;
}

static void ends_open(struct responder *r, struct diag_nics *nics)
{
	for (unsigned int i = 0; i < nics->count; i++) {
		struct diag_nic *n = nics->nic + i;
		const char *trouble = n->gid_index < 0 || n->err ? diag_nic_trouble(n) : NULL;
		int err;

		if (n->nic.port != 1)
			continue;
		if (trouble) {
			say("ping: %s does not answer: %s", n->rail.name, trouble);
			continue;
		}
		err = ping_end_open(r->end + r->ends, n, true);
		if (err)
			say("ping: %s does not answer: %s", n->rail.name, strerror(-err));
		else
			r->ends++;
	}
}

/* Mends what is broken, and says how long to wait. */
static int ends_look(struct responder *r)
{
	int timeout = -1;

	for (unsigned int i = 0; i < r->ends; i++)
		if (r->end[i].broken && ping_end_mend(r->end + i))
			timeout = MEND_MS;
	return timeout;
}

static void responder_turn(struct responder *r)
{
	struct pollfd p[1 + DIAG_NICS_MAX + CLIENTS_MAX] = {{.fd = r->fd, .events = POLLIN}};
	struct client *who[CLIENTS_MAX];
	nfds_t n = 1, clients = 0;

	for (unsigned int i = 0; i < r->ends; i++)
		p[n++] = (struct pollfd){.fd = r->end[i].channel->fd, .events = POLLIN};
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (r->client[i].fd) {
			who[clients++] = r->client + i;
			p[n++] = (struct pollfd){.fd = r->client[i].fd, .events = POLLIN};
		}
	if (poll(p, n, ends_look(r)) <= 0)
		return;
	for (unsigned int i = 0; i < r->ends; i++)
		if (p[1 + i].revents)
			end_ready(r, r->end + i);
	for (nfds_t i = 0; i < clients; i++)
		if (p[1 + r->ends + i].revents)
			client_read(r, who[i]);
	if (p[0].revents)
		client_accept(r);
}

int ping_listen(const char *address, const char *port, struct diag_nics *nics)
{
	struct responder *r = check_alloc(calloc(1, sizeof(*r)));

	ends_open(r, nics);
	if (!r->ends)
		die(EXIT_UNDECIDED, "ping: no NIC can answer; see shift-diag rails");
	r->fd = socket_listen(address, port);
	printf("listening at port %s, with %u NIC%s\n", port, r->ends, r->ends == 1 ? "" : "s");
	fflush(stdout);
	live_catch_end();
	while (!live_is_interrupted())
		responder_turn(r);
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (r->client[i].fd)
			client_drop(r->client + i);
	for (unsigned int i = 0; i < r->ends; i++)
		ping_end_close(r->end + i);
	close(r->fd);
	free(r);
	return EXIT_FINE;
}
