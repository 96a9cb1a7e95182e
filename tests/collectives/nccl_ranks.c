/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * nccl_ranks RANK: one rank of four, for collectives.bats, linked with fake_nccl.c. When all is
 * done it says "ready", and waits for its standard input to end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/nccl_abi.h"

enum { INT32 = 2, FLOAT16 = 6, FLOAT32 = 7, SUM = 0 };

static int fail(const char *what)
{
	fprintf(stderr, "nccl_ranks: %s\n", what);
	return 1;
}

int main(int argc, char **argv)
{
	nccl_comm_t comm, half;
	nccl_id_t id;
	int rank = argc > 1 ? atoi(argv[1]) : 0;

	memset(&id, 'x', sizeof(id));
	if (ncclCommInitRank(&comm, 4, id, rank))
		return fail("init");
	if (ncclAllReduce(NULL, NULL, 1000, FLOAT32, SUM, comm, NULL) != 42)
		return fail("what a call returns does not come back");
	ncclGroupStart();
	ncclGroupStart();
	ncclBroadcast(NULL, NULL, 7, FLOAT16, 3, comm, NULL);
	ncclGroupEnd();
	ncclReduceScatter(NULL, NULL, 5, INT32, SUM, comm, NULL);
	ncclGroupEnd();
	ncclCommSplit(comm, rank % 2, 0, &half, NULL);
	ncclAllReduce(NULL, NULL, 1, INT32, SUM, half, NULL);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	ncclCommDestroy(half);
	ncclCommDestroy(comm);
	return 0;
}
