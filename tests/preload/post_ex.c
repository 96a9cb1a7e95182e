// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Posts by ibv_wr_* in every way in which a thread does: operations, batches, data, errors,
 * aborted, full, refused, nested, forsaken, handed, lives, states, child. Each must work as it does
 * without shift.
 * The program does not know of shift.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/nullverbs/nullverbs.h"
#include "tests/preload/ex.h"

/* One of all kinds. */
static void build_any(struct ibv_qp_ex *ex, uint64_t id, unsigned int kind)
{
	static const struct ibv_data_buf bufs[2] = {{buffer, 3}, {buffer + 8, 5}};
	struct ibv_sge sges[SGES] = {{(uintptr_t)buffer, 1, mr->lkey},
				     {(uintptr_t)buffer + 4, 2, mr->lkey}};

	begin_wr(ex, id, IBV_SEND_SIGNALED);
	switch (kind % 8) {
	case 0: ibv_wr_rdma_write(ex, remote_key, (uintptr_t)remote); break;
	case 1: ibv_wr_rdma_write_imm(ex, remote_key, (uintptr_t)remote, 7); break;
	case 2: ibv_wr_send(ex); break;
	case 3: ibv_wr_send_imm(ex, 9); break;
	case 4: ibv_wr_rdma_read(ex, remote_key, (uintptr_t)remote); break;
	case 5: ibv_wr_atomic_cmp_swp(ex, remote_key, (uintptr_t)remote, 1, 2); break;
	case 6: ibv_wr_atomic_fetch_add(ex, remote_key, (uintptr_t)remote, 3); break;
	default: ibv_wr_send_inv(ex, remote_key); break;
	}
	spoil(ex);
	if (kind % 8 == 4 || kind % 8 == 5 || kind % 8 == 6)
		ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)buffer, 8);
	else if (kind / 8 % 4 == 1)
		ibv_wr_set_sge_list(ex, 2, sges);
	else if (kind / 8 % 4 == 2)
		ibv_wr_set_inline_data(ex, buffer, 8);
	else if (kind / 8 % 4 == 3)
		ibv_wr_set_inline_data_list(ex, 2, bufs);
	/* else none */
}

static const enum ibv_wc_opcode completed_as[8] = {
	IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND,	IBV_WC_SEND,
	IBV_WC_RDMA_READ,  IBV_WC_COMP_SWAP,  IBV_WC_FETCH_ADD, IBV_WC_SEND};

/* --- operations: what the NIC gets ------------------------------------------------------------ */

static struct null_sent newest(struct ibv_qp_ex *ex)
{
	static void (*null_newest_send_)(const struct ibv_qp *, struct null_sent *);
	struct null_sent sent;

	if (!null_newest_send_)
		*(void **)&null_newest_send_ = dlsym(RTLD_DEFAULT, "null_newest_send");
	expect(null_newest_send_ != NULL, "null_newest_send");
	null_newest_send_(base(ex), &sent);
	return sent;
}

enum { FLAGS = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_FENCE };

static struct null_sent posted(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode,
			       enum ibv_wc_opcode completed)
{
	struct null_sent sent;

	spoil(ex);
	if (opcode != IBV_WR_LOCAL_INV)
		ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)buffer + 3, 8);
	expect(!ibv_wr_complete(ex), "wr_complete");
	sent = newest(ex);
	expect(sent.opcode == opcode && sent.flags == FLAGS, "opcode and flags");
	expect(opcode == IBV_WR_LOCAL_INV || (sent.last.addr == (uintptr_t)buffer + 3 &&
					      sent.last.length == 8 && sent.last.lkey == mr->lkey),
	       "its SGE");
	completes(5, completed);
	return sent;
}

static void begin_one(struct ibv_qp_ex *ex)
{
	ibv_wr_start(ex);
	begin_wr(ex, 5, FLAGS);
}

static void expect_remote(const struct null_sent *sent)
{
	expect(sent->remote_addr == 0x123456789abull && sent->rkey == 0x4567, "where to");
}

static void rdma(struct ibv_qp_ex *ex)
{
	struct null_sent sent;

	begin_one(ex);
	ibv_wr_rdma_write(ex, 0x4567, 0x123456789abull);
	sent = posted(ex, IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE);
	expect_remote(&sent);
	begin_one(ex);
	ibv_wr_rdma_write_imm(ex, 0x4567, 0x123456789abull, 0xabcd);
	sent = posted(ex, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE);
	expect_remote(&sent);
	expect(sent.imm == 0xabcd, "the immediate");
	begin_one(ex);
	ibv_wr_rdma_read(ex, 0x4567, 0x123456789abull);
	sent = posted(ex, IBV_WR_RDMA_READ, IBV_WC_RDMA_READ);
	expect_remote(&sent);
}

static void atomics(struct ibv_qp_ex *ex)
{
	struct null_sent sent;

	begin_one(ex);
	ibv_wr_atomic_cmp_swp(ex, 0x4567, 0x123456789abull, 0x1111111122ull, 0x3333333344ull);
	sent = posted(ex, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP);
	expect_remote(&sent);
	expect(sent.compare_add == 0x1111111122ull && sent.swap == 0x3333333344ull, "CMP_SWP");
	begin_one(ex);
	ibv_wr_atomic_fetch_add(ex, 0x4567, 0x123456789abull, 0x5555555566ull);
	sent = posted(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD);
	expect_remote(&sent);
	expect(sent.compare_add == 0x5555555566ull, "FETCH_ADD");
}

static void sends(struct ibv_qp_ex *ex)
{
	struct null_sent sent;

	begin_one(ex);
	ibv_wr_send(ex);
	posted(ex, IBV_WR_SEND, IBV_WC_SEND);
	begin_one(ex);
	ibv_wr_send_imm(ex, 0xabcd);
	sent = posted(ex, IBV_WR_SEND_WITH_IMM, IBV_WC_SEND);
	expect(sent.imm == 0xabcd, "the immediate");
	begin_one(ex);
	ibv_wr_send_inv(ex, 0x4567);
	sent = posted(ex, IBV_WR_SEND_WITH_INV, IBV_WC_SEND);
	expect(sent.imm == 0x4567, "the key");
	begin_one(ex);
	ibv_wr_local_inv(ex, 0x4567);
	sent = posted(ex, IBV_WR_LOCAL_INV, IBV_WC_LOCAL_INV);
	expect(sent.imm == 0x4567, "the key");
}

/* The NIC is told that it is inline. */
static void inline_flag(struct ibv_qp_ex *ex)
{
	begin_one(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, buffer, 8);
	expect(!ibv_wr_complete(ex), "wr_complete");
	expect(newest(ex).flags == (FLAGS | IBV_SEND_INLINE), "flags of inline data");
	completes(5, IBV_WC_SEND);
}

/* Each twice, as the first atomic of a connection takes a longer way. */
static void operations(void)
{
	struct ibv_qp_ex *ex = connected();

	for (int i = 0; i < 2000; i++) {
		rdma(ex);
		atomics(ex);
		sends(ex);
		inline_flag(ex);
	}
	still_works(ex);
	end(ex);
}

/* --- batches: of all lengths ------------------------------------------------------------------ */

static void batch(struct ibv_qp_ex *ex, uint64_t first, unsigned int n, unsigned int kind)
{
	ibv_wr_start(ex);
	for (unsigned int i = 0; i < n; i++)
		build_any(ex, first + i, kind + i);
	expect(!ibv_wr_complete(ex), "wr_complete");
}

static void batch_completes(uint64_t first, unsigned int n, unsigned int kind)
{
	for (unsigned int i = 0; i < n; i++)
		completes(first + i, completed_as[(kind + i) % 8]);
}

/* Only the last WR tells. */
static void unsignaled(struct ibv_qp_ex *ex, unsigned int n)
{
	ibv_wr_start(ex);
	for (unsigned int i = 1; i < n; i++)
		build_write(ex, i, 0);
	build_write(ex, n, IBV_SEND_SIGNALED);
	expect(!ibv_wr_complete(ex), "wr_complete");
	completes(n, IBV_WC_RDMA_WRITE);
	nothing_more();
}

/* Messages of 2^21 packets, without a signal: the log must ask for one, in the middle of a batch.
 * Their bytes are not read here. */
static void long_batch(struct ibv_qp_ex *ex, unsigned int before, unsigned int n)
{
	ibv_wr_start(ex);
	for (unsigned int i = 0; i < before; i++)
		build_any(ex, i, 0);
	for (unsigned int i = 0; i < n; i++) {
		begin_wr(ex, 100 + i, 0);
		ibv_wr_rdma_write(ex, remote_key, (uintptr_t)remote);
		ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)buffer, 0x80000000);
	}
	build_any(ex, 200, 0);
	build_any(ex, 201, 4);
	expect(!ibv_wr_complete(ex), "wr_complete");
	for (unsigned int i = 0; i < before; i++)
		completes(i, IBV_WC_RDMA_WRITE);
	completes(200, IBV_WC_RDMA_WRITE);
	completes(201, IBV_WC_RDMA_READ);
	nothing_more();
}

/* Of a QP that was not slow before. */
static void long_batches(void)
{
	for (unsigned int before = 0; before < 6; before++)
		for (unsigned int n = 1; n < 12; n++) {
			struct ibv_qp_ex *ex = connected();

			long_batch(ex, before, n);
			batch(ex, 300, n, before);
			batch_completes(300, n, before);
			long_batch(ex, before, n);
			unsignaled(ex, n);
			end(ex);
		}
}

static void batches(void)
{
	struct ibv_qp_ex *ex = connected();

	for (unsigned int round = 0; round < 200; round++)
		for (unsigned int n = 0; n <= DEPTH; n++) {
			batch(ex, round * 100, n, round + n);
			batch_completes(round * 100, n, round + n);
			unsignaled(ex, n ? n : 1);
		}
	end(ex);
	long_batches();
}

/* --- data: between two QPs, with NULLVERBS_PSN=live ------------------------------------------- */

static void arrived(struct ibv_qp_ex *ex, const char *what, size_t n)
{
	expect(!ibv_wr_complete(ex), "wr_complete");
	completes(1, IBV_WC_RDMA_WRITE);
	expect(!memcmp(remote, what, n) && !remote[n], "what was written");
	memset(remote, 0, sizeof(remote));
}

static void begin_write(struct ibv_qp_ex *ex)
{
	ibv_wr_start(ex);
	begin_wr(ex, 1, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(ex, remote_key, (uintptr_t)remote);
}

/* The program's buffer is its own again after the call. */
static void write_inline(struct ibv_qp_ex *ex)
{
	char text[INLINE] = "0123456789abcdef";
	struct ibv_data_buf bufs[] = {{text + 10, 6}, {text, 0}, {text, 3}, {text + 9, 1}};

	begin_write(ex);
	ibv_wr_set_inline_data(ex, text, 10);
	memset(text, 'x', 10);
	arrived(ex, "0123456789", 10);
	memcpy(text, "0123456789", 10);
	begin_write(ex);
	ibv_wr_set_inline_data_list(ex, 4, bufs);
	memset(text, 'x', sizeof(text));
	memset(bufs, 0, sizeof(bufs));
	arrived(ex, "abcdef0129", 10);
	begin_write(ex);
	ibv_wr_set_inline_data(ex, text, INLINE);
	memset(text, 'y', sizeof(text));
	expect(!ibv_wr_complete(ex), "wr_complete");
	completes(1, IBV_WC_RDMA_WRITE);
	expect(remote[0] == 'x' && remote[INLINE - 1] == 'x' && !remote[INLINE], "all of it");
	memset(remote, 0, sizeof(remote));
}

static void write_sges(struct ibv_qp_ex *ex)
{
	struct ibv_sge sges[SGES];

	memcpy(buffer, "0123456789abcdef", 17);
	for (int i = 0; i < SGES; i++)
		sges[i] = (struct ibv_sge){(uintptr_t)buffer + 12 - 4 * (unsigned int)i, 2,
					   mr->lkey};
	for (unsigned int n = 0; n <= SGES; n++) {
		begin_write(ex);
		ibv_wr_set_sge_list(ex, n, sges);
		arrived(ex, "cd894501", 2 * (size_t)n);
	}
	begin_write(ex);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)buffer + 3, 5);
	arrived(ex, "34567", 5);
	begin_write(ex);
	arrived(ex, "", 0);
}

/* In the middle of a batch all have their own. */
static void write_many(struct ibv_qp_ex *ex)
{
	char text[4];

	ibv_wr_start(ex);
	for (unsigned int i = 0; i < DEPTH; i++) {
		snprintf(text, sizeof(text), "%03u", i);
		begin_wr(ex, i, IBV_SEND_SIGNALED);
		ibv_wr_rdma_write(ex, remote_key, (uintptr_t)remote + 3ul * i);
		ibv_wr_set_inline_data(ex, text, 3);
	}
	expect(!ibv_wr_complete(ex), "wr_complete");
	for (unsigned int i = 0; i < DEPTH; i++) {
		completes(i, IBV_WC_RDMA_WRITE);
		snprintf(text, sizeof(text), "%03u", i);
		expect(!memcmp(remote + 3ul * i, text, 3), "what was written");
	}
	memset(remote, 0, sizeof(remote));
}

static void receive(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 8, mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};

	expect(!ibv_post_recv(qp, &wr, &bad), "post_recv");
}

/* Its completion and that of the receive, 50, in any order. */
static struct ibv_wc received(struct ibv_qp_ex *ex)
{
	struct ibv_wc wc[2];

	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)buffer, 5);
	expect(!ibv_wr_complete(ex), "wr_complete");
	wc[0] = completion();
	wc[1] = completion();
	if (wc[1].opcode & IBV_WC_RECV)
		wc[0] = wc[1];
	expect(wc[0].opcode & IBV_WC_RECV && wc[0].wr_id == 50 && wc[0].byte_len == 5, "a receive");
	return wc[0];
}

static void send_all(struct ibv_qp_ex *from, struct ibv_qp_ex *to)
{
	struct ibv_wc wc;

	receive(base(to), 50);
	begin_one(from);
	ibv_wr_send(from);
	wc = received(from);
	expect(wc.opcode == IBV_WC_RECV && !wc.wc_flags, "SEND");
	receive(base(to), 50);
	begin_one(from);
	ibv_wr_send_imm(from, 0xabcd);
	wc = received(from);
	expect(wc.opcode == IBV_WC_RECV && wc.wc_flags == IBV_WC_WITH_IMM && wc.imm_data == 0xabcd,
	       "SEND with immediate");
	receive(base(to), 50);
	begin_one(from);
	ibv_wr_rdma_write_imm(from, remote_key, (uintptr_t)remote, 0xabcd);
	wc = received(from);
	expect(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wc_flags == IBV_WC_WITH_IMM &&
		       wc.imm_data == 0xabcd,
	       "WRITE with immediate");
	receive(base(to), 50);
	begin_one(from);
	ibv_wr_send_inv(from, 0x4567);
	wc = received(from);
	expect(wc.opcode == IBV_WC_RECV && wc.wc_flags == IBV_WC_WITH_INV &&
		       wc.invalidated_rkey == 0x4567,
	       "SEND with invalidate");
}

static void data(void)
{
	struct ibv_qp_ex *a = create(), *b = create();

	connect_to(base(b), base(a)->qp_num);
	connect_to(base(a), base(b)->qp_num);
	for (int i = 0; i < 2000; i++) {
		write_inline(a);
		write_sges(a);
		write_many(a);
		send_all(a, b);
	}
	end(a);
	end(b);
}

/* --- errors, aborted: nothing of it is posted ------------------------------------------------- */

static void too_many_sges(struct ibv_qp_ex *ex)
{
	struct ibv_sge sges[SGES + 1];

	for (int i = 0; i <= SGES; i++)
		sges[i] = (struct ibv_sge){(uintptr_t)buffer, 1, mr->lkey};
	ibv_wr_start(ex);
	build_write(ex, 1, IBV_SEND_SIGNALED);
	begin_wr(ex, 2, IBV_SEND_SIGNALED);
	ibv_wr_send(ex);
	ibv_wr_set_sge_list(ex, SGES + 1, sges);
	build_write(ex, 3, IBV_SEND_SIGNALED); /* an error is not forgotten */
	expect(ibv_wr_complete(ex) != 0, "too many SGEs");
	still_works(ex);
}

static void too_long_inline(struct ibv_qp_ex *ex)
{
	char text[INLINE + 1] = "";
	struct ibv_data_buf bufs[] = {{text, INLINE}, {text, 1}};
	struct ibv_data_buf huge[] = {{text, 1}, {text, SIZE_MAX}, {text, 0x100000000}};

	for (int i = 0; i < 4; i++) {
		ibv_wr_start(ex);
		build_write(ex, 1, IBV_SEND_SIGNALED);
		begin_wr(ex, 2, IBV_SEND_SIGNALED);
		ibv_wr_send(ex);
		if (i == 0)
			ibv_wr_set_inline_data(ex, text, INLINE + 1);
		else if (i == 1)
			ibv_wr_set_inline_data_list(ex, 2, bufs);
		else
			ibv_wr_set_inline_data_list(ex, 2, i == 2 ? huge : huge + 1);
		expect(ibv_wr_complete(ex) == ENOMEM, "too long inline"); /* of mlx5 */
		still_works(ex);
	}
}

static void too_many_wrs(struct ibv_qp_ex *ex)
{
	for (unsigned int n = DEPTH + 1; n < 3 * DEPTH; n += 7) {
		ibv_wr_start(ex);
		for (unsigned int i = 0; i < n; i++)
			build_any(ex, i, i);
		expect(ibv_wr_complete(ex) == ENOMEM, "more than fits");
		still_works(ex);
	}
}

static void errors(void)
{
	struct ibv_qp_ex *ex = connected();

	for (int i = 0; i < 2000; i++) {
		too_many_sges(ex);
		too_long_inline(ex);
		too_many_wrs(ex);
	}
	end(ex);
}

static void aborted(void)
{
	struct ibv_qp_ex *ex = connected();

	for (unsigned int n = 0; n < 2 * DEPTH; n++) {
		ibv_wr_start(ex);
		for (unsigned int i = 0; i < n; i++)
			build_any(ex, i, i);
		ibv_wr_abort(ex);
		still_works(ex);
	}
	ibv_wr_start(ex);
	expect(!ibv_wr_complete(ex), "an empty batch");
	still_works(ex);
	end(ex);
}

/* --- full: some are outstanding ----------------------------------------------------------------
 */

/* n on top of `before`, of which `polled` are polled then. What does not fit is refused, or waits
 * for room, all of it. */
static void overfill(struct ibv_qp_ex *ex, unsigned int before, unsigned int n, unsigned int polled)
{
	int err;

	expect(!try_batch(ex, 1000, before), "what fits");
	err = try_batch(ex, 2000, n);
	expect(err == 0 || err == ENOMEM, "what does not fit");
	expect(err || before < DEPTH || !n || getenv("QUERIED"), "a full queue");
	expect(!err || before + n > DEPTH, "what fits is taken");
	writes_complete(1000, polled);
	if (!try_batch(ex, 3000, 1)) {
		writes_complete(1000 + polled, before - polled);
		writes_complete(2000, err ? 0 : n);
		writes_complete(3000, 1);
	} else {
		writes_complete(1000 + polled, before - polled);
		writes_complete(2000, err ? 0 : n);
	}
	still_works(ex);
}

static void full(void)
{
	struct ibv_qp_ex *ex = connected();

	for (unsigned int before = 0; before <= DEPTH; before += 4)
		for (unsigned int n = 0; n <= DEPTH; n++) {
			overfill(ex, before, n, 0);
			overfill(ex, before, n, before / 2);
			overfill(ex, before, n, before);
		}
	end(ex);
}

/* --- refused: by the NIC, and not for want of room -------------------------------------------- */

static void refused_at(struct ibv_qp_ex *ex, unsigned int at, unsigned int n)
{
	ibv_wr_start(ex);
	for (unsigned int i = 0; i < n; i++) {
		if (i != at) {
			build_write(ex, i, IBV_SEND_SIGNALED);
			continue;
		}
		begin_wr(ex, i, IBV_SEND_SIGNALED);
		ibv_wr_local_inv(ex, 0); /* there is no such key */
	}
	expect(ibv_wr_complete(ex) == EINVAL, "a WR that the NIC refuses");
	still_works(ex);
}

static void refused(void)
{
	struct ibv_qp_ex *ex = connected();

	for (int i = 0; i < 100; i++)
		for (unsigned int n = 1; n < 4; n++)
			for (unsigned int at = 0; at < n; at++)
				refused_at(ex, at, n);
	end(ex);
}

/* --- nested: one thread, many QPs at a time ----------------------------------------------------
 */

static void nested_round(struct ibv_qp_ex *const *ex, struct ibv_qp *plain, unsigned int order)
{
	static const unsigned int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
						  {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	for (unsigned int i = 0; i < 3; i++) {
		ibv_wr_start(ex[i]);
		build_write(ex[i], 10 * i, IBV_SEND_SIGNALED);
		post_plain(plain, 100 + i);
	}
	for (unsigned int i = 0; i < 3; i++)
		build_write(ex[i], 10 * i + 1, IBV_SEND_SIGNALED);
	query_all();
	nothing_more();
	for (unsigned int i = 0; i < 3; i++) {
		unsigned int k = orders[order % 6][i];

		post_plain(plain, 200 + i);
		if (order % 7 == i) {
			ibv_wr_abort(ex[k]);
			continue;
		}
		expect(!ibv_wr_complete(ex[k]), "wr_complete");
		completes(10 * k, IBV_WC_RDMA_WRITE);
		completes(10 * k + 1, IBV_WC_RDMA_WRITE);
	}
	nothing_more();
}

static void nested(void)
{
	struct ibv_qp_ex *ex[3] = {connected(), connected(), connected()};
	struct ibv_qp *plain = create_qp(pd, 8);

	connect_to(plain, plain->qp_num ^ 0x800000);
	for (unsigned int i = 0; i < 5000; i++)
		nested_round(ex, plain, i);
	for (int i = 0; i < 3; i++)
		end(ex[i]);
	destroy(plain);
}

/* --- forsaken, handed --------------------------------------------------------------------------
 */

/* A QP goes while a batch is being built for it. The thread's other batch does not mind. */
static void forsaken(void)
{
	for (unsigned int i = 0; i < 100; i++) {
		struct ibv_qp_ex *goes = connected(), *stays = connected();

		ibv_wr_start(i % 2 ? goes : stays);
		ibv_wr_start(i % 2 ? stays : goes);
		build_write(goes, 1, IBV_SEND_SIGNALED);
		build_write(stays, 2, IBV_SEND_SIGNALED);
		end(goes);
		build_write(stays, 3, IBV_SEND_SIGNALED);
		expect(!ibv_wr_complete(stays), "wr_complete");
		writes_complete(2, 2);
		still_works(stays);
		end(stays);
	}
}

static void *complete_it(void *arg)
{
	expect(!ibv_wr_complete(arg), "wr_complete");
	return NULL;
}

/* SPDK builds in one place and rings the doorbell in another. */
static void handed(void)
{
	struct ibv_qp_ex *ex = connected();

	for (uint64_t i = 0; i < 200; i++) {
		ibv_wr_start(ex);
		build_write(ex, i, IBV_SEND_SIGNALED);
		pthread_join(start(complete_it, ex), NULL);
		writes_complete(i, 1);
	}
	still_works(ex);
	end(ex);
}

/* --- lives, states -----------------------------------------------------------------------------
 */

static void live(struct ibv_qp_ex *ex, unsigned int depth)
{
	for (unsigned int n = 1; n <= depth; n++) {
		expect(!try_batch(ex, n, n), "wr_complete");
		writes_complete(n, n);
	}
	expect(try_batch(ex, 1, depth + 1) == ENOMEM, "more than fits");
	still_works(ex);
}

enum { AGAIN = 200 };

static const void *seen[AGAIN];
static unsigned int n_seen, n_again;

static void note(const void *address)
{
	for (unsigned int i = 0; i < n_seen; i++)
		if (seen[i] == address) {
			n_again++;
			return;
		}
	seen[n_seen++] = address;
}

/* Of another depth, and then one without the builder, at addresses that were those of others. */
static void live_again(uint32_t depth)
{
	struct ibv_qp_ex *ex = create_of(depth, IBV_QP_EX_WITH_RDMA_WRITE);
	struct ibv_qp *plain;

	note(ex);

	connect_to(base(ex), base(ex)->qp_num ^ 0x800000);
	live(ex, depth);
	expect(!try_batch(ex, 500, 2), "wr_complete");
	end(ex);
	plain = create_qp(pd, depth);
	connect_to(plain, plain->qp_num ^ 0x800000);
	post_plain(plain, 1);
	nothing_more();
	destroy(plain);
}

static void many_lives(void)
{
	struct ibv_qp_ex *ex = connected();

	live(ex, DEPTH);
	for (int i = 0; i < 10; i++) {
		expect(!try_batch(ex, 500, 5), "wr_complete"); /* they end with the life */
		modify(base(ex), (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
		connect_to(base(ex), base(ex)->qp_num ^ 0x800000);
		live(ex, DEPTH);
	}
	end(ex);
	for (unsigned int i = 0; i < AGAIN; i++)
		live_again(2u << i % 8);
#ifndef __SANITIZE_ADDRESS__
	expect(n_again, "an address that is used again");
#endif
}

static void states(void)
{
	struct ibv_qp_ex *ex = create();

	expect(try_batch(ex, 1, 2) == EINVAL, "in RESET");
	to_init(base(ex));
	expect(try_batch(ex, 1, 2) == EINVAL, "in INIT");
	to_rts(base(ex), base(ex)->qp_num ^ 0x800000);
	still_works(ex);
	modify(base(ex), (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, 0);
	for (uint64_t i = 0; i < 100; i += 3) {
		expect(!try_batch(ex, i, 3), "in ERR");
		for (uint64_t k = i; k < i + 3; k++) {
			struct ibv_wc wc = any_completion();

			expect(wc.wr_id == k && wc.status == IBV_WC_WR_FLUSH_ERR, "it flushes");
		}
	}
	modify(base(ex), (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
	nothing_more();
	connect_to(base(ex), base(ex)->qp_num ^ 0x800000);
	still_works(ex);
	end(ex);
}

/* --- child of fork() ---------------------------------------------------------------------------
 */

static void in_child(struct ibv_qp_ex *ex)
{
	struct ibv_qp_ex *own;

	alarm(30);
	live(ex, DEPTH);
	own = connected();
	live(own, DEPTH);
	end(own);
	end(ex);
	_exit(0);
}

static void child(void)
{
	struct ibv_qp_ex *ex = connected();
	int status = 1;
	pid_t pid;

	live(ex, DEPTH);
	pid = fork_unqueried();
	if (!pid)
		in_child(ex);
	expect(waitpid(pid, &status, 0) == pid && !status, "the child");
	live(ex, DEPTH);
	end(ex);
}

/* -----------------------------------------------------------------------------------------------
 */

int main(int argc, char **argv)
{
	static const struct use uses[] = {{"operations", operations},
					  {"batches", batches},
					  {"data", data},
					  {"errors", errors},
					  {"aborted", aborted},
					  {"full", full},
					  {"refused", refused},
					  {"nested", nested},
					  {"forsaken", forsaken},
					  {"handed", handed},
					  {"lives", many_lives},
					  {"states", states},
					  {"child", child}};

	return ex_main(argc, argv, uses, sizeof(uses) / sizeof(*uses));
}
