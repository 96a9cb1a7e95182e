/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The protocol between a process and its host's shift-kvd, over a unix socket.
 *
 * A frame is u32 length of the rest, u8 type, then the fields of that type (kv/proto.c has the
 * table); integers are little-endian, strings and values have a u16 length before them. Keys are
 * relative to the job's prefix, /shift/v1/JOB/. Encoding and decoding are pure: no allocation, no
 * I/O, any thread. libc only: this ends up inside libshift.so.
 *
 *   client: HELLO  PUT  DELETE  GET  UNGET  WATCH  BYE  STATUS  HOLD
 *   daemon: WELCOME  EVENT  PEER_DIED  STATUS  ERROR
 *
 * - The first frame of a connection is HELLO, or STATUS or HOLD (then nothing else follows).
 * - WELCOME answers HELLO as soon as the job key is known, and comes again when `lease` changes.
 *   A client asks for nothing before it: changes are told only to those that have got it.
 * - GET subscribes to one key: an EVENT (put or delete) as soon as that is known, and one for each
 *   later change, until UNGET.
 * - WATCH subscribes to a prefix: what there is comes as EVENTs, KV_EVENT_SYNCED with that prefix
 *   says that this was all, as the daemon has read it from etcd, and later changes follow, until
 *   UNGET of that prefix.
 * - PUT and DELETE have no answer unless they are refused (ERROR). Keys belong to the process
 *   that put them last, and go when it dies.
 * - A connection that ends without BYE is the death of its process, if that is gone.
 */
#ifndef SHIFT_KV_PROTO_H
#define SHIFT_KV_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	KV_VERSION = 2,
	KV_JOB_MAX = 64, /* bytes, without NUL; all of these */
	KV_KEY_MAX = 512,
	KV_VALUE_MAX = 4096,
	KV_TEXT_MAX = 60000,
	KV_FRAME_MAX = 4 + 65536, /* bytes of a whole frame */
	KV_JOB_KEY_BYTES = 16,
};

enum kv_type {
	KV_HELLO = 1,
	KV_WELCOME,
	KV_PUT,
	KV_GET,
	KV_WATCH,
	KV_EVENT,
	KV_DELETE,
	KV_PEER_DIED,
	KV_STATUS, /* asked with an empty text, answered with JSON */
	KV_ERROR,
	KV_BYE,
	KV_HOLD, /* the daemon stays while the sender's process lives; answered as STATUS */
	KV_UNGET,
	KV_TYPE_END,
};

enum kv_event {
	KV_EVENT_PUT = 1,
	KV_EVENT_DELETE,
	KV_EVENT_SYNCED, /* the key is the prefix of the WATCH */
	KV_EVENT_END,
};

/* Of the sender's keys in etcd. */
enum kv_lease {
	KV_LEASE_NONE, /* not granted yet: nobody else can see them */
	KV_LEASE_HELD,
	KV_LEASE_UNCERTAIN, /* etcd does not answer: they may run out */
	KV_LEASE_END,
};

enum kv_error {
	KV_ERROR_PROTOCOL = 1, /* the daemon closes after it */
	KV_ERROR_VERSION,      /* and after this, */
	KV_ERROR_JOB,	       /* and this: another job's daemon */
	KV_ERROR_BAD_KEY,
	KV_ERROR_FULL,
	KV_ERROR_NOT_YOURS, /* DELETE of a key that another process put */
	KV_ERROR_ETCD,
};

/* Not NUL-terminated. Decoded ones point into the frame. */
struct kv_bytes {
	const void *data;
	size_t bytes;
};

/* Only the fields of its type are meaningful; the others are zero after decoding. */
struct kv_msg {
	enum kv_type type;
	uint16_t version;
	uint16_t code;	/* enum kv_error */
	uint8_t event;	/* enum kv_event */
	uint8_t lease;	/* enum kv_lease */
	uint32_t pid;	/* of the sender, for debugging: the daemon trusts only SO_PEERCRED */
	uint64_t nonce; /* random, never 0: a process's identity in the job */
	uint8_t job_key[KV_JOB_KEY_BYTES];
	struct kv_bytes job, key, value, text;
};

struct kv_bytes kv_str(const char *s);

/* Letters, digits, dot, dash, underscore; 1..KV_JOB_MAX of them, not starting with dot or dash. */
bool kv_job_is_valid(const char *job, size_t bytes);

/* 1..KV_KEY_MAX printable ASCII characters. */
bool kv_key_is_valid(const char *key, size_t bytes);

/* Writes a frame; its length, or -EMSGSIZE (`out` too small), -EINVAL (a field out of bounds). */
int kv_encode(const struct kv_msg *m, uint8_t *out, size_t size);

/*
 * Decodes the frame at the beginning of `in`. Its length: the strings of m point into `in`. 0: the
 * frame is not complete yet. -EPROTO: not a frame.
 */
int kv_decode(const uint8_t *in, size_t bytes, struct kv_msg *m);

#endif
