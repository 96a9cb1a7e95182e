/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The supervisor's own state: one thread, one loop (supervisor.c); what clients ask (requests.c).
 */
#ifndef SHIFT_TESTBED_SUPERVISOR_H
#define SHIFT_TESTBED_SUPERVISOR_H

#include "testbed/machine.h"

enum { MAX_CLIENTS = 160 };

struct rail {
	char nic[32], netdev[32], address[64];
	int gid_index;
	bool cable_up;
};

/* A host as users name it: in the single layout two hosts share a machine. */
struct host {
	char name[64];
	char letter; /* a or b: the name that every layout knows */
	struct machine *machine;
	struct rail rails[MAX_RAILS];
	int rail_count;
};

enum client_kind {
	CLIENT_FREE,
	CLIENT_NEW,  /* has not asked for anything that lasts */
	CLIENT_WAIT, /* `up`, which waits until the hosts are ready; the testbed ends if it
			disconnects */
	CLIENT_EXEC, /* its frames are passed to the agent, as stream number index + 1 */
	CLIENT_CONSOLE,
	CLIENT_DOWN, /* gets its answer when all is gone */
	CLIENT_GONE, /* has disconnected, but its command runs; the place is free when that has
			ended */
};

struct client {
	enum client_kind kind;
	struct chan chan;
	struct machine *machine;
	bool command_runs;
};

struct supervisor {
	const struct plan *plan;
	const struct state *state;
	struct machine machines[MAX_HOSTS];
	int machine_count;
	struct host hosts[MAX_HOSTS];
	struct client clients[MAX_CLIENTS];
	int listen_fd, signal_fd;
	int64_t started_ms, lease_ends_ms; /* 0: no lease */
	bool ready, ending;
};

/* Hands a client's frame to whom it is for. */
void request_frame(struct supervisor *s, struct client *c, const struct frame *f,
		   const uint8_t *payload);

/* Answers with {"error": why, "exit": status}. */
void request_refuse(struct client *c, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Answers with {}. */
void request_done(struct client *c);

#endif
