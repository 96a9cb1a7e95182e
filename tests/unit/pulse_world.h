/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Records of a job as its ranks would write them, for tests of Pulse: epochs of 32 us, as the
 * paper's. A test says what each rank sends when; times are us since the job began.
 */
#ifndef SHIFT_TESTS_UNIT_PULSE_WORLD_H
#define SHIFT_TESTS_UNIT_PULSE_WORLD_H

#include "cmd/shift-diag/pulse.h"

#define WORLD_BEGAN 1795855608000000000u

enum { WORLD_EPOCH_US = 32 };

struct world {
	struct records r;
	int ranks;
};

/* Rank i on host node(i + 1), with a queue pair to each other. */
struct world world_make(int ranks);
void world_free(struct world *w);

void world_comm(struct world *w, const char *name, const int *rank, int size);

/* rate: bytes an epoch; in each period epochs only the first active ones send. 0 of 0: all. */
void world_sends(struct world *w, int from, int to, uint64_t start_us, uint64_t us, uint32_t rate,
		 unsigned int active, unsigned int period);

/* end_us 0: under way. */
struct rec_coll *world_coll(struct world *w, int rank, const char *comm, uint64_t seq,
			    const char *op, uint64_t bytes, uint64_t start_us, uint64_t end_us);

/* Both sides of a message between two members, who are these ranks; done: of expected bytes. end_us
 * 0: under way, at both. send_us, recv_us 0: that end has no record. */
void world_message(struct world *w, const char *comm, const int *rank, uint64_t group, int from,
		   int to, uint64_t expected, uint64_t done, uint64_t send_us, uint64_t recv_us,
		   uint64_t end_us);

/* Until when all have recorded; ended: by themselves. */
void world_until(struct world *w, uint64_t us, bool ended);

/* The verdict with the usual options, which the caller frees; as text it is printed. */
struct verdict world_verdict(struct world *w);

#endif
