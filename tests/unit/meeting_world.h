/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A connection that looks for its peer, in the world of rooms.h; the test is the rendezvous, the
 * control links and the peer. */
#ifndef MEETING_WORLD_H
#define MEETING_WORLD_H

#include "tests/unit/rooms.h"

enum { NONCE = 0xa, PEER_NONCE = 0xb, PEER_ID = 70, PEER_QPN = 0x99 };

#define OUR_KEY	 "conn/fe000000000000000000000000000001-000010"
#define PEER_KEY "conn/aa0000000000000000000000000000bb-000099"

/* As it is published: its layout is fixed. */
struct record {
	uint8_t version, rails, pad[2];
	uint32_t id;
	uint64_t nonce;
	struct rail_addr rail[SHIFT_RAILS_MAX];
};

extern struct vqp *v;
extern struct record ours, theirs;    /* as they are published */
extern size_t our_bytes, their_bytes; /* 0: there is none */
extern unsigned int puts_n, gets_n;   /* calls of the rendezvous */
extern int put_result;		      /* what a put answers */
extern bool key_known, job_full;      /* the job's key; has a put been refused? */
extern bool answers, keep_for_peer;   /* the probes of all paths */
extern void (*on_enter)(void);	      /* what comes before a thread that wants the lock */
extern int peer_psn[SHIFT_RAILS_MAX]; /* what the statistics were told */

/* cmocka's set-up and tear-down; begin_looking: the QP is in RTS, and its record is published. */
int meeting_begin(void **state);
int meeting_begin_looking(void **state);
int meeting_end(void **state);

void start_and_look(void);

/* The peer's record, which is published by peer_comes() and while their_bytes is not 0. */
void reset_theirs(void);
void set_their_rails(uint8_t rails);
void peer_comes(void);

/* HELLO has matched. */
void become_active(void);

#endif
