/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The first device that the program opens starts everything: the background thread, the statistics,
 * the rendezvous. */
#ifndef SHIFT_SESSION_START_H
#define SHIFT_SESSION_START_H

#include <infiniband/verbs.h>

/* A context that the program has got, by whatever way (open, import, mlx5dv). ctx may be NULL.
 * Returns ctx; errno stays. On the program's threads. */
struct ibv_context *hook_opened(struct ibv_context *ctx);

#endif
