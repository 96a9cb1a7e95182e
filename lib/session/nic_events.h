/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What follows when a NIC of ours changes: it became ready, its link changed, or whether its rq_psn
 * is live is known now. */
#ifndef SHIFT_SESSION_NIC_EVENTS_H
#define SHIFT_SESSION_NIC_EVENTS_H

#include "lib/nic/nic.h"

/* For nic_on_change(): background thread, nothing locked. */
void nic_events_changed(struct nic *nic);

/* For nic_on_event(): background thread, nothing locked. */
void nic_events_happened(struct nic *nic, const struct ibv_async_event *event);

#endif
