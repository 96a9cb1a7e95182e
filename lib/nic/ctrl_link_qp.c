/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The UD QP of a control link: posting to it, polling, and rebuilding it when it has failed
 * (doc/protocol.md, V21). */
#include <string.h>
#include <sys/epoll.h>

#include "lib/base/background.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/base/worker.h"
#include "lib/nic/ctrl_link_int.h"
#include "lib/nic/nic.h"

enum { POLL_AT_ONCE = 16 };

#define REBUILD_PAUSE_NS 50000000ull

static struct ctrl_link links[NICS_MAX] = {
	[0 ... NICS_MAX - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

struct ctrl_link *ctrl_link_at(unsigned int nic_index)
{
	return nic_index < NICS_MAX ? &links[nic_index] : NULL;
}

uint8_t *ctrl_link_send_buffer(struct ctrl_link *l, unsigned int slot)
{
	return l->memory + l->receives * l->receive_bytes + (size_t)slot * l->own.mtu_bytes;
}

/* ---- receiving ----------------------------------------------------------------------------- */

static int post_receive(struct ctrl_link *l, uint64_t i)
{
	struct ibv_sge sge = {.addr = (uintptr_t)(l->memory + i * l->receive_bytes),
			      .length = (uint32_t)l->receive_bytes,
			      .lkey = l->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(l->qp, &wr, &bad);
}

/* Has the link rebuilt. Nothing is posted or polled until then. Under the lock. */
static void link_mark_broken(struct ctrl_link *l)
{
	if (l->state != LINK_UP)
		return;
	l->state = LINK_BROKEN;
	bg_call(&l->broken_call);
}

/* Copies the next datagram to buf, and posts its receive again at once. Returns its length; 0: it
 * is bad; -1: there is none. */
static ssize_t link_take_datagram(struct ctrl_link *l, void *buf)
{
	struct ibv_wc wc;
	ssize_t bytes = -1;

	pthread_mutex_lock(&l->lock);
	if (l->state == LINK_UP && ibv_poll_cq(l->recv_cq, 1, &wc) > 0) {
		bytes = 0;
		if (wc.status != IBV_WC_SUCCESS) {
			link_mark_broken(l);
		} else {
			l->stats.received++;
			if (wc.byte_len > GRH_BYTES && wc.byte_len <= l->receive_bytes)
				bytes = wc.byte_len - GRH_BYTES;
			memcpy(buf, l->memory + wc.wr_id * l->receive_bytes + GRH_BYTES,
			       (size_t)bytes);
			if (post_receive(l, wc.wr_id))
				link_mark_broken(l);
		}
	}
	pthread_mutex_unlock(&l->lock);
	return bytes;
}

static void link_receive(struct ctrl_link *l)
{
	static uint8_t buf[SHIFT_MSG_DATAGRAM_MAX]; /* background thread only */
	ssize_t bytes;

	/* At most as many as the ring holds, because others wait for this thread, too. */
	for (unsigned int i = 0; i < LINK_RECEIVES_MAX; i++) {
		bytes = link_take_datagram(l, buf);
		if (bytes < 0)
			return;
		ctrl_link_received(l, buf, (size_t)bytes);
	}
	bg_call(&l->watch_call);
}

void ctrl_link_arm_cqs(struct ctrl_link *l)
{
	ibv_req_notify_cq(l->recv_cq, 0);
	/* Solicited only: an error makes an event, the many successes do not. */
	ibv_req_notify_cq(l->send_cq, 1);
}

static void link_channel_ready(void *arg, uint32_t events)
{
	struct ctrl_link *l = arg;
	struct ibv_cq *cq;
	void *context;

	while (!real.get_cq_event(l->channel, &cq, &context))
		real.ack_cq_events(cq, 1);
	if (events & (EPOLLERR | EPOLLHUP))
		bg_unwatch(l->channel->fd); /* the device was removed */
	ctrl_link_arm_cqs(l);
	pthread_mutex_lock(&l->lock);
	if (l->state == LINK_UP)
		ctrl_link_reap_sends(l);
	pthread_mutex_unlock(&l->lock);
	link_receive(l);
}

/* ---- sending ------------------------------------------------------------------------------- */

static void free_slot(struct ctrl_link *l, unsigned int slot)
{
	l->owner[slot] = NULL;
	l->free[l->free_count++] = (uint8_t)slot;
}

void ctrl_link_reap_sends(struct ctrl_link *l)
{
	struct ibv_wc wc[POLL_AT_ONCE];
	int n;

	do {
		n = ibv_poll_cq(l->send_cq, POLL_AT_ONCE, wc);
		for (int i = 0; i < n; i++) {
			struct ctrl_link_peer *peer = l->owner[wc[i].wr_id];

			free_slot(l, (unsigned int)wc[i].wr_id);
			if (wc[i].status == IBV_WC_SUCCESS) {
				l->rebuilds_since_send = 0;
				continue;
			}
			l->stats.dropped++;
			if (peer && wc[i].status != IBV_WC_WR_FLUSH_ERR)
				peer->ah_stale = true;
			link_mark_broken(l);
		}
	} while (n == POLL_AT_ONCE);
}

void ctrl_link_post(struct ctrl_link *l, struct ctrl_link_peer *peer, size_t bytes)
{
	struct ibv_sge sge = {.length = (uint32_t)bytes, .lkey = l->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {.ah = peer->ah,
					   .remote_qpn = peer->addr.qpn,
					   .remote_qkey = peer->addr.qkey}};
	struct ibv_send_wr *bad;
	unsigned int slot;

	ctrl_link_reap_sends(l);
	if (l->state != LINK_UP || !l->free_count || bytes > l->own.mtu_bytes) {
		l->stats.dropped++;
		return;
	}
	slot = l->free[--l->free_count];
	l->owner[slot] = peer;
	memcpy(ctrl_link_send_buffer(l, slot), peer->buf, bytes);
	sge.addr = (uintptr_t)ctrl_link_send_buffer(l, slot);
	wr.wr_id = slot;
	if (ibv_post_send(l->qp, &wr, &bad)) {
		/* It may have been queued nevertheless (V9): rebuilding frees the slot. */
		l->stats.dropped++;
		link_mark_broken(l);
		return;
	}
	l->stats.sent++;
}

/* ---- arming and rebuilding ------------------------------------------------------------- */

int ctrl_link_to_rts(struct ctrl_link *l)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = l->nic->port, .qkey = l->own.qkey};
	int err = real.modify_qp(l->qp, &attr,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	for (unsigned int i = 0; i < l->receives && !err; i++)
		err = post_receive(l, i);
	attr.qp_state = IBV_QPS_RTR;
	if (!err)
		err = real.modify_qp(l->qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	if (!err)
		err = real.modify_qp(l->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return -err;
}

/* After a RESET nothing is in the QP. What the CQs still hold is discarded. */
void ctrl_link_discard_all(struct ctrl_link *l)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(l->recv_cq, 1, &wc) > 0 || ibv_poll_cq(l->send_cq, 1, &wc) > 0)
		;
	l->free_count = 0;
	for (unsigned int i = 0; i < LINK_SENDS; i++)
		free_slot(l, i);
}

static void link_rebuild(struct job *job)
{
	struct ctrl_link *l = (struct ctrl_link *)((char *)job -
						   offsetof(struct ctrl_link, rebuild_job));
	int err = -nic_reset_qp(l->nic, l->qp);

	pthread_mutex_lock(&l->lock);
	ctrl_link_discard_all(l);
	pthread_mutex_unlock(&l->lock);
	/* Without the lock, as nobody else touches the QP of a broken link. */
	if (!err)
		err = ctrl_link_to_rts(l);
	ctrl_link_arm_cqs(l);
	pthread_mutex_lock(&l->lock);
	l->rebuilding = false;
	l->rebuilt_at_ns = now_ns();
	l->rebuilds_since_send++;
	if (!err) {
		l->state = LINK_UP;
		l->stats.rebuilt++;
	}
	pthread_mutex_unlock(&l->lock);
	/* What arrived before the CQ was armed makes no event, so poll once. */
	bg_call(err ? &l->broken_call : &l->watch_call);
	log_debug("%s: control link rebuilt: %s", l->nic->name, err ? strerror(-err) : "ok");
}

static void rebuild_start(void *arg)
{
	struct ctrl_link *l = arg;
	bool wanted;

	pthread_mutex_lock(&l->lock);
	wanted = l->state == LINK_BROKEN && !l->rebuilding;
	l->rebuilding |= wanted;
	pthread_mutex_unlock(&l->lock);
	if (wanted)
		worker_submit(l->nic->worker, &l->rebuild_job);
}

/* Rebuilds after a pause, which grows: while the port is down, the next send breaks the QP again.
 */
static void rebuild_schedule(void *arg)
{
	struct ctrl_link *l = arg;
	uint64_t now = now_ns(), at;

	pthread_mutex_lock(&l->lock);
	at = l->rebuilt_at_ns +
	     (REBUILD_PAUSE_NS << (l->rebuilds_since_send < 6 ? l->rebuilds_since_send : 6));
	pthread_mutex_unlock(&l->lock);
	bg_timer_set(&l->rebuild_timer, at > now ? at : now);
}

/* On the background thread: once at the start, and again if one turn did not take all datagrams. */
static void link_watch(void *arg)
{
	struct ctrl_link *l = arg;
	int err = bg_watch(l->channel->fd, EPOLLIN, link_channel_ready, l);

	if (err)
		log_error("%s: messages of peers cannot be received (%s): connections cannot move "
			  "to this NIC",
			  l->nic->name, strerror(-err));
	link_channel_ready(l, 0);
}

void ctrl_link_init_jobs(struct ctrl_link *l)
{
	l->rebuild_job.fn = link_rebuild;
	l->broken_call = (struct bg_call){.fn = rebuild_schedule, .arg = l};
	l->watch_call = (struct bg_call){.fn = link_watch, .arg = l};
	l->rebuild_timer = (struct bg_timer){.fn = rebuild_start, .arg = l};
}
