/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Counters and flight recorder of this process: the writer, inside libshift.so (libc only).
 * layout.h says where they are and what is in them. All of the room lib/stats that libshift.so
 * calls is here; stats.c, srq_stats.c, notes.c, stats_file.c and switch_record.c do it.
 *
 * Every function is for any thread and may be called with locks held, as it takes one leaf lock.
 * None waits for another process; none is for the data path. Without a file (/run is read-only, or
 * the disk is full) every function does nothing and every slot is -1, which all accept. The same
 * holds in a child of fork().
 *
 * The caller serializes the calls of one connection by that connection's own lock. They come in
 * this order:
 *
 *   slot = stats_conn_add(...)                        ibv_create_qp
 *   stats_conn_rails(), stats_conn_peer()             when known; again when it changes
 *   stats_conn_protect(slot, true, 0)                 HELLO matched
 *   stats_conn_fault(slot, since_ns, now)             a fault is known, before the core hears of it
 *   stats_conn_change(slot, action, ...)              for each SHIFT_ACT_REPORT
 *   stats_conn_reposted(slot, now)                    after the ACT_POST_SEND of a commit is done
 *   stats_conn_update(slot, view, stats, now)         now and then, for shift-ctl
 *   stats_conn_remove(slot)                           ibv_destroy_qp
 */
#ifndef SHIFT_STATS_STATS_H
#define SHIFT_STATS_STATS_H

#include "lib/stats/layout.h"

/*
 * Creates the file, 0600, in a directory of mode 0700. The library calls it when the program opens
 * its first RDMA device; later calls do nothing. report_dir: env.report_dir, may be empty. 0, or a
 * negative errno for the log; -EPERM: the directory is not ours alone.
 */
int stats_open(const char *job, uint64_t nonce, const char *report_dir);

/*
 * Clean end of the process: moves the file into report_dir (as PID-TIME.stats) or, if report_dir is
 * empty, removes it. summary gets the line of stats_summary(), without a newline. After it, every
 * function does nothing. Returns what stats_summary() did, or 0. If a change is not finished within
 * 100 ms (this thread may have begun it before the signal in whose handler it ends), the file stays
 * as it is, like that of a process that was killed.
 */
int stats_close(char *summary, size_t bytes);

/* Path of the file; NULL: there is none. The control socket beside it is PID.sock. */
const char *stats_path(void);

/* The slot of a new QP, or -1. nic: the program's. */
int stats_conn_add(const char *nic, uint32_t qpn, uint64_t now_ns);

/* NICs of rails 0 .. rails - 1. */
void stats_conn_rails(int slot, unsigned int rails, const char *const *nics);

struct stats_peer {
	const uint8_t *gid, *peer_gid; /* 16 bytes each; NULL: not known */
	uint32_t peer_qpn, peer_pid;
	uint64_t peer_nonce;
	const char *peer_host; /* NULL: not known */
};
void stats_conn_peer(int slot, const struct stats_peer *peer);

/* Whether the rq_psn of the peer's NIC of that rail may be believed. */
void stats_conn_psn(int slot, unsigned int rail, enum stats_psn psn);

/* From the beginning a connection is unprotected for the reason SETUP. */
void stats_conn_protect(int slot, bool is_protected, enum stats_unprotected reason);

/* So long it was set up but not protected yet, in its newest life. */
void stats_conn_setup(int slot, uint64_t setup_ns);

/*
 * The connection's rail has a fault, which will be the cause of the next switch. It began at
 * since_ns: the kernel's link event, the first missed probe, or the oldest request without an
 * answer. Of several reports the earliest counts. It is forgotten after a switch, after 60 s, and
 * by a report with since_ns 0: it was no fault. A link that is down is reported once. Any other
 * fault must be reported again as long as it lasts: after 2 s without a report it is over.
 */
void stats_conn_fault(int slot, uint64_t since_ns, uint64_t now_ns);

/* An error that a failing network causes reached the program, or the link of a NIC went down: the
 * connection, or those of that NIC, count in the line at exit, once each, if they never were
 * protected. */
void stats_conn_met_failure(int slot);
void stats_nic_met_failure(const char *nic);

/*
 * The core changed its state: report is a SHIFT_ACT_REPORT. view and stats are those after the call
 * into the core, the same for all reports of one call. Writes the event, and keeps the record of
 * the switch.
 */
void stats_conn_change(int slot, const struct shift_action *report,
		       const struct shift_conn_view *view, const struct shift_conn_stats *stats,
		       uint64_t now_ns);

/* The phase (enum stats_phase) of a switch that belongs to a state; -1: none. */
int stats_phase_of(enum shift_state state);

/* All requests that a commit reposts are posted: the end of the outage. */
void stats_conn_reposted(int slot, uint64_t now_ns);

void stats_conn_update(int slot, const struct shift_conn_view *view,
		       const struct shift_conn_stats *stats, uint64_t now_ns);

/* Adds the connection's counters to the totals; the slot may be used again. */
void stats_conn_remove(int slot, uint64_t now_ns);

/* The library survived an asynchronous event of a NIC and hid it from the program. */
void stats_event_hidden(void);

/*
 * What happens to queue pairs, also to those without a slot, for the flight recorder (struct
 * stats_note). A QP is known by its NIC, the program's, and its number, from its creation to its
 * destruction. What is said of another is noted, but nothing is known of it.
 *
 * slot: that of its connection, which was added before; or -1, and why it has none.
 */
void stats_qp_created(const char *nic, uint32_t qpn, int slot, enum stats_unprotected why,
		      uint64_t now_ns);

/* The program has brought it to this state (enum ibv_qp_state). peer: its peer_qpn and peer_gid are
 * known now; else NULL. */
void stats_qp_state(const char *nic, uint32_t qpn, uint8_t state, const struct stats_peer *peer,
		    uint64_t now_ns);

/* Its number in notes, to be asked for before the QP is destroyed, as after that another may have
 * its QPN at once; 0: it is not known. Then: it was destroyed. */
uint64_t stats_qp_number(const char *nic, uint32_t qpn);
void stats_qp_destroyed(const char *nic, uint32_t qpn, uint64_t number, uint64_t now_ns);

/* A completion that is no success. */
struct stats_error {
	const char *nic; /* and qpn: of the program's QP */
	uint32_t qpn;
	const char *at; /* the NIC that it is of; NULL: the same */
	uint32_t status, vendor_err;
	uint32_t epoch;
	bool is_flush; /* the status is IBV_WC_WR_FLUSH_ERR */
	uint8_t rail;
	uint8_t opcode; /* STATS_OPCODE_UNKNOWN: the NIC does not tell */
	enum stats_queue queue;
	enum stats_fate fate;
};
void stats_wc_error(const struct stats_error *e, uint64_t now_ns);

/* An asynchronous event that the program has asked for. */
struct stats_async {
	const char *nic;
	uint32_t qpn;	/* 0: it is not of a QP */
	uint32_t event; /* enum ibv_event_type */
	uint8_t port;	/* 0: it is not of a port */
	enum stats_fate fate;
};
void stats_async_event(const struct stats_async *e, uint64_t now_ns);

/* A QP without a slot: the library lets its calls through. */
void stats_bypass(const char *nic, enum stats_unprotected reason);

/*
 * The slot of a new shared receive queue, or -1. NICs of rails 0 .. rails - 1; room: for so many
 * receives. The caller serializes the calls of one SRQ by that SRQ's own lock.
 */
int stats_srq_add(unsigned int rails, const char *const *nics, uint32_t room);

/* Now and then, for shift-ctl, and right before it is removed, for its counters. All of
 * *state counts, its room too. */
void stats_srq_update(int slot, const struct stats_srq_state *state);

/* Adds the SRQ's counters to the totals; the slot may be used again. */
void stats_srq_remove(int slot);

#endif
