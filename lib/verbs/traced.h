/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * SHIFT_TRACE=epochs: the program's posts and polls go through here, and on to the data path, which
 * knows nothing of it and pays nothing for it where it is off. Any thread, as the verbs.
 */
#ifndef SHIFT_VERBS_TRACED_H
#define SHIFT_VERBS_TRACED_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* A context has got our functions: now those that record. Does nothing where it is off. */
void traced_take_over(struct ibv_context *ctx);

/* Around a post of a list. */
/* Returns how many they are: when they have been posted the program may have used them again. */
uint32_t traced_posting(struct ibv_qp *qp, const struct ibv_send_wr *first);
void traced_posted(struct ibv_qp *qp, uint32_t n, uint32_t refused);

#endif
