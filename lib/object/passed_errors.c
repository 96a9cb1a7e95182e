/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/object/passed_errors.h"

#include "lib/base/background.h"
#include "lib/stats/stats.h"

static void note_one(const char *nic, const struct ibv_wc *wc)
{
	struct stats_error e = {.nic = nic,
				.qpn = wc->qp_num,
				.status = wc->status,
				.vendor_err = wc->vendor_err,
				.is_flush = wc->status == IBV_WC_WR_FLUSH_ERR,
				.opcode = STATS_OPCODE_UNKNOWN,
				.fate = STATS_FATE_GIVEN};

	stats_wc_error(&e, now_ns());
}

void passed_errors_note(const struct vdev *dev, const struct ibv_wc *wc, int n)
{
	for (int i = 0; i < n; i++)
		if (wc[i].status != IBV_WC_SUCCESS)
			note_one(dev->ctx->device->name, wc + i);
}
