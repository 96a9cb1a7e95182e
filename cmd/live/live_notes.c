/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Notes of queue pairs as lines for people. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/live/live.h"
#include "lib/stats/note_names.h"

const char *live_note_peer(char *to, size_t bytes, const struct stats_copy *copy,
			   const struct stats_note *n)
{
	const struct stats_conn *c = stats_conn_of(copy, n);
	struct stats_conn peer = {.peer_qpn = n->peer_qpn};

	if (!n->peer_qpn)
		return "-";
	memcpy(peer.peer_gid, n->peer_gid, sizeof(peer.peer_gid));
	if (c)
		memcpy(peer.peer_host, c->peer_host, sizeof(peer.peer_host));
	return live_peer(to, bytes, &peer);
}

/* Text that another host's library may know, and this one does not. */
static void show_name(const char *name, uint32_t number)
{
	if (*name == '?')
		printf("number %" PRIu32, number);
	else
		printf("%s", name);
}

static void show_place(const struct stats_copy *copy, const struct stats_note *n)
{
	char peer[128];

	printf(", NIC %s", shown(n->nic));
	if (n->peer_qpn)
		printf(", peer %s", live_note_peer(peer, sizeof(peer), copy, n));
}

/* What followed is counted until now: with --follow that is not all. */
static void show_run(const struct stats_note *n)
{
	char time[16];

	if (!n->more && !n->flushed)
		return;
	printf("; then");
	if (n->more)
		printf(" %" PRIu32 " more", n->more);
	if (n->more && n->flushed)
		printf(" and");
	if (n->flushed)
		printf(" %" PRIu32 " flushed", n->flushed);
	if (n->last_ns > n->time_ns)
		printf(" within %s", show_ns(time, n->last_ns - n->time_ns));
}

void live_show_error(const struct stats_copy *copy, const struct stats_note *n)
{
	printf("qpn %" PRIu32 " error completion ", n->qpn);
	show_name(stats_status_name(n->what), n->what);
	if (n->vendor_err)
		printf(" (vendor_err %#" PRIx32 ")", n->vendor_err);
	if (n->opcode != STATS_OPCODE_UNKNOWN)
		printf(" of a %s", stats_opcode_name(n->opcode));
	else if (n->queue == STATS_QUEUE_SEND)
		printf(" in the send queue");
	show_place(copy, n);
	printf(": %s", stats_fate_text(n->fate));
	if (!n->is_protected && n->qp)
		printf(", not protected (%s)", stats_unprotected_name(n->unprotected));
	show_run(n);
	putchar('\n');
}

void live_show_async(const struct stats_copy *copy, const struct stats_note *n)
{
	(void)copy;
	if (n->qpn)
		printf("qpn %" PRIu32 " ", n->qpn);
	printf("event ");
	show_name(stats_async_name(n->what), n->what);
	printf(", NIC %s", shown(n->nic));
	if (n->port)
		printf(" port %u", n->port);
	printf(": %s\n", stats_fate_text(n->fate));
}

void live_show_life(const struct stats_copy *copy, const struct stats_note *n)
{
	printf("qpn %" PRIu32 " ", n->qpn);
	if (n->what < STATS_QP_CREATED)
		printf("brought to ");
	show_name(stats_qp_state_name(n->what), n->what);
	show_place(copy, n);
	if (n->what == STATS_QP_CREATED && n->unprotected != STATS_UNPROTECTED_SETUP &&
	    !n->is_protected)
		printf(", not protected (%s)", stats_unprotected_name(n->unprotected));
	putchar('\n');
}
