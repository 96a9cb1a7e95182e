/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "cmd/shift-diag/ping.h"
#include "lib/nic/nic_int.h"

enum { RECEIVES = 256, SENDS = 64, GRH_BYTES = 40 };

#define IS_SEND (UINT64_C(1) << 63) /* of a wr_id */

static uint8_t *send_buffer(const struct ping_end *e, unsigned int slot)
{
	return e->memory + RECEIVES * e->receive_bytes + (size_t)slot * e->nic->nic.mtu_bytes;
}

static int post_receive(const struct ping_end *e, uint64_t i)
{
	struct ibv_sge sge = {.addr = (uintptr_t)(e->memory + i * e->receive_bytes),
			      .length = (uint32_t)e->receive_bytes,
			      .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(e->qp, &wr, &bad);
}

static int end_to_rts(struct ping_end *e)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = e->nic->nic.port, .qkey = e->qkey};
	int err = ibv_modify_qp(e->qp, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	for (unsigned int i = 0; i < RECEIVES && !err; i++)
		err = post_receive(e, i);
	attr.qp_state = IBV_QPS_RTR;
	if (!err)
		err = ibv_modify_qp(e->qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	if (!err)
		err = ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	e->free_count = 0;
	for (unsigned int i = 0; i < SENDS; i++)
		e->free[e->free_count++] = (uint8_t)i;
	e->broken = err;
	return -err;
}

static int end_make_memory(struct ping_end *e)
{
	size_t bytes;

	e->receive_bytes = GRH_BYTES + e->nic->nic.mtu_bytes;
	bytes = RECEIVES * e->receive_bytes + (size_t)SENDS * e->nic->nic.mtu_bytes;
	e->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (e->memory == MAP_FAILED) {
		e->memory = NULL;
		return -ENOMEM;
	}
	e->mr = ibv_reg_mr(e->nic->nic.pd, e->memory, bytes, IBV_ACCESS_LOCAL_WRITE);
	return e->mr ? 0 : -errno;
}

static int end_make_qp(struct ping_end *e, bool with_channel)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD,
					.cap = {.max_send_wr = SENDS,
						.max_recv_wr = RECEIVES,
						.max_send_sge = 1,
						.max_recv_sge = 1}};

	if (with_channel && !(e->channel = ibv_create_comp_channel(e->nic->nic.ctx)))
		return -errno;
	e->cq = ibv_create_cq(e->nic->nic.ctx, SENDS + RECEIVES, NULL, e->channel, 0);
	if (!e->cq)
		return -errno;
	attr.send_cq = attr.recv_cq = e->cq;
	e->qp = ibv_create_qp(e->nic->nic.pd, &attr);
	if (!e->qp)
		return -errno;
	if (e->channel)
		ibv_req_notify_cq(e->cq, 0);
	return end_to_rts(e);
}

int ping_end_open(struct ping_end *e, struct diag_nic *nic, bool with_channel)
{
	int err;

	*e = (struct ping_end){.nic = nic};
	if (getrandom(&e->qkey, sizeof(e->qkey), 0) != sizeof(e->qkey))
		return -EIO;
	e->qkey &= INT32_MAX; /* with the highest bit set it would be a privileged one */
	err = end_make_memory(e);
	if (!err)
		err = end_make_qp(e, with_channel);
	if (err)
		ping_end_close(e);
	return err;
}

void ping_end_close(struct ping_end *e)
{
	if (e->qp)
		ibv_destroy_qp(e->qp);
	if (e->cq)
		ibv_destroy_cq(e->cq);
	if (e->channel)
		ibv_destroy_comp_channel(e->channel);
	if (e->mr)
		ibv_dereg_mr(e->mr);
	if (e->memory)
		munmap(e->memory,
		       RECEIVES * e->receive_bytes + (size_t)SENDS * e->nic->nic.mtu_bytes);
	*e = (struct ping_end){0};
}

/* While a port is down, a send breaks the queue pair. */
int ping_end_mend(struct ping_end *e)
{
	struct ibv_wc wc;
	int err = nic_reset_qp(&e->nic->nic, e->qp);

	while (ibv_poll_cq(e->cq, 1, &wc) > 0)
		;
	return err ? -err : end_to_rts(e);
}

int ping_to_make(struct ping_to *to, const struct ping_end *e, const union ibv_gid *gid,
		 uint16_t lid)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = e->nic->nic.port,
				   .grh = {.dgid = *gid, .hop_limit = 64}};
	union ibv_gid own;
	int index = nic_gid_like(&e->nic->nic, gid, &own);

	if (index < 0)
		return index;
	attr.grh.sgid_index = (uint8_t)index;
	attr.dlid = lid;
	attr.is_global = !lid;
	errno = 0;
	to->ah = ibv_create_ah(e->nic->nic.pd, &attr);
	return to->ah ? 0 : -(errno ? errno : EIO);
}

/* ---- datagrams ------------------------------------------------------------------------------ */

enum { WORDS = sizeof(struct ping_head) / 4 };

static void head_write(uint8_t *to, const struct ping_head *head)
{
	uint32_t word[WORDS];

	memcpy(word, head, sizeof(word));
	for (unsigned int i = 0; i < WORDS; i++)
		word[i] = htonl(word[i]);
	memcpy(to, word, sizeof(word));
}

static void head_read(struct ping_head *head, const uint8_t *from)
{
	uint32_t word[WORDS];

	memcpy(word, from, sizeof(word));
	for (unsigned int i = 0; i < WORDS; i++)
		word[i] = ntohl(word[i]);
	memcpy(head, word, sizeof(word));
}

bool ping_send(struct ping_end *e, const struct ping_to *to, const struct ping_head *head,
	       uint32_t bytes)
{
	struct ibv_sge sge = {.length = bytes, .lkey = e->mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = {.ah = to->ah, .remote_qpn = to->qpn, .remote_qkey = to->qkey}};
	struct ibv_send_wr *bad;
	unsigned int slot;

	if (e->broken || !e->free_count || bytes > e->nic->nic.mtu_bytes)
		return false;
	slot = e->free[--e->free_count];
	head_write(send_buffer(e, slot), head);
	sge.addr = (uintptr_t)send_buffer(e, slot);
	wr.wr_id = IS_SEND | slot;
	e->broken = ibv_post_send(e->qp, &wr, &bad);
	return !e->broken;
}

/* A receive that completed: false: it is not one of ours. */
static bool receive_read(struct ping_end *e, const struct ibv_wc *wc, struct ping_head *head,
			 uint32_t *bytes)
{
	bool ok = wc->byte_len >= GRH_BYTES + PING_BYTES_MIN && wc->byte_len <= e->receive_bytes;

	if (ok) {
		head_read(head, e->memory + wc->wr_id * e->receive_bytes + GRH_BYTES);
		*bytes = wc->byte_len - GRH_BYTES;
		ok = head->magic == PING_MAGIC;
	}
	if (post_receive(e, wc->wr_id))
		e->broken = true;
	return ok;
}

bool ping_take(struct ping_end *e, struct ping_head *head, uint32_t *bytes)
{
	struct ibv_wc wc;

	while (!e->broken && ibv_poll_cq(e->cq, 1, &wc) > 0) {
		if (wc.status != IBV_WC_SUCCESS)
			e->broken = true;
		else if (wc.wr_id & IS_SEND)
			e->free[e->free_count++] = (uint8_t)wc.wr_id;
		else if (receive_read(e, &wc, head, bytes))
			return true;
	}
	return false;
}

/* ---- GIDs ----------------------------------------------------------------------------------- */

void ping_gid_write(char text[33], const union ibv_gid *gid)
{
	for (int i = 0; i < 16; i++)
		sprintf(text + 2 * i, "%02x", gid->raw[i]);
}

bool ping_gid_read(const char *text, union ibv_gid *gid)
{
	if (strlen(text) != 32)
		return false;
	for (int i = 0; i < 16; i++)
		if (sscanf(text + 2 * i, "%2hhx", gid->raw + i) != 1)
			return false;
	return true;
}
