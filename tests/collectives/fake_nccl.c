/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A libnccl.so.2 without GPUs, for collectives.bats: every call succeeds and does nothing. */
#include <stdlib.h>

#include "collectives/nccl_abi.h"

struct nccl_comm {
	int ranks, rank;
};

nccl_result_t ncclCommCount(nccl_comm_t comm, int *ranks);
nccl_result_t ncclCommUserRank(nccl_comm_t comm, int *rank);

nccl_result_t ncclCommInitRank(nccl_comm_t *comm, int ranks, nccl_id_t id, int rank)
{
	(void)id;
	*comm = malloc(sizeof(**comm));
	**comm = (struct nccl_comm){ranks, rank};
	return NCCL_SUCCESS;
}

nccl_result_t ncclCommSplit(nccl_comm_t comm, int color, int key, nccl_comm_t *made, void *config)
{
	(void)key, (void)config;
	*made = NULL;
	if (color < 0)
		return NCCL_SUCCESS;
	*made = malloc(sizeof(**made));
	**made = (struct nccl_comm){comm->ranks / 2, comm->rank / 2};
	return NCCL_IN_PROGRESS;
}

nccl_result_t ncclCommCount(nccl_comm_t comm, int *ranks)
{
	*ranks = comm->ranks;
	return NCCL_SUCCESS;
}

nccl_result_t ncclCommUserRank(nccl_comm_t comm, int *rank)
{
	*rank = comm->rank;
	return NCCL_SUCCESS;
}

nccl_result_t ncclCommDestroy(nccl_comm_t comm)
{
	free(comm);
	return NCCL_SUCCESS;
}

nccl_result_t ncclGroupStart(void)
{
	return NCCL_SUCCESS;
}

nccl_result_t ncclGroupEnd(void)
{
	return NCCL_SUCCESS;
}

nccl_result_t ncclAllReduce(const void *send, void *recv, size_t count, int type, int op,
			    nccl_comm_t comm, nccl_stream_t stream)
{
	(void)send, (void)recv, (void)count, (void)type, (void)op, (void)comm, (void)stream;
	return 42; /* it comes back as it is */
}

nccl_result_t ncclBroadcast(const void *send, void *recv, size_t count, int type, int root,
			    nccl_comm_t comm, nccl_stream_t stream)
{
	(void)send, (void)recv, (void)count, (void)type, (void)root, (void)comm, (void)stream;
	return NCCL_SUCCESS;
}

nccl_result_t ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op,
				nccl_comm_t comm, nccl_stream_t stream)
{
	(void)send, (void)recv, (void)count, (void)type, (void)op, (void)comm, (void)stream;
	return NCCL_SUCCESS;
}
