/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Counters and flight recorder of this process: the writer, inside libshift.so (libc only). Where
 * they are and what is in them: layout.h.
 *
 * Every function is for any thread, may be called with locks held (one leaf lock inside) and never
 * waits for another process; none is for the data path. Without a file (a read-only /run, a full
 * disk) everything is a no-op, and slots are -1, which all functions take; so it is in a child of
 * fork().
 *
 * A connection's calls come in order, under its own lock:
 *
 *   slot = stats_conn_add(...)                        ibv_create_qp
 *   stats_conn_rails(), stats_conn_peer()             when known; again when it changes
 *   stats_conn_protect(slot, true, 0)                 HELLO matched
 *   stats_conn_fault(slot, since_ns, now)             before the core is told of a fault, if known
 *   stats_conn_change(slot, action, ...)              for each SHIFT_ACT_REPORT
 *   stats_conn_reposted(slot, now)                    after the ACT_POST_SEND of a commit is done
 *   stats_conn_update(slot, view, stats, now)         now and then (shift-ctl shows it)
 *   stats_conn_remove(slot)                           ibv_destroy_qp
 */
#ifndef SHIFT_STATS_STATS_H
#define SHIFT_STATS_STATS_H

#include "lib/stats/layout.h"

/*
 * Creates the file, 0600, in a directory of mode 0700. When the first RDMA device is opened; later
 * calls do nothing. report_dir: env.report_dir, may be empty. 0 or a negative errno: once, for the
 * log. -EPERM: the directory is not ours alone.
 */
int stats_open(const char *job, uint64_t nonce, const char *report_dir);

/*
 * Clean end of the process: moves the file into report_dir (as PID-TIME.stats) or, if that was
 * empty, removes it. summary gets the line of stats_summary(), without a newline. Later calls of
 * all functions are no-ops. Returns what stats_summary() did, or 0.
 */
int stats_close(char *summary, size_t bytes);

/* Path of the file, NULL without one; .sock beside it is control.h's. */
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

/* Whether the peer's NIC of that rail may be believed. */
void stats_conn_psn(int slot, unsigned int rail, enum stats_psn psn);

/* From the beginning a connection is unprotected for the reason SETUP. */
void stats_conn_protect(int slot, bool is_protected, enum stats_unprotected reason);

/*
 * The next switch is due to a fault of the connection's rail that began (or whose last sign of life
 * came) at since_ns: the kernel's link event, the first probe missed, the oldest request without an
 * answer. The earliest counts; forgotten after a switch, after 60 s, and with 0: it was none. Other
 * than a link that is down, it must be repeated as long as it lasts: after 2 s without, it is over.
 */
void stats_conn_fault(int slot, uint64_t since_ns, uint64_t now_ns);

/*
 * The core changed its state: report is a SHIFT_ACT_REPORT; the view and statistics are those
 * after the call into the core, the same for all reports of one call. Writes the event, and keeps
 * the record of the switch.
 */
void stats_conn_change(int slot, const struct shift_action *report,
		       const struct shift_conn_view *view, const struct shift_conn_stats *stats,
		       uint64_t now_ns);

/* The phase (enum stats_phase) of a switch that a state is; -1: none. Any thread. */
int stats_phase_of(enum shift_state state);

/* All that a commit reposts has been posted: the end of the outage. */
void stats_conn_reposted(int slot, uint64_t now_ns);

void stats_conn_update(int slot, const struct shift_conn_view *view,
		       const struct shift_conn_stats *stats, uint64_t now_ns);

/* Folded into the totals; the slot may be used again. */
void stats_conn_remove(int slot, uint64_t now_ns);

/* An asynchronous event of a NIC that was survived was kept from the program. */
void stats_event_hidden(void);

/* A QP that has no slot and passes through. */
void stats_bypass(const char *nic, enum stats_unprotected reason);

/*
 * The line at exit, if anything happened: "2 connections moved 3 times (2 failovers, 1 fail-back),
 * longest outage 38 ms, 0 requests in doubt". Returns its length as snprintf does; 0: nothing to
 * say. In doubt are the requests that may have been executed twice and the atomics whose result was
 * lost: `counters` is the sum over all connections.
 */
int stats_summary(char *line, size_t bytes, const struct stats_now *now,
		  const struct shift_conn_stats *counters);

/* *to += *from. */
void stats_add_counters(struct shift_conn_stats *to, const struct shift_conn_stats *from);

#endif
