/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/peer_paths.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/env.h"
#include "lib/session/path_health.h"
#include "lib/session/rendezvous.h"

#define PREFIX "probe/"

static struct tracked_path *paths;

/* --- the ends of probes find each other --------------------------------------------------------
 */

static void probe_key(char *key, size_t size, uint64_t from, uint64_t to, uint8_t from_nic,
		      uint8_t to_nic)
{
	snprintf(key, size, PREFIX "%016" PRIx64 "/%016" PRIx64 "/%u-%u", from, to, from_nic,
		 to_nic);
}

static void probe_publish(struct tracked_path *p, struct kv_client *kv, uint64_t nonce)
{
	struct probe_addr addr;
	char key[KV_KEY_MAX];

	memset(&addr, 0, sizeof(addr));
	if (probe_address(p->probe, &addr) ||
	    (p->published && !memcmp(&addr, &p->ours, sizeof(addr))))
		return;
	probe_key(key, sizeof(key), nonce, p->nonce, p->path.nic->index, p->peer_nic);
	p->published = !kv_client_put(kv, key, &addr, sizeof(addr));
	p->ours = addr;
}

static void probe_look_up(struct tracked_path *p, struct kv_client *kv, uint64_t nonce)
{
	char key[KV_KEY_MAX];
	const void *value;
	size_t bytes;

	probe_key(key, sizeof(key), p->nonce, nonce, p->peer_nic, p->path.nic->index);
	if (!p->published || kv_client_get(kv, key, &value, &bytes) || bytes != sizeof(p->theirs) ||
	    (p->connected && !memcmp(value, &p->theirs, sizeof(p->theirs))))
		return;
	memcpy(&p->theirs, value, sizeof(p->theirs));
	p->connected = true;
	probe_connect(p->probe, &p->theirs);
}

bool peer_paths_exchange_probes(struct kv_client *kv, uint64_t nonce)
{
	bool missing = false;

	for (struct tracked_path *p = paths; p; p = p->next) {
		if (!p->probe)
			continue;
		probe_publish(p, kv, nonce);
		probe_look_up(p, kv, nonce);
		missing |= !p->connected;
	}
	return missing;
}

static void address_changed(void *arg)
{
	(void)arg;
	rendezvous_wake();
}

/* --- life ------------------------------------------------------------------------------------ */

struct peer_path *peer_path_get(struct nic *nic, uint64_t peer_nonce, const struct rail_addr *peer)
{
	struct tracked_path *p;

	for (p = paths; p; p = p->next)
		if (p->path.nic == nic && p->nonce == peer_nonce && p->peer_nic == peer->nic) {
			p->users++;
			return &p->path;
		}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->path.nic = nic;
	p->nonce = peer_nonce;
	p->peer_nic = peer->nic;
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
	p->next = paths;
	paths = p;
	return &p->path;
}

void peer_path_hold(struct peer_path *path)
{
	tracked_path(path)->users++;
}

void peer_path_put(struct peer_path *path)
{
	struct tracked_path **at = &paths, *p = path ? tracked_path(path) : NULL;

	if (!p || --p->users)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (p->probe)
		probe_free(p->probe);
	ctrl_link_peer_free(p->path.link);
	free(p);
}

bool peer_paths_any_silent(uint64_t nonce)
{
	for (const struct tracked_path *p = paths; p; p = p->next)
		if (p->nonce == nonce && p->health.misses)
			return true;
	return false;
}

void peer_paths_send(uint64_t nonce, const struct shift_msg *m)
{
	for (struct tracked_path *p = paths; p; p = p->next)
		if (p->nonce == nonce)
			peer_path_send(&p->path, m);
}

void peer_paths_listen(uint64_t nonce)
{
	for (struct tracked_path *p = paths; p; p = p->next)
		if (p->nonce == nonce)
			p->health.unheard = 0;
}

enum peer_silence peer_paths_silence(uint64_t nonce, unsigned int *missed)
{
	enum peer_silence silence = SILENCE_NO_PATH;

	*missed = UINT_MAX;
	for (const struct tracked_path *p = paths; p; p = p->next) {
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
