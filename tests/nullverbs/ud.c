// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Datagrams between the processes of a NULLVERBS_NET: what RoCE would carry goes over a socket of
 * each host. The socket belongs to a thread, which moves what comes in to a receive of the QP. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/nullverbs/nullverbs.h"

enum { MTU_BYTES = 4096, GRH_BYTES = 40 };

struct datagram {
	uint32_t to_qpn;
	uint8_t payload[MTU_BYTES];
};

struct null_ah {
	struct ibv_ah base;
	union ibv_gid dgid;
};

static int net_fd = -1;

uint8_t null_host(void)
{
	const char *host = getenv("NULLVERBS_HOST");

	return getenv("NULLVERBS_NET") && host ? (uint8_t)atoi(host) : 1;
}

/* An abstract name: nothing has to be removed. */
static socklen_t host_address(struct sockaddr_un *addr, unsigned int host)
{
	const char *net = getenv("NULLVERBS_NET");
	int n;

	memset(addr, 0, sizeof(*addr));
	addr->sun_family = AF_UNIX;
	n = snprintf(addr->sun_path + 1, sizeof(addr->sun_path) - 1, "nullverbs/%.80s/%u",
		     net ? net : "", host);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* --- receiving ------------------------------------------------------------------------------- */

/* As a NIC does, it drops what there is no receive for. */
static void receive(struct null_qp *qp, const struct datagram *d, size_t bytes)
{
	const struct ibv_sge *to;

	pthread_spin_lock(&qp->recv_lock);
	to = qp->recv_sges ? &qp->recv_sges[qp->recv_tail & qp->recv_mask] : NULL;
	if (to && qp->recv_head != qp->recv_tail && to->length >= GRH_BYTES + bytes)
		memcpy((char *)(uintptr_t)to->addr + GRH_BYTES, d->payload, bytes);
	else
		to = NULL;
	pthread_spin_unlock(&qp->recv_lock);
	if (to)
		null_complete_recv(qp, &(struct null_cqe){.byte_len = (uint32_t)bytes + GRH_BYTES,
							  .opcode = IBV_WC_RECV});
}

static void *receive_all(void *arg)
{
	struct null_qp *qp;
	struct datagram d;
	ssize_t n;

	(void)arg;
	for (;;) {
		n = recv(net_fd, &d, sizeof(d), 0);
		if (n < 0 && errno != EINTR)
			return NULL;
		if (n < (ssize_t)offsetof(struct datagram, payload))
			continue;
		null_lock_qps();
		qp = null_find_qp(d.to_qpn);
		if (qp && qp->base.qp_type == IBV_QPT_UD)
			receive(qp, &d, (size_t)n - offsetof(struct datagram, payload));
		null_unlock_qps();
	}
}

static void start(void)
{
	struct sockaddr_un addr;
	socklen_t length = host_address(&addr, null_host());
	sigset_t all, before;
	pthread_t thread;
	int fd;

	if (!getenv("NULLVERBS_NET"))
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, length)) {
		perror("nullverbs: NULLVERBS_NET");
		abort();
	}
	net_fd = fd;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (!pthread_create(&thread, NULL, receive_all, NULL))
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void null_net_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, start);
}

/* --- sending --------------------------------------------------------------------------------- */

static bool is_dropped(size_t bytes)
{
	const char *most = getenv("NULLVERBS_DROP");

	return most && bytes > (size_t)atol(most);
}

/* To the host that the address names, itself included. It waits for a host that is slow, and loses
 * what is for one that is not there. */
void null_ud_send(const struct ibv_send_wr *wr)
{
	const struct null_ah *ah = (const struct null_ah *)wr->wr.ud.ah;
	struct datagram d = {.to_qpn = wr->wr.ud.remote_qpn};
	struct sockaddr_un addr;
	socklen_t length = host_address(&addr, ah->dgid.raw[15]);
	size_t bytes = 0;

	for (int i = 0; i < wr->num_sge && bytes + wr->sg_list[i].length <= MTU_BYTES; i++) {
		memcpy(d.payload + bytes, (const void *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		bytes += wr->sg_list[i].length;
	}
	if (net_fd >= 0 && !is_dropped(bytes))
		sendto(net_fd, &d, offsetof(struct datagram, payload) + bytes, MSG_NOSIGNAL,
		       (struct sockaddr *)&addr, length);
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct null_ah *ah = calloc(1, sizeof(*ah));

	if (!ah)
		return NULL;
	ah->base.context = pd->context;
	ah->base.pd = pd;
	ah->dgid = attr->grh.dgid;
	return &ah->base;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	free(ah);
	return 0;
}
