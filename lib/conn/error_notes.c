/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/error_notes.h"

#include "lib/base/background.h"

static struct stats_error describe(const struct vqp *v, bool is_recv, const struct ibv_wc *wc)
{
	return (struct stats_error){.nic = v->dev->nic[0]->name,
				    .qpn = v->qpn,
				    .status = wc->status,
				    .vendor_err = wc->vendor_err,
				    .is_flush = wc->status == IBV_WC_WR_FLUSH_ERR,
				    .queue = is_recv ? STATS_QUEUE_RECV : STATS_QUEUE_SEND};
}

/* The opcode of an error completion is undefined. */
void error_note(const struct vqp *v, uint8_t rail, bool is_recv, const struct ibv_wc *wc,
		bool given)
{
	struct stats_error e;

	if (wc->status == IBV_WC_SUCCESS)
		return;
	e = describe(v, is_recv, wc);
	e.at = rail ? v->dev->nic[rail]->name : NULL;
	e.rail = rail;
	e.epoch = rail ? v->rails.armed_epoch[rail] : v->hot.rail0_epoch;
	e.opcode = is_recv ? IBV_WC_RECV : STATS_OPCODE_UNKNOWN;
	e.fate = given ? STATS_FATE_GIVEN : STATS_FATE_HIDDEN;
	stats_wc_error(&e, now_ns());
}

void error_note_made(const struct vqp *v, bool is_recv, const struct ibv_wc *wc)
{
	struct stats_error e;

	if (wc->status == IBV_WC_SUCCESS)
		return;
	e = describe(v, is_recv, wc);
	e.opcode = (uint8_t)wc->opcode;
	e.fate = STATS_FATE_MADE;
	stats_wc_error(&e, now_ns());
}
