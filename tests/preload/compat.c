// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* A program of 2006, linked with version 1.0 of the verbs: must not reach newer ones. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>

#include "tests/nullverbs/nullverbs.h"

__asm__(".symver ibv_open_device, ibv_open_device@IBVERBS_1.0");
__asm__(".symver ibv_create_qp, ibv_create_qp@IBVERBS_1.0");

int main(void)
{
	struct ibv_qp_init_attr attr = {.qp_context = NULL};

	errno = 0;
	if (ibv_open_device(NULL) || errno != NULL_COMPAT_ERRNO)
		return 1;
	errno = 0;
	if (ibv_create_qp(NULL, &attr) || errno != NULL_COMPAT_ERRNO)
		return 1;
	puts("1.0");
	return 0;
}
