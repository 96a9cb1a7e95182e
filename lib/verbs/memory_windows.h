/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Memory windows, which have no twin. */
#ifndef SHIFT_VERBS_MEMORY_WINDOWS_H
#define SHIFT_VERBS_MEMORY_WINDOWS_H

#include "lib/conn/vqp.h"

/* A new connection: its domain may have memory windows. Nothing entered. */
void memory_windows_check(struct vqp *v);

/* Put into the program's contexts. On its threads. */
struct ibv_mw *hook_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int hook_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

#endif
