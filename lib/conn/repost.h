/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Posting from the log to a NIC: requests that a commit posts again, that were held during a
 * switch, or that wait for room or for a key. Any thread, between vqp_enter() and vqp_leave().
 */
#ifndef SHIFT_CONN_REPOST_H
#define SHIFT_CONN_REPOST_H

#include "lib/conn/vqp.h"

enum { SGES_MAX = 64 }; /* more than NICs accept in practice; QPs with more are not protected */

/* The wr_id of a request on a twin: the epoch, and whether it is a receive. */
#define TWIN_EPOCH_SHIFT 32
#define TWIN_RECV	 1ull

/* Carry out the actions POST_SEND and POST_RECV. The sends are posted by repost_pump(), and so, by
 * repost_pump_recvs(), are receives whose memory is not registered on the rail yet. */
void repost_sends(struct vqp *v, const struct shift_action *a);
void repost_recvs(struct vqp *v, const struct shift_action *a);

/* Posts the sends that wait, until one must wait longer. true: lib/core was told that the rail
 * refuses them; vqp_act() is to follow. */
bool repost_pump(struct vqp *v);

/* May the next send that waits be posted now? */
bool repost_may_pump(const struct vqp *v);

/* Posts the next send that waits. 0 or a negative errno: -EAGAIN and -ENOMEM will pass; -EIO: it
 * failed, but the NIC has taken it (doc/protocol.md, V9); -ENOKEY: it names memory that the rail
 * has no key for. */
int repost_one(struct vqp *v);

/* The rail refuses the sends that wait, by that negative errno: tells lib/core, which posts them on
 * another rail, or ends the connection (-ENOKEY). vqp_act() is to follow. */
void repost_refused(struct vqp *v, int err);

/* Rail 0 has refused a request by that errno. Must the program be told? So it is if the request is
 * at fault, and not the NIC, or if there is no other rail. */
bool repost_is_for_program(const struct vqp *v, int err);

/* To be called before FENCE_DONE is told: tells lib/core that the sends that wait for that rail and
 * epoch never reached the NIC. vqp_act() is to follow. */
void repost_withdraw(struct vqp *v, uint8_t rail, uint32_t epoch);

/* Posts the receives that wait for memory. true: the rail refuses one; vqp_act() is to follow. */
bool repost_pump_recvs(struct vqp *v);

/* Posts the newest receive of the log to the QP of a rail, behind those that wait. 0, also if it
 * has to wait; or a negative errno. */
int repost_new_recv(struct vqp *v, int rail, const struct shift_recv_wr *wr);

/* The rail is fenced: no receive waits for it any more. */
void repost_withdraw_recvs(struct vqp *v, uint8_t rail);

/* The rail has refused a receive, by that negative errno. vqp_act() tells lib/core, which leaves
 * the rail (doc/protocol.md, T2), or ends the connection (-ENOKEY). */
void repost_recv_refused(struct vqp *v, uint8_t rail, int err);

/* A request as verbs have it. The SGEs stay where they are. */
void wr_from_log(struct ibv_send_wr *wr, const struct shift_wr *from);

/* Replaces the program's lkeys by those of the twin's rail, and adds up the bytes. 0; -EAGAIN, the
 * memory is not there yet: memlock_registered() goes on; -ENOBUFS: the NIC refuses it; -ENOKEY. */
int twin_lkeys(struct vqp *v, uint8_t rail, struct shift_sge *sge, uint32_t n, uint32_t *length);

/* vqp_act() does so by this. */
void repost_tell_recv_refused(struct vqp *v);

#endif
