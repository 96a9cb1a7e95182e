/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a refused post says. Header only. */
#ifndef SHIFT_BASE_POST_ERRORS_H
#define SHIFT_BASE_POST_ERRORS_H

#include <errno.h>
#include <stdbool.h>

/* Is the request at fault, and not the NIC? ENOSPC is a full queue to soft-RoCE's ibv_wr_*. */
static inline bool post_is_mistaken(int err)
{
	return err == ENOMEM || err == ENOSPC || err == EINVAL || err == EOPNOTSUPP ||
	       err == ENOTSUP;
}

#endif
