/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Memory windows. They have no shadow, so the connections of their protection domain are released.
 */
#ifndef SHIFT_VERBS_MEMORY_WINDOWS_H
#define SHIFT_VERBS_MEMORY_WINDOWS_H

#include "lib/conn/vqp.h"

/* A new connection: releases it if its domain has memory windows. Any thread, nothing locked. */
void memory_windows_check(struct vqp *v);

/* ibv_alloc_mw() and ibv_bind_mw(), put into the program's contexts. On the program's threads;
 * parameters, results and errors are the verbs'. */
struct ibv_mw *hook_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int hook_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

#endif
