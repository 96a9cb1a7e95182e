/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The contexts that the program opens: their data path pointers become ours. On the program's
 * threads. */
#ifndef SHIFT_VERBS_CONTEXT_H
#define SHIFT_VERBS_CONTEXT_H

#include <infiniband/verbs.h>

/* Takes over a context that the program has got in any way (open, import, mlx5dv). A second call
 * does nothing. If there is no memory, or no NIC of ours, everything on the context passes through.
 */
void context_opened(struct ibv_context *ctx);

/* The verb of that name: its parameters, result and errors. */
int hook_close_device(struct ibv_context *ctx);

#endif
