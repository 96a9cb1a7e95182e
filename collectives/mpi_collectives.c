/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The collectives of MPI, blocking and not. Of the arguments only those are looked at that are
 * significant at this process: with MPI_IN_PLACE, or away from the root, others may be anything.
 * An element is counted as the program does; of those with an array of counts it is their sum.
 */
#include "collectives/mpi_world.h"

int MPI_Barrier(MPI_Comm comm)
{
	uint64_t ticket = mpi_begin_barrier(comm);
	int err = NEXT_CALL(Barrier)(comm);

	coll_end(ticket);
	return err;
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
	uint64_t ticket = mpi_begin_barrier(comm);
	int err = NEXT_CALL(Ibarrier)(comm, request);

	mpi_follow(request, err, ticket);
	return err;
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
	uint64_t ticket = mpi_begin(COLL_BROADCAST, comm, (uint64_t)count, type, root);
	int err = NEXT_CALL(Bcast)(data, count, type, root, comm);

	coll_end(ticket);
	return err;
}

int MPI_Ibcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm,
	       MPI_Request *request)
{
	uint64_t ticket = mpi_begin(COLL_BROADCAST, comm, (uint64_t)count, type, root);
	int err = NEXT_CALL(Ibcast)(data, count, type, root, comm, request);

	mpi_follow(request, err, ticket);
	return err;
}

int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
		  MPI_Comm comm)
{
	uint64_t ticket = mpi_begin(COLL_ALLREDUCE, comm, (uint64_t)count, type, COLL_NO_ROOT);
	int err = NEXT_CALL(Allreduce)(send, recv, count, type, op, comm);

	coll_end(ticket);
	return err;
}

int MPI_Iallreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
		   MPI_Comm comm, MPI_Request *request)
{
	uint64_t ticket = mpi_begin(COLL_ALLREDUCE, comm, (uint64_t)count, type, COLL_NO_ROOT);
	int err = NEXT_CALL(Iallreduce)(send, recv, count, type, op, comm, request);

	mpi_follow(request, err, ticket);
	return err;
}

int MPI_Reduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root,
	       MPI_Comm comm)
{
	uint64_t ticket = mpi_begin(COLL_REDUCE, comm, (uint64_t)count, type, root);
	int err = NEXT_CALL(Reduce)(send, recv, count, type, op, root, comm);

	coll_end(ticket);
	return err;
}

int MPI_Ireduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root,
		MPI_Comm comm, MPI_Request *request)
{
	uint64_t ticket = mpi_begin(COLL_REDUCE, comm, (uint64_t)count, type, root);
	int err = NEXT_CALL(Ireduce)(send, recv, count, type, op, root, comm, request);

	mpi_follow(request, err, ticket);
	return err;
}

int MPI_Scan(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	uint64_t ticket = mpi_begin(COLL_SCAN, comm, (uint64_t)count, type, COLL_NO_ROOT);
	int err = NEXT_CALL(Scan)(send, recv, count, type, op, comm);

	coll_end(ticket);
	return err;
}

int MPI_Iscan(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
	      MPI_Request *request)
{
	uint64_t ticket = mpi_begin(COLL_SCAN, comm, (uint64_t)count, type, COLL_NO_ROOT);
	int err = NEXT_CALL(Iscan)(send, recv, count, type, op, comm, request);

	mpi_follow(request, err, ticket);
	return err;
}

int MPI_Exscan(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	uint64_t ticket = mpi_begin(COLL_SCAN, comm, (uint64_t)count, type, COLL_NO_ROOT);
	int err = NEXT_CALL(Exscan)(send, recv, count, type, op, comm);

	coll_end(ticket);
	return err;
}

int MPI_Iexscan(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
		MPI_Comm comm, MPI_Request *request)
{
	uint64_t ticket = mpi_begin(COLL_SCAN, comm, (uint64_t)count, type, COLL_NO_ROOT);
	int err = NEXT_CALL(Iexscan)(send, recv, count, type, op, comm, request);

	mpi_follow(request, err, ticket);
	return err;
}

int MPI_Reduce_scatter(const void *send, void *recv, const int counts[], MPI_Datatype type,
		       MPI_Op op, MPI_Comm comm)
{
	uint64_t ticket = mpi_begin(COLL_REDUCESCATTER, comm, mpi_sum(comm, counts), type,
				    COLL_NO_ROOT);
	int err = NEXT_CALL(Reduce_scatter)(send, recv, counts, type, op, comm);

	coll_end(ticket);
	return err;
}

int MPI_Ireduce_scatter(const void *send, void *recv, const int counts[], MPI_Datatype type,
			MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
	uint64_t ticket = mpi_begin(COLL_REDUCESCATTER, comm, mpi_sum(comm, counts), type,
				    COLL_NO_ROOT);
	int err = NEXT_CALL(Ireduce_scatter)(send, recv, counts, type, op, comm, request);

	mpi_follow(request, err, ticket);
	return err;
}

int MPI_Reduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
			     MPI_Comm comm)
{
	uint64_t ticket = mpi_begin(COLL_REDUCESCATTER, comm, (uint64_t)count, type, COLL_NO_ROOT);
	int err = NEXT_CALL(Reduce_scatter_block)(send, recv, count, type, op, comm);

	coll_end(ticket);
	return err;
}

int MPI_Ireduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
			      MPI_Comm comm, MPI_Request *request)
{
	uint64_t ticket = mpi_begin(COLL_REDUCESCATTER, comm, (uint64_t)count, type, COLL_NO_ROOT);
	int err = NEXT_CALL(Ireduce_scatter_block)(send, recv, count, type, op, comm, request);

	mpi_follow(request, err, ticket);
	return err;
}

/* What this process gives; where it is in place already, what it gets of each. */
static uint64_t begin_exchange(enum coll_op op, const void *send, int scount, MPI_Datatype stype,
			       uint64_t rcount, MPI_Datatype rtype, MPI_Comm comm)
{
	if (send == MPI_IN_PLACE)
		return mpi_begin(op, comm, rcount, rtype, COLL_NO_ROOT);
	return mpi_begin(op, comm, (uint64_t)scount, stype, COLL_NO_ROOT);
}

static uint64_t begin_allgatherv(const void *send, int scount, MPI_Datatype stype,
				 const int *rcounts, MPI_Datatype rtype, MPI_Comm comm)
{
	int rank = send == MPI_IN_PLACE ? mpi_rank(comm) : -1;

	return begin_exchange(COLL_ALLGATHER, send, scount, stype,
			      rank < 0 ? 0 : (uint64_t)rcounts[rank], rtype, comm);
}

static uint64_t begin_alltoallv(const void *send, const int *scounts, MPI_Datatype stype,
				const int *rcounts, MPI_Datatype rtype, MPI_Comm comm)
{
	if (send == MPI_IN_PLACE)
		return mpi_begin(COLL_ALLTOALL, comm, mpi_sum(comm, rcounts), rtype, COLL_NO_ROOT);
	return mpi_begin(COLL_ALLTOALL, comm, mpi_sum(comm, scounts), stype, COLL_NO_ROOT);
}

/* The root's own part, if that is in place, is as long as the others'. */
static uint64_t begin_gather(const void *send, int scount, MPI_Datatype stype, int rcount,
			     MPI_Datatype rtype, int root, MPI_Comm comm)
{
	if (send == MPI_IN_PLACE)
		return mpi_begin(COLL_GATHER, comm, (uint64_t)rcount, rtype, root);
	return mpi_begin(COLL_GATHER, comm, (uint64_t)scount, stype, root);
}

static uint64_t begin_gatherv(const void *send, int scount, MPI_Datatype stype, const int *rcounts,
			      MPI_Datatype rtype, int root, MPI_Comm comm)
{
	if (send == MPI_IN_PLACE)
		return mpi_begin(COLL_GATHER, comm,
				 mpi_rank(comm) == root ? (uint64_t)rcounts[root] : 0, rtype, root);
	return mpi_begin(COLL_GATHER, comm, (uint64_t)scount, stype, root);
}

static uint64_t begin_scatter(int scount, MPI_Datatype stype, const void *recv, int rcount,
			      MPI_Datatype rtype, int root, MPI_Comm comm)
{
	if (recv == MPI_IN_PLACE)
		return mpi_begin(COLL_SCATTER, comm, (uint64_t)scount, stype, root);
	return mpi_begin(COLL_SCATTER, comm, (uint64_t)rcount, rtype, root);
}

static uint64_t begin_scatterv(const int *scounts, MPI_Datatype stype, const void *recv, int rcount,
			       MPI_Datatype rtype, int root, MPI_Comm comm)
{
	if (recv == MPI_IN_PLACE)
		return mpi_begin(COLL_SCATTER, comm,
				 mpi_rank(comm) == root ? (uint64_t)scounts[root] : 0, stype, root);
	return mpi_begin(COLL_SCATTER, comm, (uint64_t)rcount, rtype, root);
}

int MPI_Allgather(const void *send, int scount, MPI_Datatype stype, void *recv, int rcount,
		  MPI_Datatype rtype, MPI_Comm comm)
{
	uint64_t ticket = begin_exchange(COLL_ALLGATHER, send, scount, stype, (uint64_t)rcount,
					 rtype, comm);
	int err = NEXT_CALL(Allgather)(send, scount, stype, recv, rcount, rtype, comm);

	coll_end(ticket);
	return err;
}

int MPI_Iallgather(const void *send, int scount, MPI_Datatype stype, void *recv, int rcount,
		   MPI_Datatype rtype, MPI_Comm comm, MPI_Request *request)
{
	uint64_t ticket = begin_exchange(COLL_ALLGATHER, send, scount, stype, (uint64_t)rcount,
					 rtype, comm);
	int err = NEXT_CALL(Iallgather)(send, scount, stype, recv, rcount, rtype, comm, request);

	mpi_follow(request, err, ticket);
	return err;
}

int MPI_Allgatherv(const void *send, int scount, MPI_Datatype stype, void *recv,
		   const int rcounts[], const int at[], MPI_Datatype rtype, MPI_Comm comm)
{
	uint64_t ticket = begin_allgatherv(send, scount, stype, rcounts, rtype, comm);
	int err = NEXT_CALL(Allgatherv)(send, scount, stype, recv, rcounts, at, rtype, comm);

	coll_end(ticket);
	return err;
}

int MPI_Iallgatherv(const void *send, int scount, MPI_Datatype stype, void *recv,
		    const int rcounts[], const int at[], MPI_Datatype rtype, MPI_Comm comm,
		    MPI_Request *request)
{
	uint64_t ticket = begin_allgatherv(send, scount, stype, rcounts, rtype, comm);
	int err = NEXT_CALL(Iallgatherv)(send, scount, stype, recv, rcounts, at, rtype, comm,
					 request);

	mpi_follow(request, err, ticket);
	return err;
}

int MPI_Alltoall(const void *send, int scount, MPI_Datatype stype, void *recv, int rcount,
		 MPI_Datatype rtype, MPI_Comm comm)
{
	uint64_t ticket = begin_exchange(COLL_ALLTOALL, send, scount, stype, (uint64_t)rcount,
					 rtype, comm);
	int err = NEXT_CALL(Alltoall)(send, scount, stype, recv, rcount, rtype, comm);

	coll_end(ticket);
	return err;
}

int MPI_Ialltoall(const void *send, int scount, MPI_Datatype stype, void *recv, int rcount,
		  MPI_Datatype rtype, MPI_Comm comm, MPI_Request *request)
{
	uint64_t ticket = begin_exchange(COLL_ALLTOALL, send, scount, stype, (uint64_t)rcount,
					 rtype, comm);
	int err = NEXT_CALL(Ialltoall)(send, scount, stype, recv, rcount, rtype, comm, request);

	mpi_follow(request, err, ticket);
	return err;
}

int MPI_Alltoallv(const void *send, const int scounts[], const int sat[], MPI_Datatype stype,
		  void *recv, const int rcounts[], const int rat[], MPI_Datatype rtype,
		  MPI_Comm comm)
{
	uint64_t ticket = begin_alltoallv(send, scounts, stype, rcounts, rtype, comm);
	int err = NEXT_CALL(Alltoallv)(send, scounts, sat, stype, recv, rcounts, rat, rtype, comm);

	coll_end(ticket);
	return err;
}

int MPI_Ialltoallv(const void *send, const int scounts[], const int sat[], MPI_Datatype stype,
		   void *recv, const int rcounts[], const int rat[], MPI_Datatype rtype,
		   MPI_Comm comm, MPI_Request *request)
{
	uint64_t ticket = begin_alltoallv(send, scounts, stype, rcounts, rtype, comm);
	int err = NEXT_CALL(Ialltoallv)(send, scounts, sat, stype, recv, rcounts, rat, rtype, comm,
					request);

	mpi_follow(request, err, ticket);
	return err;
}

int MPI_Gather(const void *send, int scount, MPI_Datatype stype, void *recv, int rcount,
	       MPI_Datatype rtype, int root, MPI_Comm comm)
{
	uint64_t ticket = begin_gather(send, scount, stype, rcount, rtype, root, comm);
	int err = NEXT_CALL(Gather)(send, scount, stype, recv, rcount, rtype, root, comm);

	coll_end(ticket);
	return err;
}

int MPI_Igather(const void *send, int scount, MPI_Datatype stype, void *recv, int rcount,
		MPI_Datatype rtype, int root, MPI_Comm comm, MPI_Request *request)
{
	uint64_t ticket = begin_gather(send, scount, stype, rcount, rtype, root, comm);
	int err = NEXT_CALL(Igather)(send, scount, stype, recv, rcount, rtype, root, comm, request);

	mpi_follow(request, err, ticket);
	return err;
}

int MPI_Gatherv(const void *send, int scount, MPI_Datatype stype, void *recv, const int rcounts[],
		const int at[], MPI_Datatype rtype, int root, MPI_Comm comm)
{
	uint64_t ticket = begin_gatherv(send, scount, stype, rcounts, rtype, root, comm);
	int err = NEXT_CALL(Gatherv)(send, scount, stype, recv, rcounts, at, rtype, root, comm);

	coll_end(ticket);
	return err;
}

int MPI_Igatherv(const void *send, int scount, MPI_Datatype stype, void *recv, const int rcounts[],
		 const int at[], MPI_Datatype rtype, int root, MPI_Comm comm, MPI_Request *request)
{
	uint64_t ticket = begin_gatherv(send, scount, stype, rcounts, rtype, root, comm);
	int err = NEXT_CALL(Igatherv)(send, scount, stype, recv, rcounts, at, rtype, root, comm,
				      request);

	mpi_follow(request, err, ticket);
	return err;
}

int MPI_Scatter(const void *send, int scount, MPI_Datatype stype, void *recv, int rcount,
		MPI_Datatype rtype, int root, MPI_Comm comm)
{
	uint64_t ticket = begin_scatter(scount, stype, recv, rcount, rtype, root, comm);
	int err = NEXT_CALL(Scatter)(send, scount, stype, recv, rcount, rtype, root, comm);

	coll_end(ticket);
	return err;
}

int MPI_Iscatter(const void *send, int scount, MPI_Datatype stype, void *recv, int rcount,
		 MPI_Datatype rtype, int root, MPI_Comm comm, MPI_Request *request)
{
	uint64_t ticket = begin_scatter(scount, stype, recv, rcount, rtype, root, comm);
	int err = NEXT_CALL(Iscatter)(send, scount, stype, recv, rcount, rtype, root, comm,
				      request);

	mpi_follow(request, err, ticket);
	return err;
}

int MPI_Scatterv(const void *send, const int scounts[], const int at[], MPI_Datatype stype,
		 void *recv, int rcount, MPI_Datatype rtype, int root, MPI_Comm comm)
{
	uint64_t ticket = begin_scatterv(scounts, stype, recv, rcount, rtype, root, comm);
	int err = NEXT_CALL(Scatterv)(send, scounts, at, stype, recv, rcount, rtype, root, comm);

	coll_end(ticket);
	return err;
}

int MPI_Iscatterv(const void *send, const int scounts[], const int at[], MPI_Datatype stype,
		  void *recv, int rcount, MPI_Datatype rtype, int root, MPI_Comm comm,
		  MPI_Request *request)
{
	uint64_t ticket = begin_scatterv(scounts, stype, recv, rcount, rtype, root, comm);
	int err = NEXT_CALL(Iscatterv)(send, scounts, at, stype, recv, rcount, rtype, root, comm,
				       request);

	mpi_follow(request, err, ticket);
	return err;
}
