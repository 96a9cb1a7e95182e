/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A NIC of ours became ready, or its link or the trust in its rq_psn has changed. */
#ifndef SHIFT_SESSION_NIC_EVENTS_H
#define SHIFT_SESSION_NIC_EVENTS_H

#include "lib/nic/nic.h"

/* For nic_on_change(). Background thread. */
void nic_events_changed(struct nic *nic);

#endif
