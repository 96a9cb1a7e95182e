/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A QP that is connected with itself, over the real lib/core. The data of its domain is another
 * connection's, whose rail the test says.
 */
#ifndef SELF_WORLD_H
#define SELF_WORLD_H

#include <errno.h>
#include <stdio.h>

#include "lib/conn/arm.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/conn_timers.h"
#include "lib/conn/memlock.h"
#include "lib/conn/self_qp.h"
#include "lib/core/conn_int.h"
#include "lib/verbs/poll.h"
#include "lib/verbs/post_recv.h"
#include "lib/verbs/post_send.h"
#include "lib/verbs/qp.h"
#include "tests/unit/rooms.h"

enum { DATA_MORE = 0x100 };

#define SECOND 1000000000ull

static struct vqp *v, *data;
static int rkey_result;
static unsigned int markers; /* of fences that were posted */

int __wrap_vmr_rkey(struct vpd *pd, struct nic *nic, uint32_t rkey, uint32_t *twin);
int __wrap_nic_gid_for_twin(const struct nic *nic, const struct nic_gid *like, struct nic_gid *gid);
void __wrap_stats_conn_met_failure(int slot);

int __wrap_vmr_rkey(struct vpd *pd, struct nic *nic, uint32_t rkey, uint32_t *twin)
{
	assert_ptr_equal(pd, &world.pd);
	if (!rkey_result)
		*twin = rkey + 0x2000u * nic->index;
	return rkey_result;
}

int __wrap_nic_gid_for_twin(const struct nic *nic, const struct nic_gid *like, struct nic_gid *gid)
{
	assert_int_equal(like->value.raw[15], 1);
	*gid = (struct nic_gid){.value.raw = {[0] = 0xfe, [15] = (uint8_t)(nic->index + 1)}};
	return world.lost & 1 << nic->index ? -EADDRNOTAVAIL : world.gid_at;
}

void __wrap_stats_conn_met_failure(int slot)
{
	(void)slot;
}

/* --- the NICs -------------------------------------------------------------------------------- */

static inline void nic_has(uint64_t id, enum ibv_wc_status status)
{
	world.wc[world.wcs++] = (struct ibv_wc){
		.wr_id = id, .qp_num = QPN, .status = status, .opcode = IBV_WC_RDMA_READ};
}

static inline void twin_has(unsigned int nic, uint64_t id, enum ibv_wc_status status)
{
	assert_true(world.twin_wcs_polled == world.twin_wcs || world.twin_wc_nic == nic);
	world.twin_wc_nic = nic;
	world.twin_wc[world.twin_wcs++] = (struct ibv_wc){.wr_id = id,
							  .qp_num = TWIN_QPN + nic,
							  .status = status,
							  .opcode = IBV_WC_RDMA_READ};
}

/* Our wr_id: armed so often by us, index in the log. */
static inline uint64_t ours(uint64_t gen, uint32_t index)
{
	return gen << 32 | index;
}

/* A fence waits for its marker: all before it has flushed. */
static inline void marker_comes(void)
{
	markers++;
	nic_has(v->marker, IBV_WC_WR_FLUSH_ERR);
	if (world.twin_wcs_polled == world.twin_wcs)
		twin_has(1, v->marker, IBV_WC_WR_FLUSH_ERR);
}

static inline unsigned int lines(const char *begin)
{
	unsigned int n = 0;

	for (const char *at = trace_text(); (at = strstr(at, begin)); at++)
		n++;
	return n;
}

/* How many READs (op 4) have gone to that QP since the trace was cleared. */
static inline unsigned int reads_on(uint32_t qpn)
{
	char begin[32];
	unsigned int n = 0;

	snprintf(begin, sizeof(begin), "post %#x ", qpn);
	for (const char *at = trace_text(); (at = strstr(at, begin)); at++) {
		const char *op = strstr(at, " op ");

		n += op && !strncmp(op, " op 4 ", 6);
	}
	return n;
}

/* --- the program ----------------------------------------------------------------------------- */

static inline int post_wr(uint64_t id, enum ibv_wr_opcode opcode, unsigned int flags)
{
	struct ibv_sge sge = {.addr = 0x7000, .length = 1, .lkey = 0x11};
	struct ibv_send_wr *bad, wr = {.wr_id = id,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = opcode,
				       .send_flags = flags,
				       .wr.rdma = {.remote_addr = 0x8000, .rkey = 0x22}};

	return hot_post_send(v->qp, &wr, &bad);
}

static inline void post_read(uint64_t id)
{
	assert_int_equal(post_wr(id, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED), 0);
}

/* One poll of one completion. */
static inline bool poll_one(struct ibv_wc *wc)
{
	int n = hot_poll_cq(&world.real_send_cq, 1, wc);

	assert_true(n >= 0);
	return n;
}

static inline void assert_completes(uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_true(poll_one(&wc));
	assert_int_equal(wc.wr_id, id);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.qp_num, QPN);
	if (status == IBV_WC_SUCCESS) {
		assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
	}
}

static inline void assert_nothing_completes(void)
{
	struct ibv_wc wc;

	assert_false(poll_one(&wc));
}

static inline void to_rts(struct vqp *q, uint32_t dest, uint8_t last)
{
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct ibv_qp_attr a = rooms_attr();

	a.dest_qp_num = dest;
	a.rq_psn = a.sq_psn = 0;
	a.ah_attr.grh.dgid = (union ibv_gid){.raw = {[0] = 0xfe, [15] = last}};
	a.ah_attr.grh.sgid_index = 3;
	a.qp_state = IBV_QPS_INIT;
	assert_int_equal(hook_modify_qp(q->qp, &a,
					IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						IBV_QP_ACCESS_FLAGS),
			 0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(hook_modify_qp(q->qp, &a, rtr), 0);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(hook_modify_qp(q->qp, &a,
					IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

/* Its own timers stand still. */
static inline void data_is_on(uint8_t rail)
{
	vqp_timers_stop(data);
	atomic_store(&data->timers.tick_at, 0);
	data->conn->state = SHIFT_ST_ACTIVE;
	data->conn->r = rail;
}

/* The data's connection is armed there. The twin of the flush follows in a job of its own. */
static inline void data_moves_to(uint8_t rail)
{
	struct shift_action arm = {.type = SHIFT_ACT_ARM, .rail = rail, .epoch = rail};

	data_is_on(rail);
	vqp_enter(data);
	arm_start(data, &arm);
	vqp_leave(data);
	rooms_run_jobs();
	data_is_on(rail); /* whatever lib/core made of an answer that it did not ask for */
}

static inline int begin_both(void **state)
{
	rooms_begin(state);
	rkey_result = 0;
	markers = 0;
	world.on_sleep = marker_comes;
	v = rooms_create_qp();
	world.qpn_more = DATA_MORE;
	data = rooms_create_qp();
	world.qpn_more = 0;
	to_rts(v, QPN, 1);
	to_rts(data, 0x99, 0xbb);
	data_is_on(0);
	trace_clear();
	return 0;
}

static inline int end_both(void **state)
{
	rooms_unlock(data);
	world.on_sleep = marker_comes;
	world.post_result = 0;
	world.modify_fails_at = 0;
	data->conn->state = SHIFT_ST_SETUP;
	hook_destroy_qp(data->qp);
	return rooms_end_qp(state, v);
}

static inline bool is_ready_on(uint8_t rail)
{
	return v->self.rail[rail].state == SELF_READY;
}

static inline void rail0_dies(uint64_t id)
{
	nic_has(id, IBV_WC_LOC_QP_OP_ERR);
}

#endif
