/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What messages look like, and how they are cut into pieces. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "tests/clients/integrity/integrity.h"

uint32_t pattern_life;

double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

uint64_t mix(uint64_t x) /* splitmix64's finalizer */
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

/* A random number in [0, below). */
uint32_t pick_by(uint64_t *random, uint32_t below)
{
	*random += 0x9e3779b97f4a7c15;
	return below ? (mix(*random) >> 16) % below : 0;
}

uint32_t pick(struct lane *l, uint32_t below)
{
	return pick_by(&l->random, below);
}

/*
 * A word in memory that a NIC writes while we look: a copy may be made byte by byte, so a number
 * goes with its complement, and counts only when both fit. 0 is "nothing here".
 */
uint64_t word_encode(uint32_t value)
{
	return (uint64_t)~value << 32 | value;
}

bool word_decode(uint64_t word, uint32_t *value)
{
	*value = (uint32_t)word;
	return (uint32_t)(word >> 32) == ~(uint32_t)word;
}

uint64_t memory_load(const uint8_t *p)
{
	return __atomic_load_n((const uint64_t *)(const void *)p, __ATOMIC_ACQUIRE);
}

void memory_store(uint8_t *p, uint64_t value)
{
	__atomic_store_n((uint64_t *)(void *)p, value, __ATOMIC_SEQ_CST);
}

int side_own(void)
{
	return opt.peer != NULL;
}

/* Another one in each life: what comes from the life before is not taken for what is due. */
uint64_t message_key(int side, uint32_t lane, enum stream s, uint32_t seq)
{
	return mix(mix(opt.w.seed ^ (uint64_t)(side + 1) << 60 ^ (uint64_t)pattern_life << 32) ^
		   (uint64_t)lane << 40 ^ (uint64_t)s << 36 ^ seq);
}

/* The shortest message must hold its number, unless that can go as immediate data. */
static uint32_t shortest(enum stream s)
{
	uint32_t imm = 1u << OP_SEND_IMM | 1u << OP_WRITE_IMM;

	return s == MESSAGES && !(opt.w.ops & imm) ? 8 : 0;
}

/* Of the payload. Every power of two is as likely as the next: many short ones, a few long. */
uint32_t message_length(int side, uint32_t lane, enum stream s, uint32_t seq)
{
	uint64_t h = mix(message_key(side, lane, s, seq) ^ 0x6c656e);
	uint32_t bits = 1, length;

	while (bits < 31 && 1u << bits <= opt.w.size)
		bits++;
	length = opt.w.fixed_size ? opt.w.size : (h >> 8) % ((2u << (h % bits)));
	if (length > opt.w.size)
		length = opt.w.size;
	if (length < shortest(s))
		length = shortest(s);
	return s == WRITES || s == FLAGS ? length & ~7u : length;
}

/* Bytes [from_byte, from_byte + length) of an endless pattern; from_byte is a multiple of 8. */
void message_fill(uint8_t *to, uint64_t key, uint32_t from_byte, uint32_t length)
{
	for (uint32_t i = 0; i < length; i += 8) {
		uint64_t word = mix(key + from_byte + i);

		memcpy(to + i, &word, length - i < 8 ? length - i : 8);
	}
}

void message_build(uint8_t *to, uint64_t key, uint32_t seq, uint32_t length)
{
	uint64_t word = word_encode(seq);

	message_fill(to, key, 0, length);
	if (length >= 8)
		memcpy(to, &word, 8);
}

/* With a flag before and behind the payload: length + 16 bytes. */
void slot_build(uint8_t *to, uint64_t key, uint32_t seq, uint32_t length)
{
	uint64_t flag = word_encode(seq);

	memcpy(to, &flag, 8);
	message_fill(to + 8, key, 0, length);
	memcpy(to + 8 + length, &flag, 8);
}

uint64_t swap_value(int side, uint32_t lane, uint32_t seq)
{
	return seq ? message_key(side, lane, SWAPS, seq) | 1 : 0;
}

static uint64_t bytes_differ(const uint8_t *a, const uint8_t *b, uint32_t length, uint32_t *first)
{
	uint64_t n = 0;

	for (uint32_t i = length; i--;)
		if (a[i] != b[i])
			*first = i, n++;
	return n;
}

uint64_t bytes_bad(const struct lane *l, const char *what, uint32_t seq, const uint8_t *got,
		   const uint8_t *expected, uint32_t length)
{
	static int told; /* the first few */
	uint32_t first = 0;
	uint64_t n;

	if (!memcmp(got, expected, length))
		return 0;
	n = bytes_differ(got, expected, length, &first);
	if (__atomic_add_fetch(&told, 1, __ATOMIC_RELAXED) <= 16)
		fprintf(stderr,
			"integrity: qp %u: %s %u: %" PRIu64 " of %u bytes are wrong, the first at "
			"%u: %02x, not %02x\n",
			l->index, what, seq, n, length, first, got[first], expected[first]);
	return n;
}

/* ---- pieces -------------------------------------------------------------------------------- */

/* Cuts the buffer at that place into 1 to 3 pieces with something unused between them. rxe of
 * rdma-core 44 takes each SGE of ibv_wr_set_sge_list() to be as long as the first. */
void pieces_cut(uint64_t *random, struct pieces *p, uint32_t at, uint32_t length)
{
	uint32_t n = opt.w.fixed_size ? 1 : 1 + pick_by(random, PIECES_MAX), rest = length;
	bool even = opt.wr_api && opt.rxe_44_post;

	if (n > length)
		n = length; /* no empty ones: to some NICs a length of 0 means 2 GiB */
	if (even && n && length % n)
		n = 1;
	p->n = n;
	for (uint32_t i = 0; i < n; i++) {
		p->offset[i] = at;
		p->length[i] = even	    ? length / n
			       : i == n - 1 ? rest
					    : 1 + pick_by(random, rest - (n - 1 - i));
		rest -= p->length[i];
		at += p->length[i] + PIECE_GAP;
	}
}

void pieces_scatter(uint8_t *memory, const struct pieces *p, const uint8_t *from)
{
	for (int i = 0; i < p->n; from += p->length[i], i++)
		memcpy(memory + p->offset[i], from, p->length[i]);
}

void pieces_gather(const uint8_t *memory, const struct pieces *p, uint8_t *to, uint32_t length)
{
	for (int i = 0; i < p->n && length; i++) {
		uint32_t n = p->length[i] < length ? p->length[i] : length;

		memcpy(to, memory + p->offset[i], n);
		to += n;
		length -= n;
	}
}

int pieces_sges(const struct ibv_mr *mr, const struct pieces *p, struct ibv_sge *sges)
{
	for (int i = 0; i < p->n; i++)
		sges[i] = (struct ibv_sge){.addr = (uintptr_t)mr->addr + p->offset[i],
					   .length = p->length[i],
					   .lkey = mr->lkey};
	return p->n;
}
