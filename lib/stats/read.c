/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/stats/read.h"

enum {
	PATIENCE_NS = 200 * 1000 * 1000,
	PATIENCE_OTHERS_NS = 2 * 1000 * 1000, /* another user could make us wait for every file */
	RING_TRIES = 10,
	ENTRY_BYTES_MAX = 4096,
	FILE_BYTES_MAX = 1 << 26,
};

static int read_at(int fd, void *to, size_t bytes, uint64_t at)
{
	ssize_t n = pread(fd, to, bytes, (off_t)at);

	if (n < 0)
		return -errno;
	return (size_t)n == bytes ? 0 : -EBADMSG;
}

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t patience_ns(const struct stats_copy *copy)
{
	return copy->owner == geteuid() ? PATIENCE_NS : PATIENCE_OTHERS_NS;
}

/* Reads an object that begins with its sequence number. Three calls, as nothing promises the order
 * of the loads within one. 1: a good copy, 0: it was being changed, or a negative errno. */
static int try_steady(int fd, void *to, size_t bytes, uint64_t at)
{
	uint64_t before, after;
	int err = read_at(fd, &before, sizeof(before), at);

	if (!err)
		err = read_at(fd, to, bytes, at);
	if (!err)
		err = read_at(fd, &after, sizeof(after), at);
	if (err)
		return err;
	return !(before & 1) && before == after && !memcmp(to, &after, sizeof(after));
}

/* A living process may have lost the processor amid a change: wait for it, but once for a file. */
static int read_steady(int fd, void *to, size_t bytes, uint64_t at, struct stats_copy *copy)
{
	uint64_t end_ns = 0;
	int done;

	while (!(done = try_steady(fd, to, bytes, at))) {
		end_ns = end_ns ? end_ns : monotonic_ns() + patience_ns(copy);
		if (copy->torn || copy->life != STATS_RUNNING || monotonic_ns() > end_ns) {
			copy->torn = true;
			return 0;
		}
		sched_yield();
	}
	return done > 0 ? 0 : done;
}

/* Whatever prints it makes it printable (common/printable.h). */
static void end_text(char *text, size_t bytes)
{
	text[bytes - 1] = 0;
}

static uint8_t at_most(uint8_t n, uint8_t max)
{
	return n < max ? n : max;
}

static void clean_header(struct stats_header *h)
{
	end_text(h->boot_id, sizeof(h->boot_id));
	end_text(h->job, sizeof(h->job));
	end_text(h->host, sizeof(h->host));
	end_text(h->comm, sizeof(h->comm));
	end_text(h->command, sizeof(h->command));
	end_text(h->report_dir, sizeof(h->report_dir));
}

static void clean_switch(struct stats_switch *s)
{
	end_text(s->from_nic, sizeof(s->from_nic));
	end_text(s->nic, sizeof(s->nic));
	s->rail = at_most(s->rail, SHIFT_RAILS_MAX - 1);
	s->from_rail = at_most(s->from_rail, SHIFT_RAILS_MAX - 1);
}

static void clean_conn(struct stats_conn *c)
{
	for (int i = 0; i < SHIFT_RAILS_MAX; i++)
		end_text(c->nic[i], STATS_NIC_BYTES);
	end_text(c->peer_host, sizeof(c->peer_host));
	c->rails = at_most(c->rails, SHIFT_RAILS_MAX);
	c->rail = at_most(c->rail, SHIFT_RAILS_MAX - 1);
	c->target_rail = at_most(c->target_rail, SHIFT_RAILS_MAX - 1);
	clean_switch(&c->now);
}

static void clean_srq(struct stats_srq *q)
{
	for (int i = 0; i < SHIFT_RAILS_MAX; i++)
		end_text(q->nic[i], STATS_NIC_BYTES);
	q->rails = at_most(q->rails, SHIFT_RAILS_MAX);
}

/* An operand of a name, or an index, of whoever shows it. */
static void clean_note(struct stats_note *n)
{
	end_text(n->nic, sizeof(n->nic));
	n->rail = at_most(n->rail, SHIFT_RAILS_MAX - 1);
	n->fate = at_most(n->fate, STATS_FATE_COUNT - 1);
}

/* Another user may have made the file as large as it could be, of holes. */
static uint64_t entries_max(uint32_t kind)
{
	return kind == STATS_TABLE_EVENTS     ? STATS_EVENTS
	       : kind == STATS_TABLE_SWITCHES ? STATS_SWITCHES
	       : kind == STATS_TABLE_SRQS     ? STATS_SRQS_MAX
	       : kind == STATS_TABLE_ERRORS   ? STATS_ERRORS
	       : kind == STATS_TABLE_ASYNCS   ? STATS_ASYNCS
	       : kind == STATS_TABLE_QP_LIVES ? STATS_QP_LIVES
					      : STATS_CONNS_MAX;
}

/* Or a small file, which takes much memory here, of entries that are too short. */
static size_t entry_bytes_min(uint32_t kind)
{
	return kind == STATS_TABLE_EVENTS     ? sizeof(struct stats_event)
	       : kind == STATS_TABLE_SWITCHES ? sizeof(struct stats_switch)
	       : kind == STATS_TABLE_SRQS     ? sizeof(struct stats_srq)
	       : kind == STATS_TABLE_CONNS    ? sizeof(struct stats_conn)
					      : sizeof(struct stats_note);
}

static bool is_sound(const struct stats_table *t, uint64_t file_bytes)
{
	return t->entry_bytes >= entry_bytes_min(t->kind) && t->entry_bytes <= ENTRY_BYTES_MAX &&
	       t->entries && t->entries <= entries_max(t->kind) &&
	       t->at >= sizeof(struct stats_header) && t->at <= file_bytes &&
	       t->entries * t->entry_bytes <= file_bytes - t->at;
}

/* The beginning of a small file, as a text. Returns its length, or a negative errno. */
static ssize_t read_small_file(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -errno : read(fd, text, bytes - 1);

	if (fd >= 0 && n < 0)
		n = -errno;
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return n;
}

/* Does a process of that number live that began when the writer did, and is no zombie? 1, 0, or a
 * negative errno: it is not known. */
static int process_lives(const struct stats_header *h)
{
	char path[64], text[1024], *p;
	uint64_t ticks = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/stat", h->pid);
	n = read_small_file(path, text, sizeof(text));
	if (n < 0)
		return n == -ENOENT || n == -ESRCH ? 0 : (int)n;
	p = strrchr(text, ')');
	if (!p || !p[1] || strchr("ZX", p[2]))
		return 0;
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	ticks = p ? strtoull(p + 1, NULL, 10) : 0;
	return ticks == h->start_ticks;
}

int stats_find_life(const struct stats_header *h, enum stats_life *life)
{
	char host[sizeof(h->host)] = "", boot[64];
	struct stat ns;
	ssize_t n;
	int lives;

	*life = STATS_UNKNOWN;
	gethostname(host, sizeof(host) - 1);
	if (strcmp(host, h->host))
		return 0;
	n = read_small_file("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	if (n < 0)
		return (int)n;
	boot[strcspn(boot, "\n")] = 0;
	*life = STATS_DEAD;
	if (strcmp(boot, h->boot_id))
		return 0;
	*life = STATS_UNKNOWN;
	if (stat("/proc/self/ns/pid", &ns) || ns.st_ino != h->pid_namespace)
		return 0;
	lives = process_lives(h);
	*life = lives > 0 ? STATS_RUNNING : STATS_DEAD;
	return lives < 0 ? lives : 0;
}

/* Its real, effective or saved user: a process may have changed one after it made its file. Root's
 * files are believed. */
int stats_check_process(uint32_t pid, uid_t owner)
{
	unsigned int id[3] = {owner, owner, owner};
	char path[64], text[1024];
	const char *line;
	ssize_t n;

	if (!owner)
		return 0;
	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	n = read_small_file(path, text, sizeof(text));
	if (n < 0)
		return n == -ENOENT || n == -ESRCH ? 0 : (int)n;
	line = strstr(text, "\nUid:");
	if (line)
		sscanf(line, "\nUid: %u %u %u", id, id + 1, id + 2);
	return id[0] == owner || id[1] == owner || id[2] == owner ? 0 : -ESRCH;
}

static int check_file(int fd, struct stats_copy *copy)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	copy->owner = st.st_uid;
	return S_ISREG(st.st_mode) && st.st_size <= FILE_BYTES_MAX ? 0 : -EBADMSG;
}

static int read_header(int fd, struct stats_copy *copy)
{
	struct stats_shape shape = stats_shape();
	struct stats_header *h = &copy->h;
	int err = check_file(fd, copy);

	if (!err)
		err = read_at(fd, h, sizeof(*h), 0);
	if (err)
		return err;
	if (!h->version)
		return -EAGAIN;
	if (memcmp(h->magic, STATS_MAGIC, sizeof(STATS_MAGIC)) || h->tables > STATS_TABLES_MAX)
		return -EBADMSG;
	if (h->version != STATS_VERSION || h->header_bytes != sizeof(*h) ||
	    memcmp(&h->shape, &shape, sizeof(shape)))
		return -EPROTONOSUPPORT;
	clean_header(h);
	err = stats_find_life(h, &copy->life);
	if (!err && copy->life == STATS_RUNNING)
		err = stats_check_process(h->pid, copy->owner);
	if (err)
		return err;
	err = read_steady(fd, &h->now, sizeof(h->now), offsetof(struct stats_header, now), copy);
	for (int i = 0; i < STATS_BYPASS_MAX; i++)
		end_text(h->now.bypass[i].nic, STATS_NIC_BYTES);
	if (h->now.closed_ns)
		copy->life = STATS_ENDED;
	return err;
}

static const struct stats_table *find_table(const struct stats_copy *copy, uint32_t kind, int fd)
{
	const struct stats_table *t = copy->h.table;
	struct stat st;

	if (fstat(fd, &st) || st.st_size < 0)
		return NULL;
	for (uint32_t i = 0; i < copy->h.tables; i++, t++)
		if (t->kind == kind && is_sound(t, (uint64_t)st.st_size))
			return t;
	return NULL;
}

/* What the entries of a table of slots begin with. */
struct slot_head {
	uint64_t sequence;
	uint64_t id; /* 0: a free slot */
};

_Static_assert(offsetof(struct stats_conn, id) == offsetof(struct slot_head, id) &&
		       offsetof(struct stats_srq, id) == offsetof(struct slot_head, id),
	       "connections and SRQs are read alike");

/* The same part of a table, read twice, one after the other. */
struct two_reads {
	uint8_t *was, *is;
	bool *taken; /* of each entry */
	size_t entries, entry_bytes;
	uint8_t *to; /* of each entry so many bytes */
	size_t to_bytes;
};

static void free_reads(struct two_reads *r)
{
	free(r->was);
	free(r->is);
	free(r->taken);
}

static int alloc_reads(struct two_reads *r)
{
	r->was = calloc(r->entries + 1, r->entry_bytes);
	r->is = calloc(r->entries + 1, r->entry_bytes);
	r->taken = calloc(r->entries + 1, sizeof(*r->taken));
	return r->was && r->is && r->taken ? 0 : -ENOMEM;
}

/*
 * An entry is steady if both reads gave the same, with an even sequence number. A change that the
 * second read saw in part began after its number was read there, so after all of the first read:
 * that one would have the old words, or, if the change had begun before, another number. Returns
 * how many are not steady.
 */
static size_t take_steady(struct two_reads *r)
{
	size_t left = 0;

	for (size_t i = 0; i < r->entries; i++) {
		const uint8_t *is = r->is + i * r->entry_bytes;
		struct slot_head head;

		if (r->taken[i])
			continue;
		memcpy(&head, is, sizeof(head));
		memcpy(r->to + i * r->to_bytes, is, r->to_bytes);
		r->taken[i] = !(head.sequence & 1) &&
			      !memcmp(is, r->was + i * r->entry_bytes, r->to_bytes);
		left += !r->taken[i];
	}
	return left;
}

/* By whole tables: there may be many entries, and another user may have made all of them odd. */
static int read_entries(int fd, struct two_reads *r, uint64_t at, struct stats_copy *copy)
{
	uint64_t end_ns = monotonic_ns() + patience_ns(copy);
	size_t bytes = r->entries * r->entry_bytes;
	int err = read_at(fd, r->was, bytes, at);

	while (!err && !(err = read_at(fd, r->is, bytes, at)) && take_steady(r)) {
		uint8_t *was = r->was;

		if (copy->torn || copy->life != STATS_RUNNING || monotonic_ns() > end_ns) {
			copy->torn = true;
			break;
		}
		r->was = r->is;
		r->is = was;
		sched_yield();
	}
	return err;
}

/* Leaves the live ones of the slots, and gives back the memory of the others. Returns how many. */
static size_t pack_slots(void **slots, size_t count, size_t bytes)
{
	uint8_t *first = *slots;
	struct slot_head head;
	size_t live = 0;
	void *fewer;

	for (size_t i = 0; i < count; i++) {
		memcpy(&head, first + i * bytes, sizeof(head));
		if (head.id)
			memmove(first + live++ * bytes, first + i * bytes, bytes);
	}
	fewer = realloc(first, (live + 1) * bytes);
	if (fewer)
		*slots = fewer;
	return live;
}

/* *to gets the live ones of the first `slots` of a table, as far as there are so many. Returns how
 * many, or a negative errno. */
static ssize_t read_slots(int fd, struct stats_copy *copy, uint32_t kind, uint64_t slots, void **to,
			  size_t bytes)
{
	const struct stats_table *t = find_table(copy, kind, fd);
	struct two_reads r;
	int err;

	if (!t)
		return -EBADMSG;
	if (slots > t->entries)
		slots = t->entries;
	*to = calloc(slots + 1, bytes);
	r = (struct two_reads){
		.entries = slots, .entry_bytes = t->entry_bytes, .to = *to, .to_bytes = bytes};
	err = *to ? alloc_reads(&r) : -ENOMEM;
	if (!err)
		err = read_entries(fd, &r, t->at, copy);
	free_reads(&r);
	return err ? err : (ssize_t)pack_slots(to, slots, bytes);
}

static int read_conns(int fd, struct stats_copy *copy)
{
	ssize_t n = read_slots(fd, copy, STATS_TABLE_CONNS, copy->h.now.slots_used,
			       (void **)&copy->conns, sizeof(*copy->conns));

	if (n < 0)
		return (int)n;
	copy->conn_count = (size_t)n;
	for (size_t i = 0; i < copy->conn_count; i++)
		clean_conn(copy->conns + i);
	return 0;
}

static int read_srqs(int fd, struct stats_copy *copy)
{
	ssize_t n = read_slots(fd, copy, STATS_TABLE_SRQS, copy->h.now.srq_slots_used,
			       (void **)&copy->srqs, sizeof(*copy->srqs));

	if (n < 0)
		return (int)n;
	copy->srq_count = (size_t)n;
	for (size_t i = 0; i < copy->srq_count; i++)
		clean_srq(copy->srqs + i);
	return 0;
}

static int read_written(int fd, const struct stats_copy *copy, const struct stats_table *t,
			uint64_t *written)
{
	uint64_t at = (uint64_t)((const uint8_t *)&t->written - (const uint8_t *)&copy->h);

	return read_at(fd, written, sizeof(*written), at);
}

/* Copies the entries that are whole, oldest first, packed in units of `bytes`. Returns how many. */
static ssize_t pick_entries(const struct stats_table *t, const uint8_t *raw, uint64_t first,
			    uint64_t end, uint8_t *to, size_t bytes)
{
	ssize_t count = 0;

	for (uint64_t n = first; n < end; n++) {
		const uint8_t *entry = raw + n % t->entries * t->entry_bytes;
		uint64_t seq = n + 1;

		if (memcmp(entry, &seq, sizeof(seq)))
			continue;
		memcpy(to + (size_t)count++ * bytes, entry, bytes);
	}
	return count;
}

/* Reads a ring once; raw has room for all of it. Returns how many entries are whole, or a negative
 * errno. *whole: none was lost. */
static ssize_t read_ring_once(int fd, const struct stats_copy *copy, const struct stats_table *t,
			      uint8_t *raw, void *to, size_t bytes, uint64_t *written, bool *whole)
{
	uint64_t after = 0, first;
	ssize_t count;
	int err = read_written(fd, copy, t, written);

	if (!err)
		err = read_at(fd, raw, t->entries * t->entry_bytes, t->at);
	if (!err)
		err = read_written(fd, copy, t, &after);
	if (err)
		return err;
	if (*written > after || after > UINT64_MAX / 2)
		return -EBADMSG;
	/* Leaves out what was overwritten meanwhile, or is just being overwritten. */
	first = after >= t->entries ? after - t->entries + 1 : 0;
	count = pick_entries(t, raw, first, *written, to, bytes);
	*whole = first >= *written || (uint64_t)count == *written - first;
	return count;
}

/* A file of a dead process can be as large as that of a living one, and have nothing in it. */
static void shrink_ring(void **to, size_t bytes)
{
	void *fewer = realloc(*to, bytes ? bytes : 1);

	if (fewer)
		*to = fewer;
}

static ssize_t read_ring(int fd, struct stats_copy *copy, uint32_t kind, void **to, size_t bytes,
			 uint64_t *written)
{
	const struct stats_table *t = find_table(copy, kind, fd);
	int tries = copy->life == STATS_RUNNING ? RING_TRIES : 1;
	ssize_t count = -ENOMEM;
	bool whole = false;
	uint8_t *raw;

	if (!t)
		return -EBADMSG;
	raw = malloc(t->entries * t->entry_bytes);
	*to = calloc(t->entries, bytes);
	/* The writer changes the record of a switch once more after it was written: try again. */
	for (int i = 0; raw && *to && i < tries && !whole; i++) {
		count = read_ring_once(fd, copy, t, raw, *to, bytes, written, &whole);
		whole |= count < 0;
	}
	free(raw);
	if (count >= 0)
		shrink_ring(to, (size_t)count * bytes);
	return count;
}

static int read_notes(int fd, struct stats_copy *copy, uint32_t kind, struct stats_notes *to)
{
	ssize_t n = read_ring(fd, copy, kind, (void **)&to->note, sizeof(*to->note), &to->written);

	if (n < 0)
		return (int)n;
	to->count = (size_t)n;
	for (size_t i = 0; i < to->count; i++)
		clean_note(to->note + i);
	return 0;
}

static int read_all_notes(int fd, struct stats_copy *copy)
{
	int err = read_notes(fd, copy, STATS_TABLE_ERRORS, &copy->errors);

	if (!err)
		err = read_notes(fd, copy, STATS_TABLE_ASYNCS, &copy->asyncs);
	if (!err)
		err = read_notes(fd, copy, STATS_TABLE_QP_LIVES, &copy->lives);
	return err;
}

static int read_rings(int fd, struct stats_copy *copy)
{
	ssize_t n;

	n = read_ring(fd, copy, STATS_TABLE_EVENTS, (void **)&copy->events, sizeof(*copy->events),
		      &copy->events_written);
	if (n < 0)
		return (int)n;
	copy->event_count = (size_t)n;
	n = read_ring(fd, copy, STATS_TABLE_SWITCHES, (void **)&copy->switches,
		      sizeof(*copy->switches), &copy->switches_written);
	if (n < 0)
		return (int)n;
	copy->switch_count = (size_t)n;
	for (size_t i = 0; i < copy->event_count; i++)
		end_text(copy->events[i].nic, STATS_NIC_BYTES);
	for (size_t i = 0; i < copy->switch_count; i++)
		clean_switch(copy->switches + i);
	return 0;
}

int stats_read_fd(int fd, struct stats_copy *copy)
{
	int err;

	memset(copy, 0, sizeof(*copy));
	err = read_header(fd, copy);
	if (!err)
		err = read_conns(fd, copy);
	if (!err)
		err = read_srqs(fd, copy);
	if (!err)
		err = read_rings(fd, copy);
	if (!err)
		err = read_all_notes(fd, copy);
	if (err)
		stats_free(copy);
	return err;
}

static int open_and(const char *path, uid_t owner, struct stats_copy *copy,
		    int (*fn)(int fd, struct stats_copy *copy))
{
	/* A fifo of that name must not make us wait. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY), err;
	struct stat st;

	memset(copy, 0, sizeof(*copy));
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		err = -errno;
	else
		err = st.st_uid == owner ? fn(fd, copy) : -EPERM;
	close(fd);
	return err;
}

int stats_read_of(uid_t owner, const char *path, struct stats_copy *copy)
{
	return open_and(path, owner, copy, stats_read_fd);
}

int stats_read(const char *path, struct stats_copy *copy)
{
	return stats_read_of(geteuid(), path, copy);
}

int stats_read_header_of(uid_t owner, const char *path, struct stats_copy *copy)
{
	return open_and(path, owner, copy, read_header);
}

int stats_read_header(const char *path, struct stats_copy *copy)
{
	return stats_read_header_of(geteuid(), path, copy);
}

size_t stats_copy_bytes(const struct stats_copy *copy)
{
	return sizeof(*copy) + copy->conn_count * sizeof(*copy->conns) +
	       copy->srq_count * sizeof(*copy->srqs) + copy->event_count * sizeof(*copy->events) +
	       copy->switch_count * sizeof(*copy->switches) +
	       (copy->errors.count + copy->asyncs.count + copy->lives.count) *
		       sizeof(struct stats_note);
}

void stats_free(struct stats_copy *copy)
{
	free(copy->conns);
	free(copy->srqs);
	free(copy->events);
	free(copy->switches);
	free(copy->errors.note);
	free(copy->asyncs.note);
	free(copy->lives.note);
	memset(copy, 0, sizeof(*copy));
}

struct shift_conn_stats stats_sum(const struct stats_copy *copy)
{
	struct shift_conn_stats sum = copy->h.now.gone_counters;

#define ADD(name) sum.name += copy->conns[i].counters.name;
	for (size_t i = 0; i < copy->conn_count; i++) {
		SHIFT_STATS(ADD)
	}
#undef ADD
	return sum;
}

struct shift_srq_stats stats_sum_srqs(const struct stats_copy *copy)
{
	struct shift_srq_stats sum = copy->h.now.gone_srq_counters;

#define ADD(name) sum.name += copy->srqs[i].now.counters.name;
	for (size_t i = 0; i < copy->srq_count; i++) {
		SHIFT_SRQ_STATS(ADD)
	}
#undef ADD
	return sum;
}

uint64_t stats_real_ns(const struct stats_copy *copy, uint64_t time_ns)
{
	return copy->h.opened_real_ns + (time_ns - copy->h.opened_ns);
}

bool stats_same_process(const struct stats_header *a, const struct stats_header *b)
{
	return a->pid == b->pid && a->nonce == b->nonce && a->start_ticks == b->start_ticks &&
	       a->opened_ns == b->opened_ns && a->opened_real_ns == b->opened_real_ns;
}
