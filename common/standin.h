/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Stands in for the upper layers of the library in programs that use lib/nic alone: shift-diag and
 * tests/clients/link_test. Never a part of libshift.so.
 */
#ifndef SHIFT_COMMON_STANDIN_H
#define SHIFT_COMMON_STANDIN_H

#include "lib/base/log.h"

/* Messages up to this level go to standard error; at first all. To be set before threads start. */
extern enum log_level standin_log_level;

/* Before anything of lib/nic: the real verbs are plainly libibverbs'. */
void standin_init(void);

#endif
