/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The packet programs, in the kernel, on packets made by hand. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/pkt_cls.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "faultinject/packet_bpf.h"

enum { ACK = 0x11, SEND_ONLY = 0x04, ICRC_BYTES = 4 };

struct packet {
	unsigned char bytes[9000];
	uint32_t size;
	unsigned int ip; /* where the IP header begins */
};

struct shape {
	int family, tags;
	int opcode;
	uint32_t qpn;
	unsigned int payload; /* behind the BTH, with the ICRC */
	uint16_t port;	      /* 0: RoCE's */
	int protocol;	      /* 0: UDP */
	uint16_t fragment;
};

static void put16(unsigned char *to, unsigned int value)
{
	to[0] = (unsigned char)(value >> 8);
	to[1] = (unsigned char)value;
}

static void ipv4(unsigned char *b, const struct shape *s, unsigned int bytes)
{
	b[0] = 0x45;
	put16(b + 2, bytes);
	put16(b + 6, s->fragment);
	b[8] = 64;
	b[9] = (unsigned char)(s->protocol ? s->protocol : IPPROTO_UDP);
	inet_pton(AF_INET, "10.0.1.1", b + 12);
	inet_pton(AF_INET, "10.0.1.2", b + 16);
}

static void ipv6(unsigned char *b, const struct shape *s, unsigned int bytes)
{
	b[0] = 0x60;
	put16(b + 4, bytes - 40);
	b[6] = (unsigned char)(s->protocol ? s->protocol : IPPROTO_UDP);
	b[7] = 64;
	inet_pton(AF_INET6, "fd00::1", b + 8);
	inet_pton(AF_INET6, "fd00::2", b + 24);
}

static struct packet make(const struct shape *s)
{
	unsigned int header = s->family == AF_INET ? 20 : 40;
	unsigned int bytes = header + 8 + 12 + s->payload;
	static struct packet p;
	unsigned char *b;

	memset(&p, 0, sizeof(p));
	b = p.bytes + 12;
	for (int i = 0; i < s->tags; i++, b += 4)
		put16(b, i || s->tags == 1 ? 0x8100 : 0x88a8);
	put16(b, s->family == AF_INET ? 0x0800 : 0x86dd);
	b += 2;
	p.ip = (unsigned int)(b - p.bytes);
	(s->family == AF_INET ? ipv4 : ipv6)(b, s, bytes);
	b += header;
	put16(b, 49152);
	put16(b + 2, s->port ? s->port : 4791);
	put16(b + 4, bytes - header);
	b[8] = (unsigned char)s->opcode;
	b[13] = (unsigned char)(s->qpn >> 16);
	put16(b + 14, s->qpn);
	p.size = p.ip + bytes;
	return p;
}

static struct packet_state state;
static int state_fd, program;

static bool load(const struct packet_rule *r)
{
	static char log[1 << 16];
	struct packet_state first = {.random = 88172645463325252ull};
	static struct bpf_code code;

	state_fd = bpf_state_make(sizeof(first), &first);
	if (state_fd == -EPERM || state_fd == -ENOSYS)
		return false;
	assert_true(state_fd >= 0);
	packet_bpf_make(&code, r, state_fd);
	program = bpf_load_program(&code, "test", log, sizeof(log));
	if (program < 0)
		print_error("%s\n%s\n", strerror(-program), log);
	assert_true(program >= 0);
	return true;
}

static void unload(void)
{
	close(program);
	close(state_fd);
}

static uint32_t verdict(struct packet *p)
{
	uint32_t v;

	assert_int_equal(bpf_try_program(program, p->bytes, p->size, &v), 0);
	assert_int_equal(bpf_state_read(state_fd, &state), 0);
	return v;
}

static const uint32_t go_on = (uint32_t)TC_ACT_UNSPEC;

static struct packet_rule rule(void)
{
	return (struct packet_rule){.qpn = -1, .rate = 1};
}

#define REQUIRE(r)              \
	do {                    \
		if (!load(r))   \
			skip(); \
	} while (0)

static void everything_is_dropped(void **unused)
{
	struct packet_rule r = rule();
	struct packet p = make(&(struct shape){AF_INET, 0, SEND_ONLY, 17, 100, 0, 0, 0});

	(void)unused;
	REQUIRE(&r);
	assert_int_equal(verdict(&p), TC_ACT_SHOT);
	assert_int_equal(state.matched, 1);
	assert_int_equal(state.hit, 1);
	unload();
}

static void on_the_way_out_a_drop_is_no_error(void **unused)
{
	struct packet_rule r = rule();
	struct packet p = make(&(struct shape){AF_INET, 0, SEND_ONLY, 17, 100, 0, 0, 0});

	(void)unused;
	r.is_egress = true;
	REQUIRE(&r);
	assert_int_equal(verdict(&p), TC_ACT_STOLEN);
	unload();
}

static void answers_are_told_from_the_rest(void **unused)
{
	struct packet_rule r = rule();

	(void)unused;
	r.roce = true;
	r.answers = true;
	REQUIRE(&r);
	for (int family = AF_INET;; family = AF_INET6) {
		for (int tags = 0; tags <= 2; tags++) {
			struct packet other = make(
				&(struct shape){family, tags, ACK, 17, 8, 4792, 0, 0});
			struct packet tcp = make(
				&(struct shape){family, tags, ACK, 17, 8, 0, IPPROTO_TCP, 0});

			for (int opcode = 0; opcode <= UINT8_MAX; opcode++) {
				struct packet p = make(
					&(struct shape){family, tags, opcode, 17, 8, 0, 0, 0});
				/* READ responses, ACK, atomic ACK */
				bool answers = opcode >= 0x0d && opcode <= 0x12;

				assert_int_equal(verdict(&p), answers ? TC_ACT_SHOT : go_on);
			}
			assert_int_equal(verdict(&other), go_on);
			assert_int_equal(verdict(&tcp), go_on);
		}
		if (family == AF_INET6)
			break;
	}
	assert_int_equal(state.hit, 6 * 6);
	unload();
}

static void a_later_fragment_is_no_roce(void **unused)
{
	struct packet p = make(&(struct shape){AF_INET, 0, ACK, 17, 8, 0, 0, 100});
	struct packet_rule r = rule();

	(void)unused;
	r.roce = true;
	REQUIRE(&r);
	assert_int_equal(verdict(&p), go_on);
	unload();
}

static void one_qp_only(void **unused)
{
	struct packet mine = make(&(struct shape){AF_INET, 0, SEND_ONLY, 0x123456, 64, 0, 0, 0});
	struct packet_rule r = rule();

	(void)unused;
	r.roce = true;
	r.qpn = 0x123456;
	REQUIRE(&r);
	assert_int_equal(verdict(&mine), TC_ACT_SHOT);
	mine = make(&(struct shape){AF_INET, 0, SEND_ONLY, 0x123457, 64, 0, 0, 0});
	assert_int_equal(verdict(&mine), go_on);
	unload();
}

static void one_peer_only(void **unused)
{
	static const struct {
		int family;
		const char *address;
		bool is_egress, hit;
	} cases[] = {
		{AF_INET, "10.0.1.1", false, true},  {AF_INET, "10.0.1.2", false, false},
		{AF_INET, "10.0.1.2", true, true},   {AF_INET6, "fd00::1", false, true},
		{AF_INET6, "fd00::2", false, false}, {AF_INET6, "fd00::2", true, true},
	};
	struct in6_addr address;

	(void)unused;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct packet p = make(
			&(struct shape){cases[i].family, 1, SEND_ONLY, 17, 64, 0, 0, 0});
		struct packet other = make(&(struct shape){AF_INET + AF_INET6 - cases[i].family, 1,
							   SEND_ONLY, 17, 64, 0, 0, 0});
		struct packet_rule r = rule();

		inet_pton(cases[i].family, cases[i].address, &address);
		r.peer_family = cases[i].family;
		r.peer = &address;
		r.is_egress = cases[i].is_egress;
		REQUIRE(&r);
		p = make(&(struct shape){cases[i].family, 1, SEND_ONLY, 17, 64, 0, 0, 0});
		assert_int_equal(verdict(&p) != go_on, cases[i].hit);
		assert_int_equal(verdict(&other), go_on);
		unload();
	}
}

static void size_is_that_of_the_ip_packet(void **unused)
{
	struct packet_rule r = rule();

	(void)unused;
	r.larger = 1024;
	REQUIRE(&r);
	for (int family = AF_INET;; family = AF_INET6) {
		unsigned int headers = (family == AF_INET ? 20 : 40) + 8 + 12;
		struct packet p = make(&(struct shape){family, 0, 0, 17, 1024 - headers, 0, 0, 0});

		assert_int_equal(verdict(&p), go_on);
		p = make(&(struct shape){family, 0, 0, 17, 1025 - headers, 0, 0, 0});
		assert_int_equal(verdict(&p), TC_ACT_SHOT);
		p = make(&(struct shape){family, 2, 0, 17, 3000, 0, IPPROTO_TCP, 0});
		assert_int_equal(verdict(&p), TC_ACT_SHOT);
		if (family == AF_INET6)
			break;
	}
	unload();
}

/* Returns the longest run of packets that were hit. */
static unsigned int many(unsigned int count, unsigned int *hit, unsigned int *runs)
{
	unsigned int longest = 0, now = 0;
	struct packet p = make(&(struct shape){AF_INET, 0, SEND_ONLY, 17, 100, 0, 0, 0});

	*hit = *runs = 0;
	for (unsigned int i = 0; i < count; i++) {
		bool is_hit = verdict(&p) == TC_ACT_SHOT;

		*hit += is_hit;
		*runs += is_hit && !now;
		now = is_hit ? now + 1 : 0;
		longest = now > longest ? now : longest;
	}
	return longest;
}

/* The seed is fixed: no flakes. */
static void a_rate_is_kept(void **unused)
{
	struct packet_rule r = rule();
	unsigned int hit, runs;

	(void)unused;
	r.rate = 0.05;
	REQUIRE(&r);
	many(20000, &hit, &runs);
	assert_in_range(hit, 900, 1100);
	assert_int_equal(state.matched, 20000);
	assert_int_equal(state.hit, hit);
	unload();
}

static void bursts_have_the_rate_and_the_length(void **unused)
{
	struct packet_rule r = rule();
	unsigned int hit, runs;

	(void)unused;
	r.rate = 0.05;
	r.burst = 8;
	REQUIRE(&r);
	assert_true(many(40000, &hit, &runs) > 20);
	assert_in_range(hit, 1600, 2400);
	assert_in_range(hit / runs, 6, 10);
	unload();
	assert_true(burst_is_possible(0.8, 4));
	assert_false(burst_is_possible(0.9, 4));
}

static unsigned int bits_between(const struct packet *a, const struct packet *b, unsigned int from)
{
	unsigned int n = 0;

	assert_memory_equal(a->bytes, b->bytes, from);
	for (unsigned int i = from; i < a->size; i++)
		n += (unsigned int)__builtin_popcount(a->bytes[i] ^ b->bytes[i]);
	return n;
}

static void one_bit_behind_the_bth_is_wrong(void **unused)
{
	struct packet_rule r = rule();

	(void)unused;
	r.action = ACTION_CORRUPT;
	r.roce = true;
	REQUIRE(&r);
	for (unsigned int payload = ICRC_BYTES; payload < 300; payload += 7) {
		struct packet before = make(&(struct shape){AF_INET6, 1, 0, 17, payload, 0, 0, 0});
		struct packet after = before;

		assert_int_equal(verdict(&after), go_on);
		assert_int_equal(bits_between(&before, &after, before.ip + 40 + 8 + 12), 1);
	}
	unload();
}

static unsigned int checksum(const unsigned char *b)
{
	unsigned int sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (unsigned int)b[i] << 8 | b[i + 1];
	return (sum & 0xffff) + (sum >> 16);
}

static void congestion_is_marked_and_the_checksum_right(void **unused)
{
	struct packet_rule r = rule();
	struct packet p;

	(void)unused;
	r.action = ACTION_MARK;
	r.roce = true;
	REQUIRE(&r);
	p = make(&(struct shape){AF_INET, 1, 0, 17, 64, 0, 0, 0});
	put16(p.bytes + p.ip + 10, ~checksum(p.bytes + p.ip));
	assert_int_equal(checksum(p.bytes + p.ip), 0xffff);
	assert_int_equal(verdict(&p), go_on);
	assert_int_equal(p.bytes[p.ip + 1], 3);
	assert_int_equal(checksum(p.bytes + p.ip), 0xffff);
	p = make(&(struct shape){AF_INET6, 0, 0, 17, 64, 0, 0, 0});
	assert_int_equal(verdict(&p), go_on);
	assert_int_equal(p.bytes[p.ip], 0x60);
	assert_int_equal(p.bytes[p.ip + 1], 0x30);
	unload();
}

static void a_flow_gets_its_class(void **unused)
{
	struct packet p = make(&(struct shape){AF_INET, 0, SEND_ONLY, 17, 64, 0, 0, 0});
	struct packet_rule r = rule();

	(void)unused;
	r.action = ACTION_CLASSIFY;
	r.roce = true;
	r.qpn = 17;
	REQUIRE(&r);
	assert_int_equal(verdict(&p), (uint32_t)-1);
	p = make(&(struct shape){AF_INET, 0, SEND_ONLY, 18, 64, 0, 0, 0});
	assert_int_equal(verdict(&p), 0);
	unload();
}

static void a_short_packet_does_not_match(void **unused)
{
	struct packet_rule r = rule();
	struct packet p = make(&(struct shape){AF_INET, 0, ACK, 17, 8, 0, 0, 0});

	(void)unused;
	r.roce = true;
	REQUIRE(&r);
	p.size = p.ip + 20 + 8 + 11;
	assert_int_equal(verdict(&p), go_on);
	unload();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_is_dropped),
		cmocka_unit_test(on_the_way_out_a_drop_is_no_error),
		cmocka_unit_test(answers_are_told_from_the_rest),
		cmocka_unit_test(a_later_fragment_is_no_roce),
		cmocka_unit_test(one_qp_only),
		cmocka_unit_test(one_peer_only),
		cmocka_unit_test(size_is_that_of_the_ip_packet),
		cmocka_unit_test(a_rate_is_kept),
		cmocka_unit_test(bursts_have_the_rate_and_the_length),
		cmocka_unit_test(one_bit_behind_the_bth_is_wrong),
		cmocka_unit_test(congestion_is_marked_and_the_checksum_right),
		cmocka_unit_test(a_flow_gets_its_class),
		cmocka_unit_test(a_short_packet_does_not_match),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
