/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A tool of the profiling interface that a program is linked with: counts what it wraps. */
#include <mpi.h>
#include <stdio.h>

static int seen;

int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
		  MPI_Comm comm)
{
	seen++;
	return PMPI_Allreduce(send, recv, count, type, op, comm);
}

int MPI_Finalize(void)
{
	printf("the tool has seen %d\n", seen);
	return PMPI_Finalize();
}
