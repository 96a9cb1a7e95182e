/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * link_test: the control link, link events and probes of lib/verbs, between two hosts.
 *
 * Both sides do the same: exchange addresses over TCP, send --count datagrams of several records
 * each way and check every field of what arrives, then a few under a wrong key, which must be
 * refused. After that they report what they see, as JSON lines, for --seconds or until
 * the other side ends: the link up or down, probes answered or missed, heartbeats heard or not.
 *
 * Exit status: 0, 1 something was not as it should be, 2 bad usage.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/nic/probe.h"
#include "lib/base/background.h"
#include "lib/nic/ctrl_link.h"
#include "lib/nic/nic.h"
#include "common/standin.h"

enum {
	RECORDS = 5,
	BAD_DATAGRAMS = 3,
	PACE = 16,
	PATIENCE_MS = 20000,
	BEAT_MS = 50,
	ROUNDS = 10,
	ROUND_MS = 500
};

#define SILENCE_NS 500000000ull

static struct {
	const char *device, *peer, *port;
	uint32_t count, seconds;
} opt = {.device = "mlx5_0", .port = "18516", .count = 200, .seconds = 10};

/* In the machine's own layout: both are the same program. */
struct address {
	uint64_t nonce;
	struct ctrl_link_addr link;
	struct probe_addr probe;
};

static const uint64_t good_key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
static const uint64_t wrong_key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0909};

static struct address own, peer;
static struct nic *nic;
static struct probe *probe;
static int tcp;
static uint64_t start_ns;

/* Written on the background thread. */
static atomic_uint received, wrong;
static atomic_uchar *seen;
static atomic_bool probe_known, probe_connected, met;
static _Atomic uint64_t own_nonce, peer_nonce;
static _Atomic uint64_t heard_ns; /* the last heartbeat */
static unsigned int probes_answered, probes_missed;

static void say(const char *event, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(const char *event, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	printf("{\"t_ms\": %" PRIu64 ", \"event\": \"%s\"%s}\n", (now_ns() - start_ns) / 1000000,
	       event, line);
	fflush(stdout);
}

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "link_test: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- the other side, over TCP --------------------------------------------------------------- */

static void dial(const struct addrinfo *a)
{
	/* The other side may still be starting. */
	for (int i = 0; connect(tcp, a->ai_addr, a->ai_addrlen); i++) {
		if (i == 400)
			fail("connect");
		poll(NULL, 0, 50);
		close(tcp);
		tcp = socket(AF_INET, SOCK_STREAM, 0);
	}
}

static void meet(void)
{
	struct addrinfo *a, hints = {.ai_family = AF_INET,
				     .ai_socktype = SOCK_STREAM,
				     .ai_flags = opt.peer ? 0 : AI_PASSIVE};
	int on = 1;

	tcp = socket(AF_INET, SOCK_STREAM, 0);
	if (tcp < 0 || getaddrinfo(opt.peer, opt.port, &hints, &a))
		fail("getaddrinfo");
	setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (opt.peer) {
		dial(a);
	} else {
		if (bind(tcp, a->ai_addr, a->ai_addrlen) || listen(tcp, 1))
			fail("listen");
		tcp = accept(tcp, NULL, NULL);
	}
	freeaddrinfo(a);
}

/* Both arrive here before either goes on. */
static void exchange(const void *mine, void *theirs, size_t bytes)
{
	if (write(tcp, mine, bytes) != (ssize_t)bytes ||
	    recv(tcp, theirs, bytes, MSG_WAITALL) != (ssize_t)bytes)
		fail("exchange");
}

static void barrier(void)
{
	char c = 'b', d;

	exchange(&c, &d, 1);
}

static bool wait_for(bool (*done)(void), int patience_ms)
{
	for (int i = 0; i < patience_ms; i++) {
		if (done())
			return true;
		poll(NULL, 0, 1);
	}
	return false;
}

/* ---- messages ------------------------------------------------------------------------------ */

static struct shift_msg message(uint32_t n)
{
	return (struct shift_msg){.type = SHIFT_MSG_QUERY_PSN,
				  .dst_conn = n ^ 0x5a5a5a5a,
				  .src_conn = n * 2654435761u,
				  .epoch = n + 1,
				  .serial = n};
}

static void on_message(struct nic *from, const struct shift_msg *m)
{
	struct shift_msg expected = message(m->serial);

	if (m->type == SHIFT_MSG_NOT_YET) {
		heard_ns = now_ns();
		return;
	}
	expected.src_nonce = peer_nonce;
	expected.dst_nonce = own_nonce;
	if (from != nic || memcmp(m, &expected, sizeof(*m)) || m->serial >= opt.count * RECORDS) {
		wrong++;
		return;
	}
	if (!atomic_exchange(&seen[m->serial], 1))
		received++;
}

static void send_datagrams(struct ctrl_link_peer *to, uint32_t count)
{
	for (uint32_t n = 0; n < count * RECORDS; n++) {
		struct shift_msg m = message(n);

		ctrl_link_send(to, &m);
		if (n % RECORDS == RECORDS - 1)
			ctrl_link_flush(to);
		/* The receive ring is finite, and the other host may be slow. */
		if (n % (RECORDS * PACE) == 0)
			poll(NULL, 0, 5);
	}
}

static bool all_received(void)
{
	return received == opt.count * RECORDS;
}

static void say_stats(const char *event)
{
	struct ctrl_link_stats s;

	ctrl_link_stats(nic, &s);
	say(event,
	    ", \"records\": %u, \"wrong\": %u, \"sent\": %" PRIu64 ", \"received\": %" PRIu64
	    ", \"dropped\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"other_version\": %" PRIu64
	    ", \"misaddressed\": %" PRIu64 ", \"rebuilt\": %" PRIu64,
	    received, wrong, s.sent, s.received, s.dropped, s.refused, s.other_version,
	    s.misaddressed, s.rebuilt);
}

static bool all_refused(void)
{
	struct ctrl_link_stats s;

	ctrl_link_stats(nic, &s);
	return s.refused >= BAD_DATAGRAMS;
}

static bool some_lack(void)
{
	uint32_t mine = opt.count * RECORDS - received, theirs;

	exchange(&mine, &theirs, sizeof(mine));
	return mine || theirs;
}

static void messages(struct ctrl_link_peer *to)
{
	bool first = opt.peer;

	/* Datagrams may be lost, on a busy machine: again, until both have all. */
	for (int round = 0; round < ROUNDS && some_lack(); round++) {
		send_datagrams(to, opt.count);
		wait_for(all_received, ROUND_MS);
	}
	say_stats("messages");
	/* One after the other: with a wrong key, what comes in looks wrong too. */
	for (int turn = 0; turn < 2; turn++) {
		if (first == !turn) {
			ctrl_link_set_identity(own.nonce, wrong_key);
			send_datagrams(to, BAD_DATAGRAMS);
			ctrl_link_set_identity(own.nonce, good_key);
		} else {
			wait_for(all_refused, PATIENCE_MS);
		}
		barrier();
	}
	say_stats("wrong_key");
}

/* ---- what happens afterwards ---------------------------------------------------------------- */

/* Background thread; what it says are the changes. */
static void probe_result(void *arg, bool answered)
{
	static int last = -1;

	(void)arg;
	*(answered ? &probes_answered : &probes_missed) += 1;
	if (answered != last)
		say("probe", ", \"answered\": %s, \"rtt_us\": %" PRIu64,
		    answered ? "true" : "false", probe_rtt_ns(probe) / 1000);
	last = answered;
}

/* Once both have met, a new address is sent at once, as a rendezvous would. */
static void publish(void)
{
	ctrl_link_address(nic, &own.link);
	if (met && write(tcp, &own, sizeof(own)) != sizeof(own))
		fail("publish");
	if (met)
		say("address", ", \"serial\": %u", own.probe.serial);
}

static void address_changed(void *arg)
{
	(void)arg;
	if (probe_address(probe, &own.probe))
		fail("probe_address");
	publish();
	probe_known = true;
}

static void on_change(struct nic *which)
{
	struct ctrl_link_addr now;

	say("nic", ", \"name\": \"%s\", \"ready\": %d, \"link_up\": %d", which->name, which->ready,
	    which->link_up);
	ctrl_link_address(which, &now);
	if (met && memcmp(&now, &own.link, sizeof(now)))
		publish();
}

static void start_probe(void *arg)
{
	(void)arg;
	probe = probe_new(nic, probe_result, NULL);
	if (!probe)
		fail("probe_new");
	probe_on_address_change(probe, address_changed, NULL);
}

static void connect_probe(void *arg)
{
	(void)arg;
	probe_connect(probe, &peer.probe);
	probe_connected = true;
}

static void end_probe(void *arg)
{
	(void)arg;
	say("probes", ", \"answered\": %u, \"missed\": %u", probes_answered, probes_missed);
	probe_free(probe);
	probe_known = false;
}

static bool probe_is_known(void)
{
	return probe_known;
}

static bool probe_is_connected(void)
{
	return probe_connected;
}

static bool probe_is_gone(void)
{
	return !probe_known;
}

static void on_bg(void (*fn)(void *arg), bool (*until)(void))
{
	static struct bg_call call;

	call.fn = fn;
	bg_call(&call);
	if (until && !wait_for(until, PATIENCE_MS))
		fail("probe");
}

static bool nic_ready(void)
{
	return nic->ready;
}

/* A heartbeat over the control link; says when the peer's stop and come again. */
static void beat(struct ctrl_link_peer *to)
{
	const struct shift_msg m = {.type = SHIFT_MSG_NOT_YET};
	static bool heard;
	bool now = now_ns() - heard_ns < SILENCE_NS;

	ctrl_link_send(to, &m);
	ctrl_link_flush(to);
	if (now == heard)
		return;
	heard = now;
	say("control", ", \"heard\": %s", heard ? "true" : "false");
	if (heard)
		say_stats("stats");
}

/* The other side's new address; false: it has left. */
static bool moved(struct ctrl_link_peer **to)
{
	if (recv(tcp, &peer, sizeof(peer), MSG_WAITALL) != sizeof(peer))
		return false;
	ctrl_link_peer_free(*to);
	*to = ctrl_link_peer_new(nic, &peer.link, peer.nonce);
	probe_connected = false;
	on_bg(connect_probe, probe_is_connected);
	return *to;
}

static void watch(struct ctrl_link_peer **to)
{
	struct pollfd p = {.fd = tcp, .events = POLLIN};
	uint64_t end_ns = now_ns() + opt.seconds * 1000000000ull;

	while (now_ns() < end_ns)
		if (!poll(&p, 1, BEAT_MS))
			beat(*to);
		else if (!moved(to))
			return;
}

static void usage(FILE *f)
{
	fputs("usage: link_test [--device NAME] [--port TCP-PORT] [--count N] [--seconds N] "
	      "[PEER]\n",
	      f);
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"device", 1, NULL, 'd'},  {"port", 1, NULL, 'p'}, {"count", 1, NULL, 'n'},
		{"seconds", 1, NULL, 's'}, {"help", 0, NULL, 'h'}, {NULL, 0, NULL, 0},
	};
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (o) {
		case 'd': opt.device = optarg; break;
		case 'p': opt.port = optarg; break;
		case 'n': opt.count = (uint32_t)atoi(optarg); break;
		case 's': opt.seconds = (uint32_t)atoi(optarg); break;
		case 'h': usage(stdout); exit(0);
		default: usage(stderr); exit(2);
		}
	}
	opt.peer = argv[optind];
}

int main(int argc, char **argv)
{
	struct ctrl_link_peer *to;

	start_ns = now_ns();
	parse(argc, argv);
	standin_init();
	seen = calloc(opt.count, RECORDS);
	if (!seen || getrandom(&own.nonce, sizeof(own.nonce), 0) != sizeof(own.nonce))
		fail("getrandom");
	ctrl_link_set_identity(own.nonce, good_key);
	ctrl_link_on_message(on_message);
	nic_on_change(on_change);
	nic = nic_get(opt.device, 1);
	if (!nic || !wait_for(nic_ready, PATIENCE_MS))
		fail(opt.device);
	ctrl_link_address(nic, &own.link);
	on_bg(start_probe, probe_is_known);
	meet();
	exchange(&own, &peer, sizeof(own));
	own_nonce = own.nonce;
	peer_nonce = peer.nonce;
	to = ctrl_link_peer_new(nic, &peer.link, peer.nonce);
	messages(to);
	on_bg(connect_probe, probe_is_connected);
	met = true;
	watch(&to);
	on_bg(end_probe, probe_is_gone);
	say_stats("end");
	ctrl_link_peer_free(to);
	free(seen);
	return 0;
}
