/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A connection that looks for its peer, in the world of rooms.h; the test is the rendezvous, the
 * control links and the peer. */
#ifndef MEETING_WORLD_H
#define MEETING_WORLD_H

#include "tests/unit/rooms.h"

enum { NONCE = 0xa, PEER_NONCE = 0xb, OTHER_NONCE = 0xd, PEER_ID = 70, PEER_QPN = 0x99 };

#define PEER_KEY "rail/aa0000000000000000000000000000bb/000000000000000b"

/* Of another process behind the peer's GID. */
#define OTHER_KEY "rail/aa0000000000000000000000000000bb/000000000000000d"

/* An end of a connection, as it is told. */
struct end_record {
	uint8_t rails;
	uint32_t id;
	uint64_t nonce;
	struct rail_addr rail[SHIFT_RAILS_MAX];
};

extern struct vqp *v;
extern struct end_record ours, theirs; /* as they are told */
extern uint32_t our_serial, our_heard; /* as we said last */
extern uint32_t their_serial;
extern uint32_t peer_qpn; /* of the QP that ours is connected to */
extern int they_lose;	  /* the rail that gets lost, or -1 */
extern int they_twist;	  /* 1 .. 4: a GID or QPN that they say is another; 0: none */
extern unsigned int puts_n, watches_n, unwatches_n; /* calls of the rendezvous */
extern int put_result;				    /* what a put answers */
extern char put_key[128], watched[128];
extern unsigned int gid_looks; /* how often a NIC was asked for its GIDs */
extern int gid_missing;	       /* the NIC that has none, or -1 */
extern uint32_t moved;	       /* our control links have another address by this */

/* What a process puts into the rendezvous. Its layout is fixed. */
struct rail_record {
	uint8_t version, pad[7];
	uint64_t nonce;
	struct ctrl_link_addr link;
	uint64_t tag;
};
extern struct rail_record put_value;
uint64_t record_tag(const char *key, const struct rail_record *r);
extern unsigned int told_n, asked_n;  /* how often our end was told whole; and asked for theirs */
extern const char *told_over;	      /* the link it was told over last */
extern unsigned int told_nics;	      /* mask of our NICs over which it was told */
extern uint64_t contact_nonce;	      /* to whom a contact spoke last; 0: to none */
extern bool key_known, job_full;      /* the job's key; has a put been refused? */
extern bool crowd;		      /* there are other processes than the peer's */
extern bool answers, keep_for_peer;   /* the probes of all paths */
extern void (*on_enter)(void);	      /* what comes before a thread that wants the lock */
extern int peer_psn[SHIFT_RAILS_MAX]; /* what the statistics were told */
extern struct shown_peer {
	union ibv_gid gid;
	uint32_t qpn;
	uint64_t nonce;
} shown_peer; /* they, too */

/* cmocka's set-up and tear-down; begin_looking: the QP is in RTS, and the peer's process is known.
 */
int meeting_begin(void **state);
int meeting_begin_looking(void **state);
int meeting_end(void **state);

void start_and_look(void);

/* A process behind the peer's GID, the peer's own, OTHER_NONCE or any, puts its record into the
 * rendezvous. */
void they_publish(void);
void other_publishes(void);
void they_publish_as(uint64_t nonce);

/* The peer's end, which is told by they_tell() with a new serial, and by they_say() as it is, over
 * our NIC; what we have told is acknowledged. */
void reset_theirs(void);
void they_say(unsigned int nic, bool ask);
void they_tell(void);
void peer_comes(void); /* they tell, and we look */

/* HELLO has matched. */
void become_active(void);

/* The rail whose control link that is. */
unsigned int meeting_rail_of(const char *link);

#endif
