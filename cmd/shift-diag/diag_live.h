/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the commands that look at live processes share. One thread. */
#ifndef SHIFT_DIAG_LIVE_H
#define SHIFT_DIAG_LIVE_H

#include "cmd/live/live.h"
#include "cmd/shift-diag/diag.h"

/* Takes --job and --pid; passes over other letters. */
void diag_take_select(struct live_select *which, int letter, const char *value);

/* A warning if a connection is unprotected, was given up, or has requests in doubt, or a process
 * has died. */
int diag_live_verdict(const struct processes *found);

#endif
