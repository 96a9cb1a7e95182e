/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* bg_watch() and bg_unwatch() of lib/base/background.h, without a thread: the test turns the loop.
 */
#ifndef FAKE_BG_H
#define FAKE_BG_H

/* Waits at most that long for one turn. Returns how many descriptors were ready. */
int fake_bg_turn(int timeout_ms);

/* Returns how many descriptors are watched. */
int fake_bg_watched(void);

#endif
