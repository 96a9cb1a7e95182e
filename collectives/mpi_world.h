/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the wrappers of collectives, of requests and of communicators share. Any thread; no lock but
 * where that is said. */
#ifndef SHIFT_COLLECTIVES_MPI_WORLD_H
#define SHIFT_COLLECTIVES_MPI_WORLD_H

#include "collectives/coll_ring.h"
#include "collectives/mpi_real.h"

/* The launch of an operation of `count` elements. Returns a ticket, for coll_end(). */
uint64_t mpi_begin(enum coll_op op, MPI_Comm comm, uint64_t count, MPI_Datatype type, int root);

/* After the launch of an operation that does not wait: its end is that of the request. */
void mpi_follow(const MPI_Request *request, int err, uint64_t ticket);

/* Is no such request followed? One load. */
bool mpi_follows_none(void);

/* The request of that MPI_KEY() is complete, if it is one that is followed. */
void mpi_request_ended(uint64_t key);

/* mpi_begin() without elements. */
uint64_t mpi_begin_barrier(MPI_Comm comm);

/* Of this process; -1: comm is not known. */
int mpi_rank(MPI_Comm comm);

/* The sum of an array with a number for each member. 0 if comm is not known. */
uint64_t mpi_sum(MPI_Comm comm, const int *counts);

/* ---- communicators (locks) ------------------------------------------------------------------- */

/* MPI has been initialised. */
void mpi_started(void);

/* A call by all members of parent that makes communicators. Returns what mpi_comm_made() needs. */
uint64_t mpi_comm_call(MPI_Comm parent);

/* It has made this one, or none: MPI_COMM_NULL. call: 0: parent is not known. */
void mpi_comm_made(uint64_t call, MPI_Comm comm);

/* MPI_Comm_create_group, which not all members of parent call. */
void mpi_comm_made_by_group(MPI_Comm parent, int tag, MPI_Comm comm);

void mpi_comm_gone(MPI_Comm comm);

#endif
