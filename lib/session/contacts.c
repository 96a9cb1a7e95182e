/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/contacts.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/background.h"

#define UNUSED_NS 60000000000ull

struct contact {
	struct contact *next;
	struct nic *nic;
	uint64_t nonce;
	struct ctrl_link_addr addr;
	struct ctrl_link_peer *link;
	uint64_t used_ns;
};

static void contacts_sweep(void *arg);

static struct bg_timer sweep_timer = {.fn = contacts_sweep};
static struct contact *contacts;

static void contacts_sweep(void *arg)
{
	uint64_t now = now_ns();
	struct contact **at = &contacts;

	(void)arg;
	while (*at) {
		struct contact *c = *at;

		if (now - c->used_ns < UNUSED_NS) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		ctrl_link_peer_free(c->link);
		free(c);
	}
	bg_timer_set(&sweep_timer, contacts ? now + UNUSED_NS : UINT64_MAX);
}

/* One of our NICs may speak to several of the other process. */
static bool is_same_link(const struct ctrl_link_addr *a, const struct ctrl_link_addr *b)
{
	return a->qpn == b->qpn && a->lid == b->lid && !memcmp(&a->gid, &b->gid, sizeof(a->gid));
}

static struct contact *contact_add(struct nic *nic, uint64_t nonce,
				   const struct ctrl_link_addr *addr)
{
	struct contact *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->nic = nic;
	c->nonce = nonce;
	c->addr = *addr;
	if (!contacts)
		bg_timer_set(&sweep_timer, now_ns() + UNUSED_NS);
	c->next = contacts;
	contacts = c;
	return c;
}

static struct contact *contact_get(struct nic *nic, uint64_t nonce,
				   const struct ctrl_link_addr *addr)
{
	for (struct contact *c = contacts; c; c = c->next)
		if (c->nic == nic && c->nonce == nonce && is_same_link(&c->addr, addr))
			return c;
	return contact_add(nic, nonce, addr);
}

void contact_send(struct nic *nic, uint64_t nonce, const struct ctrl_link_addr *addr,
		  const struct shift_msg *m)
{
	struct contact *c = contact_get(nic, nonce, addr);

	if (!c)
		return; /* no memory: it is repeated */
	if (c->link && (c->addr.qkey != addr->qkey || c->addr.mtu_bytes != addr->mtu_bytes)) {
		ctrl_link_peer_free(c->link);
		c->link = NULL;
	}
	if (!c->link) {
		c->addr = *addr;
		c->link = ctrl_link_peer_new(nic, addr, nonce);
	}
	c->used_ns = now_ns();
	if (c->link)
		ctrl_link_send(c->link, m);
}
