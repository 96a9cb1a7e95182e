/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * mpi_pingpong -n COUNT: an MPI program of two ranks that exchange so many messages, of all lengths
 * up to some packets, and check each byte. Compiled by mpi.bats.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH_MAX = 20000 };

static unsigned char own[LENGTH_MAX], got[LENGTH_MAX];

static unsigned char byte_of(int rank, long message, int at)
{
	return (unsigned char)(message * 131 + at * 7 + rank * 101);
}

static int length_of(long message)
{
	return (int)(message * 7919 % LENGTH_MAX);
}

/* Returns how many bytes are wrong. */
static long exchange(int rank, long message)
{
	int length = length_of(message);
	long wrong = 0;

	for (int i = 0; i < length; i++)
		own[i] = byte_of(rank, message, i);
	MPI_Sendrecv(own, length, MPI_BYTE, !rank, 0, got, length, MPI_BYTE, !rank, 0,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < length; i++)
		wrong += got[i] != byte_of(!rank, message, i);
	return wrong;
}

int main(int argc, char **argv)
{
	long count = argc > 2 ? atol(argv[2]) : 1000, wrong = 0;
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (long i = 0; i < count; i++)
		wrong += exchange(rank, i);
	printf("rank %d: %ld exchanges, %ld bytes wrong\n", rank, count, wrong);
	MPI_Finalize();
	return wrong != 0;
}
