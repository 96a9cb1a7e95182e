/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * CQs of ibv_create_cq_ex(), which a program polls by ibv_start_poll(), and as it likes by
 * ibv_poll_cq(), too. One completion at a time is polled as ibv_poll_cq() does, and the program
 * reads that, wherever it came from. What ibv_poll_cq() does not tell (timestamps, VLANs, flow tags
 * and the like) is not there, so QPs on a CQ that was asked for it are not protected.
 */
#ifndef SHIFT_VERBS_CQ_EX_H
#define SHIFT_VERBS_CQ_EX_H

#include <infiniband/verbs.h>

#include "lib/object/device.h"

/* The verb: its parameters, result and errors. On the program's threads, nothing locked. */
struct ibv_cq_ex *hook_create_cq_ex(struct vdev *dev, struct ibv_cq_init_attr_ex *attr);

#endif
