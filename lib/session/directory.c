/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/directory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/log.h"
#include "lib/core/siphash.h"
#include "lib/session/job.h"

/*
 * What is put. Its name has the GID and the nonce. A tag of 64 bits is enough: nobody can try tags
 * but by writing them into the rendezvous, and what a record leads to is a message whose tag has as
 * many bits.
 */
struct rail_record {
	uint8_t version; /* SHIFT_MSG_VERSION: stands first in all versions */
	uint8_t pad[7];
	uint64_t nonce;
	struct ctrl_link_addr link;
	uint64_t tag;
};

_Static_assert(sizeof(struct rail_record) == 56, "its layout is fixed");

#define KEY_BYTES (sizeof("rail/") - 1 + 32 + 1 + 16 + 1)

/* What we have put. */
struct entry {
	struct entry *next;
	struct nic *nic;
	union ibv_gid gid;
	struct ctrl_link_addr link;
	bool put;
};

static struct entry *entries;
static struct place *places;
static unsigned long refused;

/* The prefix of a GID, and behind it the nonce, if it is not 0. */
static void rail_key(char key[KEY_BYTES], const union ibv_gid *gid, uint64_t nonce)
{
	int n = snprintf(key, KEY_BYTES, "rail/");

	for (unsigned int i = 0; i < sizeof(gid->raw); i++)
		n += snprintf(key + n, KEY_BYTES - (size_t)n, "%02x", gid->raw[i]);
	n += snprintf(key + n, KEY_BYTES - (size_t)n, "/");
	if (nonce)
		snprintf(key + n, KEY_BYTES - (size_t)n, "%016" PRIx64, nonce);
}

/* No other text that the job's key is used for begins like this one. */
static uint64_t record_tag(const char *key, const struct rail_record *r)
{
	struct {
		char domain[16];
		char key[KEY_BYTES + 8 - KEY_BYTES % 8];
		uint8_t record[offsetof(struct rail_record, tag)];
	} text;

	memset(&text, 0, sizeof(text));
	memcpy(text.domain, "shift rendezvous", sizeof(text.domain));
	snprintf(text.key, sizeof(text.key), "%s", key);
	memcpy(text.record, r, sizeof(text.record));
	return shift_siphash(job_key_if_known(), &text, sizeof(text));
}

/* --- what we put -------------------------------------------------------------------------------
 */

static struct place *place_find(const union ibv_gid *gid)
{
	struct place *p = places;

	while (p && memcmp(&p->gid, gid, sizeof(*gid)))
		p = p->next;
	return p;
}

/* Without a link: it has another version. */
static void process_put(struct place *p, uint64_t nonce, const struct ctrl_link_addr *link)
{
	struct process *process = p->processes;

	while (process && process->nonce != nonce)
		process = process->next;
	if (!process) {
		process = calloc(1, sizeof(*process));
		if (!process)
			return;
		process->nonce = nonce;
		process->next = p->processes;
		p->processes = process;
	}
	process->other_version = !link;
	if (link)
		process->link = *link;
}

/* The rendezvous does not tell us of ourselves. A connection may be between two NICs of ours. */
static void entry_show_ourselves(const struct entry *e)
{
	struct place *p = place_find(&e->gid);

	if (p)
		process_put(p, job_nonce(), &e->link);
}

static void entry_put(struct entry *e)
{
	struct rail_record r;
	char key[KEY_BYTES];

	memset(&r, 0, sizeof(r));
	r.version = SHIFT_MSG_VERSION;
	r.nonce = job_nonce();
	ctrl_link_address(e->nic, &r.link);
	if (!job_client() || (e->put && !memcmp(&r.link, &e->link, sizeof(r.link))))
		return;
	rail_key(key, &e->gid, r.nonce);
	r.tag = record_tag(key, &r);
	e->put = !kv_client_put(job_client(), key, &r, sizeof(r));
	e->link = r.link;
	entry_show_ourselves(e);
}

void directory_enter(struct nic *nic, const union ibv_gid *gid)
{
	struct entry *e = entries;

	while (e && (e->nic != nic || memcmp(&e->gid, gid, sizeof(*gid))))
		e = e->next;
	if (!e) {
		e = calloc(1, sizeof(*e));
		if (!e)
			return;
		e->nic = nic;
		e->gid = *gid;
		e->next = entries;
		entries = e;
	}
	entry_put(e);
}

void directory_refresh(void)
{
	for (struct entry *e = entries; e; e = e->next)
		entry_put(e);
}

/* --- what we look at ---------------------------------------------------------------------------
 */

struct place *directory_look(const union ibv_gid *gid)
{
	struct place *p = place_find(gid);
	char prefix[KEY_BYTES];

	if (p || !job_client())
		return p;
	rail_key(prefix, gid, 0);
	p = calloc(1, sizeof(*p));
	if (!p || kv_client_watch(job_client(), prefix)) {
		free(p);
		return NULL;
	}
	p->gid = *gid;
	p->next = places;
	places = p;
	for (struct entry *e = entries; e; e = e->next)
		entry_show_ourselves(e);
	return p;
}

static struct place *place_of_key(const char *key, uint64_t *nonce)
{
	char prefix[KEY_BYTES], name[KEY_BYTES];
	size_t n;

	for (struct place *p = places; p; p = p->next) {
		rail_key(prefix, &p->gid, 0);
		n = strlen(prefix);
		if (strncmp(key, prefix, n))
			continue;
		*nonce = strtoull(key + n, NULL, 16);
		rail_key(name, &p->gid, *nonce);
		return *nonce && !strcmp(key, name) ? p : NULL;
	}
	return NULL;
}

/* At most a few lines, or whoever can write there fills the log. */
static void record_refused(const char *key, const char *why)
{
	if (++refused <= 3)
		log_warn("%s in the rendezvous is ignored: %s", key, why);
}

/* What it says beyond its version may be anything. That nobody can check it does no harm: a process
 * that has proved its own version is not replaced. */
static void other_version_seen(struct place *p, const char *key, uint64_t nonce, uint8_t version)
{
	char why[128];

	for (const struct process *known = p->processes; known; known = known->next)
		if (known->nonce == nonce)
			return;
	snprintf(why, sizeof(why),
		 "that process speaks version %u of shift's protocol, we speak %u", version,
		 SHIFT_MSG_VERSION);
	record_refused(key, why);
	process_put(p, nonce, NULL);
}

/* false: it is ignored. */
static bool record_take(struct place *p, const char *key, uint64_t nonce,
			const struct rail_record *r, size_t bytes)
{
	if (bytes && r->version != SHIFT_MSG_VERSION) {
		other_version_seen(p, key, nonce, r->version);
		return false;
	}
	if (bytes != sizeof(*r) || r->tag != record_tag(key, r)) {
		record_refused(key, "it was not put by a member of this job");
		return false;
	}
	if (r->link.qpn)
		process_put(p, nonce, &r->link);
	return r->link.qpn;
}

static void process_remove(struct place *p, uint64_t nonce)
{
	struct process **at = &p->processes, *process;

	while (*at && (*at)->nonce != nonce)
		at = &(*at)->next;
	process = *at;
	if (!process)
		return;
	*at = process->next;
	free(process);
}

struct place *directory_event(const char *key, const void *value, size_t bytes)
{
	struct rail_record r;
	uint64_t nonce;
	struct place *p = place_of_key(key, &nonce);

	if (!p || !job_key_if_known())
		return NULL;
	if (!value) {
		process_remove(p, nonce);
		return p;
	}
	memset(&r, 0, sizeof(r));
	memcpy(&r, value, bytes < sizeof(r) ? bytes : sizeof(r));
	return record_take(p, key, nonce, &r, bytes) ? p : NULL;
}
