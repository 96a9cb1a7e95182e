/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A job for the analysers of shift-diag: ranks that compute, and then meet in a collective. */
#ifndef SHIFT_DIAG_JOB_H
#define SHIFT_DIAG_JOB_H

#include "cmd/shift-diag/records.h"

enum { JOB_RANKS_MAX = 64, JOB_MS = 1000000 };

struct job {
	struct records r;
	int ranks;
	uint64_t now[JOB_RANKS_MAX]; /* ns, when each rank is ready to go on */
};

/* Ranks 0.., per_host of them on each of the hosts h0, h1, ...; all are in the communicator world,
 * of `size` ranks: more than there are records of, if it is larger. */
struct job job_make(int ranks, int per_host, int size);
void job_free(struct job *j);
struct rec_file *job_rank(struct job *j, int rank);

/* A communicator of these ranks, "name". */
void job_comm(struct job *j, const char *name, const int *ranks, int n);

/* One collective: each of the ranks computes so long, then they need so long together. NULL: of
 * all ranks in world. */
void job_round(struct job *j, const char *comm, const int *ranks, int n, const uint64_t *compute_ns,
	       uint64_t together_ns);

/* A collective of world that rank has launched after so long, and that has not ended. */
struct rec_coll *job_enter(struct job *j, const char *comm, int rank, uint64_t seq,
			   uint64_t compute_ns);

/* All records are read so long after the last thing that happened. */
void job_read(struct job *j, uint64_t after_ns);

struct rec_wcerr *job_error(struct job *j, int rank, const char *status, const char *peer_host,
			    uint64_t t_ns);

/* xorshift64 */
uint64_t job_random(uint64_t *state, uint64_t n);

#endif
