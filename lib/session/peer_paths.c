/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/peer_paths.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/env.h"
#include "lib/session/path_health.h"
#include "lib/session/rendezvous.h"

enum { BUCKETS = 256 };

static struct tracked_path *buckets[BUCKETS]; /* by the peer's nonce */

static struct tracked_path **paths_of(uint64_t nonce)
{
	return &buckets[nonce % BUCKETS];
}

/* --- the ends of probes find each other --------------------------------------------------------
 */

static void probe_tell(struct tracked_path *p, bool ask)
{
	struct session_probe probe = {.kind = SESSION_PROBE,
				      .ask = ask,
				      .nic = p->path.nic->index,
				      .your_nic = p->peer_nic,
				      .serial = p->told.serial,
				      .heard = p->told.heard,
				      .addr = p->ours};
	struct shift_msg m = session_msg(&probe, sizeof(probe));

	peer_path_send(&p->path, &m);
}

static void probe_describe(struct tracked_path *p)
{
	struct probe_addr addr;

	memset(&addr, 0, sizeof(addr));
	if (probe_address(p->probe, &addr) ||
	    (p->told.serial && !memcmp(&addr, &p->ours, sizeof(addr))))
		return;
	p->ours = addr;
	told_change(&p->told);
}

static bool probe_exchange(struct tracked_path *p, uint64_t now)
{
	if (!p->probe)
		return false;
	probe_describe(p);
	if (told_due(&p->told, now)) {
		probe_tell(p, true);
		told_sent(&p->told, now, TOLD_LONGEST_NS);
	}
	return !p->told.acked;
}

bool peer_paths_exchange_probes(void)
{
	uint64_t now = now_ns();
	bool missing = false;

	for (unsigned int i = 0; i < BUCKETS; i++)
		for (struct tracked_path *p = buckets[i]; p; p = p->next)
			missing |= probe_exchange(p, now);
	return missing;
}

static struct tracked_path *path_of_probe(uint64_t nonce, const struct session_probe *m)
{
	struct tracked_path *p = *paths_of(nonce);

	while (p && (p->nonce != nonce || p->peer_nic != m->nic ||
		     p->path.nic->index != m->your_nic || !p->probe))
		p = p->next;
	return p;
}

/* A path that the peer has and we have not yet is not answered: the peer asks again. */
void peer_paths_probe_heard(uint64_t nonce, const struct session_probe *m)
{
	struct tracked_path *p = path_of_probe(nonce, m);

	if (!p)
		return;
	told_acked(&p->told, m->heard);
	if (told_newer(&p->told, m->serial)) {
		p->told.heard = m->serial;
		probe_connect(p->probe, &m->addr);
	}
	if (m->ask && p->told.serial)
		probe_tell(p, false);
}

static void address_changed(void *arg)
{
	(void)arg;
	rendezvous_wake();
}

/* --- life ------------------------------------------------------------------------------------ */

struct peer_path *peer_path_get(struct nic *nic, uint64_t peer_nonce, const struct rail_addr *peer)
{
	struct tracked_path **bucket = paths_of(peer_nonce), *p;

	for (p = *bucket; p; p = p->next)
		if (p->path.nic == nic && p->nonce == peer_nonce && p->peer_nic == peer->nic) {
			p->users++;
			path_health_tell_again(peer_nonce);
			return &p->path;
		}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->path.nic = nic;
	p->nonce = peer_nonce;
	p->peer_nic = peer->nic;
	p->addr = peer->link;
	p->users = 1;
	p->path.link = ctrl_link_peer_new(nic, &peer->link, peer_nonce);
	if (!p->path.link) {
		free(p);
		return NULL;
	}
	if (env.probes)
		p->probe = probe_new(nic, path_health_probed, p);
	if (p->probe)
		probe_on_address_change(p->probe, address_changed, p);
	p->next = *bucket;
	*bucket = p;
	path_health_tell_again(peer_nonce);
	return &p->path;
}

void peer_path_follow(struct peer_path *path, const struct rail_addr *peer, uint32_t serial)
{
	struct tracked_path *p = tracked_path(path);

	if (p->peer_nic != peer->nic || !peer->link.qpn ||
	    (p->serial && !shift_serial_newer(serial, p->serial)))
		return;
	p->serial = serial;
	if (!memcmp(&p->addr, &peer->link, sizeof(p->addr)))
		return;
	p->addr = peer->link;
	ctrl_link_peer_move(path->link, &p->addr);
}

void peer_path_hold(struct peer_path *path)
{
	tracked_path(path)->users++;
}

void peer_path_put(struct peer_path *path)
{
	struct tracked_path **at, *p = path ? tracked_path(path) : NULL;

	if (!p || --p->users)
		return;
	at = paths_of(p->nonce);
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (p->probe)
		probe_free(p->probe);
	ctrl_link_peer_free(p->path.link);
	free(p);
}

void peer_paths_each(uint64_t nonce, void (*fn)(struct tracked_path *p, void *arg), void *arg)
{
	for (struct tracked_path *p = *paths_of(nonce); p; p = p->next)
		if (p->nonce == nonce)
			fn(p, arg);
}

void peer_paths_send(uint64_t nonce, const struct shift_msg *m)
{
	for (struct tracked_path *p = *paths_of(nonce); p; p = p->next)
		if (p->nonce == nonce)
			peer_path_send(&p->path, m);
}

bool peer_paths_say_bye(const struct shift_msg *m, uint64_t end_ns)
{
	bool any = false;

	for (unsigned int i = 0; i < BUCKETS; i++)
		for (struct tracked_path *p = buckets[i]; p; p = p->next) {
			if (!p->bye)
				continue;
			if (now_ns() >= end_ns)
				return false;
			peer_path_send(&p->path, m);
			ctrl_link_flush(p->path.link);
			any = true;
		}
	return any;
}

bool peer_paths_leave(uint64_t nonce, uint64_t now)
{
	bool news = false;

	for (struct tracked_path *p = *paths_of(nonce); p; p = p->next) {
		if (p->nonce != nonce || p->left_ns)
			continue;
		p->left_ns = now;
		news = true;
	}
	return news;
}

void peer_paths_listen(uint64_t nonce)
{
	for (struct tracked_path *p = *paths_of(nonce); p; p = p->next)
		if (p->nonce == nonce)
			p->health.unheard = 0;
}

enum peer_silence peer_paths_silence(uint64_t nonce, unsigned int *missed)
{
	enum peer_silence silence = SILENCE_NO_PATH;

	*missed = UINT_MAX;
	for (const struct tracked_path *p = *paths_of(nonce); p; p = p->next) {
		if (p->nonce != nonce)
			continue;
		if (silence == SILENCE_NO_PATH)
			silence = SILENCE_NOT_PROBED;
		if (!p->health.answered)
			continue;
		silence = SILENCE_PROBED;
		if (p->health.unheard < *missed)
			*missed = p->health.unheard;
	}
	return silence;
}
