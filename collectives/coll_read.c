/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "collectives/coll_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/stats/process_read.h"

enum {
	ENTRY_BYTES_MAX = 1024,
	FILE_BYTES_MAX = 1 << 23,
};

const char *coll_op_name(unsigned int op)
{
	static const char *const name[] = {
#define NAME(n, word) [COLL_##n] = word,
		COLL_OPS(NAME)
#undef NAME
	};

	return op < COLL_OPS_COUNT ? name[op] : "?";
}

static int find_life(struct coll_copy *copy, uid_t owner)
{
	const struct coll_header *h = &copy->h;
	const struct process_claim claim = {h->pid,	  h->start_ticks, h->pid_namespace,
					    h->closed_ns, h->boot_id,	  h->host};

	return process_find_life(&claim, owner, &copy->life);
}

static void end_texts(struct coll_header *h)
{
	h->boot_id[sizeof(h->boot_id) - 1] = 0;
	h->job[sizeof(h->job) - 1] = 0;
	h->host[sizeof(h->host) - 1] = 0;
	h->command[sizeof(h->command) - 1] = 0;
	h->source[sizeof(h->source) - 1] = 0;
}

static int read_head(int fd, uid_t owner, void *to)
{
	struct coll_copy *copy = to;
	struct coll_header *h = &copy->h;
	int err = process_file_read(fd, h, sizeof(*h), 0);

	if (err)
		return err;
	if (!h->version)
		return -EAGAIN;
	if (memcmp(h->magic, COLL_MAGIC, sizeof(COLL_MAGIC)) || h->tables > COLL_TABLES_MAX)
		return -EBADMSG;
	if (h->version != COLL_VERSION || h->header_bytes != sizeof(*h))
		return -EPROTONOSUPPORT;
	end_texts(h);
	return find_life(copy, owner);
}

/* NULL: there is no such table, or it does not lie in the file, or is longer than ours can be. */
static const struct coll_table *find_table(const struct coll_copy *copy, int fd, uint32_t kind,
					   size_t entry_bytes, uint64_t entries_max)
{
	const struct coll_table *t = copy->h.table;
	struct stat st;

	if (fstat(fd, &st))
		return NULL;
	for (uint32_t i = 0; i < copy->h.tables; i++, t++)
		if (t->kind == kind && t->entry_bytes >= entry_bytes &&
		    t->entry_bytes <= ENTRY_BYTES_MAX && t->entries && t->entries <= entries_max &&
		    t->at >= sizeof(struct coll_header) && t->at <= (uint64_t)st.st_size &&
		    t->entries * t->entry_bytes <= (uint64_t)st.st_size - t->at)
			return t;
	return NULL;
}

/* The first n entries of a table, as the file has them now. NULL: an error is in *err. */
static uint8_t *read_table(int fd, const struct coll_table *t, uint64_t n, int *err)
{
	uint8_t *raw = malloc(n * t->entry_bytes + 1);

	*err = raw ? process_file_read(fd, raw, n * t->entry_bytes, t->at) : -ENOMEM;
	if (!*err)
		return raw;
	free(raw);
	return NULL;
}

/* How many entries of it are in use. */
static int read_used(int fd, const struct coll_copy *copy, const struct coll_table *t,
		     uint64_t *used)
{
	uint64_t at = (uint64_t)((const uint8_t *)&t->written - (const uint8_t *)&copy->h);

	return process_file_read(fd, used, sizeof(*used), at);
}

/* ---- operations -------------------------------------------------------------------------------
 */

/*
 * The same entry, read twice, one after the other. A number is never used again, and stands there
 * only while the entry is whole; so if both have it, what the first read behind it is whole. Only
 * the end may have come between: then it came after read_ns.
 */
static bool take_op(struct coll_entry *to, const uint8_t *was, const uint8_t *is, uint64_t n)
{
	struct coll_entry again;

	memcpy(to, was, sizeof(*to));
	memcpy(&again, is, sizeof(again));
	if (to->seq != n + 1 || again.seq != n + 1)
		return false;
	if (to->end != again.end)
		to->end = COLL_UNDER_WAY | n;
	to->dtype[sizeof(to->dtype) - 1] = 0;
	return true;
}

static void take_ops(struct coll_copy *copy, const struct coll_table *t, const uint8_t *was,
		     const uint8_t *is, uint64_t written)
{
	uint64_t first = written > t->entries ? written - t->entries : 0;

	copy->op_lost = first;
	for (uint64_t n = first; n < written; n++) {
		size_t at = n % t->entries * t->entry_bytes;

		if (take_op(copy->ops + copy->op_count, was + at, is + at, n))
			copy->op_count++;
		else
			copy->op_lost++;
	}
}

static int read_ops(int fd, struct coll_copy *copy)
{
	const struct coll_table *t = find_table(copy, fd, COLL_TABLE_OPS, sizeof(*copy->ops),
						COLL_OPS_MAX);
	uint8_t *was = NULL, *is = NULL;
	uint64_t written;
	int err;

	if (!t)
		return -EBADMSG;
	err = read_used(fd, copy, t, &written);
	if (!err && written >= COLL_UNDER_WAY)
		err = -EBADMSG;
	if (!err)
		was = read_table(fd, t, t->entries, &err);
	if (!err)
		is = read_table(fd, t, t->entries, &err);
	copy->ops = err ? NULL : calloc(t->entries + 1, sizeof(*copy->ops));
	if (copy->ops)
		take_ops(copy, t, was, is, written);
	else if (!err)
		err = -ENOMEM;
	free(was);
	free(is);
	return err;
}

/* ---- communicators ----------------------------------------------------------------------------
 */

static int read_comms(int fd, struct coll_copy *copy)
{
	const struct coll_table *t = find_table(copy, fd, COLL_TABLE_COMMS, sizeof(*copy->comms),
						COLL_COMMS_MAX);
	uint8_t *was = NULL, *is = NULL;
	uint64_t used = 0;
	int err = t ? read_used(fd, copy, t, &used) : -EBADMSG;

	if (!err && used > t->entries)
		err = -EBADMSG;
	if (!err)
		was = read_table(fd, t, used, &err);
	if (!err)
		is = read_table(fd, t, used, &err);
	copy->comms = err ? NULL : calloc(used + 1, sizeof(*copy->comms));
	for (uint64_t i = 0; copy->comms && i < used; i++) {
		struct coll_comm *c = copy->comms + copy->comm_count;

		memcpy(c, was + i * t->entry_bytes, sizeof(*c));
		if (c->id && !(c->sequence & 1) && !memcmp(c, is + i * t->entry_bytes, sizeof(*c)))
			copy->comm_count++;
	}
	free(was);
	free(is);
	return err ? err : copy->comms ? 0 : -ENOMEM;
}

/* Tables to which entries are only added. *to gets those in use, packed. */
static int read_list(int fd, struct coll_copy *copy, uint32_t kind, size_t bytes, uint64_t max,
		     void *to, size_t *count)
{
	const struct coll_table *t = find_table(copy, fd, kind, bytes, max);
	uint64_t used = 0;
	int err = t ? read_used(fd, copy, t, &used) : -EBADMSG;
	uint8_t *raw;

	if (!err && (used > t->entries || t->entry_bytes != bytes))
		err = -EBADMSG;
	if (err)
		return err;
	raw = read_table(fd, t, used, &err);
	memcpy(to, &raw, sizeof(raw));
	*count = raw ? used : 0;
	return err;
}

static int read_hosts(int fd, struct coll_copy *copy)
{
	int err = read_list(fd, copy, COLL_TABLE_HOSTS, COLL_HOST_BYTES, COLL_HOSTS_MAX,
			    &copy->hosts, &copy->host_count);

	for (size_t i = 0; i < copy->host_count; i++)
		copy->hosts[i][COLL_HOST_BYTES - 1] = 0;
	return err;
}

const char *coll_member_host(const struct coll_copy *copy, const struct coll_comm *c, uint32_t rank)
{
	uint64_t at = (uint64_t)c->first + rank;

	if (rank >= c->members || at >= copy->member_count)
		return NULL;
	return copy->members[at] < copy->host_count ? copy->hosts[copy->members[at]] : NULL;
}

/* ---- a file -----------------------------------------------------------------------------------
 */

/* Members and hosts last: what a communicator names is there before it. */
static int read_all(int fd, struct coll_copy *copy)
{
	int err = read_ops(fd, copy);

	if (!err)
		err = read_comms(fd, copy);
	if (!err)
		err = read_list(fd, copy, COLL_TABLE_MEMBERS, sizeof(uint32_t), COLL_MEMBERS_MAX,
				&copy->members, &copy->member_count);
	return err ? err : read_hosts(fd, copy);
}

int coll_read_header_of(uid_t owner, const char *path, struct coll_copy *copy)
{
	memset(copy, 0, sizeof(*copy));
	return process_file_with(owner, path, FILE_BYTES_MAX, read_head, copy);
}

static int read_file(int fd, uid_t owner, void *copy)
{
	int err = read_head(fd, owner, copy);

	return err ? err : read_all(fd, copy);
}

int coll_read_of(uid_t owner, const char *path, struct coll_copy *copy)
{
	int err;

	memset(copy, 0, sizeof(*copy));
	copy->read_ns = process_read_clock_ns();
	err = process_file_with(owner, path, FILE_BYTES_MAX, read_file, copy);
	if (err)
		coll_free(copy);
	return err;
}

size_t coll_copy_bytes(const struct coll_copy *copy)
{
	return sizeof(*copy) + COLL_OPS_MAX * sizeof(*copy->ops) +
	       copy->comm_count * sizeof(*copy->comms) + copy->host_count * sizeof(*copy->hosts) +
	       copy->member_count * sizeof(*copy->members);
}

void coll_free(struct coll_copy *copy)
{
	free(copy->ops);
	free(copy->comms);
	free(copy->hosts);
	free(copy->members);
	memset(copy, 0, sizeof(*copy));
}
