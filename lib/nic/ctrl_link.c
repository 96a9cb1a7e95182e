/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The peers of a control link: address handles, datagrams that are being filled, and those that
 * come in. */
#include "lib/nic/ctrl_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/background.h"
#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/base/worker.h"
#include "lib/nic/ctrl_link_int.h"
#include "lib/nic/nic.h"

#define AH_RETRY_FIRST_NS 50000000ull
#define AH_RETRY_LAST_NS  2000000000ull

static struct {
	uint64_t nonce;
	uint64_t key[2];
	atomic_bool known;
} identity;

static void (*_Atomic on_message)(struct nic *nic, const struct shift_msg *m);

void ctrl_link_set_identity(uint64_t nonce, const uint64_t key[2])
{
	identity.nonce = nonce;
	memcpy(identity.key, key, sizeof(identity.key));
	atomic_store_explicit(&identity.known, true, memory_order_release);
}

static bool identity_known(void)
{
	return atomic_load_explicit(&identity.known, memory_order_acquire);
}

void ctrl_link_on_message(void (*fn)(struct nic *nic, const struct shift_msg *m))
{
	on_message = fn;
}

/* ---- receiving ----------------------------------------------------------------------------- */

static void link_count(struct ctrl_link *l, uint64_t *what)
{
	pthread_mutex_lock(&l->lock);
	++*what;
	pthread_mutex_unlock(&l->lock);
}

/* A peer with whom we share no version is not protected, and only its operator can help. So it is
 * said, once for each of its paths. */
static void link_refuse_version(struct ctrl_link *l, const void *buf, size_t bytes)
{
	char gid[INET6_ADDRSTRLEN] = "";
	uint64_t nonce = 0;
	uint8_t version = 0;

	if (!shift_msg_sender(buf, bytes, &version, &nonce))
		return;
	pthread_mutex_lock(&l->lock);
	l->stats.other_version++;
	for (struct ctrl_link_peer *peer = l->peers; peer; peer = peer->next) {
		if (peer->nonce != nonce || peer->version_told)
			continue;
		peer->version_told = true;
		inet_ntop(AF_INET6, &peer->addr.gid, gid, sizeof(gid));
	}
	pthread_mutex_unlock(&l->lock);
	if (*gid)
		log_warn("%s: the peer %s speaks version %u of the control messages, we speak %u: "
			 "connections with it are not protected; update shift %s",
			 l->nic->name, gid, version, SHIFT_MSG_VERSION,
			 version < SHIFT_MSG_VERSION ? "there" : "here");
}

static void link_refuse(struct ctrl_link *l, int err, const void *buf, size_t bytes)
{
	link_count(l, &l->stats.refused);
	if (err == SHIFT_MSG_EVERSION)
		link_refuse_version(l, buf, bytes);
}

void ctrl_link_received(struct ctrl_link *l, const void *buf, size_t bytes)
{
	void (*fn)(struct nic * nic, const struct shift_msg *m) = on_message;
	struct shift_msg_reader r;
	struct shift_msg m;
	int err;

	err = identity_known() ? shift_msg_open(&r, buf, bytes, shift_msg_siphash, identity.key)
			       : SHIFT_MSG_EAUTH;
	if (err < 0) {
		link_refuse(l, err, buf, bytes);
		return;
	}
	/* It is for a process that had this QP number before us. */
	if (r.dst_nonce && r.dst_nonce != identity.nonce) {
		link_count(l, &l->stats.misaddressed);
		return;
	}
	while (fn && shift_msg_next(&r, &m) > 0)
		fn(l->nic, &m);
}

/* ---- address handles: made on the resolver, as it may take long ----------------------------- */

static struct ctrl_link_peer *peer_of(struct job *job)
{
	return (struct ctrl_link_peer *)((char *)job - offsetof(struct ctrl_link_peer, job));
}

static struct ibv_ah *ah_create(const struct nic *nic, const struct ctrl_link_addr *addr)
{
	struct ibv_ah_attr attr = {.dlid = addr->lid, .port_num = nic->port};
	union ibv_gid own;
	int index = nic_gid_like(nic, &addr->gid, &own);

	if (nic->port_attr.link_layer != IBV_LINK_LAYER_INFINIBAND || !addr->lid) {
		if (index < 0) {
			errno = -index;
			return NULL;
		}
		attr.is_global = 1;
		attr.grh.dgid = addr->gid;
		attr.grh.sgid_index = (uint8_t)index;
		attr.grh.hop_limit = 64;
	}
	return real.create_ah(nic->pd, &attr);
}

static void datagram_send(struct ctrl_link_peer *peer);
static void datagram_drop(struct ctrl_link_peer *peer);

/* On the resolver. */
static void ah_look_up(struct job *job)
{
	struct ctrl_link_peer *peer = peer_of(job);
	struct ctrl_link *l = peer->link;
	uint64_t delay = AH_RETRY_FIRST_NS << (peer->ah_failures < 6 ? peer->ah_failures : 6);
	struct ibv_ah *ah, *old = NULL;
	struct ctrl_link_addr addr;

	pthread_mutex_lock(&l->lock);
	addr = peer->addr;
	pthread_mutex_unlock(&l->lock);
	ah = ah_create(peer->nic, &addr);
	if (!ah && !peer->ah_failures)
		log_info("%s: a peer cannot be reached yet (address handle: %s); trying again",
			 peer->nic->name, strerror(errno));
	pthread_mutex_lock(&l->lock);
	peer->ah_busy = false;
	if (ah) {
		old = peer->ah_before;
		peer->ah_before = peer->ah;
		peer->ah = ah;
		peer->ah_failures = 0;
		peer->ah_retry_ns = now_ns() + AH_RETRY_FIRST_NS;
		datagram_send(peer);
	} else {
		peer->ah_failures++;
		peer->ah_stale = true;
		peer->ah_retry_ns = now_ns() +
				    (delay < AH_RETRY_LAST_NS ? delay : AH_RETRY_LAST_NS);
	}
	pthread_mutex_unlock(&l->lock);
	if (old)
		real.destroy_ah(old);
}

/* Under the lock. */
static void ah_request(struct ctrl_link_peer *peer)
{
	if (peer->ah_busy || !peer->ah_stale || !peer->nic->ready || now_ns() < peer->ah_retry_ns)
		return;
	peer->ah_busy = true;
	peer->ah_stale = false;
	worker_submit(peer->nic->resolver, &peer->job);
}

void ctrl_link_renew_ahs(struct ctrl_link *l)
{
	for (struct ctrl_link_peer *peer = l->peers; peer; peer = peer->next) {
		peer->ah_stale = true;
		peer->ah_retry_ns = 0;
		ah_request(peer);
	}
}

/* ---- peers --------------------------------------------------------------------------------- */

/* On the resolver. */
static void peer_free_job(struct job *job)
{
	struct ctrl_link_peer *peer =
		(struct ctrl_link_peer *)((char *)job - offsetof(struct ctrl_link_peer, free_job));

	if (peer->ah)
		real.destroy_ah(peer->ah);
	if (peer->ah_before)
		real.destroy_ah(peer->ah_before);
	free(peer);
}

struct ctrl_link_peer *ctrl_link_peer_new(struct nic *nic, const struct ctrl_link_addr *addr,
					  uint64_t nonce)
{
	struct ctrl_link_peer *peer = malloc(sizeof(*peer));
	struct ctrl_link *l = ctrl_link_at(nic->index);

	if (!peer)
		return NULL;
	memset(peer, 0, offsetof(struct ctrl_link_peer, buf));
	peer->nic = nic;
	peer->link = l;
	peer->addr = *addr;
	peer->nonce = nonce;
	peer->ah_stale = true;
	peer->job.fn = ah_look_up;
	peer->free_job.fn = peer_free_job;
	pthread_mutex_lock(&l->lock);
	peer->next = l->peers;
	l->peers = peer;
	ah_request(peer);
	pthread_mutex_unlock(&l->lock);
	return peer;
}

void ctrl_link_peer_free(struct ctrl_link_peer *peer)
{
	struct ctrl_link_peer **at;
	struct ctrl_link *l;

	if (!peer || fork_in_child())
		return;
	l = peer->link;
	pthread_mutex_lock(&l->lock);
	for (at = &l->peers; *at && *at != peer; at = &(*at)->next)
		;
	if (*at)
		*at = peer->next;
	for (unsigned int i = 0; i < LINK_SENDS; i++)
		if (l->owner[i] == peer)
			l->owner[i] = NULL;
	datagram_drop(peer);
	peer->gone = true;
	pthread_mutex_unlock(&l->lock);
	/* A look-up that is under way ends before this job, as both are on the resolver. */
	worker_submit(peer->nic->resolver, &peer->free_job);
}

void ctrl_link_peer_move(struct ctrl_link_peer *peer, const struct ctrl_link_addr *addr)
{
	pthread_mutex_lock(&peer->link->lock);
	peer->addr = *addr;
	peer->ah_stale = true;
	peer->ah_retry_ns = 0;
	ah_request(peer);
	pthread_mutex_unlock(&peer->link->lock);
}

/* ---- sending ------------------------------------------------------------------------------- */

static size_t datagram_max(const struct ctrl_link_peer *peer)
{
	const struct ctrl_link *l = peer->link;
	size_t max = SHIFT_MSG_DATAGRAM_MAX;

	if (l->own.mtu_bytes && l->own.mtu_bytes < max)
		max = l->own.mtu_bytes;
	return peer->addr.mtu_bytes && peer->addr.mtu_bytes < max ? peer->addr.mtu_bytes : max;
}

/* Sends what has been begun. It waits if there is no AH or no link yet. Under the lock. */
static void datagram_send(struct ctrl_link_peer *peer)
{
	struct ctrl_link *l = peer->link;
	size_t bytes;

	ah_request(peer);
	if (!peer->open || !peer->ah || peer->gone || l->state == LINK_CLOSED)
		return;
	peer->open = false;
	l->waiting--;
	bytes = shift_msg_end(&peer->writer, shift_msg_siphash, identity.key);
	if (bytes)
		ctrl_link_post(l, peer, bytes);
}

static void datagram_drop(struct ctrl_link_peer *peer)
{
	if (!peer->open)
		return;
	peer->open = false;
	peer->link->waiting--;
	peer->link->stats.dropped++;
}

static void datagram_begin(struct ctrl_link_peer *peer)
{
	shift_msg_begin(&peer->writer, peer->buf, datagram_max(peer), identity.nonce, peer->nonce);
	peer->open = true;
	peer->link->waiting++;
}

static int datagram_append(struct ctrl_link_peer *peer, const struct shift_msg *m)
{
	int err;

	if (!peer->open)
		datagram_begin(peer);
	err = shift_msg_add(&peer->writer, m);
	if (err != SHIFT_MSG_ESPACE)
		return err;
	datagram_send(peer);
	datagram_drop(peer); /* if it could not be sent: newer messages replace it */
	datagram_begin(peer);
	return shift_msg_add(&peer->writer, m);
}

void ctrl_link_send(struct ctrl_link_peer *peer, const struct shift_msg *m)
{
	int err;

	if (fork_in_child() || !identity_known())
		return;
	pthread_mutex_lock(&peer->link->lock);
	err = datagram_append(peer, m);
	pthread_mutex_unlock(&peer->link->lock);
	if (err)
		log_error("control message %s cannot be sent: %s", shift_msg_type_name(m->type),
			  shift_msg_err_name(err));
}

void ctrl_link_flush(struct ctrl_link_peer *peer)
{
	if (fork_in_child())
		return;
	pthread_mutex_lock(&peer->link->lock);
	datagram_send(peer);
	pthread_mutex_unlock(&peer->link->lock);
}

void ctrl_link_flush_all(void)
{
	if (fork_in_child())
		return;
	for (unsigned int i = 0; i < NICS_MAX && nic_at(i); i++) {
		struct ctrl_link *l = ctrl_link_at(i);

		pthread_mutex_lock(&l->lock);
		for (struct ctrl_link_peer *peer = l->peers; peer && l->waiting; peer = peer->next)
			if (peer->open)
				datagram_send(peer);
		pthread_mutex_unlock(&l->lock);
	}
}

void ctrl_link_flush_unless_bg(void)
{
	if (!bg_is_self())
		ctrl_link_flush_all();
}

void ctrl_link_address(const struct nic *nic, struct ctrl_link_addr *addr)
{
	struct ctrl_link *l = ctrl_link_at(nic->index);

	pthread_mutex_lock(&l->lock);
	*addr = l->own;
	pthread_mutex_unlock(&l->lock);
}

void ctrl_link_stats(const struct nic *nic, struct ctrl_link_stats *stats)
{
	struct ctrl_link *l = ctrl_link_at(nic->index);

	pthread_mutex_lock(&l->lock);
	*stats = l->stats;
	pthread_mutex_unlock(&l->lock);
}
