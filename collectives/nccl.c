/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The collectives of NCCL (and RCCL, which has the same names), when they are put on a stream. When
 * the GPU has done them is not known here: to learn it, something would have to be put on the
 * program's stream.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/coll_ring.h"
#include "collectives/handle_map.h"
#include "collectives/nccl_abi.h"

enum { COMMS_MAX = 512 };

struct known_comm {
	uint64_t id, seq, splits;
	bool is_told; /* its size is known */
};

static struct known_comm comms[COMMS_MAX];
static struct handle_map comm_map; /* indices of comms, + 1 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Between ncclGroupStart and ncclGroupEnd of a thread. */
static _Thread_local struct {
	unsigned int depth;
	uint64_t id;
} group;

static uint64_t groups;

/* ---- the library below ------------------------------------------------------------------------
 */

static void *find_function(const char *name)
{
	static const char *const libraries[] = {"libnccl.so.2", "librccl.so.1", NULL};
	void *found = dlsym(RTLD_NEXT, name);

	for (const char *const *l = libraries; !found && *l; l++) {
		void *handle = dlopen(*l, RTLD_LAZY | RTLD_NOLOAD);

		found = handle ? dlsym(handle, name) : NULL; /* the handle stays */
	}
	return found;
}

static const char ours_is_here;

/* A program may have it in a library that nobody but its caller sees, or built into the caller. */
static void *find_at_caller(const char *name, const void *caller)
{
	Dl_info at, ours, its;
	void *handle, *found;

	if (!dladdr(caller, &at) || !at.dli_fname || !dladdr(&ours_is_here, &ours))
		return NULL;
	handle = dlopen(at.dli_fname, RTLD_LAZY | RTLD_NOLOAD); /* it stays */
	found = handle ? dlsym(handle, name) : NULL;
	return found && dladdr(found, &its) && its.dli_fbase != ours.dli_fbase ? found : NULL;
}

static void *real_function(void **known, const char *name, const void *caller)
{
	void *found = find_function(name);

	if (!found)
		found = find_at_caller(name, caller);

	if (!found) {
		fprintf(stderr, "shift: %s is called, and no NCCL that has it is loaded\n", name);
		abort();
	}
	__atomic_store_n(known, found, __ATOMIC_RELAXED);
	return found;
}

#define NCCL_CALL(name)                                                             \
	((__typeof__(&name))__extension__({                                         \
		static void *known;                                                 \
		void *f = __atomic_load_n(&known, __ATOMIC_RELAXED);                \
		__builtin_expect(!f, 0)                                             \
			? real_function(&known, #name, __builtin_return_address(0)) \
			: f;                                                        \
	}))

/* ---- communicators ----------------------------------------------------------------------------
 */

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a ^ b * 0x9e3779b97f4a7c15ULL) + 0x632be59bd9b4e019ULL;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/* The same at all ranks, as they were given the same. */
static uint64_t name_of(const nccl_id_t *id)
{
	uint64_t word, name = 0;

	for (size_t i = 0; i < sizeof(id->bytes); i += sizeof(word)) {
		memcpy(&word, id->bytes + i, sizeof(word));
		name = mix(name + 1, word);
	}
	return name | 1;
}

static struct known_comm *find_comm(nccl_comm_t comm)
{
	struct handle_slot *s = handle_find(&comm_map, (uint64_t)(uintptr_t)comm);

	return s ? comms + s->value - 1 : NULL;
}

static void learn_comm(nccl_comm_t comm, uint64_t id, int ranks, int rank)
{
	struct known_comm *c = comms;

	if (!comm || !coll_open("nccl", -1))
		return;
	pthread_mutex_lock(&lock);
	while (c < comms + COMMS_MAX && c->id)
		c++;
	if (c < comms + COMMS_MAX) {
		*c = (struct known_comm){.id = id, .is_told = ranks > 0};
		if (!handle_put(&comm_map, (uint64_t)(uintptr_t)comm, (uint64_t)(c - comms) + 1))
			c->id = 0;
		else if (ranks > 0)
			coll_comm_add(id, (uint32_t)ranks, rank, NULL, false);
	}
	pthread_mutex_unlock(&lock);
}

static void forget_comm(nccl_comm_t comm)
{
	uint64_t i;

	pthread_mutex_lock(&lock);
	i = handle_take(&comm_map, (uint64_t)(uintptr_t)comm);
	if (i) {
		coll_comm_remove(comms[i - 1].id);
		comms[i - 1].id = 0;
	}
	pthread_mutex_unlock(&lock);
}

/* One that was made by a split has its size when that is done, in a group at its end only. */
static void tell_comm(nccl_comm_t comm, struct known_comm *c)
{
	typedef nccl_result_t ask_fn(nccl_comm_t comm, int *number);
	ask_fn *ask_size = (ask_fn *)find_function("ncclCommCount");
	ask_fn *ask_rank = (ask_fn *)find_function("ncclCommUserRank");
	int ranks, rank;

	if (!ask_size || !ask_rank || ask_size(comm, &ranks) || ask_rank(comm, &rank))
		return;
	pthread_mutex_lock(&lock);
	if (!c->is_told)
		coll_comm_add(c->id, (uint32_t)ranks, rank, NULL, false);
	c->is_told = true;
	pthread_mutex_unlock(&lock);
}

static bool has_begun(nccl_result_t result)
{
	return result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS;
}

nccl_result_t ncclCommInitRank(nccl_comm_t *comm, int ranks, nccl_id_t id, int rank)
{
	nccl_result_t result = NCCL_CALL(ncclCommInitRank)(comm, ranks, id, rank);

	if (has_begun(result))
		learn_comm(*comm, name_of(&id), ranks, rank);
	return result;
}

nccl_result_t ncclCommInitRankConfig(nccl_comm_t *comm, int ranks, nccl_id_t id, int rank,
				     void *config)
{
	nccl_result_t result = NCCL_CALL(ncclCommInitRankConfig)(comm, ranks, id, rank, config);

	if (has_begun(result))
		learn_comm(*comm, name_of(&id), ranks, rank);
	return result;
}

nccl_result_t ncclCommInitRankScalable(nccl_comm_t *comm, int ranks, int rank, int ids,
				       nccl_id_t *id, void *config)
{
	nccl_result_t result = NCCL_CALL(ncclCommInitRankScalable)(comm, ranks, rank, ids, id,
								   config);

	if (has_begun(result) && ids > 0)
		learn_comm(*comm, name_of(id), ranks, rank);
	return result;
}

nccl_result_t ncclCommSplit(nccl_comm_t comm, int color, int key, nccl_comm_t *made, void *config)
{
	struct known_comm *c = find_comm(comm);
	uint64_t n = c ? __atomic_add_fetch(&c->splits, 1, __ATOMIC_RELAXED) : 0;
	nccl_result_t result = NCCL_CALL(ncclCommSplit)(comm, color, key, made, config);

	if (has_begun(result) && c && color >= 0)
		learn_comm(*made, mix(mix(c->id, n), (uint64_t)color) | 1, 0, 0);
	return result;
}

nccl_result_t ncclCommDestroy(nccl_comm_t comm)
{
	forget_comm(comm);
	return NCCL_CALL(ncclCommDestroy)(comm);
}

nccl_result_t ncclCommAbort(nccl_comm_t comm)
{
	forget_comm(comm);
	return NCCL_CALL(ncclCommAbort)(comm);
}

/* ---- groups -----------------------------------------------------------------------------------
 */

nccl_result_t ncclGroupStart(void)
{
	if (!group.depth++)
		group.id = __atomic_add_fetch(&groups, 1, __ATOMIC_RELAXED);
	return NCCL_CALL(ncclGroupStart)();
}

nccl_result_t ncclGroupEnd(void)
{
	if (group.depth)
		group.depth--;
	return NCCL_CALL(ncclGroupEnd)();
}

/* ---- operations -------------------------------------------------------------------------------
 */

struct known_type {
	char name[COLL_DTYPE_BYTES];
	uint32_t bytes;
};

static const struct known_type *type_of(int type)
{
	static const struct known_type types[] = {
		{"int8", 1},	{"uint8", 1},	 {"int32", 4},	    {"uint32", 4},
		{"int64", 8},	{"uint64", 8},	 {"float16", 2},    {"float32", 4},
		{"float64", 8}, {"bfloat16", 2}, {"float8e4m3", 1}, {"float8e5m2", 1},
	};

	return type < 0 || (size_t)type >= sizeof(types) / sizeof(*types) ? NULL : types + type;
}

static void record(enum coll_op op, nccl_comm_t comm, size_t count, int type, int root)
{
	struct known_comm *c = find_comm(comm);
	const struct known_type *t = type_of(type);
	struct coll_call call = {
		.count = count,
		.group = group.depth ? group.id : 0,
		.element_bytes = t ? t->bytes : 0,
		.root = root,
		.op = op,
		.flags = COLL_LAUNCH_ONLY,
		.dtype = t ? t->name : NULL,
	};

	if (!c) {
		coll_stranger();
		return;
	}
	if (__builtin_expect(!c->is_told, 0) && !group.depth)
		tell_comm(comm, c);
	call.comm = c->id;
	call.coll_seq = __atomic_add_fetch(&c->seq, 1, __ATOMIC_RELAXED);
	coll_begin(&call);
}

nccl_result_t ncclAllReduce(const void *send, void *recv, size_t count, int type, int op,
			    nccl_comm_t comm, nccl_stream_t stream)
{
	record(COLL_ALLREDUCE, comm, count, type, COLL_NO_ROOT);
	return NCCL_CALL(ncclAllReduce)(send, recv, count, type, op, comm, stream);
}

nccl_result_t ncclReduce(const void *send, void *recv, size_t count, int type, int op, int root,
			 nccl_comm_t comm, nccl_stream_t stream)
{
	record(COLL_REDUCE, comm, count, type, root);
	return NCCL_CALL(ncclReduce)(send, recv, count, type, op, root, comm, stream);
}

nccl_result_t ncclBroadcast(const void *send, void *recv, size_t count, int type, int root,
			    nccl_comm_t comm, nccl_stream_t stream)
{
	record(COLL_BROADCAST, comm, count, type, root);
	return NCCL_CALL(ncclBroadcast)(send, recv, count, type, root, comm, stream);
}

/* The same in place. NCCL's own might call ncclBroadcast, and would be counted twice. */
nccl_result_t ncclBcast(void *data, size_t count, int type, int root, nccl_comm_t comm,
			nccl_stream_t stream)
{
	return ncclBroadcast(data, data, count, type, root, comm, stream);
}

nccl_result_t ncclAllGather(const void *send, void *recv, size_t count, int type, nccl_comm_t comm,
			    nccl_stream_t stream)
{
	record(COLL_ALLGATHER, comm, count, type, COLL_NO_ROOT);
	return NCCL_CALL(ncclAllGather)(send, recv, count, type, comm, stream);
}

nccl_result_t ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op,
				nccl_comm_t comm, nccl_stream_t stream)
{
	record(COLL_REDUCESCATTER, comm, count, type, COLL_NO_ROOT);
	return NCCL_CALL(ncclReduceScatter)(send, recv, count, type, op, comm, stream);
}
