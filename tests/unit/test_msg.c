/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "lib/core/msg.h"

static const uint8_t blob[SHIFT_MSG_BLOB_MAX] = {[0] = 1, [SHIFT_MSG_BLOB_MAX - 1] = 2};
static const uint64_t key[2] = {0x1122334455667788u, 0x99aabbccddeeff00u};

static struct shift_msg sample(uint8_t type)
{
	struct shift_msg m;

	memset(&m, 0, sizeof(m)); /* padding too: it is compared */
	m.src_nonce = 0xa1;
	m.dst_nonce = 0xb2;
	m.type = type;
	m.dst_conn = 0x01020304;
	m.src_conn = 0x05060708;
	switch ((enum shift_msg_type)type) {
	case SHIFT_MSG_HELLO:
		m.heard = 1;
		m.qpn = 0xffffff;
		m.dest_qpn = 17;
		m.sq_psn = 0xabcdef;
		m.rq_psn = 1;
		m.life = 0x01020304;
		m.past_matched = 1;
		break;
	case SHIFT_MSG_SWITCH:
		m.recv_avail = UINT32_MAX;
		m.epoch = 9;
		m.heard = 9;
		m.committed = 8;
		m.rail = 7;
		m.fence = SHIFT_FENCE_PENDING;
		m.recv_valid = 1;
		m.rep_epoch = 8;
		m.rep_psn = 0xfffffe;
		m.recv_cum = UINT64_MAX;
		break;
	case SHIFT_MSG_CLOSED:
		m.fence = SHIFT_FENCE_UNSURE;
		m.rep_epoch = 8;
		m.rep_psn = 3;
		m.recv_cum = 1ull << 40;
		break;
	case SHIFT_MSG_PREPARE:
	case SHIFT_MSG_READY:
		m.rail = 3;
		m.epoch = 77;
		m.serial = 0x01020304;
		m.hold_ms = 0xfffefdfc;
		break;
	case SHIFT_MSG_QUERY_PSN:
		m.epoch = 1;
		m.serial = 5;
		break;
	case SHIFT_MSG_KEY:
		m.twin_rkey = 0x1234;
		m.key_status = SHIFT_KEY_NONE;
		/* fall through */
	case SHIFT_MSG_KEY_ASK:
	case SHIFT_MSG_KEY_GONE:
	case SHIFT_MSG_KEY_FORGOT:
		m.rail = 1;
		m.epoch = 2;
		m.serial = 3;
		m.rkey = UINT32_MAX;
		break;
	case SHIFT_MSG_PSN:
		m.epoch = 1;
		m.serial = 5;
		m.rep_psn = 0x800000;
		m.recv_avail = 12;
		break;
	case SHIFT_MSG_SESSION:
		m.blob = blob;
		m.blob_bytes = 7;
		break;
	case SHIFT_MSG_FAILED:
	case SHIFT_MSG_UNKNOWN:
	case SHIFT_MSG_NOT_YET:
	case SHIFT_MSG_TYPE_END: break;
	}
	return m;
}

static size_t all_types(uint8_t *buf, size_t cap)
{
	struct shift_msg_writer w;

	shift_msg_begin(&w, buf, cap, 0xa1, 0xb2);
	for (uint8_t t = SHIFT_MSG_HELLO; t < SHIFT_MSG_TYPE_END; t++) {
		struct shift_msg m = sample(t);

		assert_int_equal(shift_msg_add(&w, &m), 0);
	}
	return shift_msg_end(&w, shift_msg_siphash, key);
}

static int open_exact(const uint8_t *buf, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1); /* so that ASan sees a read past the end */
	struct shift_msg_reader r;
	int n;

	assert_non_null(copy);
	memcpy(copy, buf, len);
	n = shift_msg_open(&r, copy, len, shift_msg_siphash, key);
	free(copy);
	return n;
}

static void round_trip(void **state)
{
	uint8_t buf[1024];
	struct shift_msg_reader r;
	struct shift_msg m, want;
	size_t len = all_types(buf, sizeof(buf));

	(void)state;
	assert_int_equal(shift_msg_open(&r, buf, len, shift_msg_siphash, key),
			 SHIFT_MSG_TYPE_END - 1);
	for (uint8_t t = SHIFT_MSG_HELLO; t < SHIFT_MSG_TYPE_END; t++) {
		want = sample(t);
		assert_int_equal(shift_msg_next(&r, &m), 1);
		if (want.blob) {
			assert_memory_equal(m.blob, want.blob, want.blob_bytes);
			m.blob = want.blob; /* it points into the datagram */
		}
		assert_memory_equal(&m, &want, sizeof(m));
	}
	assert_int_equal(shift_msg_next(&r, &m), 0);
}

static void truncated_anywhere(void **state)
{
	uint8_t buf[1024];
	size_t len = all_types(buf, sizeof(buf));

	(void)state;
	for (size_t n = 0; n < len; n++)
		assert_int_equal(open_exact(buf, n),
				 n < SHIFT_MSG_ENVELOPE ? SHIFT_MSG_ESHORT : SHIFT_MSG_ELENGTH);
	buf[len] = 0;
	assert_int_equal(open_exact(buf, len + 1), SHIFT_MSG_ETRAILING);
}

static void every_bit_flip_is_refused(void **state)
{
	uint8_t buf[1024];
	size_t len = all_types(buf, sizeof(buf));

	(void)state;
	for (size_t bit = 0; bit < 8 * len; bit++) {
		buf[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		assert_true(open_exact(buf, len) < 0);
		buf[bit / 8] ^= (uint8_t)(1u << (bit % 8));
	}
	assert_true(open_exact(buf, len) > 0);
}

/* Without a key the content itself must hold up; one byte is changed, the tag stays 0. */
static int with_byte(uint8_t type, size_t at, uint8_t value)
{
	uint8_t buf[256];
	struct shift_msg m = sample(type);
	struct shift_msg_writer w;
	struct shift_msg_reader r;
	size_t len;

	shift_msg_begin(&w, buf, sizeof(buf), 0xa1, 0xb2);
	assert_int_equal(shift_msg_add(&w, &m), 0);
	len = shift_msg_end(&w, NULL, NULL);
	buf[at] = value;
	return shift_msg_open(&r, buf, len, NULL, NULL);
}

static void each_error_has_its_code(void **state)
{
	enum { REC = 28, BODY = REC + 10 };

	(void)state;
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, 0, 0), SHIFT_MSG_EMAGIC);
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, 5, 1), SHIFT_MSG_EFLAG);
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, 7, 0), SHIFT_MSG_ECOUNT);
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, 7, 2), SHIFT_MSG_ECOUNT);
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, 11, 255), SHIFT_MSG_ELENGTH);
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, 11, 40), SHIFT_MSG_ETRAILING);
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, 19, 0), SHIFT_MSG_ENONCE);
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, REC, 0), SHIFT_MSG_ETYPE);
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, REC, SHIFT_MSG_TYPE_END), SHIFT_MSG_ETYPE);
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, REC, SHIFT_MSG_PSN), SHIFT_MSG_ERECORD);
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, REC + 1, 200), SHIFT_MSG_ERECORD);
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, BODY, 8), SHIFT_MSG_ERAIL);
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, BODY + 1, 4), SHIFT_MSG_EFENCE);
	assert_int_equal(with_byte(SHIFT_MSG_CLOSED, BODY, SHIFT_FENCE_PENDING), SHIFT_MSG_EFENCE);
	assert_int_equal(with_byte(SHIFT_MSG_CLOSED, BODY, SHIFT_FENCE_LEAVING), SHIFT_MSG_EFENCE);
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, BODY + 2, 2), SHIFT_MSG_EFLAG);
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, BODY + 6, 8), SHIFT_MSG_EEPOCH);
	assert_int_equal(with_byte(SHIFT_MSG_SWITCH, BODY + 10, 10), SHIFT_MSG_EEPOCH);
	assert_int_equal(with_byte(SHIFT_MSG_HELLO, BODY + 1, 1), SHIFT_MSG_EPSN);
	assert_int_equal(with_byte(SHIFT_MSG_FAILED, SHIFT_MSG_ENVELOPE + 9, 1), SHIFT_MSG_EAUTH);
	for (int err = SHIFT_MSG_ESPACE; err < 0; err++)
		assert_string_not_equal(shift_msg_err_name(err), "?");
}

/* A peer of another release: it is refused for that and nothing else, and its operator can be told.
 */
static void another_version_is_refused_as_such(void **state)
{
	struct shift_msg m = sample(SHIFT_MSG_HELLO);
	struct shift_msg_writer w;
	struct shift_msg_reader r;
	uint8_t buf[256], version;
	uint64_t nonce;
	size_t len;

	(void)state;
	assert_int_equal(SHIFT_MSG_VERSION, 3);
	shift_msg_begin(&w, buf, sizeof(buf), 0xa1, 0xb2);
	shift_msg_add(&w, &m);
	len = shift_msg_end(&w, NULL, NULL);
	assert_int_equal(shift_msg_open(&r, buf, len, NULL, NULL), 1);
	buf[4] = 1; /* and so its tag is wrong, too */
	assert_int_equal(shift_msg_open(&r, buf, len, NULL, NULL), SHIFT_MSG_EVERSION);
	assert_true(shift_msg_sender(buf, len, &version, &nonce));
	assert_int_equal(version, 1);
	assert_int_equal(nonce, 0xa1);
	buf[4] = 4;
	assert_int_equal(shift_msg_open(&r, buf, len, NULL, NULL), SHIFT_MSG_EVERSION);
	assert_false(shift_msg_sender(buf, SHIFT_MSG_ENVELOPE - 1, &version, &nonce));
	buf[0]++;
	assert_false(shift_msg_sender(buf, len, &version, &nonce));
}

static void a_full_datagram(void **state)
{
	static uint8_t buf[8192];
	struct shift_msg m = sample(SHIFT_MSG_SWITCH);
	struct shift_msg_writer w;
	struct shift_msg_reader r;
	int n = 0, err;
	size_t len;

	(void)state;
	shift_msg_begin(&w, buf, sizeof(buf), 1, 2);
	while (!(err = shift_msg_add(&w, &m)))
		n++;
	assert_int_equal(err, SHIFT_MSG_ESPACE);
	len = shift_msg_end(&w, NULL, NULL);
	assert_true(len <= SHIFT_MSG_DATAGRAM_MAX && len > SHIFT_MSG_DATAGRAM_MAX - 60);
	assert_int_equal(shift_msg_open(&r, buf, len, NULL, NULL), n);
	assert_true(n >= 80); /* one datagram moves 80 connections */
}

/* What a SESSION says is for others to read. How long it is must be right at both ends. */
static void a_blob_has_its_bounds(void **state)
{
	static const struct {
		size_t bytes;
		int err;
	} cases[] = {{0, SHIFT_MSG_ERECORD},
		     {1, 0},
		     {SHIFT_MSG_BLOB_MAX, 0},
		     {SHIFT_MSG_BLOB_MAX + 1, SHIFT_MSG_ERECORD}};
	enum { REC = 28, HEADER = 10 };

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint8_t buf[512] = {0};
		struct shift_msg m = {.type = SHIFT_MSG_SESSION,
				      .blob = blob,
				      .blob_bytes = (uint8_t)cases[i].bytes};
		struct shift_msg_writer w;
		struct shift_msg_reader r;
		size_t len;

		shift_msg_begin(&w, buf, sizeof(buf), 1, 2);
		assert_int_equal(shift_msg_add(&w, &m), cases[i].err);
		/* The same on the wire, from an encoder that does not look. */
		m.blob_bytes = SHIFT_MSG_BLOB_MAX;
		shift_msg_begin(&w, buf, sizeof(buf), 1, 2);
		shift_msg_add(&w, &m);
		w.len = REC + HEADER + cases[i].bytes;
		buf[REC + 1] = (uint8_t)(HEADER + cases[i].bytes);
		len = shift_msg_end(&w, NULL, NULL);
		assert_int_equal(shift_msg_open(&r, buf, len, NULL, NULL),
				 cases[i].err ? cases[i].err : 1);
		if (cases[i].err)
			continue;
		assert_int_equal(shift_msg_next(&r, &m), 1);
		assert_int_equal(m.blob_bytes, cases[i].bytes);
		assert_ptr_equal(m.blob, buf + REC + HEADER);
	}
	/* Another record has none. */
	{
		uint8_t buf[256];
		struct shift_msg m = {.type = SHIFT_MSG_FAILED, .blob = blob, .blob_bytes = 1};
		struct shift_msg_writer w;

		shift_msg_begin(&w, buf, sizeof(buf), 1, 2);
		assert_int_equal(shift_msg_add(&w, &m), SHIFT_MSG_ERECORD);
	}
}

static void encoder_refuses_nonsense(void **state)
{
	uint8_t buf[256];
	struct shift_msg m = sample(SHIFT_MSG_SWITCH);
	struct shift_msg_writer w;

	(void)state;
	shift_msg_begin(&w, buf, sizeof(buf), 1, 2);
	assert_int_equal(shift_msg_end(&w, NULL, NULL), 0);
	m.rail = 8;
	assert_int_equal(shift_msg_add(&w, &m), SHIFT_MSG_ERAIL);
	m.rail = 0;
	m.epoch = 0;
	assert_int_equal(shift_msg_add(&w, &m), SHIFT_MSG_EEPOCH);
	m.type = 0;
	assert_int_equal(shift_msg_add(&w, &m), SHIFT_MSG_ETYPE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip),
		cmocka_unit_test(truncated_anywhere),
		cmocka_unit_test(every_bit_flip_is_refused),
		cmocka_unit_test(each_error_has_its_code),
		cmocka_unit_test(another_version_is_refused_as_such),
		cmocka_unit_test(a_full_datagram),
		cmocka_unit_test(a_blob_has_its_bounds),
		cmocka_unit_test(encoder_refuses_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
