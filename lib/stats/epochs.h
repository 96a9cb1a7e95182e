/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Traffic by epochs: what each queue pair of this process sends in each epoch of some microseconds,
 * as the program's posts and polls show it. "Fine-grained and Non-intrusive LLM Training Monitoring
 * via Microsecond-level Traffic Measurement" (ASPLOS '26) takes it from the NIC; a library only
 * knows when a work request was posted, and when its completion was polled. Its bytes are spread
 * over the time from its post, or the completion before it if that came later, to its own.
 *
 * Off unless epochs_open() was called. One file and one lock in a process (a leaf, held for some
 * dozens of instructions); all that is here may be called by any thread, and does nothing in a
 * child of fork(). libc only. A queue pair is named by its NIC and its QPN.
 */
#ifndef SHIFT_STATS_EPOCHS_H
#define SHIFT_STATS_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

/* Makes PID.epochs. epoch_ns: the length of an epoch, not 0. 0 or a negative errno. */
int epochs_open(const char *job, uint64_t epoch_ns);

/* The process ends: the file is removed. */
void epochs_close(void);

/* number: of the queue pair in the statistics; 0: it has none, and is not followed. sig_all: each
 * send has a completion. */
void epochs_qp_created(const char *nic, uint32_t qpn, uint64_t number, bool sig_all);

/* RESET: what was outstanding has no completion any more. */
void epochs_qp_reset(const char *nic, uint32_t qpn);

/* Unless another one has its QPN by now. */
void epochs_qp_destroyed(const char *nic, uint32_t qpn, uint64_t number);

/*
 * About to be posted: a work request that sends so many bytes (0 for a READ). And after the call
 * of the provider: how many it has taken, and how many of the last it has not. If two threads post
 * to one queue pair, and one of them is refused, the bytes of the other's may be taken for its own.
 */
void epochs_posting(const char *nic, uint32_t qpn, uint64_t bytes, bool signaled, uint64_t now_ns);
void epochs_posted(const char *nic, uint32_t qpn, uint32_t taken, uint32_t refused,
		   uint64_t now_ns);

/* The completion of a send. Without success nothing was sent, as far as one knows, and the queue
 * pair's further work requests have an error, too. */
void epochs_completed(const char *nic, uint32_t qpn, bool success, uint64_t now_ns);

#endif
