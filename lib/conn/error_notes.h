/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Error completions of connections, for the flight recorder (lib/stats/stats.h). Any thread, under
 * vqp.lock. */
#ifndef SHIFT_CONN_ERROR_NOTES_H
#define SHIFT_CONN_ERROR_NOTES_H

#include "lib/conn/vqp.h"

/* A completion that the NIC of a rail has made, as it has made it; nothing is noted of a success.
 * given: the program gets it. */
void error_note(const struct vqp *v, uint8_t rail, bool is_recv, const struct ibv_wc *wc,
		bool given);

/* A completion that the program gets from us. */
void error_note_made(const struct vqp *v, bool is_recv, const struct ibv_wc *wc);

#endif
