/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What begins MPI, and makes and frees communicators. One that other calls make (between two
 * groups, with another job, or without waiting) stays unknown: its operations are counted, and not
 * recorded.
 */
#include "collectives/mpi_world.h"

int MPI_Init(int *argc, char ***argv)
{
	int err = NEXT_CALL(Init)(argc, argv);

	if (err == MPI_SUCCESS)
		mpi_started();
	return err;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	int err = NEXT_CALL(Init_thread)(argc, argv, required, provided);

	if (err == MPI_SUCCESS)
		mpi_started();
	return err;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made)
{
	uint64_t call = mpi_comm_call(comm);
	int err = NEXT_CALL(Comm_dup)(comm, made);

	if (err == MPI_SUCCESS)
		mpi_comm_made(call, *made);
	return err;
}

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *made)
{
	uint64_t call = mpi_comm_call(comm);
	int err = NEXT_CALL(Comm_dup_with_info)(comm, info, made);

	if (err == MPI_SUCCESS)
		mpi_comm_made(call, *made);
	return err;
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *made)
{
	uint64_t call = mpi_comm_call(comm);
	int err = NEXT_CALL(Comm_split)(comm, color, key, made);

	if (err == MPI_SUCCESS)
		mpi_comm_made(call, *made);
	return err;
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made)
{
	uint64_t call = mpi_comm_call(comm);
	int err = NEXT_CALL(Comm_split_type)(comm, type, key, info, made);

	if (err == MPI_SUCCESS)
		mpi_comm_made(call, *made);
	return err;
}

int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *made)
{
	uint64_t call = mpi_comm_call(comm);
	int err = NEXT_CALL(Comm_create)(comm, group, made);

	if (err == MPI_SUCCESS)
		mpi_comm_made(call, *made);
	return err;
}

int MPI_Cart_create(MPI_Comm comm, int n, const int dims[], const int periods[], int reorder,
		    MPI_Comm *made)
{
	uint64_t call = mpi_comm_call(comm);
	int err = NEXT_CALL(Cart_create)(comm, n, dims, periods, reorder, made);

	if (err == MPI_SUCCESS)
		mpi_comm_made(call, *made);
	return err;
}

int MPI_Cart_sub(MPI_Comm comm, const int remain[], MPI_Comm *made)
{
	uint64_t call = mpi_comm_call(comm);
	int err = NEXT_CALL(Cart_sub)(comm, remain, made);

	if (err == MPI_SUCCESS)
		mpi_comm_made(call, *made);
	return err;
}

int MPI_Graph_create(MPI_Comm comm, int n, const int index[], const int edges[], int reorder,
		     MPI_Comm *made)
{
	uint64_t call = mpi_comm_call(comm);
	int err = NEXT_CALL(Graph_create)(comm, n, index, edges, reorder, made);

	if (err == MPI_SUCCESS)
		mpi_comm_made(call, *made);
	return err;
}

int MPI_Dist_graph_create(MPI_Comm comm, int n, const int nodes[], const int degrees[],
			  const int targets[], const int weights[], MPI_Info info, int reorder,
			  MPI_Comm *made)
{
	uint64_t call = mpi_comm_call(comm);
	int err = NEXT_CALL(Dist_graph_create)(comm, n, nodes, degrees, targets, weights, info,
					       reorder, made);

	if (err == MPI_SUCCESS)
		mpi_comm_made(call, *made);
	return err;
}

int MPI_Dist_graph_create_adjacent(MPI_Comm comm, int in, const int sources[], const int sweights[],
				   int out, const int dests[], const int dweights[], MPI_Info info,
				   int reorder, MPI_Comm *made)
{
	uint64_t call = mpi_comm_call(comm);
	int err = NEXT_CALL(Dist_graph_create_adjacent)(comm, in, sources, sweights, out, dests,
							dweights, info, reorder, made);

	if (err == MPI_SUCCESS)
		mpi_comm_made(call, *made);
	return err;
}

int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made)
{
	int err = NEXT_CALL(Comm_create_group)(comm, group, tag, made);

	if (err == MPI_SUCCESS)
		mpi_comm_made_by_group(comm, tag, *made);
	return err;
}

int MPI_Comm_free(MPI_Comm *comm)
{
	mpi_comm_gone(*comm);
	return NEXT_CALL(Comm_free)(comm);
}

int MPI_Comm_disconnect(MPI_Comm *comm)
{
	mpi_comm_gone(*comm);
	return NEXT_CALL(Comm_disconnect)(comm);
}
