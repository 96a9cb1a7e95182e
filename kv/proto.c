/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <string.h>

#include "kv/proto.h"
#include "lib/base/run_dir.h"

_Static_assert((int)KV_JOB_MAX == (int)RUN_DIR_JOB_MAX, "a job has one name");

enum { HEADER_BYTES = 5 };

/*
 * The fields of each type, in order: v version, c code, e event, l lease, p pid, n nonce, K job
 * key, j job, k key, w prefix (a key that may be empty), V value, t text.
 */
static const char *const layout[KV_TYPE_END] = {
	[KV_HELLO] = "vjnp", [KV_WELCOME] = "vKl", [KV_PUT] = "kV",   [KV_GET] = "k",
	[KV_WATCH] = "w",    [KV_EVENT] = "ewV",   [KV_DELETE] = "k", [KV_PEER_DIED] = "n",
	[KV_STATUS] = "t",   [KV_ERROR] = "ct",	   [KV_BYE] = "",     [KV_HOLD] = "",
	[KV_UNGET] = "k",
};

/* The unread or unwritten rest of a frame. */
struct cursor {
	uint8_t *at;
	size_t left;
	int err;
};

struct kv_bytes kv_str(const char *s)
{
	return (struct kv_bytes){s, strlen(s)};
}

bool kv_job_is_valid(const char *job, size_t bytes)
{
	return run_dir_job_is_valid(job, bytes);
}

static bool is_printable(const char *s, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (s[i] < 33 || s[i] > 126)
			return false;
	return true;
}

bool kv_key_is_valid(const char *key, size_t bytes)
{
	return bytes && bytes <= KV_KEY_MAX && is_printable(key, bytes);
}

static bool string_is_valid(char field, const struct kv_bytes *s)
{
	switch (field) {
	case 'j': return kv_job_is_valid(s->data, s->bytes);
	case 'k': return kv_key_is_valid(s->data, s->bytes);
	case 'w': return s->bytes <= KV_KEY_MAX && is_printable(s->data, s->bytes);
	case 'V': return s->bytes <= KV_VALUE_MAX;
	case 't': return s->bytes <= KV_TEXT_MAX;
	}
	return false;
}

static struct kv_bytes *string_of(struct kv_msg *m, char field)
{
	switch (field) {
	case 'j': return &m->job;
	case 'k':
	case 'w': return &m->key;
	case 'V': return &m->value;
	case 't': return &m->text;
	}
	return NULL;
}

/* Integers out of range never leave this process and never come in. */
static bool numbers_are_valid(const struct kv_msg *m)
{
	switch (m->type) {
	case KV_HELLO: return m->nonce != 0;
	case KV_PEER_DIED: return m->nonce != 0;
	case KV_WELCOME: return m->lease < KV_LEASE_END;
	case KV_EVENT: return m->event >= KV_EVENT_PUT && m->event < KV_EVENT_END;
	case KV_PUT:
	case KV_GET:
	case KV_WATCH:
	case KV_DELETE:
	case KV_STATUS:
	case KV_ERROR:
	case KV_BYE:
	case KV_HOLD:
	case KV_UNGET:
	case KV_TYPE_END: return true;
	}
	return false;
}

static void put_bytes(struct cursor *c, const void *data, size_t bytes)
{
	if (c->err || c->left < bytes) {
		c->err = -EMSGSIZE;
		return;
	}
	if (bytes)
		memcpy(c->at, data, bytes);
	c->at += bytes;
	c->left -= bytes;
}

static void put_number(struct cursor *c, uint64_t n, int bytes)
{
	uint8_t le[8];

	for (int i = 0; i < bytes; i++)
		le[i] = n >> (8 * i);
	put_bytes(c, le, bytes);
}

static void put_string(struct cursor *c, char field, const struct kv_bytes *s)
{
	if (!string_is_valid(field, s)) {
		c->err = -EINVAL;
		return;
	}
	put_number(c, s->bytes, 2);
	put_bytes(c, s->data, s->bytes);
}

static void put_field(struct cursor *c, char field, const struct kv_msg *m)
{
	switch (field) {
	case 'v': put_number(c, m->version, 2); break;
	case 'c': put_number(c, m->code, 2); break;
	case 'e': put_number(c, m->event, 1); break;
	case 'l': put_number(c, m->lease, 1); break;
	case 'p': put_number(c, m->pid, 4); break;
	case 'n': put_number(c, m->nonce, 8); break;
	case 'K': put_bytes(c, m->job_key, sizeof(m->job_key)); break;
	default: put_string(c, field, string_of((struct kv_msg *)m, field)); break;
	}
}

int kv_encode(const struct kv_msg *m, uint8_t *out, size_t size)
{
	struct cursor c = {.at = out, .left = size}, head = {.at = out, .left = HEADER_BYTES};
	size_t bytes;

	if (m->type < KV_HELLO || m->type >= KV_TYPE_END || !numbers_are_valid(m))
		return -EINVAL;
	if (size < HEADER_BYTES)
		return -EMSGSIZE;
	c.at += HEADER_BYTES;
	c.left -= HEADER_BYTES;
	for (const char *f = layout[m->type]; *f && !c.err; f++)
		put_field(&c, *f, m);
	if (c.err)
		return c.err;
	bytes = c.at - out;
	put_number(&head, bytes - 4, 4);
	put_number(&head, m->type, 1);
	return bytes;
}

static const uint8_t *take_bytes(struct cursor *c, size_t bytes)
{
	static const uint8_t zero[KV_JOB_KEY_BYTES];

	if (c->err || c->left < bytes) {
		c->err = -EPROTO;
		return zero;
	}
	c->at += bytes;
	c->left -= bytes;
	return c->at - bytes;
}

static uint64_t take_number(struct cursor *c, int bytes)
{
	const uint8_t *le = take_bytes(c, bytes);
	uint64_t n = 0;

	for (int i = 0; i < bytes; i++)
		n |= (uint64_t)le[i] << (8 * i);
	return n;
}

static void take_string(struct cursor *c, char field, struct kv_bytes *s)
{
	size_t bytes = take_number(c, 2);
	const uint8_t *data = c->err || c->left < bytes ? NULL : take_bytes(c, bytes);

	if (data)
		*s = (struct kv_bytes){data, bytes};
	if (!data || !string_is_valid(field, s))
		c->err = -EPROTO;
}

static void take_field(struct cursor *c, char field, struct kv_msg *m)
{
	switch (field) {
	case 'v': m->version = take_number(c, 2); break;
	case 'c': m->code = take_number(c, 2); break;
	case 'e': m->event = take_number(c, 1); break;
	case 'l': m->lease = take_number(c, 1); break;
	case 'p': m->pid = take_number(c, 4); break;
	case 'n': m->nonce = take_number(c, 8); break;
	case 'K': memcpy(m->job_key, take_bytes(c, KV_JOB_KEY_BYTES), KV_JOB_KEY_BYTES); break;
	default: take_string(c, field, string_of(m, field)); break;
	}
}

int kv_decode(const uint8_t *in, size_t bytes, struct kv_msg *m)
{
	struct cursor c = {.at = (uint8_t *)in, .left = bytes};
	size_t rest;

	memset(m, 0, sizeof(*m));
	if (bytes < 4)
		return 0;
	rest = take_number(&c, 4);
	if (rest < 1 || rest > KV_FRAME_MAX - 4)
		return -EPROTO;
	if (bytes >= HEADER_BYTES && (in[4] < KV_HELLO || in[4] >= KV_TYPE_END))
		return -EPROTO;
	if (c.left < rest)
		return 0;
	c.left = rest;
	m->type = take_number(&c, 1);
	for (const char *f = layout[m->type]; *f && !c.err; f++)
		take_field(&c, *f, m);
	if (c.err || c.left || !numbers_are_valid(m))
		return -EPROTO;
	return rest + 4;
}
