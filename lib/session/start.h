/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The start and the end of shift in a process. The first device that the program opens starts
 * everything: the background thread, the statistics, the rendezvous. */
#ifndef SHIFT_SESSION_START_H
#define SHIFT_SESSION_START_H

#include <infiniband/verbs.h>

/* To be called for each context that the program gets in any way (open, import, mlx5dv); ctx may be
 * NULL. Returns ctx; errno is kept. On the program's threads, nothing locked. */
struct ibv_context *hook_opened(struct ibv_context *ctx);

#endif
