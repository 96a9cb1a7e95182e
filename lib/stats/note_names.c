/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <infiniband/verbs.h>
#include <stddef.h>

#include "lib/stats/note_names.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static const char *name_in(const char *const *names, size_t count, unsigned int n)
{
	return n < count && names[n] ? names[n] : "?";
}

const char *stats_status_name(unsigned int status)
{
#define WC(n) [IBV_WC_##n] = #n
	static const char *const names[] = {WC(SUCCESS),
					    WC(LOC_LEN_ERR),
					    WC(LOC_QP_OP_ERR),
					    WC(LOC_EEC_OP_ERR),
					    WC(LOC_PROT_ERR),
					    WC(WR_FLUSH_ERR),
					    WC(MW_BIND_ERR),
					    WC(BAD_RESP_ERR),
					    WC(LOC_ACCESS_ERR),
					    WC(REM_INV_REQ_ERR),
					    WC(REM_ACCESS_ERR),
					    WC(REM_OP_ERR),
					    WC(RETRY_EXC_ERR),
					    WC(RNR_RETRY_EXC_ERR),
					    WC(LOC_RDD_VIOL_ERR),
					    WC(REM_INV_RD_REQ_ERR),
					    WC(REM_ABORT_ERR),
					    WC(INV_EECN_ERR),
					    WC(INV_EEC_STATE_ERR),
					    WC(FATAL_ERR),
					    WC(RESP_TIMEOUT_ERR),
					    WC(GENERAL_ERR),
					    WC(TM_ERR),
					    WC(TM_RNDV_INCOMPLETE)};
#undef WC
	return name_in(names, COUNT(names), status);
}

const char *stats_async_name(unsigned int event)
{
#define EV(n) [IBV_EVENT_##n] = #n
	static const char *const names[] = {EV(CQ_ERR),
					    EV(QP_FATAL),
					    EV(QP_REQ_ERR),
					    EV(QP_ACCESS_ERR),
					    EV(COMM_EST),
					    EV(SQ_DRAINED),
					    EV(PATH_MIG),
					    EV(PATH_MIG_ERR),
					    EV(DEVICE_FATAL),
					    EV(PORT_ACTIVE),
					    EV(PORT_ERR),
					    EV(LID_CHANGE),
					    EV(PKEY_CHANGE),
					    EV(SM_CHANGE),
					    EV(SRQ_ERR),
					    EV(SRQ_LIMIT_REACHED),
					    EV(QP_LAST_WQE_REACHED),
					    EV(CLIENT_REREGISTER),
					    EV(GID_CHANGE),
					    EV(WQ_FATAL)};
#undef EV
	return name_in(names, COUNT(names), event);
}

const char *stats_qp_state_name(unsigned int state)
{
#define QPS(n) [IBV_QPS_##n] = #n
	static const char *const names[] = {QPS(RESET),
					    QPS(INIT),
					    QPS(RTR),
					    QPS(RTS),
					    QPS(SQD),
					    QPS(SQE),
					    QPS(ERR),
					    QPS(UNKNOWN),
					    [STATS_QP_CREATED] = "created",
					    [STATS_QP_DESTROYED] = "destroyed"};
#undef QPS
	return name_in(names, COUNT(names), state);
}

const char *stats_opcode_name(unsigned int wc_opcode)
{
#define OP(n) [IBV_WC_##n] = #n
	static const char *const names[] = {OP(SEND),	   OP(RDMA_WRITE), OP(RDMA_READ),
					    OP(COMP_SWAP), OP(FETCH_ADD),  OP(BIND_MW),
					    OP(LOCAL_INV), OP(RECV),	   OP(RECV_RDMA_WITH_IMM)};
#undef OP
	return name_in(names, COUNT(names), wc_opcode);
}

const char *stats_queue_name(unsigned int queue)
{
	static const char *const names[] = {
		[STATS_QUEUE_SEND] = "send", [STATS_QUEUE_RECV] = "receive"};

	return name_in(names, COUNT(names), queue);
}
