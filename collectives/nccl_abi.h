/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What of NCCL's public interface the hooks touch (NCCL 2.x, RCCL): opaque handles, enumerations as
 * int. A call passes through as it came, so a struct that is handed by value must be as long as
 * NCCL's own.
 */
#ifndef SHIFT_COLLECTIVES_NCCL_ABI_H
#define SHIFT_COLLECTIVES_NCCL_ABI_H

#include <stddef.h>

typedef struct nccl_comm *nccl_comm_t;
typedef void *nccl_stream_t; /* cudaStream_t */
typedef int
	nccl_result_t; /* 0: it is well; 7: it is under way (a communicator that does not block) */

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_ID_BYTES = 128 };

typedef struct {
	char bytes[NCCL_ID_BYTES];
} nccl_id_t;

nccl_result_t ncclCommInitRank(nccl_comm_t *comm, int ranks, nccl_id_t id, int rank);
nccl_result_t ncclCommInitRankConfig(nccl_comm_t *comm, int ranks, nccl_id_t id, int rank,
				     void *config);
nccl_result_t ncclCommInitRankScalable(nccl_comm_t *comm, int ranks, int rank, int ids,
				       nccl_id_t *id, void *config);
nccl_result_t ncclCommSplit(nccl_comm_t comm, int color, int key, nccl_comm_t *made, void *config);
nccl_result_t ncclCommDestroy(nccl_comm_t comm);
nccl_result_t ncclCommAbort(nccl_comm_t comm);
nccl_result_t ncclGroupStart(void);
nccl_result_t ncclGroupEnd(void);
nccl_result_t ncclAllReduce(const void *send, void *recv, size_t count, int type, int op,
			    nccl_comm_t comm, nccl_stream_t stream);
nccl_result_t ncclReduce(const void *send, void *recv, size_t count, int type, int op, int root,
			 nccl_comm_t comm, nccl_stream_t stream);
nccl_result_t ncclBroadcast(const void *send, void *recv, size_t count, int type, int root,
			    nccl_comm_t comm, nccl_stream_t stream);
nccl_result_t ncclBcast(void *data, size_t count, int type, int root, nccl_comm_t comm,
			nccl_stream_t stream);
nccl_result_t ncclAllGather(const void *send, void *recv, size_t count, int type, nccl_comm_t comm,
			    nccl_stream_t stream);
nccl_result_t ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op,
				nccl_comm_t comm, nccl_stream_t stream);

#endif
