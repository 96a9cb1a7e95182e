/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/directory.h"

#include <endian.h>
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

#define GID_AT	  (sizeof("rail/") - 1)
#define NONCE_AT  (GID_AT + 32 + 1)
#define KEY_BYTES (NONCE_AT + 16 + 1)

/* OTHERS_MAX: of a GID. Anybody who can write to the rendezvous can make such records. */
enum { BUCKETS = 1024, OTHERS_MAX = 64 };

/* What we have put. */
struct entry {
	struct entry *next;
	struct nic *nic;
	union ibv_gid gid;
	struct ctrl_link_addr link;
	bool put;
};

static struct entry *entries;
static struct place *places[BUCKETS]; /* by their GIDs */
static uint64_t found;		      /* processes, the same one again included */
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

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool hex_parse(const char *text, uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/* Of rail_key() with a nonce, and of nothing else. */
static bool rail_key_parse(const char *key, union ibv_gid *gid, uint64_t *nonce)
{
	uint64_t big_endian;

	if (strlen(key) != KEY_BYTES - 1 || strncmp(key, "rail/", GID_AT) ||
	    key[NONCE_AT - 1] != '/' || !hex_parse(key + GID_AT, gid->raw, sizeof(gid->raw)) ||
	    !hex_parse(key + NONCE_AT, (uint8_t *)&big_endian, sizeof(big_endian)))
		return false;
	*nonce = be64toh(big_endian);
	return *nonce;
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

/* --- places and processes ----------------------------------------------------------------------
 */

static struct place **place_by_gid(const union ibv_gid *gid)
{
	static const uint64_t no_key[2];
	struct place **at = &places[shift_siphash(no_key, gid, sizeof(*gid)) % BUCKETS];

	while (*at && memcmp(&(*at)->gid, gid, sizeof(*gid)))
		at = &(*at)->next;
	return at;
}

static struct process **process_at(struct place *p, uint64_t nonce)
{
	struct process **at = &p->processes;

	while (*at && (*at)->nonce != nonce)
		at = &(*at)->next;
	return at;
}

static void process_remove(struct place *p, uint64_t nonce)
{
	struct process **at = process_at(p, nonce), *process = *at;

	if (!process)
		return;
	*at = process->next;
	p->others -= process->other_version;
	free(process);
}

/* Without a link: it has another version. false: it is known so, or there is no memory. */
static bool process_put(struct place *p, uint64_t nonce, const struct ctrl_link_addr *link)
{
	struct process **at = process_at(p, nonce);

	if (*at && link && !(*at)->other_version && !memcmp(&(*at)->link, link, sizeof(*link)))
		return false;
	process_remove(p, nonce);
	while (*at)
		at = &(*at)->next;
	*at = calloc(1, sizeof(**at));
	if (!*at)
		return false;
	(*at)->nonce = nonce;
	(*at)->number = ++found;
	(*at)->other_version = !link;
	if (link)
		(*at)->link = *link;
	p->others += !link;
	return true;
}

/* --- what we put -------------------------------------------------------------------------------
 */

/* The rendezvous does not tell us of ourselves. A connection may be between two NICs of ours. */
static void entry_show_ourselves(const struct entry *e)
{
	struct place *p = *place_by_gid(&e->gid);

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

static struct place *place_new(const union ibv_gid *gid)
{
	struct place *p = calloc(1, sizeof(*p));
	char prefix[KEY_BYTES];

	rail_key(prefix, gid, 0);
	if (!p || kv_client_watch(job_client(), prefix)) {
		free(p);
		return NULL;
	}
	p->gid = *gid;
	*place_by_gid(gid) = p;
	for (struct entry *e = entries; e; e = e->next)
		entry_show_ourselves(e);
	return p;
}

struct place *directory_look(const union ibv_gid *gid)
{
	struct place *p = *place_by_gid(gid);

	if (!p && job_client())
		p = place_new(gid);
	if (p)
		p->users++;
	return p;
}

/* There is room for one more: those that shift-kvd has refused are asked for again. */
static void watch_refused_again(void)
{
	char prefix[KEY_BYTES];

	job_has_room();
	for (unsigned int i = 0; i < BUCKETS; i++)
		for (const struct place *p = places[i]; p; p = p->next) {
			rail_key(prefix, &p->gid, 0);
			kv_client_watch(job_client(), prefix);
		}
}

static void place_free(struct place *p)
{
	*place_by_gid(&p->gid) = p->next;
	while (p->processes)
		process_remove(p, p->processes->nonce);
	free(p);
}

void directory_leave(struct place *p)
{
	char prefix[KEY_BYTES];

	if (!p || --p->users)
		return;
	rail_key(prefix, &p->gid, 0);
	place_free(p);
	if (!job_client())
		return;
	kv_client_unwatch(job_client(), prefix);
	if (job_is_full())
		watch_refused_again();
}

bool directory_only_other_version(const struct place *p)
{
	const struct process *at = p ? p->processes : NULL;
	bool any = at;

	while (at && at->other_version)
		at = at->next;
	return any && !at;
}

/* At most a few lines, or whoever can write there fills the log. */
static void record_refused(const char *key, const char *why)
{
	if (++refused <= 3)
		log_warn("the record %s in etcd is ignored: %s", key, why);
}

/* What it says beyond its version may be anything. That nobody can check it does no harm: a process
 * that has proved its own version is not replaced, and few are remembered. */
static void other_version_seen(struct place *p, const char *key, uint64_t nonce, uint8_t version)
{
	char why[128];

	if (p->others >= OTHERS_MAX || *process_at(p, nonce))
		return;
	snprintf(why, sizeof(why),
		 "that process speaks version %u of shift's protocol, we speak %u", version,
		 SHIFT_MSG_VERSION);
	record_refused(key, why);
	process_put(p, nonce, NULL);
}

/* true: a process was found by it, or has moved. */
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
	return r->link.qpn && process_put(p, nonce, &r->link);
}

struct place *directory_event(const char *key, const void *value, size_t bytes)
{
	struct rail_record r;
	union ibv_gid gid;
	uint64_t nonce;
	struct place *p = rail_key_parse(key, &gid, &nonce) ? *place_by_gid(&gid) : NULL;

	if (!p || !job_key_if_known())
		return NULL;
	if (!value) {
		process_remove(p, nonce);
		return NULL;
	}
	memset(&r, 0, sizeof(r));
	memcpy(&r, value, bytes < sizeof(r) ? bytes : sizeof(r));
	return record_take(p, key, nonce, &r, bytes) ? p : NULL;
}
