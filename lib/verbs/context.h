/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Contexts that the program opens: their data path pointers become ours. On its threads. */
#ifndef SHIFT_VERBS_CONTEXT_H
#define SHIFT_VERBS_CONTEXT_H

#include <infiniband/verbs.h>

/* A context that the program has got, by whatever way (open, import, mlx5dv); again does nothing.
 */
void context_opened(struct ibv_context *ctx);

/* The verb of that name. */
int hook_close_device(struct ibv_context *ctx);

#endif
