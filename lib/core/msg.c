/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Codec of the control messages. One table describes each record; encoder, decoder and length
 * check all read it, so they cannot disagree.
 */
#include <string.h>

#include "lib/core/msg.h"
#include "lib/core/siphash.h"

#define HEADER	   28 /* magic 4, version 1, zero 1, count 2, length 4, nonces 8 + 8 */
#define TAG	   8  /* at the very end, over all before it */
#define RECORD_HDR 10 /* type 1, length 1, dst_conn 4, src_conn 4 */
#define FIELDS_MAX 10

_Static_assert(HEADER + TAG == SHIFT_MSG_ENVELOPE, "envelope size is part of the API");

/* What a value may be. */
enum kind {
	ANY,
	BOOL,
	RAIL,
	BITS24,
	FENCE,
};

struct field {
	uint8_t offset; /* in struct shift_msg */
	uint8_t size;	/* there */
	uint8_t width;	/* in the datagram; 0 ends the list */
	uint8_t kind;
};

#define F(member, wire, what)                                                                      \
	{                                                                                          \
		offsetof(struct shift_msg, member), sizeof(((struct shift_msg *)0)->member), wire, \
			what                                                                       \
	}

static const struct field layout[SHIFT_MSG_TYPE_END][FIELDS_MAX + 1] = {
	[SHIFT_MSG_HELLO] = {F(heard, 1, BOOL), F(qpn, 4, BITS24), F(dest_qpn, 4, BITS24),
			     F(sq_psn, 4, BITS24), F(rq_psn, 4, BITS24), F(life, 4, ANY),
			     F(past_matched, 1, BOOL)},
	[SHIFT_MSG_SWITCH] = {F(rail, 1, RAIL), F(fence, 1, FENCE), F(recv_valid, 1, BOOL),
			      F(epoch, 4, ANY), F(heard, 4, ANY), F(committed, 4, ANY),
			      F(rep_epoch, 4, ANY), F(rep_psn, 4, BITS24), F(recv_avail, 4, ANY),
			      F(recv_cum, 8, ANY)},
	[SHIFT_MSG_CLOSED] = {F(fence, 1, FENCE), F(recv_valid, 1, BOOL), F(rep_epoch, 4, ANY),
			      F(rep_psn, 4, BITS24), F(recv_cum, 8, ANY)},
	[SHIFT_MSG_PREPARE] = {F(rail, 1, RAIL), F(epoch, 4, ANY), F(serial, 4, ANY),
			       F(hold_ms, 4, ANY)},
	[SHIFT_MSG_READY] = {F(rail, 1, RAIL), F(epoch, 4, ANY), F(serial, 4, ANY),
			     F(hold_ms, 4, ANY)},
	[SHIFT_MSG_QUERY_PSN] = {F(epoch, 4, ANY), F(serial, 4, ANY)},
	[SHIFT_MSG_PSN] = {F(fence, 1, FENCE), F(epoch, 4, ANY), F(rep_psn, 4, BITS24),
			   F(recv_avail, 4, ANY), F(serial, 4, ANY)},
	[SHIFT_MSG_KEY_ASK] = {F(rail, 1, RAIL), F(epoch, 4, ANY), F(serial, 4, ANY),
			       F(rkey, 4, ANY)},
	[SHIFT_MSG_KEY] = {F(rail, 1, RAIL), F(epoch, 4, ANY), F(serial, 4, ANY), F(rkey, 4, ANY),
			   F(twin_rkey, 4, ANY), F(key_status, 1, BOOL)},
	[SHIFT_MSG_KEY_GONE] = {F(rail, 1, RAIL), F(epoch, 4, ANY), F(serial, 4, ANY),
				F(rkey, 4, ANY)},
	[SHIFT_MSG_KEY_FORGOT] = {F(rail, 1, RAIL), F(epoch, 4, ANY), F(serial, 4, ANY),
				  F(rkey, 4, ANY)},
	/* FAILED, UNKNOWN and NOT_YET have no body, that of SESSION is a blob. */
};

static void put_be(uint8_t *p, uint64_t v, unsigned int width)
{
	while (width--) {
		p[width] = (uint8_t)v;
		v >>= 8;
	}
}

static uint64_t get_be(const uint8_t *p, unsigned int width)
{
	uint64_t v = 0;

	while (width--)
		v = v << 8 | *p++;
	return v;
}

static uint64_t load_field(const struct shift_msg *m, const struct field *f)
{
	const uint8_t *p = (const uint8_t *)m + f->offset;
	uint32_t u32;
	uint64_t u64;

	if (f->size == 1)
		return *p;
	if (f->size == 4) {
		memcpy(&u32, p, 4);
		return u32;
	}
	memcpy(&u64, p, 8);
	return u64;
}

static void store_field(struct shift_msg *m, const struct field *f, uint64_t v)
{
	uint8_t *p = (uint8_t *)m + f->offset;
	uint32_t u32 = (uint32_t)v;

	if (f->size == 1)
		*p = (uint8_t)v;
	else if (f->size == 4)
		memcpy(p, &u32, 4);
	else
		memcpy(p, &v, 8);
}

/* Without a blob. */
static size_t record_len(uint8_t type)
{
	size_t len = RECORD_HDR;

	for (const struct field *f = layout[type]; f->width; f++)
		len += f->width;
	return len;
}

static bool record_len_fits(uint8_t type, size_t len)
{
	size_t least = record_len(type);

	if (type == SHIFT_MSG_SESSION)
		return len > least && len <= least + SHIFT_MSG_BLOB_MAX;
	return len == least;
}

static int check_value(const struct shift_msg *m, const struct field *f)
{
	uint64_t v = load_field(m, f);

	switch ((enum kind)f->kind) {
	case ANY: return 0;
	case BOOL: return v <= 1 ? 0 : SHIFT_MSG_EFLAG;
	case RAIL: return v < SHIFT_RAILS_MAX ? 0 : SHIFT_MSG_ERAIL;
	case BITS24: return v < 1u << 24 ? 0 : SHIFT_MSG_EPSN;
	case FENCE:
		if (m->type == SHIFT_MSG_SWITCH)
			return v <= SHIFT_FENCE_LEAVING ? 0 : SHIFT_MSG_EFENCE;
		return v <= SHIFT_FENCE_UNSURE ? 0 : SHIFT_MSG_EFENCE;
	}
	return 0;
}

/* Refuses values that no honest peer sends. */
static int check_msg(const struct shift_msg *m)
{
	for (const struct field *f = layout[m->type]; f->width; f++) {
		int err = check_value(m, f);

		if (err)
			return err;
	}
	if (m->type == SHIFT_MSG_SWITCH && (!m->epoch || m->rep_epoch >= m->epoch ||
					    m->heard > m->epoch || m->committed >= m->epoch))
		return SHIFT_MSG_EEPOCH;
	return 0;
}

static bool known_type(unsigned int type)
{
	return type >= SHIFT_MSG_HELLO && type < SHIFT_MSG_TYPE_END;
}

uint64_t shift_msg_siphash(const void *ctx, const void *data, size_t len)
{
	return shift_siphash(ctx, data, len);
}

/* --- writing --------------------------------------------------------------------------------- */

void shift_msg_begin(struct shift_msg_writer *w, void *buf, size_t cap, uint64_t src_nonce,
		     uint64_t dst_nonce)
{
	w->buf = buf;
	w->cap = cap < SHIFT_MSG_DATAGRAM_MAX ? cap : SHIFT_MSG_DATAGRAM_MAX;
	w->len = HEADER;
	w->count = 0;
	put_be(w->buf, SHIFT_MSG_MAGIC, 4);
	put_be(w->buf + 4, SHIFT_MSG_VERSION, 1);
	put_be(w->buf + 5, 0, 1);
	put_be(w->buf + 12, src_nonce, 8);
	put_be(w->buf + 20, dst_nonce, 8);
}

int shift_msg_add(struct shift_msg_writer *w, const struct shift_msg *m)
{
	uint8_t *p = w->buf + w->len;
	size_t len;
	int err;

	if (!known_type(m->type))
		return SHIFT_MSG_ETYPE;
	err = check_msg(m);
	if (err)
		return err;
	len = record_len(m->type) + m->blob_bytes;
	if (!record_len_fits(m->type, len))
		return SHIFT_MSG_ERECORD;
	if (w->len + len + TAG > w->cap)
		return SHIFT_MSG_ESPACE;
	put_be(p, m->type, 1);
	put_be(p + 1, len, 1);
	put_be(p + 2, m->dst_conn, 4);
	put_be(p + 6, m->src_conn, 4);
	p += RECORD_HDR;
	for (const struct field *f = layout[m->type]; f->width; f++) {
		put_be(p, load_field(m, f), f->width);
		p += f->width;
	}
	if (m->blob_bytes)
		memcpy(p, m->blob, m->blob_bytes);
	w->len += len;
	w->count++;
	return 0;
}

size_t shift_msg_end(struct shift_msg_writer *w, shift_msg_auth auth, const void *ctx)
{
	if (!w->count)
		return 0;
	put_be(w->buf + 6, w->count, 2);
	put_be(w->buf + 8, w->len + TAG, 4);
	put_be(w->buf + w->len, auth ? auth(ctx, w->buf, w->len) : 0, TAG);
	w->len += TAG;
	return w->len;
}

/* --- reading --------------------------------------------------------------------------------- */

static int check_envelope(const uint8_t *b, size_t len, shift_msg_auth auth, const void *ctx)
{
	size_t said;

	if (len < SHIFT_MSG_ENVELOPE)
		return SHIFT_MSG_ESHORT;
	if (get_be(b, 4) != SHIFT_MSG_MAGIC)
		return SHIFT_MSG_EMAGIC;
	if (b[4] != SHIFT_MSG_VERSION)
		return SHIFT_MSG_EVERSION;
	said = get_be(b + 8, 4);
	if (said > len || said < SHIFT_MSG_ENVELOPE || said > SHIFT_MSG_DATAGRAM_MAX)
		return SHIFT_MSG_ELENGTH;
	if (said < len)
		return SHIFT_MSG_ETRAILING;
	if (get_be(b + len - TAG, TAG) != (auth ? auth(ctx, b, len - TAG) : 0))
		return SHIFT_MSG_EAUTH;
	if (b[5])
		return SHIFT_MSG_EFLAG;
	if (!get_be(b + 12, 8))
		return SHIFT_MSG_ENONCE;
	return get_be(b + 6, 2) ? 0 : SHIFT_MSG_ECOUNT;
}

int shift_msg_next(struct shift_msg_reader *r, struct shift_msg *m)
{
	size_t left = r->len - r->pos;
	const uint8_t *p = r->buf + r->pos;
	int err;

	if (!r->left)
		return left ? SHIFT_MSG_ETRAILING : 0;
	if (!left)
		return SHIFT_MSG_ECOUNT;
	if (left < RECORD_HDR)
		return SHIFT_MSG_ERECORD;
	if (!known_type(p[0]))
		return SHIFT_MSG_ETYPE;
	if (!record_len_fits(p[0], p[1]) || p[1] > left)
		return SHIFT_MSG_ERECORD;
	memset(m, 0, sizeof(*m));
	m->src_nonce = r->src_nonce;
	m->dst_nonce = r->dst_nonce;
	m->type = p[0];
	m->dst_conn = (uint32_t)get_be(p + 2, 4);
	m->src_conn = (uint32_t)get_be(p + 6, 4);
	if (m->type == SHIFT_MSG_SESSION) {
		m->blob = p + RECORD_HDR;
		m->blob_bytes = (uint8_t)(p[1] - RECORD_HDR);
	}
	r->pos += p[1];
	p += RECORD_HDR;
	for (const struct field *f = layout[m->type]; f->width; f++) {
		store_field(m, f, get_be(p, f->width));
		p += f->width;
	}
	err = check_msg(m);
	if (err)
		return err;
	r->left--;
	return 1;
}

int shift_msg_open(struct shift_msg_reader *r, const void *buf, size_t len, shift_msg_auth auth,
		   const void *ctx)
{
	int err = check_envelope(buf, len, auth, ctx);
	struct shift_msg_reader probe;
	struct shift_msg m;

	memset(r, 0, sizeof(*r));
	if (err)
		return err;
	r->buf = buf;
	r->len = len - TAG;
	r->pos = HEADER;
	r->left = (uint16_t)get_be(r->buf + 6, 2);
	r->src_nonce = get_be(r->buf + 12, 8);
	r->dst_nonce = get_be(r->buf + 20, 8);
	probe = *r;
	do
		err = shift_msg_next(&probe, &m);
	while (err > 0);
	return err ? err : r->left;
}

bool shift_msg_sender(const void *buf, size_t len, uint8_t *version, uint64_t *nonce)
{
	const uint8_t *b = buf;

	if (len < SHIFT_MSG_ENVELOPE || get_be(b, 4) != SHIFT_MSG_MAGIC)
		return false;
	*version = b[4];
	*nonce = get_be(b + 12, 8);
	return true;
}

/* --- names ----------------------------------------------------------------------------------- */

const char *shift_msg_type_name(uint8_t type)
{
	switch ((enum shift_msg_type)type) {
	case SHIFT_MSG_HELLO: return "HELLO";
	case SHIFT_MSG_SWITCH: return "SWITCH";
	case SHIFT_MSG_FAILED: return "FAILED";
	case SHIFT_MSG_CLOSED: return "CLOSED";
	case SHIFT_MSG_UNKNOWN: return "UNKNOWN";
	case SHIFT_MSG_NOT_YET: return "NOT_YET";
	case SHIFT_MSG_PREPARE: return "PREPARE";
	case SHIFT_MSG_READY: return "READY";
	case SHIFT_MSG_QUERY_PSN: return "QUERY_PSN";
	case SHIFT_MSG_PSN: return "PSN";
	case SHIFT_MSG_KEY_ASK: return "KEY_ASK";
	case SHIFT_MSG_KEY: return "KEY";
	case SHIFT_MSG_KEY_GONE: return "KEY_GONE";
	case SHIFT_MSG_KEY_FORGOT: return "KEY_FORGOT";
	case SHIFT_MSG_SESSION: return "SESSION";
	case SHIFT_MSG_TYPE_END: break;
	}
	return "?";
}

const char *shift_msg_err_name(int err)
{
	switch ((enum shift_msg_err)err) {
	case SHIFT_MSG_ESHORT: return "shorter than an envelope";
	case SHIFT_MSG_EMAGIC: return "wrong magic";
	case SHIFT_MSG_EVERSION: return "another version of the control messages";
	case SHIFT_MSG_ELENGTH: return "impossible length";
	case SHIFT_MSG_ETRAILING: return "trailing bytes";
	case SHIFT_MSG_EAUTH: return "wrong authentication tag";
	case SHIFT_MSG_ETYPE: return "unknown record type";
	case SHIFT_MSG_ERECORD: return "wrong record length";
	case SHIFT_MSG_ECOUNT: return "wrong record count";
	case SHIFT_MSG_ERAIL: return "no such rail";
	case SHIFT_MSG_EPSN: return "more than 24 bits";
	case SHIFT_MSG_EFENCE: return "impossible fence";
	case SHIFT_MSG_EEPOCH: return "impossible epoch";
	case SHIFT_MSG_EFLAG: return "reserved or boolean byte out of range";
	case SHIFT_MSG_ENONCE: return "no source nonce";
	case SHIFT_MSG_ESPACE: return "datagram full";
	}
	return err ? "?" : "no error";
}
