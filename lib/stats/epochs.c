/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/stats/epochs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "lib/stats/epoch_file.h"
#include "lib/stats/process_file.h"

enum {
	BUCKETS = 1024,
	OUTSTANDING_FIRST = 64,	   /* memory for so many at first, and then twice as much */
	OUTSTANDING_MAX = 1 << 16, /* more have no queue pair: nobody sees its completions */
	NIC_BYTES = 64,
	RECENT = 2, /* of a post and of a completion */
};

/*
 * A completion may be polled long after it came, and of an unsignaled work request there is none:
 * so nothing is believed to have been sent so many times slower than the fastest queue pair of this
 * process was, or for longer than a second.
 */
static const double slower_max = 16;
static const uint64_t spread_max_ns = 1000000000;

/* For so long a queue pair's rate is measured, at least and at most. */
static const uint64_t rate_min_ns = 10000, rate_max_ns = 100000000;

/* A work request that is outstanding. */
struct outstanding {
	uint64_t posted_ns;
	uint64_t bytes : 63, signaled : 1;
};

/* A queue pair. */
struct followed {
	struct followed *next;
	uint64_t number;
	uint32_t qpn;
	bool sig_all, failed;
	uint64_t sent_ns;     /* until when it has sent what is retired */
	uint64_t measured_ns; /* its rate: from then on, so many bytes */
	uint64_t measured_bytes;
	uint64_t recent[RECENT]; /* its newest runs, + 1, the newest first; 0: none */
	struct outstanding *ring;
	uint32_t room, head, tail; /* room: a power of two, or 0; head and tail count on */
	char nic[NIC_BYTES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* around all that follows */
static struct epoch_header *file; /* never unmapped, as a thread may be on its way into it */
static struct epoch_run *runs;
static struct followed *known[BUCKETS];
static double fastest; /* bytes in a ns, of one queue pair, so far */
static char file_path[128];

/* This thread has the lock: the program may post in the handler of a signal, which is not
 * recorded. */
static _Thread_local volatile bool inside;
static pid_t file_owner;

static void copy_text(char *to, size_t bytes, const char *from)
{
	size_t n = strnlen(from, bytes - 1);

	memcpy(to, from, n);
	memset(to + n, 0, bytes - n);
}

/* --- the file ----------------------------------------------------------------------------------
 */

static void describe_epochs(struct epoch_header *h, const char *job, uint64_t epoch_ns)
{
	memcpy(h->magic, EPOCH_MAGIC, sizeof(EPOCH_MAGIC));
	h->header_bytes = sizeof(*h);
	h->pid = (uint32_t)getpid();
	h->run_bytes = sizeof(struct epoch_run);
	h->start_ticks = process_start_ticks();
	h->pid_namespace = process_pid_namespace();
	h->opened_ns = process_clock_ns(CLOCK_MONOTONIC);
	h->opened_real_ns = process_clock_ns(CLOCK_REALTIME);
	process_read_text("/proc/sys/kernel/random/boot_id", h->boot_id, sizeof(h->boot_id));
	h->boot_id[strcspn(h->boot_id, "\n")] = 0;
	gethostname(h->host, sizeof(h->host) - 1);
	copy_text(h->job, sizeof(h->job), job);
	h->epoch_ns = epoch_ns;
	h->runs = EPOCH_RUNS;
}

/* The parent's file is not for the child to write, nor its lock to wait for. */
static void forget_file(void)
{
	__atomic_store_n(&file, NULL, __ATOMIC_RELEASE);
	pthread_mutex_init(&lock, NULL);
	inside = false;
	memset(known, 0, sizeof(known));
}

static int watch_epoch_forks(void)
{
	static bool watched;
	int err = watched ? 0 : pthread_atfork(NULL, NULL, forget_file);

	watched |= !err;
	return -err;
}

/* All of its room is taken now, as writing to a page that the file system has no room for raises
 * SIGBUS. */
static int map_epochs(int fd, struct epoch_header **h)
{
	size_t bytes = EPOCH_HEADER_BYTES + sizeof(struct epoch_run) * EPOCH_RUNS;
	int err = -posix_fallocate(fd, 0, (off_t)bytes);
	void *base;

	if (err)
		return err;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	*h = base;
	return 0;
}

static int create_file(const char *job, uint64_t epoch_ns)
{
	struct epoch_header *h = NULL;
	int err, fd = process_file_create(file_path, sizeof(file_path), job, EPOCH_ENDING + 1);

	if (fd < 0)
		return fd;
	err = map_epochs(fd, &h);
	close(fd); /* else the program might, and use its number again */
	if (!err)
		err = watch_epoch_forks();
	if (err) {
		unlink(file_path);
		return err;
	}
	describe_epochs(h, job, epoch_ns);
	file_owner = getpid();
	fastest = 0;
	runs = (struct epoch_run *)((uint8_t *)h + EPOCH_HEADER_BYTES);
	__atomic_store_n(&h->version, EPOCH_VERSION, __ATOMIC_RELEASE);
	__atomic_store_n(&file, h, __ATOMIC_RELEASE);
	return 0;
}

int epochs_open(const char *job, uint64_t epoch_ns)
{
	int err = 0;

	pthread_mutex_lock(&lock);
	if (!file)
		err = create_file(job, epoch_ns);
	pthread_mutex_unlock(&lock);
	return err;
}

static void forget_all(void)
{
	for (int i = 0; i < BUCKETS; i++) {
		struct followed *q;

		while ((q = known[i])) {
			known[i] = q->next;
			free(q->ring);
			free(q);
		}
	}
}

/* False: there is no file, and nothing is locked. */
static bool epochs_enter(void)
{
	if (!__atomic_load_n(&file, __ATOMIC_ACQUIRE) || inside)
		return false;
	inside = true;
	pthread_mutex_lock(&lock);
	if (file)
		return true;
	pthread_mutex_unlock(&lock);
	inside = false;
	return false;
}

static void epochs_leave(void)
{
	pthread_mutex_unlock(&lock);
	inside = false;
}

/* Not for ever: exit() may have been called in the handler of a signal, and this thread may have
 * had the lock when that came. */
static bool epochs_enter_to_close(void)
{
	const struct timespec ms = {.tv_nsec = 1000000};

	if (!__atomic_load_n(&file, __ATOMIC_ACQUIRE) || file_owner != getpid())
		return false;
	for (int i = 0; i < 100; i++) {
		if (!pthread_mutex_trylock(&lock))
			return true;
		nanosleep(&ms, NULL);
	}
	return false;
}

void epochs_close(void)
{
	char *dir;

	if (!epochs_enter_to_close())
		return;
	if (file) {
		__atomic_store_n(&file->closed_ns, process_clock_ns(CLOCK_MONOTONIC),
				 __ATOMIC_RELEASE);
		__atomic_store_n(&file, NULL, __ATOMIC_RELEASE);
		forget_all();
		unlink(file_path);
		dir = strrchr(file_path, '/');
		*dir = 0;
		rmdir(file_path); /* fails if other processes have their files there */
	}
	epochs_leave();
}

/* --- queue pairs -------------------------------------------------------------------------------
 */

/* Where it hangs; *where is NULL if it is not known. */
static struct followed **find_followed(const char *nic, uint32_t qpn)
{
	struct followed **at = known + qpn % BUCKETS;

	while (*at && ((*at)->qpn != qpn || strncmp((*at)->nic, nic, NIC_BYTES - 1)))
		at = &(*at)->next;
	return at;
}

static void forget_followed(struct followed **at)
{
	struct followed *q = *at;

	*at = q->next;
	free(q->ring);
	free(q);
}

void epochs_qp_created(const char *nic, uint32_t qpn, uint64_t number, bool sig_all)
{
	struct followed **at, *q;

	if (!number || !epochs_enter())
		return;
	at = find_followed(nic, qpn);
	if (*at) /* the thread that has destroyed it has not said so yet */
		forget_followed(at);
	q = calloc(1, sizeof(*q));
	if (q) {
		q->number = number;
		q->qpn = qpn;
		q->sig_all = sig_all;
		copy_text(q->nic, NIC_BYTES, nic);
		q->next = known[qpn % BUCKETS];
		known[qpn % BUCKETS] = q;
	}
	epochs_leave();
}

void epochs_qp_reset(const char *nic, uint32_t qpn)
{
	struct followed *q;

	if (!epochs_enter())
		return;
	q = *find_followed(nic, qpn);
	if (q) {
		q->head = q->tail;
		q->failed = false;
	}
	epochs_leave();
}

void epochs_qp_destroyed(const char *nic, uint32_t qpn, uint64_t number)
{
	struct followed **at;

	if (!epochs_enter())
		return;
	at = find_followed(nic, qpn);
	if (*at && (*at)->number == number)
		forget_followed(at);
	epochs_leave();
}

/* --- the ring ----------------------------------------------------------------------------------
 */

/* A run of this queue pair that has just these epochs, and has not been overwritten. */
static struct epoch_run *find_run(const struct followed *q, uint64_t first, uint32_t epochs)
{
	for (int i = 0; i < RECENT; i++) {
		struct epoch_run *r = runs + (q->recent[i] - 1) % EPOCH_RUNS;

		if (q->recent[i] && file->written - (q->recent[i] - 1) <= EPOCH_RUNS &&
		    r->first == first && r->epochs == epochs)
			return r;
	}
	return NULL;
}

static struct epoch_run *begin_run(struct followed *q, uint64_t first, uint32_t epochs)
{
	struct epoch_run *r = runs + file->written % EPOCH_RUNS;

	*r = (struct epoch_run){.qp = q->number, .first = first, .epochs = epochs};
	q->recent[1] = q->recent[0];
	q->recent[0] = file->written + 1;
	__atomic_store_n(&file->written, file->written + 1, __ATOMIC_RELEASE);
	return r;
}

/* A reader may see one of the numbers and not yet the other. */
static void add_to_run(struct followed *q, uint64_t first, uint64_t epochs, uint64_t bytes,
		       uint32_t wr, uint32_t wc)
{
	struct epoch_run *r;

	if (!epochs || !(bytes | wr | wc))
		return;
	r = find_run(q, first, (uint32_t)epochs);
	if (!r)
		r = begin_run(q, first, (uint32_t)epochs);
	r->bytes += bytes;
	r->wr += wr;
	r->wc += wc;
}

static uint64_t epoch_at(uint64_t ns)
{
	return ns > file->opened_ns ? (ns - file->opened_ns) / file->epoch_ns : 0;
}

static uint64_t begin_of_epoch(uint64_t epoch)
{
	return file->opened_ns + epoch * file->epoch_ns;
}

static uint64_t share_of(uint64_t bytes, uint64_t ns, uint64_t of_ns)
{
	return (uint64_t)((__uint128_t)bytes * ns / of_ns);
}

/* Of the first and of the last epoch only a part was used. */
static void spread_bytes(struct followed *q, uint64_t from_ns, uint64_t to_ns, uint64_t bytes)
{
	uint64_t a = epoch_at(from_ns), b = epoch_at(to_ns), head, tail;

	if (a == b) {
		add_to_run(q, b, 1, bytes, 0, 0);
		return;
	}
	head = share_of(bytes, begin_of_epoch(a + 1) - from_ns, to_ns - from_ns);
	tail = share_of(bytes, to_ns - begin_of_epoch(b), to_ns - from_ns);
	if (b - a == 1)
		tail = bytes - head;
	add_to_run(q, a, 1, head, 0, 0);
	add_to_run(q, a + 1, b - a - 1, bytes - head - tail, 0, 0);
	add_to_run(q, b, 1, tail, 0, 0);
}

/* --- work requests -----------------------------------------------------------------------------
 */

static bool make_room(struct followed *q)
{
	uint32_t room = q->room ? 2 * q->room : OUTSTANDING_FIRST;
	struct outstanding *ring;

	if (q->tail - q->head < q->room)
		return true;
	ring = room <= OUTSTANDING_MAX ? malloc(room * sizeof(*ring)) : NULL;
	if (!ring)
		return false;
	for (uint32_t i = q->head; i != q->tail; i++)
		ring[i & (room - 1)] = q->ring[i & (q->room - 1)];
	free(q->ring);
	q->ring = ring;
	q->room = room;
	return true;
}

void epochs_posting(const char *nic, uint32_t qpn, uint64_t bytes, bool signaled, uint64_t now_ns)
{
	struct followed *q;

	if (!epochs_enter())
		return;
	q = *find_followed(nic, qpn);
	if (!q || (!q->failed && !make_room(q)))
		file->unknown++;
	else if (!q->failed) {
		if (q->head == q->tail) {
			q->measured_ns = now_ns;
			q->measured_bytes = 0;
		}
		q->ring[q->tail++ & (q->room - 1)] = (struct outstanding){now_ns, bytes & INT64_MAX,
									  signaled || q->sig_all};
	}
	epochs_leave();
}

void epochs_posted(const char *nic, uint32_t qpn, uint32_t taken, uint32_t refused, uint64_t now_ns)
{
	struct followed *q;

	if (!epochs_enter())
		return;
	q = *find_followed(nic, qpn);
	if (q) {
		q->tail -= refused < q->tail - q->head ? refused : q->tail - q->head;
		add_to_run(q, epoch_at(now_ns), 1, 0, taken, 0);
	}
	epochs_leave();
}

static struct outstanding *oldest_of(struct followed *q)
{
	return q->head == q->tail ? NULL : q->ring + (q->head & (q->room - 1));
}

/* From the post of the oldest on, so that what was polled late does not count as fast. */
static void measure_rate(struct followed *q, uint64_t bytes, uint64_t now_ns)
{
	uint64_t ns = now_ns > q->measured_ns ? now_ns - q->measured_ns : 0;
	const struct outstanding *o = oldest_of(q);

	q->measured_bytes += bytes;
	if (ns >= rate_min_ns && (double)q->measured_bytes / (double)ns > fastest)
		fastest = (double)q->measured_bytes / (double)ns;
	if (ns < rate_max_ns)
		return;
	q->measured_ns = o ? o->posted_ns : now_ns;
	q->measured_bytes = 0;
}

static uint64_t shortest_for(uint64_t bytes)
{
	double ns = fastest > 0 ? (double)bytes / fastest : 0;

	return ns < (double)spread_max_ns ? (uint64_t)ns : spread_max_ns;
}

static uint64_t longest_for(uint64_t bytes)
{
	double ns = fastest > 0 ? slower_max * (double)bytes / fastest : (double)spread_max_ns;

	return ns < (double)spread_max_ns ? (uint64_t)ns : spread_max_ns;
}

static uint64_t later_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* It has sent so much, one behind the other, from then on, for ns at most. */
static void send_bytes(struct followed *q, uint64_t from_ns, uint64_t now_ns, uint64_t bytes,
		       uint64_t ns)
{
	/* Another thread's clock may be read before, and its completion come after. */
	uint64_t from = from_ns < now_ns ? from_ns : now_ns;

	q->sent_ns = now_ns - from > ns ? from + ns : now_ns;
	spread_bytes(q, from, q->sent_ns, bytes);
}

/* The oldest one that has a completion, and those before it that have none. If it was posted when
 * those must have been sent, it is by itself, and nothing tells of them that they were slow. */
static void retire_oldest(struct followed *q, uint64_t now_ns)
{
	uint64_t from_ns = q->sent_ns, bytes = 0, sum = 0;
	const struct outstanding *o;
	bool signaled = false;
	uint32_t n = 0;

	for (; !signaled && (o = oldest_of(q)); q->head++, n++) {
		if (bytes && o->posted_ns > from_ns + longest_for(bytes)) {
			send_bytes(q, from_ns, now_ns, bytes, shortest_for(bytes));
			bytes = 0;
		}
		if (!bytes)
			from_ns = later_of(q->sent_ns, o->posted_ns);
		bytes += o->bytes;
		sum += o->bytes;
		signaled = o->signaled;
	}
	measure_rate(q, sum, now_ns);
	send_bytes(q, from_ns, now_ns, bytes, longest_for(bytes));
	add_to_run(q, epoch_at(now_ns), 1, 0, 0, n);
}

void epochs_completed(const char *nic, uint32_t qpn, bool success, uint64_t now_ns)
{
	struct followed *q;

	if (!epochs_enter())
		return;
	q = *find_followed(nic, qpn);
	if (q && !success) {
		q->failed = true;
		q->head = q->tail;
	} else if (q && !q->failed) {
		retire_oldest(q, now_ns);
	}
	epochs_leave();
}
