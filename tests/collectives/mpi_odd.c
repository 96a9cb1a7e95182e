/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* One rank that does what few programs do: five allreduces; a datatype that is none, where errors
 * are returned; and a communicator that is freed behind a recorder's back, so that another one may
 * get its handle. Says what came of it, and waits for a line. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static void add(MPI_Comm comm)
{
	int x = 1, y;

	MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, comm);
}

int main(int argc, char **argv)
{
	MPI_Comm first, second;
	int x = 1;

	MPI_Init(&argc, &argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &first);
	MPI_Comm_set_errhandler(first, MPI_ERRORS_RETURN);
	printf("no datatype: %d\n", MPI_Bcast(&x, 1, (MPI_Datatype)0, 0, first) == MPI_ERR_TYPE);
	for (int i = 0; i < 4; i++)
		add(first);
	PMPI_Comm_free(&first);
	MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &second);
	add(second);
	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	getchar();
	MPI_Comm_free(&second);
	MPI_Finalize();
	return 0;
}
