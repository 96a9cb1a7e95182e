/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A connection on its way to its peer (lib/session/rendezvous.c), and what the two ends have said
 * of its backup rails. Background thread.
 */
#ifndef SHIFT_SESSION_MEETING_RAILS_H
#define SHIFT_SESSION_MEETING_RAILS_H

#include "lib/conn/vqp.h"
#include "lib/session/session_msg.h"
#include "lib/session/told.h"

/* An end of a connection, with as many rails as it says. */
struct record {
	uint8_t rails;
	uint32_t id;
	uint64_t nonce;
	struct rail_addr rail[SHIFT_RAILS_MAX];
};

/* A connection on its way to its peer. */
struct meeting {
	struct vqp *v;
	struct meeting *next;
	struct meeting *next_in_bucket; /* of those with a name */
	uint64_t since;
	struct session_qp mine, yours; /* what the two programs call the ends; constant */
	struct place *place;	       /* the GID of yours; NULL: not looked at yet */
	bool named;		       /* mine and yours are known */
	bool settled;		       /* there is nothing left to wait for */
	bool reported;		       /* it was reported that no peer has come, or the wrong one */
	bool has_ours, has_theirs;
	uint32_t judged; /* mask of rails: lib/core was told if they are apart */
	struct told told;
	/* Numbers of processes of the place: which was told last, of all and in this round. */
	uint64_t newest, round;
	struct record ours, theirs;
	/* Its NIC had no GID or P_Key for that rail at the look of this number, plus 1; 0: it had.
	 */
	uint64_t no_address[SHIFT_RAILS_MAX];
	/* A newer one of theirs, of which not all rails have come. */
	uint32_t coming_serial, coming_rails;
	struct record coming;
};

/* Tells lib/core which backup rails are apart for atomics: before one of them opens, as lib/core
 * might go there; and without waiting for twins, as lib/core hopes for every rail that is still to
 * come (doc/protocol.md, 7.54). r: what the peer says. Nothing locked. */
void meeting_tell_apart(struct meeting *m, const struct record *r);

/* Is there all that the rail needs at both ends? Ours has no QPN while its NIC lacks an address. */
bool meeting_twins_exist(const struct meeting *m, const struct record *r, uint8_t i);

#endif
