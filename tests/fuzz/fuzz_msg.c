/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Fuzzer of the control-message decoder. A message that it accepts must encode to the same bytes
 * again. Usage without libFuzzer: fuzz_msg [runs [seed]]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/msg.h"
#include "tests/fuzz/rnd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const uint8_t *data, size_t size)
{
	static uint8_t again[SHIFT_MSG_DATAGRAM_MAX];
	uint8_t *copy = malloc(size ? size : 1); /* exact, so that ASan sees every overrun */
	struct shift_msg_reader r;
	struct shift_msg_writer w;
	struct shift_msg m;
	int n, got;

	if (!copy)
		abort();
	memcpy(copy, data, size);
	n = shift_msg_open(&r, copy, size, NULL, NULL);
	if (n >= 0) {
		if (n == 0)
			abort();
		shift_msg_begin(&w, again, sizeof(again), r.src_nonce, r.dst_nonce);
		for (got = 0; shift_msg_next(&r, &m) == 1; got++)
			if (shift_msg_add(&w, &m))
				abort();
		if (got != n || shift_msg_end(&w, NULL, NULL) != size || memcmp(again, data, size))
			abort();
	}
	free(copy);
}

/* As it is, and as the records of a datagram whose envelope is good: magic and length are hard to
 * guess. The first byte is the number of records. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t head[] = {0x53, 0x48, 0x54, 0x46, SHIFT_MSG_VERSION};
	uint8_t buf[SHIFT_MSG_DATAGRAM_MAX] = {0};
	size_t len = SHIFT_MSG_ENVELOPE + size - 1;

	decode(data, size);
	if (size < 2 || len > sizeof(buf))
		return 0;
	memcpy(buf, head, sizeof(head));
	buf[7] = data[0];
	buf[10] = (uint8_t)(len >> 8);
	buf[11] = (uint8_t)len;
	buf[19] = buf[27] = 1;
	memcpy(buf + 28, data + 1, size - 1);
	decode(buf, len);
	return 0;
}

#ifndef SHIFT_LIBFUZZER
/* A good datagram of a few records with random content. */
static size_t good(uint8_t *buf)
{
	struct shift_msg_writer w;
	static const uint8_t blob[SHIFT_MSG_BLOB_MAX] = {1, 2, 3};
	uint32_t n = 1 + rnd(100);

	shift_msg_begin(&w, buf, SHIFT_MSG_DATAGRAM_MAX, 1 + rnd(1000), rnd(1000));
	while (n--) {
		struct shift_msg m = {.type = (uint8_t)(1 + rnd(SHIFT_MSG_TYPE_END - 1))};

		m.rail = (uint8_t)rnd(SHIFT_RAILS_MAX);
		m.fence = (uint8_t)rnd(3);
		m.recv_valid = (uint8_t)rnd(2);
		m.epoch = 1 + rnd(1000);
		m.heard = rnd(2) ? rnd(m.epoch + 1) : rnd(2);
		m.committed = rnd(m.epoch);
		m.rep_epoch = rnd(m.epoch);
		m.rep_psn = rnd(1 << 24);
		m.recv_cum = (uint64_t)rnd(UINT32_MAX) << rnd(32);
		if (m.type == SHIFT_MSG_SESSION) {
			m.blob = blob;
			m.blob_bytes = (uint8_t)(1 + rnd(SHIFT_MSG_BLOB_MAX));
		}
		shift_msg_add(&w, &m);
	}
	return shift_msg_end(&w, NULL, NULL);
}

static void mutate(uint8_t *buf, size_t *len)
{
	for (uint32_t n = rnd(4); n && *len; n--) {
		switch (rnd(4)) {
		case 0: buf[rnd((uint32_t)*len)] ^= (uint8_t)(1u << rnd(8)); break;
		case 1: buf[rnd((uint32_t)*len)] = (uint8_t)rnd(256); break;
		case 2: *len = rnd((uint32_t)*len + 1); break;
		case 3:
			if (*len < SHIFT_MSG_DATAGRAM_MAX)
				buf[(*len)++] = (uint8_t)rnd(256);
			break;
		}
	}
	/* Often repair the length, so that the code behind that check is reached. */
	if (*len >= SHIFT_MSG_ENVELOPE && rnd(2)) {
		buf[8] = buf[9] = 0;
		buf[10] = (uint8_t)(*len >> 8);
		buf[11] = (uint8_t)*len;
		memset(buf + *len - 8, 0, 8);
	}
}

int main(int argc, char **argv)
{
	uint32_t runs = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 200000;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	static uint8_t buf[SHIFT_MSG_DATAGRAM_MAX];

	rng = seed * 0x9e3779b97f4a7c15u + 1;
	for (uint32_t i = 0; i < runs; i++) {
		size_t len = good(buf);

		mutate(buf, &len);
		LLVMFuzzerTestOneInput(buf, len);
	}
	printf("1..1\nok 1 - %" PRIu32 " mutated datagrams, seed %" PRIu64 "\n", runs, seed);
	return 0;
}
#endif
