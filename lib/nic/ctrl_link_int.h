/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the three files of the control link share: ctrl_link.c (peers and datagrams), ctrl_link_qp.c
 * (the UD QP) and ctrl_link_open.c (set-up). nic.c calls ctrl_link_refresh() besides. Each group of
 * functions names the file that defines it.
 */
#ifndef SHIFT_NIC_CTRL_LINK_INT_H
#define SHIFT_NIC_CTRL_LINK_INT_H

#include <pthread.h>

#include "lib/base/background.h"
#include "lib/nic/ctrl_link.h"
#include "lib/nic/nic_int.h"

enum { LINK_SENDS = 64, LINK_RECEIVES_MAX = 256, GRH_BYTES = 40 };

enum ctrl_link_state { LINK_CLOSED, LINK_UP, LINK_BROKEN };

/* One per NIC, by its index. The lock is a leaf: under it only bg_call() and worker_submit() take
 * locks of ours. */
struct ctrl_link {
	pthread_mutex_t lock;
	struct nic *nic;
	/* Set by ctrl_link_open(), constant after that. */
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *memory; /* receives, then sends */
	size_t bytes;
	unsigned int receives;
	size_t receive_bytes; /* of one receive: the GRH and an MTU */
	/* Under the lock, once ctrl_link_open() has made the link known. */
	enum ctrl_link_state state; /* posting and polling only when LINK_UP */
	uint8_t free[LINK_SENDS];
	unsigned int free_count;
	struct ctrl_link_peer *owner[LINK_SENDS]; /* of the datagram; NULL: that peer was freed */
	struct ctrl_link_addr own;
	int gid_index; /* of own.gid */
	struct ctrl_link_stats stats;
	struct ctrl_link_peer *peers;
	unsigned int waiting; /* peers that have begun a datagram */
	/* ctrl_link_qp.c: rebuilding. Under the lock, too. */
	bool rebuilding; /* the job is under way */
	struct job rebuild_job;
	struct bg_call broken_call;
	struct bg_timer rebuild_timer;
	uint64_t rebuilt_at_ns;
	unsigned int rebuilds_since_send; /* since a send went well */

	struct bg_call watch_call;
};

/* ctrl_link.c. Under the link's lock, but for what is constant. */
struct ctrl_link_peer {
	struct nic *nic;
	struct ctrl_link *link; /* of that NIC, perhaps not open yet */
	struct ctrl_link_peer *next;
	bool gone;	   /* freed by its owner */
	bool version_told; /* it was logged that it speaks another version */
	struct ctrl_link_addr addr;
	uint64_t nonce;
	struct shift_msg_writer writer;
	bool open;		       /* a datagram has been begun */
	struct ibv_ah *ah, *ah_before; /* a send under way may still use the one before */
	bool ah_busy, ah_stale;
	uint64_t ah_retry_ns; /* no attempt before this time */
	unsigned int ah_failures;
	struct job job; /* makes the AH */
	struct job free_job;
	uint8_t buf[SHIFT_MSG_DATAGRAM_MAX];
};

/* ctrl_link_qp.c. Under the lock. */
void ctrl_link_post(struct ctrl_link *l, struct ctrl_link_peer *peer, size_t bytes);
void ctrl_link_reap_sends(struct ctrl_link *l);
uint8_t *ctrl_link_send_buffer(struct ctrl_link *l, unsigned int slot);

/* ctrl_link_qp.c. The link of a NIC, open or not; NULL past NICS_MAX. Any thread. */
struct ctrl_link *ctrl_link_at(unsigned int nic_index);

/* ctrl_link_qp.c, for ctrl_link_open.c, while nobody else uses the link. */
void ctrl_link_init_jobs(struct ctrl_link *l);	 /* the functions of its jobs, calls and timer */
void ctrl_link_discard_all(struct ctrl_link *l); /* the QP is in RESET: nothing is under way */
int ctrl_link_to_rts(struct ctrl_link *l);	 /* 0 or a negative errno */
void ctrl_link_arm_cqs(struct ctrl_link *l);

/* ctrl_link.c. A datagram of `bytes` at buf has come. Background thread, without the lock. */
void ctrl_link_received(struct ctrl_link *l, const void *buf, size_t bytes);

/* ctrl_link.c. Our own address has changed: makes all AHs anew. Under the lock. */
void ctrl_link_renew_ahs(struct ctrl_link *l);

/* ctrl_link_open.c, for nic.c, on the worker. Has our GID changed? If so, the AHs are made anew. */
bool ctrl_link_refresh(struct nic *nic);

/* ctrl_link_open.c, for nic.c: the LID of the port may be another one. */
void ctrl_link_take_lid(struct nic *nic);

#endif
