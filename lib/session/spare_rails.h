/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Which backups of a device are made. Each costs a copy of every registration, and a QP for every
 * connection. So of those that `auto` finds only the best has them, and the others are spare:
 * opened, with a control link and probes, and no more. One is made as soon as fewer than two rails
 * are good, that of the program among them, and stays then. If the peer makes it first, we follow
 * (doc/protocol.md, 7.53). Background thread; nothing locked.
 */
#ifndef SHIFT_SESSION_SPARE_RAILS_H
#define SHIFT_SESSION_SPARE_RAILS_H

#include "lib/nic/nic.h"

/* Makes the shadows and twins on that NIC, which is a backup of these devices now. */
void spare_rails_make_backups(struct nic *nic);

/* Looks whether a spare rail is needed: a link has changed. */
void spare_rails_look(void);

/* For vdev_on_rails_changed(). */
void spare_rails_changed(void *arg);

#endif
