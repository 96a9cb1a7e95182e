/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * From the log to a NIC: what a commit posts again, what was held during a switch, what waits for
 * room or for a key. Under vqp_enter(), unless stated.
 */
#ifndef SHIFT_CONN_REPOST_H
#define SHIFT_CONN_REPOST_H

#include "lib/conn/vqp.h"

enum { SGES_MAX = 64 }; /* more than any NIC accepts in practice; QPs with more are not protected */

/* wr_id on a twin: the epoch, and whether it is a receive. */
#define TWIN_EPOCH_SHIFT 32
#define TWIN_RECV	 1ull

/* The actions POST_SEND and POST_RECV. */
void repost_sends(struct vqp *v, const struct shift_action *a);
void repost_recvs(struct vqp *v, const struct shift_action *a);

/* Posts what waits, as far as it goes. true: lib/core was told of a refusal, and has actions. */
bool repost_pump(struct vqp *v);

/* May the next in line be posted now? */
bool repost_may_pump(const struct vqp *v);

/* The next in line. 0 or a negative errno: -EAGAIN and -ENOMEM will pass; -EIO if the NIC has it
 * all the same. */
int repost_one(struct vqp *v);

/* The rail refuses what waits: it goes elsewhere. lib/core is told, vqp_act() is to follow. */
void repost_refused(struct vqp *v, int err);

/* Refused on rail 0, by that errno, for what the program asked, or where no other rail would take
 * it: the program is told. */
bool repost_is_for_program(const struct vqp *v, int err);

/* Before a FENCE_DONE is told: what waits for that rail and epoch never reached the NIC. vqp_act()
 * is to follow. */
void repost_withdraw(struct vqp *v, uint8_t rail, uint32_t epoch);

/* A receive to the QP of a rail, with the keys and the wr_id that belong there. 0 or a negative
 * errno. */
int repost_recv(struct vqp *v, int rail, uint64_t wr_id, const struct shift_sge *sge, uint32_t n);

/* The rail cannot take our receives: it is not one to stay on. vqp_leave() tells lib/core. */
void repost_recv_refused(struct vqp *v, uint8_t rail, int err);

#endif
