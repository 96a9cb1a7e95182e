/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/stats/epoch_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/stats/process_read.h"

static const off_t file_bytes = EPOCH_HEADER_BYTES + sizeof(struct epoch_run) * EPOCH_RUNS;

static int find_life(struct epoch_copy *copy, uid_t owner)
{
	const struct epoch_header *h = &copy->h;
	const struct process_claim claim = {h->pid,	  h->start_ticks, h->pid_namespace,
					    h->closed_ns, h->boot_id,	  h->host};

	return process_find_life(&claim, owner, &copy->life);
}

static int read_head(int fd, uid_t owner, void *to)
{
	struct epoch_copy *copy = to;
	struct epoch_header *h = &copy->h;
	int err = process_file_read(fd, h, sizeof(*h), 0);

	if (err)
		return err;
	if (!h->version)
		return -EAGAIN;
	if (memcmp(h->magic, EPOCH_MAGIC, sizeof(EPOCH_MAGIC)))
		return -EBADMSG;
	if (h->version != EPOCH_VERSION || h->header_bytes != sizeof(*h) ||
	    h->run_bytes != sizeof(struct epoch_run))
		return -EPROTONOSUPPORT;
	if (!h->epoch_ns || h->runs != EPOCH_RUNS)
		return -EBADMSG;
	h->boot_id[sizeof(h->boot_id) - 1] = 0;
	h->job[sizeof(h->job) - 1] = 0;
	h->host[sizeof(h->host) - 1] = 0;
	return find_life(copy, owner);
}

static int read_runs_written(int fd, uint64_t *written)
{
	int err = process_file_read(fd, written, sizeof(*written),
				    offsetof(struct epoch_header, written));

	return err ? err : *written > INT64_MAX ? -EBADMSG : 0;
}

bool epoch_runs_kept(uint64_t before, uint64_t after, uint64_t *first)
{
	*first = after + 1 > EPOCH_RUNS ? after + 1 - EPOCH_RUNS : 0;
	return before <= after;
}

/* Packs what was not written over while it was read. */
static void take_runs(struct epoch_copy *copy, const struct epoch_run *ring, uint64_t first,
		      uint64_t before)
{
	for (uint64_t n = first; n < before; n++)
		if (ring[n % EPOCH_RUNS].epochs)
			copy->runs[copy->count++] = ring[n % EPOCH_RUNS];
	copy->lost = before - copy->count;
}

static int read_runs(int fd, struct epoch_copy *copy)
{
	size_t bytes = sizeof(struct epoch_run) * EPOCH_RUNS;
	struct epoch_run *ring = malloc(bytes);
	uint64_t before, after, first;
	int err = ring ? read_runs_written(fd, &before) : -ENOMEM;

	if (!err && before < EPOCH_RUNS)
		bytes = sizeof(struct epoch_run) * before;
	if (!err)
		err = process_file_read(fd, ring, bytes, EPOCH_HEADER_BYTES);
	if (!err)
		err = read_runs_written(fd, &after);
	if (!err && !epoch_runs_kept(before, after, &first))
		err = -EBADMSG;
	copy->runs = err ? NULL : malloc(bytes + 1);
	if (copy->runs)
		take_runs(copy, ring, first, before);
	else if (!err)
		err = -ENOMEM;
	free(ring);
	return err;
}

int epoch_read_header_of(uid_t owner, const char *path, struct epoch_copy *copy)
{
	memset(copy, 0, sizeof(*copy));
	return process_file_with(owner, path, file_bytes, read_head, copy);
}

static int read_file(int fd, uid_t owner, void *copy)
{
	int err = read_head(fd, owner, copy);

	return err ? err : read_runs(fd, copy);
}

int epoch_read_of(uid_t owner, const char *path, struct epoch_copy *copy)
{
	int err;

	memset(copy, 0, sizeof(*copy));
	copy->read_ns = process_read_clock_ns();
	err = process_file_with(owner, path, file_bytes, read_file, copy);
	if (err)
		epoch_free(copy);
	return err;
}

size_t epoch_copy_bytes(const struct epoch_copy *copy)
{
	return sizeof(*copy) + copy->count * sizeof(*copy->runs);
}

void epoch_free(struct epoch_copy *copy)
{
	free(copy->runs);
	memset(copy, 0, sizeof(*copy));
}
