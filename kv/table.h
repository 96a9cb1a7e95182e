/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A hash table of entries with a key and a value, and a byte buffer, for the client in the
 * program's process and for the daemon. libc only; nothing here ends the process. One thread.
 *
 * Keys come from other hosts too: the hash has a secret of this process, so that nobody can choose
 * keys that meet in one bucket.
 */
#ifndef SHIFT_KV_TABLE_H
#define SHIFT_KV_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The head of an entry; users of the table put their own members behind it. */
struct kv_entry {
	struct kv_entry *next;		 /* in the bucket */
	struct kv_entry *before, *after; /* among all, in the order of their making */
	char *key;			 /* NUL-terminated, owned */
	uint8_t *value;			 /* owned; NULL if it has none */
	size_t bytes;
};

struct kv_table {
	struct kv_entry **bucket;
	size_t buckets, count, entry_bytes;
	struct kv_entry *first, *last;
};

/* entry_bytes: of the whole entry, at least sizeof(struct kv_entry). Nothing is allocated yet. */
void kv_table_init(struct kv_table *t, size_t entry_bytes);
void kv_table_free(struct kv_table *t);

/* The entry of a key (not NUL-terminated), or NULL. */
void *kv_table_find(const struct kv_table *t, const char *key, size_t key_bytes);

/* The same, but a new one, zeroed, where there is none. NULL: no memory. */
void *kv_table_get(struct kv_table *t, const char *key, size_t key_bytes);

/* Removes and frees it. */
void kv_table_remove(struct kv_table *t, struct kv_entry *e);

/* Copies a value in; data of NULL removes it. 0 or -ENOMEM (then nothing has changed). */
int kv_entry_set(struct kv_entry *e, const void *data, size_t bytes);

/* Does the entry have this value? */
bool kv_entry_is(const struct kv_entry *e, const void *data, size_t bytes);

/*
 * All entries, the oldest first: for (e = NULL; (e = kv_table_next(t, e)); ). The present one may
 * be removed if its successor is asked for before.
 */
void *kv_table_next(const struct kv_table *t, const void *e);

struct kv_buf {
	uint8_t *data;
	size_t start, end, size;
};

struct kv_msg;

/* Room for `bytes` at data + end. 0 or -ENOMEM. */
int kv_buf_reserve(struct kv_buf *b, size_t bytes);
size_t kv_buf_bytes(const struct kv_buf *b);
void kv_buf_free(struct kv_buf *b);

/* Appends a frame. 0, -ENOMEM or as kv_encode(). */
int kv_buf_frame(struct kv_buf *b, const struct kv_msg *m);

/* The next whole frame, as kv_decode(), and takes it from the buffer (whose bytes stay). */
int kv_buf_next(struct kv_buf *b, struct kv_msg *m);

/* Reads once what a non-blocking socket has. 0, or -EPIPE at its end, -ENOMEM, -errno. */
int kv_buf_fill(struct kv_buf *b, int fd);

/* Writes what the socket takes, without SIGPIPE. 0 (some may be left) or -errno. */
int kv_buf_flush(struct kv_buf *b, int fd);

#endif
