/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Each field of each record: where it stands on the wire, and what it may be (doc/protocol.md,
 * section 6). The table here is written from the document, not from the codec. */
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "lib/core/msg.h"

enum what { ANY, BOOL, RAIL, BITS24, FENCE };
enum { RECORDS = 28, BODY = 10, TAG = 8 };

struct known_field {
	uint8_t type;
	uint8_t at; /* in the body */
	uint8_t width;
	uint8_t what;
	size_t member; /* in struct shift_msg, and its size there */
	size_t size;
};

#define FIELD(type, at, width, what, member)                                           \
	{                                                                              \
		SHIFT_MSG_##type, at, width, what, offsetof(struct shift_msg, member), \
			sizeof(((struct shift_msg *)0)->member)                        \
	}

static const struct known_field fields[] = {
	FIELD(HELLO, 0, 1, BOOL, heard),
	FIELD(HELLO, 1, 4, BITS24, qpn),
	FIELD(HELLO, 5, 4, BITS24, dest_qpn),
	FIELD(HELLO, 9, 4, BITS24, sq_psn),
	FIELD(HELLO, 13, 4, BITS24, rq_psn),
	FIELD(HELLO, 17, 4, ANY, life),
	FIELD(HELLO, 21, 1, BOOL, past_matched),
	FIELD(SWITCH, 0, 1, RAIL, rail),
	FIELD(SWITCH, 1, 1, FENCE, fence),
	FIELD(SWITCH, 2, 1, BOOL, recv_valid),
	FIELD(SWITCH, 3, 4, ANY, epoch),
	FIELD(SWITCH, 7, 4, ANY, heard),
	FIELD(SWITCH, 11, 4, ANY, committed),
	FIELD(SWITCH, 15, 4, ANY, rep_epoch),
	FIELD(SWITCH, 19, 4, BITS24, rep_psn),
	FIELD(SWITCH, 23, 4, ANY, recv_avail),
	FIELD(SWITCH, 27, 8, ANY, recv_cum),
	FIELD(CLOSED, 0, 1, FENCE, fence),
	FIELD(CLOSED, 1, 1, BOOL, recv_valid),
	FIELD(CLOSED, 2, 4, ANY, rep_epoch),
	FIELD(CLOSED, 6, 4, BITS24, rep_psn),
	FIELD(CLOSED, 10, 8, ANY, recv_cum),
	FIELD(PREPARE, 0, 1, RAIL, rail),
	FIELD(PREPARE, 1, 4, ANY, epoch),
	FIELD(PREPARE, 5, 4, ANY, serial),
	FIELD(PREPARE, 9, 4, ANY, hold_ms),
	FIELD(READY, 0, 1, RAIL, rail),
	FIELD(READY, 1, 4, ANY, epoch),
	FIELD(READY, 5, 4, ANY, serial),
	FIELD(READY, 9, 4, ANY, hold_ms),
	FIELD(QUERY_PSN, 0, 4, ANY, epoch),
	FIELD(QUERY_PSN, 4, 4, ANY, serial),
	FIELD(PSN, 0, 1, FENCE, fence),
	FIELD(PSN, 1, 4, ANY, epoch),
	FIELD(PSN, 5, 4, BITS24, rep_psn),
	FIELD(PSN, 9, 4, ANY, recv_avail),
	FIELD(PSN, 13, 4, ANY, serial),
	FIELD(KEY_ASK, 0, 1, RAIL, rail),
	FIELD(KEY_ASK, 1, 4, ANY, epoch),
	FIELD(KEY_ASK, 5, 4, ANY, serial),
	FIELD(KEY_ASK, 9, 4, ANY, rkey),
	FIELD(KEY, 0, 1, RAIL, rail),
	FIELD(KEY, 1, 4, ANY, epoch),
	FIELD(KEY, 5, 4, ANY, serial),
	FIELD(KEY, 9, 4, ANY, rkey),
	FIELD(KEY, 13, 4, ANY, twin_rkey),
	FIELD(KEY, 17, 1, BOOL, key_status),
	FIELD(KEY_GONE, 0, 1, RAIL, rail),
	FIELD(KEY_GONE, 1, 4, ANY, epoch),
	FIELD(KEY_GONE, 5, 4, ANY, serial),
	FIELD(KEY_GONE, 9, 4, ANY, rkey),
	FIELD(KEY_FORGOT, 0, 1, RAIL, rail),
	FIELD(KEY_FORGOT, 1, 4, ANY, epoch),
	FIELD(KEY_FORGOT, 5, 4, ANY, serial),
	FIELD(KEY_FORGOT, 9, 4, ANY, rkey),
};

#define FOR_EACH_FIELD(f) \
	for (const struct known_field *f = fields; f < fields + sizeof(fields) / sizeof(*f); f++)

/* --- one datagram of one record ----------------------------------------------------------------
 */

static const uint8_t one_byte;

/* All 0 but for what must not be. */
static struct shift_msg plain(uint8_t type)
{
	struct shift_msg m;

	memset(&m, 0, sizeof(m));
	m.type = type;
	if (type == SHIFT_MSG_SWITCH)
		m.epoch = UINT32_MAX;
	if (type == SHIFT_MSG_SESSION) {
		m.blob = &one_byte;
		m.blob_bytes = sizeof(one_byte);
	}
	return m;
}

static size_t write_one(uint8_t *buf, size_t cap, const struct shift_msg *m)
{
	struct shift_msg_writer w;

	memset(buf, 0, cap);
	shift_msg_begin(&w, buf, cap, 1, 2);
	assert_int_equal(shift_msg_add(&w, m), 0);
	return shift_msg_end(&w, NULL, NULL);
}

/* As it came, or the error. */
static int read_one(const uint8_t *buf, size_t len, struct shift_msg *m)
{
	struct shift_msg_reader r;
	int n = shift_msg_open(&r, buf, len, NULL, NULL);

	return n < 0 ? n : shift_msg_next(&r, m);
}

static void set_wire(uint8_t *buf, const struct known_field *f, uint64_t v)
{
	for (unsigned int i = f->width; i-- > 0; v >>= 8)
		buf[RECORDS + BODY + f->at + i] = (uint8_t)v;
}

static uint64_t get_member(const struct shift_msg *m, const struct known_field *f)
{
	const uint8_t *p = (const uint8_t *)m + f->member;
	uint32_t v;
	uint64_t v64;

	if (f->size == 1)
		return *p;
	if (f->size == 4) {
		memcpy(&v, p, 4);
		return v;
	}
	memcpy(&v64, p, 8);
	return v64;
}

static void set_member(struct shift_msg *m, const struct known_field *f, uint32_t v)
{
	uint8_t *p = (uint8_t *)m + f->member;

	if (f->size == 1)
		*p = (uint8_t)v;
	else
		memcpy(p, &v, sizeof(v));
}

static uint64_t largest(const struct known_field *f)
{
	switch ((enum what)f->what) {
	case ANY: return f->width == 8 ? UINT64_MAX : UINT32_MAX;
	case BOOL: return 1;
	case RAIL: return SHIFT_RAILS_MAX - 1;
	case BITS24: return 0xffffff;
	case FENCE: return f->type == SHIFT_MSG_SWITCH ? SHIFT_FENCE_LEAVING : SHIFT_FENCE_UNSURE;
	}
	return 0;
}

static int refusal(const struct known_field *f)
{
	switch ((enum what)f->what) {
	case ANY: return 0;
	case BOOL: return SHIFT_MSG_EFLAG;
	case RAIL: return SHIFT_MSG_ERAIL;
	case BITS24: return SHIFT_MSG_EPSN;
	case FENCE: return SHIFT_MSG_EFENCE;
	}
	return 0;
}

/* In SWITCH two epochs must be older than the epoch itself. */
static uint64_t largest_in_plain(const struct known_field *f)
{
	bool older = f->type == SHIFT_MSG_SWITCH &&
		     (f->member == offsetof(struct shift_msg, committed) ||
		      f->member == offsetof(struct shift_msg, rep_epoch));

	return largest(f) - older;
}

/* --- the tests ---------------------------------------------------------------------------------
 */

/* A value whose bytes all differ arrives in the member of that name, and in no other. */
static void each_field_has_its_place(void **state)
{
	(void)state;
	FOR_EACH_FIELD(f)
	{
		uint64_t v = f->width == 1 ? 1 : 0x0102030405060708u & largest_in_plain(f);
		struct shift_msg m = plain(f->type), got;
		uint8_t buf[128], again[128];
		size_t len = write_one(buf, sizeof(buf), &m);

		set_wire(buf, f, v);
		assert_int_equal(read_one(buf, len, &got), 1);
		assert_true(get_member(&got, f) == v);
		/* And from there to the same bytes. */
		assert_int_equal(write_one(again, sizeof(again), &got), len);
		assert_memory_equal(again + RECORDS, buf + RECORDS, len - RECORDS);
		memset((uint8_t *)&got + f->member, 0, f->size);
		m.src_nonce = 1;
		m.dst_nonce = 2;
		if (f->member == offsetof(struct shift_msg, epoch))
			m.epoch = 0;
		assert_memory_equal(&got, &m, sizeof(m));
	}
}

static void each_field_has_its_bound(void **state)
{
	(void)state;
	FOR_EACH_FIELD(f)
	{
		struct shift_msg m = plain(f->type), got;
		uint8_t buf[128];
		size_t len = write_one(buf, sizeof(buf), &m);

		set_wire(buf, f, largest_in_plain(f));
		assert_int_equal(read_one(buf, len, &got), 1);
		assert_true(get_member(&got, f) == largest_in_plain(f));
		if (f->what == ANY)
			continue;
		set_wire(buf, f, largest(f) + 1);
		assert_int_equal(read_one(buf, len, &got), refusal(f));
	}
}

/* What must not arrive is not sent, either. */
static void the_encoder_has_the_same_bounds(void **state)
{
	(void)state;
	FOR_EACH_FIELD(f)
	{
		struct shift_msg m = plain(f->type);
		struct shift_msg_writer w;
		uint8_t buf[128];

		if (f->what == ANY)
			continue;
		set_member(&m, f, (uint32_t)largest(f) + 1);
		shift_msg_begin(&w, buf, sizeof(buf), 1, 2);
		assert_int_equal(shift_msg_add(&w, &m), refusal(f));
		assert_int_equal(shift_msg_end(&w, NULL, NULL), 0);
	}
}

/* Before e nothing of e can have been committed or executed; e itself may have been heard. */
static void epochs_of_a_switch_are_in_order(void **state)
{
	static const struct {
		uint32_t epoch, heard, committed, rep_epoch;
		bool good;
	} cases[] = {
		{0, 0, 0, 0, false}, {1, 0, 0, 0, true},   {1, 1, 0, 0, true},	{1, 2, 0, 0, false},
		{1, 0, 1, 0, false}, {1, 0, 0, 1, false},  {2, 0, 1, 0, true},	{2, 0, 0, 1, true},
		{2, 0, 2, 0, false}, {2, 0, 0, 2, false},  {2, 0, 3, 0, false}, {2, 0, 0, 3, false},
		{9, 9, 8, 8, true},  {9, 10, 8, 8, false},
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct shift_msg m = plain(SHIFT_MSG_SWITCH);
		struct shift_msg_writer w;
		uint8_t buf[128];

		m.epoch = cases[i].epoch;
		m.heard = cases[i].heard;
		m.committed = cases[i].committed;
		m.rep_epoch = cases[i].rep_epoch;
		shift_msg_begin(&w, buf, sizeof(buf), 1, 2);
		assert_int_equal(shift_msg_add(&w, &m), cases[i].good ? 0 : SHIFT_MSG_EEPOCH);
	}
}

/* The order of epochs is a matter of SWITCH only. */
static void epoch_0_may_be_asked_about(void **state)
{
	static const uint8_t types[] = {SHIFT_MSG_PREPARE,  SHIFT_MSG_READY, SHIFT_MSG_QUERY_PSN,
					SHIFT_MSG_PSN,	    SHIFT_MSG_KEY,   SHIFT_MSG_KEY_ASK,
					SHIFT_MSG_KEY_GONE, SHIFT_MSG_CLOSED};
	uint8_t buf[128];

	(void)state;
	for (unsigned int i = 0; i < sizeof(types); i++) {
		struct shift_msg m = plain(types[i]), got;

		m.rep_epoch = types[i] == SHIFT_MSG_CLOSED ? 7 : 0;
		assert_int_equal(read_one(buf, write_one(buf, sizeof(buf), &m), &got), 1);
		assert_int_equal(got.rep_epoch, m.rep_epoch);
	}
}

static void ids_and_nonces_have_their_places(void **state)
{
	struct shift_msg m = plain(SHIFT_MSG_FAILED), got;
	struct shift_msg_writer w;
	uint8_t buf[128];
	static const uint8_t header[] = {0x53, 0x48, 0x54, 0x46, SHIFT_MSG_VERSION,
					 0,    0,    1,	   0,	 0,
					 0,    46,   0x11, 0x12, 0x13,
					 0x14, 0x15, 0x16, 0x17, 0x18,
					 0x21, 0x22, 0x23, 0x24, 0x25,
					 0x26, 0x27, 0x28, 3,	 10,
					 1,    2,    3,	   4,	 5,
					 6,    7,    8};
	(void)state;
	m.dst_conn = 0x01020304;
	m.src_conn = 0x05060708;
	shift_msg_begin(&w, buf, sizeof(buf), 0x1112131415161718u, 0x2122232425262728u);
	assert_int_equal(shift_msg_add(&w, &m), 0);
	assert_int_equal(shift_msg_end(&w, NULL, NULL), sizeof(header) + TAG);
	assert_memory_equal(buf, header, sizeof(header));
	assert_int_equal(read_one(buf, sizeof(header) + TAG, &got), 1);
	assert_true(got.src_nonce == 0x1112131415161718u);
	assert_true(got.dst_nonce == 0x2122232425262728u);
	assert_int_equal(got.dst_conn, 0x01020304);
	assert_int_equal(got.src_conn, 0x05060708);
}

/* --- lengths ------------------------------------------------------------------------------------
 */

static void set_length(uint8_t *buf, size_t len)
{
	buf[10] = (uint8_t)(len >> 8);
	buf[11] = (uint8_t)len;
}

/* A record that says it ends behind the datagram: one byte behind, two, ... */
static void a_record_ends_inside_its_datagram(void **state)
{
	(void)state;
	for (uint8_t type = SHIFT_MSG_HELLO; type < SHIFT_MSG_TYPE_END; type++) {
		struct shift_msg m = plain(type), got;
		uint8_t buf[128];
		size_t len = write_one(buf, sizeof(buf), &m);

		for (size_t less = len - 1; less >= SHIFT_MSG_ENVELOPE; less--) {
			set_length(buf, less);
			memset(buf + less - TAG, 0, TAG);
			assert_int_equal(read_one(buf, less, &got), less == SHIFT_MSG_ENVELOPE
									    ? SHIFT_MSG_ECOUNT
									    : SHIFT_MSG_ERECORD);
		}
	}
}

/* One byte more or less than its type has. */
static void a_record_is_as_long_as_its_type(void **state)
{
	(void)state;
	for (uint8_t type = SHIFT_MSG_HELLO; type < SHIFT_MSG_TYPE_END; type++) {
		struct shift_msg m = plain(type), got;
		uint8_t buf[128];
		size_t len = write_one(buf, sizeof(buf), &m);

		assert_int_equal(buf[RECORDS + 1], len - SHIFT_MSG_ENVELOPE);
		assert_true(buf[RECORDS + 1] <= SHIFT_MSG_RECORD_MAX);
		buf[RECORDS + 1]++;
		assert_int_equal(read_one(buf, len, &got), SHIFT_MSG_ERECORD);
		buf[RECORDS + 1] -= 2;
		assert_int_equal(read_one(buf, len, &got), SHIFT_MSG_ERECORD);
	}
}

/* Room for the record and not for the tag is no room. */
static void a_datagram_has_room_for_its_tag(void **state)
{
	struct shift_msg m = plain(SHIFT_MSG_SWITCH);
	uint8_t buf[256];
	size_t need = write_one(buf, sizeof(buf), &m);

	(void)state;
	for (size_t cap = need - TAG - 1; cap < need + 2; cap++) {
		struct shift_msg_writer w;

		shift_msg_begin(&w, buf, cap, 1, 2);
		assert_int_equal(shift_msg_add(&w, &m), cap < need ? SHIFT_MSG_ESPACE : 0);
	}
}

/* What does not fit leaves no trace: the datagram goes as it was. */
static void what_does_not_fit_leaves_no_trace(void **state)
{
	struct shift_msg m = plain(SHIFT_MSG_SWITCH), got;
	struct shift_msg_reader r;
	struct shift_msg_writer w;
	uint8_t buf[128];
	size_t one = write_one(buf, sizeof(buf), &m);

	(void)state;
	shift_msg_begin(&w, buf, one + 3, 1, 2);
	assert_int_equal(shift_msg_add(&w, &m), 0);
	assert_int_equal(shift_msg_add(&w, &m), SHIFT_MSG_ESPACE);
	assert_int_equal(shift_msg_end(&w, NULL, NULL), one);
	assert_int_equal(shift_msg_open(&r, buf, one, NULL, NULL), 1);
	assert_int_equal(shift_msg_next(&r, &got), 1);
	assert_int_equal(shift_msg_next(&r, &got), 0);
}

/* The largest datagram is 4096 bytes, whatever the room; a longer one is not read. */
static void no_datagram_is_longer_than_4096(void **state)
{
	static uint8_t buf[8192];
	struct shift_msg m = plain(SHIFT_MSG_FAILED);
	struct shift_msg_reader r;
	struct shift_msg_writer w;
	int n = 0;
	size_t len;

	(void)state;
	memset(buf, 0, sizeof(buf));
	shift_msg_begin(&w, buf, sizeof(buf), 1, 2);
	while (!shift_msg_add(&w, &m))
		n++;
	assert_int_equal(n, (4096 - 36) / 10);
	len = shift_msg_end(&w, NULL, NULL);
	assert_int_equal(len, 4096);
	assert_int_equal(shift_msg_open(&r, buf, len, NULL, NULL), n);
	set_length(buf, 4097);
	assert_int_equal(shift_msg_open(&r, buf, 4097, NULL, NULL), SHIFT_MSG_ELENGTH);
}

/* All 16 bits of their number count. */
static void a_datagram_of_256_records(void **state)
{
	static uint8_t buf[4096];
	struct shift_msg m = plain(SHIFT_MSG_FAILED);
	struct shift_msg_reader r;
	struct shift_msg_writer w;
	size_t len;

	(void)state;
	shift_msg_begin(&w, buf, sizeof(buf), 1, 2);
	for (int i = 0; i < 256; i++)
		assert_int_equal(shift_msg_add(&w, &m), 0);
	len = shift_msg_end(&w, NULL, NULL);
	assert_int_equal(shift_msg_open(&r, buf, len, NULL, NULL), 256);
	for (int i = 0; i < 256; i++)
		assert_int_equal(shift_msg_next(&r, &m), 1);
	assert_int_equal(shift_msg_next(&r, &m), 0);
}

/* All 64 bits of the sender's, and none of the receiver's. */
static void each_bit_of_a_nonce_counts(void **state)
{
	struct shift_msg m = plain(SHIFT_MSG_FAILED);
	struct shift_msg_reader r;
	struct shift_msg_writer w;
	uint8_t buf[128];
	size_t len;

	(void)state;
	for (int bit = -1; bit < 64; bit++) {
		uint64_t nonce = bit < 0 ? 0 : 1ull << bit;

		shift_msg_begin(&w, buf, sizeof(buf), nonce, ~nonce);
		assert_int_equal(shift_msg_add(&w, &m), 0);
		len = shift_msg_end(&w, NULL, NULL);
		assert_int_equal(shift_msg_open(&r, buf, len, NULL, NULL),
				 nonce ? 1 : SHIFT_MSG_ENONCE);
	}
}

/* An envelope without records is refused; so is a length that does not hold one. */
static void an_envelope_alone_is_nothing(void **state)
{
	struct shift_msg m = plain(SHIFT_MSG_FAILED);
	struct shift_msg_reader r;
	uint8_t buf[128];

	(void)state;
	write_one(buf, sizeof(buf), &m);
	buf[7] = 0;
	memset(buf + RECORDS, 0, TAG);
	set_length(buf, SHIFT_MSG_ENVELOPE);
	assert_int_equal(shift_msg_open(&r, buf, SHIFT_MSG_ENVELOPE, NULL, NULL), SHIFT_MSG_ECOUNT);
	set_length(buf, SHIFT_MSG_ENVELOPE - 1);
	assert_int_equal(shift_msg_open(&r, buf, SHIFT_MSG_ENVELOPE, NULL, NULL),
			 SHIFT_MSG_ELENGTH);
	assert_int_equal(shift_msg_open(&r, buf, SHIFT_MSG_ENVELOPE - 1, NULL, NULL),
			 SHIFT_MSG_ESHORT);
}

/* --- authentication and names --------------------------------------------------------------------
 */

static uint64_t count_of(const void *ctx, const void *data, size_t len)
{
	(void)ctx;
	(void)data;
	return len;
}

/* The tag is over all before it, and the function is asked with the key. */
static void the_tag_is_over_all_before_it(void **state)
{
	struct shift_msg m = plain(SHIFT_MSG_FAILED);
	struct shift_msg_reader r;
	struct shift_msg_writer w;
	uint8_t buf[128];
	size_t len;

	(void)state;
	shift_msg_begin(&w, buf, sizeof(buf), 1, 2);
	assert_int_equal(shift_msg_add(&w, &m), 0);
	len = shift_msg_end(&w, count_of, NULL);
	assert_int_equal(len, 46);
	assert_int_equal(buf[len - 1], 38);
	assert_int_equal(shift_msg_open(&r, buf, len, count_of, NULL), 1);
	assert_int_equal(shift_msg_open(&r, buf, len, NULL, NULL), SHIFT_MSG_EAUTH);
}

static void types_and_errors_have_their_names(void **state)
{
	static const char *const types[] = {"?",      "HELLO",	   "SWITCH",	 "FAILED",
					    "CLOSED", "UNKNOWN",   "NOT_YET",	 "PREPARE",
					    "READY",  "QUERY_PSN", "PSN",	 "KEY_ASK",
					    "KEY",    "KEY_GONE",  "KEY_FORGOT", "SESSION"};

	(void)state;
	for (uint8_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		assert_string_equal(shift_msg_type_name(i), types[i]);
	assert_string_equal(shift_msg_type_name(SHIFT_MSG_TYPE_END), "?");
	assert_string_equal(shift_msg_err_name(0), "no error");
	assert_string_equal(shift_msg_err_name(-1000), "?");
	for (int a = SHIFT_MSG_ESPACE; a < 0; a++)
		for (int b = a + 1; b < 0; b++)
			assert_string_not_equal(shift_msg_err_name(a), shift_msg_err_name(b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_field_has_its_place),
		cmocka_unit_test(each_field_has_its_bound),
		cmocka_unit_test(the_encoder_has_the_same_bounds),
		cmocka_unit_test(epochs_of_a_switch_are_in_order),
		cmocka_unit_test(epoch_0_may_be_asked_about),
		cmocka_unit_test(ids_and_nonces_have_their_places),
		cmocka_unit_test(a_record_ends_inside_its_datagram),
		cmocka_unit_test(a_record_is_as_long_as_its_type),
		cmocka_unit_test(a_datagram_has_room_for_its_tag),
		cmocka_unit_test(what_does_not_fit_leaves_no_trace),
		cmocka_unit_test(no_datagram_is_longer_than_4096),
		cmocka_unit_test(a_datagram_of_256_records),
		cmocka_unit_test(each_bit_of_a_nonce_counts),
		cmocka_unit_test(an_envelope_alone_is_nothing),
		cmocka_unit_test(the_tag_is_over_all_before_it),
		cmocka_unit_test(types_and_errors_have_their_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
