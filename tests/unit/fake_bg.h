/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* bg_watch(), bg_unwatch() and bg_timer_set() of lib/base/background.h, without a thread: the test
 * turns the loop. */
#ifndef FAKE_BG_H
#define FAKE_BG_H

/* Runs the timers that are due, then waits at most that long for one turn. Returns how many
 * descriptors were ready. */
int fake_bg_turn(int timeout_ms);

/* Returns how many descriptors are watched. */
int fake_bg_watched(void);

#endif
