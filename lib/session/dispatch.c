/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/dispatch.h"

#include <string.h>

#include "lib/conn/conn_lock.h"
#include "lib/conn/exported_keys.h"
#include "lib/conn/peer_keys.h"
#include "lib/session/bye.h"
#include "lib/session/deaths.h"
#include "lib/session/disconnects.h"
#include "lib/session/peer_paths.h"
#include "lib/session/rendezvous.h"
#include "lib/session/tombstones.h"

/* Is it from the life of the peer's QP that this life of ours has met? lib/core asks the same, but
 * does not see the messages about keys. */
static bool is_from_peer(const struct vqp *v, const struct shift_msg *m)
{
	return v->setup.met && m->src_nonce == v->setup.peer_nonce &&
	       m->src_conn == v->setup.peer_id;
}

/* A record that is not as long as its kind is of a session that we do not understand. */
static void dispatch_session(const struct nic *nic, const struct shift_msg *m)
{
	union {
		uint8_t kind;
		struct session_alive alive;
		struct session_conn conn;
		struct session_probe probe;
		struct session_bye bye;
		struct session_end end;
	} u;

	if (m->blob_bytes > sizeof(u))
		return;
	memcpy(&u, m->blob, m->blob_bytes);
	if (u.kind == SESSION_ALIVE && m->blob_bytes == sizeof(u.alive))
		alive_heard(m->src_nonce, &u.alive);
	else if (u.kind == SESSION_CONN && m->blob_bytes == sizeof(u.conn))
		rendezvous_heard(nic, m->src_nonce, &u.conn);
	else if (u.kind == SESSION_PROBE && m->blob_bytes == sizeof(u.probe))
		peer_paths_probe_heard(m->src_nonce, &u.probe);
	else if (u.kind == SESSION_BYE && m->blob_bytes == sizeof(u.bye))
		bye_heard(m);
	else if (u.kind == SESSION_END && m->blob_bytes == sizeof(u.end))
		disconnect_heard(m, &u.end);
}

void dispatch_message(struct nic *nic, const struct shift_msg *m)
{
	struct vqp *v = vqp_by_id(m->dst_conn);
	uint32_t rails = v ? vqp_rails_heard(v, nic) : 0;

	if (m->type == SHIFT_MSG_SESSION) {
		dispatch_session(nic, m);
		return;
	}
	if (!v) {
		tombstone_answer(nic, m);
		return;
	}
	if (!rails || !is_from_peer(v, m))
		return;
	vqp_enter(v);
	if (m->dst_conn != v->id || !is_from_peer(v, m)) { /* RESET meanwhile */
		vqp_leave(v);
		return;
	}
	if (m->type == SHIFT_MSG_KEY_ASK) {
		exported_keys_asked(v, m);
	} else if (m->type == SHIFT_MSG_KEY_FORGOT) {
		exported_keys_forgotten(v, m);
	} else if (m->type == SHIFT_MSG_KEY || m->type == SHIFT_MSG_KEY_GONE) {
		peer_keys_message(v, m);
	} else {
		struct shift_event ev = {.type = SHIFT_EV_MSG, .msg = m};

		shift_event_of(&ev, rails);
		if (!pause_event(v, &ev))
			shift_conn_event(v->conn, &ev, now_ns());
	}
	vqp_leave(v);
}
