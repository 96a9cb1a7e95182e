/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/stats/process_file.h"
#include "lib/stats/stats_file.h"
#include "lib/stats/summary.h"

enum {
	PAGE = 4096,
	GROW_SLOTS = 64, /* memory is taken for so many at once */
	COPY_BYTES = 1 << 16,
};

const uint64_t stats_note_room[STATS_NOTE_KINDS] = {STATS_ERRORS, STATS_ASYNCS, STATS_QP_LIVES};

struct stats_file stats_file = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define F (&stats_file)

static uint64_t round_up(uint64_t n)
{
	return (n + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

void stats_copy_name(char *to, size_t bytes, const char *from)
{
	size_t n = from ? strnlen(from, bytes - 1) : 0;

	memcpy(to, from ? from : "", n);
	memset(to + n, 0, bytes - n);
}

static void describe_process(struct stats_header *h, const char *job, uint64_t nonce,
			     const char *report)
{
	h->pid = (uint32_t)getpid();
	h->start_ticks = process_start_ticks();
	h->pid_namespace = process_pid_namespace();
	h->nonce = nonce;
	h->opened_ns = process_clock_ns(CLOCK_MONOTONIC);
	h->opened_real_ns = process_clock_ns(CLOCK_REALTIME);
	process_read_text("/proc/sys/kernel/random/boot_id", h->boot_id, sizeof(h->boot_id));
	h->boot_id[strcspn(h->boot_id, "\n")] = 0;
	process_read_text("/proc/self/comm", h->comm, sizeof(h->comm));
	h->comm[strcspn(h->comm, "\n")] = 0;
	process_read_command(h->command, sizeof(h->command));
	gethostname(h->host, sizeof(h->host) - 1);
	stats_copy_name(h->job, sizeof(h->job), job);
	stats_copy_name(h->report_dir, sizeof(h->report_dir), report);
}

/* A table behind what there is so far; *end moves behind it. */
static struct stats_table lay_table(uint32_t kind, size_t entry_bytes, uint64_t entries,
				    uint64_t *end)
{
	struct stats_table t = {kind, (uint32_t)entry_bytes, *end, entries, 0};

	*end = round_up(*end + entries * entry_bytes);
	return t;
}

/* Fills in where each table is. Returns the size of the file. */
static uint64_t lay_out(struct stats_table *t)
{
	uint64_t end = STATS_HEADER_BYTES;

	t[TABLE_EVENTS] = lay_table(STATS_TABLE_EVENTS, sizeof(struct stats_event), STATS_EVENTS,
				    &end);
	t[TABLE_SWITCHES] = lay_table(STATS_TABLE_SWITCHES, sizeof(struct stats_switch),
				      STATS_SWITCHES, &end);
	t[TABLE_SRQS] = lay_table(STATS_TABLE_SRQS, sizeof(struct stats_srq), STATS_SRQS_MAX, &end);
	for (uint32_t i = 0; i < STATS_NOTE_KINDS; i++)
		t[TABLE_NOTES + i] = lay_table(STATS_TABLE_ERRORS + i, sizeof(struct stats_note),
					       stats_note_room[i], &end);
	/* Last in the file, as it is hardly ever full. */
	t[TABLE_CONNS] = lay_table(STATS_TABLE_CONNS, sizeof(struct stats_conn), STATS_CONNS_MAX,
				   &end);
	return end;
}

static int map_file(int fd, uint64_t bytes, const struct stats_table *t)
{
	uint8_t *base;

	/* Now, as writing to a page that the file system has no room for raises SIGBUS. */
	int err = posix_fallocate(fd, 0, (off_t)t[TABLE_CONNS].at);

	if (err)
		return -err;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	F->events = (struct stats_event *)(base + t[TABLE_EVENTS].at);
	F->switches = (struct stats_switch *)(base + t[TABLE_SWITCHES].at);
	F->conns = (struct stats_conn *)(base + t[TABLE_CONNS].at);
	F->srqs = (struct stats_srq *)(base + t[TABLE_SRQS].at);
	for (int i = 0; i < STATS_NOTE_KINDS; i++)
		F->notes[i] = (struct stats_note *)(base + t[TABLE_NOTES + i].at);
	__atomic_store_n(&F->h, (struct stats_header *)base, __ATOMIC_RELEASE);
	return 0;
}

/* Asked for each note of a QP's life, where a system call would be seen. */
static _Atomic bool in_child;

static void mark_own_child(void)
{
	in_child = true;
}

static int watch_forks(void)
{
	static bool watched;
	int err = watched ? 0 : pthread_atfork(NULL, NULL, mark_own_child);

	watched |= !err;
	in_child = false;
	return -err;
}

static int init_file(int fd, const char *job, uint64_t nonce, const char *report_dir)
{
	struct stats_table table[TABLES];
	uint64_t bytes = lay_out(table);
	struct stat st;
	int err;

	if (ftruncate(fd, (off_t)bytes) || fstat(fd, &st))
		return -errno;
	err = watch_forks();
	if (err)
		return err;
	F->dev = st.st_dev;
	F->ino = st.st_ino;
	F->owner = getpid();
	F->conns_ready = 0;
	F->last_id = F->last_srq_id = 0;
	stats_forget_qps();
	err = map_file(fd, bytes, table);
	if (err)
		return err;
	describe_process(F->h, job, nonce, report_dir);
	memcpy(F->h->magic, STATS_MAGIC, sizeof(STATS_MAGIC));
	F->h->header_bytes = sizeof(struct stats_header);
	F->h->shape = stats_shape();
	F->h->tables = TABLES;
	memcpy(F->h->table, table, sizeof(table));
	/* Last: readers refuse the file until then. */
	__atomic_store_n(&F->h->version, STATS_VERSION, __ATOMIC_RELEASE);
	return 0;
}

int stats_open(const char *job, uint64_t nonce, const char *report_dir)
{
	int fd, err = 0;

	if (__atomic_load_n(&F->h, __ATOMIC_ACQUIRE))
		return 0; /* it may be the parent's, and its lock may be held for ever */
	pthread_mutex_lock(&F->lock);
	if (!F->h) {
		fd = process_file_create(F->path, sizeof(F->path), job, "stats");
		err = fd < 0 ? fd : init_file(fd, job, nonce, report_dir);
		if (fd >= 0 && err)
			unlink(F->path);
		if (fd >= 0)
			close(fd); /* else the program might, and use its number again */
	}
	pthread_mutex_unlock(&F->lock);
	return err;
}

const char *stats_path(void)
{
	return F->h && F->owner == getpid() ? F->path : NULL;
}

bool stats_lock(void)
{
	if (!__atomic_load_n(&F->h, __ATOMIC_ACQUIRE) || in_child)
		return false;
	pthread_mutex_lock(&F->lock);
	if (F->h)
		return true;
	pthread_mutex_unlock(&F->lock);
	return false;
}

void stats_unlock(void)
{
	pthread_mutex_unlock(&F->lock);
}

int stats_grow(void)
{
	uint64_t from = (uint64_t)((uint8_t *)(F->conns + F->conns_ready) - (uint8_t *)F->h);
	int fd, err = -ENOSPC;
	struct stat st;

	if (F->conns_ready + GROW_SLOTS > STATS_CONNS_MAX)
		return -ENOSPC;
	fd = open(F->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_dev != F->dev || st.st_ino != F->ino)
		err = -ESTALE;
	else
		err = -posix_fallocate(fd, (off_t)from, GROW_SLOTS * sizeof(struct stats_conn));
	close(fd);
	if (!err)
		F->conns_ready += GROW_SLOTS;
	return err;
}

/* Copies the file to another file system. What was never written stays a hole. */
static int copy_file(const char *to)
{
	static const char zeros[COPY_BYTES];
	uint64_t bytes = lay_out((struct stats_table[TABLES]){0});
	uint64_t used = (uint64_t)((uint8_t *)(F->conns + F->conns_ready) - (uint8_t *)F->h);
	int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), err = 0;

	if (fd < 0)
		return -errno;
	for (uint64_t at = 0; at < used && !err; at += COPY_BYTES) {
		size_t n = used - at < COPY_BYTES ? (size_t)(used - at) : COPY_BYTES;
		const uint8_t *from = (const uint8_t *)F->h + at;

		if (memcmp(from, zeros, n) && pwrite(fd, from, n, (off_t)at) != (ssize_t)n)
			err = errno ? -errno : -EIO;
	}
	if (!err && ftruncate(fd, (off_t)bytes))
		err = -errno;
	close(fd);
	if (err)
		unlink(to);
	return err;
}

/* Moves the file into the directory where a report is made of it. False: there is no room. */
static bool hand_in(void)
{
	const struct stats_header *h = F->h;
	char to[sizeof(h->report_dir) + 64];

	snprintf(to, sizeof(to), "%s/%u-%llu.stats", h->report_dir, h->pid,
		 (unsigned long long)h->opened_real_ns);
	if (!*h->report_dir || access(h->report_dir, F_OK) || !rename(F->path, to))
		return true;
	return errno == EXDEV && !copy_file(to);
}

static void leave_run_dir(void)
{
	char *dir;

	/* A file that found no room stays: shift-run finds it here, and removes it. */
	if (hand_in())
		unlink(F->path);
	dir = strrchr(F->path, '/');
	*dir = 0;
	rmdir(F->path); /* fails if other processes have their files there */
}

/* Not for ever: exit() may have been called in the handler of a signal, and this thread may have
 * had the lock when that came. Other threads keep it for microseconds. */
static bool stats_lock_to_close(void)
{
	const struct timespec ms = {.tv_nsec = 1000000};

	if (!__atomic_load_n(&F->h, __ATOMIC_ACQUIRE) || F->owner != getpid())
		return false;
	for (int i = 0; i < 100; i++) {
		if (!pthread_mutex_trylock(&F->lock)) {
			if (F->h)
				return true;
			stats_unlock();
			return false;
		}
		nanosleep(&ms, NULL);
	}
	return false;
}

int stats_close(char *summary, size_t bytes)
{
	struct shift_conn_stats counters;
	struct stats_now *now;
	int n;

	if (bytes)
		*summary = 0;
	if (!stats_lock_to_close())
		return 0;
	now = &F->h->now;
	stats_write_begin(&now->sequence);
	now->closed_ns = process_clock_ns(CLOCK_MONOTONIC);
	stats_write_end(&now->sequence);
	counters = now->gone_counters;
	for (uint64_t i = 0; i < now->slots_used; i++)
		if (F->conns[i].id)
			stats_add_counters(&counters, &F->conns[i].counters);
	n = stats_summary(summary, bytes, now, &counters);
	leave_run_dir();
	/* The mapping stays: another thread may still be on its way into it. */
	__atomic_store_n(&F->h, NULL, __ATOMIC_RELEASE);
	stats_unlock();
	return n;
}
