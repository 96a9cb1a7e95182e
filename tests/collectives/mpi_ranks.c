/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Ranks that do collectives in a known order, for collectives.bats. Then it says its pid, and waits
 * for its standard input to end (rank 0's does: mpirun gives the others none), or for the end.
 *
 *   mpi_ranks MODE FILE   all      every collective once, and those that do not wait
 *                         stop     rank 0 waits in a barrier to which rank 1 does not come
 *                         fork     a child does nothing to the records
 *                         many N   N allreduces
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 16 };

static int rank, size;

static void blocking(MPI_Comm comm)
{
	int counts[MOST], at[MOST], twos[MOST], send[8 * MOST] = {rank}, recv[8 * MOST], n;
	double x = rank, y;

	MPI_Comm_size(comm, &n);
	for (int i = 0; i < n; i++) {
		counts[i] = i + 1;
		twos[i] = 2;
		at[i] = i * (i + 3) / 2;
	}
	MPI_Comm_rank(comm, &rank);
	MPI_Barrier(comm);
	MPI_Bcast(send, 5, MPI_INT, 1, comm);
	MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, comm);
	MPI_Reduce(&x, &y, 1, MPI_DOUBLE, MPI_MAX, 0, comm);
	MPI_Allgather(send, 2, MPI_INT, recv, 2, MPI_INT, comm);
	MPI_Allgatherv(send, counts[rank], MPI_INT, recv, counts, at, MPI_INT, comm);
	MPI_Reduce_scatter(send, recv, counts, MPI_INT, MPI_SUM, comm);
	MPI_Reduce_scatter_block(send, recv, 3, MPI_INT, MPI_SUM, comm);
	MPI_Alltoall(send, 4, MPI_BYTE, recv, 4, MPI_BYTE, comm);
	MPI_Alltoallv(send, twos, at, MPI_INT, recv, twos, at, MPI_INT, comm);
	MPI_Barrier(MPI_COMM_SELF); /* is not recorded */
	MPI_Gather(send, 3, MPI_INT, recv, 3, MPI_INT, 0, comm);
	MPI_Gatherv(rank ? send : MPI_IN_PLACE, rank ? counts[rank] : 77,
		    rank ? MPI_INT : MPI_DATATYPE_NULL, recv, counts, at, MPI_INT, 0, comm);
	MPI_Scatter(send, 2, MPI_INT, rank ? recv : MPI_IN_PLACE, 2,
		    rank ? MPI_INT : MPI_DATATYPE_NULL, 0, comm);
	MPI_Scatterv(send, counts, at, MPI_INT, recv, counts[rank], MPI_INT, 0, comm);
	MPI_Scan(&x, &y, 1, MPI_DOUBLE, MPI_SUM, comm);
	MPI_Exscan(&x, &y, 1, MPI_DOUBLE, MPI_SUM, comm);
}

static void waiting(MPI_Comm comm)
{
	MPI_Request r[3];
	int a = 1, b = 0, done = 0, which;

	MPI_Iallreduce(&a, &b, 1, MPI_INT, MPI_SUM, comm, r);
	MPI_Wait(r, MPI_STATUS_IGNORE);
	MPI_Ibarrier(comm, r);
	while (!done)
		MPI_Test(r, &done, MPI_STATUS_IGNORE);
	MPI_Ibarrier(comm, r);
	MPI_Ibcast(&a, 1, MPI_INT, 0, comm, r + 1);
	MPI_Waitany(2, r, &which, MPI_STATUS_IGNORE);
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void derived(MPI_Comm comm)
{
	MPI_Datatype pair;
	int x[2] = {0};

	MPI_Type_contiguous(2, MPI_INT, &pair);
	MPI_Type_commit(&pair);
	MPI_Bcast(x, 1, pair, 0, comm);
	MPI_Type_free(&pair);
}

static void all(void)
{
	MPI_Comm copy, half, again, group_comm;
	MPI_Group group, few;
	int world_rank = rank, first_two[] = {0, 1};

	blocking(MPI_COMM_WORLD);
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	waiting(copy);
	derived(copy);
	MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, 0, &half);
	MPI_Barrier(half);
	MPI_Comm_dup(half, &again);
	MPI_Barrier(again);
	MPI_Comm_free(&again);
	MPI_Comm_group(MPI_COMM_WORLD, &group);
	MPI_Group_incl(group, 2, first_two, &few);
	if (world_rank < 2) {
		MPI_Comm_create_group(MPI_COMM_WORLD, few, 7, &group_comm);
		MPI_Barrier(group_comm);
	}
	MPI_Group_free(&few);
	MPI_Group_free(&group);
	rank = world_rank;
}

static void with_a_child(void)
{
	pid_t pid = fork();

	if (!pid)
		exit(0);
	waitpid(pid, NULL, 0);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Appends a line to the file. */
static void say(const char *path)
{
	FILE *f = fopen(path, "a");

	if (!f)
		MPI_Abort(MPI_COMM_WORLD, 2);
	fprintf(f, "%d %d\n", rank, getpid());
	fclose(f);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";
	double one = 1, sum;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size > MOST)
		MPI_Abort(MPI_COMM_WORLD, 2);
	if (!strcmp(mode, "all"))
		all();
	if (!strcmp(mode, "fork"))
		with_a_child();
	if (!strcmp(mode, "many"))
		for (int i = 0; i < atoi(argv[3]); i++)
			MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	if (argc > 2)
		say(argv[2]);
	if (!strcmp(mode, "stop")) {
		MPI_Barrier(MPI_COMM_WORLD);
		while (rank == 1)
			pause();
	}
	if (!rank && strcmp(mode, "stop"))
		while (getchar() != EOF)
			;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
