/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* integrity-dlopen has no --rdma-cm: librdmacm would load libibverbs before it does. */
#include <stdlib.h>

#include "tests/clients/integrity/integrity.h"

const bool integrity_by_dlopen = true;

void cm_open(struct run *r, struct device *d)
{
	(void)r;
	(void)d;
	abort();
}

void cm_create_qp(struct lane *l, struct ibv_qp_init_attr_ex *attr)
{
	(void)l;
	(void)attr;
	abort();
}

void cm_connect(struct lane *l)
{
	(void)l;
	abort();
}

void cm_disconnect(struct run *r)
{
	(void)r;
	abort();
}

void cm_close_lane(struct lane *l)
{
	(void)l;
	abort();
}

void cm_close(void)
{
	abort();
}
