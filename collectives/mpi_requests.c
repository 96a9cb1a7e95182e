/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Requests: when a collective that does not wait has ended, as the program learns it. While none is
 * under way, these calls cost a look at one word. MPI sets the request of what is complete to
 * MPI_REQUEST_NULL, so its handle is looked at before.
 */
#include <stdlib.h>
#include <string.h>

#include "collectives/mpi_world.h"

enum { KEYS_ON_STACK = 64 };

/* The handles of an array, before the call. */
struct keys {
	uint64_t *key, on_stack[KEYS_ON_STACK];
};

/* False: none is followed, or there is no memory. */
static bool keys_take(struct keys *k, int count, const MPI_Request *requests)
{
	k->key = NULL;
	if (mpi_follows_none() || count <= 0)
		return false;
	k->key = count <= KEYS_ON_STACK ? k->on_stack : malloc((size_t)count * sizeof(*k->key));
	for (int i = 0; k->key && i < count; i++)
		k->key[i] = MPI_KEY(requests[i]);
	return k->key;
}

static void keys_free(struct keys *k)
{
	if (k->key != k->on_stack)
		free(k->key);
}

/* Those of an array of indices. */
static void end_some(const struct keys *k, int count, const int *indices)
{
	for (int i = 0; i < count; i++)
		mpi_request_ended(k->key[indices[i]]);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
	uint64_t key = mpi_follows_none() ? 0 : MPI_KEY(*request);
	int err = NEXT_CALL(Wait)(request, status);

	if (key)
		mpi_request_ended(key);
	return err;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
	uint64_t key = mpi_follows_none() ? 0 : MPI_KEY(*request);
	int err = NEXT_CALL(Test)(request, flag, status);

	if (key && (err != MPI_SUCCESS || *flag))
		mpi_request_ended(key);
	return err;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
	struct keys k;
	bool taken = keys_take(&k, count, requests);
	int err = NEXT_CALL(Waitall)(count, requests, statuses);

	for (int i = 0; taken && i < count; i++)
		mpi_request_ended(k.key[i]);
	keys_free(&k);
	return err;
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
	struct keys k;
	bool taken = keys_take(&k, count, requests);
	int err = NEXT_CALL(Testall)(count, requests, flag, statuses);

	for (int i = 0; taken && err == MPI_SUCCESS && *flag && i < count; i++)
		mpi_request_ended(k.key[i]);
	keys_free(&k);
	return err;
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
	struct keys k;
	bool taken = keys_take(&k, count, requests);
	int err = NEXT_CALL(Waitany)(count, requests, index, status);

	if (taken && err == MPI_SUCCESS && *index != MPI_UNDEFINED)
		end_some(&k, 1, index);
	keys_free(&k);
	return err;
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
	struct keys k;
	bool taken = keys_take(&k, count, requests);
	int err = NEXT_CALL(Testany)(count, requests, index, flag, status);

	if (taken && err == MPI_SUCCESS && *flag && *index != MPI_UNDEFINED)
		end_some(&k, 1, index);
	keys_free(&k);
	return err;
}

int MPI_Waitsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
	struct keys k;
	bool taken = keys_take(&k, count, requests);
	int err = NEXT_CALL(Waitsome)(count, requests, done, indices, statuses);

	if (taken && err == MPI_SUCCESS && *done != MPI_UNDEFINED)
		end_some(&k, *done, indices);
	keys_free(&k);
	return err;
}

int MPI_Testsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
	struct keys k;
	bool taken = keys_take(&k, count, requests);
	int err = NEXT_CALL(Testsome)(count, requests, done, indices, statuses);

	if (taken && err == MPI_SUCCESS && *done != MPI_UNDEFINED)
		end_some(&k, *done, indices);
	keys_free(&k);
	return err;
}
