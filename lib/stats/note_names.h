/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The names of what notes have by number (struct stats_note), for the tools: libibverbs's, without
 * their prefix. For any thread, no lock. An unknown number has the name "?". */
#ifndef SHIFT_STATS_NOTE_NAMES_H
#define SHIFT_STATS_NOTE_NAMES_H

#include "lib/stats/layout.h"

const char *stats_status_name(unsigned int status);    /* RETRY_EXC_ERR */
const char *stats_async_name(unsigned int event);      /* PORT_ERR */
const char *stats_qp_state_name(unsigned int state);   /* RTS, created, destroyed */
const char *stats_opcode_name(unsigned int wc_opcode); /* RDMA_WRITE */
const char *stats_queue_name(unsigned int queue);      /* send, receive */

#endif
