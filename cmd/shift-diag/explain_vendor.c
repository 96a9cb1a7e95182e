/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* vendor_err, driver by driver. Those of mlx5 were observed on a ConnectX-6 (firmware 20.43); the
 * others are what each provider of rdma-core puts there. */
#include "cmd/shift-diag/explain.h"

#define SEE(status) "shift-diag explain " status

static const struct explanation mlx5_vendor[] = {
	{"0x33", 0x33, "A local buffer is to be written to, and its region lacks LOCAL_WRITE.",
	 "the access flags of ibv_reg_mr", SEE("LOC_ACCESS_ERR")},
	{"0x52", 0x52, "A local key (lkey) is not valid.",
	 "a wrong lkey, or memory that was deregistered while a request used it",
	 SEE("LOC_PROT_ERR")},
	{"0x53", 0x53, "An SGE reaches beyond its memory region.",
	 "address or length of a local buffer", SEE("LOC_PROT_ERR")},
	{"0x81", 0x81, "The retries of a packet are used up: nobody acknowledged it.",
	 "link, cable, switch or peer; within 4 ms: the peer's queue pair is gone, as its process "
	 "ended\n"
	 "after seconds: the path or the peer's NIC is dead",
	 SEE("RETRY_EXC_ERR")},
	{"0x87", 0x87, "The peer had no receive posted (RNR) as often as rnr_retry allows.",
	 "the peer's program posts no receives", SEE("RNR_RETRY_EXC_ERR")},
	{"0x88", 0x88, "The peer's NIC knows no such remote key, or the address is not within it.",
	 "a wrong rkey or address\nthe peer's process ends: its memory went first, its queue pair "
	 "next",
	 SEE("REM_ACCESS_ERR")},
	{"0x8a", 0x8a, "The peer's memory lacks the permission: REMOTE_WRITE, for a WRITE.",
	 "the access flags of the peer's registration", SEE("REM_ACCESS_ERR")},
	{"0x93", 0x93, "A page of on-demand paging (ODP) was not there.",
	 "normal with ODP as long as the request goes on",
	 "the driver's page faults: rdma statistic"},
	{"0xf5", 0xf5, "The request was flushed, as its queue pair was in ERR.",
	 "an earlier error of this queue pair, or its end", SEE("WR_FLUSH_ERR")},
	{"0xf9", 0xf9, "The request was flushed, as its queue pair was in ERR.",
	 "an earlier error of this queue pair, or its end", SEE("WR_FLUSH_ERR")},
};

const struct explain_table explain_mlx5_vendor = {"mlx5 vendor_err", NULL, mlx5_vendor,
						  EXPLAIN_COUNT(mlx5_vendor)};

#define SYNDROME(n, number, status)                                                        \
	{                                                                                  \
		n, number, "The NIC's own number of IBV_WC_" status ".", NULL, SEE(status) \
	}

/* hns has the same numbers. */
static const struct explanation mlx5_syndrome[] = {
	SYNDROME("LOCAL_LENGTH_ERR", 0x01, "LOC_LEN_ERR"),
	SYNDROME("LOCAL_QP_OP_ERR", 0x02, "LOC_QP_OP_ERR"),
	SYNDROME("LOCAL_PROT_ERR", 0x04, "LOC_PROT_ERR"),
	SYNDROME("WR_FLUSH_ERR", 0x05, "WR_FLUSH_ERR"),
	SYNDROME("MW_BIND_ERR", 0x06, "MW_BIND_ERR"),
	SYNDROME("BAD_RESP_ERR", 0x10, "BAD_RESP_ERR"),
	SYNDROME("LOCAL_ACCESS_ERR", 0x11, "LOC_ACCESS_ERR"),
	SYNDROME("REMOTE_INVAL_REQ_ERR", 0x12, "REM_INV_REQ_ERR"),
	SYNDROME("REMOTE_ACCESS_ERR", 0x13, "REM_ACCESS_ERR"),
	SYNDROME("REMOTE_OP_ERR", 0x14, "REM_OP_ERR"),
	SYNDROME("TRANSPORT_RETRY_EXC_ERR", 0x15, "RETRY_EXC_ERR"),
	SYNDROME("RNR_RETRY_EXC_ERR", 0x16, "RNR_RETRY_EXC_ERR"),
	SYNDROME("REMOTE_ABORTED_ERR", 0x22, "REM_ABORT_ERR"),
};

const struct explain_table explain_mlx5_syndrome = {"mlx5 (and hns) syndrome", "MLX5_CQE_SYNDROME_",
						    mlx5_syndrome, EXPLAIN_COUNT(mlx5_syndrome)};

#define STATUS(n, number, status)                                                           \
	{                                                                                   \
		n, number, "The driver reports it as IBV_WC_" status ".", NULL, SEE(status) \
	}

static const struct explanation bnxt_req[] = {
	STATUS("BAD_RESP", 0x01, "BAD_RESP_ERR"),
	STATUS("LOC_LEN", 0x02, "LOC_LEN_ERR"),
	STATUS("LOC_QP_OP", 0x03, "LOC_QP_OP_ERR"),
	STATUS("PROT", 0x04, "LOC_PROT_ERR"),
	STATUS("MEM_OP", 0x05, "MW_BIND_ERR"),
	STATUS("REM_INVAL", 0x06, "REM_INV_REQ_ERR"),
	STATUS("REM_ACC", 0x07, "REM_ACCESS_ERR"),
	STATUS("REM_OP", 0x08, "REM_OP_ERR"),
	STATUS("RNR_NAK_XCED", 0x09, "RNR_RETRY_EXC_ERR"),
	STATUS("TRNSP_XCED", 0x0a, "RETRY_EXC_ERR"),
	STATUS("WR_FLUSH", 0x0b, "WR_FLUSH_ERR"),
};

const struct explain_table explain_bnxt_req = {"bnxt_re vendor_err of a send", "BNXT_RE_REQ_ST_",
					       bnxt_req, EXPLAIN_COUNT(bnxt_req)};

static const struct explanation bnxt_rsp[] = {
	STATUS("LOC_ACC", 0x01, "LOC_ACCESS_ERR"), STATUS("LOC_LEN", 0x02, "LOC_LEN_ERR"),
	STATUS("LOC_PROT", 0x03, "LOC_PROT_ERR"),  STATUS("LOC_QP_OP", 0x04, "LOC_QP_OP_ERR"),
	STATUS("MEM_OP", 0x05, "MW_BIND_ERR"),	   STATUS("REM_INVAL", 0x06, "REM_INV_REQ_ERR"),
	STATUS("WR_FLUSH", 0x07, "WR_FLUSH_ERR"),  STATUS("HW_FLUSH", 0x08, "FATAL_ERR"),
};

const struct explain_table explain_bnxt_rsp = {"bnxt_re vendor_err of a receive", "BNXT_RE_RSP_ST_",
					       bnxt_rsp, EXPLAIN_COUNT(bnxt_rsp)};

static const struct explanation efa[] = {
	{"FLUSHED", 1, "The request was flushed, as its queue pair was in ERR.", NULL,
	 SEE("WR_FLUSH_ERR")},
	{"LOCAL_ERROR_QP_INTERNAL_ERROR", 2, "The queue pair failed inside the NIC.", NULL,
	 "dmesg"},
	{"LOCAL_ERROR_UNSUPPORTED_OP", 3, "The NIC does not know this operation.",
	 "the device's capabilities", SEE("LOC_QP_OP_ERR")},
	{"LOCAL_ERROR_INVALID_AH", 4, "The address handle is not valid.", NULL,
	 SEE("LOC_QP_OP_ERR")},
	{"LOCAL_ERROR_INVALID_LKEY", 5, "A local key is not valid.", NULL, SEE("LOC_PROT_ERR")},
	{"LOCAL_ERROR_BAD_LENGTH", 6, "The message is too long.", NULL, SEE("LOC_LEN_ERR")},
	{"REMOTE_ERROR_BAD_ADDRESS", 7, "The peer does not know the remote key, or the address.",
	 NULL, SEE("REM_ACCESS_ERR")},
	{"REMOTE_ERROR_ABORT", 8, "The peer reset the connection.", "the peer's process ended",
	 SEE("REM_ABORT_ERR")},
	{"REMOTE_ERROR_BAD_DEST_QPN", 9, "The peer's queue pair does not exist, or is in ERR.",
	 "the peer's process has ended", "is it alive? dmesg (OOM) there"},
	{"REMOTE_ERROR_RNR", 10, "The peer has no receive posted.", NULL, SEE("RNR_RETRY_EXC_ERR")},
	{"REMOTE_ERROR_BAD_LENGTH", 11, "The peer's receive is too short.", NULL,
	 SEE("REM_INV_REQ_ERR")},
	{"REMOTE_ERROR_BAD_STATUS", 12, "The peer answered with a status that is not known.", NULL,
	 "firmware and drivers of both ends"},
	{"LOCAL_ERROR_UNRESP_REMOTE", 13, "The peer answered before, and does not any more.",
	 "its instance or its process has died; the path is cut", SEE("RETRY_EXC_ERR")},
	{"REMOTE_ERROR_UNKNOWN_PEER", 14, "The peer has no address handle for this end.", NULL,
	 NULL},
	{"LOCAL_ERROR_UNREACH_REMOTE", 15, "The peer has never answered.",
	 "security groups: each instance must allow all traffic of its own group\n"
	 "another subnet, or a wrong address",
	 "the security groups of both instances"},
};

const struct explain_table explain_efa = {"efa vendor_err", "EFA_IO_COMP_STATUS_", efa,
					  EXPLAIN_COUNT(efa)};

static const struct explanation erdma[] = {
	{"INVALID_RQE", 0x01, "A receive is malformed.", NULL, SEE("GENERAL_ERR")},
	{"RQE_INVALID_STAG", 0x02, "A receive's key is not valid.", NULL, SEE("REM_ACCESS_ERR")},
	{"RQE_ADDR_VIOLATION", 0x03, "A receive reaches beyond its memory.", NULL,
	 SEE("REM_ACCESS_ERR")},
	{"RQE_ACCESS_RIGHT_ERR", 0x04, "A receive's memory lacks the permission.", NULL,
	 SEE("REM_ACCESS_ERR")},
	{"RQE_INVALID_PD", 0x05, "A receive's memory is of another protection domain.", NULL,
	 SEE("REM_ACCESS_ERR")},
	{"RQE_WRAP_ERR", 0x06, "The address of a receive wraps round.", NULL,
	 SEE("REM_ACCESS_ERR")},
	{"INVALID_SQE", 0x20, "A send request is malformed.", NULL, SEE("LOC_QP_OP_ERR")},
	{"ZERO_ORD", 0x21, "A READ where none was agreed (max_rd_atomic 0).", NULL,
	 SEE("GENERAL_ERR")},
	{"SQE_INVALID_STAG", 0x30, "The key of a send request is not valid.", NULL,
	 SEE("LOC_ACCESS_ERR")},
	{"SQE_ADDR_VIOLATION", 0x31, "A send request reaches beyond its memory.", NULL,
	 SEE("LOC_ACCESS_ERR")},
	{"SQE_ACCESS_ERR", 0x32, "The memory of a send request lacks the permission.", NULL,
	 SEE("LOC_ACCESS_ERR")},
	{"SQE_INVALID_PD", 0x33, "The memory of a send request is of another protection domain.",
	 NULL, SEE("LOC_ACCESS_ERR")},
	{"SQE_WARP_ERR", 0x34, "The address of a send request wraps round.", NULL,
	 SEE("LOC_ACCESS_ERR")},
};

const struct explain_table explain_erdma = {"erdma vendor_err", "ERDMA_WC_VENDOR_", erdma,
					    EXPLAIN_COUNT(erdma)};

/* The major number is 1, and the minor one says why the queue pair was flushed. */
#define FLUSHED(n, minor, status) STATUS(n, 0x10000 | (minor), status)

static const struct explanation irdma[] = {
	FLUSHED("FLUSH_GENERAL_ERR", 1, "WR_FLUSH_ERR"),
	FLUSHED("FLUSH_PROT_ERR", 2, "LOC_PROT_ERR"),
	FLUSHED("FLUSH_REM_ACCESS_ERR", 3, "REM_ACCESS_ERR"),
	FLUSHED("FLUSH_LOC_QP_OP_ERR", 4, "LOC_QP_OP_ERR"),
	FLUSHED("FLUSH_REM_OP_ERR", 5, "REM_OP_ERR"),
	FLUSHED("FLUSH_LOC_LEN_ERR", 6, "LOC_LEN_ERR"),
	FLUSHED("FLUSH_FATAL_ERR", 7, "FATAL_ERR"),
	FLUSHED("FLUSH_RETRY_EXC_ERR", 8, "RETRY_EXC_ERR"),
	FLUSHED("FLUSH_MW_BIND_ERR", 9, "MW_BIND_ERR"),
	FLUSHED("FLUSH_REM_INV_REQ_ERR", 10, "REM_INV_REQ_ERR"),
	FLUSHED("FLUSH_RNR_RETRY_EXC_ERR", 11, "RNR_RETRY_EXC_ERR"),
};

const struct explain_table explain_irdma = {"irdma vendor_err", NULL, irdma, EXPLAIN_COUNT(irdma)};
