/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The heap of timers, for the loop of background.c. Background thread only, or before it runs; no
 * locks. bg_timer_set() (background.h) is defined beside it. Timers belong to their callers. */
#ifndef SHIFT_BASE_TIMERS_H
#define SHIFT_BASE_TIMERS_H

#include <stdint.h>

int timers_reserve(uint32_t count); /* makes room for so many; 0 or -ENOMEM */
uint64_t timers_next_ns(void);	    /* when the earliest is due; UINT64_MAX: there is none */
void timers_run(uint64_t now);	    /* runs all that are due */

#endif
