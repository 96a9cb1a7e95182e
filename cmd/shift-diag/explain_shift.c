/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What shift itself says: reasons of shift-ctl status, states, causes of switches, its log. What
 * the first three mean is told by the lists that they come from. */
#include "cmd/shift-diag/explain.h"
#include "lib/stats/layout.h"

#define UN(n) .name = #n, .number = STATS_UNPROTECTED_##n
#define STAYS "a property of the program: it stays so"

static const struct explanation unprotected[] = {
	{UN(NONE), NULL, NULL, NULL},
	{UN(SETUP), NULL, "normal for a moment after connecting",
	 "after ten seconds another reason stands there: shift-ctl status"},
	{UN(NOT_RC), NULL, "the program uses UD, UC, XRC or raw queue pairs", STAYS},
	{UN(SRQ), NULL,
	 "a shared receive queue for XRC or tag matching, or one made with a thread domain, or "
	 "where "
	 "shift was short of memory; others are protected",
	 STAYS},
	{UN(MEMORY_WINDOW), NULL,
	 "the program has allocated a memory window in that protection domain", STAYS},
	{UN(WR_API), NULL,
	 "the queue pair was made for memory windows, atomic write, flush or something newer",
	 STAYS},
	{UN(CQ_EX), NULL,
	 "ibv_create_cq_ex asked for timestamps or the like, or the CQ is of mlx5dv_create_cq",
	 STAYS},
	{UN(CHANNEL), NULL, "no descriptor or no memory was left when the channel was made",
	 "ulimit -n, and how many are in use: ls /proc/PID/fd | wc -l"},
	{UN(POSTED_AROUND), NULL, "direct verbs: mlx5dv_init_obj, mlx5dv_create_qp, DevX, mlx4dv",
	 "turn the direct way off in the program, as UCX_TLS=rc_v instead of rc_x"},
	{UN(IMPORTED), NULL, "the queue pair came from another process", STAYS},
	{UN(NO_PEER_LIBRARY), NULL,
	 "the peer was started without shift-run, or with another --job or --kv\n"
	 "the two hosts reach different etcds",
	 "on the peer's host: shift-ctl status; does it show the process, and the same job?\n"
	 "shift-kvd status --job NAME on both hosts"},
	{UN(NO_BACKUP_NIC), NULL, "--rails names no backup for this NIC",
	 "shift-diag rails shows who backs whom"},
	{UN(PEER_NO_BACKUP_NIC), NULL, "--rails at the peer names no backup for its NIC",
	 "shift-diag rails on the peer's host"},
	{UN(NO_TWIN), NULL, "the backup NIC refuses a queue pair like the program's",
	 "the warning \"no twin on\" has the errno\nshift-diag rails: do the two NICs fit?"},
	{UN(NO_SHADOW), NULL,
	 "the limit of locked memory is too low for a second registration\n"
	 "the backup NIC cannot register this kind of memory",
	 "ulimit -l; shift-diag precheck\nthe warning \"cannot be registered on this NIC\""},
	{UN(NO_RENDEZVOUS), NULL, "shift-kvd is not running, or cannot reach etcd",
	 "shift-kvd status --job NAME; journalctl -t shift-kvd\nshift-diag precheck --kv URL"},
	{UN(RENDEZVOUS_FULL), NULL,
	 "too many keys of this process or job, or too many processes on this host",
	 "shift-kvd status --job NAME says how many"},
	{UN(LOOPBACK), NULL, "both ends are in the same process and on the same NIC",
	 "nothing is to be done: a link that is down does not cut it"},
	{UN(ATTRIBUTES), NULL,
	 "another port than the device's first, or ibv_create_qp_ex with features that shift does "
	 "not "
	 "know",
	 STAYS},
	{UN(TOO_LARGE), NULL, "more than 64 SGEs, or an opcode that is newer than shift's log",
	 STAYS},
	{UN(OTHER_VERSION), NULL, "the two hosts have different versions of shift",
	 "shift-run --version on both hosts; update the older one"},
	{UN(MISMATCH), NULL,
	 "the peer has other queue pair numbers or PSNs than the program said\n"
	 "one of the two was RESET more often than the other",
	 "does the program reset both ends alike?"},
	{UN(THREAD_DOMAIN), NULL, "the queue pair is in a parent domain with a thread domain",
	 STAYS},
	{UN(ATOMICS), NULL,
	 "the program has posted an atomic, and the NICs are atomic only with themselves",
	 "if each word has one user: shift-run --atomics move"},
	{UN(PEER_RELEASED), NULL, "the peer's end has become unprotected",
	 "shift-ctl status on the peer's host says why"},
	{UN(NO_MEMORY), NULL, "the host is out of memory", "free; dmesg (OOM)"},
	{UN(OVER), NULL, "no NIC led to the peer for the give-up time, or an end closed it",
	 "shift-ctl events tells what happened before"},
	{UN(OTHER), NULL, "the peer's host has no backup NIC, or no twin could be made",
	 "the log: shift-run --log-level info"},
};

_Static_assert(EXPLAIN_COUNT(unprotected) == STATS_UNPROTECTED_COUNT, "each reason is explained");

const struct explain_table explain_unprotected = {"reason why it is not protected", NULL,
						  unprotected, EXPLAIN_COUNT(unprotected)};

#define ST(n)  .name = #n, .number = SHIFT_ST_##n
#define PASSES "passes within a second as a rule; if it stays: shift-ctl events at both ends"

static const struct explanation state[] = {
	{ST(SETUP), NULL, "the two ends have not met yet, or never will",
	 "PROTECTED in shift-ctl status says why"},
	{ST(ACTIVE), NULL, NULL, NULL},
	{ST(PREPARE), NULL, "shift-ctl migrate, failback, or a better rail is back", PASSES},
	{ST(DRAIN), NULL, "a planned switch", PASSES},
	{ST(FENCE), NULL, "a switch has begun", "longer than a second: the old NIC hangs; dmesg"},
	{ST(NO_RAIL), NULL, "no NIC of this host leads to the peer now",
	 "shift-diag rails at both ends; shift-diag ping PEER\n"
	 "after the give-up time the program gets its errors"},
	{ST(QUARANTINE), NULL, "old packets may be on the way, or the old NIC does not answer",
	 "ends after 1 s, or 4 s"},
	{ST(ARM), NULL, "the twin on the backup NIC is brought up", PASSES},
	{ST(SWITCHING), NULL, "the peer's word is missing",
	 "is the peer's process alive, and not stopped? does its backup NIC answer? "
	 "shift-diag ping PEER"},
	{ST(GIVEUP), NULL, "no way was left", "shift-ctl events"},
	{ST(DEAD), NULL, "the connection was given up", "shift-ctl events; the program's own log"},
	{ST(CLOSING), NULL, "the program ends it", NULL},
	{ST(CLOSED), NULL, "the program has ended it", NULL},
};

_Static_assert(EXPLAIN_COUNT(state) == SHIFT_ST_COUNT, "each state is explained");

const struct explain_table explain_state = {"state of a connection", NULL, state,
					    EXPLAIN_COUNT(state)};

#define R(n)	  .name = #n, .number = SHIFT_R_##n
#define STEP	  "a step of every switch, no fault", NULL
#define PEER_LOOK "shift-ctl events on the peer's host"

static const struct explanation reason[] = {
	{R(INIT), NULL, NULL, NULL},
	{R(HELLO), NULL, NULL, NULL},
	{R(CQE_ERROR), NULL, "RETRY_EXC_ERR or the like",
	 "shift-diag explain RETRY_EXC_ERR\nshift-diag ping PEER"},
	{R(POST_FAILED), NULL, "the NIC or its driver is broken", "dmesg"},
	{R(LINK_DOWN), NULL,
	 "cable, transceiver, switch port, ip link set down; an address that was deleted; a NIC "
	 "that "
	 "is gone",
	 "shift-diag rails; ip link; ip address; dmesg"},
	{R(PEER_SWITCH), NULL, "the fault is at the peer's end, or was seen there first",
	 PEER_LOOK},
	{R(PROBES_LOST), NULL, "packets are lost on the path, though both links are up",
	 "shift-diag ping PEER: which sizes, which direction?\nthe switches in between"},
	{R(OPERATOR), NULL, "somebody gave the order", NULL},
	{R(FAIL_BACK), NULL, NULL, NULL},
	{R(NO_PROGRESS), NULL, "packets, or acknowledgements, are lost silently",
	 "shift-diag ping PEER"},
	{R(TIMEOUT), NULL, "the peer is slow or stopped, or the new path loses packets, too",
	 "shift-diag ping PEER\nshift-ctl status on the peer's host"},
	{R(ARM_FAILED), NULL, "the peer's address cannot be resolved from the backup NIC",
	 "the warning \"cannot bring its twin\" has the errno\nshift-diag rails; ip neigh"},
	{R(FENCED), NULL, STEP},
	{R(ARMED), NULL, STEP},
	{R(SETTLED), NULL, STEP},
	{R(RAIL_FOUND), NULL, NULL, NULL},
	{R(NO_RAIL), NULL, "all NICs that lead to the peer have a fault",
	 "shift-diag rails at both ends"},
	{R(COMMIT), NULL, STEP},
	{R(PREPARED), NULL, STEP},
	{R(ABANDONED), NULL, "the peer could not move, or did not answer in time", PEER_LOOK},
	{R(GIVEUP_TIME), NULL, "no NIC led to the peer for that long",
	 "shift-diag rails at both ends\nthe time: shift-run --give-up"},
	{R(PROGRAM_ERROR), NULL, "as without shift: keys, lengths, permissions",
	 "the status of the completion: shift-diag explain STATUS"},
	{R(LOST_ATOMIC), NULL, "the NIC failed between the execution and the answer",
	 "shift-run --lost-atomic continue, if the program can bear it"},
	{R(PROOF_FAILED), NULL, "the NIC does not tell truly what it has received",
	 "shift-diag rq-psn at both ends\nsoft-RoCE 6.1: messages of several packets "
	 "(doc/soft-roce.md)"},
	{R(PROTOCOL), NULL, "a fault of the library, or another version", "please report it"},
	{R(PEER_FAILED), NULL, NULL, PEER_LOOK},
	{R(PEER_CLOSED), NULL, NULL, NULL},
	{R(PEER_UNKNOWN), NULL, "the peer's queue pair is gone already", PEER_LOOK},
	{R(PEER_DIED), NULL, "it crashed, was killed, or its host did",
	 "dmesg (OOM) on the peer's host; shift-ctl status shows crash records there"},
	{R(PEER_LEFT), NULL, "it ended in order", NULL},
	{R(RELEASED), NULL, "memory windows, direct verbs, atomics",
	 "PROTECTED in shift-ctl status"},
	{R(NO_KEY), NULL,
	 "memory that was not registered by ibv_reg_mr or a dmabuf variant (on-device, imported, "
	 "mlx5dv)",
	 "such memory cannot follow to another NIC"},
	{R(ATOMICS), NULL, NULL, NULL},
	{R(CLOSE), NULL, NULL, NULL},
	{R(OVERFLOW), NULL, "a fault of the library", "please report it"},
};

_Static_assert(EXPLAIN_COUNT(reason) == SHIFT_R_COUNT, "each cause is explained");

const struct explain_table explain_reason = {"cause or reason of a switch", NULL, reason,
					     EXPLAIN_COUNT(reason)};

#define LINE(part) .name = part, .number = -1
#define MEMLOCK	   "ulimit -l unlimited, memlock in limits.conf, LimitMEMLOCK= of the service"

static const struct explanation message[] = {
	{LINE("no twin on"),
	 "The backup NIC refused a queue pair: the connection cannot move there.",
	 "the NIC allows less than the program's NIC does (inline, SGEs, requests), or is full",
	 "shift-diag rails: are they of one kind?\nthe errno in the line"},
	{LINE("cannot be registered on this NIC"),
	 "The program's memory has no second registration, so nothing can move to that NIC.",
	 "the limit of locked memory\nGPU or other memory that this NIC cannot register", MEMLOCK},
	{LINE("made room for the program"),
	 "The program needed the locked memory that shift's copies took: they were given up.",
	 "the limit of locked memory", MEMLOCK},
	{LINE("is not complete"),
	 "It is not sure that the old NIC has stopped: requests may be in doubt.",
	 "the NIC hangs, or answers too slowly", "dmesg; shift-diag rq-psn"},
	{LINE("counts as hung"), "A command of the NIC took longer than its deadline.",
	 "the NIC or its firmware hangs; the host is overloaded", "dmesg; top"},
	{LINE("cannot bring its twin on"), "The backup path to the peer does not come up.",
	 "the rails of the two hosts are cabled or addressed otherwise\nthe peer's backup NIC is "
	 "down",
	 "shift-diag rails at both ends; shift-diag ping PEER\nshift-run --rails, if they are "
	 "cabled "
	 "otherwise"},
	{LINE("rq_psn is stale"),
	 "This NIC does not tell truly what it has received: a WRITE may be executed twice when a "
	 "connection leaves it.",
	 "the driver returns the value that was set once",
	 "shift-diag rq-psn; another firmware or driver"},
	{LINE("cannot be used yet"), "The NIC could not be opened, and is tried again.",
	 "no permission for /dev/infiniband, the driver is not ready, the NIC is being reset",
	 "ls -l /dev/infiniband; rdma link; dmesg"},
	{LINE("speaks version"), "The peer's shift is of another version.", NULL,
	 "install the same version of shift on both hosts"},
	{LINE("shift-kvd has no room"), "The rendezvous is full.", NULL,
	 "shift-kvd status --job NAME"},
	{LINE("completion channels are not protected"),
	 "A completion channel takes three descriptors, and too few are left.", "ulimit -n",
	 "raise it"},
	{LINE("refuses a receive"), "The NIC does not take a receive: the connection leaves it.",
	 "the NIC is broken", "dmesg"},
	{LINE("has no key for"),
	 "A request uses memory that the backup NIC does not know: it fails.",
	 "memory not registered by ibv_reg_mr or a dmabuf variant", "shift-diag explain NO_KEY"},
	{LINE("link events cannot be received"), "A link that goes down is noticed later.",
	 "netlink is forbidden in this container", "the container's capabilities and seccomp"},
	{LINE("is the only RDMA device here"),
	 "There is no second NIC: a link that flaps is survived, a dead NIC is not.", NULL,
	 "shift-diag rails"},
	{LINE("in doubt"),
	 "So many requests may have been executed twice, or their result is lost. 0 is good.",
	 "a NIC whose rq_psn is not live, or that hung when it was left", "shift-diag rq-psn"},
	{LINE("met a failure unprotected"),
	 "A connection that was not protected was on a NIC whose link failed.", NULL,
	 "the reason behind it: shift-ctl status; shift-diag explain REASON"},
	{LINE("given up"), "The program got errors of this connection.",
	 "no NIC led to the peer for the give-up time", "shift-ctl events"},
};

const struct explain_table explain_log = {"message of shift", NULL, message,
					  EXPLAIN_COUNT(message)};

static const char *const state_text[] = {
#define TEXT(n, what) [SHIFT_ST_##n] = what,
	SHIFT_STATES(TEXT)
#undef TEXT
};

static const char *const reason_text[] = {
#define TEXT(n, what) [SHIFT_R_##n] = what,
	SHIFT_REASONS(TEXT)
#undef TEXT
};

const char *explain_means(enum explain_kind kind, const struct explanation *e)
{
	if (e->means)
		return e->means;
	if (kind == EXPLAIN_UNPROTECTED)
		return stats_unprotected_text((unsigned int)e->number);
	return kind == EXPLAIN_STATE ? state_text[e->number] : reason_text[e->number];
}

const struct explain_table *explain_table(enum explain_kind kind)
{
	static const struct explain_table *const tables[] = {
		[EXPLAIN_WC] = &explain_wc,
		[EXPLAIN_EVENT] = &explain_event,
		[EXPLAIN_MLX5_VENDOR] = &explain_mlx5_vendor,
		[EXPLAIN_MLX5_SYNDROME] = &explain_mlx5_syndrome,
		[EXPLAIN_BNXT_REQ] = &explain_bnxt_req,
		[EXPLAIN_BNXT_RSP] = &explain_bnxt_rsp,
		[EXPLAIN_EFA] = &explain_efa,
		[EXPLAIN_ERDMA] = &explain_erdma,
		[EXPLAIN_IRDMA] = &explain_irdma,
		[EXPLAIN_UNPROTECTED] = &explain_unprotected,
		[EXPLAIN_STATE] = &explain_state,
		[EXPLAIN_REASON] = &explain_reason,
		[EXPLAIN_LOG] = &explain_log,
	};

	return tables[kind];
}
