/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "tests/unit/meeting_world.h"

#include <errno.h>
#include <stdio.h>

#include "lib/core/siphash.h"
#include "lib/session/contacts.h"
#include "lib/session/dispatch.h"
#include "lib/session/job.h"
#include "lib/session/peer_paths.h"
#include "lib/session/rendezvous.h"
#include "lib/verbs/qp.h"

struct vqp *v;
struct end_record ours, theirs;
uint32_t our_serial, our_heard, their_serial, peer_qpn;
int they_lose, they_twist, put_result;
unsigned int puts_n, watches_n, unwatches_n;
char put_key[128], watched[128];
struct rail_record put_value;
uint32_t moved;
unsigned int gid_looks;
int gid_missing;
unsigned int told_n, asked_n;
const char *told_over;
unsigned int told_nics;
uint64_t contact_nonce;
bool key_known, job_full, crowd, answers, keep_for_peer;
void (*on_enter)(void);
int peer_psn[SHIFT_RAILS_MAX];
struct shown_peer shown_peer;

/* --- the rendezvous, the control links ----------------------------------------------------- */

struct kv_client *__wrap_job_client(void);
uint64_t __wrap_job_nonce(void);
const uint64_t *__wrap_job_key_if_known(void);
bool __wrap_job_is_full(void);
void __wrap_job_has_room(void);
int __wrap_kv_client_put(struct kv_client *c, const char *key, const void *value, size_t bytes);
int __wrap_kv_client_watch(struct kv_client *c, const char *prefix);
int __wrap_kv_client_unwatch(struct kv_client *c, const char *prefix);
void __wrap_ctrl_link_address(const struct nic *nic, struct ctrl_link_addr *addr);
struct ctrl_link_peer *__wrap_ctrl_link_peer_new(struct nic *nic, const struct ctrl_link_addr *addr,
						 uint64_t nonce);
void __wrap_ctrl_link_peer_free(struct ctrl_link_peer *peer);
void __wrap_ctrl_link_peer_move(struct ctrl_link_peer *peer, const struct ctrl_link_addr *addr);
void __wrap_contact_send(struct nic *nic, uint64_t nonce, const struct ctrl_link_addr *addr,
			 const struct shift_msg *m);
int __wrap_nic_gid_for_twin(const struct nic *nic, const struct nic_gid *like, struct nic_gid *gid);
bool __wrap_path_health_answers(struct peer_path *path);
bool __wrap_path_health_keep_for_peer(struct peer_path *path);
void __wrap_vqp_enter(struct vqp *of);
void __real_vqp_enter(struct vqp *of);
void __wrap_stats_conn_psn(int slot, unsigned int rail, enum stats_psn psn);
void __wrap_stats_conn_peer(int slot, const struct stats_peer *peer);

struct kv_client *__wrap_job_client(void)
{
	return (struct kv_client *)(void *)&world;
}

uint64_t __wrap_job_nonce(void)
{
	return NONCE;
}

static const uint64_t job_key[2] = {11, 12};

const uint64_t *__wrap_job_key_if_known(void)
{
	return key_known ? job_key : NULL;
}

bool __wrap_job_is_full(void)
{
	return job_full;
}

void __wrap_job_has_room(void)
{
	job_full = false;
}

int __wrap_kv_client_put(struct kv_client *c, const char *key, const void *value, size_t bytes)
{
	(void)c;
	assert_int_equal(bytes, sizeof(put_value));
	memcpy(&put_value, value, bytes);
	snprintf(put_key, sizeof(put_key), "%s", key);
	puts_n++;
	return put_result;
}

int __wrap_kv_client_watch(struct kv_client *c, const char *prefix)
{
	(void)c;
	snprintf(watched, sizeof(watched), "%s", prefix);
	watches_n++;
	return 0;
}

int __wrap_kv_client_unwatch(struct kv_client *c, const char *prefix)
{
	(void)c;
	(void)prefix;
	unwatches_n++;
	return 0;
}

void __wrap_ctrl_link_address(const struct nic *nic, struct ctrl_link_addr *addr)
{
	*addr = (struct ctrl_link_addr){.qpn = 0x500u + nic->index,
					.qkey = 0x600u + nic->index + moved};
}

struct ctrl_link_peer *__wrap_ctrl_link_peer_new(struct nic *nic, const struct ctrl_link_addr *addr,
						 uint64_t nonce)
{
	trace_add("path over %s to %#x of %#llx\n", nic->name, addr->qpn,
		  (unsigned long long)nonce);
	return (struct ctrl_link_peer *)(void *)nic->name;
}

void __wrap_ctrl_link_peer_free(struct ctrl_link_peer *peer)
{
	trace_add("no path over %s\n", (const char *)(void *)peer);
}

void __wrap_ctrl_link_peer_move(struct ctrl_link_peer *peer, const struct ctrl_link_addr *addr)
{
	trace_add("path over %s is to %#x/%u\n", (const char *)(void *)peer, addr->qpn, addr->qkey);
}

void __wrap_contact_send(struct nic *nic, uint64_t nonce, const struct ctrl_link_addr *addr,
			 const struct shift_msg *m)
{
	assert_true(nonce == PEER_NONCE || nonce == theirs.nonce || nonce == OTHER_NONCE || crowd);
	assert_int_equal(addr->qpn, 0x300u + nic->index);
	contact_nonce = nonce;
	if (world.on_send)
		world.on_send(nic->name, m);
	contact_nonce = 0;
}

int __wrap_nic_gid_for_twin(const struct nic *nic, const struct nic_gid *like, struct nic_gid *gid)
{
	assert_int_equal(like->value.raw[15], world.own_gid ? world.own_gid : 1);
	assert_int_equal(like->vlan, 7);
	memset(gid, 0, sizeof(*gid));
	gid_looks++;
	if (nic->index == gid_missing)
		return -ENOENT;
	gid->value.raw[15] = (uint8_t)(0x80 + nic->index);
	return 5 + nic->index;
}

bool __wrap_path_health_answers(struct peer_path *path)
{
	(void)path;
	return answers;
}

bool __wrap_path_health_keep_for_peer(struct peer_path *path)
{
	(void)path;
	return keep_for_peer;
}

/* What another thread does just before a thread has the lock. */
void __wrap_vqp_enter(struct vqp *of)
{
	if (on_enter)
		on_enter();
	__real_vqp_enter(of);
}

void __wrap_stats_conn_psn(int slot, unsigned int rail, enum stats_psn psn)
{
	(void)slot;
	peer_psn[rail] = (int)psn;
}

void __wrap_stats_conn_peer(int slot, const struct stats_peer *peer)
{
	(void)slot;
	shown_peer.qpn = peer->peer_qpn;
	shown_peer.nonce = peer->peer_nonce;
	memcpy(&shown_peer.gid, peer->peer_gid, sizeof(shown_peer.gid));
}

/* --- begin and end ------------------------------------------------------------------------- */

void reset_theirs(void)
{
	memset(&theirs, 0, sizeof(theirs));
	theirs.id = PEER_ID;
	theirs.nonce = PEER_NONCE;
	for (uint8_t i = 0; i < SHIFT_RAILS_MAX; i++)
		theirs.rail[i] = (struct rail_addr){.link = {.qpn = 0x300u + i},
						    .gid.raw = {[0] = 0xc0, [15] = i},
						    .qpn = 0x400u + i,
						    .lid = (uint16_t)(0x20 + i),
						    .mtu_bytes = 2048,
						    .nic = (uint8_t)(4 + i),
						    .psn = STATS_PSN_LIVE};
	theirs.rails = RAILS;
}

/* What our end says, put together from its rails. */
static void hear_us(const char *link, const struct shift_msg *m)
{
	struct session_conn c;

	assert_int_equal(m->src_conn | m->dst_conn, 0);
	if (m->blob[0] != SESSION_CONN)
		return;
	assert_int_equal(m->blob_bytes, sizeof(c));
	memcpy(&c, m->blob, sizeof(c));
	assert_int_equal(c.mine.qpn, QPN);
	assert_int_equal(c.mine.gid.raw[15], 1);
	assert_int_equal(c.yours.qpn, peer_qpn);
	assert_int_equal(c.yours.gid.raw[15], 0xbb);
	if (!c.rail)
		memset(&ours, 0, sizeof(ours));
	ours.rails = c.rails;
	ours.id = c.id;
	ours.nonce = NONCE;
	ours.rail[c.rail] = c.addr;
	our_serial = c.serial;
	our_heard = c.heard;
	told_over = link;
	told_nics |= 1u << (link[strlen("mlx5_")] - '0');
	if (c.rail != c.rails - 1)
		return;
	told_n++;
	asked_n += c.ask;
}

void they_say(unsigned int nic, bool ask)
{
	struct session_conn c = {.kind = SESSION_CONN,
				 .ask = ask,
				 .rails = theirs.rails,
				 .serial = their_serial,
				 .heard = our_serial,
				 .id = theirs.id,
				 .mine = {.qpn = peer_qpn},
				 .yours = {.qpn = QPN}};
	struct shift_msg m = session_msg(&c, sizeof(c));

	c.mine.gid.raw[0] = 0xaa, c.mine.gid.raw[15] = 0xbb;
	c.yours.gid.raw[0] = 0xfe, c.yours.gid.raw[15] = 1;
	c.mine.qpn += they_twist == 1;
	c.mine.gid.raw[7] += they_twist == 2;
	c.yours.qpn += they_twist == 3;
	c.yours.gid.raw[7] += they_twist == 4;
	m.src_nonce = theirs.nonce;
	m.dst_nonce = NONCE;
	for (uint8_t i = 0; i < theirs.rails; i++) {
		c.rail = i;
		c.addr = theirs.rail[i % SHIFT_RAILS_MAX];
		if (i != they_lose)
			dispatch_message(world.nic + nic, &m);
	}
}

void they_tell(void)
{
	their_serial++;
	they_say(0, true);
}

/* Written from doc/protocol.md, 7.42, not from the library. */
uint64_t record_tag(const char *key, const struct rail_record *r)
{
	struct {
		char domain[16], key[56];
		uint8_t record[offsetof(struct rail_record, tag)];
	} text;

	memset(&text, 0, sizeof(text));
	memcpy(text.domain, "shift rendezvous", sizeof(text.domain));
	memcpy(text.key, key, strlen(key));
	memcpy(text.record, r, sizeof(text.record));
	return shift_siphash(job_key, &text, sizeof(text));
}

void they_publish_as(uint64_t nonce)
{
	struct rail_record r;
	char key[128];

	sprintf(key, "rail/aa0000000000000000000000000000bb/%016llx", (unsigned long long)nonce);
	memset(&r, 0, sizeof(r));
	r.version = SHIFT_MSG_VERSION;
	r.nonce = nonce;
	r.link = theirs.rail[0].link;
	r.tag = record_tag(key, &r);
	rendezvous_published(key, &r, sizeof(r));
}

void they_publish(void)
{
	they_publish_as(PEER_NONCE);
}

void other_publishes(void)
{
	they_publish_as(OTHER_NONCE);
}

int meeting_begin(void **state)
{
	rooms_begin(state);
	world.gid_at = 2; /* as the program has asked */
	reset_theirs();
	memset(&ours, 0, sizeof(ours));
	memset(peer_psn, 0xff, sizeof(peer_psn));
	memset(&shown_peer, 0, sizeof(shown_peer));
	our_serial = our_heard = told_n = asked_n = 0;
	told_nics = 0;
	their_serial = 100;
	peer_qpn = PEER_QPN;
	they_lose = gid_missing = -1;
	gid_looks = 0;
	they_twist = 0;
	puts_n = watches_n = unwatches_n = moved = 0;
	put_result = 0;
	world.on_send = hear_us;
	key_known = true;
	job_full = crowd = answers = keep_for_peer = false;
	on_enter = NULL;
	core.view.state = SHIFT_ST_SETUP;
	core.view.protected_ = core.view.matched = false;
	v = rooms_create_qp();
	return 0;
}

void start_and_look(void)
{
	rooms_start_qp(v);
	rendezvous_begin(v);
	rooms_pass(0);
	they_publish();
	rooms_pass(0);
	trace_clear();
}

int meeting_begin_looking(void **state)
{
	meeting_begin(state);
	start_and_look();
	return 0;
}

void peer_comes(void)
{
	they_tell();
	rooms_pass(0);
}

/* The two have met, and HELLO has matched. */
void become_active(void)
{
	core.view.state = SHIFT_ST_ACTIVE;
	core.view.protected_ = core.view.matched = true;
}

static void it_is_closed(void)
{
	v->life.closed = true;
}

int meeting_end(void **state)
{
	rooms_unlock(v);
	world.on_wait = it_is_closed;
	on_enter = NULL;
	keep_for_peer = false;
	if (v->setup.meeting)
		rendezvous_end(v);
	hook_destroy_qp(v->qp);
	rendezvous_published(PEER_KEY, NULL, 0);
	rendezvous_published(OTHER_KEY, NULL, 0);
	rooms_pass(200ull * 1000 * MS); /* tombstones go */
	rooms_pass(200ull * 1000 * MS);
	return rooms_end(state);
}

unsigned int meeting_rail_of(const char *link)
{
	unsigned int i = 0;

	while (i < RAILS && strcmp(v->dev->nic[i]->name, link))
		i++;
	assert_true(i < RAILS);
	return i;
}
