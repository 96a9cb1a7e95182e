/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion statuses and asynchronous events of libibverbs. */
#include <infiniband/verbs.h>

#include "cmd/shift-diag/explain.h"

#define WC(n) .name = #n, .number = IBV_WC_##n
#define EV(n) .name = #n, .number = IBV_EVENT_##n

static const struct explanation wc[] = {
	{WC(SUCCESS), "The request was executed.", NULL, NULL},
	{WC(LOC_LEN_ERR),
	 "The message does not fit: it is longer than the receive that took it, or than the port "
	 "allows.",
	 "the two ends disagree about the length of their messages\n"
	 "a receive was posted with too small a buffer, or a UD receive without 40 bytes for the "
	 "GRH",
	 "compare the lengths that both ends post; a bug of the program, not of the network"},
	{WC(LOC_QP_OP_ERR), "The NIC could not execute the request as it was posted.",
	 "a request that this queue pair does not allow: too many SGEs, a wrong opcode\n"
	 "soft-RoCE: its own link is down, and it had something to send",
	 "soft-RoCE: ip link; is the netdev of the NIC up?\n"
	 "otherwise: the capabilities that the program asked for when it made the queue pair"},
	{WC(LOC_EEC_OP_ERR), "As LOC_QP_OP_ERR, of a reliable datagram context, which no NIC has.",
	 NULL, NULL},
	{WC(LOC_PROT_ERR), "A local buffer of the request is not valid memory for this NIC.",
	 "a wrong lkey, or one of another protection domain\n"
	 "the buffer reaches beyond its memory region, or the region was deregistered meanwhile",
	 "the vendor_err tells the lkey from the length on mlx5 (0x52, 0x53)\n"
	 "a bug of the program: is memory freed or deregistered while requests use it?"},
	{WC(WR_FLUSH_ERR),
	 "The request was not executed, as the queue pair was in ERR. It tells nothing by itself.",
	 "another request of this queue pair failed before: the first error counts\n"
	 "the program, or the peer's disconnect, moved the queue pair to ERR",
	 "look for the first completion of this queue pair that is not WR_FLUSH_ERR\n"
	 "if there is none: the end of the connection, or QP_FATAL; shift-diag explain QP_FATAL"},
	{WC(MW_BIND_ERR), "A memory window could not be bound.",
	 "the region was not registered with IBV_ACCESS_MW_BIND, or the window is of another "
	 "protection domain",
	 "a bug of the program"},
	{WC(BAD_RESP_ERR), "The peer's NIC sent an answer that does not fit.",
	 "the two ends have different PSNs or path MTUs\n"
	 "a queue pair was connected to a peer's queue pair that was used again",
	 "compare the attributes of both ends: rdma resource show qp\nfirmware of the two NICs"},
	{WC(LOC_ACCESS_ERR),
	 "A request of the peer wrote to memory of this end that does not allow it.",
	 "a WRITE with immediate data, or a SEND, to a buffer that is not writable\n"
	 "the region of a receive was deregistered meanwhile",
	 "the access flags of the registration; a bug of the program"},
	{WC(REM_INV_REQ_ERR), "The peer's NIC refused the request as invalid.",
	 "the message is longer than the peer's receive buffer\n"
	 "the peer's queue pair does not allow RDMA or atomics (qp_access_flags), or too many "
	 "READs",
	 "the lengths that both ends use\nqp_access_flags and max_dest_rd_atomic of the peer"},
	{WC(REM_ACCESS_ERR), "The peer's memory may not be accessed like that.",
	 "a wrong rkey or address, or beyond the end of the region\n"
	 "the peer has deregistered the memory, or has ended: its memory goes before its queue "
	 "pair\n"
	 "the region lacks REMOTE_WRITE, REMOTE_READ or REMOTE_ATOMIC",
	 "did the peer's process end at that time? shift-ctl status, dmesg (OOM) on its host\n"
	 "mlx5: vendor_err 0x88 is a bad key or address, 0x8a a missing permission"},
	{WC(REM_OP_ERR), "The peer's NIC could not complete the request.",
	 "a receive or memory of the peer went bad: look at the peer's own completion\n"
	 "trouble of the peer's NIC",
	 "the error completion and the asynchronous events at the peer\ndmesg on the peer's host"},
	{WC(RETRY_EXC_ERR),
	 "The NIC sent a packet as often as retry_cnt allows, and nobody acknowledged it.",
	 "the link of either NIC, its cable, or a switch between them is down\n"
	 "the peer's queue pair is gone: its process has ended (then it comes within "
	 "milliseconds)\n"
	 "packets are lost on the way: only large ones (MTU of a switch), or only the "
	 "acknowledgements\n"
	 "the wrong GID index, VLAN or path MTU; a firewall that drops UDP 4791",
	 "on both hosts: shift-diag rails, ip -s link, dmesg\n"
	 "shift-diag ping HOST: does the path lose packets, and of which size?\n"
	 "was the peer alive? shift-ctl status there\n"
	 "one NIC in all of these errors is the suspect: which host do they have in common?"},
	{WC(RNR_RETRY_EXC_ERR), "The peer had no receive posted, as often as rnr_retry allows.",
	 "the peer's program is slow, stopped or swapped out, and posts no receives\n"
	 "too few receives for the number of messages; rnr_retry below 7, which means for ever\n"
	 "a shared receive queue that is empty",
	 "what does the peer's process do? its CPU, /proc/PID/stack, its log\n"
	 "not a fault of the network: packets arrived and were answered"},
	{WC(LOC_RDD_VIOL_ERR), "Of reliable datagrams, which no NIC has.", NULL, NULL},
	{WC(REM_INV_RD_REQ_ERR),
	 "The peer refused the request as invalid for its reliable datagram or XRC domain.",
	 "XRC: the domain or the queue is not the peer's", "the program's XRC set-up"},
	{WC(REM_ABORT_ERR), "The peer aborted the request.",
	 "the peer's queue pair went to ERR while the request was under way",
	 "the first error at the peer"},
	{WC(INV_EECN_ERR), "Of reliable datagrams, which no NIC has.", NULL, NULL},
	{WC(INV_EEC_STATE_ERR), "Of reliable datagrams, which no NIC has.", NULL, NULL},
	{WC(FATAL_ERR), "The NIC or its driver has failed.", "the NIC was reset, removed, or hangs",
	 "dmesg; shift-diag explain DEVICE_FATAL\nis it in lspci still?"},
	{WC(RESP_TIMEOUT_ERR), "No answer to the request came in time.", "as RETRY_EXC_ERR",
	 "shift-diag explain RETRY_EXC_ERR"},
	{WC(GENERAL_ERR), "An error that has no number of its own.",
	 "only the vendor_err, or the driver in dmesg, tells more",
	 "dmesg\nshift-diag explain vendor_err NUMBER"},
	{WC(TM_ERR), "Tag matching failed.", "the tag-matching operation was invalid",
	 "the program's use of tag matching"},
	{WC(TM_RNDV_INCOMPLETE), "Tag matching: the rendezvous must be completed by the program.",
	 NULL, NULL},
};

const struct explain_table explain_wc = {"completion status", "IBV_WC_", wc, EXPLAIN_COUNT(wc)};

#define GONE_CHECKS                                                                               \
	"dmesg: the driver says more\nlspci: is the NIC there still? rdma link: is its device?\n" \
	"a NIC that does that again is to be replaced"

static const struct explanation event[] = {
	{EV(CQ_ERR), "A completion queue overran or failed: its completions are lost.",
	 "more requests than the completion queue has room for\nfailed memory or firmware",
	 "the size of the CQ against the requests of all queue pairs on it\ndmesg"},
	{EV(QP_FATAL), "A queue pair failed, and was moved to ERR.",
	 "an error that belongs to no completion, as a bad receive, or a doorbell of the NIC\n"
	 "trouble of the NIC, if many queue pairs have it at once",
	 "dmesg\none queue pair: the program; many: the NIC"},
	{EV(QP_REQ_ERR), "A request of the peer was invalid, and the queue pair was moved to ERR.",
	 "the peer's program uses a wrong opcode, or more READs than were agreed",
	 "the completion at the peer tells which request"},
	{EV(QP_ACCESS_ERR),
	 "A request of the peer violated an access right, and the queue pair was moved to ERR.",
	 "a wrong rkey, address or permission", "the peer sees REM_ACCESS_ERR: explain that"},
	{EV(COMM_EST), "The first packet came before the program moved the queue pair to RTS.",
	 "normal while connections are made", NULL},
	{EV(SQ_DRAINED), "The send queue is drained, as the program asked.", "normal", NULL},
	{EV(PATH_MIG), "The NIC moved the connection to its alternate path (APM).",
	 "the first path has failed", "the link and the cable of the port\nibstat, perfquery"},
	{EV(PATH_MIG_ERR), "The alternate path (APM) could not be used.",
	 "the alternate path is not set up, or is broken, too", "the path records of the program"},
	{EV(DEVICE_FATAL), "The NIC or its driver has failed; nothing works on it any more.",
	 "firmware, PCIe error, overheating, removal, or a reset by the driver", GONE_CHECKS},
	{EV(PORT_ACTIVE), "A port came up.", "the link is back",
	 "did it go down just before? then the "
	 "link flaps: cable, transceiver, switch port"},
	{EV(PORT_ERR), "A port went down.",
	 "the cable, the transceiver, the switch port or the switch, or an administrator",
	 "ip link, rdma link; ethtool --statistics NETDEV | grep -i err; the switch's log"},
	{EV(LID_CHANGE), "The subnet manager gave the port another LID.",
	 "the subnet manager was restarted",
	 "connections to the old LID end; shift follows the new one"},
	{EV(PKEY_CHANGE), "The table of partition keys has changed.", "the subnet manager did that",
	 "is the program's P_Key there still?"},
	{EV(SM_CHANGE), "Another subnet manager took over.", "a failover of the subnet manager",
	 NULL},
	{EV(SRQ_ERR), "A shared receive queue failed.", "trouble of the NIC, or bad receives in it",
	 "dmesg"},
	{EV(SRQ_LIMIT_REACHED), "A shared receive queue has fewer receives than the limit.",
	 "normal: the program asked to be told", NULL},
	{EV(QP_LAST_WQE_REACHED),
	 "A queue pair in ERR takes nothing from its shared receive queue "
	 "any more.",
	 "normal at the end of a connection", NULL},
	{EV(CLIENT_REREGISTER), "The subnet manager asks all to register anew.",
	 "the subnet manager was restarted", NULL},
	{EV(GID_CHANGE), "The addresses of the port have changed.",
	 "an IP address was added to, or deleted from, the netdev of the NIC",
	 "ip address; on RoCE a connection whose address is gone fails after its retries\n"
	 "what deletes it? NetworkManager, DHCP, a script"},
	{EV(WQ_FATAL), "A work queue failed.", "trouble of the NIC", "dmesg"},
};

const struct explain_table explain_event = {"asynchronous event", "IBV_EVENT_", event,
					    EXPLAIN_COUNT(event)};
