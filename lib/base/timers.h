/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The timers' heap, for the loop of background.c: background thread only, or before it runs. */
#ifndef SHIFT_BASE_TIMERS_H
#define SHIFT_BASE_TIMERS_H

#include <stdint.h>

int timers_reserve(uint32_t count); /* 0 or -ENOMEM */
uint64_t timers_next_ns(void);	    /* UINT64_MAX: none */
void timers_run(uint64_t now);	    /* all that are due */

#endif
