/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Communicators, as this process knows them. Nothing is sent to agree on their names: the hooks may
 * be missing in some ranks, which would wait for ever. What makes a communicator is called by all
 * members of its parent, in the same order; so the parent's name, how many such calls there were,
 * and the world rank of the new one's rank 0 are the same at all its members, and no two have the
 * same.
 */
#include "collectives/mpi_world.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/handle_map.h"

enum { COMMS_MAX = 512, TYPES_MAX = 256, GROUPS_MAX = 64 };

enum { ID_WORLD = 1 };

struct known_comm {
	uint64_t id, seq, calls;
	int size, rank;
};

struct known_type {
	uint32_t bytes;
	char name[COLL_DTYPE_BYTES];
};

static struct known_comm comms[COMMS_MAX];
static struct handle_map comm_map; /* indices of comms, + 1 */
static struct known_type types[TYPES_MAX];
static struct handle_map type_map; /* indices of types, + 1 */
static uint64_t types_used;
static struct handle_map request_map; /* tickets */

/* How often a group has made a communicator. */
static struct {
	uint64_t id, count;
} groups[GROUPS_MAX];

static MPI_Comm world, self, no_comm; /* operations on self wait for nobody */
static MPI_Datatype no_type;
static MPI_Group world_group;
static bool all_are_here; /* all ranks of the job are on this host */
static uint32_t here;	  /* its number, as of coll_host() */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct known_comm *find_comm(MPI_Comm comm)
{
	struct handle_slot *s = handle_find(&comm_map, MPI_KEY(comm));

	return s ? comms + s->value - 1 : NULL;
}

/* ---- datatypes --------------------------------------------------------------------------------
 */

/* Of the predefined ones; others are freed, and their handles used again. */
static struct known_type *learn_type(MPI_Datatype type, uint32_t bytes)
{
	char name[MPI_MAX_OBJECT_NAME] = "", *from = name;
	uint64_t i = __atomic_fetch_add(&types_used, 1, __ATOMIC_RELAXED);
	struct known_type *t = types + i;
	int length = 0;

	if (i >= TYPES_MAX || PMPI_CALL(Type_get_name)(type, name, &length) != MPI_SUCCESS)
		return NULL;
	if (!strncmp(name, "MPI_", 4))
		from += 4;
	for (int c = 0; from[c] && c < COLL_DTYPE_BYTES - 1; c++)
		t->name[c] = from[c] >= 'A' && from[c] <= 'Z' ? from[c] - 'A' + 'a' : from[c];
	t->bytes = bytes;
	return handle_put(&type_map, MPI_KEY(type), i + 1) ? t : NULL;
}

static const char derived[COLL_DTYPE_BYTES] = "derived";

static void describe_type(struct coll_call *call, MPI_Datatype type)
{
	struct handle_slot *s = handle_find(&type_map, MPI_KEY(type));
	struct known_type *t = s ? types + s->value - 1 : NULL;
	int ints, addresses, inner, combiner = -1, bytes = 0;

	if (!t) {
		if (!MPI_KEY(type) || type == no_type ||
		    PMPI_CALL(Type_size)(type, &bytes) != MPI_SUCCESS)
			return;
		PMPI_CALL(Type_get_envelope)(type, &ints, &addresses, &inner, &combiner);
		t = combiner == MPI_COMBINER_NAMED ? learn_type(type, (uint32_t)bytes) : NULL;
	}
	call->element_bytes = t ? t->bytes : (uint32_t)(bytes > 0 ? bytes : 0);
	call->dtype = t ? t->name : derived;
}

/* ---- operations -------------------------------------------------------------------------------
 */

static uint64_t begin(struct coll_call *call, MPI_Comm comm)
{
	struct known_comm *c = find_comm(comm);

	if (!c) {
		if (comm != self)
			coll_stranger();
		return 0;
	}
	call->comm = c->id;
	call->coll_seq = __atomic_add_fetch(&c->seq, 1, __ATOMIC_RELAXED);
	return coll_begin(call);
}

uint64_t mpi_begin(enum coll_op op, MPI_Comm comm, uint64_t count, MPI_Datatype type, int root)
{
	struct coll_call call = {.op = op, .count = count, .root = root};

	if (handle_none(&comm_map))
		return 0;
	if (!find_comm(comm))
		return begin(&call, comm);
	describe_type(&call, type);
	return begin(&call, comm);
}

uint64_t mpi_begin_barrier(MPI_Comm comm)
{
	struct coll_call call = {.op = COLL_BARRIER, .root = COLL_NO_ROOT};

	return handle_none(&comm_map) ? 0 : begin(&call, comm);
}

int mpi_rank(MPI_Comm comm)
{
	struct known_comm *c = find_comm(comm);

	return c ? c->rank : -1;
}

uint64_t mpi_sum(MPI_Comm comm, const int *counts)
{
	struct known_comm *c = find_comm(comm);
	uint64_t sum = 0;

	for (int i = 0; c && counts && i < c->size; i++)
		sum += (uint64_t)counts[i];
	return sum;
}

/* ---- requests ---------------------------------------------------------------------------------
 */

void mpi_follow(const MPI_Request *request, int err, uint64_t ticket)
{
	/* One that has this request already is complete, or its end was not seen: it is over. */
	if (err == MPI_SUCCESS && ticket && !mpi_follows_none())
		coll_end(handle_take(&request_map, MPI_KEY(*request)));
	if (err != MPI_SUCCESS)
		coll_end(ticket);
	else if (ticket && !handle_put(&request_map, MPI_KEY(*request), ticket))
		coll_forget(ticket);
}

bool mpi_follows_none(void)
{
	return handle_none(&request_map);
}

void mpi_request_ended(uint64_t key)
{
	coll_end(handle_take(&request_map, key));
}

/* ---- communicators ----------------------------------------------------------------------------
 */

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a ^ b * 0x9e3779b97f4a7c15ULL) + 0x632be59bd9b4e019ULL;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/* The world rank of the rank 0 of a communicator. MPI_UNDEFINED: it is of another job. */
static int leader_of(MPI_Comm comm)
{
	int zero = 0, leader = MPI_UNDEFINED;
	MPI_Group group;

	if (PMPI_CALL(Comm_group)(comm, &group) != MPI_SUCCESS)
		return MPI_UNDEFINED;
	PMPI_CALL(Group_translate_ranks)(group, 1, &zero, world_group, &leader);
	PMPI_CALL(Group_free)(&group);
	return leader;
}

static bool is_between_groups(MPI_Comm comm)
{
	int inter = 1;

	return PMPI_CALL(Comm_test_inter)(comm, &inter) != MPI_SUCCESS || inter;
}

/* Locked. The hosts of its members are told if that is clear: nothing is sent to find them out. */
static void tell_comm(const struct known_comm *c)
{
	uint32_t *hosts = all_are_here ? malloc((size_t)c->size * sizeof(*hosts)) : NULL;

	for (int i = 0; hosts && i < c->size; i++)
		hosts[i] = here;
	coll_comm_add(c->id, (uint32_t)c->size, c->rank, hosts, c->id == ID_WORLD);
	free(hosts);
}

/* Locked. */
static void forget_comm(MPI_Comm comm)
{
	uint64_t i = handle_take(&comm_map, MPI_KEY(comm));

	if (i) {
		coll_comm_remove(comms[i - 1].id);
		comms[i - 1].id = 0;
	}
}

/* Locked. One without a place stays a stranger. */
static void learn_comm(MPI_Comm comm, uint64_t id)
{
	struct known_comm *c = comms;

	forget_comm(comm); /* it is new: one that had its handle was freed where we do not see it */
	while (c < comms + COMMS_MAX && c->id)
		c++;
	if (c == comms + COMMS_MAX)
		return;
	*c = (struct known_comm){.id = id};
	PMPI_CALL(Comm_size)(comm, &c->size);
	PMPI_CALL(Comm_rank)(comm, &c->rank);
	if (!handle_put(&comm_map, MPI_KEY(comm), (uint64_t)(c - comms) + 1)) {
		c->id = 0;
		return;
	}
	tell_comm(c);
}

static int rank_in_world(void)
{
	int rank = -1;

	PMPI_CALL(Comm_rank)(world, &rank);
	return rank;
}

/* As mpirun says. */
static void find_hosts(void)
{
	const char *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
	char name[COLL_HOST_BYTES] = "";
	int size = 0, i;

	if (!local)
		local = getenv("MPI_LOCALNRANKS");
	PMPI_CALL(Comm_size)(world, &size);
	gethostname(name, sizeof(name) - 1);
	i = coll_host(name);
	here = (uint32_t)i;
	all_are_here = i >= 0 && (size == 1 || (local && atoi(local) == size));
}

void mpi_started(void)
{
	world = MPI_HANDLE(MPI_Comm, MPI_COMM_WORLD, "ompi_mpi_comm_world");
	self = MPI_HANDLE(MPI_Comm, MPI_COMM_SELF, "ompi_mpi_comm_self");
	no_comm = MPI_HANDLE(MPI_Comm, MPI_COMM_NULL, "ompi_mpi_comm_null");
	no_type = MPI_HANDLE(MPI_Datatype, MPI_DATATYPE_NULL, "ompi_mpi_datatype_null");
	if (!MPI_KEY(world) || !MPI_KEY(no_comm) || !MPI_KEY(no_type) ||
	    !coll_open("mpi", rank_in_world()) ||
	    PMPI_CALL(Comm_group)(world, &world_group) != MPI_SUCCESS)
		return;
	pthread_mutex_lock(&lock);
	find_hosts();
	learn_comm(world, ID_WORLD);
	pthread_mutex_unlock(&lock);
}

uint64_t mpi_comm_call(MPI_Comm parent)
{
	struct known_comm *c = find_comm(parent);

	return c ? mix(c->id, __atomic_add_fetch(&c->calls, 1, __ATOMIC_RELAXED)) : 0;
}

static void learn_child(uint64_t call, MPI_Comm comm)
{
	int leader;

	if (!call || comm == no_comm || is_between_groups(comm))
		return;
	leader = leader_of(comm);
	if (leader == MPI_UNDEFINED)
		return;
	pthread_mutex_lock(&lock);
	learn_comm(comm, mix(call, (uint64_t)leader) | 2); /* neither 0 nor that of the world */
	pthread_mutex_unlock(&lock);
}

void mpi_comm_made(uint64_t call, MPI_Comm comm)
{
	learn_child(call, comm);
}

/* The name of a group: its members' world ranks, in their order. 0: it cannot be told. */
static uint64_t name_group(MPI_Comm comm)
{
	uint64_t name = 0;
	MPI_Group group;
	int n = 0;

	if (PMPI_CALL(Comm_group)(comm, &group) != MPI_SUCCESS)
		return 0;
	PMPI_CALL(Group_size)(group, &n);
	for (int i = 0, rank; i < n; i++)
		if (PMPI_CALL(Group_translate_ranks)(group, 1, &i, world_group, &rank) ==
		    MPI_SUCCESS)
			name = mix(name + 1, (uint64_t)rank);
	PMPI_CALL(Group_free)(&group);
	return name;
}

/* How often it has done so: all its members have taken part each time. 0: too many groups do. */
static uint64_t count_group(uint64_t id)
{
	for (int i = 0; i < GROUPS_MAX; i++) {
		if (groups[i].id && groups[i].id != id)
			continue;
		groups[i].id = id;
		return ++groups[i].count;
	}
	return 0;
}

void mpi_comm_made_by_group(MPI_Comm parent, int tag, MPI_Comm comm)
{
	struct known_comm *c = find_comm(parent);
	uint64_t name, count;

	if (!c || comm == no_comm)
		return;
	name = mix(mix(c->id, name_group(comm)), (uint64_t)tag);
	pthread_mutex_lock(&lock);
	count = count_group(name);
	pthread_mutex_unlock(&lock);
	learn_child(count ? mix(name, ~count) : 0, comm);
}

void mpi_comm_gone(MPI_Comm comm)
{
	pthread_mutex_lock(&lock);
	forget_comm(comm);
	pthread_mutex_unlock(&lock);
}
