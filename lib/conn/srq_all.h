/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What an SRQ asks of all its QPs (struct srq_calls). */
#ifndef SHIFT_CONN_SRQ_ALL_H
#define SHIFT_CONN_SRQ_ALL_H

#include "lib/conn/vqp.h"

/* QPs are to leave NIC k, as receives are missing there (S18). Background thread, nothing locked.
 */
void srq_qps_evict(struct vsrq *s, unsigned int k);

/* All completions of its QPs are fed: what has completed is not missing. Nothing locked. */
void srq_qps_feed(struct vsrq *s);

#endif
