/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * shift-diag ping: datagrams (UD) over each pair of NICs, which the other end's shift-diag ping
 * --listen sends back. Loss in either direction is told apart, as the responder counts what it gets
 * and says so over TCP. A payload longer than a datagram is sent as several. One thread.
 *
 * A responder's line of greeting, then requests of the pinger with an answer each:
 *
 *   shift-ping 1 HOST                        first, from the responder
 *   rail NAME GID LID MTU QPN QKEY           for each NIC, then
 *   end
 *   pair NAME GID LID QPN QKEY               answer: session N, or error TEXT
 *   counts N                                 answer: counts C0 C1 ... of each size
 */
#ifndef SHIFT_DIAG_PING_H
#define SHIFT_DIAG_PING_H

#include <stdio.h>

#include "cmd/shift-diag/diag.h"
#include "cmd/shift-diag/nics.h"

enum {
	PING_SIZES_MAX = 16,
	PING_COUNT_MAX = 1000,
	PING_BYTES_MIN = 64,
	PING_BYTES_MAX = 65536,
	PING_LINE_BYTES = 512,
};

#define PING_PORT "29381"

/* ---- ping_end.c: a UD queue pair on a NIC -------------------------------------------------- */

struct ping_end {
	struct diag_nic *nic;
	struct ibv_comp_channel *channel; /* NULL: it is polled */
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *memory;
	size_t receive_bytes;
	uint32_t qkey;
	uint8_t free[64]; /* buffers for sends */
	unsigned int free_count;
	bool broken; /* a request failed: nothing goes before ping_end_mend() */
};

/* 0 or a negative errno; then nothing is open. */
int ping_end_open(struct ping_end *e, struct diag_nic *nic, bool with_channel);
void ping_end_close(struct ping_end *e);
int ping_end_mend(struct ping_end *e);

struct ping_to {
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
};

/* By the LID, if it is not 0. Resolves the address, which may take a second or more. */
int ping_to_make(struct ping_to *to, const struct ping_end *e, const union ibv_gid *gid,
		 uint16_t lid);

struct ping_head {
	uint32_t magic, session, seq, size, part, kind;
};

enum { PING_MAGIC = 0x73706e67, PING_PROBE = 1, PING_ECHO };

/* Sends a head and padding, bytes in all. False: there is no buffer, or the queue pair is broken.
 */
bool ping_send(struct ping_end *e, const struct ping_to *to, const struct ping_head *head,
	       uint32_t bytes);

/* The next datagram that is one of ours, and its length. False: there is none. */
bool ping_take(struct ping_end *e, struct ping_head *head, uint32_t *bytes);

/* 32 hexadecimal digits. */
void ping_gid_write(char text[33], const union ibv_gid *gid);
bool ping_gid_read(const char *text, union ibv_gid *gid);

/* ---- ping_listen.c -------------------------------------------------------------------------- */

/* Until interrupted. Returns an exit status. */
int ping_listen(const char *address, const char *port, struct diag_nics *nics);

/* ---- ping_paths.c: the pinger --------------------------------------------------------------- */

struct ping_plan {
	uint32_t size[PING_SIZES_MAX]; /* rising */
	unsigned int sizes, count;
	int64_t interval_us, wait_ms;
	bool cross;	 /* all NICs with all, not only those that belong together */
	const char *nic; /* from this one only; NULL: from all */
};

/* Datagrams of one size on one path. */
struct ping_result {
	uint32_t sent, arrived, echoed;
	uint32_t messages; /* that came back whole: so many RTTs */
	uint64_t *rtt_ns;  /* sorted at the end */
};

struct ping_path {
	struct ping_path *next;
	struct ping_end *end;
	char host[256], peer_host[256]; /* as the user called it; as it calls itself */
	char rail[RAIL_NAME_MAX];	/* the peer's */
	union ibv_gid gid;
	uint16_t lid; /* 0: RoCE */
	struct ping_to to;
	uint32_t mtu, session; /* mtu: of a datagram, bytes */
	uint32_t other_mtu;    /* the peer's; 0: the same */
	FILE *control;
	const char *error; /* it could not be tried, and why */
	struct ping_result result[PING_SIZES_MAX];
	uint64_t *sent_ns; /* of each message */
	uint16_t *parts;   /* of it that came back */
};

struct ping_mesh {
	const struct ping_plan *plan;
	struct diag_nics nics;
	struct ping_end end[DIAG_NICS_MAX];
	struct ping_path *paths;
	bool incomplete; /* a host or a NIC could not be tried */
};

/* Meets the responder at HOST or HOST:PORT. False, after a message: it is not there. */
bool ping_meet(struct ping_mesh *m, const char *host);
void ping_run(struct ping_mesh *m);

/* ---- ping_show.c ---------------------------------------------------------------------------- */

/* Loss of a direction in datagrams of a size, 0..1; negative: nothing is known. */
double ping_loss_forward(const struct ping_result *r);
double ping_loss_back(const struct ping_result *r);

/* Prints the matrix and the verdicts; returns an exit status. */
int ping_show(const struct ping_mesh *m, enum diag_format format);

#endif
