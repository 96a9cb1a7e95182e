/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Error completions of queue pairs that shift leaves alone: for the flight recorder
 * (lib/stats/stats.h). Any thread; outside of all gates. */
#ifndef SHIFT_OBJECT_PASSED_ERRORS_H
#define SHIFT_OBJECT_PASSED_ERRORS_H

#include <infiniband/verbs.h>

#include "lib/object/device.h"

/* Notes those of n completions that are errors. All are of QPs without a connection, or are known
 * to be successes. */
void passed_errors_note(const struct vdev *dev, const struct ibv_wc *wc, int n);

#endif
