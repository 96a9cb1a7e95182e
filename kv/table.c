/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "kv/proto.h"
#include "kv/table.h"
#include "lib/core/siphash.h"

enum { FILL_BYTES = 16384, KEEP_BYTES = 1 << 18 };

static uint64_t secret[2];

static size_t bucket_of(const struct kv_table *t, const char *key, size_t bytes)
{
	return shift_siphash(secret, key, bytes) % t->buckets;
}

/* Without random bytes, which is early in the boot of a host, keys are found all the same. */
void kv_table_init(struct kv_table *t, size_t entry_bytes)
{
	if (!secret[0] && getrandom(secret, sizeof(secret), GRND_NONBLOCK) != sizeof(secret))
		secret[0] = 1;
	*t = (struct kv_table){.entry_bytes = entry_bytes};
}

static void free_entry(struct kv_entry *e)
{
	free(e->key);
	free(e->value);
	free(e);
}

void kv_table_free(struct kv_table *t)
{
	struct kv_entry *e = t->first, *after;

	for (; e; e = after) {
		after = e->after;
		free_entry(e);
	}
	free(t->bucket);
	kv_table_init(t, t->entry_bytes);
}

void *kv_table_find(const struct kv_table *t, const char *key, size_t key_bytes)
{
	struct kv_entry *e;

	if (!t->count)
		return NULL;
	e = t->bucket[bucket_of(t, key, key_bytes)];
	while (e && (strncmp(e->key, key, key_bytes) || e->key[key_bytes]))
		e = e->next;
	return e;
}

static void insert_entry(struct kv_table *t, struct kv_entry *e)
{
	struct kv_entry **b = &t->bucket[bucket_of(t, e->key, strlen(e->key))];

	e->next = *b;
	*b = e;
}

static int grow_table(struct kv_table *t)
{
	struct kv_table bigger = *t;

	if (t->count < t->buckets)
		return 0;
	bigger.buckets = t->buckets ? 2 * t->buckets : 64;
	bigger.bucket = calloc(bigger.buckets, sizeof(*bigger.bucket));
	if (!bigger.bucket)
		return t->buckets ? 0 : -ENOMEM;
	for (struct kv_entry *e = t->first; e; e = e->after)
		insert_entry(&bigger, e);
	free(t->bucket);
	*t = bigger;
	return 0;
}

void *kv_table_get(struct kv_table *t, const char *key, size_t key_bytes)
{
	struct kv_entry *e = kv_table_find(t, key, key_bytes);

	if (e)
		return e;
	e = calloc(1, t->entry_bytes);
	if (e)
		e->key = strndup(key, key_bytes);
	if (!e || !e->key || grow_table(t)) {
		if (e)
			free_entry(e);
		return NULL;
	}
	insert_entry(t, e);
	e->before = t->last;
	*(t->last ? &t->last->after : &t->first) = e;
	t->last = e;
	t->count++;
	return e;
}

void kv_table_remove(struct kv_table *t, struct kv_entry *e)
{
	struct kv_entry **p = &t->bucket[bucket_of(t, e->key, strlen(e->key))];

	while (*p != e)
		p = &(*p)->next;
	*p = e->next;
	*(e->before ? &e->before->after : &t->first) = e->after;
	*(e->after ? &e->after->before : &t->last) = e->before;
	t->count--;
	free_entry(e);
}

int kv_entry_set(struct kv_entry *e, const void *data, size_t bytes)
{
	uint8_t *copy = NULL;

	if (data) {
		copy = malloc(bytes + 1);
		if (!copy)
			return -ENOMEM;
		if (bytes)
			memcpy(copy, data, bytes);
		copy[bytes] = 0; /* so that text can be printed */
	}
	free(e->value);
	e->value = copy;
	e->bytes = data ? bytes : 0;
	return 0;
}

bool kv_entry_is(const struct kv_entry *e, const void *data, size_t bytes)
{
	return e->value && e->bytes == bytes && (!bytes || !memcmp(e->value, data, bytes));
}

void *kv_table_next(const struct kv_table *t, const void *e)
{
	return e ? ((const struct kv_entry *)e)->after : t->first;
}

int kv_buf_reserve(struct kv_buf *b, size_t bytes)
{
	size_t size = b->size ? b->size : 4096;
	uint8_t *data;

	if (b->start == b->end)
		b->start = b->end = 0;
	if (b->size - b->end >= bytes)
		return 0;
	/* Less would be moved again and again, for one that reads a few bytes at a time. */
	if (b->start > b->size / 2) {
		memmove(b->data, b->data + b->start, b->end - b->start);
		b->end -= b->start;
		b->start = 0;
	}
	while (size - b->end < bytes)
		size *= 2;
	if (size == b->size)
		return 0;
	data = realloc(b->data, size);
	if (!data)
		return -ENOMEM;
	b->data = data;
	b->size = size;
	return 0;
}

size_t kv_buf_bytes(const struct kv_buf *b)
{
	return b->end - b->start;
}

void kv_buf_free(struct kv_buf *b)
{
	free(b->data);
	memset(b, 0, sizeof(*b));
}

int kv_buf_frame(struct kv_buf *b, const struct kv_msg *m)
{
	size_t most = 64 + m->job.bytes + m->key.bytes + m->value.bytes + m->text.bytes;
	int n = kv_buf_reserve(b, most);

	if (n)
		return n;
	n = kv_encode(m, b->data + b->end, b->size - b->end);
	if (n < 0)
		return n;
	b->end += n;
	return 0;
}

int kv_buf_next(struct kv_buf *b, struct kv_msg *m)
{
	int n = kv_buf_bytes(b) ? kv_decode(b->data + b->start, kv_buf_bytes(b), m) : 0;

	if (n > 0)
		b->start += n;
	return n;
}

int kv_buf_fill(struct kv_buf *b, int fd)
{
	ssize_t n;

	if (kv_buf_reserve(b, FILL_BYTES))
		return -ENOMEM;
	n = recv(fd, b->data + b->end, b->size - b->end, MSG_DONTWAIT);
	if (n > 0)
		b->end += n;
	if (n == 0)
		return -EPIPE;
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return -errno;
	return 0;
}

int kv_buf_flush(struct kv_buf *b, int fd)
{
	while (kv_buf_bytes(b)) {
		ssize_t n = send(fd, b->data + b->start, kv_buf_bytes(b),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		b->start += n;
	}
	if (b->size > KEEP_BYTES)
		kv_buf_free(b);
	return 0;
}
