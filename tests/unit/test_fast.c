// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Sends that are logged in runs, and the same sends one by one, leave the same log. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/core/conn_int.h"
#include "lib/core/fast.h"

#define CAP    32
#define INLINE 64

static struct shift_conn *plain, *fast;
static uint32_t slots; /* that the logs begin with */
static struct shift_run run;
static uint64_t in_runs;
static uint8_t payload[2 * INLINE]; /* no two bytes alike */

static struct shift_conn *new_conn(uint32_t mtu, bool sig_all)
{
	struct shift_conn_cfg cfg = {
		.nonce = 1,
		.mtu = {mtu, mtu},
		.sq_cap = CAP,
		.sq_slots = slots,
		.rq_cap = CAP,
		.rq_sge_max = 1,
		.sq_sge_max = 3,
		.inline_max = INLINE,
		.rails = 2,
		.sq_sig_all = sig_all,
	};
	size_t size = shift_conn_size(&cfg);
	void *memory = aligned_alloc(64, size);

	assert_non_null(memory);
	memset(memory, 0, size); /* unwritten bytes are compared too */
	return shift_conn_init(memory, size, &cfg, 0);
}

static void start(uint32_t mtu, bool sig_all)
{
	free(plain);
	free(fast);
	plain = new_conn(mtu, sig_all);
	fast = new_conn(mtu, sig_all);
	memset(&run, 0, sizeof(run));
	in_runs = 0;
}

static void to_log(struct shift_wr *to, const struct shift_raw_wr *from)
{
	memset(to, 0, sizeof(*to));
	to->wr_id = from->wr_id;
	to->sge = from->sge;
	to->num_sge = from->num_sge;
	to->opcode = (uint8_t)from->opcode;
	to->flags = (uint8_t)from->flags;
	to->imm = from->imm;
	to->remote_addr = from->remote_addr;
	to->rkey = from->rkey;
	if (shift_wr_atomic(to->opcode)) {
		to->compare_add = from->atomic.compare_add;
		to->swap = from->atomic.swap;
		to->rkey = from->atomic.rkey;
	}
}

static int post_long(const struct shift_raw_wr *raw)
{
	struct shift_wr wr;
	bool due;
	int rail, err;

	shift_fast_fold(fast, &run);
	to_log(&wr, raw);
	due = shift_conn_secret_due(fast, &wr);
	err = shift_conn_post_send(fast, &wr, &rail);
	assert_true(due || err != 1); /* never without having asked */
	return err;
}

/* Posts as the data path does. Returns the same as shift_conn_post_send. */
static int post_fast(const struct shift_raw_wr *raw)
{
	if (!shift_fast_post(&run, raw) && !shift_fast_post_other(fast, &run, raw))
		return post_long(raw);
	in_runs++;
	return 0;
}

static int post_plain(const struct shift_raw_wr *raw)
{
	struct shift_wr wr;
	int rail;

	to_log(&wr, raw);
	return shift_conn_post_send(plain, &wr, &rail);
}

/* What is over, and is not shown any more, may have been left without its number. */
static void number_what_is_over(void)
{
	uint64_t ring = (uint64_t)fast->sq.mask + 1;
	uint64_t low = fast->sq.head > ring ? fast->sq.head - ring : 0;

	for (uint64_t i = low; i < fast->sq.kept; i++)
		shift_sendlog_at(&fast->sq, i)->cum = shift_sendlog_at(&plain->sq, i)->cum;
}

/* Compares all that a switch reads of both; the ring byte by byte. */
static void compare(void)
{
	struct shift_sendlog a, b;

	shift_fast_fold(fast, &run);
	shift_fast_fold(fast, &run); /* again: nothing */
	number_what_is_over();
	assert_memory_equal(plain->sq.ring, fast->sq.ring,
			    ((size_t)plain->sq.mask + 1) * sizeof(plain->sq.ring[0]));
	assert_memory_equal(plain->sq.side, fast->sq.side,
			    ((size_t)plain->sq.mask + 1) * plain->sq.side_stride);
	a = plain->sq;
	b = fast->sq;
	a.ring = b.ring = NULL;
	a.side = b.side = NULL;
	b.turns = 0;
	assert_int_equal(*a.sig_done, *b.sig_done);
	a.sig_done = b.sig_done = NULL;
	assert_memory_equal(&a, &b, sizeof(a));
	assert_memory_equal(&plain->stats, &fast->stats, sizeof(plain->stats));
	assert_int_equal(plain->atomic, fast->atomic);
}

/* All but so many of those that are signaled. */
static void complete_but(uint64_t n)
{
	uint64_t posted = plain->sq.sig_posted;

	if (posted - *plain->sq.sig_done > n)
		*plain->sq.sig_done = *fast->sq.sig_done = posted - n;
}

static struct shift_raw_wr some_wr(const struct shift_sge *sge, unsigned int kind)
{
	struct shift_raw_wr wr = {
		.wr_id = (uint64_t)rand(),
		.sge = sge,
		.num_sge = 1,
		.opcode = SHIFT_OP_WRITE,
		.flags = SHIFT_F_SIGNALED,
		.remote_addr = (uint64_t)rand(),
		.rkey = (uint32_t)rand(),
	};

	switch (kind) {
	case 0: break;
	case 1: wr.flags = 0; break;
	case 2: wr.opcode = SHIFT_OP_SEND; break;
	case 3: wr.opcode = SHIFT_OP_READ; break;
	case 4:
		wr.opcode = SHIFT_OP_WRITE_IMM;
		wr.imm = 77;
		break;
	case 5:
		wr.opcode = SHIFT_OP_SEND_IMM;
		wr.imm = (uint32_t)rand();
		break;
	case 6: wr.flags |= SHIFT_F_INLINE; break;
	case 7: wr.num_sge = 3; break;
	case 8: wr.num_sge = 0; break;
	case 9:
		wr.opcode = rand() % 2 ? SHIFT_OP_FETCH_ADD : SHIFT_OP_CMP_SWAP;
		wr.atomic.compare_add = (uint64_t)rand() << 40 | (uint64_t)rand();
		wr.atomic.swap = (uint64_t)rand();
		wr.atomic.rkey = (uint32_t)rand();
		break;
	case 10: wr.opcode = SHIFT_OP_LOCAL_INV; break;
	case 11:
		wr.opcode = SHIFT_OP_SEND;
		wr.flags = SHIFT_F_FENCE | SHIFT_F_SOLICITED;
		break;
	}
	return wr;
}

enum { LIST = 8 };

/* As post_fast() of each. */
static void post_list(const struct shift_raw_wr *wr, const int *expected)
{
	while (wr) {
		uint32_t n = 1 + (uint32_t)rand() % LIST;
		const struct shift_raw_wr *rest = shift_fast_post_list(fast, &run, wr, n);

		for (; wr != rest; wr = wr->next, n--, in_runs++) {
			assert_int_not_equal(n, 0); /* not more than it may */
			assert_int_equal(*expected++, 0);
		}
		if (!wr || !n)
			continue;
		assert_int_equal(*expected++, post_long(wr));
		wr = wr->next;
	}
}

static void post_in_list(struct shift_raw_wr *wr, uint32_t n)
{
	int expected[LIST];

	for (uint32_t i = 0; i < n; i++) {
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		expected[i] = post_plain(&wr[i]);
	}
	post_list(wr, expected);
}

static uint32_t some_bytes(unsigned int kind, unsigned int length)
{
	static const uint32_t lengths[] = {0, 8, 1024, 1025, 70000};

	if (kind == 6) /* inline */
		return (uint32_t)rand() % (INLINE + 1);
	if (kind == 9)
		return 8;
	return rand() % 20 == 0 ? (uint32_t)rand() % (5u << 20) : lengths[length];
}

/* Stretches of one kind, with exceptions, of all lengths, one by one and in lists. */
static void post_some(uint32_t n)
{
	unsigned int kind = (unsigned int)rand() % 12, length = (unsigned int)rand() % 5;
	struct shift_raw_wr wr[LIST];
	struct shift_sge sge[LIST][3];
	bool alone = rand() % 2;
	uint32_t at = 0;

	while (n--) {
		unsigned int k = rand() % 10 ? kind : (unsigned int)rand() % 12;
		uint32_t bytes = some_bytes(k, length);

		wr[at] = some_wr(sge[at], k);
		for (unsigned int i = 0; i < 3; i++)
			sge[at][i] = (struct shift_sge){.addr = (uintptr_t)payload +
								(uint32_t)rand() % INLINE,
							.length = bytes,
							.lkey = (uint32_t)rand()};
		if (alone) {
			assert_int_equal(post_plain(&wr[at]), post_fast(&wr[at]));
		} else if (++at == LIST || !n || rand() % 4 == 0) {
			post_in_list(wr, at);
			at = 0;
		}
	}
}

static void same_log(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)i;
	for (unsigned int seed = 1; seed <= 300; seed++) {
		srand(seed);
		slots = seed % 3 ? 0 : 2u << seed % 5;
		start(1024, seed & 1);
		for (int i = 0; i < 30; i++) {
			post_some((uint32_t)rand() % (4 * CAP));
			compare();
			complete_but((uint64_t)rand() % (2 * CAP));
		}
		assert_true(in_runs > 50);
	}
	slots = 0;
}

/* A run of unsignaled WRs is signaled in secret at the same WR. */
static void same_secret(void **state)
{
	static const uint32_t lengths[] = {256, 1 << 20, 3 << 20, 0x7fffff00};

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		struct shift_sge sge = {.length = lengths[i]};
		struct shift_raw_wr wr = {.sge = &sge, .num_sge = 1};
		uint64_t n = 0;
		int err = 0;

		start(256, false);
		while (!err) {
			wr.wr_id = n++;
			err = post_plain(&wr);
			assert_int_equal(post_fast(&wr), err);
		}
		assert_int_equal(err, 1);
		compare();
		assert_true(plain->sq.tracked && n == SHIFT_SECRET_MAX / (lengths[i] / 256) + 1);
	}
}

/* The provider refuses WRs of a run. */
static void same_after_unpost(void **state)
{
	struct shift_sge sge = {.length = 3000};
	struct shift_raw_wr wr = {
		.sge = &sge, .num_sge = 1, .opcode = SHIFT_OP_SEND, .flags = SHIFT_F_SIGNALED};

	(void)state;
	start(1024, false);
	for (int i = 0; i < 500; i++) {
		wr.wr_id = (uint64_t)i;
		post_plain(&wr);
		post_fast(&wr);
		if (i % 7)
			continue;
		shift_conn_unpost_send(plain, 1);
		shift_fast_fold(fast, &run);
		shift_conn_unpost_send(fast, 1);
		assert_true(plain->sq.head == fast->sq.head && plain->sq.cum == fast->sq.cum);
	}
	compare();
}

/* ... of runs of all kinds, in their middle; some completions were seen meanwhile. */
static void same_after_unposts_among_kinds(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed <= 200; seed++) {
		srand(seed);
		slots = seed % 3 ? 0 : 2u << seed % 5;
		start(1024, seed & 1);
		for (int i = 0; i < 60 && !plain->sq.tracked; i++) {
			uint32_t n = (uint32_t)rand() % 5;

			post_some(1 + (uint32_t)rand() % CAP);
			shift_fast_fold(fast, &run);
			*plain->sq.sig_done += (plain->sq.sig_posted - *plain->sq.sig_done) / 2;
			*fast->sq.sig_done = *plain->sq.sig_done;
			shift_conn_unpost_send(plain, n);
			shift_conn_unpost_send(fast, n);
			compare();
		}
	}
	slots = 0;
}

/* As in a new life of the QP, or after a switch back. */
static void each_run_counts_at_the_mtu_of_its_time(void **state)
{
	static const uint32_t mtus[] = {1024, 4096, 256, 2048, 512};

	(void)state;
	start(1024, false);
	for (unsigned int i = 0; i < 50; i++) {
		plain->sq.mtu = fast->sq.mtu = mtus[i % 5];
		post_some(CAP);
		compare();
	}
}

/* A run takes nothing before it has begun, nor behind its end. */
static void not_in_a_run(void **state)
{
	struct shift_sge sge = {.length = 8};
	struct shift_raw_wr wr = {.sge = &sge, .num_sge = 1}, other = wr;

	(void)state;
	start(1024, false);
	assert_false(shift_fast_post(&run, &wr));
	assert_true(shift_fast_post_other(fast, &run, &wr));
	other.num_sge = 2;
	assert_false(shift_fast_post(&run, &other));
	other = wr;
	other.flags = SHIFT_F_INLINE;
	assert_false(shift_fast_post(&run, &other));
	other.flags = SHIFT_F_SOLICITED << 2;
	assert_false(shift_fast_post(&run, &other));
	other.flags = 0;
	other.opcode = SHIFT_OP_READ + 1;
	assert_false(shift_fast_post(&run, &other));
	sge.length = SHIFT_FAST_BYTES_MAX + 1;
	assert_false(shift_fast_post(&run, &wr));
	sge.length--;
	assert_true(shift_fast_post(&run, &wr));
	shift_fast_fold(fast, &run);
	assert_false(shift_fast_post(&run, &wr));
	assert_int_equal(shift_conn_head(fast), 2);
}

/* Before its first WR with one SGE, too, a run takes nothing but such. */
static void a_run_begins_with_a_real_kind(void **state)
{
	struct shift_sge sge[2] = {{.length = 8}, {.length = 8}};
	struct shift_raw_wr several = {.sge = sge, .num_sge = 2}, none = {.sge = NULL};
	struct shift_raw_wr absurd = {.num_sge = UINT32_MAX, .opcode = UINT32_MAX};

	(void)state;
	start(1024, false);
	assert_int_equal(post_plain(&several), post_fast(&several));
	assert_false(shift_fast_post(&run, &none));
	assert_false(shift_fast_post(&run, &absurd));
	assert_int_equal(post_plain(&none), post_fast(&none));
	compare();
}

/* A connection that was idle is not any more with the first send, though the log does not count it
 * yet: after a fold, too. */
static void the_first_send_is_activity(void **state)
{
	struct shift_sge sge = {.length = 8};
	struct shift_raw_wr wr = {.sge = &sge, .num_sge = 1};

	(void)state;
	start(1024, false);
	for (int i = 0; i < 3; i++) {
		uint64_t before = shift_conn_activity(fast);

		assert_int_equal(post_fast(&wr), 0);
		assert_true(shift_conn_activity(fast) != before);
		shift_fast_fold(fast, &run);
	}
}

static bool is_for_runs(const struct shift_raw_wr *wr)
{
	bool room = wr->num_sge <= 3 || wr->flags & SHIFT_F_INLINE;

	return wr->opcode <= SHIFT_OP_READ && wr->flags < 16 && room;
}

/* In a list atomics may come, too, once one was posted. */
static bool is_for_lists(const struct shift_raw_wr *wr)
{
	bool atomic = wr->opcode == SHIFT_OP_CMP_SWAP || wr->opcode == SHIFT_OP_FETCH_ADD;

	return is_for_runs(wr) ||
	       (atomic && fast->atomic && wr->flags < SHIFT_F_INLINE && wr->num_sge == 1);
}

/* Behind one that can be in any list. */
static void it_is_taken_from_a_list(struct shift_raw_wr *wr)
{
	struct shift_sge sge = {.length = 8};
	struct shift_raw_wr first = {.next = wr, .sge = &sge, .num_sge = 1};

	assert_ptr_equal(shift_fast_post_list(fast, &run, &first, 2), is_for_lists(wr) ? NULL : wr);
}

/* Each kind of WR, and other flags. */
static void what_can_be_in_a_run(void **state)
{
	struct shift_sge sge[4] = {{.length = 8}, {.length = 9}, {0}, {.length = 1}};

	(void)state;
	for (unsigned int i = 0; i < 4; i++)
		sge[i].addr = (uintptr_t)payload;
	for (uint32_t opcode = 0; opcode < 12; opcode++)
		for (uint32_t flags = 0; flags < 64; flags++)
			for (uint32_t sges = 0; sges < 5; sges++) {
				struct shift_raw_wr wr = {.sge = sge,
							  .num_sge = sges,
							  .opcode = opcode,
							  .flags = flags};

				start(1024, false);
				assert_int_equal(shift_fast_post_other(fast, &run, &wr),
						 is_for_runs(&wr));
				it_is_taken_from_a_list(&wr);
				fast->atomic = true;
				it_is_taken_from_a_list(&wr);
			}
}

/* Asked again, too. */
static void no_run_at_an_mtu_that_no_nic_has(void **state)
{
	struct shift_sge sge = {.length = 8};
	struct shift_raw_wr wr = {.sge = &sge, .num_sge = 1};

	(void)state;
	start(1000, false);
	for (int i = 0; i < 2; i++) {
		assert_false(shift_fast_post_other(fast, &run, &wr));
		assert_ptr_equal(shift_fast_post_list(fast, &run, &wr, 1), &wr);
	}
}

/* Nobody posts such; the log refuses some of them. */
static void an_atomic_that_is_too_long(void **state)
{
	static const uint32_t lengths[] = {8, SHIFT_FAST_BYTES_MAX, SHIFT_FAST_BYTES_MAX + 1,
					   UINT32_MAX};
	struct shift_sge sge = {0};
	struct shift_raw_wr wr = {.sge = &sge, .num_sge = 1, .opcode = SHIFT_OP_CMP_SWAP};

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		sge.length = lengths[i];
		start(1024, false);
		fast->atomic = plain->atomic = true;
		post_in_list(&wr, 1);
		assert_int_equal(in_runs, i < 2);
		compare();
	}
}

/* From the last entries of the ring to its first ones, and no further than it may. */
static void a_list_goes_on_behind_the_rings_end(void **state)
{
	struct shift_sge sge = {.length = 8};

	(void)state;
	for (uint32_t before = 0; before < 4; before++)
		for (uint32_t n = 0; n <= 5; n++) {
			struct shift_raw_wr wr[5];
			struct shift_raw_wr one = {
				.sge = &sge, .num_sge = 1, .flags = SHIFT_F_SIGNALED};

			start(1024, false);
			for (uint32_t i = before; i <= fast->sq.mask; i++) {
				post_plain(&one);
				post_fast(&one);
			}
			complete_but(0);
			for (uint32_t i = 0; i < 5; i++) {
				wr[i] = one;
				wr[i].wr_id = i;
				wr[i].next = i < 4 ? &wr[i + 1] : NULL;
				if (i < n)
					post_plain(&wr[i]);
			}
			assert_ptr_equal(shift_fast_post_list(fast, &run, wr, n),
					 n < 5 ? &wr[n] : NULL);
			compare();
		}
}

/* As a program passes them that has not set all of its WR: refused, and not looked at. */
static void an_absurd_number_of_sges(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct shift_raw_wr wr = {.sge = NULL,
					  .num_sge = UINT32_MAX,
					  .opcode = SHIFT_OP_SEND,
					  .flags = i ? SHIFT_F_INLINE : 0};

		start(1024, false);
		assert_int_equal(post_fast(&wr), -EINVAL);
	}
}

/* Alone and behind another one in a list. */
static void more_inline_payload_than_the_log_has_room_for(void **state)
{
	(void)state;
	for (uint32_t length = INLINE - 1; length <= INLINE + 1; length++) {
		struct shift_sge sge = {.addr = (uintptr_t)payload, .length = length};
		struct shift_raw_wr wr = {.sge = &sge, .num_sge = 1, .flags = SHIFT_F_INLINE};
		struct shift_raw_wr first = {.next = &wr, .sge = &sge};

		start(1024, false);
		assert_int_equal(post_fast(&wr), length > INLINE ? -EINVAL : 0);
		assert_ptr_equal(shift_fast_post_list(fast, &run, &first, 2),
				 length > INLINE ? &wr : NULL);
	}
}

/* Of all SGEs together: as of one. */
static void several_sges_are_not_longer_than_one(void **state)
{
	static const struct {
		uint32_t length[3];
		bool in_run;
	} cases[] = {
		{{SHIFT_FAST_BYTES_MAX - 3, 1, 2}, true},
		{{SHIFT_FAST_BYTES_MAX - 3, 1, 3}, false},
		{{1u << 30, 1u << 30, 0}, false},
		{{1u << 31, 1u << 31, 8}, false}, /* 8 in 32 bits */
	};

	(void)state;
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
		struct shift_sge sge[3] = {{0}};
		struct shift_raw_wr wr = {.sge = sge, .num_sge = 3};

		for (unsigned int k = 0; k < 3; k++)
			sge[k].length = cases[i / 2].length[k];
		start(256, false);
		if (i % 2)
			post_in_list(&wr, 1);
		else
			assert_int_equal(post_plain(&wr), post_fast(&wr));
		assert_int_equal(in_runs, cases[i / 2].in_run);
		if (plain->sq.head) /* else the entry is any other's */
			compare();
	}
}

static int post_recv_plain(const struct shift_recv_wr *wr)
{
	int rail;

	return shift_conn_post_recv(plain, wr, &rail);
}

/* Receives that are logged and completed on the fast way leave the same log. */
static void same_receives(void **state)
{
	struct shift_sge sge[3] = {{.addr = 1, .length = 2, .lkey = 3}};
	uint64_t wr_id, posted = 0;

	(void)state;
	srand(1);
	start(1024, false);
	for (int i = 0; i < 5000; i++) {
		struct shift_recv_wr wr = {
			.wr_id = (uint64_t)rand(), .sge = sge, .num_sge = (uint32_t)rand() % 2};
		struct shift_recvlog *l = fast->rq;

		if (rand() % 8 == 0) { /* the NIC has refused some */
			uint32_t refused = (uint32_t)rand() % 3;

			shift_conn_unpost_recv(fast, refused);
			shift_conn_unpost_recv(plain, refused);
		} else if (rand() % 2) {
			int rail, err = 0;

			if (!shift_fast_post_recv(l, wr.wr_id, wr.sge, wr.num_sge))
				err = shift_conn_post_recv(fast, &wr, &rail);
			else
				posted++;
			assert_int_equal(post_recv_plain(&wr), err);
		} else if (fast->rq->done < fast->rq->posted) {
			struct shift_cqe cqe = {.wr_id = 7, .is_recv = true};
			struct shift_wc wc = {.wr_id = 7};

			wr_id = 7;
			shift_conn_cqe(plain, &cqe, &wc, 0);
			shift_fast_recv_done(l, &wr_id);
			assert_int_equal(wr_id, wc.wr_id);
		}
		assert_int_equal(plain->rq->posted, fast->rq->posted);
		assert_int_equal(plain->rq->done, fast->rq->done);
		assert_memory_equal(plain->rq->ring, fast->rq->ring,
				    ((size_t)plain->rq->mask + 1) * sizeof(plain->rq->ring[0]));
	}
	assert_true(posted > 1000 && posted < 2500);
	assert_false(shift_fast_post_recv(fast->rq, 1, sge, 2));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_log),
		cmocka_unit_test(same_secret),
		cmocka_unit_test(same_after_unpost),
		cmocka_unit_test(same_after_unposts_among_kinds),
		cmocka_unit_test(each_run_counts_at_the_mtu_of_its_time),
		cmocka_unit_test(not_in_a_run),
		cmocka_unit_test(a_run_begins_with_a_real_kind),
		cmocka_unit_test(the_first_send_is_activity),
		cmocka_unit_test(what_can_be_in_a_run),
		cmocka_unit_test(no_run_at_an_mtu_that_no_nic_has),
		cmocka_unit_test(an_atomic_that_is_too_long),
		cmocka_unit_test(a_list_goes_on_behind_the_rings_end),
		cmocka_unit_test(an_absurd_number_of_sges),
		cmocka_unit_test(more_inline_payload_than_the_log_has_room_for),
		cmocka_unit_test(several_sges_are_not_longer_than_one),
		cmocka_unit_test(same_receives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
