/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Set-up of a NIC's control link, and what a change of the NIC's addresses means to it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "lib/base/background.h"
#include "lib/base/real_verbs.h"
#include "lib/nic/ctrl_link.h"
#include "lib/nic/ctrl_link_int.h"

enum { RECEIVES_MIN = 16 };

static int link_get_memory(struct ctrl_link *l)
{
	for (l->receives = LINK_RECEIVES_MAX; l->receives >= RECEIVES_MIN; l->receives /= 4) {
		l->bytes = l->receives * l->receive_bytes + (size_t)LINK_SENDS * l->own.mtu_bytes;
		l->memory = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (l->memory == MAP_FAILED) {
			l->memory = NULL;
			continue;
		}
		/* A fork of the program must not move the pages from under the NIC. */
		madvise(l->memory, l->bytes, MADV_DONTFORK);
		l->mr = real.reg_mr(l->nic->pd, l->memory, l->bytes, IBV_ACCESS_LOCAL_WRITE);
		if (l->mr)
			return 0;
		munmap(l->memory, l->bytes); /* RLIMIT_MEMLOCK may allow less */
		l->memory = NULL;
	}
	return -ENOMEM;
}

static int link_create(struct ctrl_link *l)
{
	struct ibv_context *ctx = l->nic->ctx;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = LINK_SENDS, .max_send_sge = 1, .max_recv_sge = 1}};
	int err = link_get_memory(l);

	if (err)
		return err;
	l->channel = real.create_comp_channel(ctx);
	if (!l->channel)
		return -errno;
	fcntl(l->channel->fd, F_SETFL, fcntl(l->channel->fd, F_GETFL) | O_NONBLOCK);
	l->send_cq = real.create_cq(ctx, LINK_SENDS, NULL, l->channel, 0);
	l->recv_cq = real.create_cq(ctx, (int)l->receives, NULL, l->channel, 0);
	if (!l->send_cq || !l->recv_cq)
		return -errno;
	attr.cap.max_recv_wr = l->receives;
	attr.send_cq = l->send_cq;
	attr.recv_cq = l->recv_cq;
	l->qp = real.create_qp(l->nic->pd, &attr);
	if (!l->qp)
		return -errno;
	l->own.qpn = l->qp->qp_num;
	ctrl_link_discard_all(l);
	err = ctrl_link_to_rts(l);
	ctrl_link_arm_cqs(l);
	return err;
}

static void link_destroy(struct ctrl_link *l)
{
	if (l->qp)
		real.destroy_qp(l->qp);
	if (l->recv_cq)
		real.destroy_cq(l->recv_cq);
	if (l->send_cq)
		real.destroy_cq(l->send_cq);
	if (l->channel)
		real.destroy_comp_channel(l->channel);
	if (l->mr)
		real.dereg_mr(l->mr);
	if (l->memory)
		munmap(l->memory, l->bytes);
	l->qp = NULL;
	l->recv_cq = l->send_cq = NULL;
	l->channel = NULL;
	l->mr = NULL;
	l->memory = NULL;
}

/* Random per process. The top bit is 0, or it would be a privileged Q_Key. */
static int random_qkey(uint32_t *qkey)
{
	do {
		if (getrandom(qkey, sizeof(*qkey), 0) != sizeof(*qkey))
			return -errno;
		*qkey &= 0x7fffffff;
	} while (!*qkey);
	return 0;
}

int ctrl_link_open(struct nic *nic)
{
	struct ctrl_link *l = ctrl_link_at(nic->index);
	int err;

	pthread_mutex_lock(&l->lock);
	err = random_qkey(&l->own.qkey);
	l->own.lid = nic->port_attr.lid;
	l->own.mtu_bytes = (uint16_t)nic->mtu_bytes;
	pthread_mutex_unlock(&l->lock);
	l->nic = nic;
	l->receive_bytes = GRH_BYTES + nic->mtu_bytes;
	ctrl_link_init_jobs(l);
	if (!err)
		err = link_create(l);
	if (err) {
		link_destroy(l);
		return err < 0 ? err : -EIO;
	}
	/* If the netdev has no address yet, the NIC has no GID. ctrl_link_refresh() finds it later.
	 */
	pthread_mutex_lock(&l->lock);
	l->gid_index = nic_gid_own(nic, &l->own.gid);
	l->state = LINK_UP;
	pthread_mutex_unlock(&l->lock);
	nic->link = l;
	bg_call(&l->watch_call);
	bg_before_sleep(ctrl_link_flush_all);
	return 0;
}

/* AHs are kept when only the carrier was lost: they are as good as before, and to resolve a
 * neighbour just when the port comes up may take a second. */
bool ctrl_link_refresh(struct nic *nic)
{
	struct ctrl_link *l = nic->link;
	union ibv_gid gid;
	int index = nic_gid_own(nic, &gid);
	bool other;

	if (index < 0)
		return false;
	pthread_mutex_lock(&l->lock);
	other = memcmp(&gid, &l->own.gid, sizeof(gid));
	if (other || index != l->gid_index)
		ctrl_link_renew_ahs(l);
	l->own.gid = gid;
	l->gid_index = index;
	/* The port may have come up: rebuild a broken link at once. */
	l->rebuilds_since_send = 0;
	if (l->state == LINK_BROKEN)
		bg_call(&l->broken_call);
	pthread_mutex_unlock(&l->lock);
	return other;
}

void ctrl_link_take_lid(struct nic *nic)
{
	struct ctrl_link *l = nic->link;

	pthread_mutex_lock(&l->lock);
	l->own.lid = nic->port_attr.lid;
	pthread_mutex_unlock(&l->lock);
}
