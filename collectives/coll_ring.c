/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "collectives/coll_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/stats/process_file.h"

enum { PAGE = 4096, TABLES = 4, PATH_BYTES = 128 };

enum { AT_OPS, AT_COMMS, AT_HOSTS, AT_MEMBERS };

/* The mapping, while there is a file. It is never undone, as a thread may be on its way into it. */
static struct coll_header *file;
static char file_path[PATH_BYTES];
static pid_t file_owner;

/* Around all that is not an operation: opening, communicators, hosts. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t round_to_page(uint64_t n)
{
	return (n + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static uint64_t lay_out(struct coll_table *t)
{
	static const struct coll_table tables[TABLES] = {
		[AT_OPS] = {COLL_TABLE_OPS, 1, sizeof(struct coll_entry), 0, 0, COLL_OPS_MAX, 0},
		[AT_COMMS] = {COLL_TABLE_COMMS, 1, sizeof(struct coll_comm), 0, 0, COLL_COMMS_MAX,
			      0},
		[AT_HOSTS] = {COLL_TABLE_HOSTS, 1, COLL_HOST_BYTES, 0, 0, COLL_HOSTS_MAX, 0},
		[AT_MEMBERS] = {COLL_TABLE_MEMBERS, 1, sizeof(uint32_t), 0, 0, COLL_MEMBERS_MAX, 0},
	};
	uint64_t at = COLL_HEADER_BYTES;

	memcpy(t, tables, sizeof(tables));
	for (int i = 0; i < TABLES; i++) {
		t[i].at = at;
		at = round_to_page(at + t[i].entries * t[i].entry_bytes);
	}
	return at;
}

static void *table_at(struct coll_header *h, int i)
{
	return (uint8_t *)h + h->table[i].at;
}

static void copy_text(char *to, size_t bytes, const char *from)
{
	size_t n = strnlen(from, bytes - 1);

	memcpy(to, from, n);
	memset(to + n, 0, bytes - n);
}

static void describe(struct coll_header *h, const char *source, const char *job, int rank)
{
	memcpy(h->magic, COLL_MAGIC, sizeof(COLL_MAGIC));
	h->header_bytes = sizeof(*h);
	h->pid = (uint32_t)getpid();
	h->tables = TABLES;
	h->start_ticks = process_start_ticks();
	h->pid_namespace = process_pid_namespace();
	h->opened_ns = process_clock_ns(CLOCK_MONOTONIC);
	h->opened_real_ns = process_clock_ns(CLOCK_REALTIME);
	process_read_text("/proc/sys/kernel/random/boot_id", h->boot_id, sizeof(h->boot_id));
	h->boot_id[strcspn(h->boot_id, "\n")] = 0;
	process_read_command(h->command, sizeof(h->command));
	gethostname(h->host, sizeof(h->host) - 1);
	copy_text(h->job, sizeof(h->job), job);
	copy_text(h->source, sizeof(h->source), source);
	h->rank = rank;
}

/* NULL: it cannot be had. All of its room is taken now, as writing to a page that the file system
 * has no room for raises SIGBUS. */
static struct coll_header *map_file(int fd)
{
	struct coll_table t[TABLES];
	uint64_t bytes = lay_out(t);
	struct coll_header *h;

	if (posix_fallocate(fd, 0, (off_t)bytes))
		return NULL;
	h = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (h == MAP_FAILED)
		return NULL;
	memcpy(h->table, t, sizeof(t));
	return h;
}

/* The parent's file is not for the child to write, nor its lock to wait for. */
static void forget_file(void)
{
	__atomic_store_n(&file, NULL, __ATOMIC_RELEASE);
	pthread_mutex_init(&lock, NULL);
}

static void create(const char *source, const char *job, int rank)
{
	static bool is_watching_forks;
	struct coll_header *h;
	char ending[24];
	int fd;

	copy_text(ending, sizeof(ending) - sizeof(COLL_ENDING), source);
	strcat(ending, COLL_ENDING);
	fd = process_file_create(file_path, sizeof(file_path), job, ending);
	if (fd < 0)
		return;
	h = map_file(fd);
	close(fd);
	if (!h || (!is_watching_forks && pthread_atfork(NULL, NULL, forget_file))) {
		unlink(file_path);
		return;
	}
	is_watching_forks = true;
	describe(h, source, job, rank);
	file_owner = getpid();
	__atomic_store_n(&h->version, COLL_VERSION, __ATOMIC_RELEASE);
	__atomic_store_n(&file, h, __ATOMIC_RELEASE);
}

static struct coll_header *current(void)
{
	return __atomic_load_n(&file, __ATOMIC_ACQUIRE);
}

bool coll_open(const char *source, int rank)
{
	const char *job = getenv("SHIFT_JOB"), *what = getenv("SHIFT_COLLECTIVES");
	int before = errno;

	if (!job || !*job || (what && !strcmp(what, "off")))
		return false;
	pthread_mutex_lock(&lock);
	if (!current())
		create(source, job, rank);
	pthread_mutex_unlock(&lock);
	errno = before;
	return current();
}

/* ---- operations -------------------------------------------------------------------------------
 */

/* False: another thread is writing there, which has slept while the ring went round. */
static bool claim(struct coll_entry *e)
{
	uint64_t seq = __atomic_load_n(&e->seq, __ATOMIC_RELAXED);

	return seq != COLL_BUSY && __atomic_compare_exchange_n(&e->seq, &seq, COLL_BUSY, false,
							       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void fill(struct coll_entry *e, const struct coll_call *c, uint64_t n)
{
	e->comm = c->comm;
	e->coll_seq = c->coll_seq;
	e->count = c->count;
	e->group = c->group;
	e->element_bytes = c->element_bytes;
	e->root = c->root;
	e->op = (uint8_t)c->op;
	e->flags = c->flags;
	if (c->dtype)
		memcpy(e->dtype, c->dtype, sizeof(e->dtype));
	else
		*e->dtype = 0;
	e->launch_ns = process_clock_ns(CLOCK_MONOTONIC);
	__atomic_store_n(&e->end, COLL_UNDER_WAY | n, __ATOMIC_RELAXED);
}

uint64_t coll_begin(const struct coll_call *call)
{
	struct coll_header *h = current();
	struct coll_entry *e;
	uint64_t n;

	if (!h)
		return 0;
	n = __atomic_fetch_add(&h->table[AT_OPS].written, 1, __ATOMIC_RELAXED);
	e = (struct coll_entry *)table_at(h, AT_OPS) + n % COLL_OPS_MAX;
	if (!claim(e)) {
		__atomic_fetch_add(&h->lost, 1, __ATOMIC_RELAXED);
		return 0;
	}
	/* Readers see that it is being written before they see anything of it. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	fill(e, call, n);
	__atomic_store_n(&e->seq, n + 1, __ATOMIC_RELEASE);
	return n + 1;
}

/* Only in place of what its own launch has left there. */
static void end_with(uint64_t ticket, uint64_t value)
{
	struct coll_header *h = current();
	uint64_t n = ticket - 1, under_way = COLL_UNDER_WAY | n;
	struct coll_entry *e;

	if (!h || !ticket)
		return;
	e = (struct coll_entry *)table_at(h, AT_OPS) + n % COLL_OPS_MAX;
	__atomic_compare_exchange_n(&e->end, &under_way, value, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}

void coll_end(uint64_t ticket)
{
	if (ticket)
		end_with(ticket, process_clock_ns(CLOCK_MONOTONIC));
}

void coll_forget(uint64_t ticket)
{
	end_with(ticket, 0);
}

void coll_stranger(void)
{
	struct coll_header *h = current();

	if (h)
		__atomic_fetch_add(&h->strangers, 1, __ATOMIC_RELAXED);
}

/* ---- communicators ----------------------------------------------------------------------------
 */

static int find_host(struct coll_header *h, const char *name)
{
	char(*hosts)[COLL_HOST_BYTES] = table_at(h, AT_HOSTS);
	uint64_t n = h->table[AT_HOSTS].written;

	for (uint64_t i = n; i-- > 0;) /* ranks of one host mostly follow each other */
		if (!strncmp(hosts[i], name, COLL_HOST_BYTES - 1))
			return (int)i;
	if (n == COLL_HOSTS_MAX)
		return -1;
	copy_text(hosts[n], COLL_HOST_BYTES, name);
	__atomic_store_n(&h->table[AT_HOSTS].written, n + 1, __ATOMIC_RELEASE);
	return (int)n;
}

int coll_host(const char *name)
{
	struct coll_header *h;
	int i = -1;

	pthread_mutex_lock(&lock);
	h = current();
	if (h)
		i = find_host(h, name);
	pthread_mutex_unlock(&lock);
	return i;
}

/* A free one, else that which was freed first; NULL: all are in use. */
static struct coll_comm *find_slot(struct coll_header *h)
{
	struct coll_comm *c = table_at(h, AT_COMMS), *oldest = NULL;
	uint64_t *used = &h->table[AT_COMMS].written;

	if (*used < COLL_COMMS_MAX)
		return c + (*used)++;
	for (int i = 0; i < COLL_COMMS_MAX; i++)
		if (c[i].freed_ns && (!oldest || c[i].freed_ns < oldest->freed_ns))
			oldest = c + i;
	return oldest;
}

/* What a slot has of the table of members is used again if it is enough. */
static bool find_members(struct coll_header *h, struct coll_comm *c, uint32_t size)
{
	uint64_t *used = &h->table[AT_MEMBERS].written;

	if (c->members >= size)
		return true;
	if (size > COLL_MEMBERS_MAX - *used)
		return false;
	c->first = (uint32_t)*used;
	*used += size;
	return true;
}

static void write_comm(struct coll_header *h, struct coll_comm *c, const struct coll_comm *is,
		       const uint32_t *hosts)
{
	__atomic_fetch_add(&c->sequence, 1, __ATOMIC_ACQ_REL);
	c->id = is->id;
	c->made_ns = process_clock_ns(CLOCK_MONOTONIC);
	c->freed_ns = 0;
	c->size = is->size;
	c->rank = is->rank;
	c->is_world = is->is_world;
	if (hosts && find_members(h, c, is->size)) {
		c->members = is->size;
		memcpy((uint32_t *)table_at(h, AT_MEMBERS) + c->first, hosts,
		       is->size * sizeof(*hosts));
	} else {
		c->members = 0;
	}
	__atomic_fetch_add(&c->sequence, 1, __ATOMIC_RELEASE);
}

bool coll_comm_add(uint64_t id, uint32_t size, int rank, const uint32_t *hosts, bool is_world)
{
	const struct coll_comm is = {.id = id, .size = size, .rank = rank, .is_world = is_world};
	struct coll_comm *c = NULL;
	struct coll_header *h;

	pthread_mutex_lock(&lock);
	h = current();
	if (h)
		c = find_slot(h);
	if (c)
		write_comm(h, c, &is, hosts);
	else if (h)
		h->untold++;
	pthread_mutex_unlock(&lock);
	return c;
}

void coll_comm_remove(uint64_t id)
{
	struct coll_header *h;
	struct coll_comm *c;

	pthread_mutex_lock(&lock);
	h = current();
	c = h ? table_at(h, AT_COMMS) : NULL;
	for (uint64_t i = 0; h && i < h->table[AT_COMMS].written; i++)
		if (c[i].id == id && !c[i].freed_ns)
			__atomic_store_n(&c[i].freed_ns, process_clock_ns(CLOCK_MONOTONIC),
					 __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
}

/* ---- the end ----------------------------------------------------------------------------------
 */

void coll_close(void)
{
	struct coll_header *h = current();
	char *dir;

	if (!h || file_owner != getpid())
		return;
	__atomic_store_n(&h->closed_ns, process_clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELEASE);
	__atomic_store_n(&file, NULL, __ATOMIC_RELEASE);
	unlink(file_path);
	dir = strrchr(file_path, '/');
	*dir = 0;
	rmdir(file_path); /* fails if other processes have their files there */
}

__attribute__((destructor)) static void end_of_process(void)
{
	coll_close();
}
